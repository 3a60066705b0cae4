//! WebP, with or without alpha. CNTK 2.7 delivers the stored channels and ignores `grayscale`.

use super::DecodeError;
use super::raster::{Layout, Raster};
use image_webp::{DecodingError, WebPDecoder};
use std::io::Cursor;

fn damaged(error: DecodingError) -> DecodeError {
    DecodeError::new(format!("the WebP file is damaged: {error}"))
}

/// Reads the number of columns, rows and channels.
pub fn size(file: &[u8]) -> Result<(u32, u32, u32), DecodeError> {
    let decoder = WebPDecoder::new(Cursor::new(file)).map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    Ok((width, height, if decoder.has_alpha() { 4 } else { 3 }))
}

/// Decodes an image whose size has been checked.
pub fn decode(file: &[u8], raster: &mut Raster) -> Result<(), DecodeError> {
    let mut decoder = WebPDecoder::new(Cursor::new(file)).map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    if decoder.is_animated() {
        return Err(DecodeError::new(
            "the WebP file is animated, which is not supported; write a single image",
        ));
    }
    raster.reset(width, height, if decoder.has_alpha() { Layout::RgbAlpha } else { Layout::Rgb })?;
    decoder.set_memory_limit(raster.pixels.len().saturating_mul(4).saturating_add(1 << 20));
    decoder.read_image(&mut raster.pixels).map_err(damaged)
}
