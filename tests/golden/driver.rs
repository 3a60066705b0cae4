//! Drives the library through its C ABI, as a C program would, for the golden cases.

use ::cntk_reader::capi::configuration::{cntk_reader_configuration, cntk_reader_epoch};
use ::cntk_reader::capi::error::{
    cntk_reader_error, cntk_reader_error_describe, cntk_reader_error_free, cntk_reader_error_info,
    cntk_reader_exception,
};
use ::cntk_reader::capi::minibatch::{
    cntk_reader_minibatch, cntk_reader_minibatch_describe, cntk_reader_minibatch_get_key_text,
    cntk_reader_minibatch_info, cntk_reader_minibatch_release, cntk_reader_minibatch_stream,
    cntk_reader_minibatch_stream_describe, cntk_reader_record,
};
use ::cntk_reader::capi::reader::{
    cntk_reader, cntk_reader_configuration_set, cntk_reader_epoch_start, cntk_reader_free,
    cntk_reader_minibatch_read, cntk_reader_open_text, cntk_reader_stream_count, cntk_reader_stream_describe,
};
use ::cntk_reader::capi::state::{cntk_reader_state_entry, cntk_reader_state_get, cntk_reader_state_set};
use ::cntk_reader::capi::status::cntk_reader_status;
use ::cntk_reader::capi::stream::{cntk_reader_element, cntk_reader_storage, cntk_reader_stream_info};
use ::cntk_reader::error::Location;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

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
    pub place: Box<Location>,
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

/// A reader of the C ABI.
pub struct Driver {
    reader: *mut cntk_reader,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: opened in `open`, and destroyed nowhere else.
        unsafe { cntk_reader_free(self.reader) };
    }
}

impl Driver {
    pub fn open(config: &str) -> Result<Self, Failure> {
        let mut reader = null_mut();
        // SAFETY: the text has this length.
        call(|error| unsafe {
            cntk_reader_open_text(config.as_ptr().cast(), config.len(), &mut reader, error)
        })?;
        Ok(Driver { reader })
    }

    pub fn streams(&self) -> Vec<StreamDescription> {
        let mut count = 0;
        // SAFETY: the reader lives as long as `self`, here and in all methods below.
        call(|error| unsafe { cntk_reader_stream_count(self.reader, &mut count, error) })
            .expect("the number of streams");
        (0..count).map(|index| self.stream(index)).collect()
    }

    fn stream(&self, index: usize) -> StreamDescription {
        // SAFETY: as above.
        let info: cntk_reader_stream_info =
            unsafe { fill(|info, error| cntk_reader_stream_describe(self.reader, index, info, error)) }
                .expect("a stream");
        assert_eq!(info.is_binary, 0);
        let name = text(info.name).expect("a name");
        assert_eq!(info.name_length, name.len());
        let shape = list(info.shape, info.shape_rank);
        assert_eq!(info.sample_size, shape.iter().product::<usize>());
        StreamDescription {
            name,
            id: info.id as u64,
            sparse: info.storage == cntk_reader_storage::CNTK_READER_STORAGE_SPARSE_CSC,
            double: info.element == cntk_reader_element::CNTK_READER_ELEMENT_DOUBLE,
            shape: shape.iter().map(|&dim| dim as u64).collect(),
            defines_mb_size: info.defines_mb_size == 1,
        }
    }

    pub fn start(&mut self, start: &Start) -> Result<(), Failure> {
        let epoch = cntk_reader_epoch {
            struct_size: size_of::<cntk_reader_epoch>(),
            workers: start.workers,
            rank: start.rank,
            minibatch_size: start.minibatch,
            truncation_length: start.truncation,
            right_splice: start.right_splice,
            cross_sweeps: start.cross_sweeps.into(),
            samples: start.samples,
            sweeps: start.sweeps,
            index: start.index,
        };
        // SAFETY: as above.
        call(|error| unsafe { cntk_reader_epoch_start(self.reader, &epoch, error) })
    }

    pub fn configure(&mut self, start: &Start) -> Result<(), Failure> {
        let configuration = cntk_reader_configuration {
            struct_size: size_of::<cntk_reader_configuration>(),
            workers: start.workers,
            rank: start.rank,
            minibatch_size: start.minibatch,
            truncation_length: start.truncation,
            right_splice: start.right_splice,
            cross_sweeps: start.cross_sweeps.into(),
        };
        // SAFETY: as above.
        call(|error| unsafe { cntk_reader_configuration_set(self.reader, &configuration, error) })
    }

