//! Formats of users' own: the table of callbacks.

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

/// Lists the sequences of a chunk, which need not be loaded. Returns 0, or another number if it fails.
pub type cntk_reader_list_sequences = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        chunk: u32,
        sequences: *mut cntk_reader_user_sequences,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Looks for the sequence that belongs to `of`, one of the reader's first deserializer: if there is one, writes its chunk,
/// index and length to `sequence`, and 1 to `found`. Returns 0, or another number if it fails.
pub type cntk_reader_find_sequence = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        of: *const cntk_reader_sequence_info,
        sequence: *mut cntk_reader_sequence_info,
        found: *mut u32,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Loads a chunk. Returns 0, or another number if it fails.
pub type cntk_reader_load_chunk = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        chunk: u32,
        loaded: *mut cntk_reader_user_chunk,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Fetches a sequence of a loaded chunk; `index` is its place among the chunk's sequences. Returns 0, or another number if
/// it fails.
pub type cntk_reader_fetch_sequence = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        chunk: *mut c_void,
        index: u32,
        sequence: *mut cntk_reader_user_sequence,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Makes the data of a fetched sequence ready and describes them: `streams` has one struct for each stream. `position` is
/// that of the sequence in its minibatch; invalid sequences have none and are not prepared. All pointers that are written
/// stay valid until the sequence is released. Returns 0, or another number if it fails.
pub type cntk_reader_prepare_sequence = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        sequence: *mut c_void,
        position: u32,
        streams: *mut cntk_reader_user_sequence_data,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Releases a chunk or a sequence: called once with the handle of each one, whatever becomes of it.
pub type cntk_reader_release_handle =
    Option<unsafe extern "C-unwind" fn(userdata: *mut c_void, handle: *mut c_void)>;

/// Size of a chunk of a user's deserializer. Zeros: not known.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_chunk_size {
    /// Samples of all its sequences.
    pub samples: u64,
    /// Number of its sequences.
    pub sequences: u64,
}

/// A format of the user's own. Initialize with zeros and set `struct_size`, the streams, `chunk_count` and load_chunk. The
/// other callbacks decide what the reader can do with it:
///
/// - list_sequences: sequences are known beforehand, which gives the full randomizer, one timeline for all workers and
///   CNTK's state key "minibatchSourcePosition". Without, chunks list their sequences when they are loaded: every worker
///   has a timeline of its own, windows do not overlap, and the state has other keys, all as with CNTK's user-defined
///   deserializers. `composable = false` in the configuration has the same effect.
/// - find_sequence: where the deserializer is not the reader's first, it finds its sequences by those of the first one.
///   Without, they are found by key, among those that list_sequences lists.
/// - fetch_sequence with prepare_sequence: a loaded chunk gives one sequence at a time, when a minibatch needs it, and no
///   minibatch is assembled ahead. Without, load_chunk gives arrays.
///
/// Threads: list_sequences and find_sequence are called by the thread that opens the reader, before that call returns.
/// load_chunk and, for chunks of arrays, release_chunk are called by one thread of the library's, one at a time; with
/// `thread_safe` by several. Sequences are fetched and prepared by the thread that reads, or by several at once if the
/// configuration says `multiThreadedDeserialization`; they, and their chunk after all of them, are released by any thread.
/// Callbacks must not throw, but they may use other readers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_deserializer {
    /// sizeof(cntk_reader_user_deserializer).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// The name that the configuration has for it, UTF-8: the `type` of an element of `deserializers`. May be NULL if
    /// there is only one. Not looked at in a table that a factory makes.
    pub name: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub name_length: usize,
    /// The streams, at least one. A shape of one dimension CNTK_READER_UNKNOWN_DIMENSION comes with the first sequence that is
    /// fetched, and is that of all others. Copied when the reader is opened.
    pub streams: *const cntk_reader_user_stream,
    /// Their number.
    pub stream_count: usize,
    /// Sizes of the chunks, for the check that what find_sequence gives exists; NULL if they are not known. Copied.
    pub chunk_sizes: *const cntk_reader_chunk_size,
    /// Number of chunks, at least 1.
    pub chunk_count: u32,
    /// 1 if several threads may load and release chunks at once, else 0.
    pub thread_safe: u32,
    /// Lists the sequences of a chunk before it is loaded; may be NULL.
    pub list_sequences: cntk_reader_list_sequences,
    /// Finds sequences by those of the reader's first deserializer; may be NULL.
    pub find_sequence: cntk_reader_find_sequence,
    /// Loads a chunk. Must be set.
    pub load_chunk: cntk_reader_load_chunk,
    /// Releases a chunk; may be NULL.
    pub release_chunk: cntk_reader_release_handle,
    /// Fetches a sequence; may be NULL. Needs prepare_sequence.
    pub fetch_sequence: cntk_reader_fetch_sequence,
    /// Makes the data of a fetched sequence ready. Needs fetch_sequence.
    pub prepare_sequence: cntk_reader_prepare_sequence,
    /// Releases a sequence; may be NULL. Needs fetch_sequence.
    pub release_sequence: cntk_reader_release_handle,
    /// Called once when all chunks and sequences were released, at the latest when the reader is freed; may be NULL. If
    /// opening the reader fails, it is called for tables that a factory has made, and not for others.
    pub finalizer: cntk_reader_finalizer,
}

