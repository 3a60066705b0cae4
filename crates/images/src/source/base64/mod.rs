//! Images as Base64, one per line (`Base64ImageDeserializer`).
//!
//! The file is indexed like a text file. A chunk keeps its lines undecoded; an image is decoded
//! when it is fetched, because only then is it known to be valid.

mod record;
mod text;

use super::broken::Broken;
use super::map::{self, Columns};
use super::number::{CNumber, unsigned};
use super::sequence::{Content, Identity, Origin, Read, fetch};
use super::{Common, label_dim};
use crate::decode::DecodeError;
use crate::source::ImageOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::fingerprint::mix;
use cntk_reader_core::format::buffer::{BufferPool, ChunkBuffer};
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::fetch::Parts;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::user::transform::UserTransform;
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, JoinedByKey, LeafChunk,
    Lengths, Loaded, SequenceFacts, SourceFacts, SourceMemory, by_blocks,
};
use cntk_reader_core::image::Region;
use cntk_reader_core::memory::room;
use cntk_reader_core::option::release::Quirks;
use cntk_reader_core::runtime::log::Level;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use cntk_reader_text::ctf::index::{Index, IndexOptions, LACKS_KEYS};
use record::{Record, Rules};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Chunk size in bytes (CNTK 2.7; not configurable).
const CHUNK_BYTES: u64 = 32 << 20;

/// A file of Base64 images. Each line is a sequence, or several if an image has several views.
pub(super) struct Base64Images {
    shared: Arc<Base64File>,
    infos: Vec<ChunkInfo>,
}

/// The indexed file, shared by the deserializer and its chunks.
struct Base64File {
    file: DataFile,
    index: Index,
    /// Lines begin with keys; otherwise a line's key is its number.
    has_keys: bool,
    corpus: Arc<Corpus>,
    common: Arc<Common>,
    buffers: BufferPool,
    /// Images that were skipped.
    broken: Broken,
    /// JPEG images with damaged data.
    damaged: Broken,
}

impl Base64Images {
    pub fn open(
        options: &ImageOptions,
        users: &[(String, Arc<dyn UserTransform>)],
        corpus: &Arc<Corpus>,
    ) -> Result<Base64Images> {
        let path = &options.file;
        let file = DataFile::open_text(path)?;
        let first = first_line(&file).map_err(|error| error.in_file(path))?;
        let has_keys = map::has_key(&first);
        let index_options = IndexOptions {
            main_stream: None,
            skip_sequence_ids: !has_keys,
            chunk_size: CHUNK_BYTES,
            cache: options.cache_index,
            log: Logger::new(Level::Warning as u32),
            key_limit: None,
            warns_of_repeats: true,
            quirks: Quirks::default(),
        };
        let index = Index::open(&file, &index_options, corpus)
            .map_err(|error| explain_keys(error, &first, corpus))?;
        let common = Common::new(options, users, label_dim(options)?)?;
        let infos = index.chunks().iter().map(|chunk| {
            let sequences = chunk.sequences.checked_mul(common.copies).ok_or_else(|| {
                let detail = "With ‹multi_view› each counts ten times; at most 4294967295 are possible.";
                Error::data("A chunk has too many images.").with_detail(detail).in_file(path)
            })?;
            Ok(ChunkInfo { samples: sequences.into(), sequences })
        });
        let infos = room::try_collect(infos, room::INDEX)?;
        let mut shared = Base64File {
            file,
            index,
            has_keys,
            corpus: Arc::clone(corpus),
            common: Arc::new(common),
            buffers: BufferPool::new(0),
            broken: Broken::new("images that could not be decoded and were left out", options.front_end),
            damaged: Broken::new("images with damaged data", options.front_end),
        };
        let sizes =
            (0..infos.len() as ChunkId).map(|chunk| shared.bytes(chunk)).map(|bytes| bytes.end - bytes.start);
        shared.buffers = BufferPool::new(sizes.max().unwrap_or(0));
        Ok(Base64Images { shared: Arc::new(shared), infos })
    }

    /// Passes the index's lines of the sequences, without views, to `use_lines`.
    fn lines(&self, sequences: &[SequenceId], use_lines: impl FnMut(&[SequenceId])) {
        let copies = self.shared.common.copies;
        let line = |id: &SequenceId| SequenceId { chunk: id.chunk, index: id.index / copies };
        by_blocks(sequences, line, use_lines);
    }
}

