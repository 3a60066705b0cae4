//! Images have exactly the requested channels, whatever their format and stored channels.

// These helpers only unwrap results about images that they write themselves.
#![allow(clippy::unwrap_used)]

use crate::common;

use cntk_reader::language;
use cntk_reader_engine::reader::{Epoch, Reader};
use std::path::{Path, PathBuf};

const WIDTH: usize = 5;
const HEIGHT: usize = 3;

/// Returns red, green, blue and alpha of a pixel.
fn pixel(index: usize) -> [u8; 4] {
    let value = |step: usize| (index * step + 17 * step) as u8;
    [value(31), value(57), value(83), [255, 128, 0][index % 3]]
}

fn pixels() -> impl Iterator<Item = [u8; 4]> {
    (0..WIDTH * HEIGHT).map(pixel)
}

/// The stored components of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Gray,
    GrayAlpha,
    Rgb,
    Rgba,
    Palette,
    Gray16,
    Rgb16,
    Rgba16,
}

/// The formula that a format uses for the luma of colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Luma {
    Common,
    Png,
    /// Of 16 bits, of which the upper 8 are kept.
    DeepPng,
}

fn luma([r, g, b]: [u8; 3], luma: Luma) -> u8 {
    let [red, green, blue] = [r, g, b].map(u32::from);
    match luma {
        _ if r == g && g == b => r,
        Luma::Common => ((1868 * blue + 9617 * green + 4899 * red + 8192) >> 14) as u8,
        Luma::Png => ((9797 * red + 19234 * green + 3737 * blue) >> 15) as u8,
        Luma::DeepPng => {
            let [red, green, blue] = [r, g, b].map(|value| u32::from(value) * 257);
            ((9797 * red + 19234 * green + 3737 * blue + 16384) >> 15 >> 8) as u8
        }
    }
}

/// An image file, its visible colors, and its luma formula.
struct File {
    name: String,
    bytes: Vec<u8>,
    colors: Vec<[u8; 3]>,
    luma: Luma,
}

/// Returns the colors of stored pixels. Formats drop the alpha, except for TIFF, whose library
/// multiplies by it: its alpha is 255 here.
fn colors(stored: Stored) -> Vec<[u8; 3]> {
    let is_gray = matches!(stored, Stored::Gray | Stored::GrayAlpha | Stored::Gray16);
    pixels().map(|[r, g, b, _]| if is_gray { [r; 3] } else { [r, g, b] }).collect()
}

fn samples(stored: Stored) -> Vec<u8> {
    let deep = |value: u8| [value; 2];
    pixels()
        .flat_map(|[r, g, b, a]| match stored {
            Stored::Gray => vec![r],
            Stored::GrayAlpha => vec![r, a],
            Stored::Rgb => vec![r, g, b],
            Stored::Rgba => vec![r, g, b, a],
            Stored::Gray16 => deep(r).to_vec(),
            Stored::Rgb16 => [r, g, b].map(deep).concat(),
            Stored::Rgba16 => [r, g, b, a].map(deep).concat(),
            Stored::Palette => unreachable!("palettes have indices"),
        })
        .collect()
}

fn png_of(stored: Stored) -> File {
    use png::{BitDepth, ColorType};
    let (color, depth) = match stored {
        Stored::Gray => (ColorType::Grayscale, BitDepth::Eight),
        Stored::GrayAlpha => (ColorType::GrayscaleAlpha, BitDepth::Eight),
        Stored::Rgb => (ColorType::Rgb, BitDepth::Eight),
        Stored::Rgba => (ColorType::Rgba, BitDepth::Eight),
        Stored::Palette => (ColorType::Indexed, BitDepth::Eight),
        Stored::Gray16 => (ColorType::Grayscale, BitDepth::Sixteen),
        Stored::Rgb16 => (ColorType::Rgb, BitDepth::Sixteen),
        Stored::Rgba16 => (ColorType::Rgba, BitDepth::Sixteen),
    };
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, WIDTH as u32, HEIGHT as u32);
    encoder.set_color(color);
    encoder.set_depth(depth);
    let data = match stored {
        Stored::Palette => {
            encoder.set_palette(pixels().flat_map(|[r, g, b, _]| [r, g, b]).collect::<Vec<u8>>());
            encoder.set_trns(pixels().map(|pixel| pixel[3]).collect::<Vec<u8>>());
            (0..WIDTH * HEIGHT).map(|index| index as u8).collect()
        }
        _ => samples(stored),
    };
    encoder.write_header().unwrap().write_image_data(&data).unwrap();
    let luma = if matches!(stored, Stored::Rgb16 | Stored::Rgba16) { Luma::DeepPng } else { Luma::Png };
    File { name: format!("{stored:?}.png"), bytes, colors: colors(stored), luma }
}

