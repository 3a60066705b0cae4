//! Orders and states recorded from CNTK 2.7, and edge cases.

use super::*;
use crate::randomize::WindowSize;
use crate::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_core::format::Listing;
use std::collections::BTreeSet;

/// Chunks made from lists of lengths; counts loads.
pub(super) struct Lists<'a> {
    lengths: &'a [Vec<u32>],
    held: BTreeSet<ChunkId>,
    loads: Vec<ChunkId>,
    /// Number of lists requested.
    listed: usize,
    most_held: usize,
    broken: Option<ChunkId>,
}

impl<'a> Lists<'a> {
    pub(super) fn new(lengths: &'a [Vec<u32>]) -> Self {
        Lists { lengths, held: BTreeSet::new(), loads: Vec::new(), listed: 0, most_held: 0, broken: None }
    }

    pub(super) fn number(&self, id: SequenceId) -> usize {
        assert!(self.held.contains(&id.chunk), "chunk {} is selected but not in memory", id.chunk);
        self.lengths[..id.chunk as usize].iter().map(Vec::len).sum::<usize>() + id.index as usize
    }
}

impl Chunks for Lists<'_> {
    fn expect(&mut self, chunk: ChunkId) {
        if self.held.insert(chunk) {
            self.loads.push(chunk);
        }
        self.most_held = self.most_held.max(self.held.len());
    }

    fn list(&mut self, chunk: ChunkId) -> Result<Listing<'_>> {
        self.expect(chunk);
        self.listed += 1;
        if self.broken == Some(chunk) {
            return Err(Error::data("broken"));
        }
        let lengths = &self.lengths[chunk as usize];
        Ok(Listing {
            sequences: lengths.len() as u32,
            lengths: cntk_reader_core::format::Lengths::Each(lengths),
        })
    }

    fn keep(&mut self, chunks: &[ChunkId]) {
        assert!(chunks.is_sorted());
        self.held.retain(|chunk| chunks.binary_search(chunk).is_ok());
    }
}

fn ones(chunks: &[usize]) -> Vec<Vec<u32>> {
    chunks.iter().map(|&count| vec![1; count]).collect()
}

pub(super) fn chunks(size: u64, seed: u64) -> Order {
    Order::Block { window: WindowSize::Chunks(size), seed }
}

pub(super) fn samples(size: u64, seed: u64) -> Order {
    Order::Block { window: WindowSize::Samples(size), seed }
}

pub(super) fn workers(workers: u64, rank: u64) -> WorkerConfig {
    WorkerConfig { workers, rank, cross_sweeps: true }
}

pub(super) fn sweeps(sweeps: u64, share: WorkerConfig) -> EpochConfig {
    EpochConfig { workers: share, samples: SIZE_UNLIMITED, sweeps, index: 0 }
}

pub(super) fn started(lengths: &[Vec<u32>], order: Order, epoch: EpochConfig) -> LocalTimeline {
    let mut timeline = LocalTimeline::new(lengths.len() as u32, order).expect("memory");
    timeline.start_epoch(&epoch).expect("an epoch");
    timeline
}

/// Reads to the end. Separates minibatches by `;` and marks the end of a sweep with `*`.
fn read_all(lists: &mut Lists<'_>, timeline: &mut LocalTimeline, local: u64) -> String {
    let mut texts = Vec::new();
    let mut selection = Selection::default();
    for _ in 0..1000 {
        timeline.next(local, lists, &mut selection).expect("a minibatch");
        if !selection.sequences.is_empty() {
            let numbers = selection.sequences.iter().map(|&id| lists.number(id).to_string());
            let mark = if selection.end_of_sweep { "*" } else { "" };
            texts.push(numbers.collect::<Vec<_>>().join(" ") + mark);
        }
        if selection.end_of_epoch {
            return texts.join("; ");
        }
    }
    panic!("no end: {}", texts.join("; "));
}

