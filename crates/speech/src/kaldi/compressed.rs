//! Compressed matrices: 16 bytes of sizes and range, then a one- or two-byte number per value.
//!
//! The arithmetic is Kaldi's, operation by operation, so that values are bitwise equal. Kaldi's
//! seven compression methods differ in how they choose the range; they produce three formats.

use cntk_reader_core::{Error, Result};

/// Header size: minimum and range as `f32`, rows and columns as `i32`.
pub const HEADER: usize = 16;

/// Bytes per column header of [`Compression::Columns`]: four quantiles of its values.
const COLUMN: usize = 8;

/// The format of compressed values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `CM`: 8 bytes per column, then one byte per value, column by column.
    Columns,
    /// `CM2`: 2 bytes per value, row by row.
    TwoBytes,
    /// `CM3`: 1 byte per value, row by row.
    OneByte,
}

impl Compression {
    /// Returns the number of bytes after the header. Rows and columns must be below 2^31.
    pub fn bytes(self, rows: u64, columns: u64) -> u64 {
        match self {
            // A matrix without values has no columns either.
            Compression::Columns if rows * columns == 0 => 0,
            Compression::Columns => COLUMN as u64 * columns + rows * columns,
            Compression::TwoBytes => 2 * rows * columns,
            Compression::OneByte => rows * columns,
        }
    }
}

/// The header of a compressed matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Header {
    least: f32,
    range: f32,
    pub rows: i32,
    pub columns: i32,
}

impl Header {
    pub fn read(bytes: &[u8; HEADER]) -> Header {
        let [least, range, rows, columns] = std::array::from_fn(|word| {
            let at = 4 * word;
            [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]
        });
        Header {
            least: f32::from_le_bytes(least),
            range: f32::from_le_bytes(range),
            rows: i32::from_le_bytes(rows),
            columns: i32::from_le_bytes(columns),
        }
    }
}

/// A compressed matrix in memory.
pub struct Matrix<'a> {
    header: Header,
    compression: Compression,
    rows: usize,
    columns: usize,
    data: &'a [u8],
}

const CHANGED: &str = "The file was changed while it was in use: open the reader again.";

impl<'a> Matrix<'a> {
    /// Creates a matrix from the header and the data.
    pub fn new(compression: Compression, bytes: &'a [u8]) -> Result<Matrix<'a>> {
        let parts = bytes.split_first_chunk::<HEADER>().and_then(|(header, data)| {
            let header = Header::read(header);
            let (rows, columns) = (u32::try_from(header.rows).ok()?, u32::try_from(header.columns).ok()?);
            let size = compression.bytes(rows.into(), columns.into());
            let (rows, columns) = (rows as usize, columns as usize);
            (data.len() as u64 == size).then_some(Matrix { header, compression, rows, columns, data })
        });
        parts.ok_or_else(|| {
            Error::data("The sizes of a compressed matrix do not match its data.").with_detail(CHANGED)
        })
    }

    /// Decodes `count` rows from `first` on to `out`, row by row in native byte order. `out` must
    /// have the exact size.
    pub fn decode(&self, first: usize, count: usize, out: &mut [u8]) -> Result<()> {
        let fits = first.checked_add(count).is_some_and(|end| end <= self.rows);
        let (out, rest) = out.as_chunks_mut::<4>();
        if !fits || !rest.is_empty() || out.len() != count * self.columns {
            let message = "A compressed matrix has different sizes than when its archive was opened.";
            return Err(Error::data(message).with_detail(CHANGED));
        }
        if out.is_empty() {
            return Ok(());
        }
        let Header { least, range, .. } = self.header;
        let values = first * self.columns..(first + count) * self.columns;
        match self.compression {
            Compression::Columns => self.decode_columns(first, out),
            Compression::TwoBytes => {
                let step = (f64::from(range) * (1.0 / 65535.0)) as f32;
                let stored = &self.data.as_chunks::<2>().0[values];
                for (out, &stored) in out.iter_mut().zip(stored) {
                    *out = (least + f32::from(u16::from_le_bytes(stored)) * step).to_ne_bytes();
                }
            }
            Compression::OneByte => {
                let step = (f64::from(range) * (1.0 / 255.0)) as f32;
                for (out, &stored) in out.iter_mut().zip(&self.data[values]) {
                    *out = (least + f32::from(stored) * step).to_ne_bytes();
                }
            }
        }
        Ok(())
    }

    /// Decodes columns, whose values are interpolated between their quantiles: 64 steps from the
    /// minimum to the first quartile, 128 to the third, 63 to the maximum.
    fn decode_columns(&self, first: usize, out: &mut [[u8; 4]]) {
        let (quantiles, stored) = self.data.split_at(COLUMN * self.columns);
        let columns = quantiles.as_chunks::<COLUMN>().0.iter().zip(stored.chunks_exact(self.rows));
        let count = out.len() / self.columns;
        let mut table = [[0; 4]; 256];
        for (column, (quantiles, stored)) in columns.enumerate() {
            let curve = Curve::new(&self.header, quantiles);
            let stored = &stored[first..first + count];
            let out = out[column..].iter_mut().step_by(self.columns);
            if count < table.len() {
                out.zip(stored).for_each(|(out, &stored)| *out = curve.at(stored).to_ne_bytes());
            } else {
                (0..=u8::MAX).zip(&mut table).for_each(|(stored, out)| *out = curve.at(stored).to_ne_bytes());
                out.zip(stored).for_each(|(out, &stored)| *out = table[usize::from(stored)]);
            }
        }
    }
}

/// The mapping from the bytes of a column to values.
struct Curve {
    quantiles: [f32; 4],
}

impl Curve {
    fn new(header: &Header, stored: &[u8; COLUMN]) -> Curve {
        // Kaldi multiplies by this number instead of dividing by 65535.
        const STEP: f32 = 1.525_902_2e-5;
        let quantile = |number: usize| {
            let stored = u16::from_le_bytes([stored[2 * number], stored[2 * number + 1]]);
            header.least + header.range * STEP * f32::from(stored)
        };
        Curve { quantiles: std::array::from_fn(quantile) }
    }

    /// Returns the value of a stored byte. As in Kaldi, differences are `f32`, the last
    /// multiplication and the sum `f64`.
    fn at(&self, stored: u8) -> f32 {
        let [p0, p25, p75, p100] = self.quantiles;
        let (from, to, steps, scale) = match stored {
            0..=64 => (p0, p25, stored, 1.0 / 64.0),
            65..=192 => (p25, p75, stored - 64, 1.0 / 128.0),
            193.. => (p75, p100, stored - 192, 1.0 / 63.0),
        };
        (f64::from(from) + f64::from((to - from) * f32::from(steps)) * scale) as f32
    }
}
