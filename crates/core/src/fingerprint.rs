//! The hash that fingerprints are made of. Checkpoints carry fingerprints: it must not change between versions.

/// Start of every fingerprint.
pub const SEED: u64 = 0x243f_6a88_85a3_08d3;

/// Folds the 128-bit product of two words that depend on all input so far.
pub fn mix(hash: u64, a: u64, b: u64) -> u64 {
    let product = u128::from(hash.rotate_left(17) ^ a) * u128::from(0x9e37_79b9_7f4a_7c15 ^ b);
    (product as u64) ^ ((product >> 64) as u64)
}
