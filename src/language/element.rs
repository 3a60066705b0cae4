//! Types of the values of single streams, which CNTK does not have.

use super::section::Section;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::option;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// The type that `key` names in the section of the stream `name`, one of `types`. CNTK ignores such
/// keys, and so does a reader in its place.
pub(super) fn read(
    section: &Section,
    key: &str,
    name: &str,
    types: &[ElementType],
) -> Result<Option<ElementType>> {
    if !section.is_native() || !section.exists_here(key) {
        return Ok(None);
    }
    let word = section.text(key)?;
    let element = types.iter().copied().find(|element| element.name().eq_ignore_ascii_case(&word));
    if let Some(element) = element {
        return Ok(Some(element));
    }
    let message =
        format!("The value of {} is '{word}', which is no type of values.", option::at(section.path(), key));
    let names: Vec<&str> = types.iter().map(|element| element.name()).collect();
    let suggested = match nearest(&word.to_ascii_lowercase(), &names.iter().copied().collect()) {
        Some(name) => format!(" Did you mean '{name}'?"),
        None => String::new(),
    };
    let detail = format!("Expected one of the words {}.{suggested}", names.join(", "));
    Err(section.blame(key, Error::config(InvalidArgument, message).with_detail(detail).in_stream(name)))
}
