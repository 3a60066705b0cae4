//! Images in separate files or in zip files, named by a map file (`ImageDeserializer`).

use super::broken::Broken;
use super::map::Map;
use super::paths;
use super::sequence::{Content, Identity, Origin, Read, fetch};
use super::workers::Worker;
use super::zip::Members;
use super::{Common, copies, label_dim, too_large};
use crate::decode::{DecodeError, DecodeOptions};
use crate::source::ImageOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::file::{self, Confinement, FirstStates, is_lasting};
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::{PARTS, Sampler};
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::fetch::Parts;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, JoinedByKey, LeafChunk,
    Lengths, Loaded, Loading, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, ErrorKind, Result, system};
use rayon::slice::ParallelSliceMut;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The images of a map file. Each sequence is a chunk: an image, or one view of it.
pub(super) struct FileImages {
    shared: Arc<MapImages>,
    infos: Vec<ChunkInfo>,
    /// Lines sorted by key, equal keys in file order. Built when a key is looked up.
    by_key: OnceLock<Vec<u32>>,
    /// Loaded chunks, reused once no other reference is left.
    chunks: Mutex<VecDeque<Arc<FileChunk>>>,
}

/// The map and its images, shared by the deserializer and its chunks.
struct MapImages {
    map: Map,
    members: Members,
    /// The state of each line's image file when it was first read.
    states: FirstStates,
    common: Arc<Common>,
    corpus: Arc<Corpus>,
    /// Images that were skipped.
    broken: Broken,
    /// JPEG images with damaged data.
    damaged: Broken,
}

impl FileImages {
    pub fn open(
        options: &ImageOptions,
        users: &[(String, Arc<dyn UserTransform>)],
        corpus: &Arc<Corpus>,
    ) -> Result<FileImages> {
        let begun = Instant::now();
        let map = Map::read(&options.file, label_dim(options)?, corpus)
            .map_err(|error| error.in_stream(&options.labels))?;
        check_paths(&map, &options.confinement).map_err(|error| error.in_stream(&options.features))?;
        let is_tolerant = !options.as_cntk && options.max_errors > 0;
        let members = Members::find(&map, options.as_cntk, is_tolerant)
            .map_err(|error| error.in_stream(&options.features))?;
        if options.verbosity > 1 {
            let seconds = begun.elapsed().as_secs_f64();
            let line =
                format!("ImageDeserializer: read {} lines of {} in {seconds:.3} s", map.len(), map.file());
            Logger::log_always(Level::Info, &line);
        }
        let common = Common::new(options, users, label_dim(options)?)?;
        let count = (map.len() as u64).saturating_mul(u64::from(copies(options)));
        if count >= u64::from(ChunkId::MAX) {
            let message =
                format!("The map has {count} images, but at most {} are possible.", ChunkId::MAX - 1);
            let detail =
                "Divide the map file among several readers. With ‹multi_view› each image counts ten times.";
            return Err(Error::data(message).with_detail(detail).in_file(map.file()));
        }
        // Images in zip files need no state: their archive is checked instead.
        let states = FirstStates::new(if members.len() < map.len() { map.len() } else { 0 })?;
        let (common, corpus) = (Arc::new(common), Arc::clone(corpus));
        Ok(FileImages {
            infos: room::filled(count as usize, ChunkInfo { samples: 1, sequences: 1 }, room::INDEX)?,
            shared: Arc::new(MapImages {
                map,
                members,
                states,
                common,
                corpus,
                broken: Broken::new("images that cannot be used and were left out", options.front_end),
                damaged: Broken::new("images with damaged data", options.front_end),
            }),
            by_key: OnceLock::new(),
            chunks: Mutex::default(),
        })
    }

    /// Returns the line of a chunk.
    fn line(&self, chunk: ChunkId) -> u32 {
        chunk / self.shared.common.copies
    }

    fn by_key(&self) -> Result<&[u32]> {
        if let Some(lines) = self.by_key.get() {
            return Ok(lines);
        }
        let map = &self.shared.map;
        let mut lines = room::collect(0..map.len() as u32, room::INDEX)?;
        let key = |&line: &u32| (map.key(line), line);
        // Outside the library's pool, rayon would start its global pool.
        match rayon::current_thread_index() {
            Some(_) => lines.par_sort_unstable_by_key(key),
            None => lines.sort_unstable_by_key(key),
        }
        // Another thread may have been first.
        Ok(self.by_key.get_or_init(|| lines))
    }
}

impl ChunkTable for FileImages {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.infos
    }

    fn lengths(&self, _chunk: ChunkId) -> Lengths<'_> {
        Lengths::Ones
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl FileImages {
    /// Creates or reuses a chunk without reading anything: images are read when they are fetched.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let mut chunks = self.chunks.lock();
        // Chunks are released in roughly the order in which they were loaded, so the oldest is
        // likely to be free.
        if let Some(mut oldest) = chunks.pop_front() {
            let free = Arc::get_mut(&mut oldest).map(|free| free.number = chunk);
            chunks.push_back(Arc::clone(&oldest));
            if free.is_some() {
                return Ok(oldest);
            }
        }
        let loaded = Arc::new(FileChunk { shared: Arc::clone(&self.shared), number: chunk });
        chunks.push_back(Arc::clone(&loaded));
        Ok(loaded)
    }
}

