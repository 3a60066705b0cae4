//! Decimals in 1 to 3 bytes: each value is an integer divided by a power of ten that all values
//! share.
//!
//! This form suits values printed with a fixed number of decimals (`%.6f`): 3 bytes hold values
//! below 8.4 with six decimals or below 838 with four; 2 bytes hold values below 327.68 with two; 1
//! byte holds integers from -127 to 127. Values that would not round-trip exactly are not stored in
//! this form.
//!
//! Fewer bytes shorten sweeps, which are bound by memory: 1 byte instead of 3 makes a first sweep
//! 34 % shorter and later sweeps 50 %, 2 bytes instead of 3 make them 13 % and 30 % shorter. Sparse
//! samples of 100 signed integers in 2 bytes take 44 % less memory, and a first sweep 24 % less
//! time.

#![allow(unsafe_code, reason = "vector instructions")]

use crate::Result;
#[cfg(target_arch = "x86_64")]
use crate::cpu::processor::{Avx2, Avx512};
use crate::cpu::processor::{InstructionSet, Processor, dispatch};
use crate::memory::room;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Maximum number of bytes of a number.
pub const WIDEST: usize = 3;

/// Maximum number of decimals to try.
const MOST: u8 = 7;

/// The storage format of decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimals {
    /// Power of ten by which numbers are divided.
    decimals: u8,
    /// Bytes per number.
    size: u8,
}

impl Decimals {
    /// Returns the number of bytes per number.
    pub fn size(self) -> usize {
        usize::from(self.size)
    }

    /// Returns 10 to the number of decimals, which is exact.
    fn power(self) -> f32 {
        [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7][usize::from(self.decimals.min(MOST))]
    }

    /// Returns the formats with more decimals or more bytes, at most `widest`, and not less of
    /// either. Fewer decimals never need more bytes.
    fn larger(self, widest: usize) -> impl Iterator<Item = Decimals> {
        let sizes = move |decimals| (self.size..=widest as u8).map(move |size| Decimals { decimals, size });
        (self.decimals..=MOST).flat_map(sizes).skip(1)
    }
}

/// Represents -0 in `SIZE` bytes: the minimum, which has no positive counterpart.
const fn negative_zero<const SIZE: usize>() -> i32 {
    -(1 << (8 * SIZE - 1))
}

/// 1.5 * 2^52. Adding it to a number leaves the rounded number in the lowest bits of the sum.
/// Unlike a conversion, which saturates, the addition compiles to vector instructions.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// 1.5 * 2^23, the equivalent for `f32`.
const SHORT_ROUNDING: f32 = 12_582_912.0;

/// Number of values that are tested together.
const BLOCK: usize = 256;

/// Returns the integer to store for a value, if it can be stored. The rounding of the product in
/// `f32` does not matter below 2^15; three-byte numbers need `f64`.
#[inline(always)]
fn guess<const SIZE: usize>(value: f32, power: f32) -> i32 {
    let number = if SIZE < 3 {
        (value * power + SHORT_ROUNDING).to_bits().wrapping_sub(SHORT_ROUNDING.to_bits()) as i32
    } else {
        (f64::from(value) * f64::from(power) + ROUNDING).to_bits() as i32
    };
    if value.to_bits() == (-0.0_f32).to_bits() { negative_zero::<SIZE>() } else { number }
}

/// Returns the value of a stored number.
///
/// Estimates the quotient with the reciprocal and corrects it by the remainder. The result has the
/// bits of a division for every number and power (a test checks all of them), and later sweeps over
/// decimals are 4 to 10 % faster than with divisions.
#[inline(always)]
fn value<const SIZE: usize>(instructions: impl InstructionSet, number: i32, power: f32) -> f32 {
    let (whole, reciprocal) = (number as f32, 1.0 / power);
    let quotient = match instructions.processor() {
        Processor::Portable(_) => whole / power,
        #[cfg(target_arch = "x86_64")]
        _ => {
            let estimate = whole * reciprocal;
            (-estimate).mul_add(power, whole).mul_add(reciprocal, estimate)
        }
    };
    if number == negative_zero::<SIZE>() { -0.0 } else { quotient }
}

