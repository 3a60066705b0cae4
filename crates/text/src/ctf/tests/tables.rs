//! Behaviour observed in CNTK 2.7: inputs, the smallest error limit that reads them, and the data.

use super::{Way, parse, parse_spans, rules, shown, spans};
use crate::ctf::index::SequenceSpan;
use crate::ctf::parse::rules::Rules;
use cntk_reader_core::corpus::Corpus;
use std::sync::Arc;

/// No limit of errors is high enough.
const NEVER: u64 = u64::MAX;

fn check(streams: &str, text: &[u8], errors: u64, data: &str) {
    let shown_text = text.escape_ascii().to_string();
    let attempt = |max_errors: u64, way: Way| {
        let rules: Rules = rules(streams, max_errors);
        parse::<f64>(&rules, text, way)
            .map(|(sequences, errors)| (shown(&rules, &spans(&rules, text), &sequences), errors))
    };
    for way in [Way::Fast, Way::Exact] {
        if errors == NEVER {
            assert!(attempt(1000, way).is_err_and(|stop| stop.fatal), "{shown_text}: {way:?}");
            continue;
        }
        match attempt(errors, way) {
            Ok((found, counted)) => {
                assert_eq!(counted, errors, "{shown_text}: {way:?}");
                assert!(data == "-" || found == data, "{shown_text}: {way:?} gives {found}, not {data}");
            }
            Err(stop) => panic!("{shown_text}: {way:?} fails with {errors}: {stop:?}"),
        }
        if errors > 0 {
            assert!(attempt(errors - 1, way).is_err_and(|stop| !stop.fatal), "{shown_text}: {way:?}");
        }
    }
}

#[test]
fn lines_and_sequences() {
    for (text, errors, data) in [
        (&b"1 |x 1\n\n2 |x 2\n"[..], 2, "1=1 / 2=2"),
        (b"1 |x 1\n|# c\n2 |x 2\n", 2, "1=1 / 2=2"),
        (b"1 |x 1\n   \n", 2, "1=1"),
        (b"1 |x 1\n|zz 1\n2 |x 2\n", 2, "1=1 / 2=2"),
        (b"1 |x 1\n2 |x 2\n\n\n", 3, "1=1 / 2=2"),
        (b"1 |x 1\n1 |x a\n", 3, "1=1"),
        (b"1 |x 1\n1 |x a |x 2\n", 1, "1=1;2"),
        (b"|x 1\n|x 1 |q 1\n", 0, "0=1 / 1=1"),
        (b"|x 1\n\n|x 2\n", NEVER, ""),
        (b"|x 1\n   \n", NEVER, ""),
        (b"|x 1\n|q 1\n", NEVER, ""),
        (b"|# header\n1 |x 1\n", NEVER, ""),
        (b"|x 1\n|x a\n", NEVER, ""),
        (b"|x 1 # c\n", NEVER, ""),
        (b"1 |x 1\n# comment\n", 3, "1=1"),
        (b" 10 |x 1\n 11 |x 2\n", 1, "10=1;2"),
        (b"\xef\xbb\xbf1 |x 1\n\xef\xbb\xbf2 |x 2\n", 1, "1=1;2"),
        (b"|x 1\n\xef\xbb\xbf|x 2\n", 0, "0=1 / 1=2"),
        (b"12abc|x 1\n", 1, "12=1"),
        (b"1.5 |x 1\n", 1, "1=1"),
        (b"|# a | b |x 1\n", 1, "0=1"),
        (b"|x 1 |# c | # d\n", 1, "0=1"),
        (b"|x 1 |#|\n", 1, "0=1"),
        (b"|# a |b |x 1\n", 0, "0=1"),
        (b"|# a |#b |x 1\n", 0, "0=1"),
        (b"|#x 1|x 1\n", 0, "0=1"),
        (b"|x 1 |##|#\n", 0, "0=1"),
        (b"|x 1|x 2\n", 1, "0=1;2"),
        (b"1 |x 1|x 2\n1|x 3\n", 1, "1=1;2;3"),
        (b"1 |x 1|x 2\n1\n", 1, "1=1;2"),
        (b"|x 1\r\n|x 3\r\n", 0, "0=1 / 1=3"),
        (b"|x 1\r|x 3\r\n", 1, "0=1;3"),
        (b"||x 1\n", 1, "0=1"),
        (b"| x 1|x 1\n", 1, "0=1"),
        (b"10 |x 1\n10", 0, "10=1"),
        (b"10 |x 1\n11", 0, "10=1"),
        (b"10 |x 1\n11\n", NEVER, ""),
    ] {
        check("x:1", text, errors, data);
    }
    check("x:1 y:1", b"1 |x 1 |y 1\n1 |x 2\n1 |y 2\n1|x 3|y 3\n", 1, "1=1;2;3,1;2;3");
    check("x:1 y:1", b"1 |x 1 |y 1\n1 |y 2\n1 |y 3\n", 0, "1=1,1;2;3");
    check("x:1* y:1", b"1 |x 1 |y 1\n1 |y 2\n1 |y 3\n", 0, "1=1,1;2;3");
    check("x:1* y:1", b"1 |x 1 |y 1\n1 |x a |y 2\n", 2, "1=1,1;2");
    check("x:2", b"|x 1\x0b2\n", 1, "0=1 0");
    check("x:2", b"|x 1 2\x80\n", 0, "0=1 2");
    check("x:2", b"|x 1 2\x00\n", 0, "0=1 2");
    check("x:2", b"|x 1 2\x7f\n", NEVER, "");
}

