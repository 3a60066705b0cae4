//! The streams to convert from a text file, in the format of the header file of `ctf2bin.py`.

use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, Result};

/// The format of a line, for messages.
const FORMAT: &str = "A line is: name alias dense|sparse dimension.";

/// A stream to convert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRule {
    /// Name in the binary file.
    pub name: String,
    /// Name in the text file.
    pub alias: String,
    /// Dense or sparse.
    pub storage: Storage,
    /// Number of values of a sample.
    pub dim: u32,
}

/// Parses the content of a header file: one line per stream, `name alias dense|sparse dimension`.
/// The binary file has the streams in the order of the lines. If two lines have the same alias, the
/// later one counts, at the position of the earlier.
pub fn parse_streams(text: &str) -> Result<Vec<StreamRule>> {
    let mut streams: Vec<StreamRule> = Vec::new();
    let text = cntk_reader_core::file::text::decoded(text.as_bytes(), "streams")?;
    let text = String::from_utf8_lossy(&text);
    for (line, number) in text.lines().zip(1..) {
        let refuse = |message: String| Error::argument(format!("Line {number} of the streams: {message}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, alias, format, dim] = words.as_slice() else {
            let count = words.len();
            return Err(
                refuse(format!("not enough values to unpack (expected 4, got {count})")).with_detail(FORMAT)
            );
        };
        let storage = if format.eq_ignore_ascii_case("dense") {
            Storage::Dense
        } else if format.eq_ignore_ascii_case("sparse") {
            Storage::SparseCsc
        } else {
            return Err(refuse(format!("Invalid input format {format}")).with_detail(FORMAT));
        };
        let dim = match dim.parse() {
            Ok(dim) if (1..=i32::MAX as u32).contains(&dim) => dim,
            _ => {
                let error = refuse(format!("'{dim}' is no dimension"));
                return Err(error.with_detail("A dimension is a number from 1 to 2147483647."));
            }
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
