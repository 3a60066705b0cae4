//! Members of a [`family`](crate::family): shapes described by the form of their lines.

use crate::random::Random;
use crate::shapes::{Stream, number};
use crate::sums::StreamSums;
use std::fmt;

/// The notation of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// Always 1.
    One,
    /// Whole numbers below this limit, or their negatives with `signs`.
    Integer(u32),
    /// Decimals with this many digits after the point.
    Fixed(u32),
    /// Decimals with up to this many digits after the point: trailing zeros are left out.
    Trimmed(u32),
    /// Scientific notation: a digit, a point, some digits, and a power of ten.
    Exponent,
}

/// Values in [`Notation::Exponent`] are whole numbers divided by 10 to this power.
const EXPONENT_DIGITS: u32 = 6;

/// Limit of values scaled to whole numbers, so that single precision represents them exactly.
const LARGEST: u32 = 1 << 23;

impl Notation {
    /// Returns the factor that turns values into whole numbers.
    pub fn scale(self) -> u32 {
        match self {
            Notation::One | Notation::Integer(_) => 1,
            Notation::Fixed(digits) | Notation::Trimmed(digits) => 10_u32.pow(digits),
            Notation::Exponent => 10_u32.pow(EXPONENT_DIGITS),
        }
    }

    /// Writes a random value, and returns it as a whole number.
    fn write(self, text: &mut Vec<u8>, random: &mut Random, signs: bool) -> i64 {
        let limit = match self {
            Notation::One => return push_one(text),
            Notation::Integer(limit) => limit,
            _ => LARGEST.min(3 * self.scale()),
        };
        let magnitude = random.below(limit);
        let is_negative = signs && magnitude > 0 && random.below(2) == 0;
        if is_negative {
            text.push(b'-');
        }
        match self {
            Notation::One | Notation::Integer(_) => number(text, u64::from(magnitude)),
            Notation::Fixed(digits) => decimal(text, magnitude, digits, false),
            Notation::Trimmed(digits) => decimal(text, magnitude, digits, true),
            Notation::Exponent => scientific(text, magnitude),
        }
        if is_negative { -i64::from(magnitude) } else { i64::from(magnitude) }
    }
}

fn push_one(text: &mut Vec<u8>) -> i64 {
    text.push(b'1');
    1
}

/// Writes `magnitude / 10^digits`.
fn decimal(text: &mut Vec<u8>, magnitude: u32, mut digits: u32, trim: bool) {
    let scale = 10_u32.pow(digits);
    number(text, u64::from(magnitude / scale));
    let mut fraction = magnitude % scale;
    while trim && digits > 0 && fraction.is_multiple_of(10) {
        fraction /= 10;
        digits -= 1;
    }
    if digits > 0 {
        text.push(b'.');
        let place = text.len();
        text.resize(place + digits as usize, b'0');
        for digit in text[place..].iter_mut().rev() {
            *digit = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
    }
}

/// Writes `magnitude / 10^EXPONENT_DIGITS` as C's `%e` does.
fn scientific(text: &mut Vec<u8>, magnitude: u32) {
    let places = magnitude.checked_ilog10().unwrap_or(0);
    decimal(text, magnitude, places, false);
    let exponent = if magnitude == 0 { 0 } else { i64::from(places) - i64::from(EXPONENT_DIGITS) };
    text.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    text.extend_from_slice(format!("{:02}", exponent.unsigned_abs()).as_bytes());
}

/// The lines of a sequence that have a sample of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    All,
    First,
    Last,
}

/// The samples of a stream.
#[derive(Debug, Clone)]
pub struct Samples {
    /// Name, dimension and storage.
    pub stream: Stream,
    /// The notation of values.
    pub notation: Notation,
    /// Whether half of the values are negative.
    pub signs: bool,
    /// Entries of a sparse sample, on average; 0 for exactly one.
    pub entries: u32,
    /// One sparse sample in this many has no entries; 0 for none.
    pub empty: u32,
    /// The lines that have a sample.
    pub lines: Lines,
}

impl Samples {
    fn write(&self, text: &mut Vec<u8>, random: &mut Random, blank: u8, sums: &mut StreamSums) {
        text.push(b'|');
        text.extend_from_slice(self.stream.name.as_bytes());
        sums.samples += 1;
        let Stream { dim, sparse, .. } = self.stream;
        let mut value = |text: &mut Vec<u8>, random: &mut Random, row| {
            let value = self.notation.write(text, random, self.signs);
            sums.add_value(row, value);
        };
        if !sparse {
            for row in 0..dim {
                text.push(blank);
                value(text, random, row);
            }
            return;
        }
        if self.empty > 0 && random.below(self.empty) == 0 {
            return;
        }
        let mut entry = |text: &mut Vec<u8>, random: &mut Random, row: u32| {
            text.push(blank);
            number(text, u64::from(row));
            text.push(b':');
            value(text, random, row);
        };
        if self.entries == 0 {
            let row = random.below(dim);
            return entry(text, random, row);
        }
        // Steps are `dim / entries` on average.
        let step = (2 * dim / self.entries).max(1);
        let mut row = random.below(step.min(dim));
        while row < dim {
            entry(text, random, row);
            row += 1 + random.below(step);
        }
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.stream.sparse, self.entries) {
            (false, _) => write!(f, "dense {}", self.stream.dim)?,
            (true, 0) => write!(f, "one of {}", self.stream.dim)?,
            (true, entries) => write!(f, "{entries} of {}", self.stream.dim)?,
        }
        let sign = if self.signs { "-" } else { "" };
        match self.notation {
            Notation::One => {}
            Notation::Integer(2) => write!(f, " {sign}1")?,
            Notation::Integer(limit) => write!(f, " {sign}{}", "9".repeat(limit.ilog10() as usize))?,
            Notation::Fixed(digits) => write!(f, " {sign}0.{}", "9".repeat(digits as usize))?,
            Notation::Trimmed(digits) => write!(f, " {sign}0.[{}]", "9".repeat(digits as usize))?,
            Notation::Exponent => write!(f, " {sign}1e-6")?,
        }
        if self.empty > 0 {
            write!(f, " or none")?;
        }
        match self.lines {
            Lines::All => Ok(()),
            Lines::First => write!(f, " on the first line"),
            Lines::Last => write!(f, " on the last line"),
        }
    }
}

