//! Scans a file in parallel ranges and hands their pieces on in the file's order.
//!
//! A range owns the lines that start in it. Its scanner is fed from the byte before the range (a line break there
//! starts a line) to the end of the last line it owns, or as far of that line as it needs. So ranges know nothing of
//! each other, and the pieces together say what one scan from front to back would have said.
//!
//! Threads help themselves: whichever finds the next piece ready takes it, the others scan further ranges. Blocks and
//! pieces are used again, so that memory stays warm and does not grow with the file.

use super::source::Source;
use crate::Result;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;

/// Scans the lines that start in a range. State is explicit: blocks may end anywhere.
pub(super) trait Scanner: Send {
    /// Forgets everything and begins with another range. `at_line` says whether the first byte fed starts a line;
    /// otherwise what comes before the first line break is not this range's.
    fn begin(&mut self, range: Range<u64>, at_line: bool);

    /// Whether the bytes from `offset` on matter; all bytes before have been fed.
    fn wants(&self, offset: u64) -> bool;

    /// Takes the next bytes.
    fn feed(&mut self, block: &[u8]);

    /// Nothing follows: the file ends at `offset`.
    fn finish(&mut self, offset: u64);
}

/// How a file is cut for scanning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Bytes of a range.
    pub range: u64,
    /// Bytes read at once: few enough to stay in a core's own cache.
    pub block: usize,
    /// Bytes read at once behind the end of a range.
    pub tail: usize,
}

impl Default for Cut {
    fn default() -> Self {
        Cut { range: 2 << 20, block: 256 << 10, tail: 4 << 10 }
    }
}

/// Scans the lines that start in `part` of `extent`, and calls `take` with the scanner of each range in order. The extent
/// starts with a line, and is all there is; the part may begin and end anywhere in it.
pub(super) fn scan<S: Scanner>(
    source: &Source<'_>,
    extent: Range<u64>,
    part: Range<u64>,
    cut: Cut,
    scanner: impl Fn() -> S,
    take: impl FnMut(&mut S) -> Result<()> + Send,
) -> Result<()> {
    let ranges = (part.end - part.start).div_ceil(cut.range);
    let threads = if ranges > 1 { rayon::current_num_threads() } else { 1 };
    // Enough that no thread waits for the one that is behind.
    let workers = ranges.min(2 * threads as u64 + 1);
    let shared = Shared {
        queue: Mutex::new(Queue {
            next: part.start,
            pending: VecDeque::new(),
            taken: 0,
            spare: (0..workers).map(|_| Worker::new(scanner())).collect(),
            taking: false,
            end: None,
        }),
        changed: Condvar::new(),
        take: Mutex::new(take),
        source,
        extent,
        end: part.end,
        cut,
    };
    if threads == 1 {
        shared.work();
    } else {
        rayon::scope(|scope| {
            (1..threads).for_each(|_| scope.spawn(|_| shared.work()));
            shared.work();
        });
    }
    shared.queue.into_inner().end.unwrap_or(Ok(()))
}

/// What the threads that scan a file share.
struct Shared<'a, S, T> {
    queue: Mutex<Queue<S>>,
    /// Something in the queue has changed.
    changed: Condvar,
    take: Mutex<T>,
    source: &'a Source<'a>,
    extent: Range<u64>,
    /// Where the last range ends.
    end: u64,
    cut: Cut,
}

struct Queue<S> {
    /// Where the next range starts.
    next: u64,
    /// Ranges in order from the first that has not been taken; `None` while a thread scans it.
    pending: VecDeque<Option<Worker<S>>>,
    /// Ranges that have been taken before these.
    taken: usize,
    spare: Vec<Worker<S>>,
    /// A thread takes a piece: the next one must wait.
    taking: bool,
    /// Nothing more is to be done: a failure, or a panic of another thread.
    end: Option<Result<()>>,
}

