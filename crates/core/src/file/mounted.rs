//! Files outside the file system: in an object store, in memory, or anywhere else that the program
//! can read.
//!
//! A program mounts a [`FileSystem`] for a scheme, such as `s3`, for the whole process. It then
//! opens every data file whose path begins with `s3://`, whether the path comes from a
//! configuration, a call, or a list of files.

#![allow(unsafe_code, reason = "a mounted file system's file, which a forked child leaves alone")]

use super::xxh64::Xxh64;
use super::{FileState, check_size};
use crate::runtime::exit;
use crate::runtime::lock::RwLock;
use crate::{Error, Result};
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A file system implemented by the program.
///
/// Threads: its methods and those of its files are called from any thread, including the library's
/// own, and concurrently. They must not use readers of this library. They are not called while the
/// process exits.
pub trait FileSystem: Send + Sync {
    /// Opens a file for reading. `path` is the whole path, with its scheme.
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>>;
}

/// A file of a [`FileSystem`].
///
/// Errors: transient errors are retried at most four times within four seconds, as for files on
/// disks. These are errors of the kinds `TimedOut`, `WouldBlock`, `ConnectionReset`,
/// `ConnectionAborted`, `ConnectionRefused`, `NotConnected` and `BrokenPipe`, and those with the
/// system error numbers `EIO` and `ESTALE`. Others are final; the error of the call that needed the
/// file includes their text. An [`Error`] of this library inside an `io::Error` passes on its
/// message and its cause.
pub trait RemoteFile: Send + Sync {
    /// Returns the size of the file in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads bytes from `offset` on into `buffer` and returns their number: at least one, but not
    /// necessarily a full buffer; 0 only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns bytes that change whenever the content of the file changes, such as an ETag or a
    /// version. They may be empty; changes are then detected by the size alone.
    fn identity(&self) -> io::Result<Vec<u8>>;
}

type Mounts = Vec<(String, Arc<dyn FileSystem>)>;

static MOUNTS: RwLock<Mounts> = RwLock::new(Vec::new());

/// Mounts `system` for all data files whose paths begin with `scheme://`, in the whole process. It
/// replaces an earlier file system for this scheme; open files keep theirs.
///
/// A scheme begins with a letter and consists of letters, digits, `+`, `-` and `.`; it is
/// case-sensitive.
pub fn mount(scheme: &str, system: Arc<dyn FileSystem>) -> Result<()> {
    check_scheme(scheme)?;
    // From here on, user code has state whose destruction must follow the last call into it.
    exit::register();
    let mut mounts = MOUNTS.write();
    let place = mounts.iter().position(|(known, _)| known == scheme);
    let before = place.map(|place| mounts.swap_remove(place));
    mounts.push((scheme.to_owned(), system));
    drop(mounts);
    // The user's destructor runs without the lock.
    drop(before);
    Ok(())
}

/// Unmounts a scheme. Returns whether a file system was mounted for it. Open files stay usable.
pub fn unmount(scheme: &str) -> bool {
    let mut mounts = MOUNTS.write();
    let place = mounts.iter().position(|(known, _)| known == scheme);
    let before = place.map(|place| mounts.swap_remove(place));
    drop(mounts);
    before.is_some()
}

/// Returns whether the path belongs to a mounted file system.
pub(crate) fn is_mounted(path: &str) -> bool {
    scheme_of(path).is_some_and(|scheme| MOUNTS.read().iter().any(|(known, _)| known == scheme))
}

/// Refuses texts that cannot be the scheme of a path.
pub fn check_scheme(scheme: &str) -> Result<()> {
    if is_scheme(scheme) {
        return Ok(());
    }
    let message = format!("'{scheme}' cannot be the scheme of a path.");
    Err(Error::argument(message).with_detail(
        "Expected a letter, and then letters, digits, '+', '-' and '.': 's3' for paths that begin with 's3://'.",
    ))
}

fn is_scheme(text: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    text.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && text.bytes().all(rest)
}

/// Returns the scheme of a path, if it has one.
pub(super) fn scheme_of(path: &str) -> Option<&str> {
    path.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme))
}

/// An open file of a mounted file system.
pub(super) struct MountedFile(ManuallyDrop<Box<dyn RemoteFile>>);

impl Drop for MountedFile {
    fn drop(&mut self) {
        // Once the process is exiting, the user's destructor is not called either.
        if let Some(_inside) = exit::enter() {
            // SAFETY: this is the only drop of the field, and nothing uses it afterwards.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

impl fmt::Debug for MountedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MountedFile")
    }
}

impl MountedFile {
    /// Opens a file if a file system is mounted for the scheme of its path.
    pub fn open(path: &str) -> Option<io::Result<MountedFile>> {
        let scheme = scheme_of(path)?;
        let system = MOUNTS.read().iter().find(|(known, _)| known == scheme)?.1.clone();
        Some(guarded(|| system.open(path)).map(|file| MountedFile(ManuallyDrop::new(file))))
    }

    pub fn size(&self) -> io::Result<u64> {
        check_size(guarded(|| self.0.size())?)
    }

    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = guarded(|| self.0.read_at(offset, buffer))?;
        if count > buffer.len() {
            let message =
                format!("read_at returned {count} bytes, but at most {} were asked for", buffer.len());
            return Err(io::Error::other(message));
        }
        Ok(count)
    }

    /// Returns the state, with a checksum of the identity in place of the modification time.
    pub fn state(&self) -> io::Result<FileState> {
        let (size, identity) = guarded(|| Ok((self.0.size()?, self.0.identity()?)))?;
        let size = check_size(size)?;
        Ok(FileState { size, modified: (Xxh64::of(&identity).cast_signed(), 0), inode: 0 })
    }
}

/// Returns whether a state has no identity, so that changes show in the size alone.
#[cfg(feature = "compression")]
pub(super) fn has_no_identity(state: &FileState) -> bool {
    state.modified.0 == Xxh64::of(&[]).cast_signed()
}

/// Runs user code, unless the process is exiting.
fn guarded<R>(call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    let Some(_inside) = exit::enter() else {
        return Err(io::Error::other("the process is exiting"));
    };
    let result = call();
    exit::count_job();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_of_path() {
        assert_eq!(scheme_of("s3://bucket/a"), Some("s3"));
        assert_eq!(scheme_of("gs+v2.x-y://a"), Some("gs+v2.x-y"));
        for path in ["/a/b", "a", "://a", "3s://a", "a b://c", "/s3://a", ""] {
            assert_eq!(scheme_of(path), None, "{path}");
        }
    }
}
