//! A line of an utterance: `start end state ...` with a state list, `start end name class` without.
//!
//! Columns are separated by single spaces, unless [`Columns`] says otherwise. The two numbers are
//! times in units of 100 ns if they are at least 99999 apart, otherwise frames. Odd numbers have
//! the same meaning as in CNTK 2.7, which was tested for each of them.

use super::states::StateList;
use crate::htk::MlfOptions;
use cntk_reader_core::cpu::digits::up_to_eight;
use cntk_reader_core::message::shown::{quoted, signed};
use std::borrow::Cow;

/// Units of 100 ns per frame.
pub(super) const FRAME: u64 = 100_000;

/// Integers with this number of digits are exact as `f64`.
const EXACT_DIGITS: usize = 15;

/// Numbers of a line at least this far apart are times.
const LEAST_TIME: f64 = 99_999.0;

/// The column separator of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    /// A single space (CNTK 2.0 to 2.7).
    Blank,
    /// Any number of spaces and tabs, which may also begin and end a line (betas of CNTK 2.0).
    AnyBlanks,
}

impl Columns {
    /// Returns the column separator of files with these options.
    pub fn of(options: &MlfOptions) -> Columns {
        if options.quirks.takes_any_blanks { Columns::AnyBlanks } else { Columns::Blank }
    }

    /// Returns the line with single spaces between its columns.
    pub fn single<'a>(self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let is_odd = || {
            memchr::memchr(b'\t', line).is_some()
                || line.windows(2).any(|pair| pair == b"  ")
                || [line.first(), line.last()].contains(&Some(&b' '))
        };
        match self {
            Columns::AnyBlanks if is_odd() => {
                let columns = line.split(is_blank).filter(|column| !column.is_empty());
                Cow::Owned(columns.collect::<Vec<_>>().join(&b' '))
            }
            _ => Cow::Borrowed(line),
        }
    }
}

/// A range of frames with its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameRange {
    /// Its first frame.
    pub start: u32,
    /// Its end (exclusive).
    pub end: u32,
    /// The class of all its frames.
    pub class: u16,
}

/// A syntax error of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    Columns,
    Start,
    End,
    Backwards,
    TooLarge,
    NotFourColumns,
    UnknownState(Vec<u8>),
    NoClass,
    LargeClass(u64),
}

impl Flaw {
    /// Returns CNTK's message. `offset` is the one that CNTK reports.
    pub fn message(&self, offset: u64) -> String {
        let text: Cow<'static, str> = match self {
            Flaw::Columns => "do not support frame range format with less than two columns.".into(),
            Flaw::Start => "cannot parse start frame of range.".into(),
            Flaw::End => "cannot parse end frame of range.".into(),
            Flaw::Backwards => "frame range end time is earlier than start time.".into(),
            Flaw::TooLarge => "not enough bits for one of the frame range values.".into(),
            Flaw::NotFourColumns => "CNTK supports 4-column format frame range or state list table.".into(),
            Flaw::UnknownState(name) => {
                let name = quoted(name);
                format!("frame range state '{name}' is not found in the statelist").into()
            }
            Flaw::NoClass => "cannot parse class id of the frame range".into(),
            Flaw::LargeClass(class) => format!("not enough bits to represent a class id '{class}'.").into(),
        };
        format!("Offset '{offset}': {text}")
    }

    /// Returns the cause in words of this library.
    pub fn found(&self) -> String {
        match self {
            Flaw::Columns => "A line has fewer than two columns.".to_owned(),
            Flaw::Start => "The first column of a line is not a number.".to_owned(),
            Flaw::End => "The second column of a line is not a number.".to_owned(),
            Flaw::Backwards => "A range ends before it starts.".to_owned(),
            Flaw::TooLarge => "A frame number is too large.".to_owned(),
            Flaw::NotFourColumns => "A line does not have four columns.".to_owned(),
            Flaw::UnknownState(name) => format!("The list of states has no '{}'.", quoted(name)),
            Flaw::NoClass => "The fourth column of a line is not a number.".to_owned(),
            // A negative number was converted.
            Flaw::LargeClass(class) => format!("A label has the class {}.", signed(*class)),
        }
    }

    /// Returns advice about the error.
    pub fn advice(&self) -> &'static str {
        match self {
            Flaw::Columns | Flaw::Start | Flaw::End => {
                "A line must be two numbers and a state, separated by single spaces: neither tabs nor double spaces."
            }
            Flaw::Backwards => "Expected 'first last', or times in units of 100 ns.",
            Flaw::TooLarge => "Frame numbers must be less than 4294967296.",
            Flaw::NotFourColumns => {
                "Without a list of states (‹state_list›) a line must be: start, end, name, class."
            }
            Flaw::UnknownState(_) => {
                "Add the state to the list of states (‹state_list›), or correct the line."
            }
            Flaw::NoClass => "The fourth column must be the number of a class.",
            Flaw::LargeClass(_) => "Classes are numbers from 0 to 65535.",
        }
    }
}

