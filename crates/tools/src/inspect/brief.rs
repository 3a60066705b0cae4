//! A summary of data from the caches of their indexes.

use super::inspector::{Extent, memory_of_all};
use super::{Lengths, TextOutline, WindowUse};
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check::StreamStatistics;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_engine::reader::build;
use cntk_reader_engine::reader::settings::ReaderSettings;
use cntk_reader_text::ctf::TextOptions;
use cntk_reader_text::ctf::index::IndexOptions;
use cntk_reader_text::ctf::index::brief::{self, IndexBrief};
use rayon::prelude::*;

/// Maximum number of files of a list that are sampled.
const LOOKED_AT: usize = 8;

/// A summary of data from their index caches: see [`Look::brief`](crate::Look::brief).
///
/// Numbers of sequences and bytes are exact. Lengths are estimated from some sequences if there are
/// very many. Statistics of samples come from parts of the files.
pub struct Brief {
    settings: ReaderSettings,
    members: Vec<BriefMember>,
}

/// One of the deserializers of a [`Brief`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BriefMember {
    /// Its file, a pattern, or a list of both.
    pub name: String,
    /// Its `type` in the configuration.
    pub type_name: String,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// Path of the cache; of the first one if there are several files.
    pub cache: String,
    /// Number of chunks; an estimate if there are very many.
    pub chunks: u64,
    /// Number and lengths of the sequences.
    pub lengths: Lengths,
    /// Its streams.
    pub streams: Vec<StreamInfo>,
    /// Statistics of the sampled data, by stream.
    pub statistics: Vec<StreamStatistics>,
}

impl Brief {
    pub(crate) fn open(settings: &ReaderSettings) -> Result<Option<Brief>> {
        let corpus = build::corpus(settings);
        let mut members = Vec::with_capacity(settings.deserializers.len());
        for one in &settings.deserializers {
            let Some(text) = one.of::<TextOptions>() else { return Ok(None) };
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

    /// Estimates the memory use of the randomization window.
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
        let paths = text.files.paths()?;
        let options = IndexOptions::of(text);
        let brief = |path: &String| brief::brief(&DataFile::open(path)?, &options, corpus);
        let briefs: Result<Option<Vec<IndexBrief>>> = Pool::shared()?
            .install(|| paths.par_iter().map(carried(brief)).collect::<Vec<_>>())
            .into_iter()
            .collect();
        let Some(briefs) = briefs? else { return Ok(None) };
        let Some(cache) = briefs.first().map(|first| first.cache.clone()) else { return Ok(None) };
        let mut lengths = Lengths::default();
        briefs.iter().for_each(|one| lengths.add_some(&one.lengths, one.sequences));
        Ok(Some(BriefMember {
            name: text.files.name().to_owned(),
            type_name: type_name.to_owned(),
            bytes: briefs.iter().map(|one| one.bytes).sum(),
            cache,
            chunks: briefs.iter().map(|one| one.chunks).sum(),
            lengths,
            streams: text.stream_infos(),
            statistics: statistics(text, &paths)?,
        }))
    }
}

/// Statistics by stream, from samples of some of the files.
fn statistics(text: &TextOptions, paths: &[String]) -> Result<Vec<StreamStatistics>> {
    let mut statistics = vec![StreamStatistics::default(); text.streams.len()];
    for path in paths.iter().step_by(paths.len().div_ceil(LOOKED_AT).max(1)) {
        let seen = TextOutline::of_sample(path)?;
        for (own, stream) in statistics.iter_mut().zip(&text.streams) {
            if let Some(found) = seen.streams.iter().find(|found| found.alias == stream.alias) {
                own.add(&found.seen);
            }
        }
    }
    Ok(statistics)
}
