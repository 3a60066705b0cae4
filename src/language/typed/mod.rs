//! Configurations written in Rust instead of CNTK's language.
//!
//! A builder only collects [`Values`]; [`crate::language`] reads them like the values of a text,
//! with the same defaults, checks and messages.

mod arrays;
#[cfg(feature = "images")]
pub mod image;
#[cfg(feature = "speech")]
mod speech;

pub use arrays::NumpyDeserializer;
#[cfg(feature = "images")]
pub use image::{Base64ImageDeserializer, ImageDeserializer};
#[cfg(feature = "speech")]
pub use speech::{
    HtkFeatureDeserializer, HtkMlfBinaryDeserializer, HtkMlfDeserializer, KaldiDeserializer,
    LatticeDeserializer,
};

use super::section::Section;
use super::values::{Value, Values};
use cntk_reader_core::error::ExceptionClass::InvalidArgument;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::path::{Path, PathBuf};

/// Options of a reader: order, packing modes, tolerance. They correspond to the keys of the
/// reader's section in a configuration, with the same defaults.
///
/// ```
/// use cntk_reader::{Config, ReaderOptions};
///
/// let options = ReaderOptions::new()
///     .randomization_window_in_chunks(8)
///     .randomization_seed(7)
///     .frame_mode(true);
/// // The equivalent configuration:
/// assert!(options.to_configuration()?.contains("randomizationWindow = 8"));
/// # Config::from_text(&options.to_configuration()?)?;
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReaderOptions {
    values: Values,
}

/// Defines a setter for each single-valued key.
macro_rules! keys {
    ($($(#[$doc:meta])* $method:ident($value:ident: $type:ty) = $key:literal;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $method(mut self, $value: $type) -> Self {
                self.values.set($key, $value);
                self
            }
        )*
    };
}

