//! Truncated packing: recorded minibatches, changes of sizes, checkpoints, sequences without
//! samples.

use super::*;
use crate::pack::test_feed::{
    Data, EXAMPLE, RECORDED, SequenceState, TestFeed, example_streams, first_components, floats, info, parse,
    recorded, records,
};
use crate::testing::Recorder;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::stream::{ElementType, Ids, Storage, UNKNOWN_DIMENSION};
use cntk_reader_core::written::Written;

const SIZES: PackConfig = PackConfig { workers: 1, rank: 0, minibatch: 7, truncation: 3, right_splice: 0 };

fn packer(config: PackConfig) -> TruncatedPacker {
    let mut packer = TruncatedPacker::new(example_streams(), true);
    packer.configure(&config).expect("sizes");
    packer
}

fn queued(packer: &TruncatedPacker) -> Vec<Queue> {
    // Previous content of the list must not matter.
    let mut queues = vec![Queue { cursor: 9, sequences: vec![(SequenceId { chunk: 9, index: 9 }, true)] }; 3];
    packer.queued(&mut queues).expect("memory");
    queues
}

fn feed(sweeps: u64) -> TestFeed {
    TestFeed::parse(&example_streams(), EXAMPLE, sweeps)
}

pub(super) fn read(packer: &mut TruncatedPacker, feed: &mut TestFeed) -> Minibatch {
    packer.read(feed).expect("a minibatch")
}

/// Records, keys, first components of `x`, and the flags `*` (end of sweep) and `E` (end of epoch).
fn show(minibatch: &Minibatch) -> String {
    let flags =
        [if minibatch.end_of_sweep { "*" } else { "" }, if minibatch.end_of_epoch { "E" } else { "" }]
            .concat();
    if minibatch.streams.is_empty() {
        return flags;
    }
    assert_eq!(minibatch.streams[0].layout, minibatch.streams[1].layout);
    let list = |numbers: Vec<String>| numbers.join(" ");
    let keys = list(minibatch.keys.iter().map(u64::to_string).collect());
    let x = list(first_components(minibatch, 0, 2).iter().map(f32::to_string).collect());
    format!("{} | {keys} | {x} {flags}", records(minibatch, 0)).trim_end().to_owned()
}

fn run(packer: &mut TruncatedPacker, feed: &mut TestFeed, expected: &[(&str, u64)]) {
    for (i, (text, position)) in expected.iter().enumerate() {
        assert_eq!(show(&read(packer, feed)), *text, "read {}", i + 1);
        assert_eq!(feed.position, *position, "read {}", i + 1);
    }
}

const FIRST: (&str, u64) = ("0:0[0,3) 1:1[0,2) 2:1[2,4) | 0 2 3 | 0 20 1 21 2 30", 8);
const SECOND: &str = "0:0[0,1) 1:0[1,5) 2:1[-1,1) 3:1[1,2) 4:1[2,3) | 1 4 3 5 6 | 10 31 40 50 41 60 *";

#[test]
fn one_sweep() {
    run(
        &mut packer(SIZES),
        &mut feed(1),
        &[
            FIRST,
            (SECOND, 14),
            ("0:0[-2,2) gap:0[2,3) gap:1[0,3) | 4 | 42 0 43 0 0 0 E", 14),
            ("E", 14),
            ("E", 14),
        ],
    );
}

#[test]
fn two_sweeps() {
    run(
        &mut packer(SIZES),
        &mut feed(2),
        &[
            FIRST,
            (SECOND, 17),
            ("0:0[-2,2) 1:0[2,3) 2:1[0,3) | 4 1 0 | 42 0 43 1 10 2", 22),
            ("0:0[0,2) 1:0[2,6) 2:1[0,2) 3:1[2,3) | 2 4 3 5 | 20 30 21 31 40 50", 28),
            ("0:0[-1,3) 1:1[0,1) gap:1[1,3) | 4 6 | 41 60 42 0 43 0 *E", 28),
            ("E", 28),
        ],
    );
}

