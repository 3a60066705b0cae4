//! Generates old-style sections: a reader's section with one section for each stream.

use super::super::rng::Rng;
use super::super::{Mode, Plan, htk};
use super::transforms::{Chain, Images};
use super::{Corpus, Odd};
use crate::generate::Keys;
use crate::golden::Case;
use serde_json::Value;

/// Generates a case with an old-style section.
pub fn case(rng: &mut Rng, plan: &Plan, seed: u64) -> Case {
    let mut corpus = Corpus::draw(rng, plan);
    (corpus.base64, corpus.keys) = (false, Keys::Textual);
    if corpus.odd == Odd::Broken && rng.once_in(2) {
        corpus.odd = Odd::Nothing;
    }
    let channels = corpus.images.channels;
    let mut lines = vec!["readerType = \"ImageReader\"".to_owned(), "file = \"@DIR@/map.txt\"".to_owned()];
    match plan.randomize {
        true if rng.once_in(2) => {}
        true => lines.push("randomize = \"auto\"".to_owned()),
        false => lines.push("randomize = \"none\"".to_owned()),
    }
    if plan.randomize && plan.seed != 0 {
        lines.push(format!("randomizationSeed = {}", plan.seed));
    }
    if plan.double {
        lines.push("precision = \"double\"".to_owned());
    }
    for (once_in, line) in [(5, "numCPUThreads = 1"), (9, "verbosity = 2"), (9, "traceLevel = 1")] {
        if rng.once_in(once_in) {
            lines.push(line.to_owned());
        }
    }
    if rng.once_in(6) {
        lines.push(format!("grayscale = {}", channels == 1));
    }
    let size = corpus.images.size;
    let images = Images { size, channels, double: plan.double, multi_view: rng.once_in(7) };
    let (mut keys, more) = Chain::old_style(rng, &images);
    if rng.once_in(3) {
        keys.push(format!("mbFormat = \"{}\"", rng.pick(&["nchw", "nhwc", "NHWC", "legacy", "chwn"])));
    }
    lines.push(format!("features = [ {} ]", keys.join(" ; ")));
    lines.push(format!("labels = [ labelDim = {} ]", corpus.classes));
    let mut files = corpus.write(rng);
    files.extend(more);
    let steps = htk::epochs(rng, Mode::Sequence, plan.truncation, corpus.samples());
    lines.extend(super::without_reading_ahead(&steps, &lines));
    Case {
        name: seed.to_string(),
        config: lines.join("\n") + "\n",
        files,
        steps,
        create: Value::Null,
        results: Vec::new(),
        rewritten: None,
    }
}
