//! Epochs of a reader: which one is in force, how far it has come, and which one follows.

use super::barren::BarrenSweep;
use super::checkpoint::Progress;
use super::position::ReaderPosition;
use super::{Epoch, ReadConfig, Reader};
use crate::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_core::{Error, Result};

/// How far the epoch in force has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochState {
    /// It was started, and its end was not reported yet.
    Started,
    /// A checkpoint from its middle was restored:
    /// `Reader::next_epoch` goes on with the rest of it.
    Resumed,
    /// Its end was reported: `Reader::next` gave `None`, or
    /// `Reader::read` a minibatch past the end.
    Over,
}

impl Reader {
    /// Starts an epoch. Needed before the first read.
    ///
    /// Where chunks list their sequences only when they are loaded, an epoch that is measured in
    /// samples and not the first one has to follow an epoch of this size that was read to its end.
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

    /// Starts the epoch after the one in force and returns its number, from 0. It has the size,
    /// workers and flags of `epoch`, whose own number does not matter. Without an epoch in force,
    /// or after one without an end, it is number 0.
    ///
    /// After [`Reader::restore`] the first call goes on with the rest of the checkpoint's epoch,
    /// unless its end was reported before. An error if the epoch in force has another size: then
    /// the number of the next one is not known, and [`Reader::start_epoch`] sets it.
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

    /// The epoch in force and its state; `None` before the first one. A checkpoint that was
    /// restored brings its epoch back.
    pub fn current_epoch(&self) -> Option<(Epoch, EpochState)> {
        self.epoch.map(|(epoch, _)| (epoch, self.state))
    }

    /// Whether everything in the epoch has been delivered, of all workers.
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

    /// Whether the place where the next epoch begins does not depend on the worker that has read
    /// this one.
    pub(super) fn is_at_common_end(&self) -> bool {
        let is_in_sweeps = self.epoch.is_some_and(|(epoch, _)| epoch.timeline().is_in_sweeps());
        self.is_at_end() && (is_in_sweeps || !self.inspection.is_listed())
    }
}

impl Epoch {
    /// The numbers that say how long it is. One sweep can be written in two ways.
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
        "The epochs of this reader had {}, and now one of {} is asked for, whose number is not known.",
        last.describe(),
        next.describe()
    );
    Error::state(message).with_detail("Start it by its 'index', which counts epochs of the new size from 0.")
}
