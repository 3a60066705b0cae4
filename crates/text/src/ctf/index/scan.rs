//! Scans a file in parallel ranges and joins the results in file order.
//!
//! A range owns the lines that start in it. Its scanner is fed from the byte before the range (a
//! line break there starts a line) to the end of the last line that it owns, or as far into that
//! line as it needs. So ranges are independent, and together they give the same result as one scan
//! from front to back.
//!
//! No thread distributes work: a thread that finds the next result in order joins it, and the
//! others scan further ranges. Blocks and scanners are reused, so that memory stays in the cache
//! and does not grow with the file.

use super::source::SourceFile;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::Current;
use cntk_reader_core::runtime::sync::{self, Condvar, Mutex};
use std::collections::VecDeque;
use std::ops::Range;

/// Scans the lines that start in a range. It may be interrupted anywhere: blocks can end at any
/// byte.
pub(super) trait Scanner: Send {
    /// Resets the scanner for another range. `at_line` says whether the first byte fed starts a
    /// line; otherwise the bytes up to the first line break belong to an earlier range.
    fn begin(&mut self, range: Range<u64>, at_line: bool);

    /// Whether the bytes from `offset` on matter. All bytes before `offset` have been fed.
    fn wants(&self, offset: u64) -> bool;

    /// Takes the next bytes. Fails if there is no memory for the result.
    fn feed(&mut self, block: &[u8]) -> Result<()>;

    /// Ends the file, at `offset`.
    fn finish(&mut self, offset: u64) -> Result<()>;
}

/// Sizes of the pieces in which a file is scanned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Bytes of a range.
    pub range: u64,
    /// Bytes read at a time: few enough to stay in a core's private cache.
    pub block: usize,
    /// Bytes of the first read after the end of a range; each further read is twice as long.
    pub tail: usize,
}

impl Default for Cut {
    fn default() -> Self {
        Cut { range: 2 << 20, block: 256 << 10, tail: 4 << 10 }
    }
}

/// Bytes of a block before the file's text. Most blocks of a file begin at a page boundary, and
/// memory that the C library maps begins 16 bytes after one. AMD's Zen 3 copies out of the page
/// cache at a quarter of the speed if the target begins up to 31 bytes later in its page than the
/// source.
const APART: usize = 48;