impl ReaderOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> ReaderOptions {
        ReaderOptions::default()
    }

    keys! {
        /// Sequences come in random order, different in every sweep (`randomize`; default: true),
        /// or else in the data's own order.
        randomize(randomize: bool) = "randomize";
        /// Added to the sweep number to seed the sweep's order (`randomizationSeed`; default: 0).
        randomization_seed(seed: u64) = "randomizationSeed";
        /// Every sequence is one sample, and minibatches are packed from single samples
        /// (`frameMode`; default: false).
        frame_mode(frame_mode: bool) = "frameMode";
        /// Overlap, in steps, of the truncated minibatches of one sequence (`rightSplice`; default:
        /// 0).
        right_splice(steps: u64) = "rightSplice";
        /// Sparse streams become dense in truncated minibatches, as in CNTK (`expandSparse`;
        /// default: false): a column for each index of every sample. Otherwise they stay sparse.
        expand_sparse(expand: bool) = "expandSparse";
        /// Each worker fills its own share of the minibatch size independently (`localTimeline`;
        /// default: true). Otherwise all workers walk through the same global minibatches and keep
        /// their share.
        local_timeline(local_timeline: bool) = "localTimeline";
        /// Every worker reads the same number of minibatches (`lockstep`; default: false), with
        /// `local_timeline` false. A worker whose share of a minibatch is empty gets one without
        /// data, instead of reading on until it has some, as in CNTK.
        lockstep(lockstep: bool) = "lockstep";
        /// Number of invalid sequences to tolerate before reading fails (`maxErrors`; default: 0).
        /// Malformed text is counted by the text deserializer; see [`CtfDeserializer::max_errors`].
        max_errors(sequences: u32) = "maxErrors";
        /// Random transforms of images depend only on their seed, the sweep and the sequence
        /// (`reproducibleTransforms`; default: false). Otherwise they draw the same numbers as
        /// CNTK, which depend on all minibatches read before.
        reproducible_transforms(reproducible: bool) = "reproducibleTransforms";
        /// Several threads process images, and user-defined sequences that are fetched one by one
        /// (`multiThreadedDeserialization`; default: true with [`ImageDeserializer`], else false).
        multithreaded(multithreaded: bool) = "multiThreadedDeserialization";
        /// Log level: 0 errors, 1 warnings, 2 information (`traceLevel`; default: 1).
        trace_level(level: u32) = "traceLevel";
        /// Sequence keys in the data are numbers (`useNumericSequenceKeys`; default: true).
        /// Otherwise they are text.
        numeric_keys(numeric: bool) = "useNumericSequenceKeys";
        /// Replaces textual keys by a hash of their text (`hashSequenceKeys`; default: false).
        /// Saves the memory of their texts; keys with equal hashes are treated as the same key.
        hash_keys(hash: bool) = "hashSequenceKeys";
        /// Minibatches are packed ahead on another thread if that outweighs the cost of switching
        /// threads (`prefetch`; default: true).
        prefetch(prefetch: bool) = "prefetch";
        /// Accepted for compatibility with CNTK (`checkData`); sequences are always checked.
        check_data(check: bool) = "checkData";
        /// Scales the default window, which is 4 GiB of chunks of this size (`chunkSizeInBytes` of
        /// the reader; default: 32 MiB). The chunk size itself is [`CtfDeserializer::chunk_size`].
        window_chunk_size(bytes: u64) = "chunkSizeInBytes";
    }

    /// Randomizes within windows of this many chunks (`randomizationWindow`; default with text
    /// data: 128 chunks of 32 MiB). All chunks of a window are in memory at the same time.
    #[must_use]
    pub fn randomization_window_in_chunks(mut self, chunks: u64) -> ReaderOptions {
        self.values.set("randomizationWindow", chunks);
        self.values.set("sampleBasedRandomizationWindow", false);
        self
    }

    /// Randomizes within windows of this many samples (`randomizationWindow`,
    /// `sampleBasedRandomizationWindow`).
    #[must_use]
    pub fn randomization_window_in_samples(mut self, samples: u64) -> ReaderOptions {
        self.values.set("randomizationWindow", samples);
        self.values.set("sampleBasedRandomizationWindow", true);
        self
    }

    /// Packs minibatches of this many steps for truncated back-propagation through time
    /// (`truncated`, `truncationLength`). Sparse streams stay sparse, unless
    /// [`expand_sparse`](Self::expand_sparse) is set.
    #[must_use]
    pub fn truncation_length(mut self, steps: u64) -> ReaderOptions {
        self.values.set("truncated", true);
        self.values.set("truncationLength", steps);
        // CNTK's language expands them by default, as CNTK does.
        self.values.entry("expandSparse", false.into());
        self
    }

    /// Confines the paths that data files name (script files, map files, lists) to the folder of
    /// the file that names them and to the `allowed` folders, after resolving symbolic links and
    /// `..` (`confinePaths`, `allowedFolders`; default: they may lead anywhere).
    #[must_use]
    pub fn confine_paths<P: AsRef<Path>>(mut self, allowed: &[P]) -> ReaderOptions {
        self.values.set("confinePaths", true);
        let folders = allowed.iter().map(|path| path.as_ref().into()).collect();
        self.values.set("allowedFolders", Value::List(folders));
        self
    }

    /// Delivers whole sequences in the data's own order.
    pub fn whole_sequences(mut self) -> ReaderOptions {
        for key in ["randomize", "frameMode", "truncated"] {
            self.values.set(key, false);
        }
        self
    }

    /// Sets the element type of files that do not define one: [`ElementType::Float`], the default,
    /// or [`ElementType::Double`] (`precision`).
    #[must_use]
    pub fn precision(mut self, element: ElementType) -> ReaderOptions {
        let word = match element {
            ElementType::Float => "float",
            ElementType::Double => "double",
            // Refused when the reader is opened, with a list of the valid words.
            other => other.name(),
        };
        self.values.set("precision", word);
        self
    }

    /// Returns the equivalent lines of a configuration.
    pub fn to_configuration(&self) -> Result<String> {
        self.values.to_configuration()
    }

    /// Returns the section with its keys overridden by these.
    pub(super) fn over(&self, section: &Section) -> Section {
        if self.values.is_empty() { section.clone() } else { section.with_values(&self.values) }
    }
}

