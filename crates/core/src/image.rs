//! Images in memory: produced by decoders, changed by transforms, copied by packers.

use crate::sequence::ValueForm;
use crate::stream::ElementType;

/// The properties of an image without its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageInfo {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Values per pixel: 1 (gray), 3 (blue, green, red), or any number from user code.
    pub channels: u32,
    /// Type of the values.
    pub depth: Depth,
    /// Order of the values.
    pub order: PixelOrder,
}

impl ImageInfo {
    /// Describes an image as decoders produce it: bytes, pixel by pixel.
    pub fn decoded(width: u32, height: u32, channels: u32) -> ImageInfo {
        ImageInfo { width, height, channels, depth: Depth::Byte, order: PixelOrder::Interleaved }
    }

    /// Returns the number of values, or `usize::MAX`, which no memory can hold, if it overflows.
    pub fn values(&self) -> usize {
        (self.width as usize).saturating_mul(self.height as usize).saturating_mul(self.channels as usize)
    }

    /// Returns CNTK's shape of a sample, first dimension varying fastest: channels, width, height,
    /// or for planar images width, height, channels.
    pub fn shape(&self) -> [usize; 3] {
        let (width, height, channels) = (self.width as usize, self.height as usize, self.channels as usize);
        match self.order {
            PixelOrder::Interleaved => [channels, width, height],
            PixelOrder::Planar => [width, height, channels],
        }
    }
}

/// Type of an image's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// 8 bits, 0 to 255.
    Byte,
    /// The stream's type, `f32` or `f64`.
    Element(ElementType),
}

impl Depth {
    /// Returns the depth for a stream's element type.
    #[doc(hidden)]
    pub fn of(element: ElementType) -> Depth {
        match element {
            ElementType::UInt8 => Depth::Byte,
            element => Depth::Element(element),
        }
    }

    /// Returns the type of the values.
    #[doc(hidden)]
    pub fn element(self) -> ElementType {
        match self {
            Depth::Byte => ElementType::UInt8,
            Depth::Element(element) => element,
        }
    }
}

/// The order of an image's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelOrder {
    /// Row by row, in a row pixel by pixel, in a pixel channel by channel.
    Interleaved,
    /// Channel by channel, each row by row. No transform accepts such an image (CNTK 2.7).
    Planar,
}

/// An image. Its memory is reused for the next one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Image {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Values per pixel.
    pub channels: u32,
    /// Whether the values are planar instead of interleaved.
    pub planar: bool,
    /// The values: `width * height * channels`.
    pub pixels: Pixels,
}

impl Image {
    /// Returns the properties of the image, without its values.
    pub fn info(&self) -> ImageInfo {
        let Image { width, height, channels, planar, ref pixels } = *self;
        let order = if planar { PixelOrder::Planar } else { PixelOrder::Interleaved };
        ImageInfo { width, height, channels, depth: pixels.depth(), order }
    }
}

/// The values of an image.
#[derive(Debug, Clone, PartialEq)]
pub enum Pixels {
    /// 8 bits, 0 to 255.
    Bytes(Vec<u8>),
    /// Single precision.
    Floats(Vec<f32>),
    /// Double precision.
    Doubles(Vec<f64>),
}

impl Pixels {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Pixels::Bytes(values) => values.len(),
            Pixels::Floats(values) => values.len(),
            Pixels::Doubles(values) => values.len(),
        }
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps only the first `count` values.
    pub fn truncate(&mut self, count: usize) {
        match self {
            Pixels::Bytes(values) => values.truncate(count),
            Pixels::Floats(values) => values.truncate(count),
            Pixels::Doubles(values) => values.truncate(count),
        }
    }

    /// Returns the values as a stream of this type stores them, or `None` if they have another
    /// type.
    pub fn stored(&self, element: ElementType) -> Option<(&[u8], ValueForm)> {
        match (self, element) {
            (Pixels::Bytes(values), ElementType::UInt8) => Some((values, ValueForm::Whole)),
            (Pixels::Bytes(values), _) => Some((values, ValueForm::Byte)),
            (Pixels::Floats(values), ElementType::Float) => {
                Some((bytemuck::cast_slice(values), ValueForm::Whole))
            }
            (Pixels::Doubles(values), ElementType::Double) => {
                Some((bytemuck::cast_slice(values), ValueForm::Whole))
            }
            _ => None,
        }
    }

    /// Returns the type of the values.
    pub fn depth(&self) -> Depth {
        match self {
            Pixels::Bytes(_) => Depth::Byte,
            Pixels::Floats(_) => Depth::Element(ElementType::Float),
            Pixels::Doubles(_) => Depth::Element(ElementType::Double),
        }
    }
}

impl Default for Pixels {
    fn default() -> Pixels {
        Pixels::Bytes(Vec::new())
    }
}

