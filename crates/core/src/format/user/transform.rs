//! Transforms written by users.

use crate::image::{Drawn, Image, ImageInfo};
use crate::runtime::exit;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A transform written by the user. It gets images as the preceding transforms left them: as bytes
/// at first, and as numbers of the stream's element type after transforms that calculate.
///
/// It is called on the reading thread and on threads of the library's pool, so it must not use
/// readers of this library.
///
#[cfg_attr(not(doctest), doc = include_str!("../../../doc/transform.md"))]
pub trait UserTransform: Send + Sync {
    /// Describes the image after the transform. Called before [`UserTransform::apply`], for each
    /// image.
    fn result(&self, image: ImageInfo) -> Result<ImageInfo>;

    /// Changes the image, so that it matches the result of [`UserTransform::result`]. Several
    /// threads may call this at once. `random` is a number drawn for this image; random behaviour
    /// should depend on nothing else.
    fn apply(&self, image: &mut Image, random: u64) -> Result<()>;

    /// Like [`UserTransform::apply`], for transforms that need to know which part of the decoded
    /// image they get: `drawn` describes the part that the preceding crops and scales left, and
    /// whether it is mirrored. The library calls this function; the default implementation calls
    /// [`UserTransform::apply`].
    fn apply_drawn(&self, image: &mut Image, random: u64, drawn: &Drawn) -> Result<()> {
        let _ = drawn;
        self.apply(image, random)
    }

    /// Returns the declared shape of samples after the transform, given the shape before it. `None`
    /// is an unknown shape.
    fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        let _ = before;
        None
    }
}

/// Adds a transform under its name (`type`) in configurations, in a wrapper that protects the
/// library: panics become errors, errors name the transform, its results are checked, and it is not
/// called once the process is exiting.
pub fn register(
    registered: &mut Vec<(String, Arc<dyn UserTransform>)>,
    name: &str,
    user: Arc<dyn UserTransform>,
) -> Result<()> {
    if registered.iter().any(|(other, _)| other == name) {
        let message = format!("Two transforms were added under the name '{name}'.");
        return Err(Error::argument(message).with_detail("Give each one a different name."));
    }
    exit::register();
    let guarded = Guarded { name: name.to_owned(), user };
    registered.push((name.to_owned(), Arc::new(guarded)));
    Ok(())
}

/// A user's transform in its protective wrapper: see [`register`].
struct Guarded {
    name: String,
    user: Arc<dyn UserTransform>,
}

impl Guarded {
    fn call<R>(&self, what: &str, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let Some(_inside) = exit::enter() else {
            return Err(exit::refusal("no user's transform is called any more"));
        };
        let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("unknown cause");
            Err(Error::user(format!("It panicked {what}: {text}")))
        });
        outcome.map_err(|error| {
            error.with_detail(format!("This comes from the user's transform '{}'.", self.name))
        })
    }
}

impl UserTransform for Guarded {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        self.call("describing its result", || check_info(self.user.result(image)?))
    }

    fn apply(&self, image: &mut Image, random: u64) -> Result<()> {
        let drawn = Drawn::whole(image.width, image.height);
        self.apply_drawn(image, random, &drawn)
    }

    fn apply_drawn(&self, image: &mut Image, random: u64, drawn: &Drawn) -> Result<()> {
        self.call("transforming an image", || {
            self.user.apply_drawn(image, random, drawn)?;
            let info = check_info(image.info())?;
            let values = image.pixels.len();
            if values == info.values() {
                return Ok(());
            }
            let ImageInfo { width, height, channels, .. } = info;
            let message =
                format!("It returned an image of {width} x {height} pixels and {channels} channels with {values} values.");
            Err(Error::user(message).with_detail("Expected the product of width, height and channels."))
        })
    }

    fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        self.user.shape(before)
    }
}

/// Rejects images that are empty or do not fit into memory, because users' code is not trusted.
pub fn check_info(info: ImageInfo) -> Result<ImageInfo> {
    let ImageInfo { width, height, channels, .. } = info;
    let bytes = u128::from(width) * u128::from(height) * u128::from(channels) * 8;
    if bytes > 0 && bytes <= isize::MAX as u128 {
        return Ok(info);
    }
    let message = format!("An image of {width} x {height} pixels and {channels} channels is impossible.");
    Err(Error::user(message)
        .with_detail("Each number has to be at least 1, and the values have to fit into memory."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Pixels;

    fn gray(width: u32, height: u32) -> Image {
        let pixels = Pixels::Bytes(vec![7; (width * height) as usize]);
        Image { width, height, channels: 1, planar: false, pixels }
    }

    /// Calls a function for each image.
    struct Any(fn(&mut Image) -> Result<()>, fn(ImageInfo) -> ImageInfo);

    impl UserTransform for Any {
        fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
            Ok(self.1(image))
        }

        fn apply(&self, image: &mut Image, _: u64) -> Result<()> {
            self.0(image)
        }
    }

    fn registered(any: Any) -> Arc<dyn UserTransform> {
        let mut all = Vec::new();
        register(&mut all, "mine", Arc::new(any)).expect("a new name");
        Arc::clone(&all[0].1)
    }

    #[test]
    fn duplicate_names_are_rejected() {
        let mut all = Vec::new();
        let any = || Arc::new(Any(|_| Ok(()), |info| info));
        assert!(register(&mut all, "a", any()).is_ok() && register(&mut all, "b", any()).is_ok());
        let error = register(&mut all, "a", any()).expect_err("known");
        assert!(error.message().contains("'a'"), "{error}");
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn failures_name_their_transform() {
        let table: [fn(&mut Image) -> Result<()>; 3] = [
            |_| panic!("oh"),
            |_| Err(Error::user("oh")),
            |image| {
                image.width = 5;
                Ok(())
            },
        ];
        for (apply, message) in
            table.into_iter().zip(["It panicked transforming an image: oh", "oh", "It returned"])
        {
            let error = registered(Any(apply, |info| info)).apply(&mut gray(2, 2), 0).expect_err(message);
            assert!(error.message().starts_with(message) && error.detail().contains("'mine'"), "{error}");
        }
    }

    #[test]
    fn invalid_results_are_rejected() {
        let table: [fn(ImageInfo) -> ImageInfo; 2] = [
            |info| ImageInfo { width: 0, ..info },
            |info| ImageInfo { width: u32::MAX, height: u32::MAX, channels: u32::MAX, ..info },
        ];
        for result in table {
            assert!(registered(Any(|_| Ok(()), result)).result(ImageInfo::decoded(2, 2, 3)).is_err());
        }
    }
}
