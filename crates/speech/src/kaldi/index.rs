//! The table of utterances: positions, keys, and chunks, 48 bytes per utterance.

use super::files::Files;
use super::header::ObjectKind;
use super::scan::{self, Found, Scan};
use crate::kaldi::KaldiOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::{ChunkInfo, Lengths};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::ops::Range;

/// A chunk is closed once it has more frames than this, like chunks of HTK features: 15 minutes at
/// 100 frames per second.
const CHUNK_FRAMES: u64 = 90_000;

/// The position of an utterance.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Offset of its data: of its first value, or of the whole compressed matrix or text.
    pub offset: u64,
    /// Bytes of a text, or rows of a compressed matrix: both must be read completely to extract
    /// rows.
    pub extent: u32,
    /// Its first row in a compressed matrix or in a text.
    pub first_row: u32,
    /// The number of its file.
    pub file: u32,
    /// Its format.
    pub kind: ObjectKind,
}

/// The table of utterances.
pub struct Index {
    pub files: Files,
    pub entries: Vec<Entry>,
    /// Number of frames of each utterance.
    pub lengths: Vec<u32>,
    pub keys: Vec<SequenceKey>,
    /// The utterances sorted by key; empty if they already are.
    by_key: Vec<u32>,
    pub chunks: Vec<ChunkInfo>,
    /// The first utterance of each chunk, followed by the number of all utterances.
    firsts: Vec<u32>,
}

impl Index {
    /// Finds the objects of a script or archive. Runs on a thread of the pool.
    pub fn scan(options: &KaldiOptions) -> Result<Scan> {
        let integers = options.storage == Storage::SparseCsc;
        match options.is_script {
            true => scan::script(&options.file, integers, &options.confinement),
            false => scan::archive(&options.file, integers),
        }
    }

    /// Builds utterances and chunks from the objects found.
    pub fn new(options: &KaldiOptions, corpus: &Corpus, scan: Scan) -> Result<Index> {
        let Scan { texts, found, files } = scan;
        let mut utterances = Utterances {
            options,
            empty: 0,
            first_empty: String::new(),
            entries: Vec::new(),
            lengths: Vec::new(),
            keys: Vec::new(),
        };
        room::reserve_exact(&mut utterances.entries, found.len(), room::INDEX)?;
        room::reserve_exact(&mut utterances.lengths, found.len(), room::INDEX)?;
        room::reserve_exact(&mut utterances.keys, found.len(), room::INDEX)?;
        for found in &found {
            utterances.add(&texts, &files, found)?;
        }
        let Utterances { empty, first_empty, entries, lengths, keys: key_texts, .. } = utterances;
        if empty > 0 {
            let line = format!(
                "{empty} utterances of '{}' have no frames and are left out, the first of them '{first_empty}'. Remove them from the file, or \
                 write their frames.",
                options.file
            );
            Logger::log_always(Level::Warning, &line);
        }
        if entries.is_empty() {
            let detail = "The file has no utterances, or each of them is empty or longer than ‹max_sequence_size›. Check that this is the intended file.";
            let error = Error::data("KaldiDeserializer: No utterances to process.").as_cntk();
            return Err(error.with_detail(detail).in_file(&options.file));
        }
        let mut keys = room::with_capacity(entries.len(), room::INDEX)?;
        number(corpus, &key_texts, &mut keys).map_err(|error| error.in_file(&options.file))?;
        let by_key = by_key(&keys)?.map_err(|(first, second)| {
            let at = |number: usize| {
                let entry: &Entry = &entries[number];
                format!("'{}' at {}", files.path(entry.file), entry.offset)
            };
            let key = corpus.text_of(keys[first]);
            let error = Error::data(format!("Two utterances have the same key '{key}'."));
            let detail = format!("One is in {}, the other in {}. Remove one of them.", at(first), at(second));
            error.with_detail(detail).in_file(&options.file).for_key(key)
        })?;
        let (chunks, firsts) = chunks(&lengths)?;
        Ok(Index { files, entries, lengths, keys, by_key, chunks, firsts })
    }

    /// Returns the utterances of a chunk.
    pub fn utterances(&self, chunk: ChunkId) -> Range<usize> {
        self.firsts[chunk as usize] as usize..self.firsts[chunk as usize + 1] as usize
    }

