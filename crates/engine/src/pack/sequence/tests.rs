//! Packing of whole sequences: the example byte for byte, invalid sequences, reuse of memory.

use super::*;
use crate::pack::Packing;
use crate::pack::packer::output_streams;
use crate::pack::test_feed::{
    Data, EXAMPLE, RECORDED, SequenceState, TestFeed, example_streams, first_components, info, parse,
    recorded, records,
};
use crate::testing::{Recorder, logged};
use cntk_reader_core::ErrorKind;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::stream::{ElementType, Ids, Storage};
use cntk_reader_core::written::Written;

const SIZES: PackConfig = PackConfig { workers: 1, rank: 0, minibatch: 7, truncation: 0, right_splice: 0 };

pub(super) fn packer(streams: &[StreamInfo], minibatch: u64) -> SequencePacker {
    let mut packer = SequencePacker::new(streams.to_vec(), true);
    packer.configure(&PackConfig { minibatch, ..SIZES }).expect("sizes");
    packer
}

pub(super) fn read(packer: &mut impl Packer, feed: &mut TestFeed) -> Minibatch {
    packer.read(feed).expect("a minibatch")
}

fn block(values: &[f32], indices: &[i32], offsets: &[i32]) -> Vec<u8> {
    let mut block = (values.len() as u64).to_ne_bytes().to_vec();
    block.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
    block.extend(indices.iter().chain(offsets).flat_map(|number| number.to_ne_bytes()));
    block
}

#[test]
fn the_example_byte_for_byte() {
    let streams = example_streams();
    let feed = &mut TestFeed::parse(&streams, EXAMPLE, 2);
    let packer = &mut packer(&streams, 7);
    let second = (
        (4, 2),
        "0:0[0,2) 1:1[0,4) 2:0[2,3) gap:0[3,4)",
        vec![30., 40., 31., 41., 50., 42., 0., 43.],
        block(
            &[31., 41., 32., 33., 42., 43., 51., 7.],
            &[3, 0, 0, 3, 1, 0, 1, 3],
            &[0, 1, 2, 4, 6, 7, 7, 7, 8],
        ),
        vec![3, 4, 5],
    );
    let expected = [
        (
            (3, 2),
            "0:0[0,3) 1:1[0,1) 2:1[1,3)",
            vec![0., 10., 1., 20., 2., 21.],
            block(&[1., 11., 2., 3., 21., 22., 23.], &[0, 1, 1, 0, 2, 3, 2], &[0, 1, 2, 4, 5, 5, 7]),
            vec![0, 1, 2],
        ),
        second.clone(),
        (
            (3, 3),
            "0:0[0,1) 1:1[0,3) 2:0[1,2) 3:2[0,2) gap:0[2,3) gap:2[2,3)",
            vec![60., 0., 20., 10., 1., 21., 0., 2., 0.],
            block(
                &[61., 1., 21., 11., 2., 3., 22., 23.],
                &[2, 0, 2, 1, 1, 0, 3, 2],
                &[0, 1, 2, 3, 4, 6, 8, 8, 8, 8],
            ),
            vec![6, 0, 1, 2],
        ),
        second,
        ((1, 1), "0:0[0,1)", vec![60.], block(&[61.], &[2], &[0, 1]), vec![6]),
    ];
    for (i, ((steps, lanes), layout, x, s, keys)) in expected.into_iter().enumerate() {
        let minibatch = read(packer, feed);
        for stream in 0..2 {
            assert_eq!(records(&minibatch, stream), layout);
            let layout = &minibatch.streams[stream].layout;
            assert_eq!((layout.steps, layout.lanes, layout.right_splice), (steps, lanes, 0));
        }
        assert_eq!(first_components(&minibatch, 0, 2), x);
        assert_eq!(minibatch.streams[1].block(), s);
        assert_eq!(minibatch.keys, keys);
        assert_eq!(feed.position, [6, 13, 20, 27, 28][i]);
        assert_eq!((minibatch.end_of_sweep, minibatch.end_of_epoch), (i == 2 || i == 4, i == 4));
    }
    for _ in 0..2 {
        let end = read(packer, feed);
        assert!(end.streams.is_empty() && end.keys.is_empty() && end.end_of_sweep && end.end_of_epoch);
    }
}

