//! Options as keys with values, as all front ends but CNTK's language create them.
//!
//! Values need no quotes and contain no comments, variables or defaults, so a path or a stream name
//! may have any characters. [`Section`](super::section::Section) reads these values and the values
//! of a text by the same rules. [`Values::to_configuration`] writes them in CNTK's language as far
//! as that can express them.

use super::convert::FromValue;
use super::syntax;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::file::address;
use cntk_reader_core::format::files::{FileSpec, Files};
use cntk_reader_core::message::shown::signed;
use cntk_reader_core::option::{self, FrontEnd, Kind};
use cntk_reader_core::{Error, Result};
use std::path::{Path, PathBuf};

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A boolean, a number, or a word of the library's, as the language writes it.
    Word(String),
    /// A user-supplied text.
    Text(String),
    /// The path of one file or folder.
    Path(PathBuf),
    /// Paths, or patterns of paths, of the files of one deserializer.
    Files(Vec<PathBuf>),
    /// Several values.
    List(Vec<Value>),
    /// Keys with values.
    Section(Values),
}

/// Keys with their values. Keys are case-insensitive, and each has one value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values(Vec<(String, Value)>);

impl Values {
    /// Returns the values of a deserializer or a transform of this type.
    pub fn of_type(name: &str) -> Values {
        let mut values = Values::default();
        values.set("type", Value::Text(name.to_owned()));
        values
    }

    /// Returns the `type` of a deserializer or a transform.
    pub fn kind(&self) -> Option<&str> {
        match &self.0[self.find("type")?].1 {
            Value::Word(kind) | Value::Text(kind) => Some(kind),
            _ => None,
        }
    }

