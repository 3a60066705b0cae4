//! Readers chosen by `readerType`: the text reader with one deserializer, all keys in one section.

use super::composite::read_common;
use super::options::{DeserializerOptions, Order, Packing, ReaderOptions, Shape};
use super::section::Section;
use super::text;
use crate::error::ExceptionClass::{InvalidArgument, Runtime};
use crate::stream::ElementType;
use crate::{Error, Result};

/// The kinds of readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderType {
    /// The section has `deserializers`.
    Composite,
    /// The section is that of a text reader, all keys in one place.
    Text,
}

/// Names of readers and modules that CNTK 2.7 knows and this library does not read yet.
const OTHERS: [&str; 13] = [
    "CNTKBinaryReader",
    "Cntk.Deserializers.Binary",
    "ImageReader",
    "Cntk.Deserializers.Image",
    "HTKDeserializers",
    "Cntk.Deserializers.HTK",
    "HTKMLFReader",
    "LMSequenceReader",
    "LUSequenceReader",
    "UCIFastReader",
    "LibSVMBinaryReader",
    "SparsePCReader",
    "Kaldi2Reader",
];

/// The reader that a section describes. Without `readerType`, `deserializers` make it a composite one.
pub(super) fn reader_type(section: &Section) -> Result<ReaderType> {
    let composite = section.exists("deserializers");
    let default = if composite { "Cntk.Composite" } else { "Cntk.Deserializers.TextFormat" };
    let name = section.text_or("readerType", default)?;
    match name.as_str() {
        "CompositeDataReader" | "Cntk.Composite" => Ok(ReaderType::Composite),
        "CNTKTextFormatReader" | "Cntk.Deserializers.TextFormat" => Ok(ReaderType::Text),
        other if OTHERS.contains(&other) => {
            Err(Error::config(InvalidArgument, format!("The reader type '{other}' is not supported yet.")))
        }
        other => {
            let message =
                format!("Plugin not found: '{other}-2.7.so' (error: no reader of this name is known)");
            Err(Error::config(Runtime, message))
        }
    }
}

/// Options of a section with `readerType = "CNTKTextFormatReader"`.
pub(super) fn read(section: &Section) -> Result<ReaderOptions> {
    section.ignore(&["readerType", "module", "type", "multiThreadedDeserialization"]);
    let precision = section.text_or("precision", "float")?;
    let element = parse_precision(&precision).ok_or_else(|| {
        let message = format!("Not supported precision '{precision}'. Expected 'double' or 'float'.");
        Error::config(Runtime, message)
    })?;
    let text = text::read(section, element)?;
    let order = match text.window {
        None => {
            section.ignore(&["randomizationSeed"]);
            Order::InOrder
        }
        Some(window) => Order::Block { window, seed: section.get_or("randomizationSeed", 0)? },
    };
    let verbosity = section.get_or("verbosity", 0)?;
    let prefetch = read_common(section)?;
    Ok(ReaderOptions {
        shape: Shape::TextReader,
        numeric_keys: true,
        hash_keys: false,
        order,
        packing: if text.frame_mode { Packing::Frame } else { Packing::Sequence },
        local_timeline: false,
        // `maxErrors` here counts bad lines, and is the deserializer's.
        max_errors: 0,
        element,
        trace_level: text.options.trace_level,
        verbosity,
        prefetch,
        deserializers: vec![DeserializerOptions::Text(text.options)],
    })
}

/// Any spelling counts. (CNTK's composite reader takes `Float` for double in one place and for float in another,
/// and hands out garbage.)
pub(super) fn parse_precision(text: &str) -> Option<ElementType> {
    if text.eq_ignore_ascii_case("float") {
        Some(ElementType::Float)
    } else if text.eq_ignore_ascii_case("double") {
        Some(ElementType::Double)
    } else {
        None
    }
}
