//! Transforms: what becomes of an image between its decoder and the packer.
//!
//! A [`Chain`] has the transforms of one stream. An image goes through it in two steps. First [`Chain::plan`] draws what is
//! random, image after image in the order of the minibatch, from nothing but the images' sizes. Then [`Chain::apply`] changes
//! pixels, of several images at once: its result does not depend on threads, and what a crop throws away need not have been
//! decoded ([`Plan::region`]).
//!
//! Values stay bytes until a transform needs fractions (CNTK 2.7), and a cast leaves bytes to the packer, which widens them
//! anyway. Transforms write to spare memory and exchange it with the image's ([`pixels::Memory`]), so that nothing is allocated
//! for an image once the memory is large enough.

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
