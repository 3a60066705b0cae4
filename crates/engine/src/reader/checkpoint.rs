//! Checkpoints that continue exactly: their content, their format and their checks.
//!
//! Format, little endian: magic (8 bytes) | version `u32` | facts | epoch | progress | CRC-32 of
//! everything before it `u32`. The *facts* are pairs of strings, name and value, and cover
//! everything that determines the order and content of minibatches. A reader compares them with its
//! own, so that an error can name the differences.
//!
//! An incremental chunk table is incomplete during the first sweep, and a checkpoint does not wait
//! for the rest. Its facts then cover only the chunks up to the checkpoint's position, and record
//! their number. Restoring compares the facts of exactly these chunks, so they do not depend on how
//! far the table had grown.

use super::epoch::{Epoch, ReadConfig};
use super::position::ReaderPosition;
use crate::pack::Packing;
use crate::pack::Queue;
use crate::randomize::Position;
use crate::randomize::{Order, WindowSize};
use crate::reader::settings::ReaderSettings;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::{AnyDeserializer, ChunkSource, ChunkTableExt, Deserializer, IncrementalTable};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use std::sync::OnceLock;

const MAGIC: &[u8; 8] = b"cntkrdr\n";
const VERSION: u32 = 1;

/// Name and value of a property that must match in the reader that restores a checkpoint.
type Fact = (&'static str, String);

/// The progress of reading: everything needed to continue exactly from this position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The position on the timeline.
    pub position: ReaderPosition,
    /// Invalid sequences counted so far.
    pub invalid: u64,
    /// Sequences held by the truncated packer.
    pub queues: Vec<Queue>,
    /// Undelivered samples of the queued sequences. Not part of a checkpoint: the packer counts
    /// them.
    pub held: u64,
    /// Number of this worker's sequences selected so far, delivered or not. Not part of a
    /// checkpoint.
    pub selected: u64,
    /// The number of its batch, see [`Pipeline::resume`](super::pipeline::Pipeline::resume). Not
    /// part of a checkpoint.
    pub batch: u64,
}

/// The content of a checkpoint, except for its facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkpoint {
    pub epoch: Epoch,
    /// The current configuration: the epoch's own, or a later replacement.
    pub read: ReadConfig,
    pub progress: Progress,
    /// Whether the end of the epoch was reported.
    pub is_over: bool,
}

/// Name of the fact that lists the streams: name, storage, type and shape of each.
const STREAMS: &str = "streams";

/// Name of the fact that records the number of chunks covered by the facts about the data. Without
/// it, they cover all chunks.
const COVERED: &str = "chunks compared";

/// Name of the fact with a digest of sampled data. Missing in checkpoints of older versions.
const CONTENT: &str = "content of the data";

/// The pair, after the facts, that records that the end of the epoch was reported. Older versions
/// do not write it, and readers ignore unknown pairs.
const OVER: (&str, &str) = ("epoch", "over");

/// Everything that determines the order and content of minibatches.
pub(super) struct Facts {
    /// Facts derived from the settings.
    settings: Vec<Fact>,
    /// Facts about all data. Expensive, so computed for the first checkpoint that needs them.
    data: OnceLock<Vec<Fact>>,
    deserializer: AnyDeserializer,
}

impl Facts {
    pub(super) fn new(options: &ReaderSettings, deserializer: AnyDeserializer) -> Facts {
        Facts {
            settings: settings(options, deserializer.source().streams()),
            data: OnceLock::new(),
            deserializer,
        }
    }

    /// Stops indexing when the reader ends, because missing facts are no longer needed.
    pub(super) fn cancel(&self) {
        if let AnyDeserializer::Known(table) = &self.deserializer
            && let Some(table) = table.incremental()
        {
            table.cancel();
        }
    }

