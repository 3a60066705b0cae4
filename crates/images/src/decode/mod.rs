//! Decoders of image files.
//!
//! Formats are recognized by a file's first bytes, never by its name. Each format has a module,
//! which decodes the whole image or, where that is faster (JPEG), a region. The common parts are
//! here: limits, cropping, orientation.

mod bmp;
mod bytes;
mod gray;
mod jpeg;
mod orient;
mod other;
mod png;
mod pnm;
mod raster;
mod tiff;
mod webp;

use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::image::{Image, Pixels, Region};
use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, ErrorKind};
use orient::Orientation;
use raster::Raster;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Options of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Decode to one channel instead of three.
    pub grayscale: bool,
    /// Apply the EXIF orientation of JPEG images (CNTK 2.7: for image files, not for images in zip
    /// files or Base64).
    pub orient: bool,
    /// The image comes from a zip file or from Base64, not from its own file. CNTK 2.7 treats
    /// truncated images differently there.
    pub in_memory: bool,
    /// Maximum number of pixels.
    pub max_pixels: u64,
    /// The channels of WebP images.
    pub webp: WebpChannels,
}

/// The channels of decoded WebP images. Other formats have one or three, see
/// [`DecodeOptions::grayscale`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebpChannels {
    /// As in other formats; alpha is dropped.
    AsAsked,
    /// Four if there is an alpha channel: blue, green, red, alpha. Otherwise as in other formats.
    WithAlpha,
    /// As stored, three or four, even if grayscale was requested (CNTK 2.7).
    AsStored,
}

/// Size and channels of an image, known before its pixels are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Columns, after the orientation is applied.
    pub width: u32,
    /// Rows, after the orientation is applied.
    pub height: u32,
    /// Values per pixel.
    pub channels: u32,
}

/// The reason why an image cannot be decoded. The caller adds the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The problem found, and what was expected.
    pub message: String,
    /// Out of memory: the image may be valid.
    pub is_memory: bool,
}

impl DecodeError {
    fn new(message: impl Into<String>) -> DecodeError {
        DecodeError { message: message.into(), is_memory: false }
    }

    /// Converts to the error of an image that has no file of its own.
    pub(crate) fn into_error(self) -> Error {
        match self.is_memory {
            true => Error::new(ErrorKind::Memory, ExceptionClass::Runtime, self.message)
                .with_detail(room::IMAGE.advice),
            false => Error::data(self.message),
        }
    }
}

/// Converts an out-of-memory error.
impl From<Error> for DecodeError {
    fn from(error: Error) -> DecodeError {
        DecodeError { message: error.message().to_owned(), is_memory: true }
    }
}

/// Decoders for all formats, with memory that is reused from image to image. Not shared between
/// threads.
#[derive(Debug, Default)]
pub struct Decoder {
    jpeg: jpeg::JpegDecoder,
    /// A region of a JPEG image before the orientation is applied.
    stored: Vec<u8>,
    /// A whole image in another format.
    raster: Raster,
}

/// An image format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Jpeg,
    Png,
    Bmp,
    Tiff,
    WebP,
    Pnm,
}

impl Format {
    /// Recognizes the format from the first bytes.
    fn of(file: &[u8]) -> Result<Format, DecodeError> {
        let refused = match file {
            [0xFF, 0xD8, 0xFF, ..] => return Ok(Format::Jpeg),
            [b'B', b'M', ..] => return Ok(Format::Bmp),
            [b'P', b'1'..=b'6', blank, ..] if blank.is_ascii_whitespace() => return Ok(Format::Pnm),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => return Ok(Format::Png),
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => return Ok(Format::Tiff),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return Ok(Format::WebP),
            [b'G', b'I', b'F', b'8', ..] => "is a GIF image",
            [0x59, 0xA6, 0x6A, 0x95, ..] => "is a Sun raster image",
            [0, 0, 0, 12, b'j', b'P', b' ', b' ', ..] | [0xFF, 0x4F, 0xFF, 0x51, ..] => {
                "is a JPEG 2000 image"
            }
            [0x76, 0x2F, 0x31, 0x01, ..] => "is an OpenEXR image",
            [b'#', b'?', b'R', b'A', b'D', b'I', b'A', b'N', b'C', b'E', ..]
            | [b'#', b'?', b'R', b'G', b'B', b'E', ..] => "is a Radiance image",
            [] => "is empty",
            _ => other::describe(file).unwrap_or("is not an image of a format that is known"),
        };
        let remedy = other::remedy(file).unwrap_or("convert it to one of these");
        Err(DecodeError::new(format!(
            "the file {refused}, where JPEG, PNG, BMP, TIFF, WebP, PBM, PGM or PPM is expected; {remedy}"
        )))
    }
}

/// Runs a decoder of another crate. If it panics on unexpected data, that is an error of one image,
/// not the end of the reader. (The raster of a failed image is discarded.)
fn guarded<T>(decode: impl FnOnce() -> Result<T, DecodeError>) -> Result<T, DecodeError> {
    let panicked =
        |_| Err(DecodeError::new("the image is damaged in a way that its decoder does not expect"));
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(panicked)
}

