//! Gives the shared library its SONAME, which has the number of the ABI: programs that were linked against it keep working
//! when the file is replaced by a newer one with the same number.

use std::path::Path;

/// The file that has the number, and the line's beginning.
const FILE: &str = "src/capi/version.rs";
const START: &str = "pub const CNTK_READER_ABI_VERSION: u32 = ";

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        let text = std::fs::read_to_string(Path::new(&root).join(FILE)).unwrap_or_default();
        let number = text.lines().find_map(|line| line.strip_prefix(START)?.strip_suffix(';'));
        let Some(number) = number else { panic!("{FILE} has no line that begins with '{START}'") };
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcntk_reader.so.{number}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={FILE}");
}
