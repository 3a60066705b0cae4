//! Messages: CNTK's words, in CNTK's order and at CNTK's offsets. Only line breaks are shown
//! differently.

use super::log::LogLines;
use super::{Report, SequenceSpan, Way, exact, parse, parse_spans, rules, spans};
use crate::ctf::parse::bad_id::BadId;
use crate::ctf::parse::cause::Cause;
use crate::ctf::parse::output::Output;
use crate::ctf::parse::report::Context;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::runtime::log::Level;
use std::sync::Arc;

const TEXT: &str = "\
    1 |x 1 2|s 1:1\n\
    1 |x 1 a|s 1:2 |x 1 2 3 |s 3\n\
    1 |x 1|s 5:1:2 |s 12:1\n\
    \n\
    1 |s 99999999999999999999:1 |x -a |x 1e |x 1e-x| y||\n\
    1 b |x 1 2|s x:1\n\
    1 |x 3 4|x 3 4|x 3 4|s 1:2\n\
    2 |x 5 6|s 1:\n\
    2 |s\n\
    3 |x 5 6|s 1:1|x 1 2\n\
    1 |x 1 2|s 1:2\n\
    1 |x\x20";

const MESSAGES: &[&str] = &[
    "Unexpected character ('a') in a floating point value at offset 22 in F.",
    "Dense sample (size = 3) at offset 39 in F exceeds the expected size (2).",
    "Unexpected character('\\n') in place of the index delimiter (':') after a sparse value index (3) at offset 43 in F.",
    "A dense sample at offset 50 in F has a sparse suffix (expected size = 2, actual size = 1).",
    "Expected a uint64 value, but none found at offset 56 in F.",
    "Sparse index value (12) at offset 64 in F exceeds the maximum expected value (9).",
    "Empty input row at offset 68 in F.",
    "Could not read a row (# 4) while loading sequence (id = 1) at offset 68 in F.",
    "Overflow while reading a uint64 value at offset 92 in F.",
    "A sign symbol is followed by an invalid character('a') in a floating point value at offset 100 in F.",
    "An exponent symbol is followed by an invalid character(' ') in a floating point value at offset 107 in F.",
    "An exponent sign symbol followed by an unexpected character('x') in a floating point value at offset 114 in F.",
    "Input name prefix ('|') is followed by an invalid character (' ') at offset 116 in F.",
    "Input name prefix ('|') is followed by an invalid character ('|') at offset 119 in F.",
    "Input name prefix ('|') is followed by an invalid character ('\\n') at offset 120 in F.",
    "Empty input row at offset 121 in F.",
    "Could not read a row (# 5) while loading sequence (id = 1) at offset 121 in F.",
    "Unexpected character('b') in place of a name prefix ('|') in an input name at offset 123 in F.",
    "Expected a uint64 value, but none found at offset 134 in F.",
    "Input row at offset 165 in F contains more samples than expected (4 vs. 2).",
    "Exhausted all input expected for the current sequence (id = 1) at offset 165 in F, but only read 5 out of 7 expected rows.",
    "Number of samples for sequence (id = 1) at offset 165 in F is less than expected (6 vs. 7).",
    "Unexpected character ('\\n') in a floating point value at offset 178 in F.",
    "Number of samples for sequence (id = 2) at offset 184 in F is less than expected (1 vs. 2).",
    "Input row at offset 205 in F contains more samples than expected (3 vs. 2).",
    "Input ('x') contains more samples than expected (2 vs. 1) for sequence (id = 3) at offset 205 in F.",
    "Exhausted all input expected for the current sequence while reading a dense sample at offset 225 in F.",
    "Exhausted all input expected for the current sequence while reading an input row at offset 225 in F. Possibly, a trailing newline is missing.",
    "Number of samples for sequence (id = 1) at offset 225 in F is less than expected (1 vs. 2).",
];

fn messages(text: &str) -> Vec<String> {
    let mut rules = rules("s:10s x:2", 1000);
    rules.log.trace_level = 2;
    let mut output = Output::<f32>::default();
    output.reset(&rules);
    let mut report = Report::new(&rules, 1000);
    for span in spans(&rules, text.as_bytes()) {
        let range = span.offset as usize..span.offset as usize + span.size as usize;
        exact::read_sequence(&rules, &span, &text.as_bytes()[range], &mut output, &mut report)
            .expect("tolerated");
    }
    let lines = report.take_lines().into_iter().filter(|line| line.level != Level::Info);
    lines.map(|line| short(&line.text)).collect()
}

