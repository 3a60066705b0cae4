//! File systems of the program's own: the table of callbacks.

use super::call::call;
use super::error::cntk_reader_error;
use super::failure::cntk_reader_failure;
use super::finalizer::{Userdata, cntk_reader_finalizer};
use super::sized::{self, Sized};
use super::status::cntk_reader_status;
use super::text;
use cntk_reader_core::file::mounted::{self, FileSystem, RemoteFile};
use cntk_reader_core::runtime::exit;
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::ptr::null_mut;
use std::sync::Arc;

/// What callbacks of a file system return.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_file_status {
    /// It has succeeded.
    CNTK_READER_FILE_STATUS_OK = 0,
    /// It has failed for good.
    CNTK_READER_FILE_STATUS_FAILED = 1,
    /// It has failed and may succeed a little later. It is called again, at most four times within four seconds.
    CNTK_READER_FILE_STATUS_AGAIN = 2,
}

/// Opens a file for reading. `path` is the whole path, with its scheme: UTF-8, `length` bytes. `*file` gets what the
/// other callbacks are called with for this file. Returns a cntk_reader_file_status.
pub type cntk_reader_open_file = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        path: *const c_char,
        length: usize,
        file: *mut *mut c_void,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Gives the bytes of a file: `size` has to be set. Returns a cntk_reader_file_status.
pub type cntk_reader_get_file_size = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        file: *mut c_void,
        size: *mut u64,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Reads at most `capacity` bytes from `offset` on into `buffer`, at least one, and gives their number, 0 only at the file's
/// end: `count` has to be set. Returns a cntk_reader_file_status.
pub type cntk_reader_read_file = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        file: *mut c_void,
        offset: u64,
        buffer: *mut c_void,
        capacity: usize,
        count: *mut usize,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Writes at most `capacity` bytes to `identity`, and gives their number: bytes that are equal as long as the file's content
/// is, such as an ETag or a version, or a digest of one that is longer. Returns a cntk_reader_file_status.
pub type cntk_reader_get_file_identity = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        file: *mut c_void,
        identity: *mut c_void,
        capacity: usize,
        length: *mut usize,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Closes a file. No other callback runs for the file then or later.
pub type cntk_reader_close_file =
    Option<unsafe extern "C-unwind" fn(userdata: *mut c_void, file: *mut c_void)>;

/// A file system of the program's own, such as an object store, as a table of callbacks. Initialize with zeros, and set
/// struct_size.
///
/// Threads: the callbacks are called by any thread, several at once, by the library's own too. They must not throw, and not
/// use readers of this library. They are not called any more once the process ends.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_file_system {
    /// sizeof(cntk_reader_file_system).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// Opens a file. Must be set.
    pub open_file: cntk_reader_open_file,
    /// Gives the bytes of a file. Must be set.
    pub get_size: cntk_reader_get_file_size,
    /// Reads from a file. Must be set.
    pub read_at: cntk_reader_read_file,
    /// Identifies a file's content; may be NULL: changes of a file are then noticed by its size alone.
    pub get_identity: cntk_reader_get_file_identity,
    /// Closes a file; may be NULL if there is nothing to close.
    pub close_file: cntk_reader_close_file,
    /// Called once, by any thread, when the file system is no longer mounted and all its files are closed; may be NULL. Not
    /// called if mounting fails.
    pub finalizer: cntk_reader_finalizer,
}

// SAFETY: every member is an integer, a pointer or a nullable function pointer, for all of which zero bytes are a value; other
// bytes of a callback come from the user's C compiler. The first member is the size.
unsafe impl Sized for cntk_reader_file_system {
    const NAME: &'static str = "cntk_reader_file_system";
}

/// An empty table.
const NO_TABLE: cntk_reader_file_system = cntk_reader_file_system {
    struct_size: size_of::<cntk_reader_file_system>(),
    userdata: null_mut(),
    open_file: None,
    get_size: None,
    read_at: None,
    get_identity: None,
    close_file: None,
    finalizer: None,
};

/// Most bytes of an identity.
const IDENTITY: usize = 256;

/// A table.
struct Table {
    userdata: Userdata,
    callbacks: cntk_reader_file_system,
}

// SAFETY: the members that are no plain Rust data are callbacks and pointers of the user's. The callbacks are called with the
// userdata alone, and the header demands that any thread may do so, several at once.
unsafe impl Send for Table {}
// SAFETY: as above; calling callbacks is all that a shared reference is used for.
unsafe impl Sync for Table {}

