//! Lines of a script file (`.scp`): a key, and the position of its object.

use cntk_reader_core::{Error, Result};

/// A line of a script: `key path`, `key path:offset`, and either of them with rows, as in `[0:99]`.
#[derive(Debug, PartialEq)]
pub struct Line<'a> {
    pub key: &'a [u8],
    pub path: &'a str,
    /// Offset of the object in its file.
    pub offset: u64,
    /// The first and the last row, unless all rows are selected.
    pub rows: Option<(u32, u32)>,
}

/// Parses a line. Surrounding white space is ignored.
pub fn parse(line: &[u8]) -> Result<Line<'_>> {
    let line = line.trim_ascii();
    let (key, object) = match line.iter().position(u8::is_ascii_whitespace) {
        Some(end) => (&line[..end], line[end..].trim_ascii()),
        None if line.contains(&b'=') => {
            return Err(malformed(
                "It has no blank between key and path, but '=': it looks like a line of an HTK script.",
            )
            .with_detail("A script with lines 'key=path[first,last]' is read by a ‹htk_type›."));
        }
        None => return Err(malformed("It has no path.")),
    };
    let object =
        std::str::from_utf8(object).map_err(|_| malformed("The path has bytes that are not UTF-8."))?;
    if object.starts_with('|') || object.ends_with('|') {
        return Err(malformed("It names a command, but commands are not run.").with_detail(
            "Write the output of the command to an archive first, for example with copy-feats or copy-int-vector. For recordings \
             (wav.scp), compute the features first: compute-mfcc-feats scp:wav.scp ark,scp:feats.ark,feats.scp.",
        ));
    }
    let (object, rows) = match object.strip_suffix(']').and_then(|object| object.rsplit_once('[')) {
        Some((object, rows)) => (object.trim_end(), parse_rows(rows)?),
        None => (object, None),
    };
    // As in Kaldi: text after the last colon is an offset if it consists of digits only.
    let digits = object.len() - object.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (path, offset) = match (object[..digits].strip_suffix(':'), &object[digits..]) {
        (Some(path), offset) if !offset.is_empty() => {
            let offset = offset.parse().ok().filter(|&offset| offset <= i64::MAX as u64);
            (path, offset.ok_or_else(|| malformed("The offset is too large."))?)
        }
        _ => (object, 0),
    };
    if path.is_empty() || path == "-" {
        return Err(malformed("It names no file."));
    }
    Ok(Line { key, path, offset, rows })
}

/// Parses the text in brackets: `first:last`, inclusive, or `:` for all rows. Columns may be given,
/// as in `[0:99,:]`, if all are selected.
fn parse_rows(range: &str) -> Result<Option<(u32, u32)>> {
    let (rows, columns) = range.split_once(',').unwrap_or((range, ":"));
    if columns != ":" {
        return Err(malformed("It selects columns, but only rows can be selected."));
    }
    if rows == ":" {
        return Ok(None);
    }
    let number = |text: &str| text.parse().ok().filter(|&number| number <= i32::MAX as u32);
    match rows.split_once(':').map(|(first, last)| (number(first), number(last))) {
        Some((Some(first), Some(last))) if first <= last => Ok(Some((first, last))),
        _ => Err(malformed("Rows are given as [first:last], both from 0 on and included.")),
    }
}

fn malformed(detail: &str) -> Error {
    Error::data("A line of a Kaldi script file is malformed.").with_detail(detail).with_detail(
        "Expected 'key path', 'key path:offset', or one of these with '[first:last]', a range of rows.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_key_path_and_optional_offset_and_rows() {
        let line = |key, path, offset, rows| Line { key, path, offset, rows };
        for (text, expected) in [
            ("a b.ark", line(&b"a"[..], "b.ark", 0, None)),
            ("a\t x/b.ark:17 \r", line(b"a", "x/b.ark", 17, None)),
            ("a b.ark:17[2:5]", line(b"a", "b.ark", 17, Some((2, 5)))),
            ("a b 1.ark[0:0,:]", line(b"a", "b 1.ark", 0, Some((0, 0)))),
            ("a b.ark:3[:]", line(b"a", "b.ark", 3, None)),
            ("a c:b.9", line(b"a", "c:b.9", 0, None)),
            ("a b7", line(b"a", "b7", 0, None)),
        ] {
            assert_eq!(parse(text.as_bytes()).expect(text), expected);
        }
    }

    #[test]
    fn unsupported_lines_are_rejected() {
        for (text, words) in [
            ("", "no path"),
            ("a", "no path"),
            ("a gunzip -c b.gz |", "commands are not run"),
            ("a | cat", "commands are not run"),
            ("a -", "names no file"),
            ("a :12", "names no file"),
            ("a b:99999999999999999999", "too large"),
            ("a b[5:2]", "both from 0 on"),
            ("a b[-1:2]", "both from 0 on"),
            ("a b[1]", "both from 0 on"),
            ("a b[1:2,0:3]", "columns"),
        ] {
            let error = parse(text.as_bytes()).expect_err(text);
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
