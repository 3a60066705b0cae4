//! Counts values that are not finite: infinities and NaN.

use super::Value;
use super::narrow::BLOCK;
use crate::cpu::processor::{InstructionSet, Processor, dispatch};

/// Returns the number of values that are infinite or NaN.
pub fn count_not_finite<T: Value>(values: &[T]) -> u64 {
    count(Processor::detect(), values)
}

dispatch! {
    /// See [`count_not_finite`].
    fn count<T: Value>(values: &[T]) -> u64 = count_with;
}

/// Tests whole blocks first, which compiles to vector instructions; nearly all blocks are finite.
#[inline(always)]
fn count_with<T: Value, S: InstructionSet>(_: S, values: &[T]) -> u64 {
    let mut count = 0;
    for block in values.chunks(BLOCK) {
        if !block.iter().fold(true, |all, value| all & value.is_finite()) {
            count += block.iter().filter(|value| !value.is_finite()).count() as u64;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<T: Value>(special: [T; 4]) -> u64 {
        let mut values: Vec<T> = (0..1000u16).map(T::from_u16).collect();
        // In the first block, on both sides of a block boundary, and at the end.
        for (place, value) in [0, BLOCK - 1, BLOCK, 999].into_iter().zip(special) {
            values[place] = value;
        }
        for processor in Processor::all() {
            assert_eq!(count(processor, &values), count_not_finite(&values), "{processor:?}");
        }
        count_not_finite(&values)
    }

    #[test]
    fn infinities_and_nan_are_counted_by_all_instruction_sets() {
        assert_eq!(found([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN]), 4);
        assert_eq!(found([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN]), 4);
        assert_eq!(found([f32::MAX, f32::MIN, f32::from_bits(1), -0.0]), 0);
        assert_eq!(found([f64::MAX, f64::MIN, f64::from_bits(1), -0.0]), 0);
    }
}
