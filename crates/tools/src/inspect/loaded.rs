//! Checks loaded chunks, for formats whose parsers stop at the first error.

use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::check::{
    ChunkCheck, Finding, RepeatFinder, Severity, StreamStatistics, repeated_index,
};
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::format::{Chunk, Deserializer, Loaded};
use cntk_reader_core::runtime::cancel::Current;
use cntk_reader_core::runtime::helpers::{Helpers, Team};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceView, ValueForm, ViewKind};
use cntk_reader_core::stream::{Element, Storage, StreamInfo};
use cntk_reader_core::{Result, with_element};
use cntk_reader_engine::pack::plain::PlainSequence;
use std::sync::Arc;

/// Returns the first repeated index of a sequence, and the number of its samples that repeat one.
fn repeats_in(view: &SequenceView<'_>, finder: &mut RepeatFinder) -> Option<(u64, u64)> {
    let sparse = view.sparse()?;
    let (&base, mut found) = (sparse.offsets.first()?, None);
    for pair in sparse.offsets.windows(2) {
        let (begin, end) = (pair[0].checked_sub(base)? as usize, pair[1].checked_sub(base)? as usize);
        let index = match sparse.narrow {
            true => {
                let indices = sparse.indices.as_chunks::<2>().0.get(begin..end)?;
                finder.find(indices.iter().map(|&index| u64::from(u16::from_ne_bytes(index))))
            }
            false => {
                let indices = sparse.indices.as_chunks::<4>().0.get(begin..end)?;
                finder.find(indices.iter().map(|&index| i32::from_ne_bytes(index).max(0) as u64))
            }
        };
        if let Some(index) = index {
            found.get_or_insert((index, 0)).1 += 1;
        }
    }
    found
}

/// Number of sequences fetched and checked together.
const TOGETHER: u32 = 64;

/// Checks a loaded chunk of a deserializer whose keys belong to `corpus`. `helpers` is given if the
/// sequences are fetched; then the caller must not be a thread of the pool, because fetching may
/// wait for user code that needs the pool.
pub(super) fn check_loaded(
    source: &dyn Deserializer,
    corpus: &Corpus,
    id: ChunkId,
    chunk: &Arc<dyn Chunk>,
    most: usize,
    helpers: Option<&mut Helpers>,
) -> ChunkCheck {
    let streams = source.streams();
    let mut check =
        ChunkCheck { streams: vec![StreamStatistics::default(); streams.len()], ..ChunkCheck::default() };
    if let Err(error) = chunk.errors().commit() {
        check.push(error.into(), most);
    }
    let looked = match helpers {
        None => (0..sequences_of(source, id)).try_for_each(|index| {
            look_at(source, corpus, (&**chunk, None), SequenceId { chunk: id, index }, &mut check, most);
            Ok(())
        }),
        Some(helpers) => look_at_fetched(source, corpus, id, chunk, &mut check, most, helpers),
    };
    if let Err(error) = looked {
        check.push(error.into(), most);
    }
    check
}

fn sequences_of(source: &dyn Deserializer, chunk: ChunkId) -> u32 {
    source.chunks().get(chunk as usize).map_or(0, |info| info.sequences)
}

/// Checks a sequence of a chunk; if it was fetched, in its fetched form, too.
fn look_at(
    source: &dyn Deserializer,
    corpus: &Corpus,
    (chunk, fetched): (&dyn Chunk, Option<&Fetched>),
    id: SequenceId,
    check: &mut ChunkCheck,
    most: usize,
) {
    let mut invalid = None;
    let mut memory = PlainSequence::default();
    for (number, info) in source.streams().iter().enumerate() {
        match chunk.sequence(number, id.index) {
            Loaded::Data(view) => {
                let late =
                    fetched.filter(|_| info.has_late_shape()).and_then(|fetched| fetched.shape(number));
                let size = late.map_or_else(|| info.sample_size(), |shape| shape.iter().product());
                check.streams[number].look_at(&view, size as u64);
                if let Some((index, count)) = repeats_in(&view, &mut RepeatFinder::default()) {
                    let mut finding = repeated_index(&info.name, index);
                    finding.location.key = key_text(source, id, corpus);
                    check.repeats.resize_with(source.streams().len(), || None);
                    check.repeats[number].get_or_insert((finding, 0)).1 += count;
                }
                let late = late.map(|shape| info.clone().with_shape(shape.to_vec()));
                let found = not_finite(&mut memory, &view, late.as_ref().unwrap_or(info));
                if let Some(mut finding) = found {
                    finding.location = source.diagnostics().location(id, number);
                    finding.location.stream = Some(info.name.clone());
                    finding.location.key = key_text(source, id, corpus);
                    check.push(finding, most);
                }
            }
            Loaded::Skipped => {}
            Loaded::Invalid => invalid = invalid.or(Some((number, info))),
        }
    }
    if let Some(failure) = fetched.and_then(Fetched::failure) {
        let mut finding = Finding::from(failure.error.clone());
        finding.kind = None;
        return check.push(finding, most);
    }
    if let Some(message) = fetched.and_then(Fetched::damage) {
        let mut finding = Finding::new(Severity::Warning, message);
        finding.location = source.diagnostics().location(id, 0);
        finding.location.stream = source.streams().first().map(|stream| stream.name.clone());
        finding.location.key = key_text(source, id, corpus);
        check.push(finding, most);
    }
    if let Some((number, _)) = invalid
        && let Some(error) = chunk.failure(number, id.index)
    {
        check.push(error.into(), most);
    } else if let Some((number, stream)) = invalid {
        let message =
            "The sequence is invalid: it is left out, and counts against the reader's ‹max_errors›.";
        let mut finding = Finding::new(Severity::Error, message);
        finding.location = source.diagnostics().location(id, number);
        finding.location.stream = Some(stream.name.clone());
        finding.location.key = key_text(source, id, corpus);
        check.push(finding, most);
    }
}

