//! Arrays: `(1:2*3)`, `([type=A]:[type=B])`.
//!
//! Elements are separated by `:`, `,` or line breaks, or by the character after the opening bracket if that is no
//! letter, digit or bracket. Their texts stay raw until they are read.

use super::convert::FromValue;
use super::lexer;
use super::section::Section;
use super::unread::ReadLog;
use crate::error::ExceptionClass::Runtime;
use crate::{Error, Result};
use std::sync::Arc;

/// Elements of one array, repetitions counted: `1*2000000000` must not fill the memory.
const MAX_ELEMENTS: usize = 1 << 20;

/// Bytes of all elements of one array, for the same reason.
const MAX_BYTES: usize = 64 << 20;

/// An array of a configuration.
#[derive(Debug, Clone)]
pub struct Array {
    path: String,
    elements: Vec<String>,
    log: Arc<ReadLog>,
}

impl Array {
    pub(super) fn open(path: String, text: &str, log: Arc<ReadLog>) -> Result<Array> {
        let mut elements = Vec::new();
        let mut bytes = 0usize;
        lexer::split(text, b':', |start, end| {
            let element = lexer::trim(&text[start..end]);
            let (element, count) = repetition(element)?;
            bytes = bytes.saturating_add(element.len().saturating_mul(count));
            if elements.len().saturating_add(count) > MAX_ELEMENTS || bytes > MAX_BYTES {
                return Err(Error::config(Runtime, format!("The array {path} has too many elements.")));
            }
            elements.extend(std::iter::repeat_n(element, count).map(str::to_owned));
            Ok(end)
        })?;
        Ok(Array { path, elements, log })
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The texts of the elements.
    pub fn texts(&self) -> &[String] {
        &self.elements
    }

    /// The elements as values.
    pub fn values<T: FromValue>(&self) -> Result<Vec<T>> {
        self.elements.iter().map(|text| T::from_value(text)).collect()
    }

    /// The elements as sections, with nothing around them. Their names are `path[0]`, `path[1]` ...
    pub fn sections(&self) -> Result<Vec<Section>> {
        let open = |(index, text): (usize, &String)| {
            Section::open(format!("{}[{index}]", self.path), text, None, Arc::clone(&self.log))
        };
        self.elements.iter().enumerate().map(open).collect()
    }
}

/// The value for an epoch: the last one goes on for ever. None if there are no values at all.
pub fn for_epoch<T>(values: &[T], epoch: usize) -> Option<&T> {
    values.get(epoch).or(values.last())
}

/// An element's text and how often it stands there.
fn repetition(element: &str) -> Result<(&str, usize)> {
    if element.bytes().next().is_some_and(lexer::is_opening) {
        return Ok((element, 1));
    }
    let Some((text, count)) = element.split_once('*') else {
        return Ok((element, usize::from(!element.is_empty())));
    };
    let count = lexer::trim(count);
    // Nothing behind the star is no repetition at all, though an empty text is no number elsewhere.
    let count = if count.is_empty() { 0 } else { i32::from_value(count)? };
    Ok((lexer::trim(text), usize::try_from(count).unwrap_or(0)))
}
