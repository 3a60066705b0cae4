//! What is fuzzed, and what all targets have in common. See README.md.

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

/// Makes the process ready for its first input.
pub fn prepare() {
    common::quiet();
    // One thread: what is covered then depends on the input alone, as far as it can. Targets that compare take more.
    cntk_reader::set_threads(1);
    // SAFETY: called before the first input, when no other thread has been started that reads the environment.
    unsafe { std::env::set_var("CNTK_READER_CACHE", case::scratch().join("cache")) };
    extern "C" fn clean() {
        _ = std::fs::remove_dir_all(case::scratch());
    }
    // SAFETY: the function is one of this program, and does not panic.
    unsafe { libc::atexit(clean) };
}

/// A file of the tests.
pub fn test_file(path: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests").join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The program of one target, as `cargo fuzz run` builds it.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::prepare(), |input: &[u8]| {
            $crate::targets::$name::run(input);
        });
    };
}
