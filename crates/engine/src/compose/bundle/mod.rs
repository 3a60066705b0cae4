//! Joins several deserializers into one: sequences by key, streams side by side.
//!
//! The first deserializer is the *primary*: it determines the bundle's chunks and order. A sequence
//! missing from a secondary deserializer is dropped. A chunk that loses all its samples disappears
//! from the table, and the following chunks move up by one. The [`join`] is computed once, when the
//! bundle is created. Loading a [`chunk`] starts loading the primary's chunk and the secondary
//! chunks that hold its partners, each on its own deserializer's threads. All bundled chunks in
//! memory share a secondary chunk.

mod chunk;
mod join;
mod modes;
mod report;
mod share;
#[cfg(test)]
mod tests;

pub(crate) use join::{JoinOptions, Member};
pub(crate) use modes::check_frames;
pub(super) use modes::too_few_frames;
pub use modes::{Fit, FramePair, frame_mode, frame_modes, unequal_lengths};

use crate::pack::Packing;
use chunk::{BundleChunk, BundleMap};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    ChunkInfo, ChunkSource, ChunkTable, Deserializer, InFrameMode, IncrementalTable, JoinedByKey, Lengths,
    Loading, SequenceFacts, SourceFacts, SourceMemory, by_blocks,
};
use cntk_reader_core::message::names::Distinct;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, ErrorKind, Result};
use join::Join;
use share::Secondary;
use std::sync::Arc;

/// Several deserializers joined by key.
pub(crate) struct Bundle {
    streams: Vec<StreamInfo>,
    primary: Arc<dyn Deserializer>,
    secondaries: Vec<Secondary>,
    /// For each stream, how frame mode treats its sequences.
    modes: Vec<InFrameMode>,
    map: Arc<BundleMap>,
    facts: SourceFacts,
    fingerprint: u64,
}

impl Bundle {
    /// Joins the members; the first one is the primary. Must run on a thread of the library's pool
    /// or, if a member is [asked in place](SequenceFacts::is_asked_in_place), on the thread that
    /// opens the reader. Logs which sequences were dropped, and why.
    pub fn new(members: Vec<Member>, options: &JoinOptions<'_>) -> Result<Self> {
        let (mut streams, mut routes, mut firsts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut modes, mut expanded) = (Vec::new(), Vec::new());
        let mut definer = None;
        for (number, member) in members.iter().enumerate() {
            firsts.push(streams.len());
            for (inner, stream) in member.deserializer.streams().iter().enumerate() {
                if stream.defines_mb_size && definer.replace(number).is_some() {
                    let message =
                        "Only a single deserializer is allowed to define minibatch size, at least two found.";
                    let detail = "Only one stream of all deserializers may set ‹defines_minibatch_size = true›: remove it from the others.";
                    let error = Error::config(ExceptionClass::Runtime, message).with_detail(detail);
                    return Err(error.in_stream(&stream.name));
                }
                streams.push(stream.clone());
                routes.push((number, inner));
                modes.push(member.mode);
                // In frame mode, each frame gets the single sample as it is.
                let repeats = options.packing != Packing::Frame;
                expanded.push(repeats && member.deserializer.sequence_facts().is_expanded);
            }
        }
        let join = Join::new(&members, definer, options)?;
        let each: Vec<_> = members.iter().map(|member| member.deserializer.facts()).collect();
        let mut fetched = each.iter().filter(|one| one.is_fetched).peekable();
        let facts = SourceFacts {
            is_fetched: fetched.peek().is_some(),
            is_fetched_ahead: fetched.peek().is_some() && fetched.all(|one| one.is_fetched_ahead),
            loading: Loading::OnPool,
            is_foreign: each.iter().any(|one| one.is_foreign),
        };
        let mut fingerprint = SEED;
        for member in &members {
            fingerprint = mix(fingerprint, member.deserializer.fingerprint(None), 0);
        }
        for chunk in &join.infos {
            fingerprint = mix(fingerprint, chunk.samples, u64::from(chunk.sequences));
        }
        let mut members = members.into_iter().map(|member| member.deserializer);
        let primary = members.next().ok_or_else(|| Error::internal("a bundle of nothing"))?;
        let secondaries = members.map(Secondary::new).collect();
        Ok(Bundle {
            streams,
            primary,
            secondaries,
            modes,
            map: Arc::new(BundleMap { join, routes, firsts, expanded }),
            facts,
            fingerprint,
        })
    }

