//! Drives the library through its C ABI, like a C program, for the golden cases.

#![allow(unsafe_code, reason = "calls of the C ABI")]

use cntk_reader_capi::configuration::{cntk_reader_configuration, cntk_reader_configuration_set};
use cntk_reader_capi::epoch::{cntk_reader_epoch, cntk_reader_epoch_start};
use cntk_reader_capi::error::{
    cntk_reader_error, cntk_reader_error_describe, cntk_reader_error_free, cntk_reader_error_info,
    cntk_reader_exception,
};
use cntk_reader_capi::minibatch::{
    cntk_reader_minibatch_describe, cntk_reader_minibatch_get_key_text, cntk_reader_minibatch_info,
    cntk_reader_minibatch_read, cntk_reader_minibatch_release,
};
use cntk_reader_capi::minibatch_handle::cntk_reader_minibatch;
use cntk_reader_capi::minibatch_stream::{
    cntk_reader_minibatch_stream, cntk_reader_minibatch_stream_describe, cntk_reader_record,
};
use cntk_reader_capi::reader::{
    cntk_reader, cntk_reader_describe, cntk_reader_free, cntk_reader_info, cntk_reader_stream_describe,
};
use cntk_reader_capi::source::{cntk_reader_open, cntk_reader_source};
use cntk_reader_capi::state::{cntk_reader_state_entry, cntk_reader_state_get, cntk_reader_state_set};
use cntk_reader_capi::status::cntk_reader_status;
use cntk_reader_capi::stream::{cntk_reader_element, cntk_reader_storage, cntk_reader_stream_info};
use cntk_reader_core::error::Location;
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

/// A stream as described when the reader was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamDescription {
    pub name: String,
    pub id: u64,
    pub sparse: bool,
    pub double: bool,
    pub shape: Vec<u64>,
    pub defines_mb_size: bool,
    pub binary: bool,
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
    /// Key of every record that is not a gap.
    pub keys: Vec<String>,
    pub columns: Columns,
}

/// The data; values are stored as bits.
#[derive(Debug)]
pub enum Columns {
    Dense(Vec<Column>),
    Sparse {
        values: Vec<u64>,
        rows: Vec<i32>,
        starts: Vec<i32>,
    },
    /// The words of each sequence of a binary stream, in the order of the records.
    Binary(Vec<Vec<u64>>),
}

/// A column of dense data.
#[derive(Debug)]
pub struct Column {
    pub gap: bool,
    pub values: Vec<u64>,
}

/// The place for a call's error.
type ErrorPlace<'a> = Option<&'a mut MaybeUninit<*mut cntk_reader_error>>;

/// A reader of the C ABI.
pub struct Driver {
    /// Returned by `cntk_reader_open`, and valid until it is freed.
    reader: *mut cntk_reader,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: this driver owns the handle, which `cntk_reader_open` made, and frees it only
        // here.
        unsafe { cntk_reader_free(self.reader) };
    }
}

impl Driver {
    pub fn open(config: &str) -> Result<Self, Failure> {
        let source = cntk_reader_source {
            text: config.as_ptr().cast(),
            text_length: config.len(),
            ..cntk_reader_source::default()
        };
        let mut reader = MaybeUninit::uninit();
        // SAFETY: `source` has its size from `default`, and `text` and `text_length` describe
        // `config`, which outlives the call.
        call(|error| unsafe { cntk_reader_open(&raw const source, Some(&mut reader), error) })?;
        // SAFETY: `?` above ensures that the call succeeded and so has written the handle.
        Ok(Driver { reader: unsafe { reader.assume_init() } })
    }

    fn reader(&self) -> Option<&cntk_reader> {
        // SAFETY: the handle is freed only when `self` is dropped, which the returned borrow
        // prevents.
        unsafe { self.reader.as_ref() }
    }

    pub fn streams(&self) -> Vec<StreamDescription> {
        // SAFETY: `cntk_reader_info` begins with its size, and describing fills it on success.
        let info: cntk_reader_info =
            unsafe { fill(|info, error| cntk_reader_describe(self.reader(), info, error)) }
                .expect("the number of streams");
        (0..info.stream_count).map(|index| self.stream(index)).collect()
    }

