//! The keys of an index in as few bytes as possible: none if they count up, 4 if they are close to
//! each other, otherwise 8.

use super::table::ChunkSpan;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::SequenceKey;

/// Keys by the position of their sequences in the file.
#[derive(Debug)]
pub(super) enum Keys {
    /// Each key is one more than the previous one.
    Counting { first: SequenceKey },
    /// Differences from the first key of the sequence's chunk.
    Near(Vec<i32>),
    /// The keys themselves.
    Any(Vec<SequenceKey>),
}

impl Default for Keys {
    fn default() -> Self {
        Keys::Counting { first: 0 }
    }
}

impl Keys {
    /// Returns the key of the sequence at this position, which is in the chunk of this span.
    #[inline]
    pub fn get(&self, position: usize, chunk_span: &ChunkSpan) -> SequenceKey {
        match self {
            Keys::Counting { first } => first.wrapping_add(position as u64),
            Keys::Near(differences) => chunk_span.key.wrapping_add_signed(i64::from(differences[position])),
            Keys::Any(keys) => keys[position],
        }
    }

    /// Appends the key of the next sequence, which is at `position` and in the last chunk of
    /// `chunk_spans`.
    #[inline]
    pub fn push(&mut self, key: SequenceKey, position: usize, chunk_spans: &[ChunkSpan]) -> Result<()> {
        match self {
            Keys::Counting { first } if position == 0 => *first = key,
            Keys::Counting { first } if first.wrapping_add(position as u64) == key => {}
            Keys::Near(differences) => match difference(key, chunk_spans) {
                Some(difference) => return room::push(differences, difference, room::INDEX),
                None => return self.widen(key, position, chunk_spans),
            },
            Keys::Any(keys) => return room::push(keys, key, room::INDEX),
            Keys::Counting { .. } => return self.widen(key, position, chunk_spans),
        }
        Ok(())
    }

    /// Whether each key is one more than the previous one.
    pub fn are_counting(&self) -> bool {
        matches!(self, Keys::Counting { .. })
    }

    /// Appends a key that does not fit the current form: stores all of them in a wider one.
    #[cold]
    fn widen(&mut self, key: SequenceKey, position: usize, chunk_spans: &[ChunkSpan]) -> Result<()> {
        let ends = chunk_spans.iter().skip(1).map(|next| next.first).chain([position]);
        let counting = matches!(self, Keys::Counting { .. });
        if let (true, Some(last)) = (counting, difference(key, chunk_spans)) {
            let chunks = chunk_spans.iter().zip(ends.clone()).map(|(chunk_span, end)| end - chunk_span.first);
            // In a chunk with more sequences, the differences would not fit.
            if chunks.clone().all(|sequences| i32::try_from(sequences).is_ok()) {
                let mut differences = room::with_capacity(position + position / 2 + 1, room::INDEX)?;
                chunks.for_each(|sequences| differences.extend(0..sequences as i32));
                differences.push(last);
                *self = Keys::Near(differences);
                return Ok(());
            }
        }
        let mut keys = room::with_capacity(position + position / 2 + 1, room::INDEX)?;
        for (chunk_span, end) in chunk_spans.iter().zip(ends) {
            keys.extend((chunk_span.first..end).map(|position| self.get(position, chunk_span)));
        }
        keys.push(key);
        *self = Keys::Any(keys);
        Ok(())
    }

    /// Removes and returns the keys from `position` on, where a chunk begins.
    pub fn split_off(&mut self, position: usize) -> Result<Keys> {
        Ok(match self {
            Keys::Counting { first } => Keys::Counting { first: first.wrapping_add(position as u64) },
            Keys::Near(differences) => Keys::Near(room::split_off(differences, position, room::INDEX)?),
            Keys::Any(keys) => Keys::Any(room::split_off(keys, position, room::INDEX)?),
        })
    }

    pub fn shrink(&mut self) {
        match self {
            Keys::Counting { .. } => {}
            Keys::Near(differences) => differences.shrink_to_fit(),
            Keys::Any(keys) => keys.shrink_to_fit(),
        }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Keys::Counting { .. } => 0,
            Keys::Near(differences) => size_of_val(differences.as_slice()),
            Keys::Any(keys) => size_of_val(keys.as_slice()),
        }
    }
}

fn difference(key: SequenceKey, chunk_spans: &[ChunkSpan]) -> Option<i32> {
    i32::try_from(key.wrapping_sub(chunk_spans.last()?.key) as i64).ok()
}
