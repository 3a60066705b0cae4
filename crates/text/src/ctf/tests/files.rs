//! Deserializers of one or several files: facts, places, logs, and the index cache.

use super::chunks::{dense, failure, file, open, options};
use super::log::LogLines;
use crate::ctf::index::{CacheState, IndexCache, IndexOptions, IndexSize};
use crate::ctf::{TextDeserializer, TextOptions, TextStream, open_files};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::files::{FileSpec, Files, KEPT_OPEN};
use cntk_reader_core::format::options::{Format, Signature};
use cntk_reader_core::format::{
    ChunkSource, ChunkTable, ChunkTableExt, Deserializer, SequenceFacts, SourceFacts,
};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::SequenceId;
use cntk_reader_core::stream::{ElementType, Ids, Storage};
use cntk_reader_core::{ErrorKind, Result};
use std::sync::Arc;

/// Files in a temporary folder.
struct Folder(tempfile::TempDir);

impl Folder {
    fn of(files: &[(&str, &str)]) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        files.iter().for_each(|(name, text)| std::fs::write(folder.path(name), text).expect("written"));
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Options for these files.
    fn options(&self, names: &[&str]) -> TextOptions {
        let specs = names.iter().map(|name| FileSpec::Exact(self.path(name))).collect();
        TextOptions { files: Files::of(specs), ..options(&file(b""), 0) }
    }
}

#[test]
fn index_caches_are_built_and_checked() {
    let folder = Folder::of(&[("a.ctf", "1 |x 1 2|s 1:1\n1 |x 1 2\n2 |x 1 2|s 1:1\n")]);
    let path = folder.path("a.ctf");
    let mut options = folder.options(&["a.ctf"]);
    let cache = |options: &TextOptions, corpus| IndexCache::of(options, &Arc::new(corpus));
    let numeric = cache(&options, Corpus::Numeric);
    assert_eq!(numeric.file(), path);
    assert_eq!(numeric.path().expect("a path"), format!("{path}._.0.0.0.v1.cache"));
    assert_eq!(numeric.state().expect("a state"), CacheState::Missing);
    let size = IndexSize { bytes: 39, sequences: 2, samples: 3 };
    assert_eq!(numeric.build().expect("it is built"), size);
    assert_eq!(numeric.state().expect("a state"), CacheState::Fits);
    assert_eq!(cache(&options, Corpus::Hashed).state().expect("a state"), CacheState::Missing);
    std::fs::write(format!("{path}._.0.0.0.v1.cache"), "?").expect("written");
    let state = numeric.state().expect("a state");
    assert_eq!(state, CacheState::Unfit("it has no header"));
    let states = [CacheState::Fits, CacheState::Missing, CacheState::Outdated, state];
    assert_eq!(states.map(CacheState::name), ["fits", "missing", "outdated", "unfit"]);

    options.streams[1].defines_mb_size = true;
    let of_main = cache(&options, Corpus::Numeric);
    assert_eq!(of_main.path().expect("a path"), format!("{path}.x.0.0.0.v1.cache"));
    assert_eq!(of_main.build().expect("it is built"), size);
    let symbolic = cache(&options, Corpus::symbolic());
    for error in [symbolic.state().err(), symbolic.path().err(), symbolic.build().err()] {
        let error = error.expect("an error");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.message(), format!("The file '{path}' can have no index cache."));
        assert!(error.detail().starts_with("Its keys are texts, whose numbers differ from run to run."));
        assert_eq!(error.location().file.as_deref(), Some(&*path));
    }
    let missing = cache(&folder.options(&["b.ctf"]), Corpus::Numeric);
    assert_eq!(missing.state().expect_err("no file").kind(), ErrorKind::Io);
    let wrong = Folder::of(&[("a.ctf", "?")]);
    let error = cache(&wrong.options(&["a.ctf"]), Corpus::Numeric).build().expect_err("no id");
    assert_eq!(error.location().file.as_deref(), Some(&*wrong.path("a.ctf")));
}

