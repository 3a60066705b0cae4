//! Archives (`.npz`): ZIP files whose members are arrays.

use crate::convert::output::Output;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, Result};
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive};
use std::io;

/// Numbers from this one on go to additional 64-bit fields (ZIP64).
const LARGE: u64 = 0xffff_ffff;

/// Flag of a member whose name is UTF-8.
const UTF8: u16 = 1 << 11;

/// 1 January 1980, the earliest date: fixed, so that equal contents give equal files.
const DATE: u16 = 1 << 5 | 1;

/// Version of the ZIP format that readers must support: 4.5, with 64-bit fields.
const VERSION: u16 = 45;

/// Size of the fixed part of the header before a member's data.
const LOCAL_HEADER: usize = 30;

/// Writes an uncompressed archive. `numpy.load` opens it at once, whatever its size, and reads each
/// array on demand.
pub struct ArchiveWriter {
    output: Output,
    /// The central directory, which is written at the end.
    directory: Vec<u8>,
    members: u64,
}

impl ArchiveWriter {
    pub fn create(path: &str) -> Result<ArchiveWriter> {
        Ok(ArchiveWriter { output: Output::create(path)?, directory: Vec::new(), members: 0 })
    }

    /// Begins a member of `size` bytes with this CRC-32; its bytes must be written next. The name
    /// must be shorter than 64 KiB.
    pub fn begin(&mut self, name: &str, size: u64, crc: u32) -> Result<()> {
        let at = self.output.at();
        let is_large = size >= LARGE;
        let is_far = at >= LARGE;
        // The fields that the local header and the directory share: version, flags, no compression,
        // time, date, CRC, sizes, length of the name.
        let mut facts = Vec::with_capacity(26);
        for number in [VERSION, UTF8, 0, 0, DATE] {
            facts.extend(number.to_le_bytes());
        }
        let short = size.min(LARGE) as u32;
        for number in [crc, short, short] {
            facts.extend(number.to_le_bytes());
        }
        facts.extend((name.len() as u16).to_le_bytes());
        let sizes = if is_large { vec![size, size] } else { Vec::new() };
        self.output.write(b"PK\x03\x04")?;
        self.output.write(&facts)?;
        let extra = extra(&sizes);
        self.output.write(&(extra.len() as u16).to_le_bytes())?;
        self.output.write(name.as_bytes())?;
        self.output.write(&extra)?;

        // The fixed fields of an entry have 46 bytes, the extra field at most 28.
        room::reserve(&mut self.directory, name.len() + 80, room::CONVERSION)?;
        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(VERSION.to_le_bytes());
        self.directory.extend(facts);
        let mut numbers = sizes;
        numbers.extend(Some(at).filter(|_| is_far));
        let extra = self::extra(&numbers);
        self.directory.extend((extra.len() as u16).to_le_bytes());
        // No comment, first disk, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend((at.min(LARGE) as u32).to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.directory.extend(extra);
        self.members += 1;
        Ok(())
    }

    /// Writes bytes of the current member.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write(bytes)
    }

    /// Writes the directory.
    pub fn finish(mut self) -> Result<Output> {
        let (at, size, members) = (self.output.at(), self.directory.len() as u64, self.members);
        self.output.write(&self.directory)?;
        let end = at + size;
        if at >= LARGE || size >= LARGE || members >= 0xffff {
            let mut record = b"PK\x06\x06".to_vec();
            record.extend(44u64.to_le_bytes());
            record.extend([VERSION, VERSION].map(u16::to_le_bytes).concat());
            record.extend([0; 8]);
            record.extend([members, members, size, at].map(u64::to_le_bytes).concat());
            record.extend(b"PK\x06\x07\0\0\0\0");
            record.extend(end.to_le_bytes());
            record.extend(1u32.to_le_bytes());
            self.output.write(&record)?;
        }
        let count = (members.min(0xffff) as u16).to_le_bytes();
        let mut record = b"PK\x05\x06\0\0\0\0".to_vec();
        record.extend([count, count].concat());
        record.extend([size, at].map(|number| (number.min(LARGE) as u32).to_le_bytes()).concat());
        record.extend([0; 2]);
        self.output.write(&record)?;
        Ok(self.output)
    }
}

/// Returns the extra field with these 64-bit numbers; empty if there are none.
fn extra(numbers: &[u64]) -> Vec<u8> {
    if numbers.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![1, 0];
    bytes.extend((8 * numbers.len() as u16).to_le_bytes());
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    bytes
}

/// An array in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name, without `.npy`.
    pub name: String,
    /// Offset of its data in the file.
    pub offset: u64,
    /// Size of its data in bytes.
    pub size: u64,
}

/// Lists the arrays of an archive, in its order.
pub fn members(file: &DataFile) -> Result<Vec<Member>> {
    let size = file.size()?;
    let damaged = |what: &str| {
        let error = Error::data(format!("The archive {what}."));
        error.with_detail("An archive of arrays was expected, as numpy.savez writes it.").in_file(file.path())
    };
    let mut buffer = room::zeroed(RECOMMENDED_BUFFER_SIZE, room::FILE)?;
    let archive = ZipArchive::with_max_search_space(1 << 17)
        .locate_in_reader(ZipFile(file.clone()), &mut buffer, size)
        .map_err(|(_, cause)| damaged("has no directory").with_detail(cause.to_string()))?;
    let mut found = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    loop {
        let entry =
            entries.next_entry().map_err(|cause| damaged("is damaged").with_detail(cause.to_string()))?;
        let Some(entry) = entry else { return Ok(found) };
        let path = entry.file_path();
        let name = std::str::from_utf8(path.as_bytes()).ok().and_then(|name| name.strip_suffix(".npy"));
        let Some(name) = name else { continue };
        if entry.compression_method() != CompressionMethod::STORE {
            let error = Error::data(format!("The array '{name}' is compressed."));
            return Err(error
                .with_detail("Write the archive with numpy.savez, without compression.")
                .in_file(file.path()));
        }
        let (at, size) = (entry.local_header_offset(), entry.uncompressed_size_hint());
        let mut header = [0; LOCAL_HEADER];
        file.read_exact_at(at, &mut header)?;
        if !header.starts_with(b"PK\x03\x04") {
            return Err(damaged("has a directory that does not fit its members"));
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let offset = at + LOCAL_HEADER as u64 + length(26) + length(28);
        room::push(&mut found, Member { name: name.to_owned(), offset, size }, room::CONVERSION)?;
    }
}

/// Adapts a file for the ZIP directory parser.
struct ZipFile(DataFile);

impl ReaderAt for ZipFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(offset, buffer).map_err(|error| io::Error::other(error.to_string()))
    }
}
