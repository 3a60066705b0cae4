//! Strings that come in and go out.

use super::call::{inputs, outputs};
use cntk_reader_core::{Error, Result};
use std::ffi::{CStr, CString, c_char};

/// The length that says that a string ends at its NUL.
pub(crate) const NUL_TERMINATED: usize = usize::MAX;

/// Bytes that the caller passed with a length, or NUL-terminated.
///
/// # Safety
/// `text` is NULL, or `length` bytes of it are readable during `'a`; if `length` is [`NUL_TERMINATED`], all up to its
/// NUL.
pub(crate) unsafe fn bytes<'a>(text: *const c_char, length: usize, name: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Error::argument(format!("The argument '{name}' must not be NULL.")));
    }
    match length {
        // SAFETY: not NULL by the check above, and readable up to its NUL by this function's contract for this length.
        NUL_TERMINATED => Ok(unsafe { CStr::from_ptr(text) }.to_bytes()),
        // SAFETY: NULL or readable for `length` bytes, by this function's contract.
        _ => unsafe { inputs(text.cast(), length, name) },
    }
}

/// [`bytes`] that have to be UTF-8.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn utf8<'a>(text: *const c_char, length: usize, name: &str) -> Result<&'a str> {
    // SAFETY: this function has the same contract.
    let bytes = unsafe { bytes(text, length, name) }?;
    std::str::from_utf8(bytes)
        .map_err(|cause| Error::argument(format!("The argument '{name}' is not UTF-8: {cause}.")))
}

/// Copies as much of a text as fits into `capacity` bytes, always with a NUL if that is not 0, and gives its whole length.
///
/// # Safety
/// `place` is NULL or may be written for `capacity` bytes.
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

/// A NUL-terminated copy; NULs inside, which damaged data can bring into messages, become replacement characters.
pub(crate) fn nul_terminated(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_lengths_and_nuls() {
        let text = c"ab\xff";
        // SAFETY: at most the text's bytes are asked for.
        unsafe {
            assert_eq!(bytes(text.as_ptr(), NUL_TERMINATED, "x").ok(), Some(&b"ab\xff"[..]));
            assert_eq!(utf8(text.as_ptr(), 2, "x").ok(), Some("ab"));
            assert!(utf8(text.as_ptr(), 3, "x").is_err());
            assert!(utf8(std::ptr::null(), 0, "x").is_err());
            assert!(bytes(text.as_ptr(), usize::MAX - 1, "x").is_err());
        }
    }

    #[test]
    fn nuls_inside_are_replaced() {
        assert_eq!(nul_terminated("a\0b").to_bytes(), "a\u{fffd}b".as_bytes());
    }
}
