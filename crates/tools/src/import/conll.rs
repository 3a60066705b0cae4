//! Columns as in the shared tasks of CoNLL: a line for each word, an empty line after each
//! sentence.

use super::lines::Lines;
use super::options::ImportOptions;
use super::record::{Record, Records, Value};
use cntk_reader_core::{Error, Result};

/// The columns of CoNLL-U.
const UNIVERSAL: [&str; 10] =
    ["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"];

/// A file of sentences.
pub(super) struct Conll {
    lines: Lines,
    columns: Vec<String>,
    has_tabs: bool,
}

impl Conll {
    /// Opens a file: its first word says how many columns there are.
    pub fn open(path: &str, options: &ImportOptions) -> Result<Conll> {
        let mut lines = Lines::open(path)?;
        let (count, has_tabs) = loop {
            let Some((line, _)) = lines.next()? else {
                return Err(Error::data("There are no sentences.")
                    .with_detail("A line has a word and its columns; an empty line ends a sentence.")
                    .in_file(path));
            };
            if !line.trim().is_empty() && !line.starts_with('#') && !is_document(line) {
                let has_tabs = line.contains('\t');
                break (fields(line, has_tabs).count(), has_tabs);
            }
        };
        let names: Vec<String> = match (options.columns.len(), count) {
            (0, 10) if has_tabs => UNIVERSAL.map(str::to_owned).to_vec(),
            (0, 4) => ["word", "pos", "chunk", "ner"].map(str::to_owned).to_vec(),
            (0, 2) => ["word", "tag"].map(str::to_owned).to_vec(),
            (0, _) => (1..=count).map(|place| format!("c{place}")).collect(),
            (own, _) if own == count => options.columns.clone(),
            (own, _) => {
                let message = format!("--columns names {own} columns, but lines have {count}.");
                return Err(Error::argument(message).with_detail("Give each column a name.").in_file(path));
            }
        };
        Ok(Conll { lines: Lines::open(path)?, columns: names, has_tabs })
    }

    /// Whether the file is CoNLL-U, in which some lines are not words.
    fn is_universal(&self) -> bool {
        self.columns.iter().eq(UNIVERSAL.iter())
    }
}

fn fields(line: &str, has_tabs: bool) -> impl Iterator<Item = &str> {
    line.split(move |c: char| if has_tabs { c == '\t' } else { c.is_ascii_whitespace() })
        .filter(move |field| has_tabs || !field.is_empty())
}

fn is_document(line: &str) -> bool {
    line.starts_with("-DOCSTART-")
}

impl Records for Conll {
    fn columns(&self) -> &[String] {
        &self.columns
    }

    fn read(&mut self, record: &mut Record) -> Result<bool> {
        let is_universal = self.is_universal();
        let (count, has_tabs) = (self.columns.len(), self.has_tabs);
        record.begin(0);
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); count];
        while let Some((line, number)) = self.lines.next()? {
            if line.trim().is_empty() {
                if record.line > 0 {
                    break;
                }
                continue;
            }
            let found = fields(line, has_tabs).count();
            if is_document(line) || line.starts_with('#') && (found != count || is_universal) {
                continue;
            }
            if found != count {
                let message =
                    format!("The number of columns is {found}. Expected {count}, as in the first line.");
                let separator = if has_tabs { "tabs" } else { "blanks" };
                let detail = format!("Columns are separated by {separator}; an empty line ends a sentence.");
                return Err(Error::data(message)
                    .with_detail(detail)
                    .in_file(self.lines.path())
                    .in_line(number));
            }
            // Ranges of words, `1-2`, and empty words, `1.1`, stand beside the words.
            let is_word = |id: &str| !id.contains(['-', '.']);
            if is_universal && !fields(line, has_tabs).next().is_some_and(is_word) {
                continue;
            }
            if record.line == 0 {
                record.line = number;
            }
            for (column, field) in columns.iter_mut().zip(fields(line, has_tabs)) {
                column.push(Value::Text(record.add(field)));
            }
        }
        if record.line == 0 {
            return Ok(false);
        }
        record.fields.extend(columns.into_iter().map(Value::List));
        Ok(true)
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}
