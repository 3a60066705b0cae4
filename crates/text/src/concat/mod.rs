//! Several files of one format as one deserializer: the chunks of each file follow those of the
//! file before it.
//!
//! A chunk never spans two files. The files are opened at once, in parallel, or, if data are read
//! in their own order, a little ahead of reading ([`opening`]). Each file loads its own chunks,
//! which are passed on unchanged, so the only extra work per sequence is looking up its key.
//!
//! Depending on the [`KeyRule`], sequences of different files have different keys, or the files
//! share one numbering.

mod keys;
mod opening;
#[cfg(test)]
mod test_format;
#[cfg(test)]
mod tests;

pub(crate) use keys::{KEY_LIMIT, KeyRule, MAX_FILES};

use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::{FILES, Sampler};
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, ChunkTableExt, Deserializer, IncrementalTable, JoinedByKey,
    Lengths, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use keys::Lookup;
use opening::Opening;
use rayon::prelude::*;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A format whose files can be read in sequence.
pub(crate) trait Format: Send + Sync + 'static {
    /// An open file. All files of a format object share the memory of their chunks.
    type File: Deserializer + 'static;

    /// Whether minibatches report the keys of sequences; otherwise they report 0.
    const REPORTS_KEYS: bool;

    /// Opens a file on a thread of the pool. With `pool`, its table of chunks may be built while
    /// its data are read.
    fn open(&self, path: &str, pool: Option<&Pool>) -> Result<Self::File>;

    /// Loads a chunk of a file on a thread of the pool.
    fn load(file: &Self::File, chunk: ChunkId) -> Result<Arc<dyn Chunk>>;

    /// Whether a file may be opened only after the previous one is open and all its keys are known.
    fn opens_in_turn(&self) -> bool {
        false
    }

    /// Whether the keys of a file count its lines or sequences from 0.
    fn is_counted(&self, file: &Self::File) -> bool;

    /// The number of lines or sequences that these keys count. All chunks of the file must be
    /// known.
    fn count(&self, file: &Self::File) -> Result<u64>;

    /// Warns about keys that occur in several files.
    fn warn_of_repeats(&self, _files: &[&Self::File]) {}
}

/// Several files as one deserializer.
pub(crate) struct Concat<F: Format> {
    streams: Vec<StreamInfo>,
    files: Arc<Files<F>>,
    /// Opens the remaining files while data are read; `None` if all were opened at once.
    opening: Option<Opening<F>>,
    whole: OnceLock<Whole>,
    /// The table of the known chunks at the time when a call that waited for all of them was
    /// cancelled or failed temporarily. It does not affect later calls.
    cut_off: OnceLock<Whole>,
    lookup: OnceLock<Lookup>,
    /// A hash of the file names and sizes, and of how keys are numbered.
    list: u64,
    bytes: u64,
}

/// The open files, with their positions.
struct Files<F: Format> {
    format: F,
    paths: Vec<String>,
    rule: KeyRule,
    places: Box<[OnceLock<Place<F>>]>,
}

/// An open file, and its position among the others.
struct Place<F: Format> {
    file: F::File,
    /// Number of its first chunk.
    first: ChunkId,
    /// Added to the file's own keys.
    base: SequenceKey,
    /// Number of lines or sequences that keys count in the files before.
    counted_before: u64,
}

/// The table of all chunks.
#[derive(Default)]
struct Whole {
    chunks: Vec<ChunkInfo>,
    /// The file of each chunk.
    owners: Vec<u32>,
}

impl<F: Format> Files<F> {
    fn new(format: F, paths: Vec<String>, rule: KeyRule) -> Result<Files<F>> {
        check_count(paths.len())?;
        let places = paths.iter().map(|_| OnceLock::new()).collect();
        Ok(Files { format, paths, rule, places })
    }

    fn get(&self, number: usize) -> Option<&Place<F>> {
        self.places.get(number)?.get()
    }

    /// The files that have positions, in the order of the list.
    fn iter(&self) -> impl Iterator<Item = &Place<F>> {
        self.places.iter().map_while(OnceLock::get)
    }

    /// The last file that has a position, and its number.
    fn last(&self) -> Option<(usize, &Place<F>)> {
        let next = self.places.partition_point(|place| place.get().is_some());
        let last = next.checked_sub(1)?;
        Some((last, self.get(last)?))
    }