// SAFETY: every member is an integer, a pointer or a nullable function pointer, for all of which zero bytes are a value
// (no callback); other bytes of a callback come from the user's C compiler. The first member is the size.
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

/// A table, with what it points to copied.
pub(crate) struct Table {
    pub(crate) callbacks: cntk_reader_user_deserializer,
    pub(crate) streams: Vec<StreamInfo>,
    /// What a sequence needs of them.
    pub(crate) kinds: Vec<(Storage, ElementType)>,
    chunk_sizes: Vec<ChunkInfo>,
    /// Its keys as numbers are those of the reader's corpus, which its factory was given.
    pub(crate) knows_corpus: bool,
    /// There is a list_sequences: messages say why it does not count.
    pub(crate) is_list_expected: bool,
    /// The userdata is the library's to give up.
    is_owned: AtomicBool,
}

// SAFETY: the members that are no plain Rust data are callbacks and pointers of the user's. The pointers are not read after
// `Table::new`, which copies what they lead to; the callbacks are called with the userdata, from the threads that the
// header names and no more at once than it says: the engine asks `loads_in_parallel` before it loads on several threads.
unsafe impl Send for Table {}
// SAFETY: as above; calling callbacks is all that a shared reference is used for.
unsafe impl Sync for Table {}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(finalizer) = self.callbacks.finalizer
            && *self.is_owned.get_mut()
        {
            // SAFETY: the table's own callback with its own userdata. Every chunk and sequence has a reference to this
            // table, so that all of them were released; `drop` runs once.
            exit::foreign(|| unsafe { finalizer(self.callbacks.userdata) });
        }
    }
}

/// The error of a callback that is needed.
pub(crate) fn missing(callback: &str, why: &str) -> Error {
    Error::argument(format!("The callback {callback} must not be NULL: {why}."))
}

