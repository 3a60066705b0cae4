//! A single array file: its type and shape, checked against the file size.

use crate::header::{Described, LONGEST, MAGIC};
use crate::values::{READABLE, ValueType};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::buffer::ChunkBuffer;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::ops::Range;

/// Number of values converted at a time. Their bytes fit into the processor's cache.
const BLOCK: u64 = 32 << 10;

/// An array of at least one row, each with at least one value.
pub struct Array {
    pub file: DataFile,
    pub value: ValueType,
    /// Size of the first dimension.
    pub rows: u64,
    /// Sizes of the other dimensions, of which the last varies fastest.
    pub row_shape: Vec<usize>,
    /// Number of values per row.
    pub row_size: usize,
    /// Offset of the values in the file.
    offset: u64,
}

impl Array {
    /// Opens a file, and checks its header against its size. Errors name the file.
    pub fn open(path: &str) -> Result<Array> {
        let file = DataFile::open(path)?;
        let array = Self::of_file(&file).map_err(|error| error.in_file(path))?;
        Ok(Array { file, ..array })
    }

    fn of_file(file: &DataFile) -> Result<Array> {
        let size = file.size()?;
        let mut start = room::zeroed(size.min(LONGEST as u64) as usize, room::FILE)?;
        let count = file.read_at(0, &mut start)?;
        let described = Described::read(&start[..count])?;
        let Described { element, is_c_order, shape, size: offset } = &described;
        let offset = *offset as u64;
        let wrong = |message: String, detail: &str| {
            Err(Error::data(message).with_detail(detail).at(MAGIC.len() as u64, None))
        };
        let Some(value) = ValueType::of(element) else {
            let message = format!("The array has values of the type '{element}'.");
            let detail =
                format!("Expected {READABLE}. Convert it, array.astype(numpy.float32), and save it again.");
            return wrong(message, &detail);
        };
        if !is_c_order && shape.iter().filter(|&&dim| dim > 1).count() > 1 {
            let message = "The array is in Fortran order: its first dimension varies fastest.".to_owned();
            let detail = "Expected C order: save numpy.ascontiguousarray(array).";
            return wrong(message, detail);
        }
        let Some((&rows, row_shape)) = shape.split_first() else {
            let detail = "Expected at least one dimension, whose length is the number of samples.";
            return wrong("The array is a single number.".to_owned(), detail);
        };
        if shape.contains(&0) {
            let detail = "Expected at least one row, and one value in a row.";
            return wrong(format!("The array has the shape {shape:?}, and no values."), detail);
        }
        let end = described.bytes(value.size() as u64).and_then(|bytes| bytes.checked_add(offset));
        // File offsets have 63 bits, and so do sizes of rows in memory.
        let Some(end) = end.filter(|&end| end <= i64::MAX as u64) else {
            let detail = "Expected no more values than a file has room for: the file is damaged.";
            return wrong(format!("The array has the shape {shape:?}."), detail);
        };
        if end != size {
            let message = format!("The array has the shape {shape:?} and the type '{element}'.");
            let detail = match size < end {
                true => "the file is incomplete, write it again.",
                false => {
                    "numpy.save wrote one array; remove what follows it, or write each array to a file of its own."
                }
            };
            let detail = format!("The file has {size} bytes and should have {end}: {detail}");
            return Err(Error::data(message).with_detail(detail).at(size.min(end), None));
        }
        let row_shape: Vec<usize> = row_shape.iter().map(|&dim| dim as usize).collect();
        let row_size = row_shape.iter().product();
        Ok(Array { file: file.clone(), value, rows, row_shape, row_size, offset })
    }

    /// Returns the bytes of a row in the file.
    pub fn row_bytes(&self) -> u64 {
        (self.row_size * self.value.size()) as u64
    }

    /// Returns the offset of a row in the file.
    pub fn offset_of(&self, row: u64) -> u64 {
        self.offset + row * self.row_bytes()
    }

    /// Appends the values of rows to a chunk, converted to `element`, or unchanged if that has a
    /// [form](ValueType::form). Runs on a thread of the pool.
    pub fn read(&self, rows: Range<u64>, element: ElementType, out: &mut ChunkBuffer) -> Result<()> {
        let read = match self.value.form(element) {
            Some(_) => out.read(&self.file, self.offset_of(rows.start)..self.offset_of(rows.end)),
            None => self.convert(rows, element, out),
        };
        self.file.if_unchanged(read)
    }

    fn convert(&self, rows: Range<u64>, element: ElementType, out: &mut ChunkBuffer) -> Result<()> {
        let values = rows.start * self.row_size as u64..rows.end * self.row_size as u64;
        let size = self.value.size() as u64;
        let mut stored: Vec<u8> =
            room::zeroed((values.end - values.start).min(BLOCK) as usize * size as usize, room::FILE)?;
        for first in values.clone().step_by(BLOCK as usize) {
            let count = (values.end - first).min(BLOCK);
            let stored = &mut stored[..(count * size) as usize];
            self.file.read_exact_at(self.offset + first * size, stored)?;
            if let Some(at) = self.value.convert(stored, element, |values| out.append(values))? {
                let number = self.value.integer(&stored[at * size as usize..][..size as usize]);
                return Err(self.inexact(first + at as u64, number, element));
            }
        }
        Ok(())
    }

    fn inexact(&self, number: u64, value: Option<i128>, element: ElementType) -> Error {
        let row = number / self.row_size as u64;
        let value = value.map_or_else(|| "a number".to_owned(), |value| format!("the number {value}"));
        let message = format!("The array has {value} in row {row}.");
        let (name, wider) = match element {
            ElementType::Float => ("float32", "Set ‹double_precision›, or convert the array."),
            other => (other.name(), "Convert the array: array.astype(...)."),
        };
        let detail = format!("A stream of {name} cannot hold it exactly. {wider}");
        let offset = self.offset + number * self.value.size() as u64;
        Error::data(message).with_detail(detail).in_file(self.file.path()).at(offset, None)
    }

    /// Calls `each` with every integer of a one-dimensional array, and its offset in the file.
    pub fn integers(&self, mut each: impl FnMut(i128, u64) -> Result<()>) -> Result<()> {
        let size = self.value.size();
        if !self.row_shape.is_empty() || self.value.integer(&vec![0; size]).is_none() {
            let error = Error::data("The array is not a list of integers.");
            let detail = "Expected one dimension, and integer values.";
            return Err(error.with_detail(detail).in_file(self.file.path()).at(MAGIC.len() as u64, None));
        }
        let mut stored: Vec<u8> = room::zeroed(self.rows.min(BLOCK) as usize * size, room::FILE)?;
        for first in (0..self.rows).step_by(BLOCK as usize) {
            let stored = &mut stored[..(self.rows - first).min(BLOCK) as usize * size];
            self.file.if_unchanged(self.file.read_exact_at(self.offset_of(first), stored))?;
            for (row, bytes) in (first..).zip(stored.chunks_exact(size)) {
                each(self.value.integer(bytes).unwrap_or(0), self.offset_of(row))?;
            }
        }
        Ok(())
    }
}