    fn stream(&self, index: usize) -> StreamDescription {
        // SAFETY: `cntk_reader_stream_info` begins with its size, and describing fills it on
        // success.
        let info: cntk_reader_stream_info =
            unsafe { fill(|info, error| cntk_reader_stream_describe(self.reader(), index, info, error)) }
                .expect("a stream");
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
            binary: info.is_binary == 1,
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
        // SAFETY: the handle lives as long as `self`, and `struct_size` is the size of `epoch`.
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
        // SAFETY: the handle lives as long as `self`, and `struct_size` is the size of
        // `configuration`.
        call(|error| unsafe { cntk_reader_configuration_set(self.reader, &configuration, error) })
    }

    pub fn state(&self) -> Result<BTreeMap<String, u64>, Failure> {
        let mut entries = [cntk_reader_state_entry { key: null(), key_length: 0, value: 0 }; 4];
        let mut count = MaybeUninit::uninit();
        // SAFETY: the pointer and the count describe the array `entries`.
        call(|error| unsafe {
            cntk_reader_state_get(self.reader(), entries.as_mut_ptr(), entries.len(), Some(&mut count), error)
        })?;
        // SAFETY: `?` above ensures that the call succeeded and so has written the count.
        let count = unsafe { count.assume_init() };
        Ok(entries[..count].iter().map(|entry| (text(entry.key).expect("a key"), entry.value)).collect())
    }

    pub fn set_state(&mut self, state: &[(&str, u64)]) -> Result<(), Failure> {
        let entry = |&(key, value): &(&str, u64)| cntk_reader_state_entry {
            key: key.as_ptr().cast(),
            key_length: key.len(),
            value,
        };
        let entries: Vec<_> = state.iter().map(entry).collect();
        // SAFETY: the handle lives as long as `self`. The pointer and the count describe `entries`,
        // each of which has the pointer and the length of a key in `state`.
        call(|error| unsafe { cntk_reader_state_set(self.reader, entries.as_ptr(), entries.len(), error) })
    }

    pub fn read(&mut self) -> Result<Batch, Failure> {
        let mut minibatch = MaybeUninit::uninit();
        // SAFETY: the handle is freed only when `self` is dropped.
        call(|error| unsafe { cntk_reader_minibatch_read(self.reader, Some(&mut minibatch), error) })?;
        // SAFETY: `?` above ensures that the call succeeded and so has written the minibatch.
        let minibatch = Minibatch(unsafe { minibatch.assume_init() });
        // SAFETY: `cntk_reader_minibatch_info` begins with its size, and describing fills it on
        // success.
        let info: cntk_reader_minibatch_info =
            unsafe { fill(|info, error| cntk_reader_minibatch_describe(minibatch.handle(), info, error)) }?;
        let described = self.streams();
        let part = |index: usize| minibatch.stream(index, described[index].binary);
        let streams = (0..info.stream_count).map(part).collect::<Result<_, _>>()?;
        Ok(Batch { end_of_sweep: info.end_of_sweep == 1, end_of_epoch: info.end_of_epoch == 1, streams })
    }
}

/// A reference to a minibatch.
struct Minibatch(*const cntk_reader_minibatch);

impl Drop for Minibatch {
    fn drop(&mut self) {
        // SAFETY: reading returned one reference, which `self` owns and gives up only here.
        unsafe { cntk_reader_minibatch_release(self.0) };
    }
}

impl Minibatch {
    fn handle(&self) -> Option<&cntk_reader_minibatch> {
        // SAFETY: `self` owns a reference to the minibatch, and releases it only on drop.
        unsafe { self.0.as_ref() }
    }