impl Decoder {
    /// Parses the header and checks the size against the limit.
    pub fn header(&mut self, file: &[u8], options: &DecodeOptions) -> Result<Header, DecodeError> {
        // `stored`: the number of stored channels, if it matters.
        let (width, height, stored) = match Format::of(file)? {
            Format::Jpeg => {
                let header = jpeg::header(file)?;
                let (width, height) = orientation(&header, options).size(header.width, header.height);
                (width, height, None)
            }
            Format::Bmp => {
                let header = bmp::header(file)?;
                (header.width, header.height, None)
            }
            Format::Pnm => {
                let header = pnm::header(file)?;
                (header.width, header.height, None)
            }
            Format::Png => {
                let (width, height) = png::size(file)?;
                (width, height, None)
            }
            Format::Tiff => {
                let (width, height) = tiff::size(file)?;
                (width, height, None)
            }
            Format::WebP => {
                let (width, height, channels) = guarded(|| webp::size(file))?;
                (width, height, Some(channels))
            }
        };
        if width == 0 || height == 0 {
            return Err(DecodeError::new(format!("the image has {width} columns and {height} rows")));
        }
        let pixels = u64::from(width) * u64::from(height);
        if pixels > options.max_pixels {
            return Err(DecodeError::new(format!(
                "the image has {width} columns and {height} rows, which are more than the {} pixels that may be decoded; \
                 raise the limit, or make the image smaller",
                options.max_pixels
            )));
        }
        let asked = if options.grayscale { 1 } else { 3 };
        let channels = match (options.webp, stored) {
            (WebpChannels::AsStored, Some(stored)) => stored,
            (WebpChannels::WithAlpha, Some(4)) => 4,
            _ => asked,
        };
        Ok(Header { width, height, channels })
    }

    /// Returns the damage found in the decoded part of the image decoded last.
    pub(crate) fn damage(&self) -> Option<String> {
        let faults = self.jpeg.faults()?;
        Some(format!("the JPEG data are damaged: they have {faults}"))
    }

    /// Decodes a region of the image into `image`, which gets the region's size. `region` must lie
    /// in the image as [`Decoder::header`] describes it. The pixels equal those of the same region
    /// of the whole decoded image, however much of the rest is skipped.
    pub fn decode(
        &mut self,
        file: &[u8],
        options: &DecodeOptions,
        region: Region,
        image: &mut Image,
    ) -> Result<(), DecodeError> {
        self.jpeg.forget_faults();
        let header = self.header(file, options)?;
        let is_within = |start: u32, length: u32, end: u32| {
            length > 0 && start.checked_add(length).is_some_and(|past| past <= end)
        };
        if !is_within(region.left, region.width, header.width)
            || !is_within(region.top, region.height, header.height)
        {
            return Err(DecodeError::new("the requested region is outside the image"));
        }
        (image.width, image.height, image.channels) = (region.width, region.height, header.channels);
        image.planar = false;
        let size = region.width as usize * region.height as usize * header.channels as usize;
        let pixels = bytes(&mut image.pixels, size)?;
        let raster = &mut self.raster;
        match Format::of(file)? {
            Format::Jpeg => return self.decode_jpeg(file, options, region, pixels),
            Format::Bmp => bmp::decode(file, options.in_memory, raster),
            Format::Pnm => pnm::decode(file, raster),
            Format::Png => guarded(|| png::decode(file, options.grayscale, raster)),
            Format::Tiff => guarded(|| tiff::decode(file, raster)),
            Format::WebP => guarded(|| webp::decode(file, raster)),
        }?;
        if (raster.width, raster.height) != (header.width, header.height) {
            return Err(DecodeError::new("the image is not as large as its header says"));
        }
        raster.cut(region, header.channels, pixels);
        Ok(())
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
            let options = (options.grayscale, options.in_memory);
            return self.jpeg.decode(file, options, region, pixels);
        }
        let source = orientation.source(region, header.width, header.height);
        room::resize(&mut self.stored, pixels.len(), 0, room::IMAGE)?;
        self.jpeg.decode(file, (options.grayscale, options.in_memory), source, &mut self.stored)?;
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

/// Resizes the pixels to `size` bytes. The caller must overwrite all of them: old contents may
/// remain.
fn bytes(pixels: &mut Pixels, size: usize) -> cntk_reader_core::Result<&mut [u8]> {
    if !matches!(pixels, Pixels::Bytes(_)) {
        *pixels = Pixels::Bytes(Vec::new());
    }
    match pixels {
        Pixels::Bytes(bytes) => {
            room::resize(bytes, size, 0, room::IMAGE)?;
            Ok(bytes)
        }
        _ => Ok(&mut []),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoder_panic_fails_only_its_image() {
        let decode = || -> Result<(), _> { std::panic::resume_unwind(Box::new("out of range")) };
        let error = guarded(decode).expect_err("a panic");
        assert!(error.message.contains("does not expect"), "{}", error.message);
        assert!(guarded(|| Ok(())).is_ok());
    }
}
