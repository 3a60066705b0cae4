//! The header: streams and the table of chunks, of both layouts.
//!
//! *Magic*, what CNTK 2.7 and its converter use: magic number and version, chunks, header, chunk table with absolute
//! offsets, and in the last eight bytes the offset of the header. Each sequence has its own counts.
//!
//! *Documented*, what CNTK's public page describes and versions before 2.0 read: header with a version of 64 bits,
//! chunk table with offsets relative to its end, chunks. A chunk has one block per stream.
//!
//! The first eight bytes tell them apart. Every count is held against the file's size before memory is taken for it.

use crate::error::ExceptionClass;
use crate::file::DataFile;
use crate::stream::{ElementType, Storage};
use crate::{Error, ErrorKind, Result};

/// `nib_ktnc`, as the file has it.
pub const MAGIC: u64 = 0x636e_746b_5f62_696e;

/// The version of either layout.
pub const VERSION: u32 = 1;

/// Bytes of a row of the chunk table.
const ROW: u64 = 16;

/// The two layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// CNTK 2.7's own.
    Magic,
    /// The one of CNTK's public page.
    Documented,
}

/// A stream as the file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHeader {
    pub name: String,
    pub storage: Storage,
    pub element: ElementType,
    /// Values of a sample.
    pub dim: u32,
}

impl StreamHeader {
    /// Bytes of a dense sample.
    pub fn sample_bytes(&self) -> u64 {
        u64::from(self.dim) * self.element.size() as u64
    }
}

/// A chunk that has sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRow {
    /// Offset of its first byte in the file.
    pub start: u64,
    /// Offset behind the last byte that can be its own.
    pub end: u64,
    pub sequences: u32,
    pub samples: u32,
}

/// The header of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    pub layout: Layout,
    pub streams: Vec<StreamHeader>,
    pub chunks: Vec<ChunkRow>,
}

impl Header {
    /// Reads the header and checks all of it.
    pub fn read(file: &DataFile) -> Result<Header> {
        let size = file.size()?;
        let mut input = Input { file, size, at: 0, block: Vec::new(), block_at: 0 };
        match input.u64()? {
            MAGIC => input.magic(),
            version if version == u64::from(VERSION) => input.documented(),
            _ => Err(input.not_cbf().at(0, None)),
        }
    }
}

/// Reads the file front to back, in blocks.
struct Input<'a> {
    file: &'a DataFile,
    /// Where the part to be read ends.
    size: u64,
    at: u64,
    block: Vec<u8>,
    block_at: u64,
}

const BLOCK: usize = 1 << 16;

