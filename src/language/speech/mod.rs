//! The part of the language that describes speech: HTK's formats and Kaldi archives.

#[cfg(feature = "speech")]
mod htk;
#[cfg(feature = "speech")]
mod kaldi;
#[cfg(feature = "speech")]
mod legacy;

use super::options::ReaderSettings;
use super::section::Section;
use cntk_reader_core::Result;
use cntk_reader_core::format::options::Format;
use cntk_reader_core::stream::ElementType;

/// The `type` of the deserializer for Kaldi archives in configurations.
pub(super) const KALDI: &str = "KaldiDeserializer";

/// Settings of the reader that apply to a deserializer.
#[cfg_attr(not(feature = "speech"), allow(dead_code, reason = "only the part that is left out reads them"))]
#[derive(Debug, Clone, Copy)]
pub(in crate::language) struct Common {
    /// Whether the deserializer is the first one.
    pub is_primary: bool,
    /// Whether textual keys are hashed.
    pub hash_keys: bool,
    pub frame_mode: bool,
    pub element: ElementType,
    /// Whether `phoneBoundaries` is accepted in frame mode.
    pub boundaries_of_frames: bool,
}

/// The deserializers of CNTK's speech module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::language) enum SpeechType {
    Features,
    Labels,
    BinaryLabels,
    Lattices,
}

impl SpeechType {
    pub fn by_name(name: &str) -> Option<SpeechType> {
        match name {
            "HTKFeatureDeserializer" => Some(SpeechType::Features),
            "HTKMLFDeserializer" => Some(SpeechType::Labels),
            "HTKMLFBinaryDeserializer" => Some(SpeechType::BinaryLabels),
            "LatticeDeserializer" => Some(SpeechType::Lattices),
            _ => None,
        }
    }
}

/// Reads an element of `deserializers` of CNTK's speech module.
#[cfg(feature = "speech")]
pub(super) fn read(kind: SpeechType, section: &Section, common: &Common) -> Result<Box<dyn Format>> {
    htk::read(kind, section, common)
}

/// Reads an element of `deserializers` for Kaldi archives.
#[cfg(feature = "speech")]
pub(super) fn read_kaldi(section: &Section, common: &Common) -> Result<Box<dyn Format>> {
    Ok(Box::new(kaldi::read(section, common)?))
}

/// Reads a section with `readerType = "HTKMLFReader"` or `"HTKDeserializers"`.
#[cfg(feature = "speech")]
pub(super) fn read_legacy(section: &Section, element: ElementType) -> Result<ReaderSettings> {
    legacy::read(section, element)
}

#[cfg(not(feature = "speech"))]
mod absent {
    use super::*;
    use crate::language::without;

    pub fn read(_: SpeechType, section: &Section, _: &Common) -> Result<Box<dyn Format>> {
        Err(without("speech", section))
    }

    pub fn read_kaldi(section: &Section, _: &Common) -> Result<Box<dyn Format>> {
        Err(without("speech", section))
    }

    pub fn read_legacy(section: &Section, _: ElementType) -> Result<ReaderSettings> {
        Err(without("speech", section))
    }
}

#[cfg(not(feature = "speech"))]
pub(super) use absent::{read, read_kaldi, read_legacy};
