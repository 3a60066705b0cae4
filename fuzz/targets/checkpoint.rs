//! Damaged checkpoints.

use crate::case::Case;
use crate::common::reading::{check_errors, read_on};
use crate::common::scenario::{LIMIT, Scenario, open};
use crate::common::seen::{read, read_all};
use crate::mutate::mutate_words;
use cntk_reader::ErrorKind;

pub fn run(case: &mut Case<'_>) {
    let scenario = Scenario::random(case.rng.bits());
    let config = scenario.write(case.folder);
    case.write("config.cntk", config.as_bytes());
    let mut reader = scenario.started(&config);
    for _ in 0..case.rng.below(4) {
        read(&mut reader).expect("a minibatch");
    }
    let bytes = reader.checkpoint().expect("a checkpoint");
    let mut damaged = bytes.clone();
    mutate_words(&mut case.rng, &mut damaged);
    // A checksum that fits lets the damage through to what is behind it.
    if !case.rng.once_in(8) && damaged.len() > 4 {
        damaged.truncate(damaged.len() - 4);
        damaged.extend(crc32fast::hash(&damaged).to_le_bytes());
    }
    case.write("damaged.checkpoint", &damaged);

    let mut fresh = open(&config);
    match fresh.restore(&damaged) {
        Ok(()) => {
            let errors: Vec<_> = read_on(&mut fresh).into_iter().filter_map(Result::err).collect();
            check_errors(&errors, &damaged);
        }
        Err(error) => {
            let kinds = [ErrorKind::Checkpoint, ErrorKind::InvalidArgument];
            assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
        }
    }
    // Whatever became of it, the reader can be used.
    fresh.restore(&bytes).expect("the whole checkpoint");
    let rest = read_all(&mut fresh, LIMIT).expect("the rest of the run");
    assert_eq!(rest, read_all(&mut reader, LIMIT).expect("the rest of the run"));
}
