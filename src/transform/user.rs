//! Transforms that users write.

use crate::Result;
use crate::image::{Image, ImageInfo};

/// A transform of the user's own. Images come to it as the transforms before it have left them.
pub trait UserTransform: Send + Sync {
    /// What the image is afterwards. Called before [`UserTransform::apply`], for each image.
    fn result(&self, image: ImageInfo) -> Result<ImageInfo>;

    /// Changes the image, to what [`UserTransform::result`] has promised. Several threads may call this at once. `random` is a
    /// number drawn for this image: what is random should depend on nothing else.
    fn apply(&self, image: &mut Image, random: u64) -> Result<()>;

    /// The declared shape of samples afterwards, given that before, if either is known.
    fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        let _ = before;
        None
    }
}
