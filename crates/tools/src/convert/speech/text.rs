//! Reads a one-hot stream of a text file (CTF), sequence by sequence.

use crate::convert::lines::Lines;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// Reads one stream of the sequences of a text file. Lines are split like in the script
/// `ctf2bin.py`: an id, and items that begin with `|`. A line without an id belongs to the sequence
/// of the line before.
pub struct OneHotText<'a> {
    file: &'a DataFile,
    stream: &'a str,
    input: Lines<'a>,
    line: Vec<u8>,
    /// Numbers of bytes and lines read so far.
    pub bytes: u64,
    number: u64,
    /// Whether `line` is the first of the next sequence.
    is_pending: bool,
}

impl<'a> OneHotText<'a> {
    pub fn new(file: &'a DataFile, stream: &'a str) -> Result<OneHotText<'a>> {
        let input = Lines::new(file)?;
        Ok(OneHotText {
            file,
            stream,
            input,
            line: Vec::new(),
            bytes: file.text_start(),
            number: 0,
            is_pending: false,
        })
    }

    /// Reads the next sequence: its id into `key`, its classes into `classes`. Returns false at the
    /// end.
    pub fn next(&mut self, key: &mut Vec<u8>, classes: &mut Vec<u16>) -> Result<bool> {
        classes.clear();
        let mut begun = false;
        while self.is_pending || self.read()? {
            let start = self.bytes - self.line.len() as u64;
            let place = |error: Error| error.in_file(self.file.path()).at(start, Some(self.number));
            let line = self.line.trim_ascii();
            let Some(bar) = line.iter().position(|&byte| byte == b'|') else {
                self.is_pending = false;
                if line.is_empty() {
                    continue;
                }
                return Err(place(Error::data("The line has no '|'.")));
            };
            let id = line[..bar].trim_ascii();
            if !begun {
                if id.is_empty() {
                    let error = Error::data("The line has no id, and there is no line before it.");
                    return Err(place(
                        error.with_detail("Sequences need ids, which become keys of utterances."),
                    ));
                }
                key.clear();
                room::extend(key, id, room::CONVERSION)?;
                begun = true;
            } else if !id.is_empty() && id != key.as_slice() {
                self.is_pending = true;
                return Ok(true);
            }
            self.is_pending = false;
            for item in line[bar + 1..].split(|&byte| byte == b'|') {
                let mut words = item.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
                if words.next() == Some(self.stream.as_bytes()) {
                    let class = class(words).ok_or_else(|| {
                        let item = quoted(item.trim_ascii());
                        place(Error::data(format!("The sample '|{item}' is not one-hot.")))
                            .with_detail(
                                "It must have one value of 1, of a class from 0 to 65535, and no others.",
                            )
                            .in_stream(self.stream)
                            .for_key(quoted(key))
                    })?;
                    room::push(classes, class, room::CONVERSION)?;
                }
            }
        }
        Ok(begun)
    }

    /// Reads the next line. Returns false at the end.
    fn read(&mut self) -> Result<bool> {
        let count = self.input.read(&mut self.line)?;
        self.bytes += count as u64;
        self.number += 1;
        Ok(count > 0)
    }
}

/// Returns the class of a one-hot sample, dense or sparse.
fn class<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    let mut found = None;
    for (number, word) in words.enumerate() {
        let word = std::str::from_utf8(word).ok()?;
        let (index, value) = match word.split_once(':') {
            Some((index, value)) => (index.parse().ok()?, value),
            None => (number, word),
        };
        let value: f64 = value.parse().ok()?;
        if value == 1.0 && found.is_none() {
            found = Some(u16::try_from(index).ok()?);
        } else if value != 0.0 {
            return None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::class;

    #[test]
    fn one_value_of_1_is_a_class() {
        let of = |text: &str| class(text.split(' ').map(str::as_bytes));
        for (text, expected) in [
            ("7:1", Some(7)),
            ("0 0 1 0", Some(2)),
            ("3:1.0 4:0", Some(3)),
            ("65535:1e0", Some(65535)),
            ("65536:1", None),
            ("3:2", None),
            ("3:1 4:1", None),
            ("0 0", None),
            ("a:1", None),
            ("-1:1", None),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
