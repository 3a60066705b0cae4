//! A user's deserializer that knows its sequences beforehand.

use super::chunk::{Checked, LoadedChunk};
use super::simple::start_loader;
use super::streams::{Fingerprint, describe};
use super::{Composable, Keys, Simple, call, wrong};
use crate::corpus::Corpus;
use crate::deserialize::loader::Loader;
use crate::deserialize::{Chunk, ChunkInfo, ChunkTable, Deserializer, Lengths, SourceMemory};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::stream::StreamInfo;
use crate::{Error, Result};
use std::sync::{Arc, OnceLock};

pub(super) struct ComposableDeserializer {
    user: Arc<dyn Composable>,
    streams: Arc<[StreamInfo]>,
    table: Table,
    fingerprint: u64,
    loader: Arc<Loader>,
    /// Keys with their sequences, ascending; equal ones in the data's order. Made when it is needed.
    by_key: OnceLock<Vec<(SequenceKey, SequenceId)>>,
}

/// Chunks with sequences; the user's empty ones are left out.
#[derive(Default)]
struct Table {
    infos: Vec<ChunkInfo>,
    /// The user's number of each chunk.
    numbers: Vec<ChunkId>,
    /// Sequences in all chunks before, for each chunk.
    firsts: Vec<u64>,
    /// Lengths by chunk; None where all are one sample long.
    lengths: Vec<Option<Vec<u32>>>,
    /// Keys by chunk; None for ordinals.
    keys: Vec<Option<Vec<SequenceKey>>>,
    sequences: u64,
}

impl Table {
    fn add(&mut self, user: &dyn Composable, chunk: ChunkId, corpus: &Corpus) -> Result<()> {
        let listed = call(&format!("listing chunk {chunk}"), || user.sequences(chunk))?;
        let of_chunk =
            |message: String| wrong(format!("Chunk {chunk} of the user's deserializer: {message}"));
        let count = listed.count as usize;
        let check = |what: &str, given: usize| {
            if given == count {
                return Ok(());
            }
            Err(of_chunk(format!("it lists {given} {what} for {count} sequences.")))
        };
        let lengths = listed.lengths;
        if let Some(lengths) = &lengths {
            check("lengths", lengths.len())?;
            if let Some(i) = lengths.iter().position(|&length| length == 0) {
                return Err(of_chunk(format!(
                    "sequence {i}: AddSequence: Sequences must be a least one frame long."
                )));
            }
        }
        let keys = match listed.keys {
            Keys::Ordinal => None,
            Keys::Numbers(keys) => {
                check("keys", keys.len())?;
                let key = |key: u64| corpus.number_of(key.to_string().as_bytes()).unwrap_or(key);
                Some(if corpus.is_numeric() { keys } else { keys.into_iter().map(key).collect() })
            }
            Keys::Texts(keys) => {
                check("keys", keys.len())?;
                let key = |text: &String| match corpus.number_of(text.as_bytes()) {
                    Some(number) => Ok(number),
                    // CNTK 2.7's words.
                    None => text
                        .parse()
                        .map_err(|_| of_chunk(format!("Invalid numeric sequence id '{text}'")).for_key(text)),
                };
                Some(keys.iter().map(key).collect::<Result<_>>()?)
            }
        };
        if count == 0 {
            return Ok(());
        }
        let samples = match &lengths {
            Some(lengths) => lengths.iter().map(|&length| u64::from(length)).sum(),
            None => count as u64,
        };
        self.infos.push(ChunkInfo { samples, sequences: listed.count });
        self.numbers.push(chunk);
        self.firsts.push(self.sequences);
        self.lengths.push(lengths.filter(|lengths| lengths.iter().any(|&length| length != 1)));
        self.keys.push(keys);
        self.sequences += count as u64;
        Ok(())
    }

    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize {
        let lengths = self.lengths.iter().flatten().map(|lengths| size_of_val(lengths.as_slice()));
        let keys = self.keys.iter().flatten().map(|keys| size_of_val(keys.as_slice()));
        let chunks = size_of_val(self.infos.as_slice())
            + size_of_val(self.numbers.as_slice())
            + size_of_val(self.firsts.as_slice());
        chunks + lengths.sum::<usize>() + keys.sum::<usize>()
    }

