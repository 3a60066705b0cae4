//! Map files: one line per image, `[key TAB] path TAB label`.

use super::number::{CNumber, unsigned};
use super::{folder, paths};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check::{Finding, Severity};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::{Error, ErrorKind, Result};
use memchr::memchr;

/// A map file: its text, and the position of each line's path.
pub(super) struct Map {
    /// Its folder, in the operating system's encoding.
    folder: Vec<u8>,
    /// Path of the file as written in the configuration.
    file: String,
    text: Vec<u8>,
    /// The lines were made from a folder of images, not read from a file.
    is_folder: bool,
    lines: Vec<Line>,
    /// The keys of the lines; `None` if each key is the line number.
    keys: Option<Vec<SequenceKey>>,
    /// Lines with ignored columns: the number of the first such line, the text of its first ignored
    /// column for messages, and the number of such lines.
    longer: Option<(u64, String, u64)>,
}

/// A line of the map, in 16 bytes.
#[derive(Debug, Clone, Copy)]
struct Line {
    /// Offset of the path in the text.
    path: u64,
    /// Length of the path in bytes.
    length: u32,
    label: u32,
}

impl Map {
    /// Reads a map file. Every line must be valid: errors are reported here, not when an image is
    /// needed (CNTK 2.7).
    ///
    /// A folder stands for the map of the images in it (not in CNTK).
    pub fn read(file: &str, label_dim: u32, corpus: &Corpus) -> Result<Map> {
        if folder::is_folder(file) {
            let text = folder::map_of_folder(file, label_dim).map_err(|error| error.in_file(file))?;
            let mut map = Map::of_text(file, text, label_dim, corpus).map_err(|error| error.in_file(file))?;
            map.is_folder = true;
            return Ok(map);
        }
        let opened = DataFile::open_text_or(file, |cause| {
            Error::io("Error opening file", file, cause)
                .reworded(format!("Could not open {file} for reading."))
        })?;
        let size = opened.size()?;
        let too_large = || {
            let message = format!("There is no memory for the map file of {size} bytes.");
            Error::new(ErrorKind::Memory, ExceptionClass::Runtime, message).with_detail(
                "The whole file is kept in memory: check the path, or divide it among several readers.",
            )
        };
        let text = opened.read_text(room::FILE).map_err(|error| match error.kind() {
            ErrorKind::Memory => too_large().in_file(file),
            _ => error,
        })?;
        Map::of_text(file, text, label_dim, corpus).map_err(|error| error.in_file(file))
    }

    fn of_text(file: &str, text: Vec<u8>, label_dim: u32, corpus: &Corpus) -> Result<Map> {
        let mut map = Map {
            file: file.to_owned(),
            folder: paths::folder(file),
            text,
            is_folder: false,
            lines: Vec::new(),
            keys: None,
            longer: None,
        };
        let mut keys = Keys::new(corpus);
        let (mut at, mut number) = (0, 0);
        let mut longer: Option<(u64, String, u64)> = None;
        while at < map.text.len() {
            let end = memchr(b'\n', &map.text[at..]).map_or(map.text.len(), |length| at + length);
            let line = map
                .parse(at, end, number, label_dim, &mut keys, &mut longer)
                .map_err(|error| error.in_line(number + 1))?;
            room::push(&mut map.lines, line, room::INDEX)?;
            at = end + 1;
            number += 1;
        }
        map.longer = longer;
        map.lines.shrink_to_fit();
        map.keys = keys.finish()?;
        Ok(map)
    }

