//! Moving stored values and indices into minibatches, widening those that are stored narrow.
//!
//! Loading waits for memory that was never written before, and packing waits for memory that no cache holds. Counts, pixels
//! and other whole numbers take a quarter of both as `u8`, and most indices half of both as `u16`: this shortens the first
//! sweep over 784 pixels a sample by a third, over bags of words by a sixth.

use super::{ValueForm, decimal};

/// A stored form of a number that takes `N` bytes in a minibatch.
pub(crate) trait Stored<const N: usize>: Copy {
    /// The number as the minibatch has it.
    fn widen(self) -> [u8; N];
}

impl<const N: usize> Stored<N> for [u8; N] {
    #[inline(always)]
    fn widen(self) -> [u8; N] {
        self
    }
}

impl Stored<4> for u8 {
    #[inline(always)]
    fn widen(self) -> [u8; 4] {
        f32::from(self).to_ne_bytes()
    }
}

impl Stored<8> for u8 {
    #[inline(always)]
    fn widen(self) -> [u8; 8] {
        f64::from(self).to_ne_bytes()
    }
}

impl Stored<4> for [u8; 2] {
    #[inline(always)]
    fn widen(self) -> [u8; 4] {
        u32::from(u16::from_ne_bytes(self)).to_ne_bytes()
    }
}

/// Widens numbers one by one.
#[inline(always)]
fn widen_all<const N: usize, S: Stored<N>>(target: &mut [u8], source: &[S]) {
    for (target, source) in target.as_chunks_mut::<N>().0.iter_mut().zip(source) {
        *target = source.widen();
    }
}

/// Copies bytes to as many bytes. 4 and 8 bytes, the sizes of one value, are copied without a call of `memcpy`.
#[inline(always)]
fn copy(target: &mut [u8], source: &[u8]) {
    #[inline(always)]
    fn exact<const N: usize>(target: &mut [u8], source: &[u8]) -> bool {
        match (<&mut [u8; N]>::try_from(target), <&[u8; N]>::try_from(source)) {
            (Ok(target), Ok(source)) => {
                *target = *source;
                true
            }
            _ => false,
        }
    }
    if !exact::<4>(target, source) && !exact::<8>(target, source) {
        target.copy_from_slice(source);
    }
}

/// Copies values that are stored in `form` and take `element` bytes each in the minibatch.
#[inline(always)]
pub(crate) fn values(target: &mut [u8], source: &[u8], form: ValueForm, element: usize) {
    match (form, element) {
        (ValueForm::Whole, _) => copy(target, source),
        (ValueForm::Byte, 4) => widen_all::<4, u8>(target, source),
        (ValueForm::Byte, _) => widen_all::<8, u8>(target, source),
        (ValueForm::Decimal(decimals), _) => decimal::load(target, source, decimals),
    }
}

/// Copies indices.
#[inline(always)]
pub(crate) fn indices(target: &mut [u8], source: &[u8], narrow: bool) {
    if narrow { widen_all::<4, [u8; 2]>(target, source.as_chunks().0) } else { copy(target, source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_numbers_get_all_their_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut floats, mut doubles) = (vec![9; 4 * 256], vec![9; 8 * 256]);
        super::values(&mut floats, &all, ValueForm::Byte, 4);
        super::values(&mut doubles, &all, ValueForm::Byte, 8);
        let wanted: Vec<u8> = (0..256u16).flat_map(|i| f32::from(i).to_ne_bytes()).collect();
        assert_eq!(floats, wanted);
        let wanted: Vec<u8> = (0..256u16).flat_map(|i| f64::from(i).to_ne_bytes()).collect();
        assert_eq!(doubles, wanted);
        let (numbers, mut indices) = ([0u16, 1, 256, u16::MAX], [9; 16]);
        super::indices(&mut indices, &numbers.map(u16::to_ne_bytes).concat(), true);
        assert_eq!(indices.to_vec(), numbers.map(|index| i32::from(index).to_ne_bytes()).concat());
    }
}