/// One or more files in CNTK's text format, and the streams to read from them.
///
/// ```
/// use cntk_reader::CtfDeserializer;
///
/// let digits = CtfDeserializer::new("train.ctf")
///     .dense("features", 784)
///     .sparse("labels", 10).alias("l") // called `l` in the file
///     .chunk_size(8 << 20);
/// # assert!(digits.to_configuration()?.contains("alias = \"l\""));
/// # Ok::<(), cntk_reader::Error>(())
/// ```
///
/// Streams are numbered alphabetically by name, regardless of the order of these calls.
#[derive(Debug, Clone, PartialEq)]
pub struct CtfDeserializer {
    files: Vec<PathBuf>,
    values: Values,
    streams: Vec<(String, Values)>,
    /// A method that describes the last stream, if it was called before any stream was added.
    early: Option<&'static str>,
}

impl CtfDeserializer {
    /// Reads a file, or the files that match a pattern such as `train-*.ctf`. Streams have to be
    /// added. A path that exists is not treated as a pattern.
    #[must_use]
    pub fn new(file: impl AsRef<Path>) -> CtfDeserializer {
        let values = of_module("CNTKTextFormatDeserializer", "CNTKTextFormatReader");
        CtfDeserializer { files: vec![file.as_ref().to_owned()], values, streams: Vec::new(), early: None }
    }

    /// Adds a file, or the files that match a pattern, after the earlier ones.
    #[must_use]
    pub fn add_file(mut self, file: impl AsRef<Path>) -> CtfDeserializer {
        self.files.push(file.as_ref().to_owned());
        self
    }

    /// Adds a stream of dense samples: `dim` values each.
    #[must_use]
    pub fn dense(self, name: &str, dim: usize) -> CtfDeserializer {
        self.stream(name, dim, "dense")
    }

    /// Adds a stream of sparse samples: pairs `index:value` with indices below `dim`.
    #[must_use]
    pub fn sparse(self, name: &str, dim: usize) -> CtfDeserializer {
        self.stream(name, dim, "sparse")
    }

    fn stream(mut self, name: &str, dim: usize, format: &'static str) -> CtfDeserializer {
        let mut stream = Values::default();
        stream.set("dim", dim);
        stream.set("format", format);
        self.streams.push((name.to_owned(), stream));
        self
    }

    /// Sets the name of the last stream in the file (`alias`; default: the stream's name).
    #[must_use]
    pub fn alias(mut self, alias: &str) -> CtfDeserializer {
        if let Some(stream) = self.last("alias") {
            stream.set("alias", Value::Text(alias.to_owned()));
        }
        self
    }

    /// Measures minibatches and windows in samples of the stream added last (`definesMBSize`). By
    /// default, the longest stream of a sequence determines its size.
    #[must_use]
    pub fn defines_minibatch_size(mut self) -> CtfDeserializer {
        if let Some(stream) = self.last("defines_minibatch_size") {
            stream.set("definesMBSize", true);
        }
        self
    }

