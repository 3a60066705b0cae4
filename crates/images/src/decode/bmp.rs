//! BMP: 1, 4, 8, 16, 24 and 32 bits per pixel, with palettes and run-length encoding, top-down or
//! bottom-up.

use super::DecodeError;
use super::bytes::Bytes;
use super::raster::{Layout, Raster};

/// A parsed BMP header.
#[derive(Debug, Clone, Copy)]
pub struct BmpHeader {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Rows are stored from top to bottom.
    is_top_down: bool,
    bits: u16,
    coding: Coding,
    /// Offset of the palette, number of colors, and bytes per color.
    palette: (usize, usize, usize),
    /// Offset of the pixels.
    start: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Plain,
    RunLengths,
    /// 16 bits per pixel, 6 of them green.
    Green6,
}

fn damaged(what: &str) -> DecodeError {
    DecodeError::new(format!("the BMP file is damaged: {what}"))
}

/// Parses the header.
pub fn header(file: &[u8]) -> Result<BmpHeader, DecodeError> {
    read_header(file).unwrap_or_else(|| Err(damaged("it ends within its header")))
}

fn read_header(file: &[u8]) -> Option<Result<BmpHeader, DecodeError>> {
    let bytes = Bytes(file);
    let start = bytes.u32_le(10)? as usize;
    let length = bytes.u32_le(14)? as usize;
    let (width, height, bits, coding, colors, entry);
    if length == 12 {
        (width, height) = (i32::from(bytes.u16_le(18)?), i32::from(bytes.u16_le(20)?));
        (bits, coding, colors, entry) = (bytes.u16_le(24)?, 0, 0, 3);
    } else if length >= 36 {
        (width, height) = (bytes.u32_le(18)? as i32, bytes.u32_le(22)? as i32);
        (bits, coding, colors, entry) = (bytes.u16_le(28)?, bytes.u32_le(30)?, bytes.u32_le(46)? as usize, 4);
    } else {
        return Some(Err(damaged(&format!(
            "its header has {length} bytes, where 12, or 36 or more, are expected"
        ))));
    }
    if width <= 0 || height == 0 || height == i32::MIN {
        return Some(Err(damaged(&format!("it has {width} columns and {height} rows"))));
    }
    let coding = match (coding, bits) {
        (0, 1 | 4 | 8 | 16 | 24 | 32) => Coding::Plain,
        (1, 8) | (2, 4) => Coding::RunLengths,
        (3, 32) => Coding::Plain,
        (3, 16) => match (bytes.u32_le(54)?, bytes.u32_le(58)?, bytes.u32_le(62)?) {
            (0x7C00, 0x3E0, 0x1F) => Coding::Plain,
            (0xF800, 0x7E0, 0x1F) => Coding::Green6,
            _ => {
                return Some(Err(damaged(
                    "its 16 bits are neither 5, 5 and 5 nor 5, 6 and 5 for red, green and blue",
                )));
            }
        },
        _ => {
            return Some(Err(damaged(&format!(
                "its compression {coding} is not possible with {bits} bits per pixel"
            ))));
        }
    };
    let colors = if bits > 8 {
        0
    } else if colors == 0 || colors > 1 << bits {
        1 << bits
    } else {
        colors
    };
    Some(Ok(BmpHeader {
        width: width.unsigned_abs(),
        height: height.unsigned_abs(),
        is_top_down: height < 0,
        bits,
        coding,
        palette: (14 + length, colors, entry),
        start,
    }))
}