#[test]
fn right_splice() {
    let packer = &mut packer(PackConfig { right_splice: 1, ..SIZES });
    run(
        packer,
        &mut feed(1),
        &[
            FIRST,
            (
                "0:0[-2,1) 1:0[1,2) 2:0[2,6) 3:1[-1,1) 4:1[1,2) 5:1[2,3) | 0 1 4 3 5 6 | 2 31 10 50 40 60 *",
                14,
            ),
            ("0:0[-1,3) gap:1[0,3) | 4 | 41 0 42 0 43 0", 14),
            ("0:0[-3,1) gap:0[1,3) gap:1[0,3) | 4 | 43 0 0 0 0 0 E", 14),
            ("E", 14),
        ],
    );
    let minibatch = read(packer, &mut feed(1));
    assert_eq!(minibatch.streams[1].layout.right_splice, 1);
    assert_eq!(packer.spec().map(|(_, limits)| limits), None);
    for right_splice in [3, 4] {
        let config = PackConfig { right_splice, ..SIZES };
        let error = packer.configure(&config).expect_err("would never advance");
        assert_eq!(error.class(), ExceptionClass::InvalidArgument);
    }
}

#[test]
fn two_workers() {
    let runs: [&[(&[u64], &str, u64)]; 2] = [
        &[(&[0], "", 6), (&[2, 4], "", 12), (&[4], "", 14), (&[6], "*E", 14), (&[], "E", 14)],
        &[(&[1, 3], "", 13), (&[5], "E", 14), (&[], "E", 14)],
    ];
    for (rank, expected) in (0..).zip(runs) {
        let feed = &mut feed(1);
        (feed.workers, feed.rank) = (2, rank);
        let packer = &mut packer(PackConfig { workers: 2, rank, ..SIZES });
        for &(keys, flags, position) in expected {
            let minibatch = read(packer, feed);
            assert_eq!(minibatch.keys, keys);
            assert_eq!(
                (minibatch.end_of_sweep, minibatch.end_of_epoch),
                (flags.contains('*'), flags.contains('E'))
            );
            assert_eq!(feed.position, position);
        }
    }
}

#[test]
fn sparse_streams_come_out_dense() {
    let packing = crate::pack::Packing::Truncated { length: 3, right_splice: 0 };
    let streams = |expands| super::super::output_streams(&example_streams(), packing, expands);
    assert!(streams(true).iter().all(|info| info.storage == Storage::Dense));
    assert_eq!(streams(false), example_streams());
    let minibatch = read(&mut packer(SIZES), &mut feed(1));
    assert_eq!(
        floats(minibatch.streams[1].block()),
        [1., 0., 0., 0., 0., 0., 21., 0., 3., 2., 0., 0., 0., 0., 23., 22., 0., 0., 0., 0., 0., 0., 0., 31.]
    );
}

#[test]
fn restoring_a_position_drops_queued_sequences() {
    for (position, keys) in [(8, vec![4, 5, 6]), (0, vec![0, 2, 3])] {
        let (packer, feed) = (&mut packer(SIZES), &mut feed(1));
        read(packer, feed);
        packer.reset();
        feed.seek(position);
        assert_eq!(read(packer, feed).keys, keys);
    }
}

#[test]
fn new_sizes_replace_the_slots() {
    let (packer, feed) = (&mut packer(SIZES), &mut feed(1));
    read(packer, feed);
    packer.configure(&PackConfig { minibatch: 12, ..SIZES }).expect("sizes");
    let minibatch = read(packer, feed);
    assert_eq!(minibatch.keys, [4, 5, 6]);
    assert_eq!(records(&minibatch, 0), "0:0[0,4) 1:1[0,1) 2:1[1,2) gap:1[2,3) gap:2[0,3) gap:3[0,3)");
    assert_eq!((minibatch.streams[0].layout.steps, minibatch.streams[0].layout.lanes), (3, 4));
}