    /// Parses the line `at..end` of the text.
    fn parse(
        &self,
        at: usize,
        end: usize,
        number: u64,
        label_dim: u32,
        keys: &mut Keys<'_>,
        longer: &mut Option<(u64, String, u64)>,
    ) -> Result<Line> {
        let file = &self.file;
        let line = &self.text[at..end];
        let Columns { key, path, label, more } = Columns::of(line).ok_or_else(|| {
            let message = format!(
                "Invalid map file format, must contain 2 or 3 tab-delimited columns, line {number} in file {file}."
            );
            let detail = "Expected a path, a tab and a class number, with or without a key and a tab before them.";
            let what = format!("A line of the map has no tab. {}", found(line));
            Error::data(message).as_cntk().with_detail(what).with_detail(detail)
        })?;
        // CNTK 2.7 says "second column" even if it is the third.
        let label_error = || {
            let message =
                format!("Cannot parse label value on line {number}, second column, in file {file}.");
            let detail = "The last of its columns must be the number of the image's class.";
            let what = format!("The class of an image is not a number. {}", found(label));
            Error::data(message).as_cntk().with_detail(what).with_detail(detail)
        };
        let CNumber::Value(class) = unsigned(label) else { return Err(label_error()) };
        let class = u32::try_from(class).ok().filter(|&class| class < label_dim).ok_or_else(|| {
            let path = quoted(path);
            let message = format!(
                "Image '{path}' has invalid class id '{class}'. It is exceeding the label dimension of '{label_dim}'. \
                 Line {number} in file {file}."
            );
            let detail = "Classes count from 0, and ‹classes› is their number: set it, or correct the line.";
            let what = format!(
                "The image '{path}' has the class {}, but ‹classes› is {label_dim}.",
                quoted(label)
            );
            Error::data(message).as_cntk().with_detail(what).with_detail(detail)
        })?;
        let length = u32::try_from(path.len()).map_err(|_| {
            Error::data("The path is too long.")
                .with_detail("At most 4294967295 bytes are possible: check the line.")
        })?;
        if !more.is_empty() {
            match longer {
                Some((_, _, count)) => *count += 1,
                None => *longer = Some((number + 1, found(more), 1)),
            }
        }
        let offset = key.map_or(0, |key| key.len() + 1);
        keys.push(key, number)?;
        Ok(Line { path: (at + offset) as u64, length, label: class })
    }

    /// Returns a note about lines with ignored columns, which are legal but rarely intended.
    pub fn remark(&self) -> Option<Finding> {
        let (line, found, count) = self.longer.as_ref()?;
        let lines = if *count == 1 {
            "1 line of the map file has".to_owned()
        } else {
            format!("{count} lines of the map file have")
        };
        let message = format!(
            "{lines} more than the three columns key, path and class; the rest is ignored (CNTK 2.7)."
        );
        let mut note = Finding::new(Severity::Note, message).in_file(&self.file);
        note.detail = format!(
            "{found} Remove the extra columns, or read their data with another deserializer, joined by key."
        );
        note.location.line = Some(*line);
        Some(note)
    }

    /// Returns the path of the map file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the location of a line in messages.
    pub fn location(&self, line: u32) -> Location {
        if self.is_folder {
            return Location::in_file(String::from_utf8_lossy(self.path(line)), None, None);
        }
        Location::in_file(self.file.as_str(), None, Some(u64::from(line) + 1))
    }

    /// Adds the location of a line to an error.
    pub fn locate(&self, line: u32, error: Error) -> Error {
        let Location { file, line, .. } = self.location(line);
        let error = match &file {
            Some(file) => error.in_file(file),
            None => error,
        };
        match line {
            Some(line) => error.in_line(line),
            None => error,
        }
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the path of a line's image as written in the map.
    pub fn path(&self, line: u32) -> &[u8] {
        let Line { path, length, .. } = self.lines[line as usize];
        &self.text[path as usize..][..length as usize]
    }

    /// Appends the path of a line's image, with three leading dots replaced by the map's folder.
    pub fn expand_path(&self, line: u32, expanded: &mut Vec<u8>) {
        paths::expand(self.path(line), &self.folder, expanded);
    }

    /// Returns the class number of a line's image.
    pub fn label(&self, line: u32) -> u32 {
        self.lines[line as usize].label
    }

    /// Returns the line's key.
    pub fn key(&self, line: u32) -> SequenceKey {
        self.keys.as_ref().map_or(u64::from(line), |keys| keys[line as usize])
    }

    /// Returns whether each line's key is its number.
    pub fn is_keyed_by_line(&self) -> bool {
        self.keys.is_none()
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.text.capacity()
            + size_of_val(self.lines.as_slice())
            + self.keys.as_ref().map_or(0, |keys| size_of_val(keys.as_slice()))
    }
}

/// Quotes the beginning of a line or column for a message.
fn found(text: &[u8]) -> String {
    const MOST: usize = 80;
    if text.is_empty() {
        return "It is empty.".to_owned();
    }
    let shown = quoted(text[..text.len().min(MOST)].trim_ascii_end());
    format!("Found '{shown}{}'.", if text.len() > MOST { "..." } else { "" })
}

/// The columns of a line.
pub(super) struct Columns<'a> {
    pub key: Option<&'a [u8]>,
    path: &'a [u8],
    pub label: &'a [u8],
    /// The text after the third column, which CNTK 2.7 ignores.
    more: &'a [u8],
}