fn order_of(lengths: &[Vec<u32>], order: Order, epoch: EpochConfig, local: u64) -> String {
    read_all(&mut Lists::new(lengths), &mut started(lengths, order, epoch), local)
}

#[test]
fn orders_match_cntk() {
    let data = ones(&[4, 4, 4]);
    let two = sweeps(2, workers(1, 0));
    let seven = "3 1 10 0 9; 11 8 2 7 5; 4 6 5 7 6*; 4 3 11 1 8; 10 2 9 0*";
    for (order, local, expected) in [
        (chunks(2, 0), 5, "6 4 3 0 1; 7 5 2 8 9; 11 10 0 1 2*; 3 4 7 11 6; 8 9 5 10*"),
        (chunks(2, 7), 5, seven),
        (samples(5, 7), 5, seven),
        (chunks(1, 7), 5, "11 9 10 8 1; 3 2 0 7 5; 4 6 5 7 6*; 4 11 9 8 10; 2 1 0 3*"),
        (chunks(3, 0), 5, "6 0 5 9 8; 7 2 11 10 1; 3 4 4 2 1*; 3 8 9 0 11; 10 6 5 7*"),
        (chunks(128, 0), 12, "6 0 5 9 8 7 2 11 10 1 3 4; 4 2 1 3 8 9 0 11 10 6 5 7*"),
        (Order::InOrder, 5, "0 1 2 3 4; 5 6 7 8 9; 10 11 0 1 2*; 3 4 5 6 7; 8 9 10 11*"),
    ] {
        assert_eq!(order_of(&data, order, two, local), expected, "{order:?}");
    }
    let five = ones(&[5]);
    assert_eq!(order_of(&five, chunks(128, 0), sweeps(1, workers(1, 0)), 5), "4 0 3 2 1");
    assert!(order_of(&five, chunks(128, 0), sweeps(3, workers(1, 0)), 3).starts_with("4 0 3; 2 1 3*; 0 2 1"));
    let threes = ones(&[3, 3, 3]);
    let three = sweeps(3, workers(1, 0));
    let expected = "6 4 5; 3 2 7; 1 0 8; 8 4 3*; 6 5 2; 7 0 1; 0 5 6*; 2 8 3; 1 4 7";
    assert_eq!(order_of(&threes, chunks(128, 0), three, 3), expected);
    for order in [chunks(2, 0), samples(4, 0)] {
        let all = order_of(&threes, order, sweeps(2, workers(1, 0)), 100);
        assert!(all.starts_with("0 3 1 2 4 5 6 8 7 2 1 0 6 7 3"), "{order:?}: {all}");
    }
}

#[test]
fn exact_fill_defers_the_end_of_sweep() {
    let data = ones(&[4, 4, 4]);
    for local in [4, 6] {
        assert!(!order_of(&data, Order::InOrder, sweeps(1, workers(1, 0)), local).contains('*'));
    }
    // The end of the last sweep is never reported.
    let four = ones(&[4]);
    assert_eq!(
        order_of(&four, Order::InOrder, sweeps(3, workers(1, 0)), 2),
        "0 1; 2 3; 0 1*; 2 3; 0 1*; 2 3"
    );
}

#[test]
fn shares_match_cntk_where_it_does_not_crash() {
    let data = ones(&[4, 4, 4]);
    for (order, seed_and_rank, local, expected) in [
        (Order::InOrder, 0, 3, "0 2 4; 6 8 10; 0 2 4*; 6 8 10"),
        (Order::InOrder, 1, 2, "1 3; 5 7; 9 11; 1 3*; 5 7; 9 11"),
        (chunks(1, 0), 0, 3, "2 3 1; 0 8 9; 10 11 0*; 1 2 3; 4 5 7; 6*"),
        (chunks(1, 0), 1, 2, "6 7; 5 4; 8 9*; 10 11"),
        (chunks(1, 7), 0, 3, "11 9 10; 8 5 7; 6 4 5*; 7 6 4; 3 1 0; 2*"),
        (chunks(1, 7), 1, 2, "3 1; 2 0; 9 11*; 10 8"),
    ] {
        let epoch = sweeps(2, workers(2, seed_and_rank));
        assert_eq!(order_of(&data, order, epoch, local), expected, "{order:?} rank {seed_and_rank}");
    }
    let nine =
        |rank| EpochConfig { workers: workers(2, rank), samples: 9, sweeps: SWEEPS_UNLIMITED, index: 0 };
    assert_eq!(order_of(&data, Order::InOrder, nine(0), 3), "0 2 4; 6 8");
    assert_eq!(order_of(&data, Order::InOrder, nine(1), 2), "1 3; 5 7");
}

