//! A user's deserializer in Rust: tables of numbers in CSV files.
//!
//!     csv FILE COLUMNS [MINIBATCH] [shuffled] [check]
//!
//! Reads one sweep of the file; the first column is the stream `label`, the others are `features`. Prints one line of
//! JSON: samples and the seconds of the sweep, opening included. With `check` it takes sums instead:
//! (position mod 1009 + 1) times value, of the labels and of the features; and for any order of the rows, (label + 1) times the
//! row's features.

use cntk_reader::config;
use cntk_reader::deserialize::custom::{
    Array, Buffer, ChunkData, DenseArray, Registered, Simple, StreamData, UserDeserializer,
};
use cntk_reader::error::ExceptionClass;
use cntk_reader::pack::minibatch::{Minibatch, StreamMinibatch};
use cntk_reader::randomize::SIZE_OF_SWEEP;
use cntk_reader::reader::{EpochStart, Others, ReadConfig, Reader};
use cntk_reader::stream::{ElementType, Storage, StreamInfo};
use cntk_reader::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of the file that make a chunk. Small enough for a chunk to stay in the cache while it is parsed.
const CHUNK: u64 = 1 << 20;

/// Longest line that is looked for, in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// Powers of ten, by the digits behind the point.
const POWERS: [f64; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

thread_local! {
    /// The text of the chunk that a thread parses.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A CSV file. Each line is a sequence of one sample.
struct Csv {
    file: File,
    path: String,
    size: u64,
    columns: usize,
}

impl Csv {
    fn open(path: &str, columns: usize) -> Result<Csv> {
        let wrong = |cause: std::io::Error| broken(format!("{path}: {cause}"));
        let file = File::open(path).map_err(wrong)?;
        let size = file.metadata().map_err(wrong)?.len();
        Ok(Csv { file, path: path.to_owned(), size, columns })
    }

    /// Reads from `begin` to `end`, or to the end of the file.
    fn read(&self, begin: u64, end: u64, text: &mut Vec<u8>) -> Result<()> {
        text.resize(end.min(self.size).saturating_sub(begin) as usize, 0);
        self.file.read_exact_at(text, begin).map_err(|cause| broken(format!("{}: {cause}", self.path)))
    }

    /// Where the first line begins that does not begin before `offset`.
    fn line_start(&self, offset: u64) -> Result<u64> {
        if offset == 0 || offset >= self.size {
            return Ok(offset.min(self.size));
        }
        let (mut length, mut text) = (4096, Vec::new());
        while length <= LONGEST_LINE {
            self.read(offset - 1, offset - 1 + length as u64, &mut text)?;
            if let Some(line_feed) = text.iter().position(|&byte| byte == b'\n') {
                return Ok(offset + line_feed as u64);
            }
            if text.len() < length {
                return Ok(self.size);
            }
            length *= 16;
        }
        Err(broken(format!("{}: the line at byte {offset} is too long.", self.path)))
    }
}

impl Simple for Csv {
    fn streams(&self) -> Result<Vec<StreamInfo>> {
        let stream = |name: &str, width| StreamInfo {
            name: name.to_owned(),
            storage: Storage::Dense,
            element: ElementType::Float,
            shape: vec![width],
            defines_mb_size: false,
        };
        Ok(vec![stream("label", 1), stream("features", self.columns - 1)])
    }

    fn chunk_count(&self) -> Result<u32> {
        let chunks = self.size.div_ceil(CHUNK).max(1);
        u32::try_from(chunks).map_err(|_| broken(format!("{} is too large.", self.path)))
    }

    fn is_thread_safe(&self) -> bool {
        true
    }

    fn load(&self, chunk: u32) -> Result<ChunkData> {
        let offset = u64::from(chunk) * CHUNK;
        TEXT.with_borrow_mut(|text| {
            let begin = self.line_start(offset)?;
            let end = self.line_start(offset + CHUNK)?;
            self.read(begin, end, text)?;
            let values = parse(text, self.columns).map_err(|(place, what)| {
                broken(format!("{}: byte {}: {what}.", self.path, begin + place as u64))
            })?;
            let rows = values.len() / self.columns;
            let values = Buffer::from(values);
            let part = |first: usize, width: usize| {
                StreamData::Samples(Array::Dense(DenseArray {
                    values: values.clone(),
                    offset: first * size_of::<f32>(),
                    samples: rows,
                    shape: Some(vec![width]),
                    strides: Some(vec![4, (self.columns * size_of::<f32>()) as isize]),
                }))
            };
            Ok(ChunkData { streams: vec![part(0, 1), part(1, self.columns - 1)], keys: None })
        })
    }
}

/// The rows of a table, one after the other; or the place of a mistake, and what it is.
fn parse(text: &[u8], columns: usize) -> std::result::Result<Vec<f32>, (usize, &'static str)> {
    // A value takes at least two bytes.
    let mut values = Vec::with_capacity(text.len() / 8);
    let mut at = 0;
    while at < text.len() {
        if matches!(text[at], b'\r' | b'\n') {
            at += 1;
            continue;
        }
        let mut column = 0;
        while column < columns {
            let before = values.len();
            let most = columns - column - 1;
            match text.get(at) {
                Some(b'"') => at = short_numbers::<true>(text, at, most, &mut values),
                _ => at = short_numbers::<false>(text, at, most, &mut values),
            }
            column += values.len() - before + 1;
            let value;
            (value, at) = any_number(text, at)?;
            values.push(value);
            let is_last = column == columns;
            match text.get(at) {
                Some(b',') if !is_last => at += 1,
                Some(b',') => return Err((at, "there are too many columns")),
                None | Some(b'\r' | b'\n') if is_last => {}
                None | Some(b'\r' | b'\n') => return Err((at, "columns are missing")),
                _ => return Err((at, "no number")),
            }
        }
    }
    Ok(values)
}

/// Appends the numbers from a place on, as long as they have up to eight characters, a sign not counted, and a comma
/// behind them; gives the place behind these. All characters of a number are in one word, the first one in its lowest byte.
fn short_numbers<const QUOTED: bool>(
    text: &[u8],
    mut at: usize,
    most: usize,
    values: &mut Vec<f32>,
) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let quote = usize::from(QUOTED);
    values.extend((0..most).map_while(|_| {
        let field: &[u8; 16] = text.get(at..)?.first_chunk()?;
        let is_negative = field[quote] == b'-';
        let begin = quote + usize::from(is_negative);
        let word = u64::from_le_bytes(*field[begin..].first_chunk()?) ^ (ONES * 0x30);
        // The high bit of every byte beyond 9, right up to the second such byte if the first one is a point.
        let others = (word.wrapping_add(ONES * 0x76) | word) & (ONES * 0x80);
        let (mut digits, mut count, mut fraction) = (word, others.trailing_zeros() / 8, 0);
        let mut end = begin + count as usize;
        if field[end] == b'.' {
            let before = 1u64.checked_shl(8 * count)? - 1;
            digits = (word & before) | ((word >> 8) & !before);
            fraction = (others & (others - 1)).trailing_zeros() / 8 - 1 - count;
            count += fraction;
            end += 1 + fraction as usize;
        }
        let is_done = (!QUOTED || field[end] == b'"') && field[end + quote] == b',';
        if !is_done || count == 0 {
            return None;
        }
        at += end + quote + 1;
        // A digit's place in the word becomes its place in the number.
        let digits = digits << (64 - 8 * count);
        let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
        let eight = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) as u32;
        // With so few digits no double is so near to the middle of two floats that rounding twice would matter.
        let value = (f64::from(eight) / POWERS[fraction as usize & 7]) as f32;
        // Signs cannot be foreseen, so there is no branch.
        Some(f32::from_bits(value.to_bits() | u32::from(is_negative) << 31))
    }));
    at
}

