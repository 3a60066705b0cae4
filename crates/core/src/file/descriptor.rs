//! Files never have the descriptors 0, 1 and 2. A program that has closed its standard streams gets
//! these numbers for its next files, and then a log line, or whatever another library prints, would
//! be written into data.

#![allow(unsafe_code, reason = "fcntl")]

use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;

/// Opens a file, with a descriptor of 3 or more.
pub fn open(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    above_standard_streams(options.open(path)?)
}

/// [`open`] for a file that was just made, and is written to: what was printed into it in between
/// is removed.
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

/// The file, with a descriptor of 3 or more.
fn above_standard_streams(file: File) -> io::Result<File> {
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    // SAFETY: `file` is open during the call, which takes numbers alone.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1) };
    if moved < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(moved) })
}
