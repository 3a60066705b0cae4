//! Versions.

use std::ffi::{CStr, c_char};

/// The ABI number, which is also in the SONAME: libcntk_reader.so.1. It changes only when programs
/// that were linked to an older library would not run with the newer one.
pub const CNTK_READER_ABI_VERSION: u32 = 1;

const VERSION_TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a version without NUL"),
    };

const fn number(digits: &str) -> u32 {
    let digits = digits.as_bytes();
    let (mut value, mut i) = (0, 0);
    while i < digits.len() {
        value = value * 10 + (digits[i] - b'0') as u32;
        i += 1;
    }
    value
}

/// Returns the library's version as major * 1000000 + minor * 1000 + patch. Compare it with
/// CNTK_READER_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_version_get() -> u32 {
    const {
        number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
            + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
            + number(env!("CARGO_PKG_VERSION_PATCH"))
    }
}

/// Returns the library's version as text ("0.1.0"), NUL-terminated, valid as long as the library is
/// loaded.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_version_get_text() -> *const c_char {
    VERSION_TEXT.as_ptr()
}

/// Returns the ABI number of the library that the program runs with. Compare it with
/// CNTK_READER_ABI_VERSION. The loader already compares the numbers by the SONAME; this is for
/// programs that open the library by its path.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_version_get_abi() -> u32 {
    CNTK_READER_ABI_VERSION
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::NUL_TERMINATED;
    use cntk_reader_engine::pack::layout::GAP;
    use cntk_reader_engine::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};

    const HEADER: &str = include_str!("../../../include/cntk_reader.h");

    /// Returns the value of one of the header's macros, which are written by hand.
    fn constant(name: &str) -> u64 {
        let start = format!("#define CNTK_READER_{name} ");
        let text = HEADER.lines().find_map(|line| line.strip_prefix(&start)).expect(name);
        match text.trim_start_matches("UINT64_C(").trim_end_matches(')') {
            "UINT64_MAX" | "SIZE_MAX" => u64::MAX,
            text => match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).expect(name),
                None => text.parse().expect(name),
            },
        }
    }

    #[test]
    fn header_constants_match_the_library() {
        let version =
            ["MAJOR", "MINOR", "PATCH"].map(|part| constant(&format!("VERSION_{part}")).to_string());
        assert_eq!(version.join("."), env!("CARGO_PKG_VERSION"));
        assert_eq!(constant("ABI_VERSION"), u64::from(CNTK_READER_ABI_VERSION));
        assert_eq!(constant("NUL_TERMINATED"), NUL_TERMINATED as u64);
        assert_eq!(constant("GAP"), GAP);
        assert_eq!(constant("UNLIMITED_SAMPLES"), SIZE_UNLIMITED);
        assert_eq!(constant("ONE_SWEEP"), SIZE_OF_SWEEP);
        assert_eq!(constant("UNLIMITED_SWEEPS"), SWEEPS_UNLIMITED);
    }

    #[test]
    fn version_digits_are_parsed() {
        assert_eq!(number("120"), 120);
        assert_eq!(VERSION_TEXT.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    }
}
