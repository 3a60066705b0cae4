//! A user-defined deserializer with large arrays. Its own memory does not fail.

use crate::exempt;
use cntk_reader::Result;
use cntk_reader_core::format::user::{
    Buffer, DenseArray, Keys, Sequences, SparseArray, StreamData, UserChunk, UserDeserializer,
};
use cntk_reader_core::stream::StreamInfo;
use std::sync::Arc;

/// Chunks, and sequences of each.
const CHUNKS: u32 = 2;
const SEQUENCES: u32 = 18_000;

/// The information available before a chunk is loaded.
#[derive(Clone, Copy, PartialEq)]
pub enum Knows {
    /// Lengths and textual keys.
    Keys,
    /// Only the number of chunks. Keys are numbers: textual keys would be numbered in loading
    /// order, which differs after a failure.
    Nothing,
}

/// Sequences of one or two samples in a dense stream, whose values have to be gathered, and in a
/// sparse one with wide indices.
#[derive(Clone)]
pub struct Arrays {
    streams: Vec<StreamInfo>,
    knows: Knows,
    lengths: Arc<[u32]>,
    values: Arc<[f32]>,
    indices: Arc<[i64]>,
    offsets: Arc<[i64]>,
}

impl Arrays {
    /// Creates streams whose names begin with `name`.
    pub fn new(name: &str, knows: Knows) -> Arrays {
        let lengths: Arc<[u32]> = (0..SEQUENCES).map(|number| 1 + number % 2).collect();
        let samples = lengths.iter().sum::<u32>() as usize;
        Arrays {
            streams: vec![
                StreamInfo::dense(format!("{name} dense"), &[2]),
                StreamInfo::sparse(format!("{name} sparse"), &[10]),
            ],
            knows,
            lengths,
            values: (0..2 * samples).map(|number| (number % 97) as f32).collect(),
            indices: (0..samples).map(|number| (number % 10) as i64).collect(),
            offsets: (0..=samples).map(|number| number as i64).collect(),
        }
    }

    pub fn is_listed(&self) -> bool {
        self.knows == Knows::Keys
    }

    /// Returns keys that do not ascend, so that they have to be sorted for lookups.
    fn keys(chunk: u32) -> impl Iterator<Item = u32> {
        (0..SEQUENCES).map(move |number| (chunk * SEQUENCES + number) * 7 % (CHUNKS * SEQUENCES))
    }
}

impl UserDeserializer for Arrays {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        CHUNKS
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        exempt(|| {
            let dense = DenseArray {
                values: Buffer::from(Arc::clone(&self.values)),
                offset: 4,
                samples: Some(self.offsets.len() - 1),
                shape: None,
                // From the second value of a sample back to the first one.
                strides: Some(vec![-4, 8]),
            };
            let sparse = SparseArray::new(
                Arc::clone(&self.values),
                Arc::clone(&self.indices),
                Arc::clone(&self.offsets),
            );
            let streams = vec![
                StreamData::Sequences(dense.into(), self.lengths.to_vec()),
                StreamData::Sequences(sparse.into(), self.lengths.to_vec()),
            ];
            Ok(match self.knows {
                Knows::Keys => UserChunk::arrays(streams),
                Knows::Nothing => {
                    let keys = Self::keys(chunk).map(u64::from).collect();
                    UserChunk::arrays_with_keys(streams, Keys::Numbers(keys))
                }
            })
        })
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        exempt(|| {
            let keys = || Keys::Texts(Self::keys(chunk).map(|key| format!("key-{key}")).collect());
            let listed = || Sequences::of_lengths(self.lengths.to_vec()).with_keys(keys());
            Ok(self.is_listed().then(listed))
        })
    }
}
