//! The streams of a text file without a configuration: their names, whether they are sparse, and
//! their dimensions.

use super::check::{CheckOptions, CheckProgress, CheckSummary};
use super::inspector::Inspector;
use cntk_reader::language::{self, Config, CtfDeserializer, ReaderOptions, Section};
use cntk_reader_core::file::{DataFile, address};
use cntk_reader_core::format::check::{Finding, Severity, StreamStatistics};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::build;
use cntk_reader_text::ctf::MAX_ERRORS;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

/// The streams of a text file.
///
/// A file in CNTK's text format does not declare its streams. [`TextOutline::of_sample`] reads some
/// parts of the file, [`TextOutline::complete`] all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextOutline {
    /// Path of the file.
    pub path: String,
    /// The streams, in the order in which they were found.
    pub streams: Vec<OutlineStream>,
    /// Whether lines begin with ids. Otherwise every line is a sequence.
    pub has_ids: bool,
    /// Whether the ids are numbers.
    pub numeric_keys: bool,
    /// Whether the whole file was read.
    pub is_complete: bool,
}

/// A stream of a [`TextOutline`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineStream {
    /// Its name. It differs from the name in the file if an earlier stream has the same name apart
    /// from upper and lower case: `x` and `X` are one stream in configurations.
    pub name: String,
    /// Its name in the file.
    pub alias: String,
    /// Dense or sparse: sparse samples are written as `index:value`.
    pub storage: Storage,
    /// The least dimension that fits the samples seen: the largest number of values of a dense
    /// sample, or the greatest index of sparse samples plus 1. At least 1.
    pub dim: usize,
    /// Statistics of the samples seen.
    pub seen: StreamStatistics,
}

/// A stream in the sampled parts of a file.
#[derive(Default)]
struct SampledStream {
    name: String,
    is_sparse: bool,
    /// The greatest index of sparse samples.
    greatest: usize,
    sparse_samples: u64,
    entries: u64,
    /// The number of dense samples by their number of values.
    counts: BTreeMap<usize, u64>,
    /// The number of sequences that have it, and the number of the last such sequence.
    sequences: u64,
    last: u64,
}

impl SampledStream {
    /// Returns the number of values that most dense samples have; a longer sample is an error, not
    /// the dimension. Without a majority, returns the greatest number.
    fn dense_dim(&self) -> usize {
        let all: u64 = self.counts.values().sum();
        let most = self.counts.iter().max_by_key(|&(_, count)| count);
        let greatest = self.counts.last_key_value().map_or(0, |(&dim, _)| dim);
        most.filter(|&(_, &count)| count > all / 2).map_or(greatest, |(&dim, _)| dim)
    }

    fn stream(&self) -> OutlineStream {
        let (storage, dim) = match self.is_sparse {
            true => (Storage::SparseCsc, self.greatest.saturating_add(1).min(ANY_DIM)),
            false => (Storage::Dense, self.dense_dim()),
        };
        let dense = self.counts.iter().map(|(&values, &samples)| (values as u64, samples));
        let seen = StreamStatistics {
            sequences: self.sequences,
            samples: self.sparse_samples + self.counts.values().sum::<u64>(),
            values: self.entries + dense.clone().map(|(values, samples)| values * samples).sum::<u64>(),
            dim: match storage {
                Storage::Dense => dense.map(|(values, _)| values).max().unwrap_or(0),
                _ => dim as u64,
            },
            ..StreamStatistics::default()
        };
        OutlineStream { name: self.name.clone(), alias: self.name.clone(), storage, dim: dim.max(1), seen }
    }
}

/// The contents of the sampled parts of a file.
#[derive(Default)]
struct FileSample {
    streams: Vec<SampledStream>,
    sequences: u64,
    /// The id of the last line.
    id: Vec<u8>,
}

/// Number of parts in a sample of a file, and bytes of each.
const PLACES: u64 = 32;
const PLACE: usize = 64 << 10;

/// Bytes at the start of the file that are sampled as well.
const BEGINNING: usize = 1 << 20;

/// Bytes of a chunk if only a few sequences are read.
const SMALL_CHUNK: u64 = 1 << 20;

/// The greatest possible dimension of a sparse stream.
const ANY_DIM: usize = i32::MAX as usize;

/// Maximum number of times a file is read again because its samples are longer than expected.
const ROUNDS: u32 = 8;

