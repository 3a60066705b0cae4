//! Configuration texts that remember where they were written, so that an error about a value can
//! show its line.
//!
//! Reading a configuration joins files, drops comments and replaces variables. A [`SourceText`]
//! keeps, for each piece of text, its offset in the [`SourceFiles`] that the piece was copied from.

use cntk_reader_core::Error;
use cntk_reader_core::written::Written;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Maximum number of characters of a line that an error shows.
const SHOWN: usize = 100;

/// The input of a configuration: one text, or the texts of a file and the files that it includes.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    files: Vec<File>,
    /// Total bytes of all files.
    size: usize,
}

#[derive(Debug)]
struct File {
    /// Path of the file; None for text that was not read from one.
    name: Option<String>,
    text: Arc<str>,
    /// Offset of the text in the source.
    base: usize,
}

impl SourceFiles {
    /// Adds a text and returns its offset in the source.
    pub fn add(&mut self, name: Option<&str>, text: Arc<str>) -> usize {
        let base = self.size;
        self.size += text.len() + 1;
        self.files.push(File { name: name.map(str::to_owned), text, base });
        base
    }

    fn place(&self, at: usize) -> Option<Place<'_>> {
        let file = self.files.partition_point(|file| file.base <= at).checked_sub(1)?;
        let File { name, text, base } = &self.files[file];
        let at = (at - base).min(text.len());
        let start = text.as_bytes()[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        Some(Place {
            file: name.as_deref(),
            number: text.as_bytes()[..start].iter().filter(|&&byte| byte == b'\n').count() as u64 + 1,
            column: text.get(start..at).map_or(0, |before| before.chars().count()),
            line,
        })
    }
}

/// A position in one of the files of a source.
struct Place<'s> {
    file: Option<&'s str>,
    /// Line number, from 1.
    number: u64,
    /// Characters of the line before the position.
    column: usize,
    line: &'s str,
}

impl Place<'_> {
    /// Returns the line with a caret under the column, both indented.
    fn excerpt(&self) -> String {
        // A long line is shown starting a little before the column.
        let skipped = if self.column > SHOWN * 3 / 4 { self.column - SHOWN / 2 } else { 0 };
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        let shown: String = self.line.chars().skip(skipped).take(SHOWN).map(plain).collect();
        let cut = if self.line.chars().nth(skipped + SHOWN).is_some() { " ..." } else { "" };
        let number = self.number.to_string();
        let dots = if skipped > 0 { "... " } else { "" };
        let before = self.column - skipped + dots.len();
        format!(
            "  {number} | {dots}{}{cut}\n  {:width$} | {:before$}^",
            shown.trim_end(),
            "",
            "",
            width = number.len()
        )
    }
}

/// The place where something was written.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    source: Arc<SourceFiles>,
    at: usize,
}

impl Origin {
    /// Adds this place to an error that has none.
    pub fn blame(&self, error: Error) -> Error {
        self.written().blame(error)
    }

    /// Returns the place without the text around it.
    pub fn written(&self) -> Written {
        let place = self.source.place(self.at);
        place.map_or_else(Written::default, |place| {
            Written::at(place.file, place.number, place.column as u64 + 1, place.excerpt())
        })
    }

    /// Returns its offset in all files of the configuration, for comparisons.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Returns whether both are in one file.
    pub fn is_beside(&self, other: &Origin) -> bool {
        let file =
            |origin: &Origin| origin.source.place(origin.at).map(|place| place.file.map(str::to_owned));
        Arc::ptr_eq(&self.source, &other.source) && file(self) == file(other)
    }

    /// Returns a phrase such as `line 3 of 'a.cntk'`.
    pub fn describe(&self) -> String {
        self.written().describe().unwrap_or_else(|| String::from("the configuration"))
    }
}

/// A text that remembers, for each piece, the place that it was copied from.
#[derive(Debug, Clone, Default)]
pub(super) struct SourceText {
    text: String,
    /// Pieces in the order of the text. Text before the first one has no origin.
    runs: Vec<Run>,
    source: Option<Arc<SourceFiles>>,
}

/// A piece of a text: from `at` up to the next run.
#[derive(Debug, Clone, Copy)]
struct Run {
    at: usize,
    /// Offset in the source; None for text that was not written there.
    origin: Option<usize>,
}

impl SourceText {
    /// The empty text.
    pub const EMPTY: SourceText = SourceText { text: String::new(), runs: Vec::new(), source: None };

    /// Returns a text without an origin in a configuration.
    pub fn generated(text: &str) -> SourceText {
        SourceText { text: text.to_owned(), ..SourceText::default() }
    }

