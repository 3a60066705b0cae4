//! Asking for the memory of sequences before they are copied.
//!
//! Randomized sequences come from all over the window, so nearly each of them would wait for main memory, and the processor's own
//! prefetching begins anew with each of them. So whoever copies says how far it is, and a [`Prefetcher`] asks for what is copied a little
//! later, a few cache lines at a time. All of a sequence at once would be slower: the processor waits while too many requests are pending.
//!
//! Later sweeps by one thread over 33 shapes take 0.85 of the time in the mean that they took when the beginning of a sequence was asked for
//! eight sequences before it was copied; samples of 4 to 60 KB take 0.55 to 0.9 (AMD EPYC of the fifth Zen generation).

use cntk_reader_core::cpu::prefetch::{self, FIRST_BYTES};
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};
use cntk_reader_core::memory::compact::widen;
use cntk_reader_core::sequence::{SequenceView, ValueForm, ViewKind};

/// Bytes between what is copied and what is asked for. Random pieces of 7 KB are copied at 19 GB/s, with a quarter of the distance at 12; twice
/// and four times of it make no difference. Tests have short sequences.
const DISTANCE: usize = if cfg!(test) { 512 } else { 8 << 10 };

/// Bytes that are copied between two requests: a multiple of the sizes of all stored values. With twice as many the same pieces are
/// copied at 16 GB/s.
const STEP: usize = 384;

/// Pieces up to this many bytes are copied in one step: a call for 450 or 600 bytes is faster than two. In two steps, later sweeps over 150
/// decimals a sample took 1.3 of the time.
const ONE_STEP: usize = 2 << 10;

/// Bytes of a sequence that are asked for if it is not copied in the order in which it is stored.
const BEGINNING: usize = 1024;

/// The stored values that a view is made of: of frames, those between the first and the last one in its samples.
#[inline(always)]
pub(super) fn values<'a>(view: &SequenceView<'a>) -> &'a [u8] {
    let ViewKind::Frames(frames) = &view.kind else { return view.values };
    let (size, first) = (frames.spec.stored_bytes(), frames.first as usize);
    let end = (first + view.samples as usize).saturating_add(frames.spec.right).saturating_mul(size);
    let begin = first.saturating_sub(frames.spec.left).saturating_mul(size);
    view.values.get(begin..end.min(view.values.len())).unwrap_or_default()
}

#[inline(always)]
fn indices<'a>(view: &SequenceView<'a>) -> &'a [u8] {
    view.sparse().map_or(&[], |sparse| sparse.indices)
}

/// The beginning of a sequence's values.
#[inline(always)]
pub(super) fn beginning<'a>(view: &SequenceView<'a>) -> &'a [u8] {
    let values = values(view);
    &values[..values.len().min(BEGINNING)]
}

/// Prefetches the beginning of a sequence's data when the sequence is looked up; it is copied after all others have been
/// looked up.
#[inline(always)]
pub(in super::super) fn first(view: &SequenceView<'_>) {
    prefetch::first(values(view));
    prefetch::first(indices(view));
}

/// Those of a stream's sequences that are prefetched while they are copied, all or none; they have `bytes` bytes in the minibatch. Short ones
/// have been asked for as a whole when they were looked up; of long ones the processor notices by itself how they are read.
#[inline(always)]
pub(super) fn worthwhile<'v, 'a>(views: &'v [SequenceView<'a>], bytes: usize) -> &'v [SequenceView<'a>] {
    /// Sequences of 4 MB whose values are stored in a byte each took 1.15 of the time.
    const LONG: usize = 256 << 10;
    let is_worthwhile = bytes > views.len() * FIRST_BYTES && bytes < views.len() * LONG;
    if is_worthwhile { views } else { &[] }
}

/// Prefetches while something else copies, which reports each copy.
pub(super) trait Prefetch {
    /// Reports that the next `bytes` bytes are about to be copied.
    fn copies(&mut self, bytes: usize);

    /// Whether nothing is left to prefetch.
    fn is_done(&self) -> bool;
}

/// Prefetches nothing.
pub(super) struct NoPrefetch;

impl Prefetch for NoPrefetch {
    #[inline(always)]
    fn copies(&mut self, _: usize) {}

    #[inline(always)]
    fn is_done(&self) -> bool {
        true
    }
}

