//! The library's own deserializers: their types, and reading the section of a single one.

use super::arrays;
use super::images;
use super::legacy::parse_precision;
use super::module::Module;
#[cfg(feature = "images")]
use super::options::ImageOptions;
use super::options::{BinaryOptions, TextOptions};
use super::section::Section;
use super::speech::{self, Common, SpeechType};
use super::{binary, text};
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Runtime};
use cntk_reader_core::format::options::Format;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::option;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

pub(super) const TEXT_TYPE: &str = "CNTKTextFormatDeserializer";
const BINARY_TYPE: &str = "CNTKBinaryFormatDeserializer";

/// The library's own deserializers.
#[derive(Clone, Copy)]
pub(super) enum Native {
    Text,
    Binary,
    /// Whether the images are lines of Base64.
    Image(bool),
    Speech(SpeechType),
    /// A deserializer that CNTK does not have.
    Added(&'static Added),
}

impl Native {
    /// Returns the CNTK module that it belongs to; `None` if there is none.
    pub(super) fn module(self) -> Option<Module> {
        match self {
            Native::Text => Some(Module::Text),
            Native::Binary => Some(Module::Binary),
            Native::Image(_) => Some(Module::Image),
            Native::Speech(_) => Some(Module::Htk),
            Native::Added(added) => added.module,
        }
    }
}

/// A deserializer that CNTK does not have. Its section needs no `module`.
pub(super) struct Added {
    /// The `type` of its section.
    pub name: &'static str,
    /// The module that may be given with the type: CNTK's API insists on one.
    pub module: Option<Module>,
    /// Its keys are textual, unless `useNumericSequenceKeys` says otherwise.
    pub has_textual_keys: bool,
    /// The default window is 128 chunks, as for text. Otherwise it is all of the data, as for
    /// CNTK's other formats.
    pub has_window_of_text: bool,
    /// Reads its section.
    pub read: fn(&Section, &Common) -> Result<Box<dyn Format>>,
}

/// The deserializers that CNTK does not have. A new format needs only an entry here.
pub(super) const ADDED: &[Added] = &[
    Added {
        name: speech::KALDI,
        module: Some(Module::Htk),
        has_textual_keys: true,
        has_window_of_text: false,
        read: speech::read_kaldi,
    },
    Added {
        name: arrays::TYPE,
        module: None,
        has_textual_keys: false,
        has_window_of_text: true,
        read: arrays::read,
    },
];

/// Finds a deserializer that CNTK does not have, by its type.
pub(super) fn added(name: &str) -> Option<&'static Added> {
    ADDED.iter().find(|added| added.name == name)
}

/// Advice for unsupported types.
const SUPPORTED: &str = "Supported are the types 'CNTKTextFormatDeserializer' of the module 'CNTKTextFormatReader', \
                         'CNTKBinaryFormatDeserializer' of the module 'CNTKBinaryReader', 'HTKFeatureDeserializer', \
                         'HTKMLFDeserializer', 'HTKMLFBinaryDeserializer' and 'LatticeDeserializer' of the module \
                         'HTKDeserializers', 'ImageDeserializer' and 'Base64ImageDeserializer' of the module \
                         'ImageReader', 'KaldiDeserializer', 'NumpyDeserializer', and deserializers of users.";

/// The types of CNTK's deserializers, with their modules.
const TYPES: [(&str, &str); 8] = [
    (TEXT_TYPE, "CNTKTextFormatReader"),
    (BINARY_TYPE, "CNTKBinaryReader"),
    ("HTKFeatureDeserializer", "HTKDeserializers"),
    ("HTKMLFDeserializer", "HTKDeserializers"),
    ("HTKMLFBinaryDeserializer", "HTKDeserializers"),
    ("LatticeDeserializer", "HTKDeserializers"),
    ("ImageDeserializer", "ImageReader"),
    ("Base64ImageDeserializer", "ImageReader"),
];

/// Returns the module of one of CNTK's deserializers.
pub(super) fn module_of(name: &str) -> Option<&'static str> {
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, module)| *module)
}

/// Lists the types of a module in a sentence, or returns "" for unknown modules.
pub(super) fn types_of(module: &str) -> String {
    let types = TYPES.iter().filter(|(_, of)| *of == module);
    let types: Vec<_> = types.map(|(name, _)| format!("'{name}'")).collect();
    match types.as_slice() {
        [] => String::new(),
        [only] => format!("The module '{module}' has the type {only}."),
        types => format!("The module '{module}' has the types {}.", types.join(", ")),
    }
}

/// Suggests the known type that a misspelled one is meant to be, as a sentence, or returns "".
pub(super) fn meant_type(name: &str) -> String {
    let known = TYPES.iter().map(|(known, _)| *known).chain(ADDED.iter().map(|added| added.name)).collect();
    let meant = option::type_of_class(name).or_else(|| nearest(&name.to_ascii_lowercase(), &known));
    meant.filter(|meant| *meant != name).map_or_else(String::new, |meant| match module_of(meant) {
        Some(module) => format!("Did you mean '{meant}' of the module '{module}'?"),
        None => format!("Did you mean '{meant}'?"),
    })
}

