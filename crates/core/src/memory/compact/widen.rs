//! Copies stored values and indices into a minibatch in full width, for the packer.

use super::narrow::load;
use super::{ValueForm, decimal};
use crate::cpu::processor::InstructionSet;

/// Copies bytes between slices of equal length. A few registers' worth is copied without calling
/// `memcpy`.
#[inline(always)]
fn copy(target: &mut [u8], source: &[u8]) {
    match source.len() {
        4 => ends::<4>(target, source),
        8..=16 => ends::<8>(target, source),
        17..=32 => ends::<16>(target, source),
        33..=64 => ends::<32>(target, source),
        _ => target.copy_from_slice(source),
    }
}

/// Copies slices of equal length, `N` to `2 * N` bytes: the first `N` and the last `N` bytes, which
/// may overlap.
#[inline(always)]
pub fn ends<const N: usize>(target: &mut [u8], source: &[u8]) {
    if let (Some(first), Some(target)) = (source.first_chunk::<N>(), target.first_chunk_mut()) {
        *target = *first;
    }
    if let (Some(last), Some(target)) = (source.last_chunk::<N>(), target.last_chunk_mut()) {
        *target = *last;
    }
}

/// Copies values stored in `form`, which take `element` bytes each in the minibatch.
#[inline(always)]
pub fn values(target: &mut [u8], source: &[u8], form: ValueForm, element: usize) {
    match (form, element) {
        (ValueForm::Whole, _) => copy(target, source),
        (ValueForm::Byte, 4) => load::<4, u8>(target, source),
        (ValueForm::Byte, _) => load::<8, u8>(target, source),
        (ValueForm::Decimal(decimals), _) => decimal::load(target, source, decimals),
        (ValueForm::Ones, 4) => target.as_chunks_mut().0.fill(1f32.to_ne_bytes()),
        (ValueForm::Ones, _) => target.as_chunks_mut().0.fill(1f64.to_ne_bytes()),
        (ValueForm::Narrow, 4) => load::<4, [u8; 2]>(target, source.as_chunks().0),
        (ValueForm::Narrow, _) => integers(target, source, u16::from_ne_bytes),
        (ValueForm::Int, _) => integers(target, source, i32::from_ne_bytes),
    }
}

/// Widens stored integers of `N` bytes to `i64`.
#[inline(always)]
fn integers<const N: usize, I: Into<i64>>(target: &mut [u8], source: &[u8], integer: impl Fn([u8; N]) -> I) {
    for (target, stored) in target.as_chunks_mut().0.iter_mut().zip(source.as_chunks().0) {
        *target = integer(*stored).into().to_ne_bytes();
    }
}

/// [`values`], inlined into a function that is compiled for this instruction set. `source` may
/// extend beyond the `bytes` bytes to copy.
#[inline(always)]
pub fn values_by(
    instructions: impl InstructionSet,
    target: &mut [u8],
    source: &[u8],
    bytes: usize,
    form: ValueForm,
    element: usize,
) {
    match form {
        // Not cut to `bytes`: reading a little more is faster.
        ValueForm::Decimal(decimals) => decimal::load_by(instructions, target, source, decimals),
        _ => values(target, &source[..bytes], form, element),
    }
}

