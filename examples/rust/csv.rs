//! A user-defined deserializer in Rust: tables of numbers in CSV files.
//!
//!     csv FILE COLUMNS [MINIBATCH] [shuffled] [check]
//!
//! Reads one sweep of the file; the first column is the stream `label`, the others are `features`.
//! Prints one line of JSON: the number of samples, and the seconds of the sweep including opening.
//! With `check` it prints sums instead: of (position mod 1009 + 1) times value, for labels and
//! features; and, for any order of lines, of (label + 1) times the features of the line.

use cntk_reader::user::{Buffer, DenseArray, StreamData, UserChunk, UserDeserializer};
use cntk_reader::{Epoch, Error, Minibatch, Reader, ReaderOptions, Result, StreamInfo};
use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Bytes of the file per chunk. Small enough for a chunk to stay in the cache while it is parsed.
const CHUNK: u64 = 1 << 20;

/// Maximum length of a line in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// Powers of ten, by the number of digits after the decimal point.
const POWERS: [f64; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

/// 2^52: the low bits of its sum with a smaller integer are that integer.
const TWO_TO_52: f64 = (1u64 << 52) as f64;

thread_local! {
    /// The text of the chunk that this thread parses.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A CSV file. Each line is a sequence of one sample.
struct Csv {
    file: File,
    path: String,
    size: u64,
    chunks: u32,
    columns: usize,
    streams: [StreamInfo; 2],
}

impl Csv {
    fn open(path: &str, columns: usize) -> Result<Csv> {
        let wrong = |cause: std::io::Error| Error::user(format!("{path}: {cause}"));
        let file = File::open(path).map_err(wrong)?;
        let size = file.metadata().map_err(wrong)?.len();
        let chunks = u32::try_from(size.div_ceil(CHUNK).max(1));
        let chunks = chunks.map_err(|_| Error::user(format!("{path} is too large: it has {size} bytes.")))?;
        let streams = [StreamInfo::dense("label", &[1]), StreamInfo::dense("features", &[columns - 1])];
        Ok(Csv { file, path: path.to_owned(), size, chunks, columns, streams })
    }

    /// Reads from `begin` to `end`, or to the end of the file.
    fn read(&self, begin: u64, end: u64, text: &mut Vec<u8>) -> Result<()> {
        text.resize(end.min(self.size).saturating_sub(begin) as usize, 0);
        self.file.read_exact_at(text, begin).map_err(|cause| Error::user(format!("{}: {cause}", self.path)))
    }

    /// Returns the offset of the first line that begins at or after `offset`.
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
        Err(Error::user(format!("{}: the line at byte {offset} is too long.", self.path)))
    }
}

impl UserDeserializer for Csv {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        self.chunks
    }

    fn loads_in_parallel(&self) -> bool {
        true
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        let offset = u64::from(chunk) * CHUNK;
        TEXT.with_borrow_mut(|text| {
            let begin = self.line_start(offset)?;
            let end = self.line_start(offset + CHUNK)?;
            self.read(begin, end, text)?;
            let values = parse(text, self.columns).map_err(|(place, what)| {
                Error::user(format!("{}: byte {}: {what}.", self.path, begin + place as u64))
            })?;
            let lines = values.len() / self.columns;
            let values = Buffer::from(values);
            // Both streams are columns of one table.
            let columns = |first: usize, width: usize| {
                StreamData::Samples(
                    DenseArray {
                        offset: first * size_of::<f32>(),
                        samples: Some(lines),
                        shape: Some(vec![width]),
                        strides: Some(vec![4, (self.columns * size_of::<f32>()) as isize]),
                        ..DenseArray::new(values.clone())
                    }
                    .into(),
                )
            };
            Ok(UserChunk::arrays(vec![columns(0, 1), columns(1, self.columns - 1)]))
        })
    }
}

