//! Test helpers: chunks made from text, and a feed that walks them in order, like the unrandomized
//! timeline.

use super::{Feed, LoadedSelection, Minibatch};
use crate::testing::Recorder;
use cntk_reader_core::format::loading::load;
use cntk_reader_core::format::{Chunk, LeafChunk, Loaded};
use cntk_reader_core::sequence::{SequenceId, SequenceKey, SequenceView, SparseView, ValueForm, ViewKind};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

pub fn info(name: &str, storage: Storage, element: ElementType, size: usize) -> StreamInfo {
    StreamInfo::new(name, storage, element, vec![size])
}

/// The example of the packing tests: `x` dense of 2 values, `s` sparse of 4.
pub fn example_streams() -> Vec<StreamInfo> {
    vec![
        info("x", Storage::Dense, ElementType::Float, 2),
        info("s", Storage::SparseCsc, ElementType::Float, 4),
    ]
}

/// Sequence `k`, step `t` has `x = (10k+t, -(10k+t))`; lengths are 3, 1, 2, 2, 4, 1, 1.
pub const EXAMPLE: &str = "\
0 |x 0 0 |s 0:1
0 |x 1 -1 |s 1:2 0:3
0 |x 2 -2 |s
1 |x 10 -10 |s 1:11
2 |x 20 -20 |s 2:21
2 |x 21 -21 |s 3:22 2:23
3 |x 30 -30 |s 3:31
3 |x 31 -31 |s 0:32 3:33
4 |x 40 -40 |s 0:41
4 |x 41 -41 |s 1:42 0:43
4 |x 42 -42 |s
4 |x 43 -43 |s 3:7
5 |x 50 -50 |s 1:51
6 |x 60 -60 |s 2:61
";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceState {
    Data,
    Skipped,
    Invalid,
}

/// One stream of a sequence. All bytes are stored one byte off their alignment.
#[derive(Debug, Clone)]
pub struct Data {
    pub samples: u32,
    pub values: Vec<u8>,
    pub indices: Vec<u8>,
    pub offsets: Vec<u32>,
    pub state: SequenceState,
}

impl Default for Data {
    fn default() -> Data {
        // Offsets need not start at 0.
        Data { samples: 0, values: vec![0], indices: vec![0], offsets: vec![17], state: SequenceState::Data }
    }
}

impl Data {
    fn number(bytes: &mut Vec<u8>, element: ElementType, value: f64) {
        match element {
            ElementType::Float => bytes.extend((value as f32).to_ne_bytes()),
            _ => bytes.extend(value.to_ne_bytes()),
        }
    }

    pub fn dense_sample(&mut self, element: ElementType, values: &[f64]) {
        self.samples += 1;
        values.iter().for_each(|&value| Self::number(&mut self.values, element, value));
    }

    pub fn sparse_sample(&mut self, element: ElementType, entries: &[(i32, f64)]) {
        self.samples += 1;
        for &(index, value) in entries {
            self.indices.extend(index.to_ne_bytes());
            Self::number(&mut self.values, element, value);
        }
        self.offsets.push(self.offsets[self.offsets.len() - 1] + entries.len() as u32);
    }

    pub fn view(&self, storage: Storage) -> SequenceView<'_> {
        let sparse =
            SparseView { indices: &self.indices[1..], narrow: false, offsets: &self.offsets, single: false };
        SequenceView {
            samples: self.samples,
            values: &self.values[1..],
            form: ValueForm::Whole,
            kind: if storage == Storage::SparseCsc { ViewKind::Sparse(sparse) } else { ViewKind::Dense },
        }
    }
}

/// A chunk of sequences, each with its streams.
pub struct TestChunk {
    pub streams: Vec<StreamInfo>,
    pub sequences: Vec<Vec<Data>>,
}

impl LeafChunk for TestChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        let data = &self.sequences[index as usize][stream];
        match data.state {
            SequenceState::Data => Loaded::Data(data.view(self.streams[stream].storage)),
            SequenceState::Skipped => Loaded::Skipped,
            SequenceState::Invalid => Loaded::Invalid,
        }
    }
}

/// Walks chunks in order, for one of several workers.
pub struct TestFeed {
    pub chunks: Vec<Option<Arc<dyn Chunk>>>,
    /// All sequences, with their lengths on the timeline.
    pub timeline: Vec<(SequenceId, u64)>,
    pub position: u64,
    pub next: usize,
    pub counter: u64,
    pub end: u64,
    pub workers: u64,
    pub rank: u64,
    pub invalid: u64,
    pub max_errors: u64,
    selected: Vec<SequenceId>,
}

impl TestFeed {
    /// Creates a feed of sequences in chunks of `per_chunk`, for `sweeps` sweeps.
    pub fn new(streams: &[StreamInfo], sequences: Vec<Vec<Data>>, per_chunk: usize, sweeps: u64) -> TestFeed {
        let defining = streams.iter().position(|info| info.defines_mb_size);
        let mut timeline = Vec::new();
        for (i, sequence) in sequences.iter().enumerate() {
            let longest = sequence.iter().map(|data| data.samples).max().unwrap_or(0);
            let length = defining.map_or(longest, |stream| sequence[stream].samples);
            let id = SequenceId { chunk: (i / per_chunk) as u32, index: (i % per_chunk) as u32 };
            timeline.push((id, u64::from(length)));
        }
        let chunk = |sequences: &[Vec<Data>]| -> Option<Arc<dyn Chunk>> {
            Some(Arc::new(TestChunk { streams: streams.to_vec(), sequences: sequences.to_vec() }))
        };
        let mut feed = TestFeed {
            chunks: sequences.chunks(per_chunk).map(chunk).collect(),
            timeline,
            position: 0,
            next: 0,
            counter: 0,
            end: 0,
            workers: 1,
            rank: 0,
            invalid: 0,
            max_errors: 0,
            selected: Vec::new(),
        };
        feed.end = feed.sweep() * sweeps;
        feed
    }