/// The sequence ids at the beginning of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// No ids: each line is a sequence.
    None,
    /// Consecutive numbers from 0.
    Short,
    /// Numbers of 16 digits.
    Long,
    /// Consecutive numbers that the reader treats as text.
    Digits,
    /// Text with letters. CNTK counts an error for each such line.
    Text,
}

impl Ids {
    fn write(self, text: &mut Vec<u8>, id: u64) {
        match self {
            Ids::None => {}
            Ids::Short | Ids::Digits => number(text, id),
            Ids::Long => number(text, 1_000_000_000_000_000 + 7 * id),
            Ids::Text => {
                text.extend_from_slice(b"spk-");
                number(text, id);
            }
        }
    }
}

/// The comments of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comments {
    /// Size of the longest comment in bytes.
    pub longest: u32,
    /// One in this many places has a comment.
    pub every: u32,
    /// Whether comments may follow each sample, or only the last sample of a line.
    pub each_sample: bool,
}

impl Comments {
    fn write(self, text: &mut Vec<u8>, random: &mut Random, gap: u8) {
        if random.below(self.every) > 0 {
            return;
        }
        text.push(gap);
        text.extend_from_slice(b"|# ");
        for _ in 0..random.below(self.longest) {
            text.push(b" abcdefghijklmnopqrstuvwxyz0123456789.,:-'"[random.below(42) as usize]);
        }
    }
}

/// Data whose lines all look alike.
#[derive(Debug, Clone)]
pub struct Member {
    /// The streams in alphabetical order, which is the reader's.
    pub samples: Vec<Samples>,
    /// The order of the streams in a line.
    pub order: Vec<usize>,
    pub ids: Ids,
    /// Lines of the longest sequence.
    pub longest: u32,
    pub comments: Option<Comments>,
    /// The byte between samples.
    pub gap: u8,
    /// The byte between values.
    pub blank: u8,
    /// Number of blanks before the end of a line.
    pub trailing: usize,
    pub crlf: bool,
}

impl Member {
    /// Writes a sequence, and fills in its sums.
    pub fn write(&self, text: &mut Vec<u8>, random: &mut Random, id: u64, sums: &mut [StreamSums]) {
        let last = random.below(self.longest);
        for line in 0..=last {
            self.ids.write(text, id);
            let mut gap = if self.ids == Ids::None { None } else { Some(self.gap) };
            for &stream in &self.order {
                let samples = &self.samples[stream];
                let is_here = match samples.lines {
                    Lines::All => true,
                    Lines::First => line == 0,
                    Lines::Last => line == last,
                };
                if !is_here {
                    continue;
                }
                text.extend(gap);
                gap = Some(self.gap);
                samples.write(text, random, self.blank, &mut sums[stream]);
                if let Some(comments) = self.comments.filter(|comments| comments.each_sample) {
                    comments.write(text, random, self.gap);
                }
            }
            if let Some(comments) = self.comments.filter(|comments| !comments.each_sample) {
                comments.write(text, random, self.gap);
            }
            text.extend(std::iter::repeat_n(b' ', self.trailing));
            text.extend_from_slice(if self.crlf { b"\r\n" } else { b"\n" });
        }
    }

    /// Returns the lines of the reader's configuration before the deserializers.
    pub fn head(&self) -> &'static str {
        match self.ids {
            Ids::Digits | Ids::Text => "useNumericSequenceKeys = false\n",
            _ => "",
        }
    }

    /// Returns the options of the deserializer besides file and streams.
    pub fn options(&self) -> &'static str {
        if self.ids == Ids::Text { "maxErrors = 1000000000\n    " } else { "" }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let streams: Vec<String> =
            self.order.iter().map(|&stream| self.samples[stream].to_string()).collect();
        write!(f, "{}", streams.join(" + "))?;
        if self.longest > 1 {
            write!(f, "; {} lines", self.longest)?;
        }
        match self.ids {
            Ids::None => {}
            Ids::Short => write!(f, "; ids")?,
            Ids::Long => write!(f, "; long ids")?,
            Ids::Digits => write!(f, "; ids as text")?,
            Ids::Text => write!(f, "; text ids")?,
        }
        if let Some(Comments { longest, every, .. }) = self.comments {
            write!(f, "; comments up to {longest}")?;
            if every > 1 {
                write!(f, " on one in {every}")?;
            }
        }
        for (is_so, what) in [
            (self.gap == b'\t' || self.blank == b'\t', "tabs"),
            (self.trailing > 0, "trailing blanks"),
            (self.crlf, "CRLF"),
        ] {
            if is_so {
                write!(f, "; {what}")?;
            }
        }
        Ok(())
    }
}
