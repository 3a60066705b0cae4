//! The epochs of a reader: the current one, its state, and the next one.

use super::barren::BarrenSweep;
use super::checkpoint::Progress;
use super::position::ReaderPosition;
use super::{Epoch, ReadConfig, Reader};
use crate::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_core::{Error, Result};

/// The state of the current epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochState {
    /// It was started, and its end is not reported yet.
    Started,
    /// A checkpoint from its middle was restored: `Reader::next_epoch` continues it.
    Resumed,
    /// Its end was reported: `Reader::next` returned `None`, or `Reader::read` a minibatch past the
    /// end.
    Over,
}

impl Reader {
    /// Starts an epoch. Required before the first read.
    ///
    /// If chunks list their sequences only when loaded, an epoch measured in samples must be the
    /// first one, or follow an epoch of this size that was read to its end.
    pub fn start_epoch(&mut self, epoch: &Epoch) -> Result<()> {
        self.check_sizes(&epoch.read)
            .and_then(|()| self.check_capacity(epoch, &epoch.read))
            .map_err(|error| self.worded(error))?;
        let (epoch, start, progress) = self.change(|pipeline| {
            let epoch = pipeline.start_epoch(epoch)?;
            Ok((epoch, pipeline.epoch_start(), pipeline.progress(Progress::default())?))
        })?;
        self.start = start;
        self.epoch = Some((epoch, epoch.read));
        (self.state, self.is_ended) = (EpochState::Started, false);
        self.delivered = progress;
        self.bound = None;
        self.worker = Some((epoch.read.workers, epoch.read.rank));
        self.move_barren(BarrenSweep::go_on);
        self.warn_of_idle_workers(epoch.read.workers);
        Ok(())
    }

    /// Starts the epoch after the current one and returns its number, from 0. It has the size,
    /// workers and flags of `epoch`, whose own number is ignored. Without a current epoch, or after
    /// one without an end, the number is 0.
    ///
    /// After [`Reader::restore`], the first call continues the checkpoint's epoch, unless its end
    /// was already reported. Fails if the current epoch has a different size, because the number of
    /// the next one is then unknown; set it with [`Reader::start_epoch`].
    pub fn start_next_epoch(&mut self, epoch: &Epoch) -> Result<u64> {
        let index = match &self.epoch {
            None => 0,
            Some((last, _)) if !last.has_end() && epoch.has_end() => 0,
            Some((last, _)) if last.size() != epoch.size() => {
                return Err(self.worded(other_size(last, epoch)));
            }
            Some((last, read)) if self.state == EpochState::Resumed => {
                let (index, read) = (last.index, *read);
                let ReadConfig { workers, rank, minibatch_size, cross_sweeps, .. } = epoch.read;
                let wanted = ReadConfig { workers, rank, minibatch_size, cross_sweeps, ..read };
                if wanted != read {
                    self.configure(&wanted)?;
                }
                self.state = EpochState::Started;
                return Ok(index);
            }
            Some((last, _)) => last.index.saturating_add(1),
        };
        self.start_epoch(&epoch.index(index))?;
        Ok(index)
    }

    /// Returns the current epoch and its state, or `None` before the first one. Restoring a
    /// checkpoint also restores its epoch.
    pub fn current_epoch(&self) -> Option<(Epoch, EpochState)> {
        self.epoch.map(|(epoch, _)| (epoch, self.state))
    }

    /// Whether the whole epoch has been delivered, for all workers.
    pub(super) fn is_at_end(&self) -> bool {
        let Some((epoch, _)) = &self.epoch else { return false };
        let timeline = epoch.timeline();
        match self.delivered.position {
            ReaderPosition::Local(position) if timeline.is_in_sweeps() => {
                position.sweeps >= timeline.last_sweep() && self.delivered.queues.is_empty()
            }
            _ => self.progress().is_ok_and(|progress| {
                progress.expected.is_some_and(|expected| progress.delivered >= expected)
            }),
        }
    }

    /// Whether the epoch is over, and the start of the next one is the same for all workers.
    pub(super) fn is_at_common_end(&self) -> bool {
        let is_in_sweeps = self.epoch.is_some_and(|(epoch, _)| epoch.timeline().is_in_sweeps());
        self.is_at_end() && (is_in_sweeps || !self.inspection.is_listed())
    }
}

impl Epoch {
    /// Returns its size in samples and sweeps, in a normalized form: one sweep can be given in two
    /// ways.
    fn size(&self) -> (u64, u64) {
        match (self.samples, self.sweeps) {
            (SIZE_OF_SWEEP, SWEEPS_UNLIMITED) => (0, 1),
            (samples, SWEEPS_UNLIMITED) => (samples, SWEEPS_UNLIMITED),
            (_, sweeps) => (0, sweeps),
        }
    }

    fn has_end(&self) -> bool {
        self.sweeps != SWEEPS_UNLIMITED || self.samples < SIZE_UNLIMITED
    }

    fn describe(&self) -> String {
        match self.size() {
            (_, 1) => "one sweep".to_owned(),
            (samples, SWEEPS_UNLIMITED) if samples >= SIZE_UNLIMITED => "no end".to_owned(),
            (samples, SWEEPS_UNLIMITED) => format!("{samples} samples"),
            (_, sweeps) => format!("{sweeps} sweeps"),
        }
    }
}

fn other_size(last: &Epoch, next: &Epoch) -> Error {
    let message = format!(
        "The epochs of this reader had {}, but one of {} was requested, whose number is unknown.",
        last.describe(),
        next.describe()
    );
    let remedy = "To change the size, start an epoch by its number instead of the next one; epochs of the new size count from 0.";
    Error::state(message).with_detail(remedy)
}