impl TextOutline {
    /// Reads the beginning of a file and parts from all over it.
    pub fn of_sample(path: &str) -> Result<TextOutline> {
        let file = DataFile::open(path)?;
        let size = file.size()?;
        let mut outline = TextOutline {
            path: path.to_owned(),
            streams: Vec::new(),
            has_ids: false,
            numeric_keys: true,
            is_complete: size <= BEGINNING as u64,
        };
        let mut buffer = vec![0; BEGINNING];
        let count = file.read_at(0, &mut buffer)?;
        let text = &buffer[..count];
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        outline.see_start(text);
        let mut sample = FileSample::default();
        sample.see(text, true, count as u64 == size);
        if size > BEGINNING as u64 {
            for place in 1..=PLACES {
                let offset = (size - PLACE as u64) / PLACES * place;
                let count = file.read_at(offset, &mut buffer[..PLACE])?;
                sample.see(&buffer[..count], false, offset + count as u64 >= size);
            }
        }
        // A name that few sequences have is an error, or a stream that cannot be read from this
        // file alone: each sequence needs a sample of each stream.
        let is_common = |stream: &&SampledStream| stream.sequences > sample.sequences / 2;
        outline.streams = sample.streams.iter().filter(is_common).map(SampledStream::stream).collect();
        outline.rename_alike();
        if outline.streams.is_empty() {
            let message = format!("The file '{path}' has no streams in the part that was looked at.");
            return Err(Error::data(message)
                .with_detail(
                    "A line of a text file has samples that begin with '|' and the name of a stream.",
                )
                .in_file(path));
        }
        if let Some(stream) = outline.streams.iter().find(|stream| !stream.name.is_ascii()) {
            let message = format!("Samples of '{path}' are named '{}'.", stream.name);
            return Err(Error::data(message)
                .with_detail("Names of samples are ASCII only: rename them in the file.")
                .in_file(path));
        }
        Ok(outline)
    }

    /// Renames streams whose names in the file differ only in upper and lower case.
    fn rename_alike(&mut self) {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let in_file: BTreeSet<String> =
            self.streams.iter().map(|stream| stream.alias.to_lowercase()).collect();
        for stream in &mut self.streams {
            let mut number = 1;
            while !taken.insert(stream.name.to_lowercase()) {
                number += 1;
                stream.name = format!("{}{number}", stream.alias);
                // Skip names that another stream has in the file.
                while in_file.contains(&stream.name.to_lowercase()) {
                    number += 1;
                    stream.name = format!("{}{number}", stream.alias);
                }
            }
        }
    }

