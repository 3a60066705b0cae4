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
const CHUNK: u64 = 2 << 20;

/// Longest line that is looked for, in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// Digits that a double holds exactly.
const MOST_DIGITS: usize = 15;

/// Powers of ten that a double holds exactly.
const POWERS: [u64; MOST_DIGITS + 1] = {
    let mut powers = [1; MOST_DIGITS + 1];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

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
        for column in 0..columns {
            let value;
            (value, at) = field(text, at)?;
            values.push(value);
            let is_last = column + 1 == columns;
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

/// The number at a place, quoted or not, and the place behind it. Decimal notation; others take the long way.
#[inline]
fn field(text: &[u8], at: usize) -> std::result::Result<(f32, usize), (usize, &'static str)> {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let is_quoted = byte(at) == b'"';
    let begin = at + usize::from(is_quoted);
    let is_negative = byte(begin) == b'-';
    let first = begin + usize::from(is_negative);
    let (mut mantissa, mut end) = (0u64, first);
    while byte(end).is_ascii_digit() {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(byte(end) - b'0'));
        end += 1;
    }
    let whole = end - first;
    let mut fraction = 0;
    if byte(end) == b'.' {
        end += 1;
        let Some(word) = text.get(end..).and_then(<[u8]>::first_chunk) else {
            return long_way(text, begin, is_quoted);
        };
        let value;
        (value, fraction) = leading_digits(*word);
        end += fraction;
        mantissa = mantissa.wrapping_mul(POWERS[fraction]).wrapping_add(value);
    }
    let stop = if is_quoted { b'"' } else { byte(end) };
    let is_done = byte(end) == stop && matches!(stop, b'"' | b',' | b'\r' | b'\n' | 0);
    if !is_done || whole + fraction == 0 || whole + fraction > MOST_DIGITS {
        return long_way(text, begin, is_quoted);
    }
    // Both are exact, so the quotient is the double closest to the number.
    let value = (mantissa as i64 as f64 / POWERS[fraction] as i64 as f64) as f32;
    // Signs cannot be foreseen, so there is no branch.
    let sign = u32::from(is_negative) << 31;
    Ok((f32::from_bits(value.to_bits() | sign), end + usize::from(is_quoted)))
}

/// The number that the digits at the front of eight bytes stand for, and how many they are. All at once: a byte's place
/// in the word is its digit's place in the number.
fn leading_digits(word: [u8; 8]) -> (u64, usize) {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let digits = u64::from_le_bytes(word) ^ (ONES * 0x30);
    // The high bit of every byte beyond 9, right up to the first such byte.
    let others = (digits.wrapping_add(ONES * 0x76) | digits) & (ONES * 0x80);
    let count = others.trailing_zeros() / 8;
    let digits = digits.checked_shl(64 - 8 * count).unwrap_or(0);
    let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    (eight, count as usize)
}

/// Any other notation.
#[cold]
fn long_way(
    text: &[u8],
    begin: usize,
    is_quoted: bool,
) -> std::result::Result<(f32, usize), (usize, &'static str)> {
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
