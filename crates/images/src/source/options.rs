//! Options of the image deserializers.

use crate::transform::TransformOptions;
use cntk_reader_core::Result;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Context, Facts, Format, Opened};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::stream::ElementType;

/// Options of an image deserializer.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageOptions {
    /// Path of the map file or the Base64 file.
    pub file: String,
    /// Each line of `file` contains the image itself, encoded as Base64.
    pub base64: bool,
    /// Name of the stream of images.
    pub features: String,
    /// Transforms of each image, in this order. At the end the values are cast to `pixels`.
    pub transforms: Vec<TransformOptions>,
    /// Name of the stream of labels.
    pub labels: String,
    /// Name of the stream of the transforms' random draws, if any (`draw`).
    pub draws: Option<String>,
    /// Number of classes: the dimension of labels.
    pub label_dim: u64,
    /// Labels are dense vectors (`readerType = "ImageReader"`), not sparse ones.
    pub dense_labels: bool,
    /// Images are decoded to one channel (`grayscale`).
    pub grayscale: bool,
    /// Each line yields ten sequences (`multiViewCrop`).
    pub multi_view: bool,
    /// Keep and use an index file next to the Base64 file (`cacheIndex`).
    pub cache_index: bool,
    /// Log level (`verbosity`).
    pub verbosity: i32,
    /// Maximum number of pixels of an image. Larger images are errors, reported before memory is
    /// allocated for them.
    pub max_pixels: u64,
    /// Random transforms depend only on seed, sweep and sequence (`reproducibleTransforms`).
    pub reproducible: bool,
    /// Element type of labels and draws.
    pub element: ElementType,
    /// Element type of images: `element`, or `UInt8` (`element` of their stream).
    pub pixels: ElementType,
    /// Folders that the file's paths may lead to (`confinePaths`).
    pub confinement: Confinement,
    /// Drop-in mode: behave like CNTK 2.7 even where it garbles data or fails.
    pub as_cntk: bool,
    /// The reader's `maxErrors`: the number of images that may be skipped.
    pub max_errors: u64,
    /// The front end whose option names appear in messages.
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
