//! Generates the keys of a bundle's files, and the number of samples of each key in each file.

use super::rng::Rng;
use super::{Format, Keys, Mode, Plan, Source};

/// How the keys of the files differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// All files have the same keys.
    Whole,
    /// Secondary files lack some keys of the first file, but never those of a whole chunk.
    Partial,
    /// Secondary files may lack all keys of a chunk, or all keys.
    Lost,
}

/// Draws the keys of all files.
pub fn keys(rng: &mut Rng, plan: &mut Plan) -> Match {
    let most = *rng.pick(&[3, 12, 40, 150]);
    let count = 2 + rng.below(most) as u64;
    let step = *rng.pick(&[1, 1, 3, 1_000_000_007]);
    let binary = plan.sources[0].format == Format::Binary;
    // Keys of a binary file are ordinals; keys of lines without ids are line numbers.
    let counted = binary || plan.sources.iter().any(|source| !source.ids);
    let step = if counted { 1 } else { step };
    let mut keys: Vec<u64> = (0..count).map(|number| number * step).collect();
    if !binary && plan.sources[0].ids && !rng.once_in(3) {
        shuffle(rng, &mut keys);
        if rng.once_in(4) {
            // A repeated key is another sequence, unless it follows itself.
            let again = keys[rng.below(keys.len())];
            if keys.last() != Some(&again) {
                keys.push(again);
            }
        }
    }
    let lengths: Vec<u64> = keys.iter().map(|_| length(rng, plan)).collect();
    let length_of = |key: u64| keys.iter().position(|&known| known == key).map(|place| lengths[place]);
    let how = match rng.below(4) {
        0 => Match::Lost,
        1 => Match::Partial,
        _ => Match::Whole,
    };
    let mut others = Vec::new();
    for source in &plan.sources[1..] {
        let mut own = keys.clone();
        own.sort_unstable();
        own.dedup();
        if !source.ids {
            // Lines are numbered, so they cannot be in another order, only fewer or more.
            let lines = match how {
                Match::Whole => own.len() as u64,
                Match::Partial | Match::Lost => rng.range(1, count + 3),
            };
            others.push((0..lines).map(|key| (key, Some(1))).collect());
            continue;
        }
        if how != Match::Whole {
            let kept = rng.range(2, 6);
            let first = own[0];
            own.retain(|&key| key == first || !rng.once_in(kept));
            let beyond = count * step;
            own.extend((0..rng.below(4) as u64).map(|more| beyond + more * 2));
        }
        if !rng.once_in(3) {
            shuffle(rng, &mut own);
        }
        if rng.once_in(4) {
            // If several sequences have the same key, a sort picks one, and sorting more than 16
            // sequences is unstable.
            for _ in 0..1 + rng.below(20) {
                let again = own[rng.below(own.len())];
                if own.last() != Some(&again) {
                    own.push(again);
                }
            }
        }
        let mut with_lengths = Vec::with_capacity(own.len());
        for key in own {
            let same = plan.mode != Mode::Sequence || rng.once_in(2);
            let length = length_of(key).filter(|_| same).unwrap_or_else(|| length(rng, plan));
            with_lengths.push((key, Some(length)));
        }
        others.push(with_lengths);
    }
    let primary = keys.iter().copied().zip(lengths.iter().copied().map(Some)).collect();
    plan.sources[0].sequences = Some(primary);
    for (source, sequences) in plan.sources[1..].iter_mut().zip(others) {
        source.sequences = Some(sequences);
    }
    how
}

fn length(rng: &mut Rng, plan: &Plan) -> u64 {
    // Lines without ids are sequences of one sample.
    if plan.mode == Mode::Frame || plan.sources.iter().any(|source| !source.ids) {
        return 1;
    }
    let longest = rng.range(1, 9);
    *rng.pick(&[1, 1, 2, 3, longest])
}

fn shuffle(rng: &mut Rng, keys: &mut [u64]) {
    for end in (1..keys.len()).rev() {
        keys.swap(end, rng.below(end + 1));
    }
}

/// Chooses the files of a bundle, without keys.
pub fn sources(rng: &mut Rng, plan: &Plan) -> Vec<Source> {
    let count = 2 + usize::from(rng.once_in(3));
    let mut names = super::names();
    let definer = if rng.once_in(4) { Some(rng.below(count)) } else { None };
    (0..count)
        .map(|number| {
            // CNTK accepts a binary file only as the first deserializer.
            let binary = number == 0 && plan.keys == Keys::Numeric && rng.once_in(3);
            let streams = 1 + rng.below(2);
            let mut streams = super::streams(rng, &mut names, streams);
            if definer == Some(number) && !binary {
                streams[0].defines_size = true;
            }
            let format = if binary { Format::Binary } else { Format::Text };
            let ids = plan.keys != Keys::Numeric || binary || plan.mode != Mode::Frame && !rng.once_in(6);
            Source {
                name: format!("{}.{}", ["a", "b", "c"][number], format.ending()),
                format,
                streams,
                ids,
                mistakes: false,
                double: plan.double,
                sequences: None,
            }
        })
        .collect()
}