enum Job<S> {
    /// Scan the range of this number.
    Scan(usize, Worker<S>),
    /// Take this piece.
    Take(Worker<S>),
}

impl<S: Scanner, T: FnMut(&mut S) -> Result<()>> Shared<'_, S, T> {
    /// What each thread does until the file is at its end: take the next piece, or else scan the next range.
    fn work(&self) {
        let _stop = StopOnPanic(self);
        while let Some(job) = self.next_job() {
            match job {
                Job::Scan(number, mut worker) => {
                    worker.run(self.source, &self.extent, self.cut);
                    let mut queue = self.queue.lock();
                    let place = number - queue.taken;
                    queue.pending[place] = Some(worker);
                }
                Job::Take(mut worker) => {
                    let taken = (self.take.lock())(&mut worker.scanner);
                    let taken = taken.and(std::mem::replace(&mut worker.outcome, Ok(())));
                    let mut queue = self.queue.lock();
                    queue.taking = false;
                    queue.spare.push(worker);
                    if taken.is_err() {
                        queue.end.get_or_insert(taken);
                    }
                }
            }
            self.changed.notify_all();
        }
    }

    /// Waits for something to do. `None`: nothing is left.
    fn next_job(&self) -> Option<Job<S>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.end.is_some() || queue.pending.is_empty() && queue.next == self.end {
                return None;
            }
            if !queue.taking
                && let Some(worker) = queue.pending.front_mut().and_then(Option::take)
            {
                queue.pending.pop_front();
                queue.taken += 1;
                queue.taking = true;
                return Some(Job::Take(worker));
            }
            if queue.next < self.end
                && let Some(mut worker) = queue.spare.pop()
            {
                let end = self.end.min(queue.next.saturating_add(self.cut.range));
                worker.range = queue.next..end;
                queue.next = end;
                queue.pending.push_back(None);
                return Some(Job::Scan(queue.taken + queue.pending.len() - 1, worker));
            }
            self.changed.wait(&mut queue);
        }
    }
}

/// Lets the other threads go when one panics: what they wait for will not come.
struct StopOnPanic<'a, 'b, S: Scanner, T: FnMut(&mut S) -> Result<()>>(&'a Shared<'b, S, T>);

impl<S: Scanner, T: FnMut(&mut S) -> Result<()>> Drop for StopOnPanic<'_, '_, S, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.lock().end.get_or_insert(Ok(()));
            self.0.changed.notify_all();
        }
    }
}

struct Worker<S> {
    scanner: S,
    block: Vec<u8>,
    range: Range<u64>,
    outcome: Result<()>,
}

impl<S: Scanner> Worker<S> {
    fn new(scanner: S) -> Self {
        Worker { scanner, block: Vec::new(), range: 0..0, outcome: Ok(()) }
    }

    fn run(&mut self, source: &Source<'_>, extent: &Range<u64>, cut: Cut) {
        self.outcome = self.scan(source, extent, cut);
    }

    fn scan(&mut self, source: &Source<'_>, extent: &Range<u64>, cut: Cut) -> Result<()> {
        let Range { start, end } = self.range;
        let at_line = start == extent.start;
        let mut at = if at_line { start } else { start - 1 };
        // The last byte of a range can only start a line of the next one, except where there is none.
        let inner = if end == extent.end { end } else { end - 1 };
        let mut tail = cut.tail.min(cut.block);
        self.scanner.begin(start..end, at_line);
        self.block.resize(cut.block, 0);
        while at < extent.end && self.scanner.wants(at) {
            let step = if at < inner {
                (inner - at).min(cut.block as u64)
            } else {
                let step = (extent.end - at).min(tail as u64);
                tail = (2 * tail).min(cut.block);
                step
            };
            let block = &mut self.block[..step as usize];
            source.read(block, at)?;
            self.scanner.feed(block);
            at += step;
        }
        if at == extent.end {
            self.scanner.finish(at);
        }
        Ok(())
    }
}
