//! Facts about the values of a column, from which the type of its stream is inferred.

use super::record::{Record, Value, is_missing, number};
use super::schema::Kind;
use std::collections::HashSet;

/// Number of different numbers that are kept: they may be classes.
const MAX_NUMBERS: usize = 1000;

/// Number of different values that may be categories even if they hardly repeat, as in a short
/// file.
const FEW: usize = 50;

/// Number of different texts from which on most of them must occur repeatedly.
const MAX_TEXTS: usize = 100_000;

/// Facts about a column.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Number of records with a value.
    pub present: u64,
    /// The line of the first record without a value, or with a missing word, such as NA.
    pub first_missing: Option<u64>,
    /// Number of missing words in place of numbers.
    pub missing_words: u64,
    numbers: u64,
    texts: u64,
    /// The first text that is no number, and its line.
    first_text: Option<(u64, String)>,
    is_whole: bool,
    min: f64,
    max: f64,
    scalars: u64,
    lists: u64,
    nested: u64,
    pairs: u64,
    /// The least and the greatest length of lists, and of lists in them.
    lengths: Option<(usize, usize)>,
    inner: Option<(usize, usize)>,
    /// The line of the first record of another shape than those before.
    first_change: Option<u64>,
    distinct: Option<HashSet<Box<str>>>,
    /// Whether all texts are kept, however many there are.
    pub keeps_all: bool,
    /// Whether every text was `_`, which stands for nothing in CoNLL's formats.
    is_blank: bool,
}

/// A few texts among numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Strays<'a> {
    /// Number of texts.
    pub count: u64,
    /// The first text, and its line.
    pub first: &'a str,
    pub line: u64,
    /// Number of numbers.
    pub numbers: u64,
}

/// The sample type of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub kind: Kind,
    pub dim: usize,
    pub is_sequence: bool,
}

/// A reason why a column is not a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Refusal {
    /// Texts that hardly repeat: the number of texts, and of different ones if known.
    FreeText(u64, Option<usize>),
    /// The texts must be collected in another pass.
    NeedsTexts,
    /// The values have several shapes.
    Wrong(String, Option<u64>),
    /// There are no values.
    Empty,
}

impl Facts {
    /// Starts without values. `keeps_all`: whether all texts will be needed.
    pub fn new(keeps_all: bool) -> Facts {
        Facts {
            present: 0,
            first_missing: None,
            missing_words: 0,
            numbers: 0,
            texts: 0,
            first_text: None,
            is_whole: true,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            scalars: 0,
            lists: 0,
            nested: 0,
            pairs: 0,
            lengths: None,
            inner: None,
            first_change: None,
            distinct: Some(HashSet::new()),
            keeps_all,
            is_blank: true,
        }
    }

