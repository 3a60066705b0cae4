//! Transforms of images: `transforms = ( [ type = "Crop" ; ... ] : [ type = "Scale" ; ... ] )` in
//! the section of a stream.
//!
//! The order of the reads is CNTK's: it decides which of several mistakes is reported.

use super::Scope;
use crate::language::convert::FromValue;
use crate::language::module::Module;
use crate::language::options::{
    ColorOptions, CropKind, CropOptions, CropRatio, IntensityOptions, Interpolation, ScaleMode, ScaleOptions,
    TransformOptions, TransformedStream, TransformedStreams, UserTransformOptions,
};
use crate::language::section::Section;
use cntk_reader_core::error::ExceptionClass::{self, InvalidArgument, Runtime};
use cntk_reader_core::format::options::Adapter;
use cntk_reader_core::limits::LARGEST_SIDE;
use cntk_reader_core::message::shown::signed;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::option;
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// The transform types of CNTK's image module, one by one.
const NAMES: [&str; 7] = ["Crop", "Scale", "Color", "Intensity", "Mean", "Transpose", "Cast"];

/// The transform types of CNTK's image module.
const TYPES: &str = "'Crop', 'Scale', 'Color', 'Intensity', 'Mean', 'Transpose' and 'Cast'";

/// Reads the array `transforms` of a stream's section.
pub(super) fn read(stream: &Section, scope: Scope<'_>) -> Result<Vec<TransformOptions>> {
    let elements = stream.array("transforms")?;
    let mut transforms = Vec::with_capacity(elements.len());
    for element in elements.sections() {
        transforms.push(read_one(&element?, scope)?);
    }
    Ok(transforms)
}

/// Reads the transforms of a deserializer of other data than images, which CNTK 2.7 does not have.
/// `number` is the deserializer's. With `must`, transforms of streams without `imageShape` are
/// skipped; otherwise the streams have shapes of their own.
pub(super) fn read_streams(
    deserializer: &Section,
    number: usize,
    must: bool,
    reproducible: bool,
    scope: Scope<'_>,
) -> Result<Option<Arc<dyn Adapter>>> {
    let mut streams = Vec::new();
    if !deserializer.exists_here("input") {
        return Ok(None);
    }
    let input = deserializer.section("input")?;
    let reproducible = deserializer.get_or("reproducibleTransforms", reproducible)?;
    for name in input.keys() {
        let stream = input.child(name)?;
        let has_shape = stream.exists_here("imageShape");
        if !stream.exists_here("transforms") || must && !has_shape {
            continue;
        }
        let image = has_shape.then(|| read_image_shape(&stream)).transpose();
        let read = image.and_then(|image| Ok((image, read(&stream, scope)?)));
        let (image, transforms) = read.map_err(|error| error.in_stream(name))?;
        let stream = name.to_owned();
        streams.push(TransformedStream { stream, image, transforms, reproducible });
    }
    if streams.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(TransformedStreams { deserializer: number, streams })))
}

/// Reads `imageShape`: channels, columns, rows.
fn read_image_shape(stream: &Section) -> Result<[usize; 3]> {
    let shape = stream.array("imageShape")?.values::<u64>()?;
    if let [channels, width, height] = *shape.as_slice()
        && let [Some(channels), Some(width), Some(height)] = [channels, width, height].map(dimension)
        && is_possible(width, height, channels)
    {
        return Ok([channels, width, height].map(|dimension| dimension as usize));
    }
    let message = format!("'imageShape' in {} is not an image shape.", stream.place());
    let why = "Expected 'channels:columns:rows', each at least 1; the channels vary fastest.";
    Err(wrong(stream, "imageShape", InvalidArgument, message, why))
}

fn read_one(section: &Section, scope: Scope<'_>) -> Result<TransformOptions> {
    let name = section.text("type")?;
    section.ignore(&["precision"]);
    if scope.users.contains(&name.as_str()) && !section.exists_here("module") {
        return user(name, section);
    }
    let module = section.text_or("module", scope.module)?;
    match Module::by_name(&module) {
        Some(Module::Image) => {}
        Some(known) => {
            let message =
                format!("Symbol 'CreateTransformer' not found in plugin '{}-2.7.so'", known.plugin());
            let detail = format!("The module '{module}' of {} has no transforms.", section.place());
            let error =
                Error::config(Runtime, message).as_cntk().with_detail(detail).with_detail(expected(scope));
            return Err(section.blame("module", error));
        }
        None => {
            let message = format!(
                "Plugin not found: '{module}-2.7.so' (error: no transforms of this module are known)"
            );
            let found = format!("The module '{module}' of {} has no transforms.", section.place());
            let error = Error::config(Runtime, message).as_cntk().with_detail(found);
            return Err(section.blame("module", error.with_detail(expected(scope))));
        }
    }
    match read_native(section, &name)? {
        Some(transform) => Ok(transform),
        None => Err(unknown(section, &name).with_detail(expected(scope))),
    }
}

