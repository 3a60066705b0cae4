//! Generates cases of speech: HTK features, master label files as text or binary, lattices, and
//! text beside them.
//!
//! A case may have one deliberate error or oddity, so that its effect can be compared on its own.

mod features;
mod labels;
mod lattices;
mod legacy;

pub use labels::SMALL_LABELS;
pub use legacy::epochs;

use super::rng::Rng;
use super::{Mode, Plan, by_first_worker, config, script};
use crate::golden::Case;
use serde_json::Value;
use std::fmt::Write;

/// The suffix of the names of cases in which labels end before the features in frame mode, where
/// CNTK takes labels of the next utterance.
pub const SHORT_LABELS: &str = "short-labels";

/// Frames after which CNTK begins another chunk of features.
const CHUNK_FRAMES: u32 = 90_001;

/// One utterance.
#[derive(Clone)]
struct Utterance {
    /// Its logical key.
    key: String,
    /// Its frames in the first deserializer of features.
    frames: u32,
}

/// Common properties of the files of a case.
struct Corpus {
    utterances: Vec<Utterance>,
    /// Whether keys are decimal numbers.
    numeric: bool,
    /// The deliberate error or oddity.
    odd: Odd,
}

/// The deliberate error or oddity in a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Odd {
    Nothing,
    /// A line of the script, or a header of an archive.
    Features,
    /// Something in the label file, or in the list of states.
    Labels,
    /// Lengths of labels or of the second features.
    Lengths,
    /// Labels that CNTK reports as invalid.
    Invalid,
}

/// A data file: its name and content.
type File = (String, Vec<u8>);

/// A deserializer: its section without brackets, and its files.
struct Part {
    section: String,
    files: Vec<File>,
}

impl Corpus {
    fn draw(rng: &mut Rng, plan: &Plan) -> Corpus {
        let most = *rng.pick(&[1, 4, 4, 9, 9, 25]);
        let count = 1 + rng.below(most);
        let style = rng.below(8);
        let longest = rng.range(1, 14) as u32;
        let mut utterances: Vec<Utterance> = (0..count)
            .map(|number| {
                let key = match style {
                    0 | 1 => format!("{}", number * 3 + 1),
                    2 => format!("d/u{number}"),
                    3 => format!("a.u{number}"),
                    _ => format!("u{number}"),
                };
                Utterance { key, frames: rng.range(1, longest.into()) as u32 }
            })
            .collect();
        // Several chunks, but rarely: millions of frames make a comparison slow.
        if rng.once_in(40) && plan.mode == Mode::Sequence {
            let place = rng.below(count);
            utterances[place].frames = CHUNK_FRAMES + rng.below(2) as u32 - 1;
        }
        if rng.once_in(3) {
            for end in (1..utterances.len()).rev() {
                utterances.swap(end, rng.below(end + 1));
            }
        }
        let odd = match rng.below(20) {
            0 | 1 => Odd::Features,
            2 | 3 => Odd::Labels,
            4 | 5 => Odd::Lengths,
            6 | 7 => Odd::Invalid,
            _ => Odd::Nothing,
        };
        Corpus { utterances, numeric: style < 2, odd }
    }

    fn is_large(&self) -> bool {
        self.utterances.iter().any(|utterance| utterance.frames > 1000)
    }

    fn samples(&self) -> u64 {
        self.utterances.iter().map(|utterance| u64::from(utterance.frames)).sum()
    }
}

/// Generates the case of a seed.
pub fn case(rng: &mut Rng, plan: &Plan, seed: u64) -> Case {
    if rng.once_in(6) {
        return legacy::case(rng, plan, seed);
    }
    let corpus = Corpus::draw(rng, plan);
    let (parts, short) = parts(rng, plan, &corpus);
    let mut lines = config::head(rng, plan);
    if corpus.numeric && rng.once_in(3) {
        lines.push("useNumericSequenceKeys = true".to_owned());
    } else if rng.once_in(7) {
        lines.push("hashSequenceKeys = true".to_owned());
    }
    if corpus.odd == Odd::Invalid || rng.once_in(9) {
        lines.push(format!("maxErrors = {}", rng.pick(&[0, 1, 3, 1000, 1000])));
    }
    let sections: Vec<&str> = parts.iter().map(|part| part.section.as_str()).collect();
    lines.push(format!("deserializers = ( [ {} ] )", sections.join(" ] :\n [ ")));
    Case {
        name: if short { format!("{seed}-{SHORT_LABELS}") } else { seed.to_string() },
        config: lines.join("\n") + "\n",
        files: parts.into_iter().flat_map(|part| part.files).collect(),
        steps: steps(rng, plan, &corpus),
        create: Value::Null,
        results: Vec::new(),
        rewritten: None,
    }
}

/// Generates the steps. Most data have one chunk, which only one worker gets: usually that one
/// reads.
fn steps(rng: &mut Rng, plan: &Plan, corpus: &Corpus) -> Vec<String> {
    let mut steps = script::write(rng, plan, corpus.samples() + 1);
    if !rng.once_in(4) {
        steps.iter_mut().for_each(|step| *step = by_first_worker(step));
    }
    steps
}

/// Generates the deserializers of a case. Also returns whether its labels end before the features
/// in frame mode.
fn parts(rng: &mut Rng, plan: &Plan, corpus: &Corpus) -> (Vec<Part>, bool) {
    let mut parts = vec![features::first(rng, plan, corpus)];
    if rng.once_in(4) {
        parts.push(features::second(rng, plan, corpus));
    }
    if rng.once_in(5) {
        parts.push(features::vectors(rng, corpus));
    }
    let mut short = false;
    if !rng.once_in(5) {
        let (part, is_short) = labels::write(rng, plan, corpus);
        parts.push(part);
        short = is_short;
    }
    if rng.once_in(8) && plan.mode != Mode::Truncated {
        parts.push(lattices::write(rng, corpus));
    }
    if rng.once_in(8) && corpus.numeric && !corpus.is_large() {
        parts.push(text(rng, plan, corpus));
    }
    if rng.once_in(4) && parts.len() > 2 {
        // The first one keeps its place: labels and lattices cannot be first.
        let last = parts.len() - 1;
        parts.swap(1, last);
    }
    if rng.once_in(60) {
        parts.reverse();
    }
    (parts, short)
}

/// Generates text with the same keys. In frame mode it has one sample per utterance.
fn text(rng: &mut Rng, plan: &Plan, corpus: &Corpus) -> Part {
    let mut content = String::new();
    for Utterance { key, frames } in &corpus.utterances {
        let lines = match plan.mode {
            Mode::Frame => 1,
            Mode::Truncated => *frames,
            Mode::Sequence => *rng.pick(&[1, *frames, *frames]),
        };
        for line in 0..lines {
            writeln!(content, "{key} |t {line}.5 -{}", rng.below(9)).unwrap_or_default();
        }
    }
    let section = "type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; maxErrors = 100000 ; \
                   file = \"@DIR@/text.ctf\" ; input = [ t = [ dim = 2 ; format = \"dense\" ] ]";
    Part { section: section.to_owned(), files: vec![("text.ctf".to_owned(), content.into_bytes())] }
}

/// Returns the section of a deserializer in CNTK's HTK module.
fn section(kind: &str, stream: &str, entries: &[String], outer: &[String]) -> String {
    let outer: String = outer.iter().map(|entry| format!(" ; {entry}")).collect();
    format!(
        "type = \"{kind}\" ; module = \"HTKDeserializers\"{outer} ; input = [ {stream} = [ {} ] ]",
        entries.join(" ; ")
    )
}
