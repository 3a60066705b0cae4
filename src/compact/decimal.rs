//! Decimals in 3 bytes: a whole number of 24 bits and, for all of them, the power of ten that divides it.
//!
//! Numbers that a program prints with a fixed number of decimals (`%.6f`) are such, below 8.4 for six decimals and
//! below 838 for four. Loading waits for memory that was never written before, and packing for memory that no cache
//! holds; both get along with three quarters of it. What comes back is the same to the bit, or the numbers are not stored so.

use crate::processor::Processor;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Bytes of a number.
pub const SIZE: usize = 3;

/// Decimals that are tried.
const MOST: u8 = 7;

/// Stands for -0: the one number of 24 bits that has no opposite.
const NEGATIVE_ZERO: i32 = -(1 << 23);

/// The sum of a number and 1.5 * 2^52 has it, rounded, as its lowest bits. Unlike a conversion this is the same for all
/// numbers, so that it is compiled to vector instructions.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// Numbers that are looked at together.
const BLOCK: usize = 256;

/// 10 to the number of decimals, which is exact.
fn power(decimals: u8) -> f32 {
    [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7][usize::from(decimals.min(MOST))]
}

/// The number that is stored for a value, if it can be.
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

/// Stores values, if all of them are decimals; says how many decimals they have.
pub fn store(values: &[f32], stored: &mut Vec<u8>) -> Option<u8> {
    let (mut decimals, mut done) = (0, 0);
    stored.clear();
    // Those before the first block that needs more decimals fit with more, too, if they are small enough: from the start.
    while done < values.len() {
        let block = &values[done..values.len().min(done + BLOCK)];
        if store_block(block, power(decimals), stored) {
            done += block.len();
            continue;
        }
        decimals = (decimals + 1..=MOST).find(|&more| store_block(block, power(more), stored))?;
        stored.clear();
        done = 0;
    }
    Some(decimals)
}

