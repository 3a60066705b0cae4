//! Converts data of any kind to text, binary files or NumPy arrays, and verifies the output.

use super::binary_writer::{BinaryStream, BinaryWriter};
use super::data::{Batch, Data};
use super::digest::{Digest, Digester};
use super::numpy::{NumpyOptions, NumpyWriter};
use super::output::Output;
use super::text::{classes_of, write_batch};
use super::{Listener, Progress, report};
use cntk_reader::{CbfDeserializer, CtfDeserializer, Reader, ReaderOptions};
use cntk_reader_core::file::{self, address};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use std::path::Path;

/// Formats that [`convert`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// CNTK's text format (CTF). CNTK's arithmetic reads back the same bits. Sequences have their
    /// keys as ids.
    Text,
    /// CNTK's binary format (CBF), in the layout that CNTK 2.7 reads. It has no keys.
    Binary,
    /// A NumPy array (`.npy`), for data with one dense stream with one sample in each sequence. Its
    /// shape is the number of sequences, then the shape of a sample, with the dimension that varies
    /// fastest last.
    NumpyArray,
    /// An uncompressed archive of NumPy arrays (`.npz`). The array `keys` has the keys. A dense
    /// stream `x` is the array `x`: the number of samples, then the shape of a sample. A sparse
    /// stream `y` has the arrays `y.values`, `y.indices` and `y.offsets`, which are `data`,
    /// `indices` and `indptr` of a `scipy.sparse.csr_array` with a row for each sample, and its
    /// dimension as `y.dim`. If some sequences of a stream `z` do not have exactly one sample,
    /// `z.sequences` has the start of each sequence among the samples, and the end.
    NumpyArchive,
}

/// Options of [`convert`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertOptions {
    /// Size of the chunks of a binary file in bytes.
    pub chunk_size: u64,
    /// Whether the output is read back and compared with the data before it gets its name.
    pub verify: bool,
    /// For text and binary files: the level of zstd to compress the output with, from 1 to 22;
    /// `None`: no compression. Readers recognize compressed files by their names, so the path must
    /// end in `.zst`.
    pub compression: Option<u32>,
}

impl Default for ConvertOptions {
    fn default() -> ConvertOptions {
        ConvertOptions { chunk_size: 32 << 20, verify: true, compression: None }
    }
}

/// Writes data to a file, and returns their digest with the numbers of sequences, samples and
/// values. The listener gets numbers of sequences as `bytes` and `total`; verification restarts
/// them from 0.
///
/// The file appears under its name when it is complete and verified, and replaces an existing file;
/// an interrupted conversion leaves nothing behind. Several conversions to one path at a time are
/// refused where the file system cannot separate them.
pub fn convert(
    mut data: Data,
    format: Format,
    path: &str,
    options: &ConvertOptions,
    listener: &mut Listener<'_>,
) -> Result<Digest> {
    if matches!(format, Format::NumpyArray | Format::NumpyArchive) {
        data.widen_bfloat16();
    }
    let mut sink = Sink::create(&data, format, path, options)?;
    let mut digester = Digester::new(data.streams());
    let mut progress = Progress { bytes: 0, total: data.sequences().unwrap_or(0), sequences: 0 };
    while let Some(batch) = data.next_batch()? {
        digester.add(batch);
        sink.write(batch)?;
        progress.sequences += batch.keys.len() as u64;
        progress.bytes = progress.sequences;
        report(listener, progress)?;
    }
    let written = digester.finish();
    let streams = data.streams().to_vec();
    // Release the input before the output is read.
    drop(data);
    let mut output = sink.finish()?;
    if options.verify {
        let found = output.read_again(|path| {
            let mut again = reopen(path, format, &streams)?;
            let mut digester = Digester::new(again.streams());
            let mut progress = Progress { total: written.sequences, ..Progress::default() };
            while let Some(batch) = again.next_batch()? {
                digester.add(batch);
                progress.sequences += batch.keys.len() as u64;
                progress.bytes = progress.sequences;
                report(listener, progress)?;
            }
            Ok(digester.finish())
        })?;
        if found != written {
            return Err(differs(written, found, format).in_file(path));
        }
    }
    output.commit()?;
    Ok(written)
}