impl Table {
    /// Copies a table and checks that its callbacks fit together. If it is `owned`, its finalizer is called whatever
    /// happens.
    ///
    /// # Safety
    /// `streams` has `stream_count` readable elements, each with a name and a shape as they say; `chunk_sizes` is NULL or has
    /// `chunk_count`. The callbacks do what the header says.
    pub(crate) unsafe fn new(
        callbacks: cntk_reader_user_deserializer,
        knows_corpus: bool,
        owned: bool,
    ) -> Result<Table> {
        let mut table = Table {
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
        // SAFETY: as many readable elements as the counts say, by this function's contract.
        let (streams, sizes) = unsafe {
            (
                inputs(callbacks.streams, callbacks.stream_count, "streams")?,
                inputs(callbacks.chunk_sizes, size_count as usize, "chunk_sizes")?,
            )
        };
        // SAFETY: an element of `streams`, whose name and shape are readable by this function's contract.
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

    /// Refuses callbacks that do not fit together.
    fn check_callbacks(&self) -> Result<()> {
        let callbacks = &self.callbacks;
        if callbacks.load_chunk.is_none() {
            return Err(missing("load_chunk", "it loads the chunks"));
        }
        let contradiction = |message: &str| Err(Error::argument(message));
        match (callbacks.fetch_sequence, callbacks.prepare_sequence, callbacks.release_sequence) {
            (Some(_), None, _) => contradiction(
                "fetch_sequence is set but prepare_sequence is not: a sequence that was fetched is described by \
                 prepare_sequence.",
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

    /// Refuses a table whose sequences cannot be found in a joined reader.
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
pub(crate) struct User(pub(super) Arc<Table>);

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
        let Table { callbacks, knows_corpus, .. } = &*self.0;
        let Some(list) = callbacks.list_sequences else {
            return match callbacks.find_sequence {
                None => Ok(None),
                // The engine asks for lists of a deserializer that finds sequences only where it needs them.
                Some(_) => Err(Error::argument(
                    "list_sequences is not set, but find_sequence is: that is for deserializers that are not the \
                     reader's first; the first one has to list its sequences.",
                )),
            };
        };
        let (mut sequences, mut failure) =
            (cntk_reader_user_sequences::default(), cntk_reader_failure::default());
        // SAFETY: the table's own callback with its own userdata; both outputs are variables of this function.
        let status = exit::foreign(|| unsafe {
            list(callbacks.userdata, chunk, &raw mut sequences, &raw mut failure)
        });
        failure.check(&format!("list_sequences of chunk {chunk}"), status)?;
        // SAFETY: the header demands that what the callback wrote is valid until the next callback, and none is called
        // before the lists are copied.
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
        // SAFETY: the table's own callback with its own userdata; the other pointers lead to variables of this function.
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

/// The tables that a reader is opened with.
pub(crate) struct Users {
    registered: Vec<Registered>,
    tables: Vec<Arc<Table>>,
}

impl Users {
    /// Copies and checks tables, and asks each for its first list of sequences.
    ///
    /// # Safety
    /// Each table is NULL, or as the header demands it.
    pub(crate) unsafe fn read(tables: &[*const cntk_reader_user_deserializer]) -> Result<Users> {
        let mut read = Users { registered: Vec::new(), tables: Vec::new() };
        for &table in tables {
            // SAFETY: NULL, which `input` refuses, or a table with a size, a name and lists as its members say, by this
            // function's contract.
            let (name, table) = unsafe {
                input(table, "deserializers")?;
                let table = sized::read(table, NO_TABLE)?;
                let name = match table.name.is_null() {
                    true => "",
                    false => text::utf8(table.name, table.name_length, "name")?,
                };
                (name.to_owned(), Arc::new(Table::new(table, false, false)?))
            };
            if read.registered.iter().any(|other| other.name() == name) {
                return Err(Error::argument(format!("Two deserializers have the name '{name}'.")));
            }
            read.registered.push(Registered::new(name, Arc::new(User(Arc::clone(&table))))?);
            read.tables.push(table);
        }
        Ok(read)
    }

    /// The deserializers, for the engine.
    pub(crate) fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// The deserializers, for the configuration.
    pub(crate) fn types(&self) -> Vec<UserType<'_>> {
        let types = self.registered.iter();
        types.map(|one| UserType { name: one.name(), composable: one.is_composable() }).collect()
    }

    /// The reader is open: from now on the finalizers are the library's to call.
    pub(crate) fn take_userdata(&self) {
        self.tables.iter().for_each(|table| table.is_owned.store(true, Ordering::Relaxed));
    }
}
