//! Simple, slow reference implementations of the timelines, for tests.

use super::random::Random;
use super::{
    EpochConfig, EpochSpan, Position, SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED, Selection, Timeline,
    WorkerConfig,
};
use crate::randomize::WindowSize;
use cntk_reader_core::format::{ChunkInfo, ChunkTable, IncrementalTable, Lengths};
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use std::sync::Arc;

/// A chunk table made from the sequence lengths of each chunk.
pub struct Lists {
    pub lengths: Vec<Vec<u32>>,
    infos: Vec<ChunkInfo>,
    /// Whether each chunk reports [`Lengths::Ones`].
    ones: Vec<bool>,
}

impl Lists {
    pub fn new(lengths: Vec<Vec<u32>>) -> Arc<Lists> {
        let info = |chunk: &Vec<u32>| ChunkInfo {
            samples: chunk.iter().map(|&length| u64::from(length)).sum(),
            sequences: chunk.len() as u32,
        };
        let is_ones = |chunk: &Vec<u32>| chunk.iter().all(|&length| length == 1);
        let all_ones = lengths.iter().all(is_ones);
        // Among others, every second chunk of ones lists its lengths.
        let reports_ones = |(chunk, lengths)| all_ones || (chunk % 2 == 0 && is_ones(lengths));
        let ones = lengths.iter().enumerate().map(reports_ones).collect();
        Arc::new(Lists { infos: lengths.iter().map(info).collect(), lengths, ones })
    }

    /// Chunks of one-sample sequences.
    pub fn ones(sequences: &[usize]) -> Arc<Lists> {
        Lists::new(sequences.iter().map(|&count| vec![1; count]).collect())
    }

    /// Random chunks, in half of the cases with one-sample sequences only. With `shortest` 0,
    /// sequences may be empty.
    pub fn random(random: &mut Random, chunks: u64, shortest: u64) -> Arc<Lists> {
        let chunks = random.range(1, chunks + 1);
        let longest = if random.range(0, 2) == 0 { 1 } else { random.range(2, 7) };
        let most = random.range(1, 9);
        let mut chunk = || -> Vec<u32> {
            (0..random.range(1, most + 1)).map(|_| random.range(shortest, longest + 1) as u32).collect()
        };
        let mut lengths: Vec<_> = (0..chunks).map(|_| chunk()).collect();
        // Ensure at least one sample.
        lengths[0][0] = lengths[0][0].max(1);
        Lists::new(lengths)
    }

    pub fn samples(&self) -> u64 {
        self.infos.iter().map(|info| info.samples).sum()
    }

    /// Returns the number of a sequence in the data's order.
    pub fn number(&self, id: SequenceId) -> usize {
        self.lengths[..id.chunk as usize].iter().map(Vec::len).sum::<usize>() + id.index as usize
    }

    pub fn numbers(&self, sequences: &[SequenceId]) -> Vec<usize> {
        sequences.iter().map(|&id| self.number(id)).collect()
    }
}

impl ChunkTable for Lists {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.infos
    }
    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        if self.ones[chunk as usize] { Lengths::Ones } else { Lengths::Each(&self.lengths[chunk as usize]) }
    }
    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

/// Reads to the end of the epoch with a local limit. Formats each minibatch as `0 1 2@3` (sequences
/// and position), with `*` for the end of a sweep.
pub fn read_all(table: &Lists, timeline: &mut dyn Timeline, local: u64) -> String {
    read_some(table, timeline, u64::MAX, local, usize::MAX)
}

/// Reads `count` minibatches, or to the end of the epoch.
pub fn read_some(
    table: &Lists,
    timeline: &mut dyn Timeline,
    global: u64,
    local: u64,
    count: usize,
) -> String {
    let mut selection = Selection::default();
    let mut lines = Vec::new();
    for _ in 0..count {
        timeline.next(global, local, &mut selection).expect("no error");
        let numbers: Vec<_> =
            table.numbers(&selection.sequences).iter().map(|number| number.to_string()).collect();
        if selection.end_of_epoch && numbers.is_empty() {
            break;
        }
        let sweep = if selection.end_of_sweep { "*" } else { "" };
        lines.push(format!("{}{sweep}@{}", numbers.join(" "), timeline.position().samples));
        if selection.end_of_epoch {
            break;
        }
    }
    lines.join(" | ")
}

