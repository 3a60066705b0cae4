//! The stages of reading, each on its own, to find out which one limits the speed of reading.
//!
//! A reader reads bytes, indexes and parses them, draws the order of sequences and packs
//! minibatches, several of these at the same time. [`Look::stages`](crate::Look::stages) opens data
//! to run one stage after the other, for the caller to time. Each stage runs on the number of
//! threads that [`set_threads`](cntk_reader_core::runtime::pool::set_threads) has set when it
//! begins.
//!
//! ```
//! # fn main() -> cntk_reader::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # std::env::set_current_dir(&folder).expect("entering the folder");
//! # std::fs::write("train.ctf", "|x 1 2 |y 3:1\n".repeat(1000)).expect("writing the data");
//! use cntk_reader::{CtfDeserializer, Reader};
//! use cntk_reader_tools::Look;
//! use std::time::Instant;
//!
//! let ctf = CtfDeserializer::new("train.ctf").dense("x", 2).sparse("y", 5);
//! let data = Reader::builder().ctf(ctf);
//! let stages = data.stages()?;
//! let begun = Instant::now();
//! let work = stages.parse()?;
//! println!("{} bytes in {:?}", work.bytes, begun.elapsed());
//! assert_eq!(work.samples, 1000);
//! # Ok(())
//! # }
//! ```

use crate::order::SequenceOrder;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::loading::{Load, Loads, Starter};
use cntk_reader_core::format::{
    AnyDeserializer, Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, Joinable,
    Lengths, Loading, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::runtime::cancel::Current;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceInfo, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::settings::ReaderSettings;
use cntk_reader_engine::reader::{Epoch, Extensions, Reader, build};
use rayon::prelude::*;
use std::fmt;
use std::sync::Arc;

/// Number of bytes read at once.
const BLOCK: u64 = 1 << 20;

/// Data opened to run the stages of reading one by one.
pub struct Stages {
    settings: ReaderSettings,
    corpus: Arc<Corpus>,
    table: Arc<dyn Deserializer>,
}

/// The amount of data that a stage has processed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Size of the files in bytes; 0 for formats that only know lists of files, such as images.
    pub bytes: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of samples.
    pub samples: u64,
}

impl Stages {
    pub(crate) fn open(settings: &ReaderSettings, others: &Extensions<'_>) -> Result<Stages> {
        let mut settings = settings.clone();
        // Caches and earlier stages must not save any of the measured work.
        settings.deserializers.iter_mut().for_each(|one| one.keep_nothing());
        let corpus = build::corpus(&settings);
        let table = opened(&settings, others, &corpus)?;
        Ok(Stages { settings, corpus, table })
    }

    /// Returns the amount of data.
    #[must_use]
    pub fn work(&self) -> Work {
        let bytes = self.files().iter().filter_map(|file| file.size().ok()).sum();
        work(bytes, self.table.chunks())
    }

    /// Returns the files with the data.
    fn files(&self) -> Vec<DataFile> {
        let paths = self.settings.formats().flat_map(|format| format.data_files().unwrap_or_default());
        paths.filter_map(|path| DataFile::open(&path).ok()).collect()
    }

    /// Reads all files in blocks of 1 MiB and discards the bytes.
    pub fn read(&self) -> Result<Work> {
        let pool = Pool::shared()?;
        for file in self.files() {
            let blocks = file.size()?.div_ceil(BLOCK);
            let call = Current::get();
            let read = |buffer: &mut Vec<u8>, block: u64| {
                buffer.resize(BLOCK as usize, 0);
                call.within(|| file.read_at(block * BLOCK, buffer)).map(|_| ())
            };
            pool.install(|| (0..blocks).into_par_iter().try_for_each_init(Vec::new, read))?;
        }
        Ok(self.work())
    }

    /// Opens the files again and builds their indexes, without using index caches.
    pub fn index(&self) -> Result<Work> {
        let table = opened(&self.settings, &Extensions::default(), &build::corpus(&self.settings))?;
        Ok(work(self.work().bytes, table.chunks()))
    }

    /// Loads and drops all chunks: reads, parses and converts their data.
    pub fn parse(&self) -> Result<Work> {
        let pool = Pool::shared()?;
        let count = self.table.chunks().len();
        let together = 2 * pool.threads();
        for first in (0..count).step_by(together) {
            self.load(&pool, first..count.min(first + together))?;
        }
        Ok(self.work())
    }

    /// Draws the order of the sequences of an epoch, without loading any.
    pub fn randomize(&self, epoch: &Epoch) -> Result<Work> {
        let mut order =
            SequenceOrder::over(Arc::clone(&self.table), &self.settings, Arc::clone(&self.corpus), epoch)?;
        while order.skip_minibatch()? {}
        Ok(self.work())
    }

