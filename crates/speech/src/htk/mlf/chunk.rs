//! A loaded chunk: one class per frame, in one flat array.

use super::index::{Entry, LONGEST};
use super::{LabelFile, MlfShared, binary, parse};
use cntk_reader_core::cpu::prefetch;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::{Ahead, LeafChunk, Loaded};
use cntk_reader_core::memory::compact::implied::Offsets;
use cntk_reader_core::memory::{Held, room};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::cancel::Current;
use cntk_reader_core::sequence::{ChunkId, SequenceView, SparseView, ValueForm, ViewKind};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use parse::{Failure, Invalid, Target};
use rayon::prelude::*;
use std::ops::Range;

/// Bytes of a file per task.
const SEGMENT_BYTES: u64 = 256 << 10;

/// The labels of a chunk's utterances.
#[derive(Debug)]
pub(super) struct LabelChunk {
    utterances: Vec<Labels>,
    /// One class per frame.
    classes: Vec<u16>,
    /// With phone boundaries, the value of each frame: 2 at the beginning of a range, otherwise 1.
    /// Without them all values are 1.
    values: Option<Vec<u8>>,
    offsets: Offsets,
    /// The type of classes delivered as numbers.
    ids: Option<ElementType>,
    /// Errors of utterances with a class out of range, by index. In sequence mode CNTK 2.7 fails
    /// when such an utterance is needed, and delivers the others.
    failures: Vec<(u32, Error)>,
    _held: Held,
}

/// The labels of an utterance.
#[derive(Debug, Clone, Copy)]
struct Labels {
    /// Index of its first frame in the chunk.
    first: u32,
    /// Number of frames; 0 if the utterance is invalid.
    frames: u32,
}

impl LeafChunk for LabelChunk {
    fn sequence(&self, _stream: usize, index: u32) -> Loaded<'_> {
        let Labels { first, frames } = self.utterances[index as usize];
        if frames == 0 {
            return Loaded::Invalid;
        }
        let range = first as usize..first as usize + frames as usize;
        if let Some(element) = self.ids {
            let (values, form) =
                (bytemuck::cast_slice(&self.classes[range]), ValueForm::of_indices(element, true));
            return Loaded::Data(SequenceView { samples: frames, values, form, kind: ViewKind::Dense });
        }
        let Some(offsets) = self.offsets.get(frames) else { return Loaded::Invalid };
        let (values, form) = match &self.values {
            None => (&[][..], ValueForm::Ones),
            Some(values) => (&values[range.clone()], ValueForm::Byte),
        };
        let indices = bytemuck::cast_slice(&self.classes[range]);
        let kind = ViewKind::Sparse(SparseView { indices, narrow: true, offsets, single: true });
        Loaded::Data(SequenceView { samples: frames, values, form, kind })
    }

    fn failure(&self, _stream: usize, index: u32) -> Option<Error> {
        let at = self.failures.binary_search_by_key(&index, |failure| failure.0).ok()?;
        Some(self.failures[at].1.clone())
    }

    fn prefetch(&self, index: u32, ahead: Ahead) {
        let labels = self.utterances.as_ptr().wrapping_add(index as usize);
        match ahead {
            Ahead::Far => prefetch::line(labels.cast()),
            Ahead::Near => {
                let first = self.utterances[index as usize].first as usize;
                prefetch::line(self.classes.as_ptr().wrapping_add(first).cast());
            }
        }
    }
}

/// A part of a chunk, loaded by one task.
struct Segment<'a> {
    /// Positions of its utterances in the table.
    positions: Range<usize>,
    labels: &'a mut [Labels],
    classes: &'a mut [u16],
    values: Option<&'a mut [u8]>,
}

/// The result of loading a segment.
struct Outcome {
    /// Log lines.
    lines: Vec<Vec<String>>,
    /// Deferred errors of utterances, by index in the chunk.
    failures: Vec<(u32, Error)>,
    result: Result<()>,
}

/// Number of deferred errors per segment that include a line number, which requires counting the
/// preceding lines.
const LOCATED: usize = 10;

