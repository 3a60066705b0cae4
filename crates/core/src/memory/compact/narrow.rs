//! Narrow numbers: integral values from 0 to 255 as `u8`, and indices below 65536 as `u16`.
//!
//! Pixels, counts and other integers then take a quarter of the memory, and most indices half.

use super::decimal::{self, Decimals};
use super::{Value, ValueForm};
use crate::Result;
use crate::cpu::processor::{InstructionSet, Processor, dispatch};
use crate::memory::room;

/// Number of values tested together: large enough for vector instructions, small enough to give up
/// early.
pub(super) const BLOCK: usize = 256;

/// Value types with a narrow form.
pub trait Narrow: Value {
    /// Returns the number as `u8` if it is an integer in range, and an arbitrary byte otherwise.
    fn guess(self) -> u8;

    /// Returns whether `guess` represents exactly this number.
    fn is(self, guess: u8) -> bool;

    /// Stores values like [`decimal::store`], if all of them fit, and returns the format.
    fn store_decimals(values: &[Self], widest: usize, stored: &mut Vec<u8>) -> Result<Option<Decimals>>;
}

impl Narrow for f32 {
    // Adding 2^23 to such a number leaves the number in the lowest bits of the sum. Unlike a
    // conversion, which saturates, the addition compiles to vector instructions.
    #[inline(always)]
    fn guess(self) -> u8 {
        (self + 8_388_608.0).to_bits() as u8
    }

    #[inline(always)]
    fn is(self, guess: u8) -> bool {
        f32::from(guess).to_bits() == self.to_bits()
    }

    fn store_decimals(values: &[f32], widest: usize, stored: &mut Vec<u8>) -> Result<Option<Decimals>> {
        decimal::store(values, widest, stored)
    }
}

impl Narrow for f64 {
    #[inline(always)]
    fn guess(self) -> u8 {
        (self + 4_503_599_627_370_496.0).to_bits() as u8
    }

    #[inline(always)]
    fn is(self, guess: u8) -> bool {
        f64::from(guess).to_bits() == self.to_bits()
    }

    fn store_decimals(_: &[f64], _: usize, _: &mut Vec<u8>) -> Result<Option<Decimals>> {
        Ok(None)
    }
}

/// Stores values in the narrowest form that represents all of them exactly, and returns the form;
/// with [`ValueForm::Whole`], the content of `stored` is useless. `widest` is the maximum size of a
/// [`decimal`] in bytes, or 0 to forbid decimals.
pub fn store_values<T: Narrow>(values: &[T], widest: usize, stored: &mut Vec<u8>) -> Result<ValueForm> {
    if store_bytes(Processor::detect(), values, stored)? {
        return Ok(ValueForm::Byte);
    }
    let decimals = if widest > 0 { T::store_decimals(values, widest, stored)? } else { None };
    Ok(decimals.map_or(ValueForm::Whole, ValueForm::Decimal))
}

dispatch! {
    /// Stores values as `u8`, if all of them fit.
    fn store_bytes<T: Narrow>(values: &[T], stored: &mut Vec<u8>) -> Result<bool> = store_bytes_with;
}

