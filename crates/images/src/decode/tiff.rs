//! TIFF, converted to 8 bits as libtiff does for CNTK 2.7: gray, palette, RGB and CMYK with 1 to 16
//! bits; strips or tiles; uncompressed, PackBits, LZW or Deflate. Colors with unassociated alpha
//! are multiplied by it, as in libtiff.

use super::DecodeError;
use super::raster::{Layout, Raster};
use cntk_reader_core::memory::room;
use std::borrow::Cow;
use std::io::Read;

fn damaged(what: &str) -> DecodeError {
    DecodeError::new(format!("the TIFF file is damaged: {what}"))
}

fn unsupported(what: &str) -> DecodeError {
    DecodeError::new(format!(
        "the TIFF file has {what}, which is not supported; write it uncompressed or with LZW, as gray or RGB"
    ))
}

/// Reads numbers in the file's byte order.
#[derive(Debug, Clone, Copy)]
struct Numbers<'a> {
    file: &'a [u8],
    is_big: bool,
}

impl Numbers<'_> {
    fn u16(self, at: usize) -> Option<u16> {
        let bytes = self.file.get(at..)?.first_chunk()?;
        Some(if self.is_big { u16::from_be_bytes(*bytes) } else { u16::from_le_bytes(*bytes) })
    }

    fn u32(self, at: usize) -> Option<u32> {
        let bytes = self.file.get(at..)?.first_chunk()?;
        Some(if self.is_big { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) })
    }
}

/// The integers of a directory entry.
#[derive(Debug, Clone, Copy)]
struct Values<'a> {
    numbers: Numbers<'a>,
    /// Bytes per integer: 1, 2 or 4.
    size: usize,
    count: usize,
    at: usize,
}

impl Values<'_> {
    fn get(self, index: usize) -> Option<u32> {
        let at = self.at.checked_add(index.checked_mul(self.size)?)?;
        match (index < self.count, self.size) {
            (false, _) => None,
            (_, 1) => self.numbers.file.get(at).map(|&byte| byte.into()),
            (_, 2) => self.numbers.u16(at).map(u32::from),
            _ => self.numbers.u32(at),
        }
    }
}

/// The tags of the first directory.
#[derive(Debug)]
struct Directory<'a> {
    width: u32,
    height: u32,
    bits: u32,
    samples: usize,
    compression: u32,
    photometric: u32,
    /// Each sample has its own plane.
    is_planar: bool,
    differences: bool,
    orientation: u32,
    /// Meaning of the first sample after the colors; 2 is unassociated alpha, by which the colors
    /// still have to be multiplied.
    extra: Option<u32>,
    palette: Option<Values<'a>>,
    /// Columns and rows of a strip or tile.
    part: (u32, u32),
    /// Offsets and lengths of the strips or tiles.
    offsets: Values<'a>,
    lengths: Values<'a>,
}

