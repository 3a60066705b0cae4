//! Compares workers in lockstep with a single worker that reads the same minibatches.

use super::block::BlockRandomizer;
use super::in_order::InOrder;
use super::random::Random;
use super::reference::{Lists, random_sizes};
use super::{Selection, Timeline, WorkerConfig};
use crate::randomize::{Pace, WindowSize};
use cntk_reader_core::sequence::SequenceId;
use std::sync::Arc;

type Make = fn(Arc<Lists>, WindowSize, u64) -> Box<dyn Timeline>;

const KINDS: [Make; 2] = [
    |table, window, seed| Box::new(BlockRandomizer::new(table, window, seed).at_pace(Pace::Lockstep)),
    |table, _, _| Box::new(InOrder::new(table).at_pace(Pace::Lockstep)),
];

fn all_workers(workers: u64, cross_sweeps: bool) -> Vec<WorkerConfig> {
    (0..workers).map(|rank| WorkerConfig { workers, rank, cross_sweeps }).collect()
}

/// Returns each sequence with its sweep, because in another sweep it may belong to another worker.
fn in_sweeps(selection: &Selection) -> Vec<(u64, SequenceId)> {
    selection.sequences.iter().enumerate().map(|(at, &id)| (selection.sweep_of(at), id)).collect()
}

#[test]
fn shares_add_up_to_a_single_workers_minibatches() {
    let mut random = Random::new(5);
    let (mut whole, mut share) = (Selection::default(), Selection::default());
    let (mut empty_shares, mut steps) = (0, 0);
    for scenario in 0..3000 {
        let table = Lists::random(&mut random, 8, u64::from(scenario % 3 > 0));
        let make = KINDS[scenario % 2];
        let window = match random.range(0, 2) {
            0 => WindowSize::Chunks(random.range(1, 5)),
            _ => WindowSize::Samples(random.range(1, 30)),
        };
        let seed = random.range(0, 10);
        let new = || make(table.clone(), window, seed);
        let alone = WorkerConfig { workers: 1, rank: 0, cross_sweeps: random.range(0, 2) > 0 };
        let epoch = random_sizes(&mut random, alone, table.samples());
        // Up to twice the number of chunks.
        let mut workers = all_workers(random.range(1, 16), alone.cross_sweeps);
        let mut single = new();
        single.start_epoch(&epoch).expect("a good epoch");
        let mut shared: Vec<_> = workers.iter().map(|_| new()).collect();
        for (timeline, &workers) in shared.iter_mut().zip(&workers) {
            timeline.start_epoch(&super::EpochConfig { workers, ..epoch }).expect("a good epoch");
        }
        for step in 0..random.range(2, 30) {
            let what = format!(
                "scenario {scenario}, step {step}: {:?}, {window:?}, seed {seed}, {epoch:?}",
                table.lengths
            );
            // A position between empty sequences does not tell how many of them were taken.
            let is_exact = table.lengths.iter().flatten().all(|&length| length > 0);
            match random.range(0, 16) {
                0 if is_exact => {
                    workers = all_workers(random.range(1, 16), alone.cross_sweeps);
                    let position = single.position();
                    shared = workers.iter().map(|_| new()).collect();
                    for (timeline, &workers) in shared.iter_mut().zip(&workers) {
                        timeline.start_epoch(&super::EpochConfig { workers, ..epoch }).expect("a good epoch");
                        timeline.resume(position).expect("a position of the same data");
                    }
                }
                1 if is_exact => {
                    let target = random.range(0, 4 * table.samples());
                    single.seek(target).expect("a position");
                    shared.iter_mut().for_each(|timeline| timeline.seek(target).expect("a position"));
                }
                _ => {
                    let size =
                        if random.range(0, 8) == 0 { random.range(1, 200) } else { random.range(1, 20) };
                    single.next(size, size, &mut whole).expect("no error");
                    let mut left = in_sweeps(&whole);
                    for timeline in &mut shared {
                        timeline.next(size, size, &mut share).expect("no error");
                        assert_eq!(
                            (share.end_of_sweep, share.end_of_epoch),
                            (whole.end_of_sweep, whole.end_of_epoch),
                            "{what}"
                        );
                        steps += 1;
                        empty_shares +=
                            usize::from(share.sequences.is_empty() && !whole.sequences.is_empty());
                        let mut wanted = in_sweeps(&share).into_iter().peekable();
                        left.retain(|one| wanted.next_if_eq(one).is_none());
                        assert_eq!(wanted.next(), None, "{what}: not an ordered subset of the whole");
                    }
                    assert_eq!(left, [], "{what}: not in any share");
                }
            }
            for (timeline, workers) in shared.iter().zip(&workers) {
                assert_eq!(timeline.position(), single.position(), "{what} {workers:?}");
            }
        }
    }
    assert!(empty_shares > steps / 10, "{empty_shares} of {steps} shares were empty");
}
