//! Replaces `$name$` in values.
//!
//! CNTK expands the whole raw text of a value in the scope of its section, and the values of
//! variables in the same way. It does so without limit; here, cyclic definitions, too deep nesting
//! and too large expansions are errors.

use super::lexer::strip_comment;
use super::section::Section;
use super::source::{SourceText, range_in};
use cntk_reader_core::error::ExceptionClass::{Logic, Runtime};
use cntk_reader_core::limits::{DEEPEST_DEFINITION, MAX_EXPANDED};
use cntk_reader_core::{Error, Result};

/// Work, in bytes, that looking up a variable counts for in addition to the length of its text.
const LOOKUP_WORK: usize = 32;

/// Characters that no name contains; a `$` with one of them before the next `$` is literal.
const NOT_IN_NAMES: &[u8] = b",/<>?;':\"[]{}\\|!@#%^&*()+=~` \t\r\n";

/// The state of expanding one value.
#[derive(Default)]
pub(super) struct Expansion {
    /// Sections and lower-case names that are being expanded, outermost first.
    names: Vec<(usize, String)>,
    work: usize,
}

/// Returns the text of a value as reads by name see it: without comments, with variables replaced.
///
/// Of a multi-line text, empty lines are dropped, and the last line gets a line break too.
pub(super) fn expand(section: &Section, text: &SourceText, expansion: &mut Expansion) -> Result<SourceText> {
    expansion.work = expansion.work.saturating_add(text.len() + LOOKUP_WORK);
    if expansion.work > MAX_EXPANDED {
        return Err(text.blame(0, too_large(section)));
    }
    let mut expanded = SourceText::default();
    if !text.contains('\n') {
        expand_line(section, text, text, expansion, &mut expanded)?;
        return Ok(expanded);
    }
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        expand_line(section, text, line, expansion, &mut expanded)?;
        expanded.push_from("\n", None);
    }
    Ok(expanded)
}

fn too_large(section: &Section) -> Error {
    let message = format!("A value in {} is too large after its variables were replaced.", section.bare());
    Error::config(Runtime, message)
        .with_detail(format!("The limit is {MAX_EXPANDED} bytes; check how its variables are defined."))
}

/// Appends the expansion of `line`, a line of `text`, to `expanded`.
fn expand_line(
    section: &Section,
    text: &SourceText,
    line: &str,
    expansion: &mut Expansion,
    expanded: &mut SourceText,
) -> Result<()> {
    let line = strip_comment(line);
    if line.is_empty() {
        return Ok(());
    }
    let start = range_in(text, line).start;
    let begun = expanded.len();
    let bytes = line.as_bytes();
    let mut copied = 0;
    let mut at = 0;
    while let Some(dollar) =
        bytes.get(at..).and_then(|rest| memchr::memchr(b'$', rest)).map(|offset| at + offset)
    {
        if !bytes.get(dollar + 1).is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_') {
            // The character after such a `$` is skipped, even if it is a `$`.
            at = dollar + 2;
            continue;
        }
        let stop = bytes[dollar + 1..].iter().position(|byte| *byte == b'$' || NOT_IN_NAMES.contains(byte));
        let Some(end) = stop.map(|length| dollar + 1 + length).filter(|&end| bytes[end] == b'$') else {
            at = dollar + 1;
            continue;
        };
        expanded.push(text, start + copied..start + dollar);
        let name = &line[dollar + 1..end];
        match variable(section, name, expansion).map_err(|error| text.blame(start + dollar, error))? {
            Some(value) => expanded.push(&value, 0..value.len()),
            None => {
                let message = format!(
                    "No variable found with the name {name}. Parsing of string failed: {}:{}{}",
                    section.path(),
                    &expanded[begun..],
                    &line[dollar..]
                );
                let scope = match section.is_native() {
                    true => "",
                    false => "; elements of arrays see only their own section",
                };
                let detail =
                    format!("Define '{name} = ...' in {} or in a section around it{scope}.", section.place());
                let error = Error::config(Runtime, message).as_cntk().with_detail(detail);
                return Err(text.blame(start + dollar, error));
            }
        }
        at = end + 1;
        copied = at;
        if expanded.len() - begun > MAX_EXPANDED {
            return Err(text.blame(start, too_large(section)));
        }
    }
    expanded.push(text, start + copied..start + line.len());
    Ok(())
}

/// Returns the value of a variable. None if it is undefined; in CNTK's place it is then empty in a
/// section with a parent.
fn variable(section: &Section, name: &str, expansion: &mut Expansion) -> Result<Option<SourceText>> {
    let Some((holder, text)) = section.find_variable(name) else {
        let is_empty = section.parent().is_some() && !section.is_native();
        return Ok(is_empty.then(SourceText::default));
    };
    if &**text == "default" {
        return Ok(None);
    }
    let key = (holder.identity(), name.to_ascii_lowercase());
    if expansion.names.contains(&key) {
        let message = format!("The definition of variable {name} in {} refers to itself.", holder.bare());
        let detail = "It does so directly or through other variables; write one of them out.";
        return Err(Error::config(Runtime, message).with_detail(detail));
    }
    if expansion.names.len() == DEEPEST_DEFINITION {
        let message =
            format!("The definition of variable {name} in {} refers to too many others.", holder.bare());
        let detail = format!(
            "A chain of references may have at most {DEEPEST_DEFINITION} variables; write some of them out."
        );
        return Err(Error::config(Runtime, message).with_detail(detail));
    }
    expansion.names.push(key);
    let value = expand(holder, text, expansion);
    expansion.names.pop();
    let value = value?;
    if value.contains('\n') {
        let message = "Newline characters are not allowed in the value of a variable which is resolved using $varName$ feature";
        let detail = format!("The value of '{name}' in {} has several lines.", holder.place());
        return Err(text.blame(0, Error::config(Logic, message).as_cntk().with_detail(detail)));
    }
    Ok(Some(value))
}
