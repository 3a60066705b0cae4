//! Advice on failures, where it depends on more of the file than the parser sees.

use super::parse::cause::Cause;
use super::parse::report::Failure;
use super::parse::rules::{Rules, is_non_printable, is_value_delimiter};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::message::spelling::nearest;
use std::collections::BTreeSet;

/// Bytes at the start of a file that are searched for names.
const SEARCHED: usize = 1 << 20;

/// Bytes of a line that are examined.
const OF_LINE: usize = 64 << 10;

/// Maximum number of names in a message.
const LISTED: usize = 20;

/// Advice on a truncated last line.
const CUT: &str =
    "The file ends in this sequence, without a line break: it seems to be truncated. Write or copy it again.";

/// Names of this many bytes or more are ignored.
const LONGEST: usize = 64;

/// Returns advice on a failure, in whole sentences; empty if there is none.
pub(super) fn of_failure(file: &DataFile, rules: &Rules, failure: &Failure) -> String {
    let advice = match (failure.cause(), failure.stream()) {
        (Cause::EmptyStream, Some(stream)) => of_empty_stream(file, rules, stream, failure.is_cut()),
        _ if failure.is_cut() => CUT.to_owned(),
        (Cause::BadLine { .. }, _) => of_line_without_samples(file, rules, failure.offset),
        (Cause::NoPrefix(_), _) => of_byte_before(file, failure.offset),
        _ => String::new(),
    };
    if !advice.is_empty() {
        return advice;
    }
    let explained = FileFormat::explain(file, FileFormat::is_ctf);
    explained.map_or_else(String::new, |(cause, remedy)| format!("{cause} {remedy}"))
}

/// Returns advice on a stream that has no sample in a sequence.
fn of_empty_stream(file: &DataFile, rules: &Rules, stream: usize, is_cut: bool) -> String {
    match of_missing_name(file, rules, stream) {
        Some(advice) if !advice.is_empty() => advice,
        Some(_) if is_cut => CUT.to_owned(),
        Some(_) => format!(
            "Other sequences have samples of '|{}'. Each stream needs a sample in each sequence: add one, or set \
             ‹strict_sequences = false›, which leaves sequences without one out.",
            String::from_utf8_lossy(&rules.streams[stream].alias)
        ),
        None => String::new(),
    }
}

/// Returns advice on a stream whose name is missing at the start of the file: empty if the name is
/// there, `None` if there are no names at all.
pub(super) fn of_missing_name(file: &DataFile, rules: &Rules, stream: usize) -> Option<String> {
    let alias = String::from_utf8_lossy(&rules.streams[stream].alias);
    let found = names_in(&read(file, 0, SEARCHED));
    if found.is_empty() {
        return None;
    }
    if !alias.is_ascii() {
        return Some(format!(
            "Names of samples are ASCII only: rename '|{alias}' in the file and in the options."
        ));
    }
    if found.contains(&*alias) {
        return Some(String::new());
    }
    let (listed, suggested) = listing(&found, rules, stream);
    Some(format!("The file has no samples named '|{alias}'. Its names are {listed}.{suggested}"))
}

/// Returns advice on a line that has no sample of any stream.
pub(super) fn of_line_without_samples(file: &DataFile, rules: &Rules, offset: u64) -> String {
    let text = read(file, offset, OF_LINE);
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let samples = line.trim_ascii_start();
    let samples = samples[samples.iter().take_while(|byte| byte.is_ascii_digit()).count()..].trim_ascii();
    if samples.is_empty() {
        return "The line has no samples: remove it.".to_owned();
    }
    let found = names_in(line);
    if found.is_empty() && samples.starts_with(b"|#") {
        return "The line has only a comment: remove it, or put the comment into a line with samples."
            .to_owned();
    }
    if found.is_empty() {
        return String::new();
    }
    let of_streams: Vec<_> =
        rules.streams.iter().map(|stream| format!("'|{}'", String::from_utf8_lossy(&stream.alias))).collect();
    // The first stream whose name resembles one of the file's.
    let resembles = |stream: &usize| nearest_to(&rules.streams[*stream].alias, &found).is_some();
    let stream = (0..rules.streams.len()).find(resembles).unwrap_or(0);
    let (listed, suggested) = listing(&found, rules, stream);
    format!(
        "The streams that are read have samples named {}; the line has {listed}.{suggested}",
        of_streams.join(", ")
    )
}

/// Returns the offset at which the line of `offset` begins.
pub(super) fn start_of_line(file: &DataFile, offset: u64) -> u64 {
    let start = offset.saturating_sub(OF_LINE as u64);
    let before = read(file, start, (offset - start) as usize);
    memchr::memrchr(b'\n', &before).map_or(start, |end| start + end as u64 + 1)
}

