//! Checks of chunks: findings with their places, statistics, notes and names.

use super::chunks::{file, open, options};
use crate::ctf::{MAX_ERRORS, TextDeserializer, TextOptions, TextStream};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::format::ChunkTable;
use cntk_reader_core::format::check::{ChunkCheck, Finding, NoteKind, Severity, StreamStatistics};
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Storage};
use std::sync::Arc;

/// Checks the only chunk of a text, whose streams are `s` (sparse, dimension 1000) and `x` (dense,
/// dimension 2).
fn checked(text: &str, change: fn(&mut TextOptions)) -> ChunkCheck {
    let file = file(text.as_bytes());
    let mut options = TextOptions { log: Logger::new(1), ..options(&file, 0) };
    change(&mut options);
    let deserializer = open(&options);
    assert_eq!(deserializer.chunks().len(), 1);
    deserializer.check(0, 99).expect("it is checked")
}

/// Offset, line, stream and key.
fn place(location: &Location) -> (u64, u64, &str, &str) {
    let stream = location.stream.as_deref().unwrap_or("");
    let key = location.key.as_deref().expect("a key");
    (location.offset.expect("an offset"), location.line.expect("a line"), stream, key)
}

/// Severity, place, message and the start of the detail.
type Expected<'a> = (Severity, (u64, u64, &'a str, &'a str), &'a str, &'a str);

#[track_caller]
fn compare(findings: &[Finding], expected: &[Expected<'_>]) {
    let found: Vec<_> = findings
        .iter()
        .map(|one| (one.severity, place(&one.location), &*one.message, &*one.detail))
        .collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        let is_equal = (found.0, found.1, found.2) == (expected.0, expected.1, expected.2);
        assert!(is_equal && found.3.starts_with(expected.3), "{found:?}, not {expected:?}");
    }
}

const MIXED: &str = "|x 1 2|s 1:1\n\
    |x 1 a|s 1:1|x 3 4\n\
    |x 1|s 1:1 1:2\n\
    |x 1 2 3|s 2:1|x 5 6\n\
    |s 1000:1|s 3:1|x 1 2|unknown 5|other 1:2\n\
    |x 7 8\n";

#[test]
fn findings_have_places() {
    let check = checked(MIXED, |_| ());
    compare(
        &check.findings,
        &[
            (
                Severity::Error,
                (18, 2, "x", "1"),
                "A value is not a number: it begins with 'a'.",
                "The sample is left out. Values are numbers such as",
            ),
            (
                Severity::Warning,
                (36, 3, "x", "2"),
                "A dense sample has 1 value, but ‹dim› of 'x' is 2.",
                "The missing values are zeros.",
            ),
            (
                Severity::Error,
                (55, 4, "x", "3"),
                "A dense sample has 3 values, but ‹dim› of 'x' is 2.",
                "The sample is left out. Set",
            ),
            (
                Severity::Error,
                (75, 5, "s", "4"),
                "A value has the index 1000, but ‹dim› of 's' is 1000.",
                "The sample is left out. Set",
            ),
            (
                Severity::Error,
                (110, 6, "s", "5"),
                "A sequence has no sample of the stream 's'.",
                "Each stream needs a sample in each sequence.",
            ),
        ],
    );
    assert_eq!((check.errors, check.warnings, check.bytes), (4, 1, MIXED.len() as u64));
    let names: Vec<_> = check.unknown_names.iter().map(|name| (&*name.name, name.is_sparse)).collect();
    assert_eq!(names, [("unknown", false), ("other", true)]);
    let [Some((repeat, 1)), None] = &check.repeats[..] else { panic!("{:?}", check.repeats) };
    let message = "A sparse sample has the index 1 more than once.";
    compare(
        std::slice::from_ref(repeat),
        &[(Severity::Note, (36, 3, "s", "2"), message, "The values of an index add up")],
    );
    assert!(check.notes.is_empty() && check.text_ids.is_none());
    let of_s = StreamStatistics {
        sequences: 5,
        samples: 5,
        values: 6,
        dim: 1001,
        shorter: 0,
        longer: 1,
        least_index: Some(1),
        single: 4,
        other_values: 1,
    };
    let of_x = StreamStatistics {
        sequences: 5,
        samples: 5,
        values: 10,
        dim: 3,
        shorter: 1,
        longer: 1,
        least_index: None,
        single: 0,
        other_values: 0,
    };
    assert_eq!(check.streams, [of_s, of_x]);
    // Doubles are checked alike, and only the first findings are listed.
    let doubles = checked(MIXED, |options| options.element = ElementType::Double);
    let shown = |check: &ChunkCheck| -> Vec<_> {
        let with_place = |one: &Finding| (one.message.clone(), one.location.offset, one.location.line);
        check.findings.iter().map(with_place).collect()
    };
    assert_eq!((shown(&doubles), doubles.streams), (shown(&check), check.streams.clone()));
    let file = file(MIXED.as_bytes());
    let options = TextOptions { log: Logger::new(1), ..options(&file, 0) };
    let few = open(&options).check(0, 2).expect("it is checked");
    assert_eq!((few.findings.len(), few.errors, few.warnings), (2, 4, 1));
    assert_eq!(shown(&few), shown(&check)[..2]);
}