fn short(line: &str) -> String {
    line.replace("in the input file (test.ctf)", "in F")
}

#[test]
fn match_cntk() {
    assert_eq!(messages(TEXT), MESSAGES);
}

#[test]
fn at_the_end_of_a_file() {
    const ROW: &str = "Exhausted all input expected for the current sequence while reading an input row at offset {} in F. \
                       Possibly, a trailing newline is missing.";
    const SHORT: &str =
        "Number of samples for sequence (id = 1) at offset {} in F is less than expected (1 vs. 2).";
    const DENSE: &str = "Exhausted all input expected for the current sequence while reading a dense sample at offset {} in F.";
    const SPARSE: &str = "Exhausted all input expected for the current sequence while reading a sparse sample at offset {} in F.";
    const INDEX: &str = "Exhausted all input expected for the current sequence while reading a uint64 value at offset {} in F.";
    const NAME: &str = "Exhausted all input expected for the current sequence while reading an input name at offset {} in F.";
    const STATE: &str = "Reached an invalid state while reading a floating point value at offset {} in F.";
    for (end, expected) in [
        ("1 |x 1 2", &[ROW, DENSE, ROW][..]),
        ("1 |s 1:2 3", &[INDEX, ROW, SHORT]),
        ("1 |s 1:", &[ROW, STATE, ROW, SHORT]),
        ("1 |x", &[NAME, ROW, SHORT]),
        ("1 |x 1e", &[ROW, STATE, ROW, SHORT]),
        ("1 |x -", &[ROW, STATE, ROW, SHORT]),
        ("1 |s 1:2 ", &[SPARSE, ROW]),
    ] {
        let text = format!("1 |x 1 2|s 1:1\n{end}");
        let expected: Vec<String> =
            expected.iter().map(|line| line.replace("{}", &text.len().to_string())).collect();
        assert_eq!(messages(&text), expected, "{end}");
    }
}

#[test]
fn information_matches_cntk() {
    let mut rules = rules("x:1 yy:1", 9);
    rules.log.trace_level = 2;
    let mut report = Report::new(&rules, 9);
    let mut output = Output::<f32>::default();
    output.reset(&rules);
    let text = b"7 |x 1|zz 5|yyy 5|yy 2\n7 |x 3|yy 4\n";
    for span in spans(&rules, text) {
        exact::read_sequence(&rules, &span, text, &mut output, &mut report).expect("it is good");
    }
    let lines: Vec<_> = report.take_lines().into_iter().map(|line| (line.level, short(&line.text))).collect();
    let expected = [
        "Skipping unknown input ('zz') at offset 9 in F. Input name 'zz' was not specified in the reader config section.",
        "Skipping unknown input at offset 14 in F. Input name (with the 2-character prefix 'yy') exceeds the maximum expected \
         length (2).",
        "Finished loading sequence (id = 7) at offset 35 in F, successfully read 2 out of expected 2 rows.",
    ];
    assert_eq!(lines, expected.map(|line| (Level::Info, line.to_owned())));
    assert!(report.take_lines().is_empty());
}

/// Returns the detail of the error that ends reading of a text.
fn detail(streams: &str, text: &str) -> String {
    let rules = rules(streams, 0);
    let stop = parse::<f32>(&rules, text.as_bytes(), Way::Exact).expect_err("an error");
    stop.into_error(&rules, None).detail().to_owned()
}

