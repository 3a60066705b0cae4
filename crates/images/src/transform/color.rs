//! `Color`: random changes of brightness, contrast and saturation.

use super::pixels::{Memory, Real, Value, for_pixels};
use super::random::RandomSource;
use super::view::View;
use crate::transform::ColorOptions;
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};
use cntk_reader_core::image::{Depth, ImageInfo, Pixels};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// The changes drawn for one image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    /// Brightness and contrast: the fraction of the image's mean to add, and the factor applied
    /// before.
    light: Option<(f64, f64)>,
    /// Factor of the saturation.
    saturation: Option<f64>,
}

impl Change {
    /// Returns whether brightness or contrast changes.
    pub fn changes_light(&self) -> bool {
        self.light.is_some()
    }
}

/// Returns whether the options change nothing. Values then keep their type, too.
pub(super) fn is_off(options: &ColorOptions) -> bool {
    let ColorOptions { brightness, contrast, saturation, .. } = options;
    !(*brightness > 0.0 || *contrast > 0.0 || *saturation > 0.0)
}

/// Draws the changes of one image.
pub(super) fn plan(
    options: &ColorOptions,
    image: &ImageInfo,
    element: ElementType,
    source: &mut impl RandomSource,
) -> Result<Change> {
    let mut radius = |quantity: u64, radius: f64| {
        source.begin(quantity);
        if radius > 0.0 { Some(source.real(-radius, radius)) } else { None }
    };
    let (brightness, contrast) = (radius(1, options.brightness), radius(2, options.contrast));
    let saturation = if image.channels == 3 { radius(3, options.saturation) } else { None };
    if saturation.is_some() && element == ElementType::Double {
        // OpenCV's color conversion fails here: "depth == CV_8U || depth == CV_16U || depth ==
        // CV_32F in function cvtColor".
        let message = "Color cannot change the saturation of images with precision double.";
        let advice = "Set ‹float_precision›, or leave out ‹saturation›.";
        return Err(Error::data(message).with_detail(advice));
    }
    let light = match (brightness, contrast) {
        (None, None) => None,
        _ => Some((brightness.unwrap_or(0.0), 1.0 + contrast.unwrap_or(0.0))),
    };
    Ok(Change { light, saturation: saturation.map(|change| 1.0 + change) })
}

/// Changes an image, which gets the stream's type. An image that already has it is changed in place
/// (CNTK 2.7).
pub(super) fn apply<T: Real>(change: &Change, view: &mut View<'_>, memory: &mut Memory) -> Result<()> {
    let processor = Processor::detect();
    view.settle_for::<T>();
    let channels = view.image.channels as usize;
    let (run, rows) = (view.run(), view.rows());
    for_pixels!(&view.image.pixels, values => match change.light {
        Some((brightness, contrast)) => {
            let beta = match brightness {
                0.0 => T::default(),
                _ => {
                    let mut sums = [0.0; CHANNELS];
                    rows.for_each(|row| add(processor, &values[row], channels, &mut sums));
                    let sum = sums.into_iter().fold(0.0, |sum, channel| sum + channel);
                    T::from_f64(brightness * sum / run.len() as f64)
                }
            };
            let mut out = memory.take(run.len())?;
            light(processor, &values[run.clone()], T::from_f64(contrast), beta, &mut out);
            view.store(out, std::iter::once(run), memory);
        }
        None if view.image.pixels.depth() == Depth::Element(T::TYPE) => {}
        None => {
            let mut out = memory.take::<T>(values.len())?;
            out.iter_mut().zip(values).for_each(|(out, &value)| *out = value.to());
            memory.replace(&mut view.image.pixels, out);
        }
    });
    if let (Some(ratio), 3) = (change.saturation, channels) {
        let rows = view.rows();
        if let Pixels::Floats(values) = &mut view.image.pixels {
            rows.for_each(|row| saturate(processor, values[row].as_chunks_mut().0, ratio));
        }
    }
    Ok(())
}

/// Number of separate channel sums; further channels share them cyclically.
const CHANNELS: usize = 4;

dispatch! {
    /// Adds the values of each channel to its sum.
    fn add<V: Summed>(values: &[V], channels: usize, sums: &mut [f64; CHANNELS]) = add_with;
}

#[inline(always)]
fn add_with<V: Summed, S: InstructionSet>(_: S, values: &[V], channels: usize, sums: &mut [f64; CHANNELS]) {
    V::add(values, channels, sums);
}

/// Values that can be summed in double precision.
trait Summed: Value {
    fn add(values: &[Self], channels: usize, sums: &mut [f64; CHANNELS]);
}

