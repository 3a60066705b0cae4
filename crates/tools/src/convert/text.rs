//! Writes sequences as lines of the text format.

use super::data::{Batch, Column};
use super::digits;
use cntk_reader_core::format::{Chunk, Loaded};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::SequenceView;
use cntk_reader_core::stream::{Element, ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result, with_element};
use rayon::prelude::*;
use std::io::Write;
use std::ops::Range;

/// Number of sequences that one thread turns into text at a time.
const TOGETHER: usize = 256;

/// Maximum number of bytes of an index with its separators.
const LONGEST_INDEX: usize = 16;

/// Maximum number of digits of a numeric key.
const LONGEST_KEY: usize = 20;

/// Returns the lines of the sequences, in parts: one line for each sample of the longest stream of
/// a sequence.
pub fn write_batch(batch: &Batch, streams: &[StreamInfo], pool: &Pool) -> Result<Vec<Vec<u8>>> {
    let ends = batch.columns.iter().zip(streams).map(|(column, info)| Ends::of(column, info));
    let ends = ends.collect::<Result<Vec<_>>>()?;
    let count = batch.keys.len();
    let write = |first: usize| {
        let mut text = Vec::new();
        for number in first..count.min(first + TOGETHER) {
            write_numbered(batch, streams, &ends, number, &mut text)?;
        }
        Ok(text)
    };
    let firsts: Vec<usize> = (0..count).step_by(TOGETHER).collect();
    pool.install(|| firsts.into_par_iter().map(write).collect())
}

/// The ends of sequences and samples in a column.
struct Ends {
    /// The number of samples up to the end of each sequence.
    sequences: Vec<usize>,
    /// The number of values up to the end of each sample, if the stream is sparse.
    samples: Vec<usize>,
}

impl Ends {
    fn of(column: &Column, info: &StreamInfo) -> Result<Ends> {
        let sum = |numbers: &[u32]| {
            let ends = numbers.iter().scan(0, |end, &number| {
                *end += number as usize;
                Some(*end)
            });
            room::collect(ends, room::CONVERSION)
        };
        let samples = if info.storage == Storage::SparseCsc { sum(&column.counts)? } else { Vec::new() };
        Ok(Ends { sequences: sum(&column.lengths)?, samples })
    }
}

/// Returns the range of part `number`, given the ends of all parts.
fn part(ends: &[usize], number: usize) -> Range<usize> {
    let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
    begin..ends[number]
}

fn write_numbered(
    batch: &Batch,
    streams: &[StreamInfo],
    ends: &[Ends],
    number: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let key = &batch.keys[number];
    if key.bytes().any(|byte| byte == b'|' || byte.is_ascii_whitespace()) || key.is_empty() {
        let error = Error::data(format!("The key '{key}' cannot be written as text."));
        let detail = "An id has no white space and no '|', and is not empty. Number the sequences instead.";
        return Err(error.with_detail(detail).for_key(key.as_str()));
    }
    let longest = batch.columns.iter().map(|column| column.lengths[number]).max().unwrap_or(0);
    for sample in 0..longest as usize {
        room::extend(out, key.as_bytes(), room::CONVERSION)?;
        for ((column, info), ends) in batch.columns.iter().zip(streams).zip(ends) {
            let samples = part(&ends.sequences, number);
            if sample >= samples.len() {
                continue;
            }
            write_name(info, out)?;
            let (at, size) = (samples.start + sample, info.element.size());
            match info.storage {
                Storage::Dense => {
                    let bytes = info.sample_size() * size;
                    write_dense(&column.values[at * bytes..][..bytes], info, out)
                }
                Storage::SparseCsc => {
                    let entries = part(&ends.samples, at);
                    let values = &column.values[entries.start * size..entries.end * size];
                    write_sparse(&column.indices[entries], values, info.element, out)
                }
            }
            .map_err(|error| error.in_stream(&info.name).for_key(key.as_str()))?;
        }
        room::push(out, b'\n', room::CONVERSION)?;
    }
    Ok(())
}

/// Returns the number of classes of a stream that is written as samples `index:1`.
pub fn classes_of(stream: &StreamInfo) -> Option<usize> {
    stream.classes.filter(|_| matches!(stream.element, ElementType::Int32 | ElementType::Int64))
}

/// Begins a sample: appends the name of its stream.
fn write_name(stream: &StreamInfo, out: &mut Vec<u8>) -> Result<()> {
    room::extend(out, b"\t|", room::CONVERSION)?;
    room::extend(out, stream.name.as_bytes(), room::CONVERSION)
}

