//! Tests with an artificial format: whether its files are opened at once or ahead of reading, in
//! any order of events, they form one deserializer.

use super::*;
use crate::ctf::{TextOptions, TextStream};
use cntk_reader_core::format::diagnostics::NoDiagnostics;
use cntk_reader_core::format::files::Files;
use cntk_reader_core::format::{IndexProgress, LeafChunk, Loaded};
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::runtime::pool;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_engine::randomize::random::Random;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The content of a test file: lengths of the sequences of its chunks.
#[derive(Clone, Default)]
struct Content {
    chunks: Vec<Vec<u32>>,
    /// Chunks that are known at first; each further one becomes known when it is requested.
    known: usize,
    fails: bool,
}

struct TestFile {
    content: Content,
    infos: Vec<ChunkInfo>,
    streams: Vec<StreamInfo>,
    known: AtomicUsize,
    bytes: u64,
}

struct TestChunk;

impl LeafChunk for TestChunk {
    fn sequence(&self, _: usize, _: u32) -> Loaded<'_> {
        Loaded::Skipped
    }
}

impl ChunkTable for TestFile {
    fn chunks(&self) -> &[ChunkInfo] {
        self.known.store(self.infos.len(), Ordering::Relaxed);
        &self.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        Lengths::Each(&self.content.chunks[chunk as usize])
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        (self.content.known < self.infos.len()).then_some(self)
    }
}

impl IncrementalTable for TestFile {
    fn wait_for(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        self.known.fetch_max(self.infos.len().min(chunk as usize + 1), Ordering::Relaxed);
        Ok(self.infos.get(chunk as usize).copied())
    }

    fn progress(&self) -> IndexProgress {
        let known = self.known.load(Ordering::Relaxed);
        IndexProgress { chunks: known, all: known == self.infos.len() }
    }

    fn cancel(&self) {}
}

impl TestFile {
    /// Loads a chunk.
    fn load(&self, _: ChunkId) -> Result<Arc<dyn Chunk>> {
        Ok(Arc::new(TestChunk))
    }
}

impl ChunkSource for TestFile {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn reported_keys(&self, sequences: &[SequenceId], _: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn fingerprint(&self, chunks: Option<usize>) -> u64 {
        let infos = &self.infos[..chunks.unwrap_or(self.infos.len())];
        infos.iter().fold(SEED, |hash, info| mix(hash, info.samples, info.sequences.into()))
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: 7, index: 1 }
    }

    fn file_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        sampler.skip();
        Ok(())
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        &NoDiagnostics
    }
}

impl JoinedByKey for TestFile {}

impl Deserializer for TestFile {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts::PLAIN
    }

    /// Numbers sequences from 0.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let first = |chunk: ChunkId| -> usize {
            self.content.chunks[..chunk as usize].iter().map(|chunk| chunk.len()).sum()
        };
        keys.extend(sequences.iter().map(|id| first(id.chunk) as u64 + u64::from(id.index)));
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let mut all = (0..).zip(&self.content.chunks).flat_map(|(chunk, sequences)| {
            (0..sequences.len() as u32).map(move |index| SequenceId { chunk, index })
        });
        all.nth(key as usize)
    }

    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }
}

/// Opens files named by their numbers.
struct TestFormat {
    contents: Vec<Content>,
    in_turn: bool,
    /// The numbers of the files, in the order in which their opening started.
    begun: Arc<Mutex<Vec<usize>>>,
    is_slow: bool,
}

impl Format for TestFormat {
    type File = TestFile;
    const REPORTS_KEYS: bool = true;

    fn open(&self, path: &str, pool: Option<&Pool>) -> Result<TestFile> {
        let number: usize = path.rsplit('/').next().and_then(|name| name.parse().ok()).expect("a number");
        self.begun.lock().push(number);
        if self.is_slow {
            std::thread::sleep(Duration::from_micros(300 * (number as u64 * 7 % 5)));
        }
        let content = self.contents[number].clone();
        if content.fails {
            return Err(Error::data(format!("File {number} is wrong.")));
        }
        let info = |lengths: &Vec<u32>| ChunkInfo {
            samples: lengths.iter().map(|&length| u64::from(length)).sum(),
            sequences: lengths.len() as u32,
        };
        let infos: Vec<_> = content.chunks.iter().map(info).collect();
        let known = if pool.is_some() { content.known.min(infos.len()) } else { infos.len() };
        let bytes = opening::size_of(path)?;
        let streams = vec![StreamInfo::dense("x", &[1])];
        Ok(TestFile { infos, streams, known: AtomicUsize::new(known), content, bytes })
    }

    fn load(file: &Self::File, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        file.load(chunk)
    }

    fn opens_in_turn(&self) -> bool {
        self.in_turn
    }

    fn is_counted(&self, _: &TestFile) -> bool {
        true
    }

