//! Detects the syntax of other languages in a configuration: quotes, comments and separators that
//! CNTK's language does not have.
//!
//! To CNTK they are ordinary characters of keys and values, so the line silently has no effect. In
//! CNTK's place none of these checks apply.

use super::section::{Entry, Section};
use super::source::Origin;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::{Error, Result};

/// A part of a section that CNTK silently drops.
#[derive(Debug, Clone)]
pub(super) enum Dropped {
    /// A value without a key, or a bracket.
    NoKey(Option<Origin>),
    /// A bracketed block after other records; its records become part of the enclosing section.
    Joined(Option<Origin>),
}

/// A mistake in a text that cannot be intended, and advice.
pub(super) struct Fault {
    pub what: String,
    pub advice: String,
}

fn fault(what: impl Into<String>, advice: impl Into<String>) -> Option<Fault> {
    Some(Fault { what: what.into(), advice: advice.into() })
}

const TYPOGRAPHIC: [char; 9] = ['“', '”', '„', '‟', '‘', '’', '‚', '«', '»'];

fn is_invisible(c: char) -> bool {
    !c.is_ascii() && c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// Finds a mistake in the text of a value.
pub(super) fn strange_value(text: &str) -> Option<Fault> {
    let double = "Strings stand in double quotes: \"train.ctf\".";
    let is_list = text.starts_with('(');
    let first = if is_list { text[1..].trim_start() } else { text };
    if first.starts_with('\'') {
        return fault("begins with a single quote, which is an ordinary character", double);
    }
    if first.starts_with(TYPOGRAPHIC) || text.ends_with(TYPOGRAPHIC) {
        return fault("has typographic quotes, which are ordinary characters", double);
    }
    if text.starts_with(is_invisible) || text.ends_with(is_invisible) {
        let advice = format!("Retype the value. It is {}.", text.escape_unicode());
        return fault("begins or ends with an invisible character", advice);
    }
    if ["//", "/*"]
        .iter()
        .any(|mark| text.contains(&format!(" {mark}")) || text.contains(&format!("\t{mark}")))
    {
        return fault("contains '//' or '/*', which do not begin a comment", "A comment begins with '#'.");
    }
    if !is_list && text.contains('"') {
        let advice = match text.starts_with(['[', '{']) {
            true => "A list stands in parentheses, and ':' separates its elements: (\"a.ctf\" : \"b.ctf\").",
            false => "Quotes stand around the whole value, with nothing before the first one: \"train.ctf\".",
        };
        return fault("contains quotes", advice);
    }
    if !is_list && text.trim_end().contains(['\n', '\r']) && !text.starts_with(['[', '{']) {
        return fault("spans several lines", "Add the quote that is missing where the value ends.");
    }
    None
}

/// Returns the error of a value that cannot be intended.
pub(super) fn refused(section: &Section, key: &str, text: &str, fault: &Fault) -> Error {
    let shown: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
    let message = format!("The value of '{key}' in {} {}.", section.place(), fault.what);
    let detail = format!("It begins with: {shown}");
    Error::config(InvalidArgument, message).with_detail(&fault.advice).with_detail(
        match text.len() > shown.len() {
            true => detail,
            false => format!("It is: {shown}"),
        },
    )
}

/// Refuses a section with keys and values that cannot be intended.
pub(super) fn check(section: &Section) -> Result<()> {
    let refuse = |origin: Option<&Origin>, message: String, advice: &str| {
        let error = Error::config(InvalidArgument, message).with_detail(advice);
        Err(match origin {
            Some(origin) => origin.blame(error),
            None => section.blame_whole(error),
        })
    };
    let place = section.place();
    // The first one in the text causes the others.
    let mut entries: Vec<&Entry> = section.entries().collect();
    entries.sort_by_key(|entry| entry.origin.as_ref().map(Origin::offset));
    for entry in entries {
        if let Some(Fault { what, advice }) = strange_key(entry) {
            return refuse(entry.origin.as_ref(), format!("{what} in {place}."), &advice);
        }
        let is_block = entry.text.starts_with(['[', '{', '(']);
        if !is_block && entry.text.lines().skip(1).any(|line| line.contains('=')) {
            let message = format!("The value of '{}' in {place} goes on into the lines below it.", entry.key);
            let advice = "Add the quote that is missing at the end of its first line.";
            return refuse(entry.text.origin(0).as_ref().or(entry.origin.as_ref()), message, advice);
        }
    }
    match section.dropped().first() {
        Some(Dropped::NoKey(origin)) => refuse(
            origin.as_ref(),
            format!("A value in {place} has no key."),
            "Write 'key = value'. A list of sections stands in parentheses: deserializers = ( [ ... ] : [ ... ] ).",
        ),
        Some(Dropped::Joined(origin)) => refuse(
            origin.as_ref(),
            format!("A block in brackets in {place} has no key."),
            "Write 'key = [ ... ]'. A list of sections stands in parentheses: deserializers = ( [ ... ] : [ ... ] ).",
        ),
        None => Ok(()),
    }
}

/// Finds a mistake in a key, phrased as the beginning of a sentence.
fn strange_key(entry: &Entry) -> Option<Fault> {
    let Entry { key, text, is_assigned, .. } = entry;
    // Enough of a long line to recognize it.
    let shown: String = key.chars().take(60).collect();
    if key.starts_with("//") || key.starts_with("/*") || key.starts_with("--") {
        let mark = &key[..2];
        return fault(format!("'{mark}' does not begin a comment"), "A comment begins with '#'.");
    }
    if key.starts_with(['\'', '"']) || key.starts_with(TYPOGRAPHIC) {
        return fault(
            format!("The key {shown} is in quotes"),
            "Keys have no quotes, and '=' stands before the value: key = \"value\".",
        );
    }
    if let Some(c) = key.chars().find(|&c| is_invisible(c)) {
        let advice = format!("Retype the line: it contains {}.", c.escape_unicode());
        return fault(format!("The key '{shown}' has an invisible character"), advice);
    }
    if key.starts_with([']', '}', ')']) {
        return fault(
            format!("'{}' closes nothing", &key[..1]),
            "Remove it, or add the bracket that it belongs to. Every '[', '{' and '(' is closed once.",
        );
    }
    if key == ":" && text.starts_with(['[', '{', '(']) {
        return fault(
            "A ':' stands where a key is expected",
            "A list stands in parentheses: deserializers = ( [ ... ] : [ ... ] ). In front of a value write '=', not ':', \
             and no quotes around keys.",
        );
    }
    if key.ends_with(':') || !is_assigned && (key.starts_with(':') || key.contains(": ")) {
        let advice = "In front of a value write '=', not ':', and no quotes around keys: key = value.";
        return fault(format!("'{shown}' is not a key"), advice);
    }
    if !is_assigned && entry.text.is_flag() && key.contains([' ', '\t']) {
        return fault(
            format!("'{shown}' is no 'key = value'"),
            "Write '=' between key and value, and separate records by line breaks or ';'.",
        );
    }
    None
}
