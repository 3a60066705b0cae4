//! Nearest neighbour, and linear interpolation to exactly half the size.

use super::axis::Axis;
use crate::transform::pixels::Value;
use cntk_reader_core::cpu::processor::{InstructionSet, dispatch};
use cntk_reader_core::image::Region;

/// Returns the source pixel of result pixel `at`.
pub(super) fn nearest_of(at: u32, from: u32, to: u32) -> usize {
    let scale = 1.0 / (f64::from(to) / f64::from(from));
    ((f64::from(at) * scale).floor() as u32).min(from - 1) as usize
}

/// Copies the nearest pixel, the one to the left and above. `axis` is scratch memory for column
/// offsets.
pub(super) fn nearest<V: Value>(
    from: (u32, u32),
    to: (u32, u32),
    cut: Region,
    channels: usize,
    image: &[V],
    out: &mut [V],
    axis: &mut Axis,
) {
    let columns = &mut axis.starts;
    columns.clear();
    columns.extend((0..cut.width).map(|x| (nearest_of(cut.left + x, from.0, to.0) * channels) as i64));
    let (row, stride) = (cut.width as usize * channels, from.0 as usize * channels);
    let mut former = None;
    for y in 0..cut.height {
        let source = nearest_of(cut.top + y, from.1, to.1);
        let (done, rest) = out.split_at_mut(y as usize * row);
        let target = &mut rest[..row];
        if former.replace(source) == Some(source) {
            target.copy_from_slice(&done[done.len() - row..]);
            continue;
        }
        let source = &image[source * stride..][..stride];
        match channels {
            1 => pick::<V, 1>(source, columns, target),
            3 => pick::<V, 3>(source, columns, target),
            4 => pick::<V, 4>(source, columns, target),
            _ => {
                for (target, &start) in target.chunks_exact_mut(channels).zip(&*columns) {
                    target.copy_from_slice(&source[start as usize..][..channels]);
                }
            }
        }
    }
}

fn pick<V: Value, const C: usize>(source: &[V], columns: &[i64], target: &mut [V]) {
    for (target, &start) in target.as_chunks_mut::<C>().0.iter_mut().zip(columns) {
        target.copy_from_slice(&source[start as usize..][..C]);
    }
}

/// Values with OpenCV's mean of four.
pub(super) trait Quarter: Value {
    fn mean(a: Self, b: Self, c: Self, d: Self) -> Self;
}

impl Quarter for u8 {
    #[inline(always)]
    fn mean(a: u8, b: u8, c: u8, d: u8) -> u8 {
        ((u16::from(a) + u16::from(b) + u16::from(c) + u16::from(d) + 2) >> 2) as u8
    }
}

macro_rules! quarter {
    ($type:ty) => {
        impl Quarter for $type {
            #[inline(always)]
            fn mean(a: $type, b: $type, c: $type, d: $type) -> $type {
                (a + b + c + d) * 0.25
            }
        }
    };
}

quarter!(f32);
quarter!(f64);

dispatch! {
    /// Averages blocks of two by two pixels. `image_info` is the image's width and number of
    /// channels.
    pub(super) fn half<V: Quarter>(image_info: (usize, usize), cut: Region, image: &[V], out: &mut [V]) = half_with;
}

#[inline(always)]
fn half_with<V: Quarter, S: InstructionSet>(
    _instructions: S,
    (width, channels): (usize, usize),
    cut: Region,
    image: &[V],
    out: &mut [V],
) {
    match channels {
        1 => half_channels::<V, 1>(width, 1, cut, image, out),
        3 => half_channels::<V, 3>(width, 3, cut, image, out),
        _ => half_channels::<V, 0>(width, channels, cut, image, out),
    }
}

/// `C` is the number of channels, or 0 for any number.
#[inline(always)]
fn half_channels<V: Quarter, const C: usize>(
    width: usize,
    channels: usize,
    cut: Region,
    image: &[V],
    out: &mut [V],
) {
    let channels = if C == 0 { channels } else { C };
    let (stride, row) = (width * channels, cut.width as usize * channels);
    for (y, out) in (cut.top as usize..).zip(out.chunks_exact_mut(row)) {
        let first = 2 * y * stride + 2 * cut.left as usize * channels;
        let (upper, lower) = (&image[first..][..2 * row], &image[first + stride..][..2 * row]);
        let pairs = upper.chunks_exact(2 * channels).zip(lower.chunks_exact(2 * channels));
        for (out, (upper, lower)) in out.chunks_exact_mut(channels).zip(pairs) {
            for c in 0..channels {
                out[c] = V::mean(upper[c], upper[channels + c], lower[c], lower[channels + c]);
            }
        }
    }
}
