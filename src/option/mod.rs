//! Options as messages name them: by an id, for which each front end has its own word.
//!
//! The engine and the formats write `‹max_errors›` or `‹max_errors = 3›` into a message, never the
//! word of one interface. [`FrontEnd::say`] turns that into `'maxErrors = 3'` for a configuration,
//! `'max_errors=3'` for Python, `'max_errors(3)'` for Rust: whatever the reader was opened with.

mod table;

use std::borrow::Cow;
use table::{OPTIONS, Word};

/// The interface in which a reader's options were written: messages call options what it calls
/// them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FrontEnd {
    /// A configuration in CNTK's language; also that of C programs, which write one.
    #[default]
    Configuration,
    /// The builders of the Rust crate.
    Rust,
    /// The builders of the C++ header.
    Cpp,
    /// The classes of the Python package.
    Python,
}

impl FrontEnd {
    /// A message in the words of this front end. Whatever is no option's id stays as it is.
    pub fn say(self, template: &str) -> Cow<'_, str> {
        let Some(first) = template.find('‹') else { return Cow::Borrowed(template) };
        let (mut said, mut rest) = (template[..first].to_owned(), &template[first..]);
        while let Some(inside) = rest.strip_prefix('‹') {
            let named = inside.split_once('›').and_then(|(option, after)| {
                let (id, value) = match option.split_once(" = ") {
                    Some((id, value)) => (id, Some(value)),
                    None => (option, None),
                };
                Some((self.name(id, value)?, after))
            });
            let (word, after) = named.unwrap_or_else(|| ("‹".to_owned(), inside));
            said.push_str(&word);
            let next = after.find('‹').unwrap_or(after.len());
            said.push_str(&after[..next]);
            rest = &after[next..];
        }
        Cow::Owned(said)
    }

    /// The word for an option, or for setting it to a value.
    fn name(self, id: &str, value: Option<&str>) -> Option<String> {
        let option = OPTIONS.iter().find(|option| option.id == id)?;
        let word = match self {
            FrontEnd::Configuration => &option.configuration,
            FrontEnd::Rust => &option.rust,
            FrontEnd::Cpp => &option.cpp,
            FrontEnd::Python => &option.python,
        };
        let is_python = self == FrontEnd::Python;
        let value = value.map(|value| match value {
            "true" if is_python => "True",
            "false" if is_python => "False",
            _ => value,
        });
        let equals = if is_python { "=" } else { " = " };
        Some(match (word, value) {
            (Word::Phrase(phrase), _) => (*phrase).to_owned(),
            (Word::Entry(key), value) => format!("'options={{\"{key}\": {}}}'", value.unwrap_or("...")),
            (Word::Method(method), Some(value)) => format!("'{method}({value})'"),
            (Word::Key(key), Some(value)) => format!("'{key}{equals}{value}'"),
            (Word::Key(word) | Word::Method(word) | Word::Fixed(word), _) => format!("'{word}'"),
        })
    }
}

#[cfg(test)]
mod tests;