impl<'a> Columns<'a> {
    /// Splits a line at its tabs as CNTK 2.7 does. A column exists if it has a character, or a tab
    /// after it. If there are three, the first is the key, and the rest of the line is ignored.
    pub fn of(line: &'a [u8]) -> Option<Columns<'a>> {
        let mut rest = line;
        let mut next = || {
            if rest.is_empty() {
                return None;
            }
            let end = memchr(b'\t', rest);
            let column = &rest[..end.unwrap_or(rest.len())];
            rest = end.map_or(&[], |end| &rest[end + 1..]);
            Some(column)
        };
        let columns = (next()?, next()?, next());
        let more = rest.trim_ascii();
        match columns {
            (key, path, Some(label)) => Some(Columns { key: Some(key), path, label, more }),
            (path, label, None) if !path.is_empty() => Some(Columns { key: None, path, label, more }),
            _ => None,
        }
    }
}

/// Returns whether a line begins with a key, i.e. has three columns.
pub(super) fn has_key(line: &[u8]) -> bool {
    Columns::of(line).is_some_and(|columns| columns.key.is_some())
}

/// A collector of the lines' keys.
struct Keys<'a> {
    corpus: &'a Corpus,
    /// Numeric keys; empty while each key is its line number.
    numbers: Vec<SequenceKey>,
    /// Textual keys, concatenated.
    texts: Vec<u8>,
    /// The end of each key in `texts`.
    ends: Vec<usize>,
}