    fn key(&self, sequence: SequenceId) -> SequenceKey {
        let chunk = sequence.chunk as usize;
        match &self.keys[chunk] {
            Some(keys) => keys[sequence.index as usize],
            None => self.firsts[chunk] + u64::from(sequence.index),
        }
    }

    fn all(&self) -> impl Iterator<Item = SequenceId> {
        (0..)
            .zip(&self.infos)
            .flat_map(|(chunk, info)| (0..info.sequences).map(move |index| SequenceId { chunk, index }))
    }
}

impl ComposableDeserializer {
    pub(super) fn open(user: &Arc<dyn Composable>, corpus: &Corpus) -> Result<Self> {
        let simple: &dyn Simple = &**user;
        let (streams, chunks) = describe(simple)?;
        let mut defining = streams.iter().filter(|stream| stream.defines_mb_size);
        if let (Some(_), Some(second)) = (defining.next(), defining.next()) {
            let message =
                "Only a single stream is allowed to define minibatch size, but at least two are found.";
            return Err(wrong(message).in_stream(&second.name));
        }
        let mut table = Table::default();
        for chunk in 0..chunks {
            table.add(&**user, chunk, corpus)?;
        }
        let mut print = Fingerprint::of(&streams, chunks);
        for sequence in table.all() {
            print.add(
                table.lengths[sequence.chunk as usize]
                    .as_ref()
                    .map_or(1, |all| all[sequence.index as usize])
                    .into(),
            );
            print.add(u64::from(sequence.chunk));
            print.add(table.key(sequence));
        }
        Ok(ComposableDeserializer {
            fingerprint: print.value(),
            loader: start_loader(simple)?,
            streams: streams.into(),
            table,
            user: Arc::clone(user),
            by_key: OnceLock::new(),
        })
    }

    /// Holds what was loaded against what was listed.
    fn compare(&self, chunk: ChunkId, checked: &Checked) -> Result<()> {
        let number = self.table.numbers[chunk as usize];
        let (listing, info) = (checked.listing(), self.table.infos[chunk as usize]);
        if listing.sequences != info.sequences {
            return Err(wrong(format!(
                "Chunk {number} of the user's deserializer: it has {} sequences, but {} were listed.",
                listing.sequences, info.sequences
            )));
        }
        let listed = self.lengths(chunk);
        match listing.iter().find(|&(index, length)| length != listed.get(index)) {
            None => Ok(()),
            Some((index, length)) => Err(wrong(format!(
                "Chunk {number} of the user's deserializer: sequence {index} has {length} samples, but {} were listed.",
                listed.get(index)
            ))),
        }
    }
}

impl ChunkTable for ComposableDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.table.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.table.lengths[chunk as usize].as_deref().map_or(Lengths::Ones, Lengths::Each)
    }
}

impl Deserializer for ComposableDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|&sequence| self.table.key(sequence)));
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let by_key = self.by_key.get_or_init(|| {
            let mut by_key: Vec<_> =
                self.table.all().map(|sequence| (self.table.key(sequence), sequence)).collect();
            by_key.sort_unstable();
            by_key
        });
        let at = by_key.partition_point(|(other, _)| *other < key);
        by_key.get(at).filter(|(found, _)| *found == key).map(|&(_, sequence)| sequence)
    }

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let Some(&number) = self.table.numbers.get(chunk as usize) else {
            return Err(Error::internal(format!("There is no chunk {chunk}.")));
        };
        let (user, streams) = (Arc::clone(&self.user), Arc::clone(&self.streams));
        let checked = self.loader.run(move || {
            let data = call(&format!("loading chunk {number}"), || user.load(number))?;
            Checked::new(data, &streams, number)
        })??;
        let loaded = LoadedChunk::new(checked, &self.loader);
        self.compare(chunk, loaded.checked())?;
        Ok(Arc::new(loaded))
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: self.loader.held(), index: self.table.bytes() as u64 }
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn loader(&self) -> Option<&Loader> {
        Some(&self.loader)
    }
}
