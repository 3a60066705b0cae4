//! Checks of a chunk: the parsers read it as they do for loading, but all findings are reported
//! with their lines, where loading stops at the first failure. No data is kept.

use super::parse::fast::FRONT;
use super::segment::{self, Scratch, Scratched};
use super::{TextFile, advice, unusual};
use crate::ctf::MAX_ERRORS;
use crate::ctf::index::SequenceSpan;
use crate::ctf::parse::cause::Cause;
use crate::ctf::parse::collect::Note;
use crate::ctf::parse::fold::fold;
use crate::ctf::parse::output::Column;
use crate::ctf::parse::report::Report;
use crate::ctf::parse::rules::{StreamRule, ends_name};
use cntk_reader_core::Result;
use cntk_reader_core::error::Location;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check::{
    ChunkCheck, CountedNote, Finding, RepeatFinder, Severity, StreamStatistics, UnknownName, repeated_index,
};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::stream::ElementType;
use rayon::prelude::*;
use std::ops::{Bound, Range};

/// Bytes searched for line breaks at once.
const BLOCK: usize = 1 << 20;

/// Maximum number of offsets whose lines are remembered.
const MAX_KNOWN: usize = 4096;

/// Detail of a finding about a sequence without a sample of a stream.
const NEEDS_SAMPLE: &str = "Each stream needs a sample in each sequence.";

/// Message about a legal id that CNTK reads only with further settings.
const TEXT_ID: &str = "The id of the sequence is text.";
const TEXT_ID_IN_CNTK: &str =
    "CNTK 2.7 itself reads such a file only if ‹max_malformed› is at least the number of its lines.";

impl TextFile {
    /// Checks a chunk and lists at most `most` findings.
    pub(super) fn check(&self, id: ChunkId, most: usize) -> ChunkCheck {
        let check = match self.element {
            ElementType::Double => self.check_as::<f64>(id, most),
            _ => self.check_as::<f32>(id, most),
        };
        check.unwrap_or_else(|error| {
            let mut check = ChunkCheck::default();
            check.push(error.in_file(&self.rules.file).into(), most);
            check
        })
    }

    fn check_as<T: Scratched>(&self, id: ChunkId, most: usize) -> Result<ChunkCheck> {
        let sequences = self.index.info(id).sequences;
        let shift = self.shift(id, sequences);
        let count = u64::from(sequences).div_ceil(1u64 << shift) as u32;
        let file = self.handle.get()?;
        let segments = (0..count)
            .into_par_iter()
            .map(carried(|segment| {
                self.check_segment::<T>(&file, id, self.range(sequences, shift, segment), most)
            }))
            .collect::<Result<Vec<_>>>();
        let segments = file.if_unchanged(segments)?;
        let mut check = ChunkCheck::default();
        segments.into_iter().for_each(|segment| check.append(segment, most));
        self.number_lines(&file, &mut check.findings);
        if let Some((finding, _)) = &mut check.text_ids {
            self.number_lines(&file, std::slice::from_mut(finding));
        }
        for (finding, _) in check.repeats.iter_mut().flatten() {
            self.number_lines(&file, std::slice::from_mut(finding));
        }
        let mut first: Vec<Finding> =
            check.notes.iter().map(|note| Finding::at(note.first.clone())).collect();
        self.number_lines(&file, &mut first);
        for note in &mut check.notes {
            let offset = note.first.offset;
            let numbered = first.iter().find(|finding| finding.location.offset == offset);
            note.first.line = numbered.and_then(|finding| finding.location.line);
        }
        self.explain_missing_names(&file, &mut check.findings);
        explain_ends(&file, &mut check.findings);
        Ok(check)
    }

