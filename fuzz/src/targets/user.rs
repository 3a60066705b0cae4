//! User deserializers that return invalid data: wrong counts, shapes, strides, ranges, types,
//! failures and panics.

use crate::choices::Choices;
use crate::common::reading::{check_errors, epoch, read_on};
use cntk_reader::language::{UserType, from_text_with};
use cntk_reader::{Error, Result};
use cntk_reader_core::format::user::{
    Array, Buffer, DenseArray, FetchedChunk, Keys, Registered, Sequences, SparseArray, StreamData, UserChunk,
    UserDeserializer, UserSequence,
};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_engine::reader::{Extensions, Reader};
use std::panic::resume_unwind;
use std::sync::Arc;

/// A deserializer whose results are chosen by the input. On average one result in `honesty` is
/// wrong.
struct Hostile {
    input: Arc<[u8]>,
    honesty: u8,
    streams: Vec<StreamInfo>,
    chunks: u32,
    /// Whether sequences are listed in advance; otherwise loaded chunks list them.
    lists: bool,
    /// Whether sequences are fetched one by one; otherwise chunks are arrays.
    fetches: bool,
}

/// Unexpected values of sizes, counts, offsets and strides.
const ODD: [u64; 10] = [0, 1, 2, 3, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 62, i64::MIN as u64, u64::MAX];

impl Hostile {
    fn chosen(choices: &mut Choices<'_>, input: &[u8]) -> Hostile {
        let honesty = *choices.pick(&[255, 200, 30, 5]);
        let stream = |choices: &mut Choices<'_>, name: &str| {
            let name = if choices.once_in(honesty) { "" } else { name };
            let mut stream = StreamInfo::dense(name, &[]);
            stream.storage = *choices.pick(&[Storage::Dense, Storage::SparseCsc]);
            stream.element = *choices.pick(&[ElementType::Float, ElementType::Float, ElementType::Double]);
            stream.shape = (0..choices.below(3)).map(|_| choices.range(1, 4) as usize).collect();
            stream.defines_mb_size = choices.once_in(3);
            stream
        };
        let mut streams = vec![stream(choices, "a")];
        if choices.once_in(2) {
            let name = if choices.once_in(honesty) { "a" } else { "b" };
            streams.push(stream(choices, name));
        }
        if choices.once_in(honesty) {
            // Small enough for memory, because truncated mode may deliver sparse data as dense.
            streams[0].shape.push(*choices.pick(&[0, 1 << 10, usize::MAX, 1 << 62]));
        }
        let chunks = if choices.once_in(honesty) { 0 } else { choices.range(1, 4) as u32 };
        let (lists, fetches) = (choices.once_in(2), choices.once_in(3));
        Hostile { input: input.into(), honesty, streams, chunks, lists, fetches }
    }

    /// The choices for one chunk, the same at each call.
    fn choices(&self, chunk: u32, what: usize) -> Choices<'_> {
        Choices::from_place(&self.input, chunk as usize * 4 + what)
    }

    fn is_wrong(&self, choices: &mut Choices<'_>) -> bool {
        choices.once_in(self.honesty)
    }

    /// Returns the lengths of a chunk's sequences.
    fn lengths(&self, chunk: u32) -> Vec<u32> {
        let choices = &mut self.choices(chunk, 1);
        let count = choices.range(1, 5);
        (0..count).map(|_| if choices.once_in(2) { 1 } else { choices.range(1, 4) as u32 }).collect()
    }

    /// Returns `right`, or sometimes an odd number.
    fn size(&self, choices: &mut Choices<'_>, right: usize) -> usize {
        if self.is_wrong(choices) { *choices.pick(&ODD) as usize } else { right }
    }

    fn scalars(&self, choices: &mut Choices<'_>, element: ElementType, count: usize) -> Buffer {
        let count = if self.is_wrong(choices) { choices.below(count + 3) } else { count };
        let double = (element == ElementType::Double) != self.is_wrong(choices);
        if self.is_wrong(choices) {
            return vec![7i32; count].into();
        }
        let values = (0..count).map(|number| number as f64);
        if double {
            values.collect::<Vec<f64>>().into()
        } else {
            values.map(|value| value as f32).collect::<Vec<f32>>().into()
        }
    }

    fn array(&self, choices: &mut Choices<'_>, stream: &StreamInfo, samples: usize) -> Array {
        let is_dense = (stream.storage == Storage::Dense) != self.is_wrong(choices);
        let sample_size = stream.shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
        let sample_size = sample_size.unwrap_or(1).min(1 << 12);
        if !is_dense {
            return self.sparse(choices, stream, samples, sample_size);
        }
        let mut array = DenseArray::new(self.scalars(choices, stream.element, samples * sample_size));
        array.samples = if choices.once_in(4) { None } else { Some(self.size(choices, samples)) };
        array.offset = self.size(choices, 0);
        if choices.once_in(3) {
            let mut shape = stream.shape.clone();
            if self.is_wrong(choices) {
                shape.push(*choices.pick(&ODD) as usize);
            }
            array.shape = Some(shape);
        }
        if choices.once_in(3) {
            let mut stride = stream.element.size() as isize;
            let mut strides = Vec::new();
            for &dim in stream.shape.iter().chain(&[samples]) {
                strides.push(self.size(choices, stride as usize) as isize);
                stride = stride.wrapping_mul(dim as isize);
            }
            if self.is_wrong(choices) {
                strides.pop();
            }
            array.strides = Some(strides);
        }
        Array::Dense(array)
    }

    fn sparse(
        &self,
        choices: &mut Choices<'_>,
        stream: &StreamInfo,
        samples: usize,
        sample_size: usize,
    ) -> Array {
        let mut offsets = vec![0i64];
        for _ in 0..samples {
            offsets.push(offsets.last().unwrap_or(&0) + choices.range(0, 2) as i64);
        }
        let entries = offsets.last().map_or(0, |&last| last as usize);
        let mut indices: Vec<i64> = (0..entries).map(|_| choices.below(sample_size.max(1)) as i64).collect();
        let values = self.scalars(choices, stream.element, entries);
        for numbers in [&mut offsets, &mut indices] {
            if self.is_wrong(choices) && !numbers.is_empty() {
                let at = choices.below(numbers.len());
                numbers[at] = *choices.pick(&ODD) as i64;
            }
            if self.is_wrong(choices) {
                numbers.pop();
            }
        }
        let narrow = |numbers: Vec<i64>| -> Buffer {
            numbers.iter().map(|&number| number as i32).collect::<Vec<i32>>().into()
        };
        let mut buffer = |numbers: Vec<i64>| match choices.below(2) {
            0 => narrow(numbers),
            _ => numbers.into(),
        };
        let (offsets, indices) = (buffer(offsets), buffer(indices));
        Array::Sparse(SparseArray { values, indices, offsets })
    }

    fn stream_data(&self, choices: &mut Choices<'_>, stream: &StreamInfo, lengths: &[u32]) -> StreamData {
        let total = lengths.iter().sum::<u32>() as usize;
        let mut lengths = lengths.to_vec();
        if self.is_wrong(choices) {
            let at = choices.below(lengths.len());
            lengths[at] = *choices.pick(&ODD) as u32;
        }
        match choices.below(3) {
            0 if lengths.iter().all(|&length| length == 1) => {
                StreamData::Samples(self.array(choices, stream, total))
            }
            1 => StreamData::Arrays(
                lengths.iter().map(|&length| self.array(choices, stream, length.min(99) as usize)).collect(),
            ),
            _ => StreamData::Sequences(self.array(choices, stream, total), lengths),
        }
    }
}