impl<'a> Directory<'a> {
    fn read(file: &'a [u8]) -> Result<Directory<'a>, DecodeError> {
        let numbers = Numbers { file, is_big: file.starts_with(b"MM") };
        let short = || damaged("it ends within its directory");
        let start = numbers.u32(4).ok_or_else(short)? as usize;
        let entries = usize::from(numbers.u16(start).ok_or_else(short)?);
        let find = |wanted: u16| {
            (0..entries).find_map(|i| {
                let at = start + 2 + 12 * i;
                if numbers.u16(at)? != wanted {
                    return None;
                }
                let size = match numbers.u16(at + 2)? {
                    1 => 1,
                    3 => 2,
                    4 => 4,
                    _ => return None,
                };
                let count = numbers.u32(at + 4)? as usize;
                let at = if count <= 4 / size { at + 8 } else { numbers.u32(at + 8)? as usize };
                Some(Values { numbers, size, count, at })
            })
        };
        let number = |wanted: u16| find(wanted).and_then(|values| values.get(0));
        let required =
            |wanted: u16| number(wanted).ok_or_else(|| damaged(&format!("it has no tag {wanted}")));
        let (width, height) = (required(256)?, required(257)?);
        let samples = number(277).unwrap_or(1) as usize;
        let bits = find(258);
        let bit_depth = bits.and_then(|bits| bits.get(0)).unwrap_or(1);
        let differ = |bits: Values<'_>| (0..samples.min(bits.count)).any(|i| bits.get(i) != Some(bit_depth));
        if !matches!(bit_depth, 1 | 2 | 4 | 8 | 16) || bits.is_some_and(differ) {
            return Err(unsupported("samples that are not all of 1, 2, 4, 8 or 16 bits"));
        }
        if !matches!(number(339), None | Some(1 | 4)) {
            return Err(unsupported("samples that are not integers"));
        }
        if !(1..=16).contains(&samples) {
            return Err(damaged("it has no samples, or too many"));
        }
        let is_tiled = find(322).is_some();
        let part = match is_tiled {
            true => (required(322)?, required(323)?),
            false => (width, number(278).unwrap_or(height).min(height)),
        };
        if width == 0 || height == 0 || part.0 == 0 || part.1 == 0 || part.0 > 1 << 20 || part.1 > 1 << 20 {
            return Err(damaged("its image, or its strips or tiles, have no size"));
        }
        let values =
            |wanted: u16| find(wanted).ok_or_else(|| damaged("it has no offsets or lengths of its pixels"));
        Ok(Directory {
            width,
            height,
            bits: bit_depth,
            samples,
            compression: number(259).unwrap_or(1),
            photometric: required(262)?,
            is_planar: number(284) == Some(2) && samples > 1,
            differences: match number(317) {
                None | Some(1) => false,
                Some(2) => true,
                _ => return Err(unsupported("the floating-point predictor")),
            },
            orientation: number(274).unwrap_or(1),
            extra: number(338),
            palette: find(320),
            part,
            offsets: values(if is_tiled { 324 } else { 273 })?,
            lengths: values(if is_tiled { 325 } else { 279 })?,
        })
    }
}

/// Reads the number of columns and rows.
pub fn size(file: &[u8]) -> Result<(u32, u32), DecodeError> {
    let directory = Directory::read(file)?;
    Ok((directory.width, directory.height))
}

/// Decodes an image whose size has been checked.
pub fn decode(file: &[u8], raster: &mut Raster) -> Result<(), DecodeError> {
    let directory = Directory::read(file)?;
    let colors = match directory.photometric {
        0 | 1 => 1,
        2 => 3,
        3 => 1,
        5 => 4,
        _ => return Err(unsupported("colors other than gray, RGB, CMYK or a palette")),
    };
    if directory.samples < colors {
        return Err(damaged("it has fewer samples than colors"));
    }
    let palette = match directory.palette {
        Some(values) if directory.photometric == 3 && directory.bits <= 8 => {
            Some(read_palette(&directory, values)?)
        }
        _ if directory.photometric == 3 => return Err(damaged("it has no palette")),
        _ => None,
    };
    let (wide, high) = directory.part;
    let (across, down) = (directory.width.div_ceil(wide), directory.height.div_ceil(high));
    let planes = if directory.is_planar { directory.samples } else { 1 };
    let in_part = directory.samples / planes;
    let row_bytes = (u64::from(wide) * in_part as u64 * u64::from(directory.bits)).div_ceil(8);
    // Tiles may be larger than the image, but only slightly: each is decoded whole in memory.
    let limit =
        4 * (u64::from(directory.width) + 1024) * (u64::from(directory.height) + 1024) * in_part as u64;
    if row_bytes * u64::from(high) > limit {
        return Err(damaged("its tiles are far larger than its image"));
    }
    let layout = if colors == 1 && palette.is_none() { Layout::Gray } else { Layout::Rgb };
    raster.reset(directory.width, directory.height, layout)?;
    // The samples of a row in 8 bits, interleaved by pixel.
    let mut samples = room::zeroed::<u8>(wide as usize * directory.samples, room::IMAGE)?;
    for row in 0..down {
        for column in 0..across {
            let rows = high.min(directory.height - row * high);
            let parts = (0..planes)
                .map(|plane| {
                    let index = (plane as u32 * down + row) as usize * across as usize + column as usize;
                    // The last strip may have fewer rows; tiles are always whole.
                    read_part(file, &directory, index, row_bytes as usize, rows as usize, in_part)
                })
                .collect::<Result<Vec<_>, _>>()?;
            let columns = wide.min(directory.width - column * wide) as usize;
            for y in 0..rows {
                for (plane, part) in parts.iter().enumerate() {
                    let data = &part[y as usize * row_bytes as usize..][..row_bytes as usize];
                    for i in 0..columns * in_part {
                        let value = sample(data, i, &directory, palette.is_some());
                        samples[i / in_part * directory.samples + plane + i % in_part] = value;
                    }
                }
                let target = raster.row_mut(row * high + y);
                let target = &mut target[(column * wide) as usize * layout.bytes()..];
                let pixels = target.chunks_exact_mut(layout.bytes()).take(columns);
                for (pixel, samples) in pixels.zip(samples.chunks_exact(directory.samples)) {
                    write_pixel(pixel, samples, &directory, palette.as_ref());
                }
            }
        }
    }
    turn(&directory, raster);
    Ok(())
}

/// Returns sample `i` of a row: a palette index unchanged, other values converted to 8 bits.
fn sample(data: &[u8], i: usize, directory: &Directory<'_>, is_index: bool) -> u8 {
    match directory.bits {
        8 => data[i],
        16 => {
            let pair = [data[2 * i], data[2 * i + 1]];
            let is_big = directory.offsets.numbers.is_big;
            let value = if is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) };
            // Gray values are truncated, colors rounded.
            if directory.photometric <= 1 {
                (value >> 8) as u8
            } else {
                ((u32::from(value) + 128) / 257) as u8
            }
        }
        bits => {
            let bits = bits as usize;
            let shift = 8 - bits * (i % (8 / bits) + 1);
            let largest = ((1u16 << bits) - 1) as u8;
            let value = data[i * bits / 8] >> shift & largest;
            if is_index { value } else { value * (255 / largest) }
        }
    }
}

