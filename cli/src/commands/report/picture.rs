//! Samples as pictures: bitmaps inside the page.

use super::values::as_double;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cntk_reader_tools::inspect::SequenceData;

/// The least width and height of a picture: smaller shapes are hardly images.
const LEAST: usize = 4;
/// The greatest width and height.
const MOST: usize = 1024;

/// A picture.
pub struct Picture {
    /// The bitmap as an address (`data:`).
    pub address: String,
    /// Width and height in pixels.
    pub size: (usize, usize),
}

/// Returns a sample as a picture, if it has the shape of an image: width and height, and before or
/// after them 1 or 3 channels.
pub fn of(data: &SequenceData, sample: usize) -> Option<Picture> {
    // Distances between the channels of a pixel, and between pixels.
    let (width, height, channels, steps) = match *data.shape.as_slice() {
        [width, height] => (width, height, 1, (0, 1)),
        [channels @ (1 | 3), width, height] => (width, height, channels, (1, channels)),
        [width, height, channels @ (1 | 3)] => (width, height, channels, (width * height, 1)),
        _ => return None,
    };
    let fits = |size: usize| (LEAST..=MOST).contains(&size);
    if !data.offsets.is_empty() || !fits(width) || !fits(height) {
        return None;
    }
    let size = width * height * channels;
    let values = (sample * size..(sample + 1) * size).map(|place| data.values.number(place).map(as_double));
    let bitmap = bitmap(width, height, steps, &values.collect::<Option<Vec<_>>>()?);
    let address = format!("data:image/bmp;base64,{}", STANDARD.encode(&bitmap));
    Some(Picture { address, size: (width, height) })
}

/// Returns a bitmap of one channel, or of blue, green and red ones, which is CNTK's order. Values
/// that look like bytes keep their brightness; others are scaled from black to white.
fn bitmap(width: usize, height: usize, (channel, pixel): (usize, usize), values: &[f64]) -> Vec<u8> {
    let finite = values.iter().copied().filter(|value| value.is_finite());
    let (least, most) = finite
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (value.min(least), value.max(most)));
    let are_bytes = least >= 0.0 && most > 1.0 && most <= 255.0;
    let (black, white) = if are_bytes { (0.0, 255.0) } else { (least, most) };
    let scale = if white > black { 255.0 / (white - black) } else { 0.0 };
    let is_gray = values.len() == width * height;
    let mut bitmap = header(width, height);
    // A bitmap begins with the bottom row, and pads each row to a multiple of four bytes.
    for y in (0..height).rev() {
        for x in 0..width {
            let byte = |color: usize| {
                let value = values[if is_gray { 0 } else { color * channel } + (y * width + x) * pixel];
                ((value - black) * scale).round().clamp(0.0, 255.0) as u8
            };
            bitmap.extend([0, 1, 2].map(byte));
        }
        bitmap.resize(HEADERS + (bitmap.len() - HEADERS).next_multiple_of(4), 0);
    }
    bitmap
}

/// Size of the headers of a bitmap.
const HEADERS: usize = 14 + 40;

/// Returns the headers of a bitmap with 24 bits per pixel.
fn header(width: usize, height: usize) -> Vec<u8> {
    let size = (width * 3).next_multiple_of(4) * height;
    let mut header = b"BM".to_vec();
    for number in [HEADERS + size, 0, HEADERS, 40, width, height, 1 | (24 << 16), 0, size, 0, 0, 0, 0] {
        header.extend((number as u32).to_le_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_up_and_are_padded() {
        // 5 pixels are 15 bytes, padded to 16.
        let values: Vec<f64> = (0..20).map(f64::from).collect();
        let bitmap = bitmap(5, 4, (0, 1), &values);
        assert_eq!(bitmap.len(), HEADERS + 4 * 16);
        assert_eq!(bitmap[2..6], (bitmap.len() as u32).to_le_bytes());
        assert_eq!(bitmap[HEADERS..HEADERS + 4], [15, 15, 15, 16], "the bottom row comes first");
        assert_eq!(bitmap[HEADERS + 15], 0);
        assert_eq!(bitmap[HEADERS + 3 * 16 + 3], 1, "the top row comes last");
    }

    #[test]
    fn channels_are_blue_green_red_and_fractions_are_scaled() {
        let planes = [[0.0; 16], [0.5; 16], [1.0; 16]].concat();
        assert_eq!(bitmap(4, 4, (16, 1), &planes)[HEADERS..HEADERS + 3], [0, 128, 255]);
        let pixels = [0.0, 0.5, 1.0].repeat(16);
        assert_eq!(bitmap(4, 4, (1, 3), &pixels), bitmap(4, 4, (16, 1), &planes));
    }

    #[test]
    fn constant_and_broken_values_are_drawn() {
        assert_eq!(bitmap(4, 4, (0, 1), &[7.0; 16])[HEADERS], 7);
        assert_eq!(bitmap(4, 4, (0, 1), &[-1.0; 16])[HEADERS], 0);
        assert_eq!(bitmap(4, 4, (0, 1), &[f64::NAN; 16])[HEADERS], 0);
    }
}