    pub fn state(&self) -> Result<BTreeMap<String, u64>, Failure> {
        let mut entries = [cntk_reader_state_entry { key: null(), key_length: 0, value: 0 }; 4];
        let mut count = 0;
        // SAFETY: as above; there is room for as many entries as it says.
        call(|error| unsafe {
            cntk_reader_state_get(self.reader, entries.as_mut_ptr(), entries.len(), &mut count, error)
        })?;
        Ok(entries[..count].iter().map(|entry| (text(entry.key).expect("a key"), entry.value)).collect())
    }

    pub fn set_state(&mut self, state: &[(&str, u64)]) -> Result<(), Failure> {
        let entry = |&(key, value): &(&str, u64)| cntk_reader_state_entry {
            key: key.as_ptr().cast(),
            key_length: key.len(),
            value,
        };
        let entries: Vec<_> = state.iter().map(entry).collect();
        // SAFETY: as above; keys and entries outlive the call.
        call(|error| unsafe { cntk_reader_state_set(self.reader, entries.as_ptr(), entries.len(), error) })
    }

    pub fn read(&mut self) -> Result<Batch, Failure> {
        let mut minibatch = null();
        // SAFETY: as above.
        call(|error| unsafe { cntk_reader_minibatch_read(self.reader, &mut minibatch, error) })?;
        let minibatch = Minibatch(minibatch);
        // SAFETY: the minibatch lives until the end of this function, here and below.
        let info: cntk_reader_minibatch_info =
            unsafe { fill(|info, error| cntk_reader_minibatch_describe(minibatch.0, info, error)) }?;
        let streams =
            (0..info.stream_count).map(|index| minibatch.stream(index)).collect::<Result<_, _>>()?;
        Ok(Batch { end_of_sweep: info.end_of_sweep == 1, end_of_epoch: info.end_of_epoch == 1, streams })
    }
}

/// A reference to a minibatch.
struct Minibatch(*const cntk_reader_minibatch);

impl Drop for Minibatch {
    fn drop(&mut self) {
        // SAFETY: the one reference that reading gave.
        unsafe { cntk_reader_minibatch_release(self.0) };
    }
}

impl Minibatch {
    fn stream(&self, index: usize) -> Result<StreamBatch, Failure> {
        // SAFETY: the minibatch lives as long as `self`.
        let stream: cntk_reader_minibatch_stream = unsafe {
            fill(|stream, error| cntk_reader_minibatch_stream_describe(self.0, index, stream, error))
        }?;
        assert_eq!(stream.columns, stream.steps * stream.lanes);
        let records = list(stream.records, stream.record_count);
        let is_sequence = |record: &&cntk_reader_record| record.sequence != u64::MAX;
        assert_eq!(stream.sequences, records.iter().filter(is_sequence).count());
        let values: Vec<u64> = match stream.element {
            cntk_reader_element::CNTK_READER_ELEMENT_FLOAT => {
                list(stream.values.cast::<f32>(), stream.value_count)
                    .iter()
                    .map(|v| u64::from(v.to_bits()))
                    .collect()
            }
            cntk_reader_element::CNTK_READER_ELEMENT_DOUBLE => {
                list(stream.values.cast::<f64>(), stream.value_count).iter().map(|v| v.to_bits()).collect()
            }
        };
        let columns = match stream.storage {
            cntk_reader_storage::CNTK_READER_STORAGE_DENSE => {
                Columns::Dense(dense(&stream, records, &values))
            }
            cntk_reader_storage::CNTK_READER_STORAGE_SPARSE_CSC => Columns::Sparse {
                values,
                rows: list(stream.indices, stream.value_count).to_vec(),
                starts: list(stream.column_offsets, stream.columns + 1).to_vec(),
            },
        };
        Ok(StreamBatch {
            steps: stream.steps as u64,
            rows: stream.lanes as u64,
            records: records
                .iter()
                .map(|record| [record.sequence as i64, record.lane as i64, record.begin, record.end as i64])
                .collect(),
            keys: records
                .iter()
                .filter(is_sequence)
                .map(|record| self.key(record))
                .collect::<Result<_, _>>()?,
            columns,
        })
    }