    /// The last file whose first chunk is not after this one, and its number.
    fn find(&self, chunk: ChunkId) -> Option<(usize, &Place<F>)> {
        let next = self.places.partition_point(|place| place.get().is_some_and(|place| place.first <= chunk));
        let number = next.checked_sub(1)?;
        Some((number, self.get(number)?))
    }

    /// Sets the position of the next file. All chunks of the files before it must be known.
    fn place(&self, number: usize, file: F::File) -> Result<()> {
        let mut place: Place<F> = Place { file, first: 0, base: self.rule.base(number), counted_before: 0 };
        if let Some(before) = number.checked_sub(1).and_then(|before| self.get(before)) {
            check_streams(before.file.streams(), place.file.streams())
                .map_err(|error| error.in_file(&self.paths[number]))?;
            let first = before.first as usize + before.file.chunks().len();
            place.first = ChunkId::try_from(first).map_err(|_| {
                let message = format!("The files up to '{}' have too many chunks.", self.paths[number]);
                Error::data(message).with_detail("At most 4294967295 are possible: choose larger chunks.")
            })?;
            if self.rule == KeyRule::Shared {
                place.counted_before = before.counted_before;
                if self.format.is_counted(&before.file) {
                    place.counted_before += self.format.count(&before.file)?;
                }
                if self.format.is_counted(&place.file) {
                    place.base = place.counted_before;
                }
            }
        }
        let is_new = self.places[number].set(place).is_ok();
        if is_new { Ok(()) } else { Err(Error::internal("A file was placed twice.")) }
    }
}

/// Checks that a deserializer may have this many files.
fn check_count(files: usize) -> Result<()> {
    if files <= MAX_FILES {
        return Ok(());
    }
    let message = format!("{files} files are too many for one deserializer.");
    Err(Error::argument(message).with_detail(format!("At most {MAX_FILES} are possible.")))
}

