//! Labelled images: map files that name image files, and files with Base64 images.
//!
//! A [`map`] file has one line per image; each image is a file or a member of a [`zip`] file, and
//! is its own chunk ([`files`]). Lines of [`base64`] are divided into chunks like text files.
//! Either way an image is read and its header parsed when a minibatch is fetched. Random numbers
//! are then drawn for all images of the minibatch in order. Finally the pixels that the transforms
//! need are decoded and transformed, several images in parallel ([`sequence`]).

mod base64;
mod broken;
mod files;
mod folder;
mod map;
mod number;
mod options;
mod paths;
mod sequence;
mod summary;
mod workers;
mod zip;

use crate::decode::{DecodeOptions, WebpChannels};
use crate::transform::Chain;
use base64::Base64Images;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::Deserializer;
use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::image::Drawn;
use cntk_reader_core::memory::Meter;
use cntk_reader_core::stream::{Storage, StreamInfo, UNKNOWN_DIMENSION};
use cntk_reader_core::{Error, Result};
use files::FileImages;
pub use options::ImageOptions;
use std::sync::Arc;
use workers::Workers;

pub use summary::{MapSummary, map_of_zip, summary_of_base64, summary_of_map};

/// Number of views per image in multi-view mode.
const VIEWS: u32 = 10;

/// Opens a map file or a Base64 file. `users` holds the user-defined transforms by name. Must run
/// on a thread of the library's pool.
pub fn open(
    options: &ImageOptions,
    users: &[(String, Arc<dyn UserTransform>)],
    corpus: &Arc<Corpus>,
) -> Result<Arc<dyn Deserializer>> {
    match options.base64 {
        true => Ok(Arc::new(Base64Images::open(options, users, corpus)?)),
        false => Ok(Arc::new(FileImages::open(options, users, corpus)?)),
    }
}

/// State common to both image deserializers.
struct Common {
    /// Images, labels, and optionally the random draws of the transforms.
    streams: Vec<StreamInfo>,
    /// See [`ImageOptions::as_cntk`].
    as_cntk: bool,
    /// Images may be skipped (`maxErrors`).
    is_tolerant: bool,
    label_dim: u32,
    dense_labels: bool,
    /// Sequences per image: the number of views, or 1.
    copies: u32,
    decoding: DecodeOptions,
    chain: Chain,
    workers: Workers,
    /// Tracks the memory of images.
    meter: Meter,
}

impl Common {
    fn new(
        options: &ImageOptions,
        users: &[(String, Arc<dyn UserTransform>)],
        label_dim: u32,
    ) -> Result<Common> {
        let chain = Chain::new(&options.transforms, users, options.pixels, options.reproducible)
            .map_err(|error| error.in_stream(&options.features))?
            .in_cntks_place(options.as_cntk);
        let asked = chain.channels();
        let stream = |name: &String, storage, shape| StreamInfo::new(name, storage, options.element, shape);
        // Without a transform that fixes it, the size is unknown.
        let shape = chain.shape(None).map_or(vec![UNKNOWN_DIMENSION], |shape| shape.to_vec());
        let labels = if options.dense_labels { Storage::Dense } else { Storage::SparseCsc };
        let mut streams = vec![
            StreamInfo::new(&options.features, Storage::Dense, options.pixels, shape),
            stream(&options.labels, labels, vec![label_dim as usize]),
        ];
        let draws = options.draws.iter();
        streams.extend(draws.map(|name| stream(name, Storage::Dense, vec![Drawn::VALUES])));
        Ok(Common {
            streams,
            as_cntk: options.as_cntk,
            is_tolerant: options.max_errors > 0,
            label_dim,
            dense_labels: options.dense_labels,
            copies: copies(options),
            decoding: DecodeOptions {
                grayscale: options.grayscale || asked == Some(1) && !options.as_cntk,
                orient: false,
                in_memory: true,
                max_pixels: options.max_pixels,
                webp: match asked {
                    _ if options.as_cntk => WebpChannels::AsStored,
                    Some(4) => WebpChannels::WithAlpha,
                    _ => WebpChannels::AsAsked,
                },
            },
            chain,
            workers: Workers::default(),
            meter: Meter::default(),
        })
    }

    /// Returns the size limit of image files: more than any format needs for the maximum number of
    /// pixels.
    fn most_file_bytes(&self) -> u64 {
        const PER_PIXEL: u64 = 8;
        const OVERHEAD: u64 = 64 << 20;
        self.decoding.max_pixels.saturating_mul(PER_PIXEL).saturating_add(OVERHEAD).min(1 << 31)
    }
}

/// Returns the error for an image file that exceeds the size limit.
fn too_large(size: u64, most: u64) -> Error {
    Error::data(format!("The image file has {size} bytes, but at most {most} are allowed."))
        .with_detail("The limit follows from ‹max_pixels› of the deserializer: raise it, or check the file.")
}

/// Returns the number of sequences per image.
fn copies(options: &ImageOptions) -> u32 {
    if options.multi_view { VIEWS } else { 1 }
}

/// Returns the number of classes. Class numbers must fit in the signed 32-bit indices of sparse
/// minibatches.
fn label_dim(options: &ImageOptions) -> Result<u32> {
    let dim = u32::try_from(options.label_dim).ok().filter(|&dim| i32::try_from(dim).is_ok());
    dim.ok_or_else(|| {
        let message = format!(
            "The number of classes, ‹classes›, is {}, but at most {} classes are possible.",
            options.label_dim,
            i32::MAX
        );
        let detail = "Set it to the number of classes.";
        Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail).in_stream(&options.labels)
    })
}
