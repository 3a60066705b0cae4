//! Splits a configuration text into records: brackets, separators and comments.
//!
//! All positions are byte offsets next to an ASCII character, so slices of the text never split a
//! character. Nothing here recurses, so brackets may nest as deep as memory allows.

use super::brackets::{self, Suspect};
use super::source::{SourceText, range_in};
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Logic, Runtime};
use cntk_reader_core::{Error, Result};
use std::ops::Range;

/// Characters that, directly after a bracket around the whole text, replace the extra separator.
const CUSTOM_SEPARATORS: &[u8] = b"`~!@$%^&*_-+|:;,?.";

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Returns whether the byte opens a bracketed block; a quote is its own closing bracket.
pub(super) fn is_opening(byte: u8) -> bool {
    matches!(byte, b'[' | b'{' | b'(' | b'"')
}

fn closer_of(opening: u8) -> u8 {
    match opening {
        b'[' => b']',
        b'{' => b'}',
        b'(' => b')',
        _ => b'"',
    }
}

/// Strips spaces and tabs on both sides; line breaks stay.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Returns the position of the bracket that closes the one at `open`.
pub(super) fn closing(text: &SourceText, open: usize) -> Result<usize> {
    let bytes = text.as_bytes();
    let mut awaited = vec![(closer_of(bytes[open]), open)];
    // The likely cause may be somewhere other than where the mistake was noticed.
    let blame = |at: usize, error: Error| match brackets::suspect(text).filter(|suspect| suspect.at != at) {
        Some(Suspect { at, why }) => text.blame(at, error.with_detail(why)),
        None => text.blame(at, error),
    };
    for (at, &byte) in bytes.iter().enumerate().skip(open + 1) {
        let Some(&(innermost, opened)) = awaited.last() else { break };
        if byte == innermost {
            awaited.pop();
            if awaited.is_empty() {
                return Ok(at);
            }
        } else if innermost != b'"' {
            if is_opening(byte) {
                awaited.push((closer_of(byte), at));
            } else if matches!(byte, b']' | b'}' | b')') {
                let detail = format!(
                    "'{}' comes before the '{}' that closes '{}'{}.",
                    byte as char,
                    innermost as char,
                    bytes[opened] as char,
                    written_at(text, opened),
                );
                let error = Error::config(Runtime, "unmatched bracket found in parameters").as_cntk();
                return Err(blame(at, error.with_detail(detail)));
            }
        }
    }
    let (missing, opened) = awaited.last().copied().unwrap_or((b'"', open));
    let error =
        Error::config(Runtime, format!("no closing {} found in parameters", missing as char)).as_cntk();
    let detail = format!(
        "'{}'{} is never closed: add the '{}' where it ends.",
        bytes[opened] as char,
        written_at(text, opened),
        missing as char
    );
    // Quotes do not protect a '#' after a blank, which starts a comment.
    let hint = if missing == b'"' { "A '#' after a blank begins a comment inside quotes too." } else { "" };
    Err(blame(opened, error.with_detail(detail).with_detail(hint)))
}

/// Returns ` in line 3 of 'a.cntk'`, or nothing for text that is not in a file.
fn written_at(text: &SourceText, at: usize) -> String {
    text.origin(at).map_or_else(String::new, |origin| format!(" in {}", origin.describe()))
}

/// Returns the part of a line before its comment.
///
/// Only the first `#` of a line counts, and only after a blank. A line with a comment loses its
/// leading blanks, other lines are unchanged.
pub(super) fn strip_comment(line: &str) -> &str {
    let start = line.len() - line.trim_start_matches([' ', '\t']).len();
    let content = &line[start..];
    if content.is_empty() {
        return "";
    }
    match content.find('#') {
        Some(0) => "",
        Some(hash) if is_blank(content.as_bytes()[hash - 1]) => &content[..hash],
        _ => line,
    }
}

