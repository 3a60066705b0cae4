//! A user's deserializer whose sequences are fetched one by one.

use super::streams::{Fingerprint, check_count, check_streams};
use super::{call, wrong};
use crate::deserialize::fetch::{FetchedData, Parts};
use crate::deserialize::loader::Loader;
use crate::deserialize::{
    Chunk, ChunkInfo, ChunkTable, Deserializer, Lengths, Listing, Loaded, SourceMemory,
};
use crate::sequence::{ChunkId, SequenceId, SequenceInfo, SequenceKey};
use crate::stream::StreamInfo;
use crate::{Error, Result, exit};
use std::sync::Arc;

/// A user's deserializer whose loaded chunks give one sequence at a time.
pub trait OnDemand: Send + Sync {
    /// The streams, at least one. Asked once.
    fn streams(&self) -> Result<Vec<StreamInfo>>;

    /// Sizes of the chunks, at least one. Asked once. Zeros if a chunk tells its sequences when it is loaded.
    fn chunks(&self) -> Result<Vec<ChunkInfo>>;

    /// Appends the sequences of a chunk. Called by the thread that opens the reader, and only there.
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()>;

    /// Where the sequence is that belongs to one of the reader's primary deserializer, and its length. Called as `list`.
    fn partner(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>>;

    /// Loads a chunk. Called by one thread at a time.
    fn load(&self, chunk: ChunkId) -> Result<Box<dyn OnDemandChunk>>;
}

/// A loaded chunk of an [`OnDemand`] deserializer.
pub trait OnDemandChunk: Send + Sync {
    /// Fetches a sequence. May be called by several threads at once, if the reader's `multiThreadedDeserialization` says
    /// so. `used` is one that was released, of any deserializer of the reader: its memory may be used again.
    fn fetch(&self, index: u32, used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>>;

    /// Appends the lengths of its sequences, if it is for the chunk to tell.
    fn list(&self, lengths: &mut Vec<u32>) -> Result<()>;
}

/// What the engine makes of it.
pub(super) struct OnDemandDeserializer {
    user: Arc<dyn OnDemand>,
    streams: Arc<[StreamInfo]>,
    chunks: Vec<ChunkInfo>,
    /// The user's number of each chunk.
    numbers: Vec<ChunkId>,
    /// By chunk; None where all are one sample long.
    lengths: Vec<Option<Box<[u32]>>>,
    lists_when_loaded: bool,
    is_primary: bool,
    fingerprint: u64,
    loader: Arc<Loader>,
}

impl OnDemandDeserializer {
    /// `is_primary`: chunks and order of the reader are this deserializer's. Others are only asked for partners.
    pub(super) fn open(user: Arc<dyn OnDemand>, composable: bool, is_primary: bool) -> Result<Self> {
        let told = call("telling its chunks", || user.chunks())?;
        let streams = call("describing its streams", || user.streams())?;
        check_streams(&streams)?;
        check_count(told.len())?;
        let mut opened = OnDemandDeserializer {
            user,
            streams: streams.into(),
            chunks: Vec::with_capacity(told.len()),
            numbers: Vec::with_capacity(told.len()),
            lengths: Vec::new(),
            lists_when_loaded: !composable,
            is_primary,
            fingerprint: 0,
            loader: Arc::new(Loader::start(1)?),
        };
        let mut print = Fingerprint::of(&opened.streams, told.len() as u32);
        let mut listed = Vec::new();
        for (number, info) in (0..).zip(told) {
            if !composable || !is_primary {
                let info = if composable { info } else { ChunkInfo { samples: 0, sequences: 0 } };
                print.add(info.samples);
                opened.chunks.push(info);
                opened.numbers.push(number);
                continue;
            }
            listed.clear();
            call(&format!("listing chunk {number}"), || opened.user.list(number, &mut listed))?;
            opened.add(number, &listed, &mut print)?;
        }
        opened.fingerprint = print.value();
        Ok(opened)
    }

    /// Bytes of the tables. What its chunks take is the user's alone to know.
    fn table_bytes(&self) -> usize {
        let lengths = self.lengths.iter().flatten().map(|lengths| size_of_val(&**lengths));
        size_of_val(self.chunks.as_slice()) + size_of_val(self.numbers.as_slice()) + lengths.sum::<usize>()
    }

