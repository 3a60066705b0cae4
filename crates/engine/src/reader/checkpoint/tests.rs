//! The format of checkpoints, and the facts that they compare.

use super::*;
use crate::randomize::local::LocalPosition;
use crate::reader::tests::source::{InMemory, Source};
use cntk_reader_core::format::options::Format;

fn encoded(facts: &[Fact], checkpoint: &Checkpoint) -> Vec<u8> {
    encode(facts, &checkpoint.epoch, &checkpoint.read, &checkpoint.progress, checkpoint.is_over)
        .expect("memory")
}

fn decode(bytes: &[u8], facts: &[Fact]) -> Result<Checkpoint> {
    decode_against(bytes, |_| Ok(facts.to_vec()))
}

fn example() -> (Vec<Fact>, Checkpoint) {
    let read = ReadConfig {
        workers: 3,
        rank: 1,
        minibatch_size: 32,
        truncation_length: 5,
        right_splice: 1,
        cross_sweeps: true,
    };
    let queue = Queue { cursor: 2, sequences: vec![(SequenceId { chunk: 4, index: 7 }, true)] };
    let progress = Progress {
        position: ReaderPosition::Global(Position { samples: 99, counter: 5 }),
        invalid: 1,
        queues: vec![queue],
        ..Progress::default()
    };
    let epoch = Epoch { read, samples: 1000, sweeps: u64::MAX, index: 2 };
    (vec![("order", "not randomized".to_owned())], Checkpoint { epoch, read, progress, is_over: false })
}

#[test]
fn checkpoints_round_trip() {
    let (facts, checkpoint) = example();
    assert_eq!(decode(&encoded(&facts, &checkpoint), &facts).expect("valid"), checkpoint);
    let over = Checkpoint { is_over: true, ..checkpoint };
    assert_eq!(decode(&encoded(&facts, &over), &facts).expect("valid"), over);
}

