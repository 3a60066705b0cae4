//! A direct implementation of a reader's specification, without threads, caching of chunks or reuse
//! of memory: sequences of samples go into minibatches one value at a time. The engine is compared
//! with it.

pub mod case;
pub mod timeline;

use crate::common::seen::gaps;
use cntk_reader_engine::pack::{Minibatch, StreamMinibatch};
use cntk_reader_engine::reader::ReadConfig;
use std::collections::VecDeque;
use std::rc::Rc;
use timeline::{Order, Share, Span, Timeline};

/// One sample of one stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Sample {
    Dense(Vec<f32>),
    /// Indices and values, in the order of the file.
    Sparse(Vec<(i32, f32)>),
}

impl Sample {
    /// Returns the sample as a dense one of `size` values.
    fn dense(&self, size: usize) -> Sample {
        let Sample::Sparse(entries) = self else { return self.clone() };
        let mut values = vec![0.0; size];
        entries.iter().for_each(|&(index, value)| values[index as usize] = value);
        Sample::Dense(values)
    }
}

/// A sequence: its effective length, its bytes in the file, and its samples of each stream.
#[derive(Debug, Clone)]
pub struct Sequence {
    pub key: u64,
    pub length: u64,
    pub bytes: u64,
    pub streams: Vec<Vec<Sample>>,
}

/// Splits sequences into chunks by CNTK's rule: a chunk is closed when the next sequence would make
/// it larger than the limit.
pub fn cut(sequences: Vec<Sequence>, limit: u64) -> Vec<Vec<Sequence>> {
    let (mut chunks, mut size) = (Vec::<Vec<Sequence>>::new(), 0);
    for sequence in sequences {
        if size == 0 || size + sequence.bytes > limit {
            chunks.push(Vec::new());
            size = 0;
        }
        size += sequence.bytes;
        chunks.last_mut().expect("a chunk").push(sequence);
    }
    chunks
}

/// Joins the sequences of several deserializers by key: the first one determines the order and the
/// chunks, and sequences that a later one lacks are dropped. `defining` is the deserializer whose
/// lengths count; without one the longest does.
pub fn join(members: &[Vec<Vec<Sequence>>], defining: Option<usize>) -> Vec<Vec<Sequence>> {
    let joined = |sequence: &Sequence| {
        let find = |member: &Vec<Vec<Sequence>>| {
            member.iter().flatten().find(|other| other.key == sequence.key).cloned()
        };
        let others: Option<Vec<Sequence>> = members[1..].iter().map(find).collect();
        let parts = [vec![sequence.clone()], others?].concat();
        let length = match defining {
            Some(member) => parts[member].length,
            None => parts.iter().map(|part| part.length).max()?,
        };
        let streams = parts.into_iter().flat_map(|part| part.streams).collect();
        Some(Sequence { length, streams, ..*sequence })
    };
    let chunk = |chunk: &Vec<Sequence>| chunk.iter().filter_map(joined).collect();
    members[0].iter().map(chunk).filter(|chunk: &Vec<Sequence>| !chunk.is_empty()).collect()
}

/// How sequences become minibatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Sequence,
    Frame,
    Truncated { length: u64, right_splice: u64 },
}

/// A minibatch: flags, keys, and each stream. Without data it has no streams.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expected {
    pub end_of_sweep: bool,
    pub end_of_epoch: bool,
    pub keys: Vec<u64>,
    pub streams: Vec<ExpectedStream>,
}

/// A stream of a minibatch: records `(sequence, lane, begin, end)`, and each column; `None` is a
/// gap.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExpectedStream {
    pub steps: usize,
    pub lanes: usize,
    pub right_splice: u64,
    pub records: Vec<(u64, u64, i64, u64)>,
    pub columns: Vec<Option<Sample>>,
}

const GAP: u64 = u64::MAX;

impl ExpectedStream {
    fn new(steps: usize, lanes: usize) -> ExpectedStream {
        ExpectedStream { steps, lanes, columns: vec![None; steps * lanes], ..ExpectedStream::default() }
    }

    fn of(stream: &StreamMinibatch) -> ExpectedStream {
        let layout = &stream.layout;
        let record = |record: &cntk_reader::Record| (record.id, record.lane, record.begin, record.end);
        let column = |(column, is_gap)| match (is_gap, stream.dense::<f32>(), stream.sparse::<f32>()) {
            (true, ..) => None,
            (_, Some(values), _) => {
                let size = stream.sample_size();
                Some(Sample::Dense(values[column * size..(column + 1) * size].to_vec()))
            }
            (.., sparse) => {
                let sparse = sparse.expect("neither dense nor sparse");
                let range = sparse.offsets[column] as usize..sparse.offsets[column + 1] as usize;
                let entries = sparse.indices[range.clone()].iter().copied();
                Some(Sample::Sparse(entries.zip(sparse.values[range].iter().copied()).collect()))
            }
        };
        ExpectedStream {
            steps: layout.steps,
            lanes: layout.lanes,
            right_splice: layout.right_splice,
            records: layout.records.iter().map(record).collect(),
            columns: gaps(layout).into_iter().enumerate().map(column).collect(),
        }
    }
}

