//! Replaces `$name$` in values.
//!
//! CNTK expands the whole raw text of a value in the scope of the section that holds it, and expands the values that
//! replace names in the same way. It does so without limit; here, definitions that refer to each other in a circle,
//! that nest too deeply or whose expansion grows too large are errors.

use super::lexer::strip_comment;
use super::section::Section;
use super::source::{SourceText, range_in};
use cntk_reader_core::error::ExceptionClass::{Logic, Runtime};
use cntk_reader_core::limits::{DEEPEST_DEFINITION, MOST_EXPANDED};
use cntk_reader_core::{Error, Result};

/// Bytes that looking up a variable counts as, in addition to the length of its text.
const LOOKUP_WORK: usize = 32;

/// Characters that no name contains; a `$` with one of them before the next `$` is an ordinary character.
const NOT_IN_NAMES: &[u8] = b",/<>?;':\"[]{}\\|!@#%^&*()+=~` \t\r\n";

/// The state of expanding one value.
#[derive(Default)]
pub(super) struct Expansion {
    /// Sections and lower-case names that are being expanded, outermost first.
    names: Vec<(usize, String)>,
    work: usize,
}

/// The text of a value as a read by name sees it: without comments, with names replaced.
///
/// Empty lines of a text of several lines are dropped, and its last line gets a line break too.
pub(super) fn expand(section: &Section, text: &SourceText, expansion: &mut Expansion) -> Result<SourceText> {
    expansion.work = expansion.work.saturating_add(text.len() + LOOKUP_WORK);
    if expansion.work > MOST_EXPANDED {
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
    let message = format!("A value in {} is too large after its variables were replaced.", section.path());
    Error::config(Runtime, message)
        .with_detail(format!("The limit is {MOST_EXPANDED} bytes; check how its variables are defined."))
}

/// Appends `line`, a line of `text`, to `expanded`.
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
            // The character after such a `$` is not looked at again, even if it is a `$`.
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
                let detail = format!(
                    "Define '{name} = ...' in '{}' or in a section around it{scope}.",
                    section.path()
                );
                let error = Error::config(Runtime, message).with_detail(detail);
                return Err(text.blame(start + dollar, error));
            }
        }
        at = end + 1;
        copied = at;
        if expanded.len() - begun > MOST_EXPANDED {
            return Err(text.blame(start, too_large(section)));
        }
    }
    expanded.push(text, start + copied..start + line.len());
    Ok(())
}

/// The value of a variable. None if it is undefined; in CNTK's place it is empty then in a section
/// with a parent.
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
        let message = format!("The definition of variable {name} in {} refers to itself.", holder.path());
        let detail = "It does so directly or through other variables; write one of them out.";
        return Err(Error::config(Runtime, message).with_detail(detail));
    }
    if expansion.names.len() == DEEPEST_DEFINITION {
        let message =
            format!("The definition of variable {name} in {} refers to too many others.", holder.path());
        let detail =
            format!("At most {DEEPEST_DEFINITION} may refer to each other in a row; write some of them out.");
        return Err(Error::config(Runtime, message).with_detail(detail));
    }
    expansion.names.push(key);
    let value = expand(holder, text, expansion);
    expansion.names.pop();
    let value = value?;
    if value.contains('\n') {
        let message = "Newline characters are not allowed in the value of a variable which is resolved using $varName$ feature";
        let detail = format!("The value of '{name}' in '{}' has several lines.", holder.path());
        return Err(text.blame(0, Error::config(Logic, message).with_detail(detail)));
    }
    Ok(Some(value))
}
