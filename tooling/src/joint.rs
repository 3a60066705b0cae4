//! Compiles the library, the tool, the extension module and all their tests with one cargo command:
//! each crate once, with the union of the features that they need.
//!
//! A command that compiles fewer packages selects other features, and compiles the library's crates
//! again. So everything that tests need from these packages comes from here.

use crate::dist;
use crate::programs::{Executable, executables};
use crate::project::{Project, alone};
use anyhow::{Result, ensure};
use std::sync::{Arc, Mutex};

/// The library's crates, from the bottom up.
pub const LIBRARY: [&str; 9] = [
    "cntk-reader-core",
    "cntk-reader-arrays",
    "cntk-reader-text",
    "cntk-reader-speech",
    "cntk-reader-images",
    "cntk-reader-engine",
    "cntk-reader",
    "cntk-reader-tools",
    "cntk-reader-capi",
];

/// The packages of the tool, the libraries for C and the extension module.
const FRONT_ENDS: [&str; 3] = ["cntk-reader-cli", "cntk-reader-clib", "cntk-reader-python"];

/// Features that are off by default, and tested all the same.
const FEATURES: [&str; 2] = ["--features", "cntk-reader-cli/arrow"];

/// Compiles everything, once per process. Returns the test programs.
pub fn build(project: &Project) -> Result<Arc<[Executable]>> {
    static BUILT: Mutex<Option<Arc<[Executable]>>> = Mutex::new(None);
    let mut built = alone(&BUILT);
    if let Some(programs) = &*built {
        return Ok(Arc::clone(programs));
    }
    let packages = LIBRARY.iter().chain(&FRONT_ENDS).flat_map(|package| ["--package", package]);
    let build = dist::release(project, "build").args(packages).args(FEATURES);
    let build = build.args(["--lib", "--bins", "--tests"]);
    let messages = build.arg("--message-format=json-render-diagnostics").output()?;
    let programs: Arc<[Executable]> = executables(&messages).filter(|program| program.is_test).collect();
    ensure!(!programs.is_empty(), "cargo names no test program:\n{messages}");
    *built = Some(Arc::clone(&programs));
    Ok(programs)
}