    /// Returns the facts for a checkpoint at this position.
    pub(super) fn at(&self, progress: &Progress) -> Result<Vec<Fact>> {
        self.covering(match (progress.position, &self.deserializer) {
            (ReaderPosition::Global(position), AnyDeserializer::Known(table)) => match table.incremental() {
                Some(table) => chunks_before(table, position)?,
                None => None,
            },
            _ => None,
        })
    }

    /// Returns the reader's facts, covering the same chunks as the facts of a checkpoint, `theirs`.
    fn against(&self, theirs: &[(String, String)]) -> Result<Vec<Fact>> {
        let covered = theirs.iter().find(|(name, _)| name == COVERED);
        self.covering(covered.and_then(|(_, chunks)| chunks.parse().ok()))
    }

    /// Returns the facts that cover the first `chunks` chunks, or all data.
    fn covering(&self, chunks: Option<ChunkId>) -> Result<Vec<Fact>> {
        let mut facts = self.settings.clone();
        match (chunks, &self.deserializer) {
            (Some(chunks), AnyDeserializer::Known(table)) => facts.extend(first_chunks(&**table, chunks)?),
            _ => facts.extend(self.of_all_data()?.iter().cloned()),
        }
        Ok(facts)
    }

    /// Returns the facts about all data, which are computed once.
    fn of_all_data(&self) -> Result<&[Fact]> {
        if self.data.get().is_none() {
            let mut facts = data(&self.deserializer);
            facts.extend(content(&*self.deserializer.source(), None)?);
            let _ = self.data.set(facts);
        }
        Ok(self.data.get().map_or(&[], Vec::as_slice))
    }
}

/// Returns the number of chunks of the first sweep that begin before this position, or `None` if
/// the position is in a later sweep.
fn chunks_before(table: &dyn IncrementalTable, position: Position) -> Result<Option<ChunkId>> {
    let (mut chunks, mut samples) = (0, 0);
    while samples < position.samples {
        let Some(info) = table.wait_for(chunks)? else { return Ok(None) };
        samples += info.samples;
        chunks += 1;
    }
    Ok(Some(chunks))
}

/// Returns the facts about the first `chunks` chunks.
fn first_chunks(deserializer: &dyn Deserializer, chunks: ChunkId) -> Result<Vec<Fact>> {
    let (mut sequences, mut samples) = (0, 0);
    for chunk in 0..chunks {
        let Some(info) = deserializer.chunk(chunk)? else {
            return Ok(vec![(COVERED, format!("{chunk}, there are no others"))]);
        };
        sequences += u64::from(info.sequences);
        samples += info.samples;
    }
    let mut facts = vec![
        (COVERED, chunks.to_string()),
        ("data", format!("{sequences} sequences, {samples} samples in the first chunks")),
        ("fingerprint of the data", format!("{:016x}", deserializer.fingerprint(Some(chunks as usize)))),
    ];
    facts.extend(content(deserializer, Some(chunks as usize))?);
    Ok(facts)
}

/// Returns the fact about the content of the first `chunks` chunks, or of all data, if known.
fn content(source: &dyn ChunkSource, chunks: Option<usize>) -> Result<Option<Fact>> {
    let mut sampler = Sampler::new();
    source.sample_content(chunks, &mut sampler)?;
    Ok(sampler.finish().map(|content| (CONTENT, content)))
}