    /// Sets the element type of the stream added last, which must be dense (`element`; default:
    /// [`ReaderOptions::precision`]). CNTK has no such option. Numbers that an integer type cannot
    /// represent are malformed.
    ///
    /// ```
    /// use cntk_reader::{CtfDeserializer, ElementType, Epoch, Reader};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("digits.ctf");
    /// std::fs::write(&path, "|pixels 0 255 128 |label 3:1\n")?;
    /// let digits = CtfDeserializer::new(&path)
    ///     .dense("pixels", 3).element(ElementType::UInt8)
    ///     .sparse("label", 10).ids(ElementType::Int32);
    /// let mut reader = Reader::builder().ctf(digits).open()?;
    /// for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(8))? {
    ///     let minibatch = minibatch?;
    ///     assert_eq!(minibatch.stream("pixels")?.dense::<u8>()?, [0, 255, 128]);
    ///     assert_eq!(minibatch.stream("label")?.dense::<i32>()?, [3]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn element(mut self, element: ElementType) -> CtfDeserializer {
        if let Some(stream) = self.last("element") {
            stream.set("element", element.name());
        }
        self
    }

    /// Delivers the index of each sample of the stream added last, which must be sparse, instead of
    /// the sample: as a dense integer, [`ElementType::Int32`] or [`ElementType::Int64`] (`ids`).
    /// CNTK has no such option. Each sample must be a single entry `index:1`; others are malformed.
    /// The number of classes is [`StreamInfo::classes`](crate::StreamInfo::classes).
    #[must_use]
    pub fn ids(mut self, element: ElementType) -> CtfDeserializer {
        if let Some(stream) = self.last("ids") {
            stream.set("ids", element.name());
        }
        self
    }

    /// Sets the value of gaps of truncated minibatches in the stream added last, which must have
    /// [`ids`](Self::ids) (`padding`; default: 0).
    #[must_use]
    pub fn padding(mut self, value: i64) -> CtfDeserializer {
        if let Some(stream) = self.last("padding") {
            stream.set("padding", Value::Word(value.to_string()));
        }
        self
    }

    fn last(&mut self, method: &'static str) -> Option<&mut Values> {
        if self.streams.is_empty() {
            self.early.get_or_insert(method);
        }
        self.streams.last_mut().map(|(_, stream)| stream)
    }

    keys! {
        /// Bytes of a chunk, the unit of loading, randomizing and sharding between workers
        /// (`chunkSizeInBytes`; default: 32 MiB).
        chunk_size(bytes: u64) = "chunkSizeInBytes";
        /// Number of malformed values, lines and sequences to skip, over all sweeps, before reading
        /// fails (`maxErrors`; default: 0).
        max_errors(errors: u32) = "maxErrors";
        /// Treats every line as a sequence, regardless of ids (`skipSequenceIds`; default: false).
        skip_sequence_ids(skip: bool) = "skipSequenceIds";
        /// Caches the index in a file beside the data, in CNTK's format (`cacheIndex`; default:
        /// false).
        cache_index(cache: bool) = "cacheIndex";
        /// Chunks stay in memory once they are loaded (`keepDataInMemory`; default: false).
        keep_data_in_memory(keep: bool) = "keepDataInMemory";
        /// Applies CNTK's rules for the lines and streams of a sequence (`strictSequences`;
        /// default: true). Otherwise a stream's samples may be on any line of their sequence, and a
        /// sequence is skipped if a stream has no sample in it.
        strict_sequences(strict: bool) = "strictSequences";
        /// The files share one numbering of ids (`sharedIds`; default: false). Otherwise each file
        /// has its own.
        shared_ids(shared: bool) = "sharedIds";
    }

    /// Returns the section for `deserializers` in a configuration.
    pub fn to_configuration(&self) -> Result<String> {
        self.values()?.to_section()
    }

    #[doc(hidden)]
    pub fn values(&self) -> Result<Values> {
        if let Some(method) = self.early {
            return Err(Error::argument(format!(
                "CtfDeserializer::{method} was called before a stream was added. It describes the stream added last: \
                 call it after dense or sparse."
            )));
        }
        let mut values = self.values.clone();
        values.set("file", Value::Files(self.files.clone()));
        values.set("input", streams(self.streams.iter().map(|(name, stream)| (&**name, stream.clone())))?);
        Ok(values)
    }
}

/// One or more files in CNTK's binary format. The files describe their streams; all streams are
/// read.
///
/// ```
/// use cntk_reader::CbfDeserializer;
///
/// let digits = CbfDeserializer::new("train.cbf").rename("features", "x");
/// # assert!(digits.to_configuration()?.contains("alias = \"x\""));
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CbfDeserializer {
    files: Vec<PathBuf>,
    values: Values,
    /// Options of streams, by their delivered names.
    streams: Vec<(String, Values)>,
    /// Streams that were renamed.
    renamed: Vec<String>,
}