#[derive(Clone, Copy)]
struct Chunk {
    id: ChunkId,
    samples: u64,
    sequences: u64,
    s0: u64,
    q0: u64,
    b: usize,
    e: usize,
}

/// A sequence at its place in a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    pub origin: usize,
    pub id: SequenceId,
    pub length: u64,
}

/// Returns the whole order of one sweep, and the window of each position.
pub fn sweep_order(table: &Lists, window: WindowSize, seed: u64) -> (Vec<Placed>, Vec<(usize, usize)>) {
    let mut ids: Vec<u32> = (0..table.infos.len() as u32).collect();
    let mut random = Random::new(seed);
    for i in 0..ids.len() {
        let j = (random.draw() % ids.len() as u64) as usize;
        ids.swap(i, j);
    }
    let (mut s0, mut q0) = (0, 0);
    let mut chunks: Vec<Chunk> = Vec::new();
    for id in ids {
        let info = table.infos[id as usize];
        let sequences = u64::from(info.sequences);
        chunks.push(Chunk { id, samples: info.samples, sequences, s0, q0, b: 0, e: 0 });
        s0 += info.samples;
        q0 += sequences;
    }
    set_windows(&mut chunks, window);

    let n = chunks.len();
    let chunk_at = |t: u64| (0..n).rev().find(|&i| chunks[i].q0 <= t).expect("q0 of the first is 0");
    let mut random = Random::new(seed);
    let mut entries: Vec<Placed> = Vec::new();
    let (mut done, mut cursor, mut loaded) = (0, 0, 0);
    while done < n {
        let mut next = chunks[done].e;
        while next < n && chunks[next].b <= done {
            next += 1;
        }
        let end = chunks[next - 1].e;
        for (origin, chunk) in chunks.iter().enumerate().take(end).skip(loaded) {
            for (index, &length) in table.lengths[chunk.id as usize].iter().enumerate() {
                let id = SequenceId { chunk: chunk.id, index: index as u32 };
                entries.push(Placed { origin, id, length: u64::from(length) });
            }
        }
        let from = if cursor == 0 { 0 } else { chunks[cursor - 1].q0 + chunks[cursor - 1].sequences };
        let to = chunks[next - 1].q0 + chunks[next - 1].sequences;
        for t in from..to {
            let here = chunks[chunk_at(t)];
            let (first, last) = (chunks[here.b], chunks[here.e - 1]);
            loop {
                let j = random.range(first.q0, last.q0 + last.sequences);
                let other = chunks[chunk_at(j)];
                let (origin_t, origin_j) = (entries[t as usize].origin, entries[j as usize].origin);
                if here.b <= origin_j && origin_j < here.e && other.b <= origin_t && origin_t < other.e {
                    entries.swap(t as usize, j as usize);
                    break;
                }
            }
        }
        done += 1;
        cursor = next;
        loaded = end.max(loaded);
    }
    (entries, chunks.iter().map(|chunk| (chunk.b, chunk.e)).collect())
}

fn set_windows(chunks: &mut [Chunk], window: WindowSize) {
    let n = chunks.len();
    match window {
        WindowSize::Chunks(window) => {
            let w = if window == 0 { 1 } else { window as usize };
            let h = window as usize / 2;
            for (i, chunk) in chunks.iter_mut().enumerate() {
                chunk.b = i.saturating_sub(h);
                chunk.e = chunk.b + w;
                if chunk.e > n {
                    chunk.e = n;
                    chunk.b = n.saturating_sub(w);
                }
            }
        }
        WindowSize::Samples(window) => {
            let h = window / 2;
            for i in 0..n {
                let (mut b, mut e) = if i == 0 { (0, 1) } else { (chunks[i - 1].b, chunks[i - 1].e) };
                while chunks[i].s0 - chunks[b].s0 > h {
                    b += 1;
                }
                b = b.min(i);
                e = e.max(i + 1);
                while e < n && chunks[e].s0 + chunks[e].samples - chunks[i].s0 < h {
                    e += 1;
                }
                (chunks[i].b, chunks[i].e) = (b, e);
            }
        }
    }
}