/// Returns the first line of the file, or enough of it to decide whether it, and so every line,
/// begins with a key (CNTK 2.7).
fn first_line(file: &DataFile) -> Result<Vec<u8>> {
    const BLOCK: usize = 64 << 10;
    /// Longer than the first two columns of any sensible line.
    const MOST: usize = 1 << 20;
    let mut line = Vec::new();
    let mut block = room::zeroed(BLOCK, room::FILE)?;
    loop {
        let count = file.read_at(line.len() as u64, &mut block)?;
        if line.is_empty() && count == 0 {
            let error = Error::data(format!("Could not read the file '{}'.", file.path()));
            return Err(
                error.with_detail("It is empty: lines with a label and an image as Base64 were expected.")
            );
        }
        room::extend(&mut line, &block[..count], room::FILE)?;
        let end = memchr::memchr(b'\n', &line);
        // The beginning of the third column decides.
        if end.is_some() || count == 0 || line.len() > MOST || map::has_key(&line) {
            line.truncate(end.unwrap_or(line.len()));
            return Ok(line);
        }
    }
}

/// Explains keys that are texts where numbers are expected, and missing keys where texts are
/// expected, which the index of the file cannot do.
fn explain_keys(error: Error, first: &[u8], corpus: &Corpus) -> Error {
    let key = Columns::of(first).and_then(|columns| columns.key).unwrap_or_default();
    let detail = if error.message() == LACKS_KEYS {
        "The lines begin with a label instead of a key. Put the key of its sequence and a tab before each line; or set \
         ‹numeric_keys = true›, if no other deserializer has keys that are text."
            .to_owned()
    } else if corpus.is_numeric() && !key.is_empty() && unsigned(key) == CNumber::None {
        let key = cntk_reader_core::message::shown::quoted(&key[..key.len().min(80)]);
        format!(
            "The first line begins with the key '{key}', which is a text: set ‹numeric_keys = false› ‹in_the_reader›; or \
             write numbers as keys, or no keys."
        )
    } else {
        return error;
    };
    let mut explained = Error::data(error.message())
        .as_cntk()
        .with_detail(detail)
        .in_file(error.location().file.as_deref().unwrap_or_default());
    if let Some(line) = error.location().line {
        explained = explained.in_line(line);
    }
    explained
}

impl Base64File {
    /// Returns a chunk's range of bytes in the file.
    fn bytes(&self, chunk: ChunkId) -> Range<u64> {
        let last = self.index.info(chunk).sequences.saturating_sub(1);
        let span = |index| self.index.spans(chunk, index..index + 1).next();
        match (span(0), span(last)) {
            (Some(first), Some(last)) => first.offset..last.offset + u64::from(last.size),
            _ => 0..0,
        }
    }
}

impl ChunkTable for Base64Images {
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

impl Base64Images {
    /// Loads a chunk.
    pub fn load(&self, id: ChunkId) -> Result<Arc<dyn Chunk>> {
        let (shared, bytes) = (Arc::clone(&self.shared), self.shared.bytes(id));
        let mut buffer = shared.buffers.take(shared.file.path(), &bytes)?;
        shared.file.if_unchanged(buffer.read(&shared.file, bytes.clone()))?;
        Ok(Arc::new(Base64Chunk { shared, id, start: bytes.start, buffer }))
    }
}

impl ChunkSource for Base64Images {
    fn streams(&self) -> &[StreamInfo] {
        &self.shared.common.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { is_fetched: true, is_fetched_ahead: true, ..SourceFacts::ON_POOL }
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let last = self.infos.len().checked_sub(1);
        let end = last.map_or(0, |last| self.shared.bytes(last as ChunkId).end);
        sampler.file(&self.shared.file, 0..end)
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        mix(self.shared.index.fingerprint(), self.shared.common.copies.into(), 0)
    }

    fn memory(&self) -> SourceMemory {
        let Base64File { index, common, buffers, .. } = &*self.shared;
        SourceMemory {
            chunks: buffers.held() + common.meter.bytes(),
            index: (index.memory() + size_of_val(self.infos.as_slice())) as u64,
        }
    }

    /// `None`: no option changes the chunk size.
    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl Diagnostics for Base64Images {
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, sequence: SequenceId, _stream: usize) -> Location {
        let Base64File { file, index, common, .. } = &*self.shared;
        let line = sequence.index / common.copies;
        let offset = index.spans(sequence.chunk, line..line + 1).next().map(|span| span.offset);
        Location::in_file(file.path(), offset, offset.and_then(|offset| file.line_at(offset)))
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        corpus.text_of(key)
    }

    fn forget_errors(&self) {}

    fn remarks(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn end_sweep(&self) {
        let Base64File { broken, damaged, common, file, .. } = &*self.shared;
        broken.summarize(file.path());
        damaged.summarize(file.path());
        common.chain.summarize(file.path());
    }
}

impl JoinedByKey for Base64Images {}

impl Deserializer for Base64Images {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts::PLAIN
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.lines(sequences, |lines| self.shared.index.keys(lines, keys));
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.shared.index.prepare_to_find()
    }

    /// Finds the first view.
    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let SequenceId { chunk, index } = self.shared.index.find(key)?;
        Some(SequenceId { chunk, index: index * self.shared.common.copies })
    }
}