/// Appends a block, if all of it can be stored.
fn store_block(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool {
    match Processor::detect() {
        // SAFETY: it is this processor.
        #[cfg(target_arch = "x86_64")]
        Processor::Avx512 => unsafe { store_block_avx512(values, power, stored) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2 => unsafe { store_block_avx2(values, power, stored) },
        _ => store_block_by(values, power, stored),
    }
}

/// [`store_block_by`] with wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni")]
fn store_block_avx512(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool {
    store_block_by(values, power, stored)
}

/// The same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn store_block_avx2(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool {
    store_block_by(values, power, stored)
}

/// [`store_block`] with what the caller's processor has: the compiler makes vector instructions of it.
#[inline(always)]
fn store_block_by(values: &[f32], power: f32, stored: &mut Vec<u8>) -> bool {
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
        let [a, b, c, d] = four.map(|number| number as u32 & 0xff_ffff);
        let words = [a | b << 24, b >> 8 | c << 16, c >> 16 | d << 8];
        target.copy_from_slice(words.map(u32::to_le_bytes).as_flattened());
    }
    stored.truncate(from + values.len() * SIZE);
    true
}

/// Writes values in native order, as many as `stored` has and `target` has room for.
pub fn load(target: &mut [u8], stored: &[u8], decimals: u8) {
    let (target, stored) = (target.as_chunks_mut().0, stored.as_chunks().0);
    let power = power(decimals);
    match Processor::detect() {
        // SAFETY: it is this processor.
        #[cfg(target_arch = "x86_64")]
        Processor::Avx512 => unsafe { load_avx512(target, stored, power) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2 => unsafe { load_avx2(target, stored, power) },
        _ => load_by(target, stored, power),
    }
}

/// One by one.
#[inline(always)]
fn load_by(target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) {
    for (target, &[a, b, c]) in target.iter_mut().zip(stored) {
        *target = value(i32::from_le_bytes([0, a, b, c]) >> 8, power).to_ne_bytes();
    }
}

/// [`load_by`], 16 at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn load_avx512(target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) {
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
    // SAFETY: the array has 64 bytes.
    let places = unsafe { _mm512_loadu_si512(PLACES.as_ptr().cast()) };
    let (power, zero) = (_mm512_set1_ps(power), _mm512_set1_ps(-0.0));
    let negative_zero = _mm512_set1_epi32(NEGATIVE_ZERO);
    for (target, stored) in target.chunks_mut(16).zip(stored.chunks(16)) {
        let count = target.len().min(stored.len());
        // SAFETY: reads `count` numbers of 3 bytes.
        let bytes = unsafe { _mm512_maskz_loadu_epi8((1 << (count * SIZE)) - 1, stored.as_ptr().cast()) };
        let upper = _mm512_maskz_permutexvar_epi8(UPPER, places, bytes);
        let numbers = _mm512_srai_epi32::<8>(upper);
        let values = _mm512_div_ps(_mm512_cvtepi32_ps(numbers), power);
        let values = _mm512_mask_mov_ps(values, _mm512_cmpeq_epi32_mask(numbers, negative_zero), zero);
        // SAFETY: writes `count` values of 4 bytes.
        unsafe { _mm512_mask_storeu_ps(target.as_mut_ptr().cast(), ((1_u32 << count) - 1) as u16, values) };
    }
}

/// [`load_by`], 8 at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn load_avx2(target: &mut [[u8; 4]], stored: &[[u8; SIZE]], power: f32) {
    const LANES: usize = 8;
    /// Numbers that are read for 8: each half reads 16 bytes.
    const READ: usize = 10;
    let whole = _mm256_set1_ps(power);
    let negative_zero = _mm256_set1_epi32(NEGATIVE_ZERO);
    let places = _mm256_setr_epi8(
        -1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, //
        -1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11,
    );
    let count = target.len().min(stored.len());
    let mut done = 0;
    while done + READ <= count {
        // SAFETY: reads bytes 0 to 27 of the 30 of ten numbers that are there, and writes eight values.
        unsafe {
            let from = stored.as_ptr().add(done).cast::<u8>();
            let low = _mm_loadu_si128(from.cast());
            let high = _mm_loadu_si128(from.add(LANES / 2 * SIZE).cast());
            let upper = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places);
            let numbers = _mm256_srai_epi32::<8>(upper);
            let values = _mm256_div_ps(_mm256_cvtepi32_ps(numbers), whole);
            let is_zero = _mm256_castsi256_ps(_mm256_cmpeq_epi32(numbers, negative_zero));
            let values = _mm256_blendv_ps(values, _mm256_set1_ps(-0.0), is_zero);
            _mm256_storeu_ps(target.as_mut_ptr().add(done).cast(), values);
        }
        done += LANES;
    }
    load_by(&mut target[done..count], &stored[done..count], power);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Stores and loads with each processor that is here, and says how many decimals were found.
    fn round_trip(values: &[f32]) -> Option<u8> {
        let mut stored = vec![1];
        let decimals = store(values, &mut stored)?;
        assert_eq!(stored.len(), values.len() * SIZE);
        let expected: Vec<[u8; 4]> = values.iter().map(|value| value.to_ne_bytes()).collect();
        let numbers = stored.as_chunks().0;
        let check = |load: &dyn Fn(&mut [[u8; 4]])| {
            // One more, which must stay.
            let mut loaded = vec![[9; 4]; values.len() + 1];
            load(&mut loaded);
            assert_eq!(loaded.pop(), Some([9; 4]));
            assert_eq!(loaded, expected);
        };
        check(&|target| super::load(target.as_flattened_mut(), &stored, decimals));
        check(&|target| load_by(target, numbers, power(decimals)));
        #[cfg(target_arch = "x86_64")]
        if Processor::Avx2.is_here() {
            // SAFETY: this processor has it.
            check(&|target| unsafe { load_avx2(target, numbers, power(decimals)) });
        }
        #[cfg(target_arch = "x86_64")]
        if Processor::Avx512.is_here() {
            // SAFETY: as above.
            check(&|target| unsafe { load_avx512(target, numbers, power(decimals)) });
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