fn webp_of(stored: Stored) -> File {
    use image_webp::{ColorType, WebPEncoder};
    let color = match stored {
        Stored::Gray => ColorType::L8,
        Stored::GrayAlpha => ColorType::La8,
        Stored::Rgb => ColorType::Rgb8,
        _ => ColorType::Rgba8,
    };
    let mut bytes = Vec::new();
    let data = samples(stored);
    WebPEncoder::new(&mut bytes).encode(&data, WIDTH as u32, HEIGHT as u32, color).unwrap();
    File { name: format!("{stored:?}.webp"), bytes, colors: colors(stored), luma: Luma::Common }
}

/// Returns a BMP with 8 bits and a palette, 24 bits, or 32 bits.
fn bmp_of(stored: Stored) -> File {
    let bits = match stored {
        Stored::Palette | Stored::Gray => 8u16,
        Stored::Rgb => 24,
        _ => 32,
    };
    let palette: Vec<u8> = match stored {
        Stored::Palette => pixels().flat_map(|[r, g, b, _]| [b, g, r, 0]).collect(),
        Stored::Gray => (0..=255u8).flat_map(|value| [value, value, value, 0]).collect(),
        _ => Vec::new(),
    };
    let start = 54 + palette.len() as u32;
    let row = (WIDTH * usize::from(bits) / 8).next_multiple_of(4);
    let mut bytes = b"BM".to_vec();
    bytes.extend((start + (row * HEIGHT) as u32).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(start.to_le_bytes());
    bytes.extend([40, WIDTH as u32, HEIGHT as u32].map(u32::to_le_bytes).concat());
    bytes.extend([1, bits].map(u16::to_le_bytes).concat());
    bytes.extend([0, 0, 0, 0, (palette.len() / 4) as u32, 0].map(u32::to_le_bytes).concat());
    bytes.extend(&palette);
    for y in (0..HEIGHT).rev() {
        let from = bytes.len();
        for index in y * WIDTH..(y + 1) * WIDTH {
            let [r, g, b, a] = pixel(index);
            match (stored, bits) {
                (Stored::Palette, _) => bytes.push(index as u8),
                (Stored::Gray, _) => bytes.push(r),
                (_, 24) => bytes.extend([b, g, r]),
                _ => bytes.extend([b, g, r, a]),
            }
        }
        bytes.resize(from + row, 0);
    }
    File { name: format!("{stored:?}.bmp"), bytes, colors: colors(stored), luma: Luma::Common }
}

/// Returns a TIFF of one strip. An alpha is 255, and marked as unassociated.
fn tiff_of(stored: Stored) -> File {
    let (count, depth, photometric) = match stored {
        Stored::Gray => (1u32, 8u32, 1u32),
        Stored::GrayAlpha => (2, 8, 1),
        Stored::Rgb => (3, 8, 2),
        Stored::Rgba => (4, 8, 2),
        Stored::Palette => (1, 8, 3),
        Stored::Gray16 => (1, 16, 1),
        Stored::Rgb16 => (3, 16, 2),
        Stored::Rgba16 => (4, 16, 2),
    };
    let opaque: Vec<u8> = match stored {
        Stored::Palette => (0..WIDTH * HEIGHT).map(|index| index as u8).collect(),
        _ => {
            let (size, all) = ((count * depth / 8) as usize, samples(stored));
            let alpha = if matches!(stored, Stored::GrayAlpha | Stored::Rgba | Stored::Rgba16) {
                (depth / 8) as usize
            } else {
                0
            };
            all.chunks(size).flat_map(|pixel| [&pixel[..size - alpha], &[255; 2][..alpha]].concat()).collect()
        }
    };
    let map: Vec<u16> = (0..3)
        .flat_map(|channel| {
            (0..256).map(
                move |index| {
                    if index < WIDTH * HEIGHT { u16::from(pixel(index)[channel]) * 257 } else { 0 }
                },
            )
        })
        .collect();
    let mut bytes = b"MM\0*\0\0\0\x08".to_vec();
    let mut tags = vec![
        (256u16, 4u16, 1u32, WIDTH as u32),
        (257, 4, 1, HEIGHT as u32),
        (258, 3, 1, depth << 16),
        (259, 3, 1, 1 << 16),
        (262, 3, 1, photometric << 16),
        (273, 4, 1, 0),
        (277, 3, 1, count << 16),
        (278, 4, 1, HEIGHT as u32),
        (279, 4, 1, opaque.len() as u32),
    ];
    if stored == Stored::Palette {
        tags.push((320, 3, 768, 0));
    }
    if matches!(stored, Stored::GrayAlpha | Stored::Rgba | Stored::Rgba16) {
        tags.push((338, 3, 1, 2 << 16));
    }
    let end = 8 + 2 + 12 * tags.len() as u32 + 4;
    let strip = if stored == Stored::Palette { end + 1536 } else { end };
    bytes.extend((tags.len() as u16).to_be_bytes());
    for (tag, kind, number, value) in tags {
        let value = match tag {
            273 => strip,
            320 => end,
            _ => value,
        };
        bytes.extend([tag, kind].map(u16::to_be_bytes).concat());
        bytes.extend([number, value].map(u32::to_be_bytes).concat());
    }
    bytes.extend([0; 4]);
    if stored == Stored::Palette {
        bytes.extend(map.iter().flat_map(|value| value.to_be_bytes()));
    }
    bytes.extend(opaque);
    File { name: format!("{stored:?}.tif"), bytes, colors: colors(stored), luma: Luma::Common }
}

fn pnm_of(stored: Stored) -> File {
    let (kind, most) = match stored {
        Stored::Gray => (5, 255),
        Stored::Rgb => (6, 255),
        Stored::Gray16 => (5, 65535),
        _ => (6, 65535),
    };
    let mut bytes = format!("P{kind}\n{WIDTH} {HEIGHT}\n{most}\n").into_bytes();
    bytes.extend(samples(stored));
    File { name: format!("{stored:?}.pnm"), bytes, colors: colors(stored), luma: Luma::Common }
}

fn all_files() -> Vec<File> {
    use Stored::{Gray, Gray16, GrayAlpha, Palette, Rgb, Rgb16, Rgba, Rgba16};
    let all = [Gray, GrayAlpha, Rgb, Rgba, Palette, Gray16, Rgb16, Rgba16];
    let mut files: Vec<File> = all.map(png_of).into();
    files.extend(all.map(tiff_of));
    files.extend([Gray, GrayAlpha, Rgb, Rgba].map(webp_of));
    files.extend([Gray, Palette, Rgb, Rgba].map(bmp_of));
    files.extend([Gray, Rgb, Gray16, Rgb16].map(pnm_of));
    files
}

/// Returns the values of the only image of a map, and their shape.
fn read(folder: &Path, image: &Path, keys: &str, transforms: &str) -> Result<(Vec<usize>, Vec<f32>), String> {
    common::quiet();
    let map = folder.join("map.txt");
    std::fs::write(&map, format!("{}\t0\n", image.display())).unwrap();
    let text = format!(
        "randomize=false\ndeserializers=([type=ImageDeserializer;module=ImageReader;file=\"{}\";{keys}\n\
         input=[features=[transforms=({transforms})]\nlabels=[labelDim=1]]])",
        map.display()
    );
    let mut reader = Reader::open(&language::from_text(&text).unwrap()).unwrap();
    reader.start_epoch(&Epoch::sweeps(1).minibatch_size(1)).unwrap();
    let minibatch = reader.read().map_err(|error| error.to_string())?;
    let declared = reader.streams()[0].shape.clone();
    let shape = reader.shapes().get(0).map_or(declared, <[usize]>::to_vec);
    Ok((shape, minibatch.streams[0].dense::<f32>().unwrap().to_vec()))
}

fn interleaved(file: &File, channels: usize) -> Vec<f32> {
    let gray = |&color: &[u8; 3]| vec![f32::from(luma(color, file.luma))];
    let color = |&[r, g, b]: &[u8; 3]| vec![f32::from(b), f32::from(g), f32::from(r)];
    file.colors.iter().flat_map(|pixel| if channels == 1 { gray(pixel) } else { color(pixel) }).collect()
}

fn planar(values: &[f32], channels: usize) -> Vec<f32> {
    (0..channels).flat_map(|channel| values.iter().skip(channel).step_by(channels).copied()).collect()
}

fn scale(width: usize, height: usize, channels: usize) -> String {
    format!("[type=Scale;width={width};height={height};channels={channels}]")
}

#[test]
fn every_format_delivers_the_requested_channels() {
    let folder = tempfile::tempdir().unwrap();
    for file in all_files() {
        let path = folder.path().join(&file.name);
        std::fs::write(&path, &file.bytes).unwrap();
        for (keys, channels) in [("", 3), ("grayscale=false", 3), ("grayscale=true", 1)] {
            let values = interleaved(&file, channels);
            let found = |transforms: &str| read(folder.path(), &path, keys, transforms).unwrap();
            let name = format!("{} {keys}", file.name);
            assert_eq!(found(""), (vec![channels, WIDTH, HEIGHT], values.clone()), "{name}");
            let transposed = (vec![WIDTH, HEIGHT, channels], planar(&values, channels));
            assert_eq!(found("[type=Transpose]"), transposed, "{name} transposed");
            let scaled = scale(WIDTH, HEIGHT, channels);
            assert_eq!(found(&scaled), (vec![channels, WIDTH, HEIGHT], values.clone()), "{name} scaled");
            assert_eq!(found(&format!("{scaled}:[type=Transpose]")), transposed, "{name} scaled, transposed");
            // In a column or a pixel of one color, each channel stays separate.
            let (shape, values) = found(&scale(1, 1, channels));
            assert_eq!((shape, values.len()), (vec![channels, 1, 1], channels), "{name} as one pixel");
        }
        // One channel is gray, whichever key requests it.
        let gray = (vec![1, WIDTH, HEIGHT], interleaved(&file, 1));
        let found = read(folder.path(), &path, "", &scale(WIDTH, HEIGHT, 1));
        assert_eq!(found, Ok(gray), "{} as one channel", file.name);
        // More channels than exist would be out of bounds.
        let error = read(folder.path(), &path, "grayscale=true", &scale(WIDTH, HEIGHT, 3)).unwrap_err();
        assert!(error.contains("Scale expects images of 3 channels, but this image has 1"), "{error}");
        // Two channels are neither gray nor colors.
        let error = read(folder.path(), &path, "", &scale(WIDTH, HEIGHT, 2)).unwrap_err();
        assert!(error.contains("Scale says channels = 2, but this image has 3"), "{error}");
    }
}

/// CNTK delivers four channels for WebP images with alpha; here they have to be requested.
#[test]
fn only_webp_with_alpha_has_four_channels() {
    let folder = tempfile::tempdir().unwrap();
    for file in all_files() {
        let path = folder.path().join(&file.name);
        std::fs::write(&path, &file.bytes).unwrap();
        let found = read(folder.path(), &path, "", &scale(WIDTH, HEIGHT, 4));
        if file.name.ends_with("a.webp") || file.name == "GrayAlpha.webp" {
            let colors = file.colors.iter().zip(pixels());
            let values = colors.flat_map(|(&[r, g, b], [_, _, _, a])| [b, g, r, a]).map(f32::from).collect();
            assert_eq!(found, Ok((vec![4, WIDTH, HEIGHT], values)), "{}", file.name);
        } else {
            assert!(found.is_err_and(|error| error.contains("but this image has 3")), "{}", file.name);
        }
    }
}

#[test]
fn jpegs_have_the_requested_channels() {
    let folder = tempfile::tempdir().unwrap();
    let images = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/images/files/images");
    for name in ["sgray.jpg", "j444.jpg", "j420.jpg", "jrgb.jpg", "scmyk.jpg", "sprog.jpg", "jarith.jpg"] {
        let path = images.join(name);
        for (keys, channels) in [("", 3), ("grayscale=true", 1)] {
            let (shape, values) = read(folder.path(), &path, keys, "").unwrap();
            let [_, width, height] = shape[..] else { panic!("{shape:?}") };
            assert_eq!(shape[0], channels, "{name}");
            let scaled = read(folder.path(), &path, keys, &scale(width, height, channels)).unwrap();
            assert_eq!(scaled, (shape.clone(), values.clone()), "{name}");
            let transposed = read(folder.path(), &path, keys, "[type=Transpose]").unwrap();
            assert_eq!(transposed, (vec![width, height, channels], planar(&values, channels)), "{name}");
            if channels == 1 {
                let gray = read(folder.path(), &path, "", &scale(width, height, 1)).unwrap();
                assert_eq!(gray, (shape, values), "{name}");
            }
        }
    }
}
