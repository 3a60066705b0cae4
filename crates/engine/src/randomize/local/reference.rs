//! Reference implementation of local timelines for tests: whole windows at a time, as in CNTK, but
//! without its bugs.

use super::LocalPosition;
use crate::randomize::random::Random;
use crate::randomize::{Order, WindowSize};
use cntk_reader_core::sequence::SequenceId;

/// An entry of a window: a sequence with its length, or the end of a sweep.
type Entry = Option<(SequenceId, u32)>;

pub struct ReferenceTimeline<'a> {
    chunks: &'a [Vec<u32>],
    order: Order,
    workers: u64,
    rank: u64,
    pub max_sweeps: u64,
    pub max_samples: u64,
    inner: [u64; 2],
    saved: [u64; 2],
    window: Vec<Entry>,
    at: usize,
    sweeps: u64,
    samples: u64,
}

pub struct Read {
    pub sequences: Vec<SequenceId>,
    pub end_of_sweep: bool,
    pub end_of_epoch: bool,
}

impl<'a> ReferenceTimeline<'a> {
    pub fn new(chunks: &'a [Vec<u32>], order: Order, workers: u64, rank: u64) -> Self {
        ReferenceTimeline {
            chunks,
            order,
            workers,
            rank,
            max_sweeps: u64::MAX,
            max_samples: u64::MAX,
            inner: [0; 2],
            saved: [0; 2],
            window: Vec::new(),
            at: 0,
            sweeps: 0,
            samples: 0,
        }
    }

    pub fn start(&mut self) {
        self.refill();
    }

    /// Returns CNTK's checkpoint numbers.
    pub fn position(&self) -> LocalPosition {
        LocalPosition {
            window: self.saved,
            sweeps: self.sweeps,
            samples: self.samples,
            entries: self.at as u64,
        }
    }

    pub fn resume(&mut self, position: LocalPosition) {
        self.inner = position.window;
        self.refill();
        self.sweeps = position.sweeps;
        self.samples = position.samples;
        self.at = position.entries as usize;
    }

    fn is_over(&self) -> bool {
        if self.max_sweeps != u64::MAX {
            self.sweeps == self.max_sweeps
        } else {
            self.samples >= self.max_samples
        }
    }

    fn refill(&mut self) {
        loop {
            self.saved = self.inner;
            self.window = self.produce();
            if !self.window.is_empty() {
                return;
            }
        }
    }

    pub fn next(&mut self, local: u64) -> Read {
        let mut read = Read { sequences: Vec::new(), end_of_sweep: false, end_of_epoch: true };
        let mut n = 0;
        while n < local && !self.is_over() {
            let entry = self.window[self.at];
            match entry {
                None => {
                    self.sweeps += 1;
                    read.end_of_sweep = true;
                }
                Some((sequence, length)) => {
                    if !read.sequences.is_empty() && n + u64::from(length) > local {
                        break;
                    }
                    read.sequences.push(sequence);
                    n += u64::from(length);
                    self.samples += u64::from(length);
                }
            }
            self.at += 1;
            if self.at == self.window.len() {
                self.at = 0;
                self.refill();
            }
        }
        read.end_of_epoch = self.is_over();
        read
    }

    fn list(&self, chunk: usize) -> Vec<Entry> {
        let sequence = |(index, &length): (usize, &u32)| {
            Some((SequenceId { chunk: chunk as u32, index: index as u32 }, length))
        };
        self.chunks[chunk].iter().enumerate().map(sequence).collect()
    }

    fn produce(&mut self) -> Vec<Entry> {
        let n = self.chunks.len() as u64;
        let Order::Block { window, seed } = self.order else {
            let [c, mut q] = self.inner;
            let mut list = self.list(c as usize);
            if self.workers > 1 {
                list.retain(|_| {
                    q += 1;
                    (q - 1) % self.workers == self.rank
                });
            }
            if c == n - 1 {
                list.push(None);
                q = 0;
            }
            self.inner = [(c + 1) % n, q];
            return list;
        };
        let order = |k: u64| {
            let mut chunks: Vec<usize> = (0..n as usize).collect();
            Random::new(k.wrapping_add(seed)).shuffle_all(&mut chunks);
            chunks
        };
        let [p, k] = self.inner;
        let (by_samples, mut range) = match window {
            WindowSize::Chunks(size) => (false, size as i64),
            WindowSize::Samples(size) => (true, size as i64),
        };
        let (mut at, mut sw, mut first, mut wp, mut used) = (p, k, 0, p, 0);
        let mut list: Vec<Entry> = Vec::new();
        let shuffle = |list: &mut [Entry], wp: u64, sw: u64| {
            Random::new(wp.wrapping_add(sw).wrapping_add(seed)).shuffle_forward(list);
        };
        while range > 0 {
            if at % self.workers == self.rank {
                let new = self.list(order(sw)[at as usize]);
                range -= if by_samples {
                    new.iter().flatten().map(|&(_, length)| i64::from(length)).sum()
                } else {
                    1
                };
                list.extend(new);
            }
            used += 1;
            if at == n - 1 {
                shuffle(&mut list[first..], wp, sw);
                sw += 1;
                list.push(None);
                wp = 0;
                first = list.len();
            }
            at = (at + 1) % n;
        }
        shuffle(&mut list[first..], wp, sw);
        self.inner = [(p + used) % n, sw];
        list
    }
}