    fn check_segment<T: Scratched>(
        &self,
        file: &DataFile,
        id: ChunkId,
        sequences: Range<u32>,
        most: usize,
    ) -> Result<ChunkCheck> {
        T::with_scratch(|scratch| {
            let (start, length) = self.read_segment(file, id, &sequences, scratch)?;
            let mut report = Report::collecting(&self.rules, most);
            let Scratch { text, output } = scratch;
            let spans = self.index.spans(id, sequences.clone());
            let continue_after = |_, output: &mut segment::Output<T>, report: &mut Report<'_>| {
                output.skip();
                report.tolerate_stop();
                Ok(())
            };
            // Never stops early: all failures are collected.
            let _stop = segment::parse_on(
                &self.rules,
                &self.fast,
                spans,
                (text, length, start),
                output,
                &mut report,
                continue_after,
            )?;
            let spans: Vec<SequenceSpan> = self.index.spans(id, sequences.clone()).collect();
            let whole = (&text[FRONT..FRONT + length], start);
            let unusual = unusual::look(&self.rules, &spans, whole, output, &mut report);
            let collected = report.take_collected();
            let streams = (0..).zip(&output.columns).map(|(stream, column)| {
                let rule = &self.rules.streams[stream];
                let samples = column.samples as u64;
                let whole = match rule.sparse {
                    true => column.indices.iter().max().map_or(0, |&index| index as u64 + 1),
                    false if samples > collected.shorter[stream] => rule.dim as u64,
                    false => 0,
                };
                let entries = |pair: &[u32]| pair[1] - pair[0];
                let single = column.offsets.windows(2).filter(|pair| entries(pair) == 1).count() as u64;
                let others = || column.values.iter().filter(|value| **value != T::from_u16(1)).count() as u64;
                StreamStatistics {
                    sequences: u64::from(output.sequences()) - output.skipped.len() as u64,
                    samples,
                    values: column.values.len().max(column.typed.len() / rule.element.size()) as u64,
                    dim: collected.dims[stream].max(whole),
                    shorter: collected.shorter[stream],
                    longer: collected.longer[stream],
                    least_index: column.indices.iter().min().map(|&index| index as u64),
                    single,
                    other_values: if rule.sparse { others() } else { 0 },
                }
            });
            let unknown_names = collected.unknown.names.iter().map(|(name, is_sparse)| UnknownName {
                name: String::from_utf8_lossy(name).into_owned(),
                is_sparse: *is_sparse,
            });
            let repeats = self.repeats(
                output,
                id,
                &sequences,
                (text.get(FRONT..FRONT + length).unwrap_or_default(), start),
            );
            Ok(ChunkCheck {
                findings: fold(collected.notes)
                    .iter()
                    .take(most)
                    .map(|note| self.finding(&report, note, id, &sequences))
                    .collect(),
                errors: collected.errors,
                warnings: collected.warnings,
                streams: streams.collect(),
                bytes: length as u64,
                unknown_names: unknown_names.collect(),
                notes: self.notes(unusual),
                text_ids: collected
                    .text_ids
                    .map(|(note, count)| (self.text_id(self.finding(&report, &note, id, &sequences)), count)),
                repeats,
            })
        })
    }

    /// By stream, returns the first sample with a repeated index and the number of such samples.
    /// `text` is the segment's text, and its offset in the file.
    fn repeats<T: Scratched>(
        &self,
        output: &segment::Output<T>,
        id: ChunkId,
        sequences: &Range<u32>,
        (text, start): (&[u8], u64),
    ) -> Vec<Option<(Finding, u64)>> {
        let mut finder = RepeatFinder::default();
        let in_stream = |(rule, column): (&StreamRule, &Column<T>)| {
            let mut found: Option<(usize, u64, u64)> = None;
            for (sample, pair) in column.offsets.windows(2).enumerate() {
                let entries = column.indices.get(pair[0] as usize..pair[1] as usize).unwrap_or_default();
                if let Some(index) = finder.find(entries.iter().map(|&index| index.max(0) as u64)) {
                    found.get_or_insert((sample, index, 0)).2 += 1;
                }
            }
            let (sample, index, count) = found?;
            let mut finding = repeated_index(&rule.name, index).in_file(&self.rules.file);
            // The last sequence that begins at or before this sample.
            let first =
                column.sequence_offsets.partition_point(|&first| first as usize <= sample).checked_sub(1)?;
            let within = sample - column.sequence_offsets[first] as usize;
            let number =
                sequences.start.checked_add(first as u32).filter(|number| *number < sequences.end)?;
            let span = self.index.spans(id, number..number + 1).next()?;
            let offset = span.offset.checked_sub(start).and_then(|offset| usize::try_from(offset).ok());
            let own = offset.and_then(|offset| text.get(offset..)).unwrap_or_default();
            let own = &own[..own.len().min(span.size as usize)];
            let place = sample_at(own, &rule.alias, within).unwrap_or(0);
            finding.location.offset = Some(span.offset + place as u64);
            finding.location.key = Some(self.rules.key_text(span.key));
            Some((finding, count))
        };
        self.rules.streams.iter().zip(&output.columns).map(in_stream).collect()
    }

    fn finding(&self, report: &Report<'_>, note: &Note, id: ChunkId, sequences: &Range<u32>) -> Finding {
        // Users look for a problem at the start of its sequence, or in its line. The parser notices
        // some problems after these.
        let offset = match note.cause {
            // Errors of this kind are counted at the start of the sequence.
            Cause::TooManySamples { .. } | Cause::TooFewSamples { .. } if note.is_error => note.offset,
            cause if cause.is_of_sequence() => self.sequence_before(id, sequences, note.offset),
            Cause::EmptyLine | Cause::CrowdedLine { .. } => note.offset.saturating_sub(1),
            _ => note.offset,
        };
        let severity = if note.is_error { Severity::Error } else { Severity::Warning };
        let mut finding = Finding::new(severity, report.message(note)).in_file(&self.rules.file);
        finding.detail = match note.cause {
            Cause::EmptyStream => NEEDS_SAMPLE.to_owned(),
            cause => cause.advice(),
        };
        finding.location.offset = Some(offset);
        finding.location.stream = note.context.stream.map(|stream| self.rules.streams[stream].name.clone());
        finding.location.key = Some(self.rules.key_text(note.context.key));
        finding
    }

    /// Counts the notes of a segment by kind and stream.
    fn notes(&self, found: Vec<unusual::Found>) -> Vec<CountedNote> {
        let mut notes = Vec::new();
        for (kind, offset, context) in found {
            let stream = context.stream.unwrap_or(0);
            let known = |note: &&mut CountedNote| (note.kind, note.stream) == (kind, stream);
            if let Some(known) = notes.iter_mut().find(known) {
                known.count += 1;
                continue;
            }
            let mut first = Location::in_file(&self.rules.file, Some(offset), None);
            first.stream = Some(self.rules.streams[stream].name.clone());
            first.key = Some(self.rules.key_text(context.key));
            notes.push(CountedNote { kind, stream, count: 1, first });
        }
        notes
    }

    /// Completes the finding that a file has textual ids: a note if they are accepted; otherwise a
    /// warning if all errors are tolerated, and an error if not.
    fn text_id(&self, mut finding: Finding) -> Finding {
        let is_tolerated = self.rules.max_errors >= MAX_ERRORS.into();
        finding.severity = match (self.rules.refuses_text_ids, is_tolerated) {
            (false, _) => Severity::Note,
            (true, true) => Severity::Warning,
            (true, false) => Severity::Error,
        };
        if !self.rules.refuses_text_ids {
            finding.message = TEXT_ID.to_owned();
            finding.detail = TEXT_ID_IN_CNTK.to_owned();
        }
        finding
    }

    /// If the whole file lacks samples of a stream, says so at the first sequence that lacks them,
    /// and lists the names of the first line without samples.
    fn explain_missing_names(&self, file: &DataFile, findings: &mut [Finding]) {
        let is_empty = |finding: &&mut Finding| finding.detail == Cause::EmptyLine.remedy();
        if let Some(first) = findings.iter_mut().find(is_empty) {
            let start = advice::start_of_line(file, first.location.offset.unwrap_or(0));
            let advice = advice::of_line_without_samples(file, &self.rules, start);
            if !advice.is_empty() {
                first.detail = advice;
            }
        }
        for (number, stream) in self.rules.streams.iter().enumerate() {
            let lacks = |finding: &&mut Finding| {
                finding.detail == NEEDS_SAMPLE && finding.location.stream.as_ref() == Some(&stream.name)
            };
            let Some(first) = findings.iter_mut().find(lacks) else { continue };
            if let Some(advice) =
                advice::of_missing_name(file, &self.rules, number).filter(|it| !it.is_empty())
            {
                first.detail = advice;
            }
        }
    }

    /// Returns the offset of the last sequence that begins before `offset`.
    fn sequence_before(&self, id: ChunkId, sequences: &Range<u32>, offset: u64) -> u64 {
        let start = |index: u32| self.index.spans(id, index..index + 1).next().map_or(0, |span| span.offset);
        let (mut low, mut high) = (sequences.start, sequences.end);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if start(middle) < offset { low = middle } else { high = middle }
        }
        start(low)
    }

    /// Sorts findings by their place in the file and sets their lines. The lines are left out if
    /// the file cannot be read again.
    fn number_lines(&self, file: &DataFile, findings: &mut [Finding]) {
        findings.sort_by_key(|finding| finding.location.offset);
        let offset_of = |finding: &Finding| finding.location.offset.unwrap_or(0);
        let Some(first) = findings.first().map(offset_of) else { return };
        let (mut at, mut breaks) = self.known_line(first);
        let Ok(mut buffer) = room::zeroed(BLOCK, room::FILE) else { return };
        for finding in findings {
            let offset = offset_of(finding);
            while at < offset {
                let size = (offset - at).min(BLOCK as u64) as usize;
                match file.read_at(at, &mut buffer[..size]) {
                    Ok(count) if count > 0 => {
                        breaks += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
                        at += count as u64;
                    }
                    _ => return,
                }
            }
            finding.location.line = Some(breaks + 1);
        }
        let mut known = self.known_lines.lock();
        if known.len() < MAX_KNOWN {
            known.insert(at, breaks);
        }
    }

    /// Returns the last offset up to `offset` whose line is known, and the number of line breaks
    /// before it.
    fn known_line(&self, offset: u64) -> (u64, u64) {
        let known = self.known_lines.lock();
        let before = known.range((Bound::Unbounded, Bound::Included(offset)));
        before.last().map_or((0, 0), |(&offset, &breaks)| (offset, breaks))
    }
}