/// The engine's view of a table.
struct System(Arc<Table>);

/// The engine's view of an open file.
struct Opened {
    table: Arc<Table>,
    file: *mut c_void,
}

// SAFETY: the pointer is the user's, and goes to the callbacks of the table alone, which the header requires to take it on any
// thread.
unsafe impl Send for Opened {}
// SAFETY: as above, several threads at once included.
unsafe impl Sync for Opened {}

impl FileSystem for System {
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>> {
        let Table { userdata, callbacks } = &*self.0;
        let mut file = null_mut();
        checked("open_file", |failure| {
            let open = callbacks.open_file?;
            let (path, length) = (path.as_ptr().cast(), path.len());
            // SAFETY: the table's own callback with its own userdata; the other pointers lead to the path, and to variables of
            // this function.
            Some(exit::foreign(|| unsafe { open(userdata.pointer(), path, length, &raw mut file, failure) }))
        })?;
        Ok(Box::new(Opened { table: Arc::clone(&self.0), file }))
    }
}

impl RemoteFile for Opened {
    fn size(&self) -> io::Result<u64> {
        let mut size = u64::MAX;
        checked("get_size", |failure| {
            let get = self.table.callbacks.get_size?;
            // SAFETY: the table's own callback with its own userdata and a file that it has opened.
            Some(exit::foreign(|| unsafe { get(self.userdata(), self.file, &raw mut size, failure) }))
        })?;
        if size == u64::MAX { Err(unset("get_size", "size")) } else { Ok(size) }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = usize::MAX;
        checked("read_at", |failure| {
            let read = self.table.callbacks.read_at?;
            let (target, capacity) = (buffer.as_mut_ptr().cast(), buffer.len());
            // SAFETY: as in `size`; the callback may write the buffer, which has `capacity` bytes.
            Some(exit::foreign(|| unsafe {
                read(self.userdata(), self.file, offset, target, capacity, &raw mut count, failure)
            }))
        })?;
        if count == usize::MAX { Err(unset("read_at", "count")) } else { Ok(count) }
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        if self.table.callbacks.get_identity.is_none() {
            return Ok(Vec::new());
        }
        let (mut identity, mut length) = ([0u8; IDENTITY], usize::MAX);
        checked("get_identity", |failure| {
            let get = self.table.callbacks.get_identity?;
            let target = identity.as_mut_ptr().cast();
            // SAFETY: as in `size`; the callback may write the array, which has `IDENTITY` bytes.
            Some(exit::foreign(|| unsafe {
                get(self.userdata(), self.file, target, IDENTITY, &raw mut length, failure)
            }))
        })?;
        match identity.get(..length) {
            Some(identity) => Ok(identity.to_vec()),
            None if length == usize::MAX => Err(unset("get_identity", "length")),
            None => {
                let message = format!("get_identity gives {length} bytes, but {IDENTITY} are the most");
                Err(io::Error::other(message))
            }
        }
    }
}

impl Opened {
    fn userdata(&self) -> *mut c_void {
        self.table.userdata.pointer()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(close) = self.table.callbacks.close_file {
            // SAFETY: the table's own callback with its own userdata, once for a file that it has opened.
            exit::foreign(|| unsafe { close(self.userdata(), self.file) });
        }
    }
}

/// The error of a callback that has returned success without a result, as one that was given up by its runtime: the outputs
/// begin with the greatest number, which is no result.
fn unset(callback: &str, output: &str) -> io::Error {
    io::Error::other(format!("the callback {callback} has succeeded, but has not set `{output}`"))
}

