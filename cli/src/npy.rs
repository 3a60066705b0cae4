//! Writes NumPy arrays (`.npy`, version 1.0).

use cntk_reader::Element;
use cntk_reader_tools::convert::numpy_type;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes an array of this shape, the last dimension varying fastest.
pub fn write<T: Element>(path: &Path, shape: &[usize], values: &[T]) -> io::Result<()> {
    write_bytes(path, numpy_type(T::TYPE), shape, &[bytemuck::cast_slice(values)])
}

/// Writes an array whose values are the concatenation of `parts`, in native byte order.
pub fn write_bytes(path: &Path, name: &str, shape: &[usize], parts: &[&[u8]]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let shape: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let text = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({}), }}", shape.trim_end());
    // The 10 bytes of the magic, the version and the length, the text, and a line break together
    // fill a multiple of 64 bytes.
    let size = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let length = u16::try_from(size).map_err(io::Error::other)?;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length.to_le_bytes())?;
    writeln!(out, "{text:<width$}", width = size - 1)?;
    parts.iter().try_for_each(|part| out.write_all(part))?;
    out.flush()
}
