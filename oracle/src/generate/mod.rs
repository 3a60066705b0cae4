//! Generates random cases: data files, a configuration and a script of reader calls, all a function
//! of one seed.
//!
//! Generates only inputs that CNTK can read. Left out is input at which CNTK is known to crash or
//! to deliver uninitialized memory (docs/differences.md): a last line without line feed whose
//! sample is too short, a rank that is too high, truncated minibatches with fewer parallel
//! sequences than workers, inconsistent counts in a binary file.

mod binary;
mod bundle;
mod config;
mod htk;
mod image;
mod script;
mod text;

#[path = "../../../tests/common/rng.rs"]
mod rng;

use crate::golden::Case;
use anyhow::{Context, Result};
use bundle::Match;
pub use htk::{SHORT_LABELS, SMALL_LABELS};
pub use image::container;
pub use rng::Rng;
use serde_json::Value;

/// The kind of data of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One text file.
    Text,
    /// One binary file.
    Binary,
    /// Two or three files, joined by key.
    Bundle,
    /// Speech: features, labels and lattices, with text beside them.
    Htk,
    /// Images and their transforms, with text beside them.
    Image,
}

impl Kind {
    const ALL: [(&str, Kind); 5] = [
        ("text", Kind::Text),
        ("binary", Kind::Binary),
        ("bundle", Kind::Bundle),
        ("htk", Kind::Htk),
        ("image", Kind::Image),
    ];

    /// Finds a kind by its name.
    pub fn by_name(name: &str) -> Result<Kind> {
        let found = Kind::ALL.iter().find(|(known, _)| *known == name);
        found
            .map(|&(_, kind)| kind)
            .with_context(|| format!("Kinds of cases: text, binary, bundle, htk, image; not {name}."))
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns the kind of a seed.
    fn of(seed: u64) -> Kind {
        match seed % 5 {
            0 => Kind::Binary,
            1 => Kind::Htk,
            2 => Kind::Bundle,
            3 => Kind::Image,
            _ => Kind::Text,
        }
    }
}

/// How sequences become minibatches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Sequence,
    Frame,
    Truncated,
}

/// How keys become numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Numeric,
    Textual,
    Hashed,
}

impl Keys {
    /// Returns a key in its text form.
    fn text(self, key: u64) -> String {
        match self {
            Keys::Numeric => key.to_string(),
            Keys::Textual | Keys::Hashed => format!("u{key}"),
        }
    }
}

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Text,
    Binary,
}

impl Format {
    /// Returns the extension of file names.
    fn ending(self) -> &'static str {
        match self {
            Format::Text => "ctf",
            Format::Binary => "cbf",
        }
    }
}

/// A stream.
struct Stream {
    name: &'static str,
    /// Its name in the file.
    alias: String,
    dim: usize,
    sparse: bool,
    defines_size: bool,
}

/// A file.
struct Source {
    name: String,
    format: Format,
    streams: Vec<Stream>,
    /// Whether lines begin with the ids of sequences.
    ids: bool,
    /// Whether the data have errors.
    mistakes: bool,
    /// Whether a binary file has doubles.
    double: bool,
    /// Keys with the number of samples of each, if the bundle determines them.
    sequences: Option<Vec<(u64, Option<u64>)>>,
}

/// The choices that data, configuration and script of one case share.
struct Plan {
    mode: Mode,
    sources: Vec<Source>,
    keys: Keys,
    randomize: bool,
    seed: u64,
    truncation: u64,
    right_splice: u64,
    double: bool,
}

impl Plan {
    fn draw(rng: &mut Rng, kind: Kind) -> Plan {
        let mode = *rng.pick(&[
            Mode::Sequence,
            Mode::Sequence,
            Mode::Sequence,
            Mode::Frame,
            Mode::Truncated,
            Mode::Truncated,
        ]);
        // Truncation is for sequences of several samples.
        let mode = if kind == Kind::Image && mode == Mode::Truncated { Mode::Sequence } else { mode };
        let (mut truncation, mut right_splice) = (0, 0);
        if mode == Mode::Truncated {
            truncation = rng.range(1, 7);
            if truncation > 1 && rng.once_in(3) {
                right_splice = rng.range(1, truncation - 1);
            }
        }
        let keys = match rng.below(6) {
            0 if kind == Kind::Bundle => Keys::Textual,
            1 if kind == Kind::Bundle => Keys::Hashed,
            _ => Keys::Numeric,
        };
        let mut plan = Plan {
            mode,
            sources: Vec::new(),
            keys,
            randomize: !rng.once_in(3),
            seed: *rng.pick(&[0, 0, 0, 0, 1, 7, 1 << 40, u64::MAX]),
            truncation,
            right_splice,
            double: rng.once_in(7),
        };
        plan.sources = match kind {
            Kind::Text => vec![one_text(rng, &plan)],
            Kind::Binary => vec![one_binary(rng, &plan)],
            Kind::Bundle => bundle::sources(rng, &plan),
            Kind::Htk | Kind::Image => Vec::new(),
        };
        plan
    }
}

