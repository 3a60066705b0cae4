//! Zip files with images: errors with a location, or data.

use super::images;
use crate::case::Case;

/// The input: choices of how to read, a zip file, and after a separator the map file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let (zip, map) = case.two_files();
    case.write("c.zip", zip);
    let transforms = images::transforms(&mut case);
    let map = case.write("map.txt", map);
    images::read(&mut case, "ImageDeserializer", &map, &transforms);
}
