//! What a text file has, without a configuration: the names of its streams, dense or sparse, and their dimensions.

use super::check::{CheckOptions, CheckProgress, CheckSummary};
use super::inspector::Inspector;
use crate::file::DataFile;
use crate::stream::Storage;
use crate::{CtfDeserializer, Error, Reader, ReaderOptions, Result};
use std::ops::ControlFlow;

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
    /// Its name in the file.
    pub name: String,
    /// Dense or sparse: sparse samples are written as `index:value`.
    pub storage: Storage,
    /// The least dimension that the samples seen fit into: the most values of a dense sample, the greatest index and 1 of
    /// sparse ones. At least 1.
    pub dim: usize,
}

/// Places of the file that a sample consists of, and bytes of each.
const PLACES: u64 = 32;
const PLACE: usize = 64 << 10;

/// Bytes at the start of the file that a sample has.
const BEGINNING: usize = 1 << 20;

/// The greatest dimension that a sparse stream can have.
const ANY_DIM: usize = i32::MAX as usize;

/// How often a file is read again because a name or a longer sample turned up that no earlier reading had told of.
const ROUNDS: usize = 8;

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
        outline.see(text, true, count as u64 == size);
        if size > BEGINNING as u64 {
            for place in 1..=PLACES {
                let offset = (size - PLACE as u64) / PLACES * place;
                let count = file.read_at(offset, &mut buffer[..PLACE])?;
                outline.see(&buffer[..count], false, offset + count as u64 >= size);
            }
        }
        if outline.streams.is_empty() {
            let message = format!("The file '{path}' has no streams in the part that was looked at.");
            return Err(Error::data(message)
                .with_detail(
                    "A line of a text file has samples that begin with '|' and the name of a stream.",
                )
                .in_file(path));
        }
        Ok(outline)
    }

    /// Looks at the ids.
    fn see_start(&mut self, text: &[u8]) {
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        self.has_ids = first.is_some_and(|&byte| byte != b'|');
        self.numeric_keys = !self.has_ids || first.is_some_and(u8::is_ascii_digit);
    }

    /// Looks at the lines of a part of the file.
    fn see(&mut self, text: &[u8], at_start: bool, at_end: bool) {
        let begin = if at_start { 0 } else { memchr::memchr(b'\n', text).map_or(text.len(), |at| at + 1) };
        let end = if at_end { text.len() } else { memchr::memrchr(b'\n', text).map_or(begin, |at| at + 1) };
        for line in text[begin..end.max(begin)].split(|&byte| byte == b'\n') {
            for sample in line.split(|&byte| byte == b'|').skip(1) {
                self.see_sample(sample);
            }
        }
    }

    fn see_sample(&mut self, sample: &[u8]) {
        let mut words =
            sample.split(|&byte| matches!(byte, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty());
        let begins_with_name = sample.first().is_some_and(|&byte| !byte.is_ascii_whitespace());
        let Some(name) = words.next().filter(|name| begins_with_name && !name.starts_with(b"#")) else {
            return;
        };
        let Ok(name) = std::str::from_utf8(name) else { return };
        let (mut dense, mut sparse) = (0, None);
        for word in words {
            match memchr::memchr(b':', word) {
                None => dense += 1,
                Some(colon) => {
                    let index = std::str::from_utf8(&word[..colon]).ok().and_then(|index| index.parse().ok());
                    sparse = sparse.max(Some(index.unwrap_or(0usize)));
                }
            }
        }
        let (storage, dim) = match sparse {
            Some(index) => (Storage::SparseCsc, index.saturating_add(1).min(ANY_DIM)),
            None => (Storage::Dense, dense),
        };
        self.add(name, storage, dim);
    }

    fn add(&mut self, name: &str, storage: Storage, dim: usize) {
        match self.streams.iter_mut().find(|stream| stream.name == name) {
            // A sample without values is one of either kind.
            Some(stream) if stream.storage == storage || dim == 0 => stream.dim = stream.dim.max(dim),
            Some(stream) if stream.dim == 0 => (stream.storage, stream.dim) = (storage, dim),
            Some(stream) => stream.storage = Storage::SparseCsc,
            None => self.streams.push(OutlineStream { name: name.to_owned(), storage, dim }),
        }
    }

    /// The deserializer that reads these streams.
    pub fn deserializer(&self) -> CtfDeserializer {
        self.with_dims(|stream| stream.dim.max(1))
    }

    fn with_dims(&self, dim: impl Fn(&OutlineStream) -> usize) -> CtfDeserializer {
        self.streams.iter().fold(CtfDeserializer::new(&self.path), |ctf, stream| match stream.storage {
            Storage::Dense => ctf.dense(&stream.name, dim(stream)),
            _ => ctf.sparse(&stream.name, dim(stream)),
        })
    }

    /// The options that a reader of the file needs beside the defaults.
    pub fn options(&self) -> ReaderOptions {
        let options = ReaderOptions::new();
        if self.numeric_keys { options } else { options.numeric_keys(false) }
    }

    /// Opens the file.
    pub fn inspect(&self) -> Result<Inspector> {
        Reader::builder().options(self.options()).ctf(self.deserializer()).inspect()
    }

    /// Looks at the whole file with the engine's parser, and gives the outline with the dimensions that all samples fit into, and
    /// what the check of the file has found.
    ///
    /// `progress` is called several times a second; bytes begin anew where the file has to be read again, because it has
    /// names or longer samples that the outline did not have.
    pub fn complete(
        mut self,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<(TextOutline, Inspector, CheckSummary)> {
        let mut rounds = ROUNDS;
        loop {
            let any = self.with_dims(|stream| match stream.storage {
                Storage::Dense => stream.dim.max(1),
                _ => ANY_DIM,
            });
            let data = Reader::builder().options(self.options()).ctf(any).inspect()?;
            let go_on = &mut |_| ControlFlow::Continue(());
            let summary = data.check(&CheckOptions::default(), go_on, progress)?;
            if let Some(error) = data.members().first().and_then(|member| member.error()) {
                return Err(error.clone());
            }
            let mut has_changed = false;
            let (Some(member), Some(seen)) = (data.members().first(), summary.streams.first()) else {
                return Err(Error::internal("a check without a deserializer"));
            };
            for (info, seen) in member.streams().iter().zip(seen) {
                let Some(stream) = self.streams.iter_mut().find(|stream| stream.name == info.name) else {
                    continue;
                };
                let dim = (seen.dim as usize).max(1);
                has_changed |= stream.storage == Storage::Dense && dim > stream.dim.max(1);
                stream.dim = dim;
            }
            for unknown in summary.unknown_names.iter().flatten() {
                has_changed = true;
                let storage = if unknown.is_sparse { Storage::SparseCsc } else { Storage::Dense };
                self.add(&unknown.name, storage, 1);
            }
            rounds -= 1;
            if !has_changed || rounds == 0 {
                self.is_complete = true;
                return Ok((self, data, summary));
            }
        }
    }
}
