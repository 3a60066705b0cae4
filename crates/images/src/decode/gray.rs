//! Brightness of colors. CNTK's library has a formula of its own for almost every format.

/// Brightness of a pixel: blue, green, red. For BMP, TIFF and PNM images, and JPEG images of four inks.
#[inline(always)]
pub fn luma([b, g, r]: [u8; 3]) -> u8 {
    ((1868 * u32::from(b) + 9617 * u32::from(g) + 4899 * u32::from(r) + 8192) >> 14) as u8
}

/// Brightness of a pixel of a PNG image: blue, green, red.
#[inline(always)]
pub fn png_luma([b, g, r]: [u8; 3]) -> u8 {
    if r == g && g == b {
        return r;
    }
    weigh([b, g, r])
}

/// Brightness of a pixel of 16 bits of a PNG image, in 8 bits: blue, green, red. Unlike that of 8 bits it is rounded before it is
/// cut (libpng 1.6).
pub fn deep_luma([b, g, r]: [u16; 3]) -> u8 {
    let [blue, green, red] = [b, g, r].map(u32::from);
    let gray = if r == g && g == b { red } else { (9797 * red + 19234 * green + 3737 * blue + 16384) >> 15 };
    (gray >> 8) as u8
}

fn weigh([b, g, r]: [u8; 3]) -> u8 {
    ((9797 * u32::from(r) + 19234 * u32::from(g) + 3737 * u32::from(b)) >> 15) as u8
}

/// Brightness of a PNG image with a gamma: colors are weighed as light, not as they are stored.
#[derive(Debug)]
pub struct Gamma {
    /// From stored values to light.
    light: [u8; 256],
    /// From light to stored values.
    stored: [u8; 256],
}

impl Gamma {
    /// Tables for a file's gamma, which is above 0.
    pub fn new(gamma: f64) -> Gamma {
        let table =
            |power: f64| std::array::from_fn(|i| ((i as f64 / 255.0).powf(power) * 255.0 + 0.5) as u8);
        Gamma { light: table(1.0 / gamma), stored: table(gamma) }
    }

    /// Brightness of a pixel: blue, green, red.
    pub fn luma(&self, pixel: [u8; 3]) -> u8 {
        let [b, g, r] = pixel;
        if r == g && g == b {
            return r;
        }
        self.stored[usize::from(weigh(pixel.map(|value| self.light[usize::from(value)])))]
    }
}
