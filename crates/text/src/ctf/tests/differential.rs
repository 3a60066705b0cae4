//! Compares the fast parser with the exact one, on random input: well-formed, or corrupted in one
//! or several places.

use super::{Bits, FRONT, Fast, Output, PADDING, Report, SequenceSpan, Way, log, parse, parse_spans, rules};
use crate::ctf::parse::rules::Rules;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::cpu::processor::Processor;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;
use std::sync::Arc;

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "-?[0-9]{1,3}",
        4 => "-?[0-9]{1,2}\\.[0-9]{6}",
        1 => "-?[0-9]{1,8}\\.[0-9]{7,25}",
        1 => "[+-]?[0-9]{1,20}(\\.[0-9]{0,22})?",
        1 => "-?[0-9]{1,3}(\\.[0-9]{1,8})?[eE][+-]?[0-9]{1,3}",
        1 => "[0-9]{8,9}(\\.[0-9]{7,10})?",
    ]
}

/// Mostly numbers with an exponent, and some texts that only look like them.
fn scientific() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => "-?[0-9]\\.[0-9]{1,6}e[+-][0-9]{2}",
        4 => "[+-]?[0-9]{1,9}(\\.[0-9]{0,17})?[eE][+-]?[0-9]{1,9}",
        4 => "[+-]?[0-9]{1,3}",
        1 => "[0-9]\\.[0-9]{70}e-3",
        1 => "[+-]?[0-9]{0,2}[.+e-]{0,2}[0-9]{0,2}[.+e-]{0,2}[0-9]{0,2}",
    ]
}

fn gap() -> impl Strategy<Value = &'static str> {
    prop_oneof![12 => Just(" "), 1 => Just("\t"), 1 => Just("  ")]
}

fn dense(name: &'static str, dim: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec((gap(), number()), dim).prop_map(move |values| {
        let values: String = values.into_iter().map(|(gap, value)| format!("{gap}{value}")).collect();
        format!("|{name}{values}")
    })
}

fn sparse(name: &'static str, dim: u32) -> impl Strategy<Value = String> {
    let entries = prop_oneof![
        2 => proptest::collection::vec((gap(), 0..dim, number().boxed()), 0..20),
        1 => proptest::collection::vec((gap(), 0..dim, "-?[0-9]{1,3}".boxed()), 0..40),
    ];
    entries.prop_map(move |entries| {
        let entries: String =
            entries.into_iter().map(|(gap, index, value)| format!("{gap}{index}:{value}")).collect();
        format!("|{name}{entries}")
    })
}

fn extra() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        10 => Just(""),
        1 => Just("|# a comment"),
        1 => Just("|unknown 1:2 x"),
        1 => Just("|xy"),
        1 => Just(" \t"),
        1 => Just("\r"),
        1 => Just("\u{e9}"),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let samples = (dense("x", 40), dense("y", 2), sparse("s", 70_000), sparse("a_long_name", 300));
    (samples, extra(), extra(), prop_oneof![Just("\n"), Just(" \n"), Just("\r\n")])
        .prop_map(|((x, y, s, long), before, after, end)| format!("{before}{x} {y}{after}{s} {long}{end}"))
}

pub fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec((0u64..4, line()), 1..8)
        .prop_map(|lines| lines.into_iter().map(|(key, line)| format!("{key}{line}")).collect())
}

