//! Sequences as lines of the text format.

use super::digits;
use crate::deserialize::{Chunk, Loaded};
use crate::sequence::SequenceView;
use crate::stream::{ElementType, StreamInfo};
use crate::{Error, Result};
use std::io::Write;

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
        // Writing to memory does not fail.
        let _ = write!(out, "{key}");
        for (view, stream) in views.iter().zip(streams) {
            if sample < view.samples {
                out.extend(b"\t|");
                out.extend(stream.name.as_bytes());
                write_sample(view, stream, sample as usize, out)
                    .map_err(|error| error.in_stream(&stream.name).for_key(key.to_string()))?;
            }
        }
        out.push(b'\n');
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
        return view.values[sample * bytes..][..bytes].chunks_exact(size).try_for_each(|value| {
            out.push(b' ');
            write_value(value, stream.element, out)
        });
    };
    let base = sparse.offsets[0];
    let entries = (sparse.offsets[sample] - base) as usize..(sparse.offsets[sample + 1] - base) as usize;
    if entries.is_empty() {
        // A name alone is a sample, if a byte follows that ends the name.
        out.push(b' ');
    }
    let indices = sparse.indices.as_chunks::<4>().0;
    for entry in entries {
        let _ = write!(out, " {}:", i32::from_le_bytes(indices[entry]));
        write_value(&view.values[entry * size..][..size], stream.element, out)?;
    }
    Ok(())
}

fn write_value(bytes: &[u8], element: ElementType, out: &mut Vec<u8>) -> Result<()> {
    let written = match element {
        ElementType::Float => {
            let bits = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            digits::write_f32(f32::from_bits(bits), out)
        }
        ElementType::Double => {
            let bits = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            digits::write_f64(f64::from_bits(bits), out)
        }
    };
    if written { Ok(()) } else { Err(Error::data("No text is read as the bits of this value.")) }
}
