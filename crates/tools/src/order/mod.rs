//! The order in which a reader delivers sequences, without reading their data.
//!
//! The order is a pure function of the seed, the sweep, the randomization window and the table of
//! chunks. [`Look::order`](crate::Look::order) opens and indexes the files of a configuration and
//! returns a [`SequenceOrder`], which iterates over the minibatches of one worker: their sequences,
//! and where these are in the data. [`Shuffle`] measures how well they are mixed.
//!
//! ```
//! # fn main() -> cntk_reader::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # std::env::set_current_dir(&folder).expect("entering the folder");
//! # std::fs::write("train.ctf", "|x 1 |y 2\n".repeat(1000)).expect("writing the data");
//! use cntk_reader_tools::Look;
//! use cntk_reader_tools::order::Shuffle;
//! use cntk_reader::{CtfDeserializer, Epoch, Reader};
//!
//! let data = Reader::builder().ctf(CtfDeserializer::new("train.ctf").dense("x", 1).dense("y", 1));
//! let mut order = data.order(&Epoch::sweeps(1).minibatch_size(100))?;
//! let mut shuffle = Shuffle::default();
//! while let Some(minibatch) = order.next_minibatch()? {
//!     println!("{:?}", minibatch.sequences[0].key);
//!     shuffle.add(minibatch);
//! }
//! assert_eq!(shuffle.sequences(), 1000);
//! // In the file, two sequences that are read one after the other are about 333 apart.
//! assert!((shuffle.neighbours().mean() - 333.0).abs() < 50.0);
//! # Ok(())
//! # }
//! ```

mod distribution;
mod shuffle;

pub use distribution::Distribution;
pub use shuffle::Shuffle;

use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::{AnyDeserializer, Deserializer, Lengths};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::pack::Limits;
use cntk_reader_engine::randomize::Order;
use cntk_reader_engine::randomize::block::BlockRandomizer;
use cntk_reader_engine::randomize::in_order::InOrder;
use cntk_reader_engine::randomize::{Selection, Timeline};
use cntk_reader_engine::reader::settings::ReaderSettings;
use cntk_reader_engine::reader::{Epoch, Extensions, build};
use std::fmt;
use std::sync::Arc;

/// The minibatches of one worker in an epoch: which sequences they have, not their data.
///
/// They are the minibatches that [`Reader`](cntk_reader::Reader) delivers for the same settings and
/// epoch, with two exceptions. Sequences that turn out to be invalid when they are read are still
/// listed. In truncated mode, which spreads the parts of a sequence over several minibatches,
/// sequences are listed in the order of their beginnings, in portions of the minibatch size.
pub struct SequenceOrder {
    table: Arc<dyn Deserializer>,
    timeline: Box<dyn Timeline>,
    corpus: Arc<Corpus>,
    limits: Limits,
    places: Places,
    selection: Selection,
    keys: Vec<u64>,
    minibatch: OrderedMinibatch,
    is_over: bool,
}

/// The sequences of a minibatch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderedMinibatch {
    /// The sequences in the order of the minibatch. Empty if all of them belong to other workers.
    pub sequences: Vec<OrderedSequence>,
    /// Whether it reaches or crosses the end of a sweep.
    pub end_of_sweep: bool,
    /// Samples of all workers from the start of the data to the end of this minibatch: the position
    /// in CNTK's checkpoints.
    pub position: u64,
}

/// A sequence in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderedSequence {
    /// Its key; [`SequenceOrder::key_text`] returns the text.
    pub key: u64,
    /// The chunk that it is in, from 0.
    pub chunk: u32,
    /// Its number among all sequences of the data, from 0.
    pub number: u64,
    /// Its length in samples.
    pub samples: u32,
    /// The sweep that it is read in, from 0.
    pub sweep: u64,
    /// Samples before it in the data.
    pub place: u64,
    /// Samples before it in the order of the sweep. With several workers, the sequences of a
    /// minibatch are assumed to be spread evenly over the samples of all workers.
    pub read_at: u64,
}

impl SequenceOrder {
    /// Opens the data, and begins an epoch.
    pub(crate) fn open(
        settings: &ReaderSettings,
        others: &Extensions<'_>,
        epoch: &Epoch,
    ) -> Result<SequenceOrder> {
        let pool = Pool::shared()?;
        let corpus = build::corpus(settings);
        let opened = build::open_each(settings, others, &corpus, &pool, false).collect::<Result<Vec<_>>>()?;
        let AnyDeserializer::Known(table) = build::compose(settings, opened, &corpus, &pool)? else {
            let message = "The order of these data is not known before they are read.";
            return Err(Error::argument(message)
                .with_detail("Their chunks list their sequences only when they are loaded."));
        };
        Self::over(table, settings, corpus, epoch)
    }

    /// Begins an epoch over data that are already indexed.
    pub(crate) fn over(
        table: Arc<dyn Deserializer>,
        settings: &ReaderSettings,
        corpus: Arc<Corpus>,
        epoch: &Epoch,
    ) -> Result<SequenceOrder> {
        let mut timeline: Box<dyn Timeline> = match settings.order {
            Order::InOrder => Box::new(InOrder::new(table.clone()).at_pace(settings.pace())),
            Order::Block { window, seed } => {
                Box::new(BlockRandomizer::new(table.clone(), window, seed).at_pace(settings.pace()))
            }
        };
        let limits = Limits::of(&epoch.read.pack(), settings.local_timeline)?;
        timeline.start_epoch(&epoch.timeline())?;
        Ok(SequenceOrder {
            places: Places::of(&*table),
            table,
            timeline,
            corpus,
            limits,
            selection: Selection::default(),
            keys: Vec::new(),
            minibatch: OrderedMinibatch::default(),
            is_over: false,
        })
    }

