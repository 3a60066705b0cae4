//! A loaded chunk: the user's arrays, checked once, and read where they lie.
//!
//! Only what cannot be read in place is copied: samples whose values are not next to each other, indices that are not
//! 32 bits wide, and the starts of sparse samples, which decide what is read.

use super::buffer::{Buffer, Scalar};
use super::data::{Array, ChunkData, DenseArray, SparseArray, StreamData};
use super::wrong;
use crate::Result;
use crate::deserialize::loader::Loader;
use crate::deserialize::{Chunk, Lengths, Listing, Loaded};
use crate::memory::Held;
use crate::sequence::{ChunkId, SequenceView, SparseView, ValueForm};
use crate::stream::{ElementType, Storage, StreamInfo};
use std::sync::Arc;

/// The arrays of a chunk, checked.
pub(super) struct Checked {
    streams: Vec<Stream>,
    sequences: u32,
    /// None: all are one sample long.
    lengths: Option<Vec<u32>>,
    keys: Option<Vec<u64>>,
}

/// A chunk in memory. Its arrays go back to the user on a loading thread.
pub(super) struct LoadedChunk {
    chunk: Checked,
    loader: Arc<Loader>,
    /// Counts the arrays' memory until they went back.
    held: Held,
}

enum Stream {
    Dense { arrays: Vec<Dense>, runs: Runs, column: usize },
    Sparse { arrays: Vec<Sparse>, runs: Runs, element: usize },
}

/// How the samples of a stream make sequences.
enum Runs {
    /// Each sample of the only array.
    Samples(usize),
    /// Samples `starts[i] .. starts[i + 1]` of the only array, which has no gaps.
    Sequences(Vec<usize>),
    /// Each array; none of them has gaps.
    Arrays,
}

/// Samples of whole columns.
struct Dense {
    values: Buffer,
    offset: usize,
    samples: usize,
    /// Bytes from sample to sample.
    stride: isize,
}

struct Sparse {
    values: Buffer,
    /// `i32`.
    rows: Buffer,
    starts: Vec<u32>,
}

impl Checked {
    /// Checks a chunk against the streams.
    pub(super) fn new(data: ChunkData, streams: &[StreamInfo], chunk: ChunkId) -> Result<Checked> {
        let of_chunk =
            |message: String| wrong(format!("Chunk {chunk} of the user's deserializer: {message}"));
        if data.streams.len() != streams.len() {
            let message = format!("it has {} streams instead of {}.", data.streams.len(), streams.len());
            return Err(of_chunk(message));
        }
        let mut checked = Vec::with_capacity(streams.len());
        for (info, data) in streams.iter().zip(data.streams) {
            let stream = check_stream(info, data);
            checked.push(stream.map_err(|message| of_chunk(message).in_stream(&info.name))?);
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
        if let Some(keys) = &data.keys
            && keys.len() != count
        {
            return Err(of_chunk(format!("it has {} keys for {count} sequences.", keys.len())));
        }
        let lengths = declared_lengths(streams, &checked, sequences).map_err(of_chunk)?;
        Ok(Checked { streams: checked, sequences, lengths, keys: data.keys })
    }

    /// Bytes of the arrays.
    fn bytes(&self) -> usize {
        let lists =
            self.lengths.as_deref().map_or(0, size_of_val) + self.keys.as_deref().map_or(0, size_of_val);
        self.streams.iter().map(Stream::bytes).sum::<usize>() + lists
    }

    pub(super) fn listing(&self) -> Listing<'_> {
        let lengths = self.lengths.as_deref().map_or(Lengths::Ones, Lengths::Each);
        Listing { sequences: self.sequences, lengths }
    }
}

