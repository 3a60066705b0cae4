//! Parsing of one utterance of a text file to a class per frame.

use super::ranges::{self, Columns, Flaw, FrameRange};
use super::scan::key_in_quotes;
use super::states::StateList;
use cntk_reader_core::message::shown::quoted;

/// Parameters of the parser.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    /// The state names, if lines have no class numbers.
    pub states: Option<&'a StateList>,
    /// Exclusive upper bound of classes.
    pub dim: u32,
    /// The column separator of a line.
    pub columns: Columns,
}

/// Destination of an utterance's labels: one element per frame.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub classes: &'a mut [u16],
    /// Set to 2 at the beginning of ranges; otherwise unchanged.
    pub boundaries: Option<&'a mut [u8]>,
}

/// The reason why an utterance is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Invalid {
    /// A range does not begin at the end of the preceding one.
    Gap,
    /// The first range does not begin at frame 0.
    First,
    /// The key line has trailing white space.
    KeyLine(Vec<u8>),
    /// It does not have the lines or frames recorded in the index.
    Length,
}

impl Invalid {
    /// Returns the cause as the end of a sentence about the utterance.
    pub fn found(&self) -> &'static str {
        match self {
            Invalid::Gap => "has a range of frames that does not begin where the one before it ends",
            Invalid::First => "has a first range that does not begin at frame 0",
            Invalid::KeyLine(_) => "has white space after its name",
            Invalid::Length => "does not have the lines and frames recorded in its index",
        }
    }

    /// Returns CNTK's warning, if CNTK has one.
    pub fn reason(&self, key: &str) -> String {
        match self {
            Invalid::Gap => {
                format!("Labels are not in the consecutive order MLF in label set for utterance '{key}'")
            }
            Invalid::First => format!("Invalid first frame in utterance '{key}'"),
            Invalid::KeyLine(line) => {
                let line = quoted(line);
                format!("skipping sequence entry '{line}' due to it being too short or not quoted")
            }
            Invalid::Length => {
                format!("The utterance '{key}' does not have the lines and frames recorded in its index")
            }
        }
    }
}

/// The reason why loading fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// A line cannot be parsed.
    Line { flaw: Flaw, at: usize },
    /// A class is out of range.
    Class { class: u16, at: usize, is_text: bool },
    /// The runs of a binary file have more frames than the utterance.
    Runs { sum: usize, at: usize },
    /// An utterance of a binary file changed its size.
    Short,
}

/// Parses the lines of an utterance, from its key line to its end line. Fails where CNTK does, with
/// the position of the line; an utterance that is merely invalid is `Ok(Err(..))`.
pub(super) fn utterance(
    text: &[u8],
    rules: Rules<'_>,
    mut target: Target<'_>,
) -> Result<Result<(), Invalid>, Failure> {
    let end = memchr::memchr2(b'\n', b'\r', text).unwrap_or(text.len());
    if key_in_quotes(&text[..end]).is_none() {
        return Ok(Err(Invalid::KeyLine(text[..end].to_vec())));
    }
    let mut at = end + 1;
    let frames = target.classes.len() as u32;
    // The first frame of the first range, and the end of the last range.
    let mut covered: Option<(u32, u32)> = None;
    let mut too_large = None;
    let mut add = |range: FrameRange, at: usize| {
        let first = match covered {
            Some((_, next)) if next != range.start => return Err(Invalid::Gap),
            Some((first, _)) => first,
            None => range.start,
        };
        covered = Some((first, range.end));
        if u32::from(range.class) >= rules.dim && too_large.is_none() {
            too_large = Some(Failure::Class { class: range.class, at, is_text: true });
        }
        // Frames beyond the indexed length are ignored, as in CNTK.
        let (from, to) = (range.start.min(frames) as usize, range.end.min(frames) as usize);
        target.classes[from..to].fill(range.class);
        if let Some(boundary) = target.boundaries.as_mut().and_then(|boundaries| boundaries.get_mut(from)) {
            *boundary = 2;
        }
        Ok(())
    };
    // A line is parsed once the next one has been found: the last one only ends the utterance.
    let mut last: Option<(usize, &[u8])> = None;
    while at < text.len() {
        if matches!(text[at], b'\n' | b'\r') {
            at += 1;
            continue;
        }
        if let Some((at, line)) = last.take() {
            let line = rules.columns.single(line);
            let range =
                ranges::frame_range(&line, rules.states).map_err(|flaw| Failure::Line { flaw, at })?;
            if let Err(invalid) = add(range, at) {
                return Ok(Err(invalid));
            }
        }
        while let Some((range, next)) = rules.states.and_then(|states| ranges::usual_line(text, at, states)) {
            if let Err(invalid) = add(range, at) {
                return Ok(Err(invalid));
            }
            at = next;
        }
        let end = memchr::memchr2(b'\n', b'\r', &text[at..]).map_or(text.len(), |length| at + length);
        last = Some((at, &text[at..end]));
        at = end + 1;
    }
    Ok(match covered {
        Some((0, next)) if next >= frames && last.is_some_and(|(_, line)| line == b".") => match too_large {
            Some(failure) => return Err(failure),
            None => Ok(()),
        },
        Some((first, _)) if first > 0 => Err(Invalid::First),
        _ => Err(Invalid::Length),
    })
}
