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
    ((9797 * u32::from(r) + 19234 * u32::from(g) + 3737 * u32::from(b)) >> 15) as u8
}