/// Checks that files describe equal streams.
fn check_streams(first: &[StreamInfo], other: &[StreamInfo]) -> Result<()> {
    if first == other {
        return Ok(());
    }
    let list = |streams: &[StreamInfo]| {
        let one = |stream: &StreamInfo| {
            format!("{} ({:?}, {:?}, {:?})", stream.name, stream.storage, stream.element, stream.shape)
        };
        streams.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let message = "The files of a deserializer have different streams.";
    let detail = format!("Found: {}. Expected, as in the files before: {}.", list(other), list(first));
    Err(Error::data(message).with_detail(detail))
}

impl<F: Format> Concat<F> {
    /// Opens all files, at least one. Must run on a thread of the pool. If several fail, returns
    /// the error of the first one in the list.
    pub fn open(format: F, paths: Vec<String>, rule: KeyRule) -> Result<Concat<F>> {
        let files = Files::new(format, paths, rule)?;
        let open = |path: &String| files.format.open(path, None);
        if files.format.opens_in_turn() {
            for (number, path) in files.paths.iter().enumerate() {
                files.place(number, open(path)?)?;
            }
        } else {
            let opened: Vec<_> = files.paths.par_iter().map(carried(open)).collect();
            for (number, file) in opened.into_iter().enumerate() {
                files.place(number, file?)?;
            }
        }
        let sizes: Vec<u64> = files.iter().map(|place| place.file.file_bytes().unwrap_or(0)).collect();
        let count = files.iter().map(|place| place.file.chunks().len()).sum();
        let whole = Whole {
            chunks: room::with_capacity(count, room::INDEX)?,
            owners: room::with_capacity(count, room::INDEX)?,
        };
        let concat = Self::of(Arc::new(files), &sizes, None);
        concat.whole.get_or_init(|| concat.filled(whole, true));
        Ok(concat)
    }

    /// Opens the first file, and checks that all files exist. The others are opened shortly before
    /// they are read, and errors in them are found only then. Must run on a thread of the pool.
    pub fn open_incremental(format: F, paths: Vec<String>, rule: KeyRule, pool: &Pool) -> Result<Concat<F>> {
        let files = Files::new(format, paths, rule)?;
        let sizes: Vec<_> =
            files.paths.par_iter().map(carried(|path: &String| opening::size_of(path))).collect();
        let sizes = sizes.into_iter().collect::<Result<Vec<u64>>>()?;
        if let Some(first) = files.paths.first() {
            files.place(0, files.format.open(first, Some(pool))?)?;
        }
        let files = Arc::new(files);
        let opening = Opening::new(Arc::clone(&files), sizes.clone(), pool.clone());
        Ok(Self::of(files, &sizes, Some(opening)))
    }

    fn of(files: Arc<Files<F>>, sizes: &[u64], opening: Option<Opening<F>>) -> Concat<F> {
        let mut list = mix(SEED, files.paths.len() as u64, files.rule as u64);
        for (path, &size) in files.paths.iter().zip(sizes) {
            let name = Path::new(path).file_name().unwrap_or_default().as_encoded_bytes();
            let words =
                name.chunks(8).map(|bytes| bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
            list = words.fold(mix(list, size, name.len() as u64), |list, word| mix(list, word, 0));
        }
        Concat {
            streams: files.get(0).map_or_else(Vec::new, |place| place.file.streams().to_vec()),
            files,
            opening,
            whole: OnceLock::new(),
            cut_off: OnceLock::new(),
            lookup: OnceLock::new(),
            list,
            bytes: sizes.iter().sum(),
        }
    }

    /// The table of all chunks. Waits until they are known.
    fn whole(&self) -> &Whole {
        if let Some(whole) = self.whole.get() {
            return whole;
        }
        // Wait outside the cell, so that other threads can still call this.
        let waited = self.opening.as_ref().map_or(Ok(()), Opening::wait_for_all);
        match waited {
            Err(error) if error.is_of_one_call() => {
                self.cut_off.get_or_init(|| self.filled(Whole::default(), false))
            }
            waited => self.whole.get_or_init(|| self.filled(Whole::default(), waited.is_ok())),
        }
    }

    /// Fills an empty table with the known chunks. Its vectors may have memory reserved.
    fn filled(&self, mut whole: Whole, is_complete: bool) -> Whole {
        for (number, place) in (0..).zip(self.files.iter()) {
            whole.chunks.extend_from_slice(place.file.chunks());
            whole.owners.resize(whole.chunks.len(), number);
        }
        if is_complete && self.files.rule == KeyRule::Shared {
            let files: Vec<_> = self.files.iter().map(|place| &place.file).collect();
            self.files.format.warn_of_repeats(&files);
        }
        whole
    }

    /// The file of a chunk. The chunk must be known.
    fn owner(&self, chunk: ChunkId) -> &Place<F> {
        let place = match self.whole.get().and_then(|whole| whole.owners.get(chunk as usize)) {
            Some(&owner) => self.files.get(owner as usize),
            None => self.files.find(chunk).map(|(_, place)| place),
        };
        let Some(place) = place else { panic!("There is no chunk {chunk}.") };
        place
    }

    /// Appends the keys of sequences.
    fn append_keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        // Look up sequences of one file together, in blocks, to avoid allocating.
        const BLOCK: usize = 64;
        let mut block = [SequenceId { chunk: 0, index: 0 }; BLOCK];
        let mut rest = sequences;
        while let Some(first) = rest.first() {
            let place = self.owner(first.chunk);
            let known = place.file.index_progress().chunks as ChunkId;
            let range = place.first..place.first + known;
            let of_file = |id: &&SequenceId| range.contains(&id.chunk);
            let count = rest.iter().take(BLOCK).take_while(of_file).count().max(1);
            let (run, others) = rest.split_at(count);
            for (local, id) in block.iter_mut().zip(run) {
                *local = SequenceId { chunk: id.chunk - place.first, index: id.index };
            }
            let before = keys.len();
            place.file.keys(&block[..count], keys);
            keys[before..].iter_mut().for_each(|key| *key = key.wrapping_add(place.base));
            rest = others;
        }
    }

    /// Loads a chunk.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let place = self.owner(chunk);
        F::load(&place.file, chunk - place.first)
    }

    /// Converts the id of a sequence in a file to its id in the whole.
    fn in_all(place: &Place<F>, id: SequenceId) -> SequenceId {
        SequenceId { chunk: place.first + id.chunk, index: id.index }
    }

    /// The files with chunks among the first `chunks`, and how many of these each file has.
    fn covered(&self, chunks: usize) -> impl Iterator<Item = (&F::File, usize)> {
        let range = move |(number, place): (usize, &Place<F>)| -> Range<usize> {
            let first = place.first as usize;
            let next = self.files.get(number + 1).map_or(usize::MAX, |next| next.first as usize);
            first..next.min(chunks).max(first)
        };
        self.files.iter().enumerate().map(move |one| (&one.1.file, range(one).len())).filter(|one| one.1 > 0)
    }
}

