//! Text that the fast parser reads by itself, and text that it leaves to the exact parser. Other
//! tests compare the data.

use super::differential::STREAMS;
use super::{Bits, FRONT, Fast, Output, PADDING, Report, Rules, SequenceSpan, rules, spans};
use crate::ctf::parse::cause::Cause;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::cpu::processor::Processor;
use std::sync::Arc;

/// Whether the fast parser reads all of these sequences with the instructions of a processor.
fn is_read_by<T: Bits>(rules: &Rules, spans: &[SequenceSpan], text: &str, processor: Processor) -> bool {
    let mut padded = [&[b'7'; FRONT], text.as_bytes()].concat();
    padded.extend([b'7'; PADDING]);
    let fast = Fast::on(rules, processor);
    let mut segment = fast.segment();
    let mut output = Output::<T>::default();
    output.reset(rules);
    let mut report = Report::new(rules, rules.max_errors);
    spans.iter().all(|span| {
        segment.read_sequence(span, &padded, FRONT + span.offset as usize, &mut output, &mut report)
    })
}

/// Whether all instruction sets read all sequences of a text.
#[track_caller]
fn is_read(rules: &Rules, text: &str) -> bool {
    let spans = spans(rules, text.as_bytes());
    assert!(!spans.is_empty(), "{text:?}");
    let mut found = Vec::new();
    for processor in Processor::all() {
        found.push(is_read_by::<f32>(rules, &spans, text, processor));
        found.push(is_read_by::<f64>(rules, &spans, text, processor));
    }
    assert!(found.iter().all(|one| *one == found[0]), "{text:?}: {found:?}");
    found[0]
}

#[track_caller]
fn check(streams: &str, texts: &[&str]) {
    for text in texts {
        assert!(is_read(&rules(streams, 0), text), "{text:?} with {streams}");
    }
}

#[test]
fn dense_samples_are_read() {
    check(
        "x:1",
        &["|x 1\n", "|x -1\n", "|x +1\n", "|x\t1.5 \r\n", "|x 1e5\n", "|x 1.5E-05\n|x 2\n", "|x 7|# c\n"],
    );
    check(
        "x:1",
        &["|x 123456789012345\n", "|x 0.123456789012345\n", "|x 12345678\n", "|x -1234567.1234567\n"],
    );
    check(
        "x:2 y:3",
        &["|x 1 2|y 1 2 3\n", "|y -1.5\t2.5  3e3 |x 1.25 -2\n", "7 |x 1 2\t|y 1 2 3 \n", "|x 1-2|y 1 2 3\n"],
    );
    check(
        "x:4",
        &[
            "|x 1 2 3 4\n",
            "|x -1 -2.5 3. 4\r\n",
            "|x 1e5 2e-5 3E+5 4\n",
            "|x +1 +2 +3 +4\n",
            "|x 1 2 3 4\t\n",
        ],
    );
    check("x:4", &["|x 1234567890 12345678.123456789 0.00000000001 123456789e5\n"]);
    for value in [
        "1",
        "-0.25",
        "123.456789",
        "1.5e-05",
        "-2.5E+20",
        "+7",
        "12345678",
        "123456789.123456789",
        "7.",
        "0",
    ] {
        for dim in [4, 5, 15, 16, 17, 31, 32, 33, 64, 100] {
            let all = format!(" {value}").repeat(dim);
            for end in ["\n", " \n", "\r\n", "\t|# a comment\n"] {
                check(&format!("x:{dim} y:1"), &[&format!("|x{all}|y 1\n|y 1|x{all}{end}")]);
            }
        }
    }
    // At each distance from the end of a block.
    for blanks in 0..130 {
        let blanks = " ".repeat(blanks);
        check("x:5", &[&format!("|x{blanks} 1.5 -2{blanks} 3e5 +4 123456789\n")]);
    }
}

#[test]
fn samples_of_wrong_length_are_read_only_without_messages() {
    for (streams, short, long) in [
        ("x:3", "|x 1 2\n", "|x 1 2 3 4\n"),
        ("x:20", "|x 1 2\n", "|x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21\n"),
        ("x:3=int16", "|x 1 2\n", "|x 1 2 3 4\n"),
        ("x:17=float16", "|x 1 2 3\n", "|x 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n"),
        ("x:5", "|x 1e1 2e1 3e1 4e1\n", "|x 1e1 2e1 3e1 4e1 5e1 6e1\n"),
        ("x:1000", "|x\n", "|y\n"),
    ] {
        for (trace_level, text, expected) in
            [(0, short, true), (1, short, false), (0, long, false), (1, long, false)]
        {
            let mut rules = rules(streams, 9);
            rules.log.trace_level = trace_level;
            assert_eq!(is_read(&rules, text), expected, "{text:?}, trace level {trace_level}");
        }
    }
    for streams in ["x:5", "x:5=int16"] {
        let mut rules = rules(streams, 9);
        rules.log.trace_level = 1;
        assert!(is_read(&rules, "|x 1 2 3 4 5\n"), "{streams}: each value takes two bytes");
    }
    // Lines without a message, as with more samples than streams.
    for (trace_level, expected) in [(0, true), (1, false), (2, false)] {
        let mut rules = rules("x:1 y:1", 9);
        rules.log.trace_level = trace_level;
        assert_eq!(is_read(&rules, "1 |x 1|y 1|y 2\n1 |x 1\n"), expected, "{trace_level}");
        assert_eq!(is_read(&rules, "1 |x 1|y 1\n"), trace_level < 2);
    }
}

