//! `Transpose` (interleaved to planar) and `Cast` (to the stream's type).

use super::pixels::{Memory, Real, Value, for_pixels};
use cntk_reader_core::Result;
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};
use cntk_reader_core::image::{Depth, Image};

/// Makes an image planar. Bytes stay bytes: they are widened when they are packed.
pub(super) fn transpose(image: &mut Image, memory: &mut Memory) -> Result<()> {
    let channels = image.channels as usize;
    image.planar = true;
    if channels == 1 {
        return Ok(());
    }
    for_pixels!(&image.pixels, values => {
        let mut out = memory.take(values.len())?;
        planes(Processor::detect(), values, channels, &mut out);
        memory.replace(&mut image.pixels, out);
    });
    Ok(())
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

/// Converts floating-point values to the stream's type. Bytes stay bytes: they are widened when
/// they are packed.
pub(super) fn cast<T: Real>(image: &mut Image, memory: &mut Memory) -> Result<()> {
    if matches!(image.pixels.depth(), Depth::Element(element) if element != T::TYPE) {
        for_pixels!(&image.pixels, values => {
            let mut out = memory.take::<T>(values.len())?;
            out.iter_mut().zip(values).for_each(|(out, &value)| *out = value.to());
            memory.replace(&mut image.pixels, out);
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::image::Pixels;

    #[test]
    fn each_value_gets_its_place() {
        for channels in 1..6u32 {
            for (width, height) in [(1, 1), (7, 5), (40, 3)] {
                let values: Vec<u8> = (0..width * height * channels).map(|i| (i * 7 % 251) as u8).collect();
                let at = |x: u32, y: u32, c: u32| values[((y * width + x) * channels + c) as usize];
                let mut wanted = Vec::new();
                for c in 0..channels {
                    (0..height).for_each(|y| wanted.extend((0..width).map(|x| at(x, y, c))));
                }
                let mut image = Image { width, height, channels, ..Image::default() };
                image.pixels = Pixels::Bytes(values.clone());
                transpose(&mut image, &mut Memory::default()).expect("memory");
                assert!(image.planar);
                assert_eq!(image.pixels, Pixels::Bytes(wanted), "{width}x{height} of {channels} channels");
            }
        }
    }

    #[test]
    fn casts_convert_only_the_other_float_type() {
        let mut image = Image { pixels: Pixels::Bytes(vec![3]), ..Image::default() };
        cast::<f32>(&mut image, &mut Memory::default()).expect("memory");
        assert_eq!(image.pixels, Pixels::Bytes(vec![3]));
        image.pixels = Pixels::Doubles(vec![0.1]);
        cast::<f64>(&mut image, &mut Memory::default()).expect("memory");
        assert_eq!(image.pixels, Pixels::Doubles(vec![0.1]));
        cast::<f32>(&mut image, &mut Memory::default()).expect("memory");
        assert_eq!(image.pixels, Pixels::Floats(vec![0.1]));
    }
}
