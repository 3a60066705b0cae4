//! Chunks of user-defined deserializers.

use super::failure::cntk_reader_failure;
use super::sized::Sized;
use super::user_data::{cntk_reader_user_stream_data, list, optional, sequence_count, wrong};
use super::user_deserializer::{DeserializerTable, missing};
use super::user_sequence::{Fetched, cntk_reader_user_sequence};
use cntk_reader_core::Result;
use cntk_reader_core::format::fetch::FetchedData;
use cntk_reader_core::format::user::{Keys, SequenceSource, Sequences, StreamData, UserChunk};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::exit;
use cntk_reader_core::sequence::ChunkId;
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A loaded chunk. Everything it points to must stay valid, and values and indices unchanged, until
/// the chunk is released.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_chunk {
    /// sizeof(cntk_reader_user_chunk), set by the library. All other members except
    /// `sequence_count` are zero when the callback is called.
    pub struct_size: usize,
    /// Identifies the chunk in later callbacks.
    pub handle: *mut c_void,
    /// The arrays of each stream, by stream number, all with the same number of sequences. They are
    /// read in place, without a copy. NULL if `fetch_sequence` is set.
    pub streams: *const cntk_reader_user_stream_data,
    /// Number of streams in `streams`.
    pub stream_count: usize,
    /// Number of sequences. Its initial value is CNTK_READER_UNKNOWN. Required if sequences are
    /// fetched and `list_sequences` is not used; otherwise optional, and if set, checked against
    /// the arrays.
    pub sequence_count: u64,
    /// The length of each sequence in samples, if sequences are fetched and `list_sequences` is not
    /// used. NULL: all have one sample. Must be NULL with arrays, which have their own lengths.
    pub lengths: *const u32,
    /// The key of each sequence, if `list_sequences` is not used; requires `sequence_count`. NULL:
    /// chunk * 2^32 + index.
    pub keys: *const u64,
}

/// Initial value of `sequence_count`: CNTK_READER_UNKNOWN.
const NOT_SET: u64 = u64::MAX;

impl Default for cntk_reader_user_chunk {
    fn default() -> Self {
        cntk_reader_user_chunk {
            struct_size: size_of::<Self>(),
            handle: null_mut(),
            streams: null(),
            stream_count: 0,
            sequence_count: NOT_SET,
            lengths: null(),
            keys: null(),
        }
    }
}

// SAFETY: `repr(C)`, and the first member is the size. The others are integers and pointers, for
// which any bits are valid.
unsafe impl Sized for cntk_reader_user_chunk {
    const NAME: &'static str = "cntk_reader_user_chunk";
}

/// A loaded chunk; dropping it calls release_chunk.
struct HeldChunk {
    table: Arc<DeserializerTable>,
    handle: *mut c_void,
}

// SAFETY: the handle is only passed back to callbacks of its own table. The header allows
// release_chunk on any thread, and the engine loads on one thread at a time unless the table is
// thread-safe.
unsafe impl Send for HeldChunk {}
// SAFETY: a shared reference is only used to fetch sequences, which the header allows on several
// threads at once if the configuration sets `multiThreadedDeserialization`, and the engine does on
// one thread otherwise.
unsafe impl Sync for HeldChunk {}

impl Drop for HeldChunk {
    fn drop(&mut self) {
        if let Some(release) = self.table.callbacks.release_chunk {
            // SAFETY: the table's own callback with its own userdata; load_chunk wrote the handle,
            // and `drop`, the only place that releases it, runs once.
            exit::foreign(|| unsafe { release(self.table.callbacks.userdata, self.handle) });
        }
    }
}

impl DeserializerTable {
    /// Loads a chunk.
    pub(super) fn load_chunk(self: &Arc<DeserializerTable>, chunk: ChunkId) -> Result<UserChunk> {
        let callbacks = &self.callbacks;
        let load = callbacks.load_chunk.ok_or_else(|| missing("load_chunk", "it loads the chunks"))?;
        let (mut loaded, mut failure) = (cntk_reader_user_chunk::default(), cntk_reader_failure::default());
        // SAFETY: the table's own callback with its own userdata; both outputs are local variables.
        let status =
            exit::foreign(|| unsafe { load(callbacks.userdata, chunk, &raw mut loaded, &raw mut failure) });
        failure.check(&format!("load_chunk of chunk {chunk}"), status)?;
        // From here on the chunk is released even if it is invalid.
        let held = HeldChunk { table: Arc::clone(self), handle: loaded.handle };
        let chunk_of = || format!("Chunk {chunk} of the user's deserializer: ");
        self.to_chunk(&loaded, held).map_err(|error| error.before(&chunk_of()))
    }

