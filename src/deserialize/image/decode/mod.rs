//! From the bytes of an image file to pixels.
//!
//! The format is found by what a file begins with, never by its name. Each format has a module, which decodes all of an image
//! or, where that saves time (JPEG), a region. What is common to all is here: limits, cutting, turning.

mod gray;
mod jpeg;
mod orient;

use crate::image::{Image, Pixels, Region};
use orient::Orientation;

/// What is asked of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions {
    /// One channel instead of three.
    pub grayscale: bool,
    /// Turn a JPEG image as its EXIF orientation says (CNTK 2.7: images in files, not those in zip files or Base64).
    pub orient: bool,
    /// Most columns times rows.
    pub max_pixels: u64,
}

/// What an image file says of itself before its pixels are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Columns, after the image is turned.
    pub width: u32,
    /// Rows, after the image is turned.
    pub height: u32,
    /// Values of a pixel.
    pub channels: u32,
}

/// Why an image cannot be decoded. The caller knows the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// What was found, and what was expected.
    pub message: String,
}

impl DecodeError {
    fn new(message: impl Into<String>) -> DecodeError {
        DecodeError { message: message.into() }
    }
}

/// Memory and state that one decoding after the other uses; each belongs to one thread at a time.
#[derive(Debug, Default)]
pub struct Decoder {
    jpeg: jpeg::JpegDecoder,
    /// A region before it is turned.
    stored: Vec<u8>,
}

/// A format of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Jpeg,
}

impl Format {
    fn of(file: &[u8]) -> Result<Format, DecodeError> {
        match file {
            [0xFF, 0xD8, ..] => Ok(Format::Jpeg),
            _ => Err(DecodeError::new("no image")),
        }
    }
}

impl Decoder {
    /// Reads what the file says of itself.
    pub fn header(&mut self, file: &[u8], options: &DecodeOptions) -> Result<Header, DecodeError> {
        let channels = if options.grayscale { 1 } else { 3 };
        let header = match Format::of(file)? {
            Format::Jpeg => {
                let header = jpeg::header(file)?;
                let (width, height) = orientation(&header, options).size(header.width, header.height);
                Header { width, height, channels }
            }
        };
        let pixels = u64::from(header.width) * u64::from(header.height);
        if pixels > options.max_pixels {
            return Err(DecodeError::new(format!(
                "the image has {} columns and {} rows, which are more than the {} pixels that may be decoded; \
                 raise the limit, or make the image smaller",
                header.width, header.height, options.max_pixels
            )));
        }
        Ok(header)
    }

    /// Decodes a part of the image into `image`, which gets the part's size. `region` lies in the image as
    /// [`Decoder::header`] describes it. The pixels are those of the same part of the whole decoded image, whatever of the
    /// rest is left out.
    pub fn decode(
        &mut self,
        file: &[u8],
        options: &DecodeOptions,
        region: Region,
        image: &mut Image,
    ) -> Result<(), DecodeError> {
        let header = self.header(file, options)?;
        let is_within = |start: u32, length: u32, end: u32| {
            length > 0 && start.checked_add(length).is_some_and(|past| past <= end)
        };
        if !is_within(region.left, region.width, header.width)
            || !is_within(region.top, region.height, header.height)
        {
            return Err(DecodeError::new("the part that is asked for is not in the image"));
        }
        (image.width, image.height, image.channels) = (region.width, region.height, header.channels);
        image.planar = false;
        let size = region.width as usize * region.height as usize * header.channels as usize;
        let pixels = bytes(&mut image.pixels, size);
        match Format::of(file)? {
            Format::Jpeg => self.decode_jpeg(file, options, region, pixels),
        }
    }

    fn decode_jpeg(
        &mut self,
        file: &[u8],
        options: &DecodeOptions,
        region: Region,
        pixels: &mut [u8],
    ) -> Result<(), DecodeError> {
        let header = jpeg::header(file)?;
        let orientation = orientation(&header, options);
        if orientation == Orientation::UPRIGHT {
            return self.jpeg.decode(file, options.grayscale, region, pixels);
        }
        let source = orientation.source(region, header.width, header.height);
        self.stored.resize(pixels.len(), 0);
        self.jpeg.decode(file, options.grayscale, source, &mut self.stored)?;
        if options.grayscale {
            orientation.turn::<1>(&self.stored, source, pixels);
        } else {
            orientation.turn::<3>(&self.stored, source, pixels);
        }
        Ok(())
    }
}

fn orientation(header: &jpeg::JpegHeader<'_>, options: &DecodeOptions) -> Orientation {
    match header.exif {
        Some(data) if options.orient => Orientation::from_exif(data),
        _ => Orientation::UPRIGHT,
    }
}

/// Makes the pixels `size` bytes. All of them are to be overwritten: those of the image before may be left.
fn bytes(pixels: &mut Pixels, size: usize) -> &mut [u8] {
    if !matches!(pixels, Pixels::Bytes(_)) {
        *pixels = Pixels::Bytes(Vec::new());
    }
    match pixels {
        Pixels::Bytes(bytes) => {
            bytes.resize(size, 0);
            bytes
        }
        _ => &mut [],
    }
}
