//! Script files (scp): one line `key=path[first,last]` per utterance.

use super::paths::PathPool;
use cntk_reader_core::file::{DataFile, address};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};
use memchr::{memchr, memmem, memrchr, memrchr2};
use std::borrow::Cow;

/// Utterances, as parallel arrays.
#[derive(Debug, Default)]
pub struct Utterances {
    /// Path numbers. In a script they refer to its pool.
    pub paths: Vec<u32>,
    /// First frame of each.
    pub starts: Vec<u32>,
    /// Number of frames in each inclusive range, modulo 2^32.
    pub frames: Vec<u32>,
    /// Line numbers, from 0, counted over all script files.
    pub lines: Vec<u32>,
}

impl Utterances {
    /// Returns the number of utterances.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the last frame of an utterance.
    pub fn end(&self, index: usize) -> u32 {
        self.starts[index].wrapping_add(self.frames[index]).wrapping_sub(1)
    }

    /// Keeps the utterances for which `keep` holds.
    pub fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        for array in self.arrays_mut() {
            let mut index = 0..;
            array.retain(|_| index.next().is_some_and(&keep));
        }
    }

    /// Releases unused memory.
    pub fn shrink(&mut self) {
        self.arrays_mut().into_iter().for_each(Vec::shrink_to_fit);
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        [&self.paths, &self.starts, &self.frames, &self.lines].map(|array| array.capacity() * 4).iter().sum()
    }

    fn arrays_mut(&mut self) -> [&mut Vec<u32>; 4] {
        [&mut self.paths, &mut self.starts, &mut self.frames, &mut self.lines]
    }
}

/// The parsed lines of script files.
#[derive(Debug, Default)]
pub struct Script {
    /// The utterance of each line, except for skipped lines.
    pub utterances: Utterances,
    /// The paths of data files.
    pub paths: PathPool,
    /// Keys, concatenated.
    key_texts: Vec<u8>,
    /// End of each utterance's key in `key_texts`.
    key_ends: Vec<usize>,
    /// The script files.
    pub files: Vec<ScriptFile>,
    /// Total number of frames.
    pub frames: u64,
    /// Number of utterances skipped because they have too many frames.
    pub longer: u64,
}

/// The position of a script file among all.
#[derive(Debug)]
pub struct ScriptFile {
    /// Path of the file.
    pub path: String,
    /// Number of lines of the preceding files.
    pub lines_before: u32,
    /// Number of utterances of the preceding files.
    pub utterances_before: usize,
}

/// Rules for selecting lines and completing paths.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// `prefixPathInSCP`, as in the configuration.
    pub prefix: &'a str,
    /// Skip utterances with more frames.
    pub max_frames: u32,
    /// Reject utterances that do not have exactly one frame.
    pub expand: bool,
}

impl Script {
    /// Reads script files as if they were concatenated.
    pub fn read(files: &[String], rules: Rules<'_>) -> Result<Script> {
        let mut script = Script::default();
        let mut lines = 0;
        for path in files {
            script.files.push(ScriptFile {
                path: path.clone(),
                lines_before: lines,
                utterances_before: script.utterances.len(),
            });
            let mut place = Place { file: path, start: 0, first_line: lines, lines };
            let file = open(path)?;
            place.start = file.text_start();
            file.if_unchanged(read_blocks(&file, |block| script.read_lines(block, &mut place, rules)))?;
            lines = place.lines;
        }
        Ok(script)
    }

