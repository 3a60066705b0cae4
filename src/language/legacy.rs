//! Readers chosen by `readerType`. Text and binary readers have one deserializer, with all keys in
//! one section.

use super::composite::{read_common, read_level};
use super::options::{Order, Packing, ReaderSettings, Shape, WindowSize};
use super::section::Section;
use super::{binary, images, speech, text};
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Runtime};
use cntk_reader_core::format::options::Format;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// The kinds of readers, chosen by `readerType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderType {
    /// A section with `deserializers`.
    Composite,
    /// A section of a text reader, with all keys in one place.
    Text,
    /// A section of a binary reader.
    Binary,
    /// A section of an image reader, with images and labels in sections of their own.
    Image,
    /// A section of a speech reader, with features and labels in sections of their own.
    Htk,
}

/// Advice for unsupported reader types.
const SUPPORTED: &str = "Supported values of 'readerType' are 'CompositeDataReader', 'CNTKTextFormatReader', \
                         'CNTKBinaryReader', 'ImageReader', 'HTKDeserializers' and 'HTKMLFReader'.";

const SUPPORTED_TYPES: [&str; 6] = [
    "CompositeDataReader",
    "CNTKTextFormatReader",
    "CNTKBinaryReader",
    "ImageReader",
    "HTKDeserializers",
    "HTKMLFReader",
];

/// Readers and modules that CNTK 2.7 has and this library does not.
const OTHERS: [(&str, &str); 9] = [
    ("LMSequenceReader", TO_TEXT),
    ("LUSequenceReader", TO_TEXT),
    (
        "UCIFastReader",
        "Convert its file to CNTK's text format with CNTK's script 'uci2ctf.py', or write each line as '|labels ... |features ...', and \
         read it with 'CNTKTextFormatReader'.",
    ),
    ("LibSVMBinaryReader", TO_TEXT),
    ("SparsePCReader", TO_TEXT),
    ("DSSMReader", TO_TEXT),
    ("BinaryReader", TO_TEXT),
    (
        "Kaldi2Reader",
        "Read Kaldi's archives with an element of 'deserializers' of the type 'KaldiDeserializer', without a 'module'.",
    ),
    ("ImageWriter", "It writes images; it is not a reader."),
];

/// Advice for a reader without a successor.
const TO_TEXT: &str = "Write its data in CNTK's text format, a line for each sample as '|name values', and read them with \
                       'CNTKTextFormatReader'.";

/// Returns the type of reader that a section describes. Without `readerType`, it is composite if
/// there are `deserializers`, or other deserializers and no `input` in this section.
pub(super) fn reader_type(section: &Section, has_others: bool) -> Result<ReaderType> {
    let composite = section.exists("deserializers") || has_others && !section.exists_here("input");
    let default = if composite { "Cntk.Composite" } else { "Cntk.Deserializers.TextFormat" };
    let name = section.text_or("readerType", default)?;
    match name.as_str() {
        "CompositeDataReader" | "Cntk.Composite" => Ok(ReaderType::Composite),
        "CNTKTextFormatReader" | "Cntk.Deserializers.TextFormat" => Ok(ReaderType::Text),
        "CNTKBinaryReader" | "Cntk.Deserializers.Binary" => Ok(ReaderType::Binary),
        "ImageReader" | "Cntk.Deserializers.Image" => Ok(ReaderType::Image),
        "HTKDeserializers" | "Cntk.Deserializers.HTK" | "HTKMLFReader" | "Cntk.Reader.HTKMLF" => {
            Ok(ReaderType::Htk)
        }
        other => Err(section.blame("readerType", unknown_type(other))),
    }
}