/// Loads a chunk. Runs on the pool.
pub(super) fn load(shared: &MlfShared, id: ChunkId) -> Result<LabelChunk> {
    let positions = shared.table.positions(id);
    let mut total = 0;
    let mut utterances = room::with_capacity(positions.len(), room::CHUNK)?;
    for position in positions.clone() {
        let frames = kept_frames(shared.table.entry(position).frames);
        utterances.push(Labels { first: total, frames });
        total += frames;
    }
    // Memory zeroed by the system is not resident until written: an utterance found invalid before
    // its end needs little.
    let mut classes = room::zeroed::<u16>(total as usize, room::CHUNK)?;
    let values = shared.boundaries.then(|| room::filled(total as usize, 1u8, room::CHUNK));
    let mut values = values.transpose()?;
    let first = positions.start;
    let segments = cut(shared, positions, &mut utterances, &mut classes, values.as_deref_mut());
    let file = &shared.files[shared.table.file(id)];
    let call = Current::get();
    let load = |text: &mut Vec<u8>, segment: Segment<'_>| {
        call.within(|| load_segment(shared, file, first, segment, text))
    };
    let outcomes: Vec<Outcome> = segments.into_par_iter().map_init(Vec::new, load).collect();
    let mut failures = Vec::new();
    for outcome in outcomes {
        outcome.lines.into_iter().for_each(|lines| shared.invalid.warn(|| lines));
        outcome.result.map_err(|error| error.in_stream(&shared.stream))?;
        let in_stream = |(index, error): (u32, Error)| (index, error.in_stream(&shared.stream));
        failures.extend(outcome.failures.into_iter().map(in_stream));
    }
    let longest = utterances.iter().map(|labels| labels.frames).max().unwrap_or(0);
    let offsets = Offsets::new(longest)?;
    let held = size_of_val(&*utterances)
        + size_of_val(&*classes)
        + values.as_ref().map_or(0, |values| values.len())
        + offsets.memory();
    let _held = shared.meter.hold(held);
    Ok(LabelChunk { utterances, classes, values, offsets, ids: shared.ids, failures, _held })
}

/// Returns the number of frames kept for an utterance.
fn kept_frames(frames: u32) -> u32 {
    if frames > LONGEST { 0 } else { frames }
}

/// Divides a chunk into segments.
fn cut<'a>(
    shared: &MlfShared,
    positions: Range<usize>,
    mut labels: &'a mut [Labels],
    mut classes: &'a mut [u16],
    mut values: Option<&'a mut [u8]>,
) -> Vec<Segment<'a>> {
    let mut segments = Vec::new();
    let mut start = positions.start;
    let (mut bytes, mut frames) = (0, 0);
    for position in positions.clone() {
        let entry = shared.table.entry(position);
        bytes += u64::from(entry.size);
        frames += kept_frames(entry.frames) as usize;
        if bytes < SEGMENT_BYTES && position + 1 < positions.end {
            continue;
        }
        let positions = start..position + 1;
        let own_labels = labels.split_off_mut(..positions.len()).unwrap_or_default();
        let own_classes = classes.split_off_mut(..frames).unwrap_or_default();
        let own_values = values.as_mut().and_then(|values| values.split_off_mut(..frames));
        segments.push(Segment { positions, labels: own_labels, classes: own_classes, values: own_values });
        start = position + 1;
        (bytes, frames) = (0, 0);
    }
    segments
}

/// Loads a segment of a chunk whose first utterance is at position `first` of the table.
fn load_segment(
    shared: &MlfShared,
    file: &LabelFile,
    first: usize,
    segment: Segment<'_>,
    buffer: &mut Vec<u8>,
) -> Outcome {
    let (mut lines, mut failures) = (Vec::new(), Vec::new());
    let result = load_utterances(shared, file, first, segment, buffer, &mut lines, &mut failures);
    Outcome { lines, failures, result }
}

