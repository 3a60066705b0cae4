//! Compact storage: how chunks keep their values and indices in less memory than minibatches do.
//!
//! Loading waits for memory that was never written before, and packing for memory that no cache holds. So each form
//! that takes fewer bytes shortens both, as long as widening on the way into the minibatch is cheap:
//!
//! | module | what is stored | instead of | shortens |
//! | --- | --- | --- | --- |
//! | [`narrow`] | whole values from 0 to 255 as `u8`, indices below 65536 as `u16` | 4 or 8 bytes | the first sweep over 784 pixels a sample by a third, over bags of words by a sixth |
//! | [`decimal`] | values with a fixed number of decimals, and whole numbers, in 1 to 3 bytes | 4 bytes | memory of a window by a quarter to three quarters, and the first sweep with it where 1 or 2 bytes suffice |
//! | [`implied`], [`ValueForm::Ones`] | values that are all 1, and offsets of samples with one entry each: nothing | 4 or 8 bytes each | memory of words and labels to a third |
//! | [`arena`] | the arrays of a segment, one after the other in recycled memory | one allocation each | first writes to fresh pages, up to ten times as slow |
//!
//! Each module has the encoder and the decoder side by side; [`widen`] is what the packer calls. Whatever is stored
//! comes back to the bit, or it is stored in its full width.

pub mod arena;
pub mod decimal;
pub mod finite;
pub mod implied;
pub mod narrow;
pub mod widen;

use crate::stream::ElementType;
use decimal::Decimals;

/// A type of value: `f32` or `f64`.
pub trait Value: bytemuck::Pod + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// The nearest value, ties to even.
    fn from_f64(number: f64) -> Self;
    /// The value of a small integer, which is exact.
    fn from_u16(number: u16) -> Self;
    /// The nearest value to an integer, ties to even.
    fn from_i32(number: i32) -> Self;
    /// The value with the other sign, also of zero, if the lowest bit is set. Signs are as good as random: no branch.
    fn negated_if(self, bit: u64) -> Self;
    /// Whether it is neither infinite nor NaN.
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

/// How values are stored. Each sequence of a stream may have a form of its own; the packer widens
/// all of them to the stream's element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueForm {
    /// With all bytes of their type.
    Whole,
    /// Whole numbers from 0 to 255 as `u8`, of `f32` or `f64`, dense or sparse.
    Byte,
    /// `f32` values with a limited number of decimals, in 1 to 3 bytes each. Not for streams of
    /// `f64`.
    Decimal(Decimals),
    /// Not at all: every value of a sparse stream is 1. `values` is empty, and there are as many values as indices.
    Ones,
    /// Integers of a stream of `i32` or `i64` as `u16`: numbers of classes.
    Narrow,
    /// Integers of a stream of `i64` as `i32`.
    Int,
}

impl ValueForm {
    /// The form in which integers of this type have `i32` indices, or `u16` ones if `is_narrow`.
    pub fn of_indices(element: ElementType, is_narrow: bool) -> ValueForm {
        match (is_narrow, element) {
            (true, _) => ValueForm::Narrow,
            (false, ElementType::Int32) => ValueForm::Whole,
            (false, _) => ValueForm::Int,
        }
    }

    /// Whether values of this type may be stored so.
    pub fn suits(self, element: ElementType) -> bool {
        match self {
            ValueForm::Whole => true,
            ValueForm::Byte | ValueForm::Ones => element.is_real(),
            ValueForm::Decimal(_) => element == ElementType::Float,
            ValueForm::Narrow => matches!(element, ElementType::Int32 | ElementType::Int64),
            ValueForm::Int => element == ElementType::Int64,
        }
    }

    /// Bytes of a stored value whose type takes `element` bytes.
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