/// A range of lines of the file.
struct Base64Chunk {
    shared: Arc<Base64File>,
    id: ChunkId,
    /// Its offset in the file.
    start: u64,
    buffer: ChunkBuffer,
}

impl LeafChunk for Base64Chunk {
    fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
        Loaded::Invalid
    }

    fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        let Base64File { file, index: lines, has_keys, corpus, common, .. } = &*self.shared;
        let line = index / common.copies;
        let span = lines.spans(self.id, line..line + 1).next();
        let span = span.ok_or_else(|| Error::internal("A chunk has no such line."))?;
        let from = (span.offset - self.start) as usize;
        let text = &self.buffer.bytes()[from..from + span.size as usize];
        let as_cntk = common.as_cntk;
        let rules = Rules { file: file.path(), has_keys: *has_keys, label_dim: common.label_dim, as_cntk };
        let identity = Identity { number: span.offset, copy: index % common.copies, key: span.key };
        let origin: Arc<dyn Origin> = Arc::clone(&self.shared) as Arc<dyn Origin>;
        let broken = &self.shared.broken;
        fetch(origin, common.decoding, identity, (first, parts), |worker, content| {
            let id = KeyText { corpus, key: span.key };
            let Record { label, data } =
                rules.read(text, &id).map_err(|error| error.for_key(id.to_string()))?;
            let Content { file: bytes, image } = content;
            let invalid = |why: &str| {
                let path = file.path();
                let why = why.trim_end_matches('.');
                let warning = || {
                    format!(
                        "Could not decompress sequence with id '{id}' in the input file '{path}': {why}. The image is left out, and counts \
                     against the reader's ‹max_errors›. Fix or replace it. (file {path}, offset {}, sequence {id})",
                        span.offset
                    )
                };
                broken.note(span.offset, || format!("sequence {id} ({why})"), warning);
                // CNTK 2.7 reports only their number.
                let error = || {
                    let message =
                        format!("Could not decompress sequence with id '{id}' in the input file '{path}'");
                    Error::data(message).with_detail(format!("{why}.")).for_key(id.to_string())
                };
                Ok((label, Read::Invalid((!common.as_cntk).then(error))))
            };
            let remark = || text::remark(data);
            if !as_cntk && memchr::memchr(b'\t', data).is_some() {
                return invalid(&format!("A further column follows the image.{}", remark()));
            }
            let for_urls = !as_cntk && data.iter().any(|byte| matches!(byte, b'-' | b'_'));
            let has_length = match for_urls {
                true => text::decode_for_urls(data, bytes)?,
                false => text::decode(data, bytes)?,
            };
            if !has_length {
                let count = data.len();
                return invalid(&format!("{count} Base64 characters are not a multiple of 4.{}", remark()));
            }
            let decoded = worker.decoder.header(bytes, &common.decoding).and_then(|header| {
                let region = Region::whole(header.width, header.height);
                worker.decoder.decode(bytes, &common.decoding, region, image)
            });
            match decoded {
                Ok(()) => {
                    if let Some(damage) = worker.decoder.damage() {
                        self.shared.damaged(span.offset, &damage);
                    }
                    Ok((label, Read::Decoded))
                }
                Err(cause) if cause.is_memory => Err(cause.into_error()),
                Err(cause) => invalid(&format!("{}.{}", cause.message, remark())),
            }
        })
    }
}

/// A key that is formatted only for messages, so that valid images cost no allocation.
struct KeyText<'a> {
    corpus: &'a Corpus,
    key: SequenceKey,
}

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.corpus.text_of(self.key))
    }
}

impl Drop for Base64Chunk {
    fn drop(&mut self) {
        self.shared.buffers.give_back(std::mem::take(&mut self.buffer));
    }
}

impl Origin for Base64File {
    fn common(&self) -> &Arc<Common> {
        &self.common
    }

    fn locate(&self, offset: u64, error: Error) -> Error {
        error.in_file(self.file.path()).at(offset, self.file.line_at(offset))
    }

    fn lasting_number(&self, key: SequenceKey) -> u64 {
        self.corpus.lasting_number(key)
    }

    fn broken(&self, _offset: u64, cause: DecodeError) -> Error {
        cause.into_error()
    }

    fn ends_alone(&self) -> bool {
        false
    }

    fn damaged(&self, offset: u64, damage: &str) {
        let line = self.file.line_at(offset);
        let name = || line.map_or_else(|| format!("offset {offset}"), |line| format!("line {line}"));
        let warning = || {
            let error = Error::data(format!("An image is delivered, but {damage}."));
            let advice = "The pixels after the damage are wrong: replace the image.";
            error.with_detail(advice).in_file(self.file.path()).at(offset, line).to_string()
        };
        self.damaged.note(offset, name, warning);
    }
}