#[test]
fn streams_of_different_lengths() {
    let text = "0 |x 1 |y 1\n0 |x 2\n0 |x 3\n1 |x 4 |y 2\n1 |y 3\n2 |x 5 |y 4\n";
    let mut streams = vec![
        info("x", Storage::Dense, ElementType::Float, 1),
        info("y", Storage::Dense, ElementType::Float, 1),
    ];
    let feed = &mut TestFeed::parse(&streams, text, 1);
    let minibatch = read(&mut packer(&streams, 6), feed);
    assert_eq!(records(&minibatch, 0), "0:0[0,3) 1:1[0,1) 2:1[1,2) gap:1[2,3)");
    assert_eq!(records(&minibatch, 1), "0:0[0,1) 1:1[0,2) 2:0[1,2)");
    assert_eq!(first_components(&minibatch, 0, 1), [1., 4., 2., 5., 3., 0.]);
    assert_eq!(first_components(&minibatch, 1, 1), [1., 2., 4., 3.]);
    assert_eq!(feed.position, 6);
    streams[1].defines_mb_size = true;
    let feed = &mut TestFeed::parse(&streams, text, 1);
    assert_eq!(read(&mut packer(&streams, 6), feed).keys, [0, 1, 2]);
    assert_eq!(feed.position, 4);
}

#[test]
fn frames() {
    let streams = example_streams();
    let text: String = EXAMPLE.lines().enumerate().map(|(i, line)| format!("{i} {}\n", &line[2..])).collect();
    let feed = &mut TestFeed::parse(&streams, &text, 1);
    let packer = &mut SequencePacker::of_frames(streams.clone(), true);
    assert!(packer.read(feed).is_err(), "not configured");
    packer.configure(&PackConfig { minibatch: 3, ..SIZES }).expect("sizes");
    let minibatch = read(packer, feed);
    assert_eq!(records(&minibatch, 0), "0:0[0,1) 1:1[0,1) 2:2[0,1)");
    assert_eq!((minibatch.streams[0].layout.steps, minibatch.streams[0].layout.lanes), (1, 3));
    assert_eq!(first_components(&minibatch, 0, 2), [0., 1., 2.]);
    assert_eq!(minibatch.streams[1].block(), block(&[1., 2., 3.], &[0, 1, 0], &[0, 1, 3, 3]));
    assert_eq!(minibatch.keys, [0, 1, 2]);
}

#[test]
fn long_sequence_is_not_a_frame() {
    let streams = example_streams();
    let feed = &mut TestFeed::parse(&streams, EXAMPLE, 1);
    let packer = &mut SequencePacker::of_frames(streams, true);
    packer.configure(&PackConfig { minibatch: 3, ..SIZES }).expect("sizes");
    let error = packer.read(feed).expect_err("must be refused");
    assert_eq!(error.message(), "Detected a non-frame sequence of size 3 in frame mode.");
    assert_eq!((error.kind(), error.class()), (ErrorKind::Data, ExceptionClass::Runtime));
    let start = "The sequence has 3 samples in 'x' and 3 in 's'. 'frameMode = true' needs sequences of one";
    assert!(error.detail().starts_with(start), "{error}");
    assert_eq!(feed.position, 3);
    assert!(packer.read(feed).is_err());
    // The long sequences are consumed; only frames are left.
    feed.position = 12;
    feed.next = 5;
    assert_eq!(read(packer, feed).keys, [5, 6]);
}

fn with_states(states: &[(usize, usize, SequenceState)], minibatch: u64) -> (SequencePacker, TestFeed) {
    let streams = example_streams();
    let text: String = (0..6).map(|i| format!("{i} |x {i} {i} |s {}:1\n", i % 4)).collect();
    let mut sequences = parse(&streams, &text);
    for &(sequence, stream, state) in states {
        sequences[sequence][stream].state = state;
    }
    (packer(&streams, minibatch), TestFeed::new(&streams, sequences, 2, 1))
}

#[test]
fn invalid_sequences_are_left_out_of_all_streams() {
    for max_errors in [0, 1] {
        let (mut packer, mut feed) = with_states(&[(1, 1, SequenceState::Invalid)], 3);
        feed.max_errors = max_errors;
        let result = packer.read(&mut feed);
        if max_errors == 0 {
            assert_eq!(result.expect_err("too many").message(), "1 invalid");
            assert!(packer.read(&mut feed).is_err(), "each later read with data fails again");
            assert_eq!(feed.position, 6);
            continue;
        }
        let minibatch = result.expect("tolerated");
        assert_eq!(minibatch.keys, [0, 2]);
        assert_eq!(first_components(&minibatch, 0, 2), [0., 2.]);
        assert_eq!(minibatch.streams[1].block(), block(&[1., 1.], &[0, 2], &[0, 1, 2]));
    }
}