#[test]
fn files_without_a_final_line_break() {
    for (tail, errors) in [
        ("|x 1 2|y 3", 0),
        ("|x 1 2|y 1.", 0),
        ("|x 1 2|y 1.5", 0),
        ("|x 1 2|y 1e5", 0),
        ("|x 1 2|y 1e-2", 0),
        ("|x 1 2|y 7\r", 0),
        ("|x 1 2|y 3|# foo", 0),
        ("|x 1 2|y 3|#", 0),
        ("|x 1 2|y 3|qq", 0),
        ("|x 1 2|y", NEVER),
        ("|x 1 2|y ", NEVER),
        ("|x 1 2|y -", NEVER),
        ("|x 1 2|y 1e", NEVER),
        ("|x 1 2|y 3|", 1),
        ("|x 1 2|y 3|q", 1),
    ] {
        check("x:2 y:1", tail.as_bytes(), errors, "-");
    }
    check("x:2 y:1", b"|y 3|x 1", 0, "0=1 0,3");
    check("x:2 y:1", b"|y 3|x 1 2 5", 0, "0=1 2,3");
    for (text, errors, data) in [
        ("|s 1:2", 0, "0=1:2"),
        ("|s 1:2 3:4 ", 0, "0=1:2 3:4"),
        ("|s 1:2 3", NEVER, ""),
        ("|s 1:2 3:", NEVER, ""),
        ("|s 1:2 3:-", NEVER, ""),
        ("|s", NEVER, ""),
        ("|s ", NEVER, ""),
        ("1 |s 1:2\n1 |s ", 0, "1=1:2;"),
        ("1 |s\n1 |s ", 2, "1="),
        ("1 |s 1:2\n2 |s ", NEVER, ""),
    ] {
        check("s:10s", text.as_bytes(), errors, data);
    }
}

#[test]
fn sparse_tokens() {
    for token in ["1:1", "01:2", "1:1\t2:2", "3:0", "5:1 2:3", "1:1 1:2", "1:1e2 2:-3.5E-1", ""] {
        check("s:10s", format!("|s {token}\n").as_bytes(), 0, "-");
    }
    for token in [
        "10:1",
        "1 2",
        "1:",
        "1: 2",
        "1 :2",
        ":2",
        "-1:2",
        "+1:2",
        "1.0:2",
        "1:2:3",
        "1:2-3:4",
        "1:1,2:2",
        "1::2",
        "1:nan",
        "1:.5",
        "1:1#",
        "18446744073709551617:1",
    ] {
        check("s:10s", format!("|s {token}\n").as_bytes(), NEVER, "");
        check("s:10s", format!("1 |s 0:1\n1 |s {token}|s 1:1\n").as_bytes(), 1, "1=0:1;1:1");
    }
    check("s:10s", b"|s 5:1 2:3 2:0|s\n", 1, "0=5:1 2:3 2:0;");
}

#[test]
fn main_streams() {
    check("a:1* b:1", b"1 |a 1 |b 1\n1 |b 2\n2 |b 3\n3 |a 4 |b 4\n", 0, "1=1,1;2 / 3=4,4");
    check("a:1* b:1", b"|a 1 |b 1\n|b 2\n\n|# c\n|b 1 |a 3\n", 0, "0=1,1 / 4=3,1");
    check("a:1* b:1", b"1 |a 1|a 2|b 1\n1 |a 3 |b 1|b 2|b 3|b 4|b 5\n", 1, "1=1;2;3,1;1;2;3;4;5");
    check("a:1* b:1", b"1 |a 1\n1 |a 2\n2|a 3|b 1\n", NEVER, "");
    check("a:1* b:1", b"|b 1|a|\n", 1, "0=0,1");
    check("a:1* b:1", b"1 |a 1|b 1\n\n1|a 2\n", 1, "1=1;2,1");
    check("aab:1* b:1", b"|aaab 1|b 1\n|aaaab |aab 2|b 2\n|aa|aab 3|b 3\n", 0, "1=2,2 / 2=3,3");
}

