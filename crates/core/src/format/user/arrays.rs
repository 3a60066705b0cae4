//! The arrays of a chunk, checked once and read in place.
//!
//! Only data that cannot be read in place are copied: samples whose values are not contiguous,
//! indices that are not 32 bits wide, and the offsets of sparse samples, which must not change
//! after the check because they determine what is read.

#![allow(unsafe_code, reason = "arrays of a user's program, used without a copy")]

use super::buffer::Buffer;
use super::data::{Array, DenseArray, SparseArray, StreamData};
use super::wrong_chunk;
use crate::memory::room;
use crate::sequence::{ChunkId, SequenceView, SparseView, ValueForm, ViewKind};
use crate::stream::{ElementType, Storage, StreamInfo};
use crate::{Error, Result};
use std::sync::Arc;

/// Why arrays are rejected.
enum Refusal {
    /// Their content is wrong.
    Wrong(String),
    /// There is no memory for a copy.
    Memory(Error),
}

type Checking<T> = std::result::Result<T, Refusal>;

impl From<String> for Refusal {
    fn from(message: String) -> Refusal {
        Refusal::Wrong(message)
    }
}

impl From<&str> for Refusal {
    fn from(message: &str) -> Refusal {
        Refusal::Wrong(message.to_owned())
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Memory(error)
    }
}

impl Refusal {
    /// Converts it to the error of a chunk.
    fn of_chunk(self, chunk: ChunkId) -> Error {
        match self {
            Refusal::Wrong(message) => wrong_chunk(chunk, message),
            Refusal::Memory(error) => error,
        }
    }

    /// Adds the number of the array.
    fn in_array(self, number: usize) -> Refusal {
        match self {
            Refusal::Wrong(message) => Refusal::Wrong(format!("array {number}: {message}")),
            memory => memory,
        }
    }
}

/// The checked arrays of a chunk.
pub(super) struct CheckedArrays {
    streams: Vec<Stream>,
    sequences: u32,
}

/// One stream of a chunk.
struct Stream {
    arrays: Arrays,
    runs: Runs,
}

enum Arrays {
    /// `sample_bytes` is the size of a sample.
    Dense { arrays: Vec<Dense>, sample_bytes: usize },
    /// `element` is the size of a value in bytes.
    Sparse { arrays: Vec<Sparse>, element: usize },
}

/// How the samples of a stream form sequences.
enum Runs {
    /// Each sample of the only array is a sequence; the number of samples.
    Samples(usize),
    /// Samples `offsets[i] .. offsets[i + 1]` of the only array are sequence `i`; the array has no
    /// gaps.
    Sequences(Vec<usize>),
    /// Each array is a sequence; no array has gaps.
    Arrays,
}

/// Samples whose values are contiguous.
struct Dense {
    values: Buffer,
    offset: usize,
    samples: usize,
    /// Distance between samples in bytes.
    stride: isize,
}

struct Sparse {
    values: Buffer,
    /// `i32`.
    indices: Buffer,
    offsets: Vec<u32>,
}

impl CheckedArrays {
    /// Checks the arrays of a chunk against the streams. Also returns the declared lengths of its
    /// sequences, or `None` if all are one sample long.
    pub(super) fn new(
        data: Vec<StreamData>,
        streams: &[StreamInfo],
        chunk: ChunkId,
    ) -> Result<(CheckedArrays, Option<Vec<u32>>)> {
        let of_chunk = |message: String| wrong_chunk(chunk, message);
        if data.len() != streams.len() {
            let message = format!("it has arrays of {} streams instead of {}.", data.len(), streams.len());
            return Err(of_chunk(message));
        }
        let mut checked = Vec::with_capacity(streams.len());
        for (info, data) in streams.iter().zip(data) {
            let stream = check_stream(info, data);
            checked.push(stream.map_err(|refusal| refusal.of_chunk(chunk).in_stream(&info.name))?);
        }
        let count = checked.first().map_or(0, Stream::count);
        for (info, stream) in streams.iter().zip(&checked) {
            if stream.count() != count {
                let message = format!(
                    "Please provide an equal number of sequences across all streams in the chunk, currently stream \
                     '{}' has {count} sequences, whereas '{}'- {}",
                    streams[0].name,
                    info.name,
                    stream.count()
                );
                return Err(of_chunk(message).in_stream(&info.name));
            }
        }
        let sequences =
            u32::try_from(count).map_err(|_| of_chunk(format!("{count} sequences are too many.")))?;
        let lengths = declared_lengths(streams, &checked, sequences);
        let lengths = lengths.map_err(|refusal| refusal.of_chunk(chunk))?;
        Ok((CheckedArrays { streams: checked, sequences }, lengths))
    }

