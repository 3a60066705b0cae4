//! The memory that chunks are read into, used again and again: touching fresh pages costs more than reading.
//!
//! Huge pages have been tried here. Where memory is fragmented the system makes room for them first, which took several
//! times what the fewer faults saved.

use crate::deserialize::text::source;
use crate::error::ExceptionClass;
use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{TryReserveError, VecDeque};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Buffers that may wait. Of a window of one chunk, and chunks that are loaded ahead, one at a time is given back; when a
/// window of many chunks moves, as many come back as go.
const KEPT: usize = 4;

/// Empty buffers that wait to be used again.
#[derive(Debug)]
pub struct Buffers {
    waiting: Mutex<VecDeque<Vec<u8>>>,
    /// Bytes of the largest chunk.
    largest: u64,
}

impl Buffers {
    /// None yet, for chunks up to this size.
    pub fn new(largest: u64) -> Self {
        Buffers { waiting: Mutex::default(), largest }
    }

    /// Bytes to reserve for a chunk: the largest one's, if it is of such a size. So nearly all chunks of a file fit into
    /// the same buffers; what a buffer has beyond its chunk is never touched.
    fn room(&self, size: u64) -> u64 {
        if size >= self.largest / 2 { self.largest.max(size) } else { size }
    }

    /// An empty buffer with room for so many bytes. Fails if there is no memory.
    pub fn take(&self, size: u64) -> std::result::Result<Vec<u8>, TryReserveError> {
        let room = usize::try_from(self.room(size)).unwrap_or(usize::MAX);
        let fits = |buffer: &Vec<u8>| (room..=room.saturating_mul(2)).contains(&buffer.capacity());
        let mut waiting = self.waiting.lock();
        if let Some(found) = waiting.iter().position(fits).and_then(|at| waiting.remove(at)) {
            return Ok(found);
        }
        drop(waiting);
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(room)?;
        Ok(buffer)
    }

    /// Takes a buffer back.
    pub fn give_back(&self, mut buffer: Vec<u8>) {
        if buffer.capacity() == 0 {
            return;
        }
        buffer.clear();
        let mut waiting = self.waiting.lock();
        waiting.push_back(buffer);
        let dropped = if waiting.len() > KEPT { waiting.pop_front() } else { None };
        // Memory is freed without the lock.
        drop(waiting);
        drop(dropped);
    }
}

/// Reads a range of the file, all of it, into a buffer of these.
pub fn read(file: &File, path: &str, range: Range<u64>, buffers: &Buffers) -> Result<Vec<u8>> {
    let size = range.end - range.start;
    let mut buffer = buffers.take(size).map_err(|_| {
        let message = format!("There is no memory for a chunk of {size} bytes.");
        let error = Error::new(ErrorKind::Io, ExceptionClass::Runtime, message);
        error.in_file(path).at(range.start, None)
    })?;
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
        let buffers = Buffers::new(10_000);
        let first = buffers.take(9_000).expect("memory");
        assert!(first.capacity() >= 10_000);
        let address = first.as_ptr();
        buffers.give_back(first);
        let again = buffers.take(9_500).expect("memory");
        assert_eq!(again.as_ptr(), address);
        for _ in 0..9 {
            buffers.give_back(Vec::with_capacity(100));
        }
        assert_eq!(buffers.waiting.lock().len(), KEPT);
        assert!((200..10_000).contains(&buffers.take(200).expect("memory").capacity()));
        assert!(buffers.take(u64::MAX).is_err());
    }
}
