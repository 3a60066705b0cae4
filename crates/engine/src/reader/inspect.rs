//! Information about a reader: the amount of data, the progress of the epoch, memory use, and a
//! suitable chunk size for a number of workers.

use super::checkpoint::Progress;
use super::epoch::Epoch;
use super::position::ReaderPosition;
use crate::randomize::SIZE_UNLIMITED;
use cntk_reader_core::Result;
use cntk_reader_core::format::options::{Facts, Format};
use cntk_reader_core::format::{AnyDeserializer, ChunkTableExt};
use std::fmt;
use std::sync::OnceLock;

/// The amount of data. `None` means unknown, because the index is incomplete, or because chunks
/// list their sequences only when loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sizes {
    /// Samples of one sweep, by declared lengths: the unit of minibatch sizes and epochs.
    pub samples: Option<u64>,
    /// Sequences of one sweep.
    pub sequences: Option<u64>,
    /// Chunks.
    pub chunks: Option<u64>,
}

impl Sizes {
    /// Returns the sizes of a deserializer's data that are known without waiting.
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
        // Chunks in a table have sequences, unless their deserializer does not report the number.
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

/// A deserializer with its sizes, which are computed once.
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
        // While the index is incomplete, the number of chunks is unknown; do not cache that.
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

    /// Returns its name in messages: its file, or the name of a user's deserializer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its `type` in the configuration.
    pub fn type_name(&self) -> &str {
        &self.kind
    }

    /// Whether its sequences have keys. Sequences in CNTK's binary format report the key 0.
    pub fn has_keys(&self) -> bool {
        !self.facts.lacks_keys
    }

    /// Returns the amount of its data, whether or not its sequences have partners in the other
    /// deserializers.
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

/// The progress of an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpochProgress {
    /// Samples from the first one of the epoch to the end of the minibatch last delivered.
    ///
    /// Counts the samples of all workers, because they share one order. Only if chunks list their
    /// sequences when loaded does each worker have its own order, and count its own samples. Parts
    /// of sequences held back for later truncated minibatches do not count.
    pub delivered: u64,
    /// Samples in the epoch, counted as in `delivered`. `None` if the epoch has no end, or if the
    /// number is not known (yet). The last sequence of an epoch is delivered whole, so `delivered`
    /// may end slightly higher.
    pub expected: Option<u64>,
    /// The sweep, from 0, of the next sample.
    pub sweep: u64,
}

/// The memory held by a reader, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// Chunks in the window, prefetched chunks, and memory reserved for the next ones.
    pub window: u64,
    /// Minibatches held by the caller, ready, being packed, or idle in the pool.
    pub buffers: u64,
    /// Tables of chunks, sequences and keys.
    pub index: u64,
}

impl MemoryUse {
    /// Returns the total.
    pub fn total(&self) -> u64 {
        self.window + self.buffers + self.index
    }
}

/// The start of an epoch, for measuring progress.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EpochStart {
    /// Samples before its first one: [`ReaderPosition::samples`] at the start.
    pub first: u64,
    /// The number of this worker's samples, if each worker has its own order and the epoch is
    /// measured in samples.
    pub own: Option<u64>,
}

/// Recommended number of chunks per worker in a window. Chunks are assigned in turn, so the
/// workers' shares of a window differ by at most one chunk, here an eighth of a share; with fewer
/// chunks than workers, some would get nothing.
const CHUNKS_PER_WORKER: u64 = 8;

/// CNTK's default for `chunkSizeInBytes`. Larger chunks are not faster, and take more memory.
const USUAL_CHUNK: u64 = 32 << 20;

/// Minimum suggestion for large data with small windows: each chunk costs an index entry, a read
/// and a task.
const SMALL_CHUNK: u64 = 256 << 10;

/// Returns the chunk size for data of `bytes` with a sweep of `samples`, of which `window` samples
/// are randomized together.
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

/// The data behind a reader's information methods.
pub(super) struct Inspection {
    whole: Measured,
    members: Vec<Member>,
    /// The randomization window, if given in samples.
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

