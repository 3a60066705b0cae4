//! Location of the frames in a file.
//!
//! The seekable format of zstd ends with a seek table. In files without one, frames are found by
//! walking from frame to frame and from block to block: a frame states its own size and those of
//! its blocks, so nothing has to be unpacked.

use crate::file::DataFile;
use crate::file::packed::damaged;
use crate::limits::{BEST_FRAME_RATIO, LARGEST_FRAME};
use crate::memory::room;
use crate::{Error, Result};
use byteorder::{ByteOrder, LE};
use std::ops::Range;

pub const FRAME_MAGIC: u32 = 0xfd2f_b528;
/// The last four bits are arbitrary.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
/// Magic number of the skippable frame that holds the seek table.
pub const TABLE_MAGIC: u32 = SKIPPABLE_MAGIC | 0xe;
/// The last four bytes of a file with a seek table.
pub const FOOTER_MAGIC: u32 = 0x8f92_eab1;
/// Size of the footer: number of frames, flags, magic number.
pub const FOOTER: u64 = 9;
/// Magic number and size of a skippable frame.
pub const SKIPPABLE_HEADER: u64 = 8;

/// A frame that contains data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Offset of its data in the unpacked data.
    pub start: u64,
    /// Offset in the compressed file.
    pub packed: u64,
    /// Bytes in the compressed file.
    pub packed_size: u32,
    /// Size of its data in bytes.
    pub size: u32,
    /// The low half of the XXH64 of its data, if the seek table has checksums.
    pub checksum: Option<u32>,
}

impl Frame {
    /// Returns the end of the frame in the compressed file.
    pub fn packed_end(&self) -> u64 {
        self.packed + u64::from(self.packed_size)
    }
}

/// All frames that contain data, in file order.
#[derive(Debug, Default)]
pub struct SeekTable {
    frames: Vec<Frame>,
    size: u64,
}

impl SeekTable {
    /// Finds the frames of a file. Returns `None` if they cannot be unpacked one by one in memory,
    /// because some are too large or do not state their sizes.
    pub fn read(file: &DataFile) -> Result<Option<SeekTable>> {
        let size = file.size()?;
        match Self::read_footer(file, size)? {
            Some(frames) => Self::read_entries(file, size, frames),
            None => Walk::new(file, size)?.table(),
        }
    }

    /// Returns the size of the unpacked data.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the memory of the table in bytes.
    pub fn bytes(&self) -> u64 {
        (self.frames.capacity() * size_of::<Frame>()) as u64
    }

    /// Returns the data size of the largest frame.
    pub fn largest_frame(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.size)).max().unwrap_or(0)
    }

    /// Returns a frame by its number.
    pub fn frame(&self, number: usize) -> &Frame {
        &self.frames[number]
    }

    /// Returns the numbers of the frames that contain a range of the unpacked data. The range must
    /// be non-empty and within the data.
    pub fn find(&self, range: Range<u64>) -> Range<usize> {
        let before = |offset| self.frames.partition_point(|frame| frame.start <= offset);
        before(range.start) - 1..before(range.end - 1)
    }

    /// Returns whether a frame that occupies `packed` can contain `size` bytes of data. Without
    /// this check, other formats would compare the sizes stated in their data with a size that the
    /// file merely claims.
    fn is_possible(packed: &Range<u64>, size: u64) -> bool {
        size > LARGEST_FRAME || size <= (packed.end - packed.start).saturating_mul(BEST_FRAME_RATIO)
    }

    /// Appends a frame. Returns whether it can be unpacked in memory.
    fn add(&mut self, packed: Range<u64>, size: u64, checksum: Option<u32>) -> Result<bool> {
        let Ok(packed_size) = u32::try_from(packed.end - packed.start) else { return Ok(false) };
        if size > LARGEST_FRAME || u64::from(packed_size) > 2 * LARGEST_FRAME {
            return Ok(false);
        }
        if size > 0 {
            let frame =
                Frame { start: self.size, packed: packed.start, packed_size, size: size as u32, checksum };
            room::push(&mut self.frames, frame, room::INDEX)?;
            self.size += size;
        }
        Ok(true)
    }

    /// Reads the footer of a seek table, if the file ends with one: the number of frames, and
    /// whether the table has checksums.
    fn read_footer(file: &DataFile, size: u64) -> Result<Option<(u64, bool)>> {
        let Some(at) = size.checked_sub(FOOTER) else { return Ok(None) };
        let mut footer = [0; FOOTER as usize];
        file.read_exact_at(at, &mut footer)?;
        if LE::read_u32(&footer[5..]) != FOOTER_MAGIC {
            return Ok(None);
        }
        if footer[4] & 0x7c != 0 {
            return Err(damaged(file.path(), at, "the table of zstd frames has undefined flags"));
        }
        Ok(Some((LE::read_u32(&footer).into(), footer[4] & 0x80 != 0)))
    }

    fn read_entries(
        file: &DataFile,
        size: u64,
        (frames, has_sums): (u64, bool),
    ) -> Result<Option<SeekTable>> {
        let unfit = |at, what: &str| damaged(file.path(), at, &format!("the table of zstd frames {what}"));
        let entry = if has_sums { 12 } else { 8 };
        // At most 52 billion: no overflow.
        let content = frames * entry + FOOTER;
        let Some(start) = size.checked_sub(content + SKIPPABLE_HEADER) else {
            return Err(unfit(size - FOOTER, "says that it is larger than the file"));
        };
        // The seek table is a part of the file, so the file size bounds this memory.
        let mut bytes = room::zeroed((content + SKIPPABLE_HEADER) as usize, room::FILE)?;
        file.read_exact_at(start, &mut bytes)?;
        if LE::read_u32(&bytes) != TABLE_MAGIC || u64::from(LE::read_u32(&bytes[4..])) != content {
            return Err(unfit(start, "does not begin where its end says"));
        }
        let entries = &bytes[SKIPPABLE_HEADER as usize..(content + SKIPPABLE_HEADER - FOOTER) as usize];
        let mut table = SeekTable { frames: room::with_capacity(frames as usize, room::INDEX)?, size: 0 };
        let mut packed = 0;
        let mut is_in_memory = true;
        for entry in entries.chunks_exact(entry as usize) {
            let end = packed + u64::from(LE::read_u32(entry));
            let checksum = has_sums.then(|| LE::read_u32(&entry[8..]));
            let unpacked = LE::read_u32(&entry[4..]).into();
            if !Self::is_possible(&(packed..end), unpacked) {
                let what =
                    format!("says that a frame of {} bytes has {unpacked} bytes of data", end - packed);
                return Err(unfit(start, &what));
            }
            is_in_memory &= table.add(packed..end, unpacked, checksum)?;
            packed = end;
        }
        if packed != start {
            let what = format!("says that the frames end at {packed}, but it begins at {start}");
            return Err(unfit(start, &what));
        }
        Ok(is_in_memory.then_some(table))
    }
}