impl UserDeserializer for Hostile {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        self.chunks
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        let choices = &mut self.choices(chunk, 2);
        if self.is_wrong(choices) {
            return Err(Error::data("the disk has melted").in_file("disk"));
        }
        if self.is_wrong(choices) {
            // Panics without printing a message.
            resume_unwind(Box::new("user code panics"));
        }
        let lengths = self.lengths(chunk);
        let mut streams: Vec<StreamData> =
            self.streams.iter().map(|stream| self.stream_data(choices, stream, &lengths)).collect();
        if self.is_wrong(choices) {
            streams.pop();
        }
        let keys = choices.once_in(2).then(|| (0..lengths.len() as u64).collect::<Vec<u64>>());
        let keys = keys.map(|mut keys| {
            keys.truncate(self.size(choices, keys.len()));
            keys
        });
        if self.fetches != self.is_wrong(choices) {
            let listed = (!self.lists).then(|| Sequences::of_lengths(self.lengths(chunk)));
            return Ok(UserChunk::fetched(HostileChunk {
                input: Arc::clone(&self.input),
                chunk,
                honesty: self.honesty,
                streams: self.streams.clone(),
                listed,
                lengths: self.lengths(chunk),
            }));
        }
        Ok(UserChunk::arrays_with_keys(streams, keys.map_or(Keys::Ordinal, Keys::Numbers)))
    }

    fn fetches_sequences(&self) -> bool {
        self.fetches
    }

    fn loads_in_parallel(&self) -> bool {
        self.input.len().is_multiple_of(2)
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        if !self.lists {
            return Ok(None);
        }
        let choices = &mut self.choices(chunk, 3);
        if self.is_wrong(choices) {
            return Err(Error::data("the list has melted").in_file("list"));
        }
        if self.is_wrong(choices) {
            // Panics without printing a message.
            resume_unwind(Box::new("user code panics"));
        }
        let mut lengths = self.lengths(chunk);
        let count = self.size(choices, lengths.len()).min(1 << 20) as u32;
        if self.is_wrong(choices) {
            let at = choices.below(lengths.len());
            lengths[at] = *choices.pick(&ODD) as u32;
        }
        let some: Vec<u64> = (0..u64::from(count)).map(|key| key * 3 + u64::from(chunk) * 1000).collect();
        let keys = match choices.below(4) {
            0 => Keys::Numbers(if self.is_wrong(choices) { vec![5; lengths.len()] } else { some }),
            1 => Keys::Texts(some.iter().map(|key| format!("{key}")).collect()),
            2 if self.is_wrong(choices) => Keys::Texts(some.iter().map(|key| format!("k\0{key}")).collect()),
            _ => Keys::Ordinal,
        };
        let all_one = lengths.iter().all(|&length| length == 1);
        let lengths = (!all_one || self.is_wrong(choices)).then_some(lengths);
        let sample_indices = self.is_wrong(choices).then(|| vec![0; count as usize / 2]);
        Ok((!self.is_wrong(choices)).then_some(Sequences { count, lengths, keys, sample_indices }))
    }
}

