//! Arrays: `(1:2*3)`, `([type=A]:[type=B])`.
//!
//! Elements are separated by `:`, `,` or line breaks, or by the character after the opening bracket
//! unless it is a letter, digit or bracket. Their texts stay raw until they are read.

use super::convert::FromValue;
use super::lexer;
use super::section::Section;
use super::source::{SourceText, range_in};
use super::unread::ReadLog;
use super::values::{Value, Values};
use cntk_reader_core::error::ExceptionClass::Runtime;
use cntk_reader_core::file::address;
use cntk_reader_core::limits::{MAX_ARRAY_BYTES, MAX_ELEMENTS};
use cntk_reader_core::option;
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// An array of a configuration.
#[derive(Debug, Clone)]
pub struct Array {
    path: String,
    elements: Vec<Element>,
    log: Arc<ReadLog>,
}

#[derive(Debug, Clone)]
enum Element {
    Text(SourceText),
    /// A section that never existed as text.
    Section(Values),
}

impl Element {
    fn text(&self) -> &SourceText {
        const NONE: &SourceText = &SourceText::EMPTY;
        match self {
            Element::Text(text) => text,
            Element::Section(_) => NONE,
        }
    }
}

impl Array {
    /// Returns the list of a front end without text.
    pub(super) fn of_values(path: String, values: &[Value], log: Arc<ReadLog>) -> Array {
        let element = |value: &Value| match value {
            Value::Section(values) => Element::Section(values.clone()),
            value => Element::Text(SourceText::generated(&value.literal().unwrap_or_default())),
        };
        Array { path, elements: values.iter().map(element).collect(), log }
    }

    pub(super) fn open(path: String, text: &SourceText, log: Arc<ReadLog>) -> Result<Array> {
        let mut elements = Vec::new();
        let mut bytes = 0usize;
        lexer::split(
            text,
            b':',
            |_| {},
            |start, end| {
                let element = repetition(&text[start..end]).map_err(|error| {
                    let detail =
                        format!("In '{path}' the number after '*' is the repeat count of the element.");
                    text.blame(start, error.with_detail(detail))
                })?;
                let Some((element, count)) = element else { return Ok(None) };
                bytes = bytes.saturating_add(element.len().saturating_mul(count));
                if elements.len().saturating_add(count) > MAX_ELEMENTS || bytes > MAX_ARRAY_BYTES {
                    let detail = format!(
                        "An array may have at most {MAX_ELEMENTS} elements and {MAX_ARRAY_BYTES} bytes; check the counts \
                     after '*'."
                    );
                    let error = Error::config(Runtime, format!("The array {path} has too many elements."));
                    return Err(text.blame(start, error.with_detail(detail)));
                }
                let element = Element::Text(text.slice(range_in(text, element)));
                elements.extend(std::iter::repeat_n(element, count));
                Ok(Some(end))
            },
        )?;
        Ok(Array { path, elements, log })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns the texts of the elements.
    pub fn texts(&self) -> Vec<String> {
        self.elements.iter().map(|element| element.text().to_string()).collect()
    }

    /// Returns the elements as paths.
    pub fn paths(&self) -> Vec<String> {
        self.texts().into_iter().map(address::named).collect()
    }

    /// Converts the elements to values.
    pub fn values<T: FromValue>(&self) -> Result<Vec<T>> {
        let value = |text: &SourceText| {
            T::from_value(text).map_err(|error| {
                let (path, found) = (&self.path, &**text);
                let (section, key) = path.rsplit_once(':').unwrap_or((path, ""));
                let detail = format!(
                    "An element of {} is '{found}'. Expected {}.",
                    option::at(section, key),
                    T::EXPECTED
                );
                text.blame(0, error.with_detail(detail))
            })
        };
        self.elements.iter().map(Element::text).map(value).collect()
    }

    /// Returns the elements as sections without a parent. Their names are `path[0]`, `path[1]` ...,
    /// or the deserializer types if they never existed as text. Each section is opened when the
    /// iterator reaches it, so that errors of earlier elements come first.
    pub fn sections(&self) -> impl Iterator<Item = Result<Section>> {
        self.elements.iter().enumerate().map(|(index, element)| {
            let log = Arc::clone(&self.log);
            match element {
                Element::Text(text) => {
                    Section::open(format!("{}[{index}]", self.path), text, None, log)?.checked(text)
                }
                Element::Section(values) => {
                    let path = log.name_element(&self.path, index, values.kind());
                    Ok(Section::with_values_in(path, values, None, log))
                }
            }
        })
    }
}

/// Returns an element's text and its repeat count. None if nothing follows the star: CNTK then
/// drops the rest of the array, too.
fn repetition(element: &str) -> Result<Option<(&str, usize)>> {
    let repeated =
        if element.bytes().next().is_some_and(lexer::is_opening) { None } else { element.split_once('*') };
    let Some((text, count)) = repeated else {
        let text = lexer::trim(element);
        return Ok(Some((text, usize::from(!text.is_empty()))));
    };
    if count.is_empty() {
        return Ok(None);
    }
    let count = i32::from_value(lexer::trim(count))?;
    Ok(Some((lexer::trim(text), usize::try_from(count).unwrap_or(0))))
}
