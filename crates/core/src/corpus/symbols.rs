//! Maps textual keys to numbers and back, in a few flat arrays: corpora have tens of millions of
//! keys.

use crate::Result;
use crate::cpu::prefetch;
use crate::memory::room;
use crate::sequence::SequenceKey;
use std::fmt;
use std::hash::{BuildHasher, RandomState};

/// Both directions of a symbolic corpus. Numbers count up from 0 in order of first appearance.
///
/// Most files list their keys in ascending order, and other files list the same keys in the same
/// order. So there is no hash table as long as each new text is greater than the last one, and the
/// successor of the previous text is found without it. This saves most of the time of numbering,
/// and 10 to 21 bytes per text.
pub struct Symbols {
    /// All texts, concatenated.
    texts: Vec<u8>,
    /// The end of each text in `texts`, by number.
    ends: Ends,
    /// A hash table with open addressing: a text's slot is the first one, from [`Symbols::place`]
    /// of its hash on, that was free when the text was added. The number of slots is a power of
    /// two, of which at most three quarters are taken. Empty as long as texts ascend.
    slots: Vec<Slot>,
    /// The number after the last returned one, which often belongs to the next text.
    next: usize,
    /// Seed of the hash. It is random for each corpus, so that nobody can prepare data whose keys
    /// all collide.
    seed: u64,
}

/// A number and the hash of its text, which is kept so that a growing table need not read the texts
/// again.
#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    number: u32,
}

/// Marks a free slot. No text has this number.
const FREE: u32 = u32::MAX;

/// Number of slots of the first table.
const FIRST_SLOTS: usize = 64;

/// Number of texts whose slots are prefetched before the first of them is looked up.
const BATCH: usize = 32;

/// Ascending offsets, in 32 bits as long as they fit.
enum Ends {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

impl Ends {
    fn len(&self) -> usize {
        match self {
            Ends::Narrow(ends) => ends.len(),
            Ends::Wide(ends) => ends.len(),
        }
    }

    fn get(&self, number: usize) -> usize {
        match self {
            Ends::Narrow(ends) => ends[number] as usize,
            Ends::Wide(ends) => ends[number] as usize,
        }
    }

    fn push(&mut self, end: usize) -> Result<()> {
        match (&mut *self, u32::try_from(end)) {
            (Ends::Narrow(ends), Ok(end)) => room::push(ends, end, room::KEYS),
            (Ends::Narrow(ends), Err(_)) => {
                let mut wide = room::with_capacity(ends.len() + 1, room::KEYS)?;
                wide.extend(ends.iter().map(|&end| u64::from(end)).chain([end as u64]));
                *self = Ends::Wide(wide);
                Ok(())
            }
            (Ends::Wide(ends), _) => room::push(ends, end as u64, room::KEYS),
        }
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        match self {
            Ends::Narrow(ends) => room::reserve(ends, count, room::KEYS),
            Ends::Wide(ends) => room::reserve(ends, count, room::KEYS),
        }
    }

    fn shrink(&mut self) {
        match self {
            Ends::Narrow(ends) => ends.shrink_to_fit(),
            Ends::Wide(ends) => ends.shrink_to_fit(),
        }
    }
}

impl Default for Symbols {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Symbols { texts: Vec::new(), ends: Ends::Narrow(Vec::new()), slots: Vec::new(), next: 0, seed }
    }
}

impl Symbols {
    /// Returns the number of a text; an unknown text gets the next number. Returns `None` if no
    /// number is left. If there is no memory for a text, it stays unknown.
    pub fn number_of(&mut self, text: &[u8]) -> Result<Option<SequenceKey>> {
        let number = if let Some(number) = self.likely(text) {
            Some(number as u32)
        } else if self.slots.is_empty() && self.is_greatest(text) {
            self.append(text)?
        } else {
            if self.slots.is_empty() {
                self.index()?;
            }
            self.look_up(text, hash(text, self.seed))?
        };
        let Some(number) = number else { return Ok(None) };
        self.next = number as usize + 1;
        Ok(Some(number.into()))
    }