/// Start and end of a line's range in frames, not yet checked, and the rest of the line.
#[derive(Debug)]
pub(super) struct Bounds<'a> {
    pub start: u64,
    pub end: u64,
    /// The columns after the first two, if there are any.
    rest: Option<&'a [u8]>,
}

/// Parses the first two columns of a line.
#[inline]
pub(super) fn bounds(line: &[u8]) -> Result<Bounds<'_>, Flaw> {
    if let Some((start, end, rest)) = usual_bounds(line, 0) {
        return Ok(Bounds { start, end, rest: Some(&line[rest..]) });
    }
    let (start, rest) = column(line);
    let (end, rest) = column(rest.ok_or(Flaw::Columns)?);
    let (start, end) = (start.ok_or(Flaw::Start)?, end.ok_or(Flaw::End)?);
    if end - start >= LEAST_TIME {
        let frame = |time: f64| whole(time / FRAME as f64 + 0.5);
        Ok(Bounds { start: frame(start), end: frame(end), rest })
    } else {
        Ok(Bounds { start: whole(start), end: whole(end), rest })
    }
}

/// Parses a line. Its columns depend on whether there is a state list.
#[inline]
pub(super) fn frame_range(line: &[u8], states: Option<&StateList>) -> Result<FrameRange, Flaw> {
    let Bounds { start, end, rest } = bounds(line)?;
    if end < start {
        return Err(Flaw::Backwards);
    }
    let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(end)) else {
        return Err(Flaw::TooLarge);
    };
    let rest = rest.ok_or(Flaw::NotFourColumns)?;
    let class = match states {
        Some(states) => {
            let name = &rest[..memchr::memchr(b' ', rest).unwrap_or(rest.len())];
            match states.class(name) {
                Some(class) => u16::try_from(class).map_err(|_| Flaw::LargeClass(class.into()))?,
                None => return Err(Flaw::UnknownState(name.to_vec())),
            }
        }
        None => {
            let mut blanks = memchr::memchr_iter(b' ', rest);
            match (blanks.next(), blanks.next()) {
                (Some(blank), None) => class_number(&rest[blank + 1..])?,
                _ => return Err(Flaw::NotFourColumns),
            }
        }
    };
    Ok(FrameRange { start, end, class })
}

/// Fast path of [`frame_range`], three times as fast, for lines with two integers and a known
/// state. The line begins at `at`. Returns the range and the offset of the next nonempty line.
/// `None` for all other lines, and for the last one.
#[inline]
pub(super) fn usual_line(text: &[u8], at: usize, states: &StateList) -> Option<(FrameRange, usize)> {
    let is_break = |byte: u8| matches!(byte, b'\n' | b'\r');
    let (start, end, at) = usual_bounds(text, at)?;
    if end < start {
        return None;
    }
    let (start, end) = (u32::try_from(start).ok()?, u32::try_from(end).ok()?);
    let length = text[at..].iter().position(|&byte| byte == b' ' || is_break(byte))?;
    let (name, mut next) = (&text[at..at + length], at + length);
    if text[next] == b' ' {
        next += memchr::memchr2(b'\n', b'\r', &text[next..])?;
    }
    next += text[next..].iter().position(|&byte| !is_break(byte))?;
    let class = u16::try_from(states.class(name)?).ok()?;
    Some((FrameRange { start, end, class }, next))
}

