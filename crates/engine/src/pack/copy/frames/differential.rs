//! Packs random frames, labels and binary data with all packers, and compares each column with its
//! definition.

use crate::pack::test_feed::{Data, TestFeed, info};
use crate::pack::{Minibatch, PackConfig, Packer, SequencePacker, StreamMinibatch, TruncatedPacker};
use cntk_reader_core::format::{Chunk, LeafChunk, Loaded};
use cntk_reader_core::sequence::{
    FrameEncoding, FrameSpec, FrameView, SequenceView, SparseView, ValueForm, ViewKind,
};
use cntk_reader_core::stream::{Element, ElementType, Storage, StreamInfo};
use proptest::prelude::*;
use std::sync::Arc;

/// A deterministic random number generator.
struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as usize % limit
    }
}

/// How the sequences of a stream are stored.
#[derive(Clone)]
enum Kind {
    /// Most sequences have this encoding, some have a different one, and some are dense.
    Frames(Arc<FrameSpec>),
    /// A dense sequence of values of full width.
    Plain,
    /// One class per sample, or two unless `single`; `form` is not decimal.
    Labels {
        form: ValueForm,
        narrow: bool,
        single: bool,
    },
    Binary,
}

/// One stream of one sequence, in storage format and as plain numbers for each sample.
#[derive(Clone)]
struct Stored {
    kind: Kind,
    samples: u32,
    first: u32,
    /// One byte off its alignment, like `indices`.
    values: Vec<u8>,
    indices: Vec<u8>,
    offsets: Vec<u32>,
    /// Dense: all values of each sample. Sparse: index and value alternately.
    expected: Vec<Vec<f64>>,
}

impl Stored {
    fn view(&self) -> SequenceView<'_> {
        let (form, kind) = match &self.kind {
            Kind::Frames(spec) => (ValueForm::Whole, ViewKind::Frames(FrameView { first: self.first, spec })),
            Kind::Binary | Kind::Plain => (ValueForm::Whole, ViewKind::Dense),
            &Kind::Labels { form, narrow, single } => {
                let (indices, offsets) = (&self.indices[1..], &self.offsets[..]);
                (form, ViewKind::Sparse(SparseView { indices, narrow, offsets, single }))
            }
        };
        SequenceView { samples: self.samples, values: &self.values[1..], form, kind }
    }
}

struct StoredChunk(Vec<Vec<Stored>>);

impl LeafChunk for StoredChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        Loaded::Data(self.0[index as usize][stream].view())
    }
}

fn random_encoding(random: &mut Random, dim: usize) -> FrameEncoding {
    let mut parameters = |limit| -> Box<[f32]> {
        (0..dim).map(|_| (random.below(limit) as f32 - 50.0) / 7.0 + 0.01).collect()
    };
    let (scale, offset) = (parameters(200), parameters(100));
    match random.below(5) {
        0 => FrameEncoding::Float,
        1 => FrameEncoding::SwappedFloat,
        2 => FrameEncoding::Double,
        swapped => FrameEncoding::Linear { swapped: swapped == 3, scale, offset },
    }
}

fn random_spec(random: &mut Random) -> FrameSpec {
    let dim = [1, 2, 3, 8, 17][random.below(5)];
    let (left, right) = [(0, 0), (1, 1), (0, 2), (3, 0), (5, 5)][random.below(5)];
    FrameSpec { dim, encoding: random_encoding(random, dim), left, right }
}

/// Returns a random number in an encoding: its bytes, and its value in a stream of `f32` or `f64`.
fn random_number(random: &mut Random, encoding: &FrameEncoding, place: usize) -> (Vec<u8>, f64) {
    let number = (random.below(20_000) as f64 - 10_000.0) / 3.0;
    match encoding {
        FrameEncoding::Float => ((number as f32).to_ne_bytes().to_vec(), f64::from(number as f32)),
        FrameEncoding::SwappedFloat => {
            let mut bytes = (number as f32).to_ne_bytes();
            bytes.reverse();
            (bytes.to_vec(), f64::from(number as f32))
        }
        FrameEncoding::Double => (number.to_ne_bytes().to_vec(), number),
        FrameEncoding::Linear { swapped, scale, offset } => {
            let stored = random.below(65536) as u16 as i16;
            let mut bytes = stored.to_ne_bytes();
            if *swapped {
                bytes.reverse();
            }
            let value = (f32::from(stored) + offset[place]) / scale[place];
            (bytes.to_vec(), f64::from(value))
        }
    }
}