/// Returns the facts derived from the settings.
fn settings(options: &ReaderSettings, streams: &[StreamInfo]) -> Vec<Fact> {
    let order = match options.order {
        Order::InOrder => "not randomized".to_owned(),
        Order::Block { window: WindowSize::Chunks(size), seed } => {
            format!("window of {size} chunks, seed {seed}")
        }
        Order::Block { window: WindowSize::Samples(size), seed } => {
            format!("window of {size} samples, seed {seed}")
        }
    };
    let packing = match (options.packing, &options.lanes_by_epoch) {
        (Packing::Sequence, _) => "sequences".to_owned(),
        (Packing::Frame, _) => "frames".to_owned(),
        (Packing::Truncated { .. }, Some(lanes)) => {
            format!("truncated to the minibatch size, {lanes:?} parallel sequences")
        }
        (Packing::Truncated { length, right_splice }, None) => {
            format!("truncated to {length}, right splice {right_splice}")
        }
    };
    let streams: Vec<String> = streams
        .iter()
        .map(|stream| {
            let storage = match stream.storage {
                Storage::Dense => "dense",
                Storage::SparseCsc => "sparse",
            };
            let element = match stream.element {
                ElementType::Float => "float",
                ElementType::Double => "double",
                other => other.name(),
            };
            format!("{} {storage} {element} {:?}", stream.name, stream.shape)
        })
        .collect();
    let timeline = match (options.local_timeline, options.lockstep) {
        (true, _) => "local",
        (false, false) => "global",
        (false, true) => "global, in lockstep",
    };
    let mut facts = vec![
        ("order", order),
        ("packing", packing),
        ("timeline", timeline.to_owned()),
        (STREAMS, streams.join("; ")),
    ];
    // Without transforms this fact is omitted, which keeps checkpoints compatible with versions
    // without transforms.
    let of_images = options.deserializers.iter().filter_map(|one| one.facts().reproducible);
    let of_streams = options.adapters.iter().flat_map(|adapter| adapter.reproducible());
    let draws: Vec<&str> = of_images
        .chain(of_streams)
        .map(|is_reproducible| if is_reproducible { "reproducible" } else { "as CNTK draws them" })
        .collect();
    if !draws.is_empty() {
        facts.push(("random transforms", draws.join("; ")));
    }
    facts
}

/// Returns the facts about all data.
fn data(deserializer: &AnyDeserializer) -> Vec<Fact> {
    let data = match deserializer {
        AnyDeserializer::Known(table) => {
            let chunks = table.chunks();
            let sequences: u64 = chunks.iter().map(|chunk| u64::from(chunk.sequences)).sum();
            let samples: u64 = chunks.iter().map(|chunk| chunk.samples).sum();
            format!("{sequences} sequences, {samples} samples, {} chunks", chunks.len())
        }
        AnyDeserializer::Listing(listing) => {
            format!("{} chunks that list their sequences when loaded", listing.chunk_count())
        }
    };
    let fingerprint = deserializer.source().fingerprint(None);
    vec![("data", data), ("fingerprint of the data", format!("{fingerprint:016x}"))]
}

/// Writes a checkpoint.
pub(super) fn encode(
    facts: &[Fact],
    epoch: &Epoch,
    read: &ReadConfig,
    progress: &Progress,
    is_over: bool,
) -> Result<Vec<u8>> {
    let Progress { position, invalid, queues, .. } = progress;
    // Each queue takes two numbers of 8 bytes, and each of its sequences three.
    let queued: usize = queues.iter().map(|queue| 16 + 24 * queue.sequences.len()).sum();
    let mut out = room::with_capacity(queued + BESIDE_QUEUES, room::SLOTS)?;
    out.extend(MAGIC);
    out.extend(VERSION.to_le_bytes());
    put(&mut out, facts.len() as u64 + u64::from(is_over));
    let over = is_over.then_some(OVER);
    for (name, value) in facts.iter().map(|(name, value)| (*name, value.as_str())).chain(over) {
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    let Epoch { read: begun, samples, sweeps, index } = *epoch;
    put_config(&mut out, &begun);
    [samples, sweeps, index].into_iter().for_each(|value| put(&mut out, value));
    put_config(&mut out, read);
    position
        .numbers()
        .into_iter()
        .chain([*invalid, queues.len() as u64])
        .for_each(|value| put(&mut out, value));
    for queue in queues {
        put(&mut out, queue.cursor);
        put(&mut out, queue.sequences.len() as u64);
        for (sequence, end_of_sweep) in &queue.sequences {
            put(&mut out, u64::from(sequence.chunk));
            put(&mut out, u64::from(sequence.index));
            put(&mut out, u64::from(*end_of_sweep));
        }
    }
    let sum = crc32fast::hash(&out);
    out.extend(sum.to_le_bytes());
    Ok(out)
}

/// Initial capacity in bytes for everything but the queues; usually sufficient.
const BESIDE_QUEUES: usize = 1 << 10;

const DAMAGED: &str =
    "Its bytes were changed or truncated: check how they were stored, and restore an earlier checkpoint.";

/// Whether the data's values may have changed since a checkpoint was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    /// Values must not have changed.
    Same,
    /// Values may have changed, by the user's intention. Lengths and keys must still match.
    Any,
}

