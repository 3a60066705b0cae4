//! What is fuzzed. Each target makes one case from random numbers and panics if anything is wrong.

mod binary;
mod cache;
mod checkpoint;
#[cfg(feature = "compression")]
mod compressed;
mod configuration;
mod images;
mod parsers;
mod resume;
mod text;
mod user;

use crate::case::Case;

/// A target.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What it checks.
    pub what: &'static str,
    /// Cases of a short run: about two seconds.
    pub cases: u64,
    /// Runs a case.
    pub run: fn(&mut Case<'_>),
}

/// All targets.
pub const ALL: &[Target] = &[
    Target {
        name: "configuration",
        what: "damaged configurations: errors, or a working reader",
        cases: 2_000,
        run: configuration::run,
    },
    Target {
        name: "text",
        what: "damaged text files, read in random ways: errors with a place, or data",
        cases: 2_000,
        run: text::run,
    },
    Target {
        name: "binary",
        what: "damaged binary files of both layouts: errors with a place, or data",
        cases: 2_000,
        run: binary::run,
    },
    #[cfg(feature = "compression")]
    Target {
        name: "compressed",
        what: "damaged zstd files: errors with a place, or data",
        cases: 1_000,
        run: compressed::run,
    },
    Target {
        name: "images",
        what: "damaged images, containers, lists and files of transforms: errors with a place, or data",
        cases: 1_000,
        run: images::run,
    },
    Target {
        name: "cache",
        what: "damaged index caches: never another order or other data",
        cases: 250,
        run: cache::run,
    },
    Target {
        name: "checkpoint",
        what: "damaged checkpoints: refused, or a reader that continues",
        cases: 1_000,
        run: checkpoint::run,
    },
    Target {
        name: "user",
        what: "users' deserializers with arrays that cannot be: errors, or data",
        cases: 1_000,
        run: user::run,
    },
    Target {
        name: "parsers",
        what: "the fast parser and the exact one agree, in data and errors",
        cases: 400,
        run: parsers::run,
    },
    Target {
        name: "resume",
        what: "reading that is resumed at random places equals straight reading",
        cases: 400,
        run: resume::run,
    },
];
