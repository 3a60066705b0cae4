//! [`super`] with AVX-512: eight entries in one register, whatever their lengths.

use super::super::output::Column;
use super::super::uniform_lines::{LANES, Lines, Template};
use super::avx512::{Avx512, equal, load, places};
use super::{Found, Pairs};
use crate::compact::Value;
use std::arch::x86_64::*;

impl Pairs for Avx512 {
    const AT_ONCE: u32 = LANES as u32;

    type Digits = ();

    #[inline(always)]
    unsafe fn digits(_: *const u8) {}

    #[inline(always)]
    unsafe fn equal(p: *const u8, byte: u8) -> u64 {
        // SAFETY: the caller promises AVX-512 F and BW, and 64 bytes.
        unsafe { equal(load(p), byte) }
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
            let text = load(p);
            let (starts, colons, ends) = (places(found.starts), places(found.colons), places(found.ends));
            let numbers = numbers(text, starts, colons, ends);
            let (found_rows, found_values) = sorted(numbers, &IN_TURN);
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
            let text = load(p);
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
            let (rows, values) = sorted(numbers(text, starts, colons, ends), &template.sorted.places);
            // Rows without an entry are 0.
            let dims = _mm256_loadu_si256(template.sorted.dims.as_ptr().cast());
            let large = _mm256_cmpge_epu32_mask(rows, dims);
            let wrong = (u32::from(other) | u32::from(apart)) & lanes | u32::from(large);
            // Lines end where they should.
            let shape = _pext_u64(breaks, found.ends) ^ (template.sorted.lasts & u64::from(lanes));
            if u64::from(wrong) | shape != 0 {
                return false;
            }
            let mut numbers = Numbers { rows: [0; LANES], values: [T::default(); LANES] };
            _mm256_storeu_si256(numbers.rows.as_mut_ptr().cast(), rows);
            store(values, numbers.values.as_mut_ptr());
            let samples = breaks.count_ones() as usize;
            match template.entries {
                1 => numbers.give::<LANES>(samples, template, columns),
                2 => numbers.give::<4>(samples, template, columns),
                3 | 4 => numbers.give::<2>(samples, template, columns),
                _ => numbers.give::<1>(samples, template, columns),
            }
        }
        true
    }
}

/// How a [`Template`] wants entries sorted: those of its first stream, as many as whole lines have room, then those of its
/// second one.
#[derive(Debug, Clone, Default)]
pub struct Sorted {
    /// Where rows, then values lie in what [`numbers`] gives.
    places: [u32; 2 * LANES],
    /// Rows are below these.
    dims: [u32; LANES],
    /// Which entries are a line's last.
    lasts: u64,
}

impl Sorted {
    /// For lines of so many entries, whose rows are below `dims`.
    pub fn new(entries: usize, dims: &[u32; LANES]) -> Sorted {
        let lines = LANES / entries;
        let entry = |lane: usize| match lane < lines * entries {
            true => lane % lines * entries + lane / lines,
            false => lane,
        };
        let place = |entry: usize| IN_TURN[entry];
        Sorted {
            places: std::array::from_fn(|i| place(entry(i % LANES) + i / LANES * LANES)),
            dims: std::array::from_fn(|lane| dims[entry(lane)]),
            lasts: (entries - 1..64).step_by(entries).fold(0, |lasts, entry| lasts | 1 << entry),
        }
    }
}

/// Rows and values of lines, sorted.
struct Numbers<T> {
    rows: [i32; LANES],
    values: [T; LANES],
}

impl<T: Value> Numbers<T> {
    /// Gives each stream its own, of which there are `GROUP` at most.
    ///
    /// # Safety
    /// As for [`Pairs::deliver`]; the template must have at most `LANES / GROUP` entries.
    #[inline(always)]
    unsafe fn give<const GROUP: usize>(
        &self,
        samples: usize,
        template: &Template,
        columns: &mut [Column<T>],
    ) {
        for (i, &stream) in template.streams[..template.entries].iter().enumerate() {
            // SAFETY: streams are those of the columns, which have room for GROUP more of everything.
            unsafe {
                let column = columns.get_unchecked_mut(stream);
                let entry = column.values.len();
                let rows = self.rows.as_ptr().add(i * GROUP).cast::<[i32; GROUP]>();
                column.rows.as_mut_ptr().add(entry).cast::<[i32; GROUP]>().write_unaligned(*rows);
                let values = self.values.as_ptr().add(i * GROUP).cast::<[T; GROUP]>();
                column.values.as_mut_ptr().add(entry).cast::<[T; GROUP]>().write_unaligned(*values);
                let starts = column.starts.as_mut_ptr().add(column.starts.len());
                for sample in 0..GROUP {
                    starts.add(sample).write((entry + sample) as u32 + 1);
                }
                column.count_single(samples);
            }
        }
    }
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

/// Rows and values of the first eight entries, [`IN_TURN`]; those of fewer are followed by zeros.
///
/// Each number is brought to the end of 8 bytes, with zeros before it instead of what the text has there; then neighbours
/// are joined by multiply-and-add, three times: to numbers of two, of four and of eight digits.
///
/// # Safety
/// The processor must have what [`crate::processor::Processor::Avx512`] names.
#[inline(always)]
unsafe fn numbers(text: __m512i, starts: __m512i, colons: __m512i, ends: __m512i) -> __m512i {
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
        let both = _mm512_packus_epi32(fours(rows), fours(values));
        _mm512_madd_epi16(both, _mm512_set1_epi32(0x0001_2710))
    }
}

/// Eight digits each as two numbers of four. No closure: that would have no instructions of its own.
///
/// # Safety
/// The processor must have AVX-512 with BW.
#[inline(always)]
unsafe fn fours(digits: __m512i) -> __m512i {
    // SAFETY: promised by the caller.
    unsafe {
        let twos = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
        _mm512_madd_epi16(twos, _mm512_set1_epi32(0x0001_0064))
    }
}

/// Where [`numbers`] has rows and values: two and two by turns.
const IN_TURN: [u32; 2 * LANES] = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];

/// Rows and values from these places.
///
/// # Safety
/// The processor must have AVX-512.
#[inline(always)]
unsafe fn sorted(numbers: __m512i, places: &[u32; 2 * LANES]) -> (__m256i, __m256i) {
    // SAFETY: promised by the caller; 64 bytes are read.
    unsafe {
        let both = _mm512_permutexvar_epi32(_mm512_loadu_si512(places.as_ptr().cast()), numbers);
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