/// Prefetches short sequences as a whole, into the nearest cache: while one sequence is copied, the eighth one after it. Needs exactly one
/// report for each sequence.
///
/// Samples of 150 decimals come fastest this way: with a [`Prefetcher`] later sweeps take 1.1 to 1.2 of the time.
pub(super) struct EightAhead<'v, 'a>(pub &'v [SequenceView<'a>]);

impl Prefetch for EightAhead<'_, '_> {
    #[inline(always)]
    fn copies(&mut self, _: usize) {
        if let Some(view) = self.0.get(8) {
            prefetch::soon(view.values);
            self.0 = &self.0[1..];
        }
    }

    #[inline(always)]
    fn is_done(&self) -> bool {
        true
    }
}

/// Prefetches pieces of memory in the order in which they are copied, [`DISTANCE`] bytes ahead of the copy.
pub(super) struct Prefetcher<'a, F> {
    /// Gives the piece of a number, and nothing after the last one.
    piece: F,
    /// The number of the next piece.
    next: usize,
    /// The part of the previous piece that has not been prefetched.
    rest: &'a [u8],
    /// Bytes that were copied since the last call of `ask`.
    copied: usize,
}

impl<'a, F: Fn(usize) -> Option<&'a [u8]>> Prefetcher<'a, F> {
    #[inline(always)]
    pub(super) fn new(piece: F) -> Prefetcher<'a, F> {
        let mut prefetcher = Prefetcher { piece, next: 0, rest: &[], copied: 0 };
        prefetcher.ask(DISTANCE);
        prefetcher
    }

    /// Prefetches the next `bytes` bytes.
    #[inline(always)]
    fn ask(&mut self, mut bytes: usize) {
        while bytes >= self.rest.len() {
            bytes -= self.rest.len();
            prefetch::bytes(self.rest);
            let piece = (self.piece)(self.next);
            self.rest = piece.unwrap_or_default();
            if piece.is_none() {
                return;
            }
            self.next += 1;
        }
        let (now, rest) = self.rest.split_at(bytes);
        prefetch::bytes(now);
        self.rest = rest;
    }
}

impl<'a, F: Fn(usize) -> Option<&'a [u8]>> Prefetch for Prefetcher<'a, F> {
    #[inline(always)]
    fn copies(&mut self, bytes: usize) {
        self.copied += bytes;
        if self.copied >= STEP {
            let bytes = std::mem::take(&mut self.copied);
            self.ask(bytes);
        }
    }

    #[inline(always)]
    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Copies values as [`widen::values`] does, and prefetches meanwhile.
#[inline(always)]
pub(super) fn copy_values(
    prefetch: &mut impl Prefetch,
    target: &mut [u8],
    source: &[u8],
    form: ValueForm,
    element: usize,
) {
    if source.len() > ONE_STEP && !prefetch.is_done() {
        return copy_many(Processor::detect(), prefetch, target, source, form, element);
    }
    prefetch.copies(source.len());
    widen::values(target, source, form, element);
}

dispatch! {
    /// [`copy_values`], step by step. A function of its own, so that what its conversions keep in registers costs short copies nothing.
    #[inline(never)]
    fn copy_many<P: Prefetch>(prefetch: &mut P, target: &mut [u8], source: &[u8], form: ValueForm, element: usize)
        = copy_many_with;
}

/// See [`copy_many`].
#[inline(always)]
fn copy_many_with<P: Prefetch, S: InstructionSet>(
    instructions: S,
    prefetch: &mut P,
    target: &mut [u8],
    source: &[u8],
    form: ValueForm,
    element: usize,
) {
    let step = STEP / form.size(element).max(1) * element;
    for (target, done) in target.chunks_mut(step).zip((0..source.len()).step_by(STEP)) {
        let (source, bytes) = (&source[done..], STEP.min(source.len() - done));
        prefetch.copies(bytes);
        widen::values_by(instructions, target, source, bytes, form, element);
    }
}

