//! Conversion of colors to gray. The library that CNTK uses has a different formula for almost
//! every format.

/// Returns the brightness of a pixel (blue, green, red) of a BMP, TIFF, PNM or CMYK JPEG image.
#[inline(always)]
pub fn luma([b, g, r]: [u8; 3]) -> u8 {
    ((1868 * u32::from(b) + 9617 * u32::from(g) + 4899 * u32::from(r) + 8192) >> 14) as u8
}

/// Returns the brightness of a pixel (blue, green, red) of a PNG image.
#[inline(always)]
pub fn png_luma([b, g, r]: [u8; 3]) -> u8 {
    if r == g && g == b {
        return r;
    }
    weigh([b, g, r])
}

/// Returns the 8-bit brightness of a 16-bit PNG pixel (blue, green, red). Unlike for 8-bit pixels,
/// the sum is rounded before it is truncated (libpng 1.6).
pub fn deep_luma([b, g, r]: [u16; 3]) -> u8 {
    let [blue, green, red] = [b, g, r].map(u32::from);
    let gray = if r == g && g == b { red } else { (9797 * red + 19234 * green + 3737 * blue + 16384) >> 15 };
    (gray >> 8) as u8
}

fn weigh([b, g, r]: [u8; 3]) -> u8 {
    ((9797 * u32::from(r) + 19234 * u32::from(g) + 3737 * u32::from(b)) >> 15) as u8
}

/// Brightness in a PNG image with a gamma: colors are weighted in linear light.
#[derive(Debug)]
pub struct Gamma {
    /// Stored values to linear light.
    light: [u8; 256],
    /// Linear light to stored values.
    stored: [u8; 256],
}

impl Gamma {
    /// Builds the tables for a file's gamma, which must be greater than 0.
    pub fn new(gamma: f64) -> Gamma {
        let table =
            |power: f64| std::array::from_fn(|i| ((i as f64 / 255.0).powf(power) * 255.0 + 0.5) as u8);
        Gamma { light: table(1.0 / gamma), stored: table(gamma) }
    }

    /// Returns the brightness of a pixel (blue, green, red).
    pub fn luma(&self, pixel: [u8; 3]) -> u8 {
        let [b, g, r] = pixel;
        if r == g && g == b {
            return r;
        }
        self.stored[usize::from(weigh(pixel.map(|value| self.light[usize::from(value)])))]
    }
}
