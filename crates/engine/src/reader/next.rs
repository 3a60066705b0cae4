//! Delivers minibatches, either as CNTK does, or as training steps up to the end of the epoch. All
//! decisions that bindings rely on (data or not, last or not) are made here.

use super::barren::{self, BarrenSweep};
use super::engine::unusable;
use super::prefetch_batch::Assembled;
use super::{EpochState, Reader, Unsettled};
use crate::pack::Minibatch;
use cntk_reader_core::{Error, Result};
use std::task::Poll;
use std::time::{Duration, Instant};

impl Reader {
    /// Reads the next minibatch, like CNTK's GetMinibatch. It may have no data, and never has past
    /// the end of the epoch; [`Minibatch::is_step`] and [`Minibatch::end_of_epoch`] tell these
    /// cases apart. [`Reader::next`] skips minibatches that are not steps.
    ///
    /// After an error in the data, reading continues after the sequences that could not be
    /// delivered, as in CNTK 2.7. Errors of the kinds
    /// [`ErrorKind::Io`](cntk_reader_core::ErrorKind::Io) and
    /// [`ErrorKind::Memory`](cntk_reader_core::ErrorKind::Memory) may be transient: the next read
    /// retries the same minibatch. Missing files and missing permissions are not transient, and are
    /// treated like errors in the data.
    pub fn read(&mut self) -> Result<Minibatch> {
        self.prepare(None)?;
        self.deliver()
    }

    /// Waits until [`Reader::read`] would not block, for at most `patience`. Returns whether a
    /// minibatch, or an error in its place, is ready. It stays ready until it is read, and
    /// meanwhile a thread of the reader continues reading. May take longer than `patience` if that
    /// thread cannot be started, and after a failed or cancelled call, whose effects are undone
    /// first.
    pub fn wait(&mut self, patience: Duration) -> Result<bool> {
        self.prepare(Some(deadline(patience)))
    }

    /// Whether [`Reader::next`] would not block: a minibatch or an error is ready, or the epoch is
    /// over.
    pub fn is_next_ready(&self) -> bool {
        self.is_ended || self.is_read_ready()
    }

    /// Whether [`Reader::read`] would not block.
    pub fn is_read_ready(&self) -> bool {
        self.unsettled != Unsettled::Beyond && self.engine.is_ready()
    }

    /// Blocks until [`Reader::read`] would not block. Costs no more than reading, unlike
    /// [`Reader::wait`], which uses a thread of the reader.
    pub fn make_ready(&mut self) -> Result<()> {
        self.prepare(None).map(drop)
    }

    /// Returns the next step of the epoch: a minibatch with data or, in lockstep, one in which all
    /// workers take part. Returns `None` at the end of the epoch, and on every later call. Fails
    /// like [`Reader::read`]; the next call continues after the error.
    #[expect(clippy::should_implement_trait, reason = "an error does not end the steps of a reader")]
    pub fn next(&mut self) -> Result<Option<Minibatch>> {
        match self.step(None)? {
            Poll::Ready(step) => Ok(step),
            Poll::Pending => Err(unusable()),
        }
    }

    /// Like [`Reader::next`], but waits for at most `patience`. If the result is pending, nothing
    /// is lost: a later call delivers the minibatch. See [`Reader::wait`] for exceptions.
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

    /// Waits until a minibatch, or an error in its place, is ready. Returns false at the deadline.
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

    /// Delivers the minibatch that is ready.
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
            // The error already reports the problem.
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
            // Other workers have more data.
            EpochState::Over => EpochState::Started,
            state => state,
        };
        Ok(minibatch)
    }

    /// Returns an error if the last minibatch completes a sweep without data.
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

/// Returns the end of the waiting time, or a time far in the future if it overflows.
fn deadline(patience: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(patience).unwrap_or_else(|| now + Duration::from_secs(u32::MAX.into()))
}
