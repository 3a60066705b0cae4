//! The source pixels of each result pixel in one direction, and their weights.

use crate::transform::Interpolation;
use std::ops::Range;

/// Fixed-point 1 of weights for 8-bit values: 11 fractional bits.
const ONE: f32 = 2048.0;

/// One direction of a resize: for each result pixel, its first source pixel and the weights.
#[derive(Default)]
pub(super) struct Axis {
    /// Number of source pixels in this direction.
    pub from: usize,
    /// The first source pixel of each result pixel. It and the following ones may lie outside the
    /// image; the border is repeated there.
    pub starts: Vec<i64>,
    /// The result pixels whose source pixels all lie in the image.
    pub inner: Range<usize>,
    /// Weights, `taps` per result pixel.
    pub weights: Vec<f32>,
    /// The same weights in fixed point, times 2048, for 8-bit values.
    pub fixed: Vec<i16>,
}

impl Axis {
    /// Builds the tables to resize `from` pixels to `to`, for `count` result pixels starting at
    /// `first`. `is_horizontal` selects how linear interpolation ends at the border.
    pub fn make(
        &mut self,
        interpolation: Interpolation,
        from: u32,
        to: u32,
        (first, count): (u32, u32),
        is_horizontal: bool,
    ) {
        let taps = taps(interpolation);
        self.from = from as usize;
        self.starts.clear();
        self.weights.clear();
        self.fixed.clear();
        let scale = 1.0 / (f64::from(to) / f64::from(from));
        let last = i64::from(from) - 1;
        for pixel in first..first + count {
            let center = ((f64::from(pixel) + 0.5) * scale - 0.5) as f32;
            let (mut at, mut rest) = (center.floor() as i64, center - center.floor());
            if is_horizontal && taps == 2 {
                if at < 0 {
                    (at, rest) = (0, 0.0);
                } else if at >= last {
                    (at, rest) = (last, 0.0);
                }
            }
            self.starts.push(at - taps as i64 / 2 + 1);
            match interpolation {
                Interpolation::Nearest | Interpolation::Linear => self.weights.extend([1.0 - rest, rest]),
                Interpolation::Cubic => self.weights.extend(cubic(rest)),
                Interpolation::Lanczos => self.weights.extend(lanczos(rest)),
            }
        }
        // The conversion to integer saturates.
        self.fixed.extend(self.weights.iter().map(|weight| (weight * ONE).round_ties_even() as i16));
        let end = self.starts.partition_point(|&start| start + taps as i64 <= i64::from(from));
        let start = self.starts.partition_point(|&start| start < 0);
        self.inner = start.min(end)..end;
    }

    /// Returns source pixel number `tap` counted from `start`, clamped to the image.
    #[inline(always)]
    pub fn clamped(&self, start: i64, tap: usize) -> usize {
        (start + tap as i64).clamp(0, self.from as i64 - 1) as usize
    }
}

/// Returns the number of source pixels per result pixel in each direction.
pub(super) fn taps(interpolation: Interpolation) -> usize {
    match interpolation {
        Interpolation::Nearest => 1,
        Interpolation::Linear => 2,
        Interpolation::Cubic => 4,
        Interpolation::Lanczos => 8,
    }
}

/// Returns the weights of four pixels for a position `rest` after the second.
pub(super) fn cubic(rest: f32) -> [f32; 4] {
    const A: f32 = -0.75;
    let after = 1.0 - rest;
    let w0 = ((A * (rest + 1.0) - 5.0 * A) * (rest + 1.0) + 8.0 * A) * (rest + 1.0) - 4.0 * A;
    let w1 = ((A + 2.0) * rest - (A + 3.0)) * rest * rest + 1.0;
    let w2 = ((A + 2.0) * after - (A + 3.0)) * after * after + 1.0;
    [w0, w1, w2, 1.0 - w0 - w1 - w2]
}

/// Returns the weights of eight pixels for a position `rest` after the fourth.
pub(super) fn lanczos(rest: f32) -> [f32; 8] {
    const R: f64 = std::f64::consts::FRAC_1_SQRT_2;
    const TURNS: [(f64, f64); 8] =
        [(1.0, 0.0), (-R, -R), (0.0, 1.0), (R, -R), (-1.0, 0.0), (R, R), (0.0, -1.0), (-R, R)];
    let mut weights = [0f32; 8];
    if rest < f32::EPSILON {
        weights[3] = 1.0;
        return weights;
    }
    let angle = |i: f32| -f64::from(rest + 3.0 - i) * std::f64::consts::PI * 0.25;
    let (sin, cos) = angle(0.0).sin_cos();
    let mut sum = 0f32;
    for ((i, weight), (a, b)) in weights.iter_mut().enumerate().zip(TURNS) {
        let y = angle(i as f32);
        *weight = ((a * sin + b * cos) / (y * y)) as f32;
        sum += *weight;
    }
    let factor = 1.0 / sum;
    weights.map(|weight| weight * factor)
}