    /// Number of sequences.
    pub(super) fn sequences(&self) -> u32 {
        self.sequences
    }

    /// Size of the arrays in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.streams.iter().map(Stream::bytes).sum()
    }

    /// The data of a sequence in a stream.
    pub(super) fn view(&self, stream: usize, index: u32) -> SequenceView<'_> {
        self.streams[stream].view(index as usize)
    }
}

/// Applies CNTK's rule: if all samples are sequences, all lengths are 1; otherwise the lengths are
/// those of the stream that defines the minibatch size, or else of the longest stream.
fn declared_lengths(infos: &[StreamInfo], streams: &[Stream], sequences: u32) -> Checking<Option<Vec<u32>>> {
    if streams.iter().all(|stream| matches!(stream.runs, Runs::Samples(_))) {
        return Ok(None);
    }
    let mut defining = infos.iter().zip(streams).filter(|(info, _)| info.defines_mb_size);
    let chosen = defining.next().map(|(_, stream)| stream);
    if defining.next().is_some() {
        return Err(
            "Only a single stream is allowed to define minibatch size, but at least two are found.".into()
        );
    }
    let mut lengths = room::with_capacity(sequences as usize, room::CHUNK)?;
    for i in 0..sequences as usize {
        let length = match chosen {
            Some(stream) => stream.samples(i),
            None => streams.iter().map(|stream| stream.samples(i)).max().unwrap_or(1),
        };
        lengths.push(
            u32::try_from(length).map_err(|_| format!("sequence {i} has too many samples: {length}."))?,
        );
    }
    Ok(if lengths.iter().all(|&length| length == 1) { None } else { Some(lengths) })
}

impl Arrays {
    fn len(&self) -> usize {
        match self {
            Arrays::Dense { arrays, .. } => arrays.len(),
            Arrays::Sparse { arrays, .. } => arrays.len(),
        }
    }

    /// Number of samples in an array; 0 if there is no such array.
    fn samples(&self, i: usize) -> usize {
        match self {
            Arrays::Dense { arrays, .. } => arrays.get(i).map_or(0, |array| array.samples),
            Arrays::Sparse { arrays, .. } => arrays.get(i).map_or(0, |array| array.offsets.len() - 1),
        }
    }
}

impl Stream {
    /// Size of its arrays in bytes.
    fn bytes(&self) -> usize {
        let runs = match &self.runs {
            Runs::Sequences(offsets) => size_of_val(offsets.as_slice()),
            Runs::Samples(_) | Runs::Arrays => 0,
        };
        runs + match &self.arrays {
            Arrays::Dense { arrays, .. } => {
                arrays.iter().map(|array| size_of_val(array) + array.values.bytes().len()).sum::<usize>()
            }
            Arrays::Sparse { arrays, .. } => {
                let of = |array: &Sparse| {
                    let lists = size_of_val(array.offsets.as_slice()) + array.indices.bytes().len();
                    size_of_val(array) + array.values.bytes().len() + lists
                };
                arrays.iter().map(of).sum()
            }
        }
    }

    /// Number of sequences.
    fn count(&self) -> usize {
        match &self.runs {
            Runs::Samples(count) => *count,
            Runs::Sequences(offsets) => offsets.len() - 1,
            Runs::Arrays => self.arrays.len(),
        }
    }

    /// Number of samples in a sequence.
    fn samples(&self, i: usize) -> usize {
        self.place(i).2
    }