/// Scans the lines that start in `part` of `extent`, and calls `take` with the scanner of each
/// range, in order. The extent starts with a line, and its end counts as the end of the file; the
/// part may begin and end anywhere in it.
pub(super) fn scan<S: Scanner>(
    source: &SourceFile<'_>,
    extent: Range<u64>,
    part: Range<u64>,
    cut: Cut,
    scanner: impl Fn() -> S,
    take: impl FnMut(&mut S) -> Result<()> + Send,
) -> Result<()> {
    let ranges = (part.end - part.start).div_ceil(cut.range);
    let threads = if ranges > 1 { sync::current_threads() } else { 1 };
    // Enough to keep the other threads busy while one is late with its range.
    let scans = ranges.min(2 * threads as u64 + 1);
    let parallel = ParallelScan {
        queue: Mutex::new(Queue {
            next: part.start,
            pending: VecDeque::new(),
            taken: 0,
            spare: (0..scans).map(|_| RangeScan::new(scanner())).collect(),
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
        parallel.work();
    } else {
        let call = Current::get();
        sync::on_threads(threads, || call.within(|| parallel.work()));
    }
    parallel.queue.into_inner().end.unwrap_or(Ok(()))
}

/// A scan by several threads.
struct ParallelScan<'a, S, T> {
    queue: Mutex<Queue<S>>,
    /// Notified of every change of the queue.
    changed: Condvar,
    take: Mutex<T>,
    source: &'a SourceFile<'a>,
    extent: Range<u64>,
    /// End of the last range.
    end: u64,
    cut: Cut,
}

struct Queue<S> {
    /// Start of the next range.
    next: u64,
    /// The scans of the ranges that are not taken yet, in order; `None` while a thread scans the
    /// range.
    pending: VecDeque<Option<RangeScan<S>>>,
    /// Number of ranges that have been taken.
    taken: usize,
    spare: Vec<RangeScan<S>>,
    /// Whether a thread is taking a range, so that the next range must wait.
    taking: bool,
    /// Set when the scan ends early: by an error, or by a panic of another thread.
    end: Option<Result<()>>,
}

enum Job<S> {
    /// Scan the range with this number.
    Scan(usize, RangeScan<S>),
    /// Take a scanned range.
    Take(RangeScan<S>),
}

impl<S: Scanner, T: FnMut(&mut S) -> Result<()>> ParallelScan<'_, S, T> {
    /// Runs on each thread until all ranges are taken: takes the next range in order if it is
    /// scanned, otherwise scans another.
    fn work(&self) {
        let _stop = StopOnPanic(self);
        while let Some(job) = self.next_job() {
            match job {
                Job::Scan(number, mut scan) => {
                    scan.run(self.source, &self.extent, self.cut);
                    let mut queue = self.queue.lock();
                    let place = number - queue.taken;
                    queue.pending[place] = Some(scan);
                }
                Job::Take(mut scan) => {
                    let taken = (self.take.lock())(&mut scan.scanner);
                    let taken = taken.and(std::mem::replace(&mut scan.outcome, Ok(())));
                    let mut queue = self.queue.lock();
                    queue.taking = false;
                    queue.spare.push(scan);
                    if taken.is_err() {
                        queue.end.get_or_insert(taken);
                    }
                }
            }
            self.changed.notify_all();
        }
    }

    /// Returns the next job, waiting for it if necessary. `None` if nothing is left.
    fn next_job(&self) -> Option<Job<S>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.end.is_some() || queue.pending.is_empty() && queue.next == self.end {
                return None;
            }
            if !queue.taking
                && let Some(scan) = queue.pending.front_mut().and_then(Option::take)
            {
                queue.pending.pop_front();
                queue.taken += 1;
                queue.taking = true;
                return Some(Job::Take(scan));
            }
            if queue.next < self.end
                && let Some(mut scan) = queue.spare.pop()
            {
                let end = self.end.min(queue.next.saturating_add(self.cut.range));
                scan.range = queue.next..end;
                queue.next = end;
                queue.pending.push_back(None);
                return Some(Job::Scan(queue.taken + queue.pending.len() - 1, scan));
            }
            self.changed.wait(&mut queue);
        }
    }
}

/// Ends the scan when its thread panics, so that other threads do not wait for its range.
struct StopOnPanic<'a, 'b, S: Scanner, T: FnMut(&mut S) -> Result<()>>(&'a ParallelScan<'b, S, T>);

impl<S: Scanner, T: FnMut(&mut S) -> Result<()>> Drop for StopOnPanic<'_, '_, S, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.lock().end.get_or_insert(Ok(()));
            self.0.changed.notify_all();
        }
    }
}

struct RangeScan<S> {
    scanner: S,
    block: Vec<u8>,
    range: Range<u64>,
    outcome: Result<()>,
}

impl<S: Scanner> RangeScan<S> {
    fn new(scanner: S) -> Self {
        RangeScan { scanner, block: Vec::new(), range: 0..0, outcome: Ok(()) }
    }

    fn run(&mut self, source: &SourceFile<'_>, extent: &Range<u64>, cut: Cut) {
        self.outcome = self.scan(source, extent, cut);
    }

