//! The inverse discrete cosine transform: libjpeg's accurate integer version ("islow"), bit for bit
//! as libjpeg-turbo's vector code computes it. Coefficients of damaged files wrap and saturate in
//! the same places.

#![allow(unsafe_code, reason = "vector instructions")]

use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};

dispatch! {
    /// Transforms adjacent `blocks` into eight rows of `output`, which are `stride` bytes apart and
    /// get 8 bytes per block. `quant` is the quantization table.
    pub fn transform_row(blocks: &[[i16; 64]], quant: &[u16; 64], output: &mut [u8], stride: usize) = transform_row_with;
}

#[inline(always)]
fn transform_row_with<S: InstructionSet>(
    instructions: S,
    blocks: &[[i16; 64]],
    quant: &[u16; 64],
    output: &mut [u8],
    stride: usize,
) {
    // One check for all blocks: the last row of the last block must fit.
    assert!(
        blocks.is_empty() || (blocks.len() * 8 <= stride && output.len() >= 7 * stride + blocks.len() * 8)
    );
    match instructions.processor() {
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2(_) | Processor::Avx512(_) => {
            let (pairs, rest) = blocks.as_chunks::<2>();
            for (i, pair) in pairs.iter().enumerate() {
                // SAFETY: `Processor` proves AVX2. Pair `i` ends at column `16 * i + 16 <= 8 *
                // blocks.len()`, and by the assertion `output` holds 8 rows of that many bytes.
                unsafe { avx2::transform_pair(pair, quant, output.as_mut_ptr().add(16 * i), stride) };
            }
            if let [block] = rest {
                transform(block, quant, &mut output[16 * pairs.len()..], stride);
            }
        }
        Processor::Portable(_) => {
            for (i, block) in blocks.iter().enumerate() {
                transform(block, quant, &mut output[8 * i..], stride);
            }
        }
    }
}

/// Products of cosines and square roots, with 13 fractional bits.
mod factor {
    pub const F0_298: i16 = 2446;
    pub const F0_390: i16 = 3196;
    pub const F0_541: i16 = 4433;
    pub const F0_765: i16 = 6270;
    pub const F0_899: i16 = 7373;
    pub const F1_175: i16 = 9633;
    pub const F1_501: i16 = 12299;
    pub const F1_847: i16 = 15137;
    pub const F1_961: i16 = 16069;
    pub const F2_053: i16 = 16819;
    pub const F2_562: i16 = 20995;
    pub const F3_072: i16 = 25172;
}

/// Factors of the output pairs: each output is a sum of two products.
mod pairs {
    use super::factor::*;
    /// Inputs 2 and 6, for outputs 1, 2, 5, 6.
    pub const EVEN_INNER: (i16, i16) = (F0_541, F0_541 - F1_847);
    /// Inputs 2 and 6, for outputs 0, 3, 4, 7.
    pub const EVEN_OUTER: (i16, i16) = (F0_541 + F0_765, F0_541);
    /// Sums 3 + 7 and 1 + 5.
    pub const SUM_37: (i16, i16) = (F1_175 - F1_961, F1_175);
    /// Sums 3 + 7 and 1 + 5.
    pub const SUM_15: (i16, i16) = (F1_175, F1_175 - F0_390);
    /// Inputs 7 and 1.
    pub const ODD_0: (i16, i16) = (F0_298 - F0_899, -F0_899);
    /// Inputs 5 and 3.
    pub const ODD_1: (i16, i16) = (F2_053 - F2_562, -F2_562);
    /// Inputs 5 and 3.
    pub const ODD_2: (i16, i16) = (-F2_562, F3_072 - F2_562);
    /// Inputs 7 and 1.
    pub const ODD_3: (i16, i16) = (-F0_899, F1_501 - F0_899);
}

/// Right shift after the first pass.
const FIRST_SHIFT: u32 = 11;
/// Right shift after the second pass.
const SECOND_SHIFT: u32 = 18;

