//! The sequence keys that all deserializers of a reader share.

use super::call::{Output, guard, guard_silently, input};
use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use super::text;
use crate::corpus::Corpus;
use crate::{Error, Result};
use std::ffi::c_char;
use std::sync::Arc;

/// How the keys of a reader's sequences become numbers, the same in all its deserializers. A deserializer of one's own
/// gets it when it is made (cntk_reader_request), and takes a reference of its own to keep it.
///
/// Threads: may be shared.
pub struct cntk_reader_keys(pub(super) Arc<Corpus>);

impl cntk_reader_keys {
    /// CNTK's rule where keys are numbers: leading digits count.
    fn number_of(&self, key: &[u8]) -> Result<u64> {
        if let Some(number) = self.0.number_of(key) {
            return Ok(number);
        }
        let digits = key.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&key[..digits]).ok().and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| {
            // CNTK 2.7's words.
            let key = String::from_utf8_lossy(key);
            Error::data(format!("Invalid numeric sequence id '{key}'")).for_key(key)
        })
    }
}

/// Adds a reference: gives another handle to the same keys, to be freed with cntk_reader_keys_release.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_retain(
    keys: *const cntk_reader_keys,
    shared: *mut *mut cntk_reader_keys,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (keys, output) = (input(keys, "keys")?, Output::new(shared, "shared")?);
            output.set(Box::into_raw(Box::new(cntk_reader_keys(Arc::clone(&keys.0)))));
            Ok(())
        })
    }
}

/// Frees a handle. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_release(keys: *mut cntk_reader_keys) {
    if !keys.is_null() {
        // SAFETY: the caller gives up its ownership, which was passed out by `Box::into_raw`.
        guard_silently(|| drop(unsafe { Box::from_raw(keys) }));
    }
}

/// Tells whether keys are numbers in the data, and whether texts are numbered by CNTK's hash of them: 1 or 0 each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_describe(
    keys: *const cntk_reader_keys,
    numeric: *mut u32,
    hashed: *mut u32,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let keys = input(keys, "keys")?;
            let (numeric, hashed) = (Output::new(numeric, "numeric")?, Output::new(hashed, "hashed")?);
            numeric.set(keys.0.is_numeric().into());
            hashed.set(keys.0.is_hashed().into());
            Ok(())
        })
    }
}

/// Gives the number of a key (`length` bytes, or CNTK_READER_NUL_TERMINATED). A text that is new gets the next one; where
/// keys are numbers, it is the number that the key begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_get_number(
    keys: *const cntk_reader_keys,
    key: *const c_char,
    length: usize,
    number: *mut u64,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (keys, key) = (input(keys, "keys")?, text::bytes(key, length, "key")?);
            let output = Output::new(number, "number")?;
            output.set(keys.number_of(key)?);
            Ok(())
        })
    }
}

/// Gives the text of a key by its number, as CNTK shows it. Writes as much of it as fits into `capacity` bytes, always
/// with a NUL if `capacity` is not 0, and its whole length in bytes without the NUL. `text` may be NULL if `capacity`
/// is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_get_text(
    keys: *const cntk_reader_keys,
    number: u64,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (keys, length) = (input(keys, "keys")?, Output::new(length, "length")?);
            text::write(&keys.0.text_of(number), text, capacity, length)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_keys_are_the_digits_they_begin_with() {
        let keys = cntk_reader_keys(Arc::new(Corpus::Numeric));
        assert_eq!(keys.number_of(b"10").ok(), Some(10));
        assert_eq!(keys.number_of(b"007.wav").ok(), Some(7));
        let error = keys.number_of(b"u1").expect_err("no number");
        assert_eq!(error.message(), "Invalid numeric sequence id 'u1'");
        let keys = cntk_reader_keys(Arc::new(Corpus::symbolic()));
        assert_eq!(keys.number_of(b"u1").ok(), Some(0));
    }
}
