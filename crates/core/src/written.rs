//! Where an option was written, for errors that are found when data are read.

use crate::Error;
use std::sync::Arc;

/// Where an option was written in a configuration. Nowhere, if it was not written or not in a text.
/// What is described alike is equal, wherever it was written.
#[derive(Debug, Clone, Default)]
pub struct Written(Option<Arc<Place>>);

#[derive(Debug)]
struct Place {
    /// Path of the configuration's file; None for a text that was not read from one.
    file: Option<String>,
    /// Line number, from 1.
    line: u64,
    /// Character of the line, from 1.
    column: u64,
    /// The line as errors show it.
    excerpt: String,
}

impl PartialEq for Written {
    fn eq(&self, _: &Written) -> bool {
        true
    }
}

impl Written {
    pub fn at(file: Option<&str>, line: u64, column: u64, excerpt: String) -> Written {
        Written(Some(Arc::new(Place { file: file.map(str::to_owned), line, column, excerpt })))
    }

    /// The error with this place, unless it has one.
    pub fn blame(&self, error: Error) -> Error {
        match self.0.as_deref() {
            Some(Place { file, line, column, excerpt }) => {
                error.in_configuration(file.as_deref(), *line, *column, excerpt.clone())
            }
            None => error,
        }
    }

    /// `line 3 of 'a.cntk'`.
    pub fn describe(&self) -> Option<String> {
        let Place { file, line, .. } = self.0.as_deref()?;
        Some(match file {
            Some(file) => format!("line {line} of '{file}'"),
            None => format!("line {line} of the configuration"),
        })
    }
}
