//! The header of a binary file: its streams and the table of its chunks, in either layout.
//!
//! *CNTK's layout*, used by CNTK 2.7 and its converter: magic number and version, chunks, header,
//! chunk table with absolute offsets, and in the last eight bytes the offset of the header. Each
//! sequence stores its own counts.
//!
//! *The documented layout*, described on CNTK's public page and read by versions before 2.0: header
//! with a 64-bit version, chunk table with offsets relative to its end, chunks. A chunk has one
//! block per stream.
//!
//! CNTK's layout has a second version, defined by this library: see [`TYPED_VERSION`].
//!
//! The layouts differ in the first eight bytes. Every count is checked against the size of the file
//! before memory is allocated for it.

use byteorder::{ByteOrder, LE, ReadBytesExt};
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::file::{DataFile, Sequential};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::{Error, ErrorKind, Result};
use std::io::{self, BufReader, Read};

/// `nib_ktnc` as it is stored in the file.
pub const MAGIC: u64 = 0x636e_746b_5f62_696e;

/// The version of either layout.
pub const VERSION: u32 = 1;

/// The version of CNTK's layout with value types that CNTK does not have: a stream record has the
/// number of an [`ElementType`] for the type, and ends with the number of classes, or 0. CNTK
/// rejects this version, so only files that need it use it.
pub const TYPED_VERSION: u32 = 2;

/// Size in bytes of a record in the chunk table: offset, sequences, samples.
const RECORD: usize = 16;

/// Bytes before the first chunk in CNTK's layout: magic number and version.
const PROLOGUE: u64 = 12;

/// The two layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The layout of CNTK 2.7.
    Cntk,
    /// The layout on CNTK's public page.
    Documented,
}

/// A stream as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamHeader {
    pub name: String,
    pub storage: Storage,
    pub element: ElementType,
    /// Number of values in a sample.
    pub dim: u32,
    /// Number of classes if the values are class numbers; otherwise 0.
    pub classes: u32,
}

impl StreamHeader {
    /// Size of a dense sample in bytes.
    pub fn sample_bytes(&self) -> u64 {
        u64::from(self.dim) * self.element.size() as u64
    }
}

/// A chunk that has sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkRecord {
    /// Offset of its first byte in the file.
    pub start: u64,
    /// Upper bound on the offset past its last byte.
    pub end: u64,
    pub sequences: u32,
    pub samples: u32,
}

/// The header of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub layout: Layout,
    /// [`VERSION`] or [`TYPED_VERSION`].
    pub version: u32,
    pub streams: Vec<StreamHeader>,
    pub chunks: Vec<ChunkRecord>,
}

impl Header {
    /// Reads and checks the whole header.
    pub fn read(file: &DataFile) -> Result<Header> {
        let mut input = Input::new(file, file.size()?);
        match input.u64()? {
            MAGIC => input.cntk(),
            version if version == u64::from(VERSION) => input.documented(),
            _ => Err(input.not_cbf().at(0, None)),
        }
    }
}

/// Rejects versions other than CNTK's, in CNTK's words.
pub(crate) fn check_version(version: u32, path: &str) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    let message =
        format!("The reader version is {VERSION}, but the data file was created for version {version}.");
    let error = Error::new(ErrorKind::Data, ExceptionClass::Logic, message);
    Err(error.with_detail("Convert the data again with this library or CNTK 2.7.").in_file(path).at(8, None))
}

/// Reads parts of the file from front to back, in blocks.
struct Input<'a> {
    file: &'a DataFile,
    reader: BufReader<Sequential<'a>>,
    /// Offset of the next byte.
    at: u64,
    /// End of the part to be read.
    end: u64,
}

/// Size of a block in bytes.
const BLOCK: usize = 1 << 15;

impl<'a> Input<'a> {
    fn new(file: &'a DataFile, end: u64) -> Self {
        Input { file, reader: BufReader::with_capacity(BLOCK, file.sequential_from(0)), at: 0, end }
    }

