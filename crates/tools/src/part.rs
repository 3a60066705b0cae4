//! Shares of work for several machines: part K of N.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Part K of N, counted from 1. All N parts together are the whole, without gaps and overlaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    number: u64,
    parts: u64,
}

impl Part {
    /// Returns part `number` of `parts`, if there is one.
    #[must_use]
    pub fn new(number: u64, parts: u64) -> Option<Part> {
        (1..=parts).contains(&number).then_some(Part { number, parts })
    }

    /// Returns its number, from 1.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }

    /// Returns the number of parts.
    #[must_use]
    pub fn parts(self) -> u64 {
        self.parts
    }

    /// Returns its share of items with these sizes: consecutive items, so that the parts have about
    /// equal sizes. An item belongs to the part in which it begins.
    #[must_use]
    pub fn share(self, sizes: &[u64]) -> Range<usize> {
        let total: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
        let first = |part: u64| {
            let bound = total * u128::from(part) / u128::from(self.parts);
            let mut begin = 0;
            let is_before = |size: &&u64| {
                let is_before = begin < bound;
                begin += u128::from(**size);
                is_before
            };
            if part == self.parts { sizes.len() } else { sizes.iter().take_while(is_before).count() }
        };
        first(self.number - 1)..first(self.number)
    }
}

/// Parses `K/N`.
impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let numbers = text.split_once('/').and_then(|(number, parts)| {
            Some((number.trim().parse::<u64>().ok()?, parts.trim().parse::<u64>().ok()?))
        });
        let (number, parts) = numbers.ok_or("write K/N, such as 1/4 for the first of four parts")?;
        Part::new(number, parts).ok_or_else(|| {
            format!("there is no part {number} of {parts}: parts are counted from 1 to {parts}")
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_consecutive_and_about_equal() {
        let sizes: Vec<u64> = (0..100).map(|number| number * 7919 % 31).collect();
        let (total, most) = (sizes.iter().sum::<u64>(), 30);
        for parts in [1, 2, 3, 7, 100, 1000] {
            let mut end = 0;
            for number in 1..=parts {
                let share = Part::new(number, parts).expect("a part").share(&sizes);
                assert_eq!(share.start, end);
                end = share.end;
                let size: u64 = sizes[share].iter().sum();
                assert!(size <= total / parts + 1 + most, "{number}/{parts}: {size}");
            }
            assert_eq!(end, sizes.len());
        }
        let empty: &[u64] = &[];
        assert_eq!(Part::new(2, 3).expect("a part").share(empty), 0..0);
        // Items without a size belong to a part, too.
        let shares = [1, 2].map(|number| Part::new(number, 2).expect("a part").share(&[0, 0, 0]));
        assert_eq!(shares, [0..0, 0..3]);
    }

    #[test]
    fn parts_are_parsed() {
        assert_eq!("2/4".parse::<Part>().map(|part| part.to_string()), Ok("2/4".to_owned()));
        for (text, words) in
            [("2", "write K/N"), ("a/4", "write K/N"), ("0/4", "from 1 to 4"), ("5/4", "from 1 to 4")]
        {
            assert!(text.parse::<Part>().expect_err(text).contains(words), "{text}");
        }
    }
}
