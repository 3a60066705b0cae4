//! Versions.

use std::ffi::{CStr, c_char};

/// The number of this ABI. It grows with every function or struct member that is added, and never otherwise: a program
/// may ask whether the library at hand has what it was built with.
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

/// The library's version as major * 1000000 + minor * 1000 + patch: compare with CNTK_READER_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_version() -> u32 {
    const {
        number(env!("CARGO_PKG_VERSION_MAJOR")) * 1_000_000
            + number(env!("CARGO_PKG_VERSION_MINOR")) * 1_000
            + number(env!("CARGO_PKG_VERSION_PATCH"))
    }
}

/// The library's version as text ("0.1.0"), NUL-terminated, valid for ever.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_version_text() -> *const c_char {
    VERSION_TEXT.as_ptr()
}

/// The library's ABI number: what CNTK_READER_ABI_VERSION was when it was built. Functions and struct members marked
/// "since ABI n" exist if this is n or more.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_abi_version() -> u32 {
    CNTK_READER_ABI_VERSION
}