    /// Returns a text that is its own source.
    pub fn written(text: &str) -> SourceText {
        let mut source = SourceFiles::default();
        source.add(None, Arc::from(text));
        let runs = vec![Run { at: 0, origin: Some(0) }];
        SourceText { text: text.to_owned(), runs, source: Some(Arc::new(source)) }
    }

    /// Returns whether it is the value of a key without a value.
    pub fn is_flag(&self) -> bool {
        self.text == "true" && self.runs.is_empty()
    }

    /// Returns the same text as a part of `source`, which its origins refer to.
    pub fn of(mut self, source: SourceFiles) -> SourceText {
        self.source = Some(Arc::new(source));
        self
    }

    /// Appends text that was written at `origin`, an offset in the source.
    pub fn push_from(&mut self, text: &str, origin: Option<usize>) {
        if text.is_empty() {
            return;
        }
        let at = self.text.len();
        let continued = match self.runs.last() {
            Some(last) => last.origin.map(|start| start + (at - last.at)),
            None => None,
        };
        if continued != origin {
            self.runs.push(Run { at, origin });
        }
        self.text.push_str(text);
    }

    /// Appends a part of another text.
    pub fn push(&mut self, other: &SourceText, part: Range<usize>) {
        if self.source.is_none() {
            self.source.clone_from(&other.source);
        }
        let is_same = match (&self.source, &other.source) {
            (Some(own), Some(its)) => Arc::ptr_eq(own, its),
            _ => false,
        };
        if !is_same {
            return self.push_from(&other.text[part], None);
        }
        let first = other.runs.partition_point(|run| run.at <= part.start).saturating_sub(1);
        let mut at = part.start;
        for (index, run) in other.runs.iter().enumerate().skip(first) {
            if run.at >= part.end {
                break;
            }
            if run.at > at {
                self.push_from(&other.text[at..run.at], None);
                at = run.at;
            }
            let end = other.runs.get(index + 1).map_or(part.end, |next| next.at.min(part.end));
            self.push_from(&other.text[at..end], run.origin.map(|origin| origin + (at - run.at)));
            at = end;
        }
        self.push_from(&other.text[at..part.end], None);
    }

    /// Returns a part of the text.
    pub fn slice(&self, part: Range<usize>) -> SourceText {
        let mut slice = SourceText::default();
        slice.push(self, part);
        slice
    }

    /// Returns where the byte at this offset was written.
    pub fn origin(&self, at: usize) -> Option<Origin> {
        let run = self.runs[..self.runs.partition_point(|run| run.at <= at)].last()?;
        let source = Arc::clone(self.source.as_ref()?);
        Some(Origin { source, at: run.origin? + (at - run.at) })
    }

    /// Adds to an error, if it has no place, the place where the byte at this offset was written.
    pub fn blame(&self, at: usize, error: Error) -> Error {
        match self.origin(at) {
            Some(origin) => origin.blame(error),
            None => error,
        }
    }
}

