//! Reference implementation of resizing, value by value, for tests of the fast loops.

use super::axis::{cubic, lanczos, taps};
use crate::transform::Interpolation;

/// An image with any type of values.
#[derive(Debug, Clone)]
pub(super) struct Picture<V> {
    pub width: u32,
    pub height: u32,
    pub channels: u32,
    pub values: Vec<V>,
}

impl<V: Copy> Picture<V> {
    /// Returns the value at a position; outside the image that of the nearest pixel.
    fn at(&self, x: i64, y: i64, c: u32) -> V {
        let x = x.clamp(0, i64::from(self.width) - 1) as usize;
        let y = y.clamp(0, i64::from(self.height) - 1) as usize;
        self.values[(y * self.width as usize + x) * self.channels as usize + c as usize]
    }

    /// Builds a picture of another size, value by value.
    fn each(&self, width: u32, height: u32, value: impl Fn(u32, u32, u32) -> V) -> Picture<V> {
        let mut values = Vec::new();
        for y in 0..height {
            for x in 0..width {
                (0..self.channels).for_each(|c| values.push(value(x, y, c)));
            }
        }
        Picture { width, height, channels: self.channels, values }
    }

    fn nearest(&self, width: u32, height: u32) -> Picture<V> {
        let place = |at: u32, from: u32, to: u32| {
            let inverse = f64::from(to) / f64::from(from);
            ((f64::from(at) * (1.0 / inverse)).floor() as i64).min(i64::from(from) - 1)
        };
        self.each(width, height, |x, y, c| {
            self.at(place(x, self.width, width), place(y, self.height, height), c)
        })
    }
}

/// Returns the first source pixel of a result pixel, and the weights.
fn neighbours(
    interpolation: Interpolation,
    at: u32,
    from: u32,
    to: u32,
    is_horizontal: bool,
) -> (i64, Vec<f32>) {
    let scale = 1.0 / (f64::from(to) / f64::from(from));
    let place = ((f64::from(at) + 0.5) * scale - 0.5) as f32;
    let (mut start, mut rest) = (place.floor() as i64, place - place.floor());
    if is_horizontal && interpolation == Interpolation::Linear {
        if start < 0 {
            (start, rest) = (0, 0.0);
        }
        if start >= i64::from(from) - 1 {
            (start, rest) = (i64::from(from) - 1, 0.0);
        }
    }
    let weights = match interpolation {
        Interpolation::Cubic => cubic(rest).to_vec(),
        Interpolation::Lanczos => lanczos(rest).to_vec(),
        _ => vec![1.0 - rest, rest],
    };
    (start - taps(interpolation) as i64 / 2 + 1, weights)
}

fn is_half<V>(picture: &Picture<V>, width: u32, height: u32) -> bool {
    picture.width == 2 * width && picture.height == 2 * height
}

/// Resizes bytes.
pub(super) fn bytes(
    picture: &Picture<u8>,
    width: u32,
    height: u32,
    interpolation: Interpolation,
) -> Picture<u8> {
    if (picture.width, picture.height) == (width, height) {
        return picture.clone();
    }
    if interpolation == Interpolation::Nearest {
        return picture.nearest(width, height);
    }
    if interpolation == Interpolation::Linear && is_half(picture, width, height) {
        return picture.each(width, height, |x, y, c| {
            let (x, y) = (2 * i64::from(x), 2 * i64::from(y));
            let four = [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)];
            let sum: u32 = four.iter().map(|&(x, y)| u32::from(picture.at(x, y, c))).sum();
            ((sum + 2) >> 2) as u8
        });
    }
    let fixed = |weight: &f32| i64::from((weight * 2048.0).round_ties_even() as i16);
    let values = width * picture.channels;
    picture.each(width, height, |x, y, c| {
        let (left, across) = neighbours(interpolation, x, picture.width, width, true);
        let (top, down) = neighbours(interpolation, y, picture.height, height, false);
        let rows: Vec<i64> = (top..)
            .take(down.len())
            .map(|y| {
                let products = (left..).zip(&across);
                products.map(|(x, weight)| i64::from(picture.at(x, y, c)) * fixed(weight)).sum()
            })
            .collect();
        let down: Vec<i64> = down.iter().map(fixed).collect();
        let value = match interpolation {
            Interpolation::Linear => {
                (((down[0] * (rows[0] >> 4)) >> 16) + ((down[1] * (rows[1] >> 4)) >> 16) + 2) >> 2
            }
            Interpolation::Cubic if x * picture.channels + c < values / 8 * 8 => {
                let part = |i: usize| rows[i] as f32 * (down[i] as f32 * 2f32.powi(-22));
                (part(0) + part(1) + part(2) + part(3)).round_ties_even() as i64
            }
            _ => {
                let sum: i64 = rows.iter().zip(&down).map(|(row, weight)| row * weight).sum();
                (sum + (1 << 21)) >> 22
            }
        };
        value.clamp(0, 255) as u8
    })
}

/// Resizes floats.
pub(super) fn floats(
    picture: &Picture<f32>,
    width: u32,
    height: u32,
    interpolation: Interpolation,
) -> Picture<f32> {
    if (picture.width, picture.height) == (width, height) {
        return picture.clone();
    }
    if interpolation == Interpolation::Nearest {
        return picture.nearest(width, height);
    }
    if interpolation == Interpolation::Linear && is_half(picture, width, height) {
        return picture.each(width, height, |x, y, c| {
            let (x, y) = (2 * i64::from(x), 2 * i64::from(y));
            let at = |x, y| picture.at(x, y, c);
            (at(x, y) + at(x + 1, y) + at(x, y + 1) + at(x + 1, y + 1)) * 0.25
        });
    }
    let sum = |products: &[f32]| products[1..].iter().fold(products[0], |sum, product| sum + product);
    picture.each(width, height, |x, y, c| {
        let (left, across) = neighbours(interpolation, x, picture.width, width, true);
        let (top, down) = neighbours(interpolation, y, picture.height, height, false);
        let row = |y| {
            let products: Vec<f32> =
                (left..).zip(&across).map(|(x, weight)| picture.at(x, y, c) * weight).collect();
            sum(&products)
        };
        let products: Vec<f32> = (top..).zip(&down).map(|(y, weight)| row(y) * weight).collect();
        sum(&products)
    })
}