fn write_pixel(
    pixel: &mut [u8],
    samples: &[u8],
    directory: &Directory<'_>,
    palette: Option<&[[u8; 3]; 256]>,
) {
    let product = |a: u8, b: u8| ((u32::from(a) * u32::from(b) + 127) / 255) as u8;
    match (palette, directory.photometric, samples) {
        (Some(palette), _, &[index, ..]) => pixel.copy_from_slice(&palette[usize::from(index)]),
        (_, 0, &[value, ..]) => pixel[0] = 255 - value,
        (_, 1, &[value, ..]) => pixel[0] = value,
        (_, 5, &[c, m, y, k, ..]) => {
            let ink = |ink: u8| ((255 - u32::from(k)) * (255 - u32::from(ink)) / 255) as u8;
            pixel.copy_from_slice(&[ink(c), ink(m), ink(y)]);
        }
        (_, _, &[r, g, b, alpha, ..]) if directory.extra == Some(2) => {
            pixel.copy_from_slice(&[r, g, b].map(|value| product(value, alpha)));
        }
        (_, _, &[r, g, b, ..]) => pixel.copy_from_slice(&[r, g, b]),
        _ => {}
    }
}

/// Reads the palette: the upper 8 of 16 bits, or the value itself if none exceeds 8 bits.
fn read_palette(directory: &Directory<'_>, values: Values<'_>) -> Result<[[u8; 3]; 256], DecodeError> {
    let colors = 1usize << directory.bits;
    let value = |at: usize| values.get(at).ok_or_else(|| damaged("its palette is too short"));
    let mut palette = [[0; 3]; 256];
    let mut is_wide = false;
    for at in 0..3 * colors {
        is_wide |= value(at)? > 255;
    }
    for (i, color) in palette.iter_mut().take(colors).enumerate() {
        for (channel, part) in color.iter_mut().enumerate() {
            let value = value(channel * colors + i)?;
            *part = if is_wide { value >> 8 } else { value } as u8;
        }
    }
    Ok(palette)
}