fn random_frames(random: &mut Random, spec: &Arc<FrameSpec>, samples: u32, size: usize) -> Stored {
    // Some sequences repeat a single frame, some begin in the middle of the stored frames.
    let frames = if random.below(3) == 0 { 1 } else { 1 + random.below(2 * samples as usize) };
    let first = random.below(frames + 1);
    let mut values = vec![0];
    let mut numbers = Vec::new();
    for _ in 0..frames {
        let mut frame = Vec::new();
        for place in 0..spec.dim {
            let (bytes, number) = random_number(random, &spec.encoding, place);
            values.extend(bytes);
            frame.push(number);
        }
        numbers.push(frame);
    }
    let sample = |sample: usize| -> Vec<f64> {
        let mut all = Vec::new();
        for place in 0..spec.left + 1 + spec.right {
            let number = (first + sample + place) as i64 - spec.left as i64;
            all.extend(&numbers[number.clamp(0, frames as i64 - 1) as usize]);
        }
        all.resize(size, 0.0);
        all
    };
    Stored {
        kind: Kind::Frames(Arc::clone(spec)),
        samples,
        first: first as u32,
        values,
        indices: vec![0],
        offsets: Vec::new(),
        expected: (0..samples as usize).map(sample).collect(),
    }
}

fn random_labels(
    random: &mut Random,
    kind: &Kind,
    element: ElementType,
    samples: u32,
    size: usize,
) -> Stored {
    let Kind::Labels { form, narrow, single } = *kind else { unreachable!("labels") };
    let (mut values, mut indices, mut offsets) = (vec![0], vec![0], vec![random.below(9) as u32]);
    let mut expected = Vec::new();
    for _ in 0..samples {
        let count = if single { 1 } else { random.below(3) };
        let mut sample = Vec::new();
        for _ in 0..count {
            let (index, value) = (random.below(size), random.below(256) as u8);
            match narrow {
                true => indices.extend((index as u16).to_ne_bytes()),
                false => indices.extend((index as i32).to_ne_bytes()),
            }
            match (form, element) {
                (ValueForm::Ones, _) => {}
                (ValueForm::Byte, _) => values.push(value),
                (_, ElementType::Float) => values.extend(f32::from(value).to_ne_bytes()),
                (_, _) => values.extend(f64::from(value).to_ne_bytes()),
            }
            sample.extend([index as f64, if form == ValueForm::Ones { 1.0 } else { value.into() }]);
        }
        offsets.push(offsets[offsets.len() - 1] + count as u32);
        expected.push(sample);
    }
    Stored { kind: kind.clone(), samples, first: 0, values, indices, offsets, expected }
}

fn random_plain(random: &mut Random, element: ElementType, samples: u32, size: usize) -> Stored {
    let sample: Vec<f64> = (0..size).map(|_| f64::from(random.below(1 << 20) as f32 / 3.0)).collect();
    let expected = vec![sample; samples as usize];
    let bytes = |&value: &f64| match element {
        ElementType::Float => (value as f32).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    };
    let values = [0].into_iter().chain(expected.iter().flatten().flat_map(bytes)).collect();
    Stored { kind: Kind::Plain, samples, first: 0, values, indices: vec![0], offsets: Vec::new(), expected }
}

fn random_bytes(random: &mut Random, samples: u32) -> Stored {
    let numbers: Vec<f32> = (0..samples).map(|_| random.below(1 << 20) as f32).collect();
    let values = [0].into_iter().chain(numbers.iter().flat_map(|number| number.to_ne_bytes())).collect();
    let expected = numbers.iter().map(|&number| vec![number.into()]).collect();
    Stored { kind: Kind::Binary, samples, first: 0, values, indices: vec![0], offsets: Vec::new(), expected }
}