impl Expected {
    /// Converts a minibatch of the engine.
    pub fn of(minibatch: &Minibatch) -> Expected {
        Expected {
            end_of_sweep: minibatch.end_of_sweep,
            end_of_epoch: minibatch.end_of_epoch,
            keys: minibatch.keys.clone(),
            streams: minibatch.streams.iter().map(ExpectedStream::of).collect(),
        }
    }

    /// Returns whether this is past the end of the epoch.
    pub fn is_end(&self) -> bool {
        self.end_of_epoch && self.streams.is_empty()
    }
}

/// The input of a lane of truncated minibatches: sequences, whether a sweep ends with them, and the
/// number of samples of the first one already used.
#[derive(Debug, Clone, Default)]
struct Slot {
    queue: VecDeque<((usize, usize), bool)>,
    cursor: u64,
}

/// The model of a reader. A clone of it is a checkpoint.
#[derive(Clone)]
pub struct Model {
    chunks: Rc<Vec<Vec<Sequence>>>,
    /// Values of a sample of each stream.
    sizes: Vec<usize>,
    mode: Mode,
    /// Whether a minibatch size counts the samples of this worker's share, rather than of all
    /// workers.
    local: bool,
    timeline: Timeline,
    read: ReadConfig,
    slots: Vec<Slot>,
}

impl Model {
    pub fn new(
        chunks: Vec<Vec<Sequence>>,
        sizes: Vec<usize>,
        mode: Mode,
        order: Order,
        local: bool,
    ) -> Model {
        let lengths = chunks.iter().map(|chunk| chunk.iter().map(|sequence| sequence.length).collect());
        let timeline = Timeline::new(lengths.collect(), order);
        let (chunks, read) = (Rc::new(chunks), ReadConfig::default());
        Model { chunks, sizes, mode, local, timeline, read, slots: Vec::new() }
    }

    /// Returns CNTK's state.
    pub fn position(&self) -> u64 {
        self.timeline.position
    }

    pub fn sweep(&self) -> u64 {
        self.timeline.sweep()
    }

    pub fn start(&mut self, span: Span, mut read: ReadConfig) {
        if let Mode::Truncated { length, right_splice } = self.mode {
            (read.truncation_length, read.right_splice) = (length, right_splice);
        }
        self.set_sizes(read);
        self.timeline.start(span, share(&read));
    }

    /// Keeps the position, and drops the queue.
    pub fn configure(&mut self, read: ReadConfig) {
        self.set_sizes(read);
        self.timeline.share = share(&read);
    }

    pub fn set_state(&mut self, position: u64) {
        self.slots.iter_mut().for_each(|slot| *slot = Slot::default());
        self.timeline.seek(position);
    }

    /// Recomputes the number of slots only if sizes change.
    fn set_sizes(&mut self, read: ReadConfig) {
        let ReadConfig { workers, rank, minibatch_size, truncation_length, .. } = read;
        if matches!(self.mode, Mode::Truncated { .. }) {
            let before = (self.read.minibatch_size, self.read.truncation_length);
            let mut slots = self.slots.len() as u64;
            if before != (minibatch_size, truncation_length) {
                let all = (minibatch_size / truncation_length).max(1);
                slots = all / workers + u64::from(rank < all % workers);
            }
            self.slots = vec![Slot::default(); slots as usize];
        }
        self.read = read;
    }

    pub fn read(&mut self) -> Expected {
        if matches!(self.mode, Mode::Truncated { .. }) {
            return self.read_truncated();
        }
        let ReadConfig { workers, rank, minibatch_size: size, .. } = self.read;
        let own = (size / workers + u64::from(size % workers > rank)).max(1);
        let (global, local) = if self.local { (u64::MAX, own) } else { (size, size) };
        let picked = self.timeline.pick(global, local);
        let sequences: Vec<&Sequence> =
            picked.sequences.iter().map(|&(chunk, index)| &self.chunks[chunk][index]).collect();
        let part = |stream: usize| {
            let samples: Vec<&[Sample]> =
                sequences.iter().map(|sequence| sequence.streams[stream].as_slice()).collect();
            if self.mode == Mode::Frame { frames(&samples) } else { first_fit(&samples) }
        };
        let streams = if sequences.is_empty() { 0 } else { self.sizes.len() };
        Expected {
            end_of_sweep: picked.end_of_sweep,
            end_of_epoch: picked.end_of_epoch,
            keys: sequences.iter().map(|sequence| sequence.key).collect(),
            streams: (0..streams).map(part).collect(),
        }
    }

