//! The deserializers of a configuration, opened for inspection.

use super::Lengths;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check::{StreamStatistics, memory_of};
use cntk_reader_core::format::options::Format;
use cntk_reader_core::format::{AnyDeserializer, Deserializer};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::randomize::{Order, WindowSize};
use cntk_reader_engine::reader::build::{self, Extensions};
use cntk_reader_engine::reader::settings::ReaderSettings;
use cntk_reader_text::ctf::TextOptions;
use cntk_reader_text::ctf::index::{CacheState, IndexOptions, brief};
use std::sync::Arc;

/// Data opened for inspection: see [`crate::inspect`].
///
/// *Threads*: several threads may use it at once. The library's pool does the work.
pub struct Inspector {
    pub(super) settings: ReaderSettings,
    pub(super) corpus: Arc<Corpus>,
    pub(super) pool: Pool,
    members: Vec<InspectedMember>,
}

/// One of the deserializers of an [`Inspector`].
pub struct InspectedMember {
    name: String,
    kind: String,
    opened: Result<Arc<dyn Deserializer>>,
    cache: Option<(String, CacheState)>,
}

/// Memory use of the randomization window of a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowUse {
    /// Chunks of the window and the two that are prefetched, or all chunks if there are fewer.
    pub chunks: u64,
    /// Samples in these chunks.
    pub samples: u64,
    /// Maximum size of their data in bytes; many are stored in less. `None` if the data were not
    /// read.
    pub bytes: Option<u64>,
}

/// Number of chunks prefetched ahead of the window.
const AHEAD: u64 = 2;

impl Inspector {
    /// Opens the deserializers of these settings.
    pub(crate) fn open(settings: &ReaderSettings, others: &Extensions<'_>) -> Result<Inspector> {
        let mut settings = settings.clone();
        // Checks report warnings at any trace level.
        settings.deserializers.iter_mut().for_each(|one| one.report_warnings());
        let pool = Pool::shared()?;
        let corpus = build::corpus(&settings);
        let opened: Vec<_> = build::open_each(&settings, others, &corpus, &pool, false).collect();
        let describe = |(one, opened): (&dyn Format, Result<AnyDeserializer>)| InspectedMember {
            cache: one.of::<TextOptions>().and_then(|text| cache_of(text, &corpus)),
            name: one.name().to_owned(),
            kind: one.type_name().to_owned(),
            opened: opened.and_then(|opened| match opened {
                AnyDeserializer::Known(deserializer) => Ok(deserializer),
                AnyDeserializer::Listing(_) => {
                    let message = "The sequences of this deserializer are known only while they are read.";
                    Err(Error::argument(message)
                        .with_detail("Only data whose sequences are known before reading can be inspected."))
                }
            }),
        };
        let members = settings.formats().zip(opened).map(describe).collect();
        Ok(Inspector { settings, corpus, pool, members })
    }

    /// Returns the deserializers in their order, the primary first.
    pub fn members(&self) -> &[InspectedMember] {
        &self.members
    }

    /// Returns a key as the data spell it.
    pub fn key_text(&self, key: u64) -> String {
        self.corpus.text_of(key)
    }

    /// Estimates the memory use of the randomization window from statistics such as
    /// [`CheckSummary::streams`](super::CheckSummary::streams). Without randomization, the
    /// prefetched chunks count.
    pub fn window(&self, statistics: Option<&[Vec<StreamStatistics>]>) -> WindowUse {
        let Some(Ok(primary)) = self.members.first().map(|member| &member.opened) else {
            return WindowUse::default();
        };
        let chunks = primary.chunks();
        let all = Extent {
            chunks: chunks.len() as u64,
            samples: chunks.iter().map(|chunk| chunk.samples).fold(0, u64::saturating_add),
            largest: chunks.iter().map(|chunk| chunk.samples).max().unwrap_or(0),
        };
        let bytes = statistics.map(|members| {
            let of_member = |(member, seen): (&InspectedMember, &Vec<StreamStatistics>)| {
                let samples = member.opened().map_or(0, |opened| {
                    opened.chunks().iter().map(|chunk| chunk.samples).fold(0, u64::saturating_add)
                });
                memory_of_all(member.streams(), seen, samples)
            };
            self.members.iter().zip(members).map(of_member).sum()
        });
        all.window(self.settings.order, bytes)
    }
}