/// Returns some streams, and the storage format of each.
fn random_streams(random: &mut Random, binary: bool) -> (Vec<StreamInfo>, Vec<Kind>) {
    let count = 1 + random.below(3);
    (0..count + usize::from(binary))
        .map(|i| {
            let name = format!("s{i}");
            let element = [ElementType::Float, ElementType::Double][random.below(2)];
            if i == count {
                let info = info(&name, Storage::Dense, ElementType::Float, 1);
                return (info.binary(), Kind::Binary);
            }
            if random.below(3) == 0 {
                let form = [ValueForm::Whole, ValueForm::Byte, ValueForm::Ones][random.below(3)];
                let (narrow, single) = (random.below(2) == 0, random.below(2) == 0);
                let size = 1 + random.below(9);
                let kind = Kind::Labels { form, narrow, single };
                return (info(&name, Storage::SparseCsc, element, size), kind);
            }
            let spec = random_spec(random);
            let size = spec.filled() + [0, 0, 4][random.below(3)];
            (info(&name, Storage::Dense, element, size), Kind::Frames(Arc::new(spec)))
        })
        .unzip()
}

/// Returns sequences of these lengths, by stream. With `equal`, all streams have the first one's
/// length.
fn random_sequences(
    random: &mut Random,
    streams: &[StreamInfo],
    kinds: &[Kind],
    lengths: &[u32],
    equal: bool,
) -> Vec<Vec<Stored>> {
    let mut sequence = |&length: &u32| {
        let mut stored = Vec::new();
        for (info, kind) in streams.iter().zip(kinds) {
            let other = 1 + random.below(9) as u32;
            let samples = if equal && !info.is_binary { length } else { other };
            stored.push(match kind {
                Kind::Frames(spec) => match random.below(4) {
                    0 => random_plain(random, info.element, samples, info.sample_size()),
                    1 => {
                        let encoding = random_encoding(random, spec.dim);
                        let spec = Arc::new(FrameSpec { encoding, ..FrameSpec::clone(spec) });
                        random_frames(random, &spec, samples, info.sample_size())
                    }
                    _ => random_frames(random, spec, samples, info.sample_size()),
                },
                Kind::Labels { .. } => random_labels(random, kind, info.element, samples, info.sample_size()),
                Kind::Binary | Kind::Plain => random_bytes(random, samples),
            });
        }
        stored
    };
    lengths.iter().map(&mut sequence).collect()
}

fn feed(streams: &[StreamInfo], sequences: &[Vec<Stored>], per_chunk: usize) -> TestFeed {
    let lengths = |sequence: &Vec<Stored>| {
        sequence.iter().map(|stored| Data { samples: stored.samples, ..Data::default() }).collect()
    };
    let mut feed = TestFeed::new(streams, sequences.iter().map(lengths).collect(), per_chunk, 1);
    feed.chunks = sequences
        .chunks(per_chunk)
        .map(|chunk| Some(Arc::new(StoredChunk(chunk.to_vec())) as Arc<dyn Chunk>))
        .collect();
    feed
}

/// Returns the numbers of a column in the format of [`Stored::expected`].
fn column(stream: &StreamMinibatch, column: usize) -> Vec<f64> {
    fn of<T: Element + Into<f64>>(stream: &StreamMinibatch, column: usize) -> Vec<f64> {
        let size = stream.sample_size();
        if let Some(values) = stream.dense::<T>() {
            return values[column * size..][..size].iter().map(|&value| value.into()).collect();
        }
        let columns = stream.sparse::<T>().expect("sparse columns");
        let (indices, values) = columns.column(column).expect("a column");
        let entry = |(&index, &value): (&i32, &T)| [f64::from(index), value.into()];
        indices.iter().zip(values).flat_map(entry).collect()
    }
    match stream.element() {
        ElementType::Float => of::<f32>(stream, column),
        _ => of::<f64>(stream, column),
    }
}

