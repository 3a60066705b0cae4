//! Tables: fields separated by commas, semicolons, tabs or blanks, with or without a line of names.

use super::lines::{BLOCK, Bytes, Lines, failure, not_text};
use super::options::ImportOptions;
use super::record::{Record, Records, number};
use cntk_reader_core::{Error, Result};
use std::collections::HashSet;

/// Separates fields by runs of blanks.
pub(super) const BLANKS: u8 = b' ';

/// A table.
pub(super) struct Table {
    path: String,
    rows: Rows,
    columns: Vec<String>,
    /// The first row, if it has values and not names.
    first: Option<Vec<String>>,
    /// Line of the first row.
    line: u64,
    has_header: bool,
    delimiter: u8,
}

enum Rows {
    Quoted { reader: Box<csv::Reader<Bytes>>, row: csv::ByteRecord },
    Blanks(Lines),
}

impl Table {
    /// Opens a table. `delimiter`: of the format, or of the options.
    pub fn open(path: &str, delimiter: Option<u8>, options: &ImportOptions) -> Result<Table> {
        let delimiter = match options.delimiter.or(delimiter) {
            Some(delimiter) => delimiter,
            None => delimiter_of(path)?,
        };
        let rows = match delimiter {
            BLANKS => Rows::Blanks(Lines::open(path)?),
            _ => {
                let mut builder = csv::ReaderBuilder::new();
                builder.delimiter(delimiter).has_headers(false).flexible(true).buffer_capacity(BLOCK);
                let reader = Box::new(builder.from_reader(Bytes::open(path)?));
                Rows::Quoted { reader, row: csv::ByteRecord::new() }
            }
        };
        let mut table = Table {
            path: path.to_owned(),
            rows,
            columns: Vec::new(),
            first: None,
            line: 0,
            has_header: false,
            delimiter,
        };
        let mut first = Vec::new();
        let Some(line) = table.row(&mut |field| first.push(field.trim().to_owned()))? else {
            let error = Error::data("The table is empty.");
            return Err(error.with_detail("Check how it was written.").in_file(path));
        };
        table.line = line;
        let looks_like_names = !first.iter().any(|field| number(field).is_some());
        table.has_header = options.header.unwrap_or(looks_like_names && options.columns.is_empty());
        table.columns = match options.columns.len() {
            0 if table.has_header => names(&first),
            0 => names(&vec![String::new(); first.len()]),
            count if count == first.len() => options.columns.clone(),
            count => {
                let message = format!("--columns names {count} columns, but rows have {}.", first.len());
                return Err(Error::argument(message)
                    .with_detail("Give each column a name.")
                    .in_file(path)
                    .in_line(line));
            }
        };
        table.first = (!table.has_header).then_some(first);
        Ok(table)
    }

    /// Passes the fields of the next row, and returns its line; `None` at the end.
    fn row(&mut self, take: &mut dyn FnMut(&str)) -> Result<Option<u64>> {
        match &mut self.rows {
            Rows::Quoted { reader, row } => {
                let is_read = reader.read_byte_record(row).map_err(|error| match error.into_kind() {
                    csv::ErrorKind::Io(cause) => failure(cause, &self.path),
                    other => Error::data(format!("The row cannot be read: {other:?}.")).in_file(&self.path),
                })?;
                let line = row.position().map_or(0, csv::Position::line);
                for field in row.iter().filter(|_| is_read) {
                    match std::str::from_utf8(field) {
                        Ok(field) => take(field),
                        Err(_) => return Err(not_text(&self.path, line, field)),
                    }
                }
                Ok(is_read.then_some(line))
            }
            Rows::Blanks(lines) => {
                while let Some((line, number)) = lines.next()? {
                    if line.trim().is_empty() || line.starts_with('#') {
                        continue;
                    }
                    line.split_ascii_whitespace().for_each(take);
                    return Ok(Some(number));
                }
                Ok(None)
            }
        }
    }
}

impl Records for Table {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn layout(&self) -> Option<(u8, bool)> {
        Some((self.delimiter, self.has_header))
    }

    fn read(&mut self, record: &mut Record) -> Result<bool> {
        if let Some(first) = self.first.take() {
            record.begin(self.line);
            first.iter().for_each(|field| record.push_text(field));
            return Ok(true);
        }
        record.begin(0);
        let Some(line) = self.row(&mut |field| record.push_text(field))? else { return Ok(false) };
        record.line = line;
        let (found, expected) = (record.fields.len(), self.columns.len());
        if found == expected {
            return Ok(true);
        }
        let message = format!("The number of fields is {found}. Expected {expected}, as in the first row.");
        let has_break =
            matches!(&self.rows, Rows::Quoted { row, .. } if row.iter().any(|field| field.contains(&b'\n')));
        let detail = match has_break {
            true => "One of its fields has several lines: check whether its quote is closed.".to_owned(),
            false => format!(
                "Fields are separated by {}. Put a field with this character into quotes, or give another --delimiter.",
                shown(self.delimiter)
            ),
        };
        Err(Error::data(message).with_detail(detail).in_file(&self.path).in_line(line))
    }

    fn position(&self) -> u64 {
        match &self.rows {
            Rows::Quoted { reader, .. } => reader.position().byte(),
            Rows::Blanks(lines) => lines.position(),
        }
    }
}

/// Names a delimiter in messages.
pub(super) fn shown(delimiter: u8) -> String {
    match delimiter {
        b'\t' => "tabs".to_owned(),
        BLANKS => "blanks".to_owned(),
        b',' => "commas".to_owned(),
        b';' => "semicolons".to_owned(),
        other => format!("'{}'", char::from(other)),
    }
}

/// Returns the most frequent delimiter of the first line, outside quotes.
fn delimiter_of(path: &str) -> Result<u8> {
    let mut lines = Lines::open(path)?;
    let mut is_quoted = false;
    let mut counts = [(b',', 0), (b'\t', 0), (b';', 0), (b'|', 0)];
    while let Some((line, _)) = lines.next()? {
        for byte in line.bytes() {
            is_quoted ^= byte == b'"';
            counts
                .iter_mut()
                .filter(|(own, _)| *own == byte && !is_quoted)
                .for_each(|(_, count)| *count += 1);
        }
        if !is_quoted && !line.trim().is_empty() {
            break;
        }
    }
    // The first of equals: a comma if there is none of them.
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    Ok(counts.iter().find(|(_, count)| *count == most).map_or(b',', |(own, _)| *own))
}

/// Makes the names of a header unique and not empty: the third column is `c3` if needed.
pub(super) fn names(header: &[String]) -> Vec<String> {
    let mut seen = HashSet::new();
    let name = |(place, name): (usize, &String)| match !name.is_empty() && seen.insert(name.clone()) {
        true => name.clone(),
        false => format!("c{}", place + 1),
    };
    header.iter().enumerate().map(name).collect()
}
