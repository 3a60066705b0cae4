//! The keys of an index in as few bytes as they need: none if they count up, 4 if they stay near, else 8.

use super::table::Place;
use crate::sequence::SequenceKey;

/// Keys by the position of their sequences in the file.
#[derive(Debug)]
pub(super) enum Keys {
    /// Each is one more than the one before.
    Counting { first: SequenceKey },
    /// Differences to the first key of the sequence's chunk.
    Near(Vec<i32>),
    /// As they are.
    Any(Vec<SequenceKey>),
}

impl Default for Keys {
    fn default() -> Self {
        Keys::Counting { first: 0 }
    }
}

impl Keys {
    /// The key of the sequence at this position, which is in the chunk at `place`.
    #[inline]
    pub fn get(&self, position: usize, place: &Place) -> SequenceKey {
        match self {
            Keys::Counting { first } => first.wrapping_add(position as u64),
            Keys::Near(differences) => place.key.wrapping_add_signed(i64::from(differences[position])),
            Keys::Any(keys) => keys[position],
        }
    }

    /// Appends a key; `position` sequences have theirs already, and the last of `places` is the new sequence's.
    #[inline]
    pub fn push(&mut self, key: SequenceKey, position: usize, places: &[Place]) {
        match self {
            Keys::Counting { first } if position == 0 => *first = key,
            Keys::Counting { first } if first.wrapping_add(position as u64) == key => {}
            Keys::Near(differences) => match difference(key, places) {
                Some(difference) => differences.push(difference),
                None => self.widen(key, position, places),
            },
            Keys::Any(keys) => keys.push(key),
            Keys::Counting { .. } => self.widen(key, position, places),
        }
    }

    /// Whether each key is one more than the one before.
    pub fn are_counting(&self) -> bool {
        matches!(self, Keys::Counting { .. })
    }

    /// Appends a key that does not fit as the others are stored, by storing all of them wider.
    #[cold]
    fn widen(&mut self, key: SequenceKey, position: usize, places: &[Place]) {
        let ends = places.iter().skip(1).map(|next| next.first).chain([position]);
        let counting = matches!(self, Keys::Counting { .. });
        if let (true, Some(last)) = (counting, difference(key, places)) {
            let chunks = places.iter().zip(ends.clone()).map(|(place, end)| end - place.first);
            // Chunks of more sequences than that count too far.
            if chunks.clone().all(|sequences| i32::try_from(sequences).is_ok()) {
                let mut differences = Vec::with_capacity(position + position / 2 + 1);
                chunks.for_each(|sequences| differences.extend(0..sequences as i32));
                differences.push(last);
                *self = Keys::Near(differences);
                return;
            }
        }
        let mut keys = Vec::with_capacity(position + position / 2 + 1);
        for (place, end) in places.iter().zip(ends) {
            keys.extend((place.first..end).map(|position| self.get(position, place)));
        }
        keys.push(key);
        *self = Keys::Any(keys);
    }

    /// Takes out the keys from a position on, where a chunk begins.
    pub fn split_off(&mut self, position: usize) -> Keys {
        match self {
            Keys::Counting { first } => Keys::Counting { first: first.wrapping_add(position as u64) },
            Keys::Near(differences) => Keys::Near(differences.split_off(position)),
            Keys::Any(keys) => Keys::Any(keys.split_off(position)),
        }
    }

    pub fn shrink(&mut self) {
        match self {
            Keys::Counting { .. } => {}
            Keys::Near(differences) => differences.shrink_to_fit(),
            Keys::Any(keys) => keys.shrink_to_fit(),
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        match self {
            Keys::Counting { .. } => 0,
            Keys::Near(differences) => size_of_val(differences.as_slice()),
            Keys::Any(keys) => size_of_val(keys.as_slice()),
        }
    }
}

fn difference(key: SequenceKey, places: &[Place]) -> Option<i32> {
    i32::try_from(key.wrapping_sub(places.last()?.key) as i64).ok()
}
