//! Compares the engine with a naive reader: random data, orders, workers and operations, minibatch
//! by minibatch.

#![cfg(feature = "compression")]

mod common;
mod naive;

use cntk_reader_core::testing;
use naive::case::{Scale, cases, check};
use naive::timeline::{NO_LIMIT, Order, Share, Span, Timeline, Twister, Window};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Checks the model itself against orders recorded from CNTK 2.7.
#[test]
fn model_matches_orders_of_cntk() {
    let mut twister = Twister::new(5489);
    assert_eq!((0..10_000).map(|_| twister.draw()).last(), Some(9_981_545_732_273_789_042));

    let twelve = || (0..3).map(|_| vec![1; 4]).collect();
    let ragged = || vec![vec![3, 1, 2], vec![2, 4], vec![1, 1]];
    let chunks = |seed, window| Order::Randomized { seed, window: Window::Chunks(window) };
    let samples = |seed, window| Order::Randomized { seed, window: Window::Samples(window) };
    type Row = (Vec<Vec<u64>>, Order, u64, u64, &'static str);
    let rows: [Row; 14] = [
        (
            twelve(),
            chunks(0, 128),
            1,
            0,
            "10 2 8 0 4@5 | 9 7 6 5 11@10 | 1 3 8 10 1*@15 | 2 11 5 0 9@20 | 6 4 3 7*@24",
        ),
        (
            twelve(),
            chunks(7, 2),
            1,
            0,
            "3 11 2 9 0@5 | 1 8 10 4 6@10 | 5 7 4 6 11*@15 | 10 7 5 9 8@20 | 0 2 3 1*@24",
        ),
        (
            twelve(),
            samples(0, 8),
            1,
            0,
            "2 0 1 3 4@5 | 6 5 7 11 9@10 | 8 10 0 2 3*@15 | 1 10 9 8 11@20 | 5 6 4 7*@24",
        ),
        (
            twelve(),
            samples(7, 18),
            1,
            0,
            "1 0 2 9 10@5 | 3 5 6 4 7@10 | 8 11 4 8 5*@15 | 10 6 7 1 9@20 | 0 2 3 11*@24",
        ),
        (
            twelve(),
            chunks((1 << 33) + 7, 2),
            1,
            0,
            "4 7 2 1 6@5 | 3 0 5 10 8@10 | 9 11 2 11 3*@15 | 1 10 0 8 9@20 | 7 6 4 5*@24",
        ),
        (twelve(), chunks(0, 2), 2, 0, "2 3 0@5 | 1 10 11@10 | 9 8 2*@15 | 1 3 0@20 | 4 5 7@23 | 6*@24"),
        (twelve(), chunks(7, 2), 3, 2, "4@9 | 6@10 | 5@11 | 7*@12 | 0@21 | 2@22 | 3@23 | 1*@24"),
        (
            twelve(),
            Order::InOrder,
            1,
            0,
            "0 1 2 3 4@5 | 5 6 7 8 9@10 | 10 11 0 1 2*@15 | 3 4 5 6 7@20 | 8 9 10 11*@24",
        ),
        (twelve(), Order::InOrder, 2, 1, "1 3@4 | 5 7@8 | 9 11*@12 | 1 3@16 | 5 7@20 | 9 11*@24"),
        (ragged(), Order::InOrder, 1, 0, "0 1@4 | 2 3@8 | 4 5@13 | 6 0 1*@18 | 2 3@22 | 4 5@27 | 6*@28"),
        (ragged(), Order::InOrder, 2, 1, "1@6 | 3@8 | 5*@14 | 0@17 | 2@20 | 4@26 | 6*@28"),
        (ragged(), chunks(0, 2), 1, 0, "4@4 | 0 3@9 | 1 2 5 6*@14 | 1 0 5@19 | 2 6@22 | 4@26 | 3*@28"),
        (ragged(), chunks(0, 2), 2, 0, "0@9 | 1 2@12 | 5 6 1*@15 | 0@19 | 2@22 | 4@26 | 3*@28"),
        (ragged(), chunks(7, 2), 1, 0, "6 2 1 5@5 | 0 3@10 | 4*@14 | 3 5 6@18 | 4 1@23 | 2 0*@28"),
    ];
    for (data, order, workers, rank, recorded) in rows {
        let numbers: Vec<usize> = data
            .iter()
            .scan(0, |sum, chunk| {
                let first = *sum;
                *sum += chunk.len();
                Some(first)
            })
            .collect();
        let mut timeline = Timeline::new(data, order);
        let span = Span { samples: NO_LIMIT, sweeps: 2, index: 0 };
        timeline.start(span, Share { workers, rank, cross_sweeps: true });
        let mut lines = Vec::new();
        loop {
            let picked = timeline.pick(u64::MAX, 5 / workers + u64::from(5 % workers > rank));
            if picked.sequences.is_empty() {
                break;
            }
            let names: Vec<_> =
                picked.sequences.iter().map(|&(chunk, index)| (numbers[chunk] + index).to_string()).collect();
            let flag = if picked.end_of_sweep { "*" } else { "" };
            lines.push(format!("{}{flag}@{}", names.join(" "), timeline.position));
        }
        assert_eq!(lines.join(" | "), recorded, "{order:?}, worker {rank} of {workers}");
    }
}

/// 200 fixed cases; 10,000 random ones in the long form.
#[test]
fn engine_matches_the_model() {
    common::quiet();
    let is_long = testing::is_long();
    let number = if is_long { 10_000 } else { 200 };
    let config = Config { cases: number, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = if is_long { TestRunner::new(config) } else { TestRunner::new_with_rng(config, rng) };
    let result = runner.run(&cases(Scale { sequences: 40, steps: 12 }), |case| {
        let folder = tempfile::tempdir().expect("a folder");
        check(&case, folder.path(), &|| ());
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    println!("figures: {number} random cases, all as in the model");
}
