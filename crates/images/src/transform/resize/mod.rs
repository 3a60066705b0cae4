//! Resizing, bit for bit as in OpenCV 3.1, with which CNTK 2.7 was built.
//!
//! The directions are resized separately: a result value is a weighted sum of 2, 4 or 8 source
//! pixels in each direction, with weights that depend only on its position ([`axis`]). The rows
//! needed for a result row are first resized horizontally and kept in a ring, because the next row
//! needs most of them again. Then they are summed vertically.
//!
//! Rounding differs for each combination of interpolation and value type ([`kernels`]). Nearest
//! neighbour, and linear interpolation to exactly half the size, have separate loops ([`simple`]).

mod axis;
mod kernels;
#[cfg(test)]
mod reference;
mod simple;
mod sums;
#[cfg(test)]
mod tests;

use super::pixels::{Memory, for_pixels};
use crate::transform::Interpolation;
use axis::Axis;
use cntk_reader_core::Result;
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};
use cntk_reader_core::image::{Image, Pixels, Region};
use cntk_reader_core::memory::room;
use kernels::{ByteCubic, ByteLanczos, ByteLinear, Kernel, Plain};
use std::marker::PhantomData;

/// Parameters of a resize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Resize {
    /// The size that the whole image would get.
    pub width: u32,
    /// The size that the whole image would get.
    pub height: u32,
    /// The part of the resized image to compute. Its values equal those of the whole resized image.
    pub cut: Region,
    /// Interpolation between pixels.
    pub interpolation: Interpolation,
}

/// Reusable row memory, and the positions and weights of the last image, which the next one shares
/// if its sizes are the same.
#[derive(Default)]
pub(super) struct Tables {
    /// The sizes for which the tables were built: of the image, and the resize.
    made_for: Option<(u32, u32, Resize)>,
    columns: Axis,
    rows: Axis,
    linear: Vec<i16>,
    lanczos: Vec<i32>,
    floats: Vec<f32>,
    doubles: Vec<f64>,
}

/// Resizes an image of interleaved pixels. Neither it nor the result may be empty.
pub(super) fn apply(
    resize: &Resize,
    image: &mut Image,
    tables: &mut Tables,
    memory: &mut Memory,
) -> Result<()> {
    apply_with(Processor::detect(), resize, image, tables, memory)
}

fn apply_with(
    processor: Processor,
    resize: &Resize,
    image: &mut Image,
    tables: &mut Tables,
    memory: &mut Memory,
) -> Result<()> {
    let (from, to) = ((image.width, image.height), (resize.width, resize.height));
    let Region { width, height, .. } = resize.cut;
    let is_half = from.0 == to.0.saturating_mul(2) && from.1 == to.1.saturating_mul(2);
    let image_info = (image.width as usize, image.channels as usize);
    let count = width as usize * height as usize * image.channels as usize;
    match resize.interpolation {
        Interpolation::Nearest => {
            for_pixels!(&image.pixels, values => {
                let mut out = memory.take(count)?;
                simple::nearest(from, to, resize.cut, image.channels as usize, values, &mut out, &mut tables.columns);
                memory.replace(&mut image.pixels, out);
            });
            tables.made_for = None;
        }
        Interpolation::Linear if is_half => for_pixels!(&image.pixels, values => {
            let mut out = memory.take(count)?;
            simple::half(processor, image_info, resize.cut, values, &mut out);
            memory.replace(&mut image.pixels, out);
        }),
        interpolation => {
            let wanted = Some((image.width, image.height, *resize));
            if tables.made_for != wanted {
                tables.columns.make(interpolation, image.width, resize.width, (resize.cut.left, width), true);
                tables.rows.make(interpolation, image.height, resize.height, (resize.cut.top, height), false);
                tables.made_for = wanted;
            }
            interpolate(processor, resize, image, tables, memory, count)?;
        }
    }
    (image.width, image.height) = (width, height);
    Ok(())
}

/// Resizes with tables built for this image.
fn interpolate(
    processor: Processor,
    resize: &Resize,
    image: &mut Image,
    tables: &mut Tables,
    memory: &mut Memory,
    count: usize,
) -> Result<()> {
    let Tables { columns, rows, linear, lanczos, floats, doubles, .. } = tables;
    let channels = image.channels as usize;
    // The values of a resized row before the cut, and the end of the values that OpenCV computes
    // eight at a time.
    let skipped = resize.cut.left as usize * channels;
    let eights = resize.width as usize * channels / 8 * 8;
    let job = Job { columns, rows, channels, eights: eights.saturating_sub(skipped) };
    macro_rules! with {
        ($kernel:expr, $values:expr, $ring:expr) => {{
            // Up to eight rows that the kernel reads.
            let ring: &mut Vec<_> = $ring;
            let row = job.columns.starts.len() * channels;
            room::reserve(ring, (8 * row).saturating_sub(ring.len()), room::IMAGE)?;
            let mut out = memory.take(count)?;
            run(processor, $kernel, job, $values, ring, &mut out);
            memory.replace(&mut image.pixels, out);
        }};
    }
    use Interpolation::{Cubic, Lanczos};
    match (&image.pixels, resize.interpolation) {
        (Pixels::Bytes(values), Cubic) => with!(ByteCubic, values, floats),
        (Pixels::Bytes(values), Lanczos) => with!(ByteLanczos, values, lanczos),
        (Pixels::Bytes(values), _) => with!(ByteLinear, values, linear),
        (Pixels::Floats(values), Cubic) => with!(Plain::<f32, 4>(PhantomData), values, floats),
        (Pixels::Floats(values), Lanczos) => with!(Plain::<f32, 8>(PhantomData), values, floats),
        (Pixels::Floats(values), _) => with!(Plain::<f32, 2>(PhantomData), values, floats),
        (Pixels::Doubles(values), Cubic) => with!(Plain::<f64, 4>(PhantomData), values, doubles),
        (Pixels::Doubles(values), Lanczos) => with!(Plain::<f64, 8>(PhantomData), values, doubles),
        (Pixels::Doubles(values), _) => with!(Plain::<f64, 2>(PhantomData), values, doubles),
    }
    Ok(())
}

