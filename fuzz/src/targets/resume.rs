//! Resumed reading equals uninterrupted reading, in new readers and in used ones.

use crate::case::Case;
use crate::common::scenario::{LIMIT, Scenario, compare, open};
use crate::common::seen::{read, read_all};

/// The input: choices of a run, and of the minibatches at which it is resumed.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let scenario = Scenario::random(case.choices.below(0xffff) as u64);
    let config = scenario.write(case.folder());
    let all = read_all(&mut scenario.started(&config), LIMIT).expect("an uninterrupted run");

    // Checkpoints before every minibatch, from a reader that is never resumed.
    let mut straight = scenario.started(&config);
    let mut checkpoints = Vec::new();
    for wanted in &all {
        checkpoints.push(straight.checkpoint().expect("a checkpoint"));
        assert_eq!(&read(&mut straight).expect("a minibatch"), wanted, "while checkpoints are taken");
    }
    let mut used = straight;
    for _ in 0..3 {
        let at = case.choices.below(checkpoints.len());
        let mut fresh = open(&config);
        for (what, reader) in [("a new reader", &mut fresh), ("a used reader", &mut used)] {
            reader.restore(&checkpoints[at]).expect("a checkpoint that fits");
            assert_eq!(
                reader.checkpoint().expect("a checkpoint"),
                checkpoints[at],
                "{what}, checkpoint {at}"
            );
            // Not always to the end, so that the next restore finds the reader in the middle.
            let until = at + case.choices.below(all.len() - at + 1);
            let got: Vec<_> = (at..until).map(|_| read(reader).expect("a minibatch")).collect();
            compare(&format!("{what}, from minibatch {at}"), &got, &all[at..until]);
        }
    }
}
