//! The blocks of a sample, one after the other.

use super::simd::Simd;
use cntk_reader_core::cpu::processor::dispatch;

/// How many blocks in a row are read by a call each. Further ones are read in a loop, which has its constants in registers: that takes
/// longer to begin than to read a block, and saves a twentieth to a tenth of each block. With the loop alone, samples of 3 to 16 values took
/// 1.2 to 1.3 of the time to parse.
const FIRST: usize = 2;

/// How far a sample has been read.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The next byte of the text.
    pub at: usize,
    /// Values or entries so far.
    pub count: usize,
}

/// Where a sample is read to, by blocks.
pub trait Blocks {
    /// Reads the block at a place of the text: whether blocks are of no more use after it. `None` if anything is unusual. It has to be
    /// inlined.
    fn block<S: Simd>(&mut self, simd: S, text: &[u8], place: &mut Place) -> Option<bool>;
}

/// Reads blocks as long as they are of use.
#[inline(always)]
pub fn read<B: Blocks, S: Simd>(simd: S, blocks: &mut B, text: &[u8], place: &mut Place) -> Option<()> {
    for _ in 0..FIRST {
        if one(simd, blocks, text, place)? {
            return Some(());
        }
    }
    all(simd, blocks, text, place)
}

dispatch! {
    /// Reads a block, as [`Blocks::block`].
    #[inline(never)]
    fn one<B: Blocks>(blocks: &mut B, text: &[u8], place: &mut Place) -> Option<bool> = one_with;
}

dispatch! {
    /// [`read`] in a loop.
    #[inline(never)]
    fn all<B: Blocks>(blocks: &mut B, text: &[u8], place: &mut Place) -> Option<()> = all_with;
}

/// See [`one`].
#[inline(always)]
fn one_with<B: Blocks, S: Simd>(simd: S, blocks: &mut B, text: &[u8], place: &mut Place) -> Option<bool> {
    blocks.block(simd, text, place)
}

/// See [`all`].
#[inline(always)]
fn all_with<B: Blocks, S: Simd>(simd: S, blocks: &mut B, text: &[u8], place: &mut Place) -> Option<()> {
    while !blocks.block(simd, text, place)? {}
    Some(())
}
