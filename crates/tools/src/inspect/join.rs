//! Compares deserializers by key, to find sequences that only one has, and lengths that differ.

use super::inspector::Inspector;
use cntk_reader_core::Result;
use cntk_reader_core::format::check::{Finding, Severity, StreamStatistics};
use cntk_reader_core::format::{Deserializer, InFrameMode};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_engine::compose::bundle::{Fit, FramePair, frame_modes, unequal_lengths};
use cntk_reader_engine::pack::Packing;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Compares each deserializer with the primary, if they could be opened.
pub(super) fn compare(
    inspector: &Inspector,
    listener: &mut dyn FnMut(Finding) -> ControlFlow<()>,
) -> Result<()> {
    let members: Vec<(&str, &Arc<dyn Deserializer>)> =
        inspector.members().iter().filter_map(|member| Some((member.name(), member.opened()?))).collect();
    let Some(((primary_name, primary), secondaries)) = members.split_first() else { return Ok(()) };
    let tables: Vec<_> = members.iter().map(|(_, table)| &***table).collect();
    let modes = frame_modes(&tables);
    for ((name, secondary), &mode) in secondaries.iter().zip(&modes[1..]) {
        let pair = Pair {
            inspector,
            primary_name,
            primary: &***primary,
            name,
            secondary: &***secondary,
            is_comparable: modes[0] != InFrameMode::Whole && mode != InFrameMode::Whole,
            frames: FramePair::new(&***primary, &***secondary, [modes[0], mode]),
        };
        // The first search may sort all keys: run it on the pool.
        inspector.pool.install(|| secondary.prepare_to_find())?;
        if pair.compare(listener)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Finds streams that frame mode cannot deliver: those of deserializers whose sequences are not
/// split into frames, with several samples per sequence.
pub(super) fn several_samples(inspector: &Inspector, streams: &[Vec<StreamStatistics>]) -> Vec<Finding> {
    if inspector.settings.packing != Packing::Frame {
        return Vec::new();
    }
    let members: Vec<_> = inspector
        .members()
        .iter()
        .zip(streams)
        .filter_map(|(member, seen)| Some((member.name(), &**member.opened()?, seen)))
        .collect();
    let tables: Vec<_> = members.iter().map(|&(_, table, _)| table).collect();
    let mut findings = Vec::new();
    for ((name, table, seen), mode) in members.into_iter().zip(frame_modes(&tables)) {
        let refused = |(stream, seen): &(&StreamInfo, &StreamStatistics)| {
            !stream.is_binary && seen.samples > seen.sequences
        };
        if mode != InFrameMode::Whole || table.sequence_facts().is_expanded {
            continue;
        }
        findings.extend(table.streams().iter().zip(seen).filter(refused).map(|(stream, seen)| {
            let message = format!(
                "The stream '{}' has sequences of several samples: {} samples in {} sequences.",
                stream.name, seen.samples, seen.sequences
            );
            let mut finding = Finding::new(Severity::Error, message).in_file(name);
            "Frame mode needs sequences of one sample: reading fails at the first one that has several. Give each line an id \
             of its own, or remove ‹frame_mode›."
                .clone_into(&mut finding.detail);
            finding.location.stream = Some(stream.name.clone());
            finding
        }));
    }
    findings
}

/// Number of sequences with different lengths that are listed before further ones are only counted.
/// In many corpora all lengths differ, such as words with one label per sequence.
const NOTED: u64 = 10;

/// The primary and another deserializer.
struct Pair<'a> {
    inspector: &'a Inspector,
    primary_name: &'a str,
    primary: &'a dyn Deserializer,
    name: &'a str,
    secondary: &'a dyn Deserializer,
    /// Whether both should have equal numbers of samples.
    is_comparable: bool,
    /// How their frames are paired in frame mode.
    frames: FramePair,
}

impl Pair<'_> {
    fn compare(&self, listener: &mut dyn FnMut(Finding) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        let mut used = UsedSequences::new(self.secondary)?;
        let mut own = Vec::new();
        let mut notes = 0u64;
        for chunk in 0..self.primary.chunks().len() as ChunkId {
            own.clear();
            self.primary.list(chunk, &mut own)?;
            for sequence in &own {
                let finding = match self.secondary.matching(sequence)? {
                    None => Some(self.lacking(sequence.key)),
                    Some((id, samples)) => {
                        used.mark(id);
                        let differs =
                            samples != sequence.samples && !self.secondary.sequence_facts().is_expanded;
                        differs.then(|| self.unequal(sequence.key, sequence.samples, samples))
                    }
                };
                let is_note = finding.as_ref().is_some_and(|finding| finding.severity == Severity::Note);
                notes += u64::from(is_note);
                if is_note && notes > NOTED {
                    continue;
                }
                if finding.is_some_and(|finding| listener(finding).is_break()) {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        if notes > NOTED && listener(self.others(notes - NOTED)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut keys = Vec::with_capacity(1);
        for id in used.others() {
            keys.clear();
            self.secondary.keys(&[id], &mut keys);
            let unused = keys.first().map(|&key| self.unused(key));
            if unused.is_some_and(|finding| listener(finding).is_break()) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finding(&self, severity: Severity, file: &str, key: u64, message: String, detail: &str) -> Finding {
        let mut finding = Finding::new(severity, message).in_file(file).for_key(self.inspector.key_text(key));
        detail.clone_into(&mut finding.detail);
        finding
    }

    fn lacking(&self, key: u64) -> Finding {
        let message =
            format!("'{}' lacks this sequence of '{}', which is dropped.", self.name, self.primary_name);
        let detail = "Sequences are joined by key: each deserializer must have the keys of the first one.";
        self.finding(Severity::Warning, self.primary_name, key, message, detail)
    }

    fn unused(&self, key: u64) -> Finding {
        let message =
            format!("'{}' lacks this sequence of '{}', which is not used.", self.primary_name, self.name);
        let detail =
            "Sequences are joined by key: those that the first deserializer does not have are never read.";
        self.finding(Severity::Warning, self.name, key, message, detail)
    }

    fn others(&self, count: u64) -> Finding {
        let message = format!(
            "{count} more sequences have different numbers of samples in '{}' and '{}'.",
            self.name, self.primary_name
        );
        Finding::new(Severity::Note, message).in_file(self.name)
    }

    fn unequal(&self, key: u64, expected: u32, samples: u32) -> Finding {
        let message = unequal_lengths(self.name, samples, self.primary_name, expected);
        let (severity, detail) = match self.inspector.settings.packing {
            Packing::Truncated { .. } => (
                Severity::Error,
                "Truncated minibatches need equal lengths: reading fails where this sequence begins.",
            ),
            Packing::Frame => self.in_frame_mode(expected, samples),
            _ if self.is_comparable => (Severity::Warning, "They are delivered as they are."),
            _ => (Severity::Note, "They are delivered as they are."),
        };
        self.finding(severity, self.name, key, message, detail)
    }

    /// Severity and detail for sequences of different lengths in frame mode.
    fn in_frame_mode(&self, frames: u32, samples: u32) -> (Severity, &'static str) {
        let fit = self.frames.fit(frames, samples);
        match fit {
            Fit::Fits => (Severity::Note, "Each frame gets the whole sequence."),
            Fit::Shared => (Severity::Note, "Each frame gets this one sample."),
            Fit::EndsEarly => {
                (Severity::Warning, "Frames past the end of the shorter one are invalid sequences.")
            }
            Fit::Surplus => (Severity::Warning, "Samples past the end of the shorter one are not used."),
            Fit::NoFrame => (Severity::Warning, "Frame mode needs sequences of one sample."),
            Fit::TooFew | Fit::Unequal | Fit::Counted | Fit::FirstOnly => {
                (Severity::Error, fit.remedy().unwrap_or_default())
            }
        }
    }
}

/// The set of sequences of a deserializer that have a partner, one bit each.
struct UsedSequences<'a> {
    table: &'a dyn Deserializer,
    /// The position of the first sequence of each chunk.
    firsts: Vec<usize>,
    bits: Vec<u64>,
}

impl<'a> UsedSequences<'a> {
    fn new(table: &'a dyn Deserializer) -> Result<UsedSequences<'a>> {
        let mut total = 0;
        let first = |sequences: u32| {
            let first = total;
            total += sequences as usize;
            first
        };
        let firsts = table.chunks().iter().map(|chunk| chunk.sequences).map(first);
        let firsts = room::collect(firsts, room::INDEX)?;
        Ok(UsedSequences { table, firsts, bits: room::zeroed(total.div_ceil(64), room::INDEX)? })
    }

    fn mark(&mut self, id: SequenceId) {
        let known =
            self.table.chunks().get(id.chunk as usize).is_some_and(|chunk| id.index < chunk.sequences);
        if known {
            let position = self.firsts[id.chunk as usize] + id.index as usize;
            self.bits[position / 64] |= 1 << (position % 64);
        }
    }

    /// The unmarked sequences, in order.
    fn others(&self) -> impl Iterator<Item = SequenceId> + '_ {
        (0..).zip(self.table.chunks()).flat_map(move |(chunk, info)| {
            let first = self.firsts[chunk as usize];
            let is_unused = move |index: &u32| {
                let position = first + *index as usize;
                self.bits[position / 64] >> (position % 64) & 1 == 0
            };
            (0..info.sequences).filter(is_unused).map(move |index| SequenceId { chunk, index })
        })
    }
}