/// Returns the error of an unknown reader type.
fn unknown_type(other: &str) -> Error {
    if let Some((_, advice)) = OTHERS.iter().find(|(name, _)| *name == other) {
        let message = format!("The reader type '{other}' is not supported yet.");
        return Error::config(InvalidArgument, message).with_detail(advice).with_detail(SUPPORTED);
    }
    let message = format!("Plugin not found: '{other}-2.7.so' (error: no reader of this name is known)");
    let known = SUPPORTED_TYPES.into_iter().collect();
    let hint = nearest(&other.to_ascii_lowercase(), &known)
        .map_or_else(String::new, |name| format!("Did you mean '{name}'?"));
    Error::config(Runtime, message).as_cntk().with_detail(hint).with_detail(SUPPORTED)
}

/// Reads a section with `readerType = "CNTKTextFormatReader"`.
pub(super) fn read_text(section: &Section) -> Result<ReaderSettings> {
    let element = read_element(section)?;
    let text = text::read(section, element)?;
    let packing = if text.frame_mode { Packing::Frame } else { Packing::Sequence };
    let trace_level = text.options.log.trace_level;
    let deserializer = Box::new(text.options);
    with_one(section, Shape::TextReader, text.window, packing, element, trace_level, deserializer)
}

/// Reads a section with `readerType = "ImageReader"`.
pub(super) fn read_image(section: &Section) -> Result<ReaderSettings> {
    images::read_legacy(section, read_element(section)?)
}

/// Reads a section with `readerType = "HTKMLFReader"` or `"HTKDeserializers"`.
pub(super) fn read_htk(section: &Section) -> Result<ReaderSettings> {
    speech::read_legacy(section, read_element(section)?)
}

/// Reads a section with `readerType = "CNTKBinaryReader"`. It packs sequences, whatever `frameMode`
/// says.
pub(super) fn read_binary(section: &Section) -> Result<ReaderSettings> {
    let element = read_element(section)?;
    let binary = binary::read(section, element)?;
    let trace_level = binary.options.log.trace_level;
    let deserializer = Box::new(binary.options);
    with_one(
        section,
        Shape::BinaryReader,
        binary.window,
        Packing::Sequence,
        element,
        trace_level,
        deserializer,
    )
}

fn read_element(section: &Section) -> Result<ElementType> {
    section.ignore(&["readerType", "module", "type", "multiThreadedDeserialization"]);
    let precision = section.text_or("precision", "float")?;
    parse_precision(&precision).ok_or_else(|| {
        let message = format!("Not supported precision '{precision}'. Expected 'double' or 'float'.");
        section.blame("precision", Error::config(Runtime, message))
    })
}

fn with_one(
    section: &Section,
    shape: Shape,
    window: Option<WindowSize>,
    packing: Packing,
    element: ElementType,
    trace_level: u32,
    deserializer: Box<dyn Format>,
) -> Result<ReaderSettings> {
    let order = match window {
        None => {
            section.ignore(&["randomizationSeed"]);
            Order::InOrder
        }
        Some(window) => Order::Block { window, seed: section.get_or("randomizationSeed", 0)? },
    };
    let verbosity = read_level(section, "verbosity")?;
    let prefetch = read_common(section)?;
    Ok(ReaderSettings {
        shape,
        adapters: Vec::new(),
        numeric_keys: true,
        hash_keys: false,
        order,
        packing,
        expand_sparse: true,
        lanes_by_epoch: None,
        local_timeline: false,
        lockstep: false,
        // `maxErrors` here counts bad lines and belongs to the deserializer.
        max_errors: 0,
        element,
        trace_level,
        verbosity,
        multithreaded: false,
        prefetch,
        front_end: FrontEnd::default(),
        in_place_of: None,
        packing_key: section.written("frameMode"),
        descriptions: vec![section.written_key("file")],
        deserializers: vec![deserializer],
    })
}

/// Parses `precision`, ignoring case. (CNTK's composite reader takes `Float` for double in one
/// place and for float in another, and delivers garbage.)
pub(super) fn parse_precision(text: &str) -> Option<ElementType> {
    if text.eq_ignore_ascii_case("float") {
        Some(ElementType::Float)
    } else if text.eq_ignore_ascii_case("double") {
        Some(ElementType::Double)
    } else {
        None
    }
}