    fn to_chunk(&self, loaded: &cntk_reader_user_chunk, held: HeldChunk) -> Result<UserChunk> {
        let count = match loaded.sequence_count {
            NOT_SET => None,
            count => Some(sequence_count(count)?),
        };
        let known = count.unwrap_or(0) as usize;
        // SAFETY: NULL or `sequence_count` readable numbers, as the header requires until the chunk
        // is released, and `held` is not dropped before this function ends.
        let (keys, lengths) =
            unsafe { (optional(loaded.keys, known, "keys")?, optional(loaded.lengths, known, "lengths")?) };
        if count.is_none() && (keys.is_some() || lengths.is_some()) {
            return Err(wrong("There are `keys` or `lengths`, but `sequence_count` does not say how many."));
        }
        let keys = match keys {
            None => Keys::Ordinal,
            Some(keys) if self.knows_corpus => Keys::OfCorpus(room::copy(keys, room::KEYS)?),
            Some(keys) => Keys::Numbers(room::copy(keys, room::KEYS)?),
        };
        let is_fetched = self.callbacks.fetch_sequence.is_some();
        match (is_fetched, loaded.streams.is_null()) {
            (true, true) => {
                let lengths = lengths.map(|lengths| room::copy(lengths, room::INDEX)).transpose()?;
                let listed = count.map(|count| Sequences { count, lengths, keys, ..Sequences::default() });
                Ok(UserChunk::source(Box::new(FetchedChunk {
                    held,
                    listed,
                    is_list_expected: self.is_list_expected,
                })))
            }
            (true, false) => Err(wrong(
                "load_chunk returned arrays, but fetch_sequence is set: leave `streams` or fetch_sequence NULL.",
            )),
            (false, true) => Err(wrong(
                "load_chunk returned no arrays, and fetch_sequence is not set: set `streams` or fetch_sequence.",
            )),
            (false, false) if lengths.is_some() => {
                Err(wrong("load_chunk set `lengths`, but arrays have their own lengths: leave it NULL."))
            }
            (false, false) => {
                let owner: Arc<dyn Send + Sync> = Arc::new(held);
                // SAFETY: everything is readable and unchanged until the chunk is released, as the
                // header requires; `held`, which releases it, is inside the owner.
                let streams = unsafe { self.to_arrays(loaded, &owner) }?;
                Ok(UserChunk::arrays_with_keys(streams, keys).with_count(count))
            }
        }
    }

    /// Converts the arrays of a chunk for the engine.
    ///
    /// # Safety
    /// `loaded.streams` and everything that it points to are readable and unchanged until `owner`
    /// is dropped.
    unsafe fn to_arrays(
        &self,
        loaded: &cntk_reader_user_chunk,
        owner: &Arc<dyn Send + Sync>,
    ) -> Result<Vec<StreamData>> {
        // SAFETY: `stream_count` readable elements by this function's contract.
        let streams = unsafe { list(loaded.streams, loaded.stream_count, "streams") }?;
        if streams.len() != self.streams.len() {
            let message =
                format!("it has arrays of {} streams instead of {}.", streams.len(), self.streams.len());
            return Err(wrong(message));
        }
        let mut data = Vec::with_capacity(streams.len());
        for (info, stream) in self.streams.iter().zip(streams) {
            // SAFETY: an element of `streams`, readable with everything that it points to, by this
            // function's contract.
            let stream = unsafe { stream.to_stream_data(info.storage, owner) };
            data.push(stream.map_err(|error| error.in_stream(&info.name))?);
        }
        Ok(data)
    }
}

/// A chunk whose sequences are fetched one at a time.
struct FetchedChunk {
    held: HeldChunk,
    /// Its sequences, if load_chunk listed them.
    listed: Option<Sequences>,
    is_list_expected: bool,
}

impl SequenceSource for FetchedChunk {
    fn fetch(&self, index: u32, used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>> {
        let table = &self.held.table;
        let callbacks = &table.callbacks;
        let fetch =
            callbacks.fetch_sequence.ok_or_else(|| missing("fetch_sequence", "sequences are fetched"))?;
        let (mut fetched, mut failure) =
            (cntk_reader_user_sequence::default(), cntk_reader_failure::default());
        // SAFETY: the table's own callback with its own userdata, and a handle that its load_chunk
        // returned and that `held` has not released; both outputs are local variables.
        let status = exit::foreign(|| unsafe {
            fetch(callbacks.userdata, self.held.handle, index, &raw mut fetched, &raw mut failure)
        });
        failure.check("fetch_sequence", status)?;
        let mut data = Fetched::of(table, used);
        data.take(fetched);
        Ok(data)
    }

    fn sequences(&self) -> Result<Option<Sequences>> {
        if self.listed.is_none() {
            return Err(wrong(match self.is_list_expected {
                true => {
                    "The configuration sets `composable = false`, so list_sequences is not used, and load_chunk \
                         has not set `sequence_count`, which is required then."
                }
                false => {
                    "list_sequences is not set, and load_chunk has not set `sequence_count`: one of them is required."
                }
            }));
        }
        self.listed.as_ref().map(Sequences::copied).transpose()
    }
}