    /// Returns the array of a sequence, its first sample there, and its number of samples.
    fn place(&self, i: usize) -> (usize, usize, usize) {
        match &self.runs {
            Runs::Samples(_) => (0, i, 1),
            Runs::Sequences(offsets) => (0, offsets[i], offsets[i + 1] - offsets[i]),
            Runs::Arrays => (i, 0, self.arrays.samples(i)),
        }
    }

    fn view(&self, i: usize) -> SequenceView<'_> {
        let (array, first, samples) = self.place(i);
        let (values, kind) = match &self.arrays {
            Arrays::Dense { arrays, sample_bytes } => {
                let array = &arrays[array];
                let start = array.offset.wrapping_add_signed(array.stride.wrapping_mul(first as isize));
                let size = samples * sample_bytes;
                (if size == 0 { &[] } else { &array.values.bytes()[start..][..size] }, ViewKind::Dense)
            }
            Arrays::Sparse { arrays, element } => {
                let array = &arrays[array];
                let offsets = &array.offsets[first..=first + samples];
                let (begin, end) = (offsets[0] as usize, offsets[samples] as usize);
                let sparse = SparseView {
                    indices: &array.indices.bytes()[begin * 4..end * 4],
                    narrow: false,
                    offsets,
                    single: false,
                };
                (&array.values.bytes()[begin * element..end * element], ViewKind::Sparse(sparse))
            }
        };
        SequenceView { samples: samples as u32, values, form: ValueForm::Whole, kind }
    }
}

fn check_stream(info: &StreamInfo, data: StreamData) -> Checking<Stream> {
    let by_sample = matches!(data, StreamData::Samples(_));
    let (arrays, lengths) = match data {
        StreamData::Samples(array) => (vec![array], None),
        StreamData::Sequences(array, lengths) => (vec![array], Some(lengths)),
        StreamData::Arrays(arrays) => (arrays, None),
    };
    let count = |storage| if info.storage == storage { arrays.len() } else { 0 };
    let mut dense = room::with_capacity(count(Storage::Dense), room::CHUNK)?;
    let mut sparse = room::with_capacity(count(Storage::SparseCsc), room::CHUNK)?;
    for (i, array) in arrays.into_iter().enumerate() {
        let checked = match (info.storage, array) {
            (Storage::Dense, Array::Dense(array)) => {
                check_dense(info, array, by_sample).map(|array| dense.push(array))
            }
            (Storage::SparseCsc, Array::Sparse(array)) => {
                check_sparse(info, array).map(|array| sparse.push(array))
            }
            (Storage::Dense, Array::Sparse(_)) => Err("sparse data for a dense stream.".into()),
            (Storage::SparseCsc, Array::Dense(_)) => Err("dense data for a sparse stream.".into()),
        };
        checked.map_err(|refusal: Refusal| if by_sample { refusal } else { refusal.in_array(i) })?;
    }
    let element = info.element.size();
    let arrays = match info.storage {
        Storage::Dense => Arrays::Dense { arrays: dense, sample_bytes: info.sample_size() * element },
        Storage::SparseCsc => Arrays::Sparse { arrays: sparse, element },
    };
    let samples = arrays.samples(0);
    let runs = match lengths {
        _ if by_sample => Runs::Samples(samples),
        None => Runs::Arrays,
        Some(lengths) => {
            let mut offsets = room::with_capacity(lengths.len() + 1, room::CHUNK)?;
            let mut end = 0usize;
            offsets.push(end);
            for length in lengths {
                end = end.saturating_add(length as usize);
                offsets.push(end);
            }
            if end != samples {
                return Err(format!("its sequences have {end} samples, its array {samples}.").into());
            }
            Runs::Sequences(offsets)
        }
    };
    let stream = Stream { arrays, runs };
    let mut several = match stream.runs {
        // One sample each. An array whose samples overlap or have no values can claim any number of
        // them.
        Runs::Samples(_) => 0..0,
        Runs::Sequences(_) | Runs::Arrays => 0..stream.count(),
    };
    // CNTK 2.7 reports this only when it packs the sequence.
    if let Some(i) = several.find(|&i| stream.samples(i) == 0) {
        return Err(format!("sequence {i}: AddSequence: Sequences must be a least one frame long.").into());
    }
    Ok(stream)
}