#[test]
fn states_match_cntk() {
    let data = ones(&[4, 4, 4]);
    for (order, expected) in [
        (
            chunks(2, 0),
            vec![(0, 0, 0, 5, 5), (2, 0, 0, 10, 2), (2, 0, 1, 15, 8), (1, 1, 1, 20, 4), (0, 2, 2, 24, 0)],
        ),
        (chunks(1, 7), vec![(1, 0, 0, 5, 1)]),
    ] {
        let mut lists = Lists::new(&data);
        let mut timeline = started(&data, order, sweeps(2, workers(1, 0)));
        let mut selection = Selection::default();
        assert_eq!(timeline.position(), LocalPosition::default());
        for (at, sweep, sweeps, samples, entries) in expected {
            timeline.next(5, &mut lists, &mut selection).expect("a minibatch");
            let expected = LocalPosition { window: [at, sweep], sweeps, samples, entries };
            assert_eq!(timeline.position(), expected);
        }
    }
}

#[test]
fn chunks_are_loaded_only_when_needed() {
    let data = ones(&[4, 4, 4]);
    for (order, sweep_count, loads) in
        [(chunks(128, 0), 1, 3), (chunks(128, 0), 20, 3), (Order::InOrder, 1, 3), (Order::InOrder, 9, 3)]
    {
        let mut lists = Lists::new(&data);
        let mut timeline = started(&data, order, sweeps(sweep_count, workers(1, 0)));
        read_all(&mut lists, &mut timeline, 5);
        assert_eq!(lists.loads.len(), loads, "{order:?}, {sweep_count} sweeps: {:?}", lists.loads);
        // Windows of several sweeps are continued where they stopped.
        assert_eq!(lists.listed as u64, 3 * sweep_count, "{order:?}");
    }
    // No chunk of a sweep that will not be read.
    for order in [Order::InOrder, chunks(2, 3), samples(6, 3)] {
        let data = ones(&[4; 20]);
        let mut lists = Lists::new(&data);
        read_all(&mut lists, &mut started(&data, order, sweeps(1, workers(1, 0))), 5);
        lists.loads.sort_unstable();
        assert!(lists.loads.iter().copied().eq(0..20), "{order:?}: {:?}", lists.loads);
    }
    // Many chunks: each is loaded once per sweep, and memory never holds more than the window, the
    // chunks carried over by a minibatch and two more.
    let many = ones(&[4; 40]);
    for (order, most) in [(Order::InOrder, 4), (chunks(4, 3), 11), (samples(16, 3), 11)] {
        let mut lists = Lists::new(&many);
        let mut timeline = started(&many, order, sweeps(2, workers(1, 0)));
        read_all(&mut lists, &mut timeline, 5);
        assert!(lists.loads.len() <= 82, "{order:?}: {:?}", lists.loads);
        assert!(lists.most_held <= most, "{order:?}: {} chunks held", lists.most_held);
    }
}