    /// Returns the number of sequences in the data.
    #[must_use]
    pub fn sequences(&self) -> u64 {
        self.places.sequences
    }

    /// Returns the number of samples in the data, the length of a sweep.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.places.samples
    }

    /// Returns the number of chunks.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.table.chunks().len() as u64
    }

    /// Returns the samples of all workers from the start of the data to the next minibatch: the
    /// position in CNTK's checkpoints.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.timeline.position().samples
    }

    /// Continues at a position, as a reader does after restoring a CNTK checkpoint: at the first
    /// sequence that begins this many samples after the start of the data, or later.
    pub fn seek(&mut self, position: u64) -> Result<()> {
        self.is_over = false;
        self.timeline.seek(position)
    }

    /// Returns a key as the data spell it.
    #[must_use]
    pub fn key_text(&self, key: u64) -> String {
        self.corpus.text_of(key)
    }

    /// Returns the next minibatch; `None` at the end of the epoch.
    pub fn next_minibatch(&mut self) -> Result<Option<&OrderedMinibatch>> {
        let before = self.timeline.position().samples;
        if !self.skip_minibatch()? {
            return Ok(None);
        }
        self.describe(before, self.timeline.position().samples);
        Ok(Some(&self.minibatch))
    }

    /// Skips the next minibatch. Returns false at the end of the epoch.
    pub fn skip_minibatch(&mut self) -> Result<bool> {
        if self.is_over {
            return Ok(false);
        }
        self.timeline.next(self.limits.global, self.limits.local, &mut self.selection)?;
        self.is_over = self.selection.end_of_epoch;
        Ok(!self.is_over || !self.selection.sequences.is_empty())
    }

    /// Describes the sequences selected between two positions.
    fn describe(&mut self, before: u64, after: u64) {
        let SequenceOrder { table, places, selection, keys, minibatch, .. } = self;
        keys.clear();
        table.keys(&selection.sequences, keys);
        let length = |id: &cntk_reader_core::sequence::SequenceId| table.lengths(id.chunk).get(id.index);
        let own: u64 = selection.sequences.iter().map(|id| u64::from(length(id))).sum();
        let all = after.saturating_sub(before).max(own);
        minibatch.end_of_sweep = selection.end_of_sweep;
        minibatch.position = after;
        minibatch.sequences.clear();
        let mut passed = 0u64;
        for (position, (id, &key)) in selection.sequences.iter().zip(&*keys).enumerate() {
            let samples = length(id);
            let spread = if own == all { passed } else { scaled(passed, all, own) };
            let (number, place) = places.find(&**table, id.chunk, id.index);
            minibatch.sequences.push(OrderedSequence {
                key,
                chunk: id.chunk,
                number,
                samples,
                sweep: selection.sweep_of(position),
                place,
                read_at: (before + spread) % places.samples.max(1),
            });
            passed += u64::from(samples);
        }
    }
}

impl fmt::Debug for SequenceOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequenceOrder")
            .field("sequences", &self.sequences())
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}

/// `number * factor / divisor`.
fn scaled(number: u64, factor: u64, divisor: u64) -> u64 {
    (u128::from(number) * u128::from(factor) / u128::from(divisor.max(1))) as u64
}

/// Positions of sequences in the data.
struct Places {
    /// Sequences and samples before each chunk.
    chunks: Vec<(u64, u64)>,
    /// For each chunk that was looked up, the samples before each of its sequences, counted from
    /// the start of the chunk; empty if all of its sequences have one sample.
    within: Vec<Box<[u64]>>,
    sequences: u64,
    samples: u64,
}

impl Places {
    fn of(table: &dyn Deserializer) -> Places {
        let (mut sequences, mut samples) = (0u64, 0u64);
        let chunks: Vec<_> = (table.chunks().iter())
            .map(|chunk| {
                let before = (sequences, samples);
                sequences += u64::from(chunk.sequences);
                samples = samples.saturating_add(chunk.samples);
                before
            })
            .collect();
        Places { within: vec![Box::default(); chunks.len()], chunks, sequences, samples }
    }

    /// Returns the number of a sequence in the data, and the samples before it.
    fn find(&mut self, table: &dyn Deserializer, chunk: u32, index: u32) -> (u64, u64) {
        let (sequences, samples) = self.chunks[chunk as usize];
        let within = match table.lengths(chunk) {
            Lengths::Ones => u64::from(index),
            Lengths::Each(lengths) => {
                let within = &mut self.within[chunk as usize];
                if within.is_empty() {
                    let before = lengths.iter().scan(0u64, |sum, &length| {
                        let before = *sum;
                        *sum += u64::from(length);
                        Some(before)
                    });
                    *within = before.collect();
                }
                within[index as usize]
            }
        };
        (sequences + u64::from(index), samples + within)
    }
}

#[cfg(test)]
mod tests;
