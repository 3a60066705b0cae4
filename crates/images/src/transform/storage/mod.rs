//! OpenCV's storage files: named numbers and matrices in XML or YAML, optionally gzip-compressed.
//!
//! Other kinds of nodes are skipped.

mod xml;
mod yaml;

use cntk_reader_core::file::text::decoded;
use cntk_reader_core::file::{address, with_retry};
use cntk_reader_core::limits::{LARGEST_MEAN_FILE, MAX_STORAGE_NODES};
use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, Result, system};
use std::io::{Read, Take};

/// The top-level nodes of a storage file.
#[derive(Debug, Default)]
pub(super) struct Storage {
    file: String,
    nodes: Vec<(String, Node)>,
}

/// A named node.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Text, which may be a number.
    Text(String),
    /// A matrix as stored, with unparsed fields.
    Matrix(RawMatrix),
}

/// The fields of a matrix, unparsed.
#[derive(Debug, Clone, Default, PartialEq)]
struct RawMatrix {
    rows: String,
    columns: String,
    element: String,
    data: String,
}

/// A parsed matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    pub rows: u64,
    pub columns: u64,
    pub channels: u64,
    /// OpenCV's letter for the value type: one of `ucwsifd`.
    pub element: u8,
    /// `rows * columns * channels` values.
    pub values: Vec<f64>,
}

/// Reads and parses a storage file.
pub(super) fn read(file: &str) -> Result<Storage> {
    let bytes = load(file)?;
    let text = decoded(&bytes, file)?;
    let text = String::from_utf8_lossy(&text);
    let text = text.trim_start();
    let nodes = if text.starts_with("%YAML") { yaml::parse(text) } else { xml::parse(text) };
    let nodes = nodes.map_err(|fault| fault.into_error(file))?;
    Ok(Storage { file: file.to_owned(), nodes })
}

/// Returns the decompressed content of a file.
fn load(file: &str) -> Result<Vec<u8>> {
    let failed = |cause: &std::io::Error| {
        // CNTK's message; the reason and the advice come from the operating system's error.
        Error::io("Cannot read the file", file, cause).reworded(format!("Could not open file: {file}"))
    };
    let bytes = with_retry(|| {
        let mut bytes = Vec::new();
        limited(system::open(std::fs::OpenOptions::new().read(true), address::exact(file))?)
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

/// Limits a reader to one byte beyond the size limit.
fn limited<R: Read>(reader: R) -> Take<R> {
    reader.take(LARGEST_MEAN_FILE + 1)
}

/// Returns the error for invalid content in CNTK's words, which begin with `what`.
pub(super) fn invalid_data(what: &str, file: &str) -> Error {
    Error::data(format!("{what}: {file}")).in_file(file)
}

/// The reason why a file cannot be parsed.
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

/// Returns the fault of a file with too many nodes.
fn too_many_nodes() -> Fault {
    Fault::new(
        None,
        format!("It has more than {MAX_STORAGE_NODES} elements and attributes, far more than a mean image."),
    )
}

impl Storage {
    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|(found, _)| found == name).map(|(_, node)| node)
    }

    /// Returns the number called `name`, if any.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.node(name)? {
            Node::Text(text) => parse(text),
            Node::Matrix(_) => None,
        }
    }

    /// Returns the matrix called `name`, if any. Fails if it is inconsistent.
    pub fn matrix(&self, name: &str) -> Result<Option<Matrix>> {
        let Some(Node::Matrix(parts)) = self.node(name) else { return Ok(None) };
        let fault = |message: String| {
            invalid_data("Invalid data in file", &self.file)
                .with_detail(format!("Matrix '{name}': {message}"))
        };
        let whole = |what: &str, text: &str| {
            let number = text.trim().parse::<u64>();
            number.map_err(|_| {
                fault(format!("'{text}' was found as {what}, where a whole number was expected."))
            })
        };
        let (rows, columns) = (whole("'rows'", &parts.rows)?, whole("'cols'", &parts.columns)?);
        let element = parts.element.trim().trim_matches('"');
        let split = element.len() - element.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, letter) = element.split_at(split);
        let channels = if count.is_empty() { 1 } else { whole("the number of channels in 'dt'", count)? };
        let &[letter @ (b'u' | b'c' | b'w' | b's' | b'i' | b'f' | b'd')] = letter.as_bytes() else {
            return Err(fault(format!(
                "'{element}' was found as 'dt', where one of u, c, w, s, i, f, d was expected, optionally after the number of channels."
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
            // OpenCV's message.
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

/// Parses a number as written by OpenCV.
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
