//! Where parsers write: growing arrays of the streams of one segment, with a way back to the start of a sequence.
//!
//! An [`Output`] belongs to a thread and is used again for segment after segment, so its pages are warm; a finished
//! segment is copied out of it into a block of exactly its size.

use super::rules::Rules;
use super::uniform_lines::Template;
use crate::compact::Value;

/// What one stream got so far.
#[derive(Debug, Default)]
pub struct Column<T> {
    /// Dense: the values of all samples. Sparse: the entries' values.
    pub values: Vec<T>,
    /// Sparse: the entries' rows, as many as values.
    pub rows: Vec<i32>,
    /// Sparse: number of the first entry of each sample, and of the one to come. Starts with 0.
    pub starts: Vec<u32>,
    /// Number of the first sample of each finished sequence, and of the one to come. Starts with 0.
    pub firsts: Vec<u32>,
    /// Values and rows as [`crate::compact::narrow`] stores them, once the segment is finished.
    pub narrow_values: Vec<u8>,
    /// See `narrow_values`.
    pub narrow_rows: Vec<u16>,
    /// Sparse: the last sample has several entries.
    pub many: bool,
    /// Samples, those of the unfinished sequence included.
    pub samples: usize,
    /// Samples and values at the start of the unfinished sequence.
    mark: (usize, usize),
}

impl<T: Value> Column<T> {
    /// Samples of the unfinished sequence.
    pub fn samples_here(&self) -> usize {
        self.samples - self.mark.0
    }

    /// Values of the unfinished sequence.
    pub fn values_here(&self) -> usize {
        self.values.len() - self.mark.1
    }

    /// Counts samples of one entry each, which were written behind the others.
    ///
    /// # Safety
    /// So many values, rows and starts must have been written.
    #[inline(always)]
    pub unsafe fn count_single(&mut self, samples: usize) {
        // SAFETY: promised by the caller.
        unsafe {
            self.values.set_len(self.values.len() + samples);
            self.rows.set_len(self.rows.len() + samples);
            self.starts.set_len(self.starts.len() + samples);
        }
        self.samples += samples;
    }

    /// Forgets values (and rows) behind the first `length`.
    pub fn truncate(&mut self, length: usize) {
        self.values.truncate(length);
        self.rows.truncate(length);
    }
}

/// The streams of a segment.
#[derive(Debug, Default)]
pub struct Output<T> {
    /// One per stream.
    pub columns: Vec<Column<T>>,
    /// Sequences that were left out.
    pub skipped: Vec<u32>,
    /// What lines look like.
    pub template: Template,
    sequences: u32,
}

/// Bytes of capacity that an unused output may keep.
const KEPT: usize = 32 << 20;

impl<T: Value> Output<T> {
    /// Empties it for a segment of a file with these rules.
    pub fn reset(&mut self, rules: &Rules) {
        let capacity = |column: &Column<T>| column.values.capacity() * 8 + column.rows.capacity() * 4;
        if self.columns.iter().map(capacity).sum::<usize>() > KEPT {
            self.columns.clear();
        }
        self.columns.resize_with(rules.streams.len(), Column::default);
        self.skipped.clear();
        self.template.reset();
        self.sequences = 0;
        for column in &mut self.columns {
            column.values.clear();
            column.rows.clear();
            column.starts.clear();
            column.starts.push(0);
            column.firsts.clear();
            column.firsts.push(0);
            column.samples = 0;
            column.mark = (0, 0);
        }
    }

    /// Finished sequences.
    pub fn sequences(&self) -> u32 {
        self.sequences
    }

    /// Ends the sequence: what was written since the last one is its data.
    pub fn commit(&mut self) {
        for column in &mut self.columns {
            column.firsts.push(column.samples as u32);
            column.mark = (column.samples, column.values.len());
        }
        self.sequences += 1;
    }

    /// Forgets what was written since the last sequence.
    pub fn roll_back(&mut self) {
        for column in &mut self.columns {
            column.samples = column.mark.0;
            column.truncate(column.mark.1);
            column.starts.truncate(column.samples + 1);
        }
    }

    /// Leaves the sequence out.
    pub fn skip(&mut self) {
        self.roll_back();
        self.skipped.push(self.sequences);
        self.commit();
    }
}
