//! A line of a Base64 file: `[key TAB] label TAB data`.

use super::text::{self, is_base64};
use crate::source::number::{CNumber, unsigned};
use cntk_reader_core::{Error, Result};
use memchr::memchr;

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The class number.
    pub label: u32,
    /// The image as Base64.
    pub data: &'a [u8],
}

/// Rules for parsing a line.
pub(super) struct Rules<'a> {
    /// Path of the file, for messages.
    pub file: &'a str,
    /// Lines begin with keys.
    pub has_keys: bool,
    /// Number of classes.
    pub label_dim: u32,
    /// Quotes and a `data:` URI prefix around the data count as data, as in CNTK 2.7.
    pub as_cntk: bool,
}

impl Rules<'_> {
    /// Parses the line of the sequence `id`. `text` begins with the line and contains all following
    /// lines with the same key.
    ///
    /// CNTK 2.7 looks for the next tab even in later lines, and may deliver the data of another
    /// line with this label; here the line break ends the line.
    pub fn read<'a>(&self, text: &'a [u8], id: &dyn std::fmt::Display) -> Result<Record<'a>> {
        let Rules { file, has_keys, label_dim, as_cntk } = *self;
        let end = memchr(b'\n', text);
        let (line, others) = text.split_at(end.map_or(text.len(), |end| end + 1));
        let label_error = || {
            let message = format!("Cannot parse label value for sequence '{id}' in the input file '{file}'");
            let detail = "Expected a class number, a tab and an image as Base64; if the first line of the file begins with \
                          a key and a tab, all lines must.";
            Error::data(message).with_detail(detail)
        };
        let line = match (has_keys, memchr(b'\t', line)) {
            (false, _) => line,
            (true, Some(tab)) => &line[tab + 1..],
            (true, None) => return Err(label_error()),
        };
        // `strtoull` skips line breaks before a number, but here they end the line.
        if line.first() == Some(&b'\n') {
            return Err(label_error());
        }
        let CNumber::Value(class) = unsigned(line) else { return Err(label_error()) };
        let label = u32::try_from(class).ok().filter(|&class| class < label_dim).ok_or_else(|| {
            let message = format!(
                "Image with id '{id}' has invalid class id '{class}'. It is exceeding the label dimension of '{label_dim}'"
            );
            Error::data(message).with_detail("Classes count from 0, and ‹classes› is their number: set it, or correct the line.")
        })?;
        let Some(tab) = memchr(b'\t', line) else {
            let message = format!("No data found for sequence '{id}' in the input file '{file}'");
            return Err(Error::data(message)
                .with_detail("There must be a tab after the class number, and an image as Base64."));
        };
        let empty =
            |detail: &str| Err(Error::data(format!("Empty image for sequence '{id}'")).with_detail(detail));
        if end.is_none() {
            return empty("The last line of the file has no line break at its end: add one.");
        }
        let data = &line[tab + 1..];
        let data = if as_cntk { data } else { text::bare(data) };
        let is_data = |&byte: &u8| is_base64(byte) || !as_cntk && matches!(byte, b'-' | b'_');
        let length = data.iter().rposition(is_data).map_or(0, |last| last + 1);
        if length == 0 {
            return empty("There must be an image as Base64 after the tab.");
        }
        if !others.trim_ascii().is_empty() {
            let message = format!("Sequence '{id}' has more than one line in the input file '{file}'");
            let detail = "Consecutive lines have one key, and only the first of them would be read (by CNTK 2.7). Give each \
                          line a key of its own.";
            return Err(Error::data(message).with_detail(detail));
        }
        Ok(Record { label, data: &data[..length] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, has_keys: bool) -> std::result::Result<(u32, &str), String> {
        let rules = Rules { file: "f", has_keys, label_dim: 4, as_cntk: false };
        match rules.read(text.as_bytes(), &7) {
            Ok(Record { label, data }) => Ok((label, std::str::from_utf8(data).expect("ASCII"))),
            Err(error) => Err(error.message().to_owned()),
        }
    }

    #[test]
    fn a_line_has_a_label_and_data() {
        for text in ["1\tZm9v\n", "1\tZm9v\r\n", "1\tZm9v \t\n", "+1\tZm9v\n", "1x\tZm9v\n"] {
            assert_eq!(read(text, false), Ok((1, "Zm9v")), "{text:?}");
        }
        let rules = Rules { file: "f", has_keys: false, label_dim: 4, as_cntk: true };
        for (line, data) in
            [("1\t Zm9v\n", &b" Zm9v"[..]), ("1\tb'Zm9v'\n", b"b'Zm9v"), ("1\tZm9-\n", b"Zm9")]
        {
            assert_eq!(rules.read(line.as_bytes(), &7).expect("a record").data, data);
        }
        assert_eq!(read("1\tZm 9v\n", false), Ok((1, "Zm 9v")));
        assert_eq!(read("key\t3\tZm9v\n", true), Ok((3, "Zm9v")));
        assert_eq!(read("7\t3\tZm9v\n\n \r\n", true), Ok((3, "Zm9v")));
    }

    #[test]
    fn mistakes_have_cntks_words() {
        let label = || Err("Cannot parse label value for sequence '7' in the input file 'f'".to_owned());
        for text in ["x\tZm9v\n", "\tZm9v\n", "\n", "99999999999999999999\tZm9v\n", ""] {
            assert_eq!(read(text, false), label(), "{text:?}");
        }
        for text in ["7\n", "7\tx\tZm9v\n", "7\t\n1\tZm9v\n"] {
            assert_eq!(read(text, true), label(), "{text:?}");
        }
        for (text, class) in [("4\tZm9v\n", "4"), ("-1\tZm9v\n", "18446744073709551615")] {
            let message = format!(
                "Image with id '7' has invalid class id '{class}'. It is exceeding the label dimension of '4'"
            );
            assert_eq!(read(text, false), Err(message));
        }
        assert_eq!(
            read("1\n", false),
            Err("No data found for sequence '7' in the input file 'f'".to_owned())
        );
        for text in ["1\tZm9v", "1\t\n", "1\t \r\n"] {
            assert_eq!(read(text, false), Err("Empty image for sequence '7'".to_owned()), "{text:?}");
        }
        assert!(
            read("7\t1\tZm9v\n7\t1\tZm9v\n", true).is_err_and(|message| message.contains("more than one"))
        );
    }
}
