//! PBM, PGM and PPM, in text and binary form. Text values are scaled to 255, binary ones are not;
//! 16-bit values are cut to their upper 8 bits (CNTK 2.7).

use super::DecodeError;
use super::raster::{Layout, Raster};

/// A parsed PNM header.
#[derive(Debug, Clone, Copy)]
pub struct PnmHeader {
    /// The digit after the P, 1 to 6.
    kind: u8,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Maximum value.
    largest: u32,
    /// Offset of the pixels.
    start: usize,
}

fn damaged(what: &str) -> DecodeError {
    DecodeError::new(format!("the PNM file is damaged: {what}"))
}

/// A parser for the numbers of headers and of text pixels.
struct Numbers<'a> {
    file: &'a [u8],
    at: usize,
}

impl Numbers<'_> {
    /// Skips white space and comments; returns false at the end.
    fn skip_blanks(&mut self) -> bool {
        while let Some(&byte) = self.file.get(self.at) {
            match byte {
                b'#' => {
                    let rest = &self.file[self.at..];
                    self.at += memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                _ => return true,
            }
        }
        false
    }

    fn number(&mut self) -> Option<u32> {
        if !self.skip_blanks() {
            return None;
        }
        let start = self.at;
        let mut number = 0u32;
        while let Some(digit) = self.file.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            number = number.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        (self.at > start).then_some(number)
    }

    /// Reads a single digit: text bits need no white space between them.
    fn bit(&mut self) -> Option<bool> {
        if !self.skip_blanks() {
            return None;
        }
        let digit = self.file[self.at];
        self.at += 1;
        digit.is_ascii_digit().then_some(digit != b'0')
    }
}

/// Parses the header. The file must begin with P and a digit from 1 to 6.
pub fn header(file: &[u8]) -> Result<PnmHeader, DecodeError> {
    let kind = file.get(1).map_or(0, |digit| digit.wrapping_sub(b'0'));
    let mut numbers = Numbers { file, at: 2 };
    let mut next =
        || numbers.number().ok_or_else(|| damaged("its header has no width, height or largest value"));
    let (width, height) = (next()?, next()?);
    let largest = if matches!(kind, 1 | 4) { 1 } else { next()? };
    if width == 0 || height == 0 || !(1..=65535).contains(&largest) || width > 1 << 20 || height > 1 << 20 {
        return Err(damaged("its header has a number out of range"));
    }
    // A single white-space byte ends the header.
    Ok(PnmHeader { kind, width, height, largest, start: numbers.at + 1 })
}

/// Decodes an image whose size has been checked.
pub fn decode(file: &[u8], raster: &mut Raster) -> Result<(), DecodeError> {
    let PnmHeader { kind, width, height, largest, start } = header(file)?;
    let layout = if matches!(kind, 3 | 6) { Layout::Rgb } else { Layout::Gray };
    let short = || damaged("it ends before its image does");
    let values = width as usize * height as usize * layout.bytes();
    let data = file.get(start..).ok_or_else(short)?;
    // Check the length before allocating: the file may claim pixels that it does not have.
    let needed = match (kind, largest) {
        (4, _) => width.div_ceil(8) as usize * height as usize,
        (5 | 6, 256..) => 2 * values,
        _ => values,
    };
    if data.len() < needed {
        return Err(short());
    }
    raster.reset(width, height, layout)?;
    let mut numbers = Numbers { file: data, at: 0 };
    match kind {
        1 => {
            for pixel in &mut raster.pixels {
                *pixel = if numbers.bit().ok_or_else(short)? { 0 } else { 255 };
            }
        }
        2 | 3 => {
            for pixel in &mut raster.pixels {
                let value = numbers.number().ok_or_else(short)?.min(largest);
                *pixel = if largest > 255 { value >> 8 } else { value * 255 / largest } as u8;
            }
        }
        4 => {
            for (row, bits) in (0..height).zip(data.chunks_exact(width.div_ceil(8) as usize)) {
                for (x, pixel) in raster.row_mut(row).iter_mut().enumerate() {
                    *pixel = if bits[x / 8] >> (7 - x % 8) & 1 == 0 { 255 } else { 0 };
                }
            }
        }
        _ if largest > 255 => {
            raster
                .pixels
                .iter_mut()
                .zip(data.as_chunks::<2>().0)
                .for_each(|(pixel, &[upper, _])| *pixel = upper);
        }
        _ => raster.pixels.copy_from_slice(&data[..values]),
    }
    Ok(())
}