#[test]
fn findings_are_in_their_lines_and_sequences() {
    let text = "1 |x 1 2|s 1:1\n1 |x 1 2\n2 |x 1 2\n2 |x 1 2\n\n3 |x 1 2|x 1 2|s 1:1\n4 |x 1 2|s 1:1\n";
    let check = checked(text, |_| ());
    let crowded = "A line has 3 samples, more than there are streams.";
    let empty = "A line has no sample of any stream that is read.";
    compare(
        &check.findings,
        &[
            (
                Severity::Error,
                (24, 3, "s", "2"),
                "A sequence has no sample of the stream 's'.",
                "Each stream needs",
            ),
            (Severity::Error, (42, 5, "", "2"), empty, "The line has no samples: remove it."),
            (Severity::Error, (63, 6, "", "3"), crowded, "A line has at most one sample of each stream"),
        ],
    );
    // Two streams are too long in the second sequence, which is one error, and too short in
    // another.
    let text = "1 |x 1 2|s 1:1\n2 |x 1 2|x 1 2|s 1:1|s 2:1\n3 |x 1 2\n3 |s 1:1\n";
    let check = checked(text, |_| ());
    let found: Vec<_> = check
        .findings
        .iter()
        .map(|one| (one.severity, one.location.line.expect("a line"), one.location.stream.as_deref()))
        .collect();
    let expected = [(Severity::Error, 2, None), (Severity::Error, 3, None)];
    assert_eq!(found, expected);
    assert_eq!((check.errors, check.warnings), (2, 2));
}

/// Lines are counted from earlier chunks, and segments are put together.
#[test]
fn lines_are_counted_across_chunks_and_segments() {
    let text: String = (0..60_000)
        .map(|line| {
            format!("{line} |x {line} {}|s {}:1\n", if line % 20_000 == 7 { "a" } else { "1" }, line % 1000)
        })
        .collect();
    let file = file(text.as_bytes());
    for (chunk_size, chunks) in [(1 << 30, 1), (200_000, 8)] {
        let deserializer = open(&TextOptions { chunk_size, ..options(&file, 0) });
        assert_eq!(deserializer.chunks().len(), chunks);
        for again in 0..2 {
            let mut all = ChunkCheck::default();
            for chunk in 0..chunks as u32 {
                // The second time from back to front.
                let chunk = if again == 0 { chunk } else { chunks as u32 - 1 - chunk };
                all.append(deserializer.check(chunk, 99).expect("it is checked"), 99);
            }
            let mut lines: Vec<_> = all.findings.iter().map(|finding| finding.location.line).collect();
            lines.sort_unstable();
            // A bad sample leaves its line without a sample of `x`, which is not reported again.
            assert_eq!(lines, [8, 20_008, 40_008].map(Some));
            assert_eq!((all.errors, all.bytes), (6, text.len() as u64));
            assert_eq!((all.streams[1].samples, all.streams[1].sequences), (59_997, 59_997));
        }
    }
}

