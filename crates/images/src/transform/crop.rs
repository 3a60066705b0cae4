//! `Crop`: takes a part of the image, in the middle, at a corner or at random, optionally mirrored.

use super::random::RandomSource;
use crate::transform::{CropKind, CropOptions, CropRatio};
use cntk_reader_core::image::{ImageInfo, Region};
use cntk_reader_core::{Error, Result};

/// Attempts to draw a size that fits into the image. After that the whole image is taken (CNTK
/// 2.7).
const ATTEMPTS: usize = 10;

/// The part of an image to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub region: Region,
    /// Columns in reverse order.
    pub mirrored: bool,
}

/// The quantities drawn for a crop, in order.
const SIZE: u64 = 1;
const LEFT: u64 = 2;
const TOP: u64 = 3;
const FLIP: u64 = 4;

/// Chooses the part of an image. `copy` is the number of the view in multi-view mode.
pub(super) fn plan(
    options: &CropOptions,
    image: &ImageInfo,
    copy: u32,
    source: &mut impl RandomSource,
) -> Result<Cut> {
    source.begin(SIZE);
    let (width, height) = size(options, image, source);
    if width == 0 || height == 0 {
        let message =
            format!("Crop leaves nothing of an image of {} columns and {} rows.", image.width, image.height);
        let advice = "At least one pixel in each direction must remain: enlarge ‹side_ratio› or ‹area_ratio›, or bring \
                      ‹aspect_ratio› closer to 1.";
        return Err(Error::data(message).with_detail(advice));
    }
    let (right, bottom) = (image.width - width, image.height - height);
    let (left, top, mirrored) = match options.kind {
        CropKind::Center => (right / 2, bottom / 2, false),
        CropKind::Random => {
            source.begin(LEFT);
            let left = source.integer(right);
            source.begin(TOP);
            (left, source.integer(bottom), false)
        }
        CropKind::MultiView10 => {
            let (left, top) = match copy % 5 {
                0 => (0, 0),
                1 => (right, 0),
                2 => (0, bottom),
                3 => (right, bottom),
                _ => (right / 2, bottom / 2),
            };
            (left, top, copy % 10 >= 5)
        }
    };
    let is_flipped = options.flip && options.kind != CropKind::MultiView10;
    source.begin(FLIP);
    let mirrored = if is_flipped { source.coin() } else { mirrored };
    Ok(Cut { region: Region { left, top, width, height }, mirrored })
}

/// Returns the width and height of the part. They fit into the image, but may be 0.
fn size(options: &CropOptions, image: &ImageInfo, source: &mut impl RandomSource) -> (u32, u32) {
    let (width, height) = options.size;
    if width > 0 && height > 0 {
        return (width.min(image.width), height.min(image.height));
    }
    let (whole_width, whole_height) = (f64::from(image.width), f64::from(image.height));
    let (mut width, mut height) = (image.width, image.height);
    for _ in 0..ATTEMPTS {
        match options.ratio {
            CropRatio::None => {}
            CropRatio::Side(low, high) => {
                let ratio = jitter(options, (low, high), source);
                width = (whole_width.min(whole_height) * ratio).round() as u32;
                height = width;
            }
            CropRatio::Area(low, high) => {
                let ratio = jitter(options, (low, high), source);
                width = (whole_width * whole_height * ratio).sqrt().round() as u32;
                height = width;
            }
        }
        let aspect = jitter(options, options.aspect, source);
        if aspect != 1.0 {
            // Without a ratio, each attempt starts from the result of the preceding one, as in CNTK
            // 2.7.
            let area = f64::from(width) * f64::from(height);
            let (long, short) = ((area * aspect).sqrt() as u32, (area / aspect).sqrt() as u32);
            (width, height) = if source.coin() { (long, short) } else { (short, long) };
        }
        if width <= image.width && height <= image.height {
            return (width, height);
        }
    }
    (image.width, image.height)
}

/// Draws a number between the bounds, or returns the lower one.
fn jitter(options: &CropOptions, (low, high): (f64, f64), source: &mut impl RandomSource) -> f64 {
    if options.jitter && low < high { source.real(low, high) } else { low }
}