    fn count(&self, file: &TestFile) -> Result<u64> {
        Ok(file.infos.iter().map(|info| u64::from(info.sequences)).sum())
    }
}

/// Creates files of these sizes, named by their numbers. They are sparse, so large sizes cost
/// nothing.
fn files(folder: &tempfile::TempDir, sizes: &[u64]) -> Vec<String> {
    let path = |number: usize| -> PathBuf { folder.path().join(number.to_string()) };
    for (number, &size) in sizes.iter().enumerate() {
        File::create(path(number)).and_then(|file| file.set_len(size)).expect("a file");
    }
    (0..sizes.len()).map(|number| path(number).display().to_string()).collect()
}

fn random_contents(random: &mut Random) -> Vec<Content> {
    let chunk = |random: &mut Random| (0..random.range(1, 6)).map(|_| random.range(0, 4) as u32).collect();
    (0..random.range(1, 9))
        .map(|_| Content {
            chunks: (0..random.range(0, 5)).map(|_| chunk(random)).collect(),
            known: random.range(0, 4) as usize,
            fails: false,
        })
        .collect()
}

fn format(contents: &[Content], in_turn: bool, is_slow: bool) -> TestFormat {
    TestFormat { contents: contents.to_vec(), in_turn, begun: Arc::default(), is_slow }
}

#[test]
fn files_form_one_deserializer() {
    let pool = Pool::shared().expect("threads");
    for seed in 0..150 {
        let random = &mut Random::new(seed);
        let contents = random_contents(random);
        let folder = tempfile::tempdir().expect("a folder");
        let sizes: Vec<u64> = contents.iter().map(|_| random.range(1, 200) << 20).collect();
        let paths = files(&folder, &sizes);
        let rule = if random.range(0, 2) == 0 { KeyRule::PerFile } else { KeyRule::Shared };
        let in_turn = random.range(0, 3) == 0;
        let whole = pool
            .install(|| Concat::open(format(&contents, in_turn, false), paths.clone(), rule))
            .expect("good files");

        // Reference: one file after the other, in the simplest form.
        let mut wanted = Vec::new();
        for (file, content) in contents.iter().enumerate() {
            for (chunk, lengths) in content.chunks.iter().enumerate() {
                let first: usize = content.chunks[..chunk].iter().map(Vec::len).sum();
                let before: usize =
                    contents[..file].iter().flat_map(|content| &content.chunks).map(Vec::len).sum();
                let base = match rule {
                    KeyRule::PerFile => file as u64 * KEY_LIMIT,
                    KeyRule::Shared => before as u64,
                };
                let keys: Vec<u64> = (0..lengths.len()).map(|index| base + (first + index) as u64).collect();
                wanted.push((lengths.clone(), keys));
            }
        }
        check(&whole, &wanted, random);
        assert_eq!(whole.memory().chunks, 7);

        let ahead = pool
            .install(|| Concat::open_incremental(format(&contents, in_turn, true), paths, rule, &pool))
            .expect("good files");
        assert!(ahead.incremental().is_some());
        for (chunk, (lengths, _)) in (0..).zip(&wanted) {
            let info = ahead.chunk(chunk).expect("a good file").expect("a chunk");
            assert_eq!(info.sequences as usize, lengths.len());
            assert!(ahead.index_progress().chunks > chunk as usize);
            let known = chunk as usize + 1;
            assert_eq!(
                ahead.fingerprint(Some(known)),
                whole.fingerprint(Some(known)),
                "seed {seed}, chunk {chunk}"
            );
        }
        assert_eq!(ahead.chunk(wanted.len() as ChunkId).expect("the end"), None);
        assert_eq!(ahead.index_progress(), IndexProgress { chunks: wanted.len(), all: true });
        check(&ahead, &wanted, random);
        assert_eq!(ahead.fingerprint(None), whole.fingerprint(None));
        if in_turn {
            assert!(ahead.files.format.begun.lock().is_sorted());
        }
    }
}

/// Compares chunks, lengths and keys, and looks up keys.
fn check(concat: &Concat<TestFormat>, wanted: &[(Vec<u32>, Vec<SequenceKey>)], random: &mut Random) {
    assert_eq!(concat.chunks().len(), wanted.len());
    let mut ids = Vec::new();
    let mut keys = Vec::new();
    for (chunk, (lengths, own)) in (0..).zip(wanted) {
        assert_eq!(concat.lengths(chunk), Lengths::Each(lengths));
        assert_eq!(concat.chunks()[chunk as usize].sequences as usize, lengths.len());
        concat.load(chunk).expect("a chunk");
        ids.extend((0..lengths.len() as u32).map(|index| SequenceId { chunk, index }));
        keys.extend(own);
    }
    let mut got = Vec::new();
    concat.keys(&ids, &mut got);
    assert_eq!(got, keys);
    // In any order, as in minibatches.
    let order: Vec<usize> = (0..ids.len()).map(|_| random.range(0, ids.len() as u64) as usize).collect();
    got.clear();
    concat.reported_keys(&order.iter().map(|&at| ids[at]).collect::<Vec<_>>(), false, &mut got);
    assert_eq!(got, order.iter().map(|&at| keys[at]).collect::<Vec<_>>());
    for (&id, &key) in ids.iter().zip(&keys) {
        assert_eq!(concat.find(key), Some(id));
    }
    assert_eq!(concat.find(5 * KEY_LIMIT - 1), None);
    assert_eq!(concat.find(u64::MAX), None);
}

