//! A loaded chunk: its segments, and the errors that were found while it was loaded.

use super::TextFile;
use super::parse::report::Failure;
use super::segment::Segment;
use cntk_reader_core::Result;
use cntk_reader_core::format::{Ahead, ChunkErrors, LeafChunk, Loaded};
use cntk_reader_core::memory::compact::implied;
use cntk_reader_core::runtime::log::{Level, has_doubled};
use cntk_reader_core::sequence::{ChunkId, SequenceView, SparseView, ViewKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The data of a chunk.
pub struct TextChunk {
    pub(super) shared: Arc<TextFile>,
    pub(super) id: ChunkId,
    /// Binary logarithm of the number of sequences in a segment.
    pub(super) shift: u32,
    pub(super) segments: Vec<Segment>,
    /// Whether reading ended because of more errors than the file may have.
    pub(super) exceeds: bool,
    /// The failure that ended reading. It is reported unless the errors before it already exceed
    /// the limit.
    pub(super) fatal: Option<Failure>,
    /// Whether [`ChunkErrors::commit`] has counted this chunk's errors.
    pub(super) committed: AtomicBool,
    /// Number of errors that it counted.
    pub(super) counted: AtomicU64,
}

/// Number of times that CNTK tries to load a failing chunk. It counts the errors of every attempt.
const ATTEMPTS: u64 = 5;

impl TextChunk {
    /// Number of errors in all segments, including the one that exceeded the limit and ended
    /// reading.
    fn errors(&self) -> u64 {
        let one_more = |segment: &Segment| u64::from(segment.stop.as_ref().is_some_and(|stop| !stop.fatal));
        self.segments.iter().map(|segment| segment.errors + one_more(segment)).sum()
    }

    /// Number of sequences in all segments that were left out because a stream has no sample in
    /// them.
    fn skipped(&self) -> u64 {
        self.segments.iter().map(|segment| segment.skipped.len() as u64).sum()
    }

    /// Whether reading ended before the end of the chunk. Such a chunk delivers nothing.
    fn is_cut(&self) -> bool {
        self.fatal.is_some() || self.exceeds
    }

    /// Whether the chunk has errors, or sequences that were left out.
    fn has_errors(&self) -> bool {
        self.is_cut() || self.segments.iter().any(|segment| segment.errors > 0 || !segment.skipped.is_empty())
    }

    /// Adds to the file's count of left-out sequences, and logs both numbers when the total has
    /// doubled.
    fn count_skipped(&self, skipped: u64) {
        if skipped == 0 {
            return;
        }
        let common = &self.shared.common;
        let all = common.skipped.fetch_add(skipped, Ordering::Relaxed) + skipped;
        // Every sweep leaves out the same sequences, so the log gets sparser.
        let is_due = |reported| has_doubled(all, reported).then_some(all);
        if common.skipped_reported.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_err() {
            return;
        }
        let rules = &self.shared.rules;
        rules.log.write(
            Level::Warning,
            &format!(
                "Chunk {} of '{}': {skipped} sequences are left out because a stream has no sample in them \
                 (‹strict_sequences = false›); {all} so far, over all sweeps.",
                self.id, rules.file
            ),
        );
    }

    /// Returns the segment of a sequence and its number in that segment, or why there is no data.
    #[inline(always)]
    fn find(&self, index: u32) -> std::result::Result<(&Segment, u32), Loaded<'static>> {
        if self.is_cut() {
            return Err(Loaded::Invalid);
        }
        let segment = &self.segments[(index >> self.shift) as usize];
        let index = index & ((1 << self.shift) - 1);
        if !segment.skipped.is_empty() && segment.skipped.binary_search(&index).is_ok() {
            return Err(Loaded::Skipped);
        }
        Ok((segment, index))
    }

    /// Returns the data of a segment's sequence in a stream.
    #[inline(always)]
    fn view<'a>(&self, segment: &'a Segment, stream: usize, index: u32) -> Loaded<'a> {
        let layout = &segment.layouts[stream];
        let arena = &segment.arena;
        let (first, end) = match layout.sequence_offsets {
            None => (index as usize, index as usize + 1),
            Some(offsets) => {
                let offsets = arena.get::<u32>(offsets, index as usize, 2);
                (offsets[0] as usize, offsets[1] as usize)
            }
        };
        let rule = &self.shared.rules.streams[stream];
        let samples = end - first;
        let form = layout.form;
        let size = form.size(rule.element.size());
        let values = |from: usize, count: usize| match layout.values {
            Some(values) => arena.bytes_of(values, from, count, size),
            None => implied::ones(count, size),
        };
        if let Some(dim) = rule.delivered {
            let values = values(first * dim, samples * dim);
            return Loaded::Data(SequenceView {
                samples: samples as u32,
                values,
                form,
                kind: ViewKind::Dense,
            });
        }
        let (offsets, from, count) = match layout.offsets {
            Some(offsets) => {
                let offsets = arena.get::<u32>(offsets, first, samples + 1);
                (offsets, offsets[0] as usize, (offsets[samples] - offsets[0]) as usize)
            }
            None => (implied::offsets(samples), first, samples),
        };
        let indices = arena.bytes_of(layout.indices, from, count, if layout.narrow_indices { 2 } else { 4 });
        let kind = ViewKind::Sparse(SparseView {
            indices,
            narrow: layout.narrow_indices,
            offsets,
            single: layout.offsets.is_none(),
        });
        Loaded::Data(SequenceView { samples: samples as u32, values: values(from, count), form, kind })
    }
}

