//! Checks all data of an [`Inspector`], in parallel, and reports in the order of the data.

use super::inspector::{InspectedMember, Inspector};
use super::loaded::check_loaded;
use super::{join, notes};
use crate::Part;
use cntk_reader_core::Result;
use cntk_reader_core::format::check::{
    ChunkCheck, CountedNote, Finding, Severity, StreamStatistics, UnknownName, add_names, add_notes,
    add_repeats,
};
use cntk_reader_core::format::loading::{Load, Loads};
use cntk_reader_core::format::{Chunk, ChunkSource, Deserializer};
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::cancel::{self, carried};
use cntk_reader_core::runtime::helpers::Helpers;
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_engine::compose::bundle::check_names;
use cntk_reader_text::ctf::index::faults;
use rayon::prelude::*;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Scope and limits of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckOptions {
    /// Number of errors and warnings after which the check ends; `None`: no limit.
    pub most: Option<u64>,
    /// Whether the deserializers are compared by key, to find sequences that one of them lacks, and
    /// lengths that differ.
    pub join: bool,
    /// Approximate number of bytes of each file to check, in chunks from all over it; `None`: all.
    pub sample: Option<u64>,
    /// The part of each deserializer's chunks to check; `None`: all. The first part also compares
    /// the deserializers.
    pub part: Option<Part>,
}

impl Default for CheckOptions {
    fn default() -> CheckOptions {
        CheckOptions { most: None, join: true, sample: None, part: None }
    }
}

impl CheckOptions {
    /// Ends the check after this many errors and warnings.
    #[must_use]
    pub fn most(mut self, findings: u64) -> CheckOptions {
        self.most = Some(findings);
        self
    }

    /// Checks only chunks from all over each file, of about this many bytes in total, but at least
    /// one.
    #[must_use]
    pub fn sample(mut self, bytes: u64) -> CheckOptions {
        self.sample = Some(bytes);
        self
    }

    /// Checks only a part of the chunks.
    #[must_use]
    pub fn part(mut self, part: Part) -> CheckOptions {
        self.part = Some(part);
        self
    }

    /// Does not compare the deserializers by key.
    #[must_use]
    pub fn without_join(mut self) -> CheckOptions {
        self.join = false;
        self
    }
}

/// Progress of a check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckProgress {
    /// Bytes of files that were read.
    pub bytes: u64,
    /// Size of all files in bytes; 0 if no deserializer has a file of its own.
    pub total: u64,
}

/// The results of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckSummary {
    /// Number of errors.
    pub errors: u64,
    /// Number of warnings.
    pub warnings: u64,
    /// Number of notes.
    pub notes: u64,
    /// Bytes of files that were read.
    pub bytes: u64,
    /// Statistics of the samples: for each deserializer, by stream.
    pub streams: Vec<Vec<StreamStatistics>>,
    /// For each deserializer, the names in its file that no stream has.
    pub unknown_names: Vec<Vec<UnknownName>>,
    /// Whether everything was checked. A check ends early at the limit of findings, or if the
    /// listener breaks.
    pub is_complete: bool,
}

