//! PNG, as libpng decodes it for CNTK 2.7. Palettes and low bit depths are expanded, alpha is
//! dropped, and 16-bit values are cut to their upper 8 bits after any conversion to gray. That
//! conversion is in linear light if the file has a gamma. A file that is truncated anywhere, even
//! before its last chunk, is an error.

use super::DecodeError;
use super::bytes::Bytes;
use super::gray::deep_luma;
use super::raster::{Layout, Luma, Raster};
use cntk_reader_core::memory::room;
use png::{BitDepth, ColorType, Transformations};
use std::io::Cursor;

/// Reads the number of columns and rows.
pub fn size(file: &[u8]) -> Result<(u32, u32), DecodeError> {
    let bytes = Bytes(file);
    match (bytes.slice(12, 4), bytes.u32_be(16), bytes.u32_be(20)) {
        (Some(b"IHDR"), Some(width), Some(height)) => Ok((width, height)),
        _ => Err(DecodeError::new("the PNG file is damaged: it does not begin with the size of its image")),
    }
}

/// Decodes an image whose size has been checked. With `grayscale`, converts 16-bit colors to gray
/// unless the file has a gamma; all other images are converted later.
pub fn decode(file: &[u8], grayscale: bool, raster: &mut Raster) -> Result<(), DecodeError> {
    let damaged = |error: png::DecodingError| DecodeError::new(format!("the PNG file is damaged: {error}"));
    let mut decoder = png::Decoder::new(Cursor::new(file));
    let header = decoder.read_header_info().map_err(damaged)?;
    let has_colors = matches!(header.color_type, ColorType::Rgb | ColorType::Rgba);
    let is_deep = grayscale && has_colors && header.bit_depth == BitDepth::Sixteen;
    let has_palette = header.color_type == ColorType::Indexed;
    let strip = if is_deep { Transformations::IDENTITY } else { Transformations::STRIP_16 };
    decoder.set_transformations(Transformations::EXPAND | strip);
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = (reader.info().width, reader.info().height);
    // The crate `png` panics on palettes that libpng reports as invalid.
    let palette = reader.info().palette.as_ref().map_or(0, |palette| palette.len());
    if has_palette && palette % 3 != 0 {
        return Err(DecodeError::new(format!(
            "the PNG file is damaged: its palette has {palette} bytes, which is not a multiple of 3"
        )));
    }
    let gamma = reader.info().gama_chunk.map(|gamma| f64::from(gamma.into_scaled()) / 100_000.0);
    let (color, depth) = reader.output_color_type();
    let layout = match color {
        ColorType::Grayscale => Layout::Gray,
        ColorType::GrayscaleAlpha => Layout::GrayAlpha,
        ColorType::Rgb => Layout::Rgb,
        ColorType::Rgba => Layout::RgbAlpha,
        ColorType::Indexed => {
            return Err(DecodeError::new(format!(
                "the PNG file has the unknown pixel format {color:?}, {depth:?}"
            )));
        }
    };
    raster.reset(width, height, layout)?;
    raster.luma = Luma::Png(gamma.filter(|&gamma| gamma > 0.0));
    let values = raster.pixels.len();
    let size = if is_deep { values.saturating_mul(2) } else { values };
    if reader.output_buffer_size() != Some(size) {
        return Err(DecodeError::new(
            "the PNG file is damaged: its first image does not have the size that its header says",
        ));
    }
    if is_deep {
        let mut deep = room::zeroed(size, room::IMAGE)?;
        reader.next_frame(&mut deep).map_err(damaged)?;
        let deep = deep.as_chunks::<2>().0;
        if raster.luma == Luma::Png(None) {
            let pixels = deep.chunks_exact(layout.bytes());
            let gray = pixels.map(|pixel| deep_luma([pixel[2], pixel[1], pixel[0]].map(u16::from_be_bytes)));
            raster.pixels.iter_mut().zip(gray).for_each(|(to, gray)| *to = gray);
            raster.pixels.truncate(width as usize * height as usize);
            raster.layout = Layout::Gray;
        } else {
            raster.pixels.iter_mut().zip(deep).for_each(|(to, &[upper, _])| *to = upper);
        }
    } else {
        reader.next_frame(&mut raster.pixels).map_err(damaged)?;
    }
    reader.finish().map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::image::Region;

    #[test]
    fn palettes_have_whole_colors() {
        let decoded = |palette: &[u8]| {
            let mut file = Vec::new();
            let mut encoder = png::Encoder::new(&mut file, 2, 1);
            encoder.set_color(ColorType::Indexed);
            encoder.set_depth(BitDepth::Four);
            encoder.set_palette(palette);
            encoder.write_header().unwrap().write_image_data(&[0x01]).unwrap();
            let mut raster = Raster::default();
            decode(&file, false, &mut raster).map(|()| raster.pixels).map_err(|error| error.message)
        };
        assert_eq!(decoded(&[1, 2, 3, 4, 5, 6]), Ok(vec![1, 2, 3, 4, 5, 6]));
        for bytes in [4, 5, 767] {
            let error = decoded(&vec![7; bytes]).expect_err("a palette that is none");
            assert!(error.contains(&format!("its palette has {bytes} bytes")), "{error}");
        }
    }

    /// Matches CNTK 2.7 with libpng 1.6.
    #[test]
    fn deep_colors_become_gray_before_truncation() {
        let pixels: [[u16; 3]; 3] =
            [[0x01ff, 0x00ff, 0x0000], [0x1234, 0x1234, 0x1234], [0xffff, 0x8000, 0x00ff]];
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, 3, 1);
        encoder.set_color(ColorType::Rgb);
        encoder.set_depth(BitDepth::Sixteen);
        let data: Vec<u8> = pixels.as_flattened().iter().flat_map(|value| value.to_be_bytes()).collect();
        encoder.write_header().unwrap().write_image_data(&data).unwrap();
        let mut raster = Raster::default();
        let mut gray = |grayscale, channels| {
            decode(&file, grayscale, &mut raster).unwrap();
            let mut output = vec![0; 3 * channels as usize];
            raster.cut(Region::whole(3, 1), channels, &mut output);
            output
        };
        // The first pixel is (9797 * 511 + 19234 * 255) / 2^15 = 302; its upper bytes alone would
        // give 0.
        assert_eq!(gray(true, 1), [1, 0x12, 0x97]);
        assert_eq!(gray(false, 3), [0, 0, 1, 0x12, 0x12, 0x12, 0, 0x80, 0xff]);
    }
}
