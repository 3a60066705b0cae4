//! Data to convert: whole sequences in the order of the data, in batches.

use super::numpy::{NumpyData, NumpyOptions};
use crate::{Look, Part};
use cntk_reader::Builder;
use cntk_reader::{MinibatchStream, Reader};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::stream::{Element, ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result, with_element};
use cntk_reader_engine::reader::{Epoch, Member, POSITION_KEY};
use std::collections::HashSet;

/// Approximate number of bytes of values in a batch.
const BATCH_BYTES: usize = 16 << 20;

/// Maximum number of sequences in a batch, if each has one sample.
const MAX_SEQUENCES: usize = 1 << 16;

/// Number of samples in a batch if sequences have several. Sequences of different lengths leave
/// gaps in minibatches: in the worst case a quarter of the square of this number.
const MAX_SAMPLES: usize = 256;

/// Data to convert: see [`convert`](super::convert).
pub struct Data {
    source: DataSource,
    streams: Vec<StreamInfo>,
    /// The number of each stream in the source.
    selected: Vec<usize>,
    sequences: Option<u64>,
    are_single: bool,
    has_keys: bool,
    batch: Batch,
    /// Number of sequences delivered.
    done: u64,
    is_over: bool,
}

/// The sequences of a part, by their numbers in the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The first one.
    pub begin: u64,
    /// The first one of the next part.
    pub end: u64,
    /// Number of sequences of the whole.
    pub total: u64,
}

enum DataSource {
    Reader(Box<Reader>),
    Numpy(Box<NumpyData>),
    /// A function that fills a batch with the sequences of all streams, and the batch that it
    /// fills.
    Batches(Box<NextBatch>, Batch),
}

/// Fills an empty batch with the next sequences; false at the end.
type NextBatch = dyn FnMut(&mut Batch) -> Result<bool> + Send;

/// Consecutive sequences.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Their keys.
    pub keys: Vec<String>,
    /// Their data, stream by stream.
    pub columns: Vec<Column>,
}

/// The data of consecutive sequences in one stream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    /// Samples of each sequence.
    pub lengths: Vec<u32>,
    /// Sparse: values of each sample.
    pub counts: Vec<u32>,
    /// Values in native order.
    pub values: Vec<u8>,
    /// Sparse: the index of each value in its sample.
    pub indices: Vec<i32>,
}

impl Column {
    /// Empties the column but keeps its memory.
    pub fn clear(&mut self) {
        self.lengths.clear();
        self.counts.clear();
        self.values.clear();
        self.indices.clear();
    }

    /// Appends the data of further sequences.
    fn append(&mut self, other: &Column) -> Result<()> {
        room::extend(&mut self.lengths, &other.lengths, room::CONVERSION)?;
        room::extend(&mut self.counts, &other.counts, room::CONVERSION)?;
        room::extend(&mut self.values, &other.values, room::CONVERSION)?;
        room::extend(&mut self.indices, &other.indices, room::CONVERSION)
    }

    /// Returns the number of samples of all sequences.
    pub fn samples(&self) -> u64 {
        self.lengths.iter().map(|&length| u64::from(length)).sum()
    }

    /// Fails if the numbers of lengths, counts, values and indices are inconsistent, or an index
    /// exceeds the dimension.
    fn check(&self, sequences: usize, stream: &StreamInfo) -> Result<()> {
        let samples = usize::try_from(self.samples()).unwrap_or(usize::MAX);
        let (values, is_consistent) = match stream.storage {
            Storage::Dense => (samples.checked_mul(stream.sample_size()), self.counts.is_empty()),
            Storage::SparseCsc => {
                let dim = i32::try_from(stream.sample_size()).unwrap_or(i32::MAX);
                let count = self.counts.iter().map(|&count| count as usize).sum();
                let fits = self.indices.iter().all(|index| (0..dim).contains(index));
                (Some(count), self.counts.len() == samples && self.indices.len() == count && fits)
            }
        };
        let bytes = values.and_then(|values| values.checked_mul(stream.element.size()));
        if self.lengths.len() == sequences && is_consistent && bytes == Some(self.values.len()) {
            return Ok(());
        }
        let error = Error::data(format!("The data of the stream '{}' contradict each other.", stream.name));
        let detail =
            "Numbers of sequences, samples and values do not agree, or an index exceeds the dimension.";
        Err(error.with_detail(detail).in_stream(&stream.name))
    }
}