/// See [`store_bytes`]. Written so that the compiler vectorizes it.
#[inline(always)]
fn store_bytes_with<T: Narrow, S: InstructionSet>(_: S, values: &[T], stored: &mut Vec<u8>) -> Result<bool> {
    stored.clear();
    for block in values.chunks(BLOCK) {
        room::reserve(stored, block.len(), room::CHUNK)?;
        stored.extend(block.iter().map(|value| value.guess()));
        let guesses = &stored[stored.len() - block.len()..];
        if !block.iter().zip(guesses).fold(true, |same, (value, &guess)| same & value.is(guess)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Stores indices as `u16`, if all of them fit.
pub fn store_indices(indices: &[i32], stored: &mut Vec<u16>) -> Result<bool> {
    stored.clear();
    for block in indices.chunks(BLOCK) {
        room::reserve(stored, block.len(), room::CHUNK)?;
        stored.extend(block.iter().map(|&index| index as u16));
        if block.iter().fold(0, |all, &index| all | index as u32) > u16::MAX.into() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A stored number that takes `N` bytes in a minibatch.
pub trait Stored<const N: usize>: Copy {
    /// Returns the number as it is in the minibatch, in native byte order.
    fn widen(self) -> [u8; N];
}

/// A number that is stored in full width.
impl<const N: usize> Stored<N> for [u8; N] {
    #[inline(always)]
    fn widen(self) -> [u8; N] {
        self
    }
}

/// A value that widens to `f32`.
impl Stored<4> for u8 {
    #[inline(always)]
    fn widen(self) -> [u8; 4] {
        f32::from(self).to_ne_bytes()
    }
}

/// A value that widens to `f64`.
impl Stored<8> for u8 {
    #[inline(always)]
    fn widen(self) -> [u8; 8] {
        f64::from(self).to_ne_bytes()
    }
}

/// The value 1, which takes no memory.
#[derive(Debug, Clone, Copy)]
pub struct One;

impl One {
    /// More than the values of any sequence.
    pub const EVER: &[One] = &[One; usize::MAX];
}

impl Stored<4> for One {
    #[inline(always)]
    fn widen(self) -> [u8; 4] {
        1f32.to_ne_bytes()
    }
}

impl Stored<8> for One {
    #[inline(always)]
    fn widen(self) -> [u8; 8] {
        1f64.to_ne_bytes()
    }
}

/// An index that widens to `i32`.
impl Stored<4> for [u8; 2] {
    #[inline(always)]
    fn widen(self) -> [u8; 4] {
        u32::from(u16::from_ne_bytes(self)).to_ne_bytes()
    }
}

/// Widens numbers, until `source` ends or `target` is full.
#[inline(always)]
pub fn load<const N: usize, S: Stored<N>>(target: &mut [u8], source: &[S]) {
    for (target, source) in target.as_chunks_mut::<N>().0.iter_mut().zip(source) {
        *target = source.widen();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_narrow<T: Narrow>(value: T) -> bool {
        let many: Vec<T> = (0..=255u16).map(T::from_u16).chain([value]).collect();
        let mut stored = Vec::new();
        let all = store_values(&many, 0, &mut stored).expect("memory") == ValueForm::Byte;
        assert!(!all || stored.iter().zip(&many).all(|(&byte, &value)| value.is(byte)));
        for processor in Processor::all() {
            let mut again = Vec::new();
            assert_eq!(store_bytes(processor, &many, &mut again).expect("memory"), all, "{processor:?}");
            assert!(again == stored || !all, "{processor:?}");
        }
        all
    }

    #[test]
    fn only_small_whole_numbers_are_narrow() {
        for value in [0.0, 1.0, 254.0, 255.0] {
            assert!(is_narrow(value) && is_narrow(value as f32), "{value}");
        }
        let small = f64::MIN_POSITIVE;
        for value in [-0.0, -1.0, 0.5, 255.5, 256.0, 257.0, 65536.0, 1e20, small, f64::NAN, f64::INFINITY] {
            assert!(!is_narrow(value), "{value}");
            assert_eq!(is_narrow(value as f32), value == small, "{value}");
        }
        assert!(
            !is_narrow(f32::MIN_POSITIVE) && !is_narrow(f64::from_bits(1)) && !is_narrow(1.0 + f32::EPSILON)
        );
    }

    #[test]
    fn only_small_indices_are_narrow() {
        let narrow = |indices: &[i32]| {
            let mut stored = Vec::new();
            store_indices(indices, &mut stored).expect("memory").then_some(stored)
        };
        assert_eq!(narrow(&[0, 65535, 7]), Some(vec![0, 65535, 7]));
        assert_eq!((narrow(&[65536]), narrow(&[-1])), (None, None));
        // Pairs, which an exclusive "or" would cancel, and numbers past the first block.
        assert_eq!((narrow(&[65536, 65536]), narrow(&[-1, -1])), (None, None));
        let many: Vec<i32> = (0..=600).collect();
        assert_eq!(narrow(&many), Some((0..=600).collect()));
        assert_eq!(narrow(&[&many[..], &[70_000]].concat()), None);
        assert_eq!(narrow(&[]), Some(vec![]));
    }

    #[test]
    fn values_are_stored_in_the_narrowest_form() {
        fn stored<T: Narrow>(values: &[T], widest: usize) -> (&'static str, Vec<u8>) {
            let mut stored = vec![9; 5];
            match store_values(values, widest, &mut stored).expect("memory") {
                ValueForm::Byte => ("byte", stored),
                ValueForm::Decimal(_) => ("decimal", stored),
                ValueForm::Whole => ("whole", Vec::new()),
                other => panic!("{other:?}"),
            }
        }
        for widest in [0, 3] {
            assert_eq!(stored(&[7f32, 0.0, 255.0], widest), ("byte", vec![7, 0, 255]));
            assert_eq!(stored(&[7f64, 0.0, 255.0], widest), ("byte", vec![7, 0, 255]));
            assert_eq!(stored(&[0.5f64], widest), ("whole", vec![]));
        }
        assert_eq!(stored(&[0.5f32, -0.1], 0), ("whole", vec![]));
        assert_eq!(stored(&[0.5f32, -0.1], 1), ("decimal", vec![5, 255]));
        assert_eq!(stored(&[300f32], 1), ("whole", vec![]));
        assert_eq!(stored(&[300f32], 2), ("decimal", vec![44, 1]));
        assert!(f64::store_decimals(&[0.5], 3, &mut Vec::new()).expect("memory").is_none());
    }

    #[test]
    fn stored_numbers_are_widened() {
        fn loaded<const N: usize, S: Stored<N>>(source: &[S]) -> Vec<u8> {
            let mut target = vec![9; 2 * N];
            load::<N, S>(&mut target, source);
            target
        }
        let [float, double] = [7f32.to_ne_bytes().to_vec(), 7f64.to_ne_bytes().to_vec()];
        // Until the source ends or the target is full.
        assert_eq!(loaded::<4, u8>(&[7]), [float, vec![9; 4]].concat());
        assert_eq!(loaded::<8, u8>(&[7, 7, 1]), [double.clone(), double].concat());
        assert_eq!(loaded::<4, One>(One::EVER), [1f32.to_ne_bytes(); 2].concat());
        assert_eq!(loaded::<8, One>(One::EVER), [1f64.to_ne_bytes(); 2].concat());
        assert_eq!(loaded::<4, [u8; 4]>(&[[1, 2, 3, 4]]), [1, 2, 3, 4, 9, 9, 9, 9]);
        let indices = [1u16, 513].map(u16::to_ne_bytes);
        assert_eq!(loaded::<4, [u8; 2]>(&indices), [1i32, 513].map(i32::to_ne_bytes).concat());
        assert_eq!(loaded::<4, u8>(&[]), [9; 8]);
    }
}