/// Reads a checkpoint. Fails if it is damaged or its facts differ from the reader's.
pub(super) fn decode(bytes: &[u8], facts: &Facts, values: Values) -> Result<Checkpoint> {
    decode_against(bytes, |theirs| {
        let mut own = facts.against(theirs)?;
        let is_known = theirs.iter().any(|(name, _)| name == CONTENT);
        own.retain(|(name, _)| *name != CONTENT || (is_known && values == Values::Same));
        Ok(own)
    })
}

fn decode_against(
    bytes: &[u8],
    own: impl FnOnce(&[(String, String)]) -> Result<Vec<Fact>>,
) -> Result<Checkpoint> {
    let refuse = |why: String| Error::checkpoint(ExceptionClass::Runtime, why);
    let damaged = || refuse("The checkpoint is damaged.".to_owned()).with_detail(DAMAGED);
    if !bytes.starts_with(MAGIC) {
        return Err(refuse("This is not a checkpoint of cntk-reader.".to_owned()).with_detail(
            "Pass the bytes of a reader's checkpoint. To restore the named numbers of a CNTK checkpoint, set them as the reader's \
             state instead.",
        ));
    }
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return Err(
            refuse("The checkpoint is damaged: its checksum does not match.".to_owned()).with_detail(DAMAGED)
        );
    }
    let (version, body) =
        body.get(MAGIC.len()..).and_then(|body| body.split_first_chunk::<4>()).ok_or_else(damaged)?;
    let version = u32::from_le_bytes(*version);
    if version != VERSION {
        return Err(refuse(format!(
            "The checkpoint has version {version}; this library reads version {VERSION}."
        ))
        .with_detail("Restore it with the version of the library that wrote it."));
    }
    let mut input = Input(body);
    let theirs = input.facts().ok_or_else(damaged)?;
    compare(&theirs, &own(&theirs)?)?;
    let checkpoint = input.checkpoint()?.filter(|_| input.0.is_empty()).ok_or_else(damaged)?;
    let is_over = theirs.iter().any(|(name, value)| (name.as_str(), value.as_str()) == OVER);
    Ok(Checkpoint { is_over, ..checkpoint })
}

const OTHER_VALUES: &str = "Restore it with the original data, or start from the beginning. If the values were changed on \
     purpose, allow changed values when restoring: 'restore_over_changed_values' in Rust, \
     'cntk_reader_checkpoint_restore_over_changed_values' in C, 'RestoreCheckpointOverChangedValues' in C++, 'allow_changed_values=True' in \
     Python.";

/// Returns the names and shapes of the streams listed in a fact.
fn shapes(streams: &str) -> Vec<(&str, &str)> {
    let shape = |stream| -> Option<(&str, &str)> {
        let (described, shape) = str::rsplit_once(stream, " [")?;
        let (name, _element) = described.rsplit_once(' ')?;
        Some((name.rsplit_once(' ')?.0, shape))
    };
    streams.split("; ").map(|stream| shape(stream).unwrap_or((stream, ""))).collect()
}

