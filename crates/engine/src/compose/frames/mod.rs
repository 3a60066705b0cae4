//! Frame mode: delivers each sample of an utterance as a separate sequence.
//!
//! Speech deserializers list utterances. [`Frames`] wraps one of them, or a [bundle](super::bundle)
//! of several, and lists their frames, which have the utterance's key and count as one sample each.
//! A loaded chunk hands out the wrapped chunk's views, cut to one sample
//! ([`SequenceView::sample`](cntk_reader_core::sequence::SequenceView::sample)); nothing is copied.

mod index;
#[cfg(test)]
mod tests;

use super::bundle::{Bundle, too_few_frames};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::fingerprint::mix;
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::fetch::Parts;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Ahead, Chunk, ChunkErrors, ChunkInfo, ChunkSource, ChunkTable, Deserializer, InFrameMode,
    IncrementalTable, Joinable, Lengths, Listing, SequenceFacts, SourceFacts, SourceMemory, by_blocks,
};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{ChunkId, Loaded, SequenceId, SequenceInfo, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use index::FrameIndex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A deserializer of the frames of another deserializer's utterances.
pub struct Frames {
    inner: Arc<dyn Deserializer>,
    mode: InFrameMode,
    corpus: Arc<Corpus>,
    infos: Vec<ChunkInfo>,
    chunks: Vec<Arc<FrameIndex>>,
    /// For each chunk, the lengths of its frames in samples; `None` if all are 1.
    lengths: Vec<Option<Box<[u32]>>>,
    cuts: Cuts,
    /// Number of utterances named so far in warnings about [`Cut::is_exact`].
    named: Arc<AtomicU32>,
}

/// The cut of each stream: `None` if a frame gets the whole sequence.
type Cuts = Arc<[Option<Cut>]>;

/// Describes how to cut a frame's own sample out of a stream's sequence.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// Size of a value in bytes.
    value_bytes: usize,
    /// The stream must have one sample for each frame of the utterance, otherwise the utterance's
    /// frames are invalid. For text, the number of samples in each stream is unknown before
    /// loading.
    is_exact: bool,
}

/// Maximum number of warnings about utterances without a sample for each frame.
const NAMED: u32 = 10;

/// Returns the cut of a stream.
fn cut(stream: &StreamInfo, mode: InFrameMode) -> Option<Cut> {
    let cut = Cut { value_bytes: stream.element.size(), is_exact: mode == InFrameMode::SlicedExactly };
    (mode != InFrameMode::Whole).then_some(cut)
}

impl Frames {
    /// Wraps a deserializer of utterances. Each frame gets its own sample of each stream. `corpus`
    /// maps keys to text, for messages.
    pub fn new(inner: Arc<dyn Deserializer>, corpus: &Arc<Corpus>) -> Result<Frames> {
        let mode = inner.sequence_facts().in_frame_mode;
        Frames::taken_by(inner, mode, corpus)
    }

    /// Like [`Frames::new`], but with a mode other than the deserializer's own.
    pub(crate) fn taken_by(
        inner: Arc<dyn Deserializer>,
        mode: InFrameMode,
        corpus: &Arc<Corpus>,
    ) -> Result<Frames> {
        let rule = if mode == InFrameMode::Whole { InFrameMode::Sliced } else { mode };
        let cuts = inner.streams().iter().map(|stream| cut(stream, rule)).collect();
        let weights = room::filled(inner.chunks().len(), None, room::INDEX)?;
        Frames::with(inner, mode, corpus, cuts, &weights)
    }

    /// Wraps a bundle that was [joined for frame mode](super::bundle::JoinOptions::packing). In
    /// streams of members that are not split, each frame gets the whole sequence, and counts as
    /// that many samples if there are several.
    pub(crate) fn of_bundle(bundle: Bundle, corpus: &Arc<Corpus>) -> Result<Frames> {
        let modes = bundle.stream_modes();
        let cuts = bundle.streams().iter().zip(modes).map(|(stream, mode)| cut(stream, mode)).collect();
        let bundle = Arc::new(bundle);
        let inner = Arc::clone(&bundle) as Arc<dyn Deserializer>;
        Frames::with(inner, InFrameMode::Sliced, corpus, cuts, &bundle.frame_weights())
    }

