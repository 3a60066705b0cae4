//! Chunks of files: segments, tolerated errors over several loads, files that change.

use crate::ctf::TextDeserializer;
use crate::ctf::{TextOptions, TextStream};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::{Ahead, Chunk, ChunkSource, ChunkTable, Loaded};
use cntk_reader_core::memory::compact::ValueForm;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::{Error, ErrorKind};
use cntk_reader_engine::pack::plain::PlainSequence;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tempfile::NamedTempFile;

pub fn file(text: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a file");
    file.write_all(text).expect("written");
    file
}

pub fn options(file: &NamedTempFile, max_errors: u32) -> TextOptions {
    let stream = |name: &str, dim, storage| TextStream {
        name: name.into(),
        alias: name.into(),
        dim,
        storage,
        defines_mb_size: false,
        element: None,
        ids: None,
    };
    TextOptions {
        files: cntk_reader_core::format::files::Files::one(file.path().to_str().expect("UTF-8").into()),
        streams: vec![stream("s", 1000, Storage::SparseCsc), stream("x", 2, Storage::Dense)],
        skip_sequence_ids: false,
        max_errors,
        log: Logger::new(0),
        chunk_size: 32 << 20,
        cache_index: false,
        keep_data_in_memory: false,
        element: ElementType::Float,
        strict_sequences: true,
        shared_ids: false,
        quirks: Default::default(),
    }
}

pub fn open(options: &TextOptions) -> TextDeserializer {
    TextDeserializer::open(options, &Arc::new(Corpus::Numeric)).expect("opens")
}

pub fn dense(chunk: &dyn Chunk, index: u32) -> Vec<f32> {
    match chunk.sequence(1, index) {
        Loaded::Data(view) => {
            assert!(view.sparse().is_none());
            view.values.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().expect("4 bytes"))).collect()
        }
        other => panic!("{other:?}"),
    }
}

pub fn entries_of(chunk: &dyn Chunk, index: u32) -> (Vec<i32>, Vec<u32>) {
    match chunk.sequence(0, index) {
        Loaded::Data(view) => {
            let sparse = view.sparse().expect("sparse");
            assert_eq!(sparse.offsets.len(), view.samples as usize + 1);
            assert_eq!(sparse.indices.len(), view.values.len());
            let indices =
                sparse.indices.chunks(4).map(|b| i32::from_ne_bytes(b.try_into().expect("4 bytes")));
            (indices.collect(), sparse.offsets.iter().map(|start| start - sparse.offsets[0]).collect())
        }
        other => panic!("{other:?}"),
    }
}

fn sparse_values(chunk: &dyn Chunk, index: u32) -> Vec<f32> {
    match chunk.sequence(0, index) {
        Loaded::Data(view) => {
            view.values.chunks(4).map(|b| f32::from_ne_bytes(b.try_into().expect("4 bytes"))).collect()
        }
        other => panic!("{other:?}"),
    }
}

pub fn failure<T>(result: cntk_reader_core::Result<T>) -> Error {
    match result {
        Ok(_) => panic!("must fail"),
        Err(error) => error,
    }
}

