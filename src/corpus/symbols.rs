//! Textual keys and their numbers, both ways, in a few flat arrays: corpora have tens of millions of keys.

use crate::prefetch;
use crate::sequence::SequenceKey;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// The two directions of a symbolic corpus. Numbers count up from 0 in order of first appearance.
pub struct Symbols {
    /// All texts, one after the other.
    texts: Vec<u8>,
    /// By number: the offset in `texts` at which a text ends.
    ends: Vec<u64>,
    /// A hash table with open addressing: a text's slot is the first one, from [`Symbols::place`] of its hash on, that was free
    /// when the text was added. The number of slots is a power of two, and at most half of them are taken.
    slots: Vec<Slot>,
    /// Seed of the hash. It is random for each corpus, so that data cannot be prepared whose keys all collide.
    seed: u64,
}

/// A number with the hash of its text. The hash is kept so that a growing table need not read the texts again.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    number: u32,
}

/// Number that marks a free slot. No text has it.
const FREE: u32 = u32::MAX;

/// Slots of the first table.
const FIRST_SLOTS: usize = 64;

/// Texts whose slots are prefetched before the first of them is looked up.
const BATCH: usize = 32;

impl Default for Symbols {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Symbols { texts: Vec::new(), ends: Vec::new(), slots: free(FIRST_SLOTS), seed }
    }
}

impl Symbols {
    /// The number of a text; a text that is not known gets the next number. `None` if no number is left.
    pub fn number_of(&mut self, text: &[u8]) -> Option<SequenceKey> {
        self.number(text, hash(text, self.seed))
    }

    /// Appends the numbers of texts, until no number is left. For many texts this is several times as fast as calling
    /// [`Symbols::number_of`] for each, because their slots are prefetched.
    pub fn number_all<'a>(
        &mut self,
        mut texts: impl Iterator<Item = &'a [u8]>,
        numbers: &mut Vec<SequenceKey>,
    ) {
        let mut batch = [(&[][..], 0); BATCH];
        loop {
            let mut count = 0;
            for (place, text) in batch.iter_mut().zip(&mut texts) {
                *place = (text, hash(text, self.seed));
                prefetch::line((&raw const self.slots[self.place(place.1)]).cast());
                count += 1;
            }
            if count == 0 {
                return;
            }
            for &(text, hash) in &batch[..count] {
                let Some(number) = self.number(text, hash) else { return };
                numbers.push(number);
            }
        }
    }

    fn number(&mut self, text: &[u8], hash: u32) -> Option<SequenceKey> {
        let mut place = self.place(hash);
        loop {
            let slot = self.slots[place];
            if slot.number == FREE {
                break;
            }
            if slot.hash == hash && text_at(&self.texts, &self.ends, slot.number as usize) == text {
                return Some(slot.number.into());
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        let number = u32::try_from(self.ends.len()).ok().filter(|&number| number != FREE)?;
        self.texts.extend_from_slice(text);
        self.ends.push(self.texts.len() as u64);
        self.slots[place] = Slot { hash, number };
        if self.ends.len() > self.slots.len() / 2 {
            self.grow();
        }
        Some(number.into())
    }

    /// The slot at which the search for a hash begins. It is chosen by the hash's top bits, so that moving the slots into a
    /// table of twice the size fills that table from front to back.
    fn place(&self, hash: u32) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 32) as usize
    }

    #[cold]
    fn grow(&mut self) {
        let slots = free(2 * self.slots.len());
        let old = std::mem::replace(&mut self.slots, slots);
        for slot in old.into_iter().filter(|slot| slot.number != FREE) {
            let mut place = self.place(slot.hash);
            while self.slots[place].number != FREE {
                place = (place + 1) & (self.slots.len() - 1);
            }
            self.slots[place] = slot;
        }
    }

    /// The text of a number.
    pub fn text_of(&self, number: SequenceKey) -> Option<&[u8]> {
        let number = usize::try_from(number).ok().filter(|&number| number < self.ends.len())?;
        Some(text_at(&self.texts, &self.ends, number))
    }
}

/// A table of `slots` free slots.
fn free(slots: usize) -> Vec<Slot> {
    vec![Slot { hash: 0, number: FREE }; slots]
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

/// Hashes a text eight bytes at a time. The 128-bit product, folded to 64 bits, lets every bit affect every other.
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
            // All texts at once, in a corpus that already knows some of them.
            for known in [0, texts.len() / 2] {
                let mut symbols = Symbols::default();
                texts[..known].iter().for_each(|text| _ = symbols.number_of(text.as_bytes()));
                let mut numbers = Vec::new();
                symbols.number_all(texts.iter().map(|text| text.as_bytes()), &mut numbers);
                let expected: Vec<u64> = texts.iter().map(|text| plain[text.as_bytes()]).collect();
                prop_assert_eq!(numbers, expected);
            }
        }
    }

    #[test]
    fn keys_that_look_alike_spread() {
        let seed = 7;
        let hashes: std::collections::HashSet<u32> =
            (0..100_000).map(|i| hash(format!("utterance-{i:07}").as_bytes(), seed)).collect();
        // By chance alone one or two of these hashes are equal.
        assert!(hashes.len() > 99_990, "{}", hashes.len());
    }
}
