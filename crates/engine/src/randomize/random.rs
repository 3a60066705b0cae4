//! MT19937-64 and CNTK's draws from it.
//!
//! The generator is the standard 64-bit Mersenne Twister. The draws are CNTK's, bias included: a
//! number below `n` is `output mod n`. A fast reduction may replace the division but must give the
//! exact remainder.

/// Words of the generator's state, and outputs per block.
const WORDS: usize = 312;
/// Offset of the word that is mixed in.
const MIDDLE: usize = 156;
const MATRIX: u64 = 0xB502_6F5A_A966_19E9;
const LOWER: u64 = (1 << 31) - 1;

/// The generator. Produces outputs in blocks, so that callers can peek at them.
#[derive(Clone)]
pub struct Random {
    state: [u64; WORDS],
    outputs: [u64; WORDS],
    /// The next output; `WORDS` when the block is used up.
    at: usize,
}

impl Random {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random { state: [0; WORDS], outputs: [0; WORDS], at: WORDS };
        random.seed(seed);
        random
    }

    /// Restarts with a seed.
    pub(crate) fn seed(&mut self, seed: u64) {
        let mut word = seed;
        self.state[0] = word;
        for i in 1..WORDS {
            word = 6_364_136_223_846_793_005_u64.wrapping_mul(word ^ (word >> 62)).wrapping_add(i as u64);
            self.state[i] = word;
        }
        self.at = WORDS;
    }

    /// Returns the next output.
    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        if self.at == WORDS {
            self.refill();
        }
        let output = self.outputs[self.at];
        self.at += 1;
        output
    }

    /// Returns the next outputs without consuming them: at least one, and at most `limit` unless
    /// that is 0.
    #[inline]
    pub(crate) fn peek(&mut self, limit: usize) -> &[u64] {
        if self.at == WORDS {
            self.refill();
        }
        let end = WORDS.min(self.at + limit.clamp(1, WORDS));
        &self.outputs[self.at..end]
    }

    /// Consumes outputs returned by [`Random::peek`].
    #[inline]
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(self.at + count <= WORDS);
        self.at += count;
    }

    /// Draws a number from `begin..end`, which must not be empty.
    #[inline]
    pub fn range(&mut self, begin: u64, end: u64) -> u64 {
        begin + self.draw() % (end - begin)
    }

    /// Shuffles as CNTK does chunks: swaps each element with one drawn from all elements, so not
    /// all orders are equally likely.
    pub(crate) fn shuffle_all<T>(&mut self, items: &mut [T]) {
        if items.is_empty() {
            return;
        }
        let modulus = Modulus::new(items.len() as u64);
        for i in 0..items.len() {
            let j = modulus.reduce(self.draw()) as usize;
            items.swap(i, j);
        }
    }

    /// Shuffles as CNTK does tumbling windows: forward Fisher-Yates.
    pub(crate) fn shuffle_forward<T>(&mut self, items: &mut [T]) {
        let end = items.len() as u64;
        for i in 0..items.len() {
            let j = self.range(i as u64, end) as usize;
            items.swap(i, j);
        }
    }

    /// Produces the next block: the recurrence in three ranges without index wrap-around, then the
    /// tempering.
    fn refill(&mut self) {
        let state = &mut self.state;
        for i in 0..WORDS - MIDDLE {
            state[i] = state[i + MIDDLE] ^ twist(state[i], state[i + 1]);
        }
        for i in WORDS - MIDDLE..WORDS - 1 {
            state[i] = state[i + MIDDLE - WORDS] ^ twist(state[i], state[i + 1]);
        }
        state[WORDS - 1] = state[MIDDLE - 1] ^ twist(state[WORDS - 1], state[0]);
        for (output, &word) in self.outputs.iter_mut().zip(state.iter()) {
            let mut x = word;
            x ^= (x >> 29) & 0x5555_5555_5555_5555;
            x ^= (x << 17) & 0x71D6_7FFF_EDA6_0000;
            x ^= (x << 37) & 0xFFF7_EEE0_0000_0000;
            *output = x ^ (x >> 43);
        }
        self.at = 0;
    }
}

#[inline]
fn twist(upper: u64, lower: u64) -> u64 {
    let word = (upper & !LOWER) | (lower & LOWER);
    (word >> 1) ^ ((word & 1).wrapping_neg() & MATRIX)
}

