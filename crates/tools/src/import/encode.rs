//! Turns records into sequences.

use super::keys::Keys;
use super::options::{ImportOptions, no_column};
use super::record::{Record, Records, Value, is_missing, number};
use super::records;
use super::schema::{Kind, Schema, Stream};
use crate::convert::{Batch, Column, Data};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::stream::{Element, ElementType};
use cntk_reader_core::{Error, Result, with_element};
use std::collections::{BTreeSet, HashMap};

/// Number of records and bytes of values after which a batch ends.
const MAX_RECORDS: usize = 8192;
const MAX_BYTES: usize = 4 << 20;

/// A category that stands for all unknown ones.
const UNKNOWN: &str = "<unk>";

/// Opens the sequences of a file.
/// `checks_keys`: fail at a key that returns after other keys.
pub(super) fn data(path: &str, schema: &Schema, sequences: Option<u64>, checks_keys: bool) -> Result<Data> {
    for stream in schema.streams.iter().filter(|stream| stream.kind == Kind::Dense) {
        if let (None, Some((line, column))) = (schema.missing, &stream.first_missing) {
            let records = if stream.missing == 1 {
                "1 record".to_owned()
            } else {
                format!("{} records", stream.missing)
            };
            let error = Error::data(format!("The column '{column}' has no number in line {line}."));
            let detail = format!(
                "{records} of the stream '{}' have a missing number. Give the number that replaces it (--missing 0), or leave the column out.",
                stream.name
            );
            return Err(error.with_detail(detail).in_file(path));
        }
    }
    let options = ImportOptions {
        delimiter: schema.delimiter,
        header: schema.header,
        columns: schema.columns.clone(),
        ..ImportOptions::default()
    };
    let source = records(path, schema.format, &options)?;
    let streams: Vec<_> = schema.streams.iter().map(Stream::info).collect();
    let lookup = |stream: &Stream| match &stream.kind {
        Kind::Category(names) => {
            let places = names.iter().enumerate();
            places.map(|(place, name)| (name.clone(), place as i32)).collect()
        }
        _ => HashMap::new(),
    };
    let is_single = schema.key.is_none() && !schema.streams.iter().any(|stream| stream.is_sequence);
    let mut encoder = Encoder {
        path: path.to_owned(),
        source,
        lookups: schema.streams.iter().map(lookup).collect(),
        schema: schema.clone(),
        places: Vec::new(),
        key: None,
        keys: checks_keys.then(Keys::default),
        known: usize::MAX,
        record: Record::default(),
        is_pending: false,
    };
    encoder.find_columns()?;
    let has_keys = schema.key.is_some();
    let data = Data::of_batches(streams, has_keys, sequences, move |batch| encoder.fill(batch));
    Ok(data.with_single_samples(is_single))
}

struct Encoder {
    path: String,
    source: Box<dyn Records>,
    schema: Schema,
    /// The indices of the categories of each stream.
    lookups: Vec<HashMap<String, i32>>,
    /// The places of the columns of each stream; `None` for columns that have not appeared yet.
    places: Vec<Vec<Option<usize>>>,
    key: Option<usize>,
    /// The keys so far, if they must not return.
    keys: Option<Keys>,
    /// Number of columns for which places were found.
    known: usize,
    record: Record,
    /// Whether the record begins the next batch.
    is_pending: bool,
}

impl Encoder {
    fn find_columns(&mut self) -> Result<()> {
        let columns = self.source.columns();
        if columns.len() == self.known {
            return Ok(());
        }
        self.known = columns.len();
        let find = |name: &String| columns.iter().position(|own| own == name);
        self.places =
            self.schema.streams.iter().map(|stream| stream.columns.iter().map(find).collect()).collect();
        self.key = self.schema.key.as_ref().and_then(find);
        if self.source.are_columns_fixed() {
            let names = self.schema.streams.iter().flat_map(|stream| &stream.columns).chain(&self.schema.key);
            if let Some(name) = names.into_iter().find(|name| find(name).is_none()) {
                return Err(no_column(name, columns).in_file(&self.path));
            }
        }
        Ok(())
    }

