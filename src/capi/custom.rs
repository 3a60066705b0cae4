//! Users' deserializers: tables of callbacks.

use super::call::{input, inputs};
use super::custom_data::{cntk_reader_sequences, cntk_reader_user_chunk, cntk_reader_user_stream, wrong};
use super::finalizer::{Userdata, cntk_reader_finalizer};
use super::sized::{self, Sized};
use super::text;
use crate::config::UserType;
use crate::deserialize::custom::{ChunkData, Composable, Registered, Sequences, Simple, UserDeserializer};
use crate::error::Cause;
use crate::sequence::ChunkId;
use crate::stream::StreamInfo;
use crate::{Error, Result};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a callback that fails says why: see cntk_reader_failure_set_message.
///
/// Threads: exclusive, during the callback only.
#[derive(Default)]
pub struct cntk_reader_failure {
    text: String,
    cause: Option<Cause>,
}

impl cntk_reader_failure {
    /// The error of a callback that returned `status`.
    #[inline]
    pub(super) fn check(self, callback: &str, status: i32) -> Result<()> {
        if status == 0 { Ok(()) } else { Err(self.error(callback, status)) }
    }

    #[cold]
    fn error(self, callback: &str, status: i32) -> Error {
        let error = match self.text.as_str() {
            "" => wrong(format!("The callback {callback} failed with status {status} and did not say why.")),
            text => wrong(text),
        };
        match self.cause {
            Some(cause) => error.caused_by(cause),
            None => error,
        }
    }
}

/// Says why a callback fails. The text (UTF-8; `length` bytes, or CNTK_READER_NUL_TERMINATED) is copied, and comes with
/// the error of the call that needed the callback, of kind CNTK_READER_STATUS_USER. The callback then returns a number
/// other than 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_failure_set_message(
    failure: *mut cntk_reader_failure,
    text: *const c_char,
    length: usize,
) {
    super::call::guard_silently(|| {
        // SAFETY: the caller's promises, as the header states them.
        let (failure, text) = unsafe { (failure.as_mut(), text::bytes(text, length, "text")) };
        if let (Some(failure), Ok(text)) = (failure, text) {
            failure.text = String::from_utf8_lossy(text).into_owned();
        }
    });
}

/// Adds to what cntk_reader_failure_set_message says an object that the error carries (cntk_reader_error_get_cause), such as an exception.
/// `finalizer`, which may be NULL, is called with it when it is not needed any more, by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_failure_set_cause(
    failure: *mut cntk_reader_failure,
    cause: *mut c_void,
    finalizer: cntk_reader_finalizer,
) {
    super::call::guard_silently(|| {
        let cause = Cause(Arc::new(Userdata::new(cause, finalizer)));
        // SAFETY: the caller's promise.
        if let Some(failure) = unsafe { failure.as_mut() } {
            failure.cause = Some(cause);
        }
    });
}

/// Tells the sequences of a chunk. Returns 0, or another number if it fails.
pub type cntk_reader_list_sequences = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        chunk: u32,
        sequences: *mut cntk_reader_sequences,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Loads a chunk. Returns 0, or another number if it fails.
pub type cntk_reader_get_chunk = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        chunk: u32,
        data: *mut cntk_reader_user_chunk,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Releases a chunk that was loaded: called once for each one, with its handle, whatever becomes of it.
pub type cntk_reader_release_chunk = Option<unsafe extern "C" fn(userdata: *mut c_void, handle: *mut c_void)>;