#[test]
fn errors_come_with_advice() {
    let plain = "Values are numbers such as 1, -0.5 or 2e-3, with blanks between them.";
    let dense = "A sparse sample is 'index:value' pairs; set 'format = \"dense\"' if it is plain values.";
    for (streams, text, expected) in [
        ("x:1", "|x a\n", plain),
        ("x:1", "|x -\n", plain),
        ("x:1", "|x 1e\n", plain),
        ("x:1", "|x 1e+ \n", plain),
        ("x:1", "|x 1,5\n", "Write a point in place of a decimal comma, and blanks between values."),
        (
            "x:1",
            "|x 1:5\n",
            "A dense sample has values only; set 'format = \"sparse\"' if it is 'index:value' pairs.",
        ),
        ("x:1", "|x -.5\n", "A number begins with a digit and has at most one point: 0.5, not .5 or 1.2.3."),
        ("x:1", "|x nan\n", "Values are finite numbers: NaN and infinities cannot be read."),
        ("x:1", "|x -Inf\n", "Values are finite numbers: NaN and infinities cannot be read."),
        ("x:1", "|x 1 2\n", "Set 'dim' to the number of values."),
        ("x:1", "|x 1| 2\n", "The name of a stream follows '|' without a blank between them."),
        (
            "x:1",
            "1 |x 1|x 2\n",
            "The length of a sequence is its number of lines, or the length of the stream with 'definesMBSize = true': no stream may be longer.",
        ),
        (
            "x:1",
            "1 |x 1|x 2\r\n",
            "The length of a sequence is its number of lines, or the length of the stream with 'definesMBSize = true': no stream may be longer.",
        ),
        (
            "x:1",
            "|x 1\r|x 3\n",
            "A carriage return alone ends no line, as in CNTK: what follows it belongs to the same line. Convert the file's line ends: tr '\\r' '\\n' < FILE > NEW.",
        ),
        (
            "x:1 y:1",
            "1 |x 1\n1 |y 1\n",
            "At least one stream needs a sample in each line of the sequence; or set 'strictSequences = false'.",
        ),
        ("x:1", "1 |x 1\n2 |\n", "The name of a stream follows '|' without a blank between them."),
        ("s:5s", "|s -1:1\n", "Indices count from 0 and have no sign."),
        ("s:5s", "|s cat:1\n", "A sparse sample is 'index:value' pairs; number classes and words from 0."),
        ("s:5s", "|s \"cat\n", "A sparse sample is 'index:value' pairs; number classes and words from 0."),
        ("s:5s", "|s .5\n", dense),
        ("s:5s", "|s 0.5\n", dense),
        ("s:5s", "|s 5:1\n", "Set 'dim' to one more than the largest index; indices count from 0."),
        (
            "s:5s=int32",
            "|s 1:2\n",
            "Expected 'index:1'. The entry of a sample is 'index:1' in a stream with 'ids'; without 'ids' it is delivered sparse, with its value.",
        ),
        (
            "s:5s=int32",
            "|s\n",
            "Expected one, 'index:1'. Each sample of a stream with 'ids' has one entry, 'index:1'; without 'ids' it is delivered sparse.",
        ),
    ] {
        let detail = detail(streams, text);
        assert!(detail.ends_with(&format!(". {expected}")), "{text:?}: {detail}");
    }
    for (streams, text, expected) in [
        ("x:1", "1 |x 1\n\n", "Line 2 of a sequence has no sample that can be read."),
        ("s:5s", "|s 99999999999999999999:1\n", "An index has more than 64 bits."),
    ] {
        assert_eq!(detail(streams, text), expected);
    }
}

#[test]
fn values_of_other_types_are_described() {
    for (name, value, found) in [
        ("uint8", "256", "does not fit: 256. Expected an integer from 0 to 255 (uint8)."),
        ("int16", "-32769", "does not fit: -32769. Expected an integer from -32768 to 32767 (int16)."),
        ("int32", "3e9", "does not fit: 3e9. Expected an integer from -2147483648 to 2147483647 (int32)."),
        (
            "int64",
            "9223372036854775808",
            "does not fit: 9223372036854775808. Expected an integer from -9223372036854775808 to 9223372036854775807 (int64).",
        ),
        ("bool", "2", "does not fit: 2. Expected 0 or 1 (bool)."),
        ("bool", "0.5", "is not an integer: 0.5. Expected 0 or 1 (bool)."),
        (
            "uint8",
            "12345678901234567890.12345",
            "is not an integer: 12345678901234567890.123.... Expected an integer from 0 to 255 (uint8).",
        ),
    ] {
        let rules = rules(&format!("x:1={name}"), 0);
        let text = format!("|x {value}\n");
        let stop = parse::<f32>(&rules, text.as_bytes(), Way::Exact).expect_err("an error");
        assert_eq!(stop.offset, 3);
        let error = stop.into_error(&rules, Some(1));
        assert!(error.detail().starts_with(&format!("A value {found}")), "{error}");
        let advice = match found.starts_with("does") {
            true => "Correct the number, or set 'element' to a type with this range.",
            false => "Write integers, or set 'element' to a floating-point type.",
        };
        assert!(error.detail().ends_with(advice), "{error}");
    }
}

