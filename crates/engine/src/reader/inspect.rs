//! What a caller can ask of a reader beside minibatches: how much data there is, how far the epoch has come, how much
//! memory is in use, and which size of chunks suits a number of workers.

use super::checkpoint::Progress;
use super::epoch::Epoch;
use super::position::ReaderPosition;
use crate::randomize::SIZE_UNLIMITED;
use cntk_reader_core::Result;
use cntk_reader_core::format::options::{Facts, Format};
use cntk_reader_core::format::{AnyDeserializer, ChunkTableExt};
use std::fmt;
use std::sync::OnceLock;

/// How much data there is. `None`: not known, because the index is not complete yet, or because the chunks list their
/// sequences only when they are loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Samples of one sweep, in declared lengths: the unit of minibatch sizes and epochs.
    pub samples: Option<u64>,
    /// Sequences of one sweep.
    pub sequences: Option<u64>,
    /// Chunks.
    pub chunks: Option<u64>,
}

impl Sizes {
    /// Sizes of a deserializer's data, as far as they are known without waiting.
    fn of(deserializer: &AnyDeserializer) -> Sizes {
        let table = match deserializer {
            AnyDeserializer::Known(table) => table,
            AnyDeserializer::Listing(listing) => {
                return Sizes { chunks: Some(listing.chunk_count().into()), ..Sizes::default() };
            }
        };
        if !table.index_progress().all {
            return Sizes::default();
        }
        let chunks = table.chunks();
        let count = Some(chunks.len() as u64);
        // A chunk of a table has sequences, unless its deserializer does not say how many.
        if chunks.iter().any(|chunk| chunk.sequences == 0) {
            return Sizes { chunks: count, ..Sizes::default() };
        }
        Sizes {
            samples: Some(chunks.iter().map(|chunk| chunk.samples).fold(0, u64::saturating_add)),
            sequences: Some(chunks.iter().map(|chunk| u64::from(chunk.sequences)).sum()),
            chunks: count,
        }
    }
}

/// A deserializer with its sizes, which are added up once.
struct Measured {
    deserializer: AnyDeserializer,
    sizes: OnceLock<Sizes>,
}

impl Measured {
    fn sizes(&self) -> Sizes {
        if let Some(sizes) = self.sizes.get() {
            return *sizes;
        }
        let sizes = Sizes::of(&self.deserializer);
        // An index that is still being made has no number of chunks, and is asked again.
        if sizes.chunks.is_some() { *self.sizes.get_or_init(|| sizes) } else { sizes }
    }
}

/// One of a reader's deserializers.
pub struct Member {
    name: String,
    kind: String,
    facts: Facts,
    measured: Measured,
}

impl Member {
    pub(super) fn new(format: &dyn Format, deserializer: AnyDeserializer) -> Member {
        Member {
            name: format.name().to_owned(),
            kind: format.type_name().to_owned(),
            facts: format.facts(),
            measured: Measured { deserializer, sizes: OnceLock::new() },
        }
    }

    /// What messages call it: its file, or the name of a user's deserializer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its `type` in the configuration.
    pub fn type_name(&self) -> &str {
        &self.kind
    }

    /// Whether its sequences have keys. Those of CNTK's binary format report the key 0.
    pub fn has_keys(&self) -> bool {
        !self.facts.lacks_keys
    }

    /// How much data it has, whether or not the other deserializers have partners for its sequences.
    pub fn sizes(&self) -> Sizes {
        self.measured.sizes()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Member { name, kind, .. } = self;
        f.debug_struct("Member").field("name", name).field("type_name", kind).finish_non_exhaustive()
    }
}

/// How far an epoch has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpochProgress {
    /// Samples from the first one of the epoch to the end of the minibatch last delivered.
    ///
    /// Samples of all workers count, because workers share out one order; only where chunks list their sequences when
    /// they are loaded does each worker have an order of its own, and count its own samples. Truncated minibatches leave
    /// over parts of sequences: what this reader still holds of them does not count.
    pub delivered: u64,
    /// Samples that the epoch has, counted as in `delivered`. `None` if the epoch has no end, or if how many these are
    /// is not known (yet). The last sequence of an epoch is delivered whole, so `delivered` may end a little above.
    pub expected: Option<u64>,
    /// The sweep, from 0, that the next sample belongs to.
    pub sweep: u64,
}

/// Memory that a reader holds, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Chunks: those of the window, those loaded ahead, and memory that waits for the next ones.
    pub window: u64,
    /// Minibatches: those that the caller has, those that are ready or being packed, and those that wait to be used again.
    pub buffers: u64,
    /// Tables of chunks, sequences and keys.
    pub index: u64,
}

impl MemoryUse {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.window + self.buffers + self.index
    }
}

/// An epoch that was started, as progress is measured in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EpochStart {
    /// Samples before its first one: [`ReaderPosition::samples`] when it was started.
    pub first: u64,
    /// This worker's samples, where each worker has an order of its own and the epoch is measured in samples.
    pub own: Option<u64>,
}

/// Chunks that each worker should have in a window. Chunks are dealt out one by one, so the workers' shares of a window
/// differ by at most one chunk, here an eighth of a share; with fewer chunks than workers some would get nothing.
const CHUNKS_PER_WORKER: u64 = 8;

/// CNTK's default for `chunkSizeInBytes`. Larger chunks are read no faster, and take more memory.
const USUAL_CHUNK: u64 = 32 << 20;

/// Smaller chunks are not suggested for large data with small windows: each takes a place in the index, a read and a task.
const SMALL_CHUNK: u64 = 256 << 10;