/// A user's deserializer. Initialize with zeros and set `struct_size`.
///
/// `sequences` is called by the thread that opens the reader. `get_chunk` and `release` are called by one thread of the
/// library's, never two of them at once; with `thread_safe` by several. They must not throw, but they may use other
/// readers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_deserializer {
    /// sizeof(cntk_reader_user_deserializer).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// The name that the configuration has for it, UTF-8: the `type` of an element of `deserializers`. May be NULL if
    /// there is only one.
    pub name: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub name_length: usize,
    /// The streams, at least one. Copied when the reader is opened.
    pub streams: *const cntk_reader_user_stream,
    /// Their number.
    pub stream_count: usize,
    /// Number of chunks, at least 1.
    pub chunk_count: u32,
    /// 1 if callbacks may be called from several threads at once, else 0.
    pub thread_safe: u32,
    /// Loads a chunk. Must be set.
    pub get_chunk: cntk_reader_get_chunk,
    /// Releases a chunk; may be NULL.
    pub release: cntk_reader_release_chunk,
    /// If it is set, the deserializer is composable: it tells the sequences of each chunk when the reader is opened,
    /// and gets the full randomizer, one timeline for all workers and CNTK's key "minibatchSourcePosition". Otherwise
    /// chunks tell their sequences when they are loaded, every worker has a timeline of its own, windows do not
    /// overlap, and the state has other keys, all as with CNTK's user-defined deserializers.
    pub sequences: cntk_reader_list_sequences,
    /// Called once when the reader is destroyed, after all chunks were released; may be NULL. Not called if opening
    /// the reader fails.
    pub finalizer: cntk_reader_finalizer,
}

// SAFETY: plain members, all of which may be zero; zero stands for no callback.
unsafe impl Sized for cntk_reader_user_deserializer {
    const NAME: &'static str = "cntk_reader_user_deserializer";
}

impl Default for cntk_reader_user_deserializer {
    fn default() -> Self {
        use std::ptr::{null, null_mut};
        cntk_reader_user_deserializer {
            struct_size: size_of::<Self>(),
            userdata: null_mut(),
            name: null(),
            name_length: 0,
            streams: null(),
            stream_count: 0,
            chunk_count: 0,
            thread_safe: 0,
            get_chunk: None,
            release: None,
            sequences: None,
            finalizer: None,
        }
    }
}

/// A table, checked.
struct Callbacks {
    table: cntk_reader_user_deserializer,
    streams: Vec<StreamInfo>,
    /// The reader was opened: from now on the userdata is the library's to give up.
    is_open: AtomicBool,
}

// SAFETY: the header demands callbacks that may be called from any thread, one at a time; that it is one at a time is
// the affair of the deserializer, which asks `is_thread_safe`.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Drop for Callbacks {
    fn drop(&mut self) {
        if let Some(finalizer) = self.table.finalizer
            && *self.is_open.get_mut()
        {
            // SAFETY: registered for this use, and this is the only and last one.
            unsafe { finalizer(self.table.userdata) };
        }
    }
}

/// A chunk that the user waits to get back.
struct Held {
    callbacks: Arc<Callbacks>,
    handle: *mut c_void,
}

// SAFETY: the handle is only passed back, from a thread that may call the callbacks.
unsafe impl Send for Held {}
// SAFETY: as above; nothing can be done through a reference.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(release) = self.callbacks.table.release {
            // SAFETY: registered for this use; the handle came from the user, and this is its only release.
            unsafe { release(self.callbacks.table.userdata, self.handle) };
        }
    }
}

/// The engine's view of a table.
#[derive(Clone)]
struct User(Arc<Callbacks>);

impl User {
    fn check(&self, what: &str, chunk: ChunkId, status: i32, failure: cntk_reader_failure) -> Result<()> {
        failure.check(&format!("{what} of chunk {chunk}"), status)
    }
}

impl Simple for User {
    fn streams(&self) -> Result<Vec<StreamInfo>> {
        Ok(self.0.streams.clone())
    }

    fn chunk_count(&self) -> Result<u32> {
        Ok(self.0.table.chunk_count)
    }

    fn load(&self, chunk: ChunkId) -> Result<ChunkData> {
        let table = &self.0.table;
        let get_chunk = table.get_chunk.ok_or_else(|| Error::internal("There is no callback."))?;
        let (mut data, mut failure) = (cntk_reader_user_chunk::default(), cntk_reader_failure::default());
        // SAFETY: registered for this use; both outputs live until it returns.
        let status = unsafe { get_chunk(table.userdata, chunk, &mut data, &mut failure) };
        self.check("get_chunk", chunk, status, failure)?;
        let held = Held { callbacks: Arc::clone(&self.0), handle: data.handle };
        let owner: Arc<dyn Send + Sync> = Arc::new(held);
        // SAFETY: the header demands that all of it is valid until the chunk is released, which the owner does.
        let data = unsafe { data.to_data(&self.0.streams, &owner) };
        data.map_err(|error| error.before(&format!("Chunk {chunk} of the user's deserializer: ")))
    }

