//! A user's deserializer that knows its sequences before its chunks are loaded.

use super::chunk::LoadedChunk;
use super::data::Sequences;
use super::streams::{Fingerprint, describe};
use super::table::{self, SequenceTable};
use super::{UserDeserializer, call, start_loader, wrong, wrong_chunk};
use crate::corpus::Corpus;
use crate::format::content::Sampler;
use crate::format::diagnostics::{Diagnostics, NoDiagnostics};
use crate::format::loader::Loader;
use crate::format::loading::{Load, Starter};
use crate::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, Joinable, Lengths,
    SequenceFacts, SourceFacts, SourceMemory,
};
use crate::memory::room;
use crate::sequence::{ChunkId, SequenceId, SequenceInfo, SequenceKey};
use crate::stream::StreamInfo;
use crate::{Error, Result};
use std::sync::{Arc, OnceLock};

pub(super) struct ListedDeserializer {
    user: Arc<dyn UserDeserializer>,
    streams: Arc<[StreamInfo]>,
    table: SequenceTable,
    /// The table has lengths. If the deserializer finds its own sequences by those of the reader's
    /// first deserializer, the table has at most the sizes of chunks.
    is_listed: bool,
    corpus: Arc<Corpus>,
    /// The table has keys. Fetched sequences of deserializers that find sequences themselves keep
    /// none: keys of single frames of speech would take gigabytes. Their keys come with the data,
    /// and to join deserializers a chunk is listed again.
    keeps_keys: bool,
    is_fetched: bool,
    fingerprint: u64,
    loader: Arc<Loader>,
    /// Keys with their sequences in ascending order; equal keys in the data's order. Built on
    /// demand.
    by_key: OnceLock<Vec<(SequenceKey, SequenceId)>>,
}

impl ListedDeserializer {
    /// Opens the deserializer. `first` is the list of the first chunk, if it has been requested
    /// already.
    pub(super) fn open(
        user: Arc<dyn UserDeserializer>,
        first: Option<Sequences>,
        is_primary: bool,
        corpus: &Arc<Corpus>,
    ) -> Result<Self> {
        let (streams, chunks) = describe(&*user)?;
        let mut fingerprint = Fingerprint::of(&streams, chunks);
        let is_fetched = user.fetches_sequences();
        let keeps_keys = user.matcher().is_none() || !is_fetched;
        let mut defining = streams.iter().filter(|stream| stream.defines_mb_size);
        if let (Some(_), Some(second)) = (defining.next(), defining.next())
            && !is_fetched
        {
            let message =
                "Only a single stream is allowed to define minibatch size, but at least two are found.";
            return Err(wrong(message).in_stream(&second.name));
        }
        let mut table = SequenceTable::default();
        let found_by_user = user.matcher().filter(|_| !is_primary);
        let is_listed = found_by_user.is_none();
        match found_by_user {
            Some(matcher) => {
                for number in 0..chunks {
                    let size = call("giving its chunks' sizes", || Ok(matcher.chunk_size(number)))?;
                    let size = size.unwrap_or(ChunkInfo { samples: 0, sequences: 0 });
                    fingerprint.add(size.samples);
                    table.add_size(number, size)?;
                }
            }
            None => {
                let mut first = first;
                for number in 0..chunks {
                    let listed = match first.take() {
                        Some(first) => first,
                        None => list(&*user, number)?,
                    };
                    add(&mut table, number, listed, keeps_keys, corpus, &mut fingerprint)?;
                }
            }
        }
        Ok(ListedDeserializer {
            fingerprint: fingerprint.value(),
            loader: start_loader(&*user)?,
            is_fetched,
            streams,
            table,
            is_listed,
            corpus: Arc::clone(corpus),
            keeps_keys,
            user,
            by_key: OnceLock::new(),
        })
    }

    /// Returns the keys with their sequences, and sorts them if necessary.
    fn by_key(&self) -> Result<&[(SequenceKey, SequenceId)]> {
        if let Some(by_key) = self.by_key.get() {
            return Ok(by_key);
        }
        let count = self.table.infos.iter().map(|chunk| chunk.sequences as usize).sum();
        let mut by_key = room::with_capacity(count, room::INDEX)?;
        by_key.extend(self.table.all().map(|sequence| (self.table.key(sequence), sequence)));
        by_key.sort_unstable();
        // Another thread may have been faster.
        Ok(self.by_key.get_or_init(|| by_key))
    }

    /// Compares a loaded chunk with its list.
    fn compare(&self, chunk: ChunkId, loaded: &LoadedChunk) -> Result<()> {
        let Some(listing) = loaded.own_listing() else { return Ok(()) };
        let (number, info) = (self.table.numbers[chunk as usize], self.table.infos[chunk as usize]);
        if !self.is_listed && info.sequences == 0 {
            // The size is not known.
            return Ok(());
        }
        if listing.sequences != info.sequences {
            let message =
                format!("it has {} sequences, but {} were listed.", listing.sequences, info.sequences);
            return Err(wrong_chunk(number, message));
        }
        let listed = self.lengths(chunk);
        let differs = |&(index, length): &(u32, u32)| self.is_listed && length != listed.get(index);
        match listing.iter().find(differs) {
            None => Ok(()),
            Some((index, length)) => {
                let listed = listed.get(index);
                let message = format!("sequence {index} has {length} samples, but {listed} were listed.");
                Err(wrong_chunk(number, message))
            }
        }
    }
}

