//! Compares the data's own order with its reference implementation in random scenarios.

use super::tests::Growing;
use super::*;
use crate::randomize::random::Random;
use crate::randomize::reference::{Lists, ReferenceInOrder, random_sizes};

fn random_workers(random: &mut Random) -> WorkerConfig {
    let workers = if random.range(0, 2) == 0 { 1 } else { random.range(1, 6) };
    let workers = if random.range(0, 20) == 0 { random.range(1, 200) } else { workers };
    WorkerConfig { workers, rank: random.range(0, workers), cross_sweeps: random.range(0, 3) > 0 }
}

fn random_epoch(random: &mut Random, sweep: u64) -> EpochConfig {
    let workers = random_workers(random);
    random_sizes(random, workers, sweep)
}

#[test]
fn fast_and_reference_agree() {
    let mut random = Random::new(1);
    let (mut selection, mut window) = (Selection::default(), Window::default());
    for scenario in 0..5000 {
        let table = Lists::random(&mut random, 8, u64::from(scenario % 3 > 0));
        // The end of a sweep is discovered late only for text, which has no empty sequences.
        let may_grow = table.lengths.iter().flatten().all(|&length| length > 0);
        // With several workers, one may get only empty sequences. The timeline detects that, but
        // the reference does not.
        let some = |workers| match may_grow {
            true => workers,
            false => WorkerConfig { workers: 1, rank: 0, ..workers },
        };
        let mut fast = match random.range(0, 2) {
            _ if !may_grow => InOrder::new(table.clone()),
            0 => InOrder::new(table.clone()),
            _ => InOrder::new(Growing::new(&table, random.range(0, 3) as usize, ChunkId::MAX)),
        };
        let pace = if scenario % 4 == 0 { Pace::Beta } else { Pace::Own };
        fast = fast.at_pace(pace);
        let mut reference = ReferenceInOrder::new(table.clone()).with_beta(pace == Pace::Beta);
        let mut epoch = random_epoch(&mut random, table.samples());
        epoch.workers = some(epoch.workers);
        fast.start_epoch(&epoch).expect("a good epoch");
        reference.start_epoch(&epoch);
        let mut stamp = u64::MAX;
        for step in 0..random.range(5, 40) {
            let what = format!("scenario {scenario}, step {step}: {:?}, {epoch:?}", table.lengths);
            match random.range(0, 20) {
                0 => {
                    epoch = random_epoch(&mut random, table.samples());
                    epoch.workers = some(epoch.workers);
                    fast.start_epoch(&epoch).expect("a good epoch");
                    reference.start_epoch(&epoch);
                }
                1 => {
                    epoch.workers = some(random_workers(&mut random));
                    fast.configure(&epoch.workers).expect("good workers");
                    reference.configure(&epoch.workers);
                }
                2 => {
                    let target = random.range(0, 4 * table.samples());
                    fast.seek(target).expect("a position");
                    reference.seek(target);
                }
                3 => {
                    let position = fast.position();
                    fast.seek(random.range(0, 4 * table.samples())).expect("a position");
                    fast.resume(position).expect("its own position");
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
                    let resident = |id: &SequenceId| window.resident.contains(&id.chunk);
                    assert!(selection.sequences.iter().all(resident), "{what}: {window:?}");
                    let unique = |chunk: &ChunkId| {
                        window.resident.iter().chain(&window.ahead).filter(|other| *other == chunk).count()
                            == 1
                    };
                    assert!(window.resident.iter().chain(&window.ahead).all(unique), "{what}: {window:?}");
                }
            }
            assert_eq!(fast.position(), reference.position(), "{what}");
        }
    }
}
