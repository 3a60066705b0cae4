//! Files without a configuration: what they are is recognized, they are described, checked and shown, or there is an error.

use crate::case::Case;
use crate::common::reading::check_errors;
use cntk_reader_tools::inspect::BareFiles;

/// Names of files: their endings are looked at.
const NAMES: [&str; 10] =
    ["a.ctf", "a.cbf", "a.scp", "a.mlf", "a.ark", "a.mfc", "a.txt", "a.ctf.zst", "a.ctf.gz", "a"];

/// The input chooses a name, and is a file.
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
