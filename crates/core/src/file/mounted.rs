//! Files that are not in the file system: in an object store, in memory, wherever the program can read them from.
//!
//! A program mounts a [`FileSystem`] for a scheme, such as `s3`, for the whole process. From then on every path of a data file
//! that begins with `s3://` is opened by it, wherever the path comes from: a configuration, a call, or a list of files.

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

/// A file system of the program's own.
///
/// Threads: its methods and those of its files are called by any thread, several at once, by the library's own too. They must
/// not use readers of this library. They are not called any more once the process ends.
pub trait FileSystem: Send + Sync {
    /// Opens a file for reading. `path` is the whole path, with its scheme.
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>>;
}

/// A file of a [`FileSystem`].
///
/// Errors: what may pass is tried again, at most four times within four seconds, as for files on
/// disks. These are errors of the kinds `TimedOut`, `WouldBlock`, `ConnectionReset`,
/// `ConnectionAborted`, `ConnectionRefused`, `NotConnected` and `BrokenPipe`, and those that carry
/// the system's numbers `EIO` and `ESTALE`. Others are final; their text comes with the error of
/// the call that needed the file. An [`Error`] of this library inside one passes on its message and
/// its cause.
pub trait RemoteFile: Send + Sync {
    /// Bytes of the file.
    fn size(&self) -> io::Result<u64>;

    /// Reads bytes from `offset` on into `buffer`, as many as it likes but at least one, and gives how many; 0 only at the file's
    /// end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Bytes that are equal as long as the file's content is, such as an ETag or a version. May be empty if there is nothing
    /// of the kind: changes are then noticed by the size alone.
    fn identity(&self) -> io::Result<Vec<u8>>;
}

type Mounts = Vec<(String, Arc<dyn FileSystem>)>;

static MOUNTS: RwLock<Mounts> = RwLock::new(Vec::new());

/// Has `system` open all data files whose paths begin with `scheme://`, from now on and in the whole process. It takes the
/// place of an earlier one for this scheme; files that are open stay with theirs.
///
/// A scheme begins with a letter and consists of letters, digits, `+`, `-` and `.`; case counts.
pub fn mount(scheme: &str, system: Arc<dyn FileSystem>) -> Result<()> {
    check_scheme(scheme)?;
    // What user code has made up to now is destroyed after the last call of it.
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

/// Ends what [`mount`] began; returns whether there was a file system for the scheme. Files that are open stay usable.
pub fn unmount(scheme: &str) -> bool {
    let mut mounts = MOUNTS.write();
    let place = mounts.iter().position(|(known, _)| known == scheme);
    let before = place.map(|place| mounts.swap_remove(place));
    drop(mounts);
    before.is_some()
}

/// Whether the path is one of a mounted file system.
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

/// The scheme of a path that has one.
pub(super) fn scheme_of(path: &str) -> Option<&str> {
    path.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme))
}

/// An open file of a mounted file system.
pub(super) struct MountedFile(ManuallyDrop<Box<dyn RemoteFile>>);

impl Drop for MountedFile {
    fn drop(&mut self) {
        // Once the process ends, the user's code is not called for this either.
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
    /// Opens a file if its path has a scheme that a file system is mounted for.
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
            let message = format!("read_at gives {count} bytes, but {} were wanted", buffer.len());
            return Err(io::Error::other(message));
        }
        Ok(count)
    }

    /// The state; in place of the time of the last change it has a checksum of the identity.
    pub fn state(&self) -> io::Result<FileState> {
        let (size, identity) = guarded(|| Ok((self.0.size()?, self.0.identity()?)))?;
        let size = check_size(size)?;
        Ok(FileState { size, modified: (Xxh64::of(&identity).cast_signed(), 0), inode: 0 })
    }
}

/// Whether a state has no identity, so that changes of the file show in its size alone.
#[cfg(feature = "compression")]
pub(super) fn has_no_identity(state: &FileState) -> bool {
    state.modified.0 == Xxh64::of(&[]).cast_signed()
}

/// Runs the user's code, unless the process ends.
fn guarded<R>(call: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    let Some(_inside) = exit::enter() else {
        return Err(io::Error::other("the process ends"));
    };
    let result = call();
    exit::count_job();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_schemes_or_not() {
        assert_eq!(scheme_of("s3://bucket/a"), Some("s3"));
        assert_eq!(scheme_of("gs+v2.x-y://a"), Some("gs+v2.x-y"));
        for path in ["/a/b", "a", "://a", "3s://a", "a b://c", "/s3://a", ""] {
            assert_eq!(scheme_of(path), None, "{path}");
        }
    }
}