    /// Parses a block of whole lines.
    fn read_lines(&mut self, text: &[u8], place: &mut Place<'_>, rules: Rules<'_>) -> Result<()> {
        let Place { file, start, first_line, ref mut lines } = *place;
        let mut adjustment = Adjustment::new(rules.prefix, file, text);
        let mut adjusted = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let original = &rest[..end];
            let location = |error: Error| {
                error.in_file(file).at(start + at as u64, Some(u64::from(*lines - first_line) + 1))
            };
            let line = adjustment.apply(at, original, &mut adjusted);
            let parsed = Line::parse(line).map_err(location)?;
            let frames = parsed.end.wrapping_sub(parsed.start).wrapping_add(1);
            let key = parsed.key;
            if rules.expand && frames != 1 {
                let key = quoted(key);
                let message = format!(
                    "Expanded stream should only contain sequences of length 1, utterance '{key}' has {frames}"
                );
                let detail = "Give each utterance one frame, or leave out ‹expand_to_utterance›.";
                return Err(location(Error::data(message).with_detail(detail).for_key(key)));
            }
            if frames <= rules.max_frames {
                let path = self.paths.add(parsed.path)?.ok_or_else(|| location(too_many("paths")))?;
                room::push(&mut self.utterances.paths, path, room::INDEX)?;
                room::push(&mut self.utterances.starts, parsed.start, room::INDEX)?;
                room::push(&mut self.utterances.frames, frames, room::INDEX)?;
                room::push(&mut self.utterances.lines, *lines, room::INDEX)?;
                room::extend(&mut self.key_texts, key, room::KEYS)?;
                room::push(&mut self.key_ends, self.key_texts.len(), room::KEYS)?;
                self.frames += u64::from(frames);
            } else {
                self.longer += 1;
            }
            *lines = lines.checked_add(1).ok_or_else(|| too_many("lines").in_file(file))?;
            at += end + 1;
        }
        place.start += text.len() as u64;
        Ok(())
    }

    /// Returns the keys of all utterances.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.key_ends.iter().copied());
        starts.zip(&self.key_ends).map(|(start, &end)| &self.key_texts[start..end])
    }

    /// Returns the key of an utterance.
    pub fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.key_ends[before]);
        &self.key_texts[start..self.key_ends[index]]
    }
}

fn too_many(what: &str) -> Error {
    Error::data(format!("The script files have more than 4294967295 {what}."))
        .with_detail("Divide them among several deserializers.")
}

/// The position of the next block of a script file.
struct Place<'a> {
    file: &'a str,
    /// Its offset in the file.
    start: u64,
    /// Number of lines of the preceding files.
    first_line: u32,
    /// Number of lines before the block, over all files.
    lines: u32,
}

/// Bytes per read, few enough to stay in a core's cache until they are parsed.
const BLOCK: usize = 256 << 10;

/// Opens a script file. Fails with CNTK's message.
fn open(path: &str) -> Result<DataFile> {
    DataFile::open_text_or(path, |cause| {
        let error = Error::io("Error opening file", path, cause);
        error.reworded(format!("Failed to open input file: {path}"))
    })
}

/// Reads a script file in blocks of whole lines.
fn read_blocks(file: &DataFile, mut with: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    // `kept`: bytes at the beginning of `block` that belong to an incomplete line.
    let (mut block, mut kept, mut offset) = (room::zeroed(BLOCK, room::FILE)?, 0, file.text_start());
    loop {
        let count = file.read_at(offset, &mut block[kept..])?;
        let filled = kept + count;
        offset += count as u64;
        if filled < block.len() {
            return with(&block[..filled]);
        }
        match memrchr(b'\n', &block[kept..]) {
            Some(end) => {
                let end = kept + end + 1;
                with(&block[..end])?;
                block.copy_within(end.., 0);
                kept = filled - end;
            }
            None => {
                // The line is longer than the block.
                kept = filled;
                let longer = room::resize(&mut block, 2 * filled, 0, room::FILE);
                longer.map_err(|error| error.in_file(file.path()))?;
            }
        }
    }
}

/// Completion of the lines of a script file.
enum Adjustment<'a> {
    /// This text, a path and a slash, is inserted after the first `=`.
    Prefix(String),
    /// The first `...` of a line is replaced by the script file's folder.
    Dots {
        folder: Vec<u8>,
        text: &'a [u8],
        finder: Box<memmem::Finder<'static>>,
        /// Offset of the next `...` not yet passed, or the end of the text.
        next: usize,
    },
}

