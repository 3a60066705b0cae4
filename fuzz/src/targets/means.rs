//! OpenCV's matrix files, from which transforms take their numbers: errors with a location, or
//! data.

use super::images;
use crate::case::Case;

/// The input: a choice of the transform, and a matrix file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    images::pictures(&case);
    let name = *case.choices.pick(&["m.xml", "m.yml", "m.xml.gz"]);
    let file = case.write(name, case.content);
    let transform = match case.choices.once_in(2) {
        true => format!("type = \"Intensity\" ; intensityStdDev = 2 ; intensityFile = \"{file}\""),
        false => format!("type = \"Mean\" ; meanFile = \"{file}\""),
    };
    let (width, height) = *case.choices.pick(&[(13, 9), (4, 6), (1, 1)]);
    let map = case.write("map.txt", b".../a.png\t0\n.../b.jpg\t1\n");
    let transforms = format!(
        "[ type = \"Scale\" ; width = {width} ; height = {height} ; channels = 3 ] : [ {transform} ] : [ type = \"Transpose\" ]"
    );
    images::read(&mut case, "ImageDeserializer", &map, &transforms);
}