impl CbfDeserializer {
    /// Reads all streams of a file, or of the files that match a pattern such as `train-*.cbf`. A
    /// path that exists is not treated as a pattern.
    #[must_use]
    pub fn new(file: impl AsRef<Path>) -> CbfDeserializer {
        let values = of_module("CNTKBinaryFormatDeserializer", "CNTKBinaryReader");
        CbfDeserializer {
            files: vec![file.as_ref().to_owned()],
            values,
            streams: Vec::new(),
            renamed: Vec::new(),
        }
    }

    /// Adds a file with the same streams, or the files that match a pattern, after the earlier
    /// ones.
    #[must_use]
    pub fn add_file(mut self, file: impl AsRef<Path>) -> CbfDeserializer {
        self.files.push(file.as_ref().to_owned());
        self
    }

    /// Delivers the stream called `in_file` in the file as `name`.
    #[must_use]
    pub fn rename(mut self, name: &str, in_file: &str) -> CbfDeserializer {
        // A second name in the file for the same stream is refused when the reader is opened.
        if self.renamed.iter().any(|known| known == name) {
            self.streams.push((name.to_owned(), Values::default()));
        }
        self.renamed.push(name.to_owned());
        self.stream(name).set("alias", Value::Text(in_file.to_owned()));
        self
    }

    /// Delivers the index of each sample of the stream `name`, which must be sparse in the file,
    /// instead of the sample; see [`CtfDeserializer::ids`]. A sample that is not a single entry of
    /// value 1 is an error.
    #[must_use]
    pub fn ids(mut self, name: &str, element: ElementType) -> CbfDeserializer {
        self.stream(name).set("ids", element.name());
        self
    }

    /// Sets the value of gaps of truncated minibatches in the stream `name`, which must have
    /// [`ids`](Self::ids) (`padding`; default: 0).
    #[must_use]
    pub fn padding(mut self, name: &str, value: i64) -> CbfDeserializer {
        self.stream(name).set("padding", Value::Word(value.to_string()));
        self
    }

    fn stream(&mut self, name: &str) -> &mut Values {
        let place = self.streams.iter().position(|(known, _)| known == name).unwrap_or(self.streams.len());
        if place == self.streams.len() {
            self.streams.push((name.to_owned(), Values::default()));
        }
        &mut self.streams[place].1
    }

    keys! {
        /// Chunks stay in memory once they are loaded (`keepDataInMemory`; default: false).
        keep_data_in_memory(keep: bool) = "keepDataInMemory";
        /// Numbers the sequences of several files consecutively (`sharedIds`; default: false).
        /// Otherwise each file has its own numbering.
        shared_ids(shared: bool) = "sharedIds";
    }

    /// Returns the section for `deserializers` in a configuration.
    pub fn to_configuration(&self) -> Result<String> {
        self.values()?.to_section()
    }

    #[doc(hidden)]
    pub fn values(&self) -> Result<Values> {
        let mut values = self.values.clone();
        values.set("file", Value::Files(self.files.clone()));
        if !self.streams.is_empty() {
            let all = self.streams.iter().map(|(name, stream)| (&**name, stream.clone()));
            values.set("input", streams(all)?);
        }
        Ok(values)
    }
}

/// Returns the values of a deserializer of one of CNTK's modules.
fn of_module(name: &str, module: &str) -> Values {
    let mut values = Values::of_type(name);
    values.set("module", Value::Text(module.to_owned()));
    values
}

/// Returns the section of named streams.
fn streams<'n>(all: impl Iterator<Item = (&'n str, Values)>) -> Result<Values> {
    let mut streams = Values::default();
    for (name, values) in all {
        check_name(name)?;
        streams.add_section(name, values).map_err(|error| error.in_stream(name))?;
    }
    Ok(streams)
}

/// Refuses names that C cannot represent: empty ones, and ones with a NUL character.
fn check_name(name: &str) -> Result<()> {
    if !name.is_empty() && !name.contains('\0') {
        return Ok(());
    }
    let message = format!("The name of a stream is {name:?}.");
    Err(Error::config(InvalidArgument, message).with_detail("A name is not empty and has no NUL character."))
}
