//! Cropped views of images, and their surroundings.
//!
//! CNTK 2.7 does not copy when it crops: the result is a view of the larger image until a transform
//! creates a new one. Two effects are visible. Padding without resizing takes the border from the
//! larger image, where it has one. And transforms that change values in place change the larger
//! image. `Color` and `Intensity` treat the rows of the view as contiguous, so they change pixels
//! beside it and miss its last rows.
//!
//! A [`Frame`] tracks the view during planning, so that only the needed part of the larger image is
//! computed. A [`View`] is then transformed.

use super::crop::mirror;
use super::pixels::{Memory, Real, for_pixels};
use cntk_reader_core::image::{Depth, Image, Region};
use std::ops::Range;

/// The producer of the image that a view is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    /// The decoder, which can produce only a part.
    Decoder,
    /// The resize of the transform with this number, which can produce only a part.
    Resize(usize),
    /// Another transform.
    Other,
}

/// The view during planning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub maker: Maker,
    /// The larger image.
    whole: Region,
    window: Region,
    /// The part of the larger image that transforms read, in addition to the final view.
    needed: Option<Region>,
}

impl Frame {
    /// Creates a view of a whole image.
    pub fn new(maker: Maker, width: u32, height: u32) -> Frame {
        let whole = Region::whole(width, height);
        Frame::part(maker, whole, whole)
    }

    /// Creates a view of a part of an image.
    pub fn part(maker: Maker, whole: Region, window: Region) -> Frame {
        Frame { maker, whole, window, needed: None }
    }

    /// Returns the view as a part of the larger image.
    pub fn window(&self) -> Region {
        self.window
    }

    /// Returns whether the view is smaller than the larger image.
    pub fn is_part(&self) -> bool {
        self.window != self.whole
    }

    /// Returns whether other pixels of the larger image lie between the rows of the view.
    pub fn is_broken(&self) -> bool {
        self.window.width < self.whole.width && self.window.height > 1
    }

    /// Reduces the view to a part of it.
    pub fn crop(&mut self, part: Region) {
        self.window = within(self.window, part);
    }

    /// Returns the view extended by columns and rows to the left and top, and to the right and
    /// bottom, clipped to the larger image.
    pub fn around(&self, (left, top): (u32, u32), (right, bottom): (u32, u32)) -> Region {
        let Region { left: x, top: y, width, height } = self.window;
        let (left, top) = (left.min(x), top.min(y));
        let right = right.min(self.whole.width - x - width);
        let bottom = bottom.min(self.whole.height - y - height);
        Region { left: x - left, top: y - top, width: left + width + right, height: top + height + bottom }
    }

    /// Records that the current view is read.
    pub fn need_window(&mut self) {
        self.need(self.window);
    }

    /// Records that all columns are read in the rows of the view.
    pub fn need_rows(&mut self) {
        self.need(Region { left: 0, width: self.whole.width, ..self.window });
    }

    /// Records that the whole larger image is read.
    pub fn need_all(&mut self) {
        self.need(self.whole);
    }

    /// Records that a part of the larger image is read.
    pub fn need(&mut self, part: Region) {
        self.needed = Some(self.needed.map_or(part, |needed| union(needed, part)));
    }

    /// Returns the part of the larger image that must be produced.
    pub fn made(&self) -> Region {
        self.needed.map_or(self.window, |needed| union(needed, self.window))
    }
}

/// Translates a part of a region to the coordinates of the region's image.
fn within(region: Region, part: Region) -> Region {
    Region { left: region.left + part.left, top: region.top + part.top, ..part }
}

/// Returns the smallest region that contains both.
fn union(one: Region, other: Region) -> Region {
    let (left, top) = (one.left.min(other.left), one.top.min(other.top));
    let right = (one.left + one.width).max(other.left + other.width);
    let bottom = (one.top + one.height).max(other.top + other.height);
    Region { left, top, width: right - left, height: bottom - top }
}

/// A view of an image with interleaved pixels.
pub(super) struct View<'a> {
    /// The produced part of the larger image.
    pub image: &'a mut Image,
    /// Column and row of the first pixel of `image` in the larger image.
    origin: (u32, u32),
    /// The view, as a part of the larger image.
    window: Region,
}

