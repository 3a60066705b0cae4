//! The targets. Each is a function of an input, and panics if anything is wrong.

pub mod arrays;
pub mod bare;
pub mod base64;
pub mod binary;
pub mod bmp;
pub mod cache;
pub mod calls;
pub mod checkpoint;
mod compressed;
pub mod configuration;
pub mod features;
pub mod gzip;
pub mod image_map;
mod images;
pub mod jpeg;
pub mod kaldi;
pub mod labels;
pub mod lattices;
pub mod means;
pub mod parsers;
mod picture;
pub mod png;
pub mod pnm;
pub mod resume;
pub mod script;
mod speech;
pub mod state;
pub mod states;
pub mod text;
pub mod tiff;
pub mod user;
pub mod webp;
pub mod zip;
pub mod zstd;

/// A target.
pub struct Target {
    /// Its name, which is that of its module, of its file in `fuzz_targets` and of its corpus.
    pub name: &'static str,
    /// Its dictionary in `dictionaries`, or "".
    pub dictionary: &'static str,
    /// What it checks.
    pub what: &'static str,
    /// Runs an input.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident $dictionary:literal $what:literal)*) => {
        &[$(Target { name: stringify!($name), dictionary: $dictionary, what: $what, run: $name::run }),*]
    };
}

/// All targets.
pub const ALL: &[Target] = targets! {
    configuration "configuration" "configurations: errors, or a reader that works"
    text "text" "text files (CTF), read in many ways: errors with a place, or data"
    parsers "text" "the fast parser, the exact one, sets of instructions and threads agree, in data and errors"
    cache "text" "indexes and their caches: never another order or other data"
    binary "binary" "binary files (CBF) of both layouts: errors with a place, or data"
    features "speech" "HTK features: errors with a place, or data"
    script "speech" "scripts of HTK features: errors with a place, or data"
    labels "speech" "labels (MLF): errors with a place, or data"
    states "speech" "state lists: errors with a place, or data"
    lattices "speech" "lattices and their tables of contents: errors with a place, or data"
    kaldi "kaldi" "Kaldi archives and their scripts: errors with a place, or data"
    arrays "arrays" "arrays of NumPy, and lengths of their sequences: errors with a place, or data"
    image_map "images" "map files of images: errors with a place, or data"
    zip "zip" "zip files with images: errors with a place, or data"
    base64 "images" "images as Base64: errors with a place, or data"
    means "means" "OpenCV's files of matrices: errors with a place, or data"
    jpeg "pictures" "JPEG: errors, or pixels that are the same in whole, in part, and by all instructions"
    png "pictures" "PNG, likewise"
    bmp "pictures" "BMP, likewise"
    tiff "pictures" "TIFF, likewise"
    webp "pictures" "WebP, likewise"
    pnm "pictures" "PBM, PGM and PPM, likewise"
    zstd "binary" "files that zstd has compressed: errors with a place, or data"
    gzip "binary" "files that gzip has compressed: errors with a place, or data"
    bare "text" "files without a configuration: recognized, described and shown, or errors"
    checkpoint "" "damaged checkpoints: refused, or a reader that continues"
    state "" "CNTK's state: refused, or a reader that continues"
    resume "" "reading that is resumed equals straight reading"
    user "" "users' deserializers with answers that cannot be: errors, or data"
    calls "" "sequences of calls of the C interface: statuses, and no harm"
};
