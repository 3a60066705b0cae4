//! User-defined deserializers: the table of callbacks.

use super::call::{input, inputs};
use super::failure::cntk_reader_failure;
use super::finalizer::cntk_reader_finalizer;
use super::sized::{self, Sized};
use super::text;
use super::user_chunk::cntk_reader_user_chunk;
use super::user_data::{cntk_reader_user_sequences, cntk_reader_user_stream, wrong};
use super::user_sequence::cntk_reader_sequence_info;
use super::user_sequence::{cntk_reader_user_sequence, cntk_reader_user_sequence_data};
use ::cntk_reader::language::UserType;
use cntk_reader_core::format::ChunkInfo;
use cntk_reader_core::format::user::{Registered, SequenceMatcher, Sequences, UserChunk, UserDeserializer};
use cntk_reader_core::runtime::exit;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceInfo};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lists the sequences of a chunk that need not be loaded. Returns 0, or a nonzero number on
/// failure.
pub type cntk_reader_list_sequences = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        chunk: u32,
        sequences: *mut cntk_reader_user_sequences,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Finds the sequence that belongs to `of`, a sequence of the reader's first deserializer. If there
/// is one, it writes the chunk, index and length to `sequence`, and 1 to `found`. Returns 0, or a
/// nonzero number on failure.
pub type cntk_reader_find_sequence = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        of: *const cntk_reader_sequence_info,
        sequence: *mut cntk_reader_sequence_info,
        found: *mut u32,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Loads a chunk. Returns 0, or a nonzero number on failure.
pub type cntk_reader_load_chunk = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        chunk: u32,
        loaded: *mut cntk_reader_user_chunk,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Fetches a sequence of a loaded chunk; `index` is its position among the chunk's sequences.
/// Returns 0, or a nonzero number on failure.
pub type cntk_reader_fetch_sequence = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        chunk: *mut c_void,
        index: u32,
        sequence: *mut cntk_reader_user_sequence,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Prepares and describes the data of a fetched sequence. `streams` has one struct for each stream.
/// `position` is the sequence's position in its minibatch; invalid sequences have none and are not
/// prepared. All pointers that it writes must stay valid until the sequence is released. Returns 0,
/// or a nonzero number on failure.
pub type cntk_reader_prepare_sequence = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        sequence: *mut c_void,
        position: u32,
        streams: *mut cntk_reader_user_sequence_data,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Releases a chunk or a sequence. Called once for each handle that a successful callback returned,
/// even if the data are invalid.
pub type cntk_reader_release_handle =
    Option<unsafe extern "C-unwind" fn(userdata: *mut c_void, handle: *mut c_void)>;

/// Size of a chunk of a user-defined deserializer. Zeros: unknown.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_chunk_size {
    /// Samples in all its sequences.
    pub samples: u64,
    /// Number of its sequences.
    pub sequences: u64,
}

