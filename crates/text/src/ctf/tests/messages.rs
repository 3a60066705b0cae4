//! Messages: CNTK's words, in CNTK's order and at CNTK's offsets. Only line breaks are shown
//! differently.

use super::{Report, exact, rules, spans};
use crate::ctf::parse::output::Output;
use cntk_reader_core::runtime::log::Level;

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
    let short = |line: String| line.replace("in the input file (test.ctf)", "in F");
    let lines = report.take_lines().into_iter().filter(|line| line.level != Level::Info);
    lines.map(|line| short(line.text)).collect()
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