    /// For each stream, how frame mode treats its sequences.
    pub fn stream_modes(&self) -> Vec<InFrameMode> {
        self.modes.clone()
    }

    /// Returns, for each chunk, the number of samples that a frame of each utterance counts as;
    /// `None` if all count as 1.
    pub fn frame_weights(&self) -> Vec<Option<&[u32]>> {
        self.map.join.chunks.iter().map(|chunk| chunk.weights.as_deref()).collect()
    }

    /// Returns the partner of a sequence in the last member.
    fn in_last(&self, id: SequenceId) -> Option<SequenceId> {
        self.partner(self.secondaries.len().checked_sub(1)?, id)
    }

    /// Returns the partner of a sequence in a secondary member.
    fn partner(&self, secondary: usize, id: SequenceId) -> Option<SequenceId> {
        let partner = self.map.join.chunks[id.chunk as usize].partners.get(secondary)?;
        let (chunk, index) = partner.places.get(id.index);
        Some(SequenceId { chunk: partner.chunks[chunk], index })
    }

    /// Calls `use_ids` with the ids of these sequences in the primary.
    fn in_primary(&self, sequences: &[SequenceId], use_ids: impl FnMut(&[SequenceId])) {
        let place = |id: &SequenceId| {
            let joined = &self.map.join.chunks[id.chunk as usize];
            SequenceId { chunk: joined.primary, index: joined.primary_index(id.index) }
        };
        by_blocks(sequences, place, use_ids);
    }
}

/// Rejects duplicate stream names, with CNTK's message. Each stream comes with the name of its
/// deserializer.
pub fn check_names(streams: &[(&str, &StreamInfo)]) -> Result<()> {
    let mut names = Distinct::default();
    for (place, (second, stream)) in streams.iter().enumerate() {
        if names.add(&stream.name).is_some() {
            let is_first = |(_, other): &&(&str, &StreamInfo)| other.name == stream.name;
            let first = streams[..place].iter().find(is_first).map_or(*second, |(name, _)| name);
            let found = format!(
                "Two deserializers, '{}' and '{}', have a stream with the name '{}'.",
                quoted(first.as_bytes()),
                quoted(second.as_bytes()),
                stream.name
            );
            let message = format!(
                "Two streams with the same name '{}' have been found. Please rename the duplicate.",
                stream.name
            );
            let error = Error::new(ErrorKind::Config, ExceptionClass::Runtime, message);
            let detail = "Deserializers are joined: each adds streams to the same sequences. If their files are parts of one \
                          data set, name them all in one deserializer, as a list (‹several_files›) or as a \
                          pattern ('*.ctf'). Otherwise rename one of the streams, \
                          and give its name in the file as ‹alias›.";
            return Err(error
                .as_cntk()
                .with_detail(found)
                .with_detail(detail)
                .in_file(second)
                .in_stream(&stream.name));
        }
    }
    Ok(())
}

impl ChunkTable for Bundle {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.map.join.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let joined = &self.map.join.chunks[chunk as usize];
        match &joined.lengths {
            join::Declared::Primary => self.primary.lengths(joined.primary),
            join::Declared::Ones => Lengths::Ones,
            join::Declared::Each(lengths) => Lengths::Each(lengths),
        }
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl ChunkSource for Bundle {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        self.facts
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        let joined = &self.map.join.chunks[chunk as usize];
        let primary = Arc::clone(&self.primary).start(joined.primary, on);
        let of_each = self.secondaries.iter().zip(&joined.partners);
        let parts: Vec<Load> = of_each
            .flat_map(|(secondary, partner)| partner.chunks.iter().map(|&id| secondary.start(id, on)))
            .collect();
        let (map, shared) = (Arc::clone(&self.map), parts.clone().into());
        let loads = std::iter::once(primary).chain(parts).collect();
        Load::of(loads, move |chunks| Arc::new(BundleChunk::new(&map, chunk, chunks, &shared)))
    }

