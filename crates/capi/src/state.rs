//! CNTK's checkpoint state: a few named numbers.

use super::call::{call, given, inputs, outputs};
use super::error::cntk_reader_error;
use super::handle::object;
use super::reader::cntk_reader;
use super::status::cntk_reader_status;
use super::text;
use cntk_reader_core::{Error, Result};
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

/// One entry of a reader's state.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_state_entry {
    /// Name of the entry, UTF-8. As an output it is NUL-terminated and valid as long as the library
    /// is loaded.
    pub key: *const c_char,
    /// Bytes of the name without the NUL. As an input it may be CNTK_READER_NUL_TERMINATED.
    pub key_length: usize,
    /// Value of the entry.
    pub value: u64,
}

/// The names of all possible entries.
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
            return Err(Error::internal(format!("The state has an entry '{key}' without a name in C.")));
        };
        Ok(cntk_reader_state_entry { key: key.as_ptr(), key_length: key.count_bytes(), value })
    }
}

/// Gets CNTK's checkpoint state after the most recently read minibatch. Writes the first `capacity`
/// entries, and their total number, which may exceed `capacity`, to `count`. `entries` may be NULL
/// if `capacity` is 0. There is one entry, "minibatchSourcePosition" (in samples), or five if
/// chunks list their sequences when they are loaded, as in some user-defined deserializers. The
/// state continues exactly in most modes; cntk_reader_checkpoint_save does so in all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_state_get(
    reader: Option<&cntk_reader>,
    entries: *mut cntk_reader_state_entry,
    capacity: usize,
    count: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (reader, count) = (object!(reader)?, given(count, "count")?);
        // SAFETY: `entries` is NULL, which `outputs` refuses unless `capacity` is 0, or has room
        // for `capacity` entries, as documented above.
        let places = unsafe { outputs(entries, capacity, "entries") }?;
        let state = reader.with(|reader| Ok(reader.state()))?;
        for (place, &(key, value)) in places.iter_mut().zip(state.iter()) {
            place.write(cntk_reader_state_entry::new(key, value)?);
        }
        count.write(state.len());
        Ok(())
    })
}

/// Restores CNTK's checkpoint state, which CNTK itself may have saved. Call it after
/// cntk_reader_epoch_start, which would drop the position of an earlier call, as in CNTK. Unknown
/// entries are ignored; a missing one is an error. The state does not record the number of workers:
/// with `localTimeline = true`, another number of workers loses and repeats sequences, as in CNTK
/// 2.7. cntk_reader_checkpoint_restore checks the number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_state_set(
    reader: *mut cntk_reader,
    entries: *const cntk_reader_state_entry,
    count: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `entries` is NULL, which `inputs` refuses unless `count` is 0, or has that many
        // elements.
        let entries = unsafe { inputs(entries, count, "entries") }?;
        // SAFETY: each element's name is a string of the caller's, as documented in the struct.
        let key = |entry: &cntk_reader_state_entry| unsafe { text::utf8(entry.key, entry.key_length, "key") };
        let state = entries.iter().map(|entry| Ok((key(entry)?, entry.value))).collect::<Result<Vec<_>>>()?;
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        object!(reader)?.with(|reader| reader.set_state(&state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_entry_has_a_c_name() {
        use cntk_reader_engine::randomize::local::LocalTimeline;
        use cntk_reader_engine::randomize::{Order, WindowSize};
        use cntk_reader_engine::reader::{LOCAL_KEYS, POSITION_KEY};
        let randomized = Order::Block { window: WindowSize::Chunks(1), seed: 0 };
        let windows =
            [Order::InOrder, randomized].map(|order| LocalTimeline::new(1, order).expect("memory").keys());
        let keys = LOCAL_KEYS.iter().chain([&POSITION_KEY]).chain(windows.as_flattened());
        for key in keys {
            let entry = cntk_reader_state_entry::new(key, 1).expect("a name");
            assert_eq!(entry.key_length, key.len());
        }
        assert!(cntk_reader_state_entry::new("other", 1).is_err());
    }
}
