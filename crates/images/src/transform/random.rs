//! CNTK's random engines, one per position in the minibatch, and its distributions.
//!
//! CNTK 2.7 draws with the 32-bit Mersenne twister and the distributions of boost, not of the C++
//! library. They are reproduced here bit for bit, except for the Gaussian one, which is in
//! [`super::gaussian`].

/// A source of random numbers, 32 bits at a time.
pub(super) trait RandomSource {
    /// Returns the next 32 bits.
    fn next(&mut self) -> u32;

    /// Announces the quantity that is drawn next. Reproducible sources draw each quantity
    /// independently, so that it does not depend on how often another one was drawn.
    fn begin(&mut self, _quantity: u64) {}

    /// Draws a number in `low..high`; `low` must be less than `high`.
    fn real(&mut self, low: f64, high: f64) -> f64 {
        loop {
            let number = f64::from(self.next()) / 4_294_967_296.0 * (high - low) + low;
            // Rounding may yield the bound itself. NaN bounds must not cause an endless loop.
            if number < high || number.is_nan() {
                return number;
            }
        }
    }

    /// Draws an integer from 0 to `most`. Consumes no bits if that can only be 0.
    fn integer(&mut self, most: u32) -> u32 {
        if most == 0 {
            return 0;
        }
        let bucket = (1u64 << 32) / (u64::from(most) + 1);
        loop {
            let number = u64::from(self.next()) / bucket;
            if number <= u64::from(most) {
                return number as u32;
            }
        }
    }

    /// Returns true with probability 1/2.
    fn coin(&mut self) -> bool {
        self.next() <= u32::MAX / 2
    }
}

const STATE: usize = 624;

/// The 32-bit Mersenne twister MT19937. The state is updated one word per draw, so all draws take
/// the same time.
pub(super) struct MersenneTwister {
    state: [u32; STATE],
    /// Index of the next word.
    next: usize,
}

impl MersenneTwister {
    pub(super) fn new(seed: u32) -> MersenneTwister {
        let mut state = [seed; STATE];
        for i in 1..STATE {
            let before = state[i - 1];
            state[i] = (before ^ (before >> 30)).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        MersenneTwister { state, next: 0 }
    }
}

impl RandomSource for MersenneTwister {
    fn next(&mut self) -> u32 {
        let i = self.next;
        let after = if i + 1 == STATE { 0 } else { i + 1 };
        let far = if i + 397 < STATE { i + 397 } else { i + 397 - STATE };
        let joined = (self.state[i] & 0x8000_0000) | (self.state[after] & 0x7fff_ffff);
        let twist = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
        let mut word = self.state[far] ^ (joined >> 1) ^ twist;
        self.state[i] = word;
        self.next = after;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }
}

/// The engines of one transform, by position in the minibatch.
///
/// CNTK 2.7: engine `j` is seeded with `seed + j` when position `j` is first used, and never reset,
/// neither by a new sweep nor by a restored checkpoint. So an image's draws depend on the number of
/// images that had its position before.
#[derive(Default)]
pub(super) struct Engines(Vec<MersenneTwister>);

impl Engines {
    /// Returns the engine of a position.
    pub(super) fn at(&mut self, slot: u32, seed: u32) -> &mut MersenneTwister {
        let slot = slot as usize;
        while self.0.len() <= slot {
            self.0.push(MersenneTwister::new(seed.wrapping_add(self.0.len() as u32)));
        }
        &mut self.0[slot]
    }
}

/// A generator for one transform of one image: 8 bytes of state without warm-up (SplitMix64).
pub(super) struct SplitMix {
    state: u64,
    start: u64,
}

impl SplitMix {
    /// Creates a generator whose draws depend on all `parts` and their order.
    pub(super) fn new(parts: &[u64]) -> SplitMix {
        let start = parts.iter().fold(0, |state, &part| absorb(state, part));
        SplitMix { state: start, start }
    }
}

/// Hashes a text.
pub(super) fn number_of(text: &str) -> u64 {
    text.bytes().fold(0, |state, byte| absorb(state, byte.into()))
}

fn absorb(state: u64, part: u64) -> u64 {
    mix((state ^ part).wrapping_add(GOLDEN))
}

impl RandomSource for SplitMix {
    fn next(&mut self) -> u32 {
        self.state = self.state.wrapping_add(GOLDEN);
        (mix(self.state) >> 32) as u32
    }

    fn begin(&mut self, quantity: u64) {
        self.state = absorb(self.start, quantity);
    }
}

/// 2^64 divided by the golden ratio: its multiples are spread evenly over all numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes the bits of a number (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the C++ standard gives for `std::mt19937`, and the first one of the
    /// twister's authors.
    #[test]
    fn twister_matches_the_standard() {
        let mut twister = MersenneTwister::new(5489);
        assert_eq!(twister.next(), 3_499_211_612);
        let last = (1..10_000).map(|_| twister.next()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn engines_keep_their_state_between_uses() {
        let mut engines = Engines::default();
        let first = engines.at(0, 7).next();
        let third = engines.at(2, 7).next();
        assert_eq!(third, MersenneTwister::new(9).next());
        let mut alone = MersenneTwister::new(7);
        assert_eq!(first, alone.next());
        assert_eq!(engines.at(0, 7).next(), alone.next());
        assert_eq!(
            engines.at(1, u32::MAX).next(),
            MersenneTwister::new(8).next(),
            "created together with the third"
        );
        assert_eq!(Engines::default().at(1, u32::MAX).next(), MersenneTwister::new(0).next());
    }

    /// A source that replays given numbers.
    struct ReplaySource(Vec<u32>);

    impl RandomSource for ReplaySource {
        fn next(&mut self) -> u32 {
            self.0.remove(0)
        }
    }

    #[test]
    fn rejected_draws_are_repeated() {
        // 2^32 = 3 * 1431655765 + 1: the last number is in no bucket.
        assert_eq!(ReplaySource(vec![u32::MAX, 1_431_655_764]).integer(2), 0);
        assert_eq!(ReplaySource(vec![1_431_655_765]).integer(2), 1);
        assert_eq!(ReplaySource(vec![]).integer(0), 0);
        assert_eq!(ReplaySource(vec![u32::MAX]).integer(u32::MAX), u32::MAX);
        // In such a narrow range the largest draws round to the bound.
        let (low, high) = (1.0, 1.0 + f64::EPSILON);
        assert_eq!(ReplaySource(vec![u32::MAX, 0]).real(low, high), low);
        assert!(ReplaySource(vec![u32::MAX / 2]).coin());
        assert!(!ReplaySource(vec![u32::MAX / 2 + 1]).coin());
    }

    #[test]
    fn draws_depend_on_every_part() {
        let parts = [1, 2, 3, 4];
        let draws = |parts: &[u64]| {
            let mut source = SplitMix::new(parts);
            [source.next(), source.next()]
        };
        assert_eq!(draws(&parts), draws(&parts));
        for i in 0..parts.len() {
            let mut other = parts;
            other[i] += 1;
            assert_ne!(draws(&other), draws(&parts), "part {i}");
        }
        assert_ne!(draws(&[2, 1, 3, 4]), draws(&parts));
    }

    #[test]
    fn reproducible_draws_are_spread_evenly() {
        let mut ones = [0u32; 32];
        for image in 0..10_000 {
            let draw = SplitMix::new(&[0, 0, 1, image]).next();
            ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += draw >> bit & 1);
        }
        assert!(ones.iter().all(|&ones| (4_700..5_300).contains(&ones)), "{ones:?}");
    }
}
