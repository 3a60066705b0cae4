//! The memory that chunks are read into, used again and again: touching fresh pages costs more than reading.

use crate::deserialize::text::source;
use crate::error::ExceptionClass;
use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Buffers that may wait.
const KEPT: usize = 2;

/// Empty buffers that wait to be used again.
#[derive(Debug, Default)]
pub struct Buffers(Mutex<VecDeque<Vec<u8>>>);

impl Buffers {
    /// An empty buffer, if possible with room for so many bytes.
    pub fn take(&self, size: u64) -> Vec<u8> {
        let mut waiting = self.0.lock();
        let fits = |buffer: &Vec<u8>| {
            let capacity = buffer.capacity() as u64;
            (size..=size.saturating_mul(2).saturating_add(4096)).contains(&capacity)
        };
        let found = waiting.iter().position(fits);
        found.and_then(|at| waiting.remove(at)).unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 {
            return;
        }
        buffer.clear();
        let mut waiting = self.0.lock();
        waiting.push_back(buffer);
        let dropped = if waiting.len() > KEPT { waiting.pop_front() } else { None };
        // Memory is freed without the lock.
        drop(waiting);
        drop(dropped);
    }
}

/// Reads a range of the file, all of it, into an empty buffer.
pub fn read(file: &File, path: &str, range: Range<u64>, mut buffer: Vec<u8>) -> Result<Vec<u8>> {
    let size = range.end - range.start;
    let reserved = usize::try_from(size).is_ok_and(|size| buffer.try_reserve_exact(size).is_ok());
    if !reserved {
        let message = format!("There is no memory for a chunk of {size} bytes.");
        let error = Error::new(ErrorKind::Io, ExceptionClass::Runtime, message);
        return Err(error.in_file(path).at(range.start, None));
    }
    let size = size as usize;
    while buffer.len() < size {
        let at = range.start + buffer.len() as u64;
        let missing = size - buffer.len();
        let room = &mut buffer.spare_capacity_mut()[..missing];
        let count = source::patiently(|| {
            // SAFETY: `room` is writable, of this length, and bytes need no initialization.
            let count =
                unsafe { libc::pread(file.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), at as i64) };
            usize::try_from(count).map_err(|_| io::Error::last_os_error())
        })
        .map_err(|cause| Error::io("Error reading file", path, &cause).at(at, None))?;
        if count == 0 {
            let message = format!("Error reading file '{path}': it ends in the middle of a chunk.");
            return Err(Error::data(message).in_file(path).at(at, None));
        }
        // SAFETY: `pread` has written so many bytes behind the buffer's end, within its capacity.
        unsafe { buffer.set_len(buffer.len() + count) };
    }
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_bounded() {
        let buffers = Buffers::default();
        let first = Vec::with_capacity(10_000);
        let address = first.as_ptr();
        buffers.give_back(first);
        let again = buffers.take(9_000);
        assert_eq!(again.as_ptr(), address);
        for _ in 0..5 {
            buffers.give_back(Vec::with_capacity(100));
        }
        assert_eq!(buffers.0.lock().len(), KEPT);
        assert_eq!(buffers.take(1 << 30).capacity(), 0);
    }
}
