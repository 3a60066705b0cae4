//! Checks the sizes of the pages of Parquet files, because the reader allocates what a page's
//! header says before it unpacks the page.

use parquet::basic::Compression;
use parquet::file::metadata::ColumnChunkMetaData;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// A size that any page may have.
const ANY_SIZE: u64 = 1 << 20;

/// Bytes in which the header of a page is expected. Longer ones, with long statistics, are not
/// checked.
const HEADER: usize = 4096;

/// Depth to which structures in a header are skipped.
const DEPTH: u32 = 8;

/// Whether no page of a column chunk has a size that its compression cannot reach. Headers that
/// cannot be parsed are left to the reader, which reports them.
pub fn are_plausible(file: &File, chunk: &ColumnChunkMetaData) -> bool {
    // How far a byte can grow at most.
    let growth = match chunk.compression() {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 64,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1100,
        _ => 1 << 16,
    };
    let (Ok(at), Ok(size)) = (first_page(chunk), u64::try_from(chunk.compressed_size())) else { return true };
    let (mut at, end) = (at, at.saturating_add(size));
    let mut buffer = [0; HEADER];
    while at < end {
        let mut file = file;
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read(&mut buffer));
        let Ok(length) = read else { return true };
        let mut bytes = Bytes(&buffer[..length]);
        let Some((unpacked, packed)) = bytes.page() else { return true };
        if unpacked > packed.saturating_mul(growth).max(ANY_SIZE) {
            return false;
        }
        at = at.saturating_add((length - bytes.0.len()) as u64 + packed);
    }
    true
}

fn first_page(chunk: &ColumnChunkMetaData) -> Result<u64, std::num::TryFromIntError> {
    u64::try_from(chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset()))
}

/// Bytes in Thrift's compact protocol.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    /// Reads the header of a page; returns the sizes of the page, unpacked and packed.
    fn page(&mut self) -> Option<(u64, u64)> {
        let (mut sizes, mut id) = ([None; 2], 0);
        while let Some(kind) = self.field(&mut id)? {
            match (id, kind) {
                (2 | 3, 5) => sizes[id as usize - 2] = u64::try_from(self.signed()?).ok(),
                _ => self.skip(kind, DEPTH)?,
            }
        }
        Some((sizes[0]?, sizes[1]?))
    }

    /// Reads the head of a field; `Some(None)` at the end of a structure.
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *id = if byte >> 4 == 0 { self.signed()? } else { id.checked_add((byte >> 4).into())? };
        Some(Some(byte & 15))
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            // Booleans are part of their heads.
            1 | 2 => Some(()),
            3 => self.byte().map(drop),
            4..=6 => self.number().map(drop),
            7 => self.advance(8),
            8 => self.number().and_then(|length| self.advance(usize::try_from(length).ok()?)),
            9 | 10 => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.number()? } else { (head >> 4).into() };
                (0..count).try_for_each(|_| match head & 15 {
                    1 | 2 => self.advance(1),
                    kind => self.skip(kind, depth),
                })
            }
            12 => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn advance(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.get(count..)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        self.number().map(|number| (number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