#[test]
fn options_of_an_index_are_those_of_the_file() {
    let mut options = options(&file(b""), 0);
    (options.chunk_size, options.cache_index, options.skip_sequence_ids) = (77, true, true);
    (options.log, options.quirks) = (Logger::new(5), Release::Beta.quirks());
    let index = IndexOptions::of(&options);
    assert_eq!((index.chunk_size, index.cache, index.skip_sequence_ids), (77, true, true));
    assert_eq!((index.log, index.quirks), (Logger::new(5), Release::Beta.quirks()));
    assert_eq!((index.main_stream, index.key_limit, index.warns_of_repeats), (None, None, true));
    options.streams[1].alias = "other".to_owned();
    options.streams[1].defines_mb_size = true;
    assert_eq!(IndexOptions::of(&options).main_stream.as_deref(), Some("other"));
}

#[test]
fn options_are_a_format() {
    let folder = Folder::of(&[("a.ctf", "|x 1 2|s 1:1\n"), ("b.ctf", "|x 3 4|s 1:1\n")]);
    let mut options = folder.options(&["a.ctf", "b.ctf"]);
    assert_eq!(options.type_name(), "CNTKTextFormatDeserializer");
    assert_eq!(options.name(), options.files.name());
    assert!(options.name().contains("a.ctf"));
    let facts = options.facts();
    assert_eq!(facts.signature, Signature::Explained);
    assert!(facts.has_written_indices && facts.suggests_chunk_size && !facts.frame_mode && !facts.lacks_keys);
    assert_eq!(options.data_files().expect("paths"), [folder.path("a.ctf"), folder.path("b.ctf")]);
    options.speak(FrontEnd::Cpp);
    assert_eq!(options.log.front_end, FrontEnd::Cpp);
    options.follow(Release::Beta);
    assert_eq!(options.quirks, Release::Beta.quirks());
    (options.cache_index, options.keep_data_in_memory) = (true, true);
    options.keep_nothing();
    assert_eq!((options.cache_index, options.keep_data_in_memory), (false, false));
    for (before, after) in [(0, 1), (1, 1), (2, 2)] {
        options.log.trace_level = before;
        options.report_warnings();
        assert_eq!(options.log.trace_level, after);
    }
    options.streams = vec![
        TextStream {
            ids: Some(Ids { element: ElementType::Int64, padding: 7 }),
            ..options.streams[0].clone()
        },
        TextStream { element: Some(ElementType::UInt8), defines_mb_size: true, ..options.streams[1].clone() },
        options.streams[0].clone(),
    ];
    let infos = options.stream_infos();
    let shown: Vec<_> =
        infos.iter().map(|info| (&*info.name, info.storage, info.element, info.defines_mb_size)).collect();
    let expected = [
        ("s", Storage::Dense, ElementType::Int64, false),
        ("x", Storage::Dense, ElementType::UInt8, true),
        ("s", Storage::SparseCsc, ElementType::Float, false),
    ];
    assert_eq!(shown, expected);
    assert_eq!((infos[1].sample_size(), infos[2].sample_size()), (2, 1000));
}

