//! Files without a configuration: recognized, described, checked and shown, or errors.

use crate::case::Case;
use crate::common::reading::check_errors;
use cntk_reader_tools::inspect::BareFiles;

/// File names: their extensions matter.
const NAMES: [&str; 10] =
    ["a.ctf", "a.cbf", "a.scp", "a.mlf", "a.ark", "a.mfc", "a.txt", "a.ctf.zst", "a.ctf.gz", "a"];

/// The input: a choice of the name, and a file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let name = *case.choices.pick(&NAMES);
    let file = case.write(name, case.content);
    let errors = match BareFiles::recognize(&[&file]) {
        Ok(files) => {
            let mut errors = Vec::new();
            errors.extend(files.inspect().err());
            match files.sequences() {
                Ok(mut sequences) => {
                    for number in 0..20 {
                        match sequences.read(number) {
                            Ok(Some(_)) => {}
                            Ok(None) => break,
                            Err(error) => errors.push(error),
                        }
                    }
                }
                Err(error) => errors.push(error),
            }
            errors
        }
        Err(error) => vec![error],
    };
    check_errors(&errors, &name);
}