/// Names characters that ended samples although they look like blanks or digits, in the first
/// findings of a chunk.
fn explain_ends(file: &DataFile, findings: &mut [Finding]) {
    /// Maximum number of findings that are explained; each one reads the file.
    const EXPLAINED: usize = 20;
    let [no_prefix, short] =
        [Cause::NoPrefix(0), Cause::ShortSample { dim: 0, values: 0 }].map(|cause| cause.remedy());
    let is_end = |finding: &&mut Finding| finding.detail == no_prefix || finding.detail == short;
    for finding in findings.iter_mut().filter(is_end).take(EXPLAINED) {
        let offset = finding.location.offset.unwrap_or(0);
        let advice = match finding.detail == no_prefix {
            true => advice::of_byte_before(file, offset),
            false => advice::of_byte_at(file, offset),
        };
        if !advice.is_empty() {
            finding.detail = advice;
        }
    }
}

/// Returns the offset of sample `number` (from 0) of the stream with this alias in the text of a
/// sequence.
fn sample_at(text: &[u8], alias: &[u8], number: usize) -> Option<usize> {
    let is_sample = |&pipe: &usize| {
        let rest = &text[pipe + 1..];
        rest.starts_with(alias) && rest.get(alias.len()).is_none_or(|&byte| ends_name(byte) || byte == b'\t')
    };
    memchr::memchr_iter(b'|', text).filter(is_sample).nth(number)
}