/// The geometry of an image after its transforms: the visible part of the decoded image, and
/// whether it is mirrored. Targets that refer to positions in the image follow it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// First column of the part, in columns of the decoded image. Negative if `Scale` has padded
    /// the image.
    pub left: f64,
    /// First row of the part.
    pub top: f64,
    /// Columns of the part, in columns of the decoded image.
    pub width: f64,
    /// Rows of the part.
    pub height: f64,
    /// Whether the columns of the part are in reverse order.
    pub mirrored: bool,
    /// Columns of the decoded image.
    pub source_width: u32,
    /// Rows of the decoded image.
    pub source_height: u32,
}

impl Drawn {
    /// Number of values in a sample of this geometry: `left`, `top`, `width`, `height`, 1 if
    /// mirrored, `source_width`, `source_height`.
    pub const VALUES: usize = 7;

    /// Returns the geometry of an unchanged image.
    pub fn whole(width: u32, height: u32) -> Drawn {
        Drawn {
            left: 0.0,
            top: 0.0,
            width: width.into(),
            height: height.into(),
            mirrored: false,
            source_width: width,
            source_height: height,
        }
    }

    /// Maps a point of the decoded image to the part: 0 to 1 from left to right, and from top to
    /// bottom. Points outside the part have coordinates outside this range.
    pub fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let across = (x - self.left) / self.width;
        (if self.mirrored { 1.0 - across } else { across }, (y - self.top) / self.height)
    }

    /// Returns the values of a sample of this geometry.
    pub fn values(&self) -> [f64; Drawn::VALUES] {
        let Drawn { left, top, width, height, mirrored, source_width, source_height } = *self;
        let mirrored = if mirrored { 1.0 } else { 0.0 };
        [left, top, width, height, mirrored, source_width.into(), source_height.into()]
    }

    /// Updates the geometry after a region is cropped from an image of `columns` times `rows`, and
    /// mirrored if `mirrored`.
    #[doc(hidden)]
    pub fn cut(&mut self, (columns, rows): (u32, u32), region: Region, mirrored: bool) {
        let right = columns - region.left - region.width;
        let before = if self.mirrored { right } else { region.left };
        let (x, y) = (self.width / f64::from(columns), self.height / f64::from(rows));
        self.left += f64::from(before) * x;
        self.top += f64::from(region.top) * y;
        (self.width, self.height) = (f64::from(region.width) * x, f64::from(region.height) * y);
        self.mirrored ^= mirrored;
    }

    /// Updates the geometry after columns and rows are added around an image of `columns` times
    /// `rows`.
    #[doc(hidden)]
    pub fn pad(&mut self, (columns, rows): (u32, u32), before: (u32, u32), after: (u32, u32)) {
        let left = if self.mirrored { after.0 } else { before.0 };
        let (x, y) = (self.width / f64::from(columns), self.height / f64::from(rows));
        self.left -= f64::from(left) * x;
        self.top -= f64::from(before.1) * y;
        self.width += (f64::from(before.0) + f64::from(after.0)) * x;
        self.height += (f64::from(before.1) + f64::from(after.1)) * y;
    }
}

/// A part of an image, in pixels of the whole image. Never empty, and within the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Region {
    /// Returns the region that covers a whole image.
    pub fn whole(width: u32, height: u32) -> Region {
        Region { left: 0, top: 0, width, height }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_counted_in_every_type() {
        let kinds = [Pixels::Bytes(vec![1; 6]), Pixels::Floats(vec![1.0; 6]), Pixels::Doubles(vec![1.0; 6])];
        for mut pixels in kinds {
            assert_eq!((pixels.len(), pixels.is_empty()), (6, false));
            pixels.truncate(1);
            assert_eq!((pixels.len(), pixels.is_empty()), (1, false));
            pixels.truncate(0);
            assert_eq!((pixels.len(), pixels.is_empty()), (0, true));
        }
        assert!(Image::default().pixels.is_empty());
    }

    #[test]
    fn nested_mirrored_crops_map_to_the_decoded_image() {
        let region = |left, top, width, height| Region { left, top, width, height };
        let mut drawn = Drawn::whole(100, 80);
        drawn.cut((100, 80), region(10, 20, 40, 30), true);
        assert_eq!(
            drawn,
            Drawn { left: 10.0, top: 20.0, width: 40.0, height: 30.0, mirrored: true, ..drawn }
        );
        assert_eq!(drawn.place(10.0, 20.0), (1.0, 0.0));
        assert_eq!(drawn.place(20.0, 35.0), (0.75, 0.5));
        // Scaled to 80 x 60; its first 20 columns are the last 10 of the part.
        drawn.cut((80, 60), region(0, 0, 20, 60), true);
        assert_eq!(drawn.values(), [40.0, 20.0, 10.0, 30.0, 0.0, 100.0, 80.0]);
        drawn.pad((20, 60), (4, 0), (2, 6));
        assert_eq!(drawn.values(), [38.0, 20.0, 13.0, 33.0, 0.0, 100.0, 80.0]);
    }
}
