//! Options of transformed streams.

use crate::transform::TransformOptions;
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Adapter, Users};
use std::any::Any;
use std::sync::Arc;

/// A dense stream of a non-image deserializer whose samples are treated as images.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformedStream {
    /// Name of the stream.
    pub stream: String,
    /// Channels, columns and rows of a sample (`imageShape`); `None` to use the stream's shape.
    pub image: Option<[usize; 3]>,
    /// Transforms of each sample, in this order.
    pub transforms: Vec<TransformOptions>,
    /// Random transforms depend only on seed, sweep and sequence (`reproducibleTransforms`).
    pub reproducible: bool,
}

/// The transformed streams of one deserializer, at least one.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformedStreams {
    /// Number of the deserializer.
    pub deserializer: usize,
    /// Its streams.
    pub streams: Vec<TransformedStream>,
}

impl Adapter for TransformedStreams {
    fn deserializer(&self) -> usize {
        self.deserializer
    }

    fn apply(
        &self,
        deserializer: AnyDeserializer,
        users: &Users<'_>,
        corpus: &Arc<Corpus>,
    ) -> Result<AnyDeserializer> {
        super::wrap(deserializer, &self.streams, users.transforms, corpus)
    }

    fn reproducible(&self) -> Vec<bool> {
        self.streams.iter().map(|stream| stream.reproducible).collect()
    }

    fn equals(&self, other: &dyn Adapter) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }
}