#[test]
fn new_workers_keep_the_slots() {
    let (first, feed) = (&mut packer(SIZES), &mut feed(2));
    read(first, feed);
    let config = PackConfig { workers: 3, rank: 1, ..SIZES };
    first.configure(&config).expect("the sizes did not change");
    (feed.workers, feed.rank) = (3, 1);
    assert!(packer(SIZES).configure(&PackConfig { minibatch: 8, ..config }).is_err());
    read(first, feed);
    let queues = queued(first);
    assert_eq!(queues.len(), 2);
    // A new packer restores the same number of slots.
    let mut second = TruncatedPacker::new(example_streams(), true);
    assert!(second.configure(&config).is_err());
    let chunks = feed.chunks.clone();
    let load = &mut |id: SequenceId| chunks[id.chunk as usize].clone().ok_or_else(|| Error::internal("gone"));
    second.restore(&config, &queues, load).expect("the checkpoint");
    assert_eq!(queued(&second), queues);
}

#[test]
fn checkpoints_continue_exactly() {
    for right_splice in [0, 1, 2] {
        for reads in 0..5 {
            let config = PackConfig { right_splice, ..SIZES };
            let (first, feed_1) = (&mut packer(config), &mut feed(2));
            for _ in 0..reads {
                read(first, feed_1);
            }
            let mut second = TruncatedPacker::new(example_streams(), false);
            let chunks = feed_1.chunks.clone();
            let load = &mut |id: SequenceId| {
                chunks[id.chunk as usize].clone().ok_or_else(|| Error::internal("gone"))
            };
            second.restore(&config, &queued(first), load).expect("the checkpoint");
            let feed_2 = &mut feed(2);
            (feed_2.position, feed_2.next) = (feed_1.position, feed_1.next);
            for _ in 0..12 {
                let (a, b) = (read(first, feed_1), read(&mut second, feed_2));
                assert_eq!(show(&a), show(&b));
            }
        }
    }
}

#[test]
fn damaged_checkpoints_are_errors() {
    let (packer, feed) = (&mut packer(SIZES), &mut feed(1));
    read(packer, feed);
    let good = queued(packer);
    // Sequence 1, and the second half of sequence 3.
    assert_eq!((packer.held_samples(), good[1].cursor), (2, 1));
    let chunks = feed.chunks.clone();
    let load = &mut |id: SequenceId| chunks[id.chunk as usize].clone().ok_or_else(|| Error::internal("gone"));
    let mut beyond = good.clone();
    beyond[1].cursor = 2;
    let empty = vec![Queue { cursor: 1, sequences: Vec::new() }];
    for queues in [beyond, empty, Vec::new()] {
        let error = packer.requeue(&queues, load).expect_err("must be refused");
        assert_eq!(error.kind(), ErrorKind::Checkpoint);
    }
    assert_eq!(queued(packer), good);
    let error = TruncatedPacker::new(example_streams(), true).requeue(&good, load).expect_err("no sizes");
    assert_eq!(error.kind(), ErrorKind::State);
    // Queued sequences were valid.
    for (stream, state) in [(0, SequenceState::Invalid), (1, SequenceState::Skipped)] {
        let mut sequences = parse(&example_streams(), EXAMPLE);
        sequences[3][stream].state = state;
        let chunks = TestFeed::new(&example_streams(), sequences, 2, 1).chunks;
        let load =
            &mut |id: SequenceId| chunks[id.chunk as usize].clone().ok_or_else(|| Error::internal("gone"));
        assert_eq!(packer.requeue(&good, load).expect_err("damaged").kind(), ErrorKind::Checkpoint);
    }
}

#[test]
fn invalid_sizes() {
    let mut packer = TruncatedPacker::new(example_streams(), true);
    assert_eq!(packer.read(&mut feed(1)).expect_err("no sizes").kind(), ErrorKind::State);
    // More slots than memory allows.
    let vast = PackConfig { minibatch: u64::MAX, truncation: 1, ..SIZES };
    assert_eq!(packer.configure(&vast).expect_err("must be refused").kind(), ErrorKind::Memory);
    let mut refused = |config| packer.configure(&config).expect_err("must be refused").class();
    assert_eq!(refused(PackConfig { minibatch: 0, ..SIZES }), ExceptionClass::Logic);
    assert_eq!(refused(PackConfig { truncation: 0, ..SIZES }), ExceptionClass::Logic);
    assert_eq!(refused(PackConfig { workers: 3, ..SIZES }), ExceptionClass::InvalidArgument);
    assert_eq!(refused(PackConfig { workers: 0, ..SIZES }), ExceptionClass::InvalidArgument);
    let error = packer.check(&PackConfig { workers: 3, ..SIZES }).expect_err("must be refused");
    let needed =
        "3 workers need a minibatch size of at least 9 samples, the truncation length for each; it is 7.";
    assert_eq!(error.detail(), needed);
    // Shares of 7 / 2 = 3 slots for 2 workers, and at least one slot.
    for (config, slots) in [
        (PackConfig { workers: 2, rank: 0, truncation: 2, ..SIZES }, 2),
        (PackConfig { workers: 2, rank: 1, truncation: 2, minibatch: 6, ..SIZES }, 1),
        (PackConfig { truncation: 9, ..SIZES }, 1),
    ] {
        packer.configure(&config).expect("sizes");
        assert_eq!(queued(&packer).len(), slots);
    }
}

