//! Compares local timelines with their reference implementation in random scenarios.

use super::reference::ReferenceTimeline;
use super::tests::{Lists, chunks, samples, started, sweeps, workers};
use super::*;
use crate::randomize::SWEEPS_UNLIMITED;
use crate::randomize::random::Random;

/// Reads and resumes, in the same timeline and in new ones, over all kinds of data, alongside the
/// reference.
#[test]
fn random_scenarios_agree_with_the_reference() {
    let mut random = Random::new(2024);
    for scenario in 0..3000 {
        let count = random.range(1, 7);
        let longest = if random.range(0, 2) == 0 { 1 } else { 4 };
        let mut data: Vec<Vec<u32>> = (0..count)
            .map(|_| (0..random.range(0, 6)).map(|_| random.range(1, longest + 1) as u32).collect())
            .collect();
        if data.iter().all(Vec::is_empty) {
            data[0].push(1);
        }
        let seed = if random.range(0, 3) == 0 { u64::MAX } else { random.range(0, 9) };
        let order = match random.range(0, 3) {
            0 => Order::InOrder,
            1 => chunks(random.range(1, 12), seed),
            _ => samples(random.range(1, 30), seed),
        };
        let count = random.range(1, 4);
        let share = workers(count, random.range(0, count));
        let total = data.iter().map(Vec::len).sum::<usize>() as u64;
        // Skip scenarios in which the reference would never end.
        let barren = match order {
            Order::InOrder => share.rank >= total,
            Order::Block { .. } => {
                share.rank >= data.len() as u64 || data.iter().any(Vec::is_empty) && count > 1
            }
        };
        if barren {
            continue;
        }
        let mut reference = ReferenceTimeline::new(&data, order, share.workers, share.rank);
        let epoch = if random.range(0, 2) == 0 {
            reference.max_sweeps = random.range(1, 6);
            sweeps(reference.max_sweeps, share)
        } else {
            let size = random.range(1, 60);
            reference.max_samples = size / share.workers + u64::from(size % share.workers > share.rank);
            EpochConfig { workers: share, samples: size, sweeps: SWEEPS_UNLIMITED, index: 0 }
        };
        reference.start();
        let mut lists = Lists::new(&data);
        let mut timeline = started(&data, order, epoch);
        let mut selection = Selection::default();
        let mut seen = vec![timeline.position()];
        for step in 0..40 {
            let what = format!("scenario {scenario} step {step}: {order:?} {share:?} {epoch:?} {data:?}");
            match random.range(0, 8) {
                0 => {
                    let back = seen[random.range(0, seen.len() as u64) as usize];
                    timeline.resume(back).expect("a position");
                    reference.resume(back);
                }
                1 => {
                    let position = timeline.position();
                    timeline = started(&data, order, epoch);
                    timeline.resume(position).expect("a position");
                    lists = Lists::new(&data);
                }
                _ => {
                    let local = random.range(1, 9);
                    timeline.next(local, &mut lists, &mut selection).expect("a minibatch");
                    let expected = reference.next(local);
                    assert_eq!(selection.sequences, expected.sequences, "{what}");
                    assert_eq!(selection.end_of_sweep, expected.end_of_sweep, "{what}");
                    assert_eq!(selection.end_of_epoch, expected.end_of_epoch, "{what}");
                    selection.sequences.iter().for_each(|&id| assert!(lists.number(id) < 100));
                    seen.push(timeline.position());
                }
            }
            // When a window has nothing for the worker, the reference refills at once, the timeline
            // on the next read.
            if !data.iter().any(Vec::is_empty) && order != Order::InOrder
                || share.workers == 1 && !data.iter().any(Vec::is_empty)
            {
                assert_eq!(timeline.position(), reference.position(), "{what}");
            }
        }
    }
}