/// The image and tables as seen by the loops.
#[derive(Clone, Copy)]
struct Job<'a> {
    columns: &'a Axis,
    rows: &'a Axis,
    channels: usize,
    /// Number of values per row that OpenCV computes eight at a time. Only [`ByteCubic`] rounds
    /// them differently.
    eights: usize,
}

dispatch! {
    /// Resizes `image` into `out`. `ring` is memory for the rows that the kernel reads.
    fn run<K: Kernel>(kernel: K, job: Job<'_>, image: &[K::Pixel], ring: &mut Vec<K::Middle>, out: &mut [K::Pixel]) = run_with;
}

#[inline(always)]
fn run_with<K: Kernel, S: InstructionSet>(
    instructions: S,
    _kernel: K,
    job: Job<'_>,
    image: &[K::Pixel],
    ring: &mut Vec<K::Middle>,
    out: &mut [K::Pixel],
) {
    match job.channels {
        1 => run_channels::<K, S, 1>(instructions, job, image, ring, out),
        3 => run_channels::<K, S, 3>(instructions, job, image, ring, out),
        4 => run_channels::<K, S, 4>(instructions, job, image, ring, out),
        _ => run_channels::<K, S, 0>(instructions, job, image, ring, out),
    }
}

/// `C` is the number of channels, or 0 for any number.
#[inline(always)]
fn run_channels<K: Kernel, S: InstructionSet, const C: usize>(
    instructions: S,
    job: Job<'_>,
    image: &[K::Pixel],
    ring: &mut Vec<K::Middle>,
    out: &mut [K::Pixel],
) {
    let channels = if C == 0 { job.channels } else { C };
    let (stride, row) = (job.columns.from * channels, job.columns.starts.len() * channels);
    if row == 0 {
        return;
    }
    ring.resize(K::TAPS * row, K::Middle::default());
    // The image row held in each place of the ring.
    let mut held = [usize::MAX; 8];
    let weights = K::weights(job.rows).chunks_exact(K::TAPS);
    for ((out, &start), weights) in out.chunks_exact_mut(row).zip(&job.rows.starts).zip(weights) {
        let mut places = [0; 8];
        for (tap, place) in places[..K::TAPS].iter_mut().enumerate() {
            let y = job.rows.clamped(start, tap);
            // Rows needed together are consecutive, so they have different places.
            *place = y % K::TAPS;
            if held[*place] != y {
                held[*place] = y;
                let target = &mut ring[*place * row..][..row];
                horizontal::<K, S, C>(instructions, job, &image[y * stride..][..stride], target);
            }
        }
        K::vertical(ring, places, row, weights, out, job.eights);
    }
}

/// Resizes a row.
#[inline(always)]
fn horizontal<K: Kernel, S: InstructionSet, const C: usize>(
    instructions: S,
    job: Job<'_>,
    image: &[K::Pixel],
    out: &mut [K::Middle],
) {
    let channels = if C == 0 { job.channels } else { C };
    let Axis { starts, inner, .. } = job.columns;
    let weights = K::weights(job.columns);
    let border = |columns: std::ops::Range<usize>, out: &mut [K::Middle]| {
        for x in columns {
            let weights = &weights[x * K::TAPS..][..K::TAPS];
            for c in 0..channels {
                let mut values = [K::Pixel::default(); 8];
                for (tap, value) in values[..K::TAPS].iter_mut().enumerate() {
                    *value = image[job.columns.clamped(starts[x], tap) * channels + c];
                }
                out[x * channels + c] = K::blend(&values[..K::TAPS], weights, 0, 1);
            }
        }
    };
    // Three-value pixels are computed as four values: the fourth must be in bounds in the image and
    // in the row.
    let is_triple = C == 3 && !inner.is_empty();
    let reaches = |&start: &i64| start as usize * 3 + K::REACH <= image.len();
    let wide = match is_triple {
        true => {
            let count = starts[inner.clone()].partition_point(reaches);
            inner.start..(inner.start + count).min(starts.len() - 1).max(inner.start)
        }
        false => inner.start..inner.start,
    };
    border(0..inner.start, out);
    let columns = starts[wide.clone()].iter().zip(weights[wide.start * K::TAPS..].chunks_exact(K::TAPS));
    let mut rest = &mut out[wide.start * channels..];
    for (&start, weights) in columns {
        // Narrow to 32 bits (it fits) so that the compiler sees that the sums cannot overflow.
        let at = start as u32 as usize * 3;
        let pixel = K::triple(instructions, &image[at..at + K::REACH], weights);
        rest[..4].copy_from_slice(&pixel);
        rest = &mut std::mem::take(&mut rest)[3..];
    }
    border(inner.end..starts.len(), out);
    for x in wide.end..inner.end {
        let window = &image[starts[x] as usize * channels..][..K::TAPS * channels];
        for (c, out) in out[x * channels..][..channels].iter_mut().enumerate() {
            *out = K::blend(window, &weights[x * K::TAPS..][..K::TAPS], c, channels);
        }
    }
}
