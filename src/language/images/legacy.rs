//! Readers chosen by `readerType = "ImageReader"`: images and labels have their own sections in the
//! reader's section, and the keys of all transforms are in the images' section. Missing keys are
//! looked up in all enclosing sections.

use super::image::{self, Streams};
use super::transforms;
use crate::language::composite::{read_common, read_level};
use crate::language::options::{
    CropKind, ImageOptions, Order, Packing, ReaderSettings, Shape, TransformOptions, WindowSize,
};
use crate::language::section::Section;
use crate::language::text;
use cntk_reader_core::error::ExceptionClass::Runtime;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// Reads the settings of the section of a legacy image reader.
pub(super) fn read(section: &Section, element: ElementType) -> Result<ReaderSettings> {
    let prefetch = read_common(section)?;
    let one_of_each = "ImageReader currently supports a single feature and label stream.";
    let streams = Streams::of(section, "width", "ImageReader", one_of_each)?;
    let features = section.section(&streams.features)?;
    let transforms = transforms::read_all(&features, read_is_transposed(&features)?)
        .map_err(|error| error.in_stream(&streams.features))?;
    let label_dim = image::read_label_dim(&section.section(&streams.labels)?, &streams.labels)?;
    let file = section.path_of("file")?;
    let order = read_order(section)?;
    let is_gray = |transform: &TransformOptions| matches!(transform, TransformOptions::Scale(scale) if scale.channels == 1);
    let grayscale = section.get_or("grayscale", transforms.iter().any(is_gray))?;
    // The library chooses the number of threads itself.
    section.get_or("numCPUThreads", 0)?;
    let verbosity = read_level(section, "verbosity")?;
    let is_multi_view = |transform: &TransformOptions| matches!(transform, TransformOptions::Crop(crop) if crop.kind == CropKind::MultiView10);
    let multi_view = transforms.iter().any(is_multi_view);
    let options = ImageOptions {
        front_end: FrontEnd::default(),
        file,
        base64: false,
        features: streams.features,
        transforms,
        labels: streams.labels,
        draws: None,
        label_dim,
        dense_labels: true,
        grayscale,
        multi_view,
        cache_index: false,
        verbosity,
        max_pixels: image::read_max_pixels(section)?,
        reproducible: section.get_or("reproducibleTransforms", false)?,
        element,
        pixels: element,
        confinement: cntk_reader_core::file::Confinement::default(),
        as_cntk: false,
        max_errors: 0,
    };
    Ok(ReaderSettings {
        shape: Shape::ImageReader,
        deserializers: vec![Box::new(options)],
        adapters: Vec::new(),
        numeric_keys: false,
        hash_keys: false,
        order,
        packing: Packing::Frame,
        expand_sparse: true,
        lanes_by_epoch: None,
        local_timeline: true,
        lockstep: false,
        max_errors: 0,
        element,
        trace_level: text::read_trace_level(section)?,
        verbosity,
        multithreaded: true,
        prefetch,
        front_end: FrontEnd::default(),
        in_place_of: None,
        packing_key: section.written("file"),
        descriptions: vec![section.written_key("file")],
    })
}

/// Reads `mbFormat`: whether samples are planes, or interleaved as decoded.
fn read_is_transposed(features: &Section) -> Result<bool> {
    let format = features.text_or("mbFormat", "nchw")?;
    match format.to_ascii_lowercase().as_str() {
        "nchw" => Ok(true),
        "nhwc" | "legacy" => Ok(false),
        _ => {
            let message = format!(
                "ImageReader does not support the sample format '{format}', only 'nchw' and 'nhwc' are supported."
            );
            let detail = format!("'mbFormat' in {} is the order of a sample's values.", features.place());
            Err(features.blame("mbFormat", Error::config(Runtime, message).with_detail(detail)))
        }
    }
}

/// Reads `randomize`: a new order of all images for each sweep, or the order of the map file.
fn read_order(section: &Section) -> Result<Order> {
    let text = section.text_or("randomize", "auto")?;
    if text.eq_ignore_ascii_case("auto") {
        let seed = section.get_or("randomizationSeed", 0)?;
        return Ok(Order::Block { window: WindowSize::Samples(1), seed });
    }
    section.ignore(&["randomizationSeed"]);
    if text.eq_ignore_ascii_case("none") {
        return Ok(Order::InOrder);
    }
    let detail = format!("In {} it is '{text}'.", section.place());
    let error = Error::config(Runtime, "'randomize' parameter must be set to 'auto' or 'none'");
    Err(section.blame("randomize", error.with_detail(detail)))
}
