//! The targets. Each is a function of an input, and panics on a failure.

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
    /// Its name, also the name of its module, of its file in `fuzz_targets` and of its corpus.
    pub name: &'static str,
    /// Its dictionary in `dictionaries`, or "".
    pub dictionary: &'static str,
    /// A description of its checks.
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
    text "text" "text files (CTF), read in many ways: errors with a location, or data"
    parsers "text" "the fast parser, the exact one, instruction sets and threads agree, in data and errors"
    cache "text" "indexes and their caches, which never change order or data"
    binary "binary" "binary files (CBF) of both layouts: errors with a location, or data"
    features "speech" "HTK features: errors with a location, or data"
    script "speech" "scripts of HTK features: errors with a location, or data"
    labels "speech" "labels (MLF): errors with a location, or data"
    states "speech" "state lists: errors with a location, or data"
    lattices "speech" "lattices and their tables of contents: errors with a location, or data"
    kaldi "kaldi" "Kaldi archives and their scripts: errors with a location, or data"
    arrays "arrays" "NumPy arrays, and lengths of their sequences: errors with a location, or data"
    image_map "images" "map files of images: errors with a location, or data"
    zip "zip" "zip files with images: errors with a location, or data"
    base64 "images" "images as Base64: errors with a location, or data"
    means "means" "OpenCV's matrix files: errors with a location, or data"
    jpeg "pictures" "JPEG: errors, or equal pixels for whole pictures, parts, and all instruction sets"
    png "pictures" "PNG, likewise"
    bmp "pictures" "BMP, likewise"
    tiff "pictures" "TIFF, likewise"
    webp "pictures" "WebP, likewise"
    pnm "pictures" "PBM, PGM and PPM, likewise"
    zstd "binary" "zstd-compressed files: errors with a location, or data"
    gzip "binary" "gzip-compressed files: errors with a location, or data"
    bare "text" "files without a configuration: recognized, described and shown, or errors"
    checkpoint "" "damaged checkpoints: refused, or a reader that continues"
    state "" "CNTK's state: refused, or a reader that continues"
    resume "" "resumed reading equals uninterrupted reading"
    user "" "user deserializers with invalid results: errors, or data"
    calls "" "sequences of calls of the C interface: valid statuses, no undefined behaviour"
};