#[test]
fn characters_that_end_samples_are_named() {
    let check =
        checked("|x 1 \u{2212}2|s 1:1\n|x 1 2 \u{1}3|s 1:1\n|x\u{a0}1 2|s 1:1\n|x 1 2 |s 1:1 7\n", |_| ());
    let [minus, control, blank] = [
        "'\u{2212}' ended the sample at offset 5:",
        "The control character 0x01 ended the sample at offset 23: remove it.",
        "'\\u{a0}' ended the sample at offset 34:",
    ];
    let short = |values| format!("A dense sample has {values}, but ‹dim› of 'x' is 2.");
    let prefix = |found| format!("'{found}' stands where a '|' is expected.");
    compare(
        &check.findings,
        &[
            (Severity::Warning, (5, 1, "x", "0"), &short("1 value"), minus),
            (Severity::Error, (8, 1, "", "0"), &prefix('2'), minus),
            (Severity::Error, (24, 2, "", "1"), &prefix('3'), control),
            (Severity::Warning, (34, 3, "x", "2"), &short("0 values"), blank),
            (Severity::Error, (36, 3, "", "2"), &prefix('1'), blank),
            (
                Severity::Error,
                (61, 4, "s", "3"),
                "The index 7 is followed by '\\n', not by ':'.",
                "The sample is left out. A sparse sample",
            ),
        ],
    );
}

#[test]
fn names_that_a_file_lacks_are_explained_once() {
    let check = checked("|x 1 2|S 1:1\n|x 1 2|S 1:1\n|x 1 2|S 1:1\n", |_| ());
    let message = "A sequence has no sample of the stream 's'.";
    let [advice, rule] = [
        "The file has no samples named '|s'. Its names are 'S', 'x'. Did you mean 'S'?",
        "Each stream needs",
    ];
    compare(
        &check.findings,
        &[
            (Severity::Error, (0, 1, "s", "0"), message, advice),
            (Severity::Error, (13, 2, "s", "1"), message, rule),
            (Severity::Error, (26, 3, "s", "2"), message, rule),
        ],
    );
    assert_eq!((check.streams[1].sequences, check.streams[1].samples, check.streams[1].dim), (0, 0, 0));
}

#[test]
fn numbers_that_become_0_or_infinite_are_noted() {
    let zeros = "0".repeat(45);
    let text = format!(
        "|x 1e39 1|s 1:1\n|x 1e-50 0|s 1:1e-60\n|x 0.{zeros}1 0|s 1:1\n|x 0e-50 1e-30|s 1:1\n|x 1 -1e39|s 1:1 2:1e999\n"
    );
    let check = checked(&text, |_| ());
    let message = "A number is too large for the type of the values.";
    let at = text.rfind("|x").expect("a line") as u64;
    compare(
        &check.findings,
        &[
            (Severity::Warning, (3, 1, "x", "0"), message, "It is delivered as infinity"),
            (Severity::Warning, (at + 5, 5, "x", "4"), message, "It is delivered as infinity"),
            (Severity::Warning, (at + 19, 5, "s", "4"), message, "It is delivered as infinity"),
        ],
    );
    let notes: Vec<_> =
        check.notes.iter().map(|note| (note.kind, note.stream, note.count, place(&note.first))).collect();
    let expected =
        [(NoteKind::Underflow, 1, 2, (19, 2, "x", "1")), (NoteKind::Underflow, 0, 1, (31, 2, "s", "1"))];
    assert_eq!(notes, expected);
    // As doubles, only one of them is unusual.
    let check = checked(&text, |options| options.element = ElementType::Double);
    assert_eq!((check.findings.len(), check.notes.len()), (1, 0));
    // Half-precision numbers underflow earlier.
    let halves = |options: &mut TextOptions| options.streams[1].element = Some(ElementType::Float16);
    let check = checked("|x 1 2|s 1:1\n|x 1 1e-9|s 1:1\n", halves);
    let notes: Vec<_> =
        check.notes.iter().map(|note| (note.stream, note.count, place(&note.first))).collect();
    assert_eq!(notes, [(1, 1, (18, 2, "x", "1"))]);
    assert_eq!(check.streams[1].values, 4);
}

#[test]
fn shorter_streams_are_noted() {
    let check = checked(
        "1 |x 1 2|s 1:1\n1 |s 2:1\n2 |x 1 2|s 1:1\n3 |x 1 2\n3 |s 1:1|x 1 2\n4 |s 1:1\n4 |s 1:1|x 1 2\n",
        |_| (),
    );
    let notes: Vec<_> =
        check.notes.iter().map(|note| (note.kind, note.stream, note.count, place(&note.first))).collect();
    let expected =
        [(NoteKind::FewerSamples, 0, 1, (39, 4, "s", "3")), (NoteKind::FewerSamples, 1, 2, (0, 1, "x", "1"))];
    assert_eq!(notes, expected);
    // Nothing is noted about a sequence that is left out.
    let check = checked("1 |x 1 2\n1 |x 1 2\n2 |x 1 2|s 1:1\n", |options| options.strict_sequences = false);
    assert!(check.notes.is_empty());
    assert_eq!((check.errors, check.warnings, check.findings.len()), (0, 1, 1));
    assert_eq!((check.streams[1].sequences, check.streams[1].samples), (1, 1));
}

