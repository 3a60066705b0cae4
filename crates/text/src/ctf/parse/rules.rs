//! Rules of a text file: its streams by their names in the file, and how strictly the file is read.

use super::typed::Typed;
use crate::ctf::{TextOptions, TextStream};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::message::names::Distinct;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// Rules of one stream.
#[derive(Debug, Clone)]
pub struct StreamRule {
    /// Name of the stream.
    pub name: String,
    /// Name in the file.
    pub alias: Vec<u8>,
    /// Number of values in a sample.
    pub dim: usize,
    /// Whether samples are written as `index:value`.
    pub sparse: bool,
    /// Number of values in a delivered sample; `None` if samples are delivered sparse.
    pub delivered: Option<usize>,
    /// Type of the delivered values.
    pub element: ElementType,
    /// Reader of the values, if their type is not the file's precision.
    pub typed: Option<Typed>,
}

impl StreamRule {
    /// Returns the rule of a stream in a file with this precision.
    pub(crate) fn new(stream: &TextStream, precision: ElementType) -> StreamRule {
        let sparse = stream.storage == Storage::SparseCsc;
        let element = stream.ids.map(|ids| ids.element).or(stream.element).unwrap_or(precision);
        StreamRule {
            name: stream.name.clone(),
            alias: stream.alias.clone().into_bytes(),
            dim: stream.dim as usize,
            sparse,
            delivered: match (sparse, stream.ids) {
                (false, _) => Some(stream.dim as usize),
                (true, Some(_)) => Some(1),
                (true, None) => None,
            },
            element,
            typed: (!sparse && element != precision).then(|| Typed::new(element)),
        }
    }

    /// Whether samples are written sparse, with one entry each, and delivered as its index.
    pub(crate) fn is_ids(&self) -> bool {
        self.sparse && self.delivered.is_some()
    }
}

/// Rules by which a file is read.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Path of the file.
    pub file: String,
    /// The streams in the order of their numbers.
    pub streams: Vec<StreamRule>,
    /// Length of the longest alias in bytes. A longer name in the file is unknown without a
    /// comparison.
    pub longest_alias: usize,
    /// Whether such a longer name is an error; otherwise its sample is skipped.
    pub refuses_long_names: bool,
    /// Whether a line that begins with a textual id counts as an error, although the line is read.
    pub refuses_text_ids: bool,
    /// The stream that defines minibatch sizes, if one does; only its length is then compared with
    /// the index.
    pub main: Option<usize>,
    /// Whether CNTK's rules apply. Otherwise a sequence may have more lines than samples, and a
    /// sequence without data for a stream is left out.
    pub strict: bool,
    /// Number of errors that are tolerated.
    pub max_errors: u64,
    /// Log for messages.
    pub log: Logger,
    /// Maps keys to their texts.
    pub corpus: Arc<Corpus>,
}

impl Rules {
    /// Returns the rules that the options describe.
    pub fn new(options: &TextOptions, corpus: &Arc<Corpus>) -> Result<Rules> {
        let wrong = |text, detail, stream: &str| {
            let error = Error::config(ExceptionClass::Runtime, text).with_detail(detail);
            error.in_file(options.files.name()).in_stream(stream)
        };
        let mut streams: Vec<StreamRule> = Vec::with_capacity(options.streams.len());
        let mut aliases = Distinct::default();
        for stream in &options.streams {
            let sparse = stream.storage == Storage::SparseCsc;
            let limit = if sparse { i32::MAX as u64 } else { usize::MAX as u64 / 16 };
            if stream.dim > limit {
                let text = format!(
                    "Sample dimension ({}) for {} input '{}' exceeds the maximum allowed value ({limit}).",
                    stream.dim,
                    if sparse { "sparse" } else { "dense" },
                    stream.name
                );
                return Err(wrong(
                    text,
                    "Set ‹dim› to one more than the largest index, or to the number of values.",
                    &stream.name,
                ));
            }
            if let Some(first) = aliases.add(&stream.alias) {
                let first = &streams[first];
                let text = format!("Alias {} is already mapped to input {}.", stream.alias, first.name);
                let detail =
                    "The samples of a name belong to one stream: give each stream another name or ‹alias›.";
                return Err(wrong(text, detail, &stream.name));
            }
            streams.push(StreamRule::new(stream, options.element));
        }
        Ok(Rules {
            file: options.files.name().to_owned(),
            longest_alias: streams.iter().map(|stream| stream.alias.len()).max().unwrap_or(0),
            refuses_long_names: options.quirks.refuses_long_names,
            refuses_text_ids: options.quirks.refuses_text_ids,
            main: options.streams.iter().position(|stream| stream.defines_mb_size),
            strict: options.strict_sequences,
            max_errors: u64::from(options.max_errors),
            log: options.log,
            corpus: Arc::clone(corpus),
            streams,
        })
    }

    /// Returns a key as messages show it.
    pub(crate) fn key_text(&self, key: SequenceKey) -> String {
        self.corpus.text_of(key)
    }
}

/// Whether a byte is white space inside a line, which ends a name and separates values.
#[inline(always)]
pub(crate) fn is_value_delimiter(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Whether a byte ends a sample. Bytes are signed in CNTK, so the bytes of non-ASCII UTF-8 count as
/// control characters; 0x7f does not.
#[inline(always)]
pub(crate) fn is_non_printable(byte: u8) -> bool {
    (byte as i8) < 0x20
}

/// Whether a byte ends a name.
#[inline(always)]
pub(crate) fn ends_name(byte: u8) -> bool {
    byte == b'|' || byte == b' ' || is_non_printable(byte)
}