/// CNTK's rule: where all samples are sequences, all lengths are 1; else it is the stream that defines the minibatch
/// size that counts, or the longest one.
fn declared_lengths(
    infos: &[StreamInfo],
    streams: &[Stream],
    sequences: u32,
) -> std::result::Result<Option<Vec<u32>>, String> {
    if streams.iter().all(|stream| matches!(stream.runs(), Runs::Samples(_))) {
        return Ok(None);
    }
    let mut defining = infos.iter().zip(streams).filter(|(info, _)| info.defines_mb_size);
    let chosen = defining.next().map(|(_, stream)| stream);
    if defining.next().is_some() {
        return Err("Only a single stream is allowed to define minibatch size, but at least two are found."
            .to_owned());
    }
    let mut lengths = Vec::with_capacity(sequences as usize);
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

impl LoadedChunk {
    pub(super) fn new(chunk: Checked, loader: &Arc<Loader>) -> LoadedChunk {
        let held = loader.hold(chunk.bytes());
        LoadedChunk { chunk, loader: Arc::clone(loader), held }
    }

    pub(super) fn checked(&self) -> &Checked {
        &self.chunk
    }

    /// The key of a sequence, if the user gave keys.
    pub(super) fn key(&self, index: u32) -> Option<u64> {
        self.chunk.keys.as_ref()?.get(index as usize).copied()
    }
}

impl Drop for LoadedChunk {
    fn drop(&mut self) {
        let streams = std::mem::take(&mut self.chunk.streams);
        let held = std::mem::take(&mut self.held);
        self.loader.release((streams, held));
    }
}

impl Chunk for LoadedChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        Loaded::Data(self.chunk.streams[stream].view(index as usize))
    }

    fn listing(&self) -> Option<Listing<'_>> {
        Some(self.chunk.listing())
    }
}

impl Stream {
    fn runs(&self) -> &Runs {
        match self {
            Stream::Dense { runs, .. } | Stream::Sparse { runs, .. } => runs,
        }
    }

    /// Bytes of its arrays.
    fn bytes(&self) -> usize {
        let runs = match self.runs() {
            Runs::Sequences(starts) => size_of_val(starts.as_slice()),
            Runs::Samples(_) | Runs::Arrays => 0,
        };
        runs + match self {
            Stream::Dense { arrays, .. } => {
                arrays.iter().map(|array| size_of_val(array) + array.values.bytes().len()).sum::<usize>()
            }
            Stream::Sparse { arrays, .. } => {
                let of = |array: &Sparse| {
                    let starts = size_of_val(array.starts.as_slice());
                    size_of_val(array) + array.values.bytes().len() + array.rows.bytes().len() + starts
                };
                arrays.iter().map(of).sum()
            }
        }
    }

    /// Number of sequences.
    fn count(&self) -> usize {
        match (self.runs(), self) {
            (Runs::Samples(count), _) => *count,
            (Runs::Sequences(starts), _) => starts.len() - 1,
            (Runs::Arrays, Stream::Dense { arrays, .. }) => arrays.len(),
            (Runs::Arrays, Stream::Sparse { arrays, .. }) => arrays.len(),
        }
    }

    /// Samples of a sequence.
    fn samples(&self, i: usize) -> usize {
        self.place(i).2
    }

    /// The array that a sequence is in, its first sample there, and how many.
    fn place(&self, i: usize) -> (usize, usize, usize) {
        match (self.runs(), self) {
            (Runs::Samples(_), _) => (0, i, 1),
            (Runs::Sequences(starts), _) => (0, starts[i], starts[i + 1] - starts[i]),
            (Runs::Arrays, Stream::Dense { arrays, .. }) => (i, 0, arrays[i].samples),
            (Runs::Arrays, Stream::Sparse { arrays, .. }) => (i, 0, arrays[i].starts.len() - 1),
        }
    }

    fn view(&self, i: usize) -> SequenceView<'_> {
        let (array, first, samples) = self.place(i);
        match self {
            Stream::Dense { arrays, column, .. } => {
                let array = &arrays[array];
                let start = array.offset.wrapping_add_signed(array.stride.wrapping_mul(first as isize));
                let values =
                    if *column == 0 { &[] } else { &array.values.bytes()[start..][..samples * column] };
                SequenceView { samples: samples as u32, values, form: ValueForm::Whole, sparse: None }
            }
            Stream::Sparse { arrays, element, .. } => {
                let array = &arrays[array];
                let starts = &array.starts[first..=first + samples];
                let (begin, end) = (starts[0] as usize, starts[samples] as usize);
                let sparse = SparseView {
                    indices: &array.rows.bytes()[begin * 4..end * 4],
                    narrow: false,
                    offsets: starts,
                    single: false,
                };
                let values = &array.values.bytes()[begin * element..end * element];
                SequenceView { samples: samples as u32, values, form: ValueForm::Whole, sparse: Some(sparse) }
            }
        }
    }
}

