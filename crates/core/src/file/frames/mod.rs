//! Files of many zstd frames. The thread that needs a frame unpacks it on demand, so any part of
//! the file can be read at any time.
//!
//! The [`table`] locates the frames. A frame that a read covers completely is unpacked directly
//! into the reader's memory. A frame in which a read begins or ends is kept unpacked in the
//! [`cache`], because the next read needs the rest of it.

#![allow(unsafe_code, reason = "decompressed bytes")]

mod cache;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use write::{FrameTable, pack};

use super::packed::damaged;
use super::xxh64::Xxh64;
use super::zstd::Unpacker;
use super::{DataFile, initialized_ref};
use crate::Result;
use crate::memory::room;
use cache::FrameCache;
use std::mem::MaybeUninit;
use table::{Frame, SeekTable};

/// Number of compressed bytes that one read fetches if several frames are needed.
const READ: u64 = 1 << 20;

/// The unpacked data of a file of frames.
#[derive(Debug)]
pub struct Frames {
    packed: DataFile,
    table: SeekTable,
    cache: FrameCache,
}

impl Frames {
    /// Opens a file. Returns `None` if its frames cannot be unpacked one by one, because some are
    /// too large or do not state their sizes.
    pub fn open(packed: &DataFile) -> Result<Option<Frames>> {
        // Record the state before reading the table: reads of frames then notice a change in
        // between.
        packed.first_state()?;
        let Some(table) = SeekTable::read(packed)? else { return Ok(None) };
        let cache = FrameCache::new(table.largest_frame());
        Ok(Some(Frames { packed: packed.clone(), table, cache }))
    }

    /// Returns the compressed file.
    pub fn packed(&self) -> &DataFile {
        &self.packed
    }

    /// Returns the size of the unpacked data.
    pub fn size(&self) -> u64 {
        self.table.size()
    }

    /// Returns the number of bytes of memory held for unpacking.
    pub fn memory(&self) -> u64 {
        self.cache.bytes() + self.table.bytes()
    }

    /// Fills `memory` with the unpacked bytes from `offset` on, and returns their number, which is
    /// less than `memory.len()` only at the end of the data. The bytes counted are initialized.
    pub fn read(&self, offset: u64, memory: &mut [MaybeUninit<u8>]) -> Result<usize> {
        let wanted = self.size().saturating_sub(offset).min(memory.len() as u64) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let memory = &mut memory[..wanted];
        let numbers = self.table.find(offset..offset + wanted as u64);
        // Later compressed bytes are not needed.
        let end = self.table.frame(numbers.end - 1).packed_end();
        Unpacker::with(|unpacker| {
            let mut reader = PackedReader { frames: self, unpacker, start: 0, length: 0, end };
            let mut filled = 0;
            for number in numbers {
                let frame = self.table.frame(number);
                let from = (offset + filled as u64 - frame.start) as usize;
                let count = (frame.size as usize - from).min(wanted - filled);
                let target = &mut memory[filled..filled + count];
                let is_whole = count == frame.size as usize;
                let known = if is_whole { self.cache.get(number) } else { None };
                match known {
                    None if is_whole => reader.unpack(frame, target)?,
                    known => {
                        let data = match known {
                            Some(data) => data,
                            None => self.cache.get_or_make(number, frame.size as usize, |bytes| {
                                reader.unpack(frame, bytes)
                            })?,
                        };
                        for (target, &byte) in target.iter_mut().zip(&data[from..from + count]) {
                            target.write(byte);
                        }
                    }
                }
                filled += count;
            }
            Ok(wanted)
        })
    }

    /// Verifies the checksum of a frame, if the table has one.
    fn check(&self, frame: &Frame, bytes: &[u8]) -> Result<()> {
        match frame.checksum {
            Some(expected) if expected != Xxh64::of(bytes) as u32 => {
                Err(self.damaged(frame, "it differs from its checksum in the table of frames"))
            }
            _ => Ok(()),
        }
    }

    fn damaged(&self, frame: &Frame, reason: &str) -> crate::Error {
        damaged(self.packed.path(), frame.packed, &format!("a zstd frame is damaged: {reason}"))
    }
}

/// Reads the compressed bytes of the frames that one read needs.
struct PackedReader<'a> {
    frames: &'a Frames,
    unpacker: &'a mut Unpacker,
    /// Offset and length of the compressed bytes in the unpacker's memory.
    start: u64,
    length: usize,
    /// End of the last frame in the compressed file.
    end: u64,
}

impl PackedReader<'_> {
    /// Unpacks a frame into memory of its size. On success, all of `memory` is initialized.
    fn unpack(&mut self, frame: &Frame, memory: &mut [MaybeUninit<u8>]) -> Result<()> {
        if frame.packed < self.start || frame.packed_end() > self.start + self.length as u64 {
            self.length = 0;
            let end = self.end.min(frame.packed + READ).max(frame.packed_end());
            let length = (end - frame.packed) as usize;
            if self.unpacker.packed.len() < length {
                room::resize(&mut self.unpacker.packed, length, 0, room::FILE)?;
            }
            let bytes = &mut self.unpacker.packed[..length];
            self.frames.packed.read_exact_at(frame.packed, bytes)?;
            (self.start, self.length) = (frame.packed, length);
        }
        let at = (frame.packed - self.start) as usize;
        let range = at..at + frame.packed_size as usize;
        let unpacked = self.unpacker.unpack(range, memory);
        unpacked.map_err(|reason| self.frames.damaged(frame, &reason))?;
        // SAFETY: `unpack` has succeeded, so all of `memory` is initialized.
        self.frames.check(frame, unsafe { initialized_ref(memory) })
    }
}
