//! Text files, read in random ways: errors with a location, or data.

use crate::case::Case;
use crate::choices::Choices;
use crate::common::reading::{check_errors, epoch, use_it};
use cntk_reader::language::from_text;
use cntk_reader_engine::reader::Epoch;

/// A way to read a text file with the streams `x` and `s`.
pub struct Way {
    /// Lines of the reader's section.
    head: String,
    /// Lines of the deserializer's section.
    inner: String,
    /// The epoch to read.
    pub epoch: Epoch,
}

impl Way {
    /// Chooses a way.
    pub fn chosen(choices: &mut Choices<'_>) -> Way {
        let workers = choices.range(1, 3);
        let epoch = epoch(workers, choices.range(0, workers - 1), 4 * workers);
        let mode = ["", "frameMode = true", "truncated = true ; truncationLength = 2", ""];
        let head = format!(
            "randomize = {}\n{}\n{}\n",
            choices.pick(&["false", "true"]),
            choices.pick(&mode),
            choices.pick(&["", "precision = \"double\""]),
        );
        let (dense, sparse) = (*choices.pick(&[2, 1, 3, 5, 17, 64]), *choices.pick(&[3, 8, 1, 1000]));
        let inner = format!(
            "maxErrors = {}\nchunkSizeInBytes = {}\nskipSequenceIds = {}\nkeepDataInMemory = {}\n{}\
             input = [\nx = [ dim = {dense} ; format = \"dense\"{} ]\ns = [ dim = {sparse} ; format = \"sparse\" ]\n]\n",
            choices.pick(&[0, 1, 3, 1_000_000]),
            choices.pick(&[33_554_432, 1, 20, 64]),
            choices.once_in(5),
            choices.once_in(5),
            choices.pick(&[
                "",
                "useNumericSequenceKeys = true\n",
                "hashSequenceKeys = true\n",
                "strictSequences = false\n"
            ]),
            choices.pick(&["", " ; definesMBSize = true"]),
        );
        Way { head, inner, epoch }
    }

    /// Returns the configuration for a file. `more` are lines for the deserializer.
    pub fn configuration(&self, file: &str, trace_level: u32, more: &str) -> String {
        format!(
            "traceLevel = {trace_level}\n{}deserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\n\
             module = \"CNTKTextFormatReader\"\nfile = \"{file}\"\n{more}{}])\n",
            self.head, self.inner
        )
    }
}

/// The input: choices of a way, and a text file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let way = Way::chosen(&mut case.choices);
    let file = case.write("data.ctf", case.content);
    let options = from_text(&way.configuration(&file, 0, "")).expect("a configuration without fault");
    if let Err(errors) = use_it(&options, &way.epoch) {
        check_errors(&errors, &String::from_utf8_lossy(case.content));
    }
}
