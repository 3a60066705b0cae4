//! Objects of text archives: `[ 1 2 3 ]` with one row per line, or integers up to the end of the
//! line.

use super::header::{Object, ObjectKind};
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};
use std::fmt::Display;
use std::str::FromStr;

/// Measures an object. `bytes` is its text, from the key to the end of the line or the closing
/// bracket, at `offset` of the file.
pub fn measure(bytes: &[u8], offset: u64, integers: bool) -> Result<Object> {
    let (rows, columns) = if integers {
        (words(bytes).count(), 1)
    } else {
        let mut rows = rows(bytes).map_err(|error| error.at(offset, None))?;
        let columns = rows.next().map_or(0, |row| words(row).count());
        (if columns > 0 { 1 + rows.count() } else { 0 }, columns)
    };
    // Memory is allocated for the numbers of the first row times the rows; each number has at least
    // one character.
    if rows.checked_mul(columns).is_none_or(|numbers| numbers > bytes.len()) {
        let message =
            format!("A text of {} bytes cannot have {rows} rows of {columns} numbers.", bytes.len());
        return Err(Error::data(message).with_detail(DAMAGED).at(offset, None));
    }
    match (u32::try_from(rows), u32::try_from(columns)) {
        (Ok(rows), Ok(columns)) => {
            let bytes = offset..offset + bytes.len() as u64;
            Ok(Object { kind: ObjectKind::Text, rows, columns, is_matrix: !integers, bytes })
        }
        _ => Err(Error::data("A text has too many values for one sequence.")
            .with_detail("At most 4294967295 rows and columns are possible: split the utterance.")
            .at(offset, None)),
    }
}

const DAMAGED: &str = "All rows of a matrix must have the same number of values: write the archive again.";

/// Calls `each` with every value of `count` rows of a matrix, starting at row `first`.
pub fn values<T: FromStr>(
    bytes: &[u8],
    columns: usize,
    (first, count): (usize, usize),
    mut each: impl FnMut(T),
) -> Result<()>
where
    T::Err: Display,
{
    let mut found = 0;
    for row in rows(bytes)?.skip(first).take(count) {
        let mut values = 0;
        for word in words(row) {
            each(number(word)?);
            values += 1;
        }
        if values != columns {
            let message = format!("A row has {values} values, but others have {columns}.");
            return Err(Error::data(message).with_detail(DAMAGED));
        }
        found += 1;
    }
    if found == count { Ok(()) } else { Err(changed()) }
}

/// Calls `each` with every number of a vector of integers.
pub fn integers(bytes: &[u8], mut each: impl FnMut(i32)) -> Result<()> {
    words(bytes).try_for_each(|word| number(word).map(&mut each))
}

/// Returns the error for a text that has changed after it was measured.
pub fn changed() -> Error {
    Error::data("A text has different sizes than when its archive was opened.")
        .with_detail("The file was changed while it was in use: open the reader again.")
}

/// Returns the nonempty rows of a matrix.
fn rows(bytes: &[u8]) -> Result<impl Iterator<Item = &[u8]>> {
    let bytes = bytes.trim_ascii();
    let inner = bytes.strip_prefix(b"[").and_then(|bytes| bytes.strip_suffix(b"]"));
    let inner = inner.ok_or_else(|| {
        Error::data("The text of a matrix or vector does not begin with '[' and end with ']'.")
            .with_detail("Vectors of integers need a sparse stream.")
    })?;
    let is_end = |&byte: &u8| matches!(byte, b'\n' | b'\r' | b';');
    Ok(inner.split(is_end).map(<[u8]>::trim_ascii).filter(|row| !row.is_empty()))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn number<T: FromStr>(word: &[u8]) -> Result<T> {
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    number.ok_or_else(|| Error::data(format!("'{}' is not a number.", quoted(word))).with_detail(DAMAGED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_are_measured_and_read() {
        let text = b"  [\n 1 2.5\n -3e2 inf\n 5 6 ]";
        let object = measure(text, 10, false).expect("a matrix");
        assert_eq!((object.rows, object.columns, object.bytes), (3, 2, 10..10 + text.len() as u64));
        let mut found = Vec::new();
        values(text, 2, (1, 2), |value: f32| found.push(value)).expect("values");
        assert_eq!(found, [-300.0, f32::INFINITY, 5.0, 6.0]);
        assert!(values(text, 2, (1, 3), |_: f32| ()).is_err());
        let object = measure(b" [ 7 8 9 ]", 0, false).expect("a vector");
        assert_eq!((object.rows, object.columns), (1, 3));
        let object = measure(b" [ ]", 0, false).expect("an empty matrix");
        assert_eq!((object.rows, object.columns), (0, 0));
    }

    #[test]
    fn integers_are_words() {
        assert_eq!(measure(b" 1 2  30 ", 0, true).expect("integers").rows, 3);
        let mut found = Vec::new();
        integers(b" 1 -2  30 ", |number| found.push(number)).expect("integers");
        assert_eq!(found, [1, -2, 30]);
    }

    #[test]
    fn damaged_text_is_an_error() {
        assert!(measure(b" 1 2 3", 0, false).is_err());
        assert!(values(b"[ 1 2\n 3 ]", 2, (0, 2), |_: f32| ()).is_err());
        assert!(values(b"[ 1 x ]", 2, (0, 1), |_: f32| ()).is_err());
        assert!(integers(b"1 2.5", |_| ()).is_err());
    }
}