impl LeafChunk for TextChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        match self.find(index) {
            Ok((segment, index)) => self.view(segment, stream, index),
            Err(missing) => missing,
        }
    }

    fn sequences<'a>(&'a self, index: u32, loaded: &mut [Loaded<'a>]) {
        match self.find(index) {
            Ok((segment, index)) => {
                for (stream, loaded) in loaded.iter_mut().enumerate() {
                    *loaded = self.view(segment, stream, index);
                }
            }
            Err(missing) => loaded.fill(missing),
        }
    }

    // Finding the data of a sparse sequence takes three dependent reads: its first sample, that
    // sample's first entry, and the entry's index. Each one misses the cache when sequences are
    // randomized over a window.
    fn prefetch(&self, index: u32, ahead: Ahead) {
        if self.is_cut() {
            return;
        }
        let Some(segment) = self.segments.get((index >> self.shift) as usize) else { return };
        let index = (index & ((1 << self.shift) - 1)) as usize;
        let arena = &segment.arena;
        for (layout, rule) in segment.layouts.iter().zip(&self.shared.rules.streams) {
            match (ahead, layout.sequence_offsets) {
                (Ahead::Far, Some(offsets)) => arena.prefetch::<u32>(offsets, index),
                (Ahead::Far, None) => {
                    if let (None, Some(offsets)) = (rule.delivered, layout.offsets) {
                        arena.prefetch::<u32>(offsets, index);
                    }
                }
                (Ahead::Near, Some(offsets)) if rule.delivered.is_none() => {
                    let first = arena.get::<u32>(offsets, index, 1)[0] as usize;
                    match layout.offsets {
                        Some(offsets) => arena.prefetch::<u32>(offsets, first),
                        None if layout.narrow_indices => arena.prefetch::<u16>(layout.indices, first),
                        None => arena.prefetch::<u32>(layout.indices, first),
                    }
                }
                _ => {}
            }
        }
    }

    fn errors(&self) -> &dyn ChunkErrors {
        self
    }
}

impl ChunkErrors for TextChunk {
    fn commit(&self) -> Result<()> {
        if !self.has_errors() {
            return Ok(());
        }
        let (errors, skipped) = (self.errors(), self.skipped());
        // The chunk was loaded once, so its errors count once, however often windows need it while
        // it stays in memory.
        if self.committed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let broken = {
            let mut left = self.shared.common.errors_left.lock();
            let (mut is_broken, before) = (false, *left);
            for _ in 0..if self.fatal.is_some() { ATTEMPTS } else { 1 } {
                is_broken = errors > *left;
                *left = left.saturating_sub(errors);
            }
            self.counted.store(before - *left, Ordering::Relaxed);
            // Report the error that exceeds the limit in the first attempt, or the last error if
            // only a later attempt exceeds it.
            is_broken.then(|| before.min(errors - 1))
        };
        match (broken, &self.fatal) {
            (Some(before), _) => Err(self.shared.limit_error(self.id, self.shift, &self.segments, before)),
            (None, Some(fatal)) => Err(self.shared.error_of(fatal.clone())),
            (None, None) => {
                self.count_skipped(skipped);
                Ok(())
            }
        }
    }

    fn has_uncounted(&self) -> bool {
        self.has_errors() && !self.committed.load(Ordering::Relaxed)
    }

    fn has_counted(&self) -> bool {
        self.has_errors() && self.committed.load(Ordering::Relaxed)
    }

    fn retract(&self) {
        if self.committed.swap(false, Ordering::Relaxed) {
            let counted = self.counted.swap(0, Ordering::Relaxed);
            let mut left = self.shared.common.errors_left.lock();
            *left = (*left + counted).min(self.shared.rules.max_errors);
        }
    }

    fn waive(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }
}
