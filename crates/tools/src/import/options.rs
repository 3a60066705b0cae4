//! Options of an import, as a user writes them.

use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::collections::BTreeSet;

/// Options for reading files of other formats. The default infers everything.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The streams; if empty, they are inferred.
    pub streams: Vec<StreamSpec>,
    /// The column of keys: consecutive records with the same key are the steps of one sequence.
    pub key: Option<String>,
    /// Separates the fields of a table; a space stands for runs of blanks. `None`: the format's, or
    /// the most frequent one of the first line.
    pub delimiter: Option<u8>,
    /// Whether the first row of a table has names. `None`: if none of them is a number.
    pub header: Option<bool>,
    /// Names of the columns of a table or of CoNLL data; if empty, the header's.
    pub columns: Vec<String>,
    /// Whether a key may return after other keys, because the sequences get numbers instead.
    pub may_repeat_keys: bool,
    /// The number that replaces missing ones. `None`: a missing number is an error.
    pub missing: Option<f64>,
    /// The smallest index of pairs `index:value`. `None`: 1, unless the index 0 occurs.
    pub first_index: Option<u64>,
    /// Type of the values, unless a stream says another one; `None`: `float32`.
    pub element: Option<ElementType>,
    /// Path of the description that an earlier import has written; its streams and categories are
    /// used.
    pub like: Option<String>,
    /// Number of records to infer streams from; `None`: all.
    pub sample: Option<u64>,
}

/// A stream, written as `NAME[=COLUMNS][:TYPE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSpec {
    /// Its name.
    pub name: String,
    /// The columns, as written.
    pub(super) columns: Option<String>,
    pub(super) kind: Option<KindSpec>,
}

/// The type of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KindSpec {
    /// Numbers side by side, perhaps of a certain type.
    Dense(Option<ElementType>),
    /// Texts, which are numbered.
    Category,
    /// Numbers that are indices, perhaps with the dimension.
    Index(Option<usize>),
}

const TYPES: [&str; 3] = ["dense", "category", "index"];

impl KindSpec {
    fn parse(text: &str) -> Option<KindSpec> {
        match text {
            "dense" => Some(KindSpec::Dense(None)),
            "category" => Some(KindSpec::Category),
            "index" => Some(KindSpec::Index(None)),
            _ => match text.strip_prefix("index=") {
                Some(dim) => {
                    let dim = dim.parse().ok().filter(|dim| (1..=i32::MAX as usize).contains(dim))?;
                    Some(KindSpec::Index(Some(dim)))
                }
                None => ElementType::from_name(text).map(|element| KindSpec::Dense(Some(element))),
            },
        }
    }
}

impl StreamSpec {
    /// Parses `NAME`, `NAME=COLUMNS`, `NAME:TYPE` or `NAME=COLUMNS:TYPE`. `COLUMNS` is a list with
    /// commas of names, places (`#3`) and ranges of them (`a..d`, `#2..#5`).
    pub fn parse(text: &str) -> Result<StreamSpec> {
        let mut kind = None;
        let mut rest = text;
        if let Some((before, word)) = text.rsplit_once(':') {
            match KindSpec::parse(word) {
                Some(found) => (rest, kind) = (before, Some(found)),
                // The name of a column may have a colon.
                None if word.chars().all(|c| c.is_ascii_alphanumeric() || c == '=') && !word.is_empty() => {
                    let known: BTreeSet<&str> = TYPES.into_iter().collect();
                    if let Some(near) = nearest(&word.to_ascii_lowercase(), &known) {
                        return Err(wrong(text, &format!("Did you mean ':{near}'?")));
                    }
                    if !before.contains('=') {
                        let detail = "A type is 'dense', 'category', 'index', 'index=DIM', or the type of dense values, such as 'uint8'.";
                        return Err(wrong(text, detail));
                    }
                }
                None => {}
            }
        }
        let (name, columns) = match rest.split_once('=') {
            Some((name, columns)) => (name, Some(columns.to_owned())),
            None => (rest, None),
        };
        if name.is_empty() || columns.as_ref().is_some_and(String::is_empty) {
            return Err(wrong(text, "Write NAME, NAME=COLUMNS, or NAME=COLUMNS:TYPE."));
        }
        Ok(StreamSpec { name: name.to_owned(), columns, kind })
    }

    /// Whether the columns are written as places or ranges, at least in part.
    pub(super) fn has_places(&self) -> bool {
        self.columns.as_ref().is_some_and(|text| text.contains("..") || text.contains('#'))
    }

