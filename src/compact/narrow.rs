//! Storing numbers narrow: whole numbers from 0 to 255 as `u8`, decimals in 3 bytes, rows below 65536 as `u16`. The packer
//! widens them.

use super::arena::Plain;
use super::{Value, ValueForm, decimal};
use crate::processor::Processor;

/// Numbers that are looked at together: enough to make one test of all of them cheap, few enough to give up early.
pub(super) const BLOCK: usize = 256;

/// Values of a stream.
pub trait Narrow: Value + Plain {
    /// The number as `u8` if it is whole and not too large; something else if not.
    fn guess(self) -> u8;

    /// Whether `guess` stands for exactly this number.
    fn is(self, guess: u8) -> bool;

    /// Stores numbers as [`decimal`] does, if all of them can be.
    fn as_decimals(numbers: &[Self], narrow: &mut Vec<u8>) -> Option<u8>;
}

impl Narrow for f32 {
    // The sum of such a number and 2^23 has it as its lowest bits. Unlike a conversion this is the same for all numbers,
    // so that it is compiled to vector instructions.
    #[inline(always)]
    fn guess(self) -> u8 {
        (self + 8_388_608.0).to_bits() as u8
    }

    #[inline(always)]
    fn is(self, guess: u8) -> bool {
        f32::from(guess).to_bits() == self.to_bits()
    }

    fn as_decimals(numbers: &[f32], narrow: &mut Vec<u8>) -> Option<u8> {
        decimal::store(numbers, narrow)
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

    fn as_decimals(_numbers: &[f64], _narrow: &mut Vec<u8>) -> Option<u8> {
        None
    }
}

/// Stores values narrow, if all of them can be: to the bit. `decimals`: they may be stored as such.
pub fn values<T: Narrow>(values: &[T], decimals: bool, narrow: &mut Vec<u8>) -> ValueForm {
    if bytes(values, narrow) {
        return ValueForm::Byte;
    }
    let decimals = if decimals { T::as_decimals(values, narrow) } else { None };
    decimals.map_or(ValueForm::Whole, ValueForm::Decimal)
}

/// Stores values as `u8`, if all of them can be.
fn bytes<T: Narrow>(values: &[T], narrow: &mut Vec<u8>) -> bool {
    match Processor::detect() {
        // SAFETY: it is this processor.
        #[cfg(target_arch = "x86_64")]
        Processor::Avx512 => unsafe { bytes_avx512(values, narrow) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2 => unsafe { bytes_avx2(values, narrow) },
        _ => bytes_by(values, narrow),
    }
}

/// [`bytes_by`] with wider registers: 0.14 ns a value where the plain one takes 0.5.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni")]
fn bytes_avx512<T: Narrow>(values: &[T], narrow: &mut Vec<u8>) -> bool {
    bytes_by(values, narrow)
}

/// The same: 0.34 ns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn bytes_avx2<T: Narrow>(values: &[T], narrow: &mut Vec<u8>) -> bool {
    bytes_by(values, narrow)
}

/// [`bytes`] with what the caller's processor has: the compiler makes vector instructions of it.
#[inline(always)]
fn bytes_by<T: Narrow>(values: &[T], narrow: &mut Vec<u8>) -> bool {
    narrow.clear();
    values.chunks(BLOCK).all(|block| {
        narrow.extend(block.iter().map(|value| value.guess()));
        let guesses = &narrow[narrow.len() - block.len()..];
        block.iter().zip(guesses).fold(true, |same, (value, &guess)| same & value.is(guess))
    })
}

/// Stores rows narrow, if all of them can be.
pub fn rows(rows: &[i32], narrow: &mut Vec<u16>) -> bool {
    narrow.clear();
    rows.chunks(BLOCK).all(|block| {
        narrow.extend(block.iter().map(|&row| row as u16));
        block.iter().fold(0, |all, &row| all | row as u32) <= u16::MAX.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_narrow<T: Narrow>(value: T) -> bool {
        let mut narrow = Vec::new();
        let many: Vec<T> = (0..=255u16).map(T::from_u16).chain([value]).collect();
        let all = values(&many, false, &mut narrow) == ValueForm::Byte;
        let mut plain = Vec::new();
        assert!(bytes_by(&many, &mut plain) == all && (plain == narrow || !all));
        assert!(!all || (narrow.iter().zip(&many)).all(|(&narrow, &value)| value.is(narrow)));
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
    fn only_small_rows_are_narrow() {
        let mut narrow = Vec::new();
        assert!(rows(&[0, 65535, 7], &mut narrow));
        assert_eq!(narrow, [0, 65535, 7]);
        assert!(!rows(&[65536], &mut narrow) && !rows(&[-1], &mut narrow));
        assert!(rows(&[], &mut narrow) && narrow.is_empty());
    }
}