    /// Appends the numbers of texts, until no number is left. For many texts this is several times
    /// as fast as calling [`Symbols::number_of`] for each, because their slots are prefetched.
    pub fn number_all<'a>(
        &mut self,
        mut texts: impl Iterator<Item = &'a [u8]>,
        numbers: &mut Vec<SequenceKey>,
    ) -> Result<()> {
        let count = texts.size_hint().0;
        room::reserve(numbers, count, room::INDEX)?;
        if self.ends.len() == 0 {
            self.ends.reserve(count)?;
        }
        while self.slots.is_empty() {
            let Some(text) = texts.next() else { return Ok(()) };
            let Some(number) = self.number_of(text)? else { return Ok(()) };
            room::push(numbers, number, room::INDEX)?;
        }
        /// The information on a text before it is looked up.
        #[derive(Clone, Copy)]
        enum Known {
            Number(usize),
            Hash(u32),
        }
        let mut batch = [(&[][..], Known::Number(0)); BATCH];
        loop {
            let mut count = 0;
            for (place, text) in batch.iter_mut().zip(&mut texts) {
                let likely = self.next + count;
                let known = if self.is_at(likely, text) {
                    Known::Number(likely)
                } else {
                    let hash = hash(text, self.seed);
                    prefetch::line((&raw const self.slots[self.place(hash)]).cast());
                    Known::Hash(hash)
                };
                *place = (text, known);
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            for &(text, known) in &batch[..count] {
                let number = match known {
                    Known::Number(number) => number,
                    Known::Hash(hash) => match self.look_up(text, hash)? {
                        Some(number) => number as usize,
                        None => return Ok(()),
                    },
                };
                self.next = number + 1;
                room::push(numbers, number as SequenceKey, room::INDEX)?;
            }
        }
    }

    /// Frees spare memory.
    pub(crate) fn shrink(&mut self) {
        self.texts.shrink_to_fit();
        self.ends.shrink();
    }

    /// Returns the number of a text if it follows the previous one, possibly skipping a few, or if
    /// it is the first one again.
    fn likely(&self, text: &[u8]) -> Option<usize> {
        /// Number of texts that may be skipped.
        const MOST: usize = 4;
        let (first, last) = if self.next < self.ends.len() { (self.next, self.next + MOST) } else { (0, 0) };
        (first..=last).find(|&number| self.is_at(number, text))
    }

    /// Returns whether a text has this number.
    fn is_at(&self, number: usize, text: &[u8]) -> bool {
        number < self.ends.len() && self.text_at(number) == text
    }

    /// Returns whether a text is greater than the last one.
    fn is_greatest(&self, text: &[u8]) -> bool {
        self.ends.len().checked_sub(1).is_none_or(|last| self.text_at(last) < text)
    }

    /// Appends a new text. Changes nothing if there is no memory for it.
    fn append(&mut self, text: &[u8]) -> Result<Option<u32>> {
        let number = u32::try_from(self.ends.len()).ok().filter(|&number| number != FREE);
        if number.is_some() {
            room::reserve(&mut self.texts, text.len(), room::KEYS)?;
            self.ends.push(self.texts.len() + text.len())?;
            self.texts.extend_from_slice(text);
        }
        Ok(number)
    }

    /// Finds a text by its hash, or appends it.
    fn look_up(&mut self, text: &[u8], hash: u32) -> Result<Option<u32>> {
        let mut place = self.place(hash);
        loop {
            let slot = self.slots[place];
            if slot.number == FREE {
                break;
            }
            if slot.hash == hash && self.text_at(slot.number as usize) == text {
                return Ok(Some(slot.number));
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        // The table grows before the text is appended, so that nothing has changed if there is no
        // memory.
        if self.ends.len() >= self.slots.len() / 4 * 3 {
            self.grow()?;
            place = self.free_place(hash);
        }
        let number = self.append(text)?;
        if let Some(number) = number {
            self.slots[place] = Slot { hash, number };
        }
        Ok(number)
    }

    /// Returns the slot at which the search for a hash begins. It is determined by the hash's top
    /// bits, so that moving the slots into a table of twice the size fills that table from front to
    /// back.
    fn place(&self, hash: u32) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 32) as usize
    }

    /// Builds the table of all texts so far.
    #[cold]
    fn index(&mut self) -> Result<()> {
        let count = self.ends.len();
        self.slots = free((count + count / 3 + 1).next_power_of_two().max(FIRST_SLOTS))?;
        // Less than 2^32, because `append` assigns no other numbers.
        for number in 0..count as u32 {
            let hash = hash(self.text_at(number as usize), self.seed);
            self.insert(Slot { hash, number });
        }
        Ok(())
    }

    #[cold]
    fn grow(&mut self) -> Result<()> {
        let slots = free(2 * self.slots.len())?;
        let old = std::mem::replace(&mut self.slots, slots);
        old.into_iter().filter(|slot| slot.number != FREE).for_each(|slot| self.insert(slot));
        Ok(())
    }

    /// Inserts a slot at a free place.
    fn insert(&mut self, slot: Slot) {
        let place = self.free_place(slot.hash);
        self.slots[place] = slot;
    }

    /// Returns the first free slot for a hash.
    fn free_place(&self, hash: u32) -> usize {
        let mut place = self.place(hash);
        while self.slots[place].number != FREE {
            place = (place + 1) & (self.slots.len() - 1);
        }
        place
    }

    /// Returns the text with this number.
    pub fn text_of(&self, number: SequenceKey) -> Option<&[u8]> {
        let number = usize::try_from(number).ok().filter(|&number| number < self.ends.len())?;
        Some(self.text_at(number))
    }

    fn text_at(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends.get(before));
        &self.texts[start..self.ends.get(number)]
    }
}

