//! Chunks that users' deserializers have loaded.

use super::failure::cntk_reader_failure;
use super::sized::Sized;
use super::user_data::{cntk_reader_user_stream_data, list, optional, sequence_count, wrong};
use super::user_deserializer::{Table, missing};
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

/// A chunk that was loaded. What it points to stays valid, and values and indices unchanged, until the chunk is released.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_chunk {
    /// sizeof(cntk_reader_user_chunk), set by the library; all else but `sequence_count` is zero when the callback gets it.
    pub struct_size: usize,
    /// The chunk for later callbacks.
    pub handle: *mut c_void,
    /// The arrays of all streams, by number; each with the same number of sequences. They are read where they lie. NULL if
    /// fetch_sequence is set.
    pub streams: *const cntk_reader_user_stream_data,
    /// Number of streams in `streams`.
    pub stream_count: usize,
    /// Number of sequences; CNTK_READER_UNKNOWN when the callback gets it. Needed where sequences are fetched and
    /// list_sequences does not count; else it may stay as it is, and is compared with that of the arrays if it does not.
    pub sequence_count: u64,
    /// The length of each sequence in samples, where sequences are fetched and list_sequences does not count. NULL: all are
    /// one sample long. Arrays have lengths of their own.
    pub lengths: *const u32,
    /// The key of each sequence, where list_sequences does not count; needs `sequence_count`. NULL: chunk * 2^32 + index.
    pub keys: *const u64,
}

/// `sequence_count` where it was not set: CNTK_READER_UNKNOWN.
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

// SAFETY: every member is an integer or a pointer, for which any bytes are a value; the first one is the size.
unsafe impl Sized for cntk_reader_user_chunk {
    const NAME: &'static str = "cntk_reader_user_chunk";
}

/// A chunk that has to be released.
struct Held {
    table: Arc<Table>,
    handle: *mut c_void,
}

// SAFETY: the library only passes the handle back to callbacks of the table that it came from, and those may be called
// from any thread by the header; `Table` sees to it that it is one thread at a time where the table is not thread safe.
unsafe impl Send for Held {}
// SAFETY: a shared reference is used for nothing but fetching, which the header allows from several threads at once if
// the configuration says `multiThreadedDeserialization`, and from one otherwise.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.table.callbacks.release_chunk {
            // SAFETY: the table's own callback with its own userdata; the handle is what load_chunk wrote, and `drop`, the
            // only place that releases it, runs once.
            exit::foreign(|| unsafe { release(self.table.callbacks.userdata, self.handle) });
        }
    }
}

impl Table {
    /// Has a chunk loaded.
    pub(super) fn load_chunk(self: &Arc<Table>, chunk: ChunkId) -> Result<UserChunk> {
        let callbacks = &self.callbacks;
        let load = callbacks.load_chunk.ok_or_else(|| missing("load_chunk", "it loads the chunks"))?;
        let (mut loaded, mut failure) = (cntk_reader_user_chunk::default(), cntk_reader_failure::default());
        // SAFETY: the table's own callback with its own userdata; both outputs are variables of this function.
        let status =
            exit::foreign(|| unsafe { load(callbacks.userdata, chunk, &raw mut loaded, &raw mut failure) });
        failure.check(&format!("load_chunk of chunk {chunk}"), status)?;
        // From here on the chunk is released, whatever is wrong with it.
        let held = Held { table: Arc::clone(self), handle: loaded.handle };
        let chunk_of = || format!("Chunk {chunk} of the user's deserializer: ");
        self.to_chunk(&loaded, held).map_err(|error| error.before(&chunk_of()))
    }

    fn to_chunk(&self, loaded: &cntk_reader_user_chunk, held: Held) -> Result<UserChunk> {
        let count = match loaded.sequence_count {
            NOT_SET => None,
            count => Some(sequence_count(count)?),
        };
        let known = count.unwrap_or(0) as usize;
        // SAFETY: NULL or `sequence_count` readable numbers, as the header demands until the chunk is released, and `held`
        // is not dropped before this function ends.
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
                Ok(UserChunk::source(Box::new(Source {
                    held,
                    listed,
                    is_list_expected: self.is_list_expected,
                })))
            }
            (true, false) => Err(wrong(
                "load_chunk has given arrays, but fetch_sequence is set: leave `streams` NULL, or fetch_sequence.",
            )),
            (false, true) => Err(wrong(
                "load_chunk has given no arrays, and fetch_sequence is not set: `streams` or fetch_sequence is needed.",
            )),
            (false, false) if lengths.is_some() => Err(wrong(
                "load_chunk has given `lengths` beside arrays, which have lengths of their own: leave it NULL.",
            )),
            (false, false) => {
                let owner: Arc<dyn Send + Sync> = Arc::new(held);
                // SAFETY: all of it is readable and unchanged until the chunk is released, as the header demands; `held`,
                // which releases it, is inside the owner.
                let streams = unsafe { self.to_arrays(loaded, &owner) }?;
                Ok(UserChunk::arrays_with_keys(streams, keys).with_count(count))
            }
        }
    }

    /// The arrays of a chunk as the engine takes them.
    ///
    /// # Safety
    /// `loaded.streams` and all that it leads to are readable and do not change until `owner` is dropped.
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
            // SAFETY: an element of `streams`, with all that it leads to.
            let stream = unsafe { stream.to_stream_data(info.storage, owner) };
            data.push(stream.map_err(|error| error.in_stream(&info.name))?);
        }
        Ok(data)
    }
}

/// A chunk whose sequences are fetched.
struct Source {
    held: Held,
    /// Its sequences, if load_chunk has given them.
    listed: Option<Sequences>,
    is_list_expected: bool,
}

impl SequenceSource for Source {
    fn fetch(&self, index: u32, used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>> {
        let table = &self.held.table;
        let callbacks = &table.callbacks;
        let fetch =
            callbacks.fetch_sequence.ok_or_else(|| missing("fetch_sequence", "sequences are fetched"))?;
        let (mut fetched, mut failure) =
            (cntk_reader_user_sequence::default(), cntk_reader_failure::default());
        // SAFETY: the table's own callback with its own userdata, and a handle of its load_chunk that is released after
        // this, when `held` is dropped; both outputs are variables of this function.
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
                    "The configuration says `composable = false`, so that list_sequences does not count, and load_chunk \
                         has not set `sequence_count`, which is needed then."
                }
                false => {
                    "list_sequences is not set, and load_chunk has not set `sequence_count`: one of them is needed."
                }
            }));
        }
        self.listed.as_ref().map(Sequences::copied).transpose()
    }
}