#[test]
fn textual_ids_are_found() {
    let check = |max_errors, refuses_text_ids| {
        // Digits are an id that CNTK skips.
        let file = file(b"u1 |x 1 2|s 1:1\nu1 |x 1 2|s 1:1\nu2 |x 1 2|s 1:1\n12 |x 1 2|s 1:1\n");
        let mut options = options(&file, max_errors);
        options.quirks.refuses_text_ids = refuses_text_ids;
        let opened = TextDeserializer::open(&options, &Arc::new(Corpus::symbolic())).expect("opens");
        let check = opened.check(0, 99).expect("it is checked");
        assert!(check.findings.is_empty() && check.errors == 0 && check.warnings == 0);
        check.text_ids.expect("textual ids")
    };
    let cntks = "'u' stands where a '|' is expected.";
    for (max_errors, refuses, severity, message, detail) in [
        (
            0,
            false,
            Severity::Note,
            "The id of the sequence is text.",
            "CNTK 2.7 itself reads such a file only if",
        ),
        (
            MAX_ERRORS,
            false,
            Severity::Note,
            "The id of the sequence is text.",
            "CNTK 2.7 itself reads such a file only if",
        ),
        (0, true, Severity::Error, cntks, "The id is text: CNTK 2.7 counts an error"),
        (MAX_ERRORS - 1, true, Severity::Error, cntks, "The id is text: CNTK 2.7 counts an error"),
        (MAX_ERRORS, true, Severity::Warning, cntks, "The id is text: CNTK 2.7 counts an error"),
    ] {
        let (finding, count) = check(max_errors, refuses);
        assert_eq!(count, 3);
        compare(&[finding], &[(severity, (0, 1, "", "u1"), message, detail)]);
    }
}

#[test]
fn repeated_indices_are_found() {
    let text = "1 |x 1 2|s 1:1 2:1|s 5:1\n2 |x 1 2|s\t7:1|s 3:1 4:1 3:1\n2 |x 1 2|sx 9:1 9:1|s 4:1 4:1\n3 |x 1 2|s 1:1\n";
    let check = checked(text, |_| ());
    let [Some((repeat, 2)), None] = &check.repeats[..] else { panic!("{:?}", check.repeats) };
    let message = "A sparse sample has the index 3 more than once.";
    compare(std::slice::from_ref(repeat), &[(Severity::Note, (39, 2, "s", "2"), message, "")]);
}

#[test]
fn file_that_changes_is_a_finding() {
    let file = file(b"|x 1 2|s 1:1\n|x 1 2|s 1:1\n");
    let deserializer = open(&options(&file, 0));
    file.as_file().set_len(20).expect("cut");
    let check = deserializer.check(0, 99).expect("it is checked");
    let [finding] = &check.findings[..] else { panic!("{:?}", check.findings) };
    assert!(finding.message.ends_with("was changed while it was in use."), "{finding:?}");
    assert_eq!(finding.location.file.as_deref(), file.path().to_str());
    assert_eq!((check.errors, check.warnings), (1, 0));
}

#[test]
fn small_dimensions_are_reported() {
    let stream = |name: &str, dim, storage| TextStream {
        name: name.into(),
        alias: name.into(),
        dim,
        storage,
        defines_mb_size: false,
        element: None,
        ids: None,
    };
    let file = file(b"|a 1|b 1 2 3|c 1:1|d\n");
    let mut options = TextOptions { log: Logger::new(1), ..options(&file, 0) };
    options.streams = vec![
        stream("a", 3, Storage::Dense),
        stream("b", 3, Storage::Dense),
        stream("c", 9, Storage::SparseCsc),
        stream("d", 9, Storage::SparseCsc),
    ];
    let check = open(&options).check(0, 99).expect("it is checked");
    let found: Vec<_> = check
        .streams
        .iter()
        .map(|stream| (stream.dim, stream.least_index, stream.single, stream.samples))
        .collect();
    assert_eq!(found, [(1, None, 0, 1), (3, None, 0, 1), (2, Some(1), 1, 1), (0, None, 0, 1)]);
}
