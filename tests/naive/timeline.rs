//! The order of sequences, by the rules of CNTK 2.7 and nothing else: each sweep's order is
//! computed as a whole, and every seek walks from the sweep's first sequence.

use std::rc::Rc;

/// Special values: the epoch size in samples for one sweep, the size for no limit, and the number
/// of sweeps for no limit.
pub const ONE_SWEEP: u64 = u64::MAX >> 2;
pub const NO_LIMIT: u64 = u64::MAX / 2;
pub const ANY_SWEEPS: u64 = u64::MAX;

/// The 64-bit Mersenne Twister.
pub struct Twister {
    state: [u64; 312],
    at: usize,
}

impl Twister {
    pub fn new(seed: u64) -> Twister {
        let mut state = [seed; 312];
        for i in 1..312 {
            let before = state[i - 1];
            state[i] = (before ^ before >> 62).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i as u64);
        }
        Twister { state, at: 312 }
    }

    pub fn draw(&mut self) -> u64 {
        if self.at == 312 {
            for i in 0..312 {
                let mixed = self.state[i] & !0x7fff_ffff | self.state[(i + 1) % 312] & 0x7fff_ffff;
                let odd = if mixed % 2 == 1 { 0xb502_6f5a_a966_19e9 } else { 0 };
                self.state[i] = self.state[(i + 156) % 312] ^ mixed >> 1 ^ odd;
            }
            self.at = 0;
        }
        let mut x = self.state[self.at];
        self.at += 1;
        x ^= x >> 29 & 0x5555_5555_5555_5555;
        x ^= x << 17 & 0x71d6_7fff_eda6_0000;
        x ^= x << 37 & 0xfff7_eee0_0000_0000;
        x ^ x >> 43
    }

    /// Returns a number in `from..to`, by plain modulo.
    fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.draw() % (to - from)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    Chunks(u64),
    Samples(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    InOrder,
    Randomized { seed: u64, window: Window },
}

/// The worker that reads, the number of workers, and whether minibatches cross the end of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub workers: u64,
    pub rank: u64,
    pub cross_sweeps: bool,
}

/// An epoch as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub samples: u64,
    pub sweeps: u64,
    pub index: u64,
}

/// A sequence in the order of a sweep, and the position of its own chunk in that sweep's order of
/// chunks.
#[derive(Debug, Clone, Copy)]
struct Placed {
    home: usize,
    chunk: usize,
    index: usize,
    length: u64,
}

/// The next data of a worker: sequences by their chunks and their indices in them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Picked {
    pub sequences: Vec<(usize, usize)>,
    pub end_of_sweep: bool,
    pub end_of_epoch: bool,
}

#[derive(Clone)]
pub struct Timeline {
    /// Lengths of the sequences of each chunk.
    chunks: Rc<Vec<Vec<u64>>>,
    order: Order,
    pub share: Share,
    epoch: (u64, u64),
    /// Samples of all workers since the start of sweep 0.
    pub position: u64,
    /// The next sequence of the sweep, and the number that decides which worker gets it in the
    /// data's own order.
    next: usize,
    counter: u64,
    /// The order of the sweep that was entered last.
    entered: Option<(u64, Rc<Vec<Placed>>)>,
}

impl Timeline {
    pub fn new(chunks: Vec<Vec<u64>>, order: Order) -> Timeline {
        let share = Share { workers: 1, rank: 0, cross_sweeps: true };
        let chunks = Rc::new(chunks);
        Timeline { chunks, order, share, epoch: (0, 0), position: 0, next: 0, counter: 0, entered: None }
    }

    /// Returns the number of samples of a sweep.
    pub fn sweep(&self) -> u64 {
        self.chunks.iter().flatten().sum()
    }

    pub fn start(&mut self, span: Span, share: Share) {
        let size = match span {
            Span { sweeps, .. } if sweeps != ANY_SWEEPS => self.sweep().saturating_mul(sweeps),
            Span { samples: ONE_SWEEP, .. } => self.sweep(),
            Span { samples, .. } => samples,
        };
        let begin = size.saturating_mul(span.index);
        self.epoch = (begin, begin.saturating_add(size));
        self.share = share;
        self.seek(begin);
    }

