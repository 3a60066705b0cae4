//! The sequence keys that all deserializers of a reader share.

use crate::call::{call, given, guard_silently};
use crate::error::cntk_reader_error;
use crate::status::cntk_reader_status;
use crate::text;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The mapping of sequence keys to numbers, shared by all deserializers of a reader. A factory gets
/// it with its request (cntk_reader_request), and adds a reference to keep it.
///
/// Threads: may be shared; references are counted atomically.
pub struct cntk_reader_keys(pub(crate) Arc<Corpus>);

impl cntk_reader_keys {
    /// Returns the number of a key. If keys are numbers, leading digits count, as in CNTK.
    fn number_of(&self, key: &[u8]) -> Result<u64> {
        if let Some(number) = self.0.number_of(key)? {
            return Ok(number);
        }
        let digits = key.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&key[..digits]).ok().and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| {
            // CNTK 2.7's words.
            let key = quoted(key);
            Error::data(format!("Invalid numeric sequence id '{key}'")).for_key(key)
        })
    }
}

/// Adds a reference, to be released with cntk_reader_keys_release. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_retain(keys: *const cntk_reader_keys) {
    if !keys.is_null() {
        // SAFETY: callers get pointers to this type only in a request, from `Arc::as_ptr`; the
        // request's reference, or the caller's own, keeps the count above 0.
        unsafe { Arc::increment_strong_count(keys) };
    }
}

/// Releases a reference that cntk_reader_keys_retain has added. NULL is allowed. May be called from
/// any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_release(keys: *const cntk_reader_keys) {
    if !keys.is_null() {
        // SAFETY: as in `cntk_reader_keys_retain`, which has added the reference that is released
        // here.
        guard_silently(|| drop(unsafe { Arc::from_raw(keys) }));
    }
}

/// Gets whether keys are numbers in the data, and whether textual keys are mapped to numbers by
/// CNTK's hash: 1 or 0 each.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_keys_describe(
    keys: Option<&cntk_reader_keys>,
    numeric: Option<&mut MaybeUninit<u32>>,
    hashed: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let keys = given(keys, "keys")?;
        let (numeric, hashed) = (given(numeric, "numeric")?, given(hashed, "hashed")?);
        numeric.write(keys.0.is_numeric().into());
        hashed.write(keys.0.is_hashed().into());
        Ok(())
    })
}

/// Gets the number of a key (`length` bytes, or CNTK_READER_NUL_TERMINATED). A new text gets the
/// next number. If keys are numbers, it is the number that the key begins with.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_get_number(
    keys: Option<&cntk_reader_keys>,
    key: *const c_char,
    length: usize,
    number: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (keys, number) = (given(keys, "keys")?, given(number, "number")?);
        // SAFETY: `key` is NULL, which `bytes` refuses, or has `length` bytes or ends with a NUL.
        number.write(keys.number_of(unsafe { text::bytes(key, length, "key") }?)?);
        Ok(())
    })
}

/// Writes the text of a key by its number, as CNTK shows it: UTF-8, truncated to `capacity` bytes
/// including a NUL. `length` is set to its full length in bytes without the NUL. `text` may be NULL
/// if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_get_text(
    keys: Option<&cntk_reader_keys>,
    number: u64,
    text: *mut c_char,
    capacity: usize,
    length: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (keys, length) = (given(keys, "keys")?, given(length, "length")?);
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has `capacity`
        // bytes.
        length.write(unsafe { text::copy(&keys.0.text_of(number), text, capacity) }?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_keys_are_leading_digits() {
        let keys = cntk_reader_keys(Arc::new(Corpus::Numeric));
        assert_eq!(keys.number_of(b"10").ok(), Some(10));
        assert_eq!(keys.number_of(b"007.wav").ok(), Some(7));
        let error = keys.number_of(b"u1").expect_err("no number");
        assert_eq!(error.message(), "Invalid numeric sequence id 'u1'");
        let keys = cntk_reader_keys(Arc::new(Corpus::symbolic()));
        assert_eq!(keys.number_of(b"u1").ok(), Some(0));
    }
}