impl Deref for SourceText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Returns the range of `part`, a slice of `whole`, within it.
pub(super) fn range_in(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr().wrapping_sub(whole.as_ptr().addr()).min(whole.len());
    start..(start + part.len()).min(whole.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &SourceText) -> Vec<Option<(Option<String>, u64, usize)>> {
        let place = |at: usize| {
            let origin = text.origin(at)?;
            let place = origin.source.place(origin.at)?;
            Some((place.file.map(str::to_owned), place.number, place.column))
        };
        (0..text.len()).map(place).collect()
    }

    #[test]
    fn pieces_keep_their_places() {
        let mut source = SourceFiles::default();
        let first = source.add(Some("a"), Arc::from("x=1 # c\ny=2\n"));
        let second = source.add(Some("b"), Arc::from("z"));
        let mut text = SourceText::default();
        text.push_from("x=1", Some(first));
        text.push_from("\n", None);
        text.push_from("y=2", Some(first + 8));
        text.push_from("z", Some(second));
        let text = text.of(source);
        let place = |file: &str, line, column| Some((Some(file.to_owned()), line, column));
        let expected = [
            place("a", 1, 0),
            place("a", 1, 1),
            place("a", 1, 2),
            None,
            place("a", 2, 0),
            place("a", 2, 1),
            place("a", 2, 2),
            place("b", 1, 0),
        ];
        assert_eq!(places(&text), expected);
        for start in 0..=text.len() {
            for end in start..=text.len() {
                let slice = text.slice(start..end);
                assert_eq!(&*slice, &text[start..end]);
                assert_eq!(places(&slice), expected[start..end], "{start}..{end}");
            }
        }
        let mut joined = SourceText::default();
        joined.push(&text, 4..7);
        joined.push(&SourceText::written("other"), 0..5);
        joined.push(&text, 0..1);
        let places = places(&joined);
        assert_eq!((&places[3], &places[8]), (&None, &place("a", 1, 0)));
    }

    #[test]
    fn the_line_is_shown_with_a_caret() {
        let text = SourceText::written("a = 1\n\tb = \"\u{e4}\" ; c = x\n");
        let shown = |text: &SourceText, at| {
            text.blame(at, Error::data("m")).location().excerpt.clone().unwrap_or_default()
        };
        let at = text.find("x").unwrap_or_default();
        assert_eq!(shown(&text, at), "  2 |  b = \"\u{e4}\" ; c = x\n    |                ^");
        // Of a long line 100 characters are shown, which begin 50 before a column after the 75th.
        for (before, after, skipped, is_cut) in [
            (75, 25, 0, false),
            (75, 26, 0, true),
            (76, 49, 26, false),
            (76, 50, 26, false),
            (76, 51, 26, true),
        ] {
            let (a, b) = ("\u{e4}".repeat(before), "b".repeat(after));
            let dots = if skipped > 0 { "... " } else { "" };
            let (a, b) = (&a[2 * skipped..], &b[..after.min(100 + skipped - before)]);
            let cut = if is_cut { " ..." } else { "" };
            let text = SourceText::written(&format!("x\n{}{}\n", "\u{e4}".repeat(before), "b".repeat(after)));
            let caret = " ".repeat(dots.len() + before - skipped);
            let expected = format!("  2 | {dots}{a}{b}{cut}\n    | {caret}^");
            assert_eq!(shown(&text, 2 + 2 * before), expected, "{before} {after}");
        }
        let tenth = SourceText::written(&format!("{}c  ", "\n".repeat(9)));
        assert_eq!(shown(&tenth, 9), "  10 | c\n     | ^");
        assert_eq!(shown(&SourceText::generated("a"), 0), "");
    }

    #[test]
    fn origins_know_their_files() {
        let mut source = SourceFiles::default();
        let offsets = [source.add(Some("a"), Arc::from("x\ny")), source.add(Some("b"), Arc::from("z"))];
        assert_eq!(offsets, [0, 4]);
        let source = Arc::new(source);
        let at = |at| Origin { source: Arc::clone(&source), at };
        let described = [0, 1, 2, 3, 4, 5, 99].map(|offset| at(offset).describe());
        let [one, two, b] = ["line 1 of 'a'", "line 2 of 'a'", "line 1 of 'b'"];
        assert_eq!(described, [one, one, two, two, b, b, b]);
        assert!(at(0).is_beside(&at(3)) && !at(3).is_beside(&at(4)));
        assert_eq!(at(3).offset(), 3);
        // An equal file of another configuration is another file.
        let mut other = SourceFiles::default();
        other.add(Some("a"), Arc::from("x\ny"));
        let other = Origin { source: Arc::new(other), at: 0 };
        assert!(!at(0).is_beside(&other) && !other.is_beside(&at(0)));
        let nowhere = Origin { source: Arc::default(), at: 0 };
        assert_eq!(nowhere.describe(), "the configuration");
        assert_eq!(
            SourceText::written("x").origin(0).map(|own| own.describe()).as_deref(),
            Some("line 1 of the configuration")
        );
    }

    #[test]
    fn parts_have_ranges_in_their_whole() {
        let whole = "abcd";
        assert_eq!(range_in(whole, &whole[1..3]), 1..3);
        assert_eq!(range_in(whole, &whole[4..]), 4..4);
        assert_eq!(range_in(&whole[..2], whole), 0..2);
        assert_eq!(range_in(&whole[1..], whole).end, 3);
    }

    #[test]
    fn adjacent_pieces_of_one_place_are_joined() {
        let text = SourceText::written("abcdef");
        let mut joined = SourceText::default();
        joined.push(&text, 1..3);
        joined.push(&text, 3..5);
        assert_eq!(joined.runs.len(), 1);
        joined.push(&text, 0..1);
        joined.push_from("x", None);
        joined.push_from("y", None);
        assert_eq!((joined.runs.len(), &*joined), (3, "bcdeaxy"));
        assert!(SourceText::generated("true").is_flag());
        assert!(!SourceText::generated("false").is_flag() && !SourceText::written("true").is_flag());
    }
}