    /// Loads the first chunks for [`LoadedStage::pack`]: about `most_bytes` bytes of files, but at
    /// least one chunk.
    pub fn load_for_packing(&self, most_bytes: u64) -> Result<LoadedStage> {
        let pool = Pool::shared()?;
        let chunks = self.table.chunks();
        let all = self.work();
        let samples: u64 = all.samples.max(1);
        let (mut count, mut bytes) = (0, 0u64);
        while count < chunks.len() && (count == 0 || bytes < most_bytes) {
            bytes += (u128::from(all.bytes) * u128::from(chunks[count].samples) / u128::from(samples)) as u64;
            count += 1;
        }
        let loaded = self.load(&pool, 0..count)?;
        let table = Arc::new(LoadedTable { table: Arc::clone(&self.table), loaded });
        let work = work(bytes, table.chunks());
        let deserializer = AnyDeserializer::Known(table);
        let reader = Reader::of_opened(deserializer, &self.settings, Arc::clone(&self.corpus), pool)?;
        Ok(LoadedStage { reader, work })
    }

    /// Loads chunks.
    fn load(&self, pool: &Pool, chunks: std::ops::Range<usize>) -> Result<Vec<Arc<dyn Chunk>>> {
        let loads = Loads::of_this_call(Arc::clone(&self.table) as Arc<dyn ChunkSource>, pool.clone());
        let started: Vec<Load> = chunks.map(|chunk| loads.start(chunk as ChunkId)).collect();
        let loaded = started.iter().map(Load::wait).collect::<Result<Vec<_>>>()?;
        loaded.iter().try_for_each(|chunk| {
            chunk.warn();
            chunk.errors().commit()
        })?;
        Ok(loaded)
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("work", &self.work()).finish_non_exhaustive()
    }
}

/// Chunks in memory, ready for packing.
pub struct LoadedStage {
    reader: Reader,
    work: Work,
}

impl LoadedStage {
    /// Packs the loaded chunks into minibatches of this many samples, in the order of the settings.
    /// This includes drawing the order, which [`Stages::randomize`] does alone.
    pub fn pack(&mut self, minibatch_size: u64) -> Result<Work> {
        self.reader.start_epoch(&Epoch::sweeps(1).minibatch_size(minibatch_size))?;
        while self.reader.next()?.is_some() {}
        Ok(self.work)
    }
}

impl fmt::Debug for LoadedStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedStage").field("work", &self.work).finish_non_exhaustive()
    }
}

/// Opens everything that the settings name as one source of sequences.
fn opened(
    settings: &ReaderSettings,
    others: &Extensions<'_>,
    corpus: &Arc<Corpus>,
) -> Result<Arc<dyn Deserializer>> {
    let pool = Pool::shared()?;
    let opened = build::open_each(settings, others, corpus, &pool, false).collect::<Result<Vec<_>>>()?;
    match build::compose(settings, opened, corpus, &pool)? {
        AnyDeserializer::Known(table) => Ok(table),
        AnyDeserializer::Listing(_) => {
            let message = "The stages of reading these data cannot be run one by one.";
            Err(Error::argument(message)
                .with_detail("Their chunks list their sequences only when they are loaded."))
        }
    }
}

fn work(bytes: u64, chunks: &[ChunkInfo]) -> Work {
    Work {
        bytes,
        sequences: chunks.iter().map(|chunk| u64::from(chunk.sequences)).sum(),
        samples: chunks.iter().map(|chunk| chunk.samples).fold(0, u64::saturating_add),
    }
}

/// The first chunks of a deserializer, all in memory.
struct LoadedTable {
    table: Arc<dyn Deserializer>,
    loaded: Vec<Arc<dyn Chunk>>,
}

impl LoadedTable {
    fn has(&self, id: SequenceId) -> bool {
        (id.chunk as usize) < self.loaded.len()
    }
}

impl ChunkTable for LoadedTable {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.table.chunks()[..self.loaded.len()]
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.table.lengths(chunk)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl ChunkSource for LoadedTable {
    fn streams(&self) -> &[StreamInfo] {
        self.table.streams()
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { loading: Loading::AtOnce, ..self.table.facts() }
    }

    fn start(self: Arc<Self>, chunk: ChunkId, _: &Starter) -> Load {
        let loaded = self.loaded.get(chunk as usize).cloned();
        Load::done(loaded.ok_or_else(|| Error::internal(format!("Chunk {chunk} was not loaded."))))
    }

    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.table.reported_keys(sequences, truncated, keys);
    }

    fn fingerprint(&self, chunks: Option<usize>) -> u64 {
        self.table.fingerprint(chunks)
    }

    fn memory(&self) -> SourceMemory {
        self.table.memory()
    }

