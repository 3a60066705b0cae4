//! Loading of chunks: reads the frames of the utterances and keeps them as stored in the files.
//!
//! Consecutive ranges of an archive are read with one call; files and parts of archives are read in
//! parallel. All utterances of a chunk share one buffer.

use super::FeatureSet;
use super::file::HtkFile;
use super::header;
use super::table::CHUNK_FRAMES;
use cntk_reader_core::cpu::prefetch;
use cntk_reader_core::format::buffer::{BufferPart, ChunkBuffer};
use cntk_reader_core::format::{Ahead, LeafChunk, Loaded};
use cntk_reader_core::limits::MAX_BELIEVED;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{
    ChunkId, FrameEncoding, FrameSpec, FrameView, SequenceView, ValueForm, ViewKind,
};
use cntk_reader_core::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Bytes of an archive per task. Utterances are not divided.
const PART: usize = 1 << 20;

/// Maximum number of files kept open while a chunk is loaded, in addition to the file that each
/// thread is reading.
const OPEN_FILES: usize = 64;

/// The frames of a chunk.
pub struct FeatureChunk {
    shared: Arc<FeatureSet>,
    id: ChunkId,
    data: ChunkBuffer,
    /// Offset of each utterance in `data`.
    starts: Vec<usize>,
    /// The distinct frame formats of the files.
    specs: Vec<FrameSpec>,
    /// The index in `specs` of each utterance; empty if there is only one spec.
    spec_of: Vec<u32>,
}

/// A unit of reading: consecutive utterances of one file.
struct Task {
    utterances: Range<usize>,
    path: u32,
    bytes: usize,
}

/// Files shared by several tasks, each opened by the first of them. Sorted by path number.
struct OpenFiles(Vec<(u32, OnceLock<Result<HtkFile>>)>);

impl OpenFiles {
    fn new(tasks: &[Task], first: HtkFile) -> OpenFiles {
        let mut paths: Vec<u32> = tasks.iter().map(|task| task.path).collect();
        let first_path = paths.first().copied();
        paths.sort_unstable();
        let shared =
            paths.chunk_by(|a, b| a == b).filter(|group| group.len() > 1 && Some(group[0]) != first_path);
        let mut files: Vec<_> = shared.take(OPEN_FILES).map(|group| (group[0], OnceLock::new())).collect();
        files.extend(first_path.map(|path| (path, OnceLock::from(Ok(first)))));
        files.sort_unstable_by_key(|file| file.0);
        OpenFiles(files)
    }

    /// Calls `read` with a task's file. The result counts only if the file was not written to in
    /// the meantime.
    fn with<R>(
        &self,
        shared: &FeatureSet,
        task: &Task,
        read: impl FnOnce(&HtkFile) -> Result<R>,
    ) -> Result<R> {
        let open = || shared.open_file(task.utterances.start);
        let read = |file: &HtkFile| file.file.if_unchanged(read(file));
        match self.0.binary_search_by_key(&task.path, |file| file.0) {
            Ok(found) => read(self.0[found].1.get_or_init(open).as_ref().map_err(Error::clone)?),
            Err(_) => read(&open()?),
        }
    }
}

impl FeatureChunk {
    /// Loads a chunk. Runs on a thread of the pool, which shares the work with the others.
    pub fn load(shared: &Arc<FeatureSet>, id: ChunkId) -> Result<FeatureChunk> {
        let range = shared.table.range(id);
        let first = shared.open_file(range.start)?;
        shared.check_range(range.start, &first)?;
        shared.check_facts(range.start, &first.header).map_err(|error| error.in_file(first.file.path()))?;
        check_sizes(shared, range.clone())?;
        let frame_bytes = first.frame_bytes();
        let mut chunk = match Self::load_sized(shared, id, first, frame_bytes)? {
            Some(chunk) => chunk,
            None => {
                let first = shared.open_file(range.start)?;
                let wider = Self::load_sized(shared, id, first, 4 * shared.facts.dim)?;
                wider.ok_or_else(|| {
                    Error::internal("A frame takes more bytes than four for each of its values.")
                })?
            }
        };
        chunk.id = id;
        shared.log_chunk("RequireData: read", id);
        Ok(chunk)
    }

