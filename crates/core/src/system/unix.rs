//! Linux and macOS.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, FileType, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Permission bits that let others write to a file or folder.
const OTHERS_WRITE: u32 = 0o022;

/// Returns the path that these bytes name, as in a file with paths.
pub fn path_from_bytes(bytes: &[u8]) -> Cow<'_, OsStr> {
    Cow::Borrowed(OsStr::from_bytes(bytes))
}

/// Returns the path in a URL, after `file://`.
pub fn path_of_url(path: &str) -> &str {
    path
}

/// Opens a file, with a descriptor of 3 or more. If a program has closed its standard streams, its
/// next files get the numbers 0, 1 and 2, and a log line or the output of another library would
/// then be written into data.
pub fn open(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    above_standard_streams(options.open(path)?)
}

/// Like [`open`], for a file that was just created for writing: removes anything that was printed
/// into it in the meantime.
pub fn open_new(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    let file = options.open(path)?;
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    let mut file = above_standard_streams(file)?;
    file.set_len(0)?;
    file.rewind()?;
    Ok(file)
}

/// Moves the file to a descriptor of 3 or more.
fn above_standard_streams(file: File) -> io::Result<File> {
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    // SAFETY: `fcntl` with `F_DUPFD_CLOEXEC` takes numbers only, and `file` keeps its descriptor
    // open during the call.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fcntl` has just created this descriptor, checked to be non-negative above, and
    // nothing else owns it.
    Ok(unsafe { File::from_raw_fd(moved) })
}

/// Opens a data file for reading. `O_NONBLOCK` keeps the call from waiting for a pipe's writer.
pub fn open_data(path: &OsStr) -> io::Result<File> {
    open(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK), path)
}

/// Opens a file without following a link at its path, and without waiting for a pipe's other end.
/// Returns `None` if there is a link.
pub fn open_no_link(options: &OpenOptions, path: &Path) -> io::Result<Option<File>> {
    let mut options = options.clone();
    match open(options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK), path) {
        Err(cause) if cause.raw_os_error() == Some(libc::ELOOP) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Makes this user the only one who may read a file that is created.
pub fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

/// Keeps other writers from this file until it is closed. Returns false if another one has it.
/// Some file systems have no locks; there it returns true.
pub fn try_lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Keeps others from opening a file for writing until it is closed; here, [`try_lock`] does that.
pub fn make_exclusive(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Creates a folder, and those above it, for this user alone.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Returns the folder for caches of all programs of this user.
pub fn user_caches() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))
}

/// Returns the number of the user that a file or folder belongs to, unless that is this user or
/// root.
pub fn other_owner(metadata: &Metadata) -> Option<u32> {
    // SAFETY: the call has no arguments, and cannot fail.
    let user = unsafe { libc::geteuid() };
    Some(metadata.uid()).filter(|&owner| owner != user && owner != 0)
}

/// Returns the permissions of a file or folder that others may write to.
pub fn open_to_others(metadata: &Metadata) -> Option<u32> {
    Some(metadata.mode() & 0o7777).filter(|mode| mode & OTHERS_WRITE != 0)
}

/// Returns whether a file has other names, too.
pub fn has_other_names(metadata: &Metadata) -> bool {
    metadata.nlink() > 1
}

/// Returns what a file is if it is no plain file, folder or link.
pub fn special(kind: &FileType) -> Option<&'static str> {
    match () {
        () if kind.is_fifo() => Some("It is a pipe"),
        () if kind.is_socket() => Some("It is a socket"),
        () if kind.is_char_device() || kind.is_block_device() => Some("It is a device"),
        () => None,
    }
}

/// Returns the numbers of an open file's device and of the file on it.
pub fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Like [`identity`], of the file that a path leads to.
pub fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    path.metadata().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns the number of an open file on its device.
pub fn number(_: &File, metadata: &Metadata) -> u64 {
    metadata.ino()
}

/// Returns the time when a file was last written to, in seconds and nanoseconds since 1970.
pub fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// Returns the time of the last change of any kind, which programs cannot set.
pub fn changed(metadata: &Metadata) -> (i64, i64) {
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Reads bytes from offset `at` in one call, which may be fewer than available, and returns their
/// number. These bytes of `target` are initialized.
pub fn read_at(file: &File, at: u64, target: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let at = i64::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    // SAFETY: `target` is a live exclusive slice, so its `target.len()` bytes may be written.
    // `pread` only writes to them, so they may be uninitialized before.
    let count = unsafe { libc::pread(file.as_raw_fd(), target.as_mut_ptr().cast(), target.len(), at) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// The error of reading a folder as a file.
pub fn is_a_folder() -> io::Error {
    io::Error::from_raw_os_error(libc::EISDIR)
}

/// The error of following too many links.
pub fn too_many_links() -> io::Error {
    io::Error::from_raw_os_error(libc::ELOOP)
}

/// Returns whether links lead in a cycle.
pub fn is_cycle_of_links(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(libc::ELOOP)
}

/// Returns whether a disk or a network, which may recover, is the cause of an error; errors that
/// Rust has a kind for need not be known here.
pub fn may_recover(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EIO | libc::ESTALE))
}

/// Returns the physical memory of the machine in bytes, if it is known.
pub fn physical_memory() -> Option<u64> {
    // SAFETY: `sysconf` takes a number and does not access memory of the caller.
    let [pages, size] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    match (u64::try_from(pages), u64::try_from(size)) {
        (Ok(pages), Ok(size)) if pages > 0 && size > 0 => Some(pages.saturating_mul(size)),
        _ => None,
    }
}

/// Runs functions at each fork from now on, on the forking thread: before it, and after it in the
/// parent and in the child. They must do nothing but lock, unlock and write atomics.
pub fn at_forks(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) {
    // SAFETY: the handlers have the signature that `pthread_atfork` requires, and glibc removes
    // them if this library is unloaded. They do only what is allowed in the child of a fork. If
    // registering fails (out of memory), forks go undetected, which is not a memory safety problem.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Runs a function when the process exits, before destructors of objects that exist now.
pub fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler is a function of this library without arguments. If the library is
    // unloaded before the process exits, the C library calls it then, because `atexit` records the
    // calling library. A failure (no memory) leaves the exit as it would be without a handler.
    unsafe { libc::atexit(handler) };
}