fn load_utterances(
    shared: &MlfShared,
    file: &LabelFile,
    first: usize,
    segment: Segment<'_>,
    buffer: &mut Vec<u8>,
    lines: &mut Vec<Vec<String>>,
    failures: &mut Vec<(u32, Error)>,
) -> Result<()> {
    let Segment { positions, labels, mut classes, mut values } = segment;
    let span = |position: usize| {
        let Entry { offset, size, .. } = shared.table.entry(position);
        offset..offset + u64::from(size)
    };
    // Entries of an index are adjacent except for gaps; a cache with entries out of order is
    // rejected.
    let whole = span(positions.start).start..span(positions.end - 1).end;
    let size = (whole.end - whole.start) as usize;
    room::resize(buffer, size.max(buffer.len()), 0, room::FILE)?;
    let read = file.data.read_exact_at(whole.start, &mut buffer[..size]);
    file.data.if_unchanged(read)?;
    for (position, labels) in positions.zip(labels) {
        let Range { start, end } = span(position);
        let text = &buffer[(start - whole.start) as usize..(end - whole.start) as usize];
        let entry = shared.table.entry(position);
        let own_classes = classes.split_off_mut(..labels.frames as usize).unwrap_or_default();
        let boundaries = values.as_mut().and_then(|values| values.split_off_mut(..labels.frames as usize));
        if entry.frames > LONGEST {
            lines.push(vec![format!(
                "Cannot parse the utterance '{}': it has {} frames, but at most {LONGEST} are possible. Split it. (file {}, offset \
                 {start})",
                shared.corpus.text_of(entry.key),
                entry.frames,
                file.data.path()
            )]);
            continue;
        }
        let result = if file.is_binary {
            binary::utterance(text, file.version, shared.dim, own_classes).map(Ok)
        } else {
            let rules =
                parse::Rules { states: shared.states.as_ref(), dim: shared.dim, columns: shared.columns };
            parse::utterance(text, rules, Target { classes: own_classes, boundaries })
        };
        match result {
            Ok(Ok(())) => {}
            Ok(Err(invalid)) => {
                labels.frames = 0;
                lines.push(warnings(shared, &invalid, entry, file.data.path()));
            }
            Err(failure) => {
                let is_deferred = matches!(failure, Failure::Class { .. });
                let is_located = !is_deferred || failures.len() < LOCATED;
                let error = failed(&file.data, entry, shared.dim, failure, is_located);
                let error = error.for_key(shared.corpus.text_of(entry.key));
                if !is_deferred {
                    return Err(error);
                }
                labels.frames = 0;
                failures.push(((position - first) as u32, error));
            }
        }
    }
    Ok(())
}

/// Returns the warning about a skipped utterance, with its location; in CNTK's place its warnings.
fn warnings(shared: &MlfShared, invalid: &Invalid, entry: Entry, file: &str) -> Vec<String> {
    let key = shared.corpus.text_of(entry.key);
    let quote = if shared.frame_mode { "" } else { "'" };
    let place = format!("(file {file}, offset {})", entry.offset);
    let advice = "It is left out, and counts against the reader's ‹max_errors›. Fix or remove it.";
    let advice = shared.front_end.say(advice);
    if shared.front_end != FrontEnd::Cntk {
        return vec![format!("The utterance '{key}' {}. {advice} {place}", invalid.found())];
    }
    vec![invalid.reason(&key), format!("Cannot parse the utterance {quote}{key}{quote}. {advice} {place}")]
}

/// Returns the error of an utterance that cannot be parsed. If `is_located`, it includes the line
/// number, which requires counting the preceding lines.
pub(super) fn failed(file: &DataFile, entry: Entry, dim: u32, failure: Failure, is_located: bool) -> Error {
    let (error, at, is_text) = match failure {
        Failure::Line { flaw, at } => {
            let message = flaw.message(entry.offset + at as u64);
            (Error::data(message).as_cntk().with_detail(flaw.found()).with_detail(flaw.advice()), at, true)
        }
        Failure::Class { class, at, is_text } => {
            let message = format!("Class id '{class}d' exceeds the model output dimension '{dim}'.");
            let found = format!("A label has the class {class}, but ‹classes› is {dim}.");
            let detail = "Classes count from 0: set ‹classes› to their number, or correct the labels.";
            (Error::data(message).as_cntk().with_detail(found).with_detail(detail), at, is_text)
        }
        Failure::Runs { sum, at } => {
            let frames = entry.frames;
            let message =
                format!("The runs of an utterance have {sum} frames or more, the utterance has {frames}.");
            (Error::data(message).with_detail("The file is damaged: write the labels again."), at, false)
        }
        Failure::Short => {
            let message = "The runs of an utterance do not have the size recorded in the index.";
            (
                Error::data(message)
                    .with_detail("The file has changed while it was in use: open the reader again."),
                0,
                false,
            )
        }
    };
    let offset = entry.offset + at as u64;
    let line = if is_text && is_located { file.line_at(offset) } else { None };
    error.in_file(file.path()).at(offset, line)
}
