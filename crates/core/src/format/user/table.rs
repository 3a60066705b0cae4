//! The sequences of a user's chunks, listed beforehand: sizes, lengths and keys.

use super::data::{Keys, Sequences};
use super::{wrong, wrong_chunk};
use crate::Result;
use crate::corpus::Corpus;
use crate::format::ChunkInfo;
use crate::memory::room;
use crate::sequence::{ChunkId, SequenceId, SequenceKey};

/// Chunks with sequences; the user's empty chunks are omitted.
#[derive(Default)]
pub(super) struct SequenceTable {
    /// Sizes.
    pub(super) infos: Vec<ChunkInfo>,
    /// The user's number of each chunk.
    pub(super) numbers: Vec<ChunkId>,
    /// For each chunk, the number of sequences in all earlier chunks.
    firsts: Vec<u64>,
    /// Lengths by chunk; `None` if all are one sample long.
    pub(super) lengths: Vec<Option<Box<[u32]>>>,
    /// Keys by chunk; `None` for ordinals, and if keys are not kept.
    keys: Vec<Option<Box<[SequenceKey]>>>,
    /// By chunk, the index of each sequence among the samples of its key's sequence; `None` if all
    /// are 0, and if keys are not kept.
    samples: Vec<Option<Box<[u32]>>>,
    sequences: u64,
}

impl SequenceTable {
    /// Adds a listed chunk. Keys take 8 bytes per sequence, and are stored only with `keeps_keys`.
    pub(super) fn add(
        &mut self,
        number: ChunkId,
        listed: Sequences,
        keeps_keys: bool,
        corpus: &Corpus,
    ) -> Result<Option<Vec<SequenceKey>>> {
        check_lengths(&listed, number)?;
        let keys = numbers(&listed, number, corpus)?;
        if listed.count == 0 {
            return Ok(None);
        }
        let samples = match &listed.lengths {
            Some(lengths) => lengths.iter().map(|&length| u64::from(length)).sum(),
            None => listed.count.into(),
        };
        let is_long = |lengths: &Vec<u32>| lengths.iter().any(|&length| length != 1);
        let kept = keys.as_deref().filter(|_| keeps_keys).map(|keys| room::copy(keys, room::KEYS));
        let kept = kept.transpose()?;
        self.make_room()?;
        self.infos.push(ChunkInfo { samples, sequences: listed.count });
        self.numbers.push(number);
        self.firsts.push(self.sequences);
        self.lengths.push(listed.lengths.filter(is_long).map(Vec::into_boxed_slice));
        self.keys.push(kept.map(Vec::into_boxed_slice));
        self.samples.push(listed.sample_indices.filter(|_| keeps_keys).map(Vec::into_boxed_slice));
        self.sequences += u64::from(listed.count);
        Ok(keys)
    }

    /// Adds a chunk of which at most the size is known.
    pub(super) fn add_size(&mut self, number: ChunkId, size: ChunkInfo) -> Result<()> {
        self.make_room()?;
        self.infos.push(size);
        self.numbers.push(number);
        self.firsts.push(self.sequences);
        self.lengths.push(None);
        self.keys.push(None);
        self.samples.push(None);
        self.sequences += u64::from(size.sequences);
        Ok(())
    }

    /// Reserves memory for another chunk.
    fn make_room(&mut self) -> Result<()> {
        room::reserve(&mut self.infos, 1, room::INDEX)?;
        room::reserve(&mut self.numbers, 1, room::INDEX)?;
        room::reserve(&mut self.firsts, 1, room::INDEX)?;
        room::reserve(&mut self.lengths, 1, room::INDEX)?;
        room::reserve(&mut self.keys, 1, room::INDEX)?;
        room::reserve(&mut self.samples, 1, room::INDEX)
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let numbers =
            |lists: &[Option<Box<[u32]>>]| lists.iter().flatten().map(|list| size_of_val(&**list)).sum();
        let keys: usize = self.keys.iter().flatten().map(|keys| size_of_val(&**keys)).sum();
        let (lengths, samples): (usize, usize) = (numbers(&self.lengths), numbers(&self.samples));
        let chunks = size_of_val(self.infos.as_slice())
            + size_of_val(self.numbers.as_slice())
            + size_of_val(self.firsts.as_slice());
        chunks + lengths + samples + keys
    }

    /// The key of a sequence, if keys are kept.
    pub(super) fn key(&self, sequence: SequenceId) -> SequenceKey {
        let chunk = sequence.chunk as usize;
        match &self.keys[chunk] {
            Some(keys) => keys[sequence.index as usize],
            None => self.ordinal(sequence),
        }
    }

    /// Whether sequences have explicit keys, and these are kept; otherwise their running numbers
    /// are their keys.
    pub(super) fn has_keys(&self) -> bool {
        self.keys.iter().any(Option::is_some)
    }

    /// Whether sequences have sample indices, and these are kept.
    pub(super) fn has_samples(&self) -> bool {
        self.samples.iter().any(Option::is_some)
    }

    /// The running number of a sequence in the whole data.
    pub(super) fn ordinal(&self, sequence: SequenceId) -> SequenceKey {
        self.firsts[sequence.chunk as usize] + u64::from(sequence.index)
    }

