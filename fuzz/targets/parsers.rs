//! The fast parser against the exact one: at trace level 2 each problem is logged, which only the exact one does.

use super::text::{Way, content};
use crate::case::Case;
use crate::common::reading::outcomes;
use crate::common::rng::Rng;
use crate::mutate::{TEXT, mutate};
use cntk_reader::config::from_text;
use std::fmt::Write;

pub fn run(case: &mut Case<'_>) {
    let content = if case.rng.once_in(2) { content(case) } else { numbers(&mut case.rng) };
    let way = Way::random(&mut case.rng);
    let file = case.write("data.ctf", &content);
    let mut results = [0, 1, 2].map(|trace_level| {
        let config = way.configuration(&file, trace_level, "");
        case.write("config.cntk", config.as_bytes());
        let options = from_text(&config).expect("a configuration without fault");
        let outcomes = outcomes(&options, &way.epoch).into_iter();
        let outcomes = outcomes.map(|outcome| outcome.map_err(|error| format!("{:?} {error}", error.kind())));
        (trace_level, outcomes.collect::<Vec<_>>())
    });
    let [(_, exact), fast @ ..] = {
        results.reverse();
        &results
    };
    for (trace_level, fast) in fast {
        for (number, (fast, exact)) in fast.iter().zip(exact).enumerate() {
            assert_eq!(fast, exact, "trace levels {trace_level} and 2, read {number}");
        }
        assert_eq!(fast.len(), exact.len(), "trace levels {trace_level} and 2: reads");
    }
}

/// Lines of numbers in all their spellings, now and then damaged.
fn numbers(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    let lines = rng.range(1, 30);
    for line in 0..lines {
        if rng.once_in(2) {
            write!(text, "{} ", line / 2).expect("writing to a string");
        }
        text.push_str("|x");
        for _ in 0..2 {
            text.push(' ');
            number(rng, &mut text);
        }
        text.push_str(" |s");
        for row in 0..rng.below(4) {
            write!(text, " {row}:").expect("writing to a string");
            number(rng, &mut text);
        }
        text.push('\n');
    }
    let mut bytes = text.into_bytes();
    if rng.once_in(2) {
        mutate(rng, &mut bytes, TEXT);
    }
    bytes
}

fn number(rng: &mut Rng, text: &mut String) {
    let mut digits = |text: &mut String, most: u64| {
        let (count, zeros) = (rng.range(0, most), rng.once_in(4));
        for _ in 0..count {
            text.push(if zeros { '0' } else { char::from(b'0' + rng.below(10) as u8) });
        }
        rng.bits()
    };
    let shape = digits(text, 0);
    text.push_str(["", "", "-", "+"][(shape % 4) as usize]);
    digits(text, if shape & 16 == 0 { 6 } else { 25 });
    text.push('7');
    if shape & 32 == 0 {
        text.push('.');
        digits(text, if shape & 64 == 0 { 9 } else { 30 });
    }
    if shape & 128 == 0 {
        text.push_str(["e", "E", "e-", "e+"][(shape >> 8 & 3) as usize]);
        digits(text, 2);
        text.push('1');
    }
}