#[test]
fn workers_without_data_reach_the_end() {
    let data = ones(&[3]);
    let endless = |share| EpochConfig { sweeps: SWEEPS_UNLIMITED, ..sweeps(0, share) };
    for order in [Order::InOrder, chunks(1, 0), chunks(128, 0), samples(2, 5)] {
        assert_eq!(order_of(&data, order, endless(workers(9, 7)), 3), "", "{order:?}");
        assert_eq!(order_of(&data, order, sweeps(3, workers(9, 7)), 3), "", "{order:?}");
    }
    let empty = ones(&[0, 0, 0]);
    for order in [Order::InOrder, chunks(2, 0), chunks(128, 0), samples(2, 5)] {
        for share in [workers(1, 0), workers(2, 1), workers(3, 2)] {
            assert_eq!(order_of(&empty, order, endless(share), 3), "", "{order:?} {share:?}");
        }
    }
    // Chunks with nothing for a worker are skipped.
    let single = ones(&[1, 1, 1, 0, 1]);
    assert_eq!(order_of(&single, Order::InOrder, sweeps(1, workers(2, 0)), 3), "0 2*");
    assert_eq!(order_of(&single, Order::InOrder, sweeps(1, workers(2, 1)), 1), "1; 3");
}

#[test]
fn failing_chunk_loses_no_data() {
    let data = ones(&[4, 4, 4]);
    for order in [Order::InOrder, chunks(2, 0)] {
        let epoch = sweeps(1, workers(1, 0));
        let expected = order_of(&data, order, epoch, 5);
        let mut lists = Lists::new(&data);
        let mut timeline = started(&data, order, epoch);
        let mut selection = Selection::default();
        lists.broken = Some(2);
        let mut delivered = Vec::new();
        loop {
            let before = timeline.position();
            if timeline.next(5, &mut lists, &mut selection).is_err() {
                assert_eq!(timeline.position(), before);
                assert!(selection.sequences.is_empty());
                break;
            }
            delivered.push(selection.sequences.len());
        }
        assert!(
            timeline.next(5, &mut lists, &mut selection).is_err(),
            "keeps failing while the chunk is broken"
        );
        lists.broken = None;
        let rest = read_all(&mut lists, &mut timeline, 5);
        assert!(expected.ends_with(&rest) && !rest.is_empty(), "{expected} / {rest}");
        assert_eq!(expected.split("; ").count(), delivered.len() + rest.split("; ").count());
    }
}

#[test]
fn positions_past_a_window_are_refused() {
    let data = ones(&[4, 4, 4]);
    let mut selection = Selection::default();
    for order in [Order::InOrder, chunks(2, 0), chunks(u64::from(u32::MAX), 0)] {
        let mut timeline = started(&data, order, sweeps(9, workers(1, 0)));
        assert!(timeline.resume(LocalPosition { window: [3, 0], ..LocalPosition::default() }).is_err());
        timeline.resume(LocalPosition { entries: 1 << 40, ..LocalPosition::default() }).expect("a chunk");
        if order != chunks(u64::from(u32::MAX), 0) {
            let error = timeline.next(3, &mut Lists::new(&data), &mut selection).expect_err("too far");
            assert_eq!(error.kind(), ErrorKind::Checkpoint);
        }
    }
}

#[test]
fn limits_are_checked() {
    let data = ones(&[2]);
    let mut timeline = started(&data, Order::InOrder, sweeps(1, workers(1, 0)));
    let (mut lists, mut selection) = (Lists::new(&data), Selection::default());
    assert!(timeline.next(0, &mut lists, &mut selection).is_err());
    let error = timeline.next(1 << 31, &mut lists, &mut selection).expect_err("too large");
    assert_eq!(error.message(), "The size of a minibatch cannot exceed max int.");
    timeline.next(LARGEST_MINIBATCH, &mut lists, &mut selection).expect("the largest size");
    assert_eq!(selection.sequences.len(), 2);
    let nothing = EpochConfig { samples: 0, sweeps: SWEEPS_UNLIMITED, ..sweeps(1, workers(1, 0)) };
    assert!(timeline.start_epoch(&nothing).is_err());
    assert!(timeline.start_epoch(&sweeps(1, workers(2, 2))).is_err());
}