#[test]
fn deserializer_describes_its_file() {
    let text = b"1 |x 1 2|s 1:1\n2 |x 1 2|s 1:1\n\n5 |x 1 2|s 1:1\n4 |x 1 2|s 1:1\n";
    let file = file(text);
    let deserializer = open(&TextOptions { chunk_size: 31, ..options(&file, 0) });
    assert_eq!(deserializer.chunks().len(), 2);
    let names: Vec<_> = deserializer.streams().iter().map(|stream| &*stream.name).collect();
    assert_eq!(names, ["s", "x"]);
    assert_eq!(deserializer.facts(), SourceFacts::ON_POOL);
    assert_eq!(deserializer.sequence_facts(), SequenceFacts::PLAIN);
    assert_eq!(deserializer.file_bytes(), Some(text.len() as u64));
    let memory = deserializer.memory();
    assert_eq!((memory.chunks, memory.index), (0, deserializer.shared.index.memory() as u64));
    assert!(memory.index > 0);
    let chunk = deserializer.load(1).expect("loads");
    assert!(deserializer.memory().chunks > 0);
    assert_eq!(dense(&*chunk, 1), [1.0, 2.0]);
    let fingerprints = [Some(0), Some(1), Some(2), None].map(|chunks| deserializer.fingerprint(chunks));
    assert_eq!(fingerprints[2], fingerprints[3]);
    assert!(fingerprints[0] != fingerprints[1] && fingerprints[1] != fingerprints[2]);
    // All content up to the end of the chunks.
    let data = deserializer.shared.handle.get().expect("a file");
    for (chunks, end) in [(None, 61), (Some(2), 61), (Some(1), 31), (Some(0), 0)] {
        let (mut sampler, mut expected) = (Sampler::new(), Sampler::new());
        deserializer.sample_content(chunks, &mut sampler).expect("it is read");
        expected.file(&data, 0..end).expect("it is read");
        assert_eq!(sampler.finish(), expected.finish(), "{chunks:?}");
    }
    let place = deserializer.location(SequenceId { chunk: 1, index: 1 }, 0);
    assert_eq!((place.file.as_deref(), place.offset, place.line), (file.path().to_str(), Some(46), Some(5)));
    assert_eq!(deserializer.key_text(7, &Corpus::Numeric), "7");
    assert!(deserializer.remarks().is_empty());
    let ids = [(0, 1), (1, 0)].map(|(chunk, index)| SequenceId { chunk, index });
    let (mut keys, mut reported) = (Vec::new(), Vec::new());
    deserializer.keys(&ids, &mut keys);
    deserializer.reported_keys(&ids, true, &mut reported);
    assert_eq!((keys, reported), (vec![2, 5], vec![2, 5]));
    deserializer.prepare_to_find().expect("memory");
    assert!(deserializer.memory().index > memory.index);
    assert_eq!(deserializer.find(4), Some(SequenceId { chunk: 1, index: 1 }));
    assert_eq!(deserializer.find(3), None);
    let lines = open(&options(&super::chunks::file(b"|x 1 2|s 1:1\n"), 0));
    assert_eq!(lines.sequence_facts(), SequenceFacts { counts_keys: true, ..SequenceFacts::PLAIN });
}

#[test]
fn segments_have_about_the_same_size() {
    let line = |size: usize| format!("|x 1 2|s 1:1{}\n", " ".repeat(size - 13));
    for (size, count, shift) in [
        (13, 50_000, 15),
        (16, 40_000, 15),
        (17, 40_000, 14),
        (512, 2000, 10),
        (700_000, 3, 0),
        (300_000, 4, 0),
    ] {
        let file = file(line(size).repeat(count).as_bytes());
        let deserializer = open(&options(&file, 0));
        let text = &deserializer.shared;
        assert_eq!(text.shift(0, count as u32), shift, "{size}");
        let segments = (count as u32).div_ceil(1 << shift);
        let ends: Vec<_> = (0..segments).map(|segment| text.range(count as u32, shift, segment)).collect();
        assert!(ends.windows(2).all(|two| two[0].end == two[1].start && two[0].len() == 1 << shift));
        assert_eq!((ends[0].start, ends[ends.len() - 1].end), (0, count as u32));
    }
}

fn opened(options: &TextOptions, corpus: Corpus, is_incremental: bool) -> Result<Arc<dyn Deserializer>> {
    let pool = Pool::shared().expect("threads");
    let corpus = Arc::new(corpus);
    pool.install(|| open_files(options, &corpus, true, is_incremental.then_some(&pool)))
}

fn keys(deserializer: &dyn Deserializer) -> Vec<u64> {
    let mut keys = Vec::new();
    for (chunk, info) in (0..).zip(deserializer.chunks()) {
        let ids: Vec<_> = (0..info.sequences).map(|index| SequenceId { chunk, index }).collect();
        deserializer.keys(&ids, &mut keys);
    }
    keys
}

