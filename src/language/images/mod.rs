//! The part of the language that describes images and their transforms.

#[cfg(feature = "images")]
mod image;
#[cfg(feature = "images")]
mod legacy;
#[cfg(feature = "images")]
mod transforms;

use super::module::Module;
use super::options::ReaderSettings;
#[cfg(feature = "images")]
use super::options::{ImageOptions, TransformOptions};
use super::section::Section;
use cntk_reader_core::Result;
use cntk_reader_core::format::options::{Adapter, Format};
use cntk_reader_core::stream::ElementType;
use std::sync::Arc;

/// The `type` of each deserializer in configurations.
pub(in crate::language) const TYPE: &str = "ImageDeserializer";
pub(in crate::language) const BASE64_TYPE: &str = "Base64ImageDeserializer";

/// Settings of the reader that apply to a deserializer.
#[cfg_attr(not(feature = "images"), allow(dead_code, reason = "only the part that is left out reads them"))]
#[derive(Debug, Clone, Copy)]
pub(in crate::language) struct Common<'a> {
    pub element: ElementType,
    /// The reader's `reproducibleTransforms`.
    pub reproducible: bool,
    pub scope: Scope<'a>,
}

/// Settings of the reader that apply to a transform.
#[cfg_attr(not(feature = "images"), allow(dead_code, reason = "only the part that is left out reads them"))]
#[derive(Debug, Clone, Copy)]
pub(in crate::language) struct Scope<'a> {
    /// The deserializer's module, which also provides the transforms that name no module.
    pub module: &'a str,
    /// Names of user-defined transforms.
    pub users: &'a [&'a str],
}

/// Returns whether a stream of a deserializer has a transform of a module that the library does not
/// have. Errors in the section are reported elsewhere.
pub(in crate::language) fn has_foreign(deserializer: &Section) -> bool {
    // Lookups here do not count as reads.
    let Ok(input) = deserializer.unlogged().section("input") else { return false };
    let names_other = |transform: &Section| {
        transform.exists_here("module")
            && transform.text("module").is_ok_and(|module| Module::by_name(&module).is_none())
    };
    input.keys().any(|stream| {
        let transforms = input.child(stream).and_then(|stream| stream.array_or_empty("transforms"));
        transforms.is_ok_and(|transforms| transforms.sections().flatten().any(|one| names_other(&one)))
    })
}

/// Reads an element of `deserializers`.
#[cfg(feature = "images")]
pub(super) fn read(base64: bool, section: &Section, common: Common<'_>) -> Result<Box<dyn Format>> {
    Ok(Box::new(image::read(base64, section, common)?))
}

/// Sets the number of unreadable images to tolerate, if the deserializer has images.
pub(super) fn tolerate(one: &mut dyn Format, max_errors: u64) {
    #[cfg(feature = "images")]
    if let Some(image) = one.of_mut::<ImageOptions>() {
        image.max_errors = max_errors;
    }
    #[cfg(not(feature = "images"))]
    let _ = (one, max_errors);
}

/// Reads the transforms of a deserializer of other data than images, which CNTK 2.7 does not have.
/// `number` is the deserializer's. With `must`, transforms of streams without `imageShape` are
/// skipped; otherwise the streams have shapes of their own.
#[cfg(feature = "images")]
pub(super) fn read_streams(
    deserializer: &Section,
    number: usize,
    must: bool,
    reproducible: bool,
    scope: Scope<'_>,
) -> Result<Option<Arc<dyn Adapter>>> {
    transforms::read_streams(deserializer, number, must, reproducible, scope)
}

/// Reads a section with `readerType = "ImageReader"`.
#[cfg(feature = "images")]
pub(super) fn read_legacy(section: &Section, element: ElementType) -> Result<ReaderSettings> {
    legacy::read(section, element)
}

/// Reads the section of one deserializer, without transforms.
#[cfg(feature = "images")]
pub(super) fn read_single(base64: bool, section: &Section, element: ElementType) -> Result<ImageOptions> {
    image::read_single(base64, section, element)
}

/// Reads the options of one transform of the image module, as CNTK's composite reader passes them.
#[cfg(feature = "images")]
pub(super) fn read_transform(section: &Section, name: &str) -> Result<TransformOptions> {
    transforms::read_single(section, name)
}

#[cfg(not(feature = "images"))]
mod absent {
    use super::*;
    use crate::language::without;

    pub fn read(_: bool, section: &Section, _: Common<'_>) -> Result<Box<dyn Format>> {
        Err(without("images", section))
    }

    pub fn read_streams(
        deserializer: &Section,
        _: usize,
        must: bool,
        _: bool,
        _: Scope<'_>,
    ) -> Result<Option<Arc<dyn Adapter>>> {
        if !deserializer.exists_here("input") {
            return Ok(None);
        }
        let input = deserializer.section("input")?;
        for name in input.keys() {
            let stream = input.child(name)?;
            if stream.exists_here("transforms") && (stream.exists_here("imageShape") || !must) {
                return Err(without("images", &stream));
            }
        }
        Ok(None)
    }

    pub fn read_legacy(section: &Section, _: ElementType) -> Result<ReaderSettings> {
        Err(without("images", section))
    }
}

#[cfg(not(feature = "images"))]
pub(super) use absent::{read, read_legacy, read_streams};