    /// Returns the lengths of a chunk's utterances.
    pub fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        Lengths::Each(&self.lengths[self.utterances(chunk)])
    }

    /// Returns the number of an utterance among all.
    pub fn ordinal(&self, id: SequenceId) -> usize {
        self.firsts[id.chunk as usize] as usize + id.index as usize
    }

    /// Finds the utterance with this key.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let ordinal = match self.by_key.is_empty() {
            true => self.keys.binary_search(&key).ok()? as u32,
            false => {
                let key_of = |&ordinal: &u32| self.keys[ordinal as usize];
                self.by_key[self.by_key.binary_search_by_key(&key, key_of).ok()?]
            }
        };
        let chunk = self.firsts.partition_point(|&first| first <= ordinal) - 1;
        Some(SequenceId { chunk: chunk as u32, index: ordinal - self.firsts[chunk] })
    }

    /// Returns a hash of the utterances' keys and lengths, and of the chunks.
    pub fn fingerprint(&self) -> u64 {
        let hash =
            self.chunks.iter().fold(SEED, |hash, chunk| mix(hash, chunk.samples, chunk.sequences.into()));
        let sequences = self.keys.iter().zip(&self.lengths);
        sequences.fold(hash, |hash, (&key, &length)| mix(hash, key, length.into()))
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.files.memory()
            + size_of_val(self.entries.as_slice())
            + size_of_val(self.lengths.as_slice())
            + size_of_val(self.keys.as_slice())
            + size_of_val(self.by_key.as_slice())
            + size_of_val(self.chunks.as_slice())
            + size_of_val(self.firsts.as_slice())
    }
}

/// A collector of the utterances to deliver.
struct Utterances<'a> {
    options: &'a KaldiOptions,
    /// Number of utterances without frames.
    empty: usize,
    /// The key of the first of them.
    first_empty: String,
    entries: Vec<Entry>,
    lengths: Vec<u32>,
    /// Texts of keys.
    keys: Vec<&'a [u8]>,
}

impl<'a> Utterances<'a> {
    fn add(&mut self, texts: &'a [u8], files: &Files, found: &Found) -> Result<()> {
        let key = &texts[found.key.clone()];
        let place = |error: Error| {
            let error = error.for_key(quoted(key));
            match found.line {
                Some(line) => {
                    let (path, offset) = (files.path(found.file), found.object.bytes.start);
                    let error = error.with_detail(format!("Its data begin at {offset} of '{path}'."));
                    error.in_file(&self.options.file).at(found.key.start as u64, Some(line.into()))
                }
                None => error.in_file(&self.options.file).at(found.object.bytes.start, None),
            }
        };
        let (first, count) = self.rows(found).map_err(place)?;
        if count == 0 {
            if self.empty == 0 {
                self.first_empty = quoted(key).into_owned();
            }
            self.empty += 1;
            return Ok(());
        }
        self.check(found, key, count).map_err(place)?;
        if count > self.options.max_sequence_size {
            return Ok(());
        }
        let object = &found.object;
        let text = Error::data("A text of 4 GB or more cannot be read.")
            .with_detail("Write the archive in binary form, or split the utterance.");
        let (skipped, first_row) = match object.row_bytes() {
            Some(size) => (size * u64::from(first), 0),
            None => (0, first),
        };
        let extent = match object.kind {
            ObjectKind::Compressed(_) => object.rows,
            ObjectKind::Text => {
                u32::try_from(object.bytes.end - object.bytes.start).map_err(|_| place(text))?
            }
            ObjectKind::Values(_) | ObjectKind::Integers => 0,
        };
        let offset = object.bytes.start + skipped;
        let entry = Entry { offset, extent, first_row, file: found.file, kind: object.kind };
        room::push(&mut self.entries, entry, room::INDEX)?;
        room::push(&mut self.lengths, count, room::INDEX)?;
        room::push(&mut self.keys, key, room::INDEX)
    }

    /// Returns the first selected row, and the number of rows.
    fn rows(&self, found: &Found) -> Result<(u32, u32)> {
        /// Number of rows by which a range may exceed a matrix: Kaldi computes ranges from times,
        /// which may be rounded.
        const TOLERATED: u32 = 3;
        let object = &found.object;
        let Some((first, last)) = found.rows else { return Ok((0, object.rows)) };
        if !object.is_matrix {
            let detail = "The brackets select rows of a matrix: remove them from the line of the script.";
            return Err(Error::data("Rows of a vector cannot be selected.").with_detail(detail));
        }
        if first >= object.rows || last >= object.rows.saturating_add(TOLERATED) {
            let message =
                format!("The rows [{first}:{last}] are not within the {} rows of the matrix.", object.rows);
            let detail = "Rows count from 0, and both ends are included: correct the line of the script.";
            return Err(Error::data(message).with_detail(detail));
        }
        Ok((first, last.min(object.rows - 1) - first + 1))
    }

