//! Generates small images in the formats that CNTK decodes.

use super::super::rng::Rng;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

/// Colors of all pixels, row after row: red, green, blue.
struct Colors {
    width: u32,
    height: u32,
    values: Vec<u8>,
}

/// Returns an encoded image of this size, and the extension of its file name.
pub fn draw(rng: &mut Rng, width: u32, height: u32) -> (&'static str, Vec<u8>) {
    let colors = Colors::draw(rng, width, height);
    match rng.below(12) {
        0..7 => {
            let mut content = colors.jpeg(rng);
            // If not even one row of MCUs is complete, CNTK delivers uninitialized memory.
            if rng.once_in(25) && height > 16 {
                let header = content.windows(2).position(|marker| marker == [0xff, 0xda]).unwrap_or_default();
                content.truncate(content.len() - (content.len() - header) / 5);
                return ("cut.jpg", content);
            }
            ("jpg", content)
        }
        7..10 => {
            let content = colors.png(rng);
            // The header contains the color depth.
            let is_deep = matches!(content.get(24..26), Some([16, 2 | 6]));
            (if is_deep { "deep.png" } else { "png" }, content)
        }
        10 => ("bmp", colors.bmp(rng)),
        _ => ("ppm", colors.portable(rng)),
    }
}

/// Images of the tests, in variants that the encoders here cannot produce.
macro_rules! fixtures {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../../../tests/images/files/images/", $name)) as &[u8])),*]
    };
}
const FIXTURES: [(&str, &[u8]); 12] = fixtures!(
    "exif6.jpg",
    "flat1x1.bmp",
    "j410.jpg",
    "j411.jpg",
    "jarith.jpg",
    "jrestart.jpg",
    "jrgb.jpg",
    "odd420.jpg",
    "p13x9.bmp",
    "scmyk.jpg",
    "sprog.jpg",
    "trunc.jpg"
);

/// Chooses one of the images of the tests.
pub fn fixture(rng: &mut Rng) -> (&'static str, Vec<u8>) {
    let (name, content) = *rng.pick(&FIXTURES);
    (name, content.to_vec())
}

/// Returns bytes that no decoder accepts.
pub fn broken(rng: &mut Rng) -> Vec<u8> {
    let (ending, mut content) = draw(rng, 9, 7);
    match rng.below(4) {
        0 => b"This is not an image.".to_vec(),
        1 => b"GIF89a\x03\0\x02\0\x80\0\0\x01\x02\x03\xff\xfe\xfd,\0\0\0\0\x03\0\x02\0\0\x02\x02\x84Q\0;"
            .to_vec(),
        // Decoders of other formats fill up truncated images.
        2 if ending.ends_with("png") => {
            content.truncate(content.len() / 2);
            content
        }
        _ => {
            content.splice(..2, *b"xx");
            content
        }
    }
}

impl Colors {
    fn draw(rng: &mut Rng, width: u32, height: u32) -> Colors {
        let style = rng.below(4);
        let (base, slope) = ([0; 3].map(|_| rng.below(256)), [0; 6].map(|_| rng.below(40)));
        let mut values = Vec::with_capacity(3 * width as usize * height as usize);
        for y in 0..height as usize {
            for x in 0..width as usize {
                for channel in 0..3 {
                    let smooth = base[channel] + x * slope[channel] + y * slope[3 + channel];
                    let value = match style {
                        0 => rng.below(256),
                        1 => smooth,
                        2 => smooth + rng.below(30),
                        _ => smooth / 60 * 77 + rng.below(4),
                    };
                    values.push(value as u8);
                }
            }
        }
        // Where red, green and blue are equal, PNG's gray conversion has a special case.
        if rng.once_in(6) {
            values.chunks_mut(3).for_each(|pixel| pixel.fill(pixel[0]));
        }
        Colors { width, height, values }
    }

    fn gray(&self) -> Vec<u8> {
        self.values.chunks(3).map(|pixel| pixel[1]).collect()
    }

    /// 4:4:0 is left out: its color upsampling depends on the version of CNTK's library.
    fn jpeg(&self, rng: &mut Rng) -> Vec<u8> {
        let mut content = Vec::new();
        let mut encoder = Encoder::new(&mut content, *rng.pick(&[3, 30, 75, 90, 90, 98, 100]));
        encoder.set_sampling_factor(*rng.pick(&[
            SamplingFactor::F_1_1,
            SamplingFactor::F_2_1,
            SamplingFactor::F_2_2,
            SamplingFactor::F_2_2,
            SamplingFactor::F_2_2,
            SamplingFactor::F_4_1,
            SamplingFactor::F_4_2,
        ]));
        encoder.set_progressive(rng.once_in(5));
        // The encoder's optimized Huffman tables do not allow for restart markers, so only one of
        // them.
        match rng.below(6) {
            0 => encoder.set_restart_interval(rng.range(1, 3) as u16),
            1 | 2 => encoder.set_optimized_huffman_tables(true),
            _ => {}
        }
        if rng.once_in(5) {
            let orientation = rng.below(10) as u8;
            let exif = exif(orientation, rng.once_in(2));
            encoder.add_app_segment(1, exif).unwrap_or_default();
        }
        let (width, height) = (self.width as u16, self.height as u16);
        let done = match rng.below(12) {
            0 => encoder.encode(&self.gray(), width, height, ColorType::Luma),
            1 => {
                let inks: Vec<u8> =
                    self.values.chunks(3).flat_map(|p| [p[0], p[1], p[2], p[0] / 2 + 99]).collect();
                let kind = *rng.pick(&[ColorType::Cmyk, ColorType::CmykAsYcck]);
                encoder.encode(&inks, width, height, kind)
            }
            _ => encoder.encode(&self.values, width, height, ColorType::Rgb),
        };
        // Sizes are at least 1, and writing to memory does not fail.
        done.unwrap_or_default();
        content
    }

