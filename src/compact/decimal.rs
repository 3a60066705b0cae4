//! Decimals in 3 bytes: each value is a whole number of 24 bits divided by a power of ten that all values share.
//!
//! Values that a program prints with a fixed number of decimals (`%.6f`) can be stored like this: those below 8.4 with six
//! decimals, below 838 with four. Values that would not come back to the bit are not stored in this form.

use crate::Result;
use crate::memory::room;
#[cfg(target_arch = "x86_64")]
use crate::processor::{Avx2, Avx512};
use crate::processor::{InstructionSet, Processor, dispatch};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Bytes of a number.
pub const SIZE: usize = 3;

/// The largest number of decimals that is tried.
const MOST: u8 = 7;

/// Stands for -0: the only number of 24 bits without an opposite.
const NEGATIVE_ZERO: i32 = -(1 << 23);

/// 1.5 * 2^52: the sum of this and a number has the number, rounded, as its lowest bits. Unlike a conversion, whose result
/// depends on the range, the addition is compiled to vector instructions.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// Values that are tested together.
const BLOCK: usize = 256;

/// 10 to the number of decimals, which is exact.
fn power(decimals: u8) -> f32 {
    [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7][usize::from(decimals.min(MOST))]
}

/// The number to store for a value, if the value can be stored.
#[inline(always)]
fn guess(value: f32, power: f32) -> i32 {
    let scaled = f64::from(value) * f64::from(power) + ROUNDING;
    if value.to_bits() == (-0.0_f32).to_bits() { NEGATIVE_ZERO } else { scaled.to_bits() as i32 }
}

/// The value that a number stands for.
#[inline(always)]
fn value(number: i32, power: f32) -> f32 {
    if number == NEGATIVE_ZERO { -0.0 } else { number as f32 / power }
}

/// Stores values, if all of them can be, and returns their number of decimals.
pub fn store(values: &[f32], stored: &mut Vec<u8>) -> Result<Option<u8>> {
    let processor = Processor::detect();
    let (mut decimals, mut done) = (0, 0);
    stored.clear();
    // A block that needs more decimals than those before it starts the work anew: values that fit with fewer decimals fit
    // with more, too, unless they are too large.
    while done < values.len() {
        room::reserve(stored, BLOCK * SIZE, room::CHUNK)?;
        let block = &values[done..values.len().min(done + BLOCK)];
        if store_block(processor, block, power(decimals), stored) {
            done += block.len();
            continue;
        }
        let fits = |&more: &u8| store_block(processor, block, power(more), stored);
        let Some(more) = (decimals + 1..=MOST).find(fits) else { return Ok(None) };
        decimals = more;
        stored.clear();
        done = 0;
    }
    Ok(Some(decimals))
}

