//! The position of a reader on either kind of timeline, and its representation in CNTK's state.

use crate::randomize::Position;
use crate::randomize::local::LocalPosition;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// CNTK's name for the only entry in the state of a reader whose sequences are known in advance.
pub const POSITION_KEY: &str = "minibatchSourcePosition";

/// CNTK's names for entries in the state of a reader whose chunks list their sequences only when
/// loaded. Two more give the start of the current window: `currentChunkPosition` and
/// `currentSequencePosition` without randomization, `chunkPosition` and `sweepIndex` with it.
pub const LOCAL_KEYS: [&str; 3] =
    ["baseSweepCount", "baseSampleCount", "baseCurrentSequencePositionInWindow"];

/// CNTK's checkpoint state.
pub type CntkState = Vec<(&'static str, u64)>;

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
    /// Returns CNTK's state. `window` gives the names for the two numbers of a window.
    pub(super) fn state(&self, window: [&'static str; 2]) -> CntkState {
        match self {
            ReaderPosition::Global(position) => vec![(POSITION_KEY, position.samples)],
            ReaderPosition::Local(position) => window
                .into_iter()
                .zip(position.window)
                .chain(LOCAL_KEYS.into_iter().zip([position.sweeps, position.samples, position.entries]))
                .collect(),
        }
    }

    /// Returns the number of samples before the position: of all workers on a global timeline, of
    /// this worker on a local one.
    pub(super) fn samples(&self) -> u64 {
        match self {
            ReaderPosition::Global(position) => position.samples,
            ReaderPosition::Local(position) => position.samples,
        }
    }

    /// Returns the numbers stored in a checkpoint: the kind, then a fixed number of fields.
    pub(super) fn numbers(&self) -> [u64; 6] {
        match *self {
            ReaderPosition::Global(Position { samples, counter }) => [0, samples, counter, 0, 0, 0],
            ReaderPosition::Local(LocalPosition { window: [first, second], sweeps, samples, entries }) => {
                [1, first, second, sweeps, samples, entries]
            }
        }
    }

    /// Decodes the result of [`ReaderPosition::numbers`].
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

const EXPECTED: &str = "Expected the names and numbers in the state of a reader with these options.";

/// Describes a state that lacks a name: it may be of the other kind of timeline, or no state at
/// all.
fn lacking(state: &[(&str, u64)], key: &str) -> String {
    let is_local = LOCAL_KEYS.iter().any(|local| find(state, local).is_some());
    let is_global = find(state, POSITION_KEY).is_some();
    match (is_local, is_global, state) {
        (true, ..) if key == POSITION_KEY => {
            "The state is of a reader whose chunks list their sequences only when they are loaded, but this reader \
             knows its sequences in advance."
                .to_owned()
        }
        (false, true, _) => "The state is of a reader that knows its sequences in advance, but the chunks of this \
                             reader list their sequences only when they are loaded."
            .to_owned(),
        (.., []) => "The state is empty.".to_owned(),
        _ => {
            let names: Vec<String> = state.iter().take(5).map(|(name, _)| format!("'{}'", quoted(name.as_bytes()))).collect();
            format!("The state has no '{key}', but only {}.", names.join(", "))
        }
    }
}

/// Returns the position in samples in CNTK's state.
pub(super) fn samples_of(state: &[(&str, u64)]) -> Result<u64> {
    find(state, POSITION_KEY).ok_or_else(|| {
        // CNTK 2.7's words.
        let message = format!("Checkpoint misses required field {POSITION_KEY}");
        Error::checkpoint(ExceptionClass::InvalidArgument, message)
            .as_cntk()
            .with_detail(lacking(state, POSITION_KEY))
            .with_detail(EXPECTED)
    })
}

/// Returns the position on a local timeline in CNTK's state.
pub(super) fn local_position_of(state: &[(&str, u64)], window: [&str; 2]) -> Result<LocalPosition> {
    let get = |key: &str| {
        find(state, key).ok_or_else(|| {
            // CNTK 2.7's words.
            let message = format!("The required key '{key}' was not found in the checkpoint");
            Error::checkpoint(ExceptionClass::Runtime, message)
                .as_cntk()
                .with_detail(lacking(state, key))
                .with_detail(EXPECTED)
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
    fn position_on_a_global_timeline_is_one_number() {
        let position = ReaderPosition::Global(Position { samples: 7, counter: 8 });
        let state = position.state([""; 2]);
        assert_eq!(state, [("minibatchSourcePosition", 7)]);
        assert_eq!((position.samples(), samples_of(&state).expect("a position")), (7, 7));
        assert_eq!(position.numbers(), [0, 7, 8, 0, 0, 0]);
        for damaged in [[0, 7, 8, 1, 0, 0], [0, 7, 8, 0, 0, 1]] {
            assert_eq!(ReaderPosition::from_numbers(damaged), None);
        }
        let error = samples_of(&[("other", 7)]).expect_err("no position");
        assert_eq!(error.message(), "Checkpoint misses required field minibatchSourcePosition");
    }

    #[test]
    fn positions_round_trip() {
        let local = LocalPosition { window: [1, 2], sweeps: 3, samples: 4, entries: 5 };
        for position in
            [ReaderPosition::Global(Position { samples: 7, counter: 8 }), ReaderPosition::Local(local)]
        {
            assert_eq!(ReaderPosition::from_numbers(position.numbers()), Some(position));
        }
        assert_eq!(ReaderPosition::from_numbers([2, 0, 0, 0, 0, 0]), None);
        assert_eq!(ReaderPosition::Local(local).samples(), 4);
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
