//! Conversion of strings.

use super::call::{inputs, outputs};
use cntk_reader_core::{Error, Result};
use std::ffi::{CStr, CString, c_char};

/// CNTK_READER_NUL_TERMINATED: in place of a length, the string ends at its NUL.
pub(crate) const NUL_TERMINATED: usize = usize::MAX;

/// Borrows the caller's string as bytes.
///
/// # Safety
/// `text` is NULL, or readable for `length` bytes during `'a`; if `length` is [`NUL_TERMINATED`],
/// up to its NUL.
pub(crate) unsafe fn bytes<'a>(text: *const c_char, length: usize, name: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Error::argument(format!("The argument '{name}' must not be NULL.")));
    }
    match length {
        // SAFETY: not NULL by the check above, and readable up to its NUL by this function's
        // contract.
        NUL_TERMINATED => Ok(unsafe { CStr::from_ptr(text) }.to_bytes()),
        // SAFETY: readable for `length` bytes, by this function's contract.
        _ => unsafe { inputs(text.cast(), length, name) },
    }
}

/// Like [`bytes`], but requires UTF-8.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn utf8<'a>(text: *const c_char, length: usize, name: &str) -> Result<&'a str> {
    // SAFETY: this function has the same contract.
    let bytes = unsafe { bytes(text, length, name) }?;
    std::str::from_utf8(bytes)
        .map_err(|cause| Error::argument(format!("The argument '{name}' is not UTF-8: {cause}.")))
}

/// Copies a text, truncated to `capacity` bytes including a NUL, and returns its full length.
/// Writes nothing if `capacity` is 0.
///
/// # Safety
/// `place` is NULL or writable for `capacity` bytes.
pub(crate) unsafe fn copy(text: &str, place: *mut c_char, capacity: usize) -> Result<usize> {
    // SAFETY: this function's contract.
    let places = unsafe { outputs(place.cast::<u8>(), capacity, "text") }?;
    if let Some(last) = capacity.checked_sub(1) {
        let fits = text.len().min(last);
        for (place, byte) in places[..fits].iter_mut().zip(text.bytes()) {
            place.write(byte);
        }
        places[fits].write(0);
    }
    Ok(text.len())
}

/// Returns a NUL-terminated copy. Inner NULs, which damaged data can bring into messages, become
/// replacement characters.
pub(crate) fn nul_terminated(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_length_or_nul() {
        let text = c"ab\xff";
        // SAFETY: the lengths do not exceed the literal, or are refused.
        unsafe {
            assert_eq!(bytes(text.as_ptr(), NUL_TERMINATED, "x").ok(), Some(&b"ab\xff"[..]));
            assert_eq!(utf8(text.as_ptr(), 2, "x").ok(), Some("ab"));
            assert!(utf8(text.as_ptr(), 3, "x").is_err());
            assert!(utf8(std::ptr::null(), 0, "x").is_err());
            assert!(bytes(text.as_ptr(), usize::MAX - 1, "x").is_err());
        }
    }

    #[test]
    fn inner_nuls_are_replaced() {
        assert_eq!(nul_terminated("a\0b").to_bytes(), "a\u{fffd}b".as_bytes());
    }
}
