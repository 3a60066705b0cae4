//! Value types of single streams, and class ids. CNTK has neither.

use super::section::Section;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::option;
use cntk_reader_core::stream::{ElementType, Ids};
use cntk_reader_core::{Error, Result};

/// Reads `key` as one of `types` in the section of the stream `name`. CNTK ignores such keys, and
/// so does a reader in its place.
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
        format!("The value of {} is '{word}', which is not a value type.", option::at(section.path(), key));
    let names: Vec<&str> = types.iter().map(|element| element.name()).collect();
    let suggested = match nearest(&word.to_ascii_lowercase(), &names.iter().copied().collect()) {
        Some(name) => format!(" Did you mean '{name}'?"),
        None => String::new(),
    };
    let detail = format!("Expected one of the words {}.{suggested}", names.join(", "));
    Err(section.blame(key, Error::config(InvalidArgument, message).with_detail(detail).in_stream(name)))
}

/// Reads `ids`, the integer type of the class ids that replace one-hot samples, and `padding`,
/// their value in gaps.
pub(super) fn read_ids(section: &Section, name: &str) -> Result<Option<Ids>> {
    let element = read(section, "ids", name, &[ElementType::Int32, ElementType::Int64])?;
    let has_padding = section.is_native() && section.exists_here("padding");
    let refuse = |message: String, detail: &str| {
        let error = Error::config(InvalidArgument, message).with_detail(detail).in_stream(name);
        Err(section.blame("padding", error))
    };
    let Some(element) = element else {
        if !has_padding {
            return Ok(None);
        }
        let message = format!("The stream '{name}' has ‹padding› but no ‹ids›.");
        return refuse(message, "Gaps of other streams are 0: set ‹ids›, or leave ‹padding› out.");
    };
    if !has_padding {
        return Ok(Some(Ids { element, padding: 0 }));
    }
    let word = section.text("padding")?;
    let padding = word.parse::<i64>().ok();
    match padding.filter(|&padding| element == ElementType::Int64 || i32::try_from(padding).is_ok()) {
        Some(padding) => Ok(Some(Ids { element, padding })),
        None => {
            let place = option::at(section.path(), "padding");
            let message = format!("The value of {place} is '{word}'.");
            refuse(message, &format!("Expected a whole number of the type {}.", element.name()))
        }
    }
}