impl Summed for u8 {
    /// Sums of bytes are exact in double precision, so order and channels do not matter.
    #[inline(always)]
    fn add(values: &[u8], _channels: usize, sums: &mut [f64; CHANNELS]) {
        let mut sum = 0u64;
        for part in values.chunks(1 << 20) {
            let mut partial = 0u32;
            for &value in part {
                partial += u32::from(value);
            }
            sum += u64::from(partial);
        }
        sums[0] += sum as f64;
    }
}

macro_rules! summed {
    ($type:ty) => {
        impl Summed for $type {
            /// Like CNTK 2.7: gray values are summed in groups of four, colors one by one per
            /// channel.
            #[inline(always)]
            fn add(values: &[$type], channels: usize, sums: &mut [f64; CHANNELS]) {
                match channels {
                    1 => {
                        let (groups, rest) = values.as_chunks::<4>();
                        for group in groups {
                            let [a, b, c, d] = group.map(f64::from);
                            sums[0] += a + b + c + d;
                        }
                        rest.iter().for_each(|&value| sums[0] += f64::from(value));
                    }
                    3 => {
                        let [mut blue, mut green, mut red, other] = *sums;
                        for pixel in values.as_chunks::<3>().0 {
                            let [b, g, r] = pixel.map(f64::from);
                            (blue, green, red) = (blue + b, green + g, red + r);
                        }
                        *sums = [blue, green, red, other];
                    }
                    _ => {
                        for pixel in values.chunks_exact(channels) {
                            let channels = pixel.iter().enumerate();
                            channels.for_each(|(c, &value)| sums[c % CHANNELS] += f64::from(value));
                        }
                    }
                }
            }
        }
    };
}

summed!(f32);
summed!(f64);

dispatch! {
    /// Changes brightness and contrast.
    fn light<V: Value, T: Real>(values: &[V], alpha: T, beta: T, out: &mut [T]) = light_with;
}

#[inline(always)]
fn light_with<V: Value, T: Real, S: InstructionSet>(_: S, values: &[V], alpha: T, beta: T, out: &mut [T]) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = bounded(value.to::<T>() * alpha + beta);
    }
}

/// Clamps a number to 0..=255.
#[inline(always)]
pub(super) fn bounded<T: Real>(value: T) -> T {
    let value = if value < T::default() { T::default() } else { value };
    if value > T::WHITE { T::WHITE } else { value }
}

/// Pixels per block, small enough for all intermediate values to stay in the caches.
const BLOCK: usize = 64;

dispatch! {
    /// Multiplies the saturation of pixels.
    fn saturate(pixels: &mut [[f32; 3]], ratio: f64) = saturate_with;
}

/// Splits blocks of pixels into blue, green and red so that the compiler can vectorize.
#[inline(always)]
fn saturate_with<S: InstructionSet>(_: S, pixels: &mut [[f32; 3]], ratio: f64) {
    for pixels in pixels.chunks_mut(BLOCK) {
        let (mut blue, mut green, mut red) = ([0f32; BLOCK], [0f32; BLOCK], [0f32; BLOCK]);
        for (i, pixel) in pixels.iter().enumerate() {
            [blue[i], green[i], red[i]] = *pixel;
        }
        for i in 0..BLOCK {
            [blue[i], green[i], red[i]] = saturated([blue[i], green[i], red[i]], ratio);
        }
        for (i, pixel) in pixels.iter_mut().enumerate() {
            *pixel = [blue[i], green[i], red[i]];
        }
    }
}

/// Converts a color to hue, saturation and value, multiplies the saturation, and converts it back.
/// Branch-free: both alternatives are always computed.
#[inline(always)]
fn saturated([blue, green, red]: [f32; 3], ratio: f64) -> [f32; 3] {
    let value = max(max(blue, green), red);
    let difference = value - min(min(blue, green), red);
    let saturation = difference / (value.abs() + f32::EPSILON);
    let unit = 60.0 / (difference + f32::EPSILON);
    let hue = (red - green) * unit + 240.0;
    let hue = if value == green { (blue - red) * unit + 120.0 } else { hue };
    let hue = if value == red { (green - blue) * unit } else { hue };
    let hue = if hue < 0.0 { hue + 360.0 } else { hue };

    let saturation = min((f64::from(saturation) * ratio) as f32, 1.0);
    let hue = hue * (1.0 / 60.0f64) as f32;
    let hue = if hue >= 6.0 { hue - 6.0 } else { hue };
    let sector = hue.floor();
    let rest = hue - sector;
    let low = value * (1.0 - saturation);
    let falling = value * (1.0 - saturation * rest);
    let rising = value * (1.0 - saturation * (1.0 - rest));
    let color = [
        pick(sector, [low, low, rising, value, value, falling]),
        pick(sector, [rising, value, value, falling, low, low]),
        pick(sector, [value, falling, low, low, rising, value]),
    ];
    if saturation == 0.0 { [value; 3] } else { color }
}

