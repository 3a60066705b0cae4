//! `Transpose`: from pixels to planes, channel after channel. `Cast`: to the stream's type.

use super::pixels::{Memory, Real, Value, for_pixels};
use crate::image::{Depth, Image};
use crate::processor::{InstructionSet, Processor, dispatch};

/// Makes planes of an image's pixels. Bytes stay bytes: they are widened when they are packed.
pub(super) fn transpose(image: &mut Image, memory: &mut Memory) {
    let channels = image.channels as usize;
    image.planar = true;
    if channels == 1 {
        return;
    }
    for_pixels!(&image.pixels, values => {
        let mut out = memory.take(values.len());
        planes(Processor::detect(), values, channels, &mut out);
        memory.replace(&mut image.pixels, out);
    });
}

dispatch! {
    fn planes<V: Value>(values: &[V], channels: usize, out: &mut [V]) = planes_with;
}

#[inline(always)]
fn planes_with<V: Value, S: InstructionSet>(_: S, values: &[V], channels: usize, out: &mut [V]) {
    let size = values.len() / channels;
    if size == 0 {
        return;
    }
    if channels == 3 {
        let (blue, rest) = out.split_at_mut(size);
        let (green, red) = rest.split_at_mut(size);
        let pixels = values.as_chunks::<3>().0.iter();
        for (((pixel, blue), green), red) in pixels.zip(blue).zip(green).zip(red) {
            [*blue, *green, *red] = *pixel;
        }
        return;
    }
    for (channel, plane) in out.chunks_exact_mut(size).enumerate() {
        for (out, pixel) in plane.iter_mut().zip(values.chunks_exact(channels)) {
            *out = pixel[channel];
        }
    }
}

/// Converts floating-point values to the stream's type. Bytes stay bytes: they are widened when they are packed.
pub(super) fn cast<T: Real>(image: &mut Image, memory: &mut Memory) {
    if matches!(image.pixels.depth(), Depth::Element(element) if element != T::TYPE) {
        for_pixels!(&image.pixels, values => {
            let mut out = memory.take::<T>(values.len());
            out.iter_mut().zip(values).for_each(|(out, &value)| *out = value.to());
            memory.replace(&mut image.pixels, out);
        });
    }
}
