//! CNTK's checkpoint state: a few named numbers.

use super::call::{Output, guard, input, inputs};
use super::error::cntk_reader_error;
use super::reader::cntk_reader;
use super::status::cntk_reader_status;
use super::text;
use crate::reader::POSITION_KEY;
use crate::{Error, Result};
use std::ffi::{CStr, c_char};

/// One entry of a reader's state.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_state_entry {
    /// Name of the entry, UTF-8. From the library: NUL-terminated and valid for ever.
    pub key: *const c_char,
    /// Bytes of the name without a NUL. To the library: may be CNTK_READER_NUL_TERMINATED.
    pub key_length: usize,
    /// Its value.
    pub value: u64,
}

const POSITION: &CStr = c"minibatchSourcePosition";

impl cntk_reader_state_entry {
    fn new(key: &str, value: u64) -> Result<Self> {
        if key != POSITION_KEY {
            return Err(Error::internal(format!("The state has an entry '{key}' that has no name in C.")));
        }
        Ok(cntk_reader_state_entry { key: POSITION.as_ptr(), key_length: POSITION.count_bytes(), value })
    }
}

/// Gives CNTK's checkpoint state, that of the minibatch read last: as many entries as there are, but at most
/// `capacity` (today there is one, "minibatchSourcePosition", in samples), and their number, which may be greater than
/// `capacity`. `entries` may be NULL if `capacity` is 0. It continues exactly in most modes; only
/// cntk_reader_save_checkpoint does so in all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_get_state(
    reader: *const cntk_reader,
    entries: *mut cntk_reader_state_entry,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (reader, count) = (input(reader, "reader")?, Output::new(count, "count")?);
            let state = reader.with(|reader| Ok(reader.state()))?;
            for (i, &(key, value)) in state.iter().enumerate().take(capacity) {
                Output::new(entries, "entries")?;
                entries.add(i).write(cntk_reader_state_entry::new(key, value)?);
            }
            count.set(state.len());
            Ok(())
        })
    }
}

/// Restores CNTK's checkpoint state, also one that CNTK itself has saved. An epoch must have been started before.
/// Entries that are not known are ignored; without "minibatchSourcePosition" it is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_set_state(
    reader: *mut cntk_reader,
    entries: *const cntk_reader_state_entry,
    count: usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let state = inputs(entries, count, "entries")?
                .iter()
                .map(|entry| Ok((text::utf8(entry.key, entry.key_length, "key")?, entry.value)))
                .collect::<Result<Vec<_>>>()?;
            input(reader, "reader")?.with(|reader| reader.set_state(&state))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_positions_name_is_cntks() {
        assert_eq!(POSITION.to_str(), Ok(POSITION_KEY));
        assert!(cntk_reader_state_entry::new("other", 1).is_err());
    }
}
