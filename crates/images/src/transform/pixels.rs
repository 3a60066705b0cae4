//! Types of pixel values, and reusable memory for results of transforms.

use cntk_reader_core::Result;
use cntk_reader_core::image::{Image, Pixels};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::Element;

/// An element type of images: `u8`, `f32` or `f64`.
pub(super) trait Value: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// Wraps values of this type as an image's values.
    fn pixels(values: Vec<Self>) -> Pixels;

    /// Returns an image's values if they have this type.
    fn values(pixels: &mut Pixels) -> Option<&mut Vec<Self>>;

    /// Returns the spare buffers for values of this type.
    fn spare(memory: &mut Memory) -> &mut Vec<Vec<Self>>;

    /// Converts the value to the stream's type.
    fn to<T: Real>(self) -> T;
}

/// A type that transforms compute with: `f32` or `f64`, the stream's own.
pub(super) trait Real:
    Value
    + Element
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::AddAssign
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
{
    /// 255, the largest value of a byte.
    const WHITE: Self;

    /// Converts a number, rounding to the nearest.
    fn from_f64(number: f64) -> Self;

    /// Converts a single-precision number.
    fn from_f32(number: f32) -> Self;
}

macro_rules! value {
    ($type:ty, $pixels:ident, $spare:ident, $value:ident => $to:expr) => {
        impl Value for $type {
            fn pixels(values: Vec<$type>) -> Pixels {
                Pixels::$pixels(values)
            }

            fn values(pixels: &mut Pixels) -> Option<&mut Vec<$type>> {
                match pixels {
                    Pixels::$pixels(values) => Some(values),
                    _ => None,
                }
            }

            fn spare(memory: &mut Memory) -> &mut Vec<Vec<$type>> {
                &mut memory.$spare
            }

            #[inline(always)]
            fn to<T: Real>(self) -> T {
                let $value = self;
                $to
            }
        }
    };
}

value!(u8, Bytes, bytes, value => T::from_f32(f32::from(value)));
value!(f32, Floats, floats, value => T::from_f32(value));
value!(f64, Doubles, doubles, value => T::from_f64(value));

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            const WHITE: $type = 255.0;

            #[inline(always)]
            fn from_f64(number: f64) -> $type {
                number as $type
            }

            #[inline(always)]
            fn from_f32(number: f32) -> $type {
                number.into()
            }
        }
    };
}

real!(f32);
real!(f64);

/// Runs a block with `$values` bound to the values of an image, whatever their type.
macro_rules! for_pixels {
    ($pixels:expr, $values:ident => $block:expr) => {
        match $pixels {
            cntk_reader_core::image::Pixels::Bytes($values) => $block,
            cntk_reader_core::image::Pixels::Floats($values) => $block,
            cntk_reader_core::image::Pixels::Doubles($values) => $block,
        }
    };
}

pub(super) use for_pixels;

/// Spare buffers for an image's next values. When an image gets new values, its old buffer is kept
/// here, so that nothing is allocated once all buffers are large enough.
#[derive(Default)]
pub(super) struct Memory {
    bytes: Vec<Vec<u8>>,
    floats: Vec<Vec<f32>>,
    doubles: Vec<Vec<f64>>,
}

impl Memory {
    /// Takes a buffer of `count` values with unspecified contents.
    pub(super) fn take<V: Value>(&mut self, count: usize) -> Result<Vec<V>> {
        let mut values = V::spare(self).pop().unwrap_or_default();
        room::resize(&mut values, count, V::default(), room::IMAGE)?;
        Ok(values)
    }

    /// Replaces an image's values and keeps the buffer of the old ones.
    pub(super) fn replace<V: Value>(&mut self, pixels: &mut Pixels, values: Vec<V>) {
        match std::mem::replace(pixels, V::pixels(values)) {
            Pixels::Bytes(values) => keep(&mut self.bytes, values),
            Pixels::Floats(values) => keep(&mut self.floats, values),
            Pixels::Doubles(values) => keep(&mut self.doubles, values),
        }
    }

    /// Puts a buffer back.
    pub(super) fn keep<V: Value>(&mut self, values: Vec<V>) {
        keep(V::spare(self), values);
    }

    /// Gives an image a byte buffer if its values are not bytes.
    pub(super) fn reclaim(&mut self, image: &mut Image) {
        if !matches!(image.pixels, Pixels::Bytes(_)) {
            let bytes = self.bytes.pop().unwrap_or_default();
            self.replace(&mut image.pixels, bytes);
        }
    }
}

/// Pushes a buffer onto the stack of spares, so that the one used last, which is warm in the
/// caches, is reused first. An image brings one buffer, and a chain reads one while it writes
/// another, so a third would never be used.
fn keep<V>(spare: &mut Vec<Vec<V>>, values: Vec<V>) {
    if values.capacity() > 0 && spare.len() < 2 {
        spare.push(values);
    }
}
