//! Options of the deserializers of images.

use crate::transform::TransformOptions;
use cntk_reader_core::Result;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Context, Facts, Format, Opened};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::stream::ElementType;

/// Options of the deserializers of images.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageOptions {
    /// Path of the map file, or of the file with Base64 lines.
    pub file: String,
    /// Each line of `file` has the image itself, encoded as Base64.
    pub base64: bool,
    /// Name of the stream of images.
    pub features: String,
    /// Transforms of each image, in this order. The values are cast to `pixels` at the end.
    pub transforms: Vec<TransformOptions>,
    /// Name of the stream of labels.
    pub labels: String,
    /// Name of the stream of draws, if there is one: what the transforms show of each image
    /// (`draw`).
    pub draws: Option<String>,
    /// Number of classes: values of a label.
    pub label_dim: u64,
    /// Labels are dense vectors (`readerType = "ImageReader"`), not sparse ones.
    pub dense_labels: bool,
    /// Images are decoded to one channel (`grayscale`).
    pub grayscale: bool,
    /// Each line stands for ten sequences (`multiViewCrop`).
    pub multi_view: bool,
    /// Keep and use an index file beside the Base64 file (`cacheIndex`).
    pub cache_index: bool,
    /// Level of logging (`verbosity`).
    pub verbosity: i32,
    /// Most columns times rows of an image that are decoded; a larger image is an error before
    /// memory is taken for it.
    pub max_pixels: u64,
    /// Random transforms depend on nothing but seed, sweep and sequence (`reproducibleTransforms`).
    pub reproducible: bool,
    /// Type of the values of labels and draws.
    pub element: ElementType,
    /// Type of the values of images: `element`, or `UInt8` (`element` of their stream).
    pub pixels: ElementType,
    /// Where the paths may lead that the file names (`confinePaths`).
    pub confinement: Confinement,
    /// The reader stands in CNTK's place: what CNTK 2.7 scrambles or fails for stays as it is
    /// there.
    pub as_cntk: bool,
    /// The reader's `maxErrors`: images that may be left out.
    pub max_errors: u64,
    /// Whose words messages use for options.
    pub front_end: FrontEnd,
}

impl Format for ImageOptions {
    fn type_name(&self) -> &str {
        if self.base64 { "Base64ImageDeserializer" } else { "ImageDeserializer" }
    }

    fn name(&self) -> &str {
        &self.file
    }

    fn facts(&self) -> Facts {
        Facts {
            has_images: true,
            reproducible: Some(self.reproducible),
            has_written_indices: true,
            ..Facts::default()
        }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, users, .. } = context;
        let opened = pool.install(|| super::open(self, users.transforms, corpus))?;
        Ok(AnyDeserializer::Known(opened).into())
    }

    fn confine(&mut self, confinement: &Confinement) {
        self.confinement.clone_from(confinement);
    }

    fn speak(&mut self, front_end: FrontEnd) {
        self.front_end = front_end;
    }

    fn follow(&mut self, _: Release) {
        (self.as_cntk, self.draws) = (true, None);
    }
}
