//! Map files of images: errors with a location, or data.

use super::images;
use crate::case::Case;
use crate::test_file;
use std::sync::OnceLock;

/// The input: choices of how to read, and a map file, which can refer to pictures and a zip file in
/// its own folder (`...`).
pub fn run(input: &[u8]) {
    static ZIP: OnceLock<Vec<u8>> = OnceLock::new();
    let mut case = Case::new(input);
    images::pictures(&case);
    case.write("c.zip", ZIP.get_or_init(|| test_file("images/files/c.zip")));
    let transforms = images::transforms(&mut case);
    let map = case.write("map.txt", case.content);
    images::read(&mut case, "ImageDeserializer", &map, &transforms);
}