/// Each kind of implied data, alone and with the others, and sequences that are too long for it.
#[test]
fn implied_data_reads_like_stored_data() {
    type Case = (fn(u32) -> u32, u32, &'static [u32]);
    let cases: [Case; 7] = [
        // Samples of a sequence, entries of a sample, values.
        (|_| 1, 1, &[1]),
        (|_| 1, 1, &[3]),
        (|_| 1, 2, &[1]),
        (|i| 1 + i % 4, 1, &[1]),
        (|i| 1 + i % 4, 1, &[1, 1, 1, 2]),
        (|i| 1 + i % 4, 3, &[1]),
        (|i| if i == 70 { 5000 } else { 1 + i % 4 }, 1, &[1]),
    ];
    for (case, (samples, entries, values)) in cases.into_iter().enumerate() {
        let value = |i: u32, k: u32, e: u32| values[((i + k + e) as usize) % values.len()];
        let mut text = String::new();
        for i in 0..100 {
            for k in 0..samples(i) {
                text += &format!("{i} |x {i} {k} |s");
                (0..entries).for_each(|e| text += &format!(" {}:{}", (i + k + e) % 1000, value(i, k, e)));
                text += "\n";
            }
        }
        let file = file(text.as_bytes());
        let chunk = open(&options(&file, 0)).load(0).expect("loads");
        for i in 0..100 {
            let places = || (0..samples(i)).flat_map(|k| (0..entries).map(move |e| (k, e)));
            let expected = places().map(|(k, e)| ((i + k + e) % 1000) as i32).collect();
            let starts = (0..=samples(i)).map(|k| entries * k).collect();
            assert_eq!(entries_of(&*chunk, i), (expected, starts), "case {case}, sequence {i}");
            let expected: Vec<f32> = places().map(|(k, e)| value(i, k, e) as f32).collect();
            assert_eq!(sparse_values(&*chunk, i), expected, "case {case}, sequence {i}");
            let expected: Vec<f32> = (0..samples(i)).flat_map(|k| [i as f32, k as f32]).collect();
            assert_eq!(dense(&*chunk, i), expected, "case {case}, sequence {i}");
        }
    }
}

/// Samples of many entries, whose values take one, two or four bytes, and samples of few entries,
/// whose values are stored unchanged.
#[test]
fn long_sparse_samples_store_decimals() {
    let cases = [
        (20, "-1", Some(1)),
        (20, "0.99", Some(1)),
        (20, "-1.28", Some(2)),
        (20, "0.123456", None),
        (15, "0.99", None),
    ];
    for (entries, last, size) in cases {
        let value = |e: u32| if e + 1 == entries { last } else { ["0.5", "1", "-0"][e as usize % 3] };
        let entry = |i: u32, e: u32| format!(" {}:{}", i + e, value(e));
        let sample = |i: u32| -> String { (0..entries).map(|e| entry(i, e)).collect() };
        let text: String = (0..100)
            .map(|i| format!("{i} |x 1 2 |s{}\n{i} |x 1 2 |s{}\n", sample(i), sample(i + 1)))
            .collect();
        let file = file(text.as_bytes());
        let deserializer = open(&options(&file, 0)).narrow();
        let chunk = deserializer.load(0).expect("loads");
        for i in 0..100 {
            let Loaded::Data(view) = chunk.sequence(0, i) else { panic!("sequence {i} is not there") };
            let found = match view.form {
                ValueForm::Decimal(form) => Some(form.size()),
                _ => None,
            };
            assert_eq!(found, size, "{entries} entries, {last}");
            let mut plain = PlainSequence::default();
            let view = plain.decode(&view, &deserializer.streams()[0]).expect("decodes");
            let values = (0..2 * entries)
                .flat_map(|e| value(e % entries).parse::<f32>().expect("a number").to_ne_bytes());
            assert!(view.values.iter().copied().eq(values), "{entries} entries, {last}, sequence {i}");
        }
    }
}

#[test]
fn sequences_come_from_their_segments() {
    let lengths = |i: u32| 1 + i % 3;
    let mut text = String::new();
    for i in 0..60_000 {
        for k in 0..lengths(i) {
            text += &format!("{i} |x {i} {k}.5 |s {}:1 {k}:2\n", i % 1000);
        }
    }
    let file = file(text.as_bytes());
    for chunk_size in [32 << 20, 1 << 20, 1 << 16] {
        let deserializer = open(&TextOptions { chunk_size, ..options(&file, 0) });
        let mut i = 0;
        for (id, info) in deserializer.chunks().iter().enumerate() {
            let chunk = deserializer.load(id as u32).expect("loads");
            chunk.errors().commit().expect("no errors");
            for index in 0..info.sequences {
                chunk.prefetch(index, Ahead::Far);
                chunk.prefetch(index, Ahead::Near);
                let values: Vec<f32> = (0..lengths(i)).flat_map(|k| [i as f32, k as f32 + 0.5]).collect();
                assert_eq!(dense(&*chunk, index), values);
                let expected = (0..lengths(i)).flat_map(|k| [(i % 1000) as i32, k as i32]).collect();
                assert_eq!(entries_of(&*chunk, index), (expected, (0..=lengths(i)).map(|k| 2 * k).collect()));
                i += 1;
            }
        }
        assert_eq!(i, 60_000);
    }
}

#[test]
fn errors_are_counted_when_a_chunk_is_used() {
    let file = file(b"|x 1 2|s 1:1|x a\n|x 3 4|s 2:2\n");
    let deserializer = open(&options(&file, 2));
    let loaded = [0, 0, 0].map(|chunk| deserializer.load(chunk).expect("loads"));
    assert_eq!(dense(&*loaded[2], 0), [1.0, 2.0]);
    assert!(loaded[2].errors().commit().is_ok() && loaded[0].errors().commit().is_ok());
    let error = failure(loaded[1].errors().commit());
    assert!(
        error
            .message()
            .starts_with("Reached the maximum number of allowed errors while reading the input file (")
    );
    assert!(error.detail().starts_with("A value is not a number: it begins with 'a'. "), "{error}");
    let place = error.location();
    assert_eq!((place.line, place.offset), (Some(1), Some(15)));
    assert_eq!((place.stream.as_deref(), place.key.as_deref()), (Some("x"), Some("0")));
    assert_eq!(place.file.as_deref(), file.path().to_str());
}

#[test]
fn too_many_errors_in_a_chunk_exhaust_the_limit() {
    let file = file(b"|x 1 2|s 1:1|x a\n|x 1 2|s 1:1|x b|x c|x d|x e\n|x 3 4|s 1:1|x f\n");
    let mut options = options(&file, 3);
    options.chunk_size = 1;
    let deserializer = open(&options);
    let commit = |chunk| deserializer.load(chunk).expect("loads").errors().commit();
    assert!(commit(0).is_ok());
    // Two more errors are tolerated.
    let error = failure(commit(1));
    assert_eq!(error.location().offset, Some(40), "{error}");
    assert_eq!(failure(commit(2)).location().line, Some(3));
}

#[test]
fn error_beyond_the_limit_has_its_place() {
    let good = "|x 1.5 2|s 1:1 2:2\n";
    let mut text = good.repeat(100_000);
    text.insert_str(good.len() * 70_000, "|x 1 2|s 1:1 7 |s 1:1\n|x 1 2|x 1:2|s 1:1\n");
    let file = file(text.as_bytes());
    for max_errors in [0, 1] {
        let error =
            failure(open(&options(&file, max_errors)).load(0).and_then(|chunk| chunk.errors().commit()));
        assert_eq!(error.kind(), ErrorKind::Data);
        assert_eq!(error.location().line, Some(70_001 + u64::from(max_errors)));
        assert_eq!(error.location().stream.as_deref(), Some(if max_errors == 0 { "s" } else { "x" }));
    }
    assert!(open(&options(&file, 2)).load(0).is_ok_and(|chunk| chunk.errors().commit().is_ok()));
    // An error in each of several segments.
    let mut text = good.repeat(100_000);
    for line in [90_000, 50_000, 10_000, 9_000] {
        text.insert_str(good.len() * line, "|x 1 2|s 1:1|x a\n");
    }
    let file = super::chunks::file(text.as_bytes());
    for (max_errors, line) in (0..).zip([9_001, 10_002, 50_003, 90_004]) {
        let chunk = open(&options(&file, max_errors)).load(0).expect("loads");
        assert_eq!(failure(chunk.errors().commit()).location().line, Some(line));
    }
    assert!(open(&options(&file, 4)).load(0).is_ok_and(|chunk| chunk.errors().commit().is_ok()));
}

#[test]
fn a_stream_without_data_is_fatal_unless_errors_ran_out() {
    let fatal = file(b"|x 1 2|s 1:1\n|x 3 4\n");
    let error = failure(open(&options(&fatal, 1000)).load(0));
    assert!(error.message().starts_with("Malformed input file. Bailing out."));
    assert_eq!((error.location().line, error.location().stream.as_deref()), (Some(2), Some("s")));

    // Five attempts of one error each.
    let both = file(b"|x 1 2|s 7:a\n");
    for (max_errors, text) in [(0, "Reached"), (1, "Reached"), (4, "Reached"), (5, "Malformed")] {
        let loaded = open(&options(&both, max_errors)).load(0);
        let error = failure(loaded.and_then(|chunk| chunk.errors().commit()));
        assert!(error.message().starts_with(text), "{max_errors}: {error}");
    }
}

#[test]
fn advice_depends_on_the_rest_of_the_file() {
    for (text, expected) in [
        ("|x 1 2|S 1:1\n", "The file has no samples named '|s'. Its names are 'S', 'x'. Did you mean 'S'?"),
        ("|x 1 2|S 1:1", "The file has no samples named '|s'."),
        ("|x 1 2|größe 1:1\n", "differ. Names with characters beyond ASCII cannot be read:"),
        ("|größe 1:1\n", "the line has 'größe'. Names with characters beyond ASCII cannot be read:"),
        ("|x 1 2|s 1:1\n|x 3 4\n", "Other sequences have samples of '|s'."),
        ("|x 1 2|s 1:1\n|x 3 4", "it seems to be truncated."),
        ("|x 1 2|s 1:1\n|x 3 4|s 1:", "it seems to be truncated."),
        ("|X 1 2|t 1:1\n", "have samples named '|s', '|x'; the line has 'X', 't'. Did you mean 'X'?"),
        ("|x 1 2|s 1:1\n\r\n", "The line has no samples: remove it."),
        ("1 |x 1 2|s 1:1\n1 |# a comment\n", "The line has only a comment:"),
        ("|x 1 \u{2212}2|s 1:1\n", "'\u{2212}' ended the sample at offset 5: characters beyond ASCII"),
        ("|x 1 \x012|s 1:1\n", "The control character 0x01 ended the sample at offset 5"),
        ("|x 1 \0\0 2|s 1:1\n", "A zero byte ended the sample at offset 5"),
    ] {
        let file = file(text.as_bytes());
        let loaded = open(&options(&file, 0)).load(0);
        let error = failure(loaded.and_then(|chunk| chunk.errors().commit()));
        assert!(error.detail().contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn advice_lists_names_of_the_file() {
    let detail = |text: &str, alias: &str| {
        let file = file(text.as_bytes());
        let mut options = options(&file, 0);
        options.streams[0].alias = alias.to_owned();
        let loaded = open(&options).load(0);
        failure(loaded.and_then(|chunk| chunk.errors().commit())).detail().to_owned()
    };
    let names = |count: usize| (10..10 + count).map(|number| format!("|n{number} 1")).collect::<String>();
    let listed = |count: usize| (10..10 + count).map(|number| format!("'n{number}', ")).collect::<String>();
    let [short, long] = [63, 64].map(|length| "z".repeat(length));
    for (text, alias, expected) in [
        (format!("|x 1 2{}\n", names(18)), "s", format!("Its names are {}'x'. Write one of them", listed(18))),
        (format!("|x 1 2{}\n", names(19)), "s", format!("Its names are {}'x'. Write one of them", listed(19))),
        (format!("|x 1 2{}\n", names(20)), "s", format!("Its names are {}'n29' .... Write one of them", listed(19))),
        (format!("|x 1 2|{short} 1|{long} 1|#a|#\n"), "s", format!("Its names are 'x', '{short}'. Write one")),
        ("|x 1 2|t\t1\n".to_owned(), "s", "Its names are 't', 'x'. Write one".to_owned()),
        ("|x 1 2|gr\u{f6}\u{df}e 1:1\n".to_owned(), "gr\u{f6}\u{df}e", "rename '|gr\u{f6}\u{df}e' in the file and in the options.".to_owned()),
        ("|x 1 2|s 1:1\n|x 1 2|S 1:1\n".to_owned(), "s", "a sample in each sequence: add one, or set 'strictSequences = false', which leaves".to_owned()),
        ("1 |x 1 2|s 1:1\n1\n".to_owned(), "s", "The line has no samples: remove it.".to_owned()),
        ("1 |x 1 2|s 1:1\n1 |q 1\n".to_owned(), "s", "have samples named '|s', '|x'; the line has 'q'. Write one of them as the stream's name, or as its alias: 'alias = \"q\"'.".to_owned()),
        ("1 |x 1 2|s 1:1\n1 |X 1|q 1\n".to_owned(), "s", "the line has 'X', 'q'. Did you mean 'X'? Write one of them as the stream's name, or as its alias: 'alias = \"X\"'.".to_owned()),
    ] {
        let detail = detail(&text, alias);
        assert!(detail.contains(&expected), "{text:?}: {detail}");
    }
    // A control character far from the start of the file and of its line.
    let comment = "c".repeat(100_000);
    let text = format!("|x 1 2|s 1:1\n|x 1 2|# {comment}|s 1:1 \u{1}\u{2} 5\n");
    let place = text.find('\u{1}').expect("the character");
    let advice = format!("The control character 0x01 ended the sample at offset {place}: remove it.");
    assert!(detail(&text, "s").contains(&advice));
}

#[test]
fn truncated_chunk_can_be_asked_for_any_sequence() {
    let file = file(b"|x 1 2|s 1:1|x a\n|x 1 2\n|x 1 2|s 1:1\n|x 1 2|s 1:1\n");
    let chunk = open(&options(&file, 1000)).load(0).expect("errors are tolerated");
    for index in 0..4 {
        chunk.prefetch(index, Ahead::Far);
        chunk.prefetch(index, Ahead::Near);
        assert!(matches!(chunk.sequence(0, index), Loaded::Invalid));
    }
}

#[test]
fn kept_chunks_are_loaded_and_counted_once() {
    let file = file(b"|x 1 2|s 1:1|x a\n");
    let deserializer = open(&TextOptions { keep_data_in_memory: true, ..options(&file, 1) });
    let first = deserializer.load(0).expect("loads");
    let second = deserializer.load(0).expect("loads");
    assert!(Arc::ptr_eq(&first, &second));
    assert!(first.errors().commit().is_ok() && second.errors().commit().is_ok());
}

#[test]
fn file_truncated_after_indexing_is_an_error() {
    let text = b"|x 1 2|s 1:1\n|x 3 4|s 2:2\n";
    for length in [0, 5, 13, 20, 25] {
        let file = file(text);
        let deserializer = open(&options(&file, 1000));
        file.as_file().set_len(length).expect("cut");
        let error = failure(deserializer.load(0));
        assert!(error.message().ends_with("was changed while it was in use."), "{length}: {error}");
        assert_eq!(error.location().file.as_deref(), file.path().to_str());
    }
}

#[test]
fn sequences_without_data_may_be_skipped() {
    let file = file(b"1 |x 1 2\n1 |s 1:1\n2 |x 3 4\n3 |x 5 6|s 2:2\n");
    let deserializer = open(&TextOptions { strict_sequences: false, ..options(&file, 0) });
    let chunk = deserializer.load(0).expect("loads");
    assert_eq!(dense(&*chunk, 0), [1.0, 2.0]);
    assert!(matches!(chunk.sequence(0, 1), Loaded::Skipped));
    assert_eq!(dense(&*chunk, 2), [5.0, 6.0]);
    // They are counted, but not as errors.
    for skipped in [1, 2, 3] {
        assert!(deserializer.load(0).expect("loads").errors().commit().is_ok());
        assert_eq!(deserializer.shared.common.skipped.load(Ordering::Relaxed), skipped);
    }
}

#[cfg(unix)]
#[test]
fn files_that_cannot_be_opened() {
    let file = file(b"");
    for (path, text) in [("/nonexistent/x.ctf", "is not open."), ("/", "Error reading file")] {
        let options = TextOptions {
            files: cntk_reader_core::format::files::Files::one(path.into()),
            ..options(&file, 0)
        };
        let error = failure(TextDeserializer::open(&options, &Arc::new(Corpus::Numeric)));
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains(text), "{error}");
    }
}
