//! Arrays of NumPy and the lengths of their sequences: errors with a place, or data.

use crate::case::Case;

/// The input chooses how to read, and is an array; after a separator follows one of lengths.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let (array, lengths) = case.two_files();
    let array = case.write("x.npy", array);
    let lengths = match lengths.is_empty() {
        true => String::new(),
        false => format!("lengths = \"{}\"", case.write("lengths.npy", lengths)),
    };
    let chunk = case.choices.pick(&["", "chunkSizeInBytes = 1", "chunkSizeInBytes = 40"]);
    // The array beside itself: both have equally many rows.
    let second = case.choices.pick(&["", "y = [ file = FILE ; definesMBSize = true ]"]);
    let second = second.replace("FILE", &format!("\"{array}\""));
    case.read(&format!(
        "[ type = NumpyDeserializer\n{lengths}\n{chunk}\ninput = [ x = [ file = \"{array}\" ]\n{second} ] ]"
    ));
}
