//! Shared code of the targets for images in readers.

use crate::case::Case;
use crate::test_file;
use std::sync::OnceLock;

/// Maximum number of pixels of an image.
const PIXELS: u64 = 1 << 20;

/// Writes the pictures that map files may refer to.
pub fn pictures(case: &Case<'_>) {
    static PICTURES: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    let names = ["p8x8.png", "j420_3x5.jpg", "flat1x1.bmp"];
    let pictures =
        PICTURES.get_or_init(|| names.map(|name| test_file(&format!("images/files/images/{name}"))));
    for (name, picture) in ["a.png", "b.jpg", "c.bmp"].into_iter().zip(pictures) {
        case.write(name, picture);
    }
}

/// Reads images by a map file, with transforms.
pub fn read(case: &mut Case<'_>, kind: &str, map: &str, transforms: &str) {
    let more = format!(
        "{}multiViewCrop = {}\ngrayscale = {}\n",
        case.choices.pick(&["", "useNumericSequenceKeys = false\n", "maxErrors = 1\n", "maxErrors = 1000\n"]),
        case.choices.once_in(6),
        case.choices.once_in(4)
    );
    case.read(&format!(
        "[\ntype = \"{kind}\"\nmodule = \"ImageReader\"\nfile = \"{map}\"\nmaxPixels = {PIXELS}\n{more}\
         input = [\nfeatures = [ transforms = ( {transforms} ) ]\nlabels = [ labelDim = 3 ]\n]\n]"
    ));
}

/// Chooses transforms, with sizes that suit any image.
pub fn transforms(case: &mut Case<'_>) -> String {
    let choices = &mut case.choices;
    let chosen = *choices.pick(&[
        "",
        "[ type = \"Crop\" ; cropType = \"RandomSide\" ; cropSize = 3:5 ] : ",
        "[ type = \"Crop\" ; cropType = \"RandomArea\" ; areaRatio = 0.01:1 ; jitterType = \"UniRatio\" ; aspectRatio = 0.1:9 ] : ",
        "[ type = \"Color\" ; brightnessRadius = 0.5 ; contrastRadius = 0.5 ; saturationRadius = 0.5 ] : ",
    ]);
    let (way, mode) =
        (*choices.pick(&["linear", "nearest", "cubic", "lanczos"]), *choices.pick(&["fill", "crop", "pad"]));
    format!(
        "{chosen}[ type = \"Scale\" ; width = 4 ; height = 6 ; channels = 3 ; interpolations = \"{way}\" ; scaleMode = \"{mode}\" ] \
         : [ type = \"Transpose\" ]"
    )
}
