//! Kaldi archives, binary and text, and their scripts: errors with a location, or data.

use crate::case::Case;

/// The input: choices of how to read, an archive `a.ark`, and after a separator a script.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let (archive, script) = case.two_files();
    let archive = case.write("a.ark", archive);
    let format = case.choices.pick(&["", " ; format = sparse", " ; contextWindow = 1:2"]);
    let source = match script.is_empty() {
        true => format!("arkFile = \"{archive}\""),
        false => {
            let text = String::from_utf8_lossy(script).replace("DIR/", &case.path(""));
            format!("scpFile = \"{}\"", case.write("a.scp", text.as_bytes()))
        }
    };
    let dim = case.choices.pick(&[3, 12, 1]);
    case.read(&format!("[ type = KaldiDeserializer ; input = [ f = [ {source} ; dim = {dim}{format} ] ] ]"));
}
