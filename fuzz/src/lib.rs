//! The fuzz targets and their shared code. See README.md.

#[path = "../../tests/common/mod.rs"]
pub mod common;

pub mod case;
pub mod choices;
mod memory;
pub mod targets;

pub use libfuzzer_sys;
pub use targets::{ALL, Target};

use std::path::Path;

#[global_allocator]
static MEMORY: memory::Limited = memory::Limited;

/// Prepares the process for its first input.
pub fn prepare() {
    common::quiet();
    // With one thread, coverage depends only on the input as far as possible. Targets that compare
    // use more.
    cntk_reader::set_threads(1);
    // SAFETY: called before the first input, when no other thread reads the environment yet.
    unsafe { std::env::set_var("CNTK_READER_CACHE", case::scratch().join("cache")) };
    extern "C" fn clean() {
        _ = std::fs::remove_dir_all(case::scratch());
    }
    // SAFETY: `clean` is a function of this program, and does not panic.
    unsafe { libc::atexit(clean) };
}

/// Reads a file of the tests.
pub fn test_file(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The program of one target, for `cargo fuzz run`.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::prepare(), |input: &[u8]| {
            $crate::targets::$name::run(input);
        });
    };
}