/// Transforms eight values in one dimension.
#[inline(always)]
fn transform_line(x: [i16; 8], shift: u32) -> [i16; 8] {
    let sum = |a: i16, b: i16, (p, q): (i16, i16)| i32::from(a) * i32::from(p) + i32::from(b) * i32::from(q);
    let even_0 = i32::from(x[0].wrapping_add(x[4])) << 13;
    let even_1 = i32::from(x[0].wrapping_sub(x[4])) << 13;
    let inner = sum(x[2], x[6], pairs::EVEN_INNER);
    let outer = sum(x[2], x[6], pairs::EVEN_OUTER);
    let even = [
        even_0.wrapping_add(outer),
        even_1.wrapping_add(inner),
        even_1.wrapping_sub(inner),
        even_0.wrapping_sub(outer),
    ];
    let (x37, x15) = (x[3].wrapping_add(x[7]), x[1].wrapping_add(x[5]));
    let (z37, z15) = (sum(x37, x15, pairs::SUM_37), sum(x37, x15, pairs::SUM_15));
    let odd = [
        sum(x[7], x[1], pairs::ODD_3).wrapping_add(z15),
        sum(x[5], x[3], pairs::ODD_2).wrapping_add(z37),
        sum(x[5], x[3], pairs::ODD_1).wrapping_add(z15),
        sum(x[7], x[1], pairs::ODD_0).wrapping_add(z37),
    ];
    let half = 1 << (shift - 1);
    let narrow = |value: i32| (value.wrapping_add(half) >> shift).clamp(-0x8000, 0x7FFF) as i16;
    std::array::from_fn(|i| match i {
        0..4 => narrow(even[i].wrapping_add(odd[i])),
        _ => narrow(even[7 - i].wrapping_sub(odd[7 - i])),
    })
}

