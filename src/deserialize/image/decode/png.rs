//! PNG, as libpng reads it for CNTK 2.7: 16 bits become their upper 8, palettes and low bit depths are expanded, alpha is
//! dropped. Colors become gray by way of light if the file has a gamma. A file that is cut off anywhere, also before its last chunk, is an error.

use super::DecodeError;
use super::bytes::Bytes;
use super::raster::{Layout, Luma, Raster};
use png::{BitDepth, ColorType, Transformations};
use std::io::Cursor;

/// Columns and rows.
pub fn size(file: &[u8]) -> Result<(u32, u32), DecodeError> {
    let bytes = Bytes(file);
    match (bytes.slice(12, 4), bytes.u32_be(16), bytes.u32_be(20)) {
        (Some(b"IHDR"), Some(width), Some(height)) => Ok((width, height)),
        _ => Err(DecodeError::new("the PNG file is damaged: it does not begin with the size of its image")),
    }
}

/// Decodes an image whose size has been checked.
pub fn decode(file: &[u8], raster: &mut Raster) -> Result<(), DecodeError> {
    let damaged = |error: png::DecodingError| DecodeError::new(format!("the PNG file is damaged: {error}"));
    let mut decoder = png::Decoder::new(Cursor::new(file));
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = (reader.info().width, reader.info().height);
    let gamma = reader.info().gama_chunk.map(|gamma| f64::from(gamma.into_scaled()) / 100_000.0);
    let layout = match reader.output_color_type() {
        (ColorType::Grayscale, BitDepth::Eight) => Layout::Gray,
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => Layout::GrayAlpha,
        (ColorType::Rgb, BitDepth::Eight) => Layout::Rgb,
        (ColorType::Rgba, BitDepth::Eight) => Layout::RgbAlpha,
        (color, depth) => {
            return Err(DecodeError::new(format!(
                "the PNG file has the unknown kind of pixels {color:?}, {depth:?}"
            )));
        }
    };
    raster.reset(width, height, layout)?;
    raster.luma = Luma::Png(gamma.filter(|&gamma| gamma > 0.0));
    if reader.output_buffer_size() != Some(raster.pixels.len()) {
        return Err(DecodeError::new("the PNG file is damaged: its first image is not as large as it says"));
    }
    reader.next_frame(&mut raster.pixels).map_err(damaged)?;
    reader.finish().map_err(damaged)
}
