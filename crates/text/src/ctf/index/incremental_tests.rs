//! Compares the index that is built step by step with the one that is built at once.

use super::indexer::{Indexer, Scan};
use super::reference::text;
use super::tests::{file_of, options, records};
use super::*;
use crate::ctf::tests::log::LogLines;
use cntk_reader_core::error::ErrorKind;
use cntk_reader_core::file::faults::{Fault, Faults, Operation};
use cntk_reader_core::format::IndexProgress;
use cntk_reader_core::runtime::log::Level;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn incremental(file: &DataFile, options: &IndexOptions, corpus: &Arc<Corpus>, step: u64) -> Result<Index> {
    let pool = Pool::shared().expect("threads");
    pool.install(|| Index::open_in_steps(file, options, corpus, &pool, step))
}

/// Returns the table of an index that was opened by [`incremental`].
fn table(index: &Index) -> &dyn IncrementalTable {
    index.incremental().expect("an incremental index")
}

/// Reads a file chunk by chunk; returns the chunks and the final result.
fn read(index: &Index) -> (Vec<ChunkInfo>, Result<()>) {
    // A file of a single step is indexed at once.
    let Some(table) = index.incremental() else { return (index.chunks().to_vec(), Ok(())) };
    let mut chunks = Vec::new();
    loop {
        match table.wait_for(chunks.len() as ChunkId) {
            Ok(Some(info)) => chunks.push(info),
            Ok(None) => return (chunks, Ok(())),
            Err(error) => return (chunks, Err(error)),
        }
    }
}

fn check(text: &[u8], main_stream: Option<&str>, limit: u64, step: u64, new_corpus: fn() -> Corpus) {
    let file = file_of(text);
    let options = IndexOptions { chunk_size: limit, ..options(main_stream) };
    let whole = Index::open(&file, &options, &new_corpus());
    let corpus = Arc::new(new_corpus());
    let incremental = match (incremental(&file, &options, &corpus, step), &whole) {
        (Ok(incremental), _) => incremental,
        (Err(error), Err(expected)) => return assert_eq!(error.to_string(), expected.to_string()),
        (Err(error), Ok(_)) => panic!("{error}"),
    };
    let (chunks, end) = read(&incremental);
    match (&whole, end) {
        (Ok(whole), Ok(())) => {
            assert_eq!(chunks, whole.chunks());
            assert_eq!(incremental.chunks(), whole.chunks());
            assert_eq!(records(&incremental), records(whole));
            assert_eq!(incremental.fingerprint(), whole.fingerprint());
            if let Some(table) = incremental.incremental() {
                assert_eq!(table.progress(), IndexProgress { chunks: chunks.len(), all: true });
            }
            for count in 0..=chunks.len() {
                assert_eq!(incremental.fingerprint_of(count), whole.fingerprint_of(count));
            }
            let ids: Vec<_> = (0..)
                .zip(&chunks)
                .flat_map(|(chunk, info)| (0..info.sequences).map(move |index| SequenceId { chunk, index }))
                .collect();
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            incremental.keys(&ids, &mut ours);
            whole.keys(&ids, &mut theirs);
            assert_eq!(ours, theirs);
            for key in ours {
                let found = incremental.find(key).expect("the key is there");
                let mut same = Vec::new();
                incremental.keys(&[found], &mut same);
                assert_eq!(same, [key]);
            }
        }
        (Err(expected), Err(error)) => assert_eq!(error.to_string(), expected.to_string()),
        (whole, end) => panic!("{end:?} instead of {whole:?}"),
    }
}

proptest! {
    #[test]
    fn matches_the_whole_index(
        text in text(), limit in 1u64..60, step in 1u64..40, main in any::<bool>(),
    ) {
        let main_stream = main.then_some("x");
        check(&text, main_stream, limit, step, || Corpus::Numeric);
        check(&text, main_stream, limit, step, Corpus::symbolic);
    }
}