    /// Loads a chunk whose files need at most `frame_bytes` per frame. `None` if one of them needs
    /// more.
    fn load_sized(
        shared: &Arc<FeatureSet>,
        id: ChunkId,
        first: HtkFile,
        frame_bytes: usize,
    ) -> Result<Option<FeatureChunk>> {
        let range = shared.table.range(id);
        let (path, facts) = (first.file.path().to_owned(), first.header.facts);
        let tasks = tasks(shared, range.clone(), frame_bytes);
        let files = OpenFiles::new(&tasks, first);
        let size: u64 = tasks.iter().map(|task| task.bytes as u64).sum();
        // From here on, the chunk's destructor returns the buffer to the pool.
        let mut chunk = FeatureChunk {
            shared: Arc::clone(shared),
            id: ChunkId::MAX,
            data: shared.buffers.take(&path, &(0..size))?,
            starts: room::with_capacity(range.len(), room::CHUNK)?,
            specs: Vec::new(),
            spec_of: Vec::new(),
        };
        let read = |number: usize, part: &mut BufferPart<'_>| {
            let task = &tasks[number];
            files.with(shared, task, |file| {
                if file.header.facts != facts {
                    return Err(mixed(shared, task.utterances.start, file, &facts));
                }
                if file.frame_bytes() > frame_bytes {
                    return Ok(None);
                }
                read_task(shared, task, file, frame_bytes, part)?;
                Ok(Some(file.header.encoding.clone()))
            })
        };
        let encodings = chunk.data.fill_parts(tasks.iter().map(|task| task.bytes), read)?;
        for (encoding, task) in encodings.into_iter().zip(&tasks) {
            let Some(encoding) = encoding else { return Ok(None) };
            chunk.add_spec(encoding, task.utterances.start - range.start, task.utterances.len())?;
        }
        let mut start = 0;
        chunk.starts.extend(shared.table.utterances.frames[range].iter().map(|&frames| {
            start += frames as usize * frame_bytes;
            start - frames as usize * frame_bytes
        }));
        Ok(Some(chunk))
    }

    /// Adds the format of the next `count` utterances, after `before` others.
    fn add_spec(&mut self, encoding: FrameEncoding, before: usize, count: usize) -> Result<()> {
        if self.specs.last().is_none_or(|last| last.encoding != encoding) {
            if self.specs.len() == 1 {
                room::resize(&mut self.spec_of, before, 0, room::CHUNK)?;
            }
            let FeatureSet { facts, left, right, .. } = *self.shared;
            self.specs.push(FrameSpec { dim: facts.dim, encoding, left, right });
        }
        if self.specs.len() > 1 {
            let last = self.specs.len() as u32 - 1;
            room::resize(&mut self.spec_of, before + count, last, room::CHUNK)?;
        }
        Ok(())
    }
}

/// Compares ranges with file sizes if they need much memory: a damaged script or header must not
/// make the chunk larger than its files.
fn check_sizes(shared: &FeatureSet, range: Range<usize>) -> Result<()> {
    let utterances = &shared.table.utterances;
    let frames: u64 = utterances.frames[range.clone()].iter().map(|&frames| u64::from(frames)).sum();
    // If the files use different frame sizes, each value gets four bytes.
    let believes = frames.saturating_mul(4 * shared.facts.dim as u64) <= MAX_BELIEVED;
    let mut open: Option<(u32, HtkFile)> = None;
    for position in range {
        if believes && u64::from(utterances.frames[position]) <= CHUNK_FRAMES {
            continue;
        }
        let path = utterances.paths[position];
        let file = match &open {
            Some((last, file)) if *last == path => file,
            _ => &open.insert((path, shared.open_file(position)?)).1,
        };
        shared.check_size(position, file)?;
    }
    Ok(())
}