#[test]
fn ids_that_do_not_count_are_explained() {
    let first = |text: &str, corpus: Corpus, refuses_text_ids: bool| {
        let mut rules = rules("x:1", 0);
        (rules.corpus, rules.refuses_text_ids) = (Arc::new(corpus), refuses_text_ids);
        let span = SequenceSpan { key: 0, samples: 1, offset: 0, size: text.len() as u32 };
        let stop = parse_spans::<f32>(&rules, &[span], text.as_bytes(), Way::Exact).expect_err("an error");
        (stop.cause(), stop.offset, stop.into_error(&rules, None).detail().to_owned())
    };
    for (text, why, offset, advice) in [
        ("1 |x 1\n 2 |x 2\n", BadId::Hidden, 8, "An id counts only at the very beginning of its line"),
        ("1 |x 1\n\u{feff}2 |x 2\n", BadId::Mark, 10, "A byte order mark stands before the id"),
        ("1.5 |x 1\n", BadId::Tail, 1, "An id is digits only, and what follows them cannot be read"),
        ("-1 |x 1\n", BadId::NoDigits, 0, "A line begins with the id of its sequence, digits without a sign"),
        ("1 |x 1\n-2 |x 2\n", BadId::NoDigits, 7, "A line begins with the id of its sequence"),
        ("1 |x 1\n2.5 |x 2\n", BadId::Tail, 8, "An id is digits only, and what follows them cannot be read"),
        ("1 |x 1\r2 |x 2\n", BadId::LoneReturn, 7, "A carriage return alone ends no line"),
    ] {
        let (cause, at, detail) = first(text, Corpus::Numeric, true);
        assert!(matches!(cause, Cause::BadId { why: found, .. } if found == why), "{cause:?}");
        assert_eq!(at, offset, "{text:?}");
        assert!(detail.contains(&format!("is expected. {advice}")), "{detail}");
    }
    let (cause, offset, detail) = first("u|x 1\n", Corpus::Hashed, false);
    assert_eq!((cause, offset), (Cause::BadId { found: b'u', why: BadId::Glued }, 0));
    assert!(detail.ends_with(
        "A textual id ends at the first blank, so the '|' after it belongs to it: write a blank between them."
    ));
    let (cause, _, detail) = first("u |x 1\n", Corpus::Hashed, true);
    assert_eq!(cause, Cause::TextId(b'u'));
    assert!(detail.contains("The id is text: CNTK 2.7 counts an error for each line"), "{detail}");
    let (cause, offset, detail) = first("1 |x 1 |x 1 # c\n", Corpus::Numeric, true);
    assert_eq!((cause, offset), (Cause::Number(crate::ctf::parse::number::Flaw::Start(b'#')), 12));
    assert!(detail.starts_with("A value is not a number: it begins with '#'."), "{detail}");
    let (cause, _, detail) = first("1 |x 1\u{1}c\n", Corpus::Numeric, true);
    assert_eq!(cause, Cause::NoPrefix(b'c'), "{detail}");
}

#[test]
fn warnings_are_counted_by_kind_and_stream() {
    let mut rules = rules("x:2 y:1", 99);
    rules.log.trace_level = 1;
    let mut report = Report::new(&rules, 99);
    let context = |stream| Context { key: 5, stream };
    let short = Cause::ShortSample { dim: 2, values: 1 };
    report.note(short, 30, context(Some(0)));
    report.note(short, 40, context(Some(0)));
    report.note(short, 50, context(Some(1)));
    report.note(Cause::EmptyLine, 60, context(None));
    report.note(Cause::Ended("an input row"), 70, context(None));
    report.note(Cause::Ended("a dense sample"), 71, context(None));
    report.note_as(Level::Error, Cause::EmptyStream, 80, context(Some(1)));
    report.count_more(short, 0, 5);
    report.count_more(short, 1, 1);
    report.count_more(Cause::IndexOverflow, 0, 1);
    assert!(!report.lists_all());
    let counts: Vec<_> =
        report.take_counts().into_iter().map(|(kind, count)| (kind.plural, kind.stream, count)).collect();
    let plural = "dense samples with too few values";
    let expected = [
        (plural, Some(0), 7),
        (plural, Some(1), 2),
        ("lines without samples", None, 1),
        ("sequences that end without a line break", None, 1),
    ];
    assert_eq!(counts, expected);
    let lines = report.take_lines();
    let places: Vec<_> = lines
        .iter()
        .map(|line| line.counted.map(|(kind, place, key)| (kind.plural, kind.stream, place, key)))
        .collect();
    let expected = [
        Some((plural, Some(0), 30, 5)),
        Some((plural, Some(1), 50, 5)),
        // The line before the offset.
        Some(("lines without samples", None, 59, 5)),
        Some(("sequences that end without a line break", None, 70, 5)),
        None,
    ];
    assert_eq!(places, expected);
    assert_eq!(
        lines[0].text,
        "A dense sample at offset 30 in the input file (test.ctf) has a sparse suffix (expected size = 2, actual size = 1). \
         The missing values are zeros. Set \u{2039}dim\u{203a} to the number of values, or write all of them."
    );
    assert_eq!(lines[4].level, Level::Error);
    assert_eq!(
        lines[4].text,
        "Input ('y') is empty in sequence (id = 5) at offset 80 in the input file (test.ctf)."
    );
}

