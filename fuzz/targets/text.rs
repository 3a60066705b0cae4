//! Damaged text files.

use crate::case::Case;
use crate::common::reading::{check_errors, epoch, use_it};
use crate::common::rng::Rng;
use crate::mutate::{TEXT, mutate};
use cntk_reader::config::from_text;
use cntk_reader::reader::Epoch;
use std::path::Path;

/// A random way to read a text file with the streams `x` and `s` of the corpus.
pub struct Way {
    /// Lines of the reader's section.
    head: String,
    /// Lines of the deserializer's section.
    inner: String,
    /// What to read.
    pub epoch: Epoch,
}

impl Way {
    /// A random one.
    pub fn random(rng: &mut Rng) -> Way {
        let workers = rng.range(1, 3);
        let epoch = epoch(workers, rng.range(0, workers - 1), 4 * workers);
        let randomize = rng.once_in(2);
        let mode = match rng.below(8) {
            0 => "frameMode = true",
            1 | 2 => "truncated = true ; truncationLength = 2",
            _ => "",
        };
        let precision = if rng.once_in(4) { "precision = \"double\"" } else { "" };
        let head = format!("randomize = {randomize}\n{mode}\n{precision}\n");
        let (dense, sparse) = (*rng.pick(&[2, 2, 2, 2, 1, 3, 5, 17]), *rng.pick(&[3, 3, 3, 8, 1]));
        let inner = format!(
            "maxErrors = {}\nchunkSizeInBytes = {}\nskipSequenceIds = {}\nkeepDataInMemory = {}\n{}\
             input = [\nx = [ dim = {dense} ; format = \"dense\"{} ]\ns = [ dim = {sparse} ; format = \"sparse\" ]\n]\n",
            rng.pick(&[0, 1, 3, 1_000_000]),
            rng.pick(&[1, 20, 64, 33_554_432]),
            rng.once_in(5),
            rng.once_in(5),
            rng.pick(&[
                "",
                "",
                "",
                "useNumericSequenceKeys = true\n",
                "hashSequenceKeys = true\n",
                "strictSequences = false\n"
            ]),
            if rng.once_in(4) { " ; definesMBSize = true" } else { "" },
        );
        Way { head, inner, epoch }
    }

    /// The configuration for a file. `more` are lines for the deserializer.
    pub fn configuration(&self, file: &Path, trace_level: u32, more: &str) -> String {
        format!(
            "traceLevel = {trace_level}\n{}deserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\n\
             module = \"CNTKTextFormatReader\"\nfile = \"{}\"\n{more}{}])\n",
            self.head,
            file.display(),
            self.inner
        )
    }
}

/// Content for a text file: from the corpus, mostly damaged.
pub fn content(case: &mut Case<'_>) -> Vec<u8> {
    let mut content = case.base("text");
    for _ in 0..case.rng.below(3) {
        let other = case.base("text");
        content.extend(other);
    }
    if !case.rng.once_in(16) {
        mutate(&mut case.rng, &mut content, TEXT);
    }
    content
}

pub fn run(case: &mut Case<'_>) {
    let content = content(case);
    let way = Way::random(&mut case.rng);
    let file = case.write("data.ctf", &content);
    let config = way.configuration(&file, 0, "");
    case.write("config.cntk", config.as_bytes());
    let options = from_text(&config).expect("a configuration without fault");
    if let Err(errors) = use_it(&options, &way.epoch) {
        check_errors(&errors, &String::from_utf8_lossy(&content));
    }
}
