//! A histogram of numbers, for quantiles.

/// Numbers below this are counted exactly.
const EXACT: u64 = 256;

/// Number of buckets between two powers of two.
const PER_OCTAVE: u64 = 128;

/// A distribution of numbers: their mean, their maximum, and quantiles. Quantiles are exact for
/// numbers below 256, and at most 0.8 % too small above. The memory is small and independent of the
/// number of numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Distribution {
    /// Adds a number.
    pub fn add(&mut self, number: u64) {
        let bucket = bucket(number);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += u128::from(number);
        self.max = self.max.max(number);
    }

    /// Returns how many numbers were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns their mean; 0 if there are none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Returns the greatest number; 0 if there are none.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the least number that at least this fraction of the numbers, from 0 to 1, does not
    /// exceed: 0.5 gives the median. 0 if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut before = 0;
        let found = self.counts.iter().position(|&count| {
            before += count;
            before >= rank
        });
        found.map_or(self.max, |bucket| least(bucket).min(self.max))
    }
}

fn bucket(number: u64) -> usize {
    if number < EXACT {
        return number as usize;
    }
    // From 256 on, the top 8 bits select the bucket: the leading one, and 7 bits that divide the
    // octave.
    let shift = number.ilog2() - PER_OCTAVE.ilog2();
    (EXACT + u64::from(shift - 1) * PER_OCTAVE + (number >> shift) - PER_OCTAVE) as usize
}

/// Returns the least number of a bucket.
fn least(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT {
        return bucket;
    }
    let (octave, part) = ((bucket - EXACT) / PER_OCTAVE, (bucket - EXACT) % PER_OCTAVE);
    (PER_OCTAVE + part) << (octave + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        for bucket in 1..super::bucket(u64::MAX) {
            let first = least(bucket);
            assert_eq!(super::bucket(first), bucket);
            assert_eq!(super::bucket(first - 1), bucket - 1);
            assert!(bucket < 256 || (least(bucket + 1) - first) as f64 <= 0.0079 * first as f64);
        }
        assert_eq!(super::bucket(u64::MAX), 7423);
    }

    #[test]
    fn quantiles_approximate_the_sorted_numbers() {
        let mut sorted: Vec<u64> = (0..1000u64).map(|i| i * i * 7919 % 1_000_003).collect();
        let mut numbers = Distribution::default();
        sorted.iter().for_each(|&number| numbers.add(number));
        sorted.sort_unstable();
        assert_eq!(numbers.count(), 1000);
        assert_eq!(numbers.max(), sorted[999]);
        let mean = sorted.iter().sum::<u64>() as f64 / 1000.0;
        assert!((numbers.mean() - mean).abs() < 1e-6);
        for percent in 0..=100usize {
            let exact = sorted[(percent * 10).max(1) - 1];
            let found = numbers.quantile(percent as f64 / 100.0);
            assert!(
                found <= exact && found as f64 >= 0.992 * exact as f64,
                "{percent} %: {found} for {exact}"
            );
        }
        assert_eq!(Distribution::default().quantile(0.5), 0);
    }
}