    /// Fills a batch; false at the end.
    fn fill(&mut self, batch: &mut Batch) -> Result<bool> {
        let mut records = 0;
        loop {
            if !std::mem::take(&mut self.is_pending) && !self.source.read(&mut self.record)? {
                break;
            }
            self.find_columns()?;
            let key = self.key()?;
            let continues = key.is_some() && key == batch.keys.last().map(String::as_str);
            if !continues {
                let bytes: usize =
                    batch.columns.iter().map(|column| column.values.len() + 4 * column.indices.len()).sum();
                if records >= MAX_RECORDS || bytes >= MAX_BYTES {
                    self.is_pending = true;
                    break;
                }
                let key = key.unwrap_or_default().to_owned();
                if let (Some(keys), Some(column)) = (&mut self.keys, &self.schema.key) {
                    keys.add(&key, self.record.line, column, &self.path)?;
                }
                room::push(&mut batch.keys, key, room::CONVERSION)?;
            }
            for (number, (stream, column)) in self.schema.streams.iter().zip(&mut batch.columns).enumerate() {
                let samples = self.append(number, stream, column)?;
                match column.lengths.last_mut().filter(|_| continues) {
                    Some(length) => *length += samples,
                    None => column.lengths.push(samples),
                }
            }
            records += 1;
        }
        Ok(!batch.keys.is_empty())
    }

    fn key(&self) -> Result<Option<&str>> {
        let Some(name) = &self.schema.key else { return Ok(None) };
        match self.key.map(|place| self.record.get(place)) {
            Some(Value::Text(span)) => Ok(Some(self.record.text(*span))),
            _ => Err(self.wrong(
                format!("The column '{name}' has no key."),
                "Each record needs the key of its sequence, which is a text or a number.",
            )),
        }
    }

    fn wrong(&self, message: String, detail: &str) -> Error {
        Error::data(message).with_detail(detail).in_file(&self.path).in_line(self.record.line)
    }

    /// Appends the samples of the record to a stream. Returns their number.
    fn append(&self, number: usize, stream: &Stream, out: &mut Column) -> Result<u32> {
        let values = self.places[number]
            .iter()
            .map(|place| place.map_or(&Value::Missing, |place| self.record.get(place)));
        let mut values = values.zip(&stream.columns);
        match (&stream.kind, stream.is_sequence) {
            (Kind::Dense, false) => {
                let mut count = 0;
                for (value, column) in values {
                    match value {
                        Value::List(list) => {
                            for value in list {
                                self.dense(value, column, stream, out)?;
                            }
                            count += list.len();
                        }
                        value => {
                            self.dense(value, column, stream, out)?;
                            count += 1;
                        }
                    }
                }
                self.check_size(count, stream)?;
                Ok(1)
            }
            (Kind::Dense, true) => {
                let Some((value, column)) = values.next() else { return Ok(0) };
                let list = self.list(value, column)?;
                for value in list {
                    match value {
                        Value::List(inner) => {
                            for value in inner {
                                self.dense(value, column, stream, out)?;
                            }
                            self.check_size(inner.len(), stream)?;
                        }
                        value => {
                            self.dense(value, column, stream, out)?;
                            self.check_size(1, stream)?;
                        }
                    }
                }
                Ok(list.len() as u32)
            }
            (_, is_sequence) => {
                let Some((value, column)) = values.next() else { return Ok(0) };
                if !is_sequence {
                    self.sparse(value, column, number, stream, out)?;
                    return Ok(1);
                }
                let list = self.list(value, column)?;
                for value in list {
                    self.sparse(value, column, number, stream, out)?;
                }
                Ok(list.len() as u32)
            }
        }
    }