/// Returns the finding for a sequence with infinite or NaN values.
fn not_finite(memory: &mut PlainSequence, view: &SequenceView<'_>, info: &StreamInfo) -> Option<Finding> {
    let may_be = matches!(view.kind, ViewKind::Frames(_)) || view.form == ValueForm::Whole;
    let values = if may_be { memory.decode(view, info).ok()?.values } else { return None };
    let (first, count) = with_element!(info.element, T => first_not_finite::<T>(values))?;
    let place = match info.storage {
        Storage::Dense => format!("sample {} of the sequence", first / info.sample_size().max(1)),
        Storage::SparseCsc => format!("entry {first} of the sequence"),
    };
    let message = format!(
        "The sequence has {count} values that are infinite or NaN, the first in {place}, counted from 0."
    );
    let detail =
        "They are delivered as they are, as by CNTK, and spoil training: write the data anew without them.";
    Some(Finding::new(Severity::Warning, message).with_detail(detail))
}

/// Returns the index of the first infinite or NaN value, and the number of such values.
fn first_not_finite<T: Element>(values: &[u8]) -> Option<(usize, usize)> {
    let values = values.chunks_exact(size_of::<T>()).map(bytemuck::checked::pod_read_unaligned::<T>);
    let mut places = values.enumerate().filter(|(_, value)| !value.is_finite()).map(|(place, _)| place);
    let first = places.next()?;
    Some((first, 1 + places.count()))
}

fn key_text(source: &dyn Deserializer, id: SequenceId, corpus: &Corpus) -> Option<String> {
    let mut keys = Vec::with_capacity(1);
    source.keys(&[id], &mut keys);
    keys.first().map(|&key| source.diagnostics().key_text(key, corpus))
}

/// Fetches and checks all sequences. Their random numbers are drawn in order, as in a reader.
fn look_at_fetched(
    source: &dyn Deserializer,
    corpus: &Corpus,
    id: ChunkId,
    chunk: &Arc<dyn Chunk>,
    check: &mut ChunkCheck,
    most: usize,
    helpers: &mut Helpers,
) -> Result<()> {
    let streams = source.streams().len();
    let sequences = sequences_of(source, id);
    let mut fetched: Vec<Fetched> = Vec::new();
    for first in (0..sequences).step_by(TOGETHER as usize) {
        let indexes: Vec<u32> = (first..sequences.min(first + TOGETHER)).collect();
        fetched.resize_with(indexes.len(), Fetched::default);
        let mut outcomes: Vec<Result<()>> = indexes.iter().map(|_| Ok(())).collect();
        let call = Current::get();
        let mut team = Team { threads: helpers.most(), helpers };
        let each = fetched.iter_mut().zip(&mut outcomes).zip(&indexes);
        team.each(each, |((fetched, outcome), &index)| {
            *outcome = call.within(|| fetched.take(chunk, index));
            Ok(())
        })?;
        let mut whole = Vec::with_capacity(indexes.len());
        for (fetched, outcome) in fetched.iter_mut().zip(&mut outcomes) {
            if outcome.is_ok() && fetched.is_whole(streams) {
                *outcome = fetched.plan(0, 0);
                if outcome.is_ok() {
                    whole.push((fetched, outcome));
                }
            }
        }
        team.each(whole.into_iter(), |(fetched, outcome)| {
            *outcome = call.within(|| fetched.prepare(0));
            Ok(())
        })?;
        for ((fetched, outcome), index) in fetched.iter().zip(outcomes).zip(indexes) {
            let sequence = SequenceId { chunk: id, index };
            match outcome {
                Ok(()) => look_at(source, corpus, (fetched, Some(fetched)), sequence, check, most),
                Err(error) => {
                    let mut finding = Finding::from(error);
                    if finding.location.key.is_none() {
                        finding.location.key = key_text(source, sequence, corpus);
                    }
                    check.push(finding, most);
                }
            }
        }
        fetched.iter_mut().for_each(Fetched::release);
    }
    Ok(())
}