/// The size of chunks for data of `bytes` with a sweep of `samples`, of which `window` samples are randomized together.
fn chunk_size(bytes: u64, samples: Option<u64>, window: Option<u64>, workers: u64) -> u64 {
    let chunks = CHUNKS_PER_WORKER.saturating_mul(workers.max(1));
    let in_window = match (window, samples) {
        (Some(window), Some(samples)) if window < samples => {
            (u128::from(bytes) * u128::from(window) / u128::from(samples)) as u64
        }
        _ => bytes,
    };
    let least = SMALL_CHUNK.min(bytes / chunks);
    (in_window / chunks).max(least).clamp(1, USUAL_CHUNK)
}

/// What a reader needs to answer the questions of this module.
pub(super) struct Inspection {
    whole: Measured,
    members: Vec<Member>,
    /// The randomization window, if it is in samples.
    window: Option<u64>,
}

impl Inspection {
    pub(super) fn new(
        deserializer: AnyDeserializer,
        members: Vec<Member>,
        window: Option<u64>,
    ) -> Inspection {
        Inspection { whole: Measured { deserializer, sizes: OnceLock::new() }, members, window }
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.whole.sizes()
    }

    /// Whether the chunks list their sequences when they are loaded.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.whole.deserializer, AnyDeserializer::Listing(_))
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Progress in an epoch, at the end of what was delivered.
    pub(super) fn progress(
        &self,
        epoch: &Epoch,
        start: EpochStart,
        delivered: &Progress,
    ) -> Result<EpochProgress> {
        let sweep_samples = self.sizes().samples;
        let Progress { position, held, .. } = delivered;
        Ok(match position {
            ReaderPosition::Global(position) => {
                let config = epoch.timeline();
                let span = match sweep_samples {
                    Some(samples) => Some(config.span(samples)?),
                    None if config.is_in_sweeps() => None,
                    None => Some(config.span(0)?),
                };
                // A worker without any chunk is sent to the epoch's end when the epoch starts.
                let is_idle = span.is_some_and(|span| start.first >= span.end);
                let first = if is_idle { span.map_or(0, |span| span.start) } else { start.first };
                let expected = span.filter(|span| span.end < SIZE_UNLIMITED);
                EpochProgress {
                    delivered: position.samples.saturating_sub(first).saturating_sub(*held),
                    expected: expected.map(|span| span.end.saturating_sub(first)),
                    // Nothing leads out of the first sweep before its length is known.
                    sweep: sweep_samples
                        .and_then(|samples| position.samples.checked_div(samples))
                        .unwrap_or(0),
                }
            }
            ReaderPosition::Local(position) => EpochProgress {
                delivered: position.samples.saturating_sub(*held),
                expected: start.own.filter(|_| epoch.timeline().samples < SIZE_UNLIMITED),
                sweep: position.sweeps,
            },
        })
    }

    /// Memory of the deserializers, with minibatches of these bytes.
    pub(super) fn memory(&self, buffers: u64) -> MemoryUse {
        let held = self.whole.deserializer.source().memory();
        MemoryUse { window: held.chunks, buffers, index: held.index }
    }

    /// Lets the deserializers sum up their warnings.
    pub(super) fn end_sweep(&self) {
        self.whole.deserializer.source().diagnostics().end_sweep();
    }

    /// A warning if there are fewer chunks than workers, who get whole chunks.
    pub(super) fn about_idle_workers(&self, workers: u64, lockstep: bool) -> Option<String> {
        let (chunks, primary) = (self.sizes().chunks?, self.members.first()?);
        if workers <= chunks {
            return None;
        }
        let idle = match workers - chunks {
            1 => format!("the worker of rank {chunks} gets"),
            _ => format!("the workers of rank {chunks} to {} get", workers - 1),
        };
        let remedy = match primary.facts.suggests_chunk_size {
            true => format!(
                "Set ‹chunk_size = {}› of '{}', or less",
                self.suggest_chunk_size(workers),
                primary.name()
            ),
            false => "Divide the data into smaller chunks".to_owned(),
        };
        let consequence = match lockstep {
            true => "",
            false => {
                " A worker without data takes part in no step of training: programs that wait for all workers, as all-reduce does, \
                 have to expect that."
            }
        };
        Some(format!(
            "{workers} workers share {chunks} {} of '{}': {idle} no data. {remedy}; or use fewer workers, or \
             ‹randomize = false›, which shares out sequences in turn.{consequence}",
            if chunks == 1 { "chunk" } else { "chunks" },
            primary.name()
        ))
    }

    pub(super) fn suggest_chunk_size(&self, workers: u64) -> u64 {
        let Some(primary) = self.members.first() else { return USUAL_CHUNK };
        match primary.measured.deserializer.source().file_bytes() {
            Some(bytes) => chunk_size(bytes, primary.sizes().samples, self.window, workers),
            None => USUAL_CHUNK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_chunks_give_each_worker_several_of_a_window() {
        let gigabyte = 1 << 30;
        assert_eq!(chunk_size(100 * gigabyte, Some(1000), None, 4), USUAL_CHUNK);
        assert_eq!(chunk_size(gigabyte, Some(1000), None, 8), gigabyte / 64);
        // A tenth of the samples in a window, so a tenth of the bytes.
        assert_eq!(chunk_size(gigabyte, Some(1000), Some(100), 8), gigabyte / 640);
        assert_eq!(chunk_size(100 * gigabyte, Some(1 << 40), Some(1000), 8), SMALL_CHUNK);
        // Small data are still shared out.
        assert_eq!(chunk_size(32_000, Some(10), Some(3), 4), 1000);
        assert_eq!(chunk_size(0, None, None, 0), 1);
        assert_eq!(chunk_size(u64::MAX, Some(1), Some(0), u64::MAX >> 4), 2);
        assert_eq!(chunk_size(gigabyte, Some(1000), None, u64::MAX), 1);
    }
}
