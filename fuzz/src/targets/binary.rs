//! Binary files in both layouts: errors with a location, or data.

use crate::case::Case;

/// The input: choices of how to read, and a binary file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let file = case.write("data.cbf", case.content);
    case.read(&format!(
        "[ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader ; file = \"{file}\" ]"
    ));
}