#[test]
fn every_flipped_bit_and_truncation_is_rejected() {
    let (facts, checkpoint) = example();
    let bytes = encoded(&facts, &checkpoint);
    for at in 0..bytes.len() {
        assert!(decode(&bytes[..at], &facts).is_err(), "cut at {at}");
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            assert!(decode(&bytes, &facts).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn stream_types_may_differ_but_not_shapes() {
    let (_, checkpoint) = example();
    let facts = |streams: &str| vec![(STREAMS, streams.to_owned())];
    let taken = encoded(&facts("a b dense float [2, 3]; c sparse double [7]"), &checkpoint);
    for (streams, fits) in [
        ("a b dense float [2, 3]; c sparse double [7]", true),
        ("a b dense uint8 [2, 3]; c dense float [7]", true),
        ("a b dense float [2, 4]; c sparse double [7]", false),
        ("b a dense float [2, 3]; c sparse double [7]", false),
        ("a b dense float [2, 3]", false),
    ] {
        assert_eq!(decode(&taken, &facts(streams)).is_ok(), fits, "{streams}");
    }
}

#[test]
fn flags_and_empty_queues_round_trip() {
    let (facts, mut checkpoint) = example();
    checkpoint.read.cross_sweeps = false;
    checkpoint.epoch.read.workers = 9;
    checkpoint.progress.position =
        ReaderPosition::Local(LocalPosition { window: [1, 2], sweeps: 3, samples: 4, entries: 5 });
    let id = SequenceId { chunk: u32::MAX, index: 0 };
    checkpoint.progress.queues =
        vec![Queue::default(), Queue { cursor: 0, sequences: vec![(id, false), (id, true)] }];
    let bytes = encoded(&facts, &checkpoint);
    assert_eq!(decode(&bytes, &facts).expect("valid"), checkpoint);
    assert_eq!(bytes.capacity(), 2 * 16 + 2 * 24 + 1024, "memory is reserved at once");
}

#[test]
fn other_bytes_are_rejected() {
    let (facts, checkpoint) = example();
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = encoded(&facts, &checkpoint);
        bytes.truncate(bytes.len() - 4);
        change(&mut bytes);
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        let error = decode(&bytes, &facts).expect_err("changed");
        assert_eq!(error.class(), ExceptionClass::Runtime);
        error.message().to_owned()
    };
    assert_eq!(changed(&|bytes| bytes[0] = 0), "This is not a checkpoint of cntk-reader.");
    let version = "The checkpoint has version 2; this library reads version 1.";
    assert_eq!(changed(&|bytes| bytes[8] = 2), version);
    let damaged = "The checkpoint is damaged.";
    assert_eq!(changed(&|bytes| bytes.push(0)), damaged);
    assert_eq!(changed(&|bytes| _ = bytes.pop()), damaged);
    // The last number is a flag.
    assert_eq!(changed(&|bytes| *bytes.iter_mut().nth_back(7).expect("a flag") = 2), damaged);
    let mut bytes = encoded(&facts, &checkpoint);
    bytes[20] ^= 1;
    let error = decode(&bytes, &facts).expect_err("a changed byte");
    assert_eq!(error.message(), "The checkpoint is damaged: its checksum does not match.");
}

#[test]
fn facts_name_order_packing_and_draws() {
    let truncated = Packing::Truncated { length: 4, right_splice: 1 };
    let of_block = |window| Order::Block { window, seed: 7 };
    let own = crate::reader::tests::settings();
    let plain = ["not randomized", "sequences", "global", "x dense float [3]"];
    for (changed, index, expected) in [
        (own.clone(), 0, plain[0]),
        (
            ReaderSettings { order: of_block(WindowSize::Chunks(3)), ..own.clone() },
            0,
            "window of 3 chunks, seed 7",
        ),
        (
            ReaderSettings { order: of_block(WindowSize::Samples(3)), ..own.clone() },
            0,
            "window of 3 samples, seed 7",
        ),
        (ReaderSettings { packing: Packing::Frame, ..own.clone() }, 1, "frames"),
        (ReaderSettings { packing: truncated, ..own.clone() }, 1, "truncated to 4, right splice 1"),
        (
            ReaderSettings { packing: truncated, lanes_by_epoch: Some(vec![2, 3]), ..own.clone() },
            1,
            "truncated to the minibatch size, [2, 3] parallel sequences",
        ),
        (ReaderSettings { local_timeline: true, ..own.clone() }, 2, "local"),
        (ReaderSettings { lockstep: true, ..own.clone() }, 2, "global, in lockstep"),
    ] {
        let facts = settings(&changed, &[StreamInfo::dense("x", &[3])]);
        assert_eq!(
            facts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
            ["order", "packing", "timeline", "streams"]
        );
        for (number, (_, value)) in facts.iter().enumerate() {
            assert_eq!(value, if number == index { expected } else { plain[number] });
        }
    }
    let streams =
        [StreamInfo::sparse("a", &[2, 3]).element(ElementType::Double), StreamInfo::dense("b", &[])];
    let streams = [&streams[..], &[StreamInfo::dense("c", &[1]).element(ElementType::Int32)]].concat();
    let facts = settings(&own, &streams);
    assert_eq!(facts[3].1, "a sparse double [2, 3]; b dense float []; c dense int32 [1]");
    let source = std::sync::Arc::new(Source::twelve());
    let one = |reproducible| -> Box<dyn Format> {
        Box::new(InMemory { reproducible, ..InMemory::new("a", &source) })
    };
    let deserializers = vec![one(Some(true)), one(None), one(Some(false))];
    let facts = settings(&ReaderSettings { deserializers, ..own }, &streams);
    assert_eq!(facts[4], ("random transforms", "reproducible; as CNTK draws them".to_owned()));
}

#[test]
fn names_and_shapes_are_found_in_the_fact_about_streams() {
    assert_eq!(shapes("a b dense float [2, 3]; c sparse double []"), [("a b", "2, 3]"), ("c", "]")]);
    assert_eq!(shapes("other"), [("other", "")]);
}

#[test]
fn error_names_the_differences() {
    let (facts, checkpoint) = example();
    let missing = vec![facts[0].clone(), ("packing", "frames".to_owned())];
    let error = decode(&encoded(&facts, &checkpoint), &missing).expect_err("a missing fact");
    assert!(error.message().ends_with("packing: not in the checkpoint, reader 'frames'."), "{error}");
    let other = vec![("order", "window of 3 chunks, seed 7".to_owned())];
    let error = decode(&encoded(&facts, &checkpoint), &other).expect_err("another order");
    assert!(
        error.message().contains("order: checkpoint 'not randomized', reader 'window of 3 chunks, seed 7'")
    );
}