#[test]
fn worker_change_within_a_window_continues() {
    let data = ones(&[4, 4, 4]);
    for order in [Order::InOrder, chunks(2, 7), chunks(128, 0)] {
        for first in 1..12 {
            let mut timeline = started(&data, order, sweeps(2, workers(1, 0)));
            let (mut lists, mut selection) = (Lists::new(&data), Selection::default());
            timeline.next(first, &mut lists, &mut selection).expect("a minibatch");
            timeline.configure(&workers(3, 1)).expect("workers");
            let rest = read_all(&mut lists, &mut timeline, 2);
            assert!(rest.len() < 100, "{order:?}: {rest}");
        }
    }
}

#[test]
fn selection_reports_the_sweep_of_each_sequence() {
    let lengths = ones(&[4, 4, 4]);
    for order in [Order::InOrder, chunks(2, 7)] {
        let (mut lists, mut timeline) =
            (Lists::new(&lengths), started(&lengths, order, sweeps(3, workers(1, 0))));
        let mut selection = Selection::default();
        let mut found = Vec::new();
        while !selection.end_of_epoch {
            timeline.next(7, &mut lists, &mut selection).expect("sequences");
            found.extend((0..selection.sequences.len()).map(|position| selection.sweep_of(position)));
        }
        assert_eq!(found, [[0; 12], [1; 12], [2; 12]].concat(), "{order:?}");
    }
}

/// CNTK 2.7 reports a state one window too far here: continuing from it skips a chunk.
#[test]
fn exactly_filled_epoch_can_be_continued() {
    let ones = ones(&[4, 4, 4]);
    let ragged = [vec![3, 1], vec![2, 2], vec![4]];
    for (lengths, order) in
        [(&ones[..], Order::InOrder), (&ones, chunks(1, 7)), (&ones, chunks(2, 0)), (&ragged, Order::InOrder)]
    {
        let mut lists = Lists::new(lengths);
        let mut timeline = started(lengths, order, sweeps(1, workers(1, 0)));
        let first = read_all(&mut lists, &mut timeline, 4);
        // A read past the end does not move the position.
        timeline.next(4, &mut lists, &mut Selection::default()).expect("no data");
        let mut further = started(lengths, order, sweeps(2, workers(1, 0)));
        further.resume(timeline.position()).expect("its own position");
        let second = read_all(&mut lists, &mut further, 4);
        let numbers = |text: &str| -> Vec<usize> {
            text.split([';', ' ', '*']).filter_map(|number| number.parse().ok()).collect()
        };
        let both = [numbers(&first), numbers(&second)].concat();
        let whole = order_of(lengths, order, sweeps(2, workers(1, 0)), 4);
        assert_eq!(both, numbers(&whole), "{order:?}: {first} / {second}");
        assert_eq!(both.len(), 2 * lengths.iter().map(Vec::len).sum::<usize>());
    }
}

/// CNTK 2.7 compares the number of sweeps for equality, so it never stops.
#[test]
fn state_past_the_last_sweep_ends_the_epoch() {
    let data = ones(&[4, 4, 4]);
    let mut selection = Selection::default();
    for order in [Order::InOrder, chunks(2, 0)] {
        for passed in [2, 3, u64::MAX] {
            let mut timeline = started(&data, order, sweeps(2, workers(1, 0)));
            let position = LocalPosition { sweeps: passed, samples: 40, ..LocalPosition::default() };
            timeline.resume(position).expect("a position");
            timeline.next(5, &mut Lists::new(&data), &mut selection).expect("no error");
            assert!(selection.sequences.is_empty() && selection.end_of_epoch, "{order:?}: {passed} sweeps");
        }
    }
}