#[test]
fn warnings_of_each_kind_are_named() {
    let mut rules = rules("x:1", 99);
    rules.log.trace_level = 1;
    let mut report = Report::new(&rules, 99);
    let follows = [
        (Cause::CrowdedLine { samples: 2 }, "lines with more samples than there are streams"),
        (Cause::BadLine { line: 2 }, "lines that could not be read"),
        (Cause::FewLines { lines: 1, expected: 2 }, "sequences with fewer good lines than expected"),
        (
            Cause::TooManySamples { samples: 2, expected: 1, lone_returns: false },
            "sequences with more samples than lines",
        ),
        (Cause::TooFewSamples { samples: 1, expected: 2 }, "sequences with fewer samples than lines"),
        (Cause::EmptyStream, "sequences without a sample"),
    ];
    let others = [
        (Cause::FileEnded, "sequences that are missing in the file"),
        (Cause::NoPrefix(b'a'), "characters in place of '|'"),
        (Cause::TextId(b'a'), "lines that begin with an id that is text"),
        (Cause::BadId { found: b'a', why: BadId::Hidden }, "ids behind blanks, which do not count"),
        (Cause::BadId { found: b'a', why: BadId::Mark }, "ids behind byte order marks, which do not count"),
        (Cause::BadId { found: b'a', why: BadId::Tail }, "ids that end in something other than digits"),
        (
            Cause::BadId { found: b'a', why: BadId::NoDigits },
            "lines that begin with neither '|' nor a number",
        ),
        (Cause::BadId { found: b'a', why: BadId::Glued }, "ids without a blank after them"),
        (Cause::BadId { found: b'a', why: BadId::LoneReturn }, "lines that end in a carriage return alone"),
        (Cause::NoName(b'a'), "samples without a name"),
        (Cause::LongName, "names that are longer than every stream's name"),
        (Cause::NoIndex(b'a'), "sparse values without an index"),
        (Cause::IndexTooLarge { index: 5, dim: 5 }, "indices beyond the dimension"),
        (Cause::NotFinite { is_nan: true }, "values that are infinite or NaN"),
        (Cause::Underflow, "values that become 0 because they are too small"),
        (Cause::NoId { entries: 2 }, "samples of ids without exactly one entry"),
    ];
    for (cause, plural) in follows.into_iter().chain(others) {
        report.note(cause, 10, Context { key: 5, stream: Some(0) });
        let (kind, place, _) = report.take_lines().remove(0).counted.expect("a kind");
        let is_at_end = follows.iter().any(|(other, _)| *other == cause);
        assert_eq!((kind.plural, place), (plural, if is_at_end { 9 } else { 10 }), "{cause:?}");
        let is_of_sequence = plural.starts_with("sequences") && cause != Cause::FileEnded;
        assert_eq!(cause.is_of_sequence(), is_of_sequence, "{cause:?}");
    }
}

/// Many messages are written at once, except those whose places are looked up later.
#[test]
fn many_messages_do_not_fill_the_memory() {
    let mut rules = rules("x:2", 99);
    rules.file = "many-messages.ctf".to_owned();
    rules.log.trace_level = 1;
    let log = LogLines::with(&rules.file);
    let mut report = Report::new(&rules, 99);
    report.note(Cause::EmptyLine, 5, Context::default());
    let line = format!("{} {}", rules.file, "-".repeat((1 << 18) - rules.file.len() - 1));
    for number in 1..=4 {
        report.line(Level::Error, line.clone());
        assert_eq!(log.take().len(), 0, "{number}");
    }
    report.line(Level::Error, line.clone());
    assert_eq!(log.take().len(), 5);
    let kept = report.take_lines();
    assert!(matches!(&kept[..], [line] if line.counted.is_some()));
    // The count of bytes begins anew.
    (0..4).for_each(|_| report.line(Level::Error, line.clone()));
    assert_eq!((log.take().len(), report.take_lines().len()), (0, 4));
    report.line(Level::Error, line);
    assert_eq!((log.take().len(), report.take_lines().len()), (0, 1));
}