    fn scan(&mut self, source: &SourceFile<'_>, extent: &Range<u64>, cut: Cut) -> Result<()> {
        let Range { start, end } = self.range;
        let at_line = start == extent.start;
        let mut at = if at_line { start } else { start - 1 };
        // The last byte of a range can only start a line of the next range, unless there is none.
        let inner = if end == extent.end { end } else { end - 1 };
        let mut tail = cut.tail.min(cut.block);
        self.scanner.begin(start..end, at_line);
        room::resize(&mut self.block, APART + cut.block, 0, room::FILE)?;
        while at < extent.end && self.scanner.wants(at) {
            let step = if at < inner {
                (inner - at).min(cut.block as u64)
            } else {
                let step = (extent.end - at).min(tail as u64);
                tail = (2 * tail).min(cut.block);
                step
            };
            let block = &mut self.block[APART..][..step as usize];
            source.read(block, at)?;
            self.scanner.feed(block)?;
            at += step;
        }
        if at == extent.end {
            self.scanner.finish(at)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::file::DataFile;
    use cntk_reader_core::runtime::pool::Pool;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A scanner of the bytes of its range, which panics in the range that begins at byte 48.
    #[derive(Default)]
    struct Panics(Range<u64>);

    impl Scanner for Panics {
        fn begin(&mut self, range: Range<u64>, _at_line: bool) {
            self.0 = range;
        }

        fn wants(&self, offset: u64) -> bool {
            offset < self.0.end
        }

        fn feed(&mut self, _block: &[u8]) -> Result<()> {
            assert_ne!(self.0.start, 48, "on purpose");
            Ok(())
        }

        fn finish(&mut self, _offset: u64) -> Result<()> {
            Ok(())
        }
    }

    /// The other threads do not wait for the range of a thread that panics.
    #[test]
    fn panic_ends_the_scan() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(100).expect("a file");
        let file = DataFile::from_file(file, "f");
        let source = SourceFile::new(&file).expect("a file");
        let cut = Cut { range: 8, block: 4, tail: 2 };
        let mut taken = Vec::new();
        let outcome = Pool::shared().expect("threads").install(|| {
            let take = |scanner: &mut Panics| {
                taken.push(scanner.0.clone());
                Ok(())
            };
            catch_unwind(AssertUnwindSafe(|| scan(&source, 0..100, 0..100, cut, Panics::default, take)))
        });
        assert!(outcome.is_err());
        assert!(taken.len() <= 6 && taken.iter().zip(0..).all(|(range, i)| *range == (8 * i..8 * i + 8)));
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use cntk_reader_core::Error;
    use cntk_reader_core::file::DataFile;
    use cntk_reader_core::runtime::sync::explore;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A scanner that records its range and the number of bytes.
    #[derive(Default)]
    struct Bytes {
        range: Range<u64>,
        fed: u64,
    }

    impl Scanner for Bytes {
        fn begin(&mut self, range: Range<u64>, _at_line: bool) {
            *self = Bytes { range, fed: 0 };
        }

        fn wants(&self, offset: u64) -> bool {
            offset < self.range.end
        }

        fn feed(&mut self, block: &[u8]) -> Result<()> {
            self.fed += block.len() as u64;
            Ok(())
        }

        fn finish(&mut self, _offset: u64) -> Result<()> {
            Ok(())
        }
    }

    const RANGES: u64 = 9;
    const RANGE: u64 = 8;

    /// Every range is taken once and in order, up to a range that fails.
    #[test]
    fn ranges_are_taken_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        std::fs::write(&path, vec![b'x'; (RANGES * RANGE) as usize]).expect("writing the data");
        let path = path.display().to_string();
        let runs = Arc::new(AtomicUsize::new(0));
        explore::random("index, ranges of a file scanned by three threads, failures", move || {
            let fails = match runs.fetch_add(1, Ordering::Relaxed) % 3 {
                0 => None,
                one_or_two => Some(4 * one_or_two as u64),
            };
            let file = DataFile::open(&path).expect("a file");
            let source = SourceFile::new(&file).expect("a file");
            let all = 0..RANGES * RANGE;
            let mut taken = 0;
            let outcome = scan(
                &source,
                all.clone(),
                all,
                Cut { range: RANGE, block: 4, tail: 2 },
                Bytes::default,
                |bytes| {
                    assert_eq!(bytes.range.start, taken * RANGE);
                    assert!(bytes.fed >= RANGE);
                    taken += 1;
                    if fails == Some(taken) { Err(Error::data("on purpose")) } else { Ok(()) }
                },
            );
            assert_eq!((outcome.is_err(), taken), (fails.is_some(), fails.unwrap_or(RANGES)));
        });
    }
}