    fn sample_content(&self, chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        self.table.sample_content(chunks, sampler)
    }

    fn file_bytes(&self) -> Option<u64> {
        self.table.file_bytes()
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self.table.diagnostics()
    }
}

impl Deserializer for LoadedTable {
    fn sequence_facts(&self) -> SequenceFacts {
        self.table.sequence_facts()
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.table.keys(sequences, keys);
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.table.find(key).filter(|id| self.has(*id))
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.table.prepare_to_find()
    }
}

impl Joinable for LoadedTable {
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        self.table.list(chunk, sequences)
    }

    fn matching(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        Ok(self.table.matching(of)?.filter(|(id, _)| self.has(*id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Look;
    use cntk_reader::{CtfDeserializer, Reader};

    #[test]
    fn every_stage_works_on_all_data() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.ctf");
        std::fs::write(&path, "|x 1 |y 2:1\n".repeat(10_000)).expect("writing");
        let ctf = CtfDeserializer::new(&path).dense("x", 1).sparse("y", 3).chunk_size(10_000);
        let stages = Reader::builder().ctf(ctf).stages().expect("stages");
        let all = stages.work();
        assert_eq!((all.bytes, all.sequences, all.samples), (120_000, 10_000, 10_000));
        assert_eq!(format!("{stages:?}"), format!("Stages {{ work: {all:?}, .. }}"));
        let epoch = Epoch::sweeps(1).minibatch_size(100);
        assert_eq!(stages.read().expect("reading"), all);
        assert_eq!(stages.index().expect("indexing"), all);
        assert_eq!(stages.parse().expect("parsing"), all);
        assert_eq!(stages.randomize(&epoch).expect("an order"), all);
        let mut loaded = stages.load_for_packing(u64::MAX).expect("loading");
        assert_eq!(format!("{loaded:?}"), format!("LoadedStage {{ work: {all:?}, .. }}"));
        assert_eq!(loaded.pack(100).expect("packing"), all);
        let mut loaded = stages.load_for_packing(25_000).expect("loading");
        let part = loaded.pack(100).expect("packing");
        assert!(part.samples < 3000 && part == loaded.pack(7).expect("packing again"));
    }

    #[test]
    fn wrong_data_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.ctf");
        std::fs::write(&path, "|x 1\n|x a\n").expect("writing");
        let stages =
            Reader::builder().ctf(CtfDeserializer::new(&path).dense("x", 1)).stages().expect("stages");
        stages.index().expect("ids are fine");
        assert!(stages.parse().is_err());
    }

    #[test]
    fn loaded_chunks_keep_their_keys_and_matches() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["a.ctf", "b.ctf"].map(|name| folder.path().join(name));
        for path in &paths {
            std::fs::write(path, "0 |x 1\n1 |x 2\n").expect("writing");
        }
        let ctf = CtfDeserializer::new(folder.path().join("*.ctf")).dense("x", 1);
        let stages = Reader::builder().ctf(ctf).stages().expect("stages");
        let loaded = stages.load(&Pool::shared().expect("a pool"), 0..1).expect("loading");
        let loaded = LoadedTable { table: Arc::clone(&stages.table), loaded };
        let listed = |table: &dyn Deserializer, chunk| {
            let mut listed = Vec::new();
            table.list(chunk, &mut listed).expect("a list");
            listed
        };
        let first = listed(&loaded, 0);
        assert_eq!(first, listed(&*stages.table, 0));
        loaded.prepare_to_find().expect("memory");
        assert_eq!(loaded.matching(&first[1]).expect("no error"), Some((first[1].id, 1)));
        let second = listed(&*stages.table, 1);
        assert_eq!(loaded.matching(&second[0]).expect("no error"), None, "its chunk is not loaded");
        let text = loaded.diagnostics().key_text(second[1].key, &stages.corpus);
        assert_eq!(text, format!("1 of '{}'", paths[1].display()).replace('\\', "/"));
        assert_eq!(loaded.sequence_facts(), stages.table.sequence_facts());
    }

    #[test]
    fn loaded_chunks_locate_their_sequences() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.ctf");
        std::fs::write(&path, "|x 1\n|x 2\n").expect("writing");
        let stages =
            Reader::builder().ctf(CtfDeserializer::new(&path).dense("x", 1)).stages().expect("stages");
        let loaded = stages.load(&Pool::shared().expect("a pool"), 0..1).expect("loading");
        let loaded = LoadedTable { table: Arc::clone(&stages.table), loaded };
        let place = loaded.diagnostics().location(SequenceId { chunk: 0, index: 1 }, 0);
        assert_eq!((place.file.as_deref(), place.line), (path.to_str(), Some(2)));
    }
}
