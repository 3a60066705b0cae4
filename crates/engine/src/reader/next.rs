//! Delivers minibatches: one after the other as CNTK does, or step by step to the end of the epoch.
//! Everything that a binding has to know about a minibatch (data or not, last or not) is decided
//! here.

use super::barren::{self, BarrenSweep};
use super::engine::unusable;
use super::prefetch_batch::Assembled;
use super::{EpochState, Reader, Unsettled};
use crate::pack::Minibatch;
use cntk_reader_core::{Error, Result};
use std::task::Poll;
use std::time::{Duration, Instant};

impl Reader {
    /// Reads the next minibatch, as CNTK's GetMinibatch does. It may have no data, and past the end
    /// of the epoch it never has: [`Minibatch::is_step`] and [`Minibatch::end_of_epoch`] tell these
    /// apart. [`Reader::next`] leaves out the minibatches that are no step.
    ///
    /// After an error in the data the reader goes on after the sequences that could not be
    /// delivered, as CNTK 2.7 does. An error of the kind
    /// [`ErrorKind::Io`](cntk_reader_core::ErrorKind::Io) or
    /// [`ErrorKind::Memory`](cntk_reader_core::ErrorKind::Memory) may pass: the next read tries to
    /// deliver the same minibatch. A file that is missing, or that this process may not read, stays
    /// so, and the reader goes on as after an error in the data.
    pub fn read(&mut self) -> Result<Minibatch> {
        self.prepare(None)?;
        self.deliver()
    }

    /// Waits until [`Reader::read`] does not have to wait, but no longer than `patience`. Returns
    /// whether a minibatch, or an error in its place, is ready. It stays so until it is read, and
    /// reading goes on on a thread of the reader's while the caller does something else. Only if
    /// that thread cannot be started, and after a call that failed or was cancelled, whose effects
    /// are undone first, may this take longer.
    pub fn wait(&mut self, patience: Duration) -> Result<bool> {
        self.prepare(Some(deadline(patience)))
    }

    /// Whether [`Reader::next`] does not have to wait: a minibatch is ready, or an error in its
    /// place, or the epoch is over.
    pub fn is_next_ready(&self) -> bool {
        self.is_ended || self.is_read_ready()
    }

    /// Whether [`Reader::read`] does not have to wait.
    pub fn is_read_ready(&self) -> bool {
        self.unsettled != Unsettled::Beyond && self.engine.is_ready()
    }

    /// Waits, on this thread, until [`Reader::read`] does not have to wait. Unlike
    /// [`Reader::wait`], which takes a thread of the reader's, this costs no more than reading
    /// does.
    pub fn make_ready(&mut self) -> Result<()> {
        self.prepare(None).map(drop)
    }

    /// The next step of the epoch: a minibatch with data or, in lockstep, one that all workers take
    /// part in. `None` at the end of the epoch, again and again. Errors are those of
    /// [`Reader::read`]; the next call goes on after them.
    #[expect(clippy::should_implement_trait, reason = "an error does not end the steps of a reader")]
    pub fn next(&mut self) -> Result<Option<Minibatch>> {
        match self.step(None)? {
            Poll::Ready(step) => Ok(step),
            Poll::Pending => Err(unusable()),
        }
    }

    /// [`Reader::next`], which waits no longer than `patience`. If it is pending, nothing is lost:
    /// a later call delivers what this one has waited for. As to exceptions, see [`Reader::wait`].
    pub fn next_within(&mut self, patience: Duration) -> Result<Poll<Option<Minibatch>>> {
        self.step(Some(deadline(patience)))
    }

    fn step(&mut self, deadline: Option<Instant>) -> Result<Poll<Option<Minibatch>>> {
        self.epoch()?;
        while !self.is_ended {
            if !self.prepare(deadline)? {
                return Ok(Poll::Pending);
            }
            let minibatch = self.deliver()?;
            if minibatch.is_step {
                return Ok(Poll::Ready(Some(minibatch)));
            }
        }
        self.state = EpochState::Over;
        Ok(Poll::Ready(None))
    }

    /// Waits until a minibatch, or an error in its place, is ready. False if none is at the
    /// deadline.
    fn prepare(&mut self, deadline: Option<Instant>) -> Result<bool> {
        self.epoch()?;
        if self.unsettled == Unsettled::Beyond {
            self.run(|reader| reader.recall().map(drop))?;
        }
        match self.engine.is_ready() {
            true => Ok(true),
            false => self.run(|reader| reader.refill(deadline)),
        }
    }

    /// Hands out what is ready.
    fn deliver(&mut self) -> Result<Minibatch> {
        self.take_ready().map_err(|error| self.worded(error))
    }

    fn take_ready(&mut self) -> Result<Minibatch> {
        let takes_part = self.lockstep && !self.is_at_end();
        let Assembled { minibatch, progress } = self.engine.batch.pop().ok_or_else(unusable)?;
        if minibatch.as_ref().is_err_and(Error::may_pass) {
            self.unsettled = Unsettled::Beyond;
            return minibatch;
        }
        self.engine.batch.spare = std::mem::replace(&mut self.delivered, progress);
        self.bound = None;
        if minibatch.as_ref().is_ok_and(|minibatch| minibatch.end_of_sweep) {
            self.inspection.end_sweep();
        }
        if minibatch.is_err() {
            // Which says enough.
            self.move_barren(BarrenSweep::begin);
        }
        let mut minibatch = minibatch?;
        if let Some(error) = self.check_barren(&minibatch) {
            return Err(error);
        }
        minibatch.is_step = takes_part || !minibatch.streams.is_empty();
        self.is_ended = minibatch.end_of_epoch;
        self.state = match self.state {
            _ if self.is_ended && !minibatch.is_step => EpochState::Over,
            // Other workers have more to read.
            EpochState::Over => EpochState::Started,
            state => state,
        };
        Ok(minibatch)
    }

    /// The error of a sweep that delivers nothing, if the minibatch read last ends one.
    fn check_barren(&mut self, minibatch: &Minibatch) -> Option<Error> {
        let barren = self.barren.as_mut()?;
        if !minibatch.streams.is_empty() {
            barren.begin(&self.delivered);
            return None;
        }
        let chunks = match self.engine.pipeline() {
            Some(pipeline) if minibatch.end_of_epoch => pipeline.empty_chunks(),
            _ => None,
        };
        match chunks {
            Some(chunks) => Some(barren::no_sequences(chunks)),
            None => {
                let is_end = minibatch.end_of_sweep || minibatch.end_of_epoch;
                barren.pass(&self.delivered, is_end, self.inspection.sizes().samples)
            }
        }
    }
}

/// The moment at which patience ends. Centuries are enough where it would not be a moment.
fn deadline(patience: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(patience).unwrap_or_else(|| now + Duration::from_secs(u32::MAX.into()))
}
