//! The streams of an import: their columns, types and categories, and the file that keeps them.

use super::ImportFormat;
use super::options::{ImportOptions, unknown};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::stream::{ElementType, StreamInfo};
use cntk_reader_core::{Error, Result};
use serde_json::{Value, json};

/// Version of the file of a description.
const VERSION: u64 = 1;

/// The largest description that is read.
const LARGEST: u64 = 4 << 30;

/// The streams of a file, and how it is read.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Schema {
    /// The format of the file.
    pub format: ImportFormat,
    /// Separates the fields of a table.
    pub delimiter: Option<u8>,
    /// Whether a table begins with names.
    pub header: Option<bool>,
    /// The names of the columns, if the options gave them.
    pub columns: Vec<String>,
    /// The column of keys.
    pub key: Option<String>,
    /// The number that replaces missing ones.
    pub missing: Option<f64>,
    /// The streams.
    pub streams: Vec<Stream>,
}

/// A stream, and where its values come from.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// How values become samples.
    pub kind: Kind,
    /// Number of values of a sample.
    pub dim: usize,
    /// Whether a list has a sample in each of its elements.
    pub is_sequence: bool,
    /// Type of its values.
    pub element: ElementType,
    /// Number of records without a value.
    pub missing: u64,
    /// The line of the first of them, and its column.
    pub(super) first_missing: Option<(u64, String)>,
}

/// How values become samples.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Dense: numbers side by side.
    Dense,
    /// Sparse: the index of a text is its place among these.
    Category(Vec<String>),
    /// Sparse: the number is the index, after `first` was subtracted.
    Index {
        /// The number of index 0.
        first: u64,
    },
}

impl Kind {
    /// The name in options and descriptions.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Dense => "dense",
            Kind::Category(_) => "category",
            Kind::Index { .. } => "index",
        }
    }
}

impl Stream {
    /// Describes the stream for a reader.
    pub fn info(&self) -> StreamInfo {
        match self.kind {
            Kind::Dense => StreamInfo::dense(&self.name, &[self.dim]),
            _ => StreamInfo::sparse(&self.name, &[self.dim]),
        }
        .element(self.element)
    }

    /// Summarizes type and origin in a line.
    pub fn summary(&self) -> String {
        let count = |number: usize, thing: &str| match number {
            1 => format!("1 {thing}"),
            _ => format!(
                "{number} {}",
                if thing == "category" { "categories".to_owned() } else { format!("{thing}s") }
            ),
        };
        let what = match &self.kind {
            Kind::Dense => {
                let element = match self.element {
                    ElementType::Float => "",
                    other => &format!(" of {}", other.name()),
                };
                format!("dense, {}{element}", count(self.dim, "value"))
            }
            Kind::Category(names) => {
                let mut shown: Vec<&str> = names.iter().take(4).map(String::as_str).collect();
                if names.len() > 4 {
                    shown.push("...");
                }
                format!("sparse, {}: {}", count(names.len(), "category"), shown.join(", "))
            }
            Kind::Index { first } => format!("sparse, indices from {first}, dimension {}", self.dim),
        };
        let steps = if self.is_sequence { ", a sample for each element" } else { "" };
        let from = match &self.columns[..] {
            [own] if *own == self.name => String::new(),
            [own] => format!(" (column {own})"),
            [first, .., last] => format!(" (columns {first} .. {last})"),
            [] => String::new(),
        };
        let missing = match self.missing {
            0 => String::new(),
            number => format!(", {number} missing"),
        };
        format!("{what}{steps}{missing}{from}")
    }
}

