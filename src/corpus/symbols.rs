//! Textual keys and their numbers, both ways, in a few flat arrays: corpora have tens of millions of keys.

use crate::sequence::SequenceKey;
use hashbrown::HashTable;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// The two directions of a symbolic corpus. Numbers count up from 0 in order of first appearance.
pub struct Symbols {
    /// All texts, one behind the other, and where each ends.
    texts: Vec<u8>,
    ends: Vec<u64>,
    numbers: HashTable<Entry>,
    /// Differs from corpus to corpus, so that no data can be made whose keys all collide.
    seed: u64,
}

/// A number with the hash of its text: a table that grows need not read the texts again.
struct Entry {
    hash: u32,
    number: u32,
}

impl Default for Symbols {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Symbols { texts: Vec::new(), ends: Vec::new(), numbers: HashTable::new(), seed }
    }
}

impl Symbols {
    /// The number of a text, a new one if it is not known. `None` if no number is left.
    pub fn number_of(&mut self, text: &[u8]) -> Option<SequenceKey> {
        let hash = hash(text, self.seed);
        let (texts, ends) = (&self.texts, &self.ends);
        let is_it = |entry: &Entry| entry.hash == hash && text_at(texts, ends, entry.number as usize) == text;
        if let Some(entry) = self.numbers.find(spread(hash), is_it) {
            return Some(entry.number.into());
        }
        let number = u32::try_from(self.ends.len()).ok()?;
        self.texts.extend_from_slice(text);
        self.ends.push(self.texts.len() as u64);
        self.numbers.insert_unique(spread(hash), Entry { hash, number }, |entry| spread(entry.hash));
        Some(number.into())
    }

    /// The text of a number.
    pub fn text_of(&self, number: SequenceKey) -> Option<&[u8]> {
        let number = usize::try_from(number).ok().filter(|&number| number < self.ends.len())?;
        Some(text_at(&self.texts, &self.ends, number))
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("count", &self.ends.len()).finish_non_exhaustive()
    }
}

fn text_at<'a>(texts: &'a [u8], ends: &[u64], number: usize) -> &'a [u8] {
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    &texts[start as usize..ends[number] as usize]
}

/// The table takes the bucket from the low bits and a tag from the high ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Folds the text, eight bytes at a time, with the 128-bit product that lets every bit reach every other.
fn hash(text: &[u8], seed: u64) -> u32 {
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let (words, rest) = text.as_chunks::<8>();
    let mut hash =
        words.iter().fold(seed ^ text.len() as u64, |hash, word| fold(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash = fold(hash, u64::from_le_bytes(last));
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn numbers_as_a_plain_map_does(texts in proptest::collection::vec("[ab|\\x00\u{e9}]{0,20}", 0..300)) {
            let mut symbols = Symbols::default();
            let mut plain: HashMap<&[u8], u64> = HashMap::new();
            for text in texts.iter().map(|text| text.as_bytes()) {
                let next = plain.len() as u64;
                let number = *plain.entry(text).or_insert(next);
                prop_assert_eq!(symbols.number_of(text), Some(number));
            }
            for (text, number) in &plain {
                prop_assert_eq!(symbols.text_of(*number), Some(*text));
            }
            prop_assert_eq!(symbols.text_of(plain.len() as u64), None);
        }
    }

    #[test]
    fn keys_that_look_alike_spread() {
        let seed = 7;
        let hashes: std::collections::HashSet<u32> =
            (0..100_000).map(|i| hash(format!("utterance-{i:07}").as_bytes(), seed)).collect();
        // Chance alone lets one or two of them meet.
        assert!(hashes.len() > 99_990, "{}", hashes.len());
    }
}