impl<'a> View<'a> {
    /// Creates the view `window` of an image of which the part `made` is in memory.
    pub fn new(image: &'a mut Image, window: Region, made: Region) -> View<'a> {
        View { image, origin: (made.left, made.top), window }
    }

    /// Returns the view in the coordinates of `image`.
    pub fn place(&self) -> Region {
        let Region { left, top, width, height } = self.window;
        Region { left: left - self.origin.0, top: top - self.origin.1, width, height }
    }

    /// Resets the view to the whole image after the image was replaced.
    pub fn restart(&mut self) {
        let whole = Region::whole(self.image.width, self.image.height);
        self.restart_in(whole, whole);
    }

    /// Resets the view to the whole larger image after `image` was replaced by its part `made`.
    pub fn restart_in(&mut self, whole: Region, made: Region) {
        (self.origin, self.window) = ((made.left, made.top), whole);
    }

    /// Reduces the view to a part of it. If `mirrored`, reverses the order of its columns.
    pub fn crop(&mut self, part: Region, mirrored: bool) {
        self.window = within(self.window, part);
        if mirrored {
            let (channels, lines) = (self.image.channels as usize, self.lines(self.window));
            for_pixels!(&mut self.image.pixels, values => {
                lines.for_each(|line| mirror(&mut values[line], channels));
            });
        }
    }

    /// Turns the view into a separate image, in place.
    pub fn settle(&mut self) -> &mut Image {
        let Region { width, height, .. } = self.window;
        if self.is_part() {
            let lines = self.lines(self.window);
            for_pixels!(&mut self.image.pixels, values => {
                let mut end = 0;
                for line in lines {
                    // Lines only move towards the beginning, over lines already moved.
                    let length = line.len();
                    values.copy_within(line, end);
                    end += length;
                }
                values.truncate(end);
            });
            (self.image.width, self.image.height) = (width, height);
        }
        self.restart();
        self.image
    }

    /// Turns the view into a separate image, unless its values have the stream's type and are
    /// changed in place.
    pub fn settle_for<T: Real>(&mut self) {
        if self.image.pixels.depth() != Depth::Element(T::TYPE) {
            self.settle();
        }
    }

    /// Returns the view as ranges of the image's values: one per row, or a single one if the rows
    /// are contiguous.
    pub fn rows(&self) -> Lines {
        let all = Lines { at: 0, stride: 0, length: self.image.info().values(), left: 1 };
        if self.is_part() { self.lines(self.window).joined() } else { all }
    }

    /// Returns the range of values that `Color` and `Intensity` change: as many as the view has,
    /// contiguous from its first one (CNTK 2.7).
    pub fn run(&self) -> Range<usize> {
        let Lines { at, length, left, .. } = self.lines(self.window);
        at..at + length * left
    }

    /// Returns the rows of a part of the larger image, which must be in memory, as ranges of the
    /// image's values.
    pub fn lines(&self, part: Region) -> Lines {
        let channels = self.image.channels as usize;
        let stride = self.image.width as usize * channels;
        let (left, top) = ((part.left - self.origin.0) as usize, (part.top - self.origin.1) as usize);
        Lines {
            at: top * stride + left * channels,
            stride,
            length: part.width as usize * channels,
            left: part.height as usize,
        }
    }

    /// Returns the number of columns and rows of a part of the larger image before the view.
    pub fn before(&self, part: Region) -> (u32, u32) {
        (self.window.left - part.left, self.window.top - part.top)
    }

    /// Stores values computed from those at `places` in their place. If the view is the whole
    /// image, replaces the image's buffer.
    pub fn store<T: Real>(
        &mut self,
        values: Vec<T>,
        places: impl Iterator<Item = Range<usize>>,
        memory: &mut Memory,
    ) {
        if !self.is_part() {
            return memory.replace(&mut self.image.pixels, values);
        }
        if let Some(target) = T::values(&mut self.image.pixels) {
            let mut rest = values.as_slice();
            for place in places {
                let (part, more) = rest.split_at(place.len());
                target[place].copy_from_slice(part);
                rest = more;
            }
        }
        memory.keep(values);
    }

    /// Returns whether more of the larger image is in memory than the view.
    fn is_part(&self) -> bool {
        (self.image.width, self.image.height) != (self.window.width, self.window.height)
    }
}

/// Equally spaced ranges of an image's values.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    at: usize,
    /// Distance between the starts of consecutive ranges.
    stride: usize,
    length: usize,
    /// Number of remaining ranges.
    left: usize,
}

