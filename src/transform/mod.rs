//! Transforms: what becomes of an image between its decoder and the packer.
//!
//! A [`Chain`] has the transforms of one stream. An image goes through it in two steps. First [`Chain::plan`] draws what is
//! random, image after image in the order of the minibatch, from nothing but the images' sizes. Then [`Chain::apply`] changes
//! pixels, of several images at once: its result does not depend on threads, and what a crop throws away need not have been
//! decoded ([`Plan::region`]).

pub mod user;

use crate::Result;
use crate::config::options::TransformOptions;
use crate::image::{Image, ImageInfo, Region};
use crate::stream::ElementType;
use std::sync::Arc;
use user::UserTransform;

/// The transforms of one stream, in their order; a cast to the stream's element type is the last one.
pub struct Chain {}

/// Which image it is, for what is drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Position of the sequence among those of the minibatch that are valid: CNTK 2.7 has one random engine for each.
    pub slot: u32,
    /// Number of the copy, 0 to 9, of an image that is delivered in ten views; else 0.
    pub copy: u32,
    /// The sweep, and a number that stands for the sequence's key in every run: what reproducible draws depend on.
    pub identity: (u64, u64),
}

/// What the transforms of a chain are going to do with one image. Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Plan {}

impl Plan {
    /// The part of the decoded image that the chain needs: what the first crop takes, if nothing comes before it.
    /// [`Chain::apply`] gets that part alone.
    pub fn region(&self) -> Region {
        Region::whole(0, 0)
    }

    /// What the image is in the end.
    pub fn result(&self) -> ImageInfo {
        ImageInfo::decoded(0, 0, 0)
    }
}

/// Memory that one application after the other uses; each belongs to one thread at a time.
#[derive(Default)]
pub struct Scratch {}

impl Chain {
    /// Makes the transforms; reads the files that they name. `users` has those that the options name.
    pub fn new(
        options: &[TransformOptions],
        users: &[(String, Arc<dyn UserTransform>)],
        element: ElementType,
        reproducible: bool,
    ) -> Result<Chain> {
        let _ = (options, users, element, reproducible);
        Ok(Chain {})
    }

    /// Shape of the samples, if the transforms fix it (CNTK 2.7: the last `Scale` that no `Crop` follows), given the shape
    /// before them.
    pub fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        before
    }

    /// Draws what is random for one image. The order of calls decides what is drawn. Fails if the transforms do not fit such
    /// an image.
    pub fn plan(&self, draw: Draw, image: ImageInfo, plan: &mut Plan) -> Result<()> {
        let _ = (draw, image, plan);
        Ok(())
    }

    /// Changes an image as planned. Any thread may do that, several at once.
    pub fn apply(&self, plan: &Plan, image: &mut Image, scratch: &mut Scratch) -> Result<()> {
        let _ = (plan, image, scratch);
        Ok(())
    }
}
