//! `Scale`: images get one size, whatever proportions they have.

use super::pixels::{Memory, Real, Value, for_pixels};
use super::resize::{self, Resize, Tables};
use crate::config::options::{ScaleMode, ScaleOptions};
use crate::image::{Image, ImageInfo, Region};
use crate::{Error, Result};

/// What becomes of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    resize: Resize,
    /// Columns and rows before the resized image, if it is padded.
    padding: Option<(u32, u32)>,
}

/// Finds the size that an image is resized to, and what is cut off or added.
pub(super) fn plan(options: &ScaleOptions, image: &ImageInfo) -> Result<Fit> {
    if image.channels < options.channels {
        let message = format!(
            "Scale expects images of {} channels, but this image has {}.",
            options.channels, image.channels
        );
        let advice = "Set 'channels' to 1 for gray images and to 3 for color images; 'grayscale = true' of the \
                      deserializer makes all images gray.";
        return Err(Error::data(message).with_detail(advice));
    }
    let &ScaleOptions { width, height, interpolation, mode, .. } = options;
    let resize = |(width, height), cut| Resize { width, height, cut, interpolation };
    // The size with the image's proportions that has the new width, and the one that has the new height.
    let wide = (width, scaled(image.height, width, image.width));
    let high = (scaled(image.width, height, image.height), height);
    match mode {
        ScaleMode::Fill => {
            Ok(Fit { resize: resize((width, height), Region::whole(width, height)), padding: None })
        }
        ScaleMode::Crop => {
            let size = if image.width < image.height { wide } else { high };
            if size.0 < width || size.1 < height {
                return Err(misfit(options, image, "crop", "smaller", size));
            }
            let (left, top) = ((size.0 - width) / 2, (size.1 - height) / 2);
            Ok(Fit { resize: resize(size, Region { left, top, width, height }), padding: None })
        }
        ScaleMode::Pad(_) => {
            let size = if image.width > image.height { wide } else { high };
            if size.0 > width || size.1 > height {
                return Err(misfit(options, image, "pad", "larger", size));
            }
            if size.0 == 0 || size.1 == 0 {
                return Err(misfit(options, image, "pad", "narrower than a pixel", size));
            }
            let padding = ((width - size.0) / 2, (height - size.1) / 2);
            Ok(Fit { resize: resize(size, Region::whole(size.0, size.1)), padding: Some(padding) })
        }
    }
}

/// `length * to / from`, rounded, halves up.
fn scaled(length: u32, to: u32, from: u32) -> u32 {
    (f64::from(length) * f64::from(to) / f64::from(from)).round() as u32
}

fn misfit(options: &ScaleOptions, image: &ImageInfo, mode: &str, how: &str, size: (u32, u32)) -> Error {
    let ScaleOptions { width, height, .. } = options;
    let message = format!(
        "Scale with scaleMode = \"{mode}\" cannot bring an image of {}x{} to {width}x{height}: with its own proportions \
         it becomes {}x{}, which is {how}.",
        image.width, image.height, size.0, size.1
    );
    let advice = "Use the same width and height, for which this mode always works, or scaleMode = \"fill\".";
    Error::data(message).with_detail(advice)
}

/// Resizes and pads an image of interleaved pixels.
pub(super) fn apply(
    options: &ScaleOptions,
    fit: &Fit,
    image: &mut Image,
    tables: &mut Tables,
    memory: &mut Memory,
) {
    resize::apply(&fit.resize, image, tables, memory);
    let (ScaleMode::Pad(value), Some((left, top))) = (options.mode, fit.padding) else {
        return;
    };
    let place = Region { left, top, width: image.width, height: image.height };
    if place == Region::whole(options.width, options.height) {
        return;
    }
    let (width, height, channels) =
        (options.width as usize, options.height as usize, image.channels as usize);
    for_pixels!(&image.pixels, values => {
        let mut out = memory.take(width * height * channels);
        pad(values, place, value.map(Padding::of), channels, width, &mut out);
        memory.replace(&mut image.pixels, out);
    });
    (image.width, image.height) = (options.width, options.height);
}

/// Values that images are padded with.
trait Padding: Value {
    fn of(value: u32) -> Self;
}

impl Padding for u8 {
    fn of(value: u32) -> u8 {
        u8::try_from(value).unwrap_or(u8::MAX)
    }
}

impl Padding for f32 {
    fn of(value: u32) -> f32 {
        f32::from_f64(value.into())
    }
}

impl Padding for f64 {
    fn of(value: u32) -> f64 {
        value.into()
    }
}

/// Puts an image of `place`'s size at `place` in an image that is `width` pixels wide; the rest gets `value`, or that of the
/// nearest pixel.
fn pad<V: Value>(image: &[V], place: Region, value: Option<V>, channels: usize, width: usize, out: &mut [V]) {
    let (inner, row) = (place.width as usize * channels, width * channels);
    let (left, top) = (place.left as usize * channels, place.top as usize);
    for (y, out) in out.chunks_exact_mut(row).enumerate() {
        let nearest = y.saturating_sub(top).min(place.height as usize - 1);
        let source = &image[nearest * inner..][..inner];
        let (before, rest) = out.split_at_mut(left);
        let (middle, after) = rest.split_at_mut(inner);
        match value {
            Some(value) if !(top..top + place.height as usize).contains(&y) => out.fill(value),
            Some(value) => {
                before.fill(value);
                middle.copy_from_slice(source);
                after.fill(value);
            }
            None => {
                let (first, last) = (&source[..channels], &source[inner - channels..]);
                before.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(first));
                middle.copy_from_slice(source);
                after.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(last));
            }
        }
    }
}
