//! Shared code of the targets for compressed files.

use crate::case::{Case, scratch};

/// Reads a compressed text file, with its own cache folder.
pub fn read(case: &mut Case<'_>, name: &str) {
    let file = case.write(name, case.content);
    case.read(&format!(
        "[ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = \"{file}\"\n\
         input = [ x = [ dim = 2 ; format = \"dense\" ] ] ]"
    ));
    _ = std::fs::remove_dir_all(scratch().join("cache"));
}