/// Lines of one entry for each stream, nearly all of them similar.
pub fn alike_lines() -> impl Strategy<Value = String> {
    let entries = prop_oneof![
        3 => Just("{id} |w {index}:1 |S0 {tag}:{value}"),
        1 => Just("{id} |S0 {tag}:{value}\t|w {index}:1"),
        1 => Just("|w {index}:{value}"),
        1 => Just("{id}{id} |1 {tag}:1 |a {tag}:1 |w {index}:1 |S0 {tag}:1"),
        1 => Just("{id} |twelve12name {tag}:{value} |w {index}:1"),
        2 => Just("{id}\t|w {index}:1\t|# {note}\t|S0 {tag}:1\t|# {note}"),
        1 => Just("|w {index}:1 |#{note}"),
        1 => Just("{id} |# {note} |S0 {tag}:1 |#{note}|w {index}:{value}"),
        1 => Just("{id} |sixteen16letters {tag}:1  |w {index}:{value}  "),
        1 => Just("{id} |seventeen17letter {tag}:1 |w {index}:{value}"),
        2 => Just("{note}-{id}\t|w {index}:1 |# {note} |S0 {tag}:1 "),
    ];
    let number = || prop_oneof![6 => "[0-9]{1,4}", 1 => "[0-9]{7,10}", 1 => "-?[0-9]{1,2}\\.[0-9]{1,3}"];
    let odd = prop_oneof![
        12 => Just(""),
        1 => Just(" "),
        1 => Just("|S0 5:5 "),
        1 => Just(" 3:1"),
        1 => Just("|# a:1 |w"),
        1 => Just("\r"),
        1 => Just("7"),
    ];
    let note = prop_oneof![4 => "[a-z0-9]{0,9}", 1 => "[a-z0-9 :.#-]{0,30}"];
    let line = (0u64..20_000, 0u32..140, number(), 0u64..4, odd, note);
    let end = prop_oneof![4 => Just("\n"), 1 => Just("\r\n")];
    (entries, end, proptest::collection::vec(line, 1..40)).prop_map(|(entries, end, lines)| {
        let text = |(index, tag, value, id, odd, note): (u64, u32, String, u64, &str, String)| {
            let line = entries.replace("{index}", &index.to_string()).replace("{tag}", &tag.to_string());
            let line = line.replace("{value}", &value).replace("{note}", &note);
            line.replace("{id}", &id.to_string()) + odd + end
        };
        lines.into_iter().map(text).collect()
    })
}

pub const STREAMS: &str = "a_long_name:300s s:70000s x:40 y:2";
pub const WORDS: &str =
    "1:130s S0:130s a:130s twelve12name:130s sixteen16letters:130s seventeen17letter:130s w:19900s";

fn alike<T: Bits>(text: &[u8], max_errors: u64, trace_level: u32) {
    alike_as::<T>(STREAMS, true, text, max_errors, trace_level);
}

fn alike_as<T: Bits>(streams: &str, strict: bool, text: &[u8], max_errors: u64, trace_level: u32) {
    let mut rules = rules(streams, max_errors);
    rules.strict = strict;
    rules.log.trace_level = trace_level;
    alike_by::<T>(&rules, text);
}