#[test]
fn limit_is_checked_only_with_data() {
    let invalid = |count: usize| (0..count).map(|i| (i, i % 2, SequenceState::Invalid)).collect::<Vec<_>>();
    let (mut packer, mut feed) = with_states(&invalid(2), 2);
    let empty = packer.read(&mut feed).expect("nothing left, nothing compared");
    assert!(empty.streams.is_empty() && !empty.end_of_epoch);
    assert_eq!(packer.read(&mut feed).expect_err("valid data").message(), "2 invalid");
    assert_eq!(packer.read(&mut feed).expect_err("valid data").message(), "2 invalid");
    assert_eq!(feed.position, 6);
    for (max_errors, fails) in [(2, true), (3, false)] {
        let (mut packer, mut feed) = with_states(&invalid(3), 4);
        feed.max_errors = max_errors;
        assert_eq!(packer.read(&mut feed).is_err(), fails);
    }
    let (mut packer, mut feed) = with_states(&invalid(6), 4);
    for position in [4, 6, 6] {
        assert!(packer.read(&mut feed).expect("all invalid: no error").streams.is_empty());
        assert_eq!(feed.position, position);
    }
}

#[test]
fn skipped_sequences_are_not_counted() {
    let (mut packer, mut feed) =
        with_states(&[(0, 0, SequenceState::Skipped), (2, 1, SequenceState::Skipped)], 3);
    assert_eq!(read(&mut packer, &mut feed).keys, [1]);
    assert_eq!(feed.invalid, 0);
}

/// Features, and lattices of 4, 6, 2, 3 and 2 samples, as CNTK 2.7 packs them.
fn with_lattices() -> (Vec<StreamInfo>, Vec<Vec<Data>>) {
    let lattices = info("lattices", Storage::Dense, ElementType::Float, 1).binary();
    let streams = vec![info("x", Storage::Dense, ElementType::Float, 1), lattices];
    let sequence = |(number, (&frames, &samples)): (usize, (&usize, &usize))| {
        let mut data = vec![Data::default(), Data::default()];
        for (data, samples) in data.iter_mut().zip([frames, samples]) {
            (0..samples).for_each(|t| data.dense_sample(ElementType::Float, &[(10 * number + t + 1) as f64]));
        }
        data
    };
    let (frames, samples) = ([7, 5, 9, 4, 6], [4, 6, 2, 3, 2]);
    (streams, frames.iter().zip(&samples).enumerate().map(sequence).collect())
}

#[test]
fn binary_streams_are_sequence_major() {
    let (streams, sequences) = with_lattices();
    let feed = &mut TestFeed::new(&streams, sequences, 2, 1);
    let minibatch = read(&mut packer(&streams, 100), feed);
    let layout = &minibatch.streams[1].layout;
    assert_eq!((layout.steps, layout.lanes, layout.sequence_major), (6, 5, true));
    assert_eq!(records(&minibatch, 1), "0:0[0,4) 1:1[0,6) 2:2[0,2) 3:3[0,3) 4:4[0,2)");
    assert_eq!(
        minibatch.streams[1].dense::<f32>().expect("floats"),
        [
            1., 2., 3., 4., 0., 0., 11., 12., 13., 14., 15., 16., 21., 22., 0., 0., 0., 0., 31., 32., 33.,
            0., 0., 0., 41., 42., 0., 0., 0., 0.
        ]
    );
    assert_eq!(layout.column(1, 3), 19);
    let extent = layout.extent();
    assert_eq!((extent.samples, extent.sequences), (17, 5));
    // The features beside them are packed as usual.
    assert!(!minibatch.streams[0].layout.sequence_major);
    assert_eq!(records(&minibatch, 0).split(' ').count(), 7);
}