/// Compares all columns of a minibatch with the sequences given by its keys.
fn compare(minibatch: &Minibatch, streams: &[StreamInfo], sequences: &[Vec<Stored>]) {
    for (number, (info, stream)) in streams.iter().zip(&minibatch.streams).enumerate() {
        let (steps, lanes) = (stream.layout.steps, stream.layout.lanes);
        if info.is_binary {
            assert_eq!((lanes, stream.layout.records.len()), (minibatch.keys.len(), minibatch.keys.len()));
        }
        let mut seen = 0;
        for (t, s) in (0..steps).flat_map(|t| (0..lanes).map(move |s| (t, s))) {
            let covers = |record: &&crate::pack::layout::Record| {
                record.lane == s as u64 && record.begin <= t as i64 && (t as u64) < record.end
            };
            let covering: Vec<_> = stream.layout.records.iter().filter(covers).collect();
            let (at, records) = if info.is_binary { (s * steps + t, 0) } else { (t * lanes + s, 1) };
            assert!(covering.len() == 1 || covering.len() == records, "each column has one record");
            let found = column(stream, at);
            let Some(record) = covering.first().filter(|record| !record.is_gap()) else {
                assert!(found.iter().all(|&value| value == 0.0), "a gap of {}", info.name);
                continue;
            };
            seen += 1;
            let stored = &sequences[minibatch.keys[record.id as usize] as usize][number];
            let mut expected = stored.expected[(t as i64 - record.begin) as usize].clone();
            if matches!(stored.kind, Kind::Labels { .. }) && stream.storage() == Storage::Dense {
                let entries = std::mem::take(&mut expected);
                expected.resize(info.sample_size(), 0.0);
                for entry in entries.chunks(2) {
                    let place = &mut expected[entry[0] as usize];
                    *place = match info.element {
                        ElementType::Float => f64::from(*place as f32 + entry[1] as f32),
                        _ => *place + entry[1],
                    };
                }
            }
            if info.element == ElementType::Float {
                expected.iter_mut().for_each(|value| *value = f64::from(*value as f32));
            }
            assert_eq!(found, expected, "{} step {t} lane {s}", info.name);
        }
        assert!(seen > 0);
    }
}

/// Packs all sequences. Returns the number of sequences seen, counting each part in truncated
/// minibatches.
fn pack_all(packer: &mut dyn Packer, streams: &[StreamInfo], sequences: &[Vec<Stored>]) -> usize {
    let feed = &mut feed(streams, sequences, 3);
    let mut seen = 0;
    loop {
        let minibatch = packer.read(feed).expect("a minibatch");
        if minibatch.streams.is_empty() {
            return seen;
        }
        seen += minibatch.keys.len();
        compare(&minibatch, streams, sequences);
    }
}

fn config(minibatch: u64, truncation: u64) -> PackConfig {
    PackConfig { workers: 1, rank: 0, minibatch, truncation, right_splice: 0 }
}

