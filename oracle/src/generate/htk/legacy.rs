//! Generates old-style sections: a reader's section with one section for each stream.

use super::super::rng::Rng;
use super::super::{Mode, Plan};
use super::{Corpus, Part, features, labels};
use crate::golden::Case;
use serde_json::Value;

/// Generates a case with an old-style section. CNTK only starts and reads these readers.
pub fn case(rng: &mut Rng, plan: &Plan, seed: u64) -> Case {
    let corpus = Corpus::draw(rng, plan);
    let mut lines = vec![format!("readerType = \"{}\"", rng.pick(&["HTKDeserializers", "HTKMLFReader"]))];
    let randomized = plan.randomize;
    if rng.once_in(2) || !randomized {
        let method = if randomized { "blockRandomize" } else { "none" };
        lines.push(format!("readMethod = \"{method}\""));
    }
    match (randomized, rng.below(4)) {
        (true, 0) => lines.push(format!("randomize = {}", rng.pick(&[1, 5, 10, 40]))),
        (true, 1) => lines.push("randomize = \"auto\"".to_owned()),
        (false, 0 | 1) => lines.push("randomize = \"none\"".to_owned()),
        _ => {}
    }
    if randomized && plan.seed != 0 {
        lines.push(format!("randomizationSeed = {}", plan.seed));
    }
    match plan.mode {
        Mode::Frame if rng.once_in(2) => {}
        Mode::Frame => lines.push("frameMode = true".to_owned()),
        Mode::Sequence => lines.push("frameMode = false".to_owned()),
        Mode::Truncated => {
            lines.push("frameMode = false\ntruncated = true".to_owned());
            if rng.once_in(2) {
                lines.push(format!("truncationLength = {}", plan.truncation));
            }
            if rng.once_in(2) {
                let uttrs = rng.pick(&["1", "2", "3", "1:3", "2:1"]);
                lines.push(format!("nbruttsineachrecurrentiter = {uttrs}"));
            }
        }
    }
    if plan.double {
        lines.push("precision = \"double\"".to_owned());
    }
    if corpus.numeric && rng.once_in(3) {
        lines.push("useNumericSequenceKeys = true".to_owned());
    }
    if rng.once_in(4) {
        lines.push("minibatchMode = \"partial\"\nuseMersenneTwisterRand = true".to_owned());
    }
    let mut parts = vec![features::first(rng, plan, &corpus)];
    if rng.once_in(5) {
        parts.push(features::second(rng, plan, &corpus));
    }
    if rng.once_in(6) {
        parts.push(features::vectors(rng, &corpus));
    }
    let mut short = false;
    if !rng.once_in(4) {
        let (part, is_short) = labels::write(rng, plan, &corpus);
        // There is no old-style section for binary labels.
        if part.section.starts_with("type = \"HTKMLFDeserializer\"") {
            parts.push(part);
            short = is_short;
        }
    }
    lines.extend(parts.iter().map(stream));
    let files = parts.into_iter().flat_map(|part| part.files).collect();
    Case {
        name: if short { format!("{seed}-{}", super::SHORT_LABELS) } else { seed.to_string() },
        config: lines.join("\n") + "\n",
        files,
        steps: epochs(rng, plan.mode, plan.truncation, corpus.samples()),
        create: Value::Null,
        results: Vec::new(),
        rewritten: None,
    }
}

/// Returns the stream's section from the section of a deserializer.
fn stream(part: &Part) -> String {
    let (_, input) = part.section.split_once("input = [ ").unwrap_or_default();
    input.strip_suffix(" ]").unwrap_or(input).to_owned()
}

/// Generates consecutive epochs, each read nearly or completely to its end.
pub fn epochs(rng: &mut Rng, mode: Mode, truncation: u64, samples: u64) -> Vec<String> {
    let workers = *rng.pick(&[1, 1, 1, 2]);
    let rank = rng.range(0, workers - 1);
    let size = match rng.below(3) {
        0 => "sweep".to_owned(),
        _ => rng.range(1, samples * 2).to_string(),
    };
    let mut steps = Vec::new();
    let first = rng.below(3);
    for epoch in first..first + 1 + rng.below(3) {
        let minibatch = match mode {
            Mode::Truncated => truncation * workers * rng.range(1, 3),
            Mode::Frame | Mode::Sequence => *rng.pick(&[1, 2, 3, 5, 9, 16, 50]),
        };
        steps.push(format!("start {workers} {rank} {minibatch} 0 0 0 {size} inf {epoch}"));
        for _ in 0..2 + rng.below(12) {
            steps.push("read".to_owned());
            if rng.once_in(4) {
                steps.push("state".to_owned());
            }
        }
    }
    steps
}