impl ChunkSource for FileImages {
    fn streams(&self) -> &[StreamInfo] {
        &self.shared.common.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts {
            is_fetched: true,
            is_fetched_ahead: true,
            loading: Loading::AtOnce,
            ..SourceFacts::ON_POOL
        }
    }

    fn start(self: Arc<Self>, chunk: ChunkId, _: &Starter) -> Load {
        Load::done(self.load(chunk))
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let (mut worker, mut file) = (Worker::default(), Vec::new());
        sampler.parts(self.shared.map.len(), PARTS, |sampler, line| {
            match self.shared.read(line as u32, &mut worker, &mut file) {
                Ok(()) => sampler.bytes(&file),
                // A lasting failure: every read skips this image or fails on it.
                Err(ReadFailure { is_lasting: true, .. }) => sampler.bytes(b"no image"),
                Err(ReadFailure { error, .. }) => return Err(error),
            }
            Ok(())
        })
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        let map = &self.shared.map;
        let lines = 0..map.len() as u32;
        let seed = mix(SEED, map.len() as u64, u64::from(self.shared.common.copies));
        lines.fold(seed, |hash, line| mix(hash, map.key(line), u64::from(map.label(line))))
    }

    fn memory(&self) -> SourceMemory {
        let by_key = self.by_key.get().map_or(0, |lines| size_of_val(lines.as_slice()));
        let MapImages { map, members, states, common, .. } = &*self.shared;
        let lists = size_of_val(self.infos.as_slice()) + by_key;
        let index = map.bytes() + members.bytes() + states.bytes() + lists;
        SourceMemory { chunks: common.meter.bytes(), index: index as u64 }
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl Diagnostics for FileImages {
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, sequence: SequenceId, _stream: usize) -> Location {
        self.shared.map.location(self.line(sequence.chunk))
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        corpus.text_of(key)
    }

    fn forget_errors(&self) {}

    fn remarks(&self) -> Vec<Finding> {
        self.shared.map.remark().into_iter().collect()
    }

    fn end_sweep(&self) {
        let MapImages { map, common, broken, damaged, .. } = &*self.shared;
        broken.summarize(map.file());
        damaged.summarize(map.file());
        common.chain.summarize(map.file());
    }
}

impl JoinedByKey for FileImages {}

impl Deserializer for FileImages {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts { counts_keys: self.shared.map.is_keyed_by_line(), ..SequenceFacts::PLAIN }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|id| self.shared.map.key(self.line(id.chunk))));
    }

    fn prepare_to_find(&self) -> Result<()> {
        if self.shared.map.is_keyed_by_line() { Ok(()) } else { self.by_key().map(|_| ()) }
    }

    /// Finds the last line with the key, and its first view (CNTK 2.7). `None` if there is not
    /// enough memory to [sort](Deserializer::prepare_to_find) the lines.
    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let map = &self.shared.map;
        let line = if map.is_keyed_by_line() {
            u32::try_from(key).ok().filter(|&line| (line as usize) < map.len())?
        } else {
            let lines = self.by_key().ok()?;
            let end = lines.partition_point(|&line| map.key(line) <= key);
            lines[..end].last().copied().filter(|&line| map.key(line) == key)?
        };
        Some(SequenceId { chunk: line * self.shared.common.copies, index: 0 })
    }
}

/// Rejects images and zip files outside the permitted folders.
fn check_paths(map: &Map, confinement: &Confinement) -> Result<()> {
    if !confinement.is_confined() {
        return Ok(());
    }
    let bounds = confinement.bounds_of(map.file())?;
    let (mut path, mut last) = (Vec::new(), Vec::new());
    for line in 0..map.len() as u32 {
        path.clear();
        map.expand_path(line, &mut path);
        let file = paths::split_member(&path).map_or(path.as_slice(), |(archive, _)| archive);
        // Images of the same zip file are usually adjacent.
        if last != file {
            bounds.check(file, u64::from(line) + 1)?;
            last.clear();
            last.extend_from_slice(file);
        }
    }
    Ok(())
}

/// An image, or one view of it.
struct FileChunk {
    shared: Arc<MapImages>,
    number: ChunkId,
}

impl LeafChunk for FileChunk {
    fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
        Loaded::Invalid
    }

    fn fetch(&self, _index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        let MapImages { map, members, common, .. } = &*self.shared;
        let line = self.number / common.copies;
        let is_plain = !members.has(line);
        let options = DecodeOptions { orient: is_plain, in_memory: !is_plain, ..common.decoding };
        let origin: Arc<dyn Origin> = Arc::clone(&self.shared) as Arc<dyn Origin>;
        let copy = self.number % common.copies;
        let identity = Identity { number: line.into(), copy, key: map.key(line) };
        fetch(origin, options, identity, (first, parts), |worker, content| {
            let Content { file, .. } = content;
            let opened = self.shared.read(line, worker, file).map_err(ReadFailure::into_parts);
            let opened = opened.and_then(|()| {
                let header = worker.decoder.header(file, &options);
                header.map_err(|cause| (!cause.is_memory, self.shared.broken(line.into(), cause)))
            });
            let read = match opened {
                Ok(header) => Read::Encoded(header),
                Err((true, error)) => Read::Invalid(Some(self.shared.leave_out(line.into(), error)?)),
                Err((false, error)) => return Err(error),
            };
            Ok((map.label(line), read))
        })
    }
}

