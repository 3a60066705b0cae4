//! Compact storage: chunks keep values and indices in less memory than minibatches do.
//!
//! Loading is bound by writes to fresh memory, and packing by memory that is not in any cache. So
//! every form with fewer bytes shortens both, provided that widening into the minibatch is cheap:
//!
//! - [`narrow`]: integers from 0 to 255 as `u8` instead of 4 or 8 bytes, indices below 65536 as
//!   `u16`. A first sweep over samples of 784 pixels is a third shorter.
//! - [`decimal`]: values with a fixed number of decimals, and integers, in 1 to 3 bytes each. A
//!   window takes 25 to 75 % less memory; sweeps are shorter where 1 or 2 bytes suffice.
//! - [`implied`], [`ValueForm::Ones`]: nothing instead of 4 or 8 bytes for values that are all 1,
//!   and for the offsets of samples with one entry each. Words and labels take a third of the
//!   memory.
//! - [`arena`]: the arrays of a segment share one piece of recycled memory, instead of one
//!   allocation each, which avoids writes to fresh pages.
//!
//! Each module contains both the encoder and the decoder; the packer calls [`widen`]. All forms
//! round-trip exactly; data that would not are stored in their full width.

pub mod arena;
pub mod decimal;
pub mod finite;
pub mod implied;
pub mod narrow;
pub mod widen;

use crate::stream::ElementType;
use decimal::Decimals;

/// A floating-point type of values: `f32` or `f64`.
pub trait Value: bytemuck::Pod + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// Returns the nearest value, ties to even.
    fn from_f64(number: f64) -> Self;
    /// Returns the value of a small integer, which is exact.
    fn from_u16(number: u16) -> Self;
    /// Returns the nearest value to an integer, ties to even.
    fn from_i32(number: i32) -> Self;
    /// Flips the sign, also of zero, if the lowest bit is set. Branchless, because signs are
    /// unpredictable.
    fn negated_if(self, bit: u64) -> Self;
    /// Returns whether the value is neither infinite nor NaN.
    fn is_finite(self) -> bool;
}

impl Value for f32 {
    #[inline(always)]
    fn from_f64(number: f64) -> f32 {
        number as f32
    }
    #[inline(always)]
    fn from_u16(number: u16) -> f32 {
        number.into()
    }
    #[inline(always)]
    fn from_i32(number: i32) -> f32 {
        number as f32
    }
    #[inline(always)]
    fn negated_if(self, bit: u64) -> f32 {
        f32::from_bits(self.to_bits() ^ (bit as u32) << 31)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
}

impl Value for f64 {
    #[inline(always)]
    fn from_f64(number: f64) -> f64 {
        number
    }
    #[inline(always)]
    fn from_u16(number: u16) -> f64 {
        number.into()
    }
    #[inline(always)]
    fn from_i32(number: i32) -> f64 {
        number.into()
    }
    #[inline(always)]
    fn negated_if(self, bit: u64) -> f64 {
        f64::from_bits(self.to_bits() ^ bit << 63)
    }
    #[inline(always)]
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
}

/// The storage form of values. Each sequence of a stream may have a different form; the packer
/// widens them to the stream's element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// The full width of their type.
    Whole,
    /// `f32` or `f64` values, dense or sparse, that are integers from 0 to 255, as `u8`.
    Byte,
    /// `f32` values with a limited number of decimals, in 1 to 3 bytes each. Not for `f64` streams.
    Decimal(Decimals),
    /// Nothing: every value of a sparse stream is 1. `values` is empty, and the number of values is
    /// the number of indices.
    Ones,
    /// Class numbers of an `i32` or `i64` stream, as `u16`.
    Narrow,
    /// Integers of an `i64` stream, as `i32`.
    Int,
}

impl ValueForm {
    /// Returns the form of integers of type `element` that are stored as `i32`, or as `u16` if
    /// `is_narrow`.
    pub fn of_indices(element: ElementType, is_narrow: bool) -> ValueForm {
        match (is_narrow, element) {
            (true, _) => ValueForm::Narrow,
            (false, ElementType::Int32) => ValueForm::Whole,
            (false, _) => ValueForm::Int,
        }
    }

    /// Returns whether values of this type may have this form.
    pub fn suits(self, element: ElementType) -> bool {
        match self {
            ValueForm::Whole => true,
            ValueForm::Byte | ValueForm::Ones => element.is_real(),
            ValueForm::Decimal(_) => element == ElementType::Float,
            ValueForm::Narrow => matches!(element, ElementType::Int32 | ElementType::Int64),
            ValueForm::Int => element == ElementType::Int64,
        }
    }

    /// Returns the stored size in bytes of a value whose type takes `element` bytes.
    #[inline(always)]
    pub fn size(self, element: usize) -> usize {
        match self {
            ValueForm::Whole => element,
            ValueForm::Byte => 1,
            ValueForm::Decimal(decimals) => decimals.size(),
            ValueForm::Ones => 0,
            ValueForm::Narrow => 2,
            ValueForm::Int => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::{Double, Float, Int32, Int64};

    #[test]
    fn numbers_become_the_nearest_values() {
        for (number, value) in [(0.1, 0.1f32), (16_777_217.0, 16_777_216.0), (-16_777_219.0, -16_777_220.0)] {
            assert_eq!((f32::from_f64(number), f64::from_f64(number)), (value, number));
        }
        for (number, value) in [(0, 0f32), (7, 7.0), (16_777_219, 16_777_220.0), (i32::MIN, -2_147_483_648.0)]
        {
            assert_eq!((f32::from_i32(number), f64::from_i32(number)), (value, f64::from(number)));
        }
        for number in [0u16, 2, u16::MAX] {
            assert_eq!((f32::from_u16(number), f64::from_u16(number)), (number.into(), number.into()));
        }
    }

    #[test]
    fn the_lowest_bit_flips_signs() {
        for value in [1.5, -2.0, 0.0, f64::INFINITY, -f64::NAN] {
            for bit in 0..4 {
                let expected = if bit % 2 == 1 { -value } else { value };
                assert_eq!(value.negated_if(bit).to_bits(), expected.to_bits(), "{value} {bit}");
                let (value, expected) = (value as f32, expected as f32);
                assert_eq!(value.negated_if(bit).to_bits(), expected.to_bits(), "{value} {bit}");
            }
        }
    }

    #[test]
    fn forms_suit_their_types() {
        let decimal = |value| {
            let decimals = decimal::store(&[value], decimal::WIDEST, &mut Vec::new()).expect("memory");
            ValueForm::Decimal(decimals.expect("a format"))
        };
        for (form, elements, sizes) in [
            (ValueForm::Whole, ElementType::ALL, [4, 8]),
            (ValueForm::Byte, &[Float, Double], [1, 1]),
            (decimal(0.5), &[Float], [1, 1]),
            (decimal(655.36), &[Float], [3, 3]),
            (ValueForm::Ones, &[Float, Double], [0, 0]),
            (ValueForm::Narrow, &[Int32, Int64], [2, 2]),
            (ValueForm::Int, &[Int64], [4, 4]),
        ] {
            let suitable = ElementType::ALL.iter().copied().filter(|&element| form.suits(element));
            assert!(suitable.eq(elements.iter().copied()), "{form:?}");
            assert_eq!([4, 8].map(|element| form.size(element)), sizes, "{form:?}");
        }
        for (element, wide) in [(Int32, ValueForm::Whole), (Int64, ValueForm::Int)] {
            assert_eq!(ValueForm::of_indices(element, true), ValueForm::Narrow);
            assert_eq!(ValueForm::of_indices(element, false), wide);
        }
    }
}
