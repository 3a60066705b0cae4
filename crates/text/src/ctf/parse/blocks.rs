//! Reads a sample block by block.

use super::simd::Simd;
use cntk_reader_core::cpu::processor::dispatch;

/// Number of blocks that are read by separate calls. Further ones are read in a loop that keeps its
/// constants in registers: starting the loop takes longer than reading a block, and saves 5 to 10 %
/// of each block. With the loop alone, samples of 3 to 16 values take 20 to 30 % longer to parse.
const FIRST: usize = 2;

/// Progress within a sample.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Position of the next byte of the text.
    pub at: usize,
    /// Number of values or entries so far.
    pub count: usize,
}

/// Destination of a sample that is read block by block.
pub trait Blocks {
    /// Reads the block at a place of the text. Returns true if further blocks are of no use, and
    /// `None` if anything is unusual. Implementations must be inlined.
    fn block<S: Simd>(&mut self, simd: S, text: &[u8], place: &mut Place) -> Option<bool>;
}

/// Reads blocks until further ones are of no use.
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
    /// Reads one block with [`Blocks::block`].
    #[inline(never)]
    fn one<B: Blocks>(blocks: &mut B, text: &[u8], place: &mut Place) -> Option<bool> = one_with;
}

dispatch! {
    /// Reads the remaining blocks in a loop.
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
