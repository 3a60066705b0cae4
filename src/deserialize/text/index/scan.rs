//! Scans a file in parallel ranges and hands their pieces on in the file's order.
//!
//! A range owns the lines that start in it. Its scanner is fed from the byte before the range (a line break there
//! starts a line) to the end of the last line it owns, or as far of that line as it needs. So ranges know nothing of
//! each other, and the pieces together say what one scan from front to back would have said.
//!
//! Ranges are scanned in waves; while one is scanned, the pieces of the one before are taken. Blocks and pieces are
//! used again, so that memory stays warm and does not grow with the file.

use super::read::Source;
use crate::Result;
use rayon::prelude::*;
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

/// Scans `extent`, which starts with a line, and calls `take` with the scanner of each range in order.
pub(super) fn scan<S: Scanner>(
    source: &Source<'_>,
    extent: Range<u64>,
    cut: Cut,
    scanner: impl Fn() -> S,
    mut take: impl FnMut(&mut S) -> Result<()> + Send,
) -> Result<()> {
    let width = if extent.end - extent.start <= cut.range { 1 } else { 2 * rayon::current_num_threads() };
    let mut wave: Vec<Worker<S>> = Vec::new();
    let mut ready: Vec<Worker<S>> = Vec::new();
    let mut spare: Vec<Worker<S>> = Vec::new();
    let mut next = extent.start;
    loop {
        while wave.len() < width && next < extent.end {
            let mut worker = spare.pop().unwrap_or_else(|| Worker::new(scanner()));
            worker.range = next..extent.end.min(next.saturating_add(cut.range));
            next = worker.range.end;
            wave.push(worker);
        }
        if wave.is_empty() && ready.is_empty() {
            return Ok(());
        }
        let mut take_ready = || {
            ready.iter_mut().try_for_each(|worker| {
                take(&mut worker.scanner)?;
                std::mem::replace(&mut worker.outcome, Ok(()))
            })
        };
        let taken = match wave.as_mut_slice() {
            [] => take_ready(),
            [only] => {
                let taken = take_ready();
                only.run(source, &extent, cut);
                taken
            }
            all => {
                let all = all.par_iter_mut().with_max_len(1);
                rayon::join(take_ready, || all.for_each(|worker| worker.run(source, &extent, cut))).0
            }
        };
        taken?;
        spare.append(&mut ready);
        std::mem::swap(&mut ready, &mut wave);
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