/// Reads the first epochs of a timeline, as text.
fn epochs(data: &[Vec<u32>], order: Order, epoch: EpochConfig, count: u64) -> Vec<String> {
    let mut timeline = LocalTimeline::new(data.len() as u32, order).expect("memory");
    let read = |index| {
        timeline.start_epoch(&EpochConfig { index, ..epoch }).expect("an epoch");
        read_all(&mut Lists::new(data), &mut timeline, 3)
    };
    (0..count).map(read).collect()
}

#[test]
fn later_epochs_continue_previous_ones() {
    let data = ones(&[4, 3, 5, 2]);
    let numbers = |text: &str| -> Vec<usize> {
        text.split([';', ' ', '*']).filter_map(|number| number.parse().ok()).collect()
    };
    for order in [Order::InOrder, chunks(1, 7), chunks(2, 3), samples(3, 1)] {
        for worker in [workers(1, 0), workers(2, 1)] {
            let one = sweeps(1, worker);
            let by_epochs = epochs(&data, order, one, 4);
            // A window that spans two sweeps mixes both, so compare sets.
            let mut seen: Vec<usize> = by_epochs.iter().flat_map(|epoch| numbers(epoch)).collect();
            let mut whole = numbers(&order_of(&data, order, sweeps(4, worker), 3));
            seen.sort_unstable();
            whole.sort_unstable();
            assert_eq!(seen, whole, "{order:?}");
            // Any epoch can be started directly.
            let mut timeline = started(&data, order, one);
            timeline.start_epoch(&EpochConfig { index: 2, ..one }).expect("an epoch");
            assert_eq!(read_all(&mut Lists::new(&data), &mut timeline, 3), by_epochs[2], "{order:?}");
        }
    }
}

#[test]
fn epochs_in_samples_follow_one_another() {
    let data = ones(&[4, 3, 5, 2]);
    let five = EpochConfig { workers: workers(1, 0), samples: 5, sweeps: SWEEPS_UNLIMITED, index: 0 };
    for order in [Order::InOrder, chunks(2, 3)] {
        let read = epochs(&data, order, five, 3);
        let all = read.join(" ");
        let count = all.split([';', ' ', '*']).filter(|text| text.parse::<usize>().is_ok()).count();
        assert_eq!(count, 15, "{order:?}: {all}");
        let mut timeline = started(&data, order, five);
        let late = |timeline: &mut LocalTimeline, epoch: EpochConfig| {
            timeline.start_epoch(&epoch).map_err(|error| error.message().to_owned())
        };
        let refused = Err("Epoch 1 of 5 samples cannot start here.".to_owned());
        // Rejected before the first epoch is over, for another worker, and for another size.
        assert_eq!(late(&mut timeline, EpochConfig { index: 1, ..five }), refused);
        read_all(&mut Lists::new(&data), &mut timeline, 3);
        let other = EpochConfig { workers: workers(2, 0), index: 1, ..five };
        assert_eq!(late(&mut timeline, other), refused);
        assert!(late(&mut timeline, EpochConfig { samples: 6, index: 1, ..five }).is_err());
        assert!(late(&mut timeline, EpochConfig { index: 2, ..five }).is_err());
        assert_eq!(late(&mut timeline, EpochConfig { index: 1, ..five }), Ok(()));
    }
}

/// CNTK 2.7 supports only the first epoch of such data.
#[test]
fn later_epochs_are_rejected_in_cntks_place() {
    let timeline = LocalTimeline::new(2, Order::InOrder).expect("memory");
    let mut timeline = timeline.with_first_epoch_only(true);
    let error = timeline.start_epoch(&EpochConfig { index: 1, ..sweeps(1, workers(1, 0)) });
    let error = error.expect_err("a later epoch");
    assert_eq!(error.message(), "LocalTimelineRandomizerBase is not supported for old configs.");
}