/// A divisor with its precomputed inverse, for remainders without a division.
///
/// With `inverse = floor((2^64 - 1) / divisor)`, the high half of `value * inverse` is the quotient
/// or one less, because the floor and the shift together cut off less than one. One correction
/// gives the exact remainder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Modulus {
    divisor: u64,
    inverse: u64,
}

impl Modulus {
    /// Precomputes the inverse of `divisor`, which must not be 0.
    #[inline]
    pub fn new(divisor: u64) -> Self {
        Modulus { divisor, inverse: u64::MAX / divisor }
    }

    /// Returns `value % divisor`.
    #[inline]
    pub fn reduce(self, value: u64) -> u64 {
        let quotient = ((u128::from(value) * u128::from(self.inverse)) >> 64) as u64;
        let rest = value - quotient * self.divisor;
        if rest >= self.divisor { rest - self.divisor } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(seed: u64) -> [u64; 3] {
        let mut random = Random::new(seed);
        [random.draw(), random.draw(), random.draw()]
    }

    #[test]
    fn outputs_match_the_standard() {
        let mut random = Random::new(5489);
        let last = (0..10_000).map(|_| random.draw()).last();
        assert_eq!(last, Some(9_981_545_732_273_789_042));
        assert_eq!(first(0), [2947667278772165694, 18301848765998365067, 729919693006235833]);
        assert_eq!(first(1), [2469588189546311528, 2516265689700432462, 8323445853463659930]);
        assert_eq!(first(7), [13915952638675311015, 17511516338625233250, 2165911192842364878]);
        assert_eq!(first(8), [8930828567890437529, 16926849584203755386, 15906981515588336024]);
    }

    #[test]
    fn shuffles_match_recorded_ones() {
        for (seed, expected) in [(0, [0, 1, 2]), (1, [0, 2, 1]), (7, [2, 0, 1]), (8, [1, 2, 0])] {
            let mut items = [0, 1, 2];
            Random::new(seed).shuffle_all(&mut items);
            assert_eq!(items, expected, "seed {seed}");
        }
        let mut items: Vec<u32> = (0..12).collect();
        Random::new(0).shuffle_forward(&mut items);
        assert_eq!(items, [6, 0, 5, 9, 8, 7, 2, 11, 10, 1, 3, 4]);
    }

    #[test]
    fn empty_shuffle_draws_nothing() {
        let mut random = Random::new(7);
        random.shuffle_all::<u8>(&mut []);
        random.shuffle_forward::<u8>(&mut []);
        assert_eq!(random.draw(), first(7)[0]);
    }

    #[test]
    fn peek_does_not_consume() {
        let (mut one, mut other) = (Random::new(3), Random::new(3));
        for step in 0..2000 {
            let seen = one.peek(1 + step % 70).to_vec();
            let taken = (step * 7 % 11).min(seen.len());
            one.consume(taken);
            for &output in &seen[..taken] {
                assert_eq!(output, other.draw());
            }
        }
    }

    #[test]
    fn peek_is_bounded_by_limit_and_block() {
        let mut random = Random::new(3);
        for (limit, consumed, seen) in [
            (0, 0, 1),
            (1, 1, 1),
            (300, 300, 300),
            (20, 0, 11),
            (usize::MAX, 11, 11),
            (5, 0, 5),
            (usize::MAX, 0, WORDS),
        ] {
            assert_eq!(random.peek(limit).len(), seen, "limit {limit}");
            random.consume(consumed);
        }
    }

    #[test]
    fn modulus_matches_remainder() {
        let mut random = Random::new(11);
        let edges = [1, 2, 3, 10, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
        let divisors: Vec<u64> = (0..20_000).map(|round| (random.draw() >> (round % 64)).max(1)).collect();
        for &divisor in edges.iter().chain(&divisors) {
            let modulus = Modulus::new(divisor);
            let value = random.draw();
            let near = divisor.wrapping_mul(value % 1000);
            for value in [value, near, near.wrapping_sub(1), 0, u64::MAX, u64::MAX - 1, divisor, divisor - 1]
            {
                assert_eq!(modulus.reduce(value), value % divisor, "{value} mod {divisor}");
            }
        }
    }
}