/// Divides the utterances of a chunk into tasks.
fn tasks(shared: &FeatureSet, range: Range<usize>, frame_bytes: usize) -> Vec<Task> {
    let utterances = &shared.table.utterances;
    let mut tasks: Vec<Task> = Vec::new();
    for position in range {
        let (path, bytes) = (utterances.paths[position], utterances.frames[position] as usize * frame_bytes);
        match tasks.last_mut() {
            Some(task) if task.path == path && task.bytes < PART => {
                task.utterances.end = position + 1;
                task.bytes += bytes;
            }
            _ => tasks.push(Task { utterances: position..position + 1, path, bytes }),
        }
    }
    tasks
}

/// Reads the frames of a task's utterances. Each frame gets `frame_bytes` of memory; if it needs
/// fewer, an utterance's frames are packed at the beginning of its memory.
fn read_task(
    shared: &FeatureSet,
    task: &Task,
    file: &HtkFile,
    frame_bytes: usize,
    part: &mut BufferPart<'_>,
) -> Result<()> {
    let utterances = &shared.table.utterances;
    let is_narrower = file.frame_bytes() < frame_bytes;
    let mut end_of_last = 0;
    let mut position = task.utterances.start;
    while position < task.utterances.end {
        shared.check_range(position, file)?;
        let (first, start) = (position, utterances.starts[position]);
        let mut frames = u64::from(utterances.frames[position]);
        position += 1;
        // Read consecutive ranges with one call. A range that the file does not have is left to the
        // next iteration, so that failures of preceding ranges are reported first.
        while !is_narrower
            && position < task.utterances.end
            && u64::from(utterances.starts[position]) == u64::from(start) + frames
            && shared.check_range(position, file).is_ok()
        {
            frames += u64::from(utterances.frames[position]);
            position += 1;
        }
        let read = part.read(&file.file, file.range(start, frames));
        read.map_err(|error| shared.of_utterance(first, header::in_cntks_words(error)))?;
        if is_narrower {
            end_of_last += frames as usize * frame_bytes;
            part.zero_until(end_of_last);
        }
    }
    Ok(())
}

/// Returns the error for a file that differs from the chunk's first file.
fn mixed(shared: &FeatureSet, position: usize, file: &HtkFile, first: &header::Facts) -> Error {
    let (path, own) = (file.file.path(), &file.header.facts);
    let error = Error::data(format!("setkind: inconsistent feature kind for file '{path}'")).as_cntk().with_detail(format!(
        "The file has features of kind '{}' with {} values a frame and a sample period of {}; the first file of its chunk has \
         kind '{}', {} values and a period of {}. Read files of another kind with a separate deserializer.",
        own.kind, own.dim, own.period, first.kind, first.dim, first.period
    ));
    shared.of_utterance(position, error.in_file(path))
}

impl LeafChunk for FeatureChunk {
    #[inline]
    fn sequence(&self, _: usize, index: u32) -> Loaded<'_> {
        let index = index as usize;
        let table = &self.shared.table;
        let samples = table.utterances.frames[table.range(self.id).start + index];
        let spec = &self.specs[self.spec_of.get(index).map_or(0, |&spec| spec as usize)];
        let kind = match spec.encoding {
            FrameEncoding::Float if self.shared.is_plain => ViewKind::Dense,
            _ => ViewKind::Frames(FrameView { first: 0, spec }),
        };
        let values = &self.data.bytes()[self.starts[index]..][..samples as usize * spec.stored_bytes()];
        Loaded::Data(SequenceView { samples, values, form: ValueForm::Whole, kind })
    }

    fn prefetch(&self, index: u32, ahead: Ahead) {
        if ahead == Ahead::Far {
            prefetch::line(self.starts.as_ptr().wrapping_add(index as usize).cast());
        }
    }
}

impl Drop for FeatureChunk {
    fn drop(&mut self) {
        if self.id != ChunkId::MAX {
            self.shared.log_chunk("ReleaseData: release", self.id);
        }
        self.shared.buffers.give_back(std::mem::take(&mut self.data));
    }
}