#[test]
fn files_share_their_keys_or_not() {
    const BASE: u64 = cntk_reader_core::limits::LARGEST_KEY_IN_LIST;
    let folder = Folder::of(&[
        ("a.ctf", "1 |x 1 2|s 1:1\n2 |x 1 2|s 1:1\n"),
        ("b.ctf", "2 |x 3 4|s 1:1\n1 |x 5 6|s 1:1\n"),
        ("c.ctf", "|x 1 2|s 1:1\n|x 1 2|s 1:1\n"),
        ("d.ctf", "|x 3 4|s 1:1\n"),
        ("e.ctf", "v |x 1 2|s 1:1\nu |x 1 2|s 1:1\n"),
        ("f.ctf", "u |x 1 2|s 1:1\nw |x 1 2|s 1:1\n"),
        ("g.ctf", &format!("{BASE} |x 1 2|s 1:1\n")),
    ]);
    let read = |names: &[&str], shared_ids, corpus: fn() -> Corpus| {
        let options = TextOptions { shared_ids, ..folder.options(names) };
        let found = [false, true].map(|is_incremental| {
            let deserializer = opened(&options, corpus(), is_incremental)?;
            assert_eq!(deserializer.chunks().len(), names.len());
            Ok(keys(&*deserializer))
        });
        let [at_once, in_turn] =
            found.map(|found: Result<Vec<u64>>| found.map_err(|error| error.to_string()));
        assert_eq!(at_once, in_turn);
        at_once.ok()
    };
    let numeric = || Corpus::Numeric;
    assert_eq!(read(&["a.ctf"], false, numeric), Some(vec![1, 2]));
    assert_eq!(read(&["a.ctf", "b.ctf"], false, numeric), Some(vec![1, 2, BASE + 2, BASE + 1]));
    assert_eq!(read(&["a.ctf", "b.ctf"], true, numeric), Some(vec![1, 2, 2, 1]));
    assert_eq!(read(&["c.ctf", "d.ctf"], false, numeric), Some(vec![0, 1, BASE]));
    assert_eq!(read(&["c.ctf", "d.ctf"], true, numeric), Some(vec![0, 1, 2]));
    assert_eq!(read(&["e.ctf", "f.ctf"], false, Corpus::symbolic), Some(vec![0, 1, 1, 2]));
    assert_eq!(read(&["g.ctf"], false, numeric), Some(vec![BASE]));
    assert_eq!(read(&["g.ctf", "a.ctf"], true, numeric), Some(vec![BASE, 1, 2]));
    // In one numbering of several files, an id may be too large.
    let options = folder.options(&["a.ctf", "g.ctf"]);
    let error = failure(opened(&options, Corpus::Numeric, false));
    assert!(error.message().starts_with(&format!("Sequence id {BASE} is too large")), "{error}");
    assert_eq!(error.location().file, Some(folder.path("g.ctf")));
    // Data of the second file.
    let deserializer = opened(&folder.options(&["a.ctf", "b.ctf"]), Corpus::Numeric, false).expect("opens");
    let place = deserializer.diagnostics().location(SequenceId { chunk: 1, index: 1 }, 0);
    assert_eq!((place.file, place.line), (Some(folder.path("b.ctf")), Some(2)));
}

#[test]
fn repeated_keys_are_reported_by_file_or_for_all() {
    let folder = Folder::of(&[
        ("a.ctf", "1 |x 1 2|s 1:1\n2 |x 1 2|s 1:1\n1 |x 1 2|s 1:1\n"),
        ("b.ctf", "5 |x 3 4|s 1:1\n6 |x 3 4|s 1:1\n"),
        ("c.ctf", "6 |x 3 4|s 1:1\n"),
    ]);
    let log = LogLines::with(&folder.0.path().display().to_string());
    let logged = |names: &[&str], shared_ids| {
        let options = TextOptions { shared_ids, log: Logger::new(1), ..folder.options(names) };
        opened(&options, Corpus::Numeric, false).expect("opens");
        log.take()
            .into_iter()
            .map(|(_, line)| line.split(" begins").next().map(|text| text.replace('\\', "/")))
            .collect::<Vec<_>>()
    };
    let line = |text: &str| Some(text.to_owned());
    assert_eq!(logged(&["a.ctf", "b.ctf"], false), [line("Sequence 1 of 'F/a.ctf'")]);
    assert_eq!(logged(&["b.ctf", "c.ctf"], false), []);
    assert_eq!(logged(&["b.ctf", "c.ctf"], true), [line("Sequence 6 of 'F/b.ctf'")]);
    assert_eq!(logged(&["c.ctf"], true), []);
}