impl Inspector {
    /// Checks all data. `listener` gets the findings in the order of the data, deserializer by
    /// deserializer, on this thread; `Break` ends the check. `progress` is called several times a
    /// second.
    ///
    /// Deserializers that could not be opened are findings.
    pub fn check(
        &self,
        options: &CheckOptions,
        listener: &mut dyn FnMut(Finding) -> ControlFlow<()>,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<CheckSummary> {
        let total = self.members().iter().filter_map(InspectedMember::file_bytes).sum();
        let mut run = CheckRun {
            options,
            front_end: self.settings.front_end,
            listener,
            summary: CheckSummary::default(),
            ended: false,
            is_partial: false,
            text_ids: 0,
            repeats: Vec::new(),
            notes: Vec::new(),
            with_errors: HashSet::new(),
        };
        let streams = self.members().iter();
        let streams: Vec<_> = streams
            .flat_map(|member| member.streams().iter().map(|stream| (member.name(), stream)))
            .collect();
        if let Err(error) = check_names(&streams) {
            run.report([Finding::from(error)]);
        }
        for (number, member) in self.members().iter().enumerate() {
            let streams = vec![StreamStatistics::default(); member.streams().len()];
            run.summary.streams.push(streams);
            run.summary.unknown_names.push(Vec::new());
            if run.ended {
                continue;
            }
            run.text_ids = 0;
            run.notes.clear();
            match (member.error(), member.opened()) {
                (Some(error), _) => {
                    run.report([Finding::from(error.clone()).in_file(member.name())]);
                    let others = match run.ended {
                        true => Vec::new(),
                        false => faults::after(error, run.left())?,
                    };
                    run.report(others.into_iter().map(Finding::from));
                }
                (None, Some(opened)) => {
                    run.report(notes::of_format(self.settings.deserializers.get(number).map(|one| &**one)));
                    run.report(opened.diagnostics().remarks());
                    self.check_member(member, opened, &mut run, total, progress)?;
                    run.report_names(member);
                    run.report_text_ids(member.name());
                    run.report_repeats(member.name());
                    let seen = run.summary.streams.last().cloned().unwrap_or_default();
                    let member_options = self.settings.deserializers.get(number).map(|one| &**one);
                    let counted = std::mem::take(&mut run.notes);
                    let is_joined = self.members().len() > 1;
                    // These notes are about all samples.
                    if options.part.is_none_or(|part| part.parts() == 1) {
                        run.report(notes::of_member(member_options, member, &seen, &counted, is_joined));
                    }
                }
                (None, None) => {}
            }
        }
        if options.part.is_none_or(|part| part.parts() == 1) {
            run.report(join::several_samples(self, &run.summary.streams));
        }
        let is_first = options.part.is_none_or(|part| part.number() == 1);
        if options.join && is_first && !run.ended {
            join::compare(self, &mut |finding| {
                if !finding.location.key.as_ref().is_some_and(|key| run.with_errors.contains(key)) {
                    run.report([finding]);
                }
                if run.ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
        }
        run.summary.is_complete = !run.ended && !run.is_partial;
        Ok(run.summary)
    }

    /// Checks the chunks of one deserializer, a few at a time.
    fn check_member(
        &self,
        member: &InspectedMember,
        opened: &Arc<dyn Deserializer>,
        run: &mut CheckRun<'_>,
        total: u64,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<()> {
        let before = run.summary.bytes;
        let chunks = opened.chunks();
        let samples: u64 = chunks.iter().map(|chunk| chunk.samples).fold(0, u64::saturating_add).max(1);
        let mut seen = 0u64;
        let together = 2 * self.pool.threads();
        let step = match (run.options.sample, member.file_bytes()) {
            (Some(sample), Some(bytes)) => {
                usize::try_from(bytes / sample.max(1)).unwrap_or(usize::MAX).max(1)
            }
            _ => 1,
        };
        run.is_partial |= step > 1 && chunks.len() > 1;
        let own = match run.options.part {
            Some(part) => part.share(&chunks.iter().map(|chunk| chunk.samples).collect::<Vec<_>>()),
            None => 0..chunks.len(),
        };
        let looked_at: Vec<ChunkId> = own.step_by(step).map(|id| id as ChunkId).collect();
        let mut helpers = opened.facts().is_fetched.then(|| Helpers::new(self.pool.threads()));
        for ids in looked_at.chunks(together) {
            seen += ids.iter().map(|&id| chunks[id as usize].samples).sum::<u64>();
            let checked = self.check_chunks(opened, ids, run.left(), helpers.as_mut());
            // Cancelled reads are not errors of the data.
            cancel::check()?;
            for check in checked {
                let stated = check.bytes > 0;
                run.add(check, member.name());
                if !stated && let Some(bytes) = member.file_bytes() {
                    // The format does not know the size of its chunks: estimate it from their share
                    // of the samples.
                    run.summary.bytes =
                        before + (u128::from(bytes) * u128::from(seen) / u128::from(samples)) as u64;
                }
                if run.ended {
                    return Ok(());
                }
            }
            progress(CheckProgress { bytes: run.summary.bytes, total });
        }
        Ok(())
    }

    /// Checks these chunks in parallel. `helpers` is given for formats whose sequences are fetched.
    fn check_chunks(
        &self,
        source: &Arc<dyn Deserializer>,
        ids: &[ChunkId],
        most: usize,
        helpers: Option<&mut Helpers>,
    ) -> Vec<ChunkCheck> {
        let checked: Vec<Option<ChunkCheck>> = self.pool.install(|| {
            ids.par_iter().map(carried(|&id: &ChunkId| source.diagnostics().check(id, most))).collect()
        });
        if checked.iter().all(Option::is_some) {
            return checked.into_iter().flatten().collect();
        }
        let loads = Loads::of_this_call(Arc::clone(source) as Arc<dyn ChunkSource>, self.pool.clone());
        let started: Vec<Load> = ids.iter().map(|&id| loads.start(id)).collect();
        let loaded: Vec<Result<Arc<dyn Chunk>>> = started.iter().map(Load::wait).collect();
        drop((started, loads));
        loaded.iter().flatten().for_each(|chunk| chunk.warn());
        let source = &**source;
        let look = |chunk: Result<Arc<dyn Chunk>>, id, helpers: Option<&mut Helpers>| match chunk {
            Ok(chunk) => check_loaded(source, &self.corpus, id, &chunk, most, helpers),
            Err(error) => {
                let mut check = ChunkCheck::default();
                check.push(error.into(), most);
                check
            }
        };
        match helpers {
            // One chunk at a time: fetching a chunk already uses all threads, and memory.
            Some(helpers) => {
                loaded.into_iter().zip(ids).map(|(chunk, &id)| look(chunk, id, Some(helpers))).collect()
            }
            None => {
                let look = carried(|(chunk, &id)| look(chunk, id, None));
                self.pool.install(|| loaded.into_par_iter().zip(ids).map(look).collect())
            }
        }
    }
}

/// The state of a running check.
struct CheckRun<'a> {
    options: &'a CheckOptions,
    /// The front end whose option names findings use.
    front_end: FrontEnd,
    listener: &'a mut dyn FnMut(Finding) -> ControlFlow<()>,
    summary: CheckSummary,
    ended: bool,
    /// Whether some chunks are skipped.
    is_partial: bool,
    /// Number of lines of the current deserializer that begin with a text id.
    text_ids: u64,
    /// By stream of the current deserializer: the first sample that repeats an index, and the
    /// number of such samples.
    repeats: Vec<Option<(Finding, u64)>>,
    /// Counted notes of the current deserializer, reported at its end.
    notes: Vec<CountedNote>,
    /// Keys of sequences with errors, up to a limit: other lengths follow from these.
    with_errors: HashSet<String>,
}

/// Maximum number of sequences with errors that are remembered.
const MOST_WITH_ERRORS: usize = 100_000;

impl CheckRun<'_> {
    /// The number of findings that may still be reported.
    fn left(&self) -> usize {
        let reported = self.summary.errors + self.summary.warnings;
        self.options.most.map_or(usize::MAX, |most| most.saturating_sub(reported) as usize)
    }

    /// Reports findings, until the check ends.
    fn report(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            if self.ended {
                return;
            }
            if let (Severity::Error, Some(key)) = (finding.severity, &finding.location.key)
                && self.with_errors.len() < MOST_WITH_ERRORS
            {
                self.with_errors.insert(key.clone());
            }
            match finding.severity {
                Severity::Error => self.summary.errors += 1,
                Severity::Warning => self.summary.warnings += 1,
                Severity::Note => self.summary.notes += 1,
            }
            self.ended = (self.listener)(finding.in_words_of(self.front_end)).is_break() || self.left() == 0;
        }
    }

    /// Reports the names in the file that no stream of the current deserializer has.
    fn report_names(&mut self, member: &InspectedMember) {
        let names = self.summary.unknown_names.last().cloned().unwrap_or_default();
        let of_streams = member.streams().iter().map(|info| info.name.as_str());
        let all: Vec<&str> = of_streams.chain(names.iter().map(|other| other.name.as_str())).collect();
        self.report(names.iter().map(|unknown| {
            let name = &unknown.name;
            let alike = |other: &&&str| **other != name && other.eq_ignore_ascii_case(name);
            let similar = all.iter().find(alike).map_or_else(String::new, |other| {
                format!(" '{}' differs from it only in upper and lower case.", quoted(other.as_bytes()))
            });
            let message = format!(
                "Samples with the name '{}' are not read: no stream has this name.{similar}",
                quoted(name.as_bytes())
            );
            Finding::new(Severity::Note, message).in_file(member.name())
        }));
    }

    /// Reports the number of lines of the current deserializer that begin with a text id, if there
    /// are several.
    fn report_text_ids(&mut self, file: &str) {
        let count = std::mem::take(&mut self.text_ids);
        if count > 1 {
            let message = format!("{count} lines begin with an id that is text.");
            self.report([Finding::new(Severity::Note, message).in_file(file)]);
        }
    }

    /// Reports for each stream of the current deserializer the first sample that repeats an index,
    /// and the number of such samples.
    fn report_repeats(&mut self, file: &str) {
        let repeats = std::mem::take(&mut self.repeats);
        self.report(repeats.into_iter().flatten().map(|(mut finding, count)| {
            if count > 1 {
                finding.message += &format!(" This happens in {count} samples of the stream.");
            }
            finding.in_file(file)
        }));
    }

    /// Adds the results of a chunk of the current deserializer, and reports its findings.
    fn add(&mut self, check: ChunkCheck, file: &str) {
        if let Some(streams) = self.summary.streams.last_mut() {
            streams.iter_mut().zip(&check.streams).for_each(|(own, next)| own.add(next));
        }
        if let Some(names) = self.summary.unknown_names.last_mut() {
            add_names(names, check.unknown_names);
        }
        add_notes(&mut self.notes, check.notes);
        self.summary.bytes += check.bytes;
        if let Some((first, count)) = check.text_ids {
            if self.text_ids == 0 {
                self.report([first.in_file(file)]);
            }
            self.text_ids += count;
        }
        add_repeats(&mut self.repeats, check.repeats);
        self.report(check.findings.into_iter().map(|finding| finding.in_file(file)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Look;
    use cntk_reader::{CtfDeserializer, Reader, ReaderOptions};
    use cntk_reader_engine::reader::Epoch;
    use std::fmt::Write;

    /// Lines, some of them damaged in ways that reading tolerates.
    fn damaged(lines: u32) -> String {
        let mut text = String::new();
        for line in 0..lines {
            let _ = match line.wrapping_mul(2_654_435_761) >> 24 {
                0..3 => writeln!(text, "|x 1 2 |x a 3 |y 1:1"),
                3..5 => writeln!(text, "|x 1 |y 1:1"),
                5..8 => writeln!(text, "|x 1 2 |y 9:1 |y 4:2"),
                8..10 => writeln!(text, "|x 1 2 |y 3:1 |x 1 2 3"),
                _ => writeln!(text, "|x {line} 2 |y {}:1", line % 5),
            };
        }
        text
    }

    /// The check finds exactly the errors that reading counts: with that many errors tolerated
    /// reading succeeds, with one less it fails.
    #[test]
    fn errors_match_those_counted_by_reading() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        std::fs::write(&path, damaged(20_000)).expect("writing");
        let ctf = || CtfDeserializer::new(&path).dense("x", 2).sparse("y", 5).chunk_size(50_000);
        let builder = || Reader::builder().options(ReaderOptions::new().trace_level(0));
        let data = builder().ctf(ctf()).inspect().expect("data");
        let mut findings = Vec::new();
        let mut keep = |finding| {
            findings.push(finding);
            ControlFlow::Continue(())
        };
        let summary = data.check(&CheckOptions::default(), &mut keep, &mut |_| ()).expect("a summary");
        assert!(summary.is_complete && summary.errors > 200 && summary.warnings > 50, "{summary:?}");
        let of = |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
        assert_eq!((of(Severity::Error), of(Severity::Warning)), (summary.errors, summary.warnings));
        assert!(findings.is_sorted_by_key(|finding| finding.location.offset));
        assert!(findings.iter().all(|finding| {
            // Each line is a sequence, so its key is the line number counted from 0.
            let key = finding.location.key.as_deref().and_then(|key| key.parse::<u64>().ok());
            key.map(|key| key + 1) == finding.location.line
        }));
        let reads = |errors: u64| {
            let mut reader = builder().ctf(ctf().max_errors(errors as u32)).open().expect("a reader");
            let mut minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(1000)).expect("an epoch");
            minibatches.all(|minibatch| minibatch.is_ok())
        };
        assert_eq!([summary.errors - 1, summary.errors].map(reads), [false, true]);
        let streams = &summary.streams[0];
        assert_eq!((streams[0].dim, streams[1].dim), (3, 10));
        assert_eq!(streams[0].sequences, 20_000);
    }

    /// Returns the findings of a check of this text: line, severity, and beginning of the message.
    fn found(text: &str, options: ReaderOptions, errors: u32) -> Vec<(Option<u64>, Severity, String)> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        std::fs::write(&path, text).expect("writing");
        let ctf = CtfDeserializer::new(&path).dense("x", 1).max_errors(errors);
        let data = Reader::builder().options(options.trace_level(0)).ctf(ctf).inspect().expect("data");
        let mut found = Vec::new();
        let mut keep = |finding: Finding| {
            let message = finding.message.split(['.', '(']).next().unwrap_or_default();
            found.push((finding.location.line, finding.severity, message.to_owned()));
            ControlFlow::Continue(())
        };
        data.check(&CheckOptions::default(), &mut keep, &mut |_| ()).expect("a summary");
        found
    }

    #[test]
    fn ids_that_are_text_are_reported_once() {
        let text = "a |x 1\nb |x 2\nb |x 3\nc |x 4\n";
        let found = found(text, ReaderOptions::new().numeric_keys(false), 0);
        let expected =
            [(Some(1), "The id of the sequence is text"), (None, "4 lines begin with an id that is text")];
        assert_eq!(found, expected.map(|(line, text)| (line, Severity::Note, text.to_owned())));
    }

    /// The first sample of each stream is reported with its line, whatever its sequence; the others
    /// are counted.
    #[test]
    fn repeated_indices_are_noted_with_file_line_and_stream() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        let lines = [
            "0 |y 1:1 |s 2:1",
            "0 |s 1:1 0:2 |y 0:1",
            "0 |y 2:1 |s 3:1 0:1 3:2",
            "1 |s 4:1 4:1 |y 1:1",
            "2 |s 0:1 |y 1:1 1:0",
        ];
        std::fs::write(&path, lines.join("\n") + "\n").expect("writing");
        let ctf = CtfDeserializer::new(&path).sparse("s", 5).sparse("y", 5);
        let data = Reader::builder().ctf(ctf).inspect().expect("data");
        let mut found = Vec::new();
        let mut keep = |finding: Finding| {
            assert_eq!(finding.location.file.as_deref(), path.to_str());
            found.push((finding.location.line, finding.location.stream, finding.severity, finding.message));
            ControlFlow::Continue(())
        };
        let summary = data.check(&CheckOptions::default(), &mut keep, &mut |_| ()).expect("a summary");
        assert_eq!((summary.errors, summary.warnings, summary.notes), (0, 0, 2));
        let note = |line, stream: &str, message: &str| {
            (Some(line), Some(stream.to_owned()), Severity::Note, message.to_owned())
        };
        let first =
            "A sparse sample has the index 3 more than once. This happens in 2 samples of the stream.";
        let second = "A sparse sample has the index 1 more than once.";
        assert_eq!(found, [note(3, "s", first), note(5, "y", second)]);
    }

    #[test]
    fn all_errors_of_an_index_are_reported() {
        let large = "99999999999999999999999";
        let text = format!("1 |x 1\n{large} |x 2\n3 |x bad\n{large}1 |x 4\n");
        let message = "A sequence id is too large".to_owned();
        let expected = [2, 4].map(|line| (Some(line), Severity::Error, message.clone()));
        assert_eq!(found(&text, ReaderOptions::new(), 0), expected);
    }
}
