//! From the bytes of an image file to pixels.

use crate::image::{Image, Region};

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

/// Memory and state that one decoding after the other uses; each belongs to one thread at a time.
#[derive(Default)]
pub struct Decoder {}

impl Decoder {
    /// Reads what the file says of itself.
    pub fn header(&mut self, file: &[u8], options: &DecodeOptions) -> Result<Header, DecodeError> {
        let _ = (file, options);
        Err(DecodeError { message: "Images are not decoded yet.".to_owned() })
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
        let _ = (file, options, region, image);
        Err(DecodeError { message: "Images are not decoded yet.".to_owned() })
    }
}