/// Parses the first two columns of the line at `at`, as frames, if they are usual integers. Also
/// returns the offset of the third column.
#[inline]
fn usual_bounds(text: &[u8], at: usize) -> Option<(u64, u64, usize)> {
    let (start, at) = usual_number(text, at)?;
    let (end, at) = usual_number(text, at)?;
    // With so few digits, integer arithmetic matches the rounding of fractions in `bounds`.
    let is_time = end.saturating_sub(start) >= LEAST_TIME as u64;
    let frame = |number: u64| if is_time { (number + FRAME / 2) / FRAME } else { number };
    Some((frame(start), frame(end), at))
}

/// Parses a number of one to 15 digits at `at`. Also returns the offset of the next column, after a
/// space.
#[inline]
fn usual_number(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let (mut number, count) = up_to_eight(text.get(at..)?)?;
    let mut end = at + count;
    while count == 8 && text.get(end)?.is_ascii_digit() {
        number = number * 10 + u64::from(text[end] - b'0');
        end += 1;
        if end - at > EXACT_DIGITS {
            return None;
        }
    }
    (count > 0 && text[end] == b' ').then_some((number, end + 1))
}

/// Parses the number at the beginning of the first column. Also returns the other columns.
#[inline]
fn column(text: &[u8]) -> (Option<f64>, Option<&[u8]>) {
    let mut number = 0;
    for (at, &byte) in text.iter().enumerate().take(EXACT_DIGITS + 1) {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            number = 10 * number + u64::from(digit);
        } else if byte == b' ' && at > 0 {
            return (Some(number as f64), Some(&text[at + 1..]));
        } else {
            break;
        }
    }
    any_column(text)
}

/// Slow path of [`column()`] for numbers of every kind.
#[cold]
fn any_column(text: &[u8]) -> (Option<f64>, Option<&[u8]>) {
    match memchr::memchr(b' ', text) {
        Some(blank) => (number(&text[..blank]), Some(&text[blank + 1..])),
        None => (number(text), None),
    }
}

/// Parses the decimal number at the beginning of a text; the rest is ignored. `None` also if it is
/// too large for an `f64`.
fn number(text: &[u8]) -> Option<f64> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let special =
        |word: &[u8]| text.get(sign..sign + word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word));
    if special(b"inf") {
        return Some(if text[0] == b'-' { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if special(b"nan") {
        return Some(f64::NAN);
    }
    let digits_from = |at: usize| text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits_from(sign);
    let mut end = sign + whole;
    if text.get(end) == Some(&b'.') {
        let decimals = digits_from(end + 1);
        if whole + decimals == 0 {
            return None;
        }
        end += 1 + decimals;
    } else if whole == 0 {
        return None;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let digits = digits_from((end + 1 + sign).min(text.len()));
        if digits > 0 {
            end += 1 + sign + digits;
        }
    }
    let number: f64 = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// Truncates a number to 64 bits like x86-64 processors: negative numbers become large, infinite
/// ones 0.
#[inline]
fn whole(number: f64) -> u64 {
    const TOP: u64 = 1 << 63;
    if number.abs() < TOP as f64 { number as i64 as u64 } else { odd_whole(number) }
}

#[cold]
fn odd_whole(number: f64) -> u64 {
    const TOP: u64 = 1 << 63;
    // From 2^63 on, the compiled code converts the excess; values that cannot be converted become
    // the smallest signed number.
    match number - TOP as f64 {
        above if (0.0..TOP as f64).contains(&above) => above as u64 ^ TOP,
        above if above >= 0.0 => 0,
        _ => TOP,
    }
}

/// Parses the class at the beginning of a text; the rest is ignored.
fn class_number(text: &[u8]) -> Result<u16, Flaw> {
    let negative = text.first() == Some(&b'-');
    let digits = &text[usize::from(matches!(text.first(), Some(b'+' | b'-')))..];
    let digits = &digits[..digits.iter().take_while(|byte| byte.is_ascii_digit()).count()];
    if digits.is_empty() {
        return Err(Flaw::NoClass);
    }
    let number = digits
        .iter()
        .fold(0i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    let number = if negative { -number } else { number };
    let number = i32::try_from(number).map_err(|_| Flaw::NoClass)?;
    u16::try_from(number).map_err(|_| Flaw::LargeClass(i64::from(number) as u64))
}