/// Returns the decompressed bytes of a strip or tile, of which at least `rows` rows are needed.
fn read_part<'a>(
    file: &'a [u8],
    directory: &Directory<'_>,
    index: usize,
    row_bytes: usize,
    rows: usize,
    samples: usize,
) -> Result<Cow<'a, [u8]>, DecodeError> {
    let short = || damaged("it ends before its image does");
    let (offset, length) =
        directory.offsets.get(index).zip(directory.lengths.get(index)).ok_or_else(short)?;
    let (offset, length) = (offset as usize, length as usize);
    let size = row_bytes * rows;
    let data = file.get(offset..).ok_or_else(short)?;
    let data = &data[..length.min(data.len())];
    let mut part = match directory.compression {
        1 => Cow::Borrowed(data),
        5 => {
            let mut output = room::zeroed(size, room::IMAGE)?;
            let mut decoder = weezl::decode::Decoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8);
            let (mut read, mut written) = (0, 0);
            while written < size {
                let result = decoder.decode_bytes(&data[read..], &mut output[written..]);
                read += result.consumed_in;
                written += result.consumed_out;
                if !matches!(result.status, Ok(weezl::LzwStatus::Ok)) {
                    break;
                }
            }
            output.truncate(written);
            Cow::Owned(output)
        }
        8 | 32946 => {
            let mut output = room::with_capacity(size, room::IMAGE)?;
            let decoder = flate2::bufread::ZlibDecoder::new(data);
            decoder
                .take(size as u64)
                .read_to_end(&mut output)
                .map_err(|error| damaged(&error.to_string()))?;
            Cow::Owned(output)
        }
        32773 => Cow::Owned(unpack_bits(data, size)?),
        2..=4 => return Err(unsupported("fax compression")),
        6 | 7 => return Err(unsupported("JPEG compression")),
        other => return Err(unsupported(&format!("the compression {other}"))),
    };
    if part.len() < size {
        return Err(short());
    }
    if directory.differences {
        let is_big = directory.offsets.numbers.is_big;
        for row in part.to_mut().chunks_exact_mut(row_bytes.max(1)) {
            match directory.bits {
                8 => (samples..row.len()).for_each(|i| row[i] = row[i].wrapping_add(row[i - samples])),
                16 => {
                    for i in (2 * samples..row.len() - row.len() % 2).step_by(2) {
                        let value = |at: usize| match is_big {
                            true => u16::from_be_bytes([row[at], row[at + 1]]),
                            false => u16::from_le_bytes([row[at], row[at + 1]]),
                        };
                        let sum = value(i).wrapping_add(value(i - 2 * samples));
                        let bytes = if is_big { sum.to_be_bytes() } else { sum.to_le_bytes() };
                        row[i..i + 2].copy_from_slice(&bytes);
                    }
                }
                _ => return Err(unsupported("a predictor for fewer than 8 bits")),
            }
        }
    }
    Ok(part)
}

/// Decompresses PackBits data to at most `size` bytes.
fn unpack_bits(mut data: &[u8], size: usize) -> Result<Vec<u8>, DecodeError> {
    let mut output = room::with_capacity(size, room::IMAGE)?;
    while let ([head, rest @ ..], true) = (data, output.len() < size) {
        data = rest;
        let room = size - output.len();
        match *head as i8 {
            count @ 0.. => {
                let (bytes, rest) = data.split_at((count as usize + 1).min(data.len()));
                output.extend_from_slice(&bytes[..bytes.len().min(room)]);
                data = rest;
            }
            -128 => {}
            count => {
                let Some((&byte, rest)) = data.split_first() else { break };
                output.resize(output.len() + (1 - isize::from(count)).unsigned_abs().min(room), byte);
                data = rest;
            }
        }
    }
    Ok(output)
}

/// Mirrors an image according to its orientation. Rows never become columns: libtiff leaves that to
/// its callers, and CNTK 2.7's library does not do it.
fn turn(directory: &Directory<'_>, raster: &mut Raster) {
    let (mirror_x, mirror_y) = match directory.orientation {
        2 | 6 => (true, false),
        3 | 7 => (true, true),
        4 | 8 => (false, true),
        _ => (false, false),
    };
    let bytes = raster.layout.bytes();
    let row_bytes = raster.width as usize * bytes;
    if mirror_x {
        for row in raster.pixels.chunks_exact_mut(row_bytes.max(1)) {
            row.reverse();
            row.chunks_exact_mut(bytes).for_each(<[u8]>::reverse);
        }
    }
    if mirror_y {
        let height = raster.height as usize;
        for y in 0..height / 2 {
            let (upper, lower) = raster.pixels.split_at_mut((height - 1 - y) * row_bytes);
            upper[y * row_bytes..][..row_bytes].swap_with_slice(&mut lower[..row_bytes]);
        }
    }
}
