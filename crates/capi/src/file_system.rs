//! User-defined file systems: the table of callbacks.

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

/// Result of a file system's callback.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_file_status {
    /// Success.
    CNTK_READER_FILE_STATUS_OK = 0,
    /// Permanent failure.
    CNTK_READER_FILE_STATUS_FAILED = 1,
    /// Temporary failure. The callback is retried at most four times within four seconds.
    CNTK_READER_FILE_STATUS_AGAIN = 2,
}

/// Opens a file for reading. `path` is the whole path with its scheme, UTF-8, `length` bytes. The
/// handle written to `*file` is passed to the other callbacks. Returns a cntk_reader_file_status.
pub type cntk_reader_open_file = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        path: *const c_char,
        length: usize,
        file: *mut *mut c_void,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Gets the size of a file in bytes; must set `size`. Returns a cntk_reader_file_status.
pub type cntk_reader_get_file_size = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        file: *mut c_void,
        size: *mut u64,
        failure: *mut cntk_reader_failure,
    ) -> i32,
>;

/// Reads up to `capacity` bytes from `offset` on into `buffer`. Must set `count` to the number of
/// bytes, which is 0 only at the end of the file. Returns a cntk_reader_file_status.
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

/// Gets bytes that identify the content of a file, equal as long as the content is: an ETag, a
/// version, or a digest of either if it is longer than `capacity`. Writes up to `capacity` bytes to
/// `identity`, and must set `length`. Returns a cntk_reader_file_status.
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

/// Closes a file. It is called after all other callbacks of the file.
pub type cntk_reader_close_file =
    Option<unsafe extern "C-unwind" fn(userdata: *mut c_void, file: *mut c_void)>;

/// A user-defined file system, such as an object store, as a table of callbacks. Initialize with
/// zeros and set `struct_size`.
///
/// Threads: the callbacks are called on any thread, including the library's own, and several at
/// once. They must not throw, and must not use readers of this library. They are not called during
/// process exit.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_file_system {
    /// sizeof(cntk_reader_file_system).
    pub struct_size: usize,
    /// The first argument of every callback.
    pub userdata: *mut c_void,
    /// Opens a file. Must be set.
    pub open_file: cntk_reader_open_file,
    /// Gets the size of a file. Must be set.
    pub get_size: cntk_reader_get_file_size,
    /// Reads from a file. Must be set.
    pub read_at: cntk_reader_read_file,
    /// Identifies the content of a file. NULL: changes are detected by the size alone.
    pub get_identity: cntk_reader_get_file_identity,
    /// Closes a file. May be NULL.
    pub close_file: cntk_reader_close_file,
    /// Called once, on any thread, after the file system is unmounted and all its files are closed.
    /// May be NULL. Not called if mounting fails.
    pub finalizer: cntk_reader_finalizer,
}

// SAFETY: `repr(C)`, and the first member is the size. The others are integers, pointers and
// nullable function pointers, for all of which zero is valid; other bits of a function pointer come
// from the user's C compiler.
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

/// Maximum length of an identity in bytes.
const IDENTITY: usize = 256;

/// A table of callbacks and its userdata.
struct FileSystemTable {
    userdata: Userdata,
    callbacks: cntk_reader_file_system,
}

// SAFETY: the members that are not `Send` by themselves are the user's callbacks and pointers. The
// callbacks are called with the userdata alone, which the header allows on any thread, several at
// once.
unsafe impl Send for FileSystemTable {}
// SAFETY: as above; a shared reference is only used to call callbacks.
unsafe impl Sync for FileSystemTable {}

/// The engine's view of a table.
struct System(Arc<FileSystemTable>);

/// The engine's view of an open file.
struct Opened {
    table: Arc<FileSystemTable>,
    file: *mut c_void,
}

// SAFETY: the pointer is only passed to callbacks of its table, which the header allows on any
// thread.
unsafe impl Send for Opened {}
// SAFETY: as above, on several threads at once.
unsafe impl Sync for Opened {}

impl FileSystem for System {
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>> {
        let FileSystemTable { userdata, callbacks } = &*self.0;
        let mut file = null_mut();
        checked("open_file", |failure| {
            let open = callbacks.open_file?;
            let (path, length) = (path.as_ptr().cast(), path.len());
            // SAFETY: the table's own callback with its own userdata; the other pointers lead to
            // the path and to local variables.
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
            // SAFETY: as in `size`; `buffer` is writable for `capacity` bytes.
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
            // SAFETY: as in `size`; `identity` is writable for `IDENTITY` bytes.
            Some(exit::foreign(|| unsafe {
                get(self.userdata(), self.file, target, IDENTITY, &raw mut length, failure)
            }))
        })?;
        match identity.get(..length) {
            Some(identity) => Ok(identity.to_vec()),
            None if length == usize::MAX => Err(unset("get_identity", "length")),
            None => {
                let message =
                    format!("get_identity returned {length} bytes, but at most {IDENTITY} are allowed");
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
            // SAFETY: the table's own callback with its own userdata, once for a file that it has
            // opened.
            exit::foreign(|| unsafe { close(self.userdata(), self.file) });
        }
    }
}

/// The error of a callback that returned success without setting its output, for example because
/// its runtime abandoned it. Outputs are initialized to the greatest number, which is never a
/// result.
fn unset(callback: &str, output: &str) -> io::Error {
    io::Error::other(format!("the callback {callback} succeeded without setting `{output}`"))
}

/// Runs a callback and converts its status to a result. `run` returns `None` for a NULL callback,
/// which `mount` has ruled out.
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
        // The error keeps the callback's cause.
        io::Error::new(kind, error)
    })
}