/// A user-defined deserializer as a table of callbacks. Initialize with zeros and set
/// `struct_size`, `streams`, `stream_count`, `chunk_count` and `load_chunk`. The other callbacks
/// determine the features:
///
/// - `list_sequences`: sequences are known in advance, which enables the full randomizer, one
///   timeline for all workers and CNTK's state key "minibatchSourcePosition". Without it, chunks
///   list their sequences when they are loaded: every worker has its own timeline, windows do not
///   overlap, and the state has other keys, all as with CNTK's user-defined deserializers.
///   `composable = false` in the configuration has the same effect.
/// - `find_sequence`: in a deserializer that is not the reader's first, finds the sequence that
///   belongs to one of the first deserializer. Without it, sequences are matched by the keys that
///   `list_sequences` returned.
/// - `fetch_sequence` with `prepare_sequence`: a loaded chunk returns its sequences one at a time,
///   when a minibatch needs them, and no minibatch is assembled in advance. Without them,
///   `load_chunk` returns arrays.
///
/// Threads: `list_sequences` and `find_sequence` are called on the thread that opens the reader,
/// before that call returns. `load_chunk` and, for chunks of arrays, `release_chunk` are called on
/// the library's threads, one call at a time unless `thread_safe` is 1. Sequences are fetched and
/// prepared on the thread that reads, or on several at once if the configuration sets
/// `multiThreadedDeserialization`. Sequences, and after all of them their chunk, are released on
/// any thread. Callbacks must not throw. They may use other readers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_deserializer {
    /// sizeof(cntk_reader_user_deserializer).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// Name in the configuration, UTF-8: the `type` of an element of `deserializers`. May be NULL
    /// if there is only one deserializer. Ignored in a table that a factory fills in.
    pub name: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub name_length: usize,
    /// The streams, at least one. A shape whose only dimension is CNTK_READER_UNKNOWN_DIMENSION is
    /// taken from the first fetched sequence and must be the same in all others. Copied when the
    /// reader is opened.
    pub streams: *const cntk_reader_user_stream,
    /// Number of streams.
    pub stream_count: usize,
    /// Sizes of the chunks, for checking that the results of `find_sequence` exist; NULL if
    /// unknown. Copied.
    pub chunk_sizes: *const cntk_reader_chunk_size,
    /// Number of chunks, at least 1.
    pub chunk_count: u32,
    /// 1 if several threads may load and release chunks at once, else 0.
    pub thread_safe: u32,
    /// Lists the sequences of a chunk before it is loaded. May be NULL.
    pub list_sequences: cntk_reader_list_sequences,
    /// Finds the sequences that belong to those of the reader's first deserializer. May be NULL.
    pub find_sequence: cntk_reader_find_sequence,
    /// Loads a chunk. Must be set.
    pub load_chunk: cntk_reader_load_chunk,
    /// Releases a chunk. May be NULL.
    pub release_chunk: cntk_reader_release_handle,
    /// Fetches a sequence. May be NULL. Requires `prepare_sequence`.
    pub fetch_sequence: cntk_reader_fetch_sequence,
    /// Prepares the data of a fetched sequence. Requires `fetch_sequence`.
    pub prepare_sequence: cntk_reader_prepare_sequence,
    /// Releases a sequence. May be NULL. Requires `fetch_sequence`.
    pub release_sequence: cntk_reader_release_handle,
    /// Called once after all chunks and sequences are released, at the latest when the reader is
    /// freed. May be NULL. If opening the reader fails, it is called only for tables that a factory
    /// has filled in.
    pub finalizer: cntk_reader_finalizer,
}

// SAFETY: `repr(C)`, and the first member is the size. The others are integers, pointers and
// nullable function pointers, for all of which zero is valid; other bits of a function pointer come
// from the user's C compiler.
unsafe impl Sized for cntk_reader_user_deserializer {
    const NAME: &'static str = "cntk_reader_user_deserializer";
}

/// An empty table.
pub(crate) const NO_TABLE: cntk_reader_user_deserializer = cntk_reader_user_deserializer {
    struct_size: size_of::<cntk_reader_user_deserializer>(),
    userdata: null_mut(),
    name: null(),
    name_length: 0,
    streams: null(),
    stream_count: 0,
    chunk_sizes: null(),
    chunk_count: 0,
    thread_safe: 0,
    list_sequences: None,
    find_sequence: None,
    load_chunk: None,
    release_chunk: None,
    fetch_sequence: None,
    prepare_sequence: None,
    release_sequence: None,
    finalizer: None,
};

/// A table of callbacks, with copies of the lists that it points to.
pub(crate) struct DeserializerTable {
    pub(crate) callbacks: cntk_reader_user_deserializer,
    pub(crate) streams: Vec<StreamInfo>,
    /// Storage and element type of each stream.
    pub(crate) kinds: Vec<(Storage, ElementType)>,
    chunk_sizes: Vec<ChunkInfo>,
    /// Numeric keys are keys of the reader's corpus, which the factory received.
    pub(crate) knows_corpus: bool,
    /// `list_sequences` is set. Messages explain why it is not used.
    pub(crate) is_list_expected: bool,
    /// The library owns the userdata and calls the finalizer.
    is_owned: AtomicBool,
}

// SAFETY: the members that are not `Send` by themselves are the user's callbacks and pointers.
// `DeserializerTable::new` copies what the pointers lead to, and they are not read afterwards. The
// callbacks are called on the threads that the header names, and concurrently only as it allows:
// the engine checks `loads_in_parallel` before it loads on several threads.
unsafe impl Send for DeserializerTable {}
// SAFETY: as above; a shared reference is only used to call callbacks.
unsafe impl Sync for DeserializerTable {}

impl Drop for DeserializerTable {
    fn drop(&mut self) {
        if let Some(finalizer) = self.callbacks.finalizer
            && *self.is_owned.get_mut()
        {
            // SAFETY: the table's own callback with its own userdata. Every chunk and sequence has
            // a reference to this table, so all of them are released; `drop` runs once.
            exit::foreign(|| unsafe { finalizer(self.callbacks.userdata) });
        }
    }
}