    /// Returns whether this worker has no data: in random order a worker gets whole chunks, if any.
    fn is_idle(&self) -> bool {
        self.order != Order::InOrder && self.share.rank >= self.chunks.len() as u64
    }

    /// Moves to the first sequence that begins at or after a position.
    pub fn seek(&mut self, position: u64) {
        let sweep = self.sweep();
        let order = self.enter(position / sweep);
        let (mut next, mut samples) = (0, 0);
        while samples < position % sweep {
            samples += order[next].length;
            next += 1;
        }
        self.position = (position / sweep * sweep).saturating_add(samples);
        self.next = next;
        if self.order == Order::InOrder {
            self.next = next % order.len();
        }
        self.counter = self.next as u64;
        if self.is_idle() {
            self.position = self.epoch.1;
        }
    }

    /// Returns the order of a sweep. The data's own order is always that of sweep 0.
    fn enter(&mut self, sweep: u64) -> Rc<Vec<Placed>> {
        let sweep = if self.order == Order::InOrder { 0 } else { sweep };
        match &self.entered {
            Some((entered, order)) if *entered == sweep => Rc::clone(order),
            _ => {
                let order = Rc::new(match self.order {
                    Order::InOrder => rows(&self.chunks, 0..self.chunks.len()),
                    Order::Randomized { seed, window } => {
                        randomized(&self.chunks, window, seed.wrapping_add(sweep))
                    }
                });
                (self.entered, self.next) = (Some((sweep, Rc::clone(&order))), 0);
                order
            }
        }
    }

    /// Returns the next sequences of this worker: at most `global` samples of all workers and
    /// `local` samples of its own, but at least one of its own sequences while there are any.
    pub fn pick(&mut self, global: u64, local: u64) -> Picked {
        if self.order == Order::InOrder {
            return self.pick_in_order(global, local);
        }
        if self.is_idle() && self.epoch.1 >= NO_LIMIT {
            self.position = self.position.max(self.epoch.1);
        }
        let mut picked = Picked::default();
        let (mut all, mut own) = (0, 0);
        loop {
            let continues = picked.end_of_sweep;
            let (all_more, own_more) = self.pick_in_sweep(global - all, local - own, !continues, &mut picked);
            if continues && all_more == 0 {
                return picked;
            }
            all += all_more;
            own += own_more;
            let crosses = self.share.cross_sweeps && picked.end_of_sweep && !picked.end_of_epoch;
            if !crosses || all >= global || own >= local {
                return picked;
            }
        }
    }

    fn pick_in_sweep(&mut self, global: u64, local: u64, mut needs: bool, picked: &mut Picked) -> (u64, u64) {
        let (sweep, (_, end)) = (self.sweep(), self.epoch);
        let offset = self.position % sweep;
        if self.position >= end {
            picked.end_of_sweep |= self.position >= sweep && offset == 0;
            picked.end_of_epoch = true;
            return (0, 0);
        }
        let order = self.enter(self.position / sweep);
        let global = global.min(sweep - offset);
        let (mut all, mut own) = (0, 0);
        while let Some(&placed) = order.get(self.next) {
            let is_own = placed.home as u64 % self.share.workers == self.share.rank;
            let exceeds = all + placed.length > global || is_own && own + placed.length > local;
            if !needs && exceeds || self.position + all >= end {
                break;
            }
            if is_own {
                picked.sequences.push((placed.chunk, placed.index));
                own += placed.length;
                needs = false;
            }
            all += placed.length;
            self.next += 1;
        }
        self.position += all;
        picked.end_of_sweep |= offset + all >= sweep;
        picked.end_of_epoch |= self.position >= end;
        (all, own)
    }

