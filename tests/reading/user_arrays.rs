//! Arrays of users' deserializers: the constructors of their data, the stream that defines the
//! minibatch size, and the memory of loaded chunks.

use cntk_reader::user::{Sequences, StreamData, UserChunk, UserDeserializer};
use cntk_reader::{Epoch, Minibatch, Reader, ReaderOptions, Result, StreamInfo};

/// Two chunks of two sequences each. Number `n` has `n + 1` samples in the streams `frames` and
/// `words`, and one sample in `class` and `topics`.
struct Utterances {
    streams: Vec<StreamInfo>,
    is_listed: bool,
}

impl Utterances {
    fn new() -> Utterances {
        let streams = vec![
            StreamInfo::dense("frames", &[2]),
            StreamInfo::dense("class", &[1]),
            StreamInfo::sparse("words", &[50]),
            StreamInfo::sparse("topics", &[9]),
        ];
        Utterances { streams, is_listed: true }
    }
}

/// Samples of `number` in `frames`: the number and the step.
fn frames(number: u32) -> Vec<f32> {
    (0..=number).flat_map(|step| [number as f32, step as f32]).collect()
}

/// Indices of each sample of `number` in `words`: none in the first one, two in each other.
fn words(number: u32) -> Vec<Vec<i32>> {
    (0..=number as i32).map(|step| if step == 0 { vec![] } else { vec![40 + step, step] }).collect()
}

/// Indices of `number` in `topics`.
fn topics(number: u32) -> Vec<i32> {
    (0..number as i32).rev().collect()
}

/// Values, indices and offsets of samples; the value at an index is a tenth of it.
fn csr(samples: &[Vec<i32>]) -> (Vec<f32>, Vec<i32>, Vec<i32>) {
    let ends = samples.iter().scan(0, |end, sample| {
        *end += sample.len() as i32;
        Some(*end)
    });
    let indices = samples.concat();
    let values = indices.iter().map(|&index| index as f32 / 10.0).collect();
    (values, indices, [0].into_iter().chain(ends).collect())
}

impl UserDeserializer for Utterances {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        2
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        let is_one = self.streams[1].defines_mb_size;
        let lengths = [2 * chunk, 2 * chunk + 1].map(|number| if is_one { 1 } else { number + 1 });
        Ok(self.is_listed.then(|| Sequences::of_lengths(lengths.to_vec())))
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        let numbers = [2 * chunk, 2 * chunk + 1];
        let lengths = || numbers.map(|number| number + 1).to_vec();
        let (values, indices, offsets) = csr(&numbers.map(words).concat());
        let words = StreamData::sparse_sequences(values, indices, offsets, lengths());
        let (values, indices, offsets) = csr(&numbers.map(topics));
        let topics = StreamData::sparse(values, indices, offsets);
        Ok(UserChunk::arrays(vec![
            StreamData::dense_sequences(numbers.map(frames).concat(), lengths()),
            StreamData::dense(numbers.map(|number| 10.0 * number as f32).to_vec()),
            words,
            topics,
        ]))
    }
}

fn open(utterances: Utterances) -> Reader {
    let options = ReaderOptions::new().randomize(false).trace_level(0);
    Reader::builder().options(options).deserializer("utterances", utterances).open().expect("a reader")
}

fn read(reader: &mut Reader, size: u64) -> Vec<Minibatch> {
    let minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(size)).expect("an epoch");
    minibatches.map(|minibatch| minibatch.expect("a minibatch")).collect()
}

/// Checks the data of sequence `sequence` of a minibatch, which is utterance `number`.
fn check(minibatch: &Minibatch, sequence: usize, number: u32) {
    let columns_of = |name| {
        let stream = minibatch.stream(name).expect("a stream");
        let mut sequences = stream.sequences();
        sequences.find(|(own, _)| *own == sequence).expect("the sequence").1.collect::<Vec<usize>>()
    };
    for (name, size, expected) in [("frames", 2, frames(number)), ("class", 1, vec![10.0 * number as f32])] {
        let values = minibatch.stream(name).and_then(|stream| stream.dense::<f32>()).expect("values");
        let samples = columns_of(name).into_iter().map(|column| &values[column * size..][..size]);
        assert_eq!(samples.collect::<Vec<_>>().concat(), expected, "{name} of {number}");
    }
    for (name, expected) in [("words", words(number)), ("topics", vec![topics(number)])] {
        let sparse = minibatch.stream(name).and_then(|stream| stream.sparse::<f32>()).expect("columns");
        let columns = columns_of(name);
        assert_eq!(columns.len(), expected.len(), "{name} of {number}");
        for (column, expected) in columns.into_iter().zip(expected) {
            let (indices, values) = sparse.column(column).expect("a column");
            assert_eq!(indices, expected, "{name} of {number}");
            assert!(values.iter().zip(indices).all(|(&value, &index)| value == index as f32 / 10.0));
        }
    }
}

#[test]
fn dense_and_sparse_data_are_delivered() {
    for is_listed in [true, false] {
        let mut reader = open(Utterances { is_listed, ..Utterances::new() });
        let minibatches = read(&mut reader, 100);
        assert_eq!(minibatches.iter().map(Minibatch::sequences).sum::<usize>(), 4);
        let mut number = 0;
        for minibatch in &minibatches {
            for sequence in 0..minibatch.sequences() {
                check(minibatch, sequence, number);
                number += 1;
            }
        }
    }
}

#[test]
fn one_stream_defines_the_minibatch_size() {
    let sequences = |utterances| -> Vec<usize> {
        read(&mut open(utterances), 3).iter().map(Minibatch::sequences).collect()
    };
    // The longest stream has 1, 2, 3 and 4 samples.
    assert_eq!(sequences(Utterances::new()), [2, 1, 1]);
    let mut utterances = Utterances::new();
    utterances.streams[1] = StreamInfo::dense("class", &[1]).defining_minibatch_size();
    assert_eq!(sequences(utterances), [3, 1]);
}

#[test]
fn loaded_chunks_are_counted_as_memory() {
    for is_listed in [true, false] {
        let mut reader = open(Utterances { is_listed, ..Utterances::new() });
        let before = reader.memory();
        assert_eq!((before.window, before.buffers), (0, 0));
        let minibatches = read(&mut reader, 100);
        let after = reader.memory();
        // At least the 6 floats of frames and 2 of classes of the smaller chunk.
        assert!(after.window >= 4 * (6 + 2), "{after:?}");
        assert!(after.buffers > 0);
        assert_eq!(after.total(), after.window + after.buffers + after.index);
        drop((minibatches, reader));
    }
}