    /// Creates the tables. `weights` holds, for each chunk, the number of samples that a frame of
    /// each utterance counts as; `None` if all count as 1.
    fn with(
        inner: Arc<dyn Deserializer>,
        mode: InFrameMode,
        corpus: &Arc<Corpus>,
        cuts: Cuts,
        weights: &[Option<&[u32]>],
    ) -> Result<Frames> {
        let count = inner.chunks().len();
        let (mut infos, mut chunks) =
            (room::with_capacity(count, room::INDEX)?, room::with_capacity(count, room::INDEX)?);
        let mut lengths = room::with_capacity(count, room::INDEX)?;
        for ((id, info), weights) in (0..).zip(inner.chunks()).zip(weights) {
            let Some(index) = FrameIndex::new(info.sequences, inner.lengths(id))? else {
                let message = format!("Chunk {id} has more than {} frames.", u32::MAX);
                let detail = "Frame mode cannot count more. Check the ranges of frames in the script file.";
                return Err(Error::data(message).with_detail(detail));
            };
            let each = weights.map(|weights| {
                let frames = |utterance| (weights[utterance as usize], index.length(utterance) as usize);
                let mut each = room::with_capacity(index.frames() as usize, room::INDEX)?;
                for (weight, count) in (0..index.utterances()).map(frames) {
                    each.extend(std::iter::repeat_n(weight, count));
                }
                Ok(each.into_boxed_slice())
            });
            let each = each.transpose()?;
            let samples = match &each {
                Some(each) => each.iter().map(|&length| u64::from(length)).sum(),
                None => index.frames().into(),
            };
            infos.push(ChunkInfo { samples, sequences: index.frames() });
            chunks.push(Arc::new(index));
            lengths.push(each);
        }
        let named = Arc::new(AtomicU32::new(0));
        Ok(Frames { inner, mode, corpus: Arc::clone(corpus), infos, chunks, lengths, cuts, named })
    }

    /// Wraps a loaded chunk of utterances.
    fn wrap(&self, chunk: ChunkId, inner: Arc<dyn Chunk>) -> Arc<dyn Chunk> {
        let index = Arc::clone(&self.chunks[chunk as usize]);
        let exact = self.cuts.iter().flatten().any(|cut| cut.is_exact).then(|| Exact {
            number: chunk,
            table: Arc::clone(&self.inner),
            corpus: Arc::clone(&self.corpus),
            named: Arc::clone(&self.named),
        });
        Arc::new(FrameChunk { inner, index, cuts: Arc::clone(&self.cuts), exact })
    }

    /// Calls `use_ids` with the utterances of these frames.
    fn utterances(&self, frames: &[SequenceId], use_ids: impl FnMut(&[SequenceId])) {
        let utterance = |id: &SequenceId| {
            let found = self.chunks[id.chunk as usize].locate(id.index);
            SequenceId { chunk: id.chunk, index: found.map_or(0, |(utterance, _)| utterance) }
        };
        by_blocks(frames, utterance, use_ids);
    }
}

impl ChunkTable for Frames {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.lengths[chunk as usize].as_deref().map_or(Lengths::Ones, Lengths::Each)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl ChunkSource for Frames {
    fn streams(&self) -> &[StreamInfo] {
        self.inner.streams()
    }

    fn facts(&self) -> SourceFacts {
        self.inner.facts()
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        let inner = Arc::clone(&self.inner).start(chunk, on);
        inner.wrapped(move |inner| self.wrap(chunk, inner))
    }

    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.utterances(sequences, |ids| self.inner.reported_keys(ids, truncated, keys));
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        self.inner.sample_content(None, sampler)
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        let hash = mix(self.inner.fingerprint(None), 1, self.infos.len() as u64);
        self.infos.iter().fold(hash, |hash, info| mix(hash, info.samples, u64::from(info.sequences)))
    }

    fn memory(&self) -> SourceMemory {
        let indices: usize = self.chunks.iter().map(|index| size_of::<FrameIndex>() + index.bytes()).sum();
        let lengths: usize = self.lengths.iter().flatten().map(|lengths| size_of_val(&**lengths)).sum();
        let own = indices + lengths + size_of_val(self.infos.as_slice());
        self.inner.memory() + SourceMemory { chunks: 0, index: own as u64 }
    }

    fn file_bytes(&self) -> Option<u64> {
        self.inner.file_bytes()
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl Diagnostics for Frames {
    /// Returns `None`: the wrapped deserializer is checked directly.
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        let mut location = Location::default();
        self.utterances(&[sequence], |ids| location = self.inner.diagnostics().location(ids[0], stream));
        location
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        self.inner.diagnostics().key_text(key, corpus)
    }

    fn forget_errors(&self) {
        self.inner.diagnostics().forget_errors();
    }

    fn remarks(&self) -> Vec<Finding> {
        self.inner.diagnostics().remarks()
    }

    fn end_sweep(&self) {
        self.inner.diagnostics().end_sweep();
    }
}

impl Deserializer for Frames {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts {
            is_asked_in_place: self.inner.sequence_facts().is_asked_in_place,
            ..SequenceFacts::PLAIN
        }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.utterances(sequences, |ids| self.inner.keys(ids, keys));
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.inner.prepare_to_find()
    }

    /// Returns the first frame of the utterance with this key.
    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let SequenceId { chunk, index } = self.inner.find(key)?;
        Some(SequenceId { chunk, index: self.chunks[chunk as usize].start(index) })
    }
}

