//! Image transforms, between decoder and packer.
//!
//! A [`Chain`] holds the transforms of one stream. Each image passes through it in two steps.
//! First, [`Chain::plan`] draws random parameters for each image in minibatch order, from the
//! images' sizes alone. Then [`Chain::apply`] changes the pixels, of several images in parallel:
//! the result does not depend on threads, and pixels outside a crop need not be decoded
//! ([`Plan::region`]).
//!
//! Values stay bytes until a transform needs fractions (CNTK 2.7), and a cast leaves bytes to the
//! packer, which widens them anyway. Transforms write to spare memory and swap it with the image's
//! ([`pixels::Memory`]), so that nothing is allocated once that memory is large enough.

mod chain;
mod color;
mod crop;
mod gaussian;
mod intensity;
mod mean;
mod options;
mod pixels;
mod plan;
mod random;
mod resize;
mod scale;
mod single;
mod storage;
mod transpose;
mod view;

pub use chain::{Chain, Draw, Scratch};
pub use options::{
    ColorOptions, CropKind, CropOptions, CropRatio, IntensityOptions, Interpolation, ScaleMode, ScaleOptions,
    TransformOptions, UserTransformOptions,
};
pub use plan::Plan;
pub use single::{SingleTransform, TransformedImage};