/// Selects the value of a sector, an integer from 0 to 5.
#[inline(always)]
fn pick(sector: f32, [first, second, third, fourth, fifth, sixth]: [f32; 6]) -> f32 {
    let upper = if sector == 3.0 {
        fourth
    } else if sector == 4.0 {
        fifth
    } else {
        sixth
    };
    let lower = if sector == 0.0 {
        first
    } else if sector == 1.0 {
        second
    } else {
        third
    };
    if sector < 3.0 { lower } else { upper }
}

/// Unlike `f32::max`, compiles to a single instruction.
#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation, with branches.
    fn described([blue, green, red]: [f32; 3], ratio: f64) -> [f32; 3] {
        let value = blue.max(green).max(red);
        let difference = value - blue.min(green).min(red);
        let unit = 60.0 / (difference + f32::EPSILON);
        let mut hue = match value {
            _ if value == red => (green - blue) * unit,
            _ if value == green => (blue - red) * unit + 120.0,
            _ => (red - green) * unit + 240.0,
        };
        if hue < 0.0 {
            hue += 360.0;
        }
        let saturation = difference / (value.abs() + f32::EPSILON);
        let saturation = ((f64::from(saturation) * ratio) as f32).min(1.0);
        if saturation == 0.0 {
            return [value; 3];
        }
        let mut hue = hue * (1.0 / 60.0f64) as f32;
        while hue >= 6.0 {
            hue -= 6.0;
        }
        let rest = hue - hue.floor();
        let parts = [
            value,
            value * (1.0 - saturation),
            value * (1.0 - saturation * rest),
            value * (1.0 - saturation * (1.0 - rest)),
        ];
        const SECTORS: [[usize; 3]; 6] = [[1, 3, 0], [1, 0, 2], [3, 0, 1], [0, 2, 1], [0, 1, 3], [2, 1, 0]];
        SECTORS[hue.floor() as usize].map(|part| parts[part])
    }

    #[test]
    fn saturation_matches_the_reference() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Often equal values, integers and the bounds; sometimes other values.
            match state >> 60 {
                0 | 1 => 0.0,
                2 | 3 => 255.0,
                4 => 100.0,
                5..10 => (state >> 40 & 255) as f32,
                _ => (state >> 40 & 0xffff) as f32 / 257.0,
            }
        };
        let pixels: Vec<[f32; 3]> = (0..10_007).map(|_| [next(), next(), next()]).collect();
        for processor in Processor::all() {
            for ratio in [0.0, 0.3, 1.0, 1.7, 2.0] {
                let mut found = pixels.clone();
                saturate(processor, &mut found, ratio);
                for (found, pixel) in found.iter().zip(&pixels) {
                    assert_eq!(*found, described(*pixel, ratio), "{pixel:?} times {ratio} on {processor:?}");
                }
            }
        }
    }

    #[test]
    fn sums_of_bytes_do_not_overflow() {
        let values = vec![255u8; (1 << 24) + 5];
        for processor in Processor::all() {
            let mut sums = [0.0; CHANNELS];
            add(processor, &values, 3, &mut sums);
            assert_eq!(sums, [255.0 * values.len() as f64, 0.0, 0.0, 0.0]);
        }
    }

    /// Matches CNTK 2.7. The order shows when numbers are so large that adding 1 is lost.
    #[test]
    fn sums_follow_cntks_order() {
        const LARGE: f64 = 9_007_199_254_740_992.0;
        let sum = |values: &[f64], channels| {
            let mut sums = [0.0; CHANNELS];
            add(Processor::detect(), values, channels, &mut sums);
            sums.iter().sum::<f64>()
        };
        assert_eq!(sum(&[LARGE, 1.0, -LARGE, 0.0], 1), 0.0, "within a group one after the other");
        assert_eq!(sum(&[LARGE, 0.0, 0.0, 0.0, 1.0, -LARGE, 0.0, 0.0, 0.0], 1), 1.0, "in groups of four");
        assert_eq!(sum(&[LARGE, 0.0, 0.0, 0.0, 1.0, -LARGE], 1), 0.0, "the rest one after the other");
        assert_eq!(
            sum(&[LARGE, 1.0, 0.0, 0.0, 0.0, 0.0, -LARGE, 0.0, 0.0], 3),
            1.0,
            "channels by themselves"
        );
        assert_eq!(sum(&[LARGE, 1.0, -LARGE, 0.0, 0.0, 0.0], 3), 0.0);
    }
}
