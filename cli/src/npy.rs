//! Arrays for NumPy (`.npy`, version 1.0).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A type of NumPy's.
pub trait Element {
    /// Its name in NumPy.
    const NAME: &'static str;
    /// Writes the value, lowest byte first.
    fn write(&self, out: &mut impl Write) -> io::Result<()>;
}

macro_rules! element {
    ($type:ty, $name:literal) => {
        impl Element for $type {
            const NAME: &'static str = $name;
            fn write(&self, out: &mut impl Write) -> io::Result<()> {
                out.write_all(&self.to_le_bytes())
            }
        }
    };
}

element!(f32, "<f4");
element!(f64, "<f8");
element!(i32, "<i4");
element!(i64, "<i8");

/// Writes an array of this shape, the last dimension varying fastest.
pub fn write<T: Element>(path: &Path, shape: &[usize], values: &[T]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let shape: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let text =
        format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", T::NAME, shape.trim_end());
    // The header's 10 bytes, its text and a line break fill a multiple of 64 bytes.
    let size = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let length = u16::try_from(size).map_err(io::Error::other)?;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length.to_le_bytes())?;
    writeln!(out, "{text:<width$}", width = size - 1)?;
    values.iter().try_for_each(|value| value.write(&mut out))?;
    out.flush()
}
