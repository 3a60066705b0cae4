//! Where a reader stands, on a timeline of either kind, and the named numbers that CNTK makes of it.

use crate::randomize::Position;
use crate::randomize::local::LocalPosition;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::{Error, Result};

/// CNTK's name of the one entry in the state of a reader whose sequences are known beforehand.
pub const POSITION_KEY: &str = "minibatchSourcePosition";

/// CNTK's names of entries in the state of a reader whose chunks list their sequences when they are loaded. Two more
/// say where the current window begins: `currentChunkPosition` and `currentSequencePosition` without randomization,
/// `chunkPosition` and `sweepIndex` with it.
pub const LOCAL_KEYS: [&str; 3] =
    ["baseSweepCount", "baseSampleCount", "baseCurrentSequencePositionInWindow"];

/// CNTK's checkpoint state.
pub type State = Vec<(&'static str, u64)>;

/// A position on either kind of timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReaderPosition {
    Global(Position),
    Local(LocalPosition),
}

impl Default for ReaderPosition {
    fn default() -> Self {
        ReaderPosition::Global(Position::default())
    }
}

impl ReaderPosition {
    /// CNTK's state; `window` names the two numbers of a window.
    pub(super) fn state(&self, window: [&'static str; 2]) -> State {
        match self {
            ReaderPosition::Global(position) => vec![(POSITION_KEY, position.samples)],
            ReaderPosition::Local(position) => window
                .into_iter()
                .zip(position.window)
                .chain(LOCAL_KEYS.into_iter().zip([position.sweeps, position.samples, position.entries]))
                .collect(),
        }
    }

    /// Samples before it: of all workers on a global timeline, of this one on a local timeline.
    pub(super) fn samples(&self) -> u64 {
        match self {
            ReaderPosition::Global(position) => position.samples,
            ReaderPosition::Local(position) => position.samples,
        }
    }

    /// The numbers that a checkpoint has: first which kind, then always as many.
    pub(super) fn numbers(&self) -> [u64; 6] {
        match *self {
            ReaderPosition::Global(Position { samples, counter }) => [0, samples, counter, 0, 0, 0],
            ReaderPosition::Local(LocalPosition { window: [first, second], sweeps, samples, entries }) => {
                [1, first, second, sweeps, samples, entries]
            }
        }
    }

    /// What [`ReaderPosition::numbers`] gave.
    pub(super) fn from_numbers(numbers: [u64; 6]) -> Option<ReaderPosition> {
        match numbers {
            [0, samples, counter, 0, 0, 0] => Some(ReaderPosition::Global(Position { samples, counter })),
            [1, first, second, sweeps, samples, entries] => Some(ReaderPosition::Local(LocalPosition {
                window: [first, second],
                sweeps,
                samples,
                entries,
            })),
            _ => None,
        }
    }
}

const EXPECTED: &str =
    "Expected are the names and numbers that the state of a reader with these options has.";

/// The position in samples in CNTK's state.
pub(super) fn samples_of(state: &[(&str, u64)]) -> Result<u64> {
    find(state, POSITION_KEY).ok_or_else(|| {
        // CNTK 2.7's words.
        let message = format!("Checkpoint misses required field {POSITION_KEY}");
        Error::checkpoint(ExceptionClass::InvalidArgument, message).with_detail(EXPECTED)
    })
}

/// The position on a local timeline in CNTK's state.
pub(super) fn local_position_of(state: &[(&str, u64)], window: [&str; 2]) -> Result<LocalPosition> {
    let get = |key: &str| {
        find(state, key).ok_or_else(|| {
            // CNTK 2.7's words.
            let message = format!("The required key '{key}' was not found in the checkpoint");
            Error::checkpoint(ExceptionClass::Runtime, message).with_detail(EXPECTED)
        })
    };
    let [sweeps, samples, entries] = LOCAL_KEYS;
    Ok(LocalPosition {
        sweeps: get(sweeps)?,
        samples: get(samples)?,
        entries: get(entries)?,
        window: [get(window[0])?, get(window[1])?],
    })
}

fn find(state: &[(&str, u64)], key: &str) -> Option<u64> {
    state.iter().find(|(other, _)| *other == key).map(|&(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_and_read_back() {
        let local = LocalPosition { window: [1, 2], sweeps: 3, samples: 4, entries: 5 };
        for position in
            [ReaderPosition::Global(Position { samples: 7, counter: 8 }), ReaderPosition::Local(local)]
        {
            assert_eq!(ReaderPosition::from_numbers(position.numbers()), Some(position));
        }
        assert_eq!(ReaderPosition::from_numbers([2, 0, 0, 0, 0, 0]), None);
        let keys = ["chunkPosition", "sweepIndex"];
        let state = ReaderPosition::Local(local).state(keys);
        assert_eq!(local_position_of(&state, keys).expect("all keys"), local);
        for (missing, _) in &state {
            let rest: Vec<_> = state.iter().copied().filter(|(key, _)| key != missing).collect();
            let error = local_position_of(&rest, keys).expect_err("a key is missing");
            assert_eq!(
                error.message(),
                format!("The required key '{missing}' was not found in the checkpoint")
            );
        }
    }
}