impl<'a> Adjustment<'a> {
    /// Creates the completion for the text of a script file.
    fn new(prefix: &str, file: &str, text: &'a [u8]) -> Adjustment<'a> {
        let prefix = prefix.replace('\\', "/");
        match prefix.trim_end_matches('/') {
            "" => {
                let file = address::exact(file);
                let file = file.as_encoded_bytes();
                let folder = memrchr2(b'/', b'\\', file).map_or(&b""[..], |slash| &file[..slash]).to_owned();
                let finder = Box::new(memmem::Finder::new(b"..."));
                let next = finder.find(text).unwrap_or(text.len());
                Adjustment::Dots { folder, text, finder, next }
            }
            prefix => Adjustment::Prefix(format!("{prefix}/")),
        }
    }

    /// Returns the completed line that begins at `start`, in `buffer` if anything changes. Lines
    /// must be passed in order.
    fn apply<'b>(&mut self, start: usize, line: &'b [u8], buffer: &'b mut Vec<u8>) -> &'b [u8] {
        let (before, insertion, after) = match self {
            Adjustment::Prefix(prefix) => {
                let at = memchr(b'=', line).map_or(0, |equals| equals + 1);
                (&line[..at], prefix.as_bytes(), &line[at..])
            }
            Adjustment::Dots { folder, text, finder, next } => {
                if *next < start {
                    *next = finder.find(&text[start..]).map_or(text.len(), |at| start + at);
                }
                // `...` contains no line break, so it is within the line.
                let Some(at) = next.checked_sub(start).filter(|&at| at < line.len()) else { return line };
                (&line[..at], folder.as_slice(), &line[at + 3..])
            }
        };
        buffer.clear();
        buffer.extend_from_slice(before);
        buffer.extend_from_slice(insertion);
        buffer.extend_from_slice(after);
        buffer
    }
}

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    key: &'a [u8],
    path: &'a [u8],
    start: u32,
    /// Inclusive.
    end: u32,
}

impl<'a> Line<'a> {
    /// Parses a completed line like CNTK 2.7: nothing is trimmed, and numbers end at the first
    /// non-digit.
    fn parse(line: &'a [u8]) -> Result<Line<'a>> {
        let parts = memchr(b'=', line)
            .map(|equals| (&line[..equals], &line[equals + 1..]))
            .and_then(|(name, rest)| memchr(b'[', rest).map(|open| (name, &rest[..open], &rest[open + 1..])));
        let Some((name, path, range)) = parts else {
            let message = "parsedpath: this mode requires an input script with start and end frames given";
            let found =
                if line.is_empty() { Cow::Borrowed("A line of the script is empty.") } else { found(line) };
            let error = Error::data(message).as_cntk().with_detail(found).with_detail(EXPECTED);
            // Probably a key, a space and a path.
            let is_kaldis = !line.contains(&b'=') && line.trim_ascii().contains(&b' ');
            return Err(if is_kaldis { error.with_detail(KALDIS) } else { error });
        };
        // The extension is cut off at the last dot, wherever it is.
        let key = memrchr(b'.', name).map_or(name, |dot| &name[..dot]);
        if let Some((start, end)) = plain_range(range) {
            return Ok(Line { key, path, start, end });
        }
        let Some(comma) = memchr(b',', range) else { return Err(malformed(line)) };
        let (start, after) = (&range[..comma], &range[comma + 1..]);
        // Without a closing bracket, CNTK uses 0 as the end.
        let end = match memchr(b']', after) {
            None => 0,
            Some(close) => match after.get(close + 1) {
                None | Some(b'\r') => number(&after[..close]),
                Some(_) => return Err(malformed(line)),
            },
        };
        Ok(Line { key, path, start: number(start), end })
    }
}

const EXPECTED: &str = "Expected 'key=path[first,last]' with the numbers of the first and the last frame.";

const KALDIS: &str = "If it is a Kaldi script ('key path:offset'), read it with a deserializer of the type \
                      ‹kaldi_type›; for recordings (wav.scp), compute the features first.";

fn found(line: &[u8]) -> Cow<'_, str> {
    Cow::Owned(format!("A line of the script has no 'key=path[first,last]': '{}'.", quoted(line)))
}