/// Any number, quoted or not, and the place behind it.
fn any_number(text: &[u8], at: usize) -> std::result::Result<(f32, usize), (usize, &'static str)> {
    let is_quoted = text.get(at) == Some(&b'"');
    let begin = at + usize::from(is_quoted);
    let is_end = |byte: &u8| if is_quoted { *byte == b'"' } else { matches!(byte, b',' | b'\r' | b'\n') };
    let length = text[begin..].iter().position(is_end).unwrap_or(text.len() - begin);
    let number =
        std::str::from_utf8(&text[begin..begin + length]).ok().and_then(|text| text.trim().parse().ok());
    Ok((number.ok_or((begin, "no number"))?, begin + length + usize::from(is_quoted)))
}

fn broken(message: String) -> Error {
    Error::new(ErrorKind::User, ExceptionClass::Runtime, message)
}

/// Reads a sweep; gives each minibatch to `see`.
fn sweep(
    path: &str,
    columns: usize,
    minibatch: u64,
    text: &str,
    mut see: impl FnMut(&Minibatch),
) -> Result<()> {
    let deserializer = UserDeserializer::Simple(Arc::new(Csv::open(path, columns)?));
    let registered = [Registered { name: "csv".to_owned(), deserializer }];
    let users = [config::UserType { name: "csv", composable: false }];
    let others = Others { registered: &registered, ..Others::default() };
    let mut reader = Reader::open_with(&config::from_text_with(text, &users)?, &others)?;
    let read =
        ReadConfig { workers: 1, rank: 0, minibatch, truncation: 0, right_splice: 0, cross_sweeps: true };
    reader.start_epoch(&EpochStart { read, samples: SIZE_OF_SWEEP, sweeps: 1, index: 0 })?;
    loop {
        let minibatch = reader.read()?;
        see(&minibatch);
        if minibatch.end_of_epoch {
            return Ok(());
        }
    }
}