/// Copies indices as [`widen::indices`] does, and prefetches meanwhile.
#[inline(always)]
pub(super) fn copy_indices(prefetch: &mut impl Prefetch, target: &mut [u8], source: &[u8], narrow: bool) {
    if source.len() <= ONE_STEP || prefetch.is_done() {
        prefetch.copies(source.len());
        return widen::indices(target, source, narrow);
    }
    let step = if narrow { 2 * STEP } else { STEP };
    for (target, source) in target.chunks_mut(step).zip(source.chunks(STEP)) {
        prefetch.copies(source.len());
        widen::indices(target, source, narrow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::memory::compact::decimal;

    #[test]
    fn all_pieces_are_asked_for_at_a_distance_ahead() {
        // Some are empty: sequences of ones have no values.
        let pieces: Vec<Vec<u8>> = (0..200).map(|number| vec![0; number % 7 * 100]).collect();
        let total: usize = pieces.iter().map(Vec::len).sum();
        let mut prefetcher = Prefetcher::new(|number: usize| pieces.get(number).map(Vec::as_slice));
        let (mut copied, mut number) = (0, 0);
        while copied < total {
            let bytes = (number * 37 % 500).min(total - copied);
            prefetcher.copies(bytes);
            (copied, number) = (copied + bytes, number + 1);
            let asked = pieces[..prefetcher.next].concat().len() - prefetcher.rest.len();
            let ahead = asked - copied;
            assert!(asked == total || (DISTANCE - STEP..=DISTANCE).contains(&ahead), "{copied}: {ahead}");
            assert_eq!(prefetcher.is_done(), asked == total, "{copied}");
        }
    }

    #[test]
    fn sequences_are_asked_for_if_they_are_neither_short_nor_long() {
        let view = SequenceView { samples: 1, values: &[], form: ValueForm::Whole, kind: ViewKind::Dense };
        let views = [view, view];
        for (bytes, expected) in
            [(0, 0), (2 * 256, 0), (2 * 256 + 1, 2), ((512 << 10) - 1, 2), (512 << 10, 0)]
        {
            assert_eq!(worthwhile(&views, bytes).len(), expected, "{bytes}");
        }
        assert!(worthwhile(&[], 1).is_empty());
    }

    /// Values in each form, as many as are copied at once, more and less.
    #[test]
    fn copies_are_those_without_prefetching() {
        let numbers: Vec<u8> = (0..40_000_u32).map(|i| (i * i % 251) as u8).collect();
        let decimals = [(100.0, 1), (300.0, 2), (40_000.0, 3)].map(|(scale, size)| {
            let values: Vec<f32> =
                numbers.iter().map(|&byte| (f32::from(byte) / 250.0 * scale).round()).collect();
            let mut stored = Vec::new();
            let form = decimal::store(&values, size, &mut stored).expect("memory").expect("whole numbers");
            assert_eq!(form.size(), size);
            (ValueForm::Decimal(form), 4, stored)
        });
        let plain =
            [(ValueForm::Whole, 4), (ValueForm::Whole, 8), (ValueForm::Byte, 4), (ValueForm::Byte, 8)];
        let plain = plain.map(|(form, element)| (form, element, numbers.clone()));
        for (form, element, stored) in plain.into_iter().chain(decimals) {
            let size = form.size(element);
            for count in [0, 1, ONE_STEP / size, ONE_STEP / size + 1, 9 * STEP / size, 3000, 3001] {
                let source = &stored[..count * size];
                let mut expected = vec![9; count * element];
                widen::values(&mut expected, source, form, element);
                let mut found = vec![9; count * element];
                let mut prefetcher = Prefetcher::new(|number: usize| (number < 9).then_some(&stored[..]));
                copy_values(&mut prefetcher, &mut found, source, form, element);
                assert!(found == expected, "{form:?} {element} {count}");
                found.fill(9);
                copy_values(&mut NoPrefetch, &mut found, source, form, element);
                assert!(found == expected, "{form:?} {element} {count}");
                for processor in Processor::all() {
                    found.fill(9);
                    copy_many(processor, &mut prefetcher, &mut found, source, form, element);
                    assert!(found == expected, "{form:?} {element} {count} {processor:?}");
                }
            }
        }
        for (narrow, size) in [(false, 4), (true, 2)] {
            for count in [0, 1, ONE_STEP / size, ONE_STEP / size + 1, 3001] {
                let source = &numbers[..count * size];
                let (mut expected, mut found) = (vec![9; count * 4], vec![9; count * 4]);
                widen::indices(&mut expected, source, narrow);
                let mut prefetcher = Prefetcher::new(|number: usize| (number < 9).then_some(&numbers[..]));
                copy_indices(&mut prefetcher, &mut found, source, narrow);
                assert!(found == expected, "{narrow} {count}");
            }
        }
    }
}