impl Lines {
    /// Returns the number of remaining ranges.
    pub fn len(&self) -> usize {
        self.left
    }

    /// Returns the range with a number, or the last one. There must be at least one.
    pub fn nearest(&self, number: usize) -> Range<usize> {
        let at = self.at + number.min(self.left.saturating_sub(1)) * self.stride;
        at..at + self.length
    }

    /// Merges contiguous ranges into a single one.
    fn joined(self) -> Lines {
        match self {
            Lines { at, stride, length, left } if length == stride => {
                Lines { at, stride, length: length * left, left: left.min(1) }
            }
            lines => lines,
        }
    }
}

impl Iterator for Lines {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at += self.stride;
        Some(at..at + self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::image::Pixels;

    fn region(left: u32, top: u32, width: u32, height: u32) -> Region {
        Region { left, top, width, height }
    }

    /// Returns the value of a channel of a pixel.
    fn at(x: u32, y: u32, channels: u32, c: u32) -> u8 {
        ((y * 7 + x) * channels + c) as u8
    }

    /// Returns a part of an image of 7 columns and 5 rows.
    fn image(part: Region, channels: u32) -> Image {
        let Region { left, top, width, height } = part;
        let pixels = (top..top + height).flat_map(|y| (left..left + width).map(move |x| (x, y)));
        let values = pixels.flat_map(|(x, y)| (0..channels).map(move |c| at(x, y, channels, c))).collect();
        Image { width, height, channels, planar: false, pixels: Pixels::Bytes(values) }
    }

    #[test]
    fn cropped_rows_are_moved_and_mirrored() {
        let whole = Region::whole(7, 5);
        for channels in 1..6u32 {
            for (part, mirrored) in [
                (region(2, 1, 4, 3), false),
                (region(2, 1, 4, 3), true),
                (region(6, 4, 1, 1), true),
                (region(0, 1, 7, 3), true),
                (whole, true),
            ] {
                // With the whole image in memory, or only the needed part.
                for made in [whole, part] {
                    let mut image = image(made, channels);
                    let mut view = View::new(&mut image, whole, made);
                    view.crop(part, mirrored);
                    view.settle();
                    let Region { left, top, width, height } = part;
                    let column = |x: u32| left + if mirrored { width - 1 - x } else { x };
                    let wanted: Vec<u8> = (0..height)
                        .flat_map(|y| (0..width).map(move |x| (column(x), top + y)))
                        .flat_map(|(x, y)| (0..channels).map(move |c| at(x, y, channels, c)))
                        .collect();
                    assert_eq!((image.width, image.height), (width, height));
                    assert_eq!(image.pixels, Pixels::Bytes(wanted), "{part:?} of {channels} channels");
                }
            }
        }
    }

    #[test]
    fn surroundings_end_at_the_larger_image() {
        let mut frame = Frame::new(Maker::Decoder, 7, 5);
        frame.crop(region(2, 1, 4, 3));
        frame.crop(region(1, 1, 2, 1));
        assert_eq!(frame.made(), region(3, 2, 2, 1));
        assert_eq!(frame.around((1, 0), (1, 0)), region(2, 2, 4, 1));
        assert_eq!(frame.around((9, 9), (9, 9)), Region::whole(7, 5));
        frame.need(frame.around((0, 1), (0, 0)));
        frame.crop(region(1, 0, 1, 1));
        assert_eq!(frame.made(), region(3, 1, 2, 2), "the needed part and the final view");
    }

    #[test]
    fn contiguous_rows_are_merged() {
        let mut image = image(Region::whole(7, 5), 2);
        let mut view = View::new(&mut image, Region::whole(7, 5), Region::whole(7, 5));
        let found = |view: &View<'_>| (view.rows().collect::<Vec<_>>(), view.run());
        let (all, rows, lines) = (Some(0..70), Some(14..56), [32..38, 46..52]);
        assert_eq!(found(&view), (all.into_iter().collect(), 0..70));
        view.crop(region(0, 1, 7, 3), false);
        assert_eq!(found(&view), (rows.into_iter().collect(), 14..56), "whole rows");
        view.crop(region(2, 1, 3, 2), false);
        assert_eq!(found(&view), (lines.to_vec(), 32..44));
    }
}