/// Indexes a file in steps. With `repeats`, each step is begun, abandoned and repeated. Returns the
/// chunks, the sequences, and for each step whether keys ascend.
fn in_steps(
    file: &DataFile,
    scan: &Scan<'_>,
    (limit, step): (u64, u64),
    repeats: bool,
) -> Result<(Vec<ChunkInfo>, Vec<SequenceSpan>, Vec<bool>)> {
    let start = Start::read(scan.source, &options(None), scan.corpus)?;
    let mut indexer = Indexer::new(start, file.size()?, limit);
    let (mut chunks, mut spans, mut ascending) = (Vec::new(), Vec::new(), Vec::new());
    let mut add = |table: IndexTable| {
        chunks.extend_from_slice(&table.chunks);
        spans.extend((0..table.len()).map(|position| table.span_at(position)));
        ascending.push(table.ascending);
    };
    let mut to = start.content;
    while !indexer.is_done() {
        to = (to + step).min(file.size()?);
        if repeats {
            let restarted = indexer.restarted();
            let _ = indexer.advance(scan, to);
            indexer = restarted;
        }
        indexer.advance(scan, to)?;
        add(indexer.take_complete()?);
    }
    add(indexer.finish());
    Ok((chunks, spans, ascending))
}

proptest! {
    #[test]
    fn abandoned_step_can_be_repeated(
        text in text(), limit in 1u64..60, step in 1u64..40, main in any::<bool>(), symbolic in any::<bool>(),
    ) {
        let file = file_of(&text);
        let corpus = if symbolic { Corpus::symbolic() } else { Corpus::Numeric };
        let source = SourceFile::new(&file).expect("a file");
        let needle = main.then(|| Needle::new("x"));
        let scan = Scan { source: &source, corpus: &corpus, main_stream: needle.as_ref(), cut: Cut::default() };
        let [once, again] = [false, true].map(|repeats| in_steps(&file, &scan, (limit, step), repeats));
        let message = |error: Error| error.message().to_owned();
        prop_assert_eq!(again.map_err(message), once.map_err(message));
    }
}

#[test]
fn error_is_reported_at_its_chunk() {
    let file = file_of(b"1 |x\n2 |x\n3 |x\n18446744073709551616 |x\n5 |x\n");
    let options = IndexOptions { chunk_size: 1, ..options(None) };
    let index = incremental(&file, &options, &Arc::new(Corpus::Numeric), 5).expect("its start is good");
    let (chunks, end) = read(&index);
    let error = end.expect_err("a key that is too large");
    // Neither the sequence before the error nor the chunk before that is known to be complete.
    assert_eq!((chunks.len(), error.kind(), error.location().offset), (1, ErrorKind::Data, Some(15)));
    assert_eq!(error.location().file.as_deref(), Some("f"));
    assert_eq!(index.chunks().len(), 1);
    assert!(table(&index).wait_for(1).is_err() && table(&index).wait_for(0).is_ok());
    assert!(!table(&index).progress().all);
}

#[test]
fn scans_no_further_than_needed() {
    let line = b"|x 1\n";
    let text = line.repeat(1000);
    let options = IndexOptions { chunk_size: 50, ..options(None) };
    let index = incremental(&file_of(&text), &options, &Arc::new(Corpus::Numeric), 100).expect("an index");
    assert!(table(&index).progress().chunks >= 1 && table(&index).progress().chunks < 3, "{index:?}");
    assert!(table(&index).wait_for(20).expect("a chunk").is_some());
    // It stops two steps after the end of that chunk, 1050. The chunk before 1300 is not complete.
    check_idle_at(&index, 25);
    assert_eq!(index.chunks().len(), 100);
    check_idle_at(&index, 100);
    assert!(table(&index).progress().all);
}

/// Checks that the steps in the background end after this number of chunks. Waits long for them,
/// because the machine may be busy, and only shortly for further ones.
#[track_caller]
fn check_idle_at(index: &Index, chunks: usize) {
    let begin = Instant::now();
    while table(index).progress().chunks != chunks && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(table(index).progress().chunks, chunks);
}