/// Creates sequences of these lengths with values `10 * number + step + 1`.
fn of_lengths(lengths: &[u64]) -> (TruncatedPacker, TestFeed) {
    let streams = vec![info("x", Storage::Dense, ElementType::Float, 1)];
    let sequence = |(number, &length): (usize, &u64)| {
        let mut data = Data::default();
        (0..length).for_each(|step| {
            data.dense_sample(ElementType::Float, &[(10 * number as u64 + step + 1) as f64])
        });
        vec![data]
    };
    let sequences = lengths.iter().enumerate().map(sequence).collect();
    let mut packer = TruncatedPacker::new(streams.clone(), true);
    packer.configure(&PackConfig { minibatch: 4, truncation: 2, ..SIZES }).expect("sizes");
    (packer, TestFeed::new(&streams, sequences, 2, 1))
}

#[test]
fn empty_sequence_fails_when_due() {
    let first = (vec![2, 3, 1, 1, 4, 0, 2, 3, 2], 9, "bbebbb");
    // Only the empty sequence is left in its lane, and then in all lanes; the last one was fetched
    // along with it.
    let second = (vec![3, 1, 4, 0, 1], 4, "bbbe");
    for (lengths, count, course) in [first, second] {
        let (mut packer, mut feed) = of_lengths(&lengths);
        let (mut values, mut seen) = (Vec::new(), String::new());
        let end = loop {
            match packer.read(&mut feed) {
                Ok(minibatch) if minibatch.streams.is_empty() => break minibatch,
                Ok(minibatch) => {
                    values.extend(floats(minibatch.streams[0].block()));
                    seen.push('b');
                }
                Err(error) => {
                    assert_eq!(error.message(), "AddSequence: Sequences must be a least one frame long.");
                    seen.push('e');
                }
            }
            // Queued sequences, including the empty one, are restored from a checkpoint.
            let (queues, chunks) = (queued(&packer), feed.chunks.clone());
            let load = &mut |id: SequenceId| {
                chunks[id.chunk as usize].clone().ok_or_else(|| Error::internal("gone"))
            };
            packer.requeue(&queues, load).expect("its own queues");
            assert_eq!(queued(&packer), queues);
        };
        assert!(end.end_of_epoch);
        assert_eq!(seen, course);
        // Gaps are zeros.
        values.retain(|&value| value != 0.0);
        values.sort_by(f32::total_cmp);
        let of = |(number, &length): (usize, &u64)| {
            (0..length).map(move |step| (10 * number as u64 + step + 1) as f32)
        };
        assert_eq!(values, lengths.iter().take(count).enumerate().flat_map(of).collect::<Vec<_>>());
    }
}

#[test]
fn streams_of_different_lengths_are_errors() {
    let streams =
        [info("x", Storage::Dense, ElementType::Float, 1), info("y", Storage::Dense, ElementType::Double, 1)];
    let feed = &mut TestFeed::parse(&streams, "0 |x 1 |y 1\n0 |x 2\n1 |x 1 |y 1\n", 1);
    let mut packer = TruncatedPacker::new(streams.to_vec(), true);
    packer.configure(&SIZES).expect("sizes");
    let error = packer.read(feed).expect_err("must be refused");
    assert_eq!(
        error.message(),
        "For BPTT sequences between different input stream should have the same length."
    );
    assert_eq!((error.kind(), error.class()), (ErrorKind::Data, ExceptionClass::Runtime));
    assert_eq!(read(&mut packer, feed).keys, [1]);
}