    /// Sets a key, replacing any earlier value.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.find(key) {
            Some(place) => self.0[place].1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Returns the value of a key, after setting it to `default` if the key has none yet.
    pub fn entry(&mut self, key: &str, default: Value) -> &mut Value {
        let place = self.find(key).unwrap_or_else(|| {
            self.0.push((key.to_owned(), default));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    /// Appends elements to the list of a key; creates the list if there is none.
    pub fn add(&mut self, key: &str, added: Value) -> Result<()> {
        let empty = match added {
            Value::Files(_) => Value::Files(Vec::new()),
            _ => Value::List(Vec::new()),
        };
        match (self.entry(key, empty), added) {
            (Value::Files(paths), Value::Files(added)) => paths.extend(added),
            (Value::List(elements), Value::List(added)) => elements.extend(added),
            (_, Value::Files(_)) => {
                let message = format!("The option '{key}' has a value that is not a list of files.");
                return Err(Error::argument(message));
            }
            _ => return Err(Error::argument(format!("The option '{key}' has a value that is not a list."))),
        }
        Ok(())
    }

    fn find(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(known, _)| known.eq_ignore_ascii_case(key))
    }

    /// Adds a section, such as a stream by its name. Refuses a second one of the same name, because
    /// one of them would be lost.
    pub fn add_section(&mut self, name: &str, section: Values) -> Result<()> {
        if let Some(place) = self.find(name) {
            let message = match &self.0[place].0 {
                former if former == name => format!("Two streams have the name '{name}'."),
                former => format!("Two streams have the names '{former}' and '{name}'."),
            };
            let detail =
                "Give each stream a name of its own. Upper and lower case are the same in names of one file.";
            return Err(Error::config(InvalidArgument, message).with_detail(detail));
        }
        self.0.push((name.to_owned(), Value::Section(section)));
        Ok(())
    }

    /// Returns whether no key has a value.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the lines of a configuration with these keys. It is an error if the language has no
    /// way to write a name or a text; every path can be written.
    pub fn to_configuration(&self) -> Result<String> {
        let mut text = String::new();
        self.write(&mut text, "")?;
        Ok(text)
    }

    /// Returns the section of a configuration with these keys, in brackets.
    pub fn to_section(&self) -> Result<String> {
        Value::Section(self.clone()).written("")
    }

    /// Returns whether the section is written on one line.
    fn is_short(&self) -> bool {
        let is_simple = |value: &Value| matches!(value, Value::Word(_) | Value::Text(_) | Value::Path(_));
        self.0.len() <= 5 && self.iter().all(|(_, value)| is_simple(value))
    }

    fn in_one_line(&self) -> Result<String> {
        let mut parts = Vec::new();
        for (key, value) in self.iter() {
            check_key(key)?;
            parts.push(format!("{key} = {}", value.written("")?));
        }
        Ok(format!("[ {} ]", parts.join(" ; ")))
    }

    fn write(&self, text: &mut String, indent: &str) -> Result<()> {
        for (key, value) in self.iter() {
            check_key(key)?;
            text.push_str(&format!("{indent}{key} = {}\n", value.written(indent)?));
        }
        Ok(())
    }
}

impl Value {
    /// Returns the value as a text that is taken literally. None for compound values.
    pub(super) fn literal(&self) -> Option<String> {
        match self {
            Value::Word(text) | Value::Text(text) => Some(text.clone()),
            Value::Path(path) => Some(address::text_of(path).into_owned()),
            Value::Files(_) | Value::List(_) | Value::Section(_) => None,
        }
    }

    /// Returns the value as written in a configuration.
    pub(super) fn written(&self, indent: &str) -> Result<String> {
        let list = |parts: Vec<String>, separator: &str| format!("({})", parts.join(separator));
        Ok(match self {
            Value::Word(word) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => match &**word {
                "true" | "false" => word.clone(),
                word => quoted(word),
            },
            Value::Word(number) => number.clone(),
            Value::Text(text) if is_plain(text) => quoted(text),
            Value::Text(text) => return Err(unwritable("text", text)),
            Value::Path(path) => quoted_path(path),
            Value::Files(paths) => match &**paths {
                [path] => quoted_pattern(path),
                paths => list(paths.iter().map(|path| quoted_pattern(path)).collect(), ":"),
            },
            Value::List(values)
                if !values.is_empty() && values.iter().all(|value| matches!(value, Value::Word(_))) =>
            {
                let words = values.iter().map(|value| value.written(indent)).collect::<Result<Vec<_>>>()?;
                words.join(":")
            }
            Value::List(values) => {
                let parts = values.iter().map(|value| value.written(indent)).collect::<Result<Vec<_>>>()?;
                list(
                    parts,
                    if values.iter().any(|value| matches!(value, Value::Section(_))) { " : " } else { ":" },
                )
            }
            Value::Section(values) if values.is_short() => values.in_one_line()?,
            Value::Section(values) => {
                let mut text = String::from("[\n");
                values.write(&mut text, &format!("{indent}  "))?;
                text + indent + "]"
            }
        })
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Word(flag.to_string())
    }
}

/// Implements conversions for types that the language writes as Rust does.
macro_rules! words {
    ($($type:ty)*) => { $(
        impl From<$type> for Value {
            fn from(value: $type) -> Value {
                Value::Word(value.to_string())
            }
        }

        impl From<($type, $type)> for Value {
            fn from((first, second): ($type, $type)) -> Value {
                Value::List(vec![first.into(), second.into()])
            }
        }
    )* };
}

words!(u32 i32 u64 i64 usize f32 f64);

/// A word of the library's.
impl From<&'static str> for Value {
    fn from(word: &'static str) -> Value {
        Value::Word(word.to_owned())
    }
}

impl From<&Path> for Value {
    fn from(path: &Path) -> Value {
        Value::Path(path.to_owned())
    }
}

impl From<Values> for Value {
    fn from(values: Values) -> Value {
        Value::Section(values)
    }
}

/// Returns the files that paths or patterns name.
pub(super) fn files_of(paths: &[PathBuf]) -> Files {
    let spec = |path: &PathBuf| {
        FileSpec::Pattern(match path.to_str() {
            Some(text) if !address::is_like_url(text) => text.to_owned(),
            _ => address::url_of(path, true),
        })
    };
    Files::of(paths.iter().map(spec).collect())
}

/// Refuses values that no option with this key accepts, with an error in the words of a front end.
/// `values` is the group that the option belongs to.
pub fn check(values: &Values, key: &str, value: &Value, front_end: FrontEnd) -> Result<()> {
    let mut expected = Vec::new();
    for kind in option::kinds_of(key) {
        if is_of(kind, value) {
            return Ok(());
        }
        let described = kind.describe();
        if !expected.contains(&described) {
            expected.push(described);
        }
    }
    if expected.is_empty() {
        return Ok(());
    }
    let literals = match value {
        Value::List(values) => values.iter().map(Value::literal).collect::<Option<Vec<_>>>(),
        value => value.literal().map(|text| vec![text]),
    };
    // Python and Rust refuse negative numbers before they become unsigned.
    let converts = front_end.has_text() || front_end == FrontEnd::Cpp;
    let as_written = |text: String| match text.parse::<u64>() {
        Ok(number) if converts => signed(number),
        _ => text,
    };
    let literals = literals.map(|all| all.into_iter().map(as_written).collect::<Vec<_>>());
    let shown = literals.map(|all| all.join(":")).or_else(|| value.written("").ok()).unwrap_or_default();
    let word = option::word_of_key(key, values.kind().is_some(), front_end);
    let message = format!("The value of {word} is '{shown}'.");
    let is_large = |text: &str| text.parse::<i128>().is_ok_and(|number| number > i128::from(i32::MAX));
    let hint = match converts && shown.split(':').any(is_large) {
        true => "; a negative number wraps around",
        false => "",
    };
    let detail = format!("Expected {}{hint}.", expected.join(", or "));
    Err(Error::config(InvalidArgument, message).with_detail(detail))
}

fn is_of(kind: Kind, value: &Value) -> bool {
    let text = match value {
        Value::Word(text) | Value::Text(text) => Some(&**text),
        _ => None,
    };
    match kind {
        Kind::Flag => text.is_some_and(|text| bool::from_value(text).is_ok()),
        Kind::Whole(least, most) => text
            .and_then(|text| text.parse::<i128>().ok())
            .is_some_and(|number| (least..=most).contains(&number)),
        Kind::Numbers => are_one_or_two(value, |text| text.parse::<f64>().is_ok_and(|number| number >= 0.0)),
        Kind::Counts => {
            are_one_or_two(value, |text| text.parse().is_ok_and(|count| (0..=i32::MAX).contains(&count)))
        }
        Kind::Choice(_) | Kind::Text => text.is_some(),
        Kind::Path => matches!(value, Value::Path(_) | Value::List(_)) || text.is_some(),
        Kind::Files => matches!(value, Value::Path(_) | Value::Files(_)) || text.is_some(),
        Kind::List => matches!(value, Value::List(_)) || text.is_some(),
        Kind::Section => matches!(value, Value::Section(_)) || text.is_some(),
    }
}

/// Checks for one or two numbers, in a list or in a text with a colon.
fn are_one_or_two(value: &Value, is_one: impl Fn(&str) -> bool) -> bool {
    match value {
        Value::List(values) => {
            (1..=2).contains(&values.len())
                && values.iter().all(|value| value.literal().is_some_and(|text| is_one(&text)))
        }
        Value::Word(text) | Value::Text(text) => text.split(':').count() <= 2 && text.split(':').all(is_one),
        _ => false,
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Writes a path so that it is taken literally, alone or in an array: in quotes, or as its URL
/// where quotes do not protect it.
fn quoted_path(path: &Path) -> String {
    match path.to_str() {
        // In an array a star would repeat the element, and a bracket would turn a single path into
        // an array.
        Some(text) if is_plain_path(text) && !text.contains('*') && !text.starts_with(['(', '[', '{']) => {
            quoted(text)
        }
        _ => quoted(&address::url_of(path, false)),
    }
}

/// Writes a path or a pattern, otherwise like [`quoted_path`].
fn quoted_pattern(path: &Path) -> String {
    match path.to_str() {
        Some(text) if is_plain_path(text) => quoted(text),
        _ => quoted(&address::url_of(path, true)),
    }
}

fn is_plain_path(text: &str) -> bool {
    is_plain(text) && !address::is_like_url(text)
}

/// Returns whether a quoted text is read back unchanged.
fn is_plain(text: &str) -> bool {
    let comment = text.starts_with('#') || text.contains(" #") || text.contains("\t#");
    let variable = text.matches('$').count() > 1;
    let trimmed = text.trim_matches([' ', '\t']).len() == text.len();
    let control = text.contains(|c: char| c == '"' || c.is_control());
    trimmed && !comment && !variable && text != "default" && !control && syntax::strange_value(text).is_none()
}

/// Refuses names that cannot be a key of a configuration.
fn check_key(name: &str) -> Result<()> {
    let is_key = is_plain(name) && !name.contains(['=', '[', ']', '{', '}', '(', ')', ',', ';']);
    if is_key && !name.is_empty() { Ok(()) } else { Err(unwritable("name", name)) }
}

fn unwritable(what: &str, text: &str) -> Error {
    let message = format!("The {what} '{text}' cannot be written in a configuration.");
    let detail = "Its language has no escape: a text there does not begin or end with a blank, and has no line breaks, quotes, \
                  '#' after a blank or two '$'; a name has no brackets, '=', ',' or ';' either. Options that are not written need \
                  none of this.";
    Error::config(InvalidArgument, message).with_detail(detail)
}