#[test]
fn sparse_samples_are_read() {
    check(
        "s:100s",
        &[
            "|s\n",
            "|s \n",
            "|s 1:2\n",
            "|s 99:1.5 \r\n",
            "|s\t1:-1\t2:+2 3:4e5\n",
            "|s 1:2|# c\n",
            "1 |s\n1 |s 1:2\n",
        ],
    );
    check("s:2000000000s", &["|s 1999999999:1 123456789:2\n", "|s 5:12345678 12345678:0.123456789\n"]);
    check("s:100s t:9s", &["|s 1:1 2:2|t 3:3\n", "|t 1:1 2:2 3:3|s 1:1 2:2\n|s 1:1|t 2:2\n", "|t|s\n"]);
    for entry in
        ["1:1", "12:345", "99:-2.5", "7:1e-5", "5:-1.25E+10", "3:+1", "1:123456789", "50:0.", "8:12345678.5"]
    {
        for count in [1, 2, 3, 8, 9, 15, 16, 17, 40] {
            let all = format!(" {entry}").repeat(count);
            for end in ["\n", " \n", "\r\n", "\t|# a comment\n"] {
                check("s:100s y:1", &[&format!("|s{all}|y 1\n|y 1|s{all}\n|y 2 |s{all}{end}")]);
            }
        }
    }
    for blanks in 0..130 {
        let blanks = " ".repeat(blanks);
        check("s:100s", &[&format!("|s{blanks} 1:1.5 12:-2{blanks} 3:3e5 4:+4 55:123456789\n")]);
    }
}

#[test]
fn other_inputs_are_skipped() {
    let long = "a long text 1:2 ".repeat(10);
    for text in [
        "|# a comment|x 1\n",
        "|x 1|#|#\n",
        "|x 1 |unknown\n",
        "|x 1 |unknown 1:2 3\n",
        "|unknown|x 1\n",
        "|xx 5|x 1\n",
        &format!("|# {long}|x 1\n"),
        &format!("|x 1|# {long}\n"),
        &format!("|unknown {long}|x 1|unknown {long}\n"),
        "|x 1\u{c}\u{b}\n",
        "123456789012345678901234 |x 1\n",
    ] {
        check("x:1", &[text]);
    }
    for text in ["|x 1||x 2\n", "|x 1| y\n", "|x 1|\t\n", "|x 1|\n", "|x 1 a\n", "1 2|x 1\n", "|x 1"] {
        assert!(!is_read(&rules("x:1", 9), text), "{text:?}");
    }
    let mut long_names = rules("x:1", 9);
    long_names.refuses_long_names = true;
    assert!(!is_read(&long_names, "|x 1|unknown\n"));
    // A stream without a name.
    let mut empty = rules("x:1", 9);
    empty.longest_alias = 0;
    assert!(!is_read(&empty, "|x 1|unknown\n"));
}

#[test]
fn lengths_are_compared_with_the_index() {
    let read = |streams, strict, text: &str| is_read(&Rules { strict, ..rules(streams, 9) }, text);
    assert!(read("x:1 y:1", true, "1 |x 1|y 1\n1 |x 1\n2 |y 1|x 2\n"));
    for (text, strict, lenient) in [
        // No stream has a sample in each line, a stream has none, and one has too many.
        ("1 |x 1\n1 |y 1\n", false, true),
        ("1 |x 1\n1 |x 1\n", false, false),
        ("1 |x 1|x 2|y 1\n", false, false),
    ] {
        assert_eq!((read("x:1 y:1", true, text), read("x:1 y:1", false, text)), (strict, lenient), "{text}");
    }
    // Only the length of the main stream counts.
    assert!(read("x:1* y:1", true, "1 |x 1|y 1\n1 |y 1\n1 |y 1\n2 |x 1|y 1\n"));
    assert!(!read("x:1 y:1*", true, "1 |x 1|y 1\n1 |x 2|y 2|y 3\n"));
    // Lines without a sample.
    for text in ["1 |x 1|y 1\n\n", "1 |x 1|y 1\n1 |#\n", "1 |x 1|y 1\n1\n"] {
        assert!(!is_read(&rules("x:1 y:1", 9), text), "{text:?}");
    }
}

