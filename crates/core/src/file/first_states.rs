//! Change detection for files that are opened anew for each use.

use super::{DataFile, FileState, changed};
use crate::Result;
use crate::fingerprint::{SEED, mix};
use crate::memory::room;
use std::sync::atomic::{AtomicU32, Ordering};

/// The state of each file when it was first opened: a 32-bit hash, or 0 if it was not opened yet.
/// There may be millions of files, so each takes four bytes, and one in four billion changes goes
/// unnoticed.
///
/// Threads: may be used by several at once.
#[derive(Debug, Default)]
pub struct FirstStates(Vec<AtomicU32>);

impl FirstStates {
    /// Creates the states of `count` files, none of which was opened yet.
    pub fn new(count: usize) -> Result<FirstStates> {
        Ok(FirstStates(room::collect((0..count).map(|_| AtomicU32::new(0)), room::INDEX)?))
    }

    /// Returns whether this is the state that was passed in the first call for this file.
    pub fn are_same(&self, number: usize, state: &FileState) -> bool {
        let (seconds, nanoseconds) = state.modified;
        let hash = mix(SEED, state.size, state.inode);
        let hash = mix(hash, seconds.cast_unsigned(), nanoseconds.cast_unsigned());
        let hash = ((hash >> 32) as u32).max(1);
        // Relaxed: no other memory is published through this value.
        match self.0[number].compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(first) => first == hash,
        }
    }

    /// Refuses a just opened file if its state differs from the state in which it was first opened.
    pub fn check(&self, number: usize, file: &DataFile) -> Result<()> {
        let state = file.first_state()?;
        match self.are_same(number, &state) {
            true => Ok(()),
            false => Err(changed(file.path(), None, state.size)),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_state_is_kept() {
        let states = FirstStates::new(2).expect("memory");
        let first = FileState { size: 7, modified: (1_700_000_000, 5), inode: 3 };
        for number in [0, 1] {
            for _ in 0..2 {
                assert!(states.are_same(number, &first));
            }
            let others = [
                FileState { size: 8, ..first },
                FileState { modified: (1_600_000_000, 5), ..first },
                FileState { modified: (1_700_000_000, 6), ..first },
                FileState { inode: 4, ..first },
            ];
            assert!(others.iter().all(|other| !states.are_same(number, other)));
            assert!(states.are_same(number, &first));
        }
        assert_eq!(states.bytes(), 8);
    }
}
