//! The state list (`labelMappingFile`): the class of each state is its position in the list.

use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room::{self, Use};
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{Error, Result};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// Memory for the names of states.
const STATES: Use =
    Use { of: "the list of states", advice: "Expected one state name per line: check the path." };

/// The names of states, with a lookup of their classes.
#[derive(Debug)]
pub struct StateList {
    /// The file's content.
    text: Vec<u8>,
    /// The range in `text` of each class's name.
    names: Vec<Range<u32>>,
    /// A hash table with open addressing. The number of slots is a power of two, and at most half
    /// of them are used.
    slots: Vec<Slot>,
    /// Random seed of the hash, so that no one can prepare a list whose names all collide.
    seed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    class: u32,
}

/// Class that marks a free slot.
const FREE: u32 = u32::MAX;

impl StateList {
    /// Reads a list: one name per line, with any line breaks; empty lines do not count.
    ///
    /// CNTK 2.7 loses the last state if no line break follows it. Here it counts.
    pub fn read(path: &str) -> Result<StateList> {
        let file = DataFile::open_text_or(path, |cause| {
            let error = Error::io("Error opening file", path, cause);
            let reason = error.message().rsplit_once("': ").map_or("", |(_, reason)| reason);
            let message = format!("error opening file '{path}': {}", reason.trim_end_matches('.'));
            error.reworded(message)
        })?;
        let size = file.size()?;
        if size >= FREE.into() {
            let message = format!("The state list '{path}' has {size} bytes, but at most 4 GB are possible.");
            let detail = "Expected one state name per line: check the path.";
            return Err(Error::data(message).with_detail(detail).in_file(path));
        }
        let text = file.read_text(room::FILE)?;
        let start = file.text_start();
        let list = Self::from_text(text)?.map_err(|(name, offset)| {
            let message = format!(
                "Deduplicate two states with the same name '{}' from the state table '{path}'.",
                quoted(&name)
            );
            let found = format!("The list of states has '{}' twice.", quoted(&name));
            let detail = "The number of its line is the class of a state, so each name has one line: remove the second.";
            Error::data(message).as_cntk().with_detail(found).with_detail(detail).in_file(path).at(start + offset, file.line_at(start + offset))
        })?;
        let line = format!("Total ({}) state names in state list '{path}'", list.len());
        Logger::log_always(Level::Info, &line);
        Ok(list)
    }

    /// Returns the file's content.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Parses a list. Fails with a repeated name and the offset of its second occurrence.
    pub(super) fn from_text(text: Vec<u8>) -> Result<std::result::Result<StateList, (Vec<u8>, u64)>> {
        let mut names = Vec::new();
        let mut start = 0;
        for end in memchr::memchr2_iter(b'\n', b'\r', &text).chain([text.len()]) {
            if end > start {
                room::push(&mut names, start as u32..end as u32, STATES)?;
            }
            start = end + 1;
        }
        let count = (2 * names.len()).next_power_of_two().max(2);
        let slots = room::filled(count, Slot { hash: 0, class: FREE }, STATES)?;
        let mut list = StateList { text, names, slots, seed: RandomState::new().hash_one(0) };
        for class in 0..list.names.len() as u32 {
            let hash = list.hash(list.name(class).unwrap_or_default());
            let mut place = list.place(hash);
            while list.slots[place].class != FREE {
                if list.slots[place].hash == hash && list.name(list.slots[place].class) == list.name(class) {
                    let name = room::copy(list.name(class).unwrap_or_default(), STATES)?;
                    return Ok(Err((name, list.names[class as usize].start.into())));
                }
                place = (place + 1) & (list.slots.len() - 1);
            }
            list.slots[place] = Slot { hash, class };
        }
        Ok(Ok(list))
    }

    /// Returns the number of states.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the name of a class.
    pub(crate) fn name(&self, class: u32) -> Option<&[u8]> {
        let Range { start, end } = self.names.get(class as usize)?;
        Some(&self.text[*start as usize..*end as usize])
    }

    /// Returns the class of a name.
    #[inline]
    pub(crate) fn class(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hash(name);
        let mut place = self.place(hash);
        loop {
            let slot = self.slots[place];
            if slot.class == FREE {
                return None;
            }
            if slot.hash == hash && self.name(slot.class) == Some(name) {
                return Some(slot.class);
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    /// Returns the memory use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.names) + size_of_val(&*self.slots)
    }

    /// Returns the slot at which the search for a hash begins.
    #[inline]
    fn place(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    /// Hashes a name eight bytes at a time. The 128-bit product, folded to 64 bits, lets every bit
    /// affect every other.
    #[inline]
    fn hash(&self, name: &[u8]) -> u32 {
        let fold = |hash: u64, word: u64| {
            let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
            (product as u64) ^ ((product >> 64) as u64)
        };
        let (words, rest) = name.as_chunks::<8>();
        let seed = self.seed ^ name.len() as u64;
        let hash = words.iter().fold(seed, |hash, word| fold(hash, u64::from_le_bytes(*word)));
        let last = rest.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        let hash = fold(hash, last);
        (hash ^ (hash >> 32)) as u32
    }
}