#[test]
fn steps_end_ahead_of_the_chunk_in_use() {
    let text = b"|x 1\n".repeat(1000);
    let open = |chunk_size| {
        let options = IndexOptions { chunk_size, ..options(None) };
        incremental(&file_of(&text), &options, &Arc::new(Corpus::Numeric), 100).expect("an index")
    };
    // Two steps after offset 1000.
    let index = open(50);
    assert!(table(&index).wait_for(19).expect("a chunk").is_some());
    check_idle_at(&index, 23);
    // A chunk of many steps is scanned only when it is near.
    let index = open(1000);
    check_idle_at(&index, 1);
    assert_eq!(table(&index).wait_for(0).expect("a chunk"), Some(ChunkInfo { samples: 200, sequences: 200 }));
    check_idle_at(&index, 1);
    assert!(table(&index).wait_for(1).expect("a chunk").is_some());
    check_idle_at(&index, 2);
}

#[test]
fn small_and_cached_files_are_indexed_at_once() {
    let file = file_of(b"1 |x\n2 |x\n");
    let is_incremental = |step, cache| {
        let options = IndexOptions { cache, ..options(None) };
        let corpus = Arc::new(Corpus::symbolic());
        incremental(&file, &options, &corpus, step).expect("an index").incremental().is_some()
    };
    for (step, cache, expected) in
        [(9, false, true), (10, false, false), (11, false, false), (9, true, false)]
    {
        assert_eq!(is_incremental(step, cache), expected, "steps of {step} bytes, cache {cache}");
    }
    for (text, by_line) in [(b"|x 1\n|x 2\n", true), (b"1 |x\n2 |x\n", false)] {
        let index = incremental(&file_of(text), &options(None), &Arc::new(Corpus::Numeric), 3);
        assert_eq!(index.expect("an index").is_by_line(), by_line);
    }
}

#[test]
fn restarted_index_reports_no_line_of_an_id() {
    let file = file_of(b"1 |x\n2 |x\n18446744073709551616 |x\n");
    let source = SourceFile::new(&file).expect("a file");
    let scan = Scan { source: &source, corpus: &Corpus::Numeric, main_stream: None, cut: Cut::default() };
    let start = Start::read(&source, &options(None), &Corpus::Numeric).expect("a start");
    let place = |mut indexer: Indexer| {
        let error = indexer.advance(&scan, u64::MAX).expect_err("an id that is too large");
        (error.location().offset, error.location().line)
    };
    let mut indexer = Indexer::new(start, source.size(), 1);
    indexer.advance(&scan, 7).expect("good lines");
    assert_eq!(place(indexer.restarted()), (Some(10), None));
    assert_eq!((indexer.at(), indexer.is_done()), (7, false));
    assert_eq!(place(indexer), (Some(10), Some(3)));
}

#[test]
fn large_keys_are_reported_at_their_chunk() {
    let text: String = (0..100).map(|key| format!("{key} |x\n")).collect();
    let options = IndexOptions { chunk_size: 50, key_limit: Some(90), ..options(None) };
    let index = incremental(&file_of(text.as_bytes()), &options, &Arc::new(Corpus::Numeric), 50);
    let (chunks, end) = read(&index.expect("its start is good"));
    let error = end.expect_err("a large key");
    assert!(error.message().ends_with(" is too large for a file that is one of several."), "{error}");
    assert_eq!(error.location().file.as_deref(), Some("f"));
    assert!((5..12).contains(&chunks.len()), "{chunks:?}");
}