fn one_text(rng: &mut Rng, plan: &Plan) -> Source {
    let count = 1 + rng.below(3);
    let mut streams = streams(rng, &mut names(), count);
    streams[0].defines_size = rng.once_in(4);
    Source {
        name: "data.ctf".to_owned(),
        format: Format::Text,
        streams,
        ids: plan.mode != Mode::Frame && !rng.once_in(4),
        mistakes: rng.once_in(4),
        double: plan.double,
        sequences: None,
    }
}

fn one_binary(rng: &mut Rng, plan: &Plan) -> Source {
    let count = 1 + rng.below(3);
    Source {
        name: "data.cbf".to_owned(),
        format: Format::Binary,
        streams: streams(rng, &mut names(), count),
        ids: true,
        mistakes: false,
        // CNTK refuses values of another type than the reader delivers.
        double: plan.double != rng.once_in(20),
        sequences: None,
    }
}

/// Stream names that are not in alphabetical order.
fn names() -> Vec<&'static str> {
    vec!["x", "y", "S0", "aa", "A1", "b", "label", "Feat"]
}

/// Chooses streams with some of the names.
fn streams(rng: &mut Rng, names: &mut Vec<&'static str>, count: usize) -> Vec<Stream> {
    (0..count)
        .map(|number| {
            let name = names.swap_remove(rng.below(names.len()));
            let alias = match rng.below(3) {
                0 => format!("{}q{number}", &name[..1]),
                _ => name.to_owned(),
            };
            let dim = *rng.pick(&[1, 1, 2, 3, 5, 17]);
            Stream { name, alias, dim, sparse: rng.below(20) < 9, defines_size: false }
        })
        .collect()
}

/// Replaces the rank in a step, if any, by the first worker's.
fn by_first_worker(step: &str) -> String {
    let mut words: Vec<&str> = step.split(' ').collect();
    if matches!(words[..], ["start" | "config", _, _, ..]) {
        words[2] = "0";
    }
    words.join(" ")
}

/// Generates the case of a seed, of the given kind or of the seed's kind.
pub fn case(seed: u64, kind: Option<Kind>) -> Case {
    let mut rng = Rng::new(seed);
    let kind = kind.unwrap_or(Kind::of(seed));
    let mut plan = Plan::draw(&mut rng, kind);
    if kind == Kind::Htk {
        return htk::case(&mut rng, &plan, seed);
    }
    if kind == Kind::Image {
        return image::case(&mut rng, &plan, seed);
    }
    let how = match kind {
        Kind::Bundle => bundle::keys(&mut rng, &mut plan),
        _ => Match::Whole,
    };
    // Without randomization, CNTK loses chunks of the first file if all their keys are missing in
    // another file.
    let config = config::write(&mut rng, &plan, how);
    let write = |source: &Source, rng: &mut Rng| match source.format {
        Format::Text => text::write(rng, &plan, source),
        Format::Binary => binary::write(rng, &plan, source, how == Match::Partial),
    };
    let files: Vec<_> =
        plan.sources.iter().map(|source| (source.name.clone(), write(source, &mut rng))).collect();
    let samples = match &plan.sources[0].sequences {
        Some(sequences) => sequences.iter().map(|(_, length)| length.unwrap_or(1)).sum(),
        // An estimate: one per line, or one per 60 bytes.
        None if kind == Kind::Text => files[0].1.iter().filter(|byte| **byte == b'\n').count() as u64,
        None => files[0].1.len() as u64 / 60,
    };
    let rewritten = (plan.sources[0].format == Format::Binary && rng.once_in(3))
        .then(|| binary::rewritten(&mut rng, &plan.sources[0], how == Match::Partial));
    Case {
        // The comparison recognizes cases in which CNTK loses chunks by their name.
        name: if how == Match::Lost { format!("{seed}-bundle-missing") } else { seed.to_string() },
        config,
        files,
        steps: script::write(&mut rng, &plan, samples + 1),
        create: Value::Null,
        results: Vec::new(),
        rewritten,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_case() {
        for seed in 0..50 {
            let (one, other) = (case(seed, None), case(seed, None));
            assert_eq!(one.config, other.config);
            assert_eq!(one.files, other.files);
            assert_eq!(one.steps, other.steps);
        }
        assert_ne!(case(1, None).files, case(2, None).files);
    }

    #[test]
    fn every_case_starts_and_reads() {
        for (_, kind) in Kind::ALL {
            for seed in 0..200 {
                let case = case(seed, Some(kind));
                assert!(case.steps[0].starts_with("start "));
                assert!(case.steps.iter().any(|step| step == "read"));
                if kind == Kind::Image {
                    assert!(case.config.contains("@DIR@/map.txt"));
                    continue;
                }
                assert_eq!(case.files.len() > 1, matches!(kind, Kind::Bundle | Kind::Htk));
                if kind == Kind::Htk {
                    continue;
                }
                for (name, content) in &case.files {
                    assert!(case.config.contains(&format!("@DIR@/{name}")));
                    assert!(!content.is_empty());
                }
            }
        }
    }
}