/// Reads the section of one of the library's transforms, of type `name`. None if there is no such
/// type.
fn read_native(section: &Section, name: &str) -> Result<Option<TransformOptions>> {
    // CNTK converts the seed of every transform, before anything else.
    let seed = || section.get_or("seed", 0u32);
    Ok(Some(match name {
        "Crop" => TransformOptions::Crop(read_crop(section, seed()?)?),
        "Scale" => seed().and_then(|_| read_scale(section)).map(TransformOptions::Scale)?,
        "Color" => TransformOptions::Color(read_color(section, seed()?)?),
        "Intensity" => TransformOptions::Intensity(read_intensity(section, seed()?)?),
        "Mean" => seed().and_then(|_| read_path(section, "meanFile")).map(TransformOptions::Mean)?,
        "Transpose" => seed().map(|_| TransformOptions::Transpose)?,
        "Cast" => seed().map(|_| TransformOptions::Cast)?,
        _ => return Ok(None),
    }))
}

/// Reads the options of one transform of the image module, as CNTK's composite reader passes them.
pub(super) fn read_single(section: &Section, name: &str) -> Result<TransformOptions> {
    section.ignore(&["type", "module", "precision"]);
    read_native(section, name)?.ok_or_else(|| unknown(section, name))
}

fn unknown(section: &Section, name: &str) -> Error {
    let message = "Cannot create transformer. Please check the module and type in the configuration.";
    let detail = format!("There is no transform of the type '{name}', the 'type' of {}.", section.place());
    let known = NAMES.into_iter().collect();
    let meant = nearest(&name.to_ascii_lowercase(), &known);
    let meant = meant.map_or_else(String::new, |meant| format!("Did you mean '{meant}'?"));
    section.blame("type", Error::config(Runtime, message).as_cntk().with_detail(detail).with_detail(meant))
}

/// Reads a user-defined transform, whose keys are not interpreted here.
fn user(name: String, section: &Section) -> Result<TransformOptions> {
    section.ignore(&section.keys().collect::<Vec<_>>());
    // Not inherited from enclosing sections.
    let seed = if section.exists_here("seed") { section.parsed_or("seed", 0)? } else { 0 };
    Ok(TransformOptions::User(UserTransformOptions { name, seed }))
}

fn expected(scope: Scope<'_>) -> String {
    let mut text =
        format!("Expected one of {TYPES} of the module 'ImageReader'; upper and lower case differ.");
    match scope.users {
        [] => text.push_str(" A transform of your own has to be added to the reader under this name."),
        users => {
            text.push_str(&format!(" Transforms of your own: '{}', without 'module'.", users.join("', '")))
        }
    }
    text
}

/// Reads all transforms of a reader that has their keys in one section, in the order in which it
/// applies them.
pub(super) fn read_all(section: &Section, is_transposed: bool) -> Result<Vec<TransformOptions>> {
    let seed = section.get_or("seed", 0)?;
    let mut transforms = vec![
        TransformOptions::Crop(read_crop(section, seed)?),
        TransformOptions::Scale(read_scale(section)?),
        TransformOptions::Color(read_color(section, seed)?),
        TransformOptions::Intensity(read_intensity(section, seed)?),
        TransformOptions::Mean(read_path(section, "meanFile")?),
    ];
    transforms.extend(is_transposed.then_some(TransformOptions::Transpose));
    transforms.push(TransformOptions::Cast);
    Ok(transforms)
}

/// Returns an error about a key, in CNTK's words.
fn wrong(
    section: &Section,
    key: &str,
    class: ExceptionClass,
    message: impl Into<String>,
    why: &str,
) -> Error {
    let found =
        section.find(key).map_or_else(|| "not there".to_owned(), |(_, text)| format!("'{}'", &**text));
    let detail = format!("{} in {} is {found}.", option::of_key(key), section.place());
    // Words that the explanation quotes are possible values.
    let known = why.split('\'').skip(1).step_by(2).collect();
    let meant = section.find(key).and_then(|(_, text)| nearest(&text.to_ascii_lowercase(), &known));
    let meant = meant.map_or_else(String::new, |meant| format!("Did you mean '{meant}'?"));
    let error = Error::config(class, message);
    // Errors of other classes are not CNTK's.
    let error = if class == Runtime { error.as_cntk() } else { error };
    section.blame(key, error.with_detail(detail).with_detail(why).with_detail(meant))
}