#[test]
fn invalid_sequence_is_reported_with_the_next_valid_one() {
    let streams = example_streams();
    for (max_errors, state, fails) in [
        (0, SequenceState::Invalid, true),
        (1, SequenceState::Invalid, false),
        (0, SequenceState::Skipped, false),
    ] {
        let mut sequences = parse(&streams, EXAMPLE);
        sequences[1][1].state = state;
        let feed = &mut TestFeed::new(&streams, sequences, 2, 1);
        feed.max_errors = max_errors;
        let packer = &mut packer(SIZES);
        let result = packer.read(feed);
        if fails {
            assert_eq!(result.expect_err("one too many").message(), "1 invalid");
            assert_eq!(feed.position, 6);
        } else {
            assert_eq!(result.expect("tolerated").keys, [0, 3, 4]);
        }
    }
}

/// A sequence can end a sweep and be the whole data of several lanes, or of one lane several times.
#[test]
fn ends_of_sweeps_are_flagged_once() {
    for (length, truncation, flags) in
        [(1, 2, "****E"), (2, 2, "******E"), (3, 2, "-**-**-**E"), (1, 3, "***E")]
    {
        let (_, feed) = &mut of_lengths(&[length]);
        feed.end = 12 * length;
        let mut packer = TruncatedPacker::new(vec![info("x", Storage::Dense, ElementType::Float, 1)], true);
        packer.configure(&PackConfig { minibatch: 2 * truncation, truncation, ..SIZES }).expect("sizes");
        let (mut found, mut minibatches) = (String::new(), 0);
        loop {
            let minibatch = read(&mut packer, feed);
            if minibatch.streams.is_empty() {
                break;
            }
            minibatches += 1;
            found.push(if minibatch.end_of_sweep { '*' } else { '-' });
            if minibatch.end_of_epoch {
                found.push('E');
            }
        }
        assert_eq!((found.as_str(), minibatches), (flags, flags.len() - 1), "{length} {truncation}");
    }
}

/// After two sweeps without samples, reading ends.
#[test]
fn sweeps_without_samples_end_reading() {
    let mut sequences = parse(&example_streams(), EXAMPLE);
    sequences.iter_mut().for_each(|sequence| sequence[0].state = SequenceState::Skipped);
    let mut feed = TestFeed::new(&example_streams(), sequences, 2, 10);
    let packer = &mut packer(SIZES);
    let end = read(packer, &mut feed);
    assert!(end.streams.is_empty() && end.end_of_epoch && !end.end_of_sweep);
    // Two for each slot.
    assert_eq!(feed.position, 4 * 14);
    // Any number of sweeps fills long minibatches.
    let feed = &mut self::feed(20);
    packer.configure(&PackConfig { minibatch: 100, truncation: 100, ..SIZES }).expect("sizes");
    assert_eq!(read(packer, feed).keys.len(), 7 * 7 + 1);
    assert_eq!(feed.position, 7 * 14 + 3);
}

#[test]
fn gaps_are_filled_with_the_padding_of_class_numbers() {
    let ids = |element, padding| StreamInfo::ids("ids", 99, Ids { element, padding });
    let streams = vec![
        ids(ElementType::Int32, -7),
        ids(ElementType::Int64, -8),
        ids(ElementType::Int32, 0),
        info("x", Storage::Dense, ElementType::Float, 2),
    ];
    let numbers = |samples: u32| {
        let of_stream = |info: &StreamInfo| {
            let mut data = Data { samples, ..Data::default() };
            data.values.resize(1 + samples as usize * info.sample_size() * info.element.size(), 1);
            data
        };
        streams.iter().map(of_stream).collect::<Vec<_>>()
    };
    let feed = &mut TestFeed::new(&streams, vec![numbers(4), numbers(1)], 2, 1);
    let packer = &mut TruncatedPacker::new(streams.clone(), true);
    packer.configure(&PackConfig { minibatch: 4, truncation: 4, ..SIZES }).expect("sizes");
    // The second minibatch reuses the memory of the first.
    drop(read(packer, feed));
    let minibatch = read(packer, feed);
    assert_eq!(records(&minibatch, 0), "0:0[0,1) gap:0[1,4)");
    const ONE: i32 = 0x0101_0101;
    assert_eq!(minibatch.streams[0].dense::<i32>(), Some(&[ONE, -7, -7, -7][..]));
    assert_eq!(minibatch.streams[1].dense::<i64>(), Some(&[0x0101_0101_0101_0101, -8, -8, -8][..]));
    assert_eq!(minibatch.streams[2].dense::<i32>(), Some(&[ONE, 0, 0, 0][..]));
    assert!(minibatch.streams[3].block()[8..].iter().all(|&byte| byte == 0));
}