impl<F: Format> ChunkTable for Concat<F> {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.whole().chunks
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let place = self.owner(chunk);
        place.file.lengths(chunk - place.first)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        self.opening.as_ref().map(|opening| opening as &dyn IncrementalTable)
    }
}

impl<F: Format> ChunkSource for Concat<F> {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        match F::REPORTS_KEYS {
            true => self.append_keys(sequences, keys),
            false => keys.resize(keys.len() + sequences.len(), 0),
        }
    }

    fn sample_content(&self, chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let chunks = chunks.unwrap_or_else(|| self.chunks().len());
        let covered: Vec<_> = self.covered(chunks).collect();
        sampler.parts(covered.len(), FILES, |sampler, number| {
            let (file, chunks) = covered[number];
            file.sample_content(Some(chunks), sampler)
        })
    }

    fn fingerprint(&self, chunks: Option<usize>) -> u64 {
        let chunks = chunks.unwrap_or_else(|| self.chunks().len());
        self.covered(chunks)
            .fold(self.list, |hash, (file, chunks)| mix(hash, file.fingerprint(Some(chunks)), chunks as u64))
    }

    fn memory(&self) -> SourceMemory {
        let whole = self
            .whole
            .get()
            .map_or(0, |whole| size_of_val(whole.chunks.as_slice()) + size_of_val(whole.owners.as_slice()));
        let lookup = self.lookup.get().map_or(0, Lookup::bytes);
        let own = whole + lookup + size_of_val(&*self.files.places);
        let files = self.files.iter().map(|place| place.file.memory());
        files.fold(SourceMemory { chunks: 0, index: own as u64 }, |sum, file| SourceMemory {
            // All files report the memory that they share.
            chunks: file.chunks,
            index: sum.index + file.index,
        })
    }

    fn file_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl<F: Format> Diagnostics for Concat<F> {
    fn check(&self, chunk: ChunkId, most: usize) -> Option<ChunkCheck> {
        let place = self.owner(chunk);
        place.file.diagnostics().check(chunk - place.first, most)
    }

    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        let place = self.owner(sequence.chunk);
        place
            .file
            .diagnostics()
            .location(SequenceId { chunk: sequence.chunk - place.first, ..sequence }, stream)
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        let (number, own) = keys::split(key);
        match self.files.paths.get(number) {
            Some(path) if self.files.rule == KeyRule::PerFile => format!("{own} of '{path}'"),
            _ => corpus.text_of(key),
        }
    }

    fn forget_errors(&self) {
        self.files.iter().for_each(|place| place.file.diagnostics().forget_errors());
    }

    fn remarks(&self) -> Vec<Finding> {
        self.files.iter().flat_map(|place| place.file.diagnostics().remarks()).collect()
    }

    fn end_sweep(&self) {
        self.files.iter().for_each(|place| place.file.diagnostics().end_sweep());
    }
}

impl<F: Format> JoinedByKey for Concat<F> {}

impl<F: Format> Deserializer for Concat<F> {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts {
            counts_keys: self.files.iter().any(|place| self.files.format.is_counted(&place.file)),
            ..SequenceFacts::PLAIN
        }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.append_keys(sequences, keys);
    }

    /// A search looks into one file only, so each file is prepared.
    fn prepare_to_find(&self) -> Result<()> {
        self.chunks();
        match self.files.rule {
            KeyRule::Shared if self.lookup.get().is_none() => {
                let _ = self.lookup.set(Lookup::of(self)?);
                Ok(())
            }
            KeyRule::Shared => Ok(()),
            KeyRule::PerFile => self.files.iter().try_for_each(|place| place.file.prepare_to_find()),
        }
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        if self.files.rule == KeyRule::Shared {
            self.prepare_to_find().ok()?;
            return self.lookup.get()?.find(key);
        }
        self.chunks();
        let (number, key) = keys::split(key);
        let place = self.files.get(number)?;
        place.file.find(key).map(|id| Self::in_all(place, id))
    }
}
