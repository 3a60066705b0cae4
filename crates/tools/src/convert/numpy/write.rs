//! Converts sequences to arrays.

use super::archive::ArchiveWriter;
use super::{DIM, INDICES, KEYS, OFFSETS, SEQUENCES, VALUES};
use super::{header, numpy_type};
use crate::convert::data::{Batch, Column};
use crate::convert::output::Output;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use crc32fast::Hasher;

/// Writes an array or an archive. Each array is collected in a temporary file, because an archive
/// stores one array after the other.
pub struct NumpyWriter {
    path: String,
    is_archive: bool,
    streams: Vec<StreamArrays>,
    keys: KeyArray,
}

/// A temporary file with the values of an array.
struct ArrayFile {
    output: Output,
    crc: Hasher,
}

impl ArrayFile {
    fn create(path: &str, name: &str) -> Result<ArrayFile> {
        Ok(ArrayFile { output: Output::part(path, &format!(".{name}"))?, crc: Hasher::new() })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        self.output.write(bytes)
    }

    /// Writes the ends of parts of these lengths, and adds the lengths to `end`.
    fn write_ends(&mut self, end: &mut u64, lengths: &[u32]) -> Result<()> {
        let ends = lengths.iter().flat_map(|&length| {
            *end += u64::from(length);
            end.to_le_bytes()
        });
        let mut bytes = room::with_capacity(lengths.len() * size_of::<u64>(), room::CONVERSION)?;
        bytes.extend(ends);
        self.write(&bytes)
    }

    /// Moves the array to the archive under the name `name`.
    fn store(mut self, archive: &mut ArchiveWriter, name: &str, element: &str, shape: &[u64]) -> Result<()> {
        let description = header(element, shape);
        let size = description.len() as u64 + self.output.at();
        let mut crc = Hasher::new();
        crc.update(&description);
        crc.combine(&self.crc);
        let name = format!("{name}.npy");
        if name.len() > usize::from(u16::MAX) {
            return Err(Error::argument("The name of a stream has 64 KB or more, too much for an archive."));
        }
        archive.begin(&name, size, crc.finalize())?;
        archive.write(&description)?;
        self.output.read_back(|bytes| archive.write(bytes))
    }
}

/// The arrays of a stream.
struct StreamArrays {
    info: StreamInfo,
    values: ArrayFile,
    /// Sparse: the index of each value, and the ends of samples.
    sparse: Option<(ArrayFile, ArrayFile)>,
    /// Ends of sequences.
    sequences: ArrayFile,
    /// Numbers of sequences, samples and stored values so far.
    sequence_count: u64,
    samples: u64,
    entries: u64,
    /// Whether every sequence has one sample.
    is_single: bool,
}

impl StreamArrays {
    fn create(path: &str, number: usize, info: &StreamInfo) -> Result<StreamArrays> {
        let part = |what: &str| ArrayFile::create(path, &format!("{number}{what}"));
        let mut sparse = None;
        if info.storage == Storage::SparseCsc {
            let mut offsets = part(OFFSETS)?;
            offsets.write(&0u64.to_le_bytes())?;
            sparse = Some((part(INDICES)?, offsets));
        }
        let mut sequences = part(SEQUENCES)?;
        sequences.write(&0u64.to_le_bytes())?;
        Ok(StreamArrays {
            info: info.clone(),
            values: part(VALUES)?,
            sparse,
            sequences,
            sequence_count: 0,
            samples: 0,
            entries: 0,
            is_single: true,
        })
    }

    fn append(&mut self, column: &Column) -> Result<()> {
        self.sequence_count += column.lengths.len() as u64;
        self.is_single &= column.lengths.iter().all(|&length| length == 1);
        self.sequences.write_ends(&mut self.samples, &column.lengths)?;
        if let Some((indices, offsets)) = &mut self.sparse {
            offsets.write_ends(&mut self.entries, &column.counts)?;
            indices.write(bytemuck::cast_slice(&column.indices))?;
        }
        self.values.write(&column.values)
    }

    fn element(&self) -> &'static str {
        numpy_type(self.info.element)
    }

    /// Returns the shape of the array of a dense stream. NumPy's last dimension varies fastest; in
    /// the shape of a sample it is the first.
    fn shape(&self) -> Vec<u64> {
        let sample = self.info.shape.iter().rev().map(|&dim| dim as u64);
        std::iter::once(self.samples).chain(sample).collect()
    }

    fn store(self, archive: &mut ArchiveWriter) -> Result<()> {
        let (name, element, shape) = (self.info.name.clone(), self.element(), self.shape());
        match self.sparse {
            None => self.values.store(archive, &name, element, &shape)?,
            Some((indices, offsets)) => {
                self.values.store(archive, &format!("{name}{VALUES}"), element, &[self.entries])?;
                indices.store(archive, &format!("{name}{INDICES}"), "<i4", &[self.entries])?;
                offsets.store(archive, &format!("{name}{OFFSETS}"), "<i8", &[self.samples + 1])?;
                let bytes =
                    [header("<i8", &[]), (self.info.sample_size() as u64).to_le_bytes().to_vec()].concat();
                archive.begin(&format!("{name}{DIM}.npy"), bytes.len() as u64, crc32fast::hash(&bytes))?;
                archive.write(&bytes)?;
            }
        }
        if !self.is_single {
            self.sequences.store(
                archive,
                &format!("{name}{SEQUENCES}"),
                "<i8",
                &[self.sequence_count + 1],
            )?;
        }
        Ok(())
    }
}