#[test]
fn incremental_files_are_indexed_in_steps() {
    let folder = Folder::of(&[("a.ctf", &"|x 1 2|s 1:1\n".repeat(1000))]);
    let options = TextOptions { chunk_size: 130, ..folder.options(&["a.ctf"]) };
    let pool = Pool::shared().expect("threads");
    let corpus = Arc::new(Corpus::Numeric);
    let read = |options: &TextOptions| {
        let opened =
            pool.install(|| TextDeserializer::open_in_steps(options, &corpus, &pool, 500)).expect("opens");
        let is_incremental = opened.incremental().is_some();
        assert_eq!(opened.chunk(99).expect("a chunk").map(|info| info.sequences), Some(10));
        assert!(opened.chunk(100).expect("the end").is_none());
        is_incremental
    };
    assert!(read(&options));
    // Kept chunks need a complete table.
    let kept = TextOptions { keep_data_in_memory: true, ..options };
    let opened = pool.install(|| TextDeserializer::open_incremental(&kept, &corpus, &pool)).expect("opens");
    assert!(opened.incremental().is_none());
    assert_eq!(opened.kept.as_ref().map(Vec::len), Some(100));
}

#[test]
fn warnings_are_written_once_and_counted() {
    let mut text = String::new();
    for line in 0..20 {
        text += if line % 4 == 1 { "|x 1|s 1:1\n" } else { "|x 1 2|s 1:1\n" };
    }
    let file = file(text.as_bytes());
    let path = file.path().display().to_string();
    let log = LogLines::with(&path);
    let options = TextOptions { log: Logger::new(1), chunk_size: 126, ..options(&file, 0) };
    let deserializer = open(&options);
    assert_eq!(deserializer.chunks().len(), 2);
    let load = |chunk| {
        deserializer.load(chunk).expect("loads").errors().commit().expect("no errors");
        log.take()
    };
    let warning = |text: &str| (Level::Warning, text.to_owned());
    let more = |chunk: u32, count: u32| {
        warning(&format!(
            "Chunk {chunk} of 'F' has {count} more dense samples with too few values in stream 'x'. Set 'traceLevel = 2' \
             to see each of them."
        ))
    };
    let first = "A dense sample at offset 17 in the input file (F) has a sparse suffix (expected size = 2, actual size = 1). \
                 The missing values are zeros. Set 'dim' to the number of values, or write all of them. (file F, line 2, stream x, sequence 1)";
    assert_eq!(load(0), [warning(first), more(0, 2)]);
    assert_eq!(load(1), [more(1, 2)]);
    let sweep = || {
        deserializer.end_sweep();
        log.take()
    };
    let so_far = |count: u32| {
        warning(&format!(
            "'F' had {count} dense samples with too few values in stream 'x' so far, the first in line 2."
        ))
    };
    assert_eq!(sweep(), [so_far(5)]);
    assert_eq!((load(0), sweep()), (vec![], vec![]));
    assert_eq!((load(1), sweep()), (vec![], vec![so_far(10)]));
    assert_eq!((load(1), sweep()), (vec![], vec![]));
    // At trace level 2, each one is written.
    let detailed = open(&TextOptions { log: Logger::new(2), ..options });
    log.take();
    detailed.load(1).expect("loads");
    let lines: Vec<_> = log.take().into_iter().filter(|(level, _)| *level == Level::Warning).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    detailed.end_sweep();
    assert_eq!(log.take(), []);
}

