//! `Scale`: brings images of any proportions to one size.

use super::pixels::{Memory, Real, Value, for_pixels};
use super::resize::{self, Resize, Tables};
use super::view::{Lines, View};
use crate::transform::{ScaleMode, ScaleOptions};
use cntk_reader_core::image::{ImageInfo, Region};
use cntk_reader_core::{Error, Result};

/// The planned scaling of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    /// `None`: the image already has the size.
    pub resize: Option<Resize>,
    /// The part to keep after the resize.
    pub cut: Region,
    pub padding: Option<Padding>,
}

/// The border to add around an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Padding {
    /// Columns and rows before the image.
    pub before: (u32, u32),
    /// Columns and rows after the image.
    pub after: (u32, u32),
    /// The image together with its surroundings that replace padding: a part of the larger image of
    /// which it is a view.
    pub source: Region,
}

/// Determines the size to resize an image to, and the cropping or padding.
pub(super) fn plan(options: &ScaleOptions, image: &ImageInfo) -> Result<Fit> {
    if image.channels < options.channels {
        let message = format!(
            "Scale expects images of {} channels, but this image has {}.",
            options.channels, image.channels
        );
        let advice = "Set ‹channels› to 1 for gray images and to 3 for color images; ‹grayscale = true› of the \
                      deserializer makes all images gray.";
        return Err(Error::data(message).with_detail(advice));
    }
    let &ScaleOptions { width, height, interpolation, mode, .. } = options;
    let fit = |(to_width, to_height), cut, padding| {
        let resize = Resize {
            width: to_width,
            height: to_height,
            cut: Region::whole(to_width, to_height),
            interpolation,
        };
        let is_resized = (to_width, to_height) != (image.width, image.height);
        Ok(Fit { resize: is_resized.then_some(resize), cut, padding })
    };
    // The sizes with the image's proportions that match the new width, and the new height.
    let wide = (width, scaled(image.height, width, image.width));
    let high = (scaled(image.width, height, image.height), height);
    match mode {
        ScaleMode::Fill => fit((width, height), Region::whole(width, height), None),
        ScaleMode::Crop => {
            let size = if image.width < image.height { wide } else { high };
            if size.0 < width || size.1 < height {
                return Err(misfit(options, image, "crop", "smaller", size));
            }
            let (left, top) = ((size.0 - width) / 2, (size.1 - height) / 2);
            fit(size, Region { left, top, width, height }, None)
        }
        ScaleMode::Pad(_) => {
            let size = if image.width > image.height { wide } else { high };
            if size.0 > width || size.1 > height {
                return Err(misfit(options, image, "pad", "larger", size));
            }
            if size.0 == 0 || size.1 == 0 {
                return Err(misfit(options, image, "pad", "narrower than a pixel", size));
            }
            let (columns, rows) = (width - size.0, height - size.1);
            let before = (columns / 2, rows / 2);
            let after = (columns - before.0, rows - before.1);
            let all = Region::whole(size.0, size.1);
            let padding = Padding { before, after, source: all };
            fit(size, all, (size != (width, height)).then_some(padding))
        }
    }
}

/// Returns the error for an image with more channels than `Scale` declares.
pub(super) fn other_channels(declared: u32, found: u32) -> Error {
    let message = format!("Scale says channels = {declared}, but this image has {found}.");
    let advice = "Set ‹channels› to the number that the images have, or for images that are read from files, to 1 or 3: they are then \
                  decoded to that number of channels.";
    Error::data(message).with_detail(advice)
}

/// Returns `length * to / from`, with halves rounded up.
fn scaled(length: u32, to: u32, from: u32) -> u32 {
    (f64::from(length) * f64::from(to) / f64::from(from)).round() as u32
}

fn misfit(options: &ScaleOptions, image: &ImageInfo, mode: &str, how: &str, size: (u32, u32)) -> Error {
    let ScaleOptions { width, height, .. } = options;
    let message = format!(
        "Scale with ‹scale_mode = {mode}› cannot bring an image of {}x{} to {width}x{height}: with its own proportions \
         it becomes {}x{}, which is {how}.",
        image.width, image.height, size.0, size.1
    );
    let advice = "Use the same width and height, for which this mode always works, or ‹scale_mode = fill›.";
    Error::data(message).with_detail(advice)
}

/// Resizes, crops and pads.
pub(super) fn apply(
    options: &ScaleOptions,
    fit: &Fit,
    view: &mut View<'_>,
    tables: &mut Tables,
    memory: &mut Memory,
) -> Result<()> {
    if let Some(resize) = &fit.resize {
        resize::apply(resize, view.settle(), tables, memory)?;
        view.restart_in(Region::whole(resize.width, resize.height), resize.cut);
    }
    view.crop(fit.cut, false);
    let (ScaleMode::Pad(value), Some(Padding { before, source, .. })) = (options.mode, fit.padding) else {
        return Ok(());
    };
    let whole = Region::whole(options.width, options.height);
    let (columns, rows) = view.before(source);
    let place = (before.0 - columns, before.1 - rows);
    let (channels, lines) = (view.image.channels as usize, view.lines(source));
    for_pixels!(&view.image.pixels, values => {
        let mut out = memory.take(whole.width as usize * whole.height as usize * channels)?;
        pad(values, lines, place, value.map(Padded::of), channels, whole.width, &mut out);
        memory.replace(&mut view.image.pixels, out);
    });
    (view.image.width, view.image.height) = (whole.width, whole.height);
    view.restart();
    Ok(())
}

/// Padding values.
trait Padded: Value {
    fn of(value: u32) -> Self;
}

impl Padded for u8 {
    fn of(value: u32) -> u8 {
        u8::try_from(value).unwrap_or(u8::MAX)
    }
}

impl Padded for f32 {
    fn of(value: u32) -> f32 {
        f32::from_f64(value.into())
    }
}

impl Padded for f64 {
    fn of(value: u32) -> f64 {
        value.into()
    }
}

/// Copies an image with the rows `lines` to column and row `place` of an image that is `width`
/// pixels wide. The rest gets `value`, or the value of the nearest pixel.
fn pad<V: Value>(
    image: &[V],
    lines: Lines,
    (left, top): (u32, u32),
    value: Option<V>,
    channels: usize,
    width: u32,
    out: &mut [V],
) {
    let (left, top, row) = (left as usize * channels, top as usize, width as usize * channels);
    for (y, out) in out.chunks_exact_mut(row).enumerate() {
        let source = &image[lines.nearest(y.saturating_sub(top))];
        let (before, rest) = out.split_at_mut(left);
        let (middle, after) = rest.split_at_mut(source.len());
        match value {
            Some(value) if !(top..top + lines.len()).contains(&y) => out.fill(value),
            Some(value) => {
                before.fill(value);
                middle.copy_from_slice(source);
                after.fill(value);
            }
            None => {
                let (first, last) = (&source[..channels], &source[source.len() - channels..]);
                before.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(first));
                middle.copy_from_slice(source);
                after.chunks_exact_mut(channels).for_each(|pixel| pixel.copy_from_slice(last));
            }
        }
    }
}
