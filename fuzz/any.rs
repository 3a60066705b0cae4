//! All targets in one program, built by `cargo xtask fuzz`; an environment variable selects the
//! target. Linking one program takes seconds, linking one per target takes minutes.

#![no_main]

use cntk_reader_fuzz::{ALL, Target, libfuzzer_sys, prepare};
use std::sync::OnceLock;

/// The environment variable with the name of the target.
const VARIABLE: &str = "CNTK_READER_FUZZ_TARGET";

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var(VARIABLE).unwrap_or_default();
        ALL.iter().find(|target| target.name == name).unwrap_or_else(|| {
            ALL.iter().for_each(|target| println!("{}\t{}\t{}", target.name, target.dictionary, target.what));
            std::process::exit(if name.is_empty() { 0 } else { 2 })
        })
    })
}

libfuzzer_sys::fuzz_target!(
    init: {
        chosen();
        prepare();
    },
    |input: &[u8]| (chosen().run)(input)
);
