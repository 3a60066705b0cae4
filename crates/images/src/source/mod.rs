//! Images with labels: map files that name image files, and lines that have images as Base64.
//!
//! A [`map`] file has a line per image; an image lies in a file of its own or in a [`zip`] file, and is a chunk by itself
//! ([`files`]). Lines of [`base64`] are divided into chunks as text files are. Either way an image is read and its header
//! looked at when a minibatch is fetched; what is random is then drawn for all images of the minibatch in their order; at the
//! end those pixels are decoded that the transforms need, and transformed, several images at once ([`sequence`]).

mod base64;
mod broken;
mod files;
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

/// Number of views of an image that is delivered in several.
const VIEWS: u32 = 10;

/// Opens a map file, or a file with Base64 lines. `users` has the transforms of users, by name. Runs on a thread of the
/// library's pool.
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

/// What the deserializers of images have in common.
struct Common {
    /// The images, their labels, and perhaps what the transforms show of each image.
    streams: Vec<StreamInfo>,
    /// See [`ImageOptions::as_cntk`].
    as_cntk: bool,
    /// Images may be left out (`maxErrors`).
    is_tolerant: bool,
    label_dim: u32,
    dense_labels: bool,
    /// Sequences of an image: its views, or 1.
    copies: u32,
    decoding: DecodeOptions,
    chain: Chain,
    workers: Workers,
    /// Counts the memory of images.
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
        // What is decoded may have any size.
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

    /// The most bytes of an image file that are read: more than any format needs for the most pixels that are decoded.
    fn most_file_bytes(&self) -> u64 {
        const OF_A_PIXEL: u64 = 8;
        const BESIDE_PIXELS: u64 = 64 << 20;
        self.decoding.max_pixels.saturating_mul(OF_A_PIXEL).saturating_add(BESIDE_PIXELS).min(1 << 31)
    }
}

/// The error of an image file that is too large to be read.
fn too_large(size: u64, most: u64) -> Error {
    Error::data(format!("The image file has {size} bytes, and at most {most} are read."))
        .with_detail("The limit follows from ‹max_pixels› of the deserializer: raise it, or check the file.")
}

/// Sequences of an image.
fn copies(options: &ImageOptions) -> u32 {
    if options.multi_view { VIEWS } else { 1 }
}

/// The number of classes, which are counted by the signed 32-bit numbers of sparse minibatches.
fn label_dim(options: &ImageOptions) -> Result<u32> {
    let dim = u32::try_from(options.label_dim).ok().filter(|&dim| i32::try_from(dim).is_ok());
    dim.ok_or_else(|| {
        let message = format!(
            "The number of classes, ‹classes›, is {}, and at most {} classes are possible.",
            options.label_dim,
            i32::MAX
        );
        let detail = "Set it to the number of classes.";
        Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail).in_stream(&options.labels)
    })
}