    /// Creates a feed from lines `id |stream values`.
    pub fn parse(streams: &[StreamInfo], text: &str, sweeps: u64) -> TestFeed {
        Self::new(streams, parse(streams, text), 2, sweeps)
    }

    fn sweep(&self) -> u64 {
        self.timeline.iter().map(|(_, length)| length).sum()
    }

    /// Goes to the first sequence at or after a position.
    pub fn seek(&mut self, position: u64) {
        let (sweep, offset) = (self.sweep(), position % self.sweep());
        let mut reached = 0;
        self.next = 0;
        while reached < offset {
            reached += self.timeline[self.next].1;
            self.next += 1;
        }
        self.position = position / sweep * sweep + reached;
        self.counter = self.next as u64;
        self.next %= self.timeline.len();
    }
}

impl Feed for TestFeed {
    fn next(&mut self, global: u64, local: u64) -> Result<LoadedSelection<'_>> {
        self.selected.clear();
        let sweep = self.sweep();
        let (mut g, mut l, mut need) = (0, 0, true);
        let at_end = self.position >= self.end;
        let first_sweep = self.position / sweep;
        while !at_end && g < global && l < local {
            let (id, length) = self.timeline[self.next];
            let own = self.counter % self.workers == self.rank;
            if !need && (g + length > global || (own && l + length > local)) || self.position >= self.end {
                break;
            }
            if own {
                self.selected.push(id);
                l += length;
                need = false;
            }
            g += length;
            self.position += length;
            self.counter += 1;
            self.next = (self.next + 1) % self.timeline.len();
        }
        let end_of_sweep = if at_end {
            self.position >= sweep && self.position.is_multiple_of(sweep)
        } else {
            self.position / sweep != first_sweep
        };
        let end_of_epoch = self.position >= self.end;
        Ok(LoadedSelection {
            sequences: &self.selected,
            end_of_sweep,
            end_of_epoch,
            chunks: &self.chunks,
            fetched: None,
        })
    }

    fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>> {
        self.chunks.get(self.selected.get(position)?.chunk as usize)?.clone()
    }

    fn count_invalid(&mut self, sequences: u64, delivers: bool) -> Result<()> {
        self.invalid += sequences;
        if delivers && self.invalid > self.max_errors {
            return Err(Error::data(format!("{} invalid", self.invalid)));
        }
        Ok(())
    }

    /// Keys are running numbers.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let number = |id| self.timeline.iter().position(|(other, _)| *other == id);
        keys.extend(sequences.iter().filter_map(|&id| number(id)).map(|number| number as u64));
    }
}

pub fn parse(streams: &[StreamInfo], text: &str) -> Vec<Vec<Data>> {
    let mut sequences: Vec<Vec<Data>> = Vec::new();
    let mut last = "";
    for line in text.lines() {
        let (id, rest) = line.split_once('|').expect("an id and streams");
        if id != last || sequences.is_empty() {
            sequences.push(vec![Data::default(); streams.len()]);
            last = id;
        }
        let sequence = sequences.last_mut().expect("a sequence");
        for part in rest.split('|') {
            let (name, values) = part.split_once(' ').unwrap_or((part, ""));
            let stream = streams.iter().position(|info| info.name == name.trim()).expect("a stream's name");
            let (data, info) = (&mut sequence[stream], &streams[stream]);
            let number = |text: &str| text.parse::<f64>().expect("a number");
            match info.storage {
                Storage::Dense => {
                    let values: Vec<f64> = values.split_whitespace().map(number).collect();
                    data.dense_sample(info.element, &values);
                }
                Storage::SparseCsc => {
                    let entry = |text: &str| {
                        let (index, value) = text.split_once(':').expect("index:value");
                        (index.parse().expect("an index"), number(value))
                    };
                    let entries: Vec<(i32, f64)> = values.split_whitespace().map(entry).collect();
                    data.sparse_sample(info.element, &entries);
                }
            }
        }
    }
    sequences
}

/// Formats the records of a stream, such as `0:1[2,3)` and `gap:1[2,3)`.
pub fn records(minibatch: &Minibatch, stream: usize) -> String {
    let record = |record: &super::layout::Record| {
        let id = if record.is_gap() { "gap".to_owned() } else { record.id.to_string() };
        format!("{id}:{}[{},{})", record.lane, record.begin, record.end)
    };
    minibatch.streams[stream].layout.records.iter().map(record).collect::<Vec<_>>().join(" ")
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
}

/// Returns the first component of each column of a dense stream with `size` values per sample.
pub fn first_components(minibatch: &Minibatch, stream: usize, size: usize) -> Vec<f32> {
    floats(minibatch.streams[stream].block()).into_iter().step_by(size).collect()
}

/// Keys and samples of the sequences of the two chunks of [`recorded`].
pub const RECORDED: &[&[(u64, u32)]] = &[&[(5, 2), (6, 2)], &[(7, 2)]];

/// Returns a feed of the chunks `a0` and `a1` of a [`Recorder`] of [`RECORDED`].
pub fn recorded(recorder: &Arc<Recorder>) -> TestFeed {
    let lengths = [2, 2, 2].map(|samples| vec![Data { samples, ..Data::default() }]);
    let mut feed = TestFeed::new(&recorder.streams[..1], lengths.to_vec(), 2, 1);
    feed.chunks = [0, 1].map(|chunk| Some(load(recorder.clone(), chunk).expect("a chunk"))).to_vec();
    feed
}
