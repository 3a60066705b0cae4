//! The sequence keys that all deserializers of a reader have in common.

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

/// How the keys of a reader's sequences become numbers, in all of its deserializers alike. A factory gets them with its
/// request (cntk_reader_request), and adds a reference to keep them.
///
/// Threads: may be shared; references are counted atomically.
pub struct cntk_reader_keys(pub(crate) Arc<Corpus>);

impl cntk_reader_keys {
    /// CNTK's rule where keys are numbers: leading digits count.
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

/// Adds a reference, to be taken away with cntk_reader_keys_release. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_retain(keys: *const cntk_reader_keys) {
    if !keys.is_null() {
        // SAFETY: the only pointers to this type that callers get are those of a request, from `Arc::as_ptr`; the request's
        // reference, or the caller's own, keeps the count above 0.
        unsafe { Arc::increment_strong_count(keys) };
    }
}

/// Takes a reference away that cntk_reader_keys_retain has added. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_keys_release(keys: *const cntk_reader_keys) {
    if !keys.is_null() {
        // SAFETY: as in `cntk_reader_keys_retain`, which has counted the reference that is taken away here.
        guard_silently(|| drop(unsafe { Arc::from_raw(keys) }));
    }
}

/// Gives whether keys are numbers in the data, and whether texts are numbered by CNTK's hash of them: 1 or 0 each.
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

/// Gives the number of a key (`length` bytes, or CNTK_READER_NUL_TERMINATED). A text that is new gets the next one; where
/// keys are numbers, it is the number that the key begins with.
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
        // SAFETY: `key` is NULL, which `bytes` refuses, or has the bytes that `length` states.
        number.write(keys.number_of(unsafe { text::bytes(key, length, "key") }?)?);
        Ok(())
    })
}

/// Gives the text of a key by its number, as CNTK shows it: UTF-8, as much of it as fits into `capacity` bytes, always with
/// a NUL if `capacity` is not 0; and its whole length in bytes without the NUL. `text` may be NULL if `capacity` is 0.
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
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has that many bytes.
        length.write(unsafe { text::copy(&keys.0.text_of(number), text, capacity) }?);
        Ok(())
    })
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
