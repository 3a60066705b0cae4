//! Imports tables (CSV, TSV), JSON lines, LIBSVM's, Vowpal Wabbit's and CoNLL's formats: reads
//! their records as sequences of streams, which [`convert`](crate::convert::convert) writes in
//! CNTK's formats.
//!
//! [`Import::open`] reads the whole file once, to infer the streams, or to collect their dimensions
//! and categories; [`Import::data`] reads it again. The memory in use depends on the number of
//! categories, not on the size of the file.
//! [`folder`] makes a map of a folder of images.
//!
//! ```
//! # fn main() -> cntk_reader::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # std::env::set_current_dir(&folder).expect("entering the folder");
//! # std::fs::write("iris.csv", "length,width,species\n5.1,3.5,setosa\n7,3.2,virginica\n").expect("writing");
//! use cntk_reader_tools::convert::{ConvertOptions, Format, convert};
//! use cntk_reader_tools::import::{Import, ImportFormat, ImportOptions};
//! use std::ops::ControlFlow;
//!
//! let import = Import::open("iris.csv", ImportFormat::Csv, &ImportOptions::default(), &mut |_, _| ())?;
//! for stream in &import.schema.streams {
//!     println!("{}: {}", stream.name, stream.summary());
//! }
//! let go_on = &mut |_| ControlFlow::Continue(());
//! convert(import.data()?, Format::Text, "iris.ctf", &ConvertOptions::default(), go_on)?;
//! assert_eq!(std::fs::read_to_string("iris.ctf").expect("text").lines().next(),
//!     Some("0\t|features 5.1 3.5\t|species 0:1"));
//! # Ok(())
//! # }
//! ```

mod conll;
mod csv;
mod encode;
mod facts;
pub mod folder;

mod infer;
mod jsonl;
mod keys;
mod layout;
mod libsvm;
mod lines;
mod options;
mod record;
mod schema;
#[cfg(test)]
mod tests;
mod vw;

pub use options::{ImportOptions, StreamSpec};
pub use schema::{Kind, Schema, Stream};

use crate::convert::{Data, Output};
use cntk_reader::FileFormat;
use cntk_reader_core::Result;
use record::Records;

/// Formats that are imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportFormat {
    /// A table with commas, semicolons or tabs between its fields.
    Csv,
    /// A table with tabs between its fields.
    Tsv,
    /// A table with runs of blanks between its fields.
    Blanks,
    /// A JSON object in each line.
    JsonLines,
    /// Lines of a label and pairs `index:value` (LIBSVM, SVMlight).
    LibSvm,
    /// Vowpal Wabbit's text format.
    VowpalWabbit,
    /// A word and its columns in each line, sentences separated by empty lines.
    Conll,
}

/// Formats with their names and the extensions of their files.
const FORMATS: [(ImportFormat, &str, &[&str]); 7] = [
    (ImportFormat::Csv, "csv", &["csv"]),
    (ImportFormat::Tsv, "tsv", &["tsv", "tab"]),
    (ImportFormat::Blanks, "blanks", &[]),
    (ImportFormat::JsonLines, "jsonl", &["jsonl", "ndjson"]),
    (ImportFormat::LibSvm, "libsvm", &["libsvm", "svm", "svmlight"]),
    (ImportFormat::VowpalWabbit, "vw", &["vw"]),
    (ImportFormat::Conll, "conll", &["conll", "conllu", "iob"]),
];

impl ImportFormat {
    /// The name of the format in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        FORMATS.iter().find(|(own, ..)| *own == self).map_or("", |(_, name, _)| name)
    }

    fn from_name(text: &str) -> Option<ImportFormat> {
        FORMATS.iter().find(|(_, name, _)| *name == text).map(|(own, ..)| *own)
    }

    /// Recognizes the format of a file by its content, and by the extension of its name where
    /// formats look alike.
    #[must_use]
    pub fn of(found: FileFormat, path: &str) -> Option<ImportFormat> {
        let name = path.strip_suffix(".gz").or_else(|| path.strip_suffix(".zst")).unwrap_or(path);
        let ending = name.rsplit_once('.').map_or(String::new(), |(_, ending)| ending.to_ascii_lowercase());
        let named =
            FORMATS.iter().find(|(.., endings)| endings.contains(&ending.as_str())).map(|(own, ..)| *own);
        let by_content = match found {
            FileFormat::Csv => Some(ImportFormat::Csv),
            FileFormat::Tsv => Some(ImportFormat::Tsv),
            FileFormat::Numbers => Some(ImportFormat::Blanks),
            FileFormat::Json => Some(ImportFormat::JsonLines),
            FileFormat::LibSvm => Some(ImportFormat::LibSvm),
            FileFormat::VowpalWabbit => Some(ImportFormat::VowpalWabbit),
            _ => None,
        };
        match (named, found) {
            // A line of Vowpal Wabbit may look like CTF, but not a line of the others.
            (Some(ImportFormat::VowpalWabbit), _) if !found.is_certain() || found.is_ctf() => named,
            (Some(_), FileFormat::Utf16 | FileFormat::Utf32 | FileFormat::Html) => by_content,
            (Some(_), _) if !found.is_certain() => named,
            _ => by_content,
        }
    }
}

/// A file to import, with the streams that it becomes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Import {
    path: String,
    /// The streams.
    pub schema: Schema,
    /// Number of records that were read, if any.
    pub records: Option<u64>,
    /// Number of sequences, if all records were read.
    pub sequences: Option<u64>,
    /// Remarks on the data and on the streams.
    pub notes: Vec<String>,
    /// Whether reading the sequences finds keys that return, because opening the file did not.
    checks_keys: bool,
}

impl Import {
    /// Opens a file. `listener` gets the number of bytes read, and the size of the file or 0.
    pub fn open(
        path: &str,
        format: ImportFormat,
        options: &ImportOptions,
        listener: &mut dyn FnMut(u64, u64),
    ) -> Result<Import> {
        infer::open(path, format, options, listener)
    }

    /// Writes the description of the streams beside an output, and returns its path. With
    /// [`ImportOptions::like`] other files are read with the same streams and categories.
    pub fn write_description(&self, output: &str) -> Result<String> {
        write_description(output, &self.schema.to_json())?;
        Ok(description_of(output))
    }

    /// Returns the sequences, to convert them.
    pub fn data(&self) -> Result<Data> {
        encode::data(&self.path, &self.schema, self.sequences, self.checks_keys)
    }
}

/// Opens the records of a file.
fn records(path: &str, format: ImportFormat, options: &ImportOptions) -> Result<Box<dyn Records>> {
    Ok(match format {
        ImportFormat::Csv => Box::new(csv::Table::open(path, None, options)?),
        ImportFormat::Tsv => Box::new(csv::Table::open(path, Some(b'\t'), options)?),
        ImportFormat::Blanks => Box::new(csv::Table::open(path, Some(csv::BLANKS), options)?),
        ImportFormat::JsonLines => Box::new(jsonl::JsonLines::open(path)?),
        ImportFormat::LibSvm => Box::new(libsvm::LibSvm::open(path)?),
        ImportFormat::VowpalWabbit => Box::new(vw::VowpalWabbit::open(path)?),
        ImportFormat::Conll => Box::new(conll::Conll::open(path, options)?),
    })
}

/// Returns the path of the description beside an output.
fn description_of(output: &str) -> String {
    format!("{output}.streams.json")
}

fn write_description(path: &str, text: &str) -> Result<()> {
    let mut output = Output::create(&description_of(path))?;
    output.write(text.as_bytes())?;
    output.commit()
}