/// Suggests the known module that a misspelled one is meant to be, as a sentence, or returns "".
fn meant_module(module: &str, name: &str) -> String {
    let known = TYPES.iter().map(|(_, module)| *module).collect();
    let meant = module_of(name).or_else(|| nearest(&module.to_ascii_lowercase(), &known));
    meant.map_or_else(String::new, |meant| format!("Did you mean '{meant}'?"))
}

/// Returns the deserializer of this type in this module, if this library can read it.
pub(super) fn check_type(module: &str, name: &str) -> Result<Native> {
    let Some(known) = Module::by_name(module) else {
        let message =
            format!("The module '{module}' of the deserializer type '{name}' is not supported yet.");
        let error = Error::config(InvalidArgument, message).with_detail(meant_module(module, name));
        return Err(error.with_detail(SUPPORTED));
    };
    if let Some(added) = added(name).filter(|added| added.module == Some(known)) {
        return Ok(Native::Added(added));
    }
    match (known, name) {
        (Module::Text, TEXT_TYPE) => return Ok(Native::Text),
        (Module::Binary, BINARY_TYPE) => return Ok(Native::Binary),
        (Module::Htk, _) => {
            if let Some(kind) = SpeechType::by_name(name) {
                return Ok(Native::Speech(kind));
            }
        }
        (Module::Image, images::TYPE) => return Ok(Native::Image(false)),
        (Module::Image, images::BASE64_TYPE) => return Ok(Native::Image(true)),
        _ => {}
    }
    let error = match known {
        Module::Text | Module::Binary => {
            Error::config(InvalidArgument, format!("Unknown deserializer type '{name}'"))
        }
        Module::Image | Module::Htk => Error::config(
            Runtime,
            "Cannot create deserializer. Please check module and type in the configuration.",
        )
        .as_cntk(),
    };
    let detail = format!("The module '{module}' has no deserializer of the type '{name}'.");
    Err(error.with_detail(detail).with_detail(meant_type(name)).with_detail(SUPPORTED))
}

/// Parses `precision`, the value of that key in `section`.
pub(super) fn element_type(precision: &str, section: &Section) -> Result<ElementType> {
    parse_precision(precision).ok_or_else(|| {
        let error = Error::config(InvalidArgument, format!("Unsupported precision '{precision}'"));
        section.blame("precision", error.with_detail("Expected 'float' or 'double'."))
    })
}

/// See [`super::text_deserializer`].
pub(super) fn text_deserializer(section: &Section, name: &str) -> Result<TextOptions> {
    let element = element_of(section, name, TEXT_TYPE)?;
    text::read(section, element).map(|text| text.options)
}

/// See [`super::binary_deserializer`].
pub(super) fn binary_deserializer(section: &Section, name: &str) -> Result<BinaryOptions> {
    let element = element_of(section, name, BINARY_TYPE)?;
    binary::read(section, element).map(|binary| binary.options)
}

/// See [`super::speech_deserializer`].
pub(super) fn speech_deserializer(
    section: &Section,
    name: &str,
    is_primary: bool,
    hash_keys: bool,
) -> Result<Box<dyn Format>> {
    let common = Common {
        is_primary,
        hash_keys,
        frame_mode: section.get_or("frameMode", true)?,
        element: element_of_section(section)?,
        boundaries_of_frames: false,
    };
    match check_type("HTKDeserializers", name)? {
        Native::Speech(kind) => speech::read(kind, section, &common),
        Native::Added(added) => (added.read)(section, &common),
        _ => Err(Error::internal("The module of speech has other deserializers.")),
    }
}

/// See [`super::element_type`].
pub(super) fn element_of_section(section: &Section) -> Result<ElementType> {
    element_type(&section.text_or("precision", "float")?, section)
}

/// See [`super::image_deserializer`].
#[cfg(feature = "images")]
pub(super) fn image_deserializer(section: &Section, name: &str) -> Result<ImageOptions> {
    let element = element_of_section(section)?;
    match check_type("ImageReader", name)? {
        Native::Image(base64) => {
            let options = images::read_single(base64, section, element)?;
            Ok(ImageOptions { as_cntk: true, draws: None, ..options })
        }
        _ => Err(Error::internal("The module of images has other deserializers.")),
    }
}

/// Returns the element type of a deserializer's section, after checking that its type is the only
/// one that its module has.
fn element_of(section: &Section, name: &str, only: &str) -> Result<ElementType> {
    if name != only {
        let error = Error::config(InvalidArgument, format!("Unknown deserializer type '{name}'"));
        return Err(section.blame("type", error.with_detail(meant_type(name)).with_detail(SUPPORTED)));
    }
    element_of_section(section)
}