/// Finds the largest number that is accepted.
fn largest(accepts: impl Fn(u64) -> bool) -> u128 {
    let (mut good, mut bad) = (1, 1 << 60);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        *(if accepts(middle) { &mut good } else { &mut bad }) = middle;
    }
    good.into()
}

/// All limits amount to the same memory.
#[test]
fn minibatches_fit_into_the_memory() {
    let (queued, slot) = (size_of::<QueuedSequence>() as u128, size_of::<Slot>() as u128);
    let float = |size| info("x", Storage::Dense, ElementType::Float, size);
    let late = info("y", Storage::Dense, ElementType::Float, UNKNOWN_DIMENSION);
    let double = info("x", Storage::SparseCsc, ElementType::Double, 1000);
    let mut limits = Vec::new();
    for (streams, bytes) in [
        (vec![float(1)], 4),
        (vec![float(1000)], 4000),
        (vec![double.clone()], 8000),
        (vec![float(1000), late], 4000),
        (vec![float(1000), double], 12000),
    ] {
        let packer = TruncatedPacker::new(streams, true);
        let refused = PackConfig { minibatch: 7, truncation: 1 << 60, ..SIZES };
        assert_eq!(packer.check(&refused).expect_err("too large").kind(), ErrorKind::Memory);
        let most = largest(|truncation| packer.check(&PackConfig { truncation, ..SIZES }).is_ok());
        limits.push(most * (bytes + queued) + slot);
        // One step in each of many slots.
        let sizes = PackConfig { truncation: 1, ..SIZES };
        let most = largest(|minibatch| packer.check(&PackConfig { minibatch, ..sizes }).is_ok());
        limits.push(most * (bytes + queued + slot));
        // Another worker has the other half of them.
        let sizes = PackConfig { workers: 2, rank: 1, ..sizes };
        let most = largest(|minibatch| packer.check(&PackConfig { minibatch, ..sizes }).is_ok());
        limits.push(most / 2 * (bytes + queued + slot));
    }
    let (least, most) = (limits.iter().min().expect("limits"), limits.iter().max().expect("limits"));
    assert!(most - least <= 20_000, "{limits:?}");
}

#[test]
fn invalid_sequence_may_fail_at_once() {
    let mut recorder = Recorder::new("a", RECORDED).with_stream("b");
    recorder.invalid = Some((1, 1));
    let recorder = Arc::new(recorder);
    let mut packer = TruncatedPacker::new(recorder.streams.clone(), true);
    packer.configure(&SIZES).expect("sizes");
    let error = packer.read(&mut recorded(&recorder)).expect_err("must be refused");
    assert_eq!(error.message(), "a0.failure 1 1");
}

