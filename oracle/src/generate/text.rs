//! Generates text files: sequences of samples in lines, with all the freedom of the format, and
//! some errors.

use super::rng::Rng;
use super::{Keys, Mode, Plan, Source, Stream};

/// Errors in a line. Most of them are malformed in one place and harmless in another.
const MISTAKES: [&[u8]; 30] = [
    b"a", b"1,2", b".5", b"nan", b"1e", b"--1", b"+-2", b"1:2", b"9999:1", b"1:", b"x", b":", b"1.5.5",
    b"1e39", b"0e400", b"||", b"| ", b"|q", b"|# c", b"|#", b"\t", b"\r", b"\x0b", b"#", b"\x00", b"\xff",
    b"-", b"1e+", b" 7", b"\n",
];

/// Generates the content of a file. The keys of a bundle's file are given; other keys are drawn
/// here.
pub fn write(rng: &mut Rng, plan: &Plan, source: &Source) -> Vec<u8> {
    let keys = match &source.sequences {
        Some(sequences) => sequences.clone(),
        None => ascending(rng),
    };
    let final_line_end = !rng.once_in(7);
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for (number, &(key, length)) in keys.iter().enumerate() {
        // Values missing from a last sample without line end are uninitialized memory in CNTK.
        let careful = number + 1 == keys.len() && !final_line_end;
        sequence(rng, plan, source, (key, length), careful, &mut lines);
    }
    let line_end: &[u8] = if rng.once_in(4) { b"\r\n" } else { b"\n" };
    let mut text = Vec::new();
    if rng.once_in(20) {
        text.extend_from_slice("\u{feff}".as_bytes());
    }
    if rng.once_in(10) && source.sequences.is_none() {
        text.extend_from_slice(b"\n\n");
    }
    text.extend_from_slice(&lines.join(line_end));
    if final_line_end {
        text.extend_from_slice(line_end);
    }
    text
}

/// Generates mostly ascending keys, without lengths.
fn ascending(rng: &mut Rng) -> Vec<(u64, Option<u64>)> {
    let most = *rng.pick(&[4, 19, 59, 199]);
    let sequences = 1 + rng.below(most);
    let mut key = rng.range(0, 4);
    let mut keys = Vec::with_capacity(sequences);
    for _ in 0..sequences {
        keys.push((key, None));
        key = match rng.below(40) {
            0 => rng.range(0, key),
            1 => key + 1_000_000_007,
            2..10 => key + 7,
            _ => key + 1,
        };
    }
    keys
}

/// Generates the lines of one sequence.
fn sequence(
    rng: &mut Rng,
    plan: &Plan,
    source: &Source,
    (key, length): (u64, Option<u64>),
    careful: bool,
    lines: &mut Vec<Vec<u8>>,
) {
    let longest = rng.range(1, 11);
    let drawn = if source.ids { *rng.pick(&[1, 1, 2, 3, longest]) } else { 1 };
    let length = length.unwrap_or(drawn);
    let lengths: Vec<u64> =
        source.streams.iter().map(|stream| samples(rng, plan, source, stream, length)).collect();
    for row in 0..lengths.iter().copied().max().unwrap_or(1) {
        let mut parts = Vec::new();
        for (stream, &length) in source.streams.iter().zip(&lengths) {
            if row < length {
                parts.push(format!("|{} {}", stream.alias, sample(rng, stream, careful)));
            }
        }
        if rng.once_in(10) {
            parts.push("|# a comment here".to_owned());
        }
        if rng.once_in(20) {
            parts.push("|zz 1 2 3".to_owned());
        }
        if source.mistakes && rng.once_in(60) && !careful {
            parts.push(parts[0].clone());
        }
        for end in (1..parts.len()).rev() {
            parts.swap(end, rng.below(end + 1));
        }
        let mut line = Vec::new();
        // Textual keys count on every line.
        if source.ids && (row == 0 || plan.keys != Keys::Numeric || !rng.once_in(3)) {
            line.extend_from_slice(plan.keys.text(key).as_bytes());
            let separators: &[&str] =
                if plan.keys == Keys::Numeric { &[" ", "\t", "", " "] } else { &[" ", "\t"] };
            line.extend_from_slice(rng.pick(separators).as_bytes());
        }
        line.extend_from_slice(parts.join(rng.pick::<&str>(&[" ", "", " \t"])).as_bytes());
        if source.mistakes && rng.once_in(30) && !careful {
            let place = rng.below(line.len() + 1);
            line.splice(place..place, rng.pick(&MISTAKES).iter().copied());
        }
        lines.push(line);
    }
}

/// Returns the number of samples of a stream in a sequence. Truncated minibatches need the same
/// number in all streams; the stream that defines the size may be shorter than others.
fn samples(rng: &mut Rng, plan: &Plan, source: &Source, stream: &Stream, length: u64) -> u64 {
    if source.mistakes && rng.once_in(200) {
        return 0;
    }
    let defined = source.streams.iter().any(|stream| stream.defines_size);
    let equal = plan.mode != Mode::Sequence && !(source.mistakes && rng.once_in(100));
    if stream.defines_size || equal {
        length
    } else if defined {
        rng.range(1, length + u64::from(source.ids))
    } else if rng.once_in(5) {
        rng.range(1, length)
    } else {
        length
    }
}

/// Generates the values of a sample. A dense sample may lack values unless `careful`.
fn sample(rng: &mut Rng, stream: &Stream, careful: bool) -> String {
    let values: Vec<String> = if stream.sparse {
        let count = rng.below(stream.dim.min(4) + 1);
        let mut rows: Vec<usize> = (0..stream.dim).collect();
        (0..count).map(|_| format!("{}:{}", rows.swap_remove(rng.below(rows.len())), number(rng))).collect()
    } else {
        let short = !careful && rng.once_in(30);
        let count = if short { rng.below(stream.dim + 1) } else { stream.dim };
        (0..count).map(|_| number(rng)).collect()
    };
    values.join(rng.pick::<&str>(&[" ", " ", " ", "\t", "  "]))
}

/// Generates a number in one of the possible notations.
fn number(rng: &mut Rng) -> String {
    // From -1 to 1.
    let unit = rng.range(0, 2_000_000_000) as f64 / 1e9 - 1.0;
    match rng.below(12) {
        0 => (rng.below(600) as i64 - 300).to_string(),
        1 => format!("{:.6}", unit * 10.0),
        2 => format!("{:.3e}", unit * 10.0),
        3 => unit.to_string(),
        4 => format!("{}.", rng.below(100)),
        5 => format!("{:.17e}", unit * 10f64.powi(rng.below(16) as i32 - 8)),
        6 => format!("{}{}.{}", &"00"[..rng.below(3)], digits(rng, 18), digits(rng, 22)),
        7 => format!("+{}.{}", digits(rng, 3), digits(rng, 3)),
        8 => rng
            .pick(&["0", "-0", "-0.0", "1", "1e0", "1E5", "2e-3", "5e+2", "007", "1e-46", "3e38", "1e23"])
            .to_string(),
        9 => format!("{}e{}", digits(rng, 4), rng.below(80) as i64 - 40),
        10 => format!("{}.{}", digits(rng, 40), digits(rng, 40)),
        _ => format!("{:.2}", unit),
    }
}

/// Generates one to `most` digits.
fn digits(rng: &mut Rng, most: usize) -> String {
    let count = 1 + rng.below(most);
    (0..count).map(|_| char::from(b'0' + rng.below(10) as u8)).collect()
}
