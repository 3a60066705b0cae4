//! Conversion of components to blue, green, red.

#![allow(unsafe_code, reason = "vector instructions")]

use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};

// Factors with 16 fractional bits, without the integer parts that are added separately.
const RED: i16 = 26345; // 1.402 - 1
const BLUE: i16 = -14942; // 1.772 - 2
const GREEN_BLUE: i16 = -22554; // -0.34414
const GREEN_RED: i16 = 18734; // 1 - 0.71414

dispatch! {
    /// Converts YCbCr to blue, green, red. `output` has three bytes for each of `luma`.
    pub fn from_ycc(luma: &[u8], blue: &[u8], red: &[u8], output: &mut [u8]) = from_ycc_with;
}

#[inline(always)]
fn from_ycc_with<S: InstructionSet>(
    instructions: S,
    luma: &[u8],
    blue: &[u8],
    red: &[u8],
    output: &mut [u8],
) {
    let count = luma.len();
    assert!(blue.len() == count && red.len() == count && output.len() == 3 * count);
    let done = match instructions.processor() {
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2(_) | Processor::Avx512(_) => {
            let whole = count / 16;
            for i in 0..whole {
                // SAFETY: `Processor` proves AVX2. `i < count / 16`, and the assertion makes each
                // component `count` bytes long and the output `3 * count`, so 16 bytes are readable
                // at `16 * i` and 48 writable at `48 * i`.
                unsafe {
                    avx2::convert_16(
                        luma.as_ptr().add(16 * i),
                        blue.as_ptr().add(16 * i),
                        red.as_ptr().add(16 * i),
                        output.as_mut_ptr().add(48 * i),
                    );
                }
            }
            16 * whole
        }
        Processor::Portable(_) => 0,
    };
    let (pixels, _) = output[3 * done..].as_chunks_mut::<3>();
    for (((pixel, &y), &b), &r) in pixels.iter_mut().zip(&luma[done..]).zip(&blue[done..]).zip(&red[done..]) {
        *pixel = pixel_from_ycc(y, b, r);
    }
}

/// Converts one pixel to blue, green, red.
#[inline(always)]
pub fn pixel_from_ycc(y: u8, blue: u8, red: u8) -> [u8; 3] {
    let (y, x, z) = (i32::from(y), i32::from(blue) - 128, i32::from(red) - 128);
    let round = |value: i32| (value + 32768) >> 16;
    let b = y + 2 * x + round(i32::from(BLUE) * x);
    let g = y - z + round(i32::from(GREEN_BLUE) * x + i32::from(GREEN_RED) * z);
    let r = y + z + round(i32::from(RED) * z);
    [b, g, r].map(|value| value.clamp(0, 255) as u8)
}

/// Converts a CMYK pixel, inverted as in files (255 is no ink), to blue, green, red.
#[inline(always)]
pub fn pixel_from_cmyk([c, m, y, k]: [u8; 4]) -> [u8; 3] {
    let ink = |ink: u8| (i32::from(k) - (((255 - i32::from(ink)) * i32::from(k)) >> 8)) as u8;
    [ink(y), ink(m), ink(c)]
}