proptest! {
    #[test]
    fn whole_sequences(
        seed in any::<u32>(),
        lengths in proptest::collection::vec(1..9u32, 1..30),
        minibatch in 1..60u64,
        (equal, binary) in any::<(bool, bool)>(),
    ) {
        let random = &mut Random(seed);
        let (streams, kinds) = random_streams(random, binary);
        let sequences = random_sequences(random, &streams, &kinds, &lengths, equal);
        let mut packer = SequencePacker::new(streams.clone(), false);
        packer.configure(&config(minibatch, 0)).expect("sizes");
        prop_assert_eq!(pack_all(&mut packer, &streams, &sequences), lengths.len());
    }

    #[test]
    fn frames(seed in any::<u32>(), count in 1..30usize, minibatch in 1..60u64, binary in any::<bool>()) {
        let random = &mut Random(seed);
        let (streams, kinds) = random_streams(random, binary);
        let sequences = random_sequences(random, &streams, &kinds, &vec![1; count], true);
        let mut packer = SequencePacker::of_frames(streams.clone(), false);
        packer.configure(&config(minibatch, 0)).expect("sizes");
        prop_assert_eq!(pack_all(&mut packer, &streams, &sequences), count);
    }

    #[test]
    fn truncated(
        seed in any::<u32>(),
        lengths in proptest::collection::vec(1..20u32, 1..20),
        truncation in 1..9u64,
        lanes in 1..5u64,
    ) {
        let random = &mut Random(seed);
        let (streams, kinds) = random_streams(random, false);
        let sequences = random_sequences(random, &streams, &kinds, &lengths, true);
        let mut packer = TruncatedPacker::new(streams.clone(), false);
        packer.configure(&config(lanes * truncation, truncation)).expect("sizes");
        prop_assert!(pack_all(&mut packer, &streams, &sequences) >= lengths.len());
    }

    /// Whole sequences and their individual samples must give the same columns.
    #[test]
    fn samples_are_parts_of_their_sequences(seed in any::<u32>(), length in 1..9u32) {
        let random = &mut Random(seed);
        let (streams, kinds) = random_streams(random, false);
        let whole = random_sequences(random, &streams, &kinds, &[length], true);
        struct Samples(Vec<Stored>, Vec<usize>);
        impl LeafChunk for Samples {
            fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
                let sample = self.0[stream].view().sample(index, self.1[stream]);
                sample.map_or(Loaded::Invalid, Loaded::Data)
            }
        }
        let sizes = streams.iter().map(|info| info.element.size()).collect();
        let one = |stored: &Stored, sample: usize| {
            Stored { samples: 1, expected: vec![stored.expected[sample].clone()], ..stored.clone() }
        };
        let expected: Vec<Vec<Stored>> =
            (0..length as usize).map(|t| whole[0].iter().map(|stored| one(stored, t)).collect()).collect();
        let mut feed = feed(&streams, &expected, length as usize);
        feed.chunks = vec![Some(Arc::new(Samples(whole[0].clone(), sizes)))];
        let mut packer = SequencePacker::of_frames(streams.clone(), false);
        packer.configure(&config(u64::from(length), 0)).expect("sizes");
        let minibatch = packer.read(&mut feed).expect("a minibatch");
        prop_assert_eq!(minibatch.keys.len(), length as usize);
        compare(&minibatch, &streams, &expected);
    }
}

#[test]
fn every_instruction_set_decodes_the_same() {
    use super::*;
    let mut random = Random(7);
    for encoding in 0..40 {
        let spec = random_spec(&mut Random(random.0 + encoding));
        let stored = random_frames(&mut random, &Arc::new(spec.clone()), 9, spec.filled() + 1);
        let column = 4 * (spec.filled() + 1);
        let run = Samples {
            stored: &stored.values[1..],
            spec: &spec,
            middle: stored.first as usize,
            count: 9,
            columns: Columns { first: 0, stride: column, column },
        };
        let expected: Vec<u8> =
            stored.expected.iter().flatten().flat_map(|&value| (value as f32).to_ne_bytes()).collect();
        for processor in Processor::all() {
            let mut out = vec![9; 9 * column];
            with_decoder!(&spec.encoding, 4, decoder => write(processor, &mut out, decoder, run));
            assert_eq!(out, expected, "{processor:?} {:?}", spec.encoding);
        }
    }
}

#[test]
fn decoders_are_for_one_encoding() {
    use super::*;
    let linear = |swapped| FrameEncoding::Linear { swapped, scale: Box::new([]), offset: Box::new([]) };
    let encodings = [
        FrameEncoding::Float,
        FrameEncoding::SwappedFloat,
        FrameEncoding::Double,
        linear(false),
        linear(true),
    ];
    for element in [4, 8] {
        for (encoding, other) in
            encodings.iter().flat_map(|one| encodings.iter().map(move |other| (one, other)))
        {
            let is_for = with_decoder!(encoding, element, decoder => decoder.is_for(other));
            assert_eq!(is_for, encoding == other, "{encoding:?} {other:?} {element}");
        }
    }
}