#[test]
fn values_that_are_infinite_cause_warnings() {
    let file = file(b"|x 1 2|s 1:1\n|x 1e39 -1e39|s 1:1\n|x 1 2|s 1:1e39\n|x 0 1e39|s 1:1\n");
    let path = file.path().display().to_string();
    let log = LogLines::with(&path);
    let logged = |trace_level, element| {
        let options = TextOptions { log: Logger::new(trace_level), element, ..options(&file, 0) };
        let chunk = open(&options).load(0).expect("loads");
        assert!(chunk.errors().commit().is_ok());
        let lines = log.take().into_iter().filter(|(level, _)| *level == Level::Warning);
        lines
            .map(|(_, line)| {
                line.split_once(". ").map_or(line.clone(), |(start, rest)| {
                    let place = rest.rsplit_once(" (file").map_or("", |(_, place)| place);
                    format!("{start}{place}")
                })
            })
            .collect::<Vec<_>>()
    };
    let at = |offset: u32| {
        format!("A number is too large for the type of the values at offset {offset} in the input file (F)")
    };
    assert_eq!(
        logged(1, ElementType::Float),
        [
            format!("{} F, line 3, stream s, sequence 2)", at(44)),
            format!("{} F, line 2, stream x, sequence 1)", at(16)),
            "Chunk 0 of 'F' has 2 more values that are infinite or NaN in stream 'x'".to_owned(),
        ]
    );
    assert_eq!(logged(2, ElementType::Float), [44, 16, 21, 54].map(|offset| format!("{}.", at(offset))));
    assert!(logged(0, ElementType::Float).is_empty() && logged(1, ElementType::Double).is_empty());
}

#[test]
fn infinite_value_of_a_later_segment_has_its_place() {
    let mut text = "|x 1 2|s 1:1\n".repeat(60_000);
    text.replace_range(13 * 50_000..13 * 50_001, "|x 1 1e39|s 1:1\n");
    let file = file(text.as_bytes());
    let log = LogLines::with(&file.path().display().to_string());
    open(&TextOptions { log: Logger::new(1), ..options(&file, 0) }).load(0).expect("loads");
    let lines = log.take();
    let [(Level::Warning, line)] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.ends_with("(file F, line 50001, stream x, sequence 50000)"), "{line}");
}

/// Files are closed between uses if there are very many, and then have to stay the same.
#[cfg(unix)] // Wine 8 cannot replace an open file.
#[test]
fn very_many_files_are_closed_between_uses() {
    for (count, is_closed) in [(KEPT_OPEN, false), (KEPT_OPEN + 1, true)] {
        let names: Vec<_> = (0..count).map(|number| format!("{number}.ctf")).collect();
        let files: Vec<_> = names.iter().map(|name| (&**name, "|x 1 2|s 1:1\n")).collect();
        let folder = Folder::of(&files);
        let options = folder.options(&names.iter().map(|name| &**name).collect::<Vec<_>>());
        let deserializer = opened(&options, Corpus::Numeric, false).expect("opens");
        std::fs::write(folder.path("new"), "|x 3 4|s 1:1\n").expect("written");
        std::fs::rename(folder.path("new"), folder.path("0.ctf")).expect("replaced");
        let chunk = deserializer.diagnostics().check(0, 9).expect("it is checked");
        assert_eq!(chunk.errors, u64::from(is_closed), "{count} files");
    }
}

#[test]
fn left_out_sequences_are_logged_more_and_more_rarely() {
    let file = file(b"1 |x 1 2\n2 |x 3 4|s 1:1\n3 |x 5 6\n");
    let log = LogLines::with(&file.path().display().to_string());
    let options = TextOptions { strict_sequences: false, log: Logger::new(1), ..options(&file, 0) };
    let deserializer = open(&options);
    let commit = || {
        let chunk = deserializer.load(0).expect("loads");
        assert!(chunk.errors().has_uncounted() && !chunk.errors().has_counted());
        assert!(chunk.errors().commit().is_ok());
        assert!(!chunk.errors().has_uncounted() && chunk.errors().has_counted());
        let lines = log.take();
        let of_chunk = |line: &str| {
            line.starts_with("Chunk 0 of 'F': 2 sequences are left out because a stream has no sample in them ('strictSequences = false'); ")
        };
        lines
            .iter()
            .find(|(_, line)| of_chunk(line))
            .map(|(_, line)| line.split("; ").nth(1).map(str::to_owned))
    };
    let so_far = |count: u32| Some(Some(format!("{count} so far, over all sweeps.")));
    let logged: Vec<_> = (0..8).map(|_| commit()).collect();
    assert_eq!(logged, [so_far(2), so_far(4), None, so_far(8), None, None, None, so_far(16)]);
}

