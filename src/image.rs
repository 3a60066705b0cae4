//! Images in memory: what decoders make, transforms change and packers copy.

use crate::stream::ElementType;

/// What is known of an image without its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageInfo {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Values of a pixel: 1 (gray), 3 (blue, green, red), or what users' code makes.
    pub channels: u32,
    /// Type of the values.
    pub depth: Depth,
    /// How the values are ordered.
    pub order: PixelOrder,
}

impl ImageInfo {
    /// An image as decoders make it: bytes, pixel after pixel.
    pub fn decoded(width: u32, height: u32, channels: u32) -> ImageInfo {
        ImageInfo { width, height, channels, depth: Depth::Byte, order: PixelOrder::Interleaved }
    }

    /// Number of values. More than `usize` can count are `usize::MAX`, which no memory can hold.
    pub fn values(&self) -> usize {
        (self.width as usize).saturating_mul(self.height as usize).saturating_mul(self.channels as usize)
    }

    /// CNTK's shape of a sample, first dimension varying fastest: channels, width, height, or transposed width, height,
    /// channels.
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

/// How an image's values are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelOrder {
    /// Row after row, in a row pixel after pixel, in a pixel channel after channel.
    Interleaved,
    /// Channel after channel, each row after row. No transform takes such an image (CNTK 2.7).
    Planar,
}

/// An image. Its memory is used again for the next one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Image {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Values of a pixel.
    pub channels: u32,
    /// The values are planar instead of interleaved.
    pub planar: bool,
    /// The values: `width * height * channels`.
    pub pixels: Pixels,
}

impl Image {
    /// What it is, without its values.
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
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Pixels::Bytes(values) => values.len(),
            Pixels::Floats(values) => values.len(),
            Pixels::Doubles(values) => values.len(),
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keeps the first `count` values.
    pub fn truncate(&mut self, count: usize) {
        match self {
            Pixels::Bytes(values) => values.truncate(count),
            Pixels::Floats(values) => values.truncate(count),
            Pixels::Doubles(values) => values.truncate(count),
        }
    }

    /// Type of the values.
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
    /// The whole of an image.
    pub fn whole(width: u32, height: u32) -> Region {
        Region { left: 0, top: 0, width, height }
    }
}