/// The error for a required callback that is NULL.
pub(crate) fn missing(callback: &str, why: &str) -> Error {
    Error::argument(format!("The callback {callback} must not be NULL: {why}."))
}

impl DeserializerTable {
    /// Copies a table and checks that its callbacks fit together. If it is `owned`, its finalizer
    /// is called in any case.
    ///
    /// # Safety
    /// `streams` has `stream_count` readable elements with valid names and shapes. `chunk_sizes` is
    /// NULL or has `chunk_count` elements. The callbacks behave as the header requires.
    pub(crate) unsafe fn new(
        callbacks: cntk_reader_user_deserializer,
        knows_corpus: bool,
        owned: bool,
    ) -> Result<DeserializerTable> {
        let mut table = DeserializerTable {
            callbacks,
            streams: Vec::new(),
            kinds: Vec::new(),
            chunk_sizes: Vec::new(),
            knows_corpus,
            is_list_expected: callbacks.list_sequences.is_some(),
            is_owned: AtomicBool::new(owned),
        };
        table.check_callbacks()?;
        let size_count = if callbacks.chunk_sizes.is_null() { 0 } else { callbacks.chunk_count };
        // SAFETY: readable for these counts, by this function's contract.
        let (streams, sizes) = unsafe {
            (
                inputs(callbacks.streams, callbacks.stream_count, "streams")?,
                inputs(callbacks.chunk_sizes, size_count as usize, "chunk_sizes")?,
            )
        };
        // SAFETY: an element of `streams`, with a valid name and shape by this function's contract.
        table.streams = streams.iter().map(|stream| unsafe { stream.to_info() }).collect::<Result<_>>()?;
        table.kinds = table.streams.iter().map(|info| (info.storage, info.element)).collect();
        let size = |chunk: &cntk_reader_chunk_size| {
            let sequences = u32::try_from(chunk.sequences);
            let sequences = sequences.map_err(|_| wrong("A chunk has too many sequences."))?;
            Ok(ChunkInfo { samples: chunk.samples, sequences })
        };
        table.chunk_sizes = sizes.iter().map(size).collect::<Result<_>>()?;
        Ok(table)
    }

    /// Rejects callbacks that do not fit together.
    fn check_callbacks(&self) -> Result<()> {
        let callbacks = &self.callbacks;
        if callbacks.load_chunk.is_none() {
            return Err(missing("load_chunk", "it loads the chunks"));
        }
        let contradiction = |message: &str| Err(Error::argument(message));
        match (callbacks.fetch_sequence, callbacks.prepare_sequence, callbacks.release_sequence) {
            (Some(_), None, _) => contradiction(
                "fetch_sequence is set but prepare_sequence is not: prepare_sequence describes the sequences \
                 that were fetched.",
            ),
            (None, Some(_), _) => contradiction(
                "prepare_sequence is set but fetch_sequence is not: only sequences that were fetched are prepared.",
            ),
            (None, _, Some(_)) => contradiction(
                "release_sequence is set but fetch_sequence is not: only sequences that were fetched are released.",
            ),
            _ => Ok(()),
        }
    }

    /// Rejects a table whose sequences could not be found in a joined reader.
    pub(crate) fn check_joined(&self, is_primary: bool) -> Result<()> {
        let callbacks = &self.callbacks;
        match (callbacks.list_sequences, callbacks.find_sequence) {
            (None, None) if !is_primary => Err(Error::argument(
                "Neither list_sequences nor find_sequence is set: a deserializer that is not the reader's first needs \
                 list_sequences to be found by key, or find_sequence.",
            )),
            (None, _) if is_primary => Err(Error::argument(
                "list_sequences is not set: the reader's first deserializer has to list its sequences, or its section \
                 has to say `composable = false`, which has load_chunk list them.",
            )),
            _ => Ok(()),
        }
    }
}

/// The engine's view of a table.
pub(crate) struct User(pub(super) Arc<DeserializerTable>);

impl UserDeserializer for User {
    fn streams(&self) -> &[StreamInfo] {
        &self.0.streams
    }

    fn chunk_count(&self) -> u32 {
        self.0.callbacks.chunk_count
    }

    fn load(&self, chunk: ChunkId) -> Result<UserChunk> {
        self.0.load_chunk(chunk)
    }