fn check_stream(info: &StreamInfo, data: StreamData) -> std::result::Result<Stream, String> {
    let by_sample = matches!(data, StreamData::Samples(_));
    let (arrays, lengths) = match data {
        StreamData::Samples(array) => (vec![array], None),
        StreamData::Sequences(array, lengths) => (vec![array], Some(lengths)),
        StreamData::Arrays(arrays) => (arrays, None),
    };
    let mut dense = Vec::new();
    let mut sparse = Vec::new();
    for (i, array) in arrays.into_iter().enumerate() {
        let checked = match (info.storage, array) {
            (Storage::Dense, Array::Dense(array)) => {
                check_dense(info, array, by_sample).map(|array| dense.push(array))
            }
            (Storage::SparseCsc, Array::Sparse(array)) => {
                check_sparse(info, array).map(|array| sparse.push(array))
            }
            (Storage::Dense, Array::Sparse(_)) => Err("sparse data for a dense stream.".to_owned()),
            (Storage::SparseCsc, Array::Dense(_)) => Err("dense data for a sparse stream.".to_owned()),
        };
        checked.map_err(|message| if by_sample { message } else { format!("array {i}: {message}") })?;
    }
    let samples = match info.storage {
        Storage::Dense => dense.first().map_or(0, |array: &Dense| array.samples),
        Storage::SparseCsc => sparse.first().map_or(0, |array: &Sparse| array.starts.len() - 1),
    };
    let runs = match lengths {
        _ if by_sample => Runs::Samples(samples),
        None => Runs::Arrays,
        Some(lengths) => {
            let mut starts = vec![0usize];
            let mut end = 0usize;
            for length in lengths {
                end = end.saturating_add(length as usize);
                starts.push(end);
            }
            if end != samples {
                return Err(format!("its sequences have {end} samples, its array {samples}."));
            }
            Runs::Sequences(starts)
        }
    };
    let stream = match info.storage {
        Storage::Dense => {
            Stream::Dense { arrays: dense, runs, column: info.sample_size() * info.element.size() }
        }
        Storage::SparseCsc => Stream::Sparse { arrays: sparse, runs, element: info.element.size() },
    };
    // CNTK 2.7 finds this out only when it packs the sequence.
    if let Some(i) = (0..stream.count()).find(|&i| stream.samples(i) == 0) {
        return Err(format!("sequence {i}: AddSequence: Sequences must be a least one frame long."));
    }
    Ok(stream)
}

fn check_scalar(info: &StreamInfo, values: &Buffer) -> std::result::Result<(), String> {
    let expected = match info.element {
        ElementType::Float => Scalar::Float,
        ElementType::Double => Scalar::Double,
    };
    if values.scalar() == expected {
        return Ok(());
    }
    Err(format!("its values are {:?}, those of the stream {:?}.", values.scalar(), info.element))
}