/// Appends the values of a dense sample.
fn write_dense(values: &[u8], stream: &StreamInfo, out: &mut Vec<u8>) -> Result<()> {
    let (element, is_id) = (stream.element, classes_of(stream).is_some());
    values.chunks_exact(element.size()).try_for_each(|value| {
        room::push(out, b' ', room::CONVERSION)?;
        write_value(value, element, out)?;
        if is_id { room::extend(out, b":1", room::CONVERSION) } else { Ok(()) }
    })
}

/// Appends the values of a sparse sample.
fn write_sparse(indices: &[i32], values: &[u8], element: ElementType, out: &mut Vec<u8>) -> Result<()> {
    if indices.is_empty() {
        // A name without values is a sample only if another byte ends the name.
        room::push(out, b' ', room::CONVERSION)?;
    }
    indices.iter().zip(values.chunks_exact(element.size())).try_for_each(|(index, value)| {
        room::reserve(out, LONGEST_INDEX, room::CONVERSION)?;
        // Writing to memory does not fail.
        let _ = write!(out, " {index}:");
        write_value(value, element, out)
    })
}

/// Appends the lines of a sequence: one for each sample of its longest stream.
pub fn write_sequence(
    chunk: &dyn Chunk,
    streams: &[StreamInfo],
    key: u64,
    index: u32,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut views = Vec::with_capacity(streams.len());
    for number in 0..streams.len() {
        let Loaded::Data(view) = chunk.sequence(number, index) else {
            return Err(Error::internal("a binary chunk without data"));
        };
        views.push(view);
    }
    let length = views.iter().map(|view| view.samples).max().unwrap_or(0);
    for sample in 0..length {
        room::reserve(out, LONGEST_KEY, room::CONVERSION)?;
        // Writing to memory does not fail.
        let _ = write!(out, "{key}");
        for (view, stream) in views.iter().zip(streams) {
            if sample < view.samples {
                write_name(stream, out)?;
                write_sample(view, stream, sample as usize, out)
                    .map_err(|error| error.in_stream(&stream.name).for_key(key.to_string()))?;
            }
        }
        room::push(out, b'\n', room::CONVERSION)?;
    }
    Ok(())
}

fn write_sample(
    view: &SequenceView<'_>,
    stream: &StreamInfo,
    sample: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let size = stream.element.size();
    let Some(sparse) = view.sparse() else {
        let bytes = stream.sample_size() * size;
        return write_dense(&view.values[sample * bytes..][..bytes], stream, out);
    };
    let base = sparse.offsets[0];
    let entries = (sparse.offsets[sample] - base) as usize..(sparse.offsets[sample + 1] - base) as usize;
    let indices = &sparse.indices.as_chunks::<4>().0[entries.clone()];
    let indices = room::collect(indices.iter().map(|&bytes| i32::from_le_bytes(bytes)), room::CONVERSION)?;
    write_sparse(&indices, &view.values[entries.start * size..entries.end * size], stream.element, out)
}

/// Reads a value of type `T` from its bytes, and converts it to type `R`.
fn value_as<T: Element, R: Element>(bytes: &[u8]) -> Result<R> {
    let value: Option<T> = bytemuck::checked::try_pod_read_unaligned(bytes).ok();
    let wrong =
        || Error::data(format!("The bytes {bytes:?} are not a value of the type {}.", T::TYPE.name()));
    value.and_then(|value| value.to::<R>()).ok_or_else(wrong)
}

fn write_value(bytes: &[u8], element: ElementType, out: &mut Vec<u8>) -> Result<()> {
    let written = match element {
        ElementType::Double => {
            let bits = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            digits::write_f64(f64::from_bits(bits), out)?
        }
        ElementType::Float => {
            let bits = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            digits::write_f32(f32::from_bits(bits), out)?
        }
        // `f32` represents their values exactly, so rounding back restores them.
        ElementType::Float16 | ElementType::BFloat16 => {
            digits::write_f32(with_element!(element, T => value_as::<T, f32>(bytes))?, out)?
        }
        _ => {
            let value = with_element!(element, T => value_as::<T, i64>(bytes))?;
            room::reserve(out, LONGEST_KEY, room::CONVERSION)?;
            // Writing to memory does not fail.
            let _ = write!(out, "{value}");
            true
        }
    };
    if written { Ok(()) } else { Err(Error::data("No decimal number reads back as the bits of this value.")) }
}