/// Calls user code to list the sequences of a chunk.
fn list(user: &dyn UserDeserializer, number: ChunkId) -> Result<Sequences> {
    call(format_args!("listing chunk {number}"), || user.sequences(number))?.ok_or_else(|| {
        wrong_chunk(
            number,
            "`sequences` does not list its sequences. It must list those of all chunks or of none; and of all, if \
             the deserializer is joined with others and has no `matcher`.",
        )
    })
}

fn add(
    table: &mut SequenceTable,
    number: ChunkId,
    listed: Sequences,
    keeps_keys: bool,
    corpus: &Corpus,
    fingerprint: &mut Fingerprint,
) -> Result<()> {
    let chunk = table.infos.len() as ChunkId;
    let count = listed.count;
    let keys = table.add(number, listed, keeps_keys, corpus)?;
    for index in 0..count {
        let sequence = SequenceId { chunk, index };
        fingerprint.add(table.length(sequence).into());
        fingerprint.add(u64::from(chunk));
        fingerprint.add(match &keys {
            Some(keys) => keys[index as usize],
            None => table.ordinal(sequence),
        });
    }
    Ok(())
}

impl ChunkTable for ListedDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.table.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.table.lengths[chunk as usize].as_deref().map_or(Lengths::Ones, Lengths::Each)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl ListedDeserializer {
    /// Calls user code to load a chunk on this thread.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let Some(&number) = self.table.numbers.get(chunk as usize) else {
            return Err(Error::internal(format!("There is no chunk {chunk}.")));
        };
        let loaded = LoadedChunk::load(&*self.user, number, &self.streams, &self.loader, None)?;
        self.compare(chunk, &loaded)?;
        Ok(Arc::new(loaded))
    }
}

impl ChunkSource for ListedDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { is_fetched: self.is_fetched, ..SourceFacts::BY_USERS }
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_loader(&self.loader, &self, chunk, Self::load)
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: self.loader.held(), index: self.table.bytes() as u64 }
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.fingerprint
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        sampler.skip();
        Ok(())
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        &NoDiagnostics
    }
}

impl Deserializer for ListedDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts {
            counts_keys: self.keeps_keys && !self.table.has_keys(),
            // Unknown for fetched sequences until they are listed again.
            lists_samples: !self.keeps_keys || self.table.has_samples(),
            is_asked_in_place: self.user.matcher().is_some(),
            ..SequenceFacts::PLAIN
        }
    }

    /// Appends zeros if keys are not kept, because they come with the data.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let key = |&sequence: &SequenceId| if self.keeps_keys { self.table.key(sequence) } else { 0 };
        keys.extend(sequences.iter().map(key));
    }

    fn prepare_to_find(&self) -> Result<()> {
        if self.keeps_keys { self.by_key().map(|_| ()) } else { Ok(()) }
    }

    /// Returns `None` if there is no memory to [sort](Deserializer::prepare_to_find) the keys.
    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        if !self.keeps_keys {
            return None;
        }
        let by_key = self.by_key().ok()?;
        let at = by_key.partition_point(|(other, _)| *other < key);
        by_key.get(at).filter(|(found, _)| *found == key).map(|&(_, sequence)| sequence)
    }
}

impl Joinable for ListedDeserializer {
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        let (number, known) =
            (self.table.numbers[chunk as usize], self.table.infos[chunk as usize].sequences);
        let ids = (0..known).map(|index| SequenceId { chunk, index });
        room::reserve(sequences, known as usize, room::INDEX)?;
        if self.keeps_keys {
            sequences.extend(ids.map(|id| SequenceInfo {
                id,
                samples: self.table.length(id),
                key: self.table.key(id),
                sample: self.table.sample(id),
            }));
            return Ok(());
        }
        let listed = list(&*self.user, number)?;
        if listed.count != known {
            let message = format!("it lists {} sequences, but listed {known} before.", listed.count);
            return Err(wrong_chunk(number, message));
        }
        table::check_lengths(&listed, number)?;
        let keys = table::numbers(&listed, number, &self.corpus)?;
        let of = |list: &Option<Vec<u32>>, index: u32| list.as_ref().map(|list| list[index as usize]);
        sequences.extend(ids.map(|id| SequenceInfo {
            id,
            samples: of(&listed.lengths, id.index).unwrap_or(1),
            key: keys.as_ref().map_or_else(|| self.table.ordinal(id), |keys| keys[id.index as usize]),
            sample: of(&listed.sample_indices, id.index).unwrap_or(0),
        }));
        Ok(())
    }

    fn matching(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        let Some(matcher) = self.user.matcher() else {
            self.prepare_to_find()?;
            return Ok(self.find(of.key).map(|id| (id, self.table.length(id))));
        };
        let found = call("looking for a sequence", || matcher.find(of))?;
        let Some((id, samples)) = found else { return Ok(None) };
        match self.table.infos.get(id.chunk as usize) {
            Some(chunk) if chunk.sequences == 0 || id.index < chunk.sequences => Ok(Some((id, samples))),
            _ => Err(wrong(format!(
                "The user's deserializer has less data for a key than the reader's first one: its chunk {} has no \
                 sequence {}.",
                id.chunk, id.index
            ))
            .for_key(of.key.to_string())),
        }
    }
}