    fn check(&self, found: &Found, key: &[u8], count: u32) -> Result<()> {
        let (object, options) = (&found.object, self.options);
        let is_integers = options.storage == Storage::SparseCsc;
        if object.kind != ObjectKind::Text && is_integers != (object.kind == ObjectKind::Integers) {
            return Err(Error::data(match is_integers {
                true => "A matrix or vector of features was found where a vector of integers was expected.",
                false => "A vector of integers was found where a matrix or vector of features was expected.",
            })
            .with_detail("Sparse streams are read from vectors of integers, dense ones from features: set ‹sparse› or ‹dense› accordingly."));
        }
        if !is_integers && u64::from(object.columns) != options.dim {
            let message = format!("An utterance has {} values in a frame.", object.columns);
            let detail = format!(
                "‹dim› of the stream '{}' is {}. Set it to {}, or check that this is the intended file.",
                options.stream, options.dim, object.columns
            );
            return Err(Error::data(message).with_detail(detail).in_stream(&options.stream));
        }
        if options.expand && count != 1 {
            let key = quoted(key);
            let message = format!(
                "Expanded stream should only contain sequences of length 1, utterance '{key}' has {count}"
            );
            let detail = "Give each utterance one row, or leave out ‹expand_to_utterance›.";
            return Err(Error::data(message).with_detail(detail));
        }
        Ok(())
    }
}

/// Numbers the keys.
fn number(corpus: &Corpus, texts: &[&[u8]], keys: &mut Vec<SequenceKey>) -> Result<()> {
    if corpus.is_numeric() {
        for text in texts {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            let number = number.ok_or_else(|| {
                let key = quoted(text);
                let message = format!("Invalid numeric sequence id '{key}'");
                let error = Error::new(ErrorKind::Data, ExceptionClass::Runtime, message);
                error
                    .with_detail(
                        "A number was expected. Set ‹numeric_keys = false› ‹in_the_reader›, or number the \
                         utterances.",
                    )
                    .for_key(key)
            })?;
            room::push(keys, number, room::INDEX)?;
        }
        return Ok(());
    }
    corpus.number_all(texts.iter().copied(), keys)?;
    match texts.get(keys.len()) {
        None => Ok(()),
        Some(text) => {
            let key = quoted(text);
            let detail =
                "At most 4294967295 different keys are possible: divide the data among several readers.";
            Err(Error::data("A key cannot be numbered: there are too many keys.")
                .with_detail(detail)
                .for_key(key))
        }
    }
}

/// Returns the utterances sorted by key, an empty list if they already are, or two utterances with
/// equal keys.
fn by_key(keys: &[SequenceKey]) -> Result<std::result::Result<Vec<u32>, (usize, usize)>> {
    if keys.is_sorted_by(|a, b| a < b) {
        return Ok(Ok(Vec::new()));
    }
    // `scan` finds fewer than 2^32 utterances in a script; in an archive each takes more than 3
    // bytes, and the index of more would not fit into memory.
    let mut order = room::collect(0..keys.len() as u32, room::INDEX)?;
    // An in-place sort: a stable one would allocate memory.
    order.sort_unstable_by_key(|&number| (keys[number as usize], number));
    let pair = order.windows(2).find(|pair| keys[pair[0] as usize] == keys[pair[1] as usize]);
    Ok(match pair {
        Some(pair) => Err((pair[0] as usize, pair[1] as usize)),
        None => Ok(order),
    })
}

/// Returns the chunks, and the first utterance of each.
fn chunks(lengths: &[u32]) -> Result<(Vec<ChunkInfo>, Vec<u32>)> {
    let (mut chunks, mut firsts) = (Vec::<ChunkInfo>::new(), Vec::new());
    for (number, &length) in (0..).zip(lengths) {
        match chunks.last_mut() {
            Some(chunk) if chunk.samples <= CHUNK_FRAMES => {
                chunk.samples += u64::from(length);
                chunk.sequences += 1;
            }
            _ => {
                room::push(&mut chunks, ChunkInfo { samples: length.into(), sequences: 1 }, room::INDEX)?;
                room::push(&mut firsts, number, room::INDEX)?;
            }
        }
    }
    room::push(&mut firsts, lengths.len() as u32, room::INDEX)?;
    Ok((chunks, firsts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_end_after_more_than_15_minutes() {
        for (lengths, expected) in [
            (&[90_000, 5, 5][..], &[0, 2, 3][..]),
            (&[90_001, 5, 5], &[0, 1, 3]),
            (&[60_000, 60_000, 5], &[0, 2, 3]),
            (&[1], &[0, 1]),
        ] {
            let (chunks, firsts) = chunks(lengths).expect("memory");
            assert_eq!(firsts, expected);
            assert_eq!(
                chunks.iter().map(|chunk| chunk.samples).sum::<u64>(),
                lengths.iter().map(|&n| u64::from(n)).sum::<u64>()
            );
        }
    }

    #[test]
    fn entry_is_32_bytes() {
        // The other tables have 16 bytes per utterance.
        assert_eq!(size_of::<Entry>(), 32);
    }

    #[test]
    fn equal_keys_are_found() {
        let by_key = |keys: &[SequenceKey]| by_key(keys).expect("memory");
        assert_eq!(by_key(&[1, 5, 9]), Ok(vec![]));
        assert_eq!(by_key(&[5, 1, 9]), Ok(vec![1, 0, 2]));
        assert_eq!(by_key(&[5, 1, 5]), Err((0, 2)));
        assert_eq!(by_key(&[5, 5]), Err((0, 1)));
    }
}
