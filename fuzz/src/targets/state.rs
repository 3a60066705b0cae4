//! CNTK's state: named numbers are refused, or the reader continues somewhere; the reader accepts
//! its own, and then reports them again.

use crate::case::Case;
use crate::common::reading::{check_errors, read_on};
use crate::common::scenario::{Scenario, open};
use crate::common::seen::read;
use cntk_reader_engine::reader::{LOCAL_KEYS, POSITION_KEY};

/// Names of numbers, some of which are in a state.
const NAMES: [&str; 9] = [
    POSITION_KEY,
    LOCAL_KEYS[0],
    LOCAL_KEYS[1],
    LOCAL_KEYS[2],
    "currentChunkPosition",
    "currentSequencePosition",
    "chunkPosition",
    "sweepIndex",
    "",
];

/// The input: choices of a run and where it stops, and names and numbers of nine bytes each.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let scenario = Scenario::random(case.choices.below(0x1000) as u64);
    let config = scenario.write(case.folder());
    let mut reader = scenario.started(&config);
    for _ in 0..case.choices.below(4) {
        read(&mut reader).expect("a minibatch");
    }
    let own = reader.state();
    let mut fresh = open(&config);
    fresh.start_epoch(&scenario.epoch).expect("an epoch");
    if fresh.set_state(&own).is_ok() {
        assert_eq!(fresh.state(), own, "the state that was set");
    }
    let mut state = own;
    for entry in case.content.chunks(9).take(8) {
        let (name, value) = entry.split_at(1);
        let name = NAMES[usize::from(name[0]) % NAMES.len()];
        let value = value.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
        match state.iter_mut().find(|(other, _)| *other == name) {
            Some((_, number)) => *number = value,
            None => state.push((name, value)),
        }
    }
    match fresh.set_state(&state) {
        Ok(()) => {
            let errors: Vec<_> = read_on(&mut fresh).into_iter().filter_map(Result::err).collect();
            check_errors(&errors, &state);
        }
        Err(error) => check_errors(&[error], &state),
    }
    // The reader can be used whether or not it refused the state.
    fresh.start_epoch(&scenario.epoch).expect("an epoch");
    read(&mut fresh).expect("a minibatch");
}