/// Runs a callback, and turns its status into a result. `run` gives `None` if there is no such callback, which `mount` has
/// ruled out.
fn checked(callback: &str, run: impl FnOnce(*mut cntk_reader_failure) -> Option<i32>) -> io::Result<()> {
    let mut failure = cntk_reader_failure::default();
    let Some(status) = run(&raw mut failure) else {
        return Err(io::Error::other("a callback is missing"));
    };
    failure.check(callback, status).map_err(|error| {
        let kind = match status {
            2 => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        // With what the callback has set as its cause.
        io::Error::new(kind, error)
    })
}

/// Has a file system open all data files whose paths begin with a scheme and "://", from now on and in the whole process: a
/// path `s3://bucket/train.ctf` in a configuration is opened by the file system that is mounted for "s3". It takes the place
/// of an earlier one for this scheme. The table is copied. `system` may be NULL: paths with this scheme are then ordinary
/// paths again. Files that are open stay with the file system that has opened them.
///
/// The scheme is UTF-8, `length` bytes or CNTK_READER_NUL_TERMINATED: a letter, and then letters, digits, '+', '-' and '.'. May be
/// called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_file_system_mount(
    scheme: *const c_char,
    length: usize,
    system: *const cntk_reader_file_system,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `scheme` is NULL, which `utf8` refuses, or readable as its length says, by the header.
        let scheme = unsafe { text::utf8(scheme, length, "scheme") }?;
        mounted::check_scheme(scheme)?;
        if system.is_null() {
            mounted::unmount(scheme);
            return Ok(());
        }
        // SAFETY: `system` is the caller's struct with its size in the first member.
        let callbacks = unsafe { sized::read(system, NO_TABLE) }?;
        check(&callbacks)?;
        let userdata = Userdata::new(callbacks.userdata, callbacks.finalizer);
        mounted::mount(scheme, Arc::new(System(Arc::new(Table { userdata, callbacks }))))
    })
}

