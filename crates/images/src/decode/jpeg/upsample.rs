//! Upsampling of components to rows of the image.

use super::frame::Component;
use cntk_reader_core::Result;
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};
use cntk_reader_core::image::Region;
use cntk_reader_core::memory::room;

/// The samples of a component that are needed for a region.
#[derive(Debug, Default)]
pub struct Plane {
    samples: Vec<u8>,
    stride: usize,
    /// First block of each row.
    pub left: u32,
    /// End of the blocks of each row (exclusive).
    pub right: u32,
    /// First row of blocks.
    pub top: u32,
    /// End of the rows of blocks (exclusive).
    pub bottom: u32,
}

impl Plane {
    /// Allocates the samples for a region of the image: its own and one more on each side, because
    /// interpolation reads both neighbours.
    pub fn reset(&mut self, component: &Component, region: Region) -> Result<()> {
        let (step_x, step_y) = (u32::from(component.step_x), u32::from(component.step_y));
        let last = |start: u32, length: u32| start + length.max(1) - 1;
        self.left = (region.left / step_x).saturating_sub(1) / 8;
        self.right = (((last(region.left, region.width) / step_x) + 1) / 8 + 1).min(component.blocks_wide);
        self.top = (region.top / step_y).saturating_sub(1) / 8;
        self.bottom = (((last(region.top, region.height) / step_y) + 1) / 8 + 1).min(component.blocks_high);
        self.stride = 8 * (self.right - self.left) as usize;
        let size = self.stride * 8 * (self.bottom - self.top) as usize;
        // Old contents need no clearing: every block of the plane is decoded.
        room::resize(&mut self.samples, size, 0, room::IMAGE)
    }

    /// Returns the samples from a row of blocks on, and their stride.
    pub fn blocks(&mut self, row: u32) -> (&mut [u8], usize) {
        let start = 8 * self.stride * (row - self.top) as usize;
        (&mut self.samples[start..], self.stride)
    }

    /// Returns a row of samples of the plane.
    fn row(&self, row: u32) -> &[u8] {
        &self.samples[self.stride * (row - 8 * self.top) as usize..][..self.stride]
    }
}

/// Reusable memory for a row of the image.
#[derive(Debug, Default)]
pub struct RowBuffer {
    pixels: Vec<u8>,
    sums: Vec<u16>,
}

/// Returns columns `left` to `left + width` of row `y` of one component, upsampled.
///
/// Interpolates if samples are halved horizontally, or in both directions. libjpeg-turbo 1.4, with
/// which CNTK 2.7 is built, interpolates for no other ratio, nor for components of 1 or 2 columns.
pub fn row<'a>(
    processor: Processor,
    plane: &'a Plane,
    component: &Component,
    y: u32,
    left: u32,
    width: u32,
    buffer: &'a mut RowBuffer,
) -> &'a [u8] {
    let (step_x, step_y) = (u32::from(component.step_x), u32::from(component.step_y));
    let near = plane.row(y / step_y);
    let origin = 8 * plane.left;
    if step_x == 1 {
        return &near[(left - origin) as usize..][..width as usize];
    }
    if step_x != 2 || step_y > 2 || component.width <= 2 {
        buffer.pixels.clear();
        buffer.pixels.extend((left..left + width).map(|x| near[(x / step_x - origin) as usize]));
        return &buffer.pixels;
    }
    // The columns use samples `first` to `end`; `sums` has one more on each side.
    let (first, end) = (left / 2, (left + width - 1) / 2 + 1);
    let count = (end - first) as usize;
    // Neither needs clearing: both are overwritten completely.
    buffer.sums.resize(count + 2, 0);
    buffer.pixels.resize(2 * count, 0);
    let before = first.saturating_sub(1) - origin;
    let after = end.min(component.width - 1) - origin;
    let inner = (first - origin) as usize..(end - origin) as usize;
    if step_y == 1 {
        buffer.sums[0] = near[before as usize].into();
        buffer.sums[count + 1] = near[after as usize].into();
        widen(processor, &near[inner], &mut buffer.sums[1..=count]);
        between::<1, 2, 2>(processor, &buffer.sums, &mut buffer.pixels);
    } else {
        let middle = y / 2;
        let neighbour = if y.is_multiple_of(2) {
            middle.saturating_sub(1)
        } else {
            (middle + 1).min(component.height - 1)
        };
        let far = plane.row(neighbour);
        let sum = |at: u32| 3 * u16::from(near[at as usize]) + u16::from(far[at as usize]);
        buffer.sums[0] = sum(before);
        buffer.sums[count + 1] = sum(after);
        weigh(processor, &near[inner.clone()], &far[inner], &mut buffer.sums[1..=count]);
        between::<8, 7, 4>(processor, &buffer.sums, &mut buffer.pixels);
    }
    &buffer.pixels[(left % 2) as usize..][..width as usize]
}

dispatch! {
    /// Widens samples.
    fn widen(samples: &[u8], sums: &mut [u16]) = widen_with;
}

#[inline(always)]
fn widen_with<S: InstructionSet>(_: S, samples: &[u8], sums: &mut [u16]) {
    for (sum, &sample) in sums.iter_mut().zip(samples) {
        *sum = sample.into();
    }
}

dispatch! {
    /// Adds three times the near row and the far row.
    fn weigh(near: &[u8], far: &[u8], sums: &mut [u16]) = weigh_with;
}

#[inline(always)]
fn weigh_with<S: InstructionSet>(_: S, near: &[u8], far: &[u8], sums: &mut [u16]) {
    for ((sum, &near), &far) in sums.iter_mut().zip(near).zip(far) {
        *sum = 3 * u16::from(near) + u16::from(far);
    }
}

/// Computes two pixels per sample, except for the first and the last: three parts of the sample and
/// one of the neighbour on the pixel's side. `EVEN` and `ODD` are the rounding terms added before
/// the shift by `SHIFT`.
fn between<const EVEN: u16, const ODD: u16, const SHIFT: u16>(
    processor: Processor,
    sums: &[u16],
    pixels: &mut [u8],
) {
    between_any(processor, sums, pixels, (EVEN, ODD, SHIFT));
}

dispatch! {
    fn between_any(sums: &[u16], pixels: &mut [u8], rounding: (u16, u16, u16)) = between_with;
}

#[inline(always)]
fn between_with<S: InstructionSet>(
    _: S,
    sums: &[u16],
    pixels: &mut [u8],
    (even, odd, shift): (u16, u16, u16),
) {
    let (pixels, _) = pixels.as_chunks_mut::<2>();
    let count = pixels.len().min(sums.len().saturating_sub(2));
    let (before, middle, after) = (&sums[..count], &sums[1..=count], &sums[2..count + 2]);
    for (((pixels, &before), &middle), &after) in pixels.iter_mut().zip(before).zip(middle).zip(after) {
        *pixels =
            [((3 * middle + before + even) >> shift) as u8, ((3 * middle + after + odd) >> shift) as u8];
    }
}
