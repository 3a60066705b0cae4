//! Checkpoints: a damaged one is refused, or the reader continues somewhere; an intact one
//! continues exactly.

use super::cache::change;
use crate::case::Case;
use crate::common::reading::{check_errors, read_on};
use crate::common::scenario::{LIMIT, Scenario, open};
use crate::common::seen::{read, read_all};
use cntk_reader::ErrorKind;

/// The input: choices of a run and where it stops, and mutations of the checkpoint.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let seed = case.choices.below(0x1000) as u64;
    let scenario = Scenario::random(seed);
    let config = scenario.write(case.folder());
    let mut reader = scenario.started(&config);
    for _ in 0..case.choices.below(4) {
        read(&mut reader).expect("a minibatch");
    }
    let bytes = reader.checkpoint().expect("a checkpoint");
    // A damaged minibatch or epoch size may be a valid size that asks for endless minibatches. So
    // either everything is damaged, and the sizes are set again before reading, or only the part
    // after the sizes is damaged, and the queues are kept.
    let anywhere = case.choices.once_in(2);
    let mut damaged = bytes.clone();
    let mut part = damaged.split_off(if anywhere { 0 } else { progress(&bytes) });
    change(&mut part, case.content);
    damaged.extend(part);
    // With a matching checksum, the damage reaches the later checks.
    if !case.choices.once_in(8) && damaged.len() > 4 {
        damaged.truncate(damaged.len() - 4);
        damaged.extend(crc32fast::hash(&damaged).to_le_bytes());
    }

    let mut fresh = open(&config);
    let restored = fresh.restore(&damaged).and_then(|()| {
        let read = scenario.epoch.numbers().0.truncation_length(3);
        if anywhere { fresh.configure(&read) } else { Ok(()) }
    });
    match restored {
        Ok(()) => {
            let errors: Vec<_> = read_on(&mut fresh).into_iter().filter_map(Result::err).collect();
            check_errors(&errors, &damaged);
        }
        Err(error) => {
            let kinds = [ErrorKind::Checkpoint, ErrorKind::InvalidArgument, ErrorKind::Memory];
            assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
        }
    }
    // The reader can be used whether or not it refused the damaged checkpoint.
    fresh.restore(&bytes).expect("the whole checkpoint");
    let rest = read_all(&mut fresh, LIMIT).expect("the rest of the run");
    assert_eq!(rest, read_all(&mut reader, LIMIT).expect("the rest of the run"));
}

/// Returns the offset of the progress in a checkpoint: after magic, version, pairs of texts, and
/// the numbers of epoch and configuration.
fn progress(bytes: &[u8]) -> usize {
    let number = |at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
    let texts = 2 * number(12);
    (0..texts).fold(20, |at, _| at + 8 + number(at)) + 15 * 8
}