impl Batch {
    fn clear(&mut self, streams: usize) {
        self.keys.clear();
        self.columns.resize_with(streams, Column::default);
        self.columns.iter_mut().for_each(Column::clear);
    }
}

impl Data {
    /// Opens the data that a reader of these settings delivers, as whole sequences in the order of
    /// the data: settings for randomization, frame mode and truncation are ignored.
    pub fn of_reader(builder: Builder) -> Result<Data> {
        Data::of_reader_within(builder, None)
    }

    /// Opens a part of the data that [`Data::of_reader`] opens: consecutive chunks. The sequences
    /// keep the numbers that they have in the whole.
    ///
    /// Takes two equal builders: one indexes the data to share out their chunks, the other reads
    /// them. Index caches save the time of indexing.
    pub fn of_part(index: Builder, read: Builder, part: Part) -> Result<(Data, Share)> {
        let chunks = index.in_whole_sequences().sequences()?.chunks()?;
        let samples: Vec<u64> = chunks.iter().map(|&(_, samples)| samples).collect();
        let own = part.share(&samples);
        let before = |chunk: usize| {
            let sum = |(sequences, samples), &(own, more): &(u64, u64)| (sequences + own, samples + more);
            chunks[..chunk].iter().fold((0, 0), sum)
        };
        let (begin, end) = (before(own.start), before(own.end));
        let mut data = Data::of_reader_within(read, Some((begin.1, end.1)))?;
        data.sequences = Some(end.0 - begin.0);
        data.done = begin.0;
        Ok((data, Share { begin: begin.0, end: end.0, total: before(chunks.len()).0 }))
    }

    /// Opens the data from and to these positions in samples.
    fn of_reader_within(builder: Builder, range: Option<(u64, u64)>) -> Result<Data> {
        let mut reader = builder.in_whole_sequences().open()?;
        let streams = reader.streams().to_vec();
        if let Some(stream) = streams.iter().find(|stream| stream.is_binary || stream.has_late_shape()) {
            let message = format!("The stream '{}' cannot be converted.", stream.name);
            let detail = "Streams of opaque bytes, such as lattices, and of samples whose shape differs from sequence to sequence \
                          have no place in the other formats.";
            return Err(Error::argument(message).with_detail(detail).in_stream(&stream.name));
        }
        let sizes = reader.sizes();
        let bytes = |stream: &StreamInfo| match stream.storage {
            Storage::Dense => stream.sample_size() * stream.element.size(),
            Storage::SparseCsc => 64,
        };
        let sample: usize = streams.iter().map(bytes).sum();
        let most = match (sizes.sequences, sizes.samples) {
            (Some(sequences), Some(samples)) if sequences == samples => MAX_SEQUENCES,
            _ => MAX_SAMPLES,
        };
        let size = (BATCH_BYTES / sample.max(1)).clamp(1, most);
        let epoch = match range {
            Some((_, end)) if end > 0 => Epoch::samples(end),
            _ => Epoch::sweeps(1),
        };
        let _ = reader.epoch(epoch.minibatch_size(size as u64))?;
        if let Some((begin @ 1.., _)) = range {
            let mut state = reader.cntk_state();
            for (name, value) in &mut state {
                if *name == POSITION_KEY {
                    *value = begin;
                }
            }
            reader.restore_cntk_state(&state)?;
        }
        // If there are several deserializers, the secondary ones may have other lengths.
        let are_single =
            sizes.sequences.is_some() && sizes.sequences == sizes.samples && reader.members().len() == 1;
        let has_keys = reader.members().first().is_some_and(Member::has_keys);
        Ok(Data {
            source: DataSource::Reader(Box::new(reader)),
            selected: (0..streams.len()).collect(),
            streams,
            sequences: sizes.sequences,
            are_single,
            has_keys,
            batch: Batch::default(),
            done: 0,
            is_over: range.is_some_and(|(begin, end)| begin == end),
        })
    }

    /// Opens a NumPy array (`.npy`), or an archive of arrays (`.npz`).
    pub fn of_numpy(path: &str, options: &NumpyOptions) -> Result<Data> {
        let source = NumpyData::open(path, options)?;
        Ok(Data {
            streams: source.streams().to_vec(),
            selected: (0..source.streams().len()).collect(),
            sequences: Some(source.sequences()),
            are_single: source.are_single(),
            has_keys: source.has_keys(),
            source: DataSource::Numpy(Box::new(source)),
            batch: Batch::default(),
            done: 0,
            is_over: false,
        })
    }