/// Both the sequences and their samples are longer than a single copy.
#[test]
fn long_binary_sequences_are_copied_whole() {
    let lattices = info("lattices", Storage::Dense, ElementType::Float, 300).binary();
    let sample = |number: usize| (0..300).map(move |value| (1000 * number + value) as f64);
    let sequence = |samples: std::ops::Range<usize>| {
        let mut data = Data::default();
        samples.for_each(|number| data.dense_sample(ElementType::Float, &sample(number).collect::<Vec<_>>()));
        vec![data]
    };
    let feed =
        &mut TestFeed::new(std::slice::from_ref(&lattices), vec![sequence(0..10), sequence(10..25)], 2, 1);
    let minibatch = read(&mut packer(&[lattices], 100), feed);
    let zeros = vec![0.0; 5 * 300];
    let expected = (0..10).flat_map(sample).chain(zeros).chain((10..25).flat_map(sample));
    let found = minibatch.streams[0].dense::<f32>().expect("floats");
    assert!(expected.map(|value| value as f32).eq(found.iter().copied()));
}

#[test]
fn frames_may_have_whole_binary_sequences() {
    let (mut streams, mut sequences) = with_lattices();
    for sequence in &mut sequences {
        sequence[0] = Data::default();
        sequence[0].dense_sample(ElementType::Float, &[5.0]);
    }
    let mut packer = SequencePacker::of_frames(streams.clone(), true);
    packer.configure(&PackConfig { minibatch: 100, ..SIZES }).expect("sizes");
    let minibatch = read(&mut packer, &mut TestFeed::new(&streams, sequences.clone(), 2, 1));
    assert_eq!((minibatch.streams[0].layout.steps, minibatch.streams[1].layout.steps), (1, 6));
    // Streams that are not binary may not.
    streams[1].is_binary = false;
    let mut packer = SequencePacker::of_frames(streams.clone(), true);
    packer.configure(&PackConfig { minibatch: 100, ..SIZES }).expect("sizes");
    assert!(packer.read(&mut TestFeed::new(&streams, sequences, 2, 1)).is_err());
}

