//! What a text file has, without a configuration: the names of its streams, dense or sparse, and their dimensions.

use super::check::{CheckOptions, CheckProgress, CheckSummary};
use super::inspector::Inspector;
use cntk_reader::language::{self, Config, CtfDeserializer, ReaderOptions, Section};
use cntk_reader_core::file::{DataFile, address};
use cntk_reader_core::format::check::{Finding, Severity, StreamStatistics};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::build;
use cntk_reader_text::ctf::MOST_ERRORS;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

/// The streams that a text file has.
///
/// A file in CNTK's text format does not say which streams it has. [`TextOutline::of_sample`] looks at a few places of the
/// file, and [`TextOutline::complete`] at all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextOutline {
    /// Path of the file.
    pub path: String,
    /// The streams, in the order in which they were found.
    pub streams: Vec<OutlineStream>,
    /// Lines begin with ids. Otherwise every line is a sequence.
    pub has_ids: bool,
    /// The ids are numbers.
    pub numeric_keys: bool,
    /// The whole file was looked at.
    pub is_complete: bool,
}

/// A stream of a [`TextOutline`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutlineStream {
    /// Its name. It differs from the name in the file if that differs from the name of an earlier
    /// stream in upper and lower case only: `x` and `X` are one stream in configurations.
    pub name: String,
    /// Its name in the file.
    pub alias: String,
    /// Dense or sparse: sparse samples are written as `index:value`.
    pub storage: Storage,
    /// The least dimension that the samples seen fit into: the most values of a dense sample, the greatest index and 1 of
    /// sparse ones. At least 1.
    pub dim: usize,
    /// The samples that were looked at.
    pub seen: StreamStatistics,
}

/// What a sample says of a stream.
#[derive(Default)]
struct Sampled {
    name: String,
    is_sparse: bool,
    /// Of sparse samples, the greatest index.
    greatest: usize,
    sparse_samples: u64,
    entries: u64,
    /// Of dense samples, how many have this number of values.
    counts: BTreeMap<usize, u64>,
    /// Sequences that have it, and the number of the last one.
    sequences: u64,
    last: u64,
}

impl Sampled {
    /// The number of values that most dense samples have, or else the greatest: a sample that is too long is a mistake, not the
    /// dimension.
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

/// What a sample of a file has.
#[derive(Default)]
struct Sample {
    streams: Vec<Sampled>,
    sequences: u64,
    /// The id of the last line.
    id: Vec<u8>,
}

/// Places of the file that a sample consists of, and bytes of each.
const PLACES: u64 = 32;
const PLACE: usize = 64 << 10;

/// Bytes at the start of the file that a sample has.
const BEGINNING: usize = 1 << 20;

/// Bytes of a chunk where only a few sequences are looked at.
const SMALL_CHUNK: u64 = 1 << 20;

/// The greatest dimension that a sparse stream can have.
const ANY_DIM: usize = i32::MAX as usize;

/// How often a file is read again because its samples are longer than expected.
const ROUNDS: u32 = 8;

impl TextOutline {
    /// Looks at the beginning of a file and at places all over it.
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
        let mut sample = Sample::default();
        sample.see(text, true, count as u64 == size);
        if size > BEGINNING as u64 {
            for place in 1..=PLACES {
                let offset = (size - PLACE as u64) / PLACES * place;
                let count = file.read_at(offset, &mut buffer[..PLACE])?;
                sample.see(&buffer[..count], false, offset + count as u64 >= size);
            }
        }
        // A name that few sequences have is a mistake, or a stream that cannot be read from this file alone: each sequence needs
        // a sample of each stream.
        let is_common = |stream: &&Sampled| stream.sequences > sample.sequences / 2;
        outline.streams = sample.streams.iter().filter(is_common).map(Sampled::stream).collect();
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

    /// Gives streams whose names in the file differ in upper and lower case only names that differ.
    fn rename_alike(&mut self) {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let in_file: BTreeSet<String> =
            self.streams.iter().map(|stream| stream.alias.to_lowercase()).collect();
        for stream in &mut self.streams {
            let mut number = 1;
            while !taken.insert(stream.name.to_lowercase()) {
                number += 1;
                stream.name = format!("{}{number}", stream.alias);
                // A name that another stream has in the file is left to that one.
                while in_file.contains(&stream.name.to_lowercase()) {
                    number += 1;
                    stream.name = format!("{}{number}", stream.alias);
                }
            }
        }
    }

