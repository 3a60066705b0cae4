//! The keys of the deserializer for NumPy arrays, which CNTK does not have.

use super::options::{ArrayOptions, ArrayStream};
use super::section::Section;
use super::speech::Common;
use super::text;
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::format::options::Format;
use cntk_reader_core::{Error, Result};

/// The `type` of this deserializer in configurations.
pub(super) const TYPE: &str = "NumpyDeserializer";

/// Reads an element of `deserializers`.
pub(super) fn read(section: &Section, common: &Common) -> Result<Box<dyn Format>> {
    let refuse = |at: &Section, key: &str| {
        let message = format!("{} has no '{key}'.", at.subject());
        let detail = "Arrays are streams, each with its file: ‹arrays›.";
        at.blame_missing(key, Error::config(InvalidArgument, message).with_detail(detail))
    };
    if !section.exists_here("input") {
        return Err(refuse(section, "input"));
    }
    let input = section.section("input")?;
    let mut streams = Vec::new();
    for name in input.keys() {
        let stream = input.child(name)?;
        if !stream.exists_here("file") {
            return Err(refuse(&stream, "file").in_stream(name));
        }
        let file = stream.path_of("file")?;
        let defines_mb_size = stream.get_or("definesMBSize", false)?;
        streams.push(ArrayStream { name: name.to_owned(), file, defines_mb_size });
    }
    if streams.is_empty() {
        return Err(refuse(&input, "file"));
    }
    let lengths = if section.exists_here("lengths") { section.path_or_none("lengths")? } else { None };
    let chunk_size = text::read_chunk_size(section, "‹array_chunk_size›")?;
    Ok(Box::new(ArrayOptions { streams, lengths, chunk_size, element: common.element }))
}