#[test]
fn errors_about_sequences_are_located() {
    let recorder = Arc::new(Recorder::new("a", RECORDED));
    let source = AnyDeserializer::Known(recorder.clone());
    let key = Written::at(Some("c.cntk"), 3, 5, String::new());
    let explain = Explain::new(&source, &Arc::new(Corpus::Numeric), key);
    // The chunk does not match its description: not the fault of the packing.
    let streams = vec![recorder.streams[0].clone().with_shape(vec![3])];
    let mut packer = TruncatedPacker::new(streams, true).explained(explain.clone());
    packer.configure(&SIZES).expect("sizes");
    let error = packer.read(&mut recorded(&recorder)).expect_err("must be refused");
    assert_eq!((error.kind(), error.detail()), (ErrorKind::Internal, ""));
    let place = error.location();
    assert_eq!((place.file.as_deref(), place.stream.as_deref()), (Some("a"), Some("a")));
    assert_eq!((place.offset, place.key.as_deref()), (Some(0), Some("a-5")));
    // Lengths differ in the second sequence.
    let streams = ["x", "y"].map(|name| info(name, Storage::Dense, ElementType::Float, 1));
    let feed = &mut TestFeed::parse(&streams, "0 |x 1 |y 1\n1 |x 1 |y 1\n1 |x 1\n", 1);
    let mut packer = TruncatedPacker::new(streams.to_vec(), true).explained(explain);
    packer.configure(&SIZES).expect("sizes");
    let error = packer.read(feed).expect_err("must be refused");
    assert!(error.detail().starts_with("The sequence has 2 samples in 'x' and 1 in 'y'. "), "{error}");
    assert!(error.detail().ends_with("This way of packing is set in line 3 of 'c.cntk'."), "{error}");
    let place = error.location();
    assert_eq!((place.offset, place.line, place.stream.as_deref()), (Some(1), Some(1), Some("y")));
}

#[test]
fn minibatches_count_towards_the_memory() {
    let memory = MinibatchMemory::default();
    let mut packer = TruncatedPacker::new(example_streams(), true).of_memory(&memory);
    packer.configure(&SIZES).expect("sizes");
    let minibatch = read(&mut packer, &mut feed(1));
    assert!(memory.meter().bytes() >= minibatch.bytes() as u64);
    drop((packer, minibatch));
    assert_eq!(memory.meter().bytes(), 0);
}

#[test]
fn repeated_indices_have_their_sum_or_their_last_value() {
    let streams = vec![info("s", Storage::SparseCsc, ElementType::Float, 2)];
    let new = || TruncatedPacker::new(streams.clone(), true);
    for (mut packer, value) in [(new(), 5.0), (new().with_last_of_repeats(), 3.0)] {
        packer.configure(&SIZES).expect("sizes");
        let feed = &mut TestFeed::parse(&streams, "0 |s 1:2 1:3\n", 1);
        let minibatch = read(&mut packer, feed);
        assert_eq!(floats(minibatch.streams[0].block())[..2], [0.0, value]);
    }
}

#[test]
fn sparse_streams_may_stay_sparse() {
    let mut packer = TruncatedPacker::new(example_streams(), true).with_sparse_streams();
    packer.configure(&SIZES).expect("sizes");
    let minibatch = read(&mut packer, &mut feed(1));
    assert_eq!(format!("{} 8", show(&minibatch)), format!("{} {}", FIRST.0, FIRST.1));
    let columns = minibatch.streams[1].sparse::<f32>().expect("sparse columns");
    // Three steps of two lanes: 0 20, 1 21, 2 30.
    assert_eq!(columns.offsets, [0, 1, 2, 4, 6, 6, 7]);
    assert_eq!(columns.indices, [0, 2, 1, 0, 3, 2, 3]);
    assert_eq!(columns.values, [1.0, 21.0, 2.0, 3.0, 22.0, 23.0, 31.0]);
    read(&mut packer, &mut feed(1));
}

/// A vocabulary that would not fit into memory as dense columns.
#[test]
fn sparse_streams_have_any_dimension() {
    let words = 1 << 40;
    let streams = vec![info("s", Storage::SparseCsc, ElementType::Float, words)];
    let sizes = PackConfig { minibatch: 1000, truncation: 100, ..SIZES };
    assert!(TruncatedPacker::new(streams.clone(), true).configure(&sizes).is_err());
    let mut packer = TruncatedPacker::new(streams.clone(), true).with_sparse_streams();
    packer.configure(&sizes).expect("sizes");
    let minibatch = read(&mut packer, &mut TestFeed::parse(&streams, "0 |s 7:1\n0 |s 9:1\n", 1));
    assert_eq!(minibatch.streams[0].block().len(), 8 + 2 * 8 + 1001 * 4);
}