fn read_crop(section: &Section, seed: u32) -> Result<CropOptions> {
    // Older versions of CNTK used this name. CNTK 2.7 ignores it, like all unknown keys.
    section.renamed("cropRatio", "sideRatio");
    let size = read_crop_size(section)?;
    let side = read_ratio(section, "side")?;
    let area = read_ratio(section, "area")?;
    let ratio = match (side, area) {
        (None, None) => CropRatio::None,
        (Some((least, most)), None) => CropRatio::Side(least, most),
        (None, Some((least, most))) => CropRatio::Area(least, most),
        (Some(_), Some(_)) => {
            let message = "sideRatio and areaRatio cannot be specified simultaneously";
            return Err(wrong(section, "areaRatio", Runtime, message, "Remove one of the two keys."));
        }
    };
    let aspect = read_pair::<f32>(section, "aspectRatio", "1.0")?;
    // CNTK accepts infinity, and converts the resulting value to an integer.
    if !(aspect.0 > 0.0 && aspect.0 <= aspect.1 && aspect.1.is_finite()) {
        let message = "Invalid aspectRatio value, aspectMin must > 0 and <= aspectMax";
        let why = "Expected one number, or 'least:greatest'.";
        return Err(wrong(section, "aspectRatio", Runtime, message, why));
    }
    let jitter = section.text_or("jitterType", "")?;
    let jitter = match jitter.to_ascii_lowercase().as_str() {
        "" | "none" => false,
        "uniratio" => true,
        _ => {
            let message = format!("Invalid jitter type: {jitter}.");
            return Err(wrong(section, "jitterType", Runtime, message, "Expected 'none' or 'uniratio'."));
        }
    };
    let name = section.text_or("cropType", "")?;
    let (kind, flips) = match name.to_ascii_lowercase().as_str() {
        "" | "center" => (CropKind::Center, false),
        "randomside" | "randomarea" => (CropKind::Random, true),
        "multiview10" => (CropKind::MultiView10, false),
        _ => {
            let message = format!("Invalid crop type: {name}.");
            let why = match name.to_ascii_lowercase().as_str() {
                // Older versions of CNTK used this name.
                "random" => {
                    "Did you mean 'RandomSide'? It takes a part of any place whose size 'sideRatio' or 'areaRatio' gives; older \
                     versions of CNTK called it 'Random'. Expected 'Center', 'RandomSide', 'RandomArea' or 'MultiView10'."
                }
                _ => "Expected 'Center', 'RandomSide', 'RandomArea' or 'MultiView10'.",
            };
            return Err(wrong(section, "cropType", Runtime, message, why));
        }
    };
    let flip = if section.exists_here("hflip") { section.get_or("hflip", flips)? } else { flips };
    Ok(CropOptions {
        kind,
        size,
        ratio,
        aspect: (aspect.0.into(), aspect.1.into()),
        jitter,
        flip: flip && kind != CropKind::MultiView10,
        seed,
    })
}

/// Reads `cropSize`: columns and rows; (0, 0) if it is not given.
fn read_crop_size(section: &Section) -> Result<(u32, u32)> {
    let (width, height) = read_pair::<i32>(section, "cropSize", "0")?;
    match (u32::try_from(width), u32::try_from(height)) {
        (Ok(width), Ok(height)) => Ok((width, height)),
        _ => {
            let message = "Invalid cropSize value, must be >= 0";
            let why = "Expected one number, or 'width:height'.";
            Err(wrong(section, "cropSize", Runtime, message, why))
        }
    }
}

/// Reads `sideRatio` or `areaRatio`, in single precision; `None` if it is 0.
fn read_ratio(section: &Section, of: &str) -> Result<Option<(f64, f64)>> {
    let key = &format!("{of}Ratio");
    let (least, most) = read_pair::<f32>(section, key, "0.0")?;
    if least == 0.0 && most == 0.0 {
        return Ok(None);
    }
    if least > 0.0 && least <= most && most <= 1.0 {
        return Ok(Some((least.into(), most.into())));
    }
    let message = format!("Invalid {of}Ratio value, must be > 0 and <= 1. {of}Min must <= {of}Max");
    Err(wrong(section, key, Runtime, message, "Expected one number, or 'least:greatest'."))
}

