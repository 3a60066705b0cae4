//! Mistakes in configurations.

use crate::common::rng::Rng;

const VALUES: &[&str] = &[
    "-1",
    "0",
    "7",
    "1.5",
    "x",
    "\"\"",
    "true",
    "no",
    "99999999999999999999",
    "( 1 : 2 )",
    "[ a = 1 ]",
    "\"dense\"",
    "\"sparse\"",
    "\"none\"",
    "$a$",
    "\"nothing.ctf\"",
];

/// Returns a configuration with one to three mistakes, determined by the seed.
pub fn mutated(config: &str, seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut text = config.to_owned();
    for _ in 0..rng.range(1, 3) {
        text = match rng.below(8) {
            0 => without_entry(&text, &mut rng),
            1 => without_punctuation(&text, &mut rng),
            2 => renamed(&text, &mut rng),
            3 => doubled(&text, &mut rng),
            _ => other_value(&text, &mut rng),
        };
    }
    text
}

/// Returns the positions after each occurrence of this character.
fn after(text: &str, what: char) -> Vec<usize> {
    text.match_indices(what).map(|(place, found)| place + found.len()).collect()
}

/// Returns the end of the value that begins here.
fn end_of_value(text: &str, start: usize) -> usize {
    let end = text[start..].find([';', '\n', ']', ')', ':']).unwrap_or(text.len() - start);
    start + end
}

fn other_value(text: &str, rng: &mut Rng) -> String {
    let places = after(text, '=');
    if places.is_empty() {
        return text.to_owned();
    }
    let start = *rng.pick(&places);
    let value = rng.pick(VALUES);
    format!("{} {value} {}", &text[..start], &text[end_of_value(text, start)..])
}

fn without_entry(text: &str, rng: &mut Rng) -> String {
    let places = after(text, '=');
    if places.is_empty() {
        return text.to_owned();
    }
    let equals = *rng.pick(&places);
    let start = text[..equals].rfind(['\n', ';', '[', '(', '{']).map_or(0, |place| place + 1);
    format!("{}{}", &text[..start], &text[end_of_value(text, equals)..])
}

fn without_punctuation(text: &str, rng: &mut Rng) -> String {
    let marks: Vec<usize> =
        text.match_indices(['[', ']', '(', ')', '=', ';', ':', '"']).map(|at| at.0).collect();
    if marks.is_empty() {
        return text.to_owned();
    }
    let mark = *rng.pick(&marks);
    format!("{}{}", &text[..mark], &text[mark + 1..])
}

fn renamed(text: &str, rng: &mut Rng) -> String {
    let places = after(text, '=');
    if places.is_empty() {
        return text.to_owned();
    }
    let equals = *rng.pick(&places) - 1;
    let name = text[..equals].trim_end().len();
    match rng.below(2) {
        0 => format!("{}z{}", &text[..name], &text[name..]),
        // One letter less.
        _ => format!("{}{}", &text[..name.saturating_sub(1)], &text[name..]),
    }
}

/// Duplicates a line.
fn doubled(text: &str, rng: &mut Rng) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let line = *rng.pick(&lines);
    text.replacen(line, &format!("{line}\n{line}"), 1)
}
