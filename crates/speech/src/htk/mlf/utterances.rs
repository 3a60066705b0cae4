//! Iteration over the utterances of a label file, for conversions.

use super::binary::{self, Version};
use super::index::{Entry, LONGEST};
use super::open::{open_file, open_text};
use super::parse::{self, Rules, Target};
use super::ranges::{self, Columns};
use super::scan::{self, EndFinder, TextFile};
use super::states::StateList;
use super::{LARGEST_DIM, chunk};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::Repeated;
use cntk_reader_core::{Error, Result};
use std::collections::VecDeque;
use std::ops::Range;

/// The labels of an utterance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UtteranceLabels {
    /// Its key.
    pub key: Vec<u8>,
    /// One class per frame.
    pub classes: Vec<u16>,
    /// Offset of the utterance in the file.
    pub offset: u64,
}

/// Iterates over the utterances of a text or binary label file, in order. Text without class
/// numbers needs the state list `states`. Invalid utterances are logged and skipped; anything that
/// a deserializer fails on is an error.
///
/// Must be called on a thread of the library's pool; the iterator may be used on any thread.
pub fn utterances<'a>(path: &str, is_binary: bool, states: Option<&'a StateList>) -> Result<Utterances<'a>> {
    let file = if is_binary { open_file(path)? } else { open_text(path)? };
    let source = if is_binary {
        let version = binary::read_version(&file)?;
        let mut places = VecDeque::new();
        binary::index(&file, version, |key, entry| {
            room::reserve(&mut places, 1, room::CONVERSION)?;
            places.push_back((key.to_vec(), entry));
            Ok(())
        })?;
        UtteranceSource::Binary { version, places }
    } else {
        let text = TextFile { file: &file, size: file.size()?, columns: Columns::Blank };
        text.check_header()?;
        UtteranceSource::Text {
            pieces: text.pieces()?.into(),
            piece: 0..0,
            at: 0,
            ends: Box::new(EndFinder::new()),
        }
    };
    let skipped = Repeated::new("utterances that could not be read and were left out");
    Ok(Utterances { file, states, source, text: Vec::new(), skipped })
}

/// The iterator returned by [`utterances`].
pub struct Utterances<'a> {
    file: DataFile,
    states: Option<&'a StateList>,
    source: UtteranceSource,
    /// The current piece of a text file, or the current utterance of a binary one.
    text: Vec<u8>,
    /// Utterances that were skipped.
    skipped: Repeated,
}

enum UtteranceSource {
    Text {
        pieces: VecDeque<Range<u64>>,
        /// The piece in memory.
        piece: Range<u64>,
        /// Offset in the piece from which to search for the next utterance.
        at: usize,
        ends: Box<EndFinder>,
    },
    Binary {
        version: Version,
        places: VecDeque<(Vec<u8>, Entry)>,
    },
}

impl Utterances<'_> {
    /// Returns the number of processed bytes, and the size of the file.
    pub fn progress(&self) -> (u64, u64) {
        let size = self.file.size().unwrap_or(0);
        let done = match &self.source {
            UtteranceSource::Text { piece, at, .. } => piece.start + *at as u64,
            UtteranceSource::Binary { places, .. } => places.front().map_or(size, |(_, entry)| entry.offset),
        };
        (done, size)
    }

    /// Reports skipped utterances at the end of the file.
    fn end(&self) -> Option<UtteranceLabels> {
        self.skipped.summarize(self.file.path());
        None
    }

    /// Returns the next valid utterance.
    fn advance(&mut self) -> Result<Option<UtteranceLabels>> {
        loop {
            let (key, entry, result, classes) = match &mut self.source {
                UtteranceSource::Text { pieces, piece, at, ends } => {
                    let size = (piece.end - piece.start) as usize;
                    let Some(found) = scan::next_utterance(&self.text[..size], *at, ends) else {
                        let Some(next) = pieces.pop_front() else { return Ok(self.end()) };
                        let text = TextFile { file: &self.file, size: next.end, columns: Columns::Blank };
                        text.read(&next, &mut self.text)?;
                        (*piece, *at) = (next, 0);
                        continue;
                    };
                    *at = found.place.end;
                    let offset = piece.start + found.place.start as u64;
                    let (Some(key), Some((line, last))) = (found.key, found.last) else {
                        let path = self.file.path();
                        self.skipped.warn(|| vec![format!(
                            "The utterance at offset {offset} of '{path}' has no name or no ranges of frames. It is left out."
                        )]);
                        continue;
                    };
                    let bounds = ranges::bounds(last).map_err(|flaw| {
                        let offset = piece.start + line as u64;
                        let error = Error::data(flaw.message(offset))
                            .as_cntk()
                            .with_detail(flaw.found())
                            .with_detail(flaw.advice());
                        error.in_file(self.file.path()).at(offset, self.file.line_at(offset))
                    })?;
                    let entry =
                        Entry { key: 0, offset, size: found.place.len() as u32, frames: bounds.end as u32 };
                    let mut classes = room::zeroed(kept_frames(entry), room::CONVERSION)?;
                    let (dim, columns) = (LARGEST_DIM as u32 + 1, Columns::Blank);
                    let rules = Rules { states: self.states, dim, columns };
                    let target = Target { classes: &mut classes, boundaries: None };
                    let result = parse::utterance(&self.text[found.place], rules, target);
                    (room::copy(key, room::CONVERSION)?, entry, result, classes)
                }
                UtteranceSource::Binary { version, places } => {
                    let Some((key, entry)) = places.pop_front() else { return Ok(self.end()) };
                    room::resize(&mut self.text, entry.size as usize, 0, room::FILE)?;
                    self.file.read_exact_at(entry.offset, &mut self.text)?;
                    let mut classes = room::zeroed(kept_frames(entry), room::CONVERSION)?;
                    let result =
                        binary::utterance(&self.text, *version, LARGEST_DIM as u32 + 1, &mut classes).map(Ok);
                    (key, entry, result, classes)
                }
            };
            let text = quoted(&key);
            match result {
                Ok(Ok(())) if entry.frames <= LONGEST => {
                    return Ok(Some(UtteranceLabels { key, classes, offset: entry.offset }));
                }
                Ok(Ok(())) => {
                    let frames = entry.frames;
                    self.skipped.warn(|| vec![format!(
                        "Cannot parse the utterance '{text}' at offset {} of '{}': it has {frames} frames, but at most {LONGEST} are \
                         possible. It is left out.",
                        entry.offset,
                        self.file.path()
                    )]);
                }
                Ok(Err(invalid)) => {
                    self.skipped.warn(|| {
                        vec![format!(
                            "Cannot parse the utterance '{text}' at offset {} of '{}': {}. It is left out.",
                            entry.offset,
                            self.file.path(),
                            invalid.reason(&text)
                        )]
                    });
                }
                Err(failure) => {
                    let error = chunk::failed(&self.file, entry, LARGEST_DIM as u32 + 1, failure, true);
                    return Err(error.for_key(text));
                }
            }
        }
    }
}

/// Returns the number of frames kept for an utterance.
fn kept_frames(entry: Entry) -> usize {
    if entry.frames > LONGEST { 0 } else { entry.frames as usize }
}

impl Iterator for Utterances<'_> {
    type Item = Result<UtteranceLabels>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