    /// Wraps data of any other format. `next` fills an empty batch, which has a column for each
    /// stream, with one or more sequences, or returns false at the end. `has_keys`: whether the
    /// sequences have the keys in the batches; otherwise these may be any text.
    pub fn of_batches(
        streams: Vec<StreamInfo>,
        has_keys: bool,
        sequences: Option<u64>,
        next: impl FnMut(&mut Batch) -> Result<bool> + Send + 'static,
    ) -> Data {
        let columns = vec![Column::default(); streams.len()];
        Data {
            selected: (0..streams.len()).collect(),
            streams,
            sequences,
            are_single: false,
            has_keys,
            source: DataSource::Batches(Box::new(next), Batch { keys: Vec::new(), columns }),
            batch: Batch::default(),
            done: 0,
            is_over: false,
        }
    }

    /// States whether every sequence has one sample in each stream.
    #[must_use]
    pub fn with_single_samples(self, are_single: bool) -> Data {
        Data { are_single, ..self }
    }

    /// Returns the streams.
    #[must_use]
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Returns the number of sequences, if it is known.
    #[must_use]
    pub fn sequences(&self) -> Option<u64> {
        self.sequences
    }

    /// Whether it is known beforehand that every sequence has one sample in each stream.
    #[must_use]
    pub fn are_single(&self) -> bool {
        self.are_single
    }

    /// Whether the sequences have keys. Otherwise their numbers, from 0, are their keys.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.has_keys
    }

    /// Keeps only the streams with these names, in this order.
    pub fn select(&mut self, names: &[String]) -> Result<()> {
        let find = |name: &String| {
            self.streams.iter().position(|stream| stream.name == *name).ok_or_else(|| {
                let names: Vec<_> = self.streams.iter().map(|stream| format!("'{}'", stream.name)).collect();
                let known = self.streams.iter().map(|stream| &*stream.name).collect();
                let meant =
                    nearest(&name.to_lowercase(), &known).map(|known| format!(" Did you mean '{known}'?"));
                let names = names.join(", ");
                let message = format!("There is no stream '{name}'. The data have {names}.");
                Error::argument(message + &meant.unwrap_or_default()).in_stream(name)
            })
        };
        let found = names.iter().map(find).collect::<Result<Vec<_>>>()?;
        let mut named = HashSet::new();
        if let Some(name) = names.iter().find(|name| !named.insert(*name)) {
            let message = format!("The stream '{name}' is selected twice.");
            return Err(Error::argument(message).with_detail("Name each stream once.").in_stream(name));
        }
        self.selected = found.iter().map(|&number| self.selected[number]).collect();
        self.streams = found.iter().map(|&number| self.streams[number].clone()).collect();
        Ok(())
    }

    /// Converts streams of all types except `float32` and `float64` to `element`, one of these two.
    /// An integer that `element` cannot represent exactly is an error. Only for data of a reader.
    pub fn to_floats(&mut self, element: ElementType) {
        self.convert_to(element, |own| !own.is_real());
    }

    /// Widens values of bfloat16 to float32, for formats without bfloat16.
    pub fn widen_bfloat16(&mut self) {
        self.convert_to(ElementType::Float, |own| own == ElementType::BFloat16);
    }

    fn convert_to(&mut self, element: ElementType, is_converted: impl Fn(ElementType) -> bool) {
        for stream in self.streams.iter_mut().filter(|stream| is_converted(stream.element)) {
            (stream.element, stream.classes) = (element, None);
        }
    }

    /// Uses the numbers of the sequences, from 0, as keys.
    pub fn number_keys(&mut self) {
        self.has_keys = false;
    }

    /// Returns the next sequences; `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<&Batch>> {
        let Data { source, streams, selected, batch, has_keys, done, .. } = self;
        if self.is_over {
            return Ok(None);
        }
        batch.clear(streams.len());
        match source {
            DataSource::Reader(reader) => {
                let next = loop {
                    match reader.next()? {
                        Some(minibatch) if minibatch.is_empty() => {}
                        next => break next,
                    }
                };
                self.is_over = next.is_none();
                if let Some(minibatch) = next {
                    let count = minibatch.sequences();
                    let all: Vec<_> = minibatch.streams().collect();
                    let selected = selected.iter().enumerate();
                    for (column, (place, &number)) in batch.columns.iter_mut().zip(selected) {
                        let stream = &all[number];
                        with_element!(stream.info().element, T => match streams[place].element {
                            own if own == T::TYPE => append::<T, T>(column, stream, count),
                            ElementType::Double => append::<T, f64>(column, stream, count),
                            _ => append::<T, f32>(column, stream, count),
                        })?;
                    }
                    room::reserve(&mut batch.keys, count, room::CONVERSION)?;
                    batch.keys.extend((0..count).filter_map(|number| minibatch.key_text(number)));
                }
            }
            DataSource::Numpy(numpy) => {
                self.is_over = !numpy.read(BATCH_BYTES, MAX_SEQUENCES, selected, batch)?
            }
            DataSource::Batches(next, whole) => {
                whole.clear(whole.columns.len());
                self.is_over = !next(whole)?;
                for ((own, &number), stream) in batch.columns.iter_mut().zip(&*selected).zip(&*streams) {
                    let column = whole.columns.get(number).ok_or_else(|| {
                        Error::data(format!("There are no data for the stream '{}'.", stream.name))
                    })?;
                    column.check(whole.keys.len(), stream)?;
                    own.append(column)?;
                }
                room::reserve(&mut batch.keys, whole.keys.len(), room::CONVERSION)?;
                batch.keys.append(&mut whole.keys);
            }
        }
        if !*has_keys {
            (*done..).zip(&mut batch.keys).for_each(|(number, key)| *key = number.to_string());
        }
        *done += batch.keys.len() as u64;
        Ok(Some(&*batch).filter(|batch| !batch.keys.is_empty()))
    }
}