#[test]
fn hidden_warnings_are_mentioned() {
    let file = file(b"|x 1 a|s 1:1\n");
    let text = "A number of warnings were generated while reading input data, to see them please set";
    let front_end = FrontEnd::Cpp;
    let log = LogLines::with(&front_end.say("see them please set ‹trace_level› to a value"));
    for (trace_level, expected) in [(0, 1), (1, 0)] {
        let options = TextOptions { log: Logger { trace_level, front_end }, ..options(&file, 0) };
        let error = failure(open(&options).load(0).and_then(|chunk| chunk.errors().commit()));
        assert_eq!(error.kind(), ErrorKind::Data);
        let lines = log.take();
        assert!(lines.iter().all(|(level, line)| *level == Level::Error && line.starts_with(&text[..50])));
        assert_eq!(lines.len(), expected);
    }
}

#[test]
fn counted_errors_are_retracted_waived_and_forgotten() {
    let file = file(b"|x 1 2|s 1:1|x a\n|x 1 2|s 1:1|x b|x c\n|x 3 4|s 1:1\n");
    let deserializer = open(&TextOptions { chunk_size: 1, ..options(&file, 4) });
    let left = || *deserializer.shared.common.errors_left.lock();
    let [one, two, none] = [0, 1, 2].map(|chunk| deserializer.load(chunk).expect("loads"));
    let (one, two, none) = (one.errors(), two.errors(), none.errors());
    let state =
        |errors: &dyn cntk_reader_core::format::ChunkErrors| (errors.has_uncounted(), errors.has_counted());
    assert_eq!((state(one), state(none)), ((true, false), (false, false)));
    assert!(none.commit().is_ok() && one.commit().is_ok() && one.commit().is_ok());
    assert_eq!((left(), state(one), state(none)), (3, (false, true), (false, false)));
    assert!(two.commit().is_ok());
    assert_eq!(left(), 1);
    two.retract();
    assert_eq!((left(), state(two)), (3, (true, false)));
    two.retract();
    none.retract();
    assert_eq!(left(), 3);
    two.waive();
    assert!(two.commit().is_ok());
    assert_eq!((left(), state(two)), (3, (false, true)));
    // A waived error counted nothing.
    two.retract();
    assert_eq!(left(), 3);
    assert!(two.commit().is_ok());
    deserializer.forget_errors();
    assert_eq!(left(), 4);
    // Nothing is given back beyond the limit.
    two.retract();
    assert_eq!(left(), 4);
}

#[test]
fn five_attempts_count_their_errors() {
    // Two errors in a chunk that fails: ten of them.
    let file = file(b"1 |x 1 2|s 1:a|s 1:b\n1 |x 1 2\n");
    let outcome = |max_errors| {
        let deserializer = open(&options(&file, max_errors));
        let error = failure(deserializer.load(0).and_then(|chunk| chunk.errors().commit()));
        let left = *deserializer.shared.common.errors_left.lock();
        (error.message().split(' ').next().unwrap_or_default().to_owned(), error.location().offset, left)
    };
    let reached = |offset| ("Reached".to_owned(), Some(offset), 0);
    assert_eq!([0, 1].map(outcome), [reached(13), reached(19)]);
    // The last error, as only a later attempt exceeds the limit.
    assert_eq!([2, 9].map(outcome), [reached(19), reached(19)]);
    assert_eq!(outcome(10), ("Malformed".to_owned(), Some(0), 0));
    assert_eq!(outcome(13), ("Malformed".to_owned(), Some(0), 3));
}
