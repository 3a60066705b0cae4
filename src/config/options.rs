//! The options that a configuration sets, of the engine and of the formats.

pub use crate::deserialize::binary::BinaryOptions;
pub use crate::deserialize::htk::{HtkFeatureOptions, LatticeOptions, MlfOptions};
pub use crate::deserialize::image::ImageOptions;
pub use crate::deserialize::kaldi::KaldiOptions;
pub use crate::deserialize::text::{MOST_ERRORS, TextOptions, TextStream};
pub use crate::deserialize::transformed::{TransformedStream, TransformedStreams};
pub use crate::pack::Packing;
pub use crate::randomize::{Order, Pace, WindowSize};
pub use crate::reader::settings::{ReaderSettings, Shape};
pub use crate::transform::{
    ColorOptions, CropKind, CropOptions, CropRatio, IntensityOptions, Interpolation, ScaleMode, ScaleOptions,
    TransformOptions, UserTransformOptions,
};
pub use cntk_reader_core::option::release::{Quirks, Release};
pub use cntk_reader_core::user::{ForeignOptions, UserOptions};
