//! The keys of the image deserializers `ImageDeserializer` and `Base64ImageDeserializer`.

use super::{Common, transforms};
use crate::language::composite::read_level;
use crate::language::element;
use crate::language::options::ImageOptions;
use crate::language::section::Section;
use cntk_reader_core::error::ExceptionClass::{InvalidArgument, Runtime};
use cntk_reader_core::limits::LARGEST_SPARSE_DIM;
use cntk_reader_core::message::shown::signed;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// Maximum of columns times rows of an image to decode, unless `maxPixels` is set.
pub(super) const DEFAULT_MAX_PIXELS: u64 = cntk_reader_core::limits::MAX_PIXELS;

/// Reads an element of `deserializers`.
pub(super) fn read(base64: bool, section: &Section, common: Common<'_>) -> Result<ImageOptions> {
    let options = read_single(base64, section, common.element)?;
    let reproducible = section.get_or("reproducibleTransforms", common.reproducible)?;
    let stream = section.section("input")?.child(&options.features)?;
    let transforms =
        transforms::read(&stream, common.scope).map_err(|error| error.in_stream(&options.features))?;
    let types = [ElementType::UInt8, common.element];
    let pixels = element::read(&stream, "element", &options.features, &types)?.unwrap_or(common.element);
    Ok(ImageOptions { reproducible, transforms, pixels, ..options })
}

/// Reads a section except for its transforms.
pub(super) fn read_single(base64: bool, section: &Section, element: ElementType) -> Result<ImageOptions> {
    let input = section.section("input")?;
    let streams = Streams::of(
        &input,
        "transforms",
        "ImageDeserializerBase",
        "Please specify a single feature and label stream.",
    )?;
    let verbosity = read_level(section, "verbosity")?;
    let draws = read_draws(&input, &streams)?;
    let label_dim = read_label_dim(&input.child(&streams.labels)?, &streams.labels)?;
    let grayscale = section.get_or("grayscale", false)?;
    let multi_view = section.get_or("multiViewCrop", false)?;
    let file = section.path_of("file")?;
    let cache_index = base64 && section.get_or("cacheIndex", false)?;
    let max_pixels = read_max_pixels(section)?;
    Ok(ImageOptions {
        front_end: FrontEnd::default(),
        file,
        base64,
        features: streams.features,
        transforms: Vec::new(),
        labels: streams.labels,
        draws,
        label_dim,
        dense_labels: false,
        grayscale,
        multi_view,
        cache_index,
        verbosity,
        max_pixels,
        reproducible: false,
        element,
        pixels: element,
        confinement: cntk_reader_core::file::Confinement::default(),
        as_cntk: false,
        max_errors: 0,
    })
}

/// Names of the image and label streams.
pub(super) struct Streams {
    pub features: String,
    pub labels: String,
    /// Streams with the key `draw`, which CNTK does not know.
    draws: Vec<String>,
}

/// Returns the stream with `draw = true`, if there is one.
fn read_draws(input: &Section, streams: &Streams) -> Result<Option<String>> {
    let mut found = None;
    for name in &streams.draws {
        let stream = input.child(name)?;
        if !stream.get_or("draw", false)? {
            continue;
        }
        if [&streams.features, &streams.labels].contains(&name) || found.is_some() {
            let message = format!("{} cannot be a stream of draws.", stream.subject());
            let detail = "One stream may have 'draw = true', and neither 'transforms' nor 'labelDim': it delivers what the \
                          transforms show of each image.";
            let error = Error::config(InvalidArgument, message).with_detail(detail).in_stream(name);
            return Err(stream.blame("draw", error));
        }
        found = Some(name.clone());
    }
    Ok(found)
}

impl Streams {
    /// Finds the section with the key `feature_key` and the one with `labelDim`, by opening every
    /// value of `input` as a section. CNTK's messages begin with `who` and `one_of_each`.
    pub fn of(input: &Section, feature_key: &str, who: &str, one_of_each: &str) -> Result<Streams> {
        let (mut features, mut labels, mut draws) = (Vec::new(), Vec::new(), Vec::new());
        // Lookups here do not count as reads.
        let unlogged = input.unlogged();
        for name in unlogged.keys() {
            let stream = unlogged.child(name)?;
            if stream.exists_here(feature_key) {
                features.push(name.to_owned());
            }
            if stream.exists_here("labelDim") {
                labels.push(name.to_owned());
            }
            if stream.exists_here("draw") {
                draws.push(name.to_owned());
            }
        }
        let missing = |key: &str, what: &str| {
            let detail = format!(
                "{} has no section with '{key}', which describes the stream of {what}.",
                input.subject()
            );
            let error = Error::config(Runtime, format!("{who} requires {key} parameter.")).as_cntk();
            Err(input.blame_whole(error.with_detail(detail)))
        };
        match (features.as_slice(), labels.as_slice()) {
            ([], _) => missing(feature_key, "images"),
            (_, []) => missing("labelDim", "labels"),
            ([features], [labels]) => {
                Ok(Streams { features: features.clone(), labels: labels.clone(), draws })
            }
            _ => {
                let (images, classes) = (features.len(), labels.len());
                let message = format!("{one_of_each} '{images}' features , '{classes}' labels found.");
                let detail = format!(
                    "In {} the key '{feature_key}' stands in {}, 'labelDim' in {}.",
                    input.place(),
                    listed(&features),
                    listed(&labels)
                );
                Err(input.blame_whole(Error::config(Runtime, message).as_cntk().with_detail(detail)))
            }
        }
    }
}

fn listed(names: &[String]) -> String {
    format!("'{}'", names.join("', '"))
}

/// Reads `labelDim`, the number of classes.
pub(super) fn read_label_dim(stream: &Section, name: &str) -> Result<u64> {
    let classes = stream.required::<u64>("labelDim")?;
    if classes > LARGEST_SPARSE_DIM {
        let message =
            format!("Label dimension ({classes}) exceeds the maximum allowed value ({LARGEST_SPARSE_DIM})");
        let detail = format!(
            "The number of classes, ‹classes› in {}, is {}. Expected at most {LARGEST_SPARSE_DIM}.",
            stream.place(),
            signed(classes)
        );
        let error = Error::config(Runtime, message).as_cntk().with_detail(detail).in_stream(name);
        return Err(stream.blame("labelDim", error));
    }
    Ok(classes)
}

/// Reads `maxPixels`, a safeguard that CNTK does not have.
pub(super) fn read_max_pixels(section: &Section) -> Result<u64> {
    section.get_or("maxPixels", DEFAULT_MAX_PIXELS)
}
