//! Generates binary files in the layout of CNTK's own converter, but with more variety: chunks of
//! any size, streams of different lengths, unsorted and repeated sparse indices, meaningless bytes.

use super::rng::Rng;
use super::{Mode, Plan, Source, Stream};
use crate::golden::Rewritten;

const MAGIC: u64 = 0x636e_746b_5f62_696e;

/// Generates the content of a file.
pub fn write(rng: &mut Rng, plan: &Plan, source: &Source, one_chunk: bool) -> Vec<u8> {
    let mut file = MAGIC.to_le_bytes().to_vec();
    file.extend(1u32.to_le_bytes());
    let lengths: Vec<u64> = match &source.sequences {
        Some(sequences) => sequences.iter().map(|&(_, length)| length.unwrap_or(1)).collect(),
        None => lengths(rng, plan),
    };
    let most = *rng.pick(&[1, 2, 5, 30, 1000]);
    let mut rest = &lengths[..];
    let mut table = Vec::new();
    while !rest.is_empty() {
        let size = if one_chunk { rest.len() } else { (1 + rng.below(most)).min(rest.len()) };
        let (chunk, following) = rest.split_at(size);
        rest = following;
        let start = file.len() as u64;
        let samples = write_chunk(rng, plan, source, chunk, &mut file);
        table.extend(start.to_le_bytes());
        table.extend((chunk.len() as u32).to_le_bytes());
        table.extend(samples.to_le_bytes());
    }
    let header = file.len() as u64;
    file.extend(MAGIC.to_le_bytes());
    file.extend(((table.len() / 16) as u32).to_le_bytes());
    file.extend((source.streams.len() as u32).to_le_bytes());
    for stream in &source.streams {
        file.push(stream.sparse.into());
        file.extend((stream.alias.len() as u32).to_le_bytes());
        file.extend(stream.alias.as_bytes());
        file.push(source.double.into());
        file.extend((stream.dim as u32).to_le_bytes());
    }
    file.extend(table);
    if rng.once_in(8) {
        file.extend([7; 5]);
    }
    file.extend(header.to_le_bytes());
    file
}

/// Chooses how the converters rewrite a file. Samples without values are lost on the way, so some
/// sequences may end up without samples.
pub fn rewritten(rng: &mut Rng, source: &Source, one_chunk: bool) -> Rewritten {
    let line = |stream: &Stream| {
        let kind = if stream.sparse { "sparse" } else { "dense" };
        format!("{0} {0} {kind} {1}\n", stream.alias, stream.dim)
    };
    let chunk_size = if one_chunk { 1 << 20 } else { *rng.pick(&[0, 50, 300, 3000, 1 << 20]) };
    let flags = match (source.double, rng.once_in(2)) {
        (true, true) => "ds",
        (true, false) => "d-",
        (false, true) => "s",
        (false, false) => "-",
    };
    Rewritten { streams: source.streams.iter().map(line).collect(), chunk_size, flags }
}

fn lengths(rng: &mut Rng, plan: &Plan) -> Vec<u64> {
    let most = *rng.pick(&[4, 19, 59, 199]);
    let longest = rng.range(1, 11);
    let length = |rng: &mut Rng| if plan.mode == Mode::Frame { 1 } else { *rng.pick(&[1, 1, 2, 3, longest]) };
    (0..=rng.below(most)).map(|_| length(rng)).collect()
}

/// Appends a chunk. Returns its number of samples.
fn write_chunk(rng: &mut Rng, plan: &Plan, source: &Source, lengths: &[u64], file: &mut Vec<u8>) -> u32 {
    // One of the streams has as many samples as the sequence, others may have fewer.
    let full: Vec<usize> = lengths.iter().map(|_| rng.below(source.streams.len())).collect();
    lengths.iter().for_each(|&length| file.extend((length as u32).to_le_bytes()));
    for (number, stream) in source.streams.iter().enumerate() {
        for (&length, &full) in lengths.iter().zip(&full) {
            let shorter = plan.mode == Mode::Sequence && full != number && rng.once_in(5);
            let samples = if shorter { rng.range(1, length) } else { length };
            write_sequence(rng, source, stream, samples, file);
        }
    }
    if rng.once_in(10) {
        file.extend([9; 12]);
    }
    lengths.iter().sum::<u64>() as u32
}

fn write_sequence(rng: &mut Rng, source: &Source, stream: &Stream, samples: u64, file: &mut Vec<u8>) {
    file.extend((samples as u32).to_le_bytes());
    if !stream.sparse {
        (0..samples * stream.dim as u64).for_each(|_| value(rng, source, file));
        return;
    }
    let counts: Vec<usize> = (0..samples).map(|_| rng.below(stream.dim.min(4) + 1)).collect();
    let total: usize = counts.iter().sum();
    file.extend((total as i32).to_le_bytes());
    (0..total).for_each(|_| value(rng, source, file));
    for _ in 0..total {
        file.extend((rng.below(stream.dim) as i32).to_le_bytes());
    }
    counts.iter().for_each(|&count| file.extend((count as i32).to_le_bytes()));
}

/// Appends a value with any bits except a NaN's: all NaNs print alike.
fn value(rng: &mut Rng, source: &Source, file: &mut Vec<u8>) {
    let unit = rng.range(0, 2_000_000) as f64 / 1e6 - 1.0;
    let value = match rng.below(10) {
        0 => 0.0,
        1 => -0.0,
        2 => unit * 1e-40,
        3 => unit * 1e30,
        4 => f64::INFINITY,
        _ => unit * 100.0,
    };
    match source.double {
        true => file.extend(value.to_le_bytes()),
        false => file.extend((value as f32).to_le_bytes()),
    }
}