/// The error for an integer that a float type cannot represent.
fn inexact<T: Element, R: Element>(value: T, stream: &MinibatchStream<'_>) -> Error {
    let message = format!("The stream '{}' has the value {value:?}.", stream.name());
    let name = R::TYPE.name();
    let detail = format!("{name} cannot hold it exactly. Without a precision, values keep their types.");
    Error::data(message).with_detail(detail).in_stream(stream.name())
}

/// Appends the sequences of a minibatch, converting values from type `T` to type `R`.
fn append<T: Element, R: Element>(
    column: &mut Column,
    stream: &MinibatchStream<'_>,
    count: usize,
) -> Result<()> {
    let mut sequences = room::collect(stream.sequences(), room::CONVERSION)?;
    // Unstable, because it needs no memory; the numbers are unique.
    sequences.sort_unstable_by_key(|(number, _)| *number);
    let first = column.lengths.len();
    room::resize(&mut column.lengths, first + count, 0, room::CONVERSION)?;
    let (samples, size) =
        (sequences.iter().map(|(_, columns)| columns.len()).sum::<usize>(), stream.sample_size());
    match stream.info().storage {
        Storage::Dense => {
            let values = stream.dense::<T>()?;
            room::reserve(&mut column.values, samples * size * size_of::<R>(), room::CONVERSION)?;
            for (number, columns) in sequences {
                column.lengths[first + number] = columns.len() as u32;
                for at in columns {
                    let sample = &values[at * size..][..size];
                    if T::TYPE == R::TYPE {
                        column.values.extend_from_slice(bytemuck::cast_slice(sample));
                        continue;
                    }
                    for value in sample {
                        let converted = value.to::<R>().ok_or_else(|| inexact::<T, R>(*value, stream))?;
                        column.values.extend_from_slice(bytemuck::bytes_of(&converted));
                    }
                }
            }
        }
        Storage::SparseCsc => {
            let sparse = stream.sparse::<T>()?;
            // All values of the minibatch belong to these sequences.
            room::reserve(&mut column.counts, samples, room::CONVERSION)?;
            room::reserve(&mut column.values, size_of_val(sparse.values), room::CONVERSION)?;
            room::reserve(&mut column.indices, sparse.indices.len(), room::CONVERSION)?;
            for (number, columns) in sequences {
                column.lengths[first + number] = columns.len() as u32;
                for at in columns {
                    let range = sparse.offsets[at] as usize..sparse.offsets[at + 1] as usize;
                    column.counts.push(range.len() as u32);
                    column.values.extend_from_slice(bytemuck::cast_slice(&sparse.values[range.clone()]));
                    column.indices.extend_from_slice(&sparse.indices[range]);
                }
            }
        }
    }
    Ok(())
}