fn check_element(info: &StreamInfo, values: &Buffer) -> Checking<()> {
    if values.element() == info.element {
        return Ok(());
    }
    let (found, expected) = (values.element().name(), info.element.name());
    Err(format!("its values are {found}, those of the stream {expected}.").into())
}

/// Checks that the bytes of Booleans are 0 or 1.
fn check_bools(dense: &Dense, sample_bytes: usize) -> Checking<()> {
    for sample in 0..dense.samples {
        let start = dense.offset.wrapping_add_signed(dense.stride.wrapping_mul(sample as isize));
        let bytes = &dense.values.bytes()[start..][..sample_bytes];
        // No early exit, so that the loop is vectorized.
        if bytes.iter().fold(0, |all, byte| all | byte) > 1 {
            let bad = bytes.iter().find(|byte| **byte > 1).copied().unwrap_or_default();
            return Err(format!("sample {sample} has the byte {bad}, but Booleans are 0 or 1.").into());
        }
    }
    Ok(())
}

fn check_dense(info: &StreamInfo, array: DenseArray, by_sample: bool) -> Checking<Dense> {
    let dense = in_place(info, array, by_sample)?;
    if info.element == ElementType::Bool {
        check_bools(&dense, info.sample_size())?;
    }
    Ok(dense)
}

/// Returns the samples of an array, copied only if the values of a sample are not contiguous.
fn in_place(info: &StreamInfo, array: DenseArray, by_sample: bool) -> Checking<Dense> {
    let DenseArray { values, offset, samples, shape, strides } = array;
    check_element(info, &values)?;
    let samples = match samples {
        Some(samples) => samples,
        None => filled_samples(&values, info.sample_size())?,
    };
    if let Some(shape) = shape
        && shape != info.shape
    {
        return Err(format!("a sample has the shape {shape:?}, the stream {:?}.", info.shape).into());
    }
    let element = info.element.size();
    let sample_bytes = info.sample_size() * element;
    let too_small = || -> Refusal {
        format!(
            "{samples} samples of {sample_bytes} bytes from byte {offset} on exceed the memory of {} bytes.",
            values.bytes().len()
        )
        .into()
    };
    if sample_bytes.checked_mul(samples).is_none_or(|size| size > isize::MAX as usize) {
        return Err(too_small());
    }
    let Some(strides) = strides else {
        if offset.checked_add(sample_bytes * samples).is_none_or(|end| end > values.bytes().len()) {
            return Err(too_small());
        }
        return Ok(Dense { values, offset, samples, stride: sample_bytes as isize });
    };
    if strides.len() != info.shape.len() + 1 {
        let message = format!("it has {} strides instead of {}.", strides.len(), info.shape.len() + 1);
        return Err(message.into());
    }
    let (inner, outer) = (&strides[..info.shape.len()], strides[info.shape.len()]);
    if sample_bytes == 0 || samples == 0 {
        return Ok(Dense { values, offset: 0, samples, stride: 0 });
    }
    // The lowest byte in use, and the end of the highest.
    let (mut low, mut high) = (offset as i128, offset as i128 + element as i128);
    for (&dim, &stride) in info.shape.iter().chain([&samples]).zip(&strides) {
        let reach = (dim as i128 - 1) * stride as i128;
        low += reach.min(0);
        high += reach.max(0);
    }
    if low < 0 || high > values.bytes().len() as i128 {
        return Err(format!(
            "its strides reach bytes {low} to {high} of a memory of {} bytes.",
            values.bytes().len()
        )
        .into());
    }
    let mut packed = element as isize;
    let mut is_whole = true;
    for (&dim, &stride) in info.shape.iter().zip(inner) {
        is_whole &= dim == 1 || stride == packed;
        packed *= dim as isize;
    }
    if is_whole && (by_sample || samples == 1 || outer == packed) {
        return Ok(Dense { values, offset, samples, stride: outer });
    }
    let mut copy = room::with_capacity(sample_bytes * samples, room::CHUNK)?;
    for sample in 0..samples {
        let first = offset as isize + outer * sample as isize;
        gather(values.bytes(), first, &info.shape, inner, element, &mut copy);
    }
    let (start, size) = (copy.as_ptr(), copy.len());
    // SAFETY: `start` and `size` are the initialized bytes of `copy`. Moving the vector into the
    // owner does not move its memory, and nothing changes it there.
    let values = unsafe { Buffer::from_raw(start, size, values.element(), Arc::new(copy)) };
    Ok(Dense { values, offset: 0, samples, stride: sample_bytes as isize })
}