    fn sequence(&self, (chunk, index): (usize, usize)) -> &Sequence {
        &self.chunks[chunk][index]
    }

    fn available(&self, slot: usize) -> u64 {
        let Slot { queue, cursor } = &self.slots[slot];
        queue.iter().map(|&(id, _)| self.sequence(id).length).sum::<u64>() - cursor
    }

    fn read_truncated(&mut self) -> Expected {
        let (steps, splice) = (self.read.truncation_length, self.read.right_splice);
        for slot in 0..self.slots.len() {
            // One sample more than is needed.
            while self.available(slot) <= steps {
                let picked = self.timeline.pick(u64::MAX, 1);
                let ids = picked.sequences.iter().map(|&id| (id, picked.end_of_sweep));
                self.slots[slot].queue.extend(ids);
                if picked.end_of_epoch {
                    break;
                }
            }
        }
        if self.slots.iter().all(|slot| slot.queue.is_empty()) {
            return Expected { end_of_epoch: true, ..Expected::default() };
        }
        let lanes = self.slots.len();
        let mut part = ExpectedStream { right_splice: splice, ..ExpectedStream::new(steps as usize, lanes) };
        let mut expected = Expected { streams: vec![part.clone(); self.sizes.len()], ..Expected::default() };
        for lane in 0..lanes {
            let count = steps.min(self.available(lane));
            let mut slot = std::mem::take(&mut self.slots[lane]);
            let mut own = 0;
            for step in 0..count {
                let front = self.sequence(slot.queue[0].0);
                if step == 0 || slot.cursor == 0 {
                    let begin = step as i64 - slot.cursor as i64;
                    let id = expected.keys.len() as u64;
                    part.records.push((id, lane as u64, begin, (begin + front.length as i64) as u64));
                    expected.keys.push(front.key);
                    own += 1;
                }
                for (stream, &size) in self.sizes.iter().enumerate() {
                    let sample = front.streams[stream][slot.cursor as usize].dense(size);
                    expected.streams[stream].columns[step as usize * lanes + lane] = Some(sample);
                }
                slot.cursor += 1;
                if step + 1 == count && own == 1 && count == steps {
                    slot.cursor -= splice;
                }
                if slot.cursor == front.length {
                    expected.end_of_sweep |= slot.queue.pop_front().is_some_and(|(_, is_last)| is_last);
                    slot.cursor = 0;
                }
            }
            if count < steps {
                part.records.push((GAP, lane as u64, count as i64, steps));
            }
            self.slots[lane] = slot;
        }
        expected.streams.iter_mut().for_each(|stream| stream.records.clone_from(&part.records));
        expected.end_of_epoch = self.slots.iter().all(|slot| slot.queue.is_empty());
        expected
    }
}

fn share(read: &ReadConfig) -> Share {
    Share { workers: read.workers, rank: read.rank, cross_sweeps: read.cross_sweeps }
}

/// Packs one sample each, side by side.
fn frames(sequences: &[&[Sample]]) -> ExpectedStream {
    let mut part = ExpectedStream::new(1, sequences.len());
    for (number, samples) in sequences.iter().enumerate() {
        part.records.push((number as u64, number as u64, 0, 1));
        part.columns[number] = Some(samples[0].clone());
    }
    part
}

/// Packs each sequence into the first lane with enough room, or into a new one.
fn first_fit(sequences: &[&[Sample]]) -> ExpectedStream {
    let steps = sequences.iter().map(|samples| samples.len()).max().unwrap_or(0);
    let mut used: Vec<usize> = Vec::new();
    let mut places = Vec::new();
    for samples in sequences {
        let fitting = used.iter().position(|used| used + samples.len() <= steps);
        let lane = fitting.unwrap_or(used.len());
        if lane == used.len() {
            used.push(0);
        }
        places.push((lane, used[lane]));
        used[lane] += samples.len();
    }
    let mut part = ExpectedStream::new(steps, used.len());
    for (number, (samples, &(lane, begin))) in sequences.iter().zip(&places).enumerate() {
        part.records.push((number as u64, lane as u64, begin as i64, (begin + samples.len()) as u64));
        for (step, sample) in samples.iter().enumerate() {
            part.columns[(begin + step) * used.len() + lane] = Some(sample.clone());
        }
    }
    for (lane, &used) in used.iter().enumerate().filter(|&(_, &used)| used < steps) {
        part.records.push((GAP, lane as u64, used as i64, steps as u64));
    }
    part
}