#[test]
fn contradictory_chunks_are_errors() {
    let streams = example_streams();
    let damages: [fn(&mut Vec<Data>); 7] = [
        |sequence| sequence[0].samples = 2,
        |sequence| sequence[0].samples = 0,
        |sequence| sequence[0].values.truncate(5),
        |sequence| sequence[1].indices.truncate(5),
        |sequence| sequence[1].offsets = vec![],
        |sequence| sequence[1].offsets = vec![3, 4, 2, 6],
        |sequence| sequence[1].offsets = vec![3, 4, 6, 7],
    ];
    for damage in damages {
        let mut sequences = parse(&streams, EXAMPLE);
        damage(&mut sequences[0]);
        let feed = &mut TestFeed::new(&streams, sequences, 2, 1);
        assert!(packer(&streams, 7).read(feed).is_err());
    }
    let feed = &mut TestFeed::parse(&streams, EXAMPLE, 1);
    feed.chunks[0] = None;
    let error = packer(&streams, 7).read(feed).expect_err("the chunk is missing");
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[test]
fn memory_is_used_again() {
    let streams = example_streams();
    let feed = &mut TestFeed::parse(&streams, EXAMPLE, 100);
    let packer = &mut packer(&streams, 7);
    let addresses = |minibatch: &Minibatch| {
        let address = |stream: &crate::pack::StreamMinibatch| {
            (stream.block().as_ptr() as usize, stream.layout.records.as_ptr() as usize)
        };
        (minibatch.streams.iter().map(address).collect::<Vec<_>>(), minibatch.keys.as_ptr() as usize)
    };
    // Warm up.
    for _ in 0..5 {
        read(packer, feed);
    }
    let (first, scratch) = (addresses(&read(packer, feed)), packer.scratch.addresses());
    for _ in 0..10 {
        assert_eq!(addresses(&read(packer, feed)), first);
        assert_eq!(packer.scratch.addresses(), scratch);
    }
}

/// CNTK 2.7 leaves data of earlier minibatches in gaps.
#[test]
fn gaps_are_zeros_in_reused_memory() {
    let streams = vec![info("x", Storage::Dense, ElementType::Float, 1)];
    // Two full lanes of 4 samples, then the same columns with gaps in the second lane.
    let full: String = (0..8).map(|i| format!("{} |x 7\n", i / 4)).collect();
    let text = full + "2 |x 1\n2 |x 2\n2 |x 3\n2 |x 4\n3 |x 5\n";
    let feed = &mut TestFeed::parse(&streams, &text, 3);
    let packer = &mut packer(&streams, 8);
    let mut places = Vec::new();
    for _ in 0..3 {
        let minibatch = read(packer, feed);
        assert_eq!(first_components(&minibatch, 0, 1), [7.0; 8]);
        places.push(minibatch.streams[0].block().as_ptr());
        drop(minibatch);
        let minibatch = read(packer, feed);
        assert_eq!(records(&minibatch, 0), "0:0[0,4) 1:1[0,1) gap:1[1,4)");
        assert_eq!(first_components(&minibatch, 0, 1), [1., 5., 2., 0., 3., 0., 4., 0.]);
        places.push(minibatch.streams[0].block().as_ptr());
    }
    // Otherwise the memory would be new, and thus zero.
    assert!(places.windows(2).any(|pair| pair[0] == pair[1]), "{places:?}");
}

/// Class numbers are in one lane, and binary streams in a lane for each sequence, although all
/// lengths are equal.
#[test]
fn each_kind_of_stream_has_its_layout() {
    let x = info("x", Storage::Dense, ElementType::Double, 1);
    let ids = StreamInfo::ids("ids", 99, Ids { element: ElementType::Int64, padding: 0 });
    let binary = x.clone().binary();
    let lanes = ("0:0[0,3) 1:1[0,1) 2:1[1,3)", (3, 2, false), vec![1, 4, 2, 5, 3, 6]);
    let one_lane = ("0:0[0,3) 1:0[3,4) 2:0[4,6)", (6, 1, false), vec![1, 2, 3, 4, 5, 6]);
    let contiguous = ("0:0[0,3) 1:1[0,1) 2:2[0,2)", (3, 3, true), vec![1, 2, 3, 4, 0, 0, 5, 6, 0]);
    let kinds = [(x, lanes), (ids, one_lane), (binary, contiguous)];
    for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 1, 0], [2, 0, 2], [1, 2, 1]] {
        let (streams, expected): (Vec<_>, Vec<_>) =
            order.map(|kind: usize| kinds[kind].clone()).into_iter().unzip();
        let sequence = |numbers: std::ops::Range<i64>| {
            let of_stream = |stream: &StreamInfo| {
                let bytes = |number: i64| match stream.element {
                    ElementType::Int64 => number.to_ne_bytes(),
                    _ => (number as f64).to_ne_bytes(),
                };
                let mut data = Data { samples: numbers.clone().count() as u32, ..Data::default() };
                data.values.extend(numbers.clone().flat_map(bytes));
                data
            };
            streams.iter().map(of_stream).collect::<Vec<_>>()
        };
        let feed = &mut TestFeed::new(&streams, vec![sequence(1..4), sequence(4..5), sequence(5..7)], 2, 1);
        let minibatch = read(&mut packer(&streams, 100), feed);
        for (number, (of_sequences, sizes, values)) in expected.into_iter().enumerate() {
            let stream = &minibatch.streams[number];
            assert_eq!(records(&minibatch, number), of_sequences, "{order:?}");
            let layout = &stream.layout;
            assert_eq!((layout.steps, layout.lanes, layout.sequence_major), sizes, "{order:?}");
            let found: Vec<i64> = match stream.dense::<i64>() {
                Some(numbers) => numbers.to_vec(),
                None => stream.dense::<f64>().expect("values").iter().map(|&value| value as i64).collect(),
            };
            assert_eq!(found, values, "{order:?}");
        }
    }
}

#[test]
fn class_numbers_of_frames_are_in_lanes() {
    let streams = vec![StreamInfo::ids("ids", 99, Ids { element: ElementType::Int64, padding: 0 })];
    let data = Data { samples: 1, values: [&[0][..], &7i64.to_ne_bytes()].concat(), ..Data::default() };
    let mut packer = SequencePacker::of_frames(streams.clone(), true);
    packer.configure(&SIZES).expect("sizes");
    let minibatch = read(&mut packer, &mut TestFeed::new(&streams, vec![vec![data]; 3], 2, 1));
    assert_eq!(records(&minibatch, 0), "0:0[0,1) 1:1[0,1) 2:2[0,1)");
    assert_eq!(minibatch.streams[0].dense::<i64>(), Some(&[7, 7, 7][..]));
}