/// Copies indices; `narrow` ones are stored as `u16`.
#[inline(always)]
pub fn indices(target: &mut [u8], source: &[u8], narrow: bool) {
    if narrow { load::<4, [u8; 2]>(target, source.as_chunks().0) } else { copy(target, source) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::processor::for_each_instruction_set;

    #[test]
    fn narrow_numbers_are_widened() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut floats, mut doubles) = (vec![9; 4 * 256], vec![9; 8 * 256]);
        super::values(&mut floats, &all, ValueForm::Byte, 4);
        super::values(&mut doubles, &all, ValueForm::Byte, 8);
        let wanted: Vec<u8> = (0..256u16).flat_map(|i| f32::from(i).to_ne_bytes()).collect();
        assert_eq!(floats, wanted);
        let wanted: Vec<u8> = (0..256u16).flat_map(|i| f64::from(i).to_ne_bytes()).collect();
        assert_eq!(doubles, wanted);
        let classes = [0u16, 7, 256, u16::MAX];
        let stored = classes.map(u16::to_ne_bytes).concat();
        let (mut ints, mut longs) = ([9; 16], [9; 32]);
        super::values(&mut ints, &stored, ValueForm::Narrow, 4);
        super::values(&mut longs, &stored, ValueForm::Narrow, 8);
        assert_eq!(ints.to_vec(), classes.map(|class| i32::from(class).to_ne_bytes()).concat());
        assert_eq!(longs.to_vec(), classes.map(|class| i64::from(class).to_ne_bytes()).concat());
        let classes = [0i32, 65536, i32::MAX, -1];
        super::values(&mut longs, &classes.map(i32::to_ne_bytes).concat(), ValueForm::Int, 8);
        assert_eq!(longs.to_vec(), classes.map(|class| i64::from(class).to_ne_bytes()).concat());
        let (numbers, mut indices) = ([0u16, 1, 256, u16::MAX], [9; 16]);
        super::indices(&mut indices, &numbers.map(u16::to_ne_bytes).concat(), true);
        assert_eq!(indices.to_vec(), numbers.map(|index| i32::from(index).to_ne_bytes()).concat());
    }

    #[test]
    fn full_width_is_copied_at_every_length() {
        let source: Vec<u8> = (1..=200).collect();
        for length in 0..=source.len() {
            let (mut values, mut indices) = (vec![0; length], vec![0; length]);
            super::values(&mut values, &source[..length], ValueForm::Whole, 4);
            super::indices(&mut indices, &source[..length], false);
            assert_eq!((&values, &indices), (&source[..length].to_vec(), &source[..length].to_vec()));
        }
        for length in 4..=8 {
            let mut target = vec![0; length];
            ends::<4>(&mut target, &source[..length]);
            assert_eq!(target, source[..length]);
        }
    }

    #[test]
    fn every_form_is_widened_by_all_instruction_sets() {
        let mut stored = Vec::new();
        let decimals = decimal::store(&[0.5, -0.25, 1000.0], decimal::WIDEST, &mut stored).expect("memory");
        let decimal = ValueForm::Decimal(decimals.expect("a format"));
        let floats = |values: [f32; 3]| values.map(f32::to_ne_bytes).concat();
        let doubles = |values: [f64; 3]| values.map(f64::to_ne_bytes).concat();
        let ints = [1i32, -2, 3].map(i32::to_ne_bytes).concat();
        for (form, element, stored, expected) in [
            (ValueForm::Whole, 4, &ints, ints.clone()),
            (ValueForm::Byte, 4, &vec![3, 0, 255], floats([3.0, 0.0, 255.0])),
            (ValueForm::Byte, 8, &vec![3, 0, 255], doubles([3.0, 0.0, 255.0])),
            (decimal, 4, &stored, floats([0.5, -0.25, 1000.0])),
            (ValueForm::Ones, 4, &vec![], floats([1.0; 3])),
            (ValueForm::Ones, 8, &vec![], doubles([1.0; 3])),
            (ValueForm::Int, 8, &ints, [1i64, -2, 3].map(i64::to_ne_bytes).concat()),
        ] {
            let mut target = vec![9; 3 * element];
            values(&mut target, stored, form, element);
            assert_eq!(target, expected, "{form:?}");
            // More is stored than is to be copied.
            let longer = [&stored[..], &[7; 100]].concat();
            for_each_instruction_set!(instructions => {
                let mut target = vec![9; 3 * element];
                values_by(instructions, &mut target, &longer, stored.len(), form, element);
                assert_eq!(target, expected, "{form:?}, {instructions:?}");
            });
        }
    }
}
