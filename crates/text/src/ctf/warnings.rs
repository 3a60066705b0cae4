//! Warnings about the content of a text file: each kind is written once with its place, then
//! counted. During the first sweep each chunk reports its counts when it is loaded; a sweep in
//! which a count has doubled ends with a summary.
//!
//! At trace level 2 nothing is counted, and each warning is written as CNTK writes it.

use super::parse::report::{Line, WarningKind};
use super::parse::rules::Rules;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::{Level, has_doubled};
use cntk_reader_core::sequence::ChunkId;
use std::collections::BTreeMap;

/// Largest offset at which the place of a warning is given as a line; beyond it, counting lines
/// takes too long.
const COUNTED: u64 = 1 << 30;

/// Numbers of warnings by kind.
pub(super) type Counts = BTreeMap<WarningKind, u64>;

/// The warnings of a file.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<WarningState>);

#[derive(Debug, Default)]
struct WarningState {
    kinds: BTreeMap<WarningKind, KindTotal>,
    /// Whether a sweep has ended, after which chunks do not report their counts.
    is_summarized: bool,
}

#[derive(Debug)]
struct KindTotal {
    /// Place of the first one.
    place: String,
    count: u64,
    /// The count when it was last reported.
    reported: u64,
}

impl Warnings {
    /// Writes the lines of a segment, except those of counted kinds that the file already had.
    /// `counts` are the segment's counts; those that were not written are added to `in_chunk`, the
    /// counts of its chunk.
    pub fn write(
        &self,
        rules: &Rules,
        file: &DataFile,
        lines: Vec<Line>,
        counts: Vec<(WarningKind, u64)>,
        in_chunk: &mut Counts,
    ) {
        let mut first = Counts::new();
        for Line { level, text, counted } in lines {
            let Some((kind, offset, key)) = counted else {
                rules.log.write(level, &text);
                continue;
            };
            if self.0.lock().kinds.contains_key(&kind) {
                continue;
            }
            let line = (offset <= COUNTED).then(|| file.line_at(offset)).flatten();
            let place = match line {
                Some(line) => format!("line {line}"),
                None => format!("offset {offset}"),
            };
            // Another thread may have inserted it in the meantime.
            let mut state = self.0.lock();
            if state.kinds.contains_key(&kind) {
                continue;
            }
            state.kinds.insert(kind, KindTotal { place: place.clone(), count: 0, reported: 1 });
            drop(state);
            first.insert(kind, 1);
            let stream = kind
                .stream
                .map_or_else(String::new, |stream| format!(", stream {}", rules.streams[stream].name));
            let key = rules.key_text(key);
            rules.log.write(level, &format!("{text} (file {}, {place}{stream}, sequence {key})", rules.file));
        }
        let mut state = self.0.lock();
        for (kind, count) in counts {
            if let Some(total) = state.kinds.get_mut(&kind) {
                total.count += count;
            }
            *in_chunk.entry(kind).or_default() += count - first.get(&kind).copied().unwrap_or(0);
        }
    }

    /// Reports the warnings of a chunk that were not written.
    pub fn end_chunk(&self, rules: &Rules, chunk: ChunkId, counts: &Counts) {
        let state = self.0.lock();
        let reports = !state.is_summarized;
        drop(state);
        for (kind, &count) in counts.iter().filter(|(_, count)| reports && **count > 0) {
            let line = format!(
                "Chunk {chunk} of '{}' has {count} more {}. Set ‹trace_level = 2› to see each of them.",
                rules.file,
                shown(rules, kind)
            );
            rules.log.write(Level::Warning, &line);
        }
    }

    /// Reports all counts that have doubled since their last report.
    pub fn summarize(&self, rules: &Rules) {
        let mut state = self.0.lock();
        let mut lines = Vec::new();
        for (kind, total) in &mut state.kinds {
            if has_doubled(total.count, total.reported) {
                total.reported = total.count;
                lines.push(format!(
                    "'{}' had {} {} so far, the first in {}.",
                    rules.file,
                    total.count,
                    shown(rules, kind),
                    total.place
                ));
            }
        }
        state.is_summarized = true;
        drop(state);
        lines.iter().for_each(|line| rules.log.write(Level::Warning, line));
    }
}

fn shown(rules: &Rules, kind: &WarningKind) -> String {
    match kind.stream {
        Some(stream) => format!("{} in stream '{}'", kind.plural, rules.streams[stream].name),
        None => kind.plural.to_owned(),
    }
}
