//! What crops leave of an image, and what lies around it.
//!
//! CNTK 2.7 copies nothing when it crops: the result is a view of the larger image, until a transform makes a new one. Two
//! things show that. Padding that does not resize takes the border from the larger image, as far as there is one. And
//! transforms that change numbers in place change the larger image; `Color` and `Intensity` do so as if the rows of the view
//! followed each other without anything between them, so that they change pixels beside it and leave out its last rows.
//!
//! A [`Frame`] follows the view while transforms are planned, so that no more of the larger image is made than is going to be
//! looked at. A [`View`] is what the transforms then change.

use super::crop::mirror;
use super::pixels::{Memory, Real, for_pixels};
use cntk_reader_core::image::{Depth, Image, Region};
use std::ops::Range;

/// What has made the image that a view is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    /// The decoder, which can make a part alone.
    Decoder,
    /// The resizing of the transform with this number, which can make a part alone.
    Resize(usize),
    /// Another transform.
    Other,
}

/// The view that transforms have come to, while they are planned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub maker: Maker,
    /// The larger image.
    whole: Region,
    window: Region,
    /// The part of the larger image that is going to be looked at, beside the view in the end.
    needed: Option<Region>,
}

impl Frame {
    /// The view of all of an image.
    pub fn new(maker: Maker, width: u32, height: u32) -> Frame {
        let whole = Region::whole(width, height);
        Frame::part(maker, whole, whole)
    }

    /// The view of a part of an image.
    pub fn part(maker: Maker, whole: Region, window: Region) -> Frame {
        Frame { maker, whole, window, needed: None }
    }

    /// The view, as a part of the larger image.
    pub fn window(&self) -> Region {
        self.window
    }

    /// Whether the larger image has more than the view.
    pub fn is_part(&self) -> bool {
        self.window != self.whole
    }

    /// Whether something of the larger image is between the rows of the view.
    pub fn is_broken(&self) -> bool {
        self.window.width < self.whole.width && self.window.height > 1
    }

    /// Leaves a part of the view.
    pub fn crop(&mut self, part: Region) {
        self.window = within(self.window, part);
    }

    /// The view with the columns and rows around it, as many as are asked for on its left and top, right and bottom, and as
    /// the larger image has.
    pub fn around(&self, (left, top): (u32, u32), (right, bottom): (u32, u32)) -> Region {
        let Region { left: x, top: y, width, height } = self.window;
        let (left, top) = (left.min(x), top.min(y));
        let right = right.min(self.whole.width - x - width);
        let bottom = bottom.min(self.whole.height - y - height);
        Region { left: x - left, top: y - top, width: left + width + right, height: top + height + bottom }
    }

    /// Says that the view as it is now is going to be looked at.
    pub fn need_window(&mut self) {
        self.need(self.window);
    }

    /// Says that all columns are going to be looked at in the rows of the view.
    pub fn need_rows(&mut self) {
        self.need(Region { left: 0, width: self.whole.width, ..self.window });
    }

    /// Says that all of the larger image is going to be looked at.
    pub fn need_all(&mut self) {
        self.need(self.whole);
    }

    /// Says that a part of the larger image is going to be looked at.
    pub fn need(&mut self, part: Region) {
        self.needed = Some(self.needed.map_or(part, |needed| union(needed, part)));
    }

    /// The part of the larger image that has to be made.
    pub fn made(&self) -> Region {
        self.needed.map_or(self.window, |needed| union(needed, self.window))
    }
}

/// The place of a part of a region in what the region lies in.
fn within(region: Region, part: Region) -> Region {
    Region { left: region.left + part.left, top: region.top + part.top, ..part }
}

/// The smallest region that has both.
fn union(one: Region, other: Region) -> Region {
    let (left, top) = (one.left.min(other.left), one.top.min(other.top));
    let right = (one.left + one.width).max(other.left + other.width);
    let bottom = (one.top + one.height).max(other.top + other.height);
    Region { left, top, width: right - left, height: bottom - top }
}

/// A view of an image, whose pixels are interleaved.
pub(super) struct View<'a> {
    /// What was made of the larger image.
    pub image: &'a mut Image,
    /// Where the larger image has the first pixel of `image`: column and row.
    origin: (u32, u32),
    /// The view, as a part of the larger image.
    window: Region,
}

