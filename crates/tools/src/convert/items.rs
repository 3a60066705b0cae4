//! Converts CTF to CBF: reads text like the script `ctf2bin.py`, and writes the layout that CNTK
//! 2.7 reads.
//!
//! The script's rules differ from those of the text reader: ids are compared as text, a name
//! without values adds no sample, every `|` starts an item, even in a comment, and numbers are
//! rounded correctly.

use super::binary_writer::{BinaryStream, BinaryWriter};
use super::lines::Lines;
use super::output::Output;
use super::streams::StreamRule;
use super::{Listener, Progress, REPORT_EVERY, check_different, report};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::{Error, Result};

/// Input, output and options of [`text_to_binary`].
#[derive(Debug, Clone)]
pub struct TextToBinary {
    /// Path of the text file.
    pub input: String,
    /// Path of the binary file. An existing file is replaced.
    pub output: String,
    /// The streams, in their order in the binary file.
    pub streams: Vec<StreamRule>,
    /// Bytes of a chunk, by the script's estimate: a chunk ends with the sequence that reaches this
    /// size. With 0, every sequence is a chunk.
    pub chunk_size: u64,
    /// Type of all values.
    pub element: ElementType,
    /// Whether chunks are cut like the script's, for files that must be identical to its output.
    /// The script never resets its estimate, so every sequence after the first chunk becomes a
    /// chunk.
    pub ctf2bin_compatible: bool,
}

/// Converts a text file. Returns the number of sequences and the size of the file.
pub fn text_to_binary(options: &TextToBinary, listener: &mut Listener<'_>) -> Result<Progress> {
    let path = &options.input;
    let file = DataFile::open_text(path)?;
    check_different(&file, &options.output)?;
    let size = file.size()?;
    let mut writer = Writer::new(options)?;
    let mut input = Lines::new(&file)?;
    let mut progress = Progress { bytes: file.text_start(), total: size, sequences: 0 };
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        let count = input.read(&mut line)?;
        if count == 0 {
            break;
        }
        number += 1;
        writer.line(&line).map_err(|error| error.in_file(path).at(progress.bytes, Some(number)))?;
        let before = progress.bytes / REPORT_EVERY;
        progress.bytes += count as u64;
        if progress.bytes / REPORT_EVERY != before {
            report(listener, Progress { sequences: writer.binary.sequences(), ..progress })?;
        }
    }
    let (output, sequences) = writer.finish()?;
    progress.sequences = sequences;
    report(listener, progress)?;
    output.commit()?;
    Ok(progress)
}

struct Writer<'a> {
    options: &'a TextToBinary,
    binary: BinaryWriter,
    /// The script's estimate of the bytes of the open chunk and of the open sequence.
    estimate: u64,
    estimate_open: u64,
    /// Id of the open sequence; `None` before the first one.
    id: Option<Vec<u8>>,
    /// Index, position and value of each entry of a sparse sample.
    entries: Vec<(i32, usize, f64)>,
}

impl<'a> Writer<'a> {
    fn new(options: &'a TextToBinary) -> Result<Self> {
        let stream = |rule: &StreamRule| BinaryStream {
            name: rule.name.clone(),
            storage: rule.storage,
            dim: rule.dim,
            element: options.element,
            classes: 0,
        };
        let binary = BinaryWriter::create(
            Output::create(&options.output)?,
            options.streams.iter().map(stream).collect(),
        )?;
        Ok(Writer { options, binary, estimate: 0, estimate_open: 0, id: None, entries: Vec::new() })
    }

    fn line(&mut self, line: &[u8]) -> Result<()> {
        let line = trimmed(line);
        let mut pieces = line.split(|&byte| byte == b'|');
        let id = trimmed(pieces.next().unwrap_or_default());
        if id.len() == line.len() {
            return Err(Error::data("The line has no '|'.")
                .with_detail("A line is an optional id and items that begin with '|'."));
        }
        let begins = match &self.id {
            None => true,
            Some(open) if id.is_empty() => open.is_empty(),
            Some(open) => open != id,
        };
        if begins {
            if self.id.is_some() {
                self.end_sequence(true)?;
            }
            self.id = Some(room::copy(id, room::CONVERSION)?);
        }
        pieces.try_for_each(|piece| self.item(piece))
    }

