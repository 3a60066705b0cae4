//! Drives the library for the golden cases.

use cntk_reader::config::from_text;
use cntk_reader::error::{ExceptionClass, Place};
use cntk_reader::reader::{EpochStart, ReadConfig, Reader};
use cntk_reader::stream::{ElementType, Storage};
use std::collections::BTreeMap;
use std::fmt;

/// The words of a `start` step.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    pub workers: u64,
    pub rank: u64,
    pub minibatch: u64,
    pub truncation: u64,
    pub right_splice: u64,
    pub cross_sweeps: bool,
    pub samples: u64,
    pub sweeps: u64,
    pub index: u64,
}

/// A stream as it was described when the reader was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDescription {
    pub name: String,
    pub id: u64,
    pub sparse: bool,
    pub double: bool,
    pub shape: Vec<u64>,
    pub defines_mb_size: bool,
}

/// An error object.
#[derive(Debug, Clone)]
pub struct Failure {
    /// `runtime_error`, `logic_error` or `invalid_argument`.
    pub class: &'static str,
    pub message: String,
    pub place: Box<Place>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}' at {:?}", self.class, self.message, self.place)
    }
}

/// A minibatch.
#[derive(Debug)]
pub struct Batch {
    pub end_of_sweep: bool,
    pub end_of_epoch: bool,
    pub streams: Vec<StreamBatch>,
}

/// One stream of a minibatch.
#[derive(Debug)]
pub struct StreamBatch {
    pub steps: u64,
    pub rows: u64,
    /// Id (-1 for a gap), row, begin, end.
    pub records: Vec<[i64; 4]>,
    /// Key of every record that is no gap.
    pub keys: Vec<String>,
    pub columns: Columns,
}

/// The data, values as their bits.
#[derive(Debug)]
pub enum Columns {
    Dense(Vec<Column>),
    Sparse { values: Vec<u64>, rows: Vec<i32>, starts: Vec<i32> },
}

/// A column of dense data.
#[derive(Debug)]
pub struct Column {
    pub gap: bool,
    pub values: Vec<u64>,
}

/// The library, as the golden cases drive it.
pub struct Driver {
    reader: Reader,
}

impl Start {
    fn read(&self) -> ReadConfig {
        ReadConfig {
            workers: self.workers,
            rank: self.rank,
            minibatch: self.minibatch,
            truncation: self.truncation,
            right_splice: self.right_splice,
            cross_sweeps: self.cross_sweeps,
        }
    }
}

impl From<cntk_reader::Error> for Failure {
    fn from(error: cntk_reader::Error) -> Self {
        let class = match error.class() {
            ExceptionClass::Runtime => "runtime_error",
            ExceptionClass::Logic => "logic_error",
            ExceptionClass::InvalidArgument => "invalid_argument",
        };
        Failure { class, message: error.message().to_owned(), place: Box::new(error.place().clone()) }
    }
}

impl Driver {
    pub fn open(config: &str) -> Result<Self, Failure> {
        Ok(Driver { reader: Reader::open(&from_text(config)?)? })
    }

    pub fn streams(&self) -> Vec<StreamDescription> {
        let describe = |(id, info): (usize, &cntk_reader::stream::StreamInfo)| StreamDescription {
            name: info.name.clone(),
            id: id as u64,
            sparse: info.storage == Storage::SparseCsc,
            double: info.element == ElementType::Double,
            shape: info.shape.iter().map(|&dim| dim as u64).collect(),
            defines_mb_size: info.defines_mb_size,
        };
        self.reader.streams().iter().enumerate().map(describe).collect()
    }

    pub fn start(&mut self, start: &Start) -> Result<(), Failure> {
        let Start { samples, sweeps, index, .. } = *start;
        Ok(self.reader.start_epoch(&EpochStart { read: start.read(), samples, sweeps, index })?)
    }

    pub fn configure(&mut self, start: &Start) -> Result<(), Failure> {
        Ok(self.reader.configure(&start.read())?)
    }

    pub fn state(&self) -> Result<BTreeMap<String, u64>, Failure> {
        Ok(self.reader.state().into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    pub fn set_state(&mut self, state: &[(&str, u64)]) -> Result<(), Failure> {
        Ok(self.reader.set_state(state)?)
    }

    pub fn read(&mut self) -> Result<Batch, Failure> {
        let minibatch = self.reader.read()?;
        let corpus = self.reader.corpus();
        let streams = self.reader.streams().iter().zip(&minibatch.streams).map(|(info, stream)| {
            let layout = &stream.layout;
            let bytes = stream.data.bytes();
            let size = info.element.size();
            let columns = match info.storage {
                Storage::Dense => {
                    let column = info.sample_size();
                    let gaps = super::seen::gaps(layout);
                    let values = values(bytes, size);
                    let column = |(number, gap)| Column {
                        gap,
                        values: values[number * column..(number + 1) * column].to_vec(),
                    };
                    Columns::Dense(gaps.into_iter().enumerate().map(column).collect())
                }
                Storage::SparseCsc => {
                    let nnz = stream.nnz();
                    let (values_bytes, rest) = bytes[8..].split_at(nnz * size);
                    let (rows, starts) = rest.split_at(nnz * 4);
                    let whole =
                        |bytes: &[u8]| values(bytes, 4).into_iter().map(|bits| bits as u32 as i32).collect();
                    Columns::Sparse {
                        values: values(values_bytes, size),
                        rows: whole(rows),
                        starts: whole(starts),
                    }
                }
            };
            StreamBatch {
                steps: layout.steps as u64,
                rows: layout.rows as u64,
                records: layout
                    .records
                    .iter()
                    .map(|record| [record.id as i64, record.row as i64, record.begin, record.end as i64])
                    .collect(),
                keys: layout
                    .records
                    .iter()
                    .filter(|record| !record.is_gap())
                    .map(|record| corpus.text_of(minibatch.keys[record.id as usize]))
                    .collect(),
                columns,
            }
        });
        Ok(Batch {
            end_of_sweep: minibatch.end_of_sweep,
            end_of_epoch: minibatch.end_of_epoch,
            streams: streams.collect(),
        })
    }
}

/// Values of 4 or 8 bytes, as bits.
fn values(bytes: &[u8], size: usize) -> Vec<u64> {
    let mut value = [0; 8];
    bytes
        .chunks_exact(size)
        .map(|bytes| {
            value[..size].copy_from_slice(bytes);
            u64::from_le_bytes(value)
        })
        .collect()
}
