//! XXH64, the checksum of zstd's seekable format and of the cache folder.

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// A checksum over bytes that arrive piece by piece.
#[derive(Debug, Clone)]
pub(crate) struct Xxh64 {
    lanes: [u64; 4],
    /// Bytes that do not fill a stripe yet.
    rest: [u8; 32],
    /// Number of bytes so far.
    length: u64,
}

impl Default for Xxh64 {
    fn default() -> Self {
        let lanes = [PRIMES[0].wrapping_add(PRIMES[1]), PRIMES[1], 0, PRIMES[0].wrapping_neg()];
        Xxh64 { lanes, rest: [0; 32], length: 0 }
    }
}

impl Xxh64 {
    /// Returns the checksum of some bytes.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut sum = Xxh64::default();
        sum.update(bytes);
        sum.finish()
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let waiting = (self.length % 32) as usize;
        self.length += bytes.len() as u64;
        if waiting > 0 {
            let count = bytes.len().min(32 - waiting);
            self.rest[waiting..waiting + count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if waiting + count < 32 {
                return;
            }
            let stripe = self.rest;
            self.stripe(&stripe);
        }
        let (stripes, rest) = bytes.as_chunks::<32>();
        stripes.iter().for_each(|stripe| self.stripe(stripe));
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    #[inline(always)]
    fn stripe(&mut self, stripe: &[u8; 32]) {
        for (lane, word) in self.lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }

    /// Returns the checksum of all bytes so far.
    pub fn finish(&self) -> u64 {
        let mut hash = match self.length {
            32.. => {
                let turns = self.lanes.iter().zip([1, 7, 12, 18]).map(|(lane, turn)| lane.rotate_left(turn));
                let sum = turns.fold(0, u64::wrapping_add);
                self.lanes.iter().fold(sum, |hash, &lane| {
                    (hash ^ round(0, lane)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3])
                })
            }
            _ => PRIMES[4],
        };
        hash = hash.wrapping_add(self.length);
        let (words, rest) = self.rest[..(self.length % 32) as usize].as_chunks::<8>();
        for &word in words {
            hash ^= round(0, u64::from_le_bytes(word));
            hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        }
        let (halves, rest) = rest.as_chunks::<4>();
        for &half in halves {
            hash ^= u64::from(u32::from_le_bytes(half)).wrapping_mul(PRIMES[0]);
            hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
        }
        for &byte in rest {
            hash ^= u64::from(byte).wrapping_mul(PRIMES[4]);
            hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
        }
        hash = (hash ^ (hash >> 33)).wrapping_mul(PRIMES[1]);
        hash = (hash ^ (hash >> 29)).wrapping_mul(PRIMES[2]);
        hash ^ (hash >> 32)
    }
}

#[inline(always)]
fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_reference() {
        // As printed by `xxhsum -H1`.
        assert_eq!(Xxh64::of(b""), 0xef46_db37_51d8_e999);
        assert_eq!(Xxh64::of(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(Xxh64::of(b"abc"), 0x44bc_2cf5_ad77_0999);
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let bytes: Vec<u8> = (0..1000u32).map(|n| (n * 7 % 251) as u8).collect();
        for step in [1, 3, 8, 31, 32, 33, 100] {
            let mut sum = Xxh64::default();
            bytes.chunks(step).for_each(|piece| sum.update(piece));
            assert_eq!(sum.finish(), Xxh64::of(&bytes), "{step}");
        }
    }
}