impl Input<'_> {
    fn error(&self, message: impl Into<String>) -> Error {
        Error::data(message).in_file(self.file.path()).at(self.at, None)
    }

    fn not_cbf(&self) -> Error {
        self.error(format!("The input ({}) is not a valid CNTK binary format file.", self.file.path()))
    }

    fn too_short(&self) -> Error {
        self.error(format!("Error reading file '{}': it ends inside its header.", self.file.path()))
    }

    fn seek(&mut self, at: u64) {
        self.at = at;
        self.block.clear();
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        if self.size.checked_sub(self.at).is_none_or(|left| left < N as u64) {
            return Err(self.too_short());
        }
        let cached = |input: &Self| {
            let start = input.at.checked_sub(input.block_at)? as usize;
            input.block.get(start..)?.first_chunk::<N>().copied()
        };
        let bytes = match cached(self) {
            Some(bytes) => bytes,
            None => {
                self.block_at = self.at;
                self.block.resize(BLOCK.min((self.size - self.at) as usize), 0);
                let count = self.file.read_at(self.at, &mut self.block)?;
                self.block.truncate(count);
                cached(self).ok_or_else(|| self.too_short())?
            }
        };
        self.at += N as u64;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        self.bytes().map(|[byte]: [u8; 1]| byte)
    }

    fn u32(&mut self) -> Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.bytes().map(i32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.bytes().map(i64::from_le_bytes)
    }

    /// A name of this many bytes.
    fn name(&mut self, length: u64) -> Result<String> {
        if length > self.size - self.at {
            return Err(self.too_short());
        }
        let mut name = vec![0; length as usize];
        if self.file.read_at(self.at, &mut name)? < name.len() {
            return Err(self.too_short());
        }
        let name = String::from_utf8(name).map_err(|_| self.error("The name of a stream is not UTF-8."))?;
        self.seek(self.at + length);
        Ok(name)
    }

    fn check_version(&self, version: u64) -> Result<()> {
        if version == u64::from(VERSION) {
            return Ok(());
        }
        let message =
            format!("The reader version is {VERSION}, but the data file was created for version {version}.");
        let error = Error::new(ErrorKind::Data, ExceptionClass::Logic, message);
        Err(error.in_file(self.file.path()).at(8, None))
    }

    /// Room for the rows of the chunk table, if the file has as many.
    fn chunk_table(&self, chunks: u64) -> Result<Vec<ChunkRow>> {
        if chunks > (self.size - self.at) / ROW || chunks > u64::from(u32::MAX) {
            return Err(self.error(format!(
                "Error reading file '{}': it is too short for its {chunks} chunks.",
                self.file.path()
            )));
        }
        Ok(Vec::with_capacity(chunks as usize))
    }

    fn check_dim(&self, stream: &StreamHeader) -> Result<()> {
        let message = if stream.storage == Storage::SparseCsc && i32::try_from(stream.dim).is_err() {
            "Sample dimension is too large for an IndexType value."
        } else if stream.dim == 0 {
            "A stream has the sample dimension 0."
        } else {
            return Ok(());
        };
        Err(self.error(message).in_stream(&stream.name))
    }

    fn magic(mut self) -> Result<Header> {
        let version = self.u32()?;
        self.check_version(u64::from(version))?;
        let whole = self.size;
        // The trailer must not overlap the start.
        let trailer = whole.checked_sub(8).filter(|&at| at >= self.at).ok_or_else(|| self.too_short())?;
        self.seek(trailer);
        let header = self.i64()?;
        let Some(header) = u64::try_from(header).ok().filter(|&header| header >= 12 && header < trailer)
        else {
            self.at = trailer;
            return Err(self.error(format!(
                "Error seeking to position '{}' in file '{}': there is no header.",
                header.cast_unsigned(),
                self.file.path()
            )));
        };
        self.size = trailer;
        self.seek(header);
        if self.u64()? != MAGIC {
            self.at = header;
            return Err(self.not_cbf());
        }
        let (chunks, streams) = (self.u32()?, self.u32()?);
        if streams == 0 {
            return Err(self.error("The file has no streams."));
        }
        let streams = (0..streams).map(|_| self.magic_stream()).collect::<Result<Vec<_>>>()?;
        let mut rows = self.chunk_table(chunks.into())?;
        for _ in 0..chunks {
            let at = self.at;
            let (start, sequences, samples) = (self.i64()?, self.u32()?, self.u32()?);
            let Some(start) = u64::try_from(start).ok().filter(|start| (12..=header).contains(start)) else {
                self.at = at;
                return Err(self.error(format!(
                    "Chunk {} begins at {start}, which is not between the start of the file and its header at {header}.",
                    rows.len()
                )));
            };
            rows.push(ChunkRow { start, end: header, sequences, samples });
        }
        let chunks = self.cut(rows, 4)?;
        Ok(Header { layout: Layout::Magic, streams, chunks })
    }

    fn magic_stream(&mut self) -> Result<StreamHeader> {
        let storage = match self.u8()? {
            0 => Storage::Dense,
            1 => Storage::SparseCsc,
            other => return Err(self.error(format!("Unknown encoding type {other} requested."))),
        };
        let length = self.u32()?;
        let name = self.name(length.into())?;
        let element = match self.u8()? {
            0 => ElementType::Float,
            1 => ElementType::Double,
            other => {
                let error = self.error(format!("Unsupported input data type {other}."));
                return Err(error.in_stream(&name));
            }
        };
        let stream = StreamHeader { name, storage, element, dim: self.u32()? };
        self.check_dim(&stream)?;
        Ok(stream)
    }

    fn documented(mut self) -> Result<Header> {
        let (chunks, streams) = (self.i64()?, self.i32()?);
        if chunks <= 0 || streams <= 0 {
            return Err(self.error(format!("The file has {chunks} chunks and {streams} streams.")));
        }
        let streams = (0..streams).map(|_| self.documented_stream()).collect::<Result<Vec<_>>>()?;
        let mut rows = self.chunk_table(chunks.cast_unsigned())?;
        let data = self.at + chunks.cast_unsigned() * ROW;
        for _ in 0..chunks {
            let at = self.at;
            let (start, sequences, samples) = (self.i64()?, self.i32()?, self.i32()?);
            let start = u64::try_from(start).ok().and_then(|start| start.checked_add(data));
            let (Some(start), Ok(sequences), Ok(samples)) =
                (start.filter(|&start| start <= self.size), sequences.try_into(), samples.try_into())
            else {
                self.at = at;
                return Err(self.error(format!("The table's row of chunk {} makes no sense.", rows.len())));
            };
            rows.push(ChunkRow { start, end: self.size, sequences, samples });
        }
        let chunks = self.cut(rows, 0)?;
        Ok(Header { layout: Layout::Documented, streams, chunks })
    }

    fn documented_stream(&mut self) -> Result<StreamHeader> {
        let length = self.i32()?;
        let length = u64::try_from(length).map_err(|_| self.too_short())?;
        let name = self.name(length)?;
        let refuse = |input: &Self, what: &str, value: i32| {
            Err(input
                .error(format!(
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
        let stream = StreamHeader { name, storage, element, dim };
        self.check_dim(&stream)?;
        Ok(stream)
    }

    /// Ends each chunk where the next one begins, checks that sequences can fit, and leaves out chunks without any.
    fn cut(&self, mut rows: Vec<ChunkRow>, least: u64) -> Result<Vec<ChunkRow>> {
        for i in 1..rows.len() {
            rows[i - 1].end = rows[i].start;
        }
        for (number, row) in rows.iter().enumerate() {
            let size = row.end.checked_sub(row.start);
            if size.is_none_or(|size| size < least * u64::from(row.sequences)) {
                return Err(self.error(format!(
                    "Chunk {number} with its {} sequences is said to begin at {} and to end at {}.",
                    row.sequences, row.start, row.end
                )));
            }
        }
        rows.retain(|row| row.sequences > 0);
        Ok(rows)
    }
}