    /// Notes about the streams that do not have the names of the file.
    pub(super) fn notes(&self) -> impl Iterator<Item = Finding> + '_ {
        self.streams.iter().filter(|stream| stream.name != stream.alias).map(|stream| {
            let OutlineStream { name, alias, .. } = stream;
            let message = format!(
                "Samples named '{alias}' are read as the stream '{name}': another name differs from it in upper and lower case only."
            );
            let mut note = Finding::new(Severity::Note, message).in_file(&self.path);
            note.detail = "Names of streams that differ in case alone are one name in a configuration: rename one in the file, or give \
                           it another name by ‹alias›."
                .to_owned();
            note
        })
    }

    /// Looks at the ids.
    fn see_start(&mut self, text: &[u8]) {
        let text = text.trim_ascii_start();
        let word = text.split(|byte| byte.is_ascii_whitespace() || *byte == b'|').next().unwrap_or_default();
        self.has_ids = !word.is_empty();
        // "1089-134686-0000" is text; "0.0" and "1:" are numbers with a mistake.
        let is_text = |&byte: &u8| byte.is_ascii_alphabetic() || b"-_/".contains(&byte);
        self.numeric_keys = !self.has_ids || (word[0].is_ascii_digit() && !word.iter().any(is_text));
    }

    /// The deserializer that reads these streams.
    pub fn deserializer(&self) -> CtfDeserializer {
        self.with_dims(|stream| stream.dim)
    }

    /// The deserializer that reads these streams, however large the indices of sparse ones are.
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

    /// The options that a reader of the file needs beside the defaults.
    pub fn options(&self) -> ReaderOptions {
        let options = ReaderOptions::new();
        if self.numeric_keys { options } else { options.numeric_keys(false) }
    }

    /// The deserializer that reads these streams however large the indices of sparse ones are, in small chunks, and tolerates
    /// errors: to look at sequences before the whole file was looked at.
    pub fn lenient_deserializer(&self) -> CtfDeserializer {
        self.with_any_dim().max_errors(MOST_ERRORS).strict_sequences(false).chunk_size(SMALL_CHUNK)
    }

    /// Looks at the whole file with the engine's parser. Gives the outline as the whole file shows it, the data, and what the
    /// check of them has found; `listener` gets the findings, as [`Inspector::check`] gives them.
    ///
    /// The dimension of a sparse stream is what its greatest index needs. That of a dense stream is what most of its samples
    /// have; others are errors of the sample. Names that only few sequences have belong to no stream.
    ///
    /// A file that cannot be indexed is a finding, and an error of the inspector's member; the outline stays what it was.
    ///
    /// `progress` is called several times a second; bytes begin anew where the file has to be read again, because most samples
    /// are longer than the outline had them.
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
        let others = language::Others { added: &added, ..language::Others::default() };
        let settings = Config::default().with_options(&self.options(), others)?.settings(others)?;
        Inspector::open(&settings, &build::Others::default())
    }

    /// Takes over what a check has seen. Whether the file has to be read again with that.
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

impl Sample {
    /// Looks at the lines of a part of a file.
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
            self.streams.push(Sampled { name: name.to_owned(), ..Sampled::default() });
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

    /// What is found in a file with this text: by a sample, and by all of it.
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

    /// The places of a sample do not show everything: the line with 777 lies between two of them.
    #[test]
    fn all_of_a_file_is_looked_at_in_the_end() {
        let mut text = "|x 1 2 |y 3:1\n".repeat(400_000);
        text.insert_str(14 * 107_000, "|x 1 2 |y 777:1\n");
        let [sampled, complete] = outlines(&text);
        assert_eq!(streams(&sampled)[1], ("y", Storage::SparseCsc, 4));
        assert_eq!(streams(&complete)[1], ("y", Storage::SparseCsc, 778));
        assert_eq!(complete.streams[1].seen.samples, 400_001);
        assert!(complete.is_complete && !sampled.is_complete);
        // Most samples are longer than those that the sample of the file has.
        let text = "|x 1 2\n".repeat(160_000) + &"|x 1 2 3\n".repeat(300_000);
        let [_, complete] = outlines(&text);
        assert_eq!(streams(&complete), [("x", Storage::Dense, 3)]);
    }

    #[test]
    fn what_is_no_text_file_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        for (text, expected) in [("1,2,3\n", "has no streams"), ("|größe 1 2\n", "are named 'größe'.")] {
            std::fs::write(&path, text).expect("writing");
            let error = TextOutline::of_sample(path.to_str().expect("a path")).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