/// The common state of both reference timelines.
struct Common {
    table: Arc<Lists>,
    sweep: u64,
    workers: WorkerConfig,
    epoch: EpochSpan,
    pos: u64,
    /// Behave like the betas of CNTK 2.0.
    is_beta: bool,
}

impl Common {
    fn new(table: Arc<Lists>) -> Self {
        let workers = WorkerConfig { workers: 1, rank: 0, cross_sweeps: true };
        Common { sweep: table.samples(), table, workers, epoch: EpochSpan::default(), pos: 0, is_beta: false }
    }
}

/// The randomized timeline.
pub struct ReferenceBlock {
    common: Common,
    window: WindowSize,
    seed: u64,
    entered: Option<(u64, Vec<Placed>)>,
    /// Index of the next sequence in its sweep.
    next: usize,
}

impl ReferenceBlock {
    pub fn new(table: Arc<Lists>, window: WindowSize, seed: u64) -> Self {
        ReferenceBlock { common: Common::new(table), window, seed, entered: None, next: 0 }
    }

    pub fn with_beta(mut self, is_beta: bool) -> Self {
        self.common.is_beta = is_beta;
        self
    }

    fn enter(&mut self, sweep: u64) -> &[Placed] {
        if self.entered.as_ref().is_none_or(|(entered, _)| *entered != sweep) {
            let seed = self.seed.wrapping_add(sweep);
            self.entered = Some((sweep, sweep_order(&self.common.table, self.window, seed).0));
            self.next = 0;
        }
        &self.entered.as_ref().expect("just set").1
    }

    pub fn start_epoch(&mut self, epoch: &EpochConfig) {
        self.common.epoch = epoch.span(self.common.sweep).expect("a good epoch");
        self.common.workers = epoch.workers;
        self.seek(self.common.epoch.start);
    }

    pub fn configure(&mut self, workers: &WorkerConfig) {
        self.common.workers = *workers;
    }

    pub fn seek(&mut self, x: u64) {
        let s = self.common.sweep;
        let (mut next, mut samples) = (0, 0);
        for placed in self.enter(x / s) {
            if samples >= x % s {
                break;
            }
            samples += placed.length;
            next += 1;
        }
        self.next = next;
        self.common.pos = (x / s * s).saturating_add(samples);
        if self.common.workers.rank >= self.common.table.infos.len() as u64 {
            self.common.pos = self.common.epoch.end;
        }
    }

    pub fn next(&mut self, global: u64, local: u64) -> Selection {
        let Common { sweep: s, workers, .. } = self.common;
        let is_idle = workers.rank >= self.common.table.infos.len() as u64;
        if is_idle && self.common.epoch.end >= SIZE_UNLIMITED {
            self.common.pos = self.common.pos.max(self.common.epoch.end);
        }
        let mut out = Selection::default();
        let (mut g, mut l) = (0, 0);
        loop {
            let continuing = out.end_of_sweep;
            let (es, ee, dg, dl) = self.part(global - g, local - l, !continuing, &mut out.sequences);
            out.end_of_sweep |= es;
            out.end_of_epoch |= ee;
            if continuing && dg == 0 {
                break;
            }
            g += dg;
            l += dl;
            if !(workers.cross_sweeps && !out.end_of_epoch && out.end_of_sweep && global > g && local > l) {
                break;
            }
        }
        assert!(s > 0);
        out
    }

    fn part(
        &mut self,
        global: u64,
        local: u64,
        mut need: bool,
        out: &mut Vec<SequenceId>,
    ) -> (bool, bool, u64, u64) {
        let Common { sweep: s, workers, epoch, pos, is_beta, .. } = self.common;
        let p = pos % s;
        if pos >= epoch.end {
            return (pos >= s && p == 0, true, 0, 0);
        }
        self.enter(pos / s);
        let before = out.len();
        let global = global.min(s - p);
        let global = if is_beta { global.min(epoch.end - pos) } else { global };
        let (mut g, mut l) = (0, 0);
        let order = &self.entered.as_ref().expect("entered").1;
        while self.next < order.len() {
            let placed = order[self.next];
            let is_local = placed.origin as u64 % workers.workers == workers.rank;
            if !need && (g + placed.length > global || is_local && l + placed.length > local) {
                break;
            }
            if pos + g >= epoch.end || is_beta && l >= local {
                break;
            }
            if is_local {
                out.push(placed.id);
                l += placed.length;
            }
            need &= !(is_local || is_beta);
            g += placed.length;
            self.next += 1;
        }
        if g == 0 {
            out.truncate(before);
        }
        self.common.pos = pos + g;
        (p + g >= s, pos + g >= epoch.end, g, l)
    }

