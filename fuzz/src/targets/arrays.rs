//! NumPy arrays and the lengths of their sequences: errors with a location, or data.

use crate::case::Case;

/// The input: choices of how to read, an array, and after a separator an array of lengths.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let (array, lengths) = case.two_files();
    let array = case.write("x.npy", array);
    let lengths = match lengths.is_empty() {
        true => String::new(),
        false => format!("lengths = \"{}\"", case.write("lengths.npy", lengths)),
    };
    let chunk = case.choices.pick(&["", "chunkSizeInBytes = 1", "chunkSizeInBytes = 40"]);
    // The same array again, with the same number of rows.
    let second = case.choices.pick(&["", "y = [ file = FILE ; definesMBSize = true ]"]);
    let second = second.replace("FILE", &format!("\"{array}\""));
    case.read(&format!(
        "[ type = NumpyDeserializer\n{lengths}\n{chunk}\ninput = [ x = [ file = \"{array}\" ]\n{second} ] ]"
    ));
}