/// The keys, stored as numbers if all of them are numbers.
struct KeyArray {
    /// For each key, its length in 4 bytes and its text.
    texts: Output,
    count: u64,
    most_characters: usize,
    are_numbers: bool,
}

impl KeyArray {
    fn append(&mut self, keys: &[String]) -> Result<()> {
        for key in keys {
            self.texts.write(&(key.len() as u32).to_le_bytes())?;
            self.texts.write(key.as_bytes())?;
            self.most_characters = self.most_characters.max(key.chars().count());
            self.are_numbers &= key.parse::<u64>().is_ok_and(|number| number.to_string() == *key);
        }
        self.count += keys.len() as u64;
        Ok(())
    }

    fn store(mut self, path: &str, archive: &mut ArchiveWriter) -> Result<()> {
        let mut array = ArrayFile::create(path, KEYS)?;
        let (are_numbers, width) = (self.are_numbers, self.most_characters.max(1));
        let mut waiting: Vec<u8> = Vec::new();
        let mut text = room::with_capacity(4 * width.max(2), room::CONVERSION)?;
        self.texts.read_back(|bytes| {
            room::extend(&mut waiting, bytes, room::CONVERSION)?;
            let mut rest = &waiting[..];
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let length = u32::from_le_bytes(*length) as usize;
                let Some((key, after)) = after.split_at_checked(length) else { break };
                rest = after;
                let key = std::str::from_utf8(key).map_err(|_| Error::internal("a key that is no text"))?;
                text.clear();
                if are_numbers {
                    text.extend(key.parse::<u64>().unwrap_or_default().to_le_bytes());
                } else {
                    text.extend(key.chars().flat_map(|character| u32::from(character).to_le_bytes()));
                    text.resize(4 * width, 0);
                }
                array.write(&text)?;
            }
            let done = waiting.len() - rest.len();
            waiting.drain(..done);
            Ok(())
        })?;
        let element = if are_numbers { "<u8".to_owned() } else { format!("<U{width}") };
        array.store(archive, KEYS, &element, &[self.count])
    }
}

impl NumpyWriter {
    /// Creates a file of one array.
    pub fn array(path: &str, streams: &[StreamInfo]) -> Result<NumpyWriter> {
        match streams {
            [one] if one.storage == Storage::Dense => Self::create(path, streams, false),
            _ => {
                let error = Error::argument("A file of one array holds one dense stream.");
                Err(error.with_detail("Write an archive of arrays (.npz), or choose a stream.").in_file(path))
            }
        }
    }

    /// Creates an archive of arrays.
    pub fn archive(path: &str, streams: &[StreamInfo]) -> Result<NumpyWriter> {
        let ends = [VALUES, INDICES, OFFSETS, SEQUENCES, DIM];
        let taken =
            |name: &str| name == KEYS || ends.iter().any(|end| name.ends_with(end)) || name.contains('\0');
        match streams.iter().find(|stream| taken(&stream.name)) {
            None => Self::create(path, streams, true),
            Some(stream) => {
                let message =
                    format!("The stream '{}' cannot be written to an archive of arrays.", stream.name);
                let detail = "The name has a special meaning there. Give the stream another name.";
                Err(Error::argument(message).with_detail(detail).in_stream(&stream.name))
            }
        }
    }

    fn create(path: &str, streams: &[StreamInfo], is_archive: bool) -> Result<NumpyWriter> {
        let create = |(number, info)| StreamArrays::create(path, number, info);
        Ok(NumpyWriter {
            path: path.to_owned(),
            is_archive,
            streams: streams.iter().enumerate().map(create).collect::<Result<_>>()?,
            keys: KeyArray {
                texts: Output::part(path, ".texts")?,
                count: 0,
                most_characters: 0,
                are_numbers: true,
            },
        })
    }

    pub fn append(&mut self, batch: &Batch) -> Result<()> {
        if self.is_archive {
            self.keys.append(&batch.keys)?;
        }
        for (stream, column) in self.streams.iter_mut().zip(&batch.columns) {
            stream.append(column)?;
            if !self.is_archive && !stream.is_single {
                let message = "A file of one array holds only sequences of one sample.";
                let error = Error::argument(message).with_detail("Write an archive of arrays (.npz).");
                return Err(error.in_stream(&stream.info.name));
            }
        }
        Ok(())
    }

    /// Assembles the output from the arrays.
    pub fn finish(self) -> Result<Output> {
        if self.is_archive {
            let mut archive = ArchiveWriter::create(&self.path)?;
            self.streams.into_iter().try_for_each(|stream| stream.store(&mut archive))?;
            self.keys.store(&self.path, &mut archive)?;
            return archive.finish();
        }
        let mut output = Output::create(&self.path)?;
        for mut stream in self.streams {
            output.write(&header(stream.element(), &stream.shape()))?;
            stream.values.output.read_back(|bytes| output.write(bytes))?;
        }
        Ok(output)
    }
}
