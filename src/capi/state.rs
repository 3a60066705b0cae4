//! CNTK's checkpoint state: a few named numbers.

use super::call::{Output, guard, input, inputs};
use super::error::cntk_reader_error;
use super::reader::cntk_reader;
use super::status::cntk_reader_status;
use super::text;
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

/// The names of all entries that there can be.
const KEYS: [&CStr; 8] = [
    c"minibatchSourcePosition",
    c"baseSweepCount",
    c"baseSampleCount",
    c"baseCurrentSequencePositionInWindow",
    c"chunkPosition",
    c"sweepIndex",
    c"currentChunkPosition",
    c"currentSequencePosition",
];

impl cntk_reader_state_entry {
    fn new(key: &str, value: u64) -> Result<Self> {
        let Some(key) = KEYS.iter().find(|known| known.to_bytes() == key.as_bytes()) else {
            return Err(Error::internal(format!("The state has an entry '{key}' that has no name in C.")));
        };
        Ok(cntk_reader_state_entry { key: key.as_ptr(), key_length: key.count_bytes(), value })
    }
}

/// Gives CNTK's checkpoint state, that of the minibatch read last: as many entries as there are, but at most
/// `capacity` (one, "minibatchSourcePosition", in samples; five for users' deserializers that are not composable), and
/// their number, which may be greater than `capacity`. `entries` may be NULL if `capacity` is 0. It continues exactly in most modes; only
/// cntk_reader_checkpoint_save does so in all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_state_get(
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
/// Entries that are not known are ignored; a missing one is an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_state_set(
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
    fn every_entry_has_a_name_in_c() {
        use crate::config::options::{Order, WindowSize};
        use crate::randomize::local::LocalTimeline;
        use crate::reader::{LOCAL_KEYS, POSITION_KEY};
        let randomized = Order::Block { window: WindowSize::Chunks(1), seed: 0 };
        let windows = [Order::InOrder, randomized].map(|order| LocalTimeline::new(1, order).keys());
        let keys = LOCAL_KEYS.iter().chain([&POSITION_KEY]).chain(windows.as_flattened());
        for key in keys {
            let entry = cntk_reader_state_entry::new(key, 1).expect("a name");
            assert_eq!(entry.key_length, key.len());
        }
        assert!(cntk_reader_state_entry::new("other", 1).is_err());
    }
}