/// Returns advice on a missing name: the character before `offset` may have ended the sample.
pub(super) fn of_byte_before(file: &DataFile, offset: u64) -> String {
    let start = offset.saturating_sub(OF_LINE as u64);
    let before = read(file, start, (offset - start) as usize);
    let ends_sample =
        |&byte: &u8| is_non_printable(byte) && !is_value_delimiter(byte) && !byte.is_ascii_whitespace();
    let before = before.trim_ascii_end();
    let count = before.iter().rev().take_while(|byte| ends_sample(byte)).count();
    of_end(&before[before.len() - count..], start + (before.len() - count) as u64)
}

/// Returns advice on a sample with too few values: the character at which it ended may not be a
/// separator.
pub(super) fn of_byte_at(file: &DataFile, offset: u64) -> String {
    /// Maximum length of a UTF-8 character in bytes.
    const LONGEST_CHARACTER: usize = 4;
    let text = read(file, offset, LONGEST_CHARACTER);
    let first =
        text.utf8_chunks().next().map_or(1, |chunk| chunk.valid().chars().next().map_or(1, char::len_utf8));
    match text.first() {
        Some(b) if is_non_printable(*b) && !is_value_delimiter(*b) && !b.is_ascii_whitespace() => {
            of_end(text.get(..first).unwrap_or_default(), offset)
        }
        _ => String::new(),
    }
}

/// Says which unexpected text ended a sample.
fn of_end(text: &[u8], place: u64) -> String {
    match text.first() {
        None => String::new(),
        Some(0) => {
            format!("A zero byte ended the sample at offset {place}: the file is damaged, or is not text.")
        }
        Some(byte) if byte.is_ascii() => {
            format!("The control character {byte:#04x} ended the sample at offset {place}: remove it.")
        }
        Some(_) => format!(
            "'{}' ended the sample at offset {place}: characters beyond ASCII are allowed in comments only.",
            quoted(text)
        ),
    }
}

/// Returns the names as a list, and a sentence that suggests one of them for a stream.
fn listing(found: &BTreeSet<String>, rules: &Rules, stream: usize) -> (String, String) {
    let rule = &rules.streams[stream];
    let listed: Vec<_> = found.iter().take(LISTED).map(|name| format!("'{name}'")).collect();
    let more = if found.len() > LISTED { " ..." } else { "" };
    let meant = nearest_to(&rule.alias, found);
    let question = meant.as_ref().map_or_else(String::new, |meant| format!(" Did you mean '{meant}'?"));
    let usable = |name: &&String| name.is_ascii();
    let mut advice = String::new();
    if let Some(example) = meant.as_ref().or(found.iter().find(usable)).filter(usable) {
        advice = match *rule.alias == *rule.name.as_bytes() {
            true => format!(
                " Write one of them as the stream's name, or as its alias: ‹alias = \"{example}\"›. Upper and lower \
                 case differ."
            ),
            false => format!(
                " Correct the alias of the stream '{}': ‹alias = \"{example}\"›. Upper and lower case differ.",
                rule.name
            ),
        };
    }
    if !found.iter().all(|name| name.is_ascii()) {
        advice.push_str(" Names with characters beyond ASCII cannot be read: rename these in the file.");
    }
    (format!("{}{more}", listed.join(", ")), format!("{question}{advice}"))
}

/// Returns the name that is most similar to a stream's alias.
fn nearest_to(alias: &[u8], found: &BTreeSet<String>) -> Option<String> {
    let known = found.iter().map(String::as_str).collect();
    nearest(&String::from_utf8_lossy(alias).to_ascii_lowercase(), &known).map(str::to_owned)
}

/// Reads up to `size` bytes of a file; empty if it cannot be read.
fn read(file: &DataFile, offset: u64, size: usize) -> Vec<u8> {
    let mut text = vec![0; size];
    let count = file.read_at(offset, &mut text).unwrap_or(0);
    text.truncate(count);
    text
}

/// Returns the names of samples in a text.
fn names_in(text: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for bar in memchr::memchr_iter(b'|', text) {
        let rest = &text[bar + 1..];
        let length = rest
            .iter()
            .take(LONGEST)
            .take_while(|byte| !byte.is_ascii_whitespace() && **byte != b'|')
            .count();
        let name = &rest[..length];
        if length > 0
            && length < LONGEST
            && name[0] != b'#'
            && !names.contains(&*String::from_utf8_lossy(name))
        {
            names.insert(String::from_utf8_lossy(name).into_owned());
        }
    }
    names
}