/// Fails if a checkpoint's facts differ from the reader's. The message names all differences.
fn compare(theirs: &[(String, String)], own: &[Fact]) -> Result<()> {
    let mut differences = Vec::new();
    let mut has_other_values = false;
    for (name, value) in own {
        match theirs.iter().find(|(their_name, _)| their_name == name) {
            Some((_, their_value)) if their_value == value => {}
            // The order does not depend on types and storage, so these may differ.
            Some((_, their_value)) if *name == STREAMS && shapes(their_value) == shapes(value) => {}
            Some(_) if *name == CONTENT => has_other_values = true,
            Some((_, their_value)) => {
                differences.push(format!("{name}: checkpoint '{their_value}', reader '{value}'"));
            }
            None => differences.push(format!("{name}: not in the checkpoint, reader '{value}'")),
        }
    }
    if differences.is_empty() && has_other_values {
        let message = "The checkpoint does not match this reader: the data have the same sequences, but different values.";
        return Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(OTHER_VALUES));
    }
    if differences.is_empty() {
        return Ok(());
    }
    let message = format!("The checkpoint does not match this reader. {}.", differences.join(". "));
    let detail = "Restore it with the original data and options, or start from the beginning.";
    Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(detail))
}

fn put(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes());
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend(text.as_bytes());
}

fn put_config(out: &mut Vec<u8>, config: &ReadConfig) {
    let ReadConfig { workers, rank, minibatch_size, truncation_length, right_splice, cross_sweeps } = *config;
    for value in [workers, rank, minibatch_size, truncation_length, right_splice, u64::from(cross_sweeps)] {
        put(out, value);
    }
}

/// Decodes the rest of a checkpoint. All methods return `None` if it is truncated or invalid.
/// Methods that read queues, which grow with the minibatch, fail if there is not enough memory.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    fn facts(&mut self) -> Option<Vec<(String, String)>> {
        (0..self.number()?).map(|_| Some((self.text()?, self.text()?))).collect()
    }

    fn config(&mut self) -> Option<ReadConfig> {
        Some(ReadConfig {
            workers: self.number()?,
            rank: self.number()?,
            minibatch_size: self.number()?,
            truncation_length: self.number()?,
            right_splice: self.number()?,
            cross_sweeps: self.flag()?,
        })
    }

    /// Reads a list: its length, then its elements.
    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Result<Option<T>>) -> Result<Option<Vec<T>>> {
        let Some(count) = self.number() else { return Ok(None) };
        // An element has at least 16 bytes; the loop detects an excessive count.
        let most = (self.0.len() / 16) as u64;
        let mut list = room::with_capacity(count.min(most) as usize, room::SLOTS)?;
        for _ in 0..count {
            let Some(element) = element(self)? else { return Ok(None) };
            room::push(&mut list, element, room::SLOTS)?;
        }
        Ok(Some(list))
    }

    fn checkpoint(&mut self) -> Result<Option<Checkpoint>> {
        let Some(mut checkpoint) = self.all_but_queues() else { return Ok(None) };
        let Some(queues) = self.list(Self::queue)? else { return Ok(None) };
        checkpoint.progress.queues = queues;
        Ok(Some(checkpoint))
    }

    fn all_but_queues(&mut self) -> Option<Checkpoint> {
        let epoch = Epoch {
            read: self.config()?,
            samples: self.number()?,
            sweeps: self.number()?,
            index: self.number()?,
        };
        let read = self.config()?;
        let mut numbers = [0; 6];
        for number in &mut numbers {
            *number = self.number()?;
        }
        let position = ReaderPosition::from_numbers(numbers)?;
        let invalid = self.number()?;
        let progress = Progress { position, invalid, ..Progress::default() };
        Some(Checkpoint { epoch, read, progress, is_over: false })
    }

    fn queue(&mut self) -> Result<Option<Queue>> {
        let Some(cursor) = self.number() else { return Ok(None) };
        let sequences = self.list(|input| Ok(input.queued()))?;
        Ok(sequences.map(|sequences| Queue { cursor, sequences }))
    }

    fn queued(&mut self) -> Option<(SequenceId, bool)> {
        let chunk = u32::try_from(self.number()?).ok()?;
        let index = u32::try_from(self.number()?).ok()?;
        Some((SequenceId { chunk, index }, self.flag()?))
    }
}

#[cfg(test)]
mod tests;