/// Mounts a file system: it opens all data files whose paths begin with the scheme and "://", from
/// now on and in the whole process. For example, the file system mounted for "s3" opens the path
/// `s3://bucket/train.ctf` in a configuration. It replaces an earlier one for the same scheme; open
/// files stay with the file system that opened them. The table is copied. If `system` is NULL, the
/// scheme is unmounted, and such paths are ordinary paths again.
///
/// The scheme (`length` bytes, or CNTK_READER_NUL_TERMINATED) is a letter followed by letters,
/// digits, '+', '-' and '.'. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_file_system_mount(
    scheme: *const c_char,
    length: usize,
    system: *const cntk_reader_file_system,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `scheme` is NULL, which `utf8` refuses, or has `length` readable bytes, as
        // documented above.
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
        mounted::mount(scheme, Arc::new(System(Arc::new(FileSystemTable { userdata, callbacks }))))
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

    /// The userdata of the callbacks: failures to simulate, and counts of calls.
    #[derive(Default)]
    struct CallbackLog {
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
        // SAFETY: the library passes valid pointers and lengths.
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
        // SAFETY: the library passes a valid pointer.
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
        // SAFETY: the library passes valid pointers; the userdata is a `CallbackLog`.
        unsafe {
            if (*userdata.cast::<CallbackLog>()).again.fetch_sub(1, Ordering::Relaxed) > 0 {
                cntk_reader_failure_set_message(failure, c"busy".as_ptr(), usize::MAX);
                return 2;
            }
            (*userdata.cast::<CallbackLog>()).again.store(0, Ordering::Relaxed);
            *count = capacity.min(3).min(10 - offset as usize);
            std::slice::from_raw_parts_mut(buffer.cast::<u8>(), *count).fill(b'0' + offset as u8);
        }
        0
    }

    unsafe extern "C-unwind" fn close(userdata: *mut c_void, _: *mut c_void) {
        // SAFETY: the userdata is a `CallbackLog`.
        unsafe { (*userdata.cast::<CallbackLog>()).closed.fetch_add(1, Ordering::Relaxed) };
    }

    unsafe extern "C-unwind" fn finalize(userdata: *mut c_void) {
        // SAFETY: the userdata is a `CallbackLog`.
        unsafe { (*userdata.cast::<CallbackLog>()).finalized.fetch_add(1, Ordering::Relaxed) };
    }

    fn mount(scheme: &std::ffi::CStr, table: Option<&cntk_reader_file_system>) -> bool {
        let table = table.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: a NUL-terminated string, and a table or NULL.
        let status = unsafe { cntk_reader_file_system_mount(scheme.as_ptr(), usize::MAX, table, None) };
        status == cntk_reader_status::CNTK_READER_STATUS_OK
    }

    unsafe extern "C-unwind" fn sets_no_size(
        _: *mut c_void,
        _: *mut c_void,
        _: *mut u64,
        _: *mut cntk_reader_failure,
    ) -> i32 {
        0
    }

    unsafe extern "C-unwind" fn sets_no_count(
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

    unsafe extern "C-unwind" fn sets_no_length(
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
    fn callback_success_without_a_result_is_an_error() {
        let state = CallbackLog::default();
        let table = cntk_reader_file_system {
            userdata: (&raw const state).cast_mut().cast(),
            open_file: Some(open),
            get_size: Some(size),
            read_at: Some(read),
            ..NO_TABLE
        };
        let check = |table: cntk_reader_file_system, expected: &str| {
            let userdata = Userdata::new(table.userdata, None);
            let system = System(Arc::new(FileSystemTable { userdata, callbacks: table }));
            let file = system.open("capi-test://a").expect("a file");
            let error =
                file.size().and(file.read_at(0, &mut [0; 4]).map(drop)).and(file.identity().map(drop));
            assert_eq!(error.expect_err("an error").to_string(), expected);
        };
        check(
            cntk_reader_file_system { get_size: Some(sets_no_size), ..table },
            "the callback get_size succeeded without setting `size`",
        );
        check(
            cntk_reader_file_system { read_at: Some(sets_no_count), ..table },
            "the callback read_at succeeded without setting `count`",
        );
        check(
            cntk_reader_file_system { get_identity: Some(sets_no_length), ..table },
            "the callback get_identity succeeded without setting `length`",
        );
    }

    #[test]
    fn files_come_from_the_callbacks() {
        let state = CallbackLog { again: AtomicUsize::new(0), ..CallbackLog::default() };
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