    fn pick_in_order(&mut self, global: u64, local: u64) -> Picked {
        let (sweep, end) = (self.sweep(), self.epoch.1);
        let mut picked = Picked::default();
        if self.position >= end {
            picked.end_of_sweep = self.position >= sweep && self.position.is_multiple_of(sweep);
            picked.end_of_epoch = true;
            return picked;
        }
        let order = self.enter(0);
        let left = sweep - self.position % sweep;
        let global = if self.share.cross_sweeps { global } else { global.min(left) };
        let first = self.position / sweep;
        let (mut all, mut own) = (0, 0);
        while all < global && own < local && self.position < end {
            let placed = order[self.next];
            let is_own = self.counter % self.share.workers == self.share.rank;
            let exceeds = all + placed.length > global || is_own && own + placed.length > local;
            if !picked.sequences.is_empty() && exceeds {
                break;
            }
            if is_own {
                picked.sequences.push((placed.chunk, placed.index));
                own += placed.length;
            }
            all += placed.length;
            self.position += placed.length;
            self.counter += 1;
            self.next = (self.next + 1) % order.len();
        }
        picked.end_of_sweep = self.position / sweep != first;
        picked.end_of_epoch = self.position >= end;
        picked
    }
}

/// Returns the sequences of these chunks, one chunk after the other.
fn rows(chunks: &[Vec<u64>], these: impl Iterator<Item = usize>) -> Vec<Placed> {
    let row = |(home, chunk): (usize, usize)| {
        let place = move |(index, &length)| Placed { home, chunk, index, length };
        chunks[chunk].iter().enumerate().map(place)
    };
    these.enumerate().flat_map(row).collect()
}

/// Returns the randomized order of a sweep: chunks are shuffled; then each sequence is swapped with
/// another one such that both stay within the windows of the chunks at their positions.
fn randomized(chunks: &[Vec<u64>], window: Window, seed: u64) -> Vec<Placed> {
    let count = chunks.len();
    let mut ids: Vec<usize> = (0..count).collect();
    let mut twister = Twister::new(seed);
    for i in 0..count {
        ids.swap(i, twister.range(0, count as u64) as usize);
    }
    let lengths: Vec<Vec<u64>> = ids.iter().map(|&id| chunks[id].clone()).collect();
    let windows = windows(&lengths, window);
    // The first sequence at the position of each chunk, and one past the last.
    let first = |chunk: usize| lengths[..chunk].iter().map(Vec::len).sum::<usize>();
    let chunk_at = |place: usize| (0..count).rev().find(|&chunk| first(chunk) <= place).unwrap_or(0);
    let mut entries = rows(chunks, ids.iter().copied());
    let mut twister = Twister::new(seed);
    let (mut done, mut drawn) = (0, 0);
    while done < count {
        let mut next = windows[done].1;
        while next < count && windows[next].0 <= done {
            next += 1;
        }
        for place in first(drawn)..first(next) {
            let (begin, end) = windows[chunk_at(place)];
            loop {
                let other = twister.range(first(begin) as u64, first(end) as u64) as usize;
                let (other_begin, other_end) = windows[chunk_at(other)];
                if (begin..end).contains(&entries[other].home)
                    && (other_begin..other_end).contains(&entries[place].home)
                {
                    entries.swap(place, other);
                    break;
                }
            }
        }
        done += 1;
        drawn = next;
    }
    entries
}

/// Returns, for each position in the order of chunks, the range of positions within which its
/// sequences may move.
fn windows(lengths: &[Vec<u64>], window: Window) -> Vec<(usize, usize)> {
    let count = lengths.len();
    let samples = |chunk: usize| lengths[chunk].iter().sum::<u64>();
    let start = |chunk: usize| (0..chunk).map(samples).sum::<u64>();
    let mut windows: Vec<(usize, usize)> = Vec::new();
    for chunk in 0..count {
        windows.push(match window {
            Window::Chunks(window) => {
                let (width, half) = (window.max(1) as usize, window as usize / 2);
                let begin = chunk.saturating_sub(half);
                if begin + width > count {
                    (count.saturating_sub(width), count)
                } else {
                    (begin, begin + width)
                }
            }
            Window::Samples(window) => {
                let (mut begin, mut end) = windows.last().copied().unwrap_or((0, 1));
                while begin < chunk && start(chunk) - start(begin) > window / 2 {
                    begin += 1;
                }
                end = end.max(chunk + 1);
                while end < count && start(end) + samples(end) - start(chunk) < window / 2 {
                    end += 1;
                }
                (begin, end)
            }
        });
    }
    windows
}