/// Bytes per read while walking through a file: a memory page for a local file, because most bytes
/// are skipped. For a mounted file system, the request costs more than the bytes.
const LOCAL_READ: usize = 4 << 10;
const REMOTE_READ: usize = 4 << 20;

/// Walks through the frames and blocks of a file.
struct Walk<'a> {
    file: &'a DataFile,
    size: u64,
    buffer: Vec<u8>,
    /// Offset in the file and length of the bytes in the buffer.
    start: u64,
    length: usize,
}

impl<'a> Walk<'a> {
    fn new(file: &'a DataFile, size: u64) -> Result<Self> {
        let read = if file.is_local() { LOCAL_READ } else { REMOTE_READ };
        Ok(Walk { file, size, buffer: room::zeroed(read, room::FILE)?, start: 0, length: 0 })
    }

    fn table(mut self) -> Result<Option<SeekTable>> {
        let mut table = SeekTable::default();
        let mut at = 0;
        while at < self.size {
            let magic = LE::read_u32(self.bytes(at, at, 4)?);
            if magic & 0xffff_fff0 == SKIPPABLE_MAGIC {
                at += SKIPPABLE_HEADER + u64::from(LE::read_u32(self.bytes(at, at + 4, 4)?));
                if at > self.size {
                    return Err(self.error(self.size, "the last zstd frame is not complete"));
                }
                continue;
            }
            if magic != FRAME_MAGIC {
                return Err(self.error(at, "no zstd frame begins where the one before it ends"));
            }
            let start = at;
            let Some((end, size)) = self.frame(start)? else { return Ok(None) };
            if !SeekTable::is_possible(&(start..end), size) {
                let what =
                    format!("a zstd frame of {} bytes says that it has {size} bytes of data", end - start);
                return Err(self.error(start, &what));
            }
            if !table.add(start..end, size, None)? {
                return Ok(None);
            }
            at = end;
        }
        Ok(Some(table))
    }

    /// Returns the end of a frame and the size of its data, or `None` if the frame does not state
    /// it.
    fn frame(&mut self, start: u64) -> Result<Option<(u64, u64)>> {
        let flags = self.bytes(start, start + 4, 1)?[0];
        if flags & 8 != 0 {
            return Err(self.error(start, "a zstd frame has undefined flags"));
        }
        let is_single = flags & 0x20 != 0;
        let dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
        let stated = match flags >> 6 {
            0 if is_single => 1,
            0 => return Ok(None),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        let mut at = start + 5 + u64::from(!is_single) + dictionary;
        let size = LE::read_uint(self.bytes(start, at, stated)?, stated);
        let size = if stated == 2 { size + 256 } else { size };
        at += stated as u64;
        loop {
            let block = LE::read_u24(self.bytes(start, at, 3)?);
            at += 3;
            at += match block >> 1 & 3 {
                0 | 2 => u64::from(block >> 3),
                1 => 1,
                _ => return Err(self.error(start, "a zstd frame has a block of an undefined type")),
            };
            if block & 1 != 0 {
                break;
            }
        }
        if flags & 4 != 0 {
            at += 4;
        }
        if at > self.size {
            return Err(self.error(start, "the last zstd frame is not complete"));
        }
        Ok(Some((at, size)))
    }

    /// Returns `count` bytes from offset `at`, which belong to the frame that begins at `frame`.
    fn bytes(&mut self, frame: u64, at: u64, count: usize) -> Result<&[u8]> {
        if at.saturating_add(count as u64) > self.size {
            return Err(self.error(frame, "the last zstd frame is not complete"));
        }
        if at < self.start || at + count as u64 > self.start + self.length as u64 {
            self.length = self.file.read_at(at, &mut self.buffer)?;
            self.start = at;
        }
        let from = (at - self.start) as usize;
        if from + count > self.length {
            return Err(self.error(frame, "the last zstd frame is not complete"));
        }
        Ok(&self.buffer[from..from + count])
    }

    fn error(&self, at: u64, what: &str) -> Error {
        damaged(self.file.path(), at, what)
    }
}