    fn sequences(&self, chunk: ChunkId) -> Result<Option<Sequences>> {
        let DeserializerTable { callbacks, knows_corpus, .. } = &*self.0;
        let Some(list) = callbacks.list_sequences else {
            return match callbacks.find_sequence {
                None => Ok(None),
                // For a deserializer with `find_sequence`, the engine only asks for lists that it
                // needs.
                Some(_) => Err(Error::argument(
                    "list_sequences is not set, but find_sequence is: find_sequence is for deserializers that \
                     are not the reader's first; the first one has to list its sequences.",
                )),
            };
        };
        let (mut sequences, mut failure) =
            (cntk_reader_user_sequences::default(), cntk_reader_failure::default());
        // SAFETY: the table's own callback with its own userdata; both outputs are local variables.
        let status = exit::foreign(|| unsafe {
            list(callbacks.userdata, chunk, &raw mut sequences, &raw mut failure)
        });
        failure.check(&format!("list_sequences of chunk {chunk}"), status)?;
        // SAFETY: the header requires the lists to be valid until the next callback, and none is
        // called before they are copied.
        let sequences = unsafe { sequences.to_sequences(*knows_corpus) };
        let chunk_of = || format!("Chunk {chunk} of the user's deserializer: ");
        sequences.map(Some).map_err(|error| error.before(&chunk_of()))
    }

    fn matcher(&self) -> Option<&dyn SequenceMatcher> {
        self.0.callbacks.find_sequence.is_some().then_some(self)
    }

    fn fetches_sequences(&self) -> bool {
        self.0.callbacks.fetch_sequence.is_some()
    }

    fn loads_in_parallel(&self) -> bool {
        self.0.callbacks.thread_safe != 0
    }
}

impl SequenceMatcher for User {
    fn find(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        let callbacks = &self.0.callbacks;
        let find = callbacks
            .find_sequence
            .ok_or_else(|| missing("find_sequence", "it finds the sequences of a joined deserializer"))?;
        let of = cntk_reader_sequence_info {
            chunk: of.id.chunk,
            index: of.id.index,
            samples: of.samples,
            sample: of.sample,
            key: of.key,
        };
        let (mut sequence, mut found, mut failure) = (of, 0, cntk_reader_failure::default());
        // SAFETY: the table's own callback with its own userdata; the other pointers lead to local
        // variables.
        let status = exit::foreign(|| unsafe {
            find(callbacks.userdata, &raw const of, &raw mut sequence, &raw mut found, &raw mut failure)
        });
        failure.check("find_sequence", status)?;
        let id = SequenceId { chunk: sequence.chunk, index: sequence.index };
        Ok((found != 0).then_some((id, sequence.samples)))
    }

    fn chunk_size(&self, chunk: ChunkId) -> Option<ChunkInfo> {
        self.0.chunk_sizes.get(chunk as usize).copied()
    }
}

/// The tables of user-defined deserializers that a reader is opened with.
pub(crate) struct Users {
    registered: Vec<Registered>,
    tables: Vec<Arc<DeserializerTable>>,
}

impl Users {
    /// Copies and checks tables, and asks each for its first list of sequences.
    ///
    /// # Safety
    /// Each pointer is NULL or leads to a table as the header requires.
    pub(crate) unsafe fn read(tables: &[*const cntk_reader_user_deserializer]) -> Result<Users> {
        let mut read = Users { registered: Vec::new(), tables: Vec::new() };
        for &table in tables {
            // SAFETY: NULL, which `input` refuses, or a valid table, by this function's contract.
            let (name, table) = unsafe {
                input(table, "deserializers")?;
                let table = sized::read(table, NO_TABLE)?;
                let name = match table.name.is_null() {
                    true => "",
                    false => text::utf8(table.name, table.name_length, "name")?,
                };
                (name.to_owned(), Arc::new(DeserializerTable::new(table, false, false)?))
            };
            if read.registered.iter().any(|other| other.name() == name) {
                return Err(Error::argument(format!("Two deserializers have the name '{name}'.")));
            }
            read.registered.push(Registered::new(name, Arc::new(User(Arc::clone(&table))))?);
            read.tables.push(table);
        }
        Ok(read)
    }

    /// Returns the deserializers for the engine.
    pub(crate) fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// Returns the deserializers for the configuration.
    pub(crate) fn types(&self) -> Vec<UserType<'_>> {
        let types = self.registered.iter();
        types.map(|one| UserType { name: one.name(), composable: one.is_composable() }).collect()
    }

    /// Takes ownership of the userdata once the reader is open: the library calls the finalizers.
    pub(crate) fn take_userdata(&self) {
        self.tables.iter().for_each(|table| table.is_owned.store(true, Ordering::Relaxed));
    }
}
