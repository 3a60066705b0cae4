//! The deserializers of a configuration, opened to be looked at.

use super::Lengths;
use crate::config::options::DeserializerOptions;
use crate::config::options::{Order, ReaderSettings, WindowSize};
use crate::corpus::Corpus;
use crate::deserialize::check::{StreamStatistics, memory_of};
use crate::deserialize::{AnyDeserializer, Deserializer};
use crate::pool::Pool;
use crate::reader::build::{self, Others};
use crate::stream::StreamInfo;
use crate::{Error, Result};
use std::sync::Arc;

/// Data that are looked at: see [`crate::inspect`].
///
/// *Threads*: it may be used by several threads at once. Work is done by the library's pool.
pub struct Inspector {
    pub(super) settings: ReaderSettings,
    pub(super) corpus: Arc<Corpus>,
    pub(super) pool: Pool,
    members: Vec<InspectedMember>,
}

/// One of the deserializers that an [`Inspector`] looks at.
pub struct InspectedMember {
    name: String,
    kind: String,
    opened: Result<Arc<dyn Deserializer>>,
}

/// What the randomization window of a reader keeps in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowUse {
    /// Chunks of the window, and the two that are loaded ahead of it, but at most all.
    pub chunks: u64,
    /// Samples in these chunks.
    pub samples: u64,
    /// Bytes that their data take, at most: many are kept in less. `None` if the data were not looked at.
    pub bytes: Option<u64>,
}

/// Chunks that are loaded ahead of the window.
const AHEAD: u64 = 2;

impl Inspector {
    /// Opens the deserializers of these settings.
    pub(crate) fn open(settings: &ReaderSettings, others: &Others<'_>) -> Result<Inspector> {
        let mut settings = settings.clone();
        // Checks report warnings whatever the trace level says.
        for one in &mut settings.deserializers {
            if let DeserializerOptions::Text(text) = one {
                text.trace_level = text.trace_level.max(1);
            }
        }
        let pool = Pool::shared()?;
        let corpus = build::corpus(&settings);
        let opened: Vec<_> = build::open_each(&settings, others, &corpus, &pool, false).collect();
        let describe = |(one, opened): (&DeserializerOptions, Result<AnyDeserializer>)| InspectedMember {
            name: one.name().to_owned(),
            kind: one.type_name().to_owned(),
            opened: opened.and_then(|opened| match opened {
                AnyDeserializer::Known(deserializer) => Ok(deserializer),
                AnyDeserializer::Listing(_) => {
                    let message = "The sequences of this deserializer are known only while they are read.";
                    Err(Error::argument(message)
                        .with_detail("Data can be inspected whose sequences are known beforehand."))
                }
            }),
        };
        let members = settings.deserializers.iter().zip(opened).map(describe).collect();
        Ok(Inspector { settings, corpus, pool, members })
    }

    /// The deserializers in their order. The first one is primary.
    pub fn members(&self) -> &[InspectedMember] {
        &self.members
    }

    /// The text of a key, as the data have it.
    pub fn key_text(&self, key: u64) -> String {
        self.corpus.text_of(key)
    }

    /// What the randomization window keeps in memory, given what is known of the samples of the deserializers, as
    /// [`CheckSummary::streams`](super::CheckSummary::streams) has it. Without randomization it is what is loaded ahead.
    pub fn window(&self, statistics: Option<&[Vec<StreamStatistics>]>) -> WindowUse {
        let Some(Ok(primary)) = self.members.first().map(|member| &member.opened) else {
            return WindowUse::default();
        };
        let chunks = primary.chunks();
        let all = chunks.len() as u64;
        let total: u64 = chunks.iter().map(|chunk| chunk.samples).fold(0, u64::saturating_add);
        let largest = chunks.iter().map(|chunk| chunk.samples).max().unwrap_or(0);
        let wanted = match self.settings.order {
            Order::InOrder => 1,
            Order::Block { window: WindowSize::Chunks(chunks), .. } => chunks,
            Order::Block { window: WindowSize::Samples(samples), .. } => match total / all.max(1) {
                0 => 1,
                mean => samples.div_ceil(mean).max(1),
            },
        };
        let chunks = wanted.saturating_add(AHEAD).min(all);
        let samples = match chunks == all {
            true => total,
            false => largest.saturating_mul(chunks).min(total),
        };
        let bytes = statistics.and_then(|members| {
            let of_member = |(member, streams): (&InspectedMember, &Vec<StreamStatistics>)| -> u64 {
                member.streams().iter().zip(streams).map(|(info, one)| memory_of(one, info)).sum()
            };
            let all: u64 = self.members.iter().zip(members).map(of_member).sum();
            (total > 0).then(|| (u128::from(all) * u128::from(samples) / u128::from(total)) as u64)
        });
        WindowUse { chunks, samples, bytes }
    }
}

impl InspectedMember {
    /// What messages call it: its file, or the name of a user's deserializer.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its `type` in the configuration.
    pub fn type_name(&self) -> &str {
        &self.kind
    }

    /// Why it could not be opened; `None` if it could. One that could not has no streams, chunks and sequences.
    pub fn error(&self) -> Option<&Error> {
        self.opened.as_ref().err()
    }

    pub(super) fn opened(&self) -> Option<&Arc<dyn Deserializer>> {
        self.opened.as_ref().ok()
    }

    /// Its streams.
    pub fn streams(&self) -> &[StreamInfo] {
        self.opened().map_or(&[], |opened| opened.streams())
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.opened().map_or(0, |opened| opened.chunks().len() as u64)
    }

    /// How many sequences there are, and how long they are.
    pub fn lengths(&self) -> Lengths {
        self.opened().map_or_else(Lengths::default, |opened| Lengths::of(&**opened))
    }

    /// Bytes of its file; `None` without a file of its own.
    pub fn file_bytes(&self) -> Option<u64> {
        self.opened()?.file_bytes()
    }

    /// Memory that its tables of chunks, sequences and keys take, in bytes.
    pub fn index_memory(&self) -> u64 {
        self.opened().map_or(0, |opened| opened.memory().index)
    }
}