/// A syntax error: its offset, and a description.
type SyntaxError = (usize, &'static str);

/// Parses the lines of a table.
fn parse(text: &[u8], columns: usize) -> std::result::Result<Vec<f32>, SyntaxError> {
    let mut values = Vec::with_capacity(text.len() / 8);
    let mut forms = vec![Form::NONE; columns];
    for line in lines(text) {
        let filled = values.len();
        values.resize(filled + columns, 0.0);
        match text[line.start] {
            b'"' => parse_line::<true>(text, line, &mut forms, &mut values[filled..])?,
            _ => parse_line::<false>(text, line, &mut forms, &mut values[filled..])?,
        }
    }
    Ok(values)
}

/// Parses the values of a line. If its first number is `QUOTED`, the others are expected to be
/// quoted; otherwise they are parsed by the slow path.
#[inline(always)]
fn parse_line<const QUOTED: bool>(
    text: &[u8],
    line: Range<usize>,
    forms: &mut [Form],
    values: &mut [f32],
) -> std::result::Result<(), SyntaxError> {
    let mut at = line.start;
    for (value, form) in values.iter_mut().zip(forms) {
        if at > line.end {
            return Err((line.end, "columns are missing"));
        }
        let end;
        (*value, end) = match form.read::<QUOTED>(text, at) {
            Some(found) => found,
            None => form.learn(text, at..line.end)?,
        };
        if end != line.end && text[end] != b',' {
            return Err((end, "not a number"));
        }
        at = end + 1;
    }
    if at > line.end { Ok(()) } else { Err((at - 1, "there are too many columns")) }
}

/// Returns the nonempty lines without their line ends.
fn lines(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let ends = memchr::memchr_iter(b'\n', text).chain(std::iter::once(text.len()));
    let lines = ends.scan(0, |begin, end| Some(std::mem::replace(begin, end + 1)..end));
    let whole = lines.map(|line| line.start..line.end - usize::from(text[line.clone()].ends_with(b"\r")));
    whole.filter(|line| !line.is_empty())
}

/// The same byte eight times.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The form of a number of up to eight characters, without a sign: the positions of its digits.
/// Numbers in a column mostly have the same form. Then only the digits have to be decoded, and
/// parsing the next number does not depend on finding the end of this one. Masks apply to words
/// with the first character in the lowest byte.
#[derive(Clone)]
struct Form {
    characters: usize,
    point: u64,
    whole: u64,
    fraction: u64,
    /// Shifts the last digit to the highest byte.
    shift: u32,
    scale: f64,
}

impl Form {
    /// A form that no number has: every character would be both a point and a digit.
    const NONE: Form =
        Form { characters: 8, point: u64::MAX, whole: u64::MAX, fraction: 0, shift: 0, scale: 1.0 };

    /// Returns the form of an unsigned number, if it has one.
    fn of(number: &[u8]) -> Option<Form> {
        let place = number.iter().position(|&byte| byte == b'.').unwrap_or(number.len());
        let fraction = number.len().saturating_sub(place + 1);
        let digits = number.iter().filter(|byte| byte.is_ascii_digit()).count();
        let is_short = (1..=8).contains(&number.len()) && digits > 0;
        if !is_short || digits + usize::from(place < number.len()) != number.len() {
            return None;
        }
        let bytes = |from: usize, count: usize| match count {
            0 => 0,
            _ => u64::MAX >> (64 - 8 * count) << (8 * from),
        };
        Some(Form {
            characters: number.len(),
            point: bytes(place, number.len() - place - fraction),
            whole: bytes(0, place),
            // The positions of the digits once the point is removed.
            fraction: bytes(place, fraction),
            shift: 64 - 8 * digits as u32,
            scale: POWERS[fraction],
        })
    }

    /// Reads a number of this form. Returns it and the offset after it.
    #[inline(always)]
    fn read<const QUOTED: bool>(&self, text: &[u8], at: usize) -> Option<(f32, usize)> {
        let quote = usize::from(QUOTED);
        let field: &[u8; 16] = text.get(at..)?.first_chunk()?;
        let is_negative = field[quote] == b'-';
        let begin = quote + usize::from(is_negative);
        let end = begin + self.characters;
        let is_ended = match *field.get(end)? {
            b'"' => QUOTED,
            b',' | b'\r' | b'\n' => !QUOTED,
            _ => false,
        };
        let word = u64::from_le_bytes(*field[begin..].first_chunk()?) ^ each(b'0');
        let digits = (word & self.whole) | ((word >> 8) & self.fraction);
        let has_point = word & self.point == each(b'.' ^ b'0') & self.point;
        // The high bit of every byte beyond 9.
        let others = (digits.wrapping_add(each(0x76)) | digits) & each(0x80);
        if !is_ended || !has_point || others != 0 {
            return None;
        }
        // The position of a digit in the word becomes its position in the number.
        let digits = digits << self.shift;
        let pairs = (digits.wrapping_mul(10).wrapping_add(digits >> 8)) & 0x00ff_00ff_00ff_00ff;
        let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
        let eight = fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff;
        // The number as the low bits of a double. The processor's conversion instruction would
        // merge with its target register, and thus depend on the previous number.
        let eight = f64::from_bits(TWO_TO_52.to_bits() | eight) - TWO_TO_52;
        // With up to eight digits, no double is close enough to the midpoint of two floats for
        // double rounding to matter.
        let value = (eight / self.scale) as f32;
        // Branch-free, because signs are unpredictable.
        let value = f32::from_bits(value.to_bits() | u32::from(is_negative) << 31);
        Some((value, at + end + quote))
    }

    /// Reads any number, and expects its form in this column from now on.
    #[cold]
    fn learn(&mut self, text: &[u8], rest: Range<usize>) -> std::result::Result<(f32, usize), SyntaxError> {
        let begin = rest.start;
        let (value, end) = any_number(text, rest)?;
        let number = &text[begin..end];
        let number = number.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(number);
        if let Some(form) = Form::of(number.strip_prefix(b"-").unwrap_or(number)) {
            *self = form;
        }
        Ok((value, end))
    }
}

/// Reads any number, quoted or not, at the start of the rest of a line. Returns it and the offset
/// after it.
fn any_number(text: &[u8], rest: Range<usize>) -> std::result::Result<(f32, usize), SyntaxError> {
    let quote = usize::from(text[rest.clone()].starts_with(b"\""));
    let begin = rest.start + quote;
    let length = match text[begin..rest.end].iter().position(|&byte| byte == [b',', b'"'][quote]) {
        Some(length) => length,
        None if quote == 0 => rest.end - begin,
        None => return Err((rest.start, "a quote is not closed")),
    };
    let number = str::from_utf8(&text[begin..begin + length]).ok().and_then(|text| text.trim().parse().ok());
    Ok((number.ok_or((begin, "not a number"))?, begin + length + quote))
}

/// Reads a sweep, and calls `see` with each minibatch.
fn sweep(
    path: &str,
    columns: usize,
    minibatch_size: u64,
    shuffled: bool,
    mut see: impl FnMut(&Minibatch) -> Result<()>,
) -> Result<()> {
    let mut reader = Reader::builder()
        .options(ReaderOptions::new().randomize(shuffled))
        .deserializer("csv", Csv::open(path, columns)?)
        .open()?;
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(minibatch_size))? {
        see(&minibatch?)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| words.iter().any(|other| other == word);
    let number = |i: usize| words.get(i).and_then(|word| word.parse::<u64>().ok());
    let (Some(path), Some(columns @ 2..)) = (words.first(), number(1)) else {
        eprintln!("usage: csv FILE COLUMNS [MINIBATCH] [shuffled] [check]");
        std::process::exit(2);
    };
    let (columns, minibatch_size, shuffled) = (columns as usize, number(2).unwrap_or(128), has("shuffled"));
    let start = Instant::now();
    if has("check") {
        let (mut lines, mut sums) = (0usize, [0f64; 3]);
        sweep(path, columns, minibatch_size, shuffled, |minibatch| {
            let labels = minibatch.stream("label")?.dense::<f32>()?;
            let features = minibatch.stream("features")?.dense::<f32>()?.chunks(columns - 1);
            for (&label, features) in labels.iter().zip(features) {
                let weight = (lines % 1009 + 1) as f64;
                let features: f64 = features.iter().map(|&value| f64::from(value)).sum();
                sums[0] += weight * f64::from(label);
                sums[1] += weight * features;
                sums[2] += (f64::from(label) + 1.0) * features;
                lines += 1;
            }
            Ok(())
        })?;
        let [label, features, pairs] = sums;
        println!(
            "{{\"samples\": {lines}, \"label\": {label}, \"features\": {features}, \"pairs\": {pairs}}}"
        );
    } else {
        let mut samples = 0;
        sweep(path, columns, minibatch_size, shuffled, |minibatch| {
            samples += minibatch.stream("label")?.samples();
            Ok(())
        })?;
        println!("{{\"samples\": {samples}, \"seconds\": {}}}", start.elapsed().as_secs_f64());
    }
    Ok(())
}