impl MapImages {
    /// Reads the image file of a line.
    fn read(
        &self,
        line: u32,
        worker: &mut Worker,
        file: &mut Vec<u8>,
    ) -> std::result::Result<(), ReadFailure> {
        let most = self.common.most_file_bytes();
        // A lasting error must not block the reader: as a data error it is skipped by the next
        // read.
        let unread = |is_lasting: bool, error: &Error| {
            let kind = if is_lasting { ErrorKind::Data } else { error.kind() };
            ReadFailure { is_lasting, error: self.cannot_open(line, kind, error) }
        };
        if let Some(read) = self.members.read(line, most, &mut worker.inflater, file) {
            // Damage of a member is lasting, but a failure to read the zip file may not be.
            return read.map_err(|error| unread(error.kind() == ErrorKind::Data, &error));
        }
        worker.path.clear();
        self.map.expand_path(line, &mut worker.path);
        let path = &*system::path_from_bytes(&worker.path);
        let state = file::read_whole(path, most, file).map_err(|cause| match cause.kind() {
            io::ErrorKind::FileTooLarge => {
                unread(true, &too_large(std::fs::metadata(path).map_or(0, |file| file.len()), most))
            }
            _ => {
                unread(is_lasting(&cause), &Error::io("Error reading file", &path.to_string_lossy(), &cause))
            }
        })?;
        match state {
            Some(state) if self.states.are_same(line as usize, &state) => Ok(()),
            _ => {
                let error = file::changed(&path.to_string_lossy(), None, file.len() as u64);
                Err(unread(false, &error))
            }
        }
    }

    /// Builds CNTK's error for an unusable image, whatever the reason. Its location is the image's
    /// line in the map file (see [`Origin::locate`]).
    fn cannot_open(&self, line: u32, kind: ErrorKind, cause: &Error) -> Error {
        let message = format!("Cannot open file '{}'", quoted(self.map.path(line)));
        let error = Error::new(kind, ExceptionClass::Runtime, message);
        let (reason, detail) = cause.templates();
        error.as_cntk().with_detail(sentence(reason)).with_detail(detail)
    }
}

/// A failure to read an image file.
struct ReadFailure {
    /// Every attempt will fail, so the image is skipped.
    is_lasting: bool,
    error: Error,
}

impl ReadFailure {
    fn into_parts(self) -> (bool, Error) {
        (self.is_lasting, self.error)
    }
}

/// Turns a cause into a sentence: with a capital letter and a period.
fn sentence(cause: &str) -> String {
    let mut letters = cause.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let end = if cause.is_empty() || cause.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

impl Origin for MapImages {
    fn common(&self) -> &Arc<Common> {
        &self.common
    }

    fn locate(&self, line: u64, error: Error) -> Error {
        let key = self.corpus.text_of(self.map.key(line as u32));
        self.map.locate(line as u32, error).for_key(key)
    }

    fn lasting_number(&self, key: SequenceKey) -> u64 {
        self.corpus.lasting_number(key)
    }

    fn broken(&self, line: u64, cause: DecodeError) -> Error {
        if cause.is_memory {
            return self.locate(line, cause.into_error());
        }
        let error = self.cannot_open(line as u32, ErrorKind::Data, &Error::data(cause.message));
        error.with_detail("Fix or replace the image, or remove it from the data.")
    }

    /// CNTK 2.7 stops at the first unusable image.
    fn leave_out(&self, line: u64, error: Error) -> std::result::Result<Error, Error> {
        if self.common.as_cntk {
            return Err(error);
        }
        // If no image may be skipped, the error itself says everything; log nothing.
        if !self.common.is_tolerant {
            return Ok(error);
        }
        let name = || {
            let path = quoted(self.map.path(line as u32));
            format!("line {} ('{path}': {})", line + 1, error.detail().split(". ").next().unwrap_or_default())
        };
        let warning = || {
            let located = self.locate(line, error.clone());
            located
                .with_detail("The image is left out, and counts against the reader's ‹max_errors›.")
                .in_words_of(self.broken.front_end())
                .to_string()
        };
        self.broken.note(line, name, warning);
        Ok(error)
    }

    fn ends_alone(&self) -> bool {
        true
    }

    fn damaged(&self, line: u64, damage: &str) {
        let path = quoted(self.map.path(line as u32));
        let warning = || {
            let error = Error::data(format!("The image '{path}' is delivered, but {damage}."));
            let advice = "The pixels after the damage are wrong: replace the image.";
            self.locate(line, error.with_detail(advice)).to_string()
        };
        self.damaged.note(line, || format!("line {} ('{path}')", line + 1), warning);
    }
}