fn check(callbacks: &cntk_reader_file_system) -> Result<()> {
    let all = [
        ("open_file", callbacks.open_file.is_some()),
        ("get_size", callbacks.get_size.is_some()),
        ("read_at", callbacks.read_at.is_some()),
    ];
    match all.into_iter().find(|(_, is_set)| !is_set) {
        None => Ok(()),
        Some((name, _)) => Err(Error::argument(format!("The callback {name} must not be NULL."))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::{cntk_reader_failure_set_cause, cntk_reader_failure_set_message};
    use cntk_reader_core::file::DataFile;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What the callbacks are called with, and how often files are closed and the system is given up.
    #[derive(Default)]
    struct State {
        again: AtomicUsize,
        closed: AtomicUsize,
        finalized: AtomicUsize,
    }

    unsafe extern "C-unwind" fn open(
        userdata: *mut c_void,
        path: *const c_char,
        length: usize,
        file: *mut *mut c_void,
        failure: *mut cntk_reader_failure,
    ) -> i32 {
        // SAFETY: the library's promises.
        unsafe {
            let path = std::slice::from_raw_parts(path.cast::<u8>(), length);
            if path != b"capi-test://a" {
                cntk_reader_failure_set_message(failure, c"only a is there.".as_ptr(), usize::MAX);
                cntk_reader_failure_set_cause(failure, userdata, None);
                return 1;
            }
            *file = userdata;
        }
        0
    }

    unsafe extern "C-unwind" fn size(
        _: *mut c_void,
        _: *mut c_void,
        size: *mut u64,
        _: *mut cntk_reader_failure,
    ) -> i32 {
        // SAFETY: the library's promise.
        unsafe { *size = 10 };
        0
    }

    unsafe extern "C-unwind" fn read(
        userdata: *mut c_void,
        file: *mut c_void,
        offset: u64,
        buffer: *mut c_void,
        capacity: usize,
        count: *mut usize,
        failure: *mut cntk_reader_failure,
    ) -> i32 {
        assert_eq!(userdata, file);
        // SAFETY: the library's promises; the userdata is a `State`.
        unsafe {
            if (*userdata.cast::<State>()).again.fetch_sub(1, Ordering::Relaxed) > 0 {
                cntk_reader_failure_set_message(failure, c"busy".as_ptr(), usize::MAX);
                return 2;
            }
            (*userdata.cast::<State>()).again.store(0, Ordering::Relaxed);
            *count = capacity.min(3).min(10 - offset as usize);
            std::slice::from_raw_parts_mut(buffer.cast::<u8>(), *count).fill(b'0' + offset as u8);
        }
        0
    }

    unsafe extern "C-unwind" fn close(userdata: *mut c_void, _: *mut c_void) {
        // SAFETY: the userdata is a `State`.
        unsafe { (*userdata.cast::<State>()).closed.fetch_add(1, Ordering::Relaxed) };
    }

    unsafe extern "C-unwind" fn finalize(userdata: *mut c_void) {
        // SAFETY: the userdata is a `State`.
        unsafe { (*userdata.cast::<State>()).finalized.fetch_add(1, Ordering::Relaxed) };
    }

    fn mount(scheme: &std::ffi::CStr, table: Option<&cntk_reader_file_system>) -> bool {
        let table = table.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: a string and a table, or NULL.
        let status = unsafe { cntk_reader_file_system_mount(scheme.as_ptr(), usize::MAX, table, None) };
        status == cntk_reader_status::CNTK_READER_STATUS_OK
    }

    unsafe extern "C-unwind" fn forgets(
        _: *mut c_void,
        _: *mut c_void,
        _: *mut u64,
        _: *mut cntk_reader_failure,
    ) -> i32 {
        0
    }

    unsafe extern "C-unwind" fn reads_nothing(
        _: *mut c_void,
        _: *mut c_void,
        _: u64,
        _: *mut c_void,
        _: usize,
        _: *mut usize,
        _: *mut cntk_reader_failure,
    ) -> i32 {
        0
    }

    unsafe extern "C-unwind" fn identifies_nothing(
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        _: usize,
        _: *mut usize,
        _: *mut cntk_reader_failure,
    ) -> i32 {
        0
    }

    #[test]
    fn a_callback_that_succeeds_without_a_result_is_an_error() {
        let state = State::default();
        let table = cntk_reader_file_system {
            userdata: (&raw const state).cast_mut().cast(),
            open_file: Some(open),
            get_size: Some(size),
            read_at: Some(read),
            ..NO_TABLE
        };
        let check = |table: cntk_reader_file_system, expected: &str| {
            let userdata = Userdata::new(table.userdata, None);
            let system = System(Arc::new(Table { userdata, callbacks: table }));
            let file = system.open("capi-test://a").expect("a file");
            let error =
                file.size().and(file.read_at(0, &mut [0; 4]).map(drop)).and(file.identity().map(drop));
            assert_eq!(error.expect_err("an error").to_string(), expected);
        };
        check(
            cntk_reader_file_system { get_size: Some(forgets), ..table },
            "the callback get_size has succeeded, but has not set `size`",
        );
        check(
            cntk_reader_file_system { read_at: Some(reads_nothing), ..table },
            "the callback read_at has succeeded, but has not set `count`",
        );
        check(
            cntk_reader_file_system { get_identity: Some(identifies_nothing), ..table },
            "the callback get_identity has succeeded, but has not set `length`",
        );
    }

    #[test]
    fn files_come_from_the_callbacks() {
        let state = State { again: AtomicUsize::new(0), ..State::default() };
        let table = cntk_reader_file_system {
            userdata: (&raw const state).cast_mut().cast(),
            open_file: Some(open),
            get_size: Some(size),
            read_at: Some(read),
            close_file: Some(close),
            finalizer: Some(finalize),
            ..NO_TABLE
        };
        assert!(!mount(c"no scheme", Some(&table)));
        assert!(!mount(c"capi-test", Some(&cntk_reader_file_system { read_at: None, ..table })));
        assert_eq!(state.finalized.load(Ordering::Relaxed), 0);
        assert!(mount(c"capi-test", Some(&table)));
        let file = DataFile::open("capi-test://a").expect("a file");
        state.again.store(4, Ordering::Relaxed);
        let mut bytes = [0; 20];
        assert_eq!(file.read_at(1, &mut bytes).expect("it reads"), 9);
        assert_eq!(&bytes[..9], b"111444777");
        state.again.store(5, Ordering::Relaxed);
        let error = file.read_at(1, &mut bytes).expect_err("busy for too long");
        assert_eq!(error.message(), "Error reading file 'capi-test://a': busy.");
        assert!(error.detail().contains("five attempts"), "{error}");
        let error = DataFile::open("capi-test://b").expect_err("not there");
        assert_eq!(error.message(), "Error opening file 'capi-test://b': only a is there.");
        let cause = error.cause().and_then(|cause| cause.0.downcast_ref::<Userdata>()).expect("a cause");
        assert_eq!(cause.pointer(), table.userdata);
        assert!(mount(c"capi-test", None));
        assert_eq!((state.closed.load(Ordering::Relaxed), state.finalized.load(Ordering::Relaxed)), (0, 0));
        drop(file);
        assert_eq!((state.closed.load(Ordering::Relaxed), state.finalized.load(Ordering::Relaxed)), (1, 1));
        assert!(DataFile::open("capi-test://a").expect_err("no such file").detail().contains("mount it"));
    }
}