/// Stores values in at most `widest` bytes each, if all of them fit, and returns the format.
pub fn store(values: &[f32], widest: usize, stored: &mut Vec<u8>) -> Result<Option<Decimals>> {
    let processor = Processor::detect();
    let (mut form, mut done) = (Decimals { decimals: 0, size: 1 }, 0);
    stored.clear();
    // A block that needs more decimals or bytes than the format so far restarts the work.
    while done < values.len() {
        room::reserve(stored, BLOCK * WIDEST, room::CHUNK)?;
        let block = &values[done..values.len().min(done + BLOCK)];
        if store_block(processor, block, form, stored) {
            done += block.len();
            continue;
        }
        let Some(larger) = form.larger(widest).find(|&form| store_block(processor, block, form, stored))
        else {
            return Ok(None);
        };
        form = larger;
        stored.clear();
        done = 0;
    }
    Ok(Some(form))
}

/// Appends a block if all of it fits the format. There must be room for [`BLOCK`] numbers.
fn store_block(processor: Processor, values: &[f32], form: Decimals, stored: &mut Vec<u8>) -> bool {
    let power = form.power();
    match form.size {
        1 => store_in_one(processor, values, power, stored),
        2 => store_in_two(processor, values, power, stored),
        _ => store_in_three(processor, values, power, stored),
    }
}