#[test]
fn unopenable_file_fails_at_its_first_chunk() {
    let pool = Pool::shared().expect("threads");
    let good = Content { chunks: vec![vec![1]; 2], known: 2, fails: false };
    let bad = Content { fails: true, ..Content::default() };
    let contents = [good.clone(), good.clone(), bad, good];
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[1; 4]);
    let open = || Concat::open(format(&contents, false, false), paths.clone(), KeyRule::PerFile);
    assert_eq!(pool.install(open).err().expect("an error").message(), "File 2 is wrong.");
    let open = || Concat::open_incremental(format(&contents, false, true), paths, KeyRule::PerFile, &pool);
    let concat = pool.install(open).expect("a good first file");
    for _ in 0..2 {
        assert!((0..4).all(|chunk| concat.chunk(chunk).expect("a good file").is_some()));
        assert_eq!(concat.chunk(4).expect_err("a bad file").message(), "File 2 is wrong.");
    }
    assert_eq!(concat.chunks().len(), 4);
    assert!(!concat.index_progress().all);
}

#[test]
fn files_are_opened_only_a_little_ahead() {
    let pool = Pool::shared().expect("threads");
    let contents = vec![Content { chunks: vec![vec![1]], known: 1, fails: false }; 12];
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[60 << 20; 12]);
    let format = format(&contents, false, false);
    let begun = Arc::clone(&format.begun);
    let open = || Concat::open_incremental(format, paths, KeyRule::PerFile, &pool);
    let concat = pool.install(open).expect("good files");
    for chunk in 0..12 {
        concat.chunk(chunk).expect("a good file");
        // Three files of 60 MB are needed to reach 128 MB.
        assert!(begun.lock().iter().all(|&number| number <= chunk as usize + 3));
    }
    assert_eq!(begun.lock().len(), 12);
}

#[test]
fn cancelled_reader_stops_opening() {
    let pool = Pool::shared().expect("threads");
    assert!(pool::threads() > 0);
    let contents = vec![Content { chunks: vec![vec![1]], known: 1, fails: false }; 40];
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[200 << 20; 40]);
    let open = || Concat::open_incremental(format(&contents, true, true), paths, KeyRule::Shared, &pool);
    let concat = pool.install(open).expect("good files");
    concat.chunk(3).expect("a good file");
    concat.incremental().expect("files that are opened ahead").cancel();
    assert!(concat.chunk(30).is_err());
    assert!(concat.files.format.begun.lock().len() < 30);
}

/// Searches run in parallel, and a search that sorts keys on the pool may run others on its thread,
/// which would then wait for it. So all files are sorted beforehand.
#[test]
fn all_files_are_sorted_before_parallel_lookups() {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["0.ctf", "1.ctf"] {
        let text: String = (0..100).map(|line| format!("{} |x 1\n", (line * 37) % 100)).collect();
        std::fs::write(folder.path().join(file), text).expect("writing the data");
    }
    let stream = TextStream {
        name: "x".into(),
        alias: "x".into(),
        dim: 1,
        storage: Storage::Dense,
        defines_mb_size: false,
        element: None,
        ids: None,
    };
    let text = &TextOptions {
        files: Files::named(folder.path().join("*.ctf").display().to_string()).expect("a pattern"),
        streams: vec![stream],
        skip_sequence_ids: false,
        max_errors: 0,
        log: Logger::new(0),
        chunk_size: 32 << 20,
        cache_index: false,
        keep_data_in_memory: false,
        element: ElementType::Float,
        strict_sequences: true,
        shared_ids: false,
        quirks: Default::default(),
    };
    let pool = Pool::shared().expect("threads");
    let open =
        || crate::ctf::open_files(text, &Arc::new(cntk_reader_core::corpus::Corpus::Numeric), false, None);
    let all = pool.install(open).expect("good data");
    let before = all.memory().index;
    all.prepare_to_find().expect("memory");
    let prepared = all.memory().index;
    assert!(prepared > before, "keys are sorted");
    assert!(all.find(99).is_some() && all.find(keys::KEY_LIMIT + 99).is_some());
    assert_eq!(all.memory().index, prepared, "nothing is left to be sorted");
}