/// Number of samples in the values.
fn filled_samples(values: &Buffer, sample_size: usize) -> Checking<usize> {
    match values.len().checked_rem(sample_size) {
        Some(0) => Ok(values.len() / sample_size),
        Some(_) => {
            Err(format!("its {} values are not a whole number of samples of {sample_size}.", values.len())
                .into())
        }
        None => Err("samples without values cannot be counted: set `samples`.".into()),
    }
}

/// Appends the values of an array, with the first dimension varying fastest. The caller has checked
/// that all values are within `bytes`.
fn gather(bytes: &[u8], at: isize, shape: &[usize], strides: &[isize], element: usize, out: &mut Vec<u8>) {
    match (shape, strides) {
        ([shape @ .., dim], [strides @ .., stride]) => {
            for i in 0..*dim as isize {
                gather(bytes, at + i * stride, shape, strides, element, out);
            }
        }
        _ => out.extend_from_slice(&bytes[at as usize..][..element]),
    }
}

fn check_sparse(info: &StreamInfo, array: SparseArray) -> Checking<Sparse> {
    let SparseArray { values, indices, offsets } = array;
    check_element(info, &values)?;
    let numbers = offsets.integers().ok_or("its offsets are not integers.")?;
    let mut checked = room::with_capacity(offsets.len(), room::CHUNK)?;
    for (sample, offset) in numbers.enumerate() {
        let before = checked.last().copied().unwrap_or(0);
        match u32::try_from(offset) {
            Ok(offset) if offset >= before => checked.push(offset),
            _ => {
                return Err(format!(
                    "its offsets do not ascend: {offset} comes after {before} at sample {sample}."
                )
                .into());
            }
        }
    }
    let (Some(&first), Some(&end)) = (checked.first(), checked.last()) else {
        return Err("it has no offsets; an array without samples has one.".into());
    };
    let (first, end) = (first as usize, end as usize);
    if end > values.len() || end > indices.len() {
        return Err(format!(
            "its offsets count {end} entries, but there are {} values and {} indices.",
            values.len(),
            indices.len()
        )
        .into());
    }
    let size = info.sample_size() as i64;
    let numbers = indices.integers().ok_or("its indices are not integers.")?;
    let is_bad = |index: i64| !(0..size).contains(&index);
    // No early exit, so that the loop is vectorized.
    let checked_indices = if indices.element() == ElementType::Int32 {
        let used = &indices.bytes().as_chunks::<4>().0[first..end];
        let limit = size as u32;
        let any_bad = used.iter().fold(false, |bad, index| bad | (u32::from_ne_bytes(*index) >= limit));
        (!any_bad).then(|| indices.clone())
    } else {
        let narrow = indices.integers().into_iter().flatten().enumerate().map(|(i, index)| {
            let is_used = (first..end).contains(&i);
            if !is_used { Some(0) } else { i32::try_from(index).ok().filter(|_| !is_bad(index)) }
        });
        let mut copy = room::with_capacity(indices.len(), room::CHUNK)?;
        copy.extend(narrow.map_while(|index| index));
        (copy.len() == indices.len()).then(|| Buffer::from(copy))
    };
    let Some(indices) = checked_indices else {
        let bad = numbers.enumerate().skip(first).take(end - first).find(|&(_, index)| is_bad(index));
        let (entry, index) = bad.unwrap_or((first, -1));
        let sample = checked.partition_point(|&offset| offset as usize <= entry) - 1;
        return Err(format!(
            "sample {sample} has a value with the index {index}, but a sample has {size} values."
        )
        .into());
    };
    Ok(Sparse { values, indices, offsets: checked })
}
