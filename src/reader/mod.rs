//! The reader: builds the pipeline from its options and drives it.

use crate::config::options::ReaderOptions;
use crate::corpus::Corpus;
use crate::pack::Minibatch;
use crate::stream::StreamInfo;
use crate::{Error, Result};
use std::sync::Arc;

/// Sizes, workers and flags of the minibatches to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadConfig {
    /// Number of workers, at least 1.
    pub workers: u64,
    /// This worker, from 0.
    pub rank: u64,
    /// Minibatch size in samples of all workers.
    pub minibatch: u64,
    /// Steps of a truncated minibatch. When an epoch starts, the configuration's `truncationLength` takes its place.
    pub truncation: u64,
    /// Overlap of truncated minibatches. When an epoch starts, the configuration's `rightSplice` takes its place.
    pub right_splice: u64,
    /// A minibatch may go on behind the end of a sweep.
    pub cross_sweeps: bool,
}

/// An epoch to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStart {
    /// Sizes, workers and flags.
    pub read: ReadConfig,
    /// Epoch size in samples, see [`crate::randomize::EpochConfig::samples`].
    pub samples: u64,
    /// Epoch size in sweeps, see [`crate::randomize::EpochConfig::sweeps`].
    pub sweeps: u64,
    /// Which epoch, from 0.
    pub index: u64,
}

/// CNTK's name of the one entry in the state of a reader.
pub const POSITION_KEY: &str = "minibatchSourcePosition";

/// Reads minibatches.
pub struct Reader {
    streams: Vec<StreamInfo>,
    corpus: Arc<Corpus>,
}

impl Reader {
    /// Builds a reader; opens and indexes its files, loads no data yet.
    pub fn open(_options: &ReaderOptions) -> Result<Reader> {
        Err(Error::internal("not written yet"))
    }

    /// The streams as delivered, by number: sparse streams are dense in truncated mode.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// The texts of sequence keys.
    pub fn corpus(&self) -> &Arc<Corpus> {
        &self.corpus
    }

    /// Starts an epoch. Needed before the first read.
    pub fn start_epoch(&mut self, _epoch: &EpochStart) -> Result<()> {
        Err(Error::internal("not written yet"))
    }

    /// Changes sizes, workers and flags between two minibatches; the position stays, queued data of the truncated mode
    /// is dropped (CNTK 2.7 does so).
    pub fn configure(&mut self, _config: &ReadConfig) -> Result<()> {
        Err(Error::internal("not written yet"))
    }

    /// Reads the next minibatch. At the end of the epoch: one without streams, again and again.
    pub fn read(&mut self) -> Result<Minibatch> {
        Err(Error::internal("not written yet"))
    }

    /// CNTK's checkpoint state: that of the minibatch last delivered.
    pub fn state(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Restores CNTK's checkpoint state; keys that are not known are ignored, a missing one is an error.
    pub fn set_state(&mut self, _state: &[(&str, u64)]) -> Result<()> {
        Err(Error::internal("not written yet"))
    }

    /// A checkpoint that continues exactly, in every mode: opaque, versioned, checksummed.
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        Err(Error::internal("not written yet"))
    }

    /// Restores what [`Reader::checkpoint`] gave. Also starts the epoch that it was taken in, so a new reader can
    /// continue at once. Refuses a checkpoint of other data or another configuration, saying what differs.
    pub fn restore(&mut self, _checkpoint: &[u8]) -> Result<()> {
        Err(Error::internal("not written yet"))
    }
}
