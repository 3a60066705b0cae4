//! [`super::pairs`] with AVX-512: eight entries in one register, whatever their lengths.

use super::avx512::Avx512;
use super::lines::{LANES, Lines, Template};
use super::number::Value;
use super::output::Column;
use super::pairs::{Found, Pairs};
use std::arch::x86_64::*;

impl Pairs for Avx512 {
    const AT_ONCE: u32 = LANES as u32;

    #[inline(always)]
    unsafe fn equal(p: *const u8, byte: u8) -> u64 {
        // SAFETY: the caller promises AVX-512 F and BW, and 64 bytes.
        unsafe { _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(p.cast()), _mm512_set1_epi8(byte as i8)) }
    }

    #[inline(always)]
    unsafe fn convert<T: Value>(
        p: *const u8,
        found: Found,
        count: u32,
        dim: usize,
        values: *mut T,
        rows: *mut i32,
    ) -> bool {
        // SAFETY: the caller promises AVX-512, 64 bytes at `p`, and room for 8 values and rows.
        unsafe {
            let text = _mm512_loadu_si512(p.cast());
            let (starts, colons, ends) = (places(found.starts), places(found.colons), places(found.ends));
            let (found_rows, found_values) = numbers(text, starts, colons, ends);
            let large = _mm256_cmpge_epu32_mask(found_rows, _mm256_set1_epi32(dim as i32));
            _mm256_storeu_si256(rows.cast(), found_rows);
            store(found_values, values);
            u32::from(large) & ((1 << count) - 1) == 0
        }
    }

    #[inline(always)]
    unsafe fn deliver<T: Value>(
        p: *const u8,
        lines: Lines,
        template: &Template,
        columns: &mut [Column<T>],
    ) -> bool {
        let Lines { pipes, found, breaks } = lines;
        let count = found.colons.count_ones();
        let lanes = (1u32 << count) - 1;
        // SAFETY: the caller promises AVX-512, 64 bytes at `p`, and room for 8 more entries in each column; those of the
        // lines count only when all are written.
        unsafe {
            let text = _mm512_loadu_si512(p.cast());
            let (starts, colons, ends) = (places(found.starts), places(found.colons), places(found.ends));
            let pipes = places(pipes);
            // Names, 8 bytes each.
            let at = _mm512_add_epi8(spread(pipes), _mm512_set1_epi64(0x0807_0605_0403_0201));
            let names = _mm512_permutexvar_epi8(at, text);
            let other = _mm512_xor_si512(names, _mm512_loadu_si512(template.names.as_ptr().cast()));
            let other = _mm512_test_epi64_mask(other, _mm512_loadu_si512(template.masks.as_ptr().cast()));
            // Rows begin right behind them.
            let offsets = _mm_loadl_epi64(template.offsets.as_ptr().cast());
            let expected = _mm_add_epi8(_mm512_castsi512_si128(pipes), offsets);
            let apart = _mm_cmpneq_epi8_mask(expected, _mm512_castsi512_si128(starts));
            let (rows, values) = numbers(text, starts, colons, ends);
            let dims = _mm256_loadu_si256(template.dims.as_ptr().cast());
            let large = _mm256_cmpge_epu32_mask(rows, dims);
            let wrong = (u32::from(other) | u32::from(apart) | u32::from(large)) & lanes;
            // Lines end where they should.
            let shape = _pext_u64(breaks, found.ends) ^ (template.lasts & u64::from(lanes));
            if u64::from(wrong) | shape != 0 {
                return false;
            }
            let samples = breaks.count_ones() as usize;
            for lane in 0..template.entries {
                let column = columns.get_unchecked_mut(template.streams[lane]);
                let lanes = (template.lasts << 1 | 1) << lane;
                let lanes = lanes as u8;
                let length = column.values.len();
                let rows = _mm256_maskz_compress_epi32(lanes, rows);
                _mm256_storeu_si256(column.rows.as_mut_ptr().add(length).cast(), rows);
                store(_mm256_maskz_compress_epi32(lanes, values), column.values.as_mut_ptr().add(length));
                let numbers = _mm256_set_epi32(8, 7, 6, 5, 4, 3, 2, 1);
                let numbers = _mm256_add_epi32(numbers, _mm256_set1_epi32(length as i32));
                _mm256_storeu_si256(column.starts.as_mut_ptr().add(column.starts.len()).cast(), numbers);
                column.count_single(samples);
            }
        }
        true
    }
}

