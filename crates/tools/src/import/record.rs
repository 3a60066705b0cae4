//! A record of any format: the values of its fields.

use cntk_reader_core::Result;

/// A range of a record's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: usize,
    end: usize,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Value {
    /// Absent, empty or null.
    #[default]
    Missing,
    /// A number or a text: the formats do not separate them.
    Text(Span),
    /// A list of values.
    List(Vec<Value>),
    /// Names with their numbers, such as `3:0.5`.
    Pairs(Vec<(Span, f64)>),
}

/// A record. Reused for all records of a file, so that few need new memory.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The line that it begins in, from 1.
    pub line: u64,
    text: String,
    /// The values in the order of the columns; values at the end may lack.
    pub fields: Vec<Value>,
}

impl Record {
    /// Empties the record, and sets its line.
    pub fn begin(&mut self, line: u64) {
        self.line = line;
        self.text.clear();
        self.fields.clear();
    }

    /// Appends text.
    pub fn add(&mut self, text: &str) -> Span {
        let start = self.text.len();
        self.text.push_str(text);
        Span { start, end: self.text.len() }
    }

    /// Appends a field with a text, without the blanks around it. An empty text is missing.
    pub fn push_text(&mut self, text: &str) {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let value = if text.is_empty() { Value::Missing } else { Value::Text(self.add(text)) };
        self.fields.push(value);
    }

    /// Sets the value of a column.
    pub fn set(&mut self, column: usize, value: Value) {
        if self.fields.len() <= column {
            self.fields.resize(column + 1, Value::Missing);
        }
        self.fields[column] = value;
    }

    /// Returns the value of a column.
    pub fn get(&self, column: usize) -> &Value {
        self.fields.get(column).unwrap_or(&Value::Missing)
    }

    /// Returns the text of a range.
    pub fn text(&self, span: Span) -> &str {
        self.text.get(span.start..span.end).unwrap_or_default()
    }
}

/// Reads the records of a file.
pub(super) trait Records: Send {
    /// Names of the columns. In some formats further ones appear while records are read.
    fn columns(&self) -> &[String];

    /// Whether all columns are known from the start.
    fn are_columns_fixed(&self) -> bool {
        true
    }

    /// The delimiter of a table, and whether it begins with names.
    fn layout(&self) -> Option<(u8, bool)> {
        None
    }

    /// Reads the next record; false at the end.
    fn read(&mut self, record: &mut Record) -> Result<bool>;

    /// Bytes read so far.
    fn position(&self) -> u64;
}

/// Names of columns that appear while records are read.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<String>,
    numbers: std::collections::HashMap<String, usize>,
}

impl Names {
    /// Starts with these names.
    pub fn with(names: &[&str]) -> Names {
        let mut all = Names::default();
        names.iter().for_each(|name| _ = all.number(name));
        all
    }

    /// Returns the number of a column, which may be new.
    pub fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        self.names.len() - 1
    }

    /// Returns all names.
    pub fn all(&self) -> &[String] {
        &self.names
    }
}

/// Parses a number. Texts for "not a number" are missing values: see [`is_missing`].
pub(super) fn number(text: &str) -> Option<f64> {
    // Texts that begin otherwise are no numbers; most texts are refused here.
    let start = text.as_bytes().first()?;
    if !(start.is_ascii_digit() || b"+-.iI".contains(start)) {
        return None;
    }
    text.parse().ok()
}

/// Whether a text stands for a missing value in a column of numbers.
pub(super) fn is_missing(text: &str) -> bool {
    matches!(text, "NA" | "N/A" | "NaN" | "nan" | "NAN" | "null" | "NULL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_texts() {
        for (text, expected) in
            [("1", Some(1.0)), ("-.5", Some(-0.5)), ("+3e2", Some(300.0)), ("inf", Some(f64::INFINITY))]
        {
            assert_eq!(number(text), expected, "{text}");
        }
        for text in ["", "a", "1,5", "nan", "NaN", "1 2", "0x1", "in", "-"] {
            assert_eq!(number(text), None, "{text}");
        }
        assert!(is_missing("NA") && !is_missing("na1"));
    }
}