    fn key(&self, record: &cntk_reader_record) -> Result<String, Failure> {
        let mut buffer: [c_char; 100] = [0; 100];
        let mut length = 0;
        // SAFETY: the minibatch lives as long as `self`, and the buffer has the size that it says.
        call(|error| unsafe {
            let sequence = record.sequence as usize;
            cntk_reader_minibatch_get_key_text(
                self.0,
                sequence,
                buffer.as_mut_ptr(),
                buffer.len(),
                &mut length,
                error,
            )
        })?;
        let key = text(buffer.as_ptr()).expect("a key");
        assert_eq!(key.len(), length);
        Ok(key)
    }
}

/// The columns of dense values; each must be covered by one record.
fn dense(
    stream: &cntk_reader_minibatch_stream,
    records: &[cntk_reader_record],
    values: &[u64],
) -> Vec<Column> {
    let mut gaps = vec![None; stream.columns];
    for record in records {
        for step in record.begin.max(0) as usize..record.end.min(stream.steps as u64) as usize {
            let column = &mut gaps[step * stream.lanes + record.lane as usize];
            assert_eq!(*column, None, "a column of two records");
            *column = Some(record.sequence == u64::MAX);
        }
    }
    let with_data = gaps.iter().filter(|&&gap| gap == Some(false)).count();
    assert_eq!(stream.samples, with_data, "columns with data");
    let size = stream.sample_size;
    assert_eq!(values.len(), gaps.len() * size, "number of values");
    let column = |(number, gap): (usize, Option<bool>)| Column {
        gap: gap.expect("a column without record"),
        values: values[number * size..(number + 1) * size].to_vec(),
    };
    gaps.into_iter().enumerate().map(column).collect()
}

/// A call, and the error object that it handed out if it failed.
fn call(work: impl FnOnce(*mut *mut cntk_reader_error) -> cntk_reader_status) -> Result<(), Failure> {
    let mut error = null_mut();
    let status = work(&mut error);
    if status == cntk_reader_status::CNTK_READER_STATUS_OK {
        assert!(error.is_null(), "an error object of a call that succeeded");
        return Ok(());
    }
    assert!(!error.is_null(), "no error object of a call that failed");
    let mut info = MaybeUninit::<cntk_reader_error_info>::uninit();
    // SAFETY: the size is set, and on success all is.
    let info = unsafe {
        info.as_mut_ptr().cast::<usize>().write(size_of::<cntk_reader_error_info>());
        let described = cntk_reader_error_describe(error, info.as_mut_ptr());
        assert_eq!(described, cntk_reader_status::CNTK_READER_STATUS_OK);
        info.assume_init()
    };
    assert_eq!(info.kind, status, "the status and the error's kind");
    let failure = Failure {
        class: match info.exception {
            cntk_reader_exception::CNTK_READER_EXCEPTION_RUNTIME_ERROR => "runtime_error",
            cntk_reader_exception::CNTK_READER_EXCEPTION_LOGIC_ERROR => "logic_error",
            cntk_reader_exception::CNTK_READER_EXCEPTION_INVALID_ARGUMENT => "invalid_argument",
        },
        message: text(info.message).expect("a message"),
        place: Box::new(Location {
            file: text(info.file),
            offset: (info.offset != u64::MAX).then_some(info.offset),
            line: (info.line != 0).then_some(info.line),
            stream: text(info.stream),
            key: text(info.key),
        }),
    };
    // SAFETY: handed out above, and not used any more.
    unsafe { cntk_reader_error_free(error) };
    Err(failure)
}

/// A call that fills a struct which begins with its size.
///
/// # Safety
/// `T` is such a struct, and `work` fills it if it succeeds.
unsafe fn fill<T>(
    work: impl FnOnce(*mut T, *mut *mut cntk_reader_error) -> cntk_reader_status,
) -> Result<T, Failure> {
    let mut filled = MaybeUninit::<T>::uninit();
    // SAFETY: by this function's contract.
    unsafe {
        filled.as_mut_ptr().cast::<usize>().write(size_of::<T>());
        call(|error| work(filled.as_mut_ptr(), error))?;
        Ok(filled.assume_init())
    }
}

/// A copy of a string that the library handed out, or `None` for NULL.
fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: strings of the library are NUL-terminated, and what owns them lives.
    let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) });
    text.map(|text| text.to_str().expect("UTF-8").to_owned())
}

/// An array that the library handed out.
fn list<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    assert!(pointer.is_aligned(), "alignment of an array");
    // SAFETY: arrays of the library have as many elements as it says, and what owns them lives.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, count) } }
}
