//! The options that a configuration sets, for the engine and the formats.

pub use cntk_reader_arrays::{ArrayOptions, ArrayStream};
pub use cntk_reader_core::format::user::{ForeignOptions, UserOptions};
pub use cntk_reader_core::option::release::{Quirks, Release};
pub use cntk_reader_engine::pack::Packing;
pub use cntk_reader_engine::randomize::{Order, Pace, WindowSize};
pub use cntk_reader_engine::reader::settings::{ReaderSettings, Shape};
#[cfg(feature = "images")]
pub use cntk_reader_images::source::ImageOptions;
#[cfg(feature = "images")]
pub use cntk_reader_images::transform::{
    ColorOptions, CropKind, CropOptions, CropRatio, IntensityOptions, Interpolation, ScaleMode, ScaleOptions,
    TransformOptions, UserTransformOptions,
};
#[cfg(feature = "images")]
pub use cntk_reader_images::transformed::{TransformedStream, TransformedStreams};
#[cfg(feature = "speech")]
pub use cntk_reader_speech::htk::{HtkFeatureOptions, LatticeOptions, MlfOptions};
#[cfg(feature = "speech")]
pub use cntk_reader_speech::kaldi::KaldiOptions;
pub use cntk_reader_text::cbf::BinaryOptions;
pub use cntk_reader_text::ctf::{MAX_ERRORS, TextOptions, TextStream};