/// Reverses the order of a row's pixels.
pub(super) fn mirror<V>(row: &mut [V], channels: usize) {
    match channels {
        1 => row.reverse(),
        3 => row.as_chunks_mut::<3>().0.reverse(),
        4 => row.as_chunks_mut::<4>().0.reverse(),
        _ => {
            row.reverse();
            row.chunks_mut(channels).for_each(<[V]>::reverse);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::random::MersenneTwister;

    fn options(kind: CropKind, ratio: CropRatio) -> CropOptions {
        let flip = kind == CropKind::Random;
        CropOptions { kind, size: (0, 0), ratio, aspect: (1.0, 1.0), jitter: false, flip, seed: 0 }
    }

    fn cut(left: u32, top: u32, width: u32, height: u32, mirrored: bool) -> Cut {
        Cut { region: Region { left, top, width, height }, mirrored }
    }

    /// Matches CNTK 2.7: consecutive images of 64 by 48.
    #[test]
    fn random_crops_match_cntk() {
        let (n, y) = (false, true);
        let side = CropRatio::Side(0.5, 0.5);
        let seed_0 = [(22, 14, n), (34, 15, n), (22, 21, y), (25, 16, y), (17, 7, n), (2, 24, y)];
        let seed_7 = [(3, 5, n), (13, 10, n), (29, 11, n), (12, 13, y), (20, 2, y), (17, 6, y)];
        let area = [(20, 12, n), (31, 12, n), (20, 17, y)];
        let cases = [
            (0, side, 24, &seed_0[..]),
            (7, side, 24, &seed_7[..]),
            (0, CropRatio::Area(0.25, 0.25), 28, &area[..]),
        ];
        let image = ImageInfo::decoded(64, 48, 3);
        for (seed, ratio, size, wanted) in cases {
            let mut engine = MersenneTwister::new(seed);
            for &(left, top, mirrored) in wanted {
                let found = plan(&options(CropKind::Random, ratio), &image, 0, &mut engine).unwrap();
                assert_eq!(found, cut(left, top, size, size, mirrored), "seed {seed} {ratio:?}");
            }
        }
    }

    /// Matches CNTK 2.7: an image of 13 by 9.
    #[test]
    fn center_crops_match_cntk() {
        let center = |ratio, size| {
            let options = CropOptions { size, ..options(CropKind::Center, ratio) };
            plan(&options, &ImageInfo::decoded(13, 9, 3), 0, &mut MersenneTwister::new(0)).unwrap()
        };
        assert_eq!(center(CropRatio::None, (5, 4)), cut(4, 2, 5, 4, false));
        assert_eq!(center(CropRatio::None, (6, 6)), cut(3, 1, 6, 6, false));
        assert_eq!(center(CropRatio::None, (50, 50)), cut(0, 0, 13, 9, false));
        assert_eq!(center(CropRatio::None, (50, 0)), cut(0, 0, 13, 9, false), "used only if both are given");
        assert_eq!(center(CropRatio::Side(0.5, 1.0), (0, 0)).region.width, 5, "4.5 is rounded up");
        assert_eq!(center(CropRatio::Area(0.5, 0.5), (0, 0)).region.height, 8);
        assert_eq!(center(CropRatio::Area(1.0, 1.0), (0, 0)), cut(0, 0, 13, 9, false), "11 rows do not fit");
    }

    #[test]
    fn ten_views_are_corners_and_middle_plain_and_mirrored() {
        let options = CropOptions { size: (3, 4), ..options(CropKind::MultiView10, CropRatio::None) };
        let corners = [(0, 0), (10, 0), (0, 5), (10, 5), (5, 2)];
        for copy in 0..10 {
            let view =
                plan(&options, &ImageInfo::decoded(13, 9, 3), copy, &mut MersenneTwister::new(0)).unwrap();
            let (left, top) = corners[copy as usize % 5];
            assert_eq!(view, cut(left, top, 3, 4, copy >= 5), "view {copy}");
        }
    }

    #[test]
    fn empty_crop_is_an_error() {
        let options = options(CropKind::Center, CropRatio::Side(0.1, 0.1));
        let error =
            plan(&options, &ImageInfo::decoded(4, 3, 3), 0, &mut MersenneTwister::new(0)).unwrap_err();
        assert_eq!(error.message(), "Crop leaves nothing of an image of 4 columns and 3 rows.");
    }

    /// CNTK's integers overflow at these sizes.
    #[test]
    fn huge_crops_do_not_overflow() {
        let image = ImageInfo::decoded(u32::MAX, u32::MAX, 3);
        for seed in 0..20 {
            let options = CropOptions {
                aspect: (0.5, 2.0),
                jitter: true,
                ..options(CropKind::Random, CropRatio::Area(0.01, 1.0))
            };
            let Region { left, top, width, height } =
                plan(&options, &image, 0, &mut MersenneTwister::new(seed)).unwrap().region;
            assert!(left.checked_add(width).is_some() && top.checked_add(height).is_some());
        }
    }
}