/// Reads some samples as a single worker, and the rest as worker 1 of 3.
#[test]
fn other_worker_continues_after_the_same_number_of_entries() {
    let data = ones(&[4, 4, 4]);
    for (first, expected) in [
        // The first chunk has only sequence 1 for this worker.
        (1, "4 7; 10 1*; 4 7; 10*"),
        // A single worker's windows do not count sequences, so this one's numbers begin at 0.
        (5, "8 11; 1 4*; 7 10"),
        // The last chunk has one sequence for this worker, before the end of the sweep.
        (10, "1 4*; 7 10"),
        (11, "1 4*; 7 10"),
    ] {
        let (mut lists, mut selection) = (Lists::new(&data), Selection::default());
        let mut timeline = started(&data, Order::InOrder, sweeps(2, workers(1, 0)));
        timeline.next(first, &mut lists, &mut selection).expect("a minibatch");
        timeline.configure(&workers(3, 1)).expect("workers");
        assert_eq!(read_all(&mut lists, &mut timeline, 2), expected, "after {first}");
    }
    // Only a change of the worker makes the position invalid.
    let (mut lists, mut selection) = (Lists::new(&data), Selection::default());
    let mut timeline = started(&data, Order::InOrder, sweeps(1, workers(1, 0)));
    timeline.next(2, &mut lists, &mut selection).expect("a minibatch");
    timeline.configure(&WorkerConfig { cross_sweeps: false, ..workers(1, 0) }).expect("workers");
    assert_eq!(read_all(&mut lists, &mut timeline, 9), "2 3 4 5 6 7 8 9 10; 11*");
}

#[test]
fn worker_that_gets_data_by_a_change_reads_them() {
    let data = ones(&[1, 1]);
    let mut lists = Lists::new(&data);
    let mut timeline = started(&data, Order::InOrder, sweeps(1, workers(3, 2)));
    assert_eq!(read_all(&mut lists, &mut timeline, 3), "");
    timeline.configure(&workers(1, 0)).expect("workers");
    timeline.resume(LocalPosition::default()).expect("the start");
    assert_eq!(read_all(&mut lists, &mut timeline, 3), "0 1*");
}

#[test]
fn limits_and_names_of_a_timeline() {
    let share = |samples, count, rank| {
        let sweeps = SWEEPS_UNLIMITED;
        let epoch = EpochConfig { workers: workers(count, rank), samples, sweeps, index: 0 };
        started(&ones(&[1]), Order::InOrder, epoch).limit_in_samples()
    };
    assert_eq!([share(9, 2, 0), share(9, 2, 1), share(8, 2, 1)], [Some(5), Some(4), Some(4)]);
    // CNTK 2.7 computes the remainder of a negative 32-bit number, which is 1 here and not 3.
    let size = (1 << 31) + 1;
    assert_eq!([share(size, 7, 0), share(size, 7, 1)], [Some(size / 7 + 1), Some(size / 7)]);
    let in_sweeps = started(&ones(&[1]), chunks(1, 0), sweeps(2, workers(1, 0)));
    assert_eq!((in_sweeps.limit_in_samples(), in_sweeps.keys()), (None, ["chunkPosition", "sweepIndex"]));
    let in_order = started(&ones(&[1]), Order::InOrder, sweeps(2, workers(1, 0)));
    assert_eq!(in_order.keys(), ["currentChunkPosition", "currentSequencePosition"]);
}

#[test]
fn chunks_without_sequences_are_counted() {
    for order in [Order::InOrder, chunks(2, 0)] {
        for (data, expected) in [(ones(&[0, 0, 0]), Some(3)), (ones(&[0, 1, 0]), None)] {
            let mut lists = Lists::new(&data);
            let mut timeline = started(&data, order, sweeps(1, workers(1, 0)));
            assert_eq!(timeline.empty_chunks(), None, "nothing was listed yet");
            read_all(&mut lists, &mut timeline, 1);
            assert_eq!(timeline.empty_chunks(), expected, "{order:?}: {data:?}");
        }
        let none = LocalTimeline::new(0, order).expect("memory");
        assert_eq!(none.empty_chunks(), None);
    }
}