fn alike_by<T: Bits>(rules: &Rules, text: &[u8]) {
    log::silence();
    let expected = parse::<T>(rules, text, Way::Exact);
    assert_eq!(parse::<T>(rules, text, Way::Fast), expected);
    for processor in Processor::all() {
        assert_eq!(parse::<T>(rules, text, Way::FastOn(processor)), expected, "{processor:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(2000)) })]

    #[test]
    fn well_formed(text in text()) {
        alike::<f32>(text.as_bytes(), 1000, 1);
        alike::<f64>(text.as_bytes(), 1000, 0);
    }

    #[test]
    fn exponents(
        values in proptest::collection::vec((gap(), scientific()), 1..60),
        dim in 0usize..3,
        end in prop::sample::select(&["\n", " \n", "\r\n", " |y 1 2\n"][..]),
    ) {
        let dense: String = values.iter().map(|(gap, value)| format!("{gap}{value}")).collect();
        let sparse: String = values.iter().map(|(gap, value)| format!("{gap}{}:{value}", value.len())).collect();
        let streams = format!("s:200s x:{} y:2", (values.len() + dim).saturating_sub(1));
        let text = format!("1 |x{dense}|s{sparse}{end}2 |x{dense}\t|s{sparse}{end}");
        alike_as::<f32>(&streams, true, text.as_bytes(), 1000, 0);
        alike_as::<f64>(&streams, true, text.as_bytes(), 1000, 1);
    }

    #[test]
    fn ids_that_are_text(
        lines in proptest::collection::vec((
            prop_oneof![8 => "[a-z_-]{1,9}", 1 => "[0-9]{1,3}", 1 => "[a-z0-9 \t:.#]{0,9}", 1 => Just("\u{e9}t\u{e9}".to_owned())],
            prop_oneof![9 => Just(" |y 1 2|s 3:4\n"), 1 => Just(" |y 1|s 3:4\n"), 1 => Just(" |y 1 x|s 3:4\n"), 1 => Just("\n")],
        ), 1..30),
        length in 1usize..4,
        max_errors in 0u64..40,
        trace_level in 0u32..3,
        refuses_text_ids: bool,
    ) {
        let lines: Vec<String> = lines.into_iter().map(|(id, line)| id + line).collect();
        let mut rules = rules("s:10s y:2", max_errors);
        rules.corpus = Arc::new(Corpus::Hashed);
        (rules.refuses_text_ids, rules.log.trace_level) = (refuses_text_ids, trace_level);
        log::silence();
        let (mut spans, mut offset) = (Vec::new(), 0);
        for lines in lines.chunks(length) {
            let size = lines.iter().map(String::len).sum::<usize>() as u32;
            spans.push(SequenceSpan { key: 0, samples: lines.len() as u32, offset, size });
            offset += u64::from(size);
        }
        let text = lines.concat();
        let expected = parse_spans::<f32>(&rules, &spans, text.as_bytes(), Way::Exact);
        for processor in Processor::all() {
            let found = parse_spans::<f32>(&rules, &spans, text.as_bytes(), Way::FastOn(processor));
            prop_assert_eq!(&found, &expected, "{:?}", processor);
        }
    }

    #[test]
    fn lines(
        text in alike_lines(),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(&b"\n| \t\r:.-1aw0#\xff"[..])),
            0..3
        ),
        strict: bool,
        refuses_text_ids: bool,
        trace_level in 0u32..2,
        max_errors in 0u64..80,
    ) {
        let mut text = text.into_bytes();
        for (place, byte) in changes {
            let place = place.index(text.len());
            text[place] = byte;
        }
        for streams in [WORDS, "w:19900s", "S0:2000s w:20000s", "1:130s S0:130s a:130s w:20000s"] {
            alike_as::<f32>(streams, strict, &text, 1000, trace_level);
            alike_as::<f64>(streams, strict, &text, 1000, 0);
            let mut rules = rules(streams, max_errors);
            rules.corpus = Arc::new(Corpus::Hashed);
            (rules.strict, rules.log.trace_level) = (strict, trace_level);
            rules.refuses_text_ids = refuses_text_ids;
            alike_by::<f32>(&rules, &text);
        }
    }

    #[test]
    fn spoilt(
        text in text(),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(&b"\n\n|| \t\r:.-+e#019a\x00\xff\x7f\x0b"[..]), 0..3),
            1..4
        ),
        max_errors in 0u64..20,
        trace_level in 0u32..3,
    ) {
        let mut text = text.into_bytes();
        for (place, byte, kind) in changes {
            let place = place.index(text.len());
            match kind {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                _ => { text.remove(place); }
            }
            if text.is_empty() {
                text.push(b'1');
            }
        }
        alike::<f32>(&text, max_errors, trace_level);
        alike::<f64>(&text, 1000, 0);
    }
}

/// Blocks that consist of a sign without digits, which are rare in random texts.
#[test]
fn signs_without_digits() {
    for sample in ["-", "1 -", "- 1", "1 2 3 - ", "1.5 2.5 -", "1e5 -", "-- 1", "-.5", "1 2 3 4 5 -\t"] {
        for filler in ["", " ", "                                                                "] {
            for end in ["\n", "|y 1 2\n", "\r\n"] {
                let text = format!("1 |x{filler} {sample}{end}2 |x 1 2 3\n");
                for dim in [1, 2, 4, 5, 6] {
                    alike_as::<f32>(&format!("x:{dim} y:2"), true, text.as_bytes(), 1000, 0);
                }
            }
        }
    }
}

/// Without this, the tests above might compare the exact parser with itself.
#[test]
fn fast_parser_reads_common_text() {
    let rules = rules(STREAMS, 0);
    let fast = Fast::new(&rules);
    let text = |x: &str, entries: &str, end: &str| {
        format!("12|x{} |y 0 1|# comment |s {entries}|other 1:2 |a_long_name {entries}{end}", x.repeat(40))
    };
    for text in [
        text(" 1", "1:1 2:2", "\n"),
        text(" -0.123456", "1:0.5\t2:1e-5", "\r\n"),
        text("  1.5e-05", "", " \n"),
        text("\t1234567.12345678901234567", "29:123456789.5", "\n"),
    ] {
        let mut padded = [&[b'7'; FRONT], text.as_bytes()].concat();
        padded.extend([b'7'; PADDING]);
        let span = SequenceSpan { key: 12, samples: 1, offset: 0, size: text.len() as u32 };
        let mut output = Output::<f32>::default();
        output.reset(&rules);
        let mut report = Report::new(&rules, 0);
        assert!(fast.segment().read_sequence(&span, &padded, FRONT, &mut output, &mut report), "{text}");
    }
}