impl<'a> View<'a> {
    /// The view `window` of an image, of which the part `made` is in memory.
    pub fn new(image: &'a mut Image, window: Region, made: Region) -> View<'a> {
        View { image, origin: (made.left, made.top), window }
    }

    /// Where the view is in what is in memory of the larger image.
    pub fn place(&self) -> Region {
        let Region { left, top, width, height } = self.window;
        Region { left: left - self.origin.0, top: top - self.origin.1, width, height }
    }

    /// The view of the image after it was made anew.
    pub fn restart(&mut self) {
        let whole = Region::whole(self.image.width, self.image.height);
        self.restart_in(whole, whole);
    }

    /// The view of the image after it was made anew, as the part `made` of a larger one.
    pub fn restart_in(&mut self, whole: Region, made: Region) {
        (self.origin, self.window) = ((made.left, made.top), whole);
    }

    /// Leaves a part of the view, and reverses the order of its columns.
    pub fn crop(&mut self, part: Region, mirrored: bool) {
        self.window = within(self.window, part);
        if mirrored {
            let (channels, lines) = (self.image.channels as usize, self.lines(self.window));
            for_pixels!(&mut self.image.pixels, values => {
                lines.for_each(|line| mirror(&mut values[line], channels));
            });
        }
    }

    /// Makes an image of its own of the view, in place.
    pub fn settle(&mut self) -> &mut Image {
        let Region { width, height, .. } = self.window;
        if self.is_part() {
            let lines = self.lines(self.window);
            for_pixels!(&mut self.image.pixels, values => {
                let mut end = 0;
                for line in lines {
                    // Lines move towards the beginning only, over those that have moved already.
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

    /// Makes an image of its own of the view, unless it consists of numbers of the stream's type, which are changed in place.
    pub fn settle_for<T: Real>(&mut self) {
        if self.image.pixels.depth() != Depth::Element(T::TYPE) {
            self.settle();
        }
    }

    /// The values of the view, in ranges of the image's values: of each row, or of all rows if nothing is between them.
    pub fn rows(&self) -> Lines {
        let all = Lines { at: 0, stride: 0, length: self.image.info().values(), left: 1 };
        if self.is_part() { self.lines(self.window).joined() } else { all }
    }

    /// As many of the image's values as the view has, from its first one on: what `Color` and `Intensity` change (CNTK 2.7).
    pub fn run(&self) -> Range<usize> {
        let Lines { at, length, left, .. } = self.lines(self.window);
        at..at + length * left
    }

    /// The rows of a part of the larger image that is in memory, in ranges of the image's values.
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

    /// Columns and rows of a part of the larger image before the view.
    pub fn before(&self, part: Region) -> (u32, u32) {
        (self.window.left - part.left, self.window.top - part.top)
    }

    /// Puts values that were computed from those at `places` in their place. If that is all of the image, the image gets their
    /// memory.
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

    /// Whether more of the larger image is in memory than the view.
    fn is_part(&self) -> bool {
        (self.image.width, self.image.height) != (self.window.width, self.window.height)
    }
}

/// Ranges of an image's values.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    at: usize,
    /// From the beginning of a range to that of the next one.
    stride: usize,
    length: usize,
    /// How many there are.
    left: usize,
}

impl Lines {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.left
    }

    /// The range with a number, or the last one; there has to be one.
    pub fn nearest(&self, number: usize) -> Range<usize> {
        let at = self.at + number.min(self.left.saturating_sub(1)) * self.stride;
        at..at + self.length
    }

    /// A single range, if nothing is between them.
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

    /// The value of a channel of a pixel.
    fn at(x: u32, y: u32, channels: u32, c: u32) -> u8 {
        ((y * 7 + x) * channels + c) as u8
    }

    /// A part of an image of 7 columns and 5 rows.
    fn image(part: Region, channels: u32) -> Image {
        let Region { left, top, width, height } = part;
        let pixels = (top..top + height).flat_map(|y| (left..left + width).map(move |x| (x, y)));
        let values = pixels.flat_map(|(x, y)| (0..channels).map(move |c| at(x, y, channels, c))).collect();
        Image { width, height, channels, planar: false, pixels: Pixels::Bytes(values) }
    }

    #[test]
    fn rows_move_and_turn_round() {
        let whole = Region::whole(7, 5);
        for channels in 1..6u32 {
            for (part, mirrored) in [
                (region(2, 1, 4, 3), false),
                (region(2, 1, 4, 3), true),
                (region(6, 4, 1, 1), true),
                (region(0, 1, 7, 3), true),
                (whole, true),
            ] {
                // All of it is in memory, or what is needed.
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
    fn what_lies_around_a_view_ends_with_the_larger_image() {
        let mut frame = Frame::new(Maker::Decoder, 7, 5);
        frame.crop(region(2, 1, 4, 3));
        frame.crop(region(1, 1, 2, 1));
        assert_eq!(frame.made(), region(3, 2, 2, 1));
        assert_eq!(frame.around((1, 0), (1, 0)), region(2, 2, 4, 1));
        assert_eq!(frame.around((9, 9), (9, 9)), Region::whole(7, 5));
        frame.need(frame.around((0, 1), (0, 0)));
        frame.crop(region(1, 0, 1, 1));
        assert_eq!(frame.made(), region(3, 1, 2, 2), "what is needed and the view in the end");
    }

    #[test]
    fn values_lie_in_rows_or_follow_each_other() {
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
