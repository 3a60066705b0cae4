//! Keeps files off the descriptors 0, 1 and 2. If a program has closed its standard streams, its
//! next files get these numbers, and a log line or the output of another library would then be
//! written into data.

#![allow(unsafe_code, reason = "fcntl")]

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// Opens a file, with a descriptor of 3 or more.
pub fn open(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    above_standard_streams(options.open(path)?)
}

/// Like [`open`], for a file that was just created for writing: removes anything that was printed
/// into it in the meantime.
pub(crate) fn open_new(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
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
