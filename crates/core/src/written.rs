//! Source locations of options, for errors that are found when data are read.

use crate::Error;
use std::sync::Arc;

/// The source location of an option in a configuration; none if it was not set, or not in a text.
/// All locations compare equal, so that options are compared by their values.
#[derive(Debug, Clone, Default)]
pub struct Written(Option<Arc<Place>>);

#[derive(Debug)]
struct Place {
    /// Path of the configuration file; `None` for a text that was not read from a file.
    file: Option<String>,
    /// Line number, from 1.
    line: u64,
    /// Column in the line, in characters, from 1.
    column: u64,
    /// The line as shown in errors.
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

    /// Adds this location to an error that has none.
    pub fn blame(&self, error: Error) -> Error {
        match self.0.as_deref() {
            Some(Place { file, line, column, excerpt }) => {
                error.in_configuration(file.as_deref(), *line, *column, excerpt.clone())
            }
            None => error,
        }
    }

    /// Describes the location, such as `line 3 of 'a.cntk'`.
    pub fn describe(&self) -> Option<String> {
        let Place { file, line, .. } = self.0.as_deref()?;
        Some(match file {
            Some(file) => format!("line {line} of '{file}'"),
            None => format!("line {line} of the configuration"),
        })
    }
}