    fn error(&self, message: impl Into<String>) -> Error {
        Error::data(message).in_file(self.file.path()).at(self.at, None)
    }

    /// The error of a file with numbers that no converter writes.
    fn damaged(&self, message: impl Into<String>) -> Error {
        self.error(message).with_detail("The file is damaged, or of another format: convert the data again.")
    }

    fn not_cbf(&self) -> Error {
        self.error(format!("The input ({}) is not a valid CNTK binary format file.", self.file.path()))
            .as_cntk()
            .with_detail("The file is not a CNTK binary (CBF) file.")
            .with_detail("Files of CNTK's converter have 'nib_ktnc' there, files of CNTK's documentation the number 1.")
    }

    fn too_short(&self) -> Error {
        self.error(format!("Error reading file '{}': it ends inside its header.", self.file.path()))
            .with_detail("The file is not complete: write or copy it again.")
    }

    fn seek(&mut self, at: u64) {
        self.at = at;
        self.reader = BufReader::with_capacity(BLOCK, self.file.sequential_from(at));
    }

    /// Reads the next `size` bytes.
    fn take<T>(
        &mut self,
        size: u64,
        read: impl FnOnce(&mut BufReader<Sequential<'a>>) -> io::Result<T>,
    ) -> Result<T> {
        if self.end.checked_sub(self.at).is_none_or(|left| left < size) {
            return Err(self.too_short());
        }
        let taken = read(&mut self.reader).map_err(|cause| match cause.kind() {
            io::ErrorKind::UnexpectedEof => self.too_short(),
            _ => Error::io("Error reading file", self.file.path(), &cause).at(self.at, None),
        })?;
        self.at += size;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8> {
        self.take(1, |reader| reader.read_u8())
    }

    fn u32(&mut self) -> Result<u32> {
        self.take(4, |reader| reader.read_u32::<LE>())
    }

    fn i32(&mut self) -> Result<i32> {
        self.take(4, |reader| reader.read_i32::<LE>())
    }

    fn u64(&mut self) -> Result<u64> {
        self.take(8, |reader| reader.read_u64::<LE>())
    }

    fn i64(&mut self) -> Result<i64> {
        self.take(8, |reader| reader.read_i64::<LE>())
    }

    /// Reads a record of the chunk table: offset, sequences, samples.
    fn record(&mut self) -> Result<(i64, u32, u32)> {
        let mut record = [0; RECORD];
        self.take(RECORD as u64, |reader| reader.read_exact(&mut record))?;
        Ok((LE::read_i64(&record), LE::read_u32(&record[8..]), LE::read_u32(&record[12..])))
    }

    /// Reads a name of this many bytes.
    fn name(&mut self, length: u64) -> Result<String> {
        let start = self.at;
        if length > self.end - start {
            return Err(self.too_short());
        }
        let mut name = room::zeroed(length as usize, room::FILE)?;
        self.take(length, |reader| reader.read_exact(&mut name))?;
        String::from_utf8(name)
            .map_err(|_| self.damaged("The name of a stream is not UTF-8.").at(start, None))
    }

    /// Allocates the chunk table, if the file is long enough for this many records.
    fn chunk_table(&self, chunks: u64) -> Result<Vec<ChunkRecord>> {
        let left = self.end - self.at;
        if chunks > left / RECORD as u64 || chunks > u64::from(u32::MAX) {
            let error = self.error(format!(
                "Error reading file '{}': it is too short for its {chunks} chunks.",
                self.file.path()
            ));
            let detail = format!(
                "Their table takes {RECORD} bytes each, and {left} bytes are left: the file is not complete. Write or copy it again."
            );
            return Err(error.with_detail(detail));
        }
        room::with_capacity(chunks as usize, room::INDEX)
    }

    fn check_dim(&self, stream: &StreamHeader) -> Result<()> {
        let message = if stream.storage == Storage::SparseCsc && i32::try_from(stream.dim).is_err() {
            "Sample dimension is too large for an IndexType value."
        } else if stream.dim == 0 {
            "A stream has the sample dimension 0."
        } else {
            return Ok(());
        };
        Err(self.damaged(message).in_stream(&stream.name))
    }

    fn cntk(mut self) -> Result<Header> {
        let version = self.u32()?;
        let file = self.file;
        if version != TYPED_VERSION {
            check_version(version, file.path())?;
        }
        self.of_version(version).map_err(|error| match check_version(version, file.path()) {
            // Not this library's second version either: report the version as CNTK does.
            Err(of_version) if error.kind() == ErrorKind::Data => {
                of_version.with_detail(format!("As version {version} of this library: {}", error.message()))
            }
            _ => error,
        })
    }

    /// Reads the rest of the header in CNTK's layout.
    fn of_version(mut self, version: u32) -> Result<Header> {
        // The last eight bytes, which must not overlap the start.
        let trailer = self.end.checked_sub(8).filter(|&at| at >= self.at).ok_or_else(|| self.too_short())?;
        self.seek(trailer);
        let header = self.i64()?;
        let Some(header) = u64::try_from(header).ok().filter(|header| (PROLOGUE..trailer).contains(header))
        else {
            self.at = trailer;
            let error = self.error(format!(
                "Error seeking to position '{}' in file '{}': there is no header.",
                header.cast_unsigned(),
                self.file.path()
            ));
            let detail = format!(
                "The last eight bytes of a file are the offset of its header, here {PROLOGUE} to {trailer}. Write or copy the \
                 file again."
            );
            return Err(error
                .as_cntk()
                .with_detail("The file is not complete: its header is missing.")
                .with_detail(detail));
        };
        self.end = trailer;
        self.seek(header);
        if self.u64()? != MAGIC {
            self.at = header;
            return Err(self.not_cbf());
        }
        let (chunks, streams) = (self.u32()?, self.u32()?);
        if streams == 0 {
            return Err(self.damaged("The file has no streams."));
        }
        let streams = (0..streams).map(|_| self.cntk_stream(version)).collect::<Result<Vec<_>>>()?;
        let mut records = self.chunk_table(chunks.into())?;
        for _ in 0..chunks {
            let at = self.at;
            let (start, sequences, samples) = self.record()?;
            let data = PROLOGUE..=header;
            let Some(start) = u64::try_from(start).ok().filter(|start| data.contains(start)) else {
                self.at = at;
                return Err(self.damaged(format!(
                    "Chunk {} begins at {start}, which is not between the start of the file and its header at {header}.",
                    records.len()
                )));
            };
            records.push(ChunkRecord { start, end: header, sequences, samples });
        }
        // A sequence takes at least the four bytes of its length.
        let chunks = self.cut(records, 4)?;
        Ok(Header { layout: Layout::Cntk, version, streams, chunks })
    }

    fn cntk_stream(&mut self, version: u32) -> Result<StreamHeader> {
        let storage = match self.u8()? {
            0 => Storage::Dense,
            1 => Storage::SparseCsc,
            other => return Err(self.damaged(format!("Unknown encoding type {other} requested."))),
        };
        let length = self.u32()?;
        let name = self.name(length.into())?;
        let is_typed = version == TYPED_VERSION;
        let number = self.u8()?;
        let number = if is_typed { number.into() } else { u32::from(number) + 1 };
        let element = match ElementType::from_number(number) {
            // CNTK allows only floating-point values in sparse streams.
            Some(element) if element.is_real() || is_typed && storage == Storage::Dense => element,
            _ => {
                let other = if is_typed { number } else { number - 1 };
                let error = self.damaged(format!("Unsupported input data type {other}."));
                return Err(error.in_stream(&name));
            }
        };
        let dim = self.u32()?;
        let classes = if is_typed { self.u32()? } else { 0 };
        if classes > 0 && dim != 1 {
            let message =
                format!("A sample has {dim} values instead of one class number (of {classes} classes).");
            return Err(self.damaged(message).in_stream(&name));
        }
        let stream = StreamHeader { name, storage, element, dim, classes };
        self.check_dim(&stream)?;
        Ok(stream)
    }

    fn documented(mut self) -> Result<Header> {
        let (chunks, streams) = (self.i64()?, self.i32()?);
        if chunks <= 0 || streams <= 0 {
            return Err(self.damaged(format!("The file has {chunks} chunks and {streams} streams.")));
        }
        let streams = (0..streams).map(|_| self.documented_stream()).collect::<Result<Vec<_>>>()?;
        let mut records = self.chunk_table(chunks.cast_unsigned())?;
        let data = self.at + chunks.cast_unsigned() * RECORD as u64;
        for _ in 0..chunks {
            let at = self.at;
            let (start, sequences, samples) = self.record()?;
            let start = u64::try_from(start).ok().and_then(|start| start.checked_add(data));
            let (Some(start), Ok(sequences), Ok(samples)) =
                (start.filter(|&start| start <= self.end), signed(sequences), signed(samples))
            else {
                self.at = at;
                let number = records.len();
                let error = self.error(format!("The record of chunk {number} in the chunk table is wrong."));
                let detail = format!(
                    "Its offset has to be within the file's {} bytes, and its counts must not be negative.",
                    self.end
                );
                return Err(error.with_detail(detail));
            };
            records.push(ChunkRecord { start, end: self.end, sequences, samples });
        }
        let chunks = self.cut(records, 0)?;
        Ok(Header { layout: Layout::Documented, version: VERSION, streams, chunks })
    }

    fn documented_stream(&mut self) -> Result<StreamHeader> {
        let length = self.i32()?;
        let length = u64::try_from(length).map_err(|_| self.too_short())?;
        let name = self.name(length)?;
        let refuse = |input: &Self, what: &str, value: i32| {
            Err(input
                .damaged(format!(
                    "{what} {value}{}",
                    if what.starts_with("Unknown") { " requested." } else { "." }
                ))
                .in_stream(&name))
        };
        let storage = match self.i32()? {
            0 => Storage::Dense,
            1 => Storage::SparseCsc,
            other => return refuse(self, "Unknown deserializer type", other),
        };
        if storage == Storage::SparseCsc {
            let kind = self.i32()?;
            if kind != 0 {
                return refuse(self, "Unsupported storage type", kind);
            }
        }
        let element = match self.i32()? {
            0 => ElementType::Float,
            1 => ElementType::Double,
            other => return refuse(self, "Unsupported element type", other),
        };
        if storage == Storage::SparseCsc {
            let kind = self.i32()?;
            if !matches!(kind, 0 | 1) {
                return refuse(self, "Unsupported sequence type", kind);
            }
        }
        let dim = self.i32()?;
        let Ok(dim) = dim.try_into() else {
            return refuse(self, "Unsupported sample dimension", dim);
        };
        let stream = StreamHeader { name, storage, element, dim, classes: 0 };
        self.check_dim(&stream)?;
        Ok(stream)
    }

    /// Sets the end of each chunk to the start of the next, checks that its sequences, of at least
    /// `least` bytes each, fit, and removes chunks without sequences.
    fn cut(&self, mut records: Vec<ChunkRecord>, least: u64) -> Result<Vec<ChunkRecord>> {
        for i in 1..records.len() {
            records[i - 1].end = records[i].start;
        }
        for (number, record) in records.iter().enumerate() {
            let size = record.end.checked_sub(record.start);
            if size.is_none_or(|size| size < least * u64::from(record.sequences)) {
                let error = self.damaged(format!(
                    "According to the chunk table, chunk {number}, with {} sequences, begins at {} and ends at {}.",
                    record.sequences, record.start, record.end
                ));
                return Err(error.with_detail("Chunks have to follow each other and hold their sequences."));
            }
        }
        records.retain(|record| record.sequences > 0);
        Ok(records)
    }
}

/// Converts a count that the file stores as a signed number.
fn signed(count: u32) -> std::result::Result<u32, std::num::TryFromIntError> {
    count.cast_signed().try_into()
}

#[cfg(test)]
mod tests;
