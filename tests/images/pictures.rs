//! Images for tests: recorded ones, and noise.

use cntk_reader_core::image::{Image, Pixels};
use flate2::read::ZlibDecoder;
use std::io::Read;

/// Returns an image of pseudo-random values.
pub fn noise(width: u32, height: u32, channels: u32) -> Image {
    let mut state = 1u64;
    let pixels = (0..width * height * channels).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    Image { width, height, channels, planar: false, pixels: Pixels::Bytes(pixels.collect()) }
}

/// Reads the pixels of a file as blue, green, red, or as gray. This minimal reader of PNG and BMP
/// with 8-bit colors keeps tests of transforms independent of decoders.
pub fn picture(path: &str, gray: bool) -> Image {
    let file = std::fs::read(path).expect("an image");
    let (width, height, colors) = if file.starts_with(b"BM") { bmp(&file) } else { png(&file) };
    // CNTK 2.7's weights of red, green and blue.
    let luma = |&[blue, green, red]: &[u8; 3]| match blue == green && green == red {
        true => [blue],
        false => [((9797 * u32::from(red) + 19234 * u32::from(green) + 3737 * u32::from(blue)) >> 15) as u8],
    };
    let pixels = match gray {
        true => colors.iter().flat_map(luma).collect(),
        false => colors.concat(),
    };
    let channels = if gray { 1 } else { 3 };
    Image { width, height, channels, planar: false, pixels: Pixels::Bytes(pixels) }
}

/// Reads the only BMP file that is needed, which has one pixel.
fn bmp(file: &[u8]) -> (u32, u32, Vec<[u8; 3]>) {
    assert_eq!((file[18], file[22]), (1, 1), "one pixel");
    let at = file[10] as usize;
    (1, 1, vec![[file[at], file[at + 1], file[at + 2]]])
}

fn png(file: &[u8]) -> (u32, u32, Vec<[u8; 3]>) {
    let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let (width, height) = (number(16), number(20));
    assert_eq!(file[24..29], [8, 2, 0, 0, 0], "8-bit colors");
    let (mut packed, mut at) = (Vec::new(), 8);
    while at < file.len() {
        let length = number(at) as usize;
        if &file[at + 4..at + 8] == b"IDAT" {
            packed.extend_from_slice(&file[at + 8..at + 8 + length]);
        }
        at += length + 12;
    }
    let mut lines = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut lines).expect("pixels");
    let row = width as usize * 3;
    let mut before = vec![0u8; row];
    let mut colors = Vec::new();
    for line in lines.chunks_exact(row + 1) {
        let mut values = line[1..].to_vec();
        for i in 0..row {
            let left = if i < 3 { 0 } else { values[i - 3] };
            let corner = if i < 3 { 0 } else { before[i - 3] };
            let above = before[i];
            let guess = match line[0] {
                0 => 0,
                1 => left,
                2 => above,
                3 => ((u16::from(left) + u16::from(above)) / 2) as u8,
                _ => {
                    let sum = i32::from(left) + i32::from(above) - i32::from(corner);
                    let near = |value: u8| (sum - i32::from(value)).abs();
                    match (near(left), near(above), near(corner)) {
                        (a, b, c) if a <= b && a <= c => left,
                        (_, b, c) if b <= c => above,
                        _ => corner,
                    }
                }
            };
            values[i] = values[i].wrapping_add(guess);
        }
        colors.extend(values.as_chunks::<3>().0.iter().map(|&[red, green, blue]| [blue, green, red]));
        before = values;
    }
    (width, height, colors)
}
