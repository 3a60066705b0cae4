//! Tables of contents of lattices, and lattices, beside intact features: errors with a location, or
//! data.

use super::speech;
use crate::case::Case;

/// The input: choices of how to read, a table of contents, which refers to the lattices' file as
/// `DIR/l`, and that file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let features = speech::whole_features(&mut case);
    let (table, lattices) = case.two_files();
    let folder = case.path("");
    let table = String::from_utf8_lossy(table).replace("DIR/", &folder);
    case.write("l", lattices);
    let table = case.write("table", table.as_bytes());
    let index = case.write("index", format!("{table}\n").as_bytes());
    case.read(&format!(
        "{features} : [ type = LatticeDeserializer ; module = HTKDeserializers\n\
         input = [ lat = [ latticeIndexFile = \"{index}\" ] ] ]"
    ));
}