/// Returns the brightness of a pixel (blue, green, red) as libjpeg computes it for RGB images.
#[inline(always)]
pub fn luma_of_rgb([b, g, r]: [u8; 3]) -> u8 {
    ((19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b) + 32768) >> 16) as u8
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{BLUE, GREEN_BLUE, GREEN_RED, RED};
    use std::arch::x86_64::*;

    /// Shuffle mask that interleaves three channels: the positions of the bytes of `channel` in
    /// output vector `part`.
    const fn places(part: usize, channel: usize) -> [i8; 16] {
        let mut places = [-1; 16];
        let mut i = 0;
        while i < 16 {
            let at = 16 * part + i;
            if at % 3 == channel {
                places[i] = (at / 3) as i8;
            }
            i += 1;
        }
        places
    }

    const PLACES: [[[i8; 16]; 3]; 3] = [
        [places(0, 0), places(0, 1), places(0, 2)],
        [places(1, 0), places(1, 1), places(1, 2)],
        [places(2, 0), places(2, 1), places(2, 2)],
    ];

    /// 16 bytes must be readable at each component and 48 writable at `output`. The processor must
    /// have AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn convert_16(luma: *const u8, blue: *const u8, red: *const u8, output: *mut u8) {
        // SAFETY: the caller guarantees 16 readable bytes at each pointer.
        let (y, x, z) = unsafe {
            (_mm_loadu_si128(luma.cast()), _mm_loadu_si128(blue.cast()), _mm_loadu_si128(red.cast()))
        };
        let middle = _mm256_set1_epi16(128);
        let y = _mm256_cvtepu8_epi16(y);
        let x = _mm256_sub_epi16(_mm256_cvtepu8_epi16(x), middle);
        let z = _mm256_sub_epi16(_mm256_cvtepu8_epi16(z), middle);
        // The high half of the doubled product, plus one and halved, is the rounded product.
        let one = _mm256_set1_epi16(1);
        let part = |value, factor| {
            let doubled = _mm256_mulhi_epi16(_mm256_add_epi16(value, value), _mm256_set1_epi16(factor));
            _mm256_srai_epi16::<1>(_mm256_add_epi16(doubled, one))
        };
        let b = _mm256_add_epi16(_mm256_add_epi16(y, _mm256_add_epi16(x, x)), part(x, BLUE));
        let r = _mm256_add_epi16(_mm256_add_epi16(y, z), part(z, RED));
        let factors = _mm256_set1_epi32(i32::from(GREEN_BLUE as u16) | i32::from(GREEN_RED) << 16);
        let half = _mm256_set1_epi32(32768);
        let green =
            |pairs| _mm256_srai_epi32::<16>(_mm256_add_epi32(_mm256_madd_epi16(pairs, factors), half));
        let green =
            _mm256_packs_epi32(green(_mm256_unpacklo_epi16(x, z)), green(_mm256_unpackhi_epi16(x, z)));
        let g = _mm256_add_epi16(_mm256_sub_epi16(y, z), green);
        let bytes = |value| {
            let (low, high) = (_mm256_castsi256_si128(value), _mm256_extracti128_si256::<1>(value));
            _mm_packus_epi16(low, high)
        };
        let (b, g, r) = (bytes(b), bytes(g), bytes(r));
        for (part, places) in PLACES.iter().enumerate() {
            let [b, g, r] = [(b, places[0]), (g, places[1]), (r, places[2])].map(|(channel, places)| {
                // SAFETY: the array is 16 bytes long.
                let places = unsafe { _mm_loadu_si128(places.as_ptr().cast()) };
                _mm_shuffle_epi8(channel, places)
            });
            // SAFETY: `part` is at most 2, and the caller guarantees 48 writable bytes.
            unsafe { _mm_storeu_si128(output.add(16 * part).cast(), _mm_or_si128(_mm_or_si128(b, g), r)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_instruction_sets_agree_on_every_chroma_pair() {
        for y in [0, 1, 77, 128, 200, 255] {
            for x in 0..=255u8 {
                let (luma, blue, red) = ([y; 256], [x; 256], std::array::from_fn::<u8, 256, _>(|i| i as u8));
                let expected: Vec<u8> = red
                    .iter()
                    .flat_map(|&z| {
                        let (y, x, z) = (i32::from(y), i32::from(x) - 128, i32::from(z) - 128);
                        let b = y + ((116130 * x + 32768) >> 16);
                        let g = y + ((-22554 * x - 46802 * z + 32768) >> 16);
                        let r = y + ((91881 * z + 32768) >> 16);
                        [b, g, r].map(|value| value.clamp(0, 255) as u8)
                    })
                    .collect();
                for processor in Processor::all() {
                    for length in [256, 255, 7] {
                        let mut output = vec![0; 3 * length];
                        from_ycc(processor, &luma[..length], &blue[..length], &red[..length], &mut output);
                        assert_eq!(output, expected[..3 * length], "{processor:?}, y {y}, x {x}");
                    }
                }
            }
        }
    }
}