    /// Adds a value.
    pub fn add(&mut self, value: &Value, record: &Record) {
        let before = self.shape_count();
        match value {
            Value::Missing => {
                self.first_missing.get_or_insert(record.line);
                return;
            }
            Value::Text(span) => {
                self.scalars += 1;
                self.add_text(record.text(*span), record.line);
            }
            Value::Pairs(pairs) => {
                self.pairs += 1;
                for (name, _) in pairs {
                    self.add_text(record.text(*name), record.line);
                }
            }
            Value::List(values) => {
                grow(&mut self.lengths, values.len());
                let is_nested = values.iter().any(|value| matches!(value, Value::List(_)));
                *(if is_nested { &mut self.nested } else { &mut self.lists }) += 1;
                for value in values {
                    match value {
                        Value::Text(span) => self.add_text(record.text(*span), record.line),
                        Value::List(inner) => {
                            grow(&mut self.inner, inner.len());
                            for value in inner {
                                if let Value::Text(span) = value {
                                    self.add_text(record.text(*span), record.line);
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        self.present += 1;
        if before > 0 && self.shape_count() > before {
            self.first_change.get_or_insert(record.line);
        }
    }

    fn shape_count(&self) -> usize {
        [self.scalars, self.lists, self.nested, self.pairs].iter().filter(|&&count| count > 0).count()
    }

    fn add_text(&mut self, text: &str, line: u64) {
        self.is_blank &= text == "_";
        match number(text) {
            Some(number) => {
                self.numbers += 1;
                self.is_whole &= number.fract() == 0.0;
                self.min = self.min.min(number);
                self.max = self.max.max(number);
            }
            None if is_missing(text) => {
                self.missing_words += 1;
                self.first_missing.get_or_insert(line);
            }
            None => {
                self.texts += 1;
                self.first_text.get_or_insert_with(|| (line, text.to_owned()));
            }
        }
        let Some(distinct) = &mut self.distinct else { return };
        if distinct.contains(text) {
            return;
        }
        distinct.insert(text.into());
        let count = distinct.len();
        let is_too_many = match self.texts {
            0 => count > MAX_NUMBERS,
            _ => count > MAX_TEXTS && 2 * count as u64 > self.numbers + self.texts,
        };
        if is_too_many && !self.keeps_all {
            self.distinct = None;
        }
    }

    /// Whether all values are numbers.
    pub fn is_numeric(&self) -> bool {
        self.texts == 0 && self.numbers > 0
    }

    /// Whether each value is a single number.
    pub fn is_number(&self) -> bool {
        self.is_numeric() && self.scalars == self.present
    }

    /// Whether each value is a single value.
    pub fn is_scalar(&self) -> bool {
        self.scalars == self.present
    }

    /// Whether the column has nothing but `_`.
    pub fn is_blank(&self) -> bool {
        self.present > 0 && self.is_blank
    }

    /// Whether floats of 32 bits cannot hold all whole numbers.
    pub fn exceeds_float(&self) -> bool {
        const MOST: f64 = (1 << 24) as f64;
        self.is_numeric() && self.is_whole && (self.max > MOST || self.min < -MOST) && self.max.is_finite()
    }

    /// Returns the texts of a column of which at least 90 % are numbers.
    pub fn strays(&self) -> Option<Strays<'_>> {
        let (line, first) = self.first_text.as_ref()?;
        let strays = Strays { count: self.texts, first, line: *line, numbers: self.numbers };
        (self.pairs == 0 && self.numbers >= 9 * self.texts).then_some(strays)
    }

    /// Whether the numbers count records: 0, 1, 2, ...
    pub fn counts_records(&self) -> bool {
        let count = self.max - self.min + 1.0;
        self.is_number()
            && self.is_whole
            && self.present > 10
            && count == self.present as f64
            && self.distinct.as_ref().is_none_or(|distinct| distinct.len() as u64 == self.present)
    }

    /// Infers the type of the column's stream. `first_index`: of pairs. `are_sequences`: whether
    /// lists are sequences even if all have one length.
    pub fn shape(
        &self,
        is_label: bool,
        first_index: Option<u64>,
        are_sequences: bool,
    ) -> Result<Shape, Refusal> {
        self.check_shapes()?;
        let dense = |dim: usize, is_sequence| Shape { kind: Kind::Dense, dim: dim.max(1), is_sequence };
        let (shortest, longest) = self.lengths.unwrap_or((0, 0));
        if self.nested > 0 {
            let (least, most) = self.inner.unwrap_or((0, 0));
            return match self.texts {
                0 if least == most => Ok(dense(least, true)),
                0 => Err(Refusal::Wrong(
                    format!("its inner lists have from {least} to {most} numbers; expected one length"),
                    None,
                )),
                _ => Err(Refusal::Wrong("its lists of lists have texts; expected numbers".to_owned(), None)),
            };
        }
        if self.pairs > 0 {
            if self.numbers + self.texts == 0 {
                return Err(Refusal::Empty);
            }
            let first = if is_label { Some(0) } else { first_index };
            return if self.can_be_index() { self.index(first, false) } else { self.category(false, true) };
        }
        let is_list = self.lists > 0;
        if self.numbers + self.texts == 0 {
            return Err(Refusal::Empty);
        }
        if self.texts > 0 {
            return self.category(is_list, false);
        }
        if is_list {
            return if shortest == longest && !are_sequences {
                Ok(dense(longest, false))
            } else if self.can_be_index() {
                self.index(Some(0), true)
            } else {
                Ok(dense(1, true))
            };
        }
        if is_label && self.is_whole && self.distinct.is_some() && self.missing_words == 0 {
            let are_classes = self.min >= 0.0 && self.max < MAX_NUMBERS as f64;
            if are_classes {
                return self.index(Some(0), false);
            }
            // Whole numbers that mostly differ are measurements, not names of classes.
            if !self.is_free() {
                return self.category(false, true);
            }
        }
        Ok(dense(1, false))
    }

    /// The column as texts that are numbered.
    pub fn category(&self, is_sequence: bool, is_asked_for: bool) -> Result<Shape, Refusal> {
        let total = self.numbers + self.texts + self.missing_words;
        let Some(distinct) = &self.distinct else {
            let is_free = self.texts > 0 && !is_asked_for && !self.is_numeric();
            return Err(match is_free && self.numbers == 0 {
                true => Refusal::FreeText(total, None),
                false => Refusal::NeedsTexts,
            });
        };
        let count = distinct.len();
        if self.is_free() && !is_sequence && !is_asked_for {
            return Err(Refusal::FreeText(total, Some(count)));
        }
        if count > i32::MAX as usize {
            return Err(Refusal::Wrong("it has more than 2147483647 texts".to_owned(), None));
        }
        let mut names: Vec<String> = distinct.iter().map(|name| String::from(&**name)).collect();
        let key = |name: &String| number(name);
        match names.iter().all(|name| number(name).is_some()) {
            true => names.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(a.cmp(b)).then(a.cmp(b))),
            false => names.sort(),
        }
        Ok(Shape { dim: names.len().max(1), kind: Kind::Category(names), is_sequence })
    }

    /// Whether the values mostly differ, so that they are not categories.
    fn is_free(&self) -> bool {
        let total = self.numbers + self.texts + self.missing_words;
        let mostly = |count: usize| count > FEW && 2 * count as u64 > total;
        self.distinct.as_ref().is_none_or(|distinct| mostly(distinct.len()))
    }

    /// Whether all numbers can be indices.
    fn can_be_index(&self) -> bool {
        self.texts == 0
            && self.missing_words == 0
            && self.is_whole
            && self.min >= 0.0
            && self.max < f64::from(i32::MAX)
    }

    /// The column as indices.
    pub fn index(&self, first: Option<u64>, is_sequence: bool) -> Result<Shape, Refusal> {
        if let Some((line, text)) = &self.first_text {
            return Err(Refusal::Wrong(
                format!("it has '{text}'; expected whole numbers from 0"),
                Some(*line),
            ));
        }
        if !self.can_be_index() {
            let found = match self.is_whole {
                _ if self.missing_words > 0 => "missing words".to_owned(),
                true => format!("numbers from {} to {}", self.min, self.max),
                false => "numbers with fractions".to_owned(),
            };
            let message = format!("it has {found}; expected whole numbers from 0 to 2147483646");
            return Err(Refusal::Wrong(message, None));
        }
        let first = first.unwrap_or(u64::from(self.min >= 1.0));
        let dim = (self.max as u64 + 1).saturating_sub(first).max(1) as usize;
        Ok(Shape { kind: Kind::Index { first }, dim, is_sequence })
    }

    /// The column as numbers side by side.
    pub fn dense(&self, are_sequences: bool) -> Result<Shape, Refusal> {
        self.check_shapes()?;
        if let Some((line, text)) = &self.first_text {
            return Err(Refusal::Wrong(format!("it has '{text}'; expected a number"), Some(*line)));
        }
        match self.shape(false, None, are_sequences)? {
            Shape { kind: Kind::Index { .. }, .. } if self.pairs > 0 => {
                Err(Refusal::Wrong("it has pairs of names and numbers; expected numbers".to_owned(), None))
            }
            Shape { kind: Kind::Index { .. }, is_sequence, .. } => {
                Ok(Shape { kind: Kind::Dense, dim: 1, is_sequence })
            }
            shape => Ok(shape),
        }
    }

    /// Whether values are lists with a sample in each element, if they are numbered.
    pub fn has_lists(&self) -> bool {
        self.lists > 0
    }

    /// Whether the column has pairs of names and numbers.
    pub fn has_pairs(&self) -> bool {
        self.pairs > 0
    }

    fn check_shapes(&self) -> Result<(), Refusal> {
        let is_mixed = match self.pairs {
            0 => self.shape_count() > 1,
            _ => self.lists + self.nested > 0,
        };
        match is_mixed {
            true => {
                let message =
                    "it has values of several shapes, such as numbers and lists; expected one shape";
                Err(Refusal::Wrong(message.to_owned(), self.first_change))
            }
            false => Ok(()),
        }
    }
}

fn grow(range: &mut Option<(usize, usize)>, length: usize) {
    let (least, most) = range.get_or_insert((length, length));
    (*least, *most) = ((*least).min(length), (*most).max(length));
}