dispatch! {
    /// Appends a block, if all of it can be stored. There must be room for [`BLOCK`] numbers.
    fn store_block(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool = store_block_with;
}

/// See [`store_block`]. The compiler makes vector instructions of it.
#[inline(always)]
fn store_block_with<S: InstructionSet>(_: S, values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool {
    let mut numbers = [0; BLOCK];
    let mut same = true;
    for (number, &original) in numbers.iter_mut().zip(values) {
        *number = guess(original, power);
        let is_small = number.wrapping_sub(NEGATIVE_ZERO) as u32 >> 24 == 0;
        same &= is_small & (value(*number, power).to_bits() == original.to_bits());
    }
    if !same {
        return false;
    }
    let from = stored.len();
    stored.resize(from + BLOCK * SIZE, 0);
    let targets = stored[from..].as_chunks_mut::<{ 4 * SIZE }>().0;
    for (target, four) in targets.iter_mut().zip(numbers.as_chunks::<4>().0) {
        // Without `array::map`, which the compiler does not always inline here: a first sweep over decimals took 1.4 of its time.
        let bits = |at: usize| four[at] as u32 & 0xff_ffff;
        let [a, b, c, d] = [bits(0), bits(1), bits(2), bits(3)];
        let (words, _) = target.as_chunks_mut();
        words[0] = (a | b << 24).to_le_bytes();
        words[1] = (b >> 8 | c << 16).to_le_bytes();
        words[2] = (c >> 16 | d << 8).to_le_bytes();
    }
    stored.truncate(from + values.len() * SIZE);
    true
}

/// Writes values in native byte order, as many as `stored` has and fit into `target`.
pub fn load(target: &mut [u8], stored: &[u8], decimals: u8) {
    load_numbers(Processor::detect(), target.as_chunks_mut().0, stored.as_chunks().0, power(decimals));
}

dispatch! {
    /// Writes values, as many as are stored and fit.
    fn load_numbers(target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) = load_with;
}

/// See [`load_numbers`].
#[inline(always)]
fn load_with<S: InstructionSet>(instructions: S, target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) {
    match instructions.processor() {
        #[cfg(target_arch = "x86_64")]
        Processor::Avx512(instructions) => load_avx512(instructions, target, stored, power),
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2(instructions) => load_avx2(instructions, target, stored, power),
        Processor::Portable(_) => load_each(target, stored, power),
    }
}

/// [`load_with`], one by one.
#[inline(always)]
fn load_each(target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) {
    for (target, &[a, b, c]) in target.iter_mut().zip(stored) {
        *target = value(i32::from_le_bytes([0, a, b, c]) >> 8, power).to_ne_bytes();
    }
}

/// [`load_with`], 16 at a time.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn load_avx512(_: Avx512, target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) {
    // Number i becomes the three upper bytes of lane i.
    const PLACES: [u8; 64] = {
        let mut places = [0; 64];
        let mut i = 0;
        while i < 64 {
            places[i] = (i / 4 * SIZE + i % 4).saturating_sub(1) as u8;
            i += 1;
        }
        places
    };
    const UPPER: u64 = 0xeeee_eeee_eeee_eeee;
    for (target, stored) in target.chunks_mut(16).zip(stored.chunks(16)) {
        let count = target.len().min(stored.len());
        // SAFETY: there is a value of `Avx512`. PLACES has 64 bytes; the masks let `count` numbers of 3 bytes be read,
        // which `stored` has, and `count` values of 4 bytes be written, for which `target` has room.
        unsafe {
            let places = _mm512_loadu_si512(PLACES.as_ptr().cast());
            let bytes = _mm512_maskz_loadu_epi8((1 << (count * SIZE)) - 1, stored.as_ptr().cast());
            let numbers = _mm512_srai_epi32::<8>(_mm512_maskz_permutexvar_epi8(UPPER, places, bytes));
            let values = _mm512_div_ps(_mm512_cvtepi32_ps(numbers), _mm512_set1_ps(power));
            let is_zero = _mm512_cmpeq_epi32_mask(numbers, _mm512_set1_epi32(NEGATIVE_ZERO));
            let values = _mm512_mask_mov_ps(values, is_zero, _mm512_set1_ps(-0.0));
            _mm512_mask_storeu_ps(target.as_mut_ptr().cast(), ((1_u32 << count) - 1) as u16, values);
        }
    }
}

/// [`load_with`], 8 at a time.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn load_avx2(_: Avx2, target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) {
    const LANES: usize = 8;
    /// Numbers that must be stored for 8 to be read: each half of the register reads 16 bytes.
    const READ: usize = 10;
    let count = target.len().min(stored.len());
    let mut done = 0;
    while done + READ <= count {
        // SAFETY: there is a value of `Avx2`. The loop's condition leaves READ numbers of 3 bytes in `stored`, of which
        // bytes 0 to 27 are read, and room for READ values in `target`, of which 8 are written.
        unsafe {
            let places = _mm256_setr_epi8(
                -1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, //
                -1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11,
            );
            let from = stored.as_ptr().add(done).cast::<u8>();
            let low = _mm_loadu_si128(from.cast());
            let high = _mm_loadu_si128(from.add(LANES / 2 * SIZE).cast());
            let upper = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places);
            let numbers = _mm256_srai_epi32::<8>(upper);
            let values = _mm256_div_ps(_mm256_cvtepi32_ps(numbers), _mm256_set1_ps(power));
            let is_zero = _mm256_castsi256_ps(_mm256_cmpeq_epi32(numbers, _mm256_set1_epi32(NEGATIVE_ZERO)));
            let values = _mm256_blendv_ps(values, _mm256_set1_ps(-0.0), is_zero);
            _mm256_storeu_ps(target.as_mut_ptr().add(done).cast(), values);
        }
        done += LANES;
    }
    load_each(&mut target[done..count], &stored[done..count], power);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stores and loads with each processor that is here, and says how many decimals were found.
    fn round_trip(values: &[f32]) -> Option<u8> {
        let mut stored = vec![1];
        let decimals = store(values, &mut stored).expect("memory")?;
        assert_eq!(stored.len(), values.len() * SIZE);
        let expected: Vec<[u8; 4]> = values.iter().map(|value| value.to_ne_bytes()).collect();
        for processor in Processor::all() {
            // One more than there are, which must stay as it is.
            let mut loaded = vec![[9; 4]; values.len() + 1];
            load_numbers(processor, &mut loaded, stored.as_chunks().0, power(decimals));
            assert_eq!(loaded.pop(), Some([9; 4]), "{processor:?}");
            assert_eq!(loaded, expected, "{processor:?}");
            let mut again = Vec::new();
            let all =
                values.chunks(BLOCK).all(|block| store_block(processor, block, power(decimals), &mut again));
            assert!(all && again == stored, "{processor:?}");
        }
        Some(decimals)
    }

    #[test]
    fn decimals_come_back_to_the_bit_and_others_are_refused() {
        assert_eq!(round_trip(&[]), Some(0));
        assert_eq!(round_trip(&[0.0, -0.0, 1.0, -8_388_607.0, 8_388_607.0]), Some(0));
        assert_eq!(round_trip(&[0.25, -0.0, 83_886.07]), Some(2));
        assert_eq!(round_trip(&[0.123_456, -8.388_607]), Some(6));
        assert_eq!(round_trip(&[0.000_000_1]), Some(7));
        for value in
            [8_388_608.0, -8_388_608.0, f32::NAN, f32::INFINITY, 1e-8, 0.123_456_78, 1e20, f32::MIN_POSITIVE]
        {
            assert_eq!(round_trip(&[1.0, value]), None, "{value}");
        }
        assert_eq!(round_trip(&[8.388_608, 0.000_001]), None);
        // The fewest decimals are found even if they are needed late.
        let mut many = vec![0.5; 5 * BLOCK + 3];
        many[3 * BLOCK + 1] = 0.031;
        assert_eq!(round_trip(&many), Some(3));
    }

    proptest! {
        #[test]
        fn printed_decimals_come_back(numbers in prop::collection::vec(-8_388_607_i32..=8_388_607, 0..700), decimals in 0_usize..=7) {
            let values: Vec<f32> = numbers
                .iter()
                .map(|&number| format!("{:.decimals$}", f64::from(number) / 10_f64.powi(decimals as i32)))
                .map(|text| text.parse().expect("a number"))
                .collect();
            let found = round_trip(&values);
            prop_assert!(found.is_some_and(|found| usize::from(found) <= decimals), "{found:?}");
        }

        #[test]
        fn any_bits_come_back_or_are_refused(bits in prop::collection::vec(any::<u32>(), 0..3), count in 0_usize..300) {
            let mut values = vec![0.5; count];
            values.extend(bits.into_iter().map(f32::from_bits));
            round_trip(&values);
        }
    }
}
