//! Cuts a configuration text into records: brackets, separators and comments.
//!
//! All positions are byte offsets next to an ASCII character, so slices of the text never split a character. Nothing
//! here recurses: brackets may nest as deep as memory allows.

use crate::error::ExceptionClass::{InvalidArgument, Logic, Runtime};
use crate::{Error, Result};

/// Characters that, right after a bracket that wraps a whole text, take the place of the extra separator.
const CUSTOM_SEPARATORS: &[u8] = b"`~!@$%^&*_-+|:;,?.";

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether the byte opens a bracketed block; the quote is a bracket that closes itself.
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

/// Without the spaces and tabs around it; line breaks stay.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Position of the bracket that closes the one at `open`.
pub(super) fn closing(text: &str, open: usize) -> Result<usize> {
    let bytes = text.as_bytes();
    let mut awaited = vec![closer_of(bytes[open])];
    for (at, &byte) in bytes.iter().enumerate().skip(open + 1) {
        let Some(&innermost) = awaited.last() else { break };
        if byte == innermost {
            awaited.pop();
            if awaited.is_empty() {
                return Ok(at);
            }
        } else if innermost != b'"' {
            if is_opening(byte) {
                awaited.push(closer_of(byte));
            } else if matches!(byte, b']' | b'}' | b')') {
                return Err(Error::config(Runtime, "unmatched bracket found in parameters"));
            }
        }
    }
    let missing = awaited.last().copied().unwrap_or(b'"') as char;
    Err(Error::config(Runtime, format!("no closing {missing} found in parameters")))
}

/// The part of a line before its comment.
///
/// Only the first `#` of a line counts, and only with a blank before it. A line that is cut loses its leading blanks,
/// one that is not stays as it is.
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

/// Calls `on_token` with the start and end of every record of `text`; it returns the position behind what it used,
/// which is beyond the start.
///
/// One level of brackets around records is looked through: `[a=1;b=2]` is `a=1;b=2`.
pub(super) fn split(
    text: &str,
    separator: u8,
    mut on_token: impl FnMut(usize, usize) -> Result<usize>,
) -> Result<()> {
    let bytes = text.as_bytes();
    let mut extra = separator;
    // The end of the bracketed block that we are in.
    let mut block: Option<usize> = None;
    let mut at = 0;
    loop {
        let is_separator = |byte: u8| matches!(byte, b',' | b'\r' | b'\n') || byte == extra;
        while at < bytes.len() && is_separator(bytes[at]) {
            at += 1;
        }
        while at < bytes.len() && is_blank(bytes[at]) {
            at += 1;
        }
        if let Some(end) = block
            && at >= end
        {
            at = at.max(end + 1);
            extra = separator;
            block = None;
            continue;
        }
        if at >= bytes.len() {
            return Ok(());
        }
        if !is_opening(bytes[at]) {
            let stop = bytes[at..].iter().position(|&byte| is_separator(byte) || is_opening(byte));
            let mut end = stop.map_or(bytes.len(), |length| at + length);
            if end < bytes.len() && is_opening(bytes[end]) {
                end = closing(text, end)? + 1;
            }
            let end = end.min(block.unwrap_or(bytes.len()));
            at = if end > at { on_token(at, end)?.max(end) } else { end };
            continue;
        }
        let close = closing(text, at)?;
        if block.is_none() {
            at += 1;
            block = Some(close);
            let path_like = ["..", "./", ".\\"].iter().any(|start| text[at..].starts_with(start));
            if CUSTOM_SEPARATORS.contains(&bytes[at]) && !path_like {
                extra = bytes[at];
                at += 1;
            }
        } else if bytes[at] == b'"' {
            let next = if close > at + 1 { on_token(at + 1, close)? } else { close };
            at = if next == close { close + 1 } else { next };
        } else {
            at = on_token(at, close + 1)?.max(close + 1);
        }
    }
}

/// A record of a section.
pub(super) struct Record<'t> {
    /// Its key, not empty.
    pub key: &'t str,
    /// Its value as written, without quotes.
    pub value: &'t str,
}

/// Takes the record in `text[start..end]` apart, and returns it with the position behind it. None for a record
/// without a key, which CNTK ignores.
pub(super) fn record(text: &str, start: usize, end: usize) -> Result<(Option<Record<'_>>, usize)> {
    let bytes = text.as_bytes();
    let key_end = bytes[start..end].iter().position(|&byte| byte == b'=' || is_opening(byte));
    let Some(key_end) = key_end.map(|length| start + length) else {
        return Ok((Some(Record { key: trim(&text[start..end]), value: "true" }), end));
    };
    let key = trim(&text[start..key_end]);
    if key.is_empty() {
        return Ok((None, end));
    }
    let mut value_start = if bytes[key_end] == b'=' { key_end + 1 } else { key_end };
    while value_start < bytes.len() && is_blank(bytes[value_start]) {
        value_start += 1;
    }
    if value_start == bytes.len() {
        // CNTK has no check here; the C++ library's complaint is what users know.
        let message = format!(
            "basic_string::substr: __pos (which is {}) > this->size() (which is {})",
            u64::MAX,
            bytes.len()
        );
        return Err(Error::config(Logic, message));
    }
    if !is_opening(bytes[value_start]) {
        if value_start >= end {
            return Err(Error::config(InvalidArgument, format!("ParseValue: No value given for '{key}'.")));
        }
        return Ok((Some(Record { key, value: trim(&text[value_start..end]) }), end));
    }
    let close = closing(text, value_start)?;
    let value = match bytes[value_start] {
        b'"' => trim(&text[value_start + 1..close]),
        _ => &text[value_start..=close],
    };
    Ok((Some(Record { key, value }), close + 1))
}
