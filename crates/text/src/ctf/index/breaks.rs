//! Line breaks of a block, found 64 bytes at a time: a separate search for each would take longer
//! than reading short lines.

#![allow(unsafe_code, reason = "vector instructions")]

/// Iterates over the positions of line breaks, in order.
pub(super) struct Breaks<'a> {
    block: &'a [u8],
    /// Start of the next 64 bytes.
    at: usize,
    /// One bit for each line break among the 64 bytes before `at`, except those already returned.
    mask: u64,
}

impl<'a> Breaks<'a> {
    /// Iterates over the line breaks from position `from` on.
    #[inline]
    pub fn new(block: &'a [u8], from: usize) -> Self {
        Breaks { block, at: from, mask: 0 }
    }
}

impl Iterator for Breaks<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.mask == 0 {
            let rest = self.block.get(self.at..)?;
            self.mask = match rest.first_chunk::<64>() {
                Some(bytes) => mask_of(bytes),
                None if rest.is_empty() => return None,
                None => one_by_one(rest),
            };
            self.at += 64;
        }
        let position = self.at - 64 + self.mask.trailing_zeros() as usize;
        self.mask &= self.mask - 1;
        Some(position)
    }
}

/// Returns the mask of up to 64 bytes.
#[inline]
fn one_by_one(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |mask, &byte| mask << 1 | u64::from(byte == b'\n'))
}

#[cfg(not(target_arch = "x86_64"))]
use one_by_one as mask_of;

#[cfg(target_arch = "x86_64")]
#[inline]
fn mask_of(bytes: &[u8; 64]) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    let quarter = |i: usize| {
        // SAFETY: `i` is 0 to 3, so bytes 16 * i to 16 * i + 15 lie within the array of 64. The
        // load needs no alignment, and every x86-64 processor has SSE2.
        let bits = unsafe {
            let bytes = _mm_loadu_si128(bytes.as_ptr().add(16 * i).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\n' as i8)))
        };
        u64::from(bits as u16) << (16 * i)
    };
    quarter(0) | quarter(1) | quarter(2) | quarter(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_all_and_nothing_else(
            block in proptest::collection::vec(prop_oneof![2 => Just(b'\n'), 9 => any::<u8>()], 0..300), from in 0usize..300,
        ) {
            let plain: Vec<usize> = (from..block.len()).filter(|&i| block[i] == b'\n').collect();
            prop_assert_eq!(Breaks::new(&block, from).collect::<Vec<_>>(), plain);
        }
    }
}