#[test]
fn progress_and_errors_are_logged() {
    let log = LogLines::with("logged-steps.ctf");
    let read = |trace_level, text: &[u8]| {
        let file = file_of(text).raw().try_clone().expect("a file");
        let file = DataFile::from_file(file, "logged-steps.ctf");
        let options = IndexOptions { log: Logger::new(trace_level), chunk_size: 10, ..options(None) };
        let index = incremental(&file, &options, &Arc::new(Corpus::Numeric), 10).expect("an index");
        let _ = table(&index).wait_for(1000);
        // The last step may still be writing.
        std::thread::sleep(Duration::from_millis(100));
        log.take()
    };
    let good: String = (0..9).map(|key| format!("{key} |x\n")).collect();
    let lines = read(2, good.as_bytes());
    let [(Level::Info, line)] = &lines[..] else { panic!("{lines:?}") };
    let begin = "Indexed 'F', while it was read: 9 sequences in 5 chunks, ";
    assert!(line.starts_with(begin) && line.ends_with(" bytes of memory."), "{line}");
    assert_eq!(read(1, good.as_bytes()), []);
    let lines = read(1, format!("{good}3 |x\n").as_bytes());
    let [(Level::Warning, line)] = &lines[..] else { panic!("{lines:?}") };
    assert!(
        line.starts_with("Sequence 3 of 'F' begins at line 4 (offset 15) and again at line 10"),
        "{line}"
    );
    let lines = read(1, format!("{good}18446744073709551616 |x\n").as_bytes());
    let [(Level::Warning, line)] = &lines[..] else { panic!("{lines:?}") };
    assert!(
        line.starts_with("Reading will fail where the file has an error: A sequence id is too large"),
        "{line}"
    );
}

#[cfg(unix)]
#[test]
fn read_error_ends_the_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.ctf").display().to_string();
    std::fs::write(&path, b"|x 1\n".repeat(100)).expect("writing");
    let file = DataFile::open(&path).expect("a file");
    let options = IndexOptions { chunk_size: 50, ..options(None) };
    let index = incremental(&file, &options, &Arc::new(Corpus::Numeric), 100).expect("an index");
    let faults = Faults::of(&path);
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, usize::MAX / 4);
    let error = table(&index).wait_for(9).expect_err("the file cannot be read");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.detail().ends_with("The index is not complete: open the reader again."), "{error}");
    assert_eq!(error.location().file.as_deref(), Some(&*path));
}

#[test]
fn shrunken_file_is_an_error_at_its_end() {
    let text = b"|x 1\n".repeat(1000);
    let file = file_of(&text);
    let options = IndexOptions { chunk_size: 50, ..options(None) };
    let index = incremental(&file, &options, &Arc::new(Corpus::Numeric), 100).expect("an index");
    file.raw().set_len(2500).expect("a file");
    let (chunks, end) = read(&index);
    assert_eq!(end.expect_err("the end is missing").kind(), ErrorKind::Data);
    assert!(chunks.len() <= 50, "{}", chunks.len());
}

#[test]
fn cancelled_wait_does_not_affect_later_waits() {
    let file = file_of(&b"|x 1\n".repeat(1000));
    let options = IndexOptions { chunk_size: 50, ..options(None) };
    let whole = Index::open(&file, &options, &Corpus::Numeric).expect("an index");
    let index = incremental(&file, &options, &Arc::new(Corpus::Numeric), 100).expect("an index");
    let canceller = cntk_reader_core::runtime::cancel::Canceller::new();
    let cancelled = canceller.run(|| {
        assert!(canceller.cancel());
        let chunks = index.chunks().len();
        index.fingerprint();
        Ok(chunks)
    });
    assert!(
        cancelled.is_err_and(|error| error.kind() == ErrorKind::Cancelled) || !table(&index).progress().all
    );
    assert_eq!(index.chunks(), whole.chunks());
    assert_eq!(index.fingerprint(), whole.fingerprint());
}

#[test]
fn cancelling_wakes_waiters_with_an_error() {
    let file = file_of(&b"|x 1\n".repeat(100));
    file.raw().set_len(1 << 40).expect("a sparse file");
    let options = IndexOptions { chunk_size: 50, ..options(None) };
    let index = incremental(&file, &options, &Arc::new(Corpus::Numeric), 1 << 20).expect("an index");
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| table(&index).wait_for(1000));
        table(&index).cancel();
        waiting.join().expect("no panic")
    });
    assert_eq!(waited.expect_err("nothing came").kind(), ErrorKind::State);
}
