//! Vowpal Wabbit: lines of `label importance 'tag|namespace feature:value ...`.

use super::lines::Lines;
use super::record::{Names, Record, Records, Value, number};
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// Name of the column of features without a namespace.
const NAMELESS: &str = "features";

/// A file in Vowpal Wabbit's format.
pub(super) struct VowpalWabbit {
    lines: Lines,
    names: Names,
}

impl VowpalWabbit {
    /// Opens a file.
    pub fn open(path: &str) -> Result<VowpalWabbit> {
        let names = Names::with(&["label", "importance", "tag"]);
        Ok(VowpalWabbit { lines: Lines::open(path)?, names })
    }
}

impl Records for VowpalWabbit {
    fn columns(&self) -> &[String] {
        self.names.all()
    }

    fn are_columns_fixed(&self) -> bool {
        false
    }

    fn read(&mut self, record: &mut Record) -> Result<bool> {
        loop {
            let Some((whole, line)) = self.lines.next()? else { return Ok(false) };
            if whole.trim().is_empty() {
                continue;
            }
            record.begin(line);
            if let Err((word, expected)) = parse(whole, record, &mut self.names) {
                let column = whole.find(&word).map_or(1, |at| whole[..at].chars().count() + 1);
                let message =
                    format!("Column {column} has '{}'. Expected {expected}.", quoted(word.as_bytes()));
                let detail =
                    "A line is 'label importance 'tag|namespace feature:value feature ... |namespace ...'.";
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
fn parse(
    text: &str,
    record: &mut Record,
    names: &mut Names,
) -> std::result::Result<(), (String, &'static str)> {
    let wrong = |word: &str, expected| Err((word.to_owned(), expected));
    let Some((head, features)) = text.split_once('|') else {
        return wrong(text, "a '|' before the features");
    };
    let mut words: Vec<&str> = head.split_ascii_whitespace().collect();
    let touches = !head.ends_with(|c: char| c.is_ascii_whitespace());
    if let Some(last) = words.last()
        && (last.starts_with('\'') || touches && (words.len() > 1 || number(last).is_none()))
    {
        let tag = Value::Text(record.add(last.trim_start_matches('\'')));
        record.set(2, tag);
        words.pop();
    }
    for (place, word) in words.iter().enumerate() {
        match (place, number(word)) {
            (0 | 1, Some(_)) => {
                let value = Value::Text(record.add(word));
                record.set(place, value);
            }
            // The initial prediction has no meaning here.
            (2, Some(_)) => {}
            _ => return wrong(word, "a number: a label, an importance, or an initial prediction"),
        }
    }
    for part in features.split('|') {
        let mut words = part.split_ascii_whitespace();
        let mut name = NAMELESS;
        let mut scale = 1.0;
        if !part.starts_with(|c: char| c.is_ascii_whitespace())
            && let Some(word) = words.next()
        {
            let (own, factor) = word.split_once(':').unwrap_or((word, "1"));
            name = if own.is_empty() { NAMELESS } else { own };
            match number(factor) {
                Some(factor) => scale = factor,
                None => return wrong(word, "a namespace, perhaps with ':' and a number to scale it by"),
            }
        }
        let column = names.number(name);
        // A namespace may occur more than once.
        let mut pairs = match std::mem::take(record.fields.get_mut(column).unwrap_or(&mut Value::Missing)) {
            Value::Pairs(pairs) => pairs,
            Value::Missing => Vec::new(),
            _ => return wrong(name, "a namespace other than 'label', 'importance' and 'tag'"),
        };
        for word in words {
            let (feature, value) = word.rsplit_once(':').unwrap_or((word, "1"));
            let Some(value) = number(value) else { return wrong(word, "'feature' or 'feature:number'") };
            if feature.is_empty() {
                return wrong(word, "the name of a feature before ':'");
            }
            pairs.push((record.add(feature), value * scale));
        }
        record.set(column, Value::Pairs(pairs));
    }
    Ok(())
}