    /// Declared length of a sequence.
    pub(super) fn length(&self, sequence: SequenceId) -> u32 {
        let lengths = &self.lengths[sequence.chunk as usize];
        lengths.as_ref().map_or(1, |lengths| lengths[sequence.index as usize])
    }

    /// The index of a sequence among the samples of its key's sequence, if keys are kept.
    pub(super) fn sample(&self, sequence: SequenceId) -> u32 {
        let samples = &self.samples[sequence.chunk as usize];
        samples.as_ref().map_or(0, |samples| samples[sequence.index as usize])
    }

    /// All sequences, in the data's order.
    pub(super) fn all(&self) -> impl Iterator<Item = SequenceId> {
        (0..)
            .zip(&self.infos)
            .flat_map(|(chunk, info)| (0..info.sequences).map(move |index| SequenceId { chunk, index }))
    }
}

/// Rejects lists of unequal lengths, and sequences without samples.
pub(super) fn check_lengths(listed: &Sequences, number: ChunkId) -> Result<()> {
    if let Some(lengths) = &listed.lengths {
        check_count(listed, number, "lengths", lengths.len())?;
        if let Some(i) = lengths.iter().position(|&length| length == 0) {
            // CNTK 2.7 reports this only when it packs the sequence.
            let message = format!("sequence {i}: AddSequence: Sequences must be a least one frame long.");
            return Err(wrong_chunk(number, message));
        }
    }
    match &listed.sample_indices {
        Some(samples) => check_count(listed, number, "sample indices", samples.len()),
        None => Ok(()),
    }
}

fn check_count(listed: &Sequences, number: ChunkId, what: &str, given: usize) -> Result<()> {
    if given == listed.count as usize {
        return Ok(());
    }
    Err(wrong_chunk(number, format!("it lists {given} {what} for {} sequences.", listed.count)))
}

/// Converts the keys of a list to numbers of the corpus; `None` for ordinals.
pub(super) fn numbers(
    listed: &Sequences,
    number: ChunkId,
    corpus: &Corpus,
) -> Result<Option<Vec<SequenceKey>>> {
    let given = match &listed.keys {
        Keys::Ordinal => return Ok(None),
        Keys::OfCorpus(keys) | Keys::Numbers(keys) => keys.len(),
        Keys::Texts(keys) => keys.len(),
    };
    check_count(listed, number, "keys", given)?;
    let keys: Vec<SequenceKey> = match &listed.keys {
        Keys::Ordinal => return Ok(None),
        Keys::OfCorpus(keys) => room::copy(keys, room::KEYS)?,
        Keys::Numbers(keys) if corpus.is_numeric() => room::copy(keys, room::KEYS)?,
        Keys::Numbers(keys) => {
            let too_many = || wrong("There are too many different sequence keys.");
            let key = |key: &u64| corpus.number_of(key.to_string().as_bytes())?.ok_or_else(too_many);
            room::try_collect(keys.iter().map(key), room::KEYS)?
        }
        Keys::Texts(keys) => {
            let key = |text: &String| match corpus.number_of(text.as_bytes())? {
                Some(number) => Ok(number),
                // CNTK 2.7's words.
                None => numeric(text).ok_or_else(|| {
                    let message = format!("Invalid numeric sequence id '{text}'");
                    wrong_chunk(number, message).with_detail(NOT_NUMERIC).for_key(text)
                }),
            };
            room::try_collect(keys.iter().map(key), room::KEYS)?
        }
    };
    Ok(Some(keys))
}

/// Advice for textual keys in a reader with numeric keys.
const NOT_NUMERIC: &str = "The reader's keys are numbers, and only texts that show a number as it is printed can be keys there: \
                           '007' and '7' are different texts, and would be one key. Give the keys as numbers, or have all \
                           keys compared as texts (‹numeric_keys = false›).";

/// Parses a number in canonical form.
fn numeric(text: &str) -> Option<SequenceKey> {
    let is_canonical = text == "0" || text.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| is_canonical)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_texts_are_different_keys() {
        let texts = |keys: &[&str]| {
            let keys = keys.iter().map(|&key| key.to_owned()).collect::<Vec<_>>();
            Sequences::of_one_sample(keys.len() as u32).with_keys(Keys::Texts(keys))
        };
        let of = |keys: &[&str], corpus: &Corpus| numbers(&texts(keys), 0, corpus);
        let distinct = of(&["007", "7", "k\0a", "k\0b", "None", ""], &Corpus::symbolic()).expect("keys");
        assert_eq!(distinct, Some(vec![0, 1, 2, 3, 4, 5]));
        let canonical = of(&["0", "7", "18446744073709551615"], &Corpus::Numeric).expect("numbers");
        assert_eq!(canonical, Some(vec![0, 7, u64::MAX]));
        for refused in ["007", "00", "+7", " 7", "7 ", "", "7\0", "18446744073709551616", "7.0"] {
            let error = of(&["7", refused], &Corpus::Numeric).expect_err(refused);
            assert!(error.message().contains("Invalid numeric sequence id '"), "{error}");
            assert!(error.detail().contains("useNumericSequenceKeys"), "{error}");
        }
    }
}