    /// Returns the names of the columns. `are_fixed`: `known` are all columns.
    pub(super) fn resolve(&self, known: &[String], are_fixed: bool) -> Result<Vec<String>> {
        let text = self.columns.as_deref().unwrap_or(&self.name);
        if known.iter().any(|name| name == text) {
            return Ok(vec![text.to_owned()]);
        }
        let mut found = Vec::new();
        for part in text.split(',') {
            if known.iter().any(|name| name == part) {
                found.push(part.to_owned());
                continue;
            }
            match part.split_once("..") {
                Some((first, last)) => {
                    let (first, last) = (place(first, known)?, place(last, known)?);
                    if first > last {
                        let message = format!("The range '{part}' ends before it begins.");
                        return Err(
                            Error::argument(message).with_detail("Give the first column, then the last one.")
                        );
                    }
                    found.extend_from_slice(&known[first..=last]);
                }
                None if are_fixed || part.starts_with('#') => found.push(known[place(part, known)?].clone()),
                None => found.push(part.to_owned()),
            }
        }
        Ok(found)
    }
}

fn wrong(text: &str, detail: &str) -> Error {
    Error::argument(format!("'{text}' does not describe a stream.")).with_detail(detail)
}

/// Returns the place of a column, named or as `#3`.
fn place(text: &str, known: &[String]) -> Result<usize> {
    if let Some(place) = known.iter().position(|name| name == text) {
        return Ok(place);
    }
    let number = text.strip_prefix('#').and_then(|number| number.parse::<usize>().ok());
    match number {
        Some(number) if (1..=known.len()).contains(&number) => Ok(number - 1),
        _ => Err(no_column(text, known)),
    }
}

/// The error for an unknown column.
pub(super) fn no_column(name: &str, known: &[String]) -> Error {
    unknown(format!("There is no column '{name}'."), name, known)
}

/// An error for an unknown name, with this message, and the nearest of the known names or all.
pub(super) fn unknown(message: String, name: &str, known: &[String]) -> Error {
    const SHOWN: usize = 12;
    let names: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let detail = match nearest(&name.to_ascii_lowercase(), &names) {
        Some(near) => format!("Did you mean '{near}'?"),
        None => {
            let mut list: Vec<_> = known.iter().take(SHOWN).map(|name| format!("'{name}'")).collect();
            if known.len() > SHOWN {
                list.push(format!("... {} in all", known.len()));
            }
            format!("There are {}. A column is a name, or a place such as #3.", list.join(", "))
        }
    };
    Error::argument(message).with_detail(detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_parsed() {
        let parse = |text: &str| StreamSpec::parse(text).expect("a stream");
        let dense = Some(KindSpec::Dense(None));
        for (text, name, columns, kind) in [
            ("x", "x", None, None),
            ("x:dense", "x", None, dense),
            ("x=a,b", "x", Some("a,b"), None),
            ("x=a..#7:uint8", "x", Some("a..#7"), Some(KindSpec::Dense(Some(ElementType::UInt8)))),
            ("y=k:index=10", "y", Some("k"), Some(KindSpec::Index(Some(10)))),
            ("y=a:b c:category", "y", Some("a:b c"), Some(KindSpec::Category)),
        ] {
            let expected = StreamSpec { name: name.to_owned(), columns: columns.map(str::to_owned), kind };
            assert_eq!(parse(text), expected, "{text}");
        }
        for (text, part) in [
            ("x:dens", "Did you mean ':dense'?"),
            ("x:wrong", "A type is"),
            ("=a", "Write NAME"),
            ("x=", "Write NAME"),
            ("x:index=0", "A type is"),
        ] {
            let error = StreamSpec::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn columns_are_found_by_name_place_and_range() {
        let known = ["a", "b", "c,d", "e"].map(str::to_owned);
        let columns = |text: &str| {
            StreamSpec::parse(text).expect("a stream").resolve(&known, true).map_err(|e| e.to_string())
        };
        assert_eq!(columns("a"), Ok(vec!["a".to_owned()]));
        assert_eq!(columns("x=c,d"), Ok(vec!["c,d".to_owned()]));
        assert_eq!(columns("x=#4,a"), Ok(vec!["e".to_owned(), "a".to_owned()]));
        assert_eq!(columns("x=b..#4").map(|found| found.len()), Ok(3));
        assert!(columns("x=bb").expect_err("unknown").contains("There are 'a', 'b'"));
        assert!(columns("x=#5").expect_err("unknown").contains("no column '#5'"));
        assert!(columns("x=e..a").expect_err("backwards").contains("ends before it begins"));
    }
}