#[test]
fn typed_samples_and_ids_are_read() {
    for dim in [1, 3, 15, 16, 40] {
        for (name, values) in [
            ("uint8", &["0", "255", "7.0", "1e2"][..]),
            ("int16", &["-32768", "32767", "-0"]),
            ("int32", &["-2147483648", "2147483647", "+5", "10e-1"]),
            (
                "int64",
                &["-9223372036854775808", "9223372036854775807", "9007199254740993", "123456789012345"],
            ),
            ("bool", &["0", "1"]),
            ("float16", &["0.5", "-65504", "1e4", "7e9"]),
            ("bfloat16", &["0.5", "-1e30"]),
            ("float64", &["0.1", "1e300"]),
        ] {
            for value in values {
                let all = format!(" {value}").repeat(dim);
                let rules = rules(&format!("x:{dim}={name} y:1"), 0);
                let text = format!("|x{all}|y 1\n|y 1|x{all} \r\n");
                // Streams of doubles have their own type only in a file of floats.
                let spans = spans(&rules, text.as_bytes());
                for processor in Processor::all() {
                    assert!(is_read_by::<f32>(&rules, &spans, &text, processor), "{text:?} {name}");
                }
            }
        }
    }
    check("s:8s=int32 t:9s=int64", &["|s 1:1|t 2:1\n", "|s 7:1.0 |t\t8:1e0 \n1 |s 1:+1|t 0:10e-1\r\n"]);
    check("s:8s=int32 x:1", &["1 |s 1:1|x 1\n1 |s 2:1|x 1\n2 |s 3:1|x 1\n"]);
    for text in ["|s 1:2\n", "|s\n", "|s 1:1 2:1\n", "|s 8:1\n"] {
        assert!(!is_read(&rules("s:8s=int32", 9), text), "{text:?}");
    }
}

#[test]
fn textual_ids_are_read() {
    let read = |refuses_text_ids, max_errors, trace_level, text: &str| {
        let mut rules = rules("x:1 s:9s", max_errors);
        rules.corpus = Arc::new(Corpus::Hashed);
        (rules.refuses_text_ids, rules.log.trace_level) = (refuses_text_ids, trace_level);
        let span =
            SequenceSpan { key: 0, samples: text.lines().count() as u32, offset: 0, size: text.len() as u32 };
        let found: Vec<_> =
            Processor::all().map(|processor| is_read_by::<f32>(&rules, &[span], text, processor)).collect();
        assert!(found.iter().all(|one| *one == found[0]), "{text:?}: {found:?}");
        found[0]
    };
    let long = format!("{} |x 1|s 1:1\n", "a-long-id-".repeat(20));
    for text in
        ["u1 |x 1|s 1:1\n", "u1 |x 1|s 1:1\nu2\t \t|x 1|s 2:2\n", "01 |x 1 |s\nk\u{e4}se |x 2|s\n", &long]
    {
        assert!(read(false, 0, 1, text) && read(true, 2, 0, text), "{text:?}");
        assert!(!read(true, 0, 0, text), "{text:?}: more errors than allowed");
        assert!(!read(true, 2, 1, text), "{text:?}: a warning");
    }
    for text in ["u1|x 1|s 1:1\n", "u1 7 |x 1|s 1:1\n", "u1 |x 1|s 1:1\nu1\n", "0-1 |x 1|s 1:1\n"] {
        assert!(!read(false, 9, 0, text), "{text:?}");
    }
}

/// A check needs each line with a textual id, and others count them.
#[test]
fn textual_ids_are_counted() {
    let mut rules = rules("x:1", 9);
    for (trace_level, noted, limit, count, expected) in [
        (0, false, 9, 9, Some(9)),
        (0, false, 9, 10, None),
        (1, false, 9, 1, None),
        (1, true, 9, 8, Some(9)),
        (1, true, 9, 9, None),
        (2, true, 9, 1, None),
    ] {
        rules.log.trace_level = trace_level;
        let mut report = Report::new(&rules, limit);
        if noted {
            report.note(Cause::TextId(b'u'), 5, Default::default());
            report.count(Default::default(), None).expect("tolerated");
        }
        let is_counted = report.count_text_ids(count);
        assert_eq!(is_counted, expected.is_some(), "{trace_level} {noted} {count}");
        assert_eq!(report.errors(), expected.unwrap_or(u64::from(noted)));
        let counts: Vec<_> = report.take_counts().into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts, if trace_level == 1 && noted { vec![expected.unwrap_or(1)] } else { vec![] });
    }
    let mut report = Report::collecting(&rules, 9);
    assert!(report.is_collected() && !report.count_text_ids(1));
}

/// Uniform lines, in files of common streams.
#[test]
fn uniform_lines_are_read() {
    for (streams, line) in [
        ("S0:130s a:130s w:19900s", "1 |w 1:1 |S0 2:1 |a 3:1\n"),
        ("S0:130s w:19900s", "|w 19899:1\t|S0 129:255 |# c\n"),
        ("twelve12name:130s w:19900s", "7 |twelve12name 1:1 |w 5:12345678\n"),
    ] {
        check(streams, &[&line.repeat(50)]);
    }
    check(STREAMS, &[&format!("|x{}|y 1 2|s 1:1|a_long_name 299:1 0:2\n", " 1".repeat(40)).repeat(3)]);
}
