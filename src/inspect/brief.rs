//! What is known of data at once, from the caches of their indexes.

use super::inspector::{Extent, memory_of_all};
use super::{Lengths, OutlineStream, TextOutline, WindowUse};
use crate::Result;
use crate::config::options::{DeserializerOptions, ReaderSettings, TextOptions};
use crate::corpus::Corpus;
use crate::deserialize::check::StreamStatistics;
use crate::deserialize::files;
use crate::deserialize::text::index::IndexOptions;
use crate::deserialize::text::index::brief::{self, IndexBrief};
use crate::file::DataFile;
use crate::pool::Pool;
use crate::reader::build;
use crate::stream::StreamInfo;

/// What index caches say of data: see [`Builder::brief`](crate::Builder::brief).
///
/// Numbers of sequences and bytes are exact. Lengths are those of some sequences if there are very many, and what samples are
/// like is seen in some places of the files.
pub struct Brief {
    settings: ReaderSettings,
    members: Vec<BriefMember>,
}

/// One of the deserializers of a [`Brief`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BriefMember {
    /// Its file.
    pub name: String,
    /// Its `type` in the configuration.
    pub type_name: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Where the cache is.
    pub cache: String,
    /// Number of chunks; about, if there are very many.
    pub chunks: u64,
    /// How many sequences there are, and how long they are.
    pub lengths: Lengths,
    /// Its streams.
    pub streams: Vec<StreamInfo>,
    /// What the samples are like that were looked at, by stream.
    pub statistics: Vec<StreamStatistics>,
}

impl Brief {
    pub(crate) fn open(settings: &ReaderSettings) -> Result<Option<Brief>> {
        let corpus = build::corpus(settings);
        let mut members = Vec::with_capacity(settings.deserializers.len());
        for one in &settings.deserializers {
            let DeserializerOptions::Text(text) = one else { return Ok(None) };
            match BriefMember::open(text, one.type_name(), &corpus)? {
                Some(member) => members.push(member),
                None => return Ok(None),
            }
        }
        Ok(Some(Brief { settings: settings.clone(), members }))
    }

    /// The deserializers in their order. The first one is primary.
    pub fn members(&self) -> &[BriefMember] {
        &self.members
    }

    /// What the randomization window keeps in memory, about.
    pub fn window(&self) -> WindowUse {
        let Some(primary) = self.members.first() else { return WindowUse::default() };
        let samples = primary.lengths.samples();
        let largest = samples.div_ceil(primary.chunks.max(1));
        let bytes = self
            .members
            .iter()
            .map(|one| memory_of_all(&one.streams, &one.statistics, one.lengths.samples()));
        Extent { chunks: primary.chunks, samples, largest }.window(self.settings.order, Some(bytes.sum()))
    }
}

impl BriefMember {
    fn open(text: &TextOptions, type_name: &str, corpus: &Corpus) -> Result<Option<BriefMember>> {
        // Of several files there is nothing that is known at once.
        if files::named(&text.file)? != [text.file.as_str()] {
            return Ok(None);
        }
        let file = DataFile::open(&text.file)?;
        let options = IndexOptions::of(text);
        let pool = Pool::shared()?;
        let Some(IndexBrief { bytes, sequences, chunks, lengths }) =
            pool.install(|| brief::brief(&file, &options, corpus))?
        else {
            return Ok(None);
        };
        let Some((cache, _)) = brief::state(&file, &options, corpus) else { return Ok(None) };
        let seen = TextOutline::of_sample(&text.file)?;
        let seen_of = |alias: &str| -> StreamStatistics {
            let found = seen.streams.iter().find(|stream: &&OutlineStream| stream.name == alias);
            found.map_or_else(StreamStatistics::default, |stream| stream.seen)
        };
        Ok(Some(BriefMember {
            name: text.file.clone(),
            type_name: type_name.to_owned(),
            bytes,
            cache,
            chunks,
            lengths: Lengths::of_some(&lengths, sequences),
            streams: text
                .streams
                .iter()
                .map(|stream| StreamInfo {
                    storage: stream.storage,
                    element: text.element,
                    defines_mb_size: stream.defines_mb_size,
                    ..StreamInfo::dense(&stream.name, &[stream.dim as usize])
                })
                .collect(),
            statistics: text.streams.iter().map(|stream| seen_of(&stream.alias)).collect(),
        }))
    }
}