    /// CNTK 2.7 reports the keys with which its first deserializer marks sequences. For truncated
    /// minibatches it uses the last deserializer instead, whose keys are 0 if it does not
    /// [mark](SequenceFacts::marks_keys) them.
    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        match self.secondaries.last() {
            Some(last) if truncated && !last.deserializer().sequence_facts().marks_keys => {
                keys.extend(std::iter::repeat_n(0, sequences.len()));
            }
            // The primary's keys are known only once its sequences are fetched, but their partners
            // in the last member have the same keys.
            Some(last) if truncated && self.primary.facts().is_fetched => {
                keys.extend(sequences.iter().flat_map(|&id| self.in_last(id)).flat_map(|id| last.key(id)));
            }
            _ if truncated => self.in_primary(sequences, |ids| self.primary.keys(ids, keys)),
            _ => self.in_primary(sequences, |ids| self.primary.reported_keys(ids, false, keys)),
        }
    }

    fn memory(&self) -> SourceMemory {
        let own = SourceMemory { chunks: 0, index: self.map.join.bytes() as u64 };
        let secondaries = self.secondaries.iter().map(|secondary| secondary.deserializer().memory());
        secondaries.fold(self.primary.memory() + own, |sum, memory| sum + memory)
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        self.primary.sample_content(None, sampler)?;
        self.secondaries.iter().try_for_each(|one| one.deserializer().sample_content(None, sampler))
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.fingerprint
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl Diagnostics for Bundle {
    /// Returns `None`: the members are checked individually.
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        let (member, inner) = self.map.routes[stream];
        let Some(number) = member.checked_sub(1) else {
            let joined = &self.map.join.chunks[sequence.chunk as usize];
            let own = SequenceId { chunk: joined.primary, index: joined.primary_index(sequence.index) };
            return self.primary.diagnostics().location(own, inner);
        };
        match self.partner(number, sequence) {
            Some(own) => self.secondaries[number].deserializer().diagnostics().location(own, inner),
            None => Location::default(),
        }
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        self.primary.diagnostics().key_text(key, corpus)
    }

    fn forget_errors(&self) {
        self.primary.diagnostics().forget_errors();
        self.secondaries.iter().for_each(|secondary| secondary.deserializer().diagnostics().forget_errors());
    }

    fn remarks(&self) -> Vec<Finding> {
        let own = self.primary.diagnostics().remarks();
        let others = self.secondaries.iter().flat_map(|one| one.deserializer().diagnostics().remarks());
        own.into_iter().chain(others).collect()
    }

    fn end_sweep(&self) {
        self.primary.diagnostics().end_sweep();
        self.secondaries.iter().for_each(|secondary| secondary.deserializer().diagnostics().end_sweep());
    }
}

/// Bundles are not joined again.
impl JoinedByKey for Bundle {}

impl Deserializer for Bundle {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts::PLAIN
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.in_primary(sequences, |ids| self.primary.keys(ids, keys));
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.primary.prepare_to_find()
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let SequenceId { chunk, index } = self.primary.find(key)?;
        let chunks = &self.map.join.chunks;
        let chunk = chunks.binary_search_by_key(&chunk, |joined| joined.primary).ok()?;
        let index = match &chunks[chunk].kept {
            None => index,
            Some(kept) => kept.binary_search(&index).ok()? as u32,
        };
        Some(SequenceId { chunk: chunk as ChunkId, index })
    }
}