    fn list<'a>(&self, value: &'a Value, column: &str) -> Result<&'a [Value]> {
        match value {
            Value::List(list) if !list.is_empty() => Ok(list),
            _ => Err(self.wrong(
                format!("The column '{column}' has no elements."),
                "A sequence needs at least one sample in each stream: expected a list. Leave the record or the column out.",
            )),
        }
    }

    fn check_size(&self, found: usize, stream: &Stream) -> Result<()> {
        if found == stream.dim {
            return Ok(());
        }
        let message =
            format!("A sample of the stream '{}' has {found} values. Expected {}.", stream.name, stream.dim);
        Err(self.wrong(message, "Each sample of a dense stream has the same number of values."))
    }

    /// Appends a value of a dense sample.
    fn dense(&self, value: &Value, column: &str, stream: &Stream, out: &mut Column) -> Result<()> {
        let text = match value {
            Value::Text(span) => self.record.text(*span),
            Value::Missing => "",
            _ => {
                return Err(
                    self.wrong(format!("The column '{column}' has nested values."), "Expected a number.")
                );
            }
        };
        let is_none = text.is_empty() || is_missing(text);
        let found = match self.schema.missing.filter(|_| is_none) {
            Some(replacement) => {
                with_element!(stream.element, T => push(rounded::<T>(replacement), &mut out.values))
            }
            None => with_element!(stream.element, T => push(parse::<T>(text), &mut out.values)),
        }?;
        if found {
            return Ok(());
        }
        if is_none {
            let detail = "Give the number that replaces it (--missing 0), or leave the column out.";
            return Err(self.wrong(format!("The column '{column}' has no number."), detail));
        }
        let name = stream.element.name();
        let message = format!("The column '{column}' has '{text}'. Expected a number of the type {name}.");
        Err(self.wrong(message, "Correct it, write NA if it is missing, or make the column a category: --stream NAME=COLUMN:category."))
    }

    /// Appends a sparse sample.
    fn sparse(
        &self,
        value: &Value,
        column: &str,
        number: usize,
        stream: &Stream,
        out: &mut Column,
    ) -> Result<()> {
        let before = out.indices.len();
        match value {
            // All of its values are zeros.
            Value::Missing => {}
            Value::Text(span) => {
                let index = self.index(self.record.text(*span), column, number, stream)?;
                self.entry(index, 1.0, stream, out)?;
            }
            Value::Pairs(pairs) => {
                for (name, value) in pairs {
                    let index = self.index(self.record.text(*name), column, number, stream)?;
                    self.entry(index, *value, stream, out)?;
                }
            }
            Value::List(_) => {
                let detail = "Expected a single text or number.";
                return Err(self.wrong(format!("The column '{column}' has a list."), detail));
            }
        }
        room::push(&mut out.counts, (out.indices.len() - before) as u32, room::CONVERSION)
    }

    fn entry(&self, index: i32, value: f64, stream: &Stream, out: &mut Column) -> Result<()> {
        room::push(&mut out.indices, index, room::CONVERSION)?;
        match stream.element {
            ElementType::Double => room::extend(&mut out.values, &value.to_ne_bytes(), room::CONVERSION),
            _ => room::extend(&mut out.values, &(value as f32).to_ne_bytes(), room::CONVERSION),
        }
    }

    /// Returns the index of a text.
    fn index(&self, text: &str, column: &str, place: usize, stream: &Stream) -> Result<i32> {
        match &stream.kind {
            Kind::Index { first } => {
                let found = number(text).filter(|found| found.fract() == 0.0 && *found >= *first as f64);
                let index =
                    found.map(|found| found - *first as f64).filter(|index| *index < stream.dim as f64);
                index.map(|index| index as i32).ok_or_else(|| {
                    let last = *first + stream.dim as u64 - 1;
                    let message = format!(
                        "The column '{column}' has '{text}'. Expected a whole number from {first} to {last}."
                    );
                    self.wrong(
                        message,
                        "The dimension of the stream limits it: --stream NAME=COLUMN:index=DIM.",
                    )
                })
            }
            _ => {
                let lookup = &self.lookups[place];
                let found = lookup.get(text).or_else(|| lookup.get(UNKNOWN));
                found.copied().ok_or_else(|| {
                    let names: BTreeSet<&str> = lookup.keys().map(String::as_str).take(10_000).collect();
                    let near = nearest(&text.to_ascii_lowercase(), &names);
                    let near = near.map_or_else(String::new, |near| format!("Did you mean '{near}'? "));
                    let message = format!(
                        "The column '{column}' has '{text}', which is none of the {} categories.",
                        names.len()
                    );
                    let detail = format!(
                        "{near}A category '{UNKNOWN}' in the description (--like) takes all unknown texts."
                    );
                    self.wrong(message, &detail)
                })
            }
        }
    }
}

/// Parses a number of this type.
fn parse<T: Element>(text: &str) -> Option<T> {
    match text.parse::<i64>() {
        // Integers beyond 2^53 keep all of their digits, and zeros their sign.
        Ok(integer) if integer != 0 => T::of_integer(integer.into()).or_else(|| T::of_number(number(text)?)),
        _ => T::of_number(number(text)?),
    }
}

fn rounded<T: Element>(number: f64) -> Option<T> {
    T::of_number(number)
}

fn push<T: Element>(value: Option<T>, out: &mut Vec<u8>) -> Result<bool> {
    match value {
        Some(value) => room::extend(out, bytemuck::bytes_of(&value), room::CONVERSION).map(|()| true),
        None => Ok(false),
    }
}
