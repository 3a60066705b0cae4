//! Options of streams that are transformed as images.

use crate::transform::TransformOptions;

/// A dense stream of a deserializer that is not for images, each of whose samples is an image of
/// numbers: rows of pixels of channels.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformedStream {
    /// Number of the deserializer.
    pub deserializer: usize,
    /// Name of the stream.
    pub stream: String,
    /// Channels, columns and rows of a sample (`imageShape`); `None` if the stream has such a shape
    /// itself.
    pub image: Option<[usize; 3]>,
    /// Transforms of each sample, in this order.
    pub transforms: Vec<TransformOptions>,
    /// Random transforms depend on nothing but seed, sweep and sequence (`reproducibleTransforms`).
    pub reproducible: bool,
}