    /// Adds a chunk; one without sequences is left out.
    fn add(&mut self, number: ChunkId, listed: &[SequenceInfo], print: &mut Fingerprint) -> Result<()> {
        let sequences = u32::try_from(listed.len()).map_err(|_| {
            wrong(format!("Chunk {number} of the user's deserializer has too many sequences."))
        })?;
        if sequences == 0 {
            return Ok(());
        }
        let mut samples = 0;
        for sequence in listed {
            print.add(sequence.key);
            print.add(sequence.samples.into());
            samples += u64::from(sequence.samples);
        }
        let ones = listed.iter().all(|sequence| sequence.samples == 1);
        self.lengths.push((!ones).then(|| listed.iter().map(|sequence| sequence.samples).collect()));
        self.chunks.push(ChunkInfo { samples, sequences });
        self.numbers.push(number);
        Ok(())
    }
}

impl ChunkTable for OnDemandDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        match self.lengths.get(chunk as usize) {
            Some(Some(lengths)) => Lengths::Each(lengths),
            _ => Lengths::Ones,
        }
    }
}

impl Deserializer for OnDemandDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Keys come with the data, and with [`Deserializer::list`]; they are not kept.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|_| 0));
    }

    fn find(&self, _key: SequenceKey) -> Option<SequenceId> {
        None
    }

    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        let (number, first) = (self.numbers[chunk as usize], sequences.len());
        call(&format!("listing chunk {number}"), || self.user.list(number, sequences))?;
        let count = (sequences.len() - first) as u32;
        if self.is_primary && count != self.chunks[chunk as usize].sequences {
            let known = self.chunks[chunk as usize].sequences;
            return Err(wrong(format!(
                "Chunk {number} of the user's deserializer: it lists {count} sequences after {known} before."
            )));
        }
        Ok(())
    }

    fn partner(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        let found = call("looking for a sequence", || self.user.partner(of))?;
        let Some((id, samples)) = found else { return Ok(None) };
        match self.chunks.get(id.chunk as usize) {
            Some(chunk) if chunk.sequences == 0 || id.index < chunk.sequences => Ok(Some((id, samples))),
            _ => Err(wrong(format!(
                "The user's deserializer has less data for a key than the reader's first one: its chunk {} has no \
                 sequence {}.",
                id.chunk, id.index
            ))
            .for_key(of.key.to_string())),
        }
    }

    fn is_fetched(&self) -> bool {
        true
    }

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let Some(&number) = self.numbers.get(chunk as usize) else {
            return Err(Error::internal(format!("There is no chunk {chunk}.")));
        };
        let (user, streams, late) = (Arc::clone(&self.user), self.streams.len(), self.lists_when_loaded);
        let loaded = self.loader.run(move || {
            let chunk = call(&format!("loading chunk {number}"), || user.load(number))?;
            let mut lengths = Vec::new();
            if late {
                call(&format!("listing chunk {number}"), || chunk.list(&mut lengths))?;
            }
            Ok::<_, Error>(LoadedChunk { chunk: Some(chunk), streams, lengths, late })
        })??;
        Ok(Arc::new(loaded))
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: self.loader.held(), index: self.table_bytes() as u64 }
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn lists_when_loaded(&self) -> bool {
        self.lists_when_loaded
    }

    fn loader(&self) -> Option<&Loader> {
        Some(&self.loader)
    }
}

/// A chunk in memory. It is given back to the user by whoever has it last.
struct LoadedChunk {
    /// Always there until it is dropped.
    chunk: Option<Box<dyn OnDemandChunk>>,
    streams: usize,
    lengths: Vec<u32>,
    late: bool,
}

impl Drop for LoadedChunk {
    fn drop(&mut self) {
        let chunk = self.chunk.take();
        match exit::enter() {
            Some(_inside) => drop(chunk),
            // The process ends: what the user would do with it may be gone.
            None => std::mem::forget(chunk),
        }
    }
}

impl Chunk for LoadedChunk {
    /// Nothing is ready; what was fetched is looked up there.
    fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
        Loaded::Invalid
    }

    fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        let chunk = self.chunk.as_ref().ok_or_else(|| Error::internal("The chunk was given back."))?;
        parts.add(first, self.streams, |used| call("fetching a sequence", || chunk.fetch(index, used)))
    }

    fn listing(&self) -> Option<Listing<'_>> {
        self.late
            .then(|| Listing { sequences: self.lengths.len() as u32, lengths: Lengths::Each(&self.lengths) })
    }
}