/// Reads one value, which stands for both, or two; like CNTK, converts any further ones and ignores
/// them.
fn read_pair<T: FromValue + Copy>(section: &Section, key: &str, default: &str) -> Result<(T, T)> {
    match *section.array_or(key, default)?.values::<T>()?.as_slice() {
        [both] => Ok((both, both)),
        [first, second, ..] => Ok((first, second)),
        // CNTK reads out of bounds here.
        [] => {
            let message = format!("'{key}' in {} has no value.", section.place());
            let error = Error::config(InvalidArgument, message);
            let error = error.with_detail("Expected one number or two, 'first:second'; or remove the key.");
            Err(section.blame(key, error))
        }
    }
}

fn read_scale(section: &Section) -> Result<ScaleOptions> {
    let width = section.required::<u64>("width")?;
    let height = section.required::<u64>("height")?;
    let channels = section.required::<u64>("channels")?;
    let (width, height, channels) = match [width, height, channels].map(dimension) {
        [Some(width), Some(height), Some(channels)] if is_possible(width, height, channels) => {
            (width, height, channels)
        }
        _ => {
            let detail = format!(
                "The width in {} is {}, the height {} and the number of channels {}.",
                section.place(),
                signed(width),
                signed(height),
                signed(channels)
            );
            let expected = "Each has to be at least 1, and the image has to fit into the address space.";
            let error = Error::config(Runtime, "Invalid image dimensions.").as_cntk();
            let error = error.with_detail(detail).with_detail(expected);
            return Err(section.blame("width", error));
        }
    };
    let mode = section.text_or("scaleMode", "fill")?;
    if !matches!(mode.as_str(), "fill" | "crop" | "pad") {
        let message = "Invalid scaleMode value, must be fill, crop or pad (all lower case)";
        return Err(wrong(
            section,
            "scaleMode",
            Runtime,
            message,
            "Correct its spelling, or remove the key.",
        ));
    }
    let pad_value = section.get_or("padValue", -1i32)?;
    if pad_value < -1 {
        let message = "Invalid padValue value, must be -1 (replicates border) or >= 0 (constant)";
        return Err(wrong(section, "padValue", Runtime, message, "Only 'scaleMode = pad' uses it."));
    }
    let mode = match mode.as_str() {
        "fill" => ScaleMode::Fill,
        "crop" => ScaleMode::Crop,
        _ => ScaleMode::Pad(u32::try_from(pad_value).ok()),
    };
    let name = section.text_or("interpolations", "linear")?;
    let interpolation = match name.to_ascii_lowercase().as_str() {
        "nearest" => Interpolation::Nearest,
        "linear" => Interpolation::Linear,
        "cubic" => Interpolation::Cubic,
        "lanczos" => Interpolation::Lanczos,
        _ => {
            let message = "Invalid interpolations value, must be nearest, cubic, lanczos or linear";
            let why = "It is one word; there is no choice among several.";
            return Err(wrong(section, "interpolations", Runtime, message, why));
        }
    };
    Ok(ScaleOptions { width, height, channels, interpolation, mode })
}

fn dimension(value: u64) -> Option<u32> {
    u32::try_from(value).ok().filter(|_| (1..=LARGEST_SIDE).contains(&value))
}

/// Returns whether an image of doubles of this size fits into the address space.
pub(super) fn is_possible(width: u32, height: u32, channels: u32) -> bool {
    let bytes = u128::from(width) * u128::from(height) * u128::from(channels) * 8;
    bytes <= isize::MAX as u128
}

fn read_color(section: &Section, seed: u32) -> Result<ColorOptions> {
    let radius = |key: &str| {
        let radius = section.parsed_or(key, 0.0)?;
        // CNTK accepts NaN, which makes every value NaN.
        if (0.0..=1.0).contains(&radius) {
            return Ok(radius);
        }
        let message = format!("{key} must be >= 0.0 and <= 1.0");
        Err(wrong(section, key, InvalidArgument, message, "0 changes nothing."))
    };
    Ok(ColorOptions {
        brightness: radius("brightnessRadius")?,
        contrast: radius("contrastRadius")?,
        saturation: radius("saturationRadius")?,
        seed,
    })
}

fn read_intensity(section: &Section, seed: u32) -> Result<IntensityOptions> {
    let std_dev = section.parsed_or("intensityStdDev", 0.0f64)?;
    if !std_dev.is_finite() {
        let message = format!("‹std_dev› in {} is not a finite number.", section.place());
        return Err(wrong(section, "intensityStdDev", InvalidArgument, message, "0 changes nothing."));
    }
    let file = read_path(section, "intensityFile")?;
    Ok(IntensityOptions { std_dev, file, seed })
}

/// Reads an optional path.
fn read_path(section: &Section, key: &str) -> Result<Option<String>> {
    section.path_or_none(key)
}
