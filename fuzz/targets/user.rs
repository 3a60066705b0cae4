//! Users' deserializers that deliver invalid data: wrong counts, shapes, strides, ranges, types, failures and panics.

use crate::case::Case;
use crate::common::reading::{check_errors, epoch, read_on};
use crate::common::rng::Rng;
use cntk_reader::config::{UserType, from_text_with};
use cntk_reader::deserialize::custom::{
    Array, Buffer, DenseArray, FetchedChunk, Keys, Registered, Sequences, SparseArray, StreamData, UserChunk,
    UserDeserializer, UserSequence,
};
use cntk_reader::reader::{Others, Reader};
use cntk_reader::stream::{ElementType, Storage, StreamInfo};
use cntk_reader::{Error, Result};
use std::panic::resume_unwind;
use std::sync::Arc;

/// A deserializer all of whose results are functions of its seed. One result in `honesty` is wrong on average.
struct Hostile {
    seed: u64,
    honesty: u64,
    streams: Vec<StreamInfo>,
    chunks: u32,
    /// Whether sequences are listed beforehand; otherwise loaded chunks list them.
    lists: bool,
    /// Whether sequences are fetched one by one; otherwise chunks are arrays.
    fetches: bool,
}

/// Unexpected values of sizes, counts, offsets and strides.
const ODD: [u64; 10] = [0, 1, 2, 3, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 62, i64::MIN as u64, u64::MAX];

impl Hostile {
    fn random(rng: &mut Rng) -> Hostile {
        let honesty = *rng.pick(&[5, 30, 200, u64::MAX]);
        let stream = |rng: &mut Rng, name: &str| {
            let name = if rng.bits().is_multiple_of(honesty) { "" } else { name };
            let mut stream = StreamInfo::dense(name, &[]);
            stream.storage = *rng.pick(&[Storage::Dense, Storage::SparseCsc]);
            stream.element = *rng.pick(&[ElementType::Float, ElementType::Float, ElementType::Double]);
            stream.shape = (0..rng.below(3)).map(|_| rng.range(1, 4) as usize).collect();
            stream.defines_mb_size = rng.once_in(3);
            stream
        };
        let mut streams = vec![stream(rng, "a")];
        if rng.once_in(2) {
            let name = if rng.bits().is_multiple_of(honesty) { "a" } else { "b" };
            streams.push(stream(rng, name));
        }
        if rng.bits().is_multiple_of(honesty) {
            // Small enough for memory, since truncated mode may deliver sparse data as dense.
            streams[0].shape.push(*rng.pick(&[0, 1 << 10, usize::MAX, 1 << 62]));
        }
        let chunks = if rng.bits().is_multiple_of(honesty) { 0 } else { rng.range(1, 4) as u32 };
        let (lists, fetches) = (rng.once_in(2), rng.once_in(3));
        Hostile { seed: rng.bits(), honesty, streams, chunks, lists, fetches }
    }

    /// The random numbers of one chunk, equal at each call.
    fn rng(&self, chunk: u32, what: u64) -> Rng {
        Rng::new(self.seed ^ (u64::from(chunk) << 8) ^ what)
    }

    fn is_wrong(&self, rng: &mut Rng) -> bool {
        rng.bits().is_multiple_of(self.honesty)
    }

    /// The lengths of a chunk's sequences.
    fn lengths(&self, chunk: u32) -> Vec<u32> {
        let rng = &mut self.rng(chunk, 1);
        let count = rng.range(1, 5);
        (0..count).map(|_| if rng.once_in(2) { 1 } else { rng.range(1, 4) as u32 }).collect()
    }

    /// A number, or now and then an odd one.
    fn size(&self, rng: &mut Rng, right: usize) -> usize {
        if self.is_wrong(rng) { *rng.pick(&ODD) as usize } else { right }
    }

    fn scalars(&self, rng: &mut Rng, element: ElementType, count: usize) -> Buffer {
        let count = if self.is_wrong(rng) { rng.below(count + 3) } else { count };
        let double = (element == ElementType::Double) != self.is_wrong(rng);
        if self.is_wrong(rng) {
            return vec![7i32; count].into();
        }
        let values = (0..count).map(|number| number as f64);
        if double {
            values.collect::<Vec<f64>>().into()
        } else {
            values.map(|value| value as f32).collect::<Vec<f32>>().into()
        }
    }