    /// Whether chunks list their sequences only when loaded.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.whole.deserializer, AnyDeserializer::Listing(_))
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the progress in an epoch, at the end of the delivered data.
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
                // A worker without chunks starts at the epoch's end.
                let is_idle = span.is_some_and(|span| start.first >= span.end);
                let first = if is_idle { span.map_or(0, |span| span.start) } else { start.first };
                let expected = span.filter(|span| span.end < SIZE_UNLIMITED);
                EpochProgress {
                    delivered: position.samples.saturating_sub(first).saturating_sub(*held),
                    expected: expected.map(|span| span.end.saturating_sub(first)),
                    // The first sweep cannot be left before its length is known.
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

    /// Returns the memory use, given the bytes held by minibatches.
    pub(super) fn memory(&self, buffers: u64) -> MemoryUse {
        let held = self.whole.deserializer.source().memory();
        MemoryUse { window: held.chunks, buffers, index: held.index }
    }

    /// Makes the deserializers summarize their warnings.
    pub(super) fn end_sweep(&self) {
        self.whole.deserializer.source().diagnostics().end_sweep();
    }

    /// Returns a warning if there are fewer chunks than workers, because workers get whole chunks.
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
                " A worker without data takes no training steps: programs that wait for all workers, for example in an all-reduce, \
                 must allow for that."
            }
        };
        Some(format!(
            "{workers} workers share {chunks} {} of '{}': {idle} no data. {remedy}; or use fewer workers, or \
             ‹randomize = false›, which distributes sequences in turn.{consequence}",
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
    use crate::reader::tests::source::{InMemory, Source};
    use cntk_reader_core::format::SourceMemory;
    use std::sync::Arc;

    fn sizes(samples: Option<u64>, sequences: Option<u64>, chunks: Option<u64>) -> Sizes {
        Sizes { samples, sequences, chunks }
    }

    #[test]
    fn sizes_are_those_known_without_waiting() {
        let source = Arc::new(Source::new(&[&[2, 1], &[4]]));
        let of_known = sizes(Some(7), Some(3), Some(2));
        let some = Arc::new(Source::new(&[&[2, 1], &[]]));
        for (deserializer, expected) in [
            (source.known(), of_known),
            (source.listing(), sizes(None, None, Some(2))),
            // Its format does not know the numbers of sequences.
            (some.known(), sizes(None, None, Some(2))),
        ] {
            assert_eq!(Sizes::of(&deserializer), expected);
            let measured = Measured { deserializer, sizes: OnceLock::new() };
            assert_eq!([measured.sizes(), measured.sizes()], [expected; 2]);
        }
        let growing = Arc::new(Source { grows_from: Some(1), ..Source::new(&[&[2, 1], &[4]]) });
        let measured = Measured { deserializer: growing.known(), sizes: OnceLock::new() };
        assert_eq!(measured.sizes(), Sizes::default());
        let AnyDeserializer::Known(table) = growing.known() else { panic!("it is known") };
        assert_eq!(table.chunks().len(), 2);
        assert_eq!(measured.sizes(), of_known);
    }

    #[test]
    fn members_describe_their_deserializers() {
        let source = Arc::new(Source::new(&[&[2, 1], &[4]]));
        for lacks_keys in [false, true] {
            let member = InMemory { lacks_keys, ..InMemory::new("a.bin", &source) }.member();
            let described = (member.name(), member.type_name(), member.has_keys());
            assert_eq!(described, ("a.bin", "InMemoryDeserializer", !lacks_keys));
            assert_eq!(member.sizes(), sizes(Some(7), Some(3), Some(2)));
            let expected = "Member { name: \"a.bin\", type_name: \"InMemoryDeserializer\", .. }";
            assert_eq!(format!("{member:?}"), expected);
        }
    }

    #[test]
    fn inspection_adds_up_memory_and_sweeps() {
        let memory = SourceMemory { chunks: 100, index: 20 };
        let source = Arc::new(Source { memory, ..Source::twelve() });
        let inspection = Inspection::new(source.known(), vec![], None);
        let memory = inspection.memory(3);
        assert_eq!((memory.window, memory.buffers, memory.index, memory.total()), (100, 3, 20, 123));
        inspection.end_sweep();
        assert_eq!((inspection.is_listed(), source.sweeps()), (false, 1));
        assert!(Inspection::new(source.listing(), vec![], None).is_listed());
    }

    #[test]
    fn idle_workers_are_named_with_a_remedy() {
        let (source, one) = (Arc::new(Source::twelve()), Arc::new(Source::new(&[&[1; 4]])));
        let about = |source: &Arc<Source>, workers, lockstep, suggests_chunk_size| {
            let member = InMemory { suggests_chunk_size, ..InMemory::new("a.bin", source) }.member();
            Inspection::new(source.known(), vec![member], None).about_idle_workers(workers, lockstep)
        };
        assert_eq!(about(&source, 3, false, false), None);
        let text = |workers, lockstep| about(&source, workers, lockstep, false).expect("idle workers");
        let remedy = "Divide the data into smaller chunks; or use fewer workers, or \
                      ‹randomize = false›, which distributes sequences in turn.";
        let start = "4 workers share 3 chunks of 'a.bin': the worker of rank 3 gets no data.";
        assert_eq!(text(4, true), format!("{start} {remedy}"));
        assert!(text(4, false).starts_with(&format!("{start} {remedy} A worker without data takes no")));
        let start = "6 workers share 3 chunks of 'a.bin': the workers of rank 3 to 5 get no data.";
        assert_eq!(text(6, true), format!("{start} {remedy}"));
        let text = about(&one, 2, true, true).expect("an idle worker");
        let start = "2 workers share 1 chunk of 'a.bin': the worker of rank 1 gets no data. \
                     Set ‹chunk_size = 33554432› of 'a.bin', or less; or use";
        assert!(text.starts_with(start), "{text}");
        let nothing = Inspection::new(source.known(), vec![], None);
        assert_eq!(
            (nothing.about_idle_workers(9, false), nothing.suggest_chunk_size(9)),
            (None, USUAL_CHUNK)
        );
    }

    #[test]
    fn chunk_sizes_are_cntks() {
        assert_eq!((USUAL_CHUNK, SMALL_CHUNK), (33_554_432, 262_144));
    }

    #[test]
    fn suggested_chunks_give_each_worker_several_per_window() {
        let gigabyte = 1 << 30;
        assert_eq!(chunk_size(100 * gigabyte, Some(1000), None, 4), USUAL_CHUNK);
        assert_eq!(chunk_size(gigabyte, Some(1000), None, 8), gigabyte / 64);
        // A window of a tenth of the samples has a tenth of the bytes.
        assert_eq!(chunk_size(gigabyte, Some(1000), Some(100), 8), gigabyte / 640);
        assert_eq!(chunk_size(100 * gigabyte, Some(1 << 40), Some(1000), 8), SMALL_CHUNK);
        // Small data are still distributed.
        assert_eq!(chunk_size(32_000, Some(10), Some(3), 4), 1000);
        assert_eq!(chunk_size(0, None, None, 0), 1);
        assert_eq!(chunk_size(u64::MAX, Some(1), Some(0), u64::MAX >> 4), 2);
        assert_eq!(chunk_size(gigabyte, Some(1000), None, u64::MAX), 1);
    }
}