    /// Returns notes about the renamed streams.
    pub(super) fn notes(&self) -> impl Iterator<Item = Finding> + '_ {
        self.streams.iter().filter(|stream| stream.name != stream.alias).map(|stream| {
            let OutlineStream { name, alias, .. } = stream;
            let message = format!(
                "Samples named '{alias}' are read as the stream '{name}': another name differs from it only in upper and lower case."
            );
            let mut note = Finding::new(Severity::Note, message).in_file(&self.path);
            note.detail = "Names of streams that differ in case alone are one name in a configuration: rename one in the file, or give \
                           it another name by ‹alias›."
                .to_owned();
            note
        })
    }

    /// Determines from the first line whether there are ids, and whether they are numbers.
    fn see_start(&mut self, text: &[u8]) {
        let text = text.trim_ascii_start();
        let word = text.split(|byte| byte.is_ascii_whitespace() || *byte == b'|').next().unwrap_or_default();
        self.has_ids = !word.is_empty();
        // "1089-134686-0000" is text; "0.0" and "1:" are erroneous numbers.
        let is_text = |&byte: &u8| byte.is_ascii_alphabetic() || b"-_/".contains(&byte);
        self.numeric_keys = !self.has_ids || (word[0].is_ascii_digit() && !word.iter().any(is_text));
    }

    /// Returns a deserializer for these streams.
    pub fn deserializer(&self) -> CtfDeserializer {
        self.with_dims(|stream| stream.dim)
    }

    /// Returns a deserializer for these streams that accepts any index in sparse streams.
    pub(super) fn with_any_dim(&self) -> CtfDeserializer {
        self.with_dims(|stream| if stream.storage == Storage::Dense { stream.dim } else { ANY_DIM })
    }

    /// Sets the dimension of a stream, if it is sparse.
    pub(super) fn set_sparse_dim(&mut self, name: &str, dim: usize) {
        let found = self.streams.iter_mut().find(|stream| stream.name == name);
        if let Some(stream) = found.filter(|stream| stream.storage != Storage::Dense) {
            stream.dim = dim.min(ANY_DIM);
        }
    }

    fn with_dims(&self, dim: impl Fn(&OutlineStream) -> usize) -> CtfDeserializer {
        let path = address::exact(&self.path);
        self.streams.iter().fold(CtfDeserializer::new(Path::new(&path)), |ctf, stream| {
            let ctf = match stream.storage {
                Storage::Dense => ctf.dense(&stream.name, dim(stream)),
                _ => ctf.sparse(&stream.name, dim(stream)),
            };
            if stream.name == stream.alias { ctf } else { ctf.alias(&stream.alias) }
        })
    }

    /// Returns the non-default options that a reader of the file needs.
    pub fn options(&self) -> ReaderOptions {
        let options = ReaderOptions::new();
        if self.numeric_keys { options } else { options.numeric_keys(false) }
    }

    /// Returns a deserializer for reading single sequences before the whole file was read: it
    /// accepts any index in sparse streams, has small chunks, and tolerates errors.
    pub fn lenient_deserializer(&self) -> CtfDeserializer {
        self.with_any_dim().max_errors(MAX_ERRORS).strict_sequences(false).chunk_size(SMALL_CHUNK)
    }

    /// Reads the whole file with the engine's parser. Returns the completed outline, the data, and
    /// the summary of the check; `listener` gets the findings, as in [`Inspector::check`].
    ///
    /// The dimension of a sparse stream fits its greatest index. The dimension of a dense stream is
    /// the number of values of most of its samples; other samples are errors. Names that only few
    /// sequences have belong to no stream.
    ///
    /// A file that cannot be indexed is a finding, and an error of the inspector's member; the
    /// outline stays the same.
    ///
    /// `progress` is called several times a second; bytes restart from 0 if the file has to be read
    /// again because most samples are longer than in the outline.
    pub fn complete(
        mut self,
        options: &CheckOptions,
        listener: &mut dyn FnMut(Finding) -> ControlFlow<()>,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<(TextOutline, Inspector, CheckSummary)> {
        for round in 1.. {
            let data = self.open(&self.with_any_dim())?;
            if data.members().iter().any(|member| member.error().is_some()) {
                let summary = data.check(options, listener, progress)?;
                return Ok((self, data, summary));
            }
            let mut findings = Vec::new();
            let mut keep = |finding| {
                findings.push(finding);
                ControlFlow::Continue(())
            };
            let summary = data.check(options, &mut keep, progress)?;
            let has_changed = self.learn(&data, &summary);
            if !has_changed || round == ROUNDS {
                self.is_complete = summary.is_complete;
                let words = FrontEnd::default();
                let notes: Vec<_> = self.notes().map(|note| note.in_words_of(words)).collect();
                let mut summary = summary;
                summary.notes += notes.len() as u64;
                let _ = findings.into_iter().chain(notes).try_for_each(listener);
                return Ok((self, data, summary));
            }
        }
        Err(Error::internal("an outline without an end"))
    }

    fn open(&self, ctf: &CtfDeserializer) -> Result<Inspector> {
        let added = [Section::of_values("CtfDeserializer", &ctf.values()?)];
        let others = language::ExtensionTypes { added: &added, ..language::ExtensionTypes::default() };
        let settings = Config::default().with_options(&self.options(), others)?.settings(others)?;
        Inspector::open(&settings, &build::Extensions::default())
    }

    /// Adopts the results of a check. Returns whether the file has to be read again with the new
    /// dimensions.
    fn learn(&mut self, data: &Inspector, summary: &CheckSummary) -> bool {
        let mut has_changed = false;
        let streams = data.members().iter().flat_map(|member| member.streams());
        for (info, seen) in streams.zip(summary.streams.iter().flatten()) {
            let Some(stream) = self.streams.iter_mut().find(|stream| stream.name == info.name) else {
                continue;
            };
            let dim = (seen.dim.min(ANY_DIM as u64) as usize).max(1);
            stream.seen = *seen;
            let are_few = seen.longer <= seen.samples;
            if stream.storage != Storage::Dense {
                stream.dim = dim;
            } else if !are_few && dim > stream.dim {
                (stream.dim, has_changed) = (dim, true);
            }
        }
        has_changed
    }
}

impl FileSample {
    /// Counts the lines of a part of a file.
    fn see(&mut self, text: &[u8], at_start: bool, at_end: bool) {
        let begin = if at_start { 0 } else { memchr::memchr(b'\n', text).map_or(text.len(), |at| at + 1) };
        let end = if at_end { text.len() } else { memchr::memrchr(b'\n', text).map_or(begin, |at| at + 1) };
        for line in text[begin..end.max(begin)].split(|&byte| byte == b'\n') {
            let mut parts = line.split(|&byte| byte == b'|');
            let id = parts.next().unwrap_or_default().trim_ascii();
            for (number, sample) in parts.enumerate() {
                if number == 0 && (id.is_empty() || id != self.id) {
                    self.sequences += 1;
                    self.id = id.to_owned();
                }
                self.see_sample(sample);
            }
        }
    }

