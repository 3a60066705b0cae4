//! A loaded chunk: the data of its utterances in one buffer.
//!
//! Values stored in the packer's format are read directly into the buffer; neighbours in an archive
//! are read in one piece, including the keys and headers between them. Everything else is decoded
//! on the way: compressed matrices, doubles for a stream of floats, class numbers, text.

use super::OpenArchive;
use super::compressed;
use super::header::{DAMAGED, INTEGER, ObjectKind};
use super::index::Entry;
use super::text;
use cntk_reader_core::cpu::prefetch;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::buffer::ChunkBuffer;
use cntk_reader_core::format::{Ahead, LeafChunk, Loaded};
use cntk_reader_core::memory::compact::implied::Offsets;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, FrameView, SequenceView, SparseView, ValueForm, ViewKind};
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Gap between two utterances, in bytes, up to which it is read rather than skipped: a system call
/// costs as much as reading some thousand bytes.
const GAP: u64 = 4096;

/// Maximum number of classes for which class numbers are stored in two bytes.
pub const NARROW: u64 = 1 << 16;

/// The data of a chunk.
pub struct KaldiChunk {
    shared: Arc<OpenArchive>,
    /// Number of its first utterance among all.
    first: usize,
    data: ChunkBuffer,
    places: Vec<Place>,
    /// Offsets of the samples of all utterances, if the stream is sparse.
    offsets: Offsets,
    /// Errors of utterances with a class out of range, by index: only these utterances fail, when
    /// they are needed.
    failures: Vec<(u32, Error)>,
}

/// The data of an utterance in a chunk.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    /// Type of the values; the stream's type for class numbers.
    element: ElementType,
}

/// A step in loading a chunk, in the order of the buffer.
enum Step {
    /// Read bytes of a file.
    Read { file: u32, bytes: Range<u64> },
    /// Decode an utterance.
    Decode { ordinal: usize },
}

/// The steps that load a chunk, and its size in bytes.
struct Plan {
    steps: Vec<Step>,
    places: Vec<Place>,
    size: usize,
}

impl Plan {
    fn new(shared: &OpenArchive, utterances: Range<usize>) -> Result<Plan> {
        let places = room::with_capacity(utterances.len(), room::CHUNK)?;
        let mut plan = Plan { steps: Vec::new(), places, size: 0 };
        utterances.into_iter().try_for_each(|ordinal| plan.add(shared, ordinal))?;
        Ok(plan)
    }

    fn add(&mut self, shared: &OpenArchive, ordinal: usize) -> Result<()> {
        let entry = &shared.index.entries[ordinal];
        let element = shared.stored_as(entry);
        let size = shared.stored_bytes(ordinal);
        if entry.kind != ObjectKind::Values(element) {
            self.places.push(Place { at: self.size, element });
            self.size += size;
            return room::push(&mut self.steps, Step::Decode { ordinal }, room::CHUNK);
        }
        let (start, end) = (entry.offset, entry.offset + size as u64);
        let gap = match self.steps.last_mut() {
            Some(Step::Read { file, bytes }) if *file == entry.file => {
                let gap = start.checked_sub(bytes.end).filter(|&gap| gap <= GAP);
                bytes.end = if gap.is_some() { end } else { bytes.end };
                gap
            }
            _ => None,
        };
        if gap.is_none() {
            room::push(&mut self.steps, Step::Read { file: entry.file, bytes: start..end }, room::CHUNK)?;
        }
        // At most `GAP`.
        let at = self.size + gap.unwrap_or(0) as usize;
        self.places.push(Place { at, element });
        self.size = at + size;
        Ok(())
    }
}

impl OpenArchive {
    /// Returns the type in which values of an utterance are stored: floats are widened by the
    /// packer, doubles for a stream of floats are rounded when loaded.
    fn stored_as(&self, entry: &Entry) -> ElementType {
        match (self.info().element, entry.kind) {
            (ElementType::Double, ObjectKind::Values(ElementType::Double) | ObjectKind::Text) => {
                ElementType::Double
            }
            _ => ElementType::Float,
        }
    }

    /// Returns the size of an utterance in a chunk in bytes.
    fn stored_bytes(&self, ordinal: usize) -> usize {
        let size = match self.stored {
            Storage::Dense => self.columns * self.stored_as(&self.index.entries[ordinal]).size(),
            Storage::SparseCsc if self.classes <= NARROW => 2,
            Storage::SparseCsc => 4,
        };
        self.index.lengths[ordinal] as usize * size
    }

    /// Returns the size of a chunk in bytes.
    pub fn chunk_bytes(&self, chunk: ChunkId) -> Result<usize> {
        Plan::new(self, self.index.utterances(chunk)).map(|plan| plan.size)
    }

