//! All targets in one program, built by `cargo xtask fuzz`. An environment variable selects the
//! target, or else the program's own name: ClusterFuzzLite runs copies that are named after
//! targets. Linking one program takes seconds, linking one per target takes minutes.

#![no_main]

use cntk_reader_fuzz::{ALL, Target, libfuzzer_sys, prepare};
use std::sync::OnceLock;

/// The environment variable with the name of the target.
const VARIABLE: &str = "CNTK_READER_FUZZ_TARGET";

fn chosen() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let variable = std::env::var(VARIABLE).ok();
        let name = variable.clone().or_else(own_name).unwrap_or_default();
        ALL.iter().find(|target| target.name == name).unwrap_or_else(|| {
            ALL.iter().for_each(|target| println!("{}\t{}\t{}", target.name, target.dictionary, target.what));
            std::process::exit(if variable.is_none() { 0 } else { 2 })
        })
    })
}

/// Returns the name of the file that runs.
fn own_name() -> Option<String> {
    let path = std::path::PathBuf::from(std::env::args_os().next()?);
    Some(path.file_name()?.to_string_lossy().into_owned())
}

libfuzzer_sys::fuzz_target!(
    init: {
        chosen();
        prepare();
    },
    |input: &[u8]| (chosen().run)(input)
);