fn malformed(line: &[u8]) -> Error {
    let line = quoted(line);
    Error::data(format!("parsedpath: malformed path '{line}'"))
        .as_cntk()
        .with_detail(format!("A line of the script has no range of frames that can be read: '{line}'."))
        .with_detail(EXPECTED)
}

/// Fast path for usual ranges, which are digits up to the end of the line: several times as fast as
/// searching for the delimiters. `None` for all others.
#[inline]
fn plain_range(text: &[u8]) -> Option<(u32, u32)> {
    let (start, rest) = digits(text)?;
    let (end, rest) = digits(rest.strip_prefix(b",")?)?;
    matches!(rest, b"]" | b"]\r").then_some((start, end))
}

/// Parses the number of one to nine digits at the beginning of a text. Returns it and the rest.
#[inline]
fn digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let (mut value, mut count) = (0, 0);
    while let Some(digit) = text.get(count).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
        if count == 9 {
            return None;
        }
        value = value * 10 + u32::from(digit);
        count += 1;
    }
    (count > 0).then_some((value, &text[count..]))
}

/// Parses a number like glibc's `atoi`, as unsigned: 0 without digits, and overflow wraps.
fn number(text: &[u8]) -> u32 {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| blank(byte)).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    // `atoi` is `strtol`, which saturates at 64 bits, truncated to 32 bits.
    let digit = |value: i64, byte: &u8| {
        let digit = i64::from(byte - b'0');
        let digit = if is_negative { -digit } else { digit };
        value.saturating_mul(10).saturating_add(digit)
    };
    digits.fold(0, digit) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::option::FrontEnd;

    #[test]
    fn numbers_match_atoi() {
        let cases = [
            ("", 0),
            ("6", 6),
            (" 6 ", 6),
            ("\t\x0b6", 6),
            ("+6", 6),
            ("-1", u32::MAX),
            ("+-1", 0),
            ("- 1", 0),
            ("0x1", 0),
            ("12a3", 12),
            ("a", 0),
            ("4294967296", 0),
            ("4294967295", u32::MAX),
            ("99999999999999999999", u32::MAX),
            ("-99999999999999999999", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn lines_are_parsed_as_in_cntk() {
        let cases = [
            ("u1.mfc=a.mfc[0,6]", ("u1", "a.mfc", 0, 6)),
            ("a.b.c.mfc=a[0,6]", ("a.b.c", "a", 0, 6)),
            ("dir.x/name=a[0,6]", ("dir", "a", 0, 6)),
            (".hid=a[0,6]", ("", "a", 0, 6)),
            ("=a[0,6]", ("", "a", 0, 6)),
            (" u =a b[0,6]", (" u ", "a b", 0, 6)),
            ("u=x=a[0,6]", ("u", "x=a", 0, 6)),
            ("a[b=a[0,4]", ("a[b", "a", 0, 4)),
            ("a[1,2]=a[0,4]", ("a[1,2]", "a", 0, 4)),
            ("a=a,b[0,4]", ("a", "a,b", 0, 4)),
            ("a=a[0],4]", ("a", "a", 0, 4)),
            ("a=a[[1,4]", ("a", "a", 0, 4)),
            ("a=a[1,4]\rjunk", ("a", "a", 1, 4)),
            ("a=a[1,4", ("a", "a", 1, 0)),
            ("a=a[,]", ("a", "a", 0, 0)),
            ("a=a[4294967295,999999999]", ("a", "a", u32::MAX, 999_999_999)),
            ("a=a[0000000001,1234567890]\r", ("a", "a", 1, 1_234_567_890)),
            ("a=a[1,2]\r", ("a", "a", 1, 2)),
        ];
        for (line, (key, path, start, end)) in cases {
            let expected = Line { key: key.as_bytes(), path: path.as_bytes(), start, end };
            assert_eq!(Line::parse(line.as_bytes()).expect("a line"), expected, "{line}");
        }
        for line in ["", "\r", "a", "a[0,4]", "a=b", "a[=b"] {
            let error = Line::parse(line.as_bytes()).expect_err("no range");
            assert!(error.message().starts_with("parsedpath: this mode requires"), "{line}: {error}");
        }
        for line in ["a=b[0]", "a=b[", "a=b[0,4] ", "a=b[0,4]]", "a=b[0,4]\t\r"] {
            let error = Line::parse(line.as_bytes()).expect_err("malformed");
            let shown = quoted(line.as_bytes());
            assert_eq!(error.message(), format!("parsedpath: malformed path '{shown}'"));
        }
    }

    /// Writes a file. Returns it, so that it exists as long as its path is used.
    fn written(text: &[u8]) -> (tempfile::NamedTempFile, String) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("writing");
        let path = file.path().to_str().expect("a path").to_owned();
        (file, path)
    }

    #[test]
    fn blocks_are_whole_lines() {
        let few = [100; 6000];
        let lengths: [&[usize]; 9] = [
            &[],
            &[0],
            &[BLOCK - 2],
            &[BLOCK - 1],
            &[BLOCK],
            &[5, BLOCK - 8, 0, 3],
            &[3 * BLOCK, 10, BLOCK - 30, 20, 9],
            &[BLOCK / 2, BLOCK, 2 * BLOCK, 1],
            &few,
        ];
        for (lengths, is_open) in lengths.into_iter().flat_map(|lengths| [(lengths, false), (lengths, true)])
        {
            let mut text: Vec<u8> =
                lengths.iter().flat_map(|&length| std::iter::repeat_n(b'a', length).chain([b'\n'])).collect();
            if is_open {
                text.extend(b"the end");
            }
            let (_file, path) = written(&text);
            let mut blocks: Vec<Vec<u8>> = Vec::new();
            let read = read_blocks(&open(&path).expect("a file"), |block| {
                blocks.push(block.to_vec());
                Ok(())
            });
            read.expect("it is read");
            assert!(blocks.concat() == text);
            let most = BLOCK.max(2 * lengths.iter().max().unwrap_or(&0) + 2);
            let (_, whole) = blocks.split_last().expect("a block");
            assert!(whole.iter().all(|block| block.ends_with(b"\n") && block.len() <= most));
            assert!(blocks.len() <= 2 + text.len() / (BLOCK / 2), "{}", blocks.len());
        }
    }

    #[test]
    fn scripts_are_read_line_by_line() {
        let (_first, first) = written(b"\xef\xbb\xbfa.x=p[0,4]\nb=q[7,7]\nc=q[1,9]\n");
        let (_none, none) = written(b"");
        let (_second, second) = written(b"d=r[0,9]\ne=p[4294967295,0]\n");
        let read = |files: &[&String], max_frames, expand| {
            let files: Vec<String> = files.iter().map(|&file| file.clone()).collect();
            Script::read(&files, Rules { prefix: "", max_frames, expand })
        };
        let script = read(&[&first, &none, &second], 9, false).expect("a script");
        let Utterances { starts, frames, lines, .. } = &script.utterances;
        assert_eq!(
            (&**starts, &**frames, &**lines),
            (&[0, 7, 1, u32::MAX][..], &[5, 1, 9, 2][..], &[0, 1, 2, 4][..])
        );
        let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"e"];
        assert!(script.keys().eq(keys) && (0..4).all(|index| script.key(index) == keys[index]));
        assert_eq!((script.frames, script.longer, script.utterances.len()), (17, 1, 4));
        assert_eq!([0, 1, 2, 3].map(|index| script.utterances.end(index)), [4, 7, 9, 0]);
        let paths = script.utterances.paths.iter().map(|&path| script.paths.text(path as usize));
        assert!(paths.eq([&b"p"[..], b"q", b"q", b"p"]));
        let files: Vec<_> =
            script.files.iter().map(|file| (file.lines_before, file.utterances_before)).collect();
        assert_eq!(files, [(0, 0), (3, 3), (3, 3)]);
        let place = |error: Error| {
            let place = error.location().clone();
            (place.file, place.offset, place.line, place.key)
        };
        let error = read(&[&first], 9, true).expect_err("five frames");
        assert_eq!(place(error), (Some(first.clone()), Some(3), Some(1), Some("a".to_owned())));
        let (_wrong, wrong) = written(b"a=b[0,0]\nb=c[0]\n");
        let error = read(&[&first, &wrong], 9, false).expect_err("no comma");
        assert_eq!(place(error), (Some(wrong.clone()), Some(9), Some(2), None));
        let (_ones, ones) = written(b"a=b[3,3]\n");
        assert_eq!(read(&[&ones], 0, true).expect("a script").longer, 1);
    }

    #[test]
    fn memory_and_selection_of_utterances() {
        let numbers = || (0..5).collect::<Vec<u32>>();
        let mut utterances =
            Utterances { paths: numbers(), starts: numbers(), frames: numbers(), lines: numbers() };
        utterances.retain(|index| index % 2 == 0);
        utterances.shrink();
        let arrays = utterances.arrays_mut().map(|array| array.clone());
        assert!(arrays.iter().all(|array| **array == [0, 2, 4]));
        assert_eq!((utterances.bytes(), utterances.len()), (4 * 3 * 4, 3));
    }

    #[test]
    fn lines_that_fail_say_why() {
        let detail = |line: &str| Line::parse(line.as_bytes()).expect_err("no utterance").detail().to_owned();
        let kaldi = FrontEnd::default().say(KALDIS).into_owned();
        for (line, found, is_kaldis) in [
            ("", "A line of the script is empty.", false),
            ("a", "A line of the script has no 'key=path[first,last]': 'a'.", false),
            ("u1 a.ark:3", "A line of the script has no 'key=path[first,last]': 'u1 a.ark:3'.", true),
            (" a ", "A line of the script has no 'key=path[first,last]': ' a '.", false),
            ("u1 a=b", "A line of the script has no 'key=path[first,last]': 'u1 a=b'.", false),
        ] {
            let expected =
                format!("{found} {EXPECTED}{}", if is_kaldis { format!(" {kaldi}") } else { String::new() });
            assert_eq!(detail(line), expected, "{line}");
        }
        assert!(detail("a=b[0]").ends_with(&format!("can be read: 'a=b[0]'. {EXPECTED}")));
    }

    #[test]
    fn lines_are_completed_by_prefix_or_folder() {
        let completed = |prefix: &str, file: &str, line: &str| {
            let mut buffer = Vec::new();
            let text = [line, line, line].join("\n");
            let mut adjustment = Adjustment::new(prefix, file, text.as_bytes());
            let lines: Vec<String> = (0..3)
                .map(|number| {
                    let start = number * (line.len() + 1);
                    let line = adjustment.apply(start, line.as_bytes(), &mut buffer);
                    String::from_utf8(line.to_vec()).expect("text")
                })
                .collect();
            assert!(lines.iter().all(|line| *line == lines[0]));
            lines[0].clone()
        };
        assert_eq!(completed("", "/x/y.scp", "u=.../a[0,1]"), "u=/x/a[0,1]");
        assert_eq!(completed("", "x\\y.scp", "u=.../a[0,1]"), "u=x/a[0,1]");
        assert_eq!(completed("", "y.scp", "u=.../a[0,1]"), "u=/a[0,1]");
        assert_eq!(completed("", "/x/y.scp", "a...b=.../a[0,1]"), "a/xb=.../a[0,1]");
        assert_eq!(completed("", "/x/y.scp", "u=a[0,1]"), "u=a[0,1]");
        assert_eq!(completed("/p", "/x/y.scp", "u=.../a=b[0,1]"), "u=/p/.../a=b[0,1]");
        assert_eq!(completed("p\\q\\/", "/x/y.scp", "u=/a[0,1]"), "u=p/q//a[0,1]");
        assert_eq!(completed("p", "/x/y.scp", "a[0,1]"), "p/a[0,1]");
        assert_eq!(completed("//", "/x/y.scp", "u=.../a[0,1]"), "u=/x/a[0,1]");
    }
}