fn samples(minibatch: &Minibatch) -> usize {
    minibatch.streams.first().map_or(0, |stream| stream.layout.samples())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    let number = |i: usize| words.get(i).and_then(|word| word.parse::<u64>().ok());
    let (Some(path), Some(columns @ 2..)) = (words.first(), number(1)) else {
        eprintln!("usage: csv FILE COLUMNS [MINIBATCH] [shuffled] [check]");
        std::process::exit(2);
    };
    let (columns, minibatch) = (columns as usize, number(2).unwrap_or(128));
    let text = if has("shuffled") { "" } else { "randomize = false" };
    let (mut rows, mut sums) = (0usize, [0f64; 3]);
    let start = Instant::now();
    if has("check") {
        sweep(path, columns, minibatch, text, |minibatch| {
            if let [labels, features] = &minibatch.streams[..] {
                let of_rows = |stream: &StreamMinibatch, width| {
                    let values = stream.data.bytes().as_chunks::<4>().0.chunks(width);
                    let sum =
                        |row: &[[u8; 4]]| row.iter().map(|value| f64::from(f32::from_ne_bytes(*value))).sum();
                    values.map(sum).collect::<Vec<f64>>()
                };
                for (label, features) in of_rows(labels, 1).into_iter().zip(of_rows(features, columns - 1)) {
                    let weight = (rows % 1009 + 1) as f64;
                    sums[0] += weight * label;
                    sums[1] += weight * features;
                    sums[2] += (label + 1.0) * features;
                    rows += 1;
                }
            }
        })?;
        let [label, features, pairs] = sums;
        println!("{{\"samples\": {rows}, \"label\": {label}, \"features\": {features}, \"pairs\": {pairs}}}");
    } else {
        sweep(path, columns, minibatch, text, |minibatch| rows += samples(minibatch))?;
        println!("{{\"samples\": {rows}, \"seconds\": {}}}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