/// Decodes an image whose size has been checked. With `in_memory`, the last row must include its
/// padding (CNTK 2.7).
pub fn decode(file: &[u8], in_memory: bool, raster: &mut Raster) -> Result<(), DecodeError> {
    let header = header(file)?;
    let mut palette = [[0; 3]; 256];
    let (at, colors, entry) = header.palette;
    let entries =
        Bytes(file).slice(at, colors * entry).ok_or_else(|| damaged("it ends within its palette"))?;
    for (color, entry) in palette.iter_mut().zip(entries.chunks_exact(entry)) {
        *color = [entry[2], entry[1], entry[0]];
    }
    let data = file.get(header.start..).unwrap_or_default();
    if header.coding == Coding::RunLengths {
        raster.reset(header.width, header.height, Layout::Rgb)?;
        return decode_runs(data, &header, &palette, raster);
    }
    let bits_a_row = u64::from(header.width) * u64::from(header.bits);
    let stride = bits_a_row.div_ceil(32) * 4;
    // Check the length before allocating: the file may claim rows that it does not have. In a file,
    // the last row may lack its padding.
    let filler = if in_memory { 0 } else { stride - bits_a_row.div_ceil(8) };
    let needed = (stride * u64::from(header.height)).saturating_sub(filler);
    if (data.len() as u64) < needed {
        return Err(damaged("it ends before its image does"));
    }
    raster.reset(header.width, header.height, Layout::Rgb)?;
    for (row, data) in (0..header.height).zip(data.chunks(stride as usize)) {
        let pixels = raster.row_mut(stored_row(&header, row)).as_chunks_mut::<3>().0;
        match header.bits {
            16 => {
                for (pixel, value) in pixels.iter_mut().zip(data.as_chunks::<2>().0) {
                    *pixel = pixel_of_16(u16::from_le_bytes(*value), header.coding);
                }
            }
            24 => pixels.iter_mut().zip(data.as_chunks::<3>().0).for_each(|(to, &[b, g, r])| *to = [r, g, b]),
            32 => {
                pixels.iter_mut().zip(data.as_chunks::<4>().0).for_each(|(to, &[b, g, r, _])| *to = [r, g, b])
            }
            bits => {
                let in_a_byte = 8 / usize::from(bits);
                let mask = ((1u16 << bits) - 1) as u8;
                for (x, pixel) in pixels.iter_mut().enumerate() {
                    let shift = 8 - usize::from(bits) * (x % in_a_byte + 1);
                    *pixel = palette[usize::from(data[x / in_a_byte] >> shift & mask)];
                }
            }
        }
    }
    Ok(())
}

/// Returns the image row that the file's row `row` holds.
fn stored_row(header: &BmpHeader, row: u32) -> u32 {
    if header.is_top_down { row } else { header.height - 1 - row }
}

/// Expands a 16-bit pixel to 8 bits per color. The stored bits become the upper ones; the lower
/// ones are 0.
fn pixel_of_16(value: u16, coding: Coding) -> [u8; 3] {
    let blue = value << 3;
    if coding == Coding::Green6 {
        [value >> 8 & 0xF8, value >> 3 & 0xFC, blue & 0xF8].map(|value| value as u8)
    } else {
        [value >> 7 & 0xF8, value >> 2 & 0xF8, blue & 0xF8].map(|value| value as u8)
    }
}

/// Decodes run-length encoded pixels. A run that passes the end of its row is an error; skipped
/// pixels get color 0.
fn decode_runs(
    data: &[u8],
    header: &BmpHeader,
    palette: &[[u8; 3]; 256],
    raster: &mut Raster,
) -> Result<(), DecodeError> {
    raster.pixels.as_chunks_mut::<3>().0.fill(palette[0]);
    let short = || damaged("it ends before its image does");
    let (mut x, mut row, mut at) = (0u32, 0u32, 0usize);
    let nibbles = header.bits == 4;
    // Palette index of pixel `i` of a run. A 4-bit run alternates between two colors.
    let index = |value: u8, i: usize| match (nibbles, i % 2) {
        (false, _) => value,
        (true, 0) => value >> 4,
        (true, _) => value & 15,
    };
    while row < header.height {
        let &[count, value] =
            Bytes(data).slice(at, 2).and_then(|pair| pair.first_chunk()).ok_or_else(short)?;
        at += 2;
        let mut put = |x: u32, row: u32, count: u8, value_of: &dyn Fn(usize) -> u8| {
            if row >= header.height || u32::from(count) > header.width - x {
                return Err(damaged("a run of pixels passes the end of its row"));
            }
            let pixels = &mut raster.row_mut(stored_row(header, row)).as_chunks_mut::<3>().0[x as usize..];
            for (i, pixel) in pixels[..usize::from(count)].iter_mut().enumerate() {
                *pixel = palette[usize::from(value_of(i))];
            }
            Ok(x + u32::from(count))
        };
        match (count, value) {
            (0, 0) => (x, row) = (0, row + 1),
            (0, 1) => break,
            (0, 2) => {
                let &[right, up] =
                    Bytes(data).slice(at, 2).and_then(|pair| pair.first_chunk()).ok_or_else(short)?;
                at += 2;
                (x, row) = (x + u32::from(right), row + u32::from(up));
                if x > header.width || row >= header.height {
                    return Err(damaged("its pixels continue outside the image"));
                }
            }
            (0, count) => {
                let length = if nibbles { usize::from(count).div_ceil(2) } else { usize::from(count) };
                let values = Bytes(data).slice(at, length).ok_or_else(short)?;
                at += length.next_multiple_of(2);
                x = put(x, row, count, &|i| index(values[if nibbles { i / 2 } else { i }], i))?;
            }
            (count, value) => x = put(x, row, count, &|i| index(value, i))?,
        }
    }
    Ok(())
}