fn check_dense(info: &StreamInfo, array: DenseArray, by_sample: bool) -> std::result::Result<Dense, String> {
    let DenseArray { values, offset, samples, shape, strides } = array;
    check_scalar(info, &values)?;
    if let Some(shape) = shape
        && shape != info.shape
    {
        return Err(format!("a sample has the shape {shape:?}, the stream {:?}.", info.shape));
    }
    let element = info.element.size();
    let column = info.sample_size() * element;
    let too_small = || {
        format!(
            "{samples} samples of {column} bytes from byte {offset} on leave the memory of {} bytes.",
            values.bytes().len()
        )
    };
    if column.checked_mul(samples).is_none_or(|size| size > isize::MAX as usize) {
        return Err(too_small());
    }
    let Some(strides) = strides else {
        if offset.checked_add(column * samples).is_none_or(|end| end > values.bytes().len()) {
            return Err(too_small());
        }
        return Ok(Dense { values, offset, samples, stride: column as isize });
    };
    if strides.len() != info.shape.len() + 1 {
        return Err(format!("it has {} strides instead of {}.", strides.len(), info.shape.len() + 1));
    }
    let (inner, outer) = (&strides[..info.shape.len()], strides[info.shape.len()]);
    if column == 0 || samples == 0 {
        return Ok(Dense { values, offset: 0, samples, stride: 0 });
    }
    // The lowest and the highest byte that is touched.
    let (mut low, mut high) = (offset as i128, offset as i128 + element as i128);
    for (&dim, &stride) in info.shape.iter().chain([&samples]).zip(&strides) {
        let reach = (dim as i128 - 1) * stride as i128;
        low += reach.min(0);
        high += reach.max(0);
    }
    if low < 0 || high > values.bytes().len() as i128 {
        return Err(format!(
            "its strides lead to the bytes {low} to {high} of a memory of {} bytes.",
            values.bytes().len()
        ));
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
    let mut copy = Vec::with_capacity(column * samples);
    for sample in 0..samples {
        let first = offset as isize + outer * sample as isize;
        gather(values.bytes(), first, &info.shape, inner, element, &mut copy);
    }
    let (start, size) = (copy.as_ptr(), copy.len());
    // SAFETY: the list is not touched any more; moving it into the owner does not move its memory.
    let values = unsafe { Buffer::from_raw(start, size, values.scalar(), Arc::new(copy)) };
    Ok(Dense { values, offset: 0, samples, stride: column as isize })
}

/// Appends the values of an array, the first dimension fastest. All places were checked.
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

fn check_sparse(info: &StreamInfo, array: SparseArray) -> std::result::Result<Sparse, String> {
    let SparseArray { values, indices, starts } = array;
    check_scalar(info, &values)?;
    let numbers = starts.integers().ok_or("its starts are no integers.")?;
    let mut checked = Vec::with_capacity(starts.len());
    for (sample, start) in numbers.enumerate() {
        let before = checked.last().copied().unwrap_or(0);
        match u32::try_from(start) {
            Ok(start) if start >= before => checked.push(start),
            _ => {
                return Err(format!(
                    "its starts do not ascend: {start} comes after {before} at sample {sample}."
                ));
            }
        }
    }
    let (Some(&first), Some(&end)) = (checked.first(), checked.last()) else {
        return Err("it has no starts; for no samples there is one.".to_owned());
    };
    let (first, end) = (first as usize, end as usize);
    if end > values.len() || end > indices.len() {
        return Err(format!(
            "its starts count {end} entries, but there are {} values and {} indices.",
            values.len(),
            indices.len()
        ));
    }
    let size = info.sample_size() as i64;
    let numbers = indices.integers().ok_or("its indices are no integers.")?;
    let is_bad = |index: i64| !(0..size).contains(&index);
    // Without an early end, so that it is compiled to vector instructions.
    let rows = if indices.scalar() == Scalar::Int32 {
        let rows = &indices.bytes().as_chunks::<4>().0[first..end];
        let limit = size as u32;
        let any_bad = rows.iter().fold(false, |bad, row| bad | (u32::from_ne_bytes(*row) >= limit));
        (!any_bad).then(|| indices.clone())
    } else {
        let narrow = indices.integers().into_iter().flatten().enumerate().map(|(i, index)| {
            let is_used = (first..end).contains(&i);
            if !is_used { Some(0) } else { i32::try_from(index).ok().filter(|_| !is_bad(index)) }
        });
        narrow.collect::<Option<Vec<i32>>>().map(Buffer::from)
    };
    let Some(rows) = rows else {
        let bad = numbers.enumerate().skip(first).take(end - first).find(|&(_, index)| is_bad(index));
        let (entry, index) = bad.unwrap_or((first, -1));
        let sample = checked.partition_point(|&start| start as usize <= entry) - 1;
        return Err(format!(
            "sample {sample} has a value with the index {index}, but a sample has {size} values."
        ));
    };
    Ok(Sparse { values, rows, starts: checked })
}