    /// Adds the location of an utterance to an error.
    fn place(&self, error: Error, ordinal: usize) -> Error {
        let entry = &self.index.entries[ordinal];
        let error = match error.location().offset {
            Some(_) => error,
            None => error.at(entry.offset, None),
        };
        let key = self.corpus.text_of(self.index.keys[ordinal]);
        error.in_file(self.index.files.path(entry.file)).for_key(key).in_stream(&self.info().name)
    }
}

impl KaldiChunk {
    /// Loads a chunk. Runs on a thread of the pool.
    pub fn load(shared: &Arc<OpenArchive>, chunk: ChunkId) -> Result<KaldiChunk> {
        let utterances = shared.index.utterances(chunk);
        let Plan { steps, places, size } = Plan::new(shared, utterances.clone())?;
        let first = utterances.start;
        let longest = match shared.stored {
            Storage::Dense => 0,
            Storage::SparseCsc => shared.index.lengths[utterances].iter().copied().max().unwrap_or(0),
        };
        // From here on, the chunk's destructor returns the buffer to the pool.
        let data = shared
            .buffers
            .take(shared.index.files.path(shared.index.entries[first].file), &(0..size as u64))?;
        let shared = Arc::clone(shared);
        let (offsets, failures) = (Offsets::new(longest)?, Vec::new());
        let mut chunk = KaldiChunk { shared, first, data, places, offsets, failures };
        chunk.run(steps)?;
        Ok(chunk)
    }

    fn run(&mut self, steps: Vec<Step>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut open: Option<(u32, DataFile)> = None;
        let mut scratch = Scratch::default();
        for step in steps {
            let number = match step {
                Step::Read { file, .. } => file,
                Step::Decode { ordinal } => shared.index.entries[ordinal].file,
            };
            let file = match &open {
                Some((last, file)) if *last == number => file,
                _ => &open.insert((number, shared.index.files.get(number)?)).1,
            };
            match step {
                Step::Read { bytes, .. } => {
                    let read = file.if_unchanged(self.data.read(file, bytes));
                    read.map_err(|error| error.in_stream(&shared.info().name))?;
                }
                Step::Decode { ordinal } => {
                    let decoded = file.if_unchanged(decode(&shared, ordinal, file, &mut scratch));
                    decoded.map_err(|error| shared.place(error, ordinal))?;
                    if let Some(class) = scratch.wrong_class {
                        let error = shared.place(shared.wrong_class(class), ordinal);
                        self.failures.push(((ordinal - self.first) as u32, error));
                    }
                    self.data.append(&scratch.decoded)?;
                }
            }
        }
        Ok(())
    }
}

/// Memory reused for each decoded utterance.
#[derive(Default)]
struct Scratch {
    stored: Vec<u8>,
    decoded: Vec<u8>,
    /// The first class of the utterance that is out of range; 0 is stored instead.
    wrong_class: Option<i32>,
}

/// Reads `size` bytes at `offset`.
fn read<'a>(file: &DataFile, offset: u64, size: usize, stored: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    // The size was checked against the file when the archive was opened, but the file may have
    // shrunk since.
    room::resize(stored, size, 0, room::FILE)?;
    file.read_exact_at(offset, stored)?;
    Ok(stored)
}

