//! CNTK text format (CTF).

pub mod index;

use crate::Result;
use crate::config::options::TextOptions;
use crate::corpus::Corpus;
use crate::deserialize::{Chunk, ChunkInfo, Deserializer, Lengths};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::stream::StreamInfo;
use index::Index;
use std::sync::Arc;

/// The deserializer of a text file.
pub struct TextDeserializer {
    streams: Vec<StreamInfo>,
    index: Index,
}

impl TextDeserializer {
    /// Opens and indexes the file. Runs on a thread of the library's pool.
    pub fn open(_options: &TextOptions, _corpus: &Arc<Corpus>) -> Result<Self> {
        Ok(TextDeserializer { streams: Vec::new(), index: Index::default() })
    }
}

impl Deserializer for TextDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }
    fn chunks(&self) -> &[ChunkInfo] {
        self.index.chunks()
    }
    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.index.lengths(chunk)
    }
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|&sequence| self.index.key(sequence)));
    }
    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.index.find(key)
    }
    fn load(&self, _chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        Err(crate::Error::internal("not written yet"))
    }
    fn fingerprint(&self) -> u64 {
        self.index.fingerprint()
    }
}
