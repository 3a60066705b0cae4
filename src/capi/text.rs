//! Strings across the boundary.

use super::call::Output;
use crate::{Error, Result};
use std::ffi::{CString, c_char};

/// The length that says that a string ends at its NUL.
pub(super) const NUL_TERMINATED: usize = usize::MAX;

/// Bytes that the caller passed with a length, or NUL-terminated.
///
/// # Safety
/// `text` is NULL, or `length` bytes of it are readable during `'a`; if `length` is [`NUL_TERMINATED`], all up to its
/// NUL.
pub(super) unsafe fn bytes<'a>(text: *const c_char, length: usize, name: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(Error::argument(format!("The argument '{name}' must not be NULL.")));
    }
    // SAFETY: the caller's promise, for either form.
    unsafe {
        Ok(match length {
            NUL_TERMINATED => std::ffi::CStr::from_ptr(text).to_bytes(),
            _ if length > isize::MAX as usize => {
                return Err(Error::argument(format!("The length of '{name}' is impossible.")));
            }
            _ => std::slice::from_raw_parts(text.cast(), length),
        })
    }
}

/// The same, as UTF-8.
///
/// # Safety
/// As for [`bytes`].
pub(super) unsafe fn utf8<'a>(text: *const c_char, length: usize, name: &str) -> Result<&'a str> {
    // SAFETY: same contract.
    let bytes = unsafe { bytes(text, length, name) }?;
    std::str::from_utf8(bytes)
        .map_err(|cause| Error::argument(format!("The argument '{name}' is not UTF-8: {cause}.")))
}

/// Gives a text to a caller who has so much room: as much of it as fits, always with a NUL, and its whole length.
///
/// # Safety
/// `place` may be written for `capacity` bytes.
pub(super) unsafe fn write(
    text: &str,
    place: *mut c_char,
    capacity: usize,
    length: Output<usize>,
) -> Result<()> {
    if capacity > 0 {
        let fits = text.len().min(capacity - 1);
        // SAFETY: the caller's promise.
        unsafe {
            Output::new(place, "text")?;
            text.as_ptr().copy_to_nonoverlapping(place.cast(), fits);
            place.add(fits).write(0);
        }
    }
    length.set(text.len());
    Ok(())
}

/// A NUL-terminated copy; NULs inside, which damaged data can bring into messages, become replacement characters.
pub(super) fn nul_terminated(text: &str) -> CString {
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