/// Decodes an utterance into `scratch.decoded`.
fn decode(shared: &OpenArchive, ordinal: usize, file: &DataFile, scratch: &mut Scratch) -> Result<()> {
    let Entry { offset, extent, first_row, kind, .. } = shared.index.entries[ordinal];
    let rows = shared.index.lengths[ordinal] as usize;
    let Scratch { stored, decoded, wrong_class } = scratch;
    decoded.clear();
    *wrong_class = None;
    room::reserve(decoded, shared.stored_bytes(ordinal), room::CHUNK)?;
    match kind {
        ObjectKind::Compressed(compression) => {
            let size = compression.bytes(extent.into(), shared.columns as u64);
            let size =
                usize::try_from(size).map_or(usize::MAX, |size| size.saturating_add(compressed::HEADER));
            room::resize(decoded, rows * shared.columns * size_of::<f32>(), 0, room::CHUNK)?;
            let matrix = compressed::Matrix::new(compression, read(file, offset, size, stored)?)?;
            matrix.decode(first_row as usize, rows, decoded)
        }
        ObjectKind::Values(element) => {
            let doubles =
                read(file, offset, rows * shared.columns * element.size(), stored)?.as_chunks::<8>().0;
            room::reserve(decoded, doubles.len() * size_of::<f32>(), room::CHUNK)?;
            decoded
                .extend(doubles.iter().flat_map(|&value| (f64::from_ne_bytes(value) as f32).to_ne_bytes()));
            Ok(())
        }
        ObjectKind::Integers => {
            for &[size, a, b, c, d] in read(file, offset, rows * INTEGER, stored)?.as_chunks::<INTEGER>().0 {
                if size != 4 {
                    let message = format!(
                        "A number of {size} bytes was found, where numbers of 4 bytes were expected."
                    );
                    return Err(Error::data(message).with_detail(DAMAGED));
                }
                shared.store_class(i32::from_le_bytes([a, b, c, d]), decoded, wrong_class);
            }
            Ok(())
        }
        ObjectKind::Text => {
            let stored = read(file, offset, extent as usize, stored)?;
            let count = (first_row as usize, rows);
            match (shared.stored, shared.info().element) {
                (Storage::SparseCsc, _) => {
                    text::integers(stored, |class| shared.store_class(class, decoded, wrong_class))?;
                }
                (Storage::Dense, ElementType::Double) => {
                    text::values(stored, shared.columns, count, |value: f64| {
                        decoded.extend(value.to_ne_bytes())
                    })?;
                }
                (Storage::Dense, _) => {
                    text::values(stored, shared.columns, count, |value: f32| {
                        decoded.extend(value.to_ne_bytes())
                    })?;
                }
            }
            let is_complete = decoded.len() == shared.stored_bytes(ordinal);
            if is_complete { Ok(()) } else { Err(text::changed()) }
        }
    }
}

impl OpenArchive {
    /// Appends a class number.
    fn store_class(&self, class: i32, out: &mut Vec<u8>, wrong: &mut Option<i32>) {
        let number = u64::try_from(class).ok().filter(|&class| class < self.classes);
        if number.is_none() {
            wrong.get_or_insert(class);
        }
        let number = number.unwrap_or(0);
        match self.classes <= NARROW {
            true => out.extend((number as u16).to_ne_bytes()),
            false => out.extend((number as i32).to_ne_bytes()),
        }
    }

    /// Returns the error for a class out of range.
    fn wrong_class(&self, class: i32) -> Error {
        let message = format!("Class id '{class}' exceeds the model output dimension '{}'.", self.classes);
        Error::data(message).with_detail(
            "Classes are numbered from 0. Set ‹dim› to the number of classes, or correct the labels.",
        )
    }
}

impl LeafChunk for KaldiChunk {
    fn sequence(&self, _stream: usize, index: u32) -> Loaded<'_> {
        if !self.failures.is_empty() && self.failure(0, index).is_some() {
            return Loaded::Invalid;
        }
        let ordinal = self.first + index as usize;
        let Place { at, element } = self.places[index as usize];
        let shared = &*self.shared;
        let samples = shared.index.lengths[ordinal];
        let bytes = &self.data.bytes()[at..][..shared.stored_bytes(ordinal)];
        let view = |values, form, kind| Loaded::Data(SequenceView { samples, values, form, kind });
        if shared.info().classes.is_some() {
            let form = ValueForm::of_indices(shared.info().element, shared.classes <= NARROW);
            return view(bytes, form, ViewKind::Dense);
        }
        if shared.stored == Storage::SparseCsc {
            let Some(offsets) = self.offsets.get(samples) else { return Loaded::Invalid };
            let narrow = shared.classes <= NARROW;
            let kind = ViewKind::Sparse(SparseView { indices: bytes, narrow, offsets, single: true });
            return view(&[], ValueForm::Ones, kind);
        }
        if shared.is_plain && element == shared.info().element {
            return view(bytes, ValueForm::Whole, ViewKind::Dense);
        }
        let spec = match element {
            ElementType::Double => &shared.doubles,
            _ => &shared.floats,
        };
        view(bytes, ValueForm::Whole, ViewKind::Frames(FrameView { first: 0, spec }))
    }

    fn failure(&self, _stream: usize, index: u32) -> Option<Error> {
        let at = self.failures.binary_search_by_key(&index, |failure| failure.0).ok()?;
        Some(self.failures[at].1.clone())
    }

    fn prefetch(&self, index: u32, ahead: Ahead) {
        if ahead == Ahead::Far {
            let (place, ordinal) = (index as usize, self.first + index as usize);
            prefetch::line(self.places.as_ptr().wrapping_add(place).cast());
            prefetch::line(self.shared.index.lengths.as_ptr().wrapping_add(ordinal).cast());
        }
    }
}

impl Drop for KaldiChunk {
    fn drop(&mut self) {
        self.shared.buffers.give_back(std::mem::take(&mut self.data));
    }
}