#[test]
fn sizes_are_checked_and_kept() {
    let mut packer = SequencePacker::new(example_streams(), true);
    let zero = PackConfig { minibatch: 0, ..SIZES };
    assert_eq!(packer.check(&zero).expect_err("must be refused").class(), ExceptionClass::Logic);
    assert!(packer.check(&SIZES).is_ok() && packer.spec().is_none());
    packer.configure(&PackConfig { workers: 2, rank: 1, ..SIZES }).expect("sizes");
    assert!(packer.configure(&zero).is_err());
    let (_, limits) = packer.spec().expect("sizes");
    assert_eq!(limits, Limits { global: u64::MAX, local: 3 });
    let mut queues = vec![Queue::default(); 2];
    packer.queued(&mut queues).expect("memory");
    assert_eq!((queues, packer.held_samples()), (vec![], 0));
    let load = &mut |_: SequenceId| Err(Error::internal("nothing is queued"));
    packer.restore(&SIZES, &[], load).expect("no queues");
    assert_eq!(packer.spec().expect("sizes").1.local, 7);
}

#[test]
fn sizes_without_a_sample_for_the_worker_are_warned_about_once() {
    let small = PackConfig { workers: 3, rank: 2, minibatch: 2, ..SIZES };
    for (local_timeline, sizes, expected) in [(true, small, 1), (false, small, 0), (true, SIZES, 0)] {
        let mut packer = SequencePacker::new(example_streams(), local_timeline);
        let (_, lines) = logged(|| {
            packer.configure(&sizes).expect("sizes");
            packer.configure(&sizes).expect("sizes");
        });
        assert_eq!(lines.len(), expected, "{lines:?}");
        assert!(lines.iter().all(|(level, _)| *level == Level::Warning));
    }
}

#[test]
fn minibatches_count_towards_the_memory() {
    let memory = MinibatchMemory::default();
    let streams = example_streams();
    let mut packer = SequencePacker::new(streams.clone(), true).of_memory(&memory);
    packer.configure(&SIZES).expect("sizes");
    let minibatch = read(&mut packer, &mut TestFeed::parse(&streams, EXAMPLE, 1));
    assert!(memory.meter().bytes() >= minibatch.bytes() as u64);
    drop((packer, minibatch));
    assert_eq!(memory.meter().bytes(), 0);
}

#[test]
fn only_truncation_makes_streams_dense() {
    let streams = example_streams();
    assert_eq!(output_streams(&streams, Packing::Sequence, true), streams);
    assert_eq!(output_streams(&streams, Packing::Frame, true), streams);
}

#[test]
fn sequences_are_prefetched_before_they_are_looked_up() {
    let recorder = Arc::new(Recorder::new("a", RECORDED));
    read(&mut packer(&recorder.streams, 100), &mut recorded(&recorder));
    let far = ["a0.prefetch 0 Far", "a0.prefetch 1 Far", "a1.prefetch 0 Far"];
    let near = ["a0.prefetch 0 Near", "a0.prefetch 1 Near", "a1.prefetch 0 Near"];
    assert_eq!(recorder.calls.take(), [far, near].concat());
}

#[test]
fn invalid_sequence_may_fail_at_once() {
    let mut recorder = Recorder::new("a", RECORDED).with_stream("b");
    recorder.invalid = Some((1, 1));
    let recorder = Arc::new(recorder);
    let error = packer(&recorder.streams, 100).read(&mut recorded(&recorder)).expect_err("must be refused");
    assert_eq!(error.message(), "a0.failure 1 1");
}

#[test]
fn errors_about_sequences_are_located() {
    let recorder = Arc::new(Recorder::new("a", RECORDED));
    let source = AnyDeserializer::Known(recorder.clone());
    let key = Written::at(Some("c.cntk"), 3, 5, String::new());
    let explain = || Explain::new(&source, &Arc::new(Corpus::Numeric), key.clone());
    let refused = |packer: SequencePacker| {
        let mut packer = packer.explained(explain());
        packer.configure(&SIZES).expect("sizes");
        let error = packer.read(&mut recorded(&recorder)).expect_err("must be refused");
        let place = error.location();
        assert_eq!((place.file.as_deref(), place.stream.as_deref()), (Some("a"), Some("a")));
        assert_eq!((place.offset, place.key.as_deref()), (Some(0), Some("a-5")));
        error
    };
    // A sequence of two samples is not a frame: the packing may be a mistake.
    let error = refused(SequencePacker::of_frames(recorder.streams.clone(), true));
    assert!(error.detail().ends_with("This way of packing is set in line 3 of 'c.cntk'."), "{error}");
    // The chunk does not match its description.
    let wide = recorder.streams[0].clone().with_shape(vec![3]);
    assert_eq!(refused(SequencePacker::new(vec![wide.clone()], true)).detail(), "");
    assert_eq!(refused(SequencePacker::new(vec![wide], true)).kind(), ErrorKind::Internal);
}