    fn png(&self, rng: &mut Rng) -> Vec<u8> {
        let pixels = self.values.chunks(3);
        let (color, depth, data, palette): (_, _, Vec<u8>, Option<Vec<u8>>) = match rng.below(7) {
            0 => {
                let values = pixels.flat_map(|p| [p[0], p[1], p[2], p[0] ^ 0x55]).collect();
                (png::ColorType::Rgba, png::BitDepth::Eight, values, None)
            }
            1 => (png::ColorType::Grayscale, png::BitDepth::Eight, self.gray(), None),
            2 => {
                let values = pixels.flat_map(|p| [p[1], p[0]]).collect();
                (png::ColorType::GrayscaleAlpha, png::BitDepth::Eight, values, None)
            }
            3 => {
                let values = self.values.iter().flat_map(|&value| [value, value ^ 0xc3]).collect();
                (png::ColorType::Rgb, png::BitDepth::Sixteen, values, None)
            }
            4 => {
                let palette = (0..3 * 16).map(|_| rng.below(256) as u8).collect();
                (png::ColorType::Indexed, png::BitDepth::Four, self.packed(4), Some(palette))
            }
            5 => {
                let (depth, bits) =
                    *rng.pick(&[(png::BitDepth::One, 1), (png::BitDepth::Two, 2), (png::BitDepth::Four, 4)]);
                (png::ColorType::Grayscale, depth, self.packed(bits), None)
            }
            _ => (png::ColorType::Rgb, png::BitDepth::Eight, self.values.clone(), None),
        };
        let mut content = Vec::new();
        let mut encoder = png::Encoder::new(&mut content, self.width, self.height);
        encoder.set_color(color);
        encoder.set_depth(depth);
        if let Some(palette) = palette {
            encoder.set_palette(palette);
            if rng.once_in(2) {
                encoder.set_trns(vec![0, 128, 255]);
            }
        }
        if let Ok(mut writer) = encoder.write_header() {
            writer.write_image_data(&data).unwrap_or_default();
        }
        content
    }

    /// Packs the upper bits of the green values; each row starts at a byte boundary.
    fn packed(&self, bits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        for row in self.gray().chunks(self.width as usize) {
            for pixels in row.chunks(8 / bits as usize) {
                let place = |(number, value): (usize, &u8)| {
                    value >> (8 - bits) << (8 - bits) >> (number as u32 * bits)
                };
                out.push(pixels.iter().enumerate().map(place).fold(0, |byte, bits| byte | bits));
            }
        }
        out
    }

    fn bmp(&self, rng: &mut Rng) -> Vec<u8> {
        let bits = *rng.pick(&[24_u32, 24, 32, 8, 4, 1]);
        let top_down = rng.once_in(4);
        let width = self.width as usize;
        let mut rows: Vec<Vec<u8>> = match bits {
            24 => self
                .values
                .chunks(3 * width)
                .map(|row| row.chunks(3).flat_map(|p| [p[2], p[1], p[0]]).collect())
                .collect(),
            32 => self
                .values
                .chunks(3 * width)
                .map(|row| row.chunks(3).flat_map(|p| [p[2], p[1], p[0], 7]).collect())
                .collect(),
            _ => {
                let packed = self.packed(bits);
                packed.chunks((width * bits as usize).div_ceil(8)).map(<[u8]>::to_vec).collect()
            }
        };
        if !top_down {
            rows.reverse();
        }
        let colors = if bits <= 8 { 1_usize << bits } else { 0 };
        let is_gray = rng.once_in(3);
        let palette: Vec<u8> = (0..colors)
            .flat_map(|number| {
                let level = (number * 255 / (colors - 1)) as u8;
                let mut other = || if is_gray { level } else { rng.below(256) as u8 };
                [other(), other(), other(), 0]
            })
            .collect();
        for row in &mut rows {
            row.resize(row.len().next_multiple_of(4), 0);
        }
        let data = rows.concat();
        let offset = 54 + palette.len();
        let height = if top_down { -(self.height as i32) } else { self.height as i32 };
        let mut content = b"BM".to_vec();
        content.extend(((offset + data.len()) as u32).to_le_bytes());
        content.extend([0; 4]);
        content.extend((offset as u32).to_le_bytes());
        for word in [
            40,
            self.width,
            height as u32,
            1 | bits << 16,
            0,
            data.len() as u32,
            2835,
            2835,
            colors as u32,
            0,
        ] {
            content.extend(word.to_le_bytes());
        }
        [content, palette, data].concat()
    }

    fn portable(&self, rng: &mut Rng) -> Vec<u8> {
        let head = |kind: &str| format!("{kind}\n{} {}\n255\n", self.width, self.height).into_bytes();
        match rng.below(3) {
            0 => [head("P5"), self.gray()].concat(),
            1 => {
                let numbers: Vec<String> = self.values.iter().map(u8::to_string).collect();
                [head("P3"), (numbers.join(" ") + "\n").into_bytes()].concat()
            }
            _ => [head("P6"), self.values.clone()].concat(),
        }
    }
}

/// Returns an EXIF segment with only the orientation.
fn exif(orientation: u8, big: bool) -> Vec<u8> {
    let mut out = b"Exif\0\0".to_vec();
    out.extend(if big { b"MM" } else { b"II" });
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    out.extend(half(42));
    out.extend(word(8));
    out.extend(half(1));
    out.extend(half(0x0112));
    out.extend(half(3));
    out.extend(word(1));
    out.extend(half(orientation.into()));
    out.extend([0; 2]);
    out.extend(word(0));
    out
}