    fn is_thread_safe(&self) -> bool {
        self.0.table.thread_safe != 0
    }
}

impl Composable for User {
    fn sequences(&self, chunk: ChunkId) -> Result<Sequences> {
        let table = &self.0.table;
        let list = table.sequences.ok_or_else(|| Error::internal("There is no callback."))?;
        let (mut sequences, mut failure) = (cntk_reader_sequences::default(), cntk_reader_failure::default());
        // SAFETY: registered for this use; both outputs live until it returns.
        let status = unsafe { list(table.userdata, chunk, &mut sequences, &mut failure) };
        self.check("sequences", chunk, status, failure)?;
        // SAFETY: the header demands valid lists, up to the next callback.
        let sequences = unsafe { sequences.to_sequences() };
        sequences.map_err(|error| error.before(&format!("Chunk {chunk} of the user's deserializer: ")))
    }
}

/// Reads a table.
///
/// # Safety
/// As the header states it.
unsafe fn register(table: *const cntk_reader_user_deserializer) -> Result<(Registered, Arc<Callbacks>)> {
    // SAFETY: the caller's promise.
    let (table, name, streams) = unsafe {
        let table = sized::read(table, cntk_reader_user_deserializer::default())?;
        let name = match table.name.is_null() {
            true => "",
            false => text::utf8(table.name, table.name_length, "name")?,
        };
        let streams = inputs(table.streams, table.stream_count, "streams")?;
        (table, name, streams.iter().map(|stream| stream.to_info()).collect::<Result<Vec<_>>>()?)
    };
    if table.get_chunk.is_none() {
        return Err(Error::argument("The callback get_chunk must not be NULL."));
    }
    let is_composable = table.sequences.is_some();
    let callbacks = Arc::new(Callbacks { table, streams, is_open: AtomicBool::new(false) });
    let user = User(Arc::clone(&callbacks));
    let deserializer = match is_composable {
        true => UserDeserializer::Composable(Arc::new(user)),
        false => UserDeserializer::Simple(Arc::new(user)),
    };
    Ok((Registered { name: name.to_owned(), deserializer }, callbacks))
}

/// The tables of a source.
pub(super) struct Users {
    registered: Vec<Registered>,
    callbacks: Vec<Arc<Callbacks>>,
}

impl Users {
    /// Reads tables, whose names have to differ.
    ///
    /// # Safety
    /// Each table is NULL, or as the header states it.
    pub(super) unsafe fn read(tables: &[*const cntk_reader_user_deserializer]) -> Result<Users> {
        let mut users = Users { registered: Vec::new(), callbacks: Vec::new() };
        for &table in tables {
            // SAFETY: this function's contract, for this table.
            let (registered, callbacks) = unsafe { register(input(table, "deserializers")?) }?;
            if users.registered.iter().any(|other| other.name == registered.name) {
                let message = format!("Two deserializers have the name '{}'.", registered.name);
                return Err(Error::argument(message));
            }
            users.registered.push(registered);
            users.callbacks.push(callbacks);
        }
        Ok(users)
    }

    pub(super) fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// The deserializers as configurations know them.
    pub(super) fn types(&self) -> Vec<UserType<'_>> {
        self.registered
            .iter()
            .map(|one| UserType { name: &one.name, composable: one.is_composable() })
            .collect()
    }

    /// The reader is open: from now on the userdata is the library's to give up.
    pub(super) fn take_userdata(&self) {
        self.callbacks.iter().for_each(|callbacks| callbacks.is_open.store(true, Ordering::Relaxed));
    }
}