impl<'a> Keys<'a> {
    fn new(corpus: &'a Corpus) -> Keys<'a> {
        Keys { corpus, numbers: Vec::new(), texts: Vec::new(), ends: Vec::new() }
    }

    /// Adds the key of the next line, whose number is `line`. `None`: the key is the line number.
    fn push(&mut self, key: Option<&[u8]>, line: u64) -> Result<()> {
        if !self.corpus.is_numeric() {
            match key {
                Some(key) => room::extend(&mut self.texts, key, room::KEYS)?,
                None => room::extend(&mut self.texts, line.to_string().as_bytes(), room::KEYS)?,
            }
            return room::push(&mut self.ends, self.texts.len(), room::KEYS);
        }
        let number = match key.map(unsigned) {
            None => line,
            Some(CNumber::Value(number)) => number,
            Some(CNumber::TooLarge) => u64::MAX,
            Some(CNumber::None) => {
                let key = quoted(key.unwrap_or_default());
                let error = Error::data(format!("Invalid numeric sequence id '{key}'"));
                let advice = "A key must begin with a decimal number. Set ‹numeric_keys = false› ‹in_the_reader›, or \
                              number the images.";
                return Err(error.with_detail(advice).for_key(key));
            }
        };
        if number != line && self.numbers.is_empty() {
            room::reserve(&mut self.numbers, line as usize, room::KEYS)?;
            self.numbers.extend(0..line);
        }
        if number != line || !self.numbers.is_empty() {
            room::push(&mut self.numbers, number, room::KEYS)?;
        }
        Ok(())
    }

    /// Returns all keys, or `None` if each is its line number.
    fn finish(mut self) -> Result<Option<Vec<SequenceKey>>> {
        if !self.ends.is_empty() {
            let mut from = 0;
            let texts = self.ends.iter().map(|&end| &self.texts[std::mem::replace(&mut from, end)..end]);
            room::reserve_exact(&mut self.numbers, texts.len(), room::KEYS)?;
            self.corpus.number_all(texts, &mut self.numbers)?;
            if self.numbers.len() < self.ends.len() {
                let message = "The corpus has no number for another sequence key.";
                let error = Error::new(ErrorKind::Data, ExceptionClass::Runtime, message);
                return Err(error
                    .in_line(self.numbers.len() as u64 + 1)
                    .with_detail("There are more keys than it can hold, or the host has rejected one: divide the data among several readers."));
            }
        }
        self.numbers.shrink_to_fit();
        Ok((!self.numbers.is_empty()).then_some(self.numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str, corpus: &Corpus) -> Result<Map> {
        Map::of_text("m.txt", text.as_bytes().to_vec(), 4, corpus)
    }

    /// Key, path and label of each line; or the error's message and line.
    type Lines = std::result::Result<Vec<(u64, String, u32)>, (String, Option<u64>)>;

    fn read(text: &str) -> Lines {
        let map = map(text, &Corpus::Numeric)
            .map_err(|error| (error.message().to_owned(), error.location().line))?;
        let line = |i| (map.key(i), String::from_utf8_lossy(map.path(i)).into_owned(), map.label(i));
        Ok((0..map.len() as u32).map(line).collect())
    }

    fn one(key: u64, path: &str, label: u32) -> Vec<(u64, String, u32)> {
        vec![(key, path.to_owned(), label)]
    }

    #[test]
    fn lines_have_two_or_three_columns() {
        for text in ["p\t1\n", "p\t1\r\n", "p\t1\t\n", "p\t1", "p\t1\r"] {
            assert_eq!(read(text), Ok(one(0, "p", 1)), "{text:?}");
        }
        for text in ["7\tp\t1\n", "7\tp\t1\tx\n", "7\tp\t1\t\n", "7\tp\t1"] {
            assert_eq!(read(text), Ok(one(7, "p", 1)), "{text:?}");
        }
        // The forms may be mixed, and trailing blanks belong to the path.
        let expected = vec![(0, "a ".into(), 1), (9, "b".into(), 2), (2, "c".into(), 3)];
        assert_eq!(read("a \t1\n9\tb\t2\nc\t3\n"), Ok(expected));
        assert_eq!(read(""), Ok(vec![]));
    }

    #[test]
    fn labels_and_keys_are_read_as_c_does() {
        for (label, class) in [(" 2", 2), ("+2", 2), ("2abc", 2), ("1.9", 1), ("0x2", 0)] {
            assert_eq!(read(&format!("p\t{label}\n")), Ok(one(0, "p", class)), "{label}");
        }
        for (key, number) in [("12x", 12), ("-3", 3u64.wrapping_neg()), ("99999999999999999999", u64::MAX)] {
            assert_eq!(read(&format!("{key}\tp\t1\n")), Ok(one(number, "p", 1)), "{key}");
        }
    }

    #[test]
    fn mistakes_have_cntks_words_and_a_line() {
        let format = |line: u64| {
            let message = format!(
                "Invalid map file format, must contain 2 or 3 tab-delimited columns, line {line} in file m.txt."
            );
            Err((message, Some(line + 1)))
        };
        for text in ["\n", "p\n", "p 1\n", "\t1\n", "p", "\r\n", "\t\n"] {
            assert_eq!(read(text), format(0), "{text:?}");
        }
        assert_eq!(read("p\t1\n\n"), format(1));
        let label = "Cannot parse label value on line 0, second column, in file m.txt.";
        for text in ["5\tp\t\n", "p\tabc\n", "p\t18446744073709551616\n", "7\tp\tabc\n", "p\t-\n"] {
            assert_eq!(read(text), Err((label.to_owned(), Some(1))), "{text:?}");
        }
        for (label, class) in [("4", "4"), ("-1", "18446744073709551615"), ("4294967297", "4294967297")] {
            let message = format!(
                "Image 'p' has invalid class id '{class}'. It is exceeding the label dimension of '4'. Line 1 in file m.txt."
            );
            assert_eq!(read(&format!("a\t0\np\t{label}\n")), Err((message, Some(2))));
        }
        for key in ["abc", ""] {
            let message = format!("Invalid numeric sequence id '{key}'");
            assert_eq!(read(&format!("{key}\tp\t1\n")), Err((message, Some(1))));
        }
        let error = Map::read("/missing/m.txt", 4, &Corpus::Numeric).err().expect("no such file");
        assert_eq!(error.message(), "Could not open /missing/m.txt for reading.");
        assert_eq!(error.class(), ExceptionClass::Runtime);
    }

    #[test]
    fn textual_keys_are_numbered_in_order() {
        let corpus = Corpus::symbolic();
        let map = map("b\tp\t1\nq\t2\na\tr\t1\nb\ts\t0\n", &corpus).expect("a map");
        assert_eq!((0..4).map(|line| map.key(line)).collect::<Vec<_>>(), [0, 1, 2, 0]);
        assert_eq!(corpus.text_of(1), "1");
        let map = super::Map::of_text("m", b"a\tp\t1\n".to_vec(), 4, &Corpus::Hashed).expect("a map");
        assert_eq!(map.key(0), 177604);
    }

    #[test]
    fn keys_that_are_line_numbers_take_no_memory() {
        let map = map("0\ta\t1\nb\t1\n2\tc\t1\n", &Corpus::Numeric).expect("a map");
        assert!(map.is_keyed_by_line());
        assert_eq!((0..3).map(|line| map.key(line)).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