impl Joinable for Frames {
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        let (index, lengths) = (&self.chunks[chunk as usize], self.lengths(chunk));
        let mut utterances = room::with_capacity(index.utterances() as usize, room::INDEX)?;
        self.inner.list(chunk, &mut utterances)?;
        room::reserve(sequences, index.frames() as usize, room::INDEX)?;
        for utterance in utterances {
            let start = index.start(utterance.id.index);
            sequences.extend((0..index.length(utterance.id.index)).map(|sample| {
                let id = SequenceId { chunk, index: start + sample };
                SequenceInfo { id, samples: lengths.get(id.index), key: utterance.key, sample }
            }));
        }
        Ok(())
    }

    /// Returns the frame with the same key and number as `of`. If the utterance is too short,
    /// features give CNTK's error, while labels give a frame past the chunk's end, which is
    /// invalid.
    fn matching(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        let utterance = SequenceInfo { sample: 0, ..*of };
        let Some((SequenceId { chunk, index: utterance }, _)) = self.inner.matching(&utterance)? else {
            return Ok(None);
        };
        let index = &self.chunks[chunk as usize];
        let frames = index.length(utterance);
        if of.sample < frames {
            let id = SequenceId { chunk, index: index.start(utterance) + of.sample };
            return Ok(Some((id, self.lengths(chunk).get(id.index))));
        }
        if matches!(self.mode, InFrameMode::SlicedStrictly | InFrameMode::SlicedExactly) {
            return Err(too_few_frames(&self.corpus.text_of(of.key), frames));
        }
        Ok(Some((SequenceId { chunk, index: index.frames() }, 1)))
    }
}

/// Reduces a stream's data for an utterance of `frames` frames to one frame.
#[inline(always)]
fn cut_sample(loaded: &mut Loaded<'_>, frame: u32, cut: Option<Cut>, frames: impl FnOnce() -> u32) {
    if let (Loaded::Data(view), Some(cut)) = (&mut *loaded, cut)
        && (cut.is_exact && view.samples != frames() || view.cut(frame, cut.value_bytes).is_none())
    {
        *loaded = Loaded::Invalid;
    }
}

/// A loaded chunk of the wrapped deserializer, with its views cut into frames.
struct FrameChunk {
    inner: Arc<dyn Chunk>,
    index: Arc<FrameIndex>,
    cuts: Cuts,
    /// Warns of utterances without a sample for each frame; `None` if there can be none.
    exact: Option<Exact>,
}

/// Warns of utterances whose number of samples in a stream differs from their number of frames.
struct Exact {
    /// Number of the chunk.
    number: ChunkId,
    table: Arc<dyn Deserializer>,
    corpus: Arc<Corpus>,
    named: Arc<AtomicU32>,
}

impl Exact {
    fn warn(&self, utterance: u32, stream: usize, samples: u32, frames: u32) {
        if self.named.fetch_add(1, Relaxed) >= NAMED {
            return;
        }
        let id = SequenceId { chunk: self.number, index: utterance };
        let mut keys = Vec::with_capacity(1);
        self.table.keys(&[id], &mut keys);
        let key = keys
            .first()
            .map_or_else(String::new, |&key| self.table.diagnostics().key_text(key, &self.corpus));
        let line = format!(
            "The sequence '{key}' has {frames} frames, and {samples} of its lines have a sample of the stream '{}': its \
             frames are invalid. In frame mode, each line needs a sample of each stream.",
            self.table.streams()[stream].name
        );
        Logger::log_always(Level::Warning, &line);
    }
}

impl Chunk for FrameChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        let Some((utterance, frame)) = self.index.locate(index) else { return Loaded::Invalid };
        let mut loaded = self.inner.sequence(stream, utterance);
        cut_sample(&mut loaded, frame, self.cuts[stream], || self.index.length(utterance));
        loaded
    }

    fn sequences<'a>(&'a self, index: u32, loaded: &mut [Loaded<'a>]) {
        let Some((utterance, frame)) = self.index.locate(index) else { return loaded.fill(Loaded::Invalid) };
        self.inner.sequences(utterance, loaded);
        for (loaded, &cut) in loaded.iter_mut().zip(&*self.cuts) {
            cut_sample(loaded, frame, cut, || self.index.length(utterance));
        }
    }

    fn failure(&self, stream: usize, index: u32) -> Option<Error> {
        self.inner.failure(stream, self.index.locate(index)?.0)
    }

    fn is_expanded(&self, stream: usize) -> bool {
        self.inner.is_expanded(stream)
    }

    /// Does nothing: a hint would first have to find the frame's utterance in the index, and
    /// prefetching the index itself costs as much as it gains.
    fn prefetch(&self, _index: u32, _ahead: Ahead) {}

    fn warn(&self) {
        self.inner.warn();
        let Some(exact) = &self.exact else { return };
        for (stream, _) in self.cuts.iter().enumerate().filter(|(_, cut)| cut.is_some_and(|cut| cut.is_exact))
        {
            for utterance in 0..self.index.utterances() {
                let frames = self.index.length(utterance);
                match self.inner.sequence(stream, utterance) {
                    Loaded::Data(view) if view.samples != frames => {
                        exact.warn(utterance, stream, view.samples, frames);
                    }
                    _ => {}
                }
            }
        }
    }

    fn errors(&self) -> &dyn ChunkErrors {
        self.inner.errors()
    }

    fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        match self.index.locate(index) {
            Some((utterance, _)) => self.inner.fetch(utterance, first, parts),
            None => Ok(()),
        }
    }

    /// Returns `None`: the inner chunk would list utterances, but the table has frames.
    fn listing(&self) -> Option<Listing<'_>> {
        None
    }
}