/// Calls `on_token` with the start and end of every record of `text`. `on_token` returns the
/// position after the text it consumed, which is greater than the start, or None to stop. Calls
/// `on_block` with the position of every bracket around records.
///
/// One level of brackets around records is ignored: `[a=1;b=2]` is `a=1;b=2`. The end of a
/// bracketed block is only looked for after a record. That is why a block in quotes does not work:
/// the search for the end of its last record takes the closing quote for an opening one.
pub(super) fn split(
    text: &SourceText,
    separator: u8,
    mut on_block: impl FnMut(usize),
    mut on_token: impl FnMut(usize, usize) -> Result<Option<usize>>,
) -> Result<()> {
    let bytes = text.as_bytes();
    let mut extra = separator;
    // The end of the bracketed block that contains `at`.
    let mut block: Option<usize> = None;
    let mut at = 0;
    loop {
        let is_separator = |byte: u8| matches!(byte, b',' | b'\r' | b'\n') || byte == extra;
        at = skip(bytes, at, is_separator);
        at = skip(bytes, at, is_blank);
        let Some(&first) = bytes.get(at) else { return Ok(()) };
        let limit = block.unwrap_or(bytes.len());
        let next = if is_opening(first) {
            let close = closing(text, at)?;
            if block.is_none() {
                on_block(at);
                at += 1;
                block = Some(close);
                let path_like = ["..", "./", ".\\"].iter().any(|start| text[at..].starts_with(start));
                if CUSTOM_SEPARATORS.contains(&bytes[at]) && !path_like {
                    extra = bytes[at];
                    at += 1;
                }
                continue;
            }
            if first != b'"' {
                on_token(at, close + 1)?
            } else if close == at + 1 {
                Some(close + 1)
            } else {
                // Skip the quote, unless the record ended before it.
                on_token(at + 1, close)?.map(|next| if next == close { close + 1 } else { next })
            }
        } else {
            let mut end = skip(bytes, at, |byte| !is_separator(byte) && !is_opening(byte));
            if end < bytes.len() && is_opening(bytes[end]) {
                end = closing(text, end)? + 1;
            }
            let end = end.min(limit);
            if end > at { on_token(at, end)? } else { Some(end) }
        };
        let Some(next) = next else { return Ok(()) };
        at = next.min(limit).max(at);
        if block == Some(at) {
            at += 1;
            extra = separator;
            block = None;
        }
    }
}

fn skip(bytes: &[u8], from: usize, is_skipped: impl Fn(u8) -> bool) -> usize {
    from + bytes[from..].iter().take_while(|&&byte| is_skipped(byte)).count()
}

/// A record of a section.
pub(super) struct Record {
    /// The range of its key, which is not empty.
    pub key: Range<usize>,
    /// The range of its value, without quotes. A key without a value means `true`.
    pub value: Option<Range<usize>>,
    /// Whether a `=` follows the key.
    pub is_assigned: bool,
}

/// Splits the record in `text[start..end]` into key and value, and also returns the position after
/// it. None for a record without a key.
pub(super) fn record(text: &SourceText, start: usize, end: usize) -> Result<(Option<Record>, usize)> {
    let bytes = text.as_bytes();
    let trimmed = |range: Range<usize>| range_in(text, trim(&text[range]));
    let key_end = bytes[start..end].iter().position(|&byte| byte == b'=' || is_opening(byte));
    let Some(key_end) = key_end.map(|length| start + length) else {
        return Ok((keyed(trimmed(start..end), None, false), end));
    };
    let key = trimmed(start..key_end);
    let is_assigned = bytes[key_end] == b'=';
    let empty = || format!("For an empty value write '{} = \"\"'.", &text[key.clone()]);
    let mut value_start = if bytes[key_end] == b'=' { key_end + 1 } else { key_end };
    while value_start < bytes.len() && is_blank(bytes[value_start]) {
        value_start += 1;
    }
    if value_start == bytes.len() {
        // CNTK has no check here: its users see the message of the C++ library.
        let message = format!(
            "basic_string::substr: __pos (which is {}) > this->size() (which is {})",
            u64::MAX,
            bytes.len()
        );
        let detail = format!("The text ends after '{} ='.", &text[key.clone()]);
        let error = Error::config(Logic, message).as_cntk().with_detail(detail).with_detail(empty());
        return Err(text.blame(key.start, error));
    }
    if !is_opening(bytes[value_start]) {
        if value_start >= end {
            let message = format!("ParseValue: No value given for '{}'.", &text[key.clone()]);
            let error = Error::config(InvalidArgument, message)
                .as_cntk()
                .with_detail(format!("'{}' has no value.", &text[key.clone()]))
                .with_detail(empty());
            return Err(text.blame(key.start, error));
        }
        return Ok((keyed(key, Some(trimmed(value_start..end)), is_assigned), end));
    }
    let close = closing(text, value_start)?;
    let value = match bytes[value_start] {
        b'"' => trimmed(value_start + 1..close),
        _ => value_start..close + 1,
    };
    Ok((keyed(key, Some(value), is_assigned), close + 1))
}

/// Builds a record, or None without a key. CNTK parses such a record like any other, with its
/// errors, before it drops it.
fn keyed(key: Range<usize>, value: Option<Range<usize>>, is_assigned: bool) -> Option<Record> {
    (!key.is_empty()).then_some(Record { key, value, is_assigned })
}