    fn see_sample(&mut self, sample: &[u8]) {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let mut words = sample.split(is_blank).filter(|word| !word.is_empty());
        let begins_with_name = sample.first().is_some_and(|byte| !is_blank(byte) && *byte != b'#');
        let name = words.next().filter(|_| begins_with_name).and_then(|name| std::str::from_utf8(name).ok());
        let Some(name) = name else { return };
        let (mut values, mut greatest) = (0, None);
        for word in words {
            values += 1;
            if let Some(colon) = memchr::memchr(b':', word) {
                let index = std::str::from_utf8(&word[..colon]).ok().and_then(|index| index.parse().ok());
                greatest = greatest.max(Some(index.unwrap_or(0usize)));
            }
        }
        let known = self.streams.iter().position(|stream| stream.name == name);
        let place = known.unwrap_or_else(|| {
            self.streams.push(SampledStream { name: name.to_owned(), ..SampledStream::default() });
            self.streams.len() - 1
        });
        let stream = &mut self.streams[place];
        if stream.last != self.sequences {
            stream.last = self.sequences;
            stream.sequences += 1;
        }
        match greatest {
            Some(index) => {
                stream.is_sparse = true;
                stream.greatest = stream.greatest.max(index);
                stream.sparse_samples += 1;
                stream.entries += values as u64;
            }
            None => *stream.counts.entry(values).or_default() += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outlines of a file with this text: from a sample, and complete.
    fn outlines(text: &str) -> [TextOutline; 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        std::fs::write(&path, text).expect("writing");
        let sampled = TextOutline::of_sample(path.to_str().expect("a path")).expect("an outline");
        let complete = sampled.clone().complete(
            &CheckOptions::default(),
            &mut |_| ControlFlow::Continue(()),
            &mut |_| (),
        );
        [sampled, complete.expect("an outline").0]
    }

    fn streams(outline: &TextOutline) -> Vec<(&str, Storage, usize)> {
        outline.streams.iter().map(|stream| (stream.name.as_str(), stream.storage, stream.dim)).collect()
    }

    #[test]
    fn streams_are_those_that_most_sequences_have() {
        let text = "1 |x 1 2 3 |y 3:1\n1 |x 1 2 3\n2 |x 1 2 3 |y 7:1 |# comment |odd 5\n3 |x 4 5 |y 1:1\n\
                    4 |x 1 2 3 |y\n5 |x 1 2 3 4 |y 0:1 2:1\n";
        for outline in outlines(text) {
            assert_eq!(streams(&outline), [("x", Storage::Dense, 3), ("y", Storage::SparseCsc, 8)]);
            assert!(outline.has_ids && outline.numeric_keys);
        }
    }

    #[test]
    fn ids_are_numbers_or_text_or_none() {
        let kinds = [("|x 1\n", (false, true)), ("\n 7 |x 1\n", (true, true)), ("a7 |x 1\n", (true, false))];
        for (text, expected) in kinds {
            let [outline, _] = outlines(text);
            assert_eq!((outline.has_ids, outline.numeric_keys), expected, "{text}");
        }
    }

    /// A sample does not show everything: the line with 777 lies between two of its parts.
    #[test]
    fn complete_outline_reads_the_whole_file() {
        let mut text = "|x 1 2 |y 3:1\n".repeat(400_000);
        text.insert_str(14 * 107_000, "|x 1 2 |y 777:1\n");
        let [sampled, complete] = outlines(&text);
        assert_eq!(streams(&sampled)[1], ("y", Storage::SparseCsc, 4));
        assert_eq!(streams(&complete)[1], ("y", Storage::SparseCsc, 778));
        assert_eq!(complete.streams[1].seen.samples, 400_001);
        assert!(complete.is_complete && !sampled.is_complete);
        // Most samples are longer than those in the sampled parts.
        let text = "|x 1 2\n".repeat(160_000) + &"|x 1 2 3\n".repeat(300_000);
        let [_, complete] = outlines(&text);
        assert_eq!(streams(&complete), [("x", Storage::Dense, 3)]);
    }

    #[test]
    fn files_in_other_formats_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        for (text, expected) in [("1,2,3\n", "has no streams"), ("|größe 1 2\n", "are named 'größe'.")] {
            std::fs::write(&path, text).expect("writing");
            let error = TextOutline::of_sample(path.to_str().expect("a path")).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