/// A chunk whose sequences are fetched one by one. On average one result in `honesty` is wrong.
struct HostileChunk {
    input: Arc<[u8]>,
    chunk: u32,
    honesty: u8,
    streams: Vec<StreamInfo>,
    listed: Option<Sequences>,
    lengths: Vec<u32>,
}

impl HostileChunk {
    fn fill(
        &self,
        choices: &mut Choices<'_>,
        number: usize,
        samples: usize,
        sequence: &mut UserSequence,
    ) -> Result<()> {
        let info = &self.streams[number];
        let size = info.shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
        let size = size.unwrap_or(1).min(1 << 12);
        let is_wrong = |choices: &mut Choices<'_>| choices.once_in(self.honesty);
        let samples = if is_wrong(choices) { choices.below(samples + 3) } else { samples };
        let is_double = (info.element == ElementType::Double) != is_wrong(choices);
        let is_dense = (info.storage == Storage::Dense) != is_wrong(choices);
        let number = if is_wrong(choices) { choices.below(4) } else { number };
        if is_dense {
            let count = samples * size + usize::from(is_wrong(choices));
            return match is_double {
                true => sequence.dense(number).map(|list| list.resize(count, 0.5f64)),
                false => sequence.dense(number).map(|list| list.resize(count, 0.5f32)),
            };
        }
        for _ in 0..samples {
            let count = choices.below(3);
            let mut indices: Vec<i32> = (0..count).map(|_| choices.below(size.max(1)) as i32).collect();
            if is_wrong(choices) {
                indices.push(*choices.pick(&ODD) as i32);
            }
            match is_double {
                true => sequence.push_sparse(number, &vec![0.5f64; count], &indices)?,
                false => sequence.push_sparse(number, &vec![0.5f32; count], &indices)?,
            }
        }
        Ok(())
    }
}

impl FetchedChunk for HostileChunk {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        let choices = &mut Choices::from_place(&self.input, (self.chunk * 8 + index) as usize + 64);
        if choices.once_in(self.honesty) {
            // Panics without printing a message.
            resume_unwind(Box::new("user code panics"));
        }
        let samples = self.lengths.get(index as usize).map_or(1, |&length| length as usize);
        for number in 0..self.streams.len() {
            self.fill(choices, number, samples, sequence)?;
        }
        if choices.once_in(self.honesty) {
            sequence.set_invalid();
        }
        Ok(())
    }

    fn sequences(&self) -> Result<Option<Sequences>> {
        Ok(self.listed.clone())
    }
}

/// The input: choices of the deserializer and how it is read, and then the deserializer's choices.
pub fn run(input: &[u8]) {
    let (head, content) = input.split_at(32.min(input.len()));
    let mut choices = Choices::new(head);
    let hostile = Arc::new(Hostile::chosen(&mut choices, content));
    let text = format!(
        "traceLevel = 0\nrandomize = {}\n{}{}",
        choices.once_in(2),
        choices.pick(&["", "", "frameMode = true\n", "truncated = true ; truncationLength = 2\n"]),
        choices.pick(&["", "randomizationWindow = 2\n", "localTimeline = false\n", "maxErrors = 3\n"]),
    );
    let minibatch = choices.range(2, 12);
    let registered = match Registered::new("Hostile", hostile) {
        Ok(registered) => registered,
        Err(error) => return check_errors(&[error], &text),
    };
    let composable = registered.is_composable();
    let options =
        from_text_with(&text, &[UserType { name: "Hostile", composable }]).expect("a configuration");
    let mut reader =
        match Reader::open_with(&options, &Extensions { registered: &[registered], ..Extensions::default() })
        {
            Ok(reader) => reader,
            Err(error) => return check_errors(&[error], &text),
        };
    match reader.start_epoch(&epoch(1, 0, minibatch)) {
        Ok(()) => {
            let errors: Vec<_> = read_on(&mut reader).into_iter().filter_map(Result::err).collect();
            check_errors(&errors, &text);
        }
        Err(error) => check_errors(&[error], &text),
    }
}