    pub fn position(&self) -> Position {
        Position { samples: self.common.pos, counter: 0 }
    }
}

/// The data's own order.
pub struct ReferenceInOrder {
    common: Common,
    all: Vec<(SequenceId, u64)>,
    k: usize,
    gs: u64,
}

impl ReferenceInOrder {
    pub fn new(table: Arc<Lists>) -> Self {
        let mut all = Vec::new();
        for (chunk, lengths) in table.lengths.iter().enumerate() {
            for (index, &length) in lengths.iter().enumerate() {
                all.push((SequenceId { chunk: chunk as u32, index: index as u32 }, u64::from(length)));
            }
        }
        ReferenceInOrder { common: Common::new(table), all, k: 0, gs: 0 }
    }

    pub fn with_beta(mut self, is_beta: bool) -> Self {
        self.common.is_beta = is_beta;
        self
    }

    pub fn start_epoch(&mut self, epoch: &EpochConfig) {
        self.common.epoch = epoch.span(self.common.sweep).expect("a good epoch");
        self.common.workers = epoch.workers;
        self.seek(self.common.epoch.start);
    }

    pub fn configure(&mut self, workers: &WorkerConfig) {
        self.common.workers = *workers;
    }

    pub fn seek(&mut self, x: u64) {
        let off = x % self.common.sweep;
        let (mut a, mut k) = (0, 0);
        for chunk in self.common.table.infos.iter() {
            if a + chunk.samples > off {
                break;
            }
            a += chunk.samples;
            k += chunk.sequences as usize;
        }
        while a < off {
            a += self.all[k].1;
            k += 1;
        }
        self.common.pos = x - off + a;
        self.k = k % self.all.len();
        self.gs = self.k as u64;
    }

    pub fn next(&mut self, global: u64, local: u64) -> Selection {
        let Common { sweep: s, workers, epoch, is_beta, .. } = self.common;
        let mut out = Selection::default();
        let pos = &mut self.common.pos;
        if *pos >= epoch.end {
            out.end_of_epoch = true;
            out.end_of_sweep = *pos >= s && (*pos).is_multiple_of(s);
            return out;
        }
        let global = if workers.cross_sweeps { global } else { global.min(s - *pos % s) };
        let global = if is_beta { global.min(epoch.end - *pos) } else { global };
        let sweep0 = *pos / s;
        let (mut g, mut l, mut need) = (0, 0, true);
        while g < global && l < local {
            let (id, length) = self.all[self.k];
            let is_local = self.gs % workers.workers == workers.rank;
            if !need && (g + length > global || is_local && l + length > local) {
                break;
            }
            if *pos >= epoch.end {
                break;
            }
            if is_local {
                out.sequences.push(id);
                l += length;
                need = false;
            }
            g += length;
            *pos += length;
            self.gs += 1;
            self.k = (self.k + 1) % self.all.len();
        }
        out.end_of_sweep = *pos / s != sweep0;
        out.end_of_epoch = *pos >= epoch.end;
        out
    }

    pub fn position(&self) -> Position {
        Position { samples: self.common.pos, counter: self.gs }
    }
}

/// Returns an epoch of random size for these workers, over data with `sweep` samples per sweep.
pub(super) fn random_sizes(random: &mut Random, workers: WorkerConfig, sweep: u64) -> EpochConfig {
    let (samples, sweeps, index) = match random.range(0, 5) {
        0 => (SIZE_UNLIMITED, random.range(0, 5), random.range(0, 3)),
        1 => (SIZE_OF_SWEEP, SWEEPS_UNLIMITED, random.range(0, 4)),
        2 => (SIZE_UNLIMITED, SWEEPS_UNLIMITED, random.range(0, 2)),
        _ => (random.range(1, 3 * sweep + 1), SWEEPS_UNLIMITED, random.range(0, 4)),
    };
    EpochConfig { workers, samples, sweeps, index }
}
