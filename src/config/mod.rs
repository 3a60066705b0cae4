//! Configuration: the language, the section tree, and the typed options that the other rooms are built from.
//!
//! A text is cut into records ([`Section`]), whose values stay text until they are read as something. From a section,
//! [`from_section`] makes [`ReaderSettings`]. Errors of the language and of values carry CNTK 2.7's words and its
//! class of exception.

mod array;
mod binary;
mod composite;
mod convert;
mod expand;
mod file;
mod legacy;
mod lexer;
pub mod options;
mod section;
mod text;
mod unread;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use array::{Array, for_epoch};
pub use convert::{FromValue, WidenedInt};
pub use legacy::ReaderType;
pub use section::Section;

use crate::Result;
use crate::error::{Error, ExceptionClass};
use crate::log::Logger;
use options::{BinaryOptions, ReaderSettings, TextOptions};
use std::path::Path;

/// Options from the text of a configuration, as CNTK's API hands it to a reader. In messages its root is `unknown`.
pub fn from_text(text: &str) -> Result<ReaderSettings> {
    from_section(&Section::parse("unknown", text)?)
}

/// A deserializer of the user's own, as configurations know it.
#[derive(Debug, Clone, Copy)]
pub struct UserType<'a> {
    /// Its name: the `type` of a section in `deserializers`.
    pub name: &'a str,
    /// Its sequences are known beforehand.
    pub composable: bool,
}

/// Deserializers that a configuration may name beside the library's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Others<'a> {
    /// Those of users.
    pub users: &'a [UserType<'a>],
    /// All in modules that the library does not have: somebody else makes them.
    pub foreign: bool,
}

/// Options from the text of a configuration for users' deserializers. An element of `deserializers` whose `type` is the
/// name of one stands for that one, and needs no `module`. Without `deserializers` the only one that there is is meant.
pub fn from_text_with(text: &str, users: &[UserType<'_>]) -> Result<ReaderSettings> {
    let section = Section::parse("unknown", text)?;
    let section = match section.exists_here("reader") {
        true => section.section("reader")?,
        false => section,
    };
    let options = composite::read_with(&section, Others { users, foreign: false })?;
    section.log().report(section.path(), Logger { trace_level: options.trace_level });
    Ok(options)
}

/// Options from a configuration file: includes and comments are resolved line by line first. In messages its root is
/// `global`.
///
/// Paths of included files are relative to the current directory.
pub fn from_file(path: &Path) -> Result<ReaderSettings> {
    let add_file = |error: Error| error.in_file(&path.display().to_string());
    let text = file::read(path)?;
    let section = Section::parse("global", &text).map_err(add_file)?;
    from_section(&section).map_err(add_file)
}

/// Options from a section that describes a reader, or that has one in its `reader` section.
///
/// Keys that nothing reads are logged as warnings at trace level 1.
pub fn from_section(section: &Section) -> Result<ReaderSettings> {
    let section = reader_section(section)?;
    from_reader_section(&section, legacy::reader_type(&section)?, false)
}

/// Options from the very section of a reader whose kind is known: what CNTK's hosts hand to the module that they chose.
/// With `foreign`, deserializers that this library does not have are left to others.
pub fn from_reader_section(section: &Section, kind: ReaderType, foreign: bool) -> Result<ReaderSettings> {
    let options = match kind {
        ReaderType::Composite => composite::read_with(section, Others { users: &[], foreign })?,
        ReaderType::Text => legacy::read_text(section)?,
        ReaderType::Binary => legacy::read_binary(section)?,
    };
    section.log().report(section.path(), Logger { trace_level: options.trace_level });
    Ok(options)
}

/// Options of one deserializer of the text module, as CNTK's composite reader hands them to it.
pub fn text_deserializer(section: &Section, name: &str) -> Result<TextOptions> {
    composite::text_deserializer(section, name)
}

/// The same of one deserializer of the binary module.
pub fn binary_deserializer(section: &Section, name: &str) -> Result<BinaryOptions> {
    composite::binary_deserializer(section, name)
}

/// The section that describes the reader: this one, its `reader` section, or the one that `readers` names.
fn reader_section(section: &Section) -> Result<Section> {
    let describes = |section: &Section| section.exists_here("deserializers") || section.exists_here("input");
    let section = if describes(section) || !section.exists_here("reader") {
        section.clone()
    } else {
        section.section("reader")?
    };
    if !describes(&section) && section.exists_here("readers") {
        let names = section.array("readers")?;
        return match names.texts() {
            [name] => section.section(name),
            _ => Err(Error::config(
                ExceptionClass::InvalidArgument,
                format!("{}:readers names {} readers; one is supported.", section.path(), names.len()),
            )),
        };
    }
    if !describes(&section) && !section.exists("readerType") && !section.exists("deserializers") {
        let message = "Could not find deserializers in the reader config.";
        return Err(Error::config(ExceptionClass::InvalidArgument, message));
    }
    Ok(section)
}