/// Returns a table of `slots` free slots.
fn free(slots: usize) -> Result<Vec<Slot>> {
    room::filled(slots, Slot { hash: 0, number: FREE }, room::KEYS)
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Symbols").field("count", &self.ends.len()).finish_non_exhaustive()
    }
}

/// Hashes a text eight bytes at a time. Folding the 128-bit product to 64 bits lets every bit
/// affect every other.
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
        fn matches_a_hash_map(texts in proptest::collection::vec("[ab|\\x00\u{e9}]{0,20}", 0..300)) {
            let mut symbols = Symbols::default();
            let mut plain: HashMap<&[u8], u64> = HashMap::new();
            for text in texts.iter().map(|text| text.as_bytes()) {
                let next = plain.len() as u64;
                let number = *plain.entry(text).or_insert(next);
                prop_assert_eq!(symbols.number_of(text).expect("memory"), Some(number));
            }
            for (text, number) in &plain {
                prop_assert_eq!(symbols.text_of(*number), Some(*text));
            }
            prop_assert_eq!(symbols.text_of(plain.len() as u64), None);
            // All texts at once, with a corpus that already knows some of them.
            for known in [0, texts.len() / 2] {
                let mut symbols = Symbols::default();
                texts[..known].iter().for_each(|text| _ = symbols.number_of(text.as_bytes()).expect("memory"));
                let mut numbers = Vec::new();
                symbols.number_all(texts.iter().map(|text| text.as_bytes()), &mut numbers).expect("memory");
                let expected: Vec<u64> = texts.iter().map(|text| plain[text.as_bytes()]).collect();
                prop_assert_eq!(numbers, expected);
            }
        }
    }

    proptest! {
        /// Ascending texts with a few exceptions, then some of them again in several orders.
        #[test]
        fn ascending_texts_need_no_table(
            texts in proptest::collection::btree_set("[a-c]{0,5}", 0..200),
            others in proptest::collection::vec("[a-d]{0,4}", 0..4),
            from in 0..200_usize,
            all_at_once in any::<bool>(),
        ) {
            let ascending: Vec<String> = texts.iter().cloned().collect();
            let again = &ascending[from.min(ascending.len())..];
            let asked: Vec<&String> = ascending.iter().chain(again).chain(&others).chain(&ascending).collect();
            let mut plain: HashMap<&[u8], u64> = HashMap::new();
            let expected: Vec<u64> = asked
                .iter()
                .map(|text| {
                    let next = plain.len() as u64;
                    *plain.entry(text.as_bytes()).or_insert(next)
                })
                .collect();
            let (mut symbols, mut numbers) = (Symbols::default(), Vec::new());
            if all_at_once {
                symbols.number_all(asked.iter().map(|text| text.as_bytes()), &mut numbers).expect("memory");
            } else {
                let number = |text: &&String| symbols.number_of(text.as_bytes()).expect("memory");
                numbers.extend(asked.iter().filter_map(number));
            }
            prop_assert_eq!(numbers, expected);
            symbols.shrink();
            for (text, number) in &plain {
                prop_assert_eq!(symbols.text_of(*number), Some(*text));
            }
        }
    }

    #[test]
    fn offsets_beyond_32_bits() {
        let mut ends = Ends::Narrow(Vec::new());
        for end in [5, u32::MAX as usize, 1 << 33, 1 << 34] {
            ends.push(end).expect("memory");
        }
        ends.reserve(1).expect("memory");
        ends.shrink();
        assert!(matches!(ends, Ends::Wide(_)));
        let all: Vec<usize> = (0..ends.len()).map(|number| ends.get(number)).collect();
        assert_eq!(all, [5, u32::MAX as usize, 1 << 33, 1 << 34]);
    }

    #[test]
    fn files_in_the_same_ascending_order_need_no_table() {
        let texts: Vec<String> = (0..1000).map(|number| format!("{number:05}")).collect();
        let (mut symbols, mut numbers) = (Symbols::default(), Vec::new());
        for _ in 0..2 {
            symbols.number_all(texts.iter().map(|text| text.as_bytes()), &mut numbers).expect("memory");
        }
        let some = || (0..1000).filter(|number| number % 7 < 3);
        symbols.number_all(some().map(|number| texts[number].as_bytes()), &mut numbers).expect("memory");
        assert!(symbols.slots.is_empty());
        assert!(numbers.into_iter().eq((0..1000).chain(0..1000).chain(some().map(|number| number as u64))));
        assert_eq!(symbols.number_of(texts[500].as_bytes()).expect("memory"), Some(500));
        assert!(!symbols.slots.is_empty());
    }

    #[test]
    fn hashes_of_similar_keys_spread() {
        let seed = 7;
        let hashes: std::collections::HashSet<u32> =
            (0..100_000).map(|i| hash(format!("utterance-{i:07}").as_bytes(), seed)).collect();
        // Random hashes would have one or two collisions.
        assert!(hashes.len() > 99_990, "{}", hashes.len());
    }
}