/// The places of the bits that are set, one byte each.
///
/// # Safety
/// The processor must have AVX-512 with VBMI2.
#[inline(always)]
unsafe fn places(mask: u64) -> __m512i {
    const PLACES: [u8; 64] = {
        let mut places = [0; 64];
        let mut i = 0;
        while i < 64 {
            places[i] = i as u8;
            i += 1;
        }
        places
    };
    // SAFETY: promised by the caller; 64 bytes are read.
    unsafe { _mm512_maskz_compress_epi8(mask, _mm512_loadu_si512(PLACES.as_ptr().cast())) }
}

/// Each of the first eight bytes eight times.
///
/// # Safety
/// The processor must have AVX-512 with VBMI.
#[inline(always)]
unsafe fn spread(bytes: __m512i) -> __m512i {
    // SAFETY: promised by the caller.
    unsafe {
        let lanes = _mm512_set_epi64(
            0x0707_0707_0707_0707,
            0x0606_0606_0606_0606,
            0x0505_0505_0505_0505,
            0x0404_0404_0404_0404,
            0x0303_0303_0303_0303,
            0x0202_0202_0202_0202,
            0x0101_0101_0101_0101,
            0,
        );
        _mm512_permutexvar_epi8(lanes, bytes)
    }
}

/// Rows and values of the first eight entries; there may be fewer.
///
/// Each number is brought to the end of 8 bytes, with zeros before it instead of what the text has there; then neighbours
/// are joined by multiply-and-add, three times: to numbers of two, of four and of eight digits.
///
/// # Safety
/// The processor must have what [`super::fast::Processor::Avx512`] names.
#[inline(always)]
unsafe fn numbers(text: __m512i, starts: __m512i, colons: __m512i, ends: __m512i) -> (__m256i, __m256i) {
    // SAFETY: promised by the caller.
    unsafe {
        let (starts, colons, ends) = (spread(starts), spread(colons), spread(ends));
        // The 8 bytes before an end: -8 to -1.
        let before = _mm512_set1_epi64(0xfffe_fdfc_fbfa_f9f8_u64 as i64);
        let (in_row, in_value) = (_mm512_add_epi8(colons, before), _mm512_add_epi8(ends, before));
        let digits = _mm512_sub_epi8(text, _mm512_set1_epi8(0x30));
        let row = _mm512_cmpge_epi8_mask(in_row, starts);
        let value = _mm512_cmpgt_epi8_mask(in_value, colons);
        let rows = _mm512_maskz_permutexvar_epi8(row, in_row, digits);
        let values = _mm512_maskz_permutexvar_epi8(value, in_value, digits);
        let fours = |digits: __m512i| {
            let twos = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
            _mm512_madd_epi16(twos, _mm512_set1_epi32(0x0001_0064))
        };
        // Two rows and two values by turns.
        let both = _mm512_packus_epi32(fours(rows), fours(values));
        let both = _mm512_madd_epi16(both, _mm512_set1_epi32(0x0001_2710));
        let order = _mm512_set_epi32(15, 14, 11, 10, 7, 6, 3, 2, 13, 12, 9, 8, 5, 4, 1, 0);
        let both = _mm512_permutexvar_epi32(order, both);
        (_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64::<1>(both))
    }
}

/// Writes eight values.
///
/// # Safety
/// There must be room for them. The processor must have AVX-512.
#[inline(always)]
unsafe fn store<T: Value>(numbers: __m256i, values: *mut T) {
    // SAFETY: promised by the caller; a value is an `f32` or an `f64`, and its size says which.
    unsafe {
        if size_of::<T>() == size_of::<f32>() {
            _mm256_storeu_ps(values.cast(), _mm256_cvtepi32_ps(numbers));
        } else {
            _mm512_storeu_pd(values.cast(), _mm512_cvtepi32_pd(numbers));
        }
    }
}