/// Opens an output that does not have its name yet.
fn reopen(path: &str, format: Format, streams: &[StreamInfo]) -> Result<Data> {
    // A text file declares the types of dense streams one by one; a binary file has a precision or
    // declares types.
    let sparse = streams.iter().find(|stream| stream.storage == Storage::SparseCsc);
    let is_double = streams.iter().any(|stream| stream.element == ElementType::Double);
    let precision = match sparse {
        Some(sparse) => sparse.element,
        None if is_double => ElementType::Double,
        None => ElementType::Float,
    };
    let options = ReaderOptions::new().precision(precision).trace_level(0);
    let numpy = |is_archive| {
        let name = streams.first().map(|stream| stream.name.clone());
        let stream = if is_archive { None } else { name };
        Data::of_numpy(
            path,
            &NumpyOptions { stream, is_archive: Some(is_archive), ..NumpyOptions::default() },
        )
    };
    match format {
        Format::Text => {
            let file = CtfDeserializer::new(Path::new(&address::exact(path)));
            let ctf = streams.iter().fold(file, |ctf, stream| match (stream.storage, classes_of(stream)) {
                (_, Some(classes)) => ctf.sparse(&stream.name, classes).ids(stream.element),
                (Storage::Dense, None) if stream.element != precision => {
                    ctf.dense(&stream.name, stream.sample_size()).element(stream.element)
                }
                (Storage::Dense, None) => ctf.dense(&stream.name, stream.sample_size()),
                (Storage::SparseCsc, None) => ctf.sparse(&stream.name, stream.sample_size()),
            });
            Data::of_reader(Reader::builder().options(options.numeric_keys(false)).ctf(ctf))
        }
        Format::Binary => Data::of_reader(
            Reader::builder().options(options).cbf(CbfDeserializer::new(Path::new(&address::exact(path)))),
        ),
        Format::NumpyArray => numpy(false),
        Format::NumpyArchive => numpy(true),
    }
}

fn differs(written: Digest, found: Digest, format: Format) -> Error {
    let detail = format!(
        "{} sequences, {} samples and {} values with the digest {written} were written, but {} sequences, {} \
         samples and {} values with the digest {found} were read back. The output was not kept.",
        written.sequences, written.samples, written.values, found.sequences, found.samples, found.values
    );
    let cause = match format {
        Format::Text if found.sequences < written.sequences => {
            " Text cannot separate neighbouring sequences with the same key: convert with numbers as ids."
        }
        Format::Text => " In the text format every sequence needs a sample in every stream.",
        _ => "",
    };
    Error::data("The output differs from the data.").with_detail(detail + cause)
}

/// Writes batches in one of the formats.
enum Sink {
    Text { output: Output, streams: Vec<StreamInfo>, pool: Pool },
    Binary { writer: BinaryWriter, chunk_size: u64, chunk: u64 },
    Numpy(NumpyWriter),
}

impl Sink {
    fn create(data: &Data, format: Format, path: &str, options: &ConvertOptions) -> Result<Sink> {
        let streams = data.streams();
        let level = options.compression;
        if level.is_some() && !matches!(format, Format::Text | Format::Binary) {
            let error = Error::argument(
                "NumPy arrays are not compressed with zstd, because NumPy could not read them.",
            );
            return Err(error.with_detail("Text and binary files can be compressed."));
        }
        if level.is_some() && !file::is_named_as_zstd(path) {
            let error = Error::argument(format!("The name '{path}' does not end in '.zst'."));
            let detail = "Readers recognize a compressed file by its name and its content. Give it the extension '.zst'.";
            return Err(error.with_detail(detail));
        }
        Ok(match format {
            Format::Text => {
                streams.iter().try_for_each(|stream| super::binary::check_name(&stream.name))?;
                let output = Output::create_packed(path, level)?;
                Sink::Text { output, streams: streams.to_vec(), pool: Pool::shared()? }
            }
            Format::Binary => {
                let streams = streams.iter().map(BinaryStream::of).collect::<Result<Vec<_>>>()?;
                let writer = BinaryWriter::create(Output::create_packed(path, level)?, streams)?;
                Sink::Binary { writer, chunk_size: options.chunk_size, chunk: 0 }
            }
            Format::NumpyArray => Sink::Numpy(NumpyWriter::array(path, streams)?),
            Format::NumpyArchive => Sink::Numpy(NumpyWriter::archive(path, streams)?),
        })
    }

    fn write(&mut self, batch: &Batch) -> Result<()> {
        match self {
            Sink::Text { output, streams, pool } => {
                write_batch(batch, streams, pool)?.iter().try_for_each(|text| output.write(text))
            }
            Sink::Binary { writer, chunk_size, chunk } => writer.append(batch, *chunk_size, chunk),
            Sink::Numpy(writer) => writer.append(batch),
        }
    }

    fn finish(self) -> Result<Output> {
        match self {
            Sink::Text { output, .. } => Ok(output),
            Sink::Binary { writer, .. } => writer.finish().map(|(output, _)| output),
            Sink::Numpy(writer) => writer.finish(),
        }
    }
}
