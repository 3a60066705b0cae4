//! Index caches apart from reading: checking and building them.

use super::cache::{Cache, CacheState};
use super::indexer::Scan;
use super::main_stream::Needle;
use super::scan::Cut;
use super::source::SourceFile;
use super::start::Start;
use super::{IndexOptions, IndexTable};
use crate::ctf::TextOptions;
use crate::ctf::open_file;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// The index cache of a text file.
#[derive(Debug, Clone)]
pub struct IndexCache {
    file: String,
    options: IndexOptions,
    corpus: Arc<Corpus>,
}

/// Size of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexSize {
    /// Bytes of the text file.
    pub bytes: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of samples.
    pub samples: u64,
}

impl IndexCache {
    /// Returns the cache of the file in these options.
    pub fn of(options: &TextOptions, corpus: &Arc<Corpus>) -> IndexCache {
        let index = IndexOptions { cache: true, ..IndexOptions::of(options) };
        IndexCache { file: options.files.name().to_owned(), options: index, corpus: Arc::clone(corpus) }
    }

    /// Path of the text file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Checks whether the cache can be used. Reads the whole cache, and parts of the text file.
    /// Fails if there can be no cache, because keys are texts that are not hashed: their numbers
    /// differ between runs.
    pub fn state(&self) -> Result<CacheState> {
        self.with_scan(|scan, start, cache| cache.state(scan, start))
    }

    /// Returns the path of the cache. Fails as [`IndexCache::state`] does.
    pub fn path(&self) -> Result<String> {
        self.with_scan(|_, _, cache| Ok(cache.path().to_owned()))
    }

    /// Indexes the text file and writes the cache, replacing an existing one. Readers use it if
    /// their configuration says `cacheIndex = true`.
    pub fn build(&self) -> Result<IndexSize> {
        self.with_scan(|scan, start, cache| {
            let table: IndexTable = scan.table(*start, scan.source.size(), self.options.chunk_size)?;
            cache
                .try_write(scan.source, &table)
                .map_err(|cause| Error::io("Cannot write the index cache", cache.path(), &cause))?;
            let samples = table.chunks.iter().fold(0, |sum: u64, chunk| sum.saturating_add(chunk.samples));
            Ok(IndexSize { bytes: scan.source.size(), sequences: table.len() as u64, samples })
        })
    }

    /// Opens the file, and runs `work` on the pool.
    fn with_scan<R: Send>(
        &self,
        work: impl FnOnce(&Scan<'_>, &Start, &Cache) -> Result<R> + Send,
    ) -> Result<R> {
        let file: DataFile = open_file(&self.file)?;
        let cache = Cache::beside(&file, &self.options, &self.corpus).ok_or_else(|| {
            let message = format!("The file '{}' can have no index cache.", self.file);
            let detail = "Its keys are texts, whose numbers differ from run to run. Set ‹hash_keys = true› ‹in_the_reader›, \
                          or ‹numeric_keys = true› if the keys are numbers.";
            Error::argument(message).with_detail(detail).in_file(&self.file)
        })?;
        Pool::shared()?
            .install(|| {
                let source = SourceFile::new(&file)?;
                let start = Start::read(&source, &self.options, &self.corpus)?;
                let needle = self.options.main_stream.as_deref().map(Needle::new);
                let scan = Scan {
                    source: &source,
                    corpus: &self.corpus,
                    main_stream: needle.as_ref(),
                    cut: Cut::default(),
                };
                work(&scan, &start, &cache)
            })
            .map_err(|error: Error| error.in_file(&self.file))
    }
}