    fn array(&self, rng: &mut Rng, stream: &StreamInfo, samples: usize) -> Array {
        let is_dense = (stream.storage == Storage::Dense) != self.is_wrong(rng);
        let sample_size = stream.shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
        let sample_size = sample_size.unwrap_or(1).min(1 << 12);
        if !is_dense {
            return self.sparse(rng, stream, samples, sample_size);
        }
        let mut array = DenseArray::new(self.scalars(rng, stream.element, samples * sample_size));
        array.samples = if rng.once_in(4) { None } else { Some(self.size(rng, samples)) };
        array.offset = self.size(rng, 0);
        if rng.once_in(3) {
            let mut shape = stream.shape.clone();
            if self.is_wrong(rng) {
                shape.push(*rng.pick(&ODD) as usize);
            }
            array.shape = Some(shape);
        }
        if rng.once_in(3) {
            let mut stride = stream.element.size() as isize;
            let mut strides = Vec::new();
            for &dim in stream.shape.iter().chain(&[samples]) {
                strides.push(self.size(rng, stride as usize) as isize);
                stride = stride.wrapping_mul(dim as isize);
            }
            if self.is_wrong(rng) {
                strides.pop();
            }
            array.strides = Some(strides);
        }
        Array::Dense(array)
    }

    fn sparse(&self, rng: &mut Rng, stream: &StreamInfo, samples: usize, sample_size: usize) -> Array {
        let mut offsets = vec![0i64];
        for _ in 0..samples {
            offsets.push(offsets.last().unwrap_or(&0) + rng.range(0, 2) as i64);
        }
        let entries = offsets.last().map_or(0, |&last| last as usize);
        let mut indices: Vec<i64> = (0..entries).map(|_| rng.below(sample_size.max(1)) as i64).collect();
        let values = self.scalars(rng, stream.element, entries);
        for numbers in [&mut offsets, &mut indices] {
            if self.is_wrong(rng) && !numbers.is_empty() {
                let at = rng.below(numbers.len());
                numbers[at] = *rng.pick(&ODD) as i64;
            }
            if self.is_wrong(rng) {
                numbers.pop();
            }
        }
        let narrow = |numbers: Vec<i64>| -> Buffer {
            numbers.iter().map(|&number| number as i32).collect::<Vec<i32>>().into()
        };
        let mut buffer = |numbers: Vec<i64>| match rng.below(2) {
            0 => narrow(numbers),
            _ => numbers.into(),
        };
        let (offsets, indices) = (buffer(offsets), buffer(indices));
        Array::Sparse(SparseArray { values, indices, offsets })
    }