/// Transforms one block.
fn transform(block: &[i16; 64], quant: &[u16; 64], output: &mut [u8], stride: usize) {
    let scaled: [i16; 64] = std::array::from_fn(|i| block[i].wrapping_mul(quant[i] as i16));
    let mut half_done = [0i16; 64];
    if block[8..].iter().all(|&value| value == 0) {
        for column in 0..8 {
            let value = scaled[column] << 2;
            (0..8).for_each(|row| half_done[8 * row + column] = value);
        }
    } else {
        for column in 0..8 {
            let values = transform_line(std::array::from_fn(|row| scaled[8 * row + column]), FIRST_SHIFT);
            (0..8).for_each(|row| half_done[8 * row + column] = values[row]);
        }
    }
    let (rows, _) = half_done.as_chunks::<8>();
    for (row, values) in rows.iter().enumerate() {
        let values = transform_line(*values, SECOND_SHIFT);
        let output = &mut output[row * stride..][..8];
        for (output, value) in output.iter_mut().zip(values) {
            *output = (value.clamp(-128, 127) + 128) as u8;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{FIRST_SHIFT, SECOND_SHIFT, pairs};
    use std::arch::x86_64::*;

    type Rows = [__m256i; 8];

    /// Broadcasts a pair of factors.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn factors((a, b): (i16, i16)) -> __m256i {
        _mm256_set1_epi32(i32::from(a as u16) | i32::from(b) << 16)
    }

    /// Transforms eight columns in each half in one dimension. The results are shifted right by
    /// `SHIFT`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn pass<const SHIFT: i32>(x: Rows) -> Rows {
        let zero = _mm256_setzero_si256();
        // Sums of products of adjacent values, for the lower and the upper four columns of each
        // half.
        let sums = |a, b, pair| {
            let factors = factors(pair);
            let low = _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), factors);
            (low, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), factors))
        };
        let add = |a: (__m256i, __m256i), b: (__m256i, __m256i)| {
            (_mm256_add_epi32(a.0, b.0), _mm256_add_epi32(a.1, b.1))
        };
        let sub = |a: (__m256i, __m256i), b: (__m256i, __m256i)| {
            (_mm256_sub_epi32(a.0, b.0), _mm256_sub_epi32(a.1, b.1))
        };
        // Multiply by 2^13: shift left by 16 through the unpack, then right by 3.
        let widen = |a| {
            let low = _mm256_srai_epi32::<3>(_mm256_unpacklo_epi16(zero, a));
            (low, _mm256_srai_epi32::<3>(_mm256_unpackhi_epi16(zero, a)))
        };
        let even_0 = widen(_mm256_add_epi16(x[0], x[4]));
        let even_1 = widen(_mm256_sub_epi16(x[0], x[4]));
        let inner = sums(x[2], x[6], pairs::EVEN_INNER);
        let outer = sums(x[2], x[6], pairs::EVEN_OUTER);
        let even = [add(even_0, outer), add(even_1, inner), sub(even_1, inner), sub(even_0, outer)];
        let (x37, x15) = (_mm256_add_epi16(x[3], x[7]), _mm256_add_epi16(x[1], x[5]));
        let (z37, z15) = (sums(x37, x15, pairs::SUM_37), sums(x37, x15, pairs::SUM_15));
        let odd = [
            add(sums(x[7], x[1], pairs::ODD_3), z15),
            add(sums(x[5], x[3], pairs::ODD_2), z37),
            add(sums(x[5], x[3], pairs::ODD_1), z15),
            add(sums(x[7], x[1], pairs::ODD_0), z37),
        ];
        let half = _mm256_set1_epi32(1 << (SHIFT - 1));
        let narrow = |a: (__m256i, __m256i)| {
            let low = _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(a.0, half));
            _mm256_packs_epi32(low, _mm256_srai_epi32::<SHIFT>(_mm256_add_epi32(a.1, half)))
        };
        [
            narrow(add(even[0], odd[0])),
            narrow(add(even[1], odd[1])),
            narrow(add(even[2], odd[2])),
            narrow(add(even[3], odd[3])),
            narrow(sub(even[3], odd[3])),
            narrow(sub(even[2], odd[2])),
            narrow(sub(even[1], odd[1])),
            narrow(sub(even[0], odd[0])),
        ]
    }

    /// Transposes each half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transpose(x: Rows) -> Rows {
        let (a0, a1) = (_mm256_unpacklo_epi16(x[0], x[1]), _mm256_unpackhi_epi16(x[0], x[1]));
        let (a2, a3) = (_mm256_unpacklo_epi16(x[2], x[3]), _mm256_unpackhi_epi16(x[2], x[3]));
        let (a4, a5) = (_mm256_unpacklo_epi16(x[4], x[5]), _mm256_unpackhi_epi16(x[4], x[5]));
        let (a6, a7) = (_mm256_unpacklo_epi16(x[6], x[7]), _mm256_unpackhi_epi16(x[6], x[7]));
        let (b0, b1) = (_mm256_unpacklo_epi32(a0, a2), _mm256_unpackhi_epi32(a0, a2));
        let (b2, b3) = (_mm256_unpacklo_epi32(a1, a3), _mm256_unpackhi_epi32(a1, a3));
        let (b4, b5) = (_mm256_unpacklo_epi32(a4, a6), _mm256_unpackhi_epi32(a4, a6));
        let (b6, b7) = (_mm256_unpacklo_epi32(a5, a7), _mm256_unpackhi_epi32(a5, a7));
        [
            _mm256_unpacklo_epi64(b0, b4),
            _mm256_unpackhi_epi64(b0, b4),
            _mm256_unpacklo_epi64(b1, b5),
            _mm256_unpackhi_epi64(b1, b5),
            _mm256_unpacklo_epi64(b2, b6),
            _mm256_unpackhi_epi64(b2, b6),
            _mm256_unpacklo_epi64(b3, b7),
            _mm256_unpackhi_epi64(b3, b7),
        ]
    }

    /// Transforms two blocks at once, one in each half of the vectors.
    ///
    /// # Safety
    ///
    /// `output` must have 16 bytes in each of 8 rows, `stride` bytes apart. The processor must have
    /// AVX2.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub unsafe fn transform_pair(blocks: &[[i16; 64]; 2], quant: &[u16; 64], output: *mut u8, stride: usize) {
        let row = |row: usize| {
            // SAFETY: `row` is 0 to 7, and each block has 8 rows of 8 values.
            unsafe {
                let low = _mm_loadu_si128(blocks[0].as_ptr().add(8 * row).cast());
                _mm256_inserti128_si256::<1>(
                    _mm256_castsi128_si256(low),
                    _mm_loadu_si128(blocks[1].as_ptr().add(8 * row).cast()),
                )
            }
        };
        let raw: Rows = [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)];
        let scale = |i: usize| {
            // SAFETY: `i` is 0 to 7, and the table has 8 rows of 8 values.
            let factors = unsafe { _mm_loadu_si128(quant.as_ptr().add(8 * i).cast()) };
            _mm256_mullo_epi16(raw[i], _mm256_broadcastsi128_si256(factors))
        };
        let or = |a, b| _mm256_or_si256(a, b);
        let rest = or(or(or(raw[1], raw[2]), or(raw[3], raw[4])), or(or(raw[5], raw[6]), raw[7]));
        // A block with zeros below its first row has constant columns; so do most flat blocks.
        let first = _mm256_slli_epi16::<2>(scale(0));
        let half_done = if _mm256_testz_si256(rest, rest) != 0 {
            [first; 8]
        } else {
            let x: Rows = [scale(0), scale(1), scale(2), scale(3), scale(4), scale(5), scale(6), scale(7)];
            let mut rows = pass::<{ FIRST_SHIFT as i32 }>(x);
            let (low, high) = (_mm256_castsi256_si128(rest), _mm256_extracti128_si256::<1>(rest));
            if _mm_testz_si128(low, low) != 0 {
                rows.iter_mut().for_each(|row| *row = _mm256_blend_epi32::<0x0F>(*row, first));
            } else if _mm_testz_si128(high, high) != 0 {
                rows.iter_mut().for_each(|row| *row = _mm256_blend_epi32::<0xF0>(*row, first));
            }
            rows
        };
        let columns = pass::<{ SECOND_SHIFT as i32 }>(transpose(half_done));
        let rows = transpose(columns);
        let offset = _mm256_set1_epi8(-128);
        for i in 0..4 {
            // Bytes 0 to 7 of each half are row `2 * i`, bytes 8 to 15 row `2 * i + 1`.
            let bytes = _mm256_add_epi8(_mm256_packs_epi16(rows[2 * i], rows[2 * i + 1]), offset);
            let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(bytes);
            // SAFETY: rows `2 * i` and `2 * i + 1` are at most 7, and the caller guarantees 16
            // writable bytes in each of 8 rows.
            unsafe {
                _mm_storeu_si128(output.add(2 * i * stride).cast(), _mm256_castsi256_si128(ordered));
                _mm_storeu_si128(
                    output.add((2 * i + 1) * stride).cast(),
                    _mm256_extracti128_si256::<1>(ordered),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_instruction_sets_agree_and_match_known_values() {
        let mut state = 1u32;
        let mut random = move || {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 8) as i32
        };
        for round in 0..2000 {
            let blocks: Vec<[i16; 64]> = (0..5)
                .map(|_| {
                    let kept = random() as usize % 65;
                    std::array::from_fn(|i| match round % 3 {
                        0 => random() as i16,
                        _ if i < kept => (random() % 400 - 200) as i16,
                        _ => 0,
                    })
                })
                .collect();
            let quant: [u16; 64] =
                std::array::from_fn(|_| (random() as u16) % if round % 5 == 0 { 4000 } else { 40 });
            let mut expected = vec![0; 40 * 8];
            blocks
                .iter()
                .enumerate()
                .for_each(|(i, block)| transform(block, &quant, &mut expected[8 * i..], 40));
            for processor in Processor::all() {
                let mut output = vec![0; 40 * 8];
                transform_row(processor, &blocks, &quant, &mut output, 40);
                assert_eq!(output, expected, "{processor:?}, round {round}");
            }
        }
        // A block with a mean only: 1024 / 8 above 128. The stored coefficient is 64, and its
        // quantization factor is 8.
        let mut block = [0; 64];
        block[0] = 64;
        let mut output = [0; 64];
        transform(&block, &[8; 64], &mut output, 8);
        assert_eq!(output, [192; 64]);
    }
}
