//! Compares the block randomizer with its reference implementation in random scenarios.

use super::*;
use crate::randomize::random::Random;
use crate::randomize::reference::{Lists, ReferenceBlock, random_sizes};
use WindowSize::{Chunks, Samples};

pub(super) fn random_window(random: &mut Random, table: &Lists) -> WindowSize {
    match random.range(0, 5) {
        0 => Chunks(random.range(0, 3)),
        1 => Chunks(random.range(1, 12)),
        2 => Chunks(u64::MAX >> random.range(0, 40)),
        3 => Samples(random.range(0, 20)),
        _ => Samples(random.range(0, table.samples() * 3)),
    }
}

fn random_workers(random: &mut Random) -> WorkerConfig {
    let workers = match random.range(0, 6) {
        0..3 => 1,
        // Some workers have no chunks.
        3 => random.range(6, 20),
        _ => random.range(1, 6),
    };
    WorkerConfig { workers, rank: random.range(0, workers), cross_sweeps: random.range(0, 3) > 0 }
}

fn random_epoch(random: &mut Random, sweep: u64) -> EpochConfig {
    let workers = random_workers(random);
    random_sizes(random, workers, sweep)
}

#[test]
fn fast_and_reference_agree() {
    let mut random = Random::new(2024);
    let (mut selection, mut window) = (Selection::default(), Window::default());
    for scenario in 0..3000 {
        let chunks = if scenario % 10 == 0 { 40 } else { 8 };
        let table = Lists::random(&mut random, chunks, u64::from(scenario % 3 > 0));
        let size = random_window(&mut random, &table);
        let seed = random.range(0, 10) >> random.range(0, 2) << (random.range(0, 2) * 40);
        let pace = if scenario % 4 == 0 { Pace::Beta } else { Pace::Own };
        let mut fast = BlockRandomizer::new(table.clone(), size, seed).at_pace(pace);
        let mut reference = ReferenceBlock::new(table.clone(), size, seed).with_beta(pace == Pace::Beta);
        let epoch = random_epoch(&mut random, table.samples());
        fast.start_epoch(&epoch).expect("a good epoch");
        reference.start_epoch(&epoch);
        let mut workers = epoch.workers;
        let mut stamp = u64::MAX;
        for step in 0..random.range(5, 40) {
            let what = format!(
                "scenario {scenario}, step {step}: {:?}, {size:?}, seed {seed}, {epoch:?}",
                table.lengths
            );
            // A position between empty sequences does not tell how many of them were taken.
            let is_exact = table.lengths.iter().flatten().all(|&length| length > 0);
            match random.range(0, 24) {
                0 => {
                    let epoch = random_epoch(&mut random, table.samples());
                    fast.start_epoch(&epoch).expect("a good epoch");
                    reference.start_epoch(&epoch);
                    workers = epoch.workers;
                }
                1 => {
                    workers = random_workers(&mut random);
                    fast.configure(&workers).expect("good workers");
                    reference.configure(&workers);
                }
                2 if is_exact => {
                    let target = random.range(0, 4 * table.samples());
                    fast.seek(target).expect("a position");
                    reference.seek(target);
                }
                // A worker without chunks may be at the end of the integer range.
                3 if is_exact && fast.position().samples < SIZE_UNLIMITED => {
                    // A little back, as after discarding a minibatch.
                    let target = fast.position().samples.saturating_sub(random.range(0, 9));
                    fast.seek(target).expect("a position");
                    reference.seek(target);
                }
                _ => {
                    let local =
                        if random.range(0, 10) == 0 { random.range(1, 200) } else { random.range(1, 20) };
                    let global = if random.range(0, 2) == 0 { u64::MAX } else { local };
                    fast.next(global, local, &mut selection).expect("no error");
                    let expected = reference.next(global, local);
                    assert_eq!(selection.sequences, expected.sequences, "{what}");
                    assert_eq!(selection.end_of_sweep, expected.end_of_sweep, "{what}");
                    assert_eq!(selection.end_of_epoch, expected.end_of_epoch, "{what}");
                    if stamp != fast.window_stamp() {
                        stamp = fast.window_stamp();
                        fast.window(3, &mut window);
                    }
                    let resident =
                        |id: &cntk_reader_core::sequence::SequenceId| window.resident.contains(&id.chunk);
                    assert!(selection.sequences.iter().all(resident), "{what}: {window:?}");
                    let unique = |chunk: &ChunkId| {
                        window.resident.iter().chain(&window.ahead).filter(|other| *other == chunk).count()
                            == 1
                    };
                    assert!(window.resident.iter().chain(&window.ahead).all(unique), "{what}: {window:?}");
                }
            }
            assert_eq!(fast.position(), reference.position(), "{what} {workers:?}");
        }
    }
}
