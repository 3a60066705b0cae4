//! Files of the file system.

#![allow(unsafe_code, reason = "pread into uninitialized memory")]

use super::descriptor;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind as IoErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

/// Opens a file for reading. `O_NONBLOCK` keeps the call from waiting for a pipe's writer.
pub fn open(path: &OsStr) -> io::Result<File> {
    descriptor::open(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK), path)
}

/// Refuses files that several threads cannot read repeatedly at offsets: pipes, sockets and devices
/// fail with [`io::ErrorKind::NotSeekable`]. Folders pass here; reading them fails.
pub fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let what = match () {
        () if kind.is_fifo() => "It is a pipe",
        () if kind.is_socket() => "It is a socket",
        () if kind.is_char_device() || kind.is_block_device() => "It is a device",
        () => return Ok(()),
    };
    Err(io::Error::new(IoErrorKind::NotSeekable, what))
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
