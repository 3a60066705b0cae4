//! LIBSVM and SVMlight: lines of a label, perhaps a group (`qid:3`), and pairs `index:value`.

use super::lines::Lines;
use super::record::{Record, Records, Value, number};
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// A file in LIBSVM's format.
pub(super) struct LibSvm {
    lines: Lines,
    columns: [String; 3],
}

impl LibSvm {
    /// Opens a file.
    pub fn open(path: &str) -> Result<LibSvm> {
        Ok(LibSvm { lines: Lines::open(path)?, columns: ["label", "qid", "features"].map(str::to_owned) })
    }
}

impl Records for LibSvm {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn read(&mut self, record: &mut Record) -> Result<bool> {
        loop {
            let Some((whole, line)) = self.lines.next()? else { return Ok(false) };
            let text = whole.split('#').next().unwrap_or_default();
            if text.trim().is_empty() {
                continue;
            }
            record.begin(line);
            if let Err((word, expected)) = parse(text, record) {
                let column = whole.find(&word).map_or(1, |at| whole[..at].chars().count() + 1);
                let message =
                    format!("Column {column} has '{}'. Expected {expected}.", quoted(word.as_bytes()));
                let detail = "A line is 'label index:value index:value ...', with a whole number as index.";
                return Err(Error::data(message)
                    .with_detail(detail)
                    .in_file(self.lines.path())
                    .in_line(line));
            }
            return Ok(true);
        }
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

/// Parses a line; fails with the wrong word, and the expected one.
fn parse(text: &str, record: &mut Record) -> std::result::Result<(), (String, &'static str)> {
    let mut words = text.split_ascii_whitespace().peekable();
    let has_label = words.peek().is_some_and(|word| !word.contains(':'));
    let mut label = Value::Missing;
    if let Some(word) = words.next_if(|_| has_label) {
        let is_number = |label: &str| number(label).is_some();
        if !word.split(',').all(is_number) {
            return Err((word.to_owned(), "a number as the label, or several with commas between"));
        }
        label = match word.contains(',') {
            true => Value::Pairs(word.split(',').map(|label| (record.add(label), 1.0)).collect()),
            false => Value::Text(record.add(word)),
        };
    }
    let mut group = Value::Missing;
    let mut pairs = Vec::new();
    for word in words {
        if let Some(number) = word.strip_prefix("qid:") {
            group = Value::Text(record.add(number));
            continue;
        }
        let pair = word.split_once(':').and_then(|(index, value)| {
            let is_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
            is_index.then(|| Some((index, number(value)?)))?
        });
        let Some((index, value)) = pair else {
            return Err((word.to_owned(), "a pair 'index:value', such as '3:0.5'"));
        };
        pairs.push((record.add(index), value));
    }
    record.fields.extend([label, group, Value::Pairs(pairs)]);
    Ok(())
}