#[test]
fn numbers() {
    for (text, value) in
        [("1.", 1.0), ("-1.", -1.0), ("+5", 5.0), ("01.50", 1.5), ("1e+3", 1000.0), ("1E3", 1000.0)]
    {
        check("x:1", format!("|x {text}\n").as_bytes(), 0, &format!("0={value}"));
        check("s:9s", format!("|s 3:{text}\n").as_bytes(), 0, &format!("0=3:{value}"));
        check("x:4", format!("|x 7 {text} -0 {text}\n").as_bytes(), 0, &format!("0=7 {value} -0 {value}"));
    }
    check("x:1", b"|x 1e05\n", 0, "0=100000");
    for text in [
        ".5", "-.5", "nan", "inf", "-inf", "-", "--1", "-+1", "1e", "1e+", "1.e2", "1e1.5", "1.5.5", "1..5",
        "0x10", "1f", "1_0", "1,5", "1:2", "2#0",
    ] {
        check("x:1", format!("|x {text}\n").as_bytes(), NEVER, "");
        check("x:4", format!("1 |x 7 8 {text}\n1 |x 1 2 3 4|x 5 6 7 8\n").as_bytes(), 2, "1=1 2 3 4;5 6 7 8");
    }
    check("x:2", b"|x 1-2\n", 0, "0=1 -2");
    check("x:2", b"|x 1+2\n", 0, "0=1 2");
    check("x:1", b"|x 1-2\n", NEVER, "");
    check("x:4", b"|x 1-2\n", 0, "0=1 -2 0 0");
    check("x:4", b"|x\n", 0, "0=0 0 0 0");
    check("x:0", b"|x\n", 0, "0=");
}

#[test]
fn lenient_rules() {
    let read = |streams, text: &[u8], max_errors| {
        let rules = Rules { strict: false, ..rules(streams, max_errors) };
        let fast = parse::<f64>(&rules, text, Way::Fast);
        assert_eq!(fast, parse::<f64>(&rules, text, Way::Exact));
        fast.ok().map(|(sequences, errors)| (shown(&rules, &spans(&rules, text), &sequences), errors))
    };
    let two_lines = b"1 |x 1\n1 |y 1\n2 |x 2 |y 2\n";
    assert_eq!(read("x:1 y:1", two_lines, 0), Some(("1=1,1 / 2=2,2".into(), 0)));
    // Leaving a sequence out is no error.
    assert_eq!(read("x:1 y:1", b"1 |x 1\n2 |x 2 |y 2\n", 0), Some(("1=, / 2=2,2".into(), 0)));
    assert_eq!(read("x:1", b"1 |x 1|x 2\n", 0), None);
}

#[test]
fn beta_counts_long_names_as_errors() {
    let read = |text: &[u8], max_errors| {
        let rules = Rules { refuses_long_names: true, ..rules("x:1 yy:1", max_errors) };
        let fast = parse::<f64>(&rules, text, Way::Fast);
        assert_eq!(fast, parse::<f64>(&rules, text, Way::Exact));
        fast.ok().map(|(sequences, errors)| (shown(&rules, &spans(&rules, text), &sequences), errors))
    };
    let all = |errors| Some(("0=1,2 / 1=3,4".to_owned(), errors));
    assert_eq!(read(b"|x 1 |zz 5 |yy 2\n|x 3 |yy 4 |q\n", 0), all(0));
    assert_eq!(read(b"|x 1 |zzz 5 |yy 2\n|x 3 |yy 4\n", 1), all(1));
    assert_eq!(read(b"|x 1 |zzz 5 |yy 2\n|x 3 |yy 4\n", 0), None);
    assert_eq!(read(b"|x 1 |yyy 5 |yy 2 |xxxx\n|x 3 |yy 4\n", 2), all(2));
    assert_eq!(read(b"|x 1 |# zzz |yy 2\n|x 3 |yy 4\n", 0), all(0));
}

#[test]
fn textual_ids_are_errors_only_by_cntks_rules() {
    let read = |refuses_text_ids, text: &[u8]| {
        let mut rules = Rules { refuses_text_ids, ..rules("x:1 y:1", 100) };
        rules.corpus = Arc::new(Corpus::Hashed);
        let span = SequenceSpan { key: 0, samples: 2, offset: 0, size: text.len() as u32 };
        let fast = parse_spans::<f64>(&rules, &[span], text, Way::Fast);
        assert_eq!(fast, parse_spans::<f64>(&rules, &[span], text, Way::Exact));
        fast.ok().map(|(_, errors)| errors)
    };
    for (text, in_place, native) in [
        ("u1 |x 1 |y 2\nu1 |x 3 |y 4\n", 2, 0),
        ("1089-134686-0000 |x 1 |y 2\n1089-134686-0000\t|x 3 |y 4\n", 2, 0),
        ("12.wav |x 1 |y 2\n012 |x 3 |y 4\n", 1, 0),
        ("k\u{e4}se |x 1 |y 2\n\u{e4}h |x 3 |y 4\n", 2, 0),
        // Between the id and the first sample, there must be at least one blank, and nothing else.
        ("u1 7 |x 1 |y 2\nu1 |x 3 |y 4\n", 2, 1),
        ("u1|x 1 |y 2\nu1 |x 3 |y 4\n", 2, 1),
    ] {
        assert_eq!(read(true, text.as_bytes()), Some(in_place), "{text}");
        assert_eq!(read(false, text.as_bytes()), Some(native), "{text}");
    }
}