/// The amount of data, as far as windows depend on it.
pub(super) struct Extent {
    pub chunks: u64,
    pub samples: u64,
    /// Samples of the largest chunk.
    pub largest: u64,
}

impl Extent {
    /// Estimates the memory use of a window if all data take `bytes` bytes.
    pub fn window(&self, order: Order, bytes: Option<u64>) -> WindowUse {
        let wanted = match order {
            Order::InOrder => 1,
            Order::Block { window: WindowSize::Chunks(chunks), .. } => chunks,
            Order::Block { window: WindowSize::Samples(samples), .. } => {
                match self.samples / self.chunks.max(1) {
                    0 => 1,
                    mean => samples.div_ceil(mean).max(1),
                }
            }
        };
        let chunks = wanted.saturating_add(AHEAD).min(self.chunks);
        let samples = match chunks == self.chunks {
            true => self.samples,
            false => self.largest.saturating_mul(chunks).min(self.samples),
        };
        let share = |bytes: u64| (u128::from(bytes) * u128::from(samples) / u128::from(self.samples)) as u64;
        WindowUse { chunks, samples, bytes: bytes.filter(|_| self.samples > 0).map(share) }
    }
}

/// Estimates the maximum memory of all `samples` samples of a deserializer from the samples that
/// were seen.
pub(super) fn memory_of_all(streams: &[StreamInfo], seen: &[StreamStatistics], samples: u64) -> u64 {
    let bytes: u64 = streams.iter().zip(seen).map(|(info, seen)| memory_of(seen, info)).sum();
    let looked_at = seen.iter().map(|stream| stream.samples).max().unwrap_or(0).max(1);
    u64::try_from(u128::from(bytes) * u128::from(samples) / u128::from(looked_at)).unwrap_or(u64::MAX)
}

/// Returns the index cache of the text files and its state: the first cache that does not fit, or
/// else the first one.
fn cache_of(text: &TextOptions, corpus: &Corpus) -> Option<(String, CacheState)> {
    let options = IndexOptions::of(text);
    let mut caches = text
        .files
        .paths()
        .ok()?
        .into_iter()
        .map(|path| brief::state(&DataFile::open(&path).ok()?, &options, corpus))
        .collect::<Option<Vec<_>>>()?;
    let bad = caches.iter().position(|(_, state)| *state != CacheState::Fits).unwrap_or(0);
    (bad < caches.len()).then(|| caches.swap_remove(bad))
}

impl InspectedMember {
    /// Returns its name in messages: its file, or the name of a user's deserializer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its `type` in the configuration.
    pub fn type_name(&self) -> &str {
        &self.kind
    }

    /// Returns the error if it could not be opened. Such a deserializer has no streams, chunks and
    /// sequences.
    pub fn error(&self) -> Option<&Error> {
        self.opened.as_ref().err()
    }

    pub(super) fn opened(&self) -> Option<&Arc<dyn Deserializer>> {
        self.opened.as_ref().ok()
    }

    /// Returns its streams.
    pub fn streams(&self) -> &[StreamInfo] {
        self.opened().map_or(&[], |opened| opened.streams())
    }

    /// Returns the number of chunks.
    pub fn chunks(&self) -> u64 {
        self.opened().map_or(0, |opened| opened.chunks().len() as u64)
    }

    /// Returns the number and the lengths of its sequences.
    pub fn lengths(&self) -> Lengths {
        self.opened().map_or_else(Lengths::default, |opened| Lengths::of(&**opened))
    }

    /// Returns the size of its file in bytes; `None` if it has no file of its own.
    pub fn file_bytes(&self) -> Option<u64> {
        self.opened()?.file_bytes()
    }

    /// Returns the path of its index cache, even if it is missing, and its state according to its
    /// header and the two ends of the data. For several files, it is the first cache that does not
    /// fit, or else the first one. `None` for formats without index caches.
    pub fn index_cache(&self) -> Option<(&str, CacheState)> {
        self.cache.as_ref().map(|(path, state)| (path.as_str(), *state))
    }

    /// Returns the memory of its tables of chunks, sequences and keys in bytes.
    pub fn index_memory(&self) -> u64 {
        self.opened().map_or(0, |opened| opened.memory().index)
    }
}