    fn stream_data(&self, rng: &mut Rng, stream: &StreamInfo, lengths: &[u32]) -> StreamData {
        let total = lengths.iter().sum::<u32>() as usize;
        let mut lengths = lengths.to_vec();
        if self.is_wrong(rng) {
            let at = rng.below(lengths.len());
            lengths[at] = *rng.pick(&ODD) as u32;
        }
        match rng.below(3) {
            0 if lengths.iter().all(|&length| length == 1) => {
                StreamData::Samples(self.array(rng, stream, total))
            }
            1 => StreamData::Arrays(
                lengths.iter().map(|&length| self.array(rng, stream, length.min(99) as usize)).collect(),
            ),
            _ => StreamData::Sequences(self.array(rng, stream, total), lengths),
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
        let rng = &mut self.rng(chunk, 2);
        if self.is_wrong(rng) {
            return Err(Error::data("the disk has melted").in_file("disk"));
        }
        if self.is_wrong(rng) {
            // Without the message that a panic prints.
            resume_unwind(Box::new("user code panics"));
        }
        let lengths = self.lengths(chunk);
        let mut streams: Vec<StreamData> =
            self.streams.iter().map(|stream| self.stream_data(rng, stream, &lengths)).collect();
        if self.is_wrong(rng) {
            streams.pop();
        }
        let keys = rng.once_in(2).then(|| (0..lengths.len() as u64).collect::<Vec<u64>>());
        let keys = keys.map(|mut keys| {
            keys.truncate(self.size(rng, keys.len()));
            keys
        });
        if self.fetches != self.is_wrong(rng) {
            let listed = (!self.lists).then(|| Sequences::of_lengths(self.lengths(chunk)));
            return Ok(UserChunk::fetched(HostileChunk {
                seed: rng.bits(),
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
        self.seed.is_multiple_of(2)
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        if !self.lists {
            return Ok(None);
        }
        let rng = &mut self.rng(chunk, 3);
        if self.is_wrong(rng) {
            return Err(Error::data("the list has melted").in_file("list"));
        }
        if self.is_wrong(rng) {
            // Without the message that a panic prints.
            resume_unwind(Box::new("user code panics"));
        }
        let mut lengths = self.lengths(chunk);
        let count = self.size(rng, lengths.len()).min(1 << 20) as u32;
        if self.is_wrong(rng) {
            let at = rng.below(lengths.len());
            lengths[at] = *rng.pick(&ODD) as u32;
        }
        let some: Vec<u64> = (0..u64::from(count)).map(|key| key * 3 + u64::from(chunk) * 1000).collect();
        let keys = match rng.below(4) {
            0 => Keys::Numbers(if self.is_wrong(rng) { vec![5; lengths.len()] } else { some }),
            1 => Keys::Texts(some.iter().map(|key| format!("{key}")).collect()),
            2 if self.is_wrong(rng) => Keys::Texts(some.iter().map(|key| format!("k\0{key}")).collect()),
            _ => Keys::Ordinal,
        };
        let all_one = lengths.iter().all(|&length| length == 1);
        let lengths = (!all_one || self.is_wrong(rng)).then_some(lengths);
        let sample_indices = self.is_wrong(rng).then(|| vec![0; count as usize / 2]);
        Ok((!self.is_wrong(rng)).then_some(Sequences { count, lengths, keys, sample_indices }))
    }
}

/// A chunk whose sequences are fetched one by one. One result in `honesty` is wrong on average.
struct HostileChunk {
    seed: u64,
    honesty: u64,
    streams: Vec<StreamInfo>,
    listed: Option<Sequences>,
    lengths: Vec<u32>,
}

impl HostileChunk {
    fn fill(&self, rng: &mut Rng, number: usize, samples: usize, sequence: &mut UserSequence) -> Result<()> {
        let info = &self.streams[number];
        let size = info.shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
        let size = size.unwrap_or(1).min(1 << 12);
        let is_wrong = |rng: &mut Rng| rng.bits().is_multiple_of(self.honesty);
        let samples = if is_wrong(rng) { rng.below(samples + 3) } else { samples };
        let is_double = (info.element == ElementType::Double) != is_wrong(rng);
        let is_dense = (info.storage == Storage::Dense) != is_wrong(rng);
        let number = if is_wrong(rng) { rng.below(4) } else { number };
        if is_dense {
            let count = samples * size + usize::from(is_wrong(rng));
            return match is_double {
                true => sequence.dense(number).map(|list| list.resize(count, 0.5f64)),
                false => sequence.dense(number).map(|list| list.resize(count, 0.5f32)),
            };
        }
        for _ in 0..samples {
            let count = rng.below(3);
            let mut indices: Vec<i32> = (0..count).map(|_| rng.below(size.max(1)) as i32).collect();
            if is_wrong(rng) {
                indices.push(*rng.pick(&ODD) as i32);
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
        let rng = &mut Rng::new(self.seed ^ u64::from(index));
        if rng.bits().is_multiple_of(self.honesty) {
            // Without the message that a panic prints.
            resume_unwind(Box::new("user code panics"));
        }
        let samples = self.lengths.get(index as usize).map_or(1, |&length| length as usize);
        for number in 0..self.streams.len() {
            self.fill(rng, number, samples, sequence)?;
        }
        if rng.bits().is_multiple_of(self.honesty) {
            sequence.set_invalid();
        }
        Ok(())
    }

    fn sequences(&self) -> Result<Option<Sequences>> {
        Ok(self.listed.clone())
    }
}

pub fn run(case: &mut Case<'_>) {
    let hostile = Arc::new(Hostile::random(&mut case.rng));
    let rng = &mut case.rng;
    let text = format!(
        "traceLevel = 0\nrandomize = {}\n{}{}",
        rng.once_in(2),
        rng.pick(&["", "", "frameMode = true\n", "truncated = true ; truncationLength = 2\n"]),
        rng.pick(&["", "randomizationWindow = 2\n", "localTimeline = false\n", "maxErrors = 3\n"]),
    );
    let minibatch = rng.range(2, 12);
    case.write("config.cntk", text.as_bytes());
    let registered = match Registered::new("Hostile", hostile) {
        Ok(registered) => registered,
        Err(error) => return check_errors(&[error], &text),
    };
    let composable = registered.is_composable();
    let options =
        from_text_with(&text, &[UserType { name: "Hostile", composable }]).expect("a configuration");
    let mut reader =
        match Reader::open_with(&options, &Others { registered: &[registered], ..Others::default() }) {
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