dispatch! {
    /// Appends a block of one-byte numbers, if all of it fits.
    fn store_in_one(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool = store_with::<1>;
}

dispatch! {
    /// Appends a block of two-byte numbers, if all of it fits.
    fn store_in_two(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool = store_with::<2>;
}

dispatch! {
    /// Appends a block of three-byte numbers, if all of it fits.
    fn store_in_three(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool = store_with::<3>;
}

/// See [`store_block`]. Written so that the compiler vectorizes it.
#[inline(always)]
fn store_with<const SIZE: usize>(
    instructions: impl InstructionSet,
    values: &[f32],
    power: f32,
    stored: &mut Vec<u8>,
) -> bool {
    let mut numbers = [0; BLOCK];
    let mut same = true;
    for (number, &original) in numbers.iter_mut().zip(values) {
        *number = guess::<SIZE>(original, power);
        let is_small = number.wrapping_sub(negative_zero::<SIZE>()) as u32 >> (8 * SIZE) == 0;
        same &= is_small & (value::<SIZE>(instructions, *number, power).to_bits() == original.to_bits());
    }
    if !same {
        return false;
    }
    let from = stored.len();
    stored.resize(from + BLOCK * SIZE, 0);
    let targets = &mut stored[from..];
    if SIZE < 3 {
        for (target, number) in targets.as_chunks_mut::<SIZE>().0.iter_mut().zip(numbers) {
            target.copy_from_slice(&number.to_le_bytes()[..SIZE]);
        }
    } else {
        let targets = targets.as_chunks_mut::<12>().0;
        for (target, four) in targets.iter_mut().zip(numbers.as_chunks::<4>().0) {
            // Not `array::map`: the compiler does not always inline it here, which made a first
            // sweep over decimals 40 % slower.
            let bits = |at: usize| four[at] as u32 & 0xff_ffff;
            let [a, b, c, d] = [bits(0), bits(1), bits(2), bits(3)];
            let (words, _) = target.as_chunks_mut();
            words[0] = (a | b << 24).to_le_bytes();
            words[1] = (b >> 8 | c << 16).to_le_bytes();
            words[2] = (c >> 16 | d << 8).to_le_bytes();
        }
    }
    stored.truncate(from + values.len() * SIZE);
    true
}

/// Writes values in native byte order, until `stored` ends or `target` is full.
pub fn load(target: &mut [u8], stored: &[u8], form: Decimals) {
    load_on(Processor::detect(), target, stored, form);
}

dispatch! {
    /// [`load`] with an explicit instruction set.
    fn load_on(target: &mut [u8], stored: &[u8], form: Decimals) = load_by;
}

/// [`load`], inlined into a function that is compiled for this instruction set.
#[inline(always)]
pub(crate) fn load_by(instructions: impl InstructionSet, target: &mut [u8], stored: &[u8], form: Decimals) {
    let (target, power) = (target.as_chunks_mut().0, form.power());
    match form.size {
        1 => load_each::<1>(instructions, target, stored.as_chunks().0, power),
        2 => load_each::<2>(instructions, target, stored.as_chunks().0, power),
        _ => load_threes(instructions, target, stored.as_chunks().0, power),
    }
}

/// Writes three-byte values, until `stored` ends or `target` is full.
#[inline(always)]
fn load_threes<S: InstructionSet>(instructions: S, target: &mut [[u8; 4]], stored: &[[u8; 3]], power: f32) {
    match instructions.processor() {
        #[cfg(target_arch = "x86_64")]
        Processor::Avx512(instructions) => load_avx512(instructions, target, stored, power),
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2(instructions) => load_avx2(instructions, target, stored, power),
        Processor::Portable(_) => load_each(instructions, target, stored, power),
    }
}

/// Writes values of `SIZE` bytes, until `stored` ends or `target` is full. The compiler vectorizes
/// sizes 1 and 2.
#[inline(always)]
fn load_each<const SIZE: usize>(
    instructions: impl InstructionSet,
    target: &mut [[u8; 4]],
    stored: &[[u8; SIZE]],
    power: f32,
) {
    for (target, stored) in target.iter_mut().zip(stored) {
        let mut upper = [0; 4];
        upper[4 - SIZE..].copy_from_slice(stored);
        let number = i32::from_le_bytes(upper) >> (32 - 8 * SIZE);
        *target = value::<SIZE>(instructions, number, power).to_ne_bytes();
    }
}

/// [`load_threes`], 16 values at a time.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn load_avx512(_: Avx512, target: &mut [[u8; 4]], stored: &[[u8; 3]], power: f32) {
    const LANES: usize = 16;
    /// Stored numbers that allow an unmasked read of 64 bytes.
    const READ: usize = 22;
    // Number i becomes the three upper bytes of lane i.
    const PLACES: [u8; 64] = {
        let mut places = [0; 64];
        let mut i = 0;
        while i < 64 {
            places[i] = (i / 4 * 3 + i % 4).saturating_sub(1) as u8;
            i += 1;
        }
        places
    };
    const UPPER: u64 = 0xeeee_eeee_eeee_eeee;
    let count = target.len().min(stored.len());
    let mut done = 0;
    while done < count {
        let lanes = LANES.min(count - done);
        // SAFETY: the `Avx512` argument proves that the processor has these instructions. `lanes <=
        // count - done`, so `stored` has at least `lanes` more numbers of 3 bytes, and `target` has
        // room for `lanes` more values of 4 bytes. With at least READ numbers left, all 64 bytes
        // are within `stored`; otherwise the mask restricts the read to `lanes` numbers. The write
        // covers 16 values if `lanes` is 16; otherwise the mask restricts it to `lanes` values.
        // PLACES has 64 bytes.
        unsafe {
            let (from, to) =
                (stored.as_ptr().add(done).cast::<i8>(), target.as_mut_ptr().add(done).cast::<f32>());
            let bytes = match stored.len() - done {
                READ.. => _mm512_loadu_si512(from.cast()),
                _ => _mm512_maskz_loadu_epi8((1 << (lanes * 3)) - 1, from),
            };
            let places = _mm512_loadu_si512(PLACES.as_ptr().cast());
            let numbers = _mm512_srai_epi32::<8>(_mm512_maskz_permutexvar_epi8(UPPER, places, bytes));
            // As in `value`.
            let (whole, divisor) = (_mm512_cvtepi32_ps(numbers), _mm512_set1_ps(power));
            let reciprocal = _mm512_set1_ps(1.0 / power);
            let estimate = _mm512_mul_ps(whole, reciprocal);
            let rest = _mm512_fnmadd_ps(estimate, divisor, whole);
            let values = _mm512_fmadd_ps(rest, reciprocal, estimate);
            let is_zero = _mm512_cmpeq_epi32_mask(numbers, _mm512_set1_epi32(negative_zero::<3>()));
            let values = _mm512_mask_mov_ps(values, is_zero, _mm512_set1_ps(-0.0));
            match lanes {
                LANES => _mm512_storeu_ps(to, values),
                _ => _mm512_mask_storeu_ps(to, ((1_u32 << lanes) - 1) as u16, values),
            }
        }
        done += lanes;
    }
}

/// [`load_threes`], 8 values at a time.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn load_avx2(instructions: Avx2, target: &mut [[u8; 4]], stored: &[[u8; 3]], power: f32) {
    const LANES: usize = 8;
    /// Stored numbers that allow reading 8: each half of the register reads 16 bytes.
    const READ: usize = 10;
    let count = target.len().min(stored.len());
    let mut done = 0;
    while done + LANES <= count && done + READ <= stored.len() {
        // SAFETY: the `Avx2` argument proves that the processor has these instructions. By the
        // loop's condition, `stored` has at least READ more numbers of 3 bytes, of which bytes 0 to
        // 27 are read, and `target` has room for LANES more values, which are written.
        unsafe {
            // Each number becomes the three upper bytes of a lane. The lowest byte is shifted out.
            let places = _mm256_setr_epi8(
                0, 0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, //
                0, 0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11,
            );
            let from = stored.as_ptr().add(done).cast::<u8>();
            let low = _mm_loadu_si128(from.cast());
            let high = _mm_loadu_si128(from.add(LANES / 2 * 3).cast());
            let upper = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places);
            let numbers = _mm256_srai_epi32::<8>(upper);
            // As in `value`.
            let (whole, divisor) = (_mm256_cvtepi32_ps(numbers), _mm256_set1_ps(power));
            let reciprocal = _mm256_set1_ps(1.0 / power);
            let estimate = _mm256_mul_ps(whole, reciprocal);
            let rest = _mm256_fnmadd_ps(estimate, divisor, whole);
            let values = _mm256_fmadd_ps(rest, reciprocal, estimate);
            let is_zero =
                _mm256_castsi256_ps(_mm256_cmpeq_epi32(numbers, _mm256_set1_epi32(negative_zero::<3>())));
            let values = _mm256_blendv_ps(values, _mm256_set1_ps(-0.0), is_zero);
            _mm256_storeu_ps(target.as_mut_ptr().add(done).cast(), values);
        }
        done += LANES;
    }
    load_each(instructions, &mut target[done..count], &stored[done..count], power);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::pages::Pages;
    use proptest::prelude::*;

    /// Stores and loads with every instruction set of this processor; returns the decimals and
    /// bytes of the format.
    fn round_trip(values: &[f32]) -> Option<(u8, u8)> {
        let mut stored = vec![1];
        let form = store(values, WIDEST, &mut stored).expect("memory")?;
        assert_eq!(stored.len(), values.len() * form.size());
        assert!(values.is_empty() || stored.capacity() >= BLOCK * WIDEST, "memory is reserved fallibly");
        let expected: Vec<[u8; 4]> = values.iter().map(|value| value.to_ne_bytes()).collect();
        for processor in Processor::all() {
            // One extra value, which must stay unchanged.
            let mut loaded = vec![[9; 4]; values.len() + 1];
            load_on(processor, loaded.as_flattened_mut(), &stored, form);
            assert_eq!(loaded.pop(), Some([9; 4]), "{processor:?}");
            assert_eq!(loaded, expected, "{processor:?}");
            let mut again = Vec::new();
            let all = values.chunks(BLOCK).all(|block| store_block(processor, block, form, &mut again));
            assert!(all && again == stored, "{processor:?}");
        }
        let mut loaded = vec![[9; 4]; values.len()];
        load(loaded.as_flattened_mut(), &stored, form);
        assert_eq!(loaded, expected);
        Some((form.decimals, form.size))
    }

    #[test]
    fn all_values_equal_quotients() {
        dispatch! {
            fn first_difference(power: f32) -> Option<i32> = first_difference_with;
        }
        #[inline(always)]
        fn first_difference_with<S: InstructionSet>(instructions: S, power: f32) -> Option<i32> {
            // Only non-negative numbers: opposite numbers have opposite values.
            let mut numbers = 0..=8_388_607;
            numbers.find(|&number| {
                value::<3>(instructions, number, power).to_bits() != (number as f32 / power).to_bits()
            })
        }
        for processor in Processor::all() {
            for decimals in 0..=MOST {
                let power = Decimals { decimals, size: 3 }.power();
                assert_eq!(first_difference(processor, power), None, "{processor:?} 1e{decimals}");
            }
        }
    }

    #[test]
    fn decimals_round_trip_exactly_or_are_refused() {
        assert_eq!(round_trip(&[]), Some((0, 1)));
        assert_eq!(round_trip(&[0.0, -0.0, 127.0, -127.0]), Some((0, 1)));
        assert_eq!([-128.0, 128.0, 255.0].map(|value| round_trip(&[value])), [Some((0, 2)); 3]);
        assert_eq!([-32_768.0, 32_768.0, 65_535.0].map(|value| round_trip(&[value])), [Some((0, 3)); 3]);
        assert_eq!(round_trip(&[0.0, -0.0, 12.7, -12.7]), Some((1, 1)));
        assert_eq!(round_trip(&[327.67, -0.0, -327.67]), Some((2, 2)));
        assert_eq!(round_trip(&[-327.68]), Some((2, 3)));
        assert_eq!(round_trip(&[0.0, -0.0, 1.0, -8_388_607.0, 8_388_607.0]), Some((0, 3)));
        assert_eq!(round_trip(&[0.25, -0.0, 83_886.07]), Some((2, 3)));
        assert_eq!(round_trip(&[0.123_456, -8.388_607]), Some((6, 3)));
        assert_eq!(round_trip(&[0.000_000_1]), Some((7, 1)));
        for value in
            [8_388_608.0, -8_388_608.0, f32::NAN, f32::INFINITY, 1e-8, 0.123_456_78, 1e20, f32::MIN_POSITIVE]
        {
            assert_eq!(round_trip(&[1.0, value]), None, "{value}");
        }
        assert_eq!(round_trip(&[8.388_608, 0.000_001]), None);
        // The fewest decimals and bytes are found even if they are needed late.
        let mut many = vec![0.5; 5 * BLOCK + 3];
        many[3 * BLOCK + 1] = 0.031;
        assert_eq!(round_trip(&many), Some((3, 2)));
        many[4 * BLOCK] = 40.0;
        assert_eq!(round_trip(&many), Some((3, 3)));
    }

    #[test]
    fn formats_have_at_most_the_requested_size() {
        for (value, sizes) in
            [(127.0, [1, 1, 1]), (12.8, [0, 2, 2]), (8_388.607, [0, 0, 3]), (0.07, [1, 1, 1])]
        {
            let size =
                |widest| store(&[value], widest, &mut Vec::new()).expect("memory").map_or(0, Decimals::size);
            assert_eq!([1, 2, 3].map(size), sizes, "{value}");
        }
    }

    /// Bytes that end where readable memory ends, so that on Linux reading past them is a fault.
    struct Guarded {
        pages: Pages,
    }

    impl Guarded {
        /// A multiple of the page size of every supported system.
        const SIZE: usize = 64 << 10;

        fn new() -> Guarded {
            let pages = Pages::new(2 * Self::SIZE).expect("memory");
            // SAFETY: the second half of `pages` consists of whole pages, which nothing else refers to.
            #[cfg(target_os = "linux")]
            let result = unsafe {
                libc::mprotect(pages.start().as_ptr().add(Self::SIZE).cast(), Self::SIZE, libc::PROT_NONE)
            };
            #[cfg(target_os = "linux")]
            assert_eq!(result, 0);
            Guarded { pages }
        }

        /// Copies at most `SIZE` bytes.
        fn copy(&mut self, bytes: &[u8]) -> &[u8] {
            // SAFETY: the last `bytes.len()` bytes of the first half are readable, initialized by the copy,
            // and borrowed like `self`.
            unsafe {
                let start = self.pages.start().as_ptr().cast::<u8>().add(Self::SIZE - bytes.len());
                start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                std::slice::from_raw_parts(start, bytes.len())
            }
        }
    }

    #[test]
    fn loading_ends_with_the_shorter_slice() {
        const COUNT: usize = 50;
        let values: Vec<f32> = (0..COUNT).map(|number| (number as f32 - 25.0) / 10.0).collect();
        let mut guarded = Guarded::new();
        for (processor, size) in
            Processor::all().flat_map(|processor| [1, 2, 3].map(|size| (processor, size)))
        {
            let (form, mut stored) = (Decimals { decimals: 1, size }, Vec::new());
            assert!(store_block(processor, &values, form, &mut stored));
            for (source, target) in
                (0..=COUNT).flat_map(|source| (0..=COUNT).map(move |target| (source, target)))
            {
                let mut loaded = [[9; 4]; COUNT + 1];
                let stored = guarded.copy(&stored[..source * form.size()]);
                load_on(processor, loaded[..target].as_flattened_mut(), stored, form);
                let expected =
                    |at: usize| if at < source.min(target) { values[at].to_ne_bytes() } else { [9; 4] };
                assert!(
                    (0..=COUNT).all(|at| loaded[at] == expected(at)),
                    "{processor:?}: {source} to {target}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn printed_decimals_round_trip(numbers in prop::collection::vec(-8_388_607_i32..=8_388_607, 0..700), decimals in 0_usize..=7, shift in 0..24) {
            let values: Vec<f32> = numbers
                .iter()
                .map(|&number| format!("{:.decimals$}", f64::from(number >> shift) / 10_f64.powi(decimals as i32)))
                .map(|text| text.parse().expect("a number"))
                .collect();
            let found = round_trip(&values);
            prop_assert!(found.is_some_and(|(found, _)| usize::from(found) <= decimals), "{found:?}");
        }

        #[test]
        fn any_bits_round_trip_or_are_refused(bits in prop::collection::vec(any::<u32>(), 0..3), count in 0_usize..300) {
            let mut values = vec![0.5; count];
            values.extend(bits.into_iter().map(f32::from_bits));
            round_trip(&values);
        }
    }
}
