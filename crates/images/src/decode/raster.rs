//! Whole decoded images of all formats but JPEG, and cropping.

use super::{DecodeError, gray};
use cntk_reader_core::image::Region;
use cntk_reader_core::memory::room;

/// The bytes of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Brightness.
    Gray,
    /// Brightness, and alpha, which is dropped.
    GrayAlpha,
    /// Red, green, blue.
    Rgb,
    /// Red, green, blue, alpha.
    RgbAlpha,
}

impl Layout {
    /// Returns the number of bytes per pixel.
    pub fn bytes(self) -> usize {
        match self {
            Layout::Gray => 1,
            Layout::GrayAlpha => 2,
            Layout::Rgb => 3,
            Layout::RgbAlpha => 4,
        }
    }
}

/// The conversion of colors to gray.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Luma {
    /// The formula of most formats.
    Common,
    /// libpng's formula, with the file's gamma if it has one.
    Png(Option<f64>),
}

/// A whole image. Its memory is reused for the next one.
#[derive(Debug)]
pub struct Raster {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The bytes of a pixel.
    pub layout: Layout,
    /// The conversion of colors to gray.
    pub luma: Luma,
    /// The pixels, row after row.
    pub pixels: Vec<u8>,
}

impl Default for Raster {
    fn default() -> Raster {
        Raster { width: 0, height: 0, layout: Layout::Gray, luma: Luma::Common, pixels: Vec::new() }
    }
}

impl Raster {
    /// Resizes the image to `width` by `height` and sets all bytes to 0. The caller must check the
    /// size against the limit first.
    pub fn reset(&mut self, width: u32, height: u32, layout: Layout) -> Result<(), DecodeError> {
        let size =
            (width as usize).checked_mul(height as usize).and_then(|size| size.checked_mul(layout.bytes()));
        let Some(size) = size else { return Err(DecodeError::new("the image is too large to be addressed")) };
        (self.width, self.height, self.layout, self.luma) = (width, height, layout, Luma::Common);
        self.pixels.clear();
        room::reserve_exact(&mut self.pixels, size, room::IMAGE)?;
        self.pixels.resize(size, 0);
        Ok(())
    }

    /// Returns a row's bytes.
    pub fn row_mut(&mut self, row: u32) -> &mut [u8] {
        let bytes = self.width as usize * self.layout.bytes();
        &mut self.pixels[row as usize * bytes..][..bytes]
    }

    /// Copies a region as brightness (1 channel), as blue, green, red (3), or, if the image has
    /// alpha, as blue, green, red, alpha (4).
    pub fn cut(&self, region: Region, channels: u32, output: &mut [u8]) {
        let (bytes, width) = (self.layout.bytes(), region.width as usize);
        let gamma = match self.luma {
            Luma::Png(Some(gamma)) if channels == 1 && self.layout.bytes() >= 3 => {
                Some(gray::Gamma::new(gamma))
            }
            _ => None,
        };
        let luma = |pixel| match (&gamma, self.luma) {
            (Some(gamma), _) => gamma.luma(pixel),
            (None, Luma::Png(_)) => gray::png_luma(pixel),
            (None, Luma::Common) => gray::luma(pixel),
        };
        let output_rows = output.chunks_exact_mut((width * channels as usize).max(1));
        for (y, output) in (region.top as usize..).zip(output_rows) {
            let start = (y * self.width as usize + region.left as usize) * bytes;
            let row = &self.pixels[start..start + width * bytes];
            match (self.layout, channels) {
                (Layout::Gray, 1) => output.copy_from_slice(row),
                (Layout::GrayAlpha, 1) => {
                    output
                        .iter_mut()
                        .zip(row.chunks_exact(bytes))
                        .for_each(|(output, pixel)| *output = pixel[0]);
                }
                (Layout::Gray | Layout::GrayAlpha, _) => {
                    let pixels = output.as_chunks_mut::<3>().0.iter_mut();
                    pixels.zip(row.chunks_exact(bytes)).for_each(|(output, pixel)| *output = [pixel[0]; 3]);
                }
                (_, 1) => {
                    let pixels = row.chunks_exact(bytes).map(|pixel| luma([pixel[2], pixel[1], pixel[0]]));
                    output.iter_mut().zip(pixels).for_each(|(output, pixel)| *output = pixel);
                }
                (Layout::RgbAlpha, 4) => {
                    let pixels = output.as_chunks_mut::<4>().0.iter_mut();
                    pixels
                        .zip(row.as_chunks::<4>().0)
                        .for_each(|(output, &[red, green, blue, alpha])| *output = [blue, green, red, alpha]);
                }
                (_, _) => {
                    let pixels = output.as_chunks_mut::<3>().0.iter_mut();
                    pixels
                        .zip(row.chunks_exact(bytes))
                        .for_each(|(output, pixel)| *output = [pixel[2], pixel[1], pixel[0]]);
                }
            }
        }
    }
}
