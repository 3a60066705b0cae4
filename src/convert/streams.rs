//! Which streams of a text file are converted: the header file of `ctf2bin.py`.

use crate::stream::Storage;
use crate::{Error, Result};

/// A stream to convert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRule {
    /// Name in the binary file.
    pub name: String,
    /// Name in the text file.
    pub alias: String,
    /// Dense or sparse.
    pub storage: Storage,
    /// Values of a sample.
    pub dim: u32,
}

/// Reads the content of a header file: one line per stream, `name alias dense|sparse dimension`. Their order is that of
/// the streams in the binary file. Of two lines with one alias the later one counts, in the place of the earlier.
pub fn parse_streams(text: &str) -> Result<Vec<StreamRule>> {
    let mut streams: Vec<StreamRule> = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let refuse = |message: String| Error::argument(format!("Line {number} of the streams: {message}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, alias, format, dim] = words.as_slice() else {
            let count = words.len();
            return Err(refuse(format!("not enough values to unpack (expected 4, got {count})")));
        };
        let storage = if format.eq_ignore_ascii_case("dense") {
            Storage::Dense
        } else if format.eq_ignore_ascii_case("sparse") {
            Storage::SparseCsc
        } else {
            return Err(refuse(format!("Invalid input format {format}")));
        };
        let dim = match dim.parse() {
            Ok(dim) if (1..=i32::MAX as u32).contains(&dim) => dim,
            _ => return Err(refuse(format!("'{dim}' is no dimension"))),
        };
        let stream = StreamRule { name: (*name).to_owned(), alias: (*alias).to_owned(), storage, dim };
        match streams.iter_mut().find(|other| other.alias == stream.alias) {
            Some(other) => *other = stream,
            None => streams.push(stream),
        }
    }
    if streams.is_empty() {
        return Err(Error::argument("There are no streams to convert."));
    }
    Ok(streams)
}