    fn stream(&self, index: usize, binary: bool) -> Result<StreamBatch, Failure> {
        // SAFETY: `cntk_reader_minibatch_stream` begins with its size, and describing fills it on
        // success.
        let stream: cntk_reader_minibatch_stream = unsafe {
            fill(|stream, error| cntk_reader_minibatch_stream_describe(self.handle(), index, stream, error))
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
            other => panic!("CNTK has no streams of {other:?}"),
        };
        let columns = match stream.storage {
            _ if binary => Columns::Binary(words(&stream, records, &values)),
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
        let mut length = MaybeUninit::uninit();
        // SAFETY: the pointer and the size describe `buffer`.
        call(|error| unsafe {
            let sequence = record.sequence as usize;
            cntk_reader_minibatch_get_key_text(
                self.handle(),
                sequence,
                buffer.as_mut_ptr(),
                buffer.len(),
                Some(&mut length),
                error,
            )
        })?;
        let key = text(buffer.as_ptr()).expect("a key");
        // SAFETY: `?` above ensures that the call succeeded and so has written the length.
        assert_eq!(key.len(), unsafe { length.assume_init() });
        Ok(key)
    }
}

/// Returns the words of each sequence of a binary stream. A lane has one sequence, whose words are
/// contiguous.
fn words(
    stream: &cntk_reader_minibatch_stream,
    records: &[cntk_reader_record],
    values: &[u64],
) -> Vec<Vec<u64>> {
    assert_eq!(values.len(), stream.columns * stream.sample_size, "number of values");
    let lane = |record: &cntk_reader_record| record.lane as usize * stream.steps;
    let words = |record: &cntk_reader_record| values[lane(record)..][..record.end as usize].to_vec();
    records.iter().filter(|record| record.sequence != u64::MAX).map(words).collect()
}

/// Returns the columns of dense values; each must be covered by exactly one record.
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

/// Makes a call, and converts the error object if it fails.
fn call(work: impl FnOnce(ErrorPlace<'_>) -> cntk_reader_status) -> Result<(), Failure> {
    let mut error = MaybeUninit::new(null_mut());
    let status = work(Some(&mut error));
    // SAFETY: `MaybeUninit::new` initialized it, and the call can only overwrite it with another
    // pointer.
    let error = unsafe { error.assume_init() };
    if status == cntk_reader_status::CNTK_READER_STATUS_OK {
        assert!(error.is_null(), "an error object of a call that succeeded");
        return Ok(());
    }
    assert!(!error.is_null(), "no error object of a call that failed");
    let mut info = MaybeUninit::<cntk_reader_error_info>::uninit();
    // SAFETY: the failed call has written the error, which is freed below. `cntk_reader_error_info`
    // begins with its size, a `usize`, which is written first. The assertion ensures that the call
    // succeeded and so has filled the struct.
    let info = unsafe {
        info.as_mut_ptr().cast::<usize>().write(size_of::<cntk_reader_error_info>());
        let described = cntk_reader_error_describe(error.as_ref(), info.as_mut_ptr());
        assert_eq!(described, cntk_reader_status::CNTK_READER_STATUS_OK);
        info.assume_init()
    };
    assert_eq!(info.kind, status, "the status and the error's kind");
    let mut location = Box::<Location>::default();
    location.file = text(info.file);
    location.offset = (info.offset != u64::MAX).then_some(info.offset);
    location.line = (info.line != 0).then_some(info.line);
    location.stream = text(info.stream);
    location.key = text(info.key);
    let failure = Failure {
        class: match info.exception {
            cntk_reader_exception::CNTK_READER_EXCEPTION_RUNTIME_ERROR => "runtime_error",
            cntk_reader_exception::CNTK_READER_EXCEPTION_LOGIC_ERROR => "logic_error",
            cntk_reader_exception::CNTK_READER_EXCEPTION_INVALID_ARGUMENT => "invalid_argument",
        },
        message: text(info.message).expect("a message"),
        place: location,
    };
    // SAFETY: the error is freed only here.
    unsafe { cntk_reader_error_free(error) };
    Err(failure)
}

/// Makes a call that fills a struct.
///
/// # Safety
/// `T` must begin with its size as a `usize`, and `work` must fill all of it if it succeeds.
unsafe fn fill<T>(work: impl FnOnce(*mut T, ErrorPlace<'_>) -> cntk_reader_status) -> Result<T, Failure> {
    let mut filled = MaybeUninit::<T>::uninit();
    // SAFETY: `T` begins with a `usize`, so the size is written within `filled`. `?` ensures that
    // `work` succeeded and so has filled the struct.
    unsafe {
        filled.as_mut_ptr().cast::<usize>().write(size_of::<T>());
        call(|error| work(filled.as_mut_ptr(), error))?;
        Ok(filled.assume_init())
    }
}

/// Copies a string of the library; `None` for NULL. The object that owns the string must be alive.
fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: the pointer is not null here. The library's strings are NUL-terminated, and every
    // caller still holds the reader, minibatch, error or buffer that owns the string.
    let text = (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) });
    text.map(|text| text.to_str().expect("UTF-8").to_owned())
}

/// Returns an array of the library as a slice. The object that owns it must outlive the slice.
fn list<'a, T>(pointer: *const T, count: usize) -> &'a [T] {
    assert!(pointer.is_aligned(), "alignment of an array");
    // SAFETY: the pointer is aligned, as asserted, and `count` is the number of elements that the
    // library reports with it. Every caller uses the slice while it holds the reader or minibatch
    // that owns the array.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(pointer, count) } }
}