    fn item(&mut self, piece: &[u8]) -> Result<()> {
        let piece = trimmed(piece);
        let end = piece.iter().position(|&byte| is_space(byte)).unwrap_or(piece.len());
        let (alias, values) = piece.split_at(end);
        let values = trimmed(values);
        if values.is_empty() || alias.starts_with(b"#") {
            return Ok(());
        }
        let Some(number) = self.options.streams.iter().position(|stream| stream.alias.as_bytes() == alias)
        else {
            let error = Error::data(format!("There is no stream '{}'.", quoted(alias)));
            return Err(error.with_detail("Every alias in the file has to be one of the streams to convert."));
        };
        let stream = &self.options.streams[number];
        let sample = match stream.storage {
            Storage::Dense => self.dense(number, values),
            Storage::SparseCsc => self.sparse(number, values),
        };
        self.estimate_open += sample.map_err(|error| error.in_stream(&stream.name))?;
        self.binary.column(number).end_sample()
    }

    /// Writes a dense sample. Returns the script's estimate of its bytes.
    fn dense(&mut self, number: usize, values: &[u8]) -> Result<u64> {
        let stream = &self.options.streams[number];
        let out = &mut self.binary.column(number).values;
        let mut count = 0;
        for word in words(values) {
            put(out, self.options.element, parse(word)?)?;
            count += 1;
        }
        if count != stream.dim {
            return Err(Error::data(format!("Invalid sample dimension for input {}", stream.name)));
        }
        Ok(u64::from(count) * self.options.element.size() as u64)
    }

    /// Writes a sparse sample. Returns the script's estimate of its bytes.
    fn sparse(&mut self, number: usize, values: &[u8]) -> Result<u64> {
        let stream = &self.options.streams[number];
        let column = self.binary.column(number);
        self.entries.clear();
        for word in words(values) {
            let mut parts = word.split(|&byte| byte == b':');
            let (Some(index), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
                return Err(Error::data(format!("'{}' is no index:value.", quoted(word))));
            };
            let index: i64 = std::str::from_utf8(index)
                .ok()
                .and_then(|index| index.parse().ok())
                .ok_or_else(|| Error::data(format!("'{}' has no integer for an index.", quoted(word))))?;
            let Some(index) =
                i32::try_from(index).ok().filter(|index| (0..stream.dim as i32).contains(index))
            else {
                let (name, dim) = (&stream.name, stream.dim);
                return Err(Error::data(format!(
                    "Invalid sample dimension for input {name}. Max {dim}, given {index}"
                )));
            };
            let entry = (index, self.entries.len(), parse(value)?);
            room::push(&mut self.entries, entry, room::CONVERSION)?;
        }
        // Sorted in place by index and position: a stable sort would allocate.
        self.entries.sort_unstable_by_key(|&(index, place, _)| (index, place));
        for &(index, _, value) in &self.entries {
            put(&mut column.values, self.options.element, value)?;
            room::extend(&mut column.indices, &index.to_le_bytes(), room::CONVERSION)?;
        }
        if column.indices.len() / 4 > i32::MAX as usize {
            return Err(Error::data("The sequence has too many values."));
        }
        let count = self.entries.len() as u32;
        room::extend(&mut column.counts, &count.to_le_bytes(), room::CONVERSION)?;
        Ok(u64::from(count) * (self.options.element.size() as u64 + 4) + 4)
    }

    /// Moves the open sequence to the chunk. `more`: another sequence follows.
    fn end_sequence(&mut self, more: bool) -> Result<()> {
        self.binary.end_sequence()?;
        self.estimate += std::mem::take(&mut self.estimate_open);
        if more && (self.estimate >= self.options.chunk_size || self.binary.is_chunk_full()) {
            self.binary.end_chunk()?;
            if !self.options.ctf2bin_compatible {
                self.estimate = 0;
            }
        }
        Ok(())
    }

    /// Ends the file. Returns it and the number of sequences.
    fn finish(mut self) -> Result<(Output, u64)> {
        if self.id.is_some() {
            self.end_sequence(false)?;
        }
        self.binary.finish()
    }
}

fn put(out: &mut Vec<u8>, element: ElementType, value: f64) -> Result<()> {
    match element {
        ElementType::Double => room::extend(out, &value.to_le_bytes(), room::CONVERSION),
        _ => room::extend(out, &(value as f32).to_le_bytes(), room::CONVERSION),
    }
}

fn parse(word: &[u8]) -> Result<f64> {
    std::str::from_utf8(word)
        .ok()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| Error::data(format!("'{}' is no number.", quoted(word))))
}

/// Whether Python, the language of the script, considers the byte white space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | 9..=13 | 0x1c..=0x1f)
}

fn trimmed(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|&byte| !is_space(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| is_space(byte)).filter(|word| !word.is_empty())
}
