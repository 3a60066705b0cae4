//! OpenCV's storage files: numbers and matrices by name, as XML or YAML, perhaps compressed (gzip).
//!
//! OpenCV writes more kinds of things. What transforms do not read is skipped.

mod xml;
mod yaml;

use cntk_reader_core::file::text::decoded;
use cntk_reader_core::file::{address, descriptor, with_retry};
use cntk_reader_core::limits::{LARGEST_MEAN_FILE, MOST_STORAGE_NODES};
use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, Result};
use std::io::{Read, Take};

/// What a storage file has at its top level.
#[derive(Debug, Default)]
pub(super) struct Storage {
    file: String,
    nodes: Vec<(String, Node)>,
}

/// A named thing.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// A text, which may be a number.
    Text(String),
    /// A matrix as it is written: each of its parts is a text.
    Matrix(Parts),
}

/// The parts of a matrix.
#[derive(Debug, Clone, Default, PartialEq)]
struct Parts {
    rows: String,
    columns: String,
    element: String,
    data: String,
}

/// A matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    pub rows: u64,
    pub columns: u64,
    pub channels: u64,
    /// OpenCV's letter for the type of the values: one of `ucwsifd`.
    pub element: u8,
    /// `rows * columns * channels` values.
    pub values: Vec<f64>,
}

/// Reads a file.
pub(super) fn read(file: &str) -> Result<Storage> {
    let bytes = load(file)?;
    let text = decoded(&bytes, file)?;
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_start();
    let nodes = if text.starts_with("%YAML") { yaml::parse(text) } else { xml::parse(text) };
    let nodes = nodes.map_err(|fault| fault.into_error(file))?;
    Ok(Storage { file: file.to_owned(), nodes })
}

/// The content of a file, uncompressed.
fn load(file: &str) -> Result<Vec<u8>> {
    let failed = |cause: &std::io::Error| {
        // CNTK's words; the reason and the advice come from the operating system's error.
        Error::io("Cannot read the file", file, cause).reworded(format!("Could not open file: {file}"))
    };
    let bytes = with_retry(|| {
        let mut bytes = Vec::new();
        limited(descriptor::open(std::fs::OpenOptions::new().read(true), address::exact(file))?)
            .read_to_end(&mut bytes)
            .map(|_| bytes)
    })
    .map_err(|cause| failed(&cause))?;
    let bytes = match bytes.starts_with(&[0x1f, 0x8b]) {
        true => unpack(&bytes).map_err(|cause| failed(&cause))?,
        false => bytes,
    };
    if bytes.len() as u64 > LARGEST_MEAN_FILE {
        let detail = format!("It has more than {LARGEST_MEAN_FILE} bytes, far more than a mean image needs.");
        return Err(invalid_data("Invalid data in file", file).with_detail(detail));
    }
    Ok(bytes)
}

fn unpack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    limited(flate2::read::MultiGzDecoder::new(bytes)).read_to_end(&mut plain)?;
    Ok(plain)
}

/// Reads no more than one byte beyond the limit.
fn limited<R: Read>(reader: R) -> Take<R> {
    reader.take(LARGEST_MEAN_FILE + 1)
}

/// An error of a file's content, in CNTK's words: `what` is their beginning.
pub(super) fn invalid_data(what: &str, file: &str) -> Error {
    Error::data(format!("{what}: {file}")).in_file(file)
}

/// Why a file cannot be read.
#[derive(Debug, PartialEq)]
struct Fault {
    line: Option<u64>,
    message: String,
}

impl Fault {
    fn new(line: impl Into<Option<u64>>, message: impl Into<String>) -> Fault {
        Fault { line: line.into(), message: message.into() }
    }

    fn into_error(self, file: &str) -> Error {
        let advice = "A file as OpenCV's FileStorage writes it was expected: XML, or YAML 1.0.";
        let error = invalid_data("Invalid data in file", file).with_detail(self.message).with_detail(advice);
        match self.line {
            Some(line) => error.in_line(line),
            None => error,
        }
    }
}

/// The fault of a file that has more things than a mean image.
fn too_many_nodes() -> Fault {
    Fault::new(
        None,
        format!("It has more than {MOST_STORAGE_NODES} elements and attributes, far more than a mean image."),
    )
}

impl Storage {
    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|(found, _)| found == name).map(|(_, node)| node)
    }

    /// The number with a name, if there is one.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.node(name)? {
            Node::Text(text) => parse(text),
            Node::Matrix(_) => None,
        }
    }

    /// The matrix with a name, if there is one. Fails if it contradicts itself.
    pub fn matrix(&self, name: &str) -> Result<Option<Matrix>> {
        let Some(Node::Matrix(parts)) = self.node(name) else { return Ok(None) };
        let fault = |message: String| {
            invalid_data("Invalid data in file", &self.file)
                .with_detail(format!("Matrix '{name}': {message}"))
        };
        let whole = |what: &str, text: &str| {
            let number = text.trim().parse::<u64>();
            number.map_err(|_| fault(format!("'{text}' was found as {what}, a whole number was expected.")))
        };
        let (rows, columns) = (whole("'rows'", &parts.rows)?, whole("'cols'", &parts.columns)?);
        let element = parts.element.trim().trim_matches('"');
        let split = element.len() - element.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, letter) = element.split_at(split);
        let channels = if count.is_empty() { 1 } else { whole("the number of channels in 'dt'", count)? };
        let &[letter @ (b'u' | b'c' | b'w' | b's' | b'i' | b'f' | b'd')] = letter.as_bytes() else {
            return Err(fault(format!(
                "'{element}' was found as 'dt', one of u, c, w, s, i, f, d was expected, perhaps after a number of channels."
            )));
        };
        let wanted = rows.checked_mul(columns).and_then(|count| count.checked_mul(channels));
        let texts = parts.data.split([' ', '\t', '\r', '\n', ',']).filter(|text| !text.is_empty());
        let mut values = room::with_capacity(texts.clone().count(), room::IMAGE)?;
        for text in texts {
            let value = parse(text);
            values.push(
                value.ok_or_else(|| fault(format!("'{text}' was found where a number was expected.")))?,
            );
        }
        if wanted != Some(values.len() as u64) {
            // OpenCV's words.
            let message = "The matrix size does not match to the number of stored elements";
            let detail = format!(
                "Matrix '{name}' has {} elements; {rows} rows, {columns} columns and {channels} channels were expected.",
                values.len()
            );
            return Err(Error::data(message).with_detail(detail).in_file(&self.file));
        }
        Ok(Some(Matrix { rows, columns, channels, element: letter, values }))
    }
}

/// A number as OpenCV writes it.
fn parse(text: &str) -> Option<f64> {
    match text.trim() {
        ".Inf" | ".inf" | "+.Inf" => Some(f64::INFINITY),
        "-.Inf" | "-.inf" => Some(f64::NEG_INFINITY),
        ".Nan" | ".nan" | ".NaN" => Some(f64::NAN),
        text => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
