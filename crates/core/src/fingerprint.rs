//! The hash function of fingerprints. Checkpoints contain fingerprints, so it must not change
//! between versions.

/// Initial value of every fingerprint.
pub const SEED: u64 = 0x243f_6a88_85a3_08d3;

/// Folds the 128-bit product of two words that depend on all previous input.
pub fn mix(hash: u64, a: u64, b: u64) -> u64 {
    let product = u128::from(hash.rotate_left(17) ^ a) * u128::from(0x9e37_79b9_7f4a_7c15 ^ b);
    (product as u64) ^ ((product >> 64) as u64)
}
