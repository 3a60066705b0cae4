//! Random cases: a text file, a configuration and a script of reader calls, all a function of one seed.
//!
//! What is drawn here is what CNTK can do. Left out is what it is known to crash at or to answer with uninitialised
//! memory (docs/differences.md): a last line without line feed whose sample is too short, a rank that is too high,
//! truncated minibatches with less than a row for each worker.

mod config;
mod data;
mod script;

#[path = "../../../../tests/common/rng.rs"]
mod rng;

use crate::golden::Case;
use rng::Rng;
use serde_json::Value;

/// How sequences become minibatches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sequence,
    Frame,
    Truncated,
}

/// A stream of the text file.
struct Stream {
    name: &'static str,
    alias: String,
    dim: usize,
    sparse: bool,
    defines_size: bool,
}

/// What data, configuration and script of one case have in common.
struct Plan {
    mode: Mode,
    streams: Vec<Stream>,
    /// Lines begin with the ids of sequences.
    ids: bool,
    /// The data have mistakes.
    mistakes: bool,
    randomize: bool,
    seed: u64,
    truncation: u64,
    right_splice: u64,
}

impl Plan {
    fn draw(rng: &mut Rng) -> Plan {
        let mode = *rng.pick(&[
            Mode::Sequence,
            Mode::Sequence,
            Mode::Sequence,
            Mode::Frame,
            Mode::Truncated,
            Mode::Truncated,
        ]);
        let (mut truncation, mut right_splice) = (0, 0);
        if mode == Mode::Truncated {
            truncation = rng.range(1, 7);
            if truncation > 1 && rng.once_in(3) {
                right_splice = rng.range(1, truncation - 1);
            }
        }
        Plan {
            mode,
            streams: streams(rng),
            ids: mode != Mode::Frame && !rng.once_in(4),
            mistakes: rng.once_in(4),
            randomize: !rng.once_in(3),
            seed: *rng.pick(&[0, 0, 0, 0, 1, 7, 1 << 40, u64::MAX]),
            truncation,
            right_splice,
        }
    }
}

/// One to three streams; names and aliases that sort in one order and are written in another.
fn streams(rng: &mut Rng) -> Vec<Stream> {
    let mut names = vec!["x", "y", "S0", "aa", "A1", "b", "label", "Feat"];
    let defines_size = rng.once_in(4);
    let count = 1 + rng.below(3);
    (0..count)
        .map(|number| {
            let name = names.swap_remove(rng.below(names.len()));
            let alias = match rng.below(3) {
                0 => format!("{}q{number}", &name[..1]),
                _ => name.to_owned(),
            };
            let dim = *rng.pick(&[1, 1, 2, 3, 5, 17]);
            Stream { name, alias, dim, sparse: rng.below(20) < 9, defines_size: defines_size && number == 0 }
        })
        .collect()
}

/// The case of a seed.
pub fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed);
    let plan = Plan::draw(&mut rng);
    let data = data::write(&mut rng, &plan);
    let samples = 1 + data.iter().filter(|byte| **byte == b'\n').count() as u64;
    Case {
        name: seed.to_string(),
        config: config::write(&mut rng, &plan),
        files: vec![("data.ctf".to_owned(), data)],
        steps: script::write(&mut rng, &plan, samples),
        create: Value::Null,
        results: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_case() {
        for seed in 0..50 {
            let (one, other) = (case(seed), case(seed));
            assert_eq!(one.config, other.config);
            assert_eq!(one.files, other.files);
            assert_eq!(one.steps, other.steps);
        }
        assert_ne!(case(1).files, case(2).files);
    }

    #[test]
    fn every_case_starts_and_reads() {
        for seed in 0..200 {
            let case = case(seed);
            assert!(case.steps[0].starts_with("start "));
            assert!(case.steps.iter().any(|step| step == "read"));
            assert!(case.config.contains("@DIR@/data.ctf"));
            assert!(!case.files[0].1.is_empty());
        }
    }
}