impl Schema {
    /// Returns the description as JSON, to write it beside the output.
    pub fn to_json(&self) -> String {
        let streams: Vec<Value> = self.streams.iter().map(stream_to_json).collect();
        let all = json!({
            "schema": VERSION,
            "format": self.format.name(),
            "delimiter": self.delimiter.map(|byte| char::from(byte).to_string()),
            "header": self.header,
            "columns": self.columns,
            "key": self.key,
            "missing": self.missing,
            "streams": streams,
        });
        let mut text = serde_json::to_string_pretty(&all).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads a description.
    pub(super) fn read(path: &str) -> Result<Schema> {
        let file = DataFile::open(path)?;
        let size = file.size()?;
        let wrong = |what: &str| {
            let error = Error::data(format!("This is no description of streams: {what}."));
            error.with_detail("'convert' writes one beside its output: OUTPUT.streams.json").in_file(path)
        };
        if size > LARGEST {
            return Err(wrong("it is too large"));
        }
        let mut bytes = vec![0; size as usize];
        file.read_exact_at(0, &mut bytes)?;
        let all: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(&error.to_string()))?;
        if all["schema"].as_u64() != Some(VERSION) {
            return Err(wrong("\"schema\" is not 1"));
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts = |value: &Value| -> Option<Vec<String>> { value.as_array()?.iter().map(text).collect() };
        let stream = |value: &Value| {
            let element = ElementType::from_name(value["element"].as_str()?)?;
            let kind = match value["type"].as_str()? {
                "dense" => Kind::Dense,
                "category" => Kind::Category(texts(&value["categories"])?),
                "index" => Kind::Index { first: value["first_index"].as_u64()? },
                _ => return None,
            };
            let dim = value["dim"].as_u64().filter(|dim| (1..=i32::MAX as u64).contains(dim))? as usize;
            let fits = |names: &Vec<String>| names.len() <= dim;
            if let Kind::Category(names) = &kind
                && !fits(names)
            {
                return None;
            }
            Some(Stream {
                name: text(&value["name"])?,
                columns: texts(&value["columns"])?,
                kind,
                dim,
                is_sequence: value["is_sequence"].as_bool()?,
                element,
                missing: 0,
                first_missing: None,
            })
        };
        let format = all["format"].as_str().and_then(ImportFormat::from_name);
        let streams = all["streams"].as_array().and_then(|list| list.iter().map(stream).collect());
        let delimiter = all["delimiter"].as_str().and_then(|text| text.bytes().next());
        match (format, streams) {
            (Some(format), Some(streams)) => Ok(Schema {
                format,
                delimiter,
                header: all["header"].as_bool(),
                columns: texts(&all["columns"]).unwrap_or_default(),
                key: text(&all["key"]),
                missing: all["missing"].as_f64(),
                streams,
            }),
            (None, _) => Err(wrong("\"format\" is unknown")),
            _ => Err(wrong("\"streams\" is incomplete")),
        }
    }

    /// Adds options that win over those of the description, and selects streams.
    pub(super) fn adjust(&mut self, options: &ImportOptions) -> Result<()> {
        self.delimiter = options.delimiter.or(self.delimiter);
        self.header = options.header.or(self.header);
        self.key = options.key.clone().or(self.key.take());
        self.missing = options.missing.or(self.missing);
        if !options.columns.is_empty() {
            self.columns.clone_from(&options.columns);
        }
        if let Some(element) = options.element {
            self.streams.iter_mut().for_each(|stream| stream.element = element);
        }
        if options.streams.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.streams.iter().map(|stream| stream.name.clone()).collect();
        let select = |spec: &super::StreamSpec| {
            if spec.columns.is_some() || spec.kind.is_some() {
                let message = format!("--like already describes the stream '{}'.", spec.name);
                return Err(
                    Error::argument(message).with_detail("Give only the names of streams with --like.")
                );
            }
            let found = self.streams.iter().find(|stream| stream.name == spec.name);
            found.cloned().ok_or_else(|| {
                let message = format!("The description has no stream '{}'.", spec.name);
                unknown(message, &spec.name, &names)
            })
        };
        self.streams = options.streams.iter().map(select).collect::<Result<_>>()?;
        Ok(())
    }
}

fn stream_to_json(stream: &Stream) -> Value {
    let mut value = json!({
        "name": stream.name,
        "type": stream.kind.name(),
        "element": stream.element.name(),
        "dim": stream.dim,
        "columns": stream.columns,
        "is_sequence": stream.is_sequence,
    });
    match &stream.kind {
        Kind::Dense => {}
        Kind::Category(names) => value["categories"] = json!(names),
        Kind::Index { first } => value["first_index"] = json!(first),
    }
    value
}
