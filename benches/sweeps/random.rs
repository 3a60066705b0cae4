//! SplitMix64, a small generator of random numbers that are reproducible on every machine.

/// The generator.
pub struct Random(u64);

impl Random {
    /// Creates the generator of a block of a shape's data.
    pub fn new(shape: u64, block: u64) -> Self {
        Random(mix(shape.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ block))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number in `0..limit`, for limits far below 2^32.
    pub fn below(&mut self, limit: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(limit)) >> 32) as u32
    }
}

/// Scatters the bits of a number.
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
