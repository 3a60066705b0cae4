//! Configurations written in Rust instead of CNTK's language.
//!
//! A builder only collects [`Values`]; [`crate::language`] reads them as it reads those of a text,
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

/// What a reader does with the sequences of its deserializers: order, modes, tolerance. The keys of the reader's
/// section in a configuration, with the same defaults.
///
/// ```
/// use cntk_reader::{Config, ReaderOptions};
///
/// let options = ReaderOptions::new().randomization_window_in_chunks(8).randomization_seed(7).frame_mode(true);
/// // As a configuration would have them:
/// assert!(options.to_configuration()?.contains("randomizationWindow = 8"));
/// # Config::from_text(&options.to_configuration()?)?;
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReaderOptions {
    values: Values,
}

/// One method for each key of one value.
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
    /// The defaults.
    #[must_use]
    pub fn new() -> ReaderOptions {
        ReaderOptions::default()
    }

    keys! {
        /// Sequences come in random order, another one in every sweep (`randomize`; default: true). Otherwise they
        /// come in the data's own order.
        randomize(randomize: bool) = "randomize";
        /// Added to the number of the sweep to seed its order (`randomizationSeed`; default: 0).
        randomization_seed(seed: u64) = "randomizationSeed";
        /// Every sequence is one sample, and minibatches are packed from single samples (`frameMode`; default: false).
        frame_mode(frame_mode: bool) = "frameMode";
        /// Overlap of the truncated minibatches of one sequence in steps (`rightSplice`; default: 0).
        right_splice(steps: u64) = "rightSplice";
        /// Each worker fills its share of the minibatch on its own (`localTimeline`; default: true). Otherwise all
        /// workers walk the same global minibatch and keep their share.
        local_timeline(local_timeline: bool) = "localTimeline";
        /// Every worker reads as many minibatches as the others (`lockstep`; default: false), with `local_timeline` false. A
        /// worker whose share of a minibatch is empty gets one without data, instead of reading on until it has some, as in
        /// CNTK.
        lockstep(lockstep: bool) = "lockstep";
        /// Sequences that may be invalid before reading fails (`maxErrors`; default: 0). Malformed text is counted by
        /// the text deserializer, see [`CtfDeserializer::max_errors`].
        max_errors(sequences: u32) = "maxErrors";
        /// Random transforms of images depend on nothing but their seed, the sweep and the sequence
        /// (`reproducibleTransforms`; default: false). Otherwise they draw what CNTK draws, which depends on all
        /// minibatches read before.
        reproducible_transforms(reproducible: bool) = "reproducibleTransforms";
        /// Images, and sequences of users that are fetched one by one, are worked on by several threads
        /// (`multiThreadedDeserialization`; default: true with [`ImageDeserializer`], else false).
        multithreaded(multithreaded: bool) = "multiThreadedDeserialization";
        /// What is logged: 0 errors, 1 warnings, 2 information (`traceLevel`; default: 1).
        trace_level(level: u32) = "traceLevel";
        /// Sequence keys in the data are numbers (`useNumericSequenceKeys`; default: true). Otherwise they are text.
        numeric_keys(numeric: bool) = "useNumericSequenceKeys";
        /// Numbers textual keys by a hash of their text (`hashSequenceKeys`; default: false). Saves the memory of
        /// their texts; keys with equal hashes are taken for the same key.
        hash_keys(hash: bool) = "hashSequenceKeys";
        /// Minibatches are packed ahead on another thread where that is worth a change of threads (`prefetch`;
        /// default: true).
        prefetch(prefetch: bool) = "prefetch";
        /// Accepted because CNTK accepts it (`checkData`); sequences are always checked.
        check_data(check: bool) = "checkData";
        /// Scales the default window, which is 4 GiB of chunks of this size (`chunkSizeInBytes` of the reader;
        /// default: 32 MiB). The size of the chunks themselves is [`CtfDeserializer::chunk_size`].
        window_chunk_size(bytes: u64) = "chunkSizeInBytes";
    }

    /// Randomizes within windows of this many chunks (`randomizationWindow`; default with text data: 128 chunks of
    /// 32 MiB). The chunks of a window are in memory at the same time.
    #[must_use]
    pub fn randomization_window_in_chunks(mut self, chunks: u64) -> ReaderOptions {
        self.values.set("randomizationWindow", chunks);
        self.values.set("sampleBasedRandomizationWindow", false);
        self
    }

    /// Randomizes within windows of this many samples (`randomizationWindow`, `sampleBasedRandomizationWindow`).
    #[must_use]
    pub fn randomization_window_in_samples(mut self, samples: u64) -> ReaderOptions {
        self.values.set("randomizationWindow", samples);
        self.values.set("sampleBasedRandomizationWindow", true);
        self
    }

    /// Packs for truncated back-propagation through time, minibatches of this many steps (`truncated`,
    /// `truncationLength`).
    #[must_use]
    pub fn truncation_length(mut self, steps: u64) -> ReaderOptions {
        self.values.set("truncated", true);
        self.values.set("truncationLength", steps);
        self
    }

    /// Paths that data files name (script files, map files, lists) must lead to the folder of the file that names them, or to
    /// one of the `allowed` folders, once symbolic links and `..` are resolved (`confinePaths`, `allowedFolders`; default: they
    /// may lead anywhere).
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

    /// Type of the delivered values of files that have no type of their own:
    /// [`ElementType::Float`], the default, or [`ElementType::Double`] (`precision`).
    #[must_use]
    pub fn precision(mut self, element: ElementType) -> ReaderOptions {
        let word = match element {
            ElementType::Float => "float",
            ElementType::Double => "double",
            // Refused when the reader is opened, with the words that there are.
            other => other.name(),
        };
        self.values.set("precision", word);
        self
    }

    /// The lines that a configuration would have.
    pub fn to_configuration(&self) -> Result<String> {
        self.values.to_configuration()
    }

    /// The section with these keys in the place of its own.
    pub(super) fn over(&self, section: &Section) -> Section {
        if self.values.is_empty() { section.clone() } else { section.with_values(&self.values) }
    }
}

/// One or several files in CNTK's text format and the streams to read from them.
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
/// Streams are numbered in the alphabetical order of their names, whatever the order here.
#[derive(Debug, Clone, PartialEq)]
pub struct CtfDeserializer {
    files: Vec<PathBuf>,
    values: Values,
    streams: Vec<(String, Values)>,
    /// A method that describes the stream added last, called before there was one.
    early: Option<&'static str>,
}

impl CtfDeserializer {
    /// Reads a file, or the files that match a pattern, `train-*.ctf`; streams are still to be added. A path that exists is
    /// no pattern.
    #[must_use]
    pub fn new(file: impl AsRef<Path>) -> CtfDeserializer {
        let values = of_module("CNTKTextFormatDeserializer", "CNTKTextFormatReader");
        CtfDeserializer { files: vec![file.as_ref().to_owned()], values, streams: Vec::new(), early: None }
    }

    /// Adds a file, or those that match a pattern: their data follow those of the ones before.
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

    /// Says what the stream added last is called in the file (`alias`). Without it the file has the stream's name.
    #[must_use]
    pub fn alias(mut self, alias: &str) -> CtfDeserializer {
        if let Some(stream) = self.last("alias") {
            stream.set("alias", Value::Text(alias.to_owned()));
        }
        self
    }

    /// Measures minibatches and windows in samples of the stream added last (`definesMBSize`). Without such a stream a
    /// sequence counts as long as its longest stream.
    #[must_use]
    pub fn defines_minibatch_size(mut self) -> CtfDeserializer {
        if let Some(stream) = self.last("defines_minibatch_size") {
            stream.set("definesMBSize", true);
        }
        self
    }

    /// Type of the values of the stream added last, which is dense (`element`; default: that of
    /// [`ReaderOptions::precision`]). CNTK has none. A number that is no value of a type of
    /// integers is malformed.
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

    /// Delivers the index of each sample of the stream added last, which is sparse, in place of the
    /// sample: as a dense integer, [`ElementType::Int32`] or [`ElementType::Int64`] (`ids`). CNTK
    /// has no such streams. Each sample is one entry, `index:1`; others are malformed. The number
    /// of classes is [`StreamInfo::classes`](crate::StreamInfo::classes).
    #[must_use]
    pub fn ids(mut self, element: ElementType) -> CtfDeserializer {
        if let Some(stream) = self.last("ids") {
            stream.set("ids", element.name());
        }
        self
    }

    /// The value that gaps of truncated minibatches have in the stream added last, which has
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
        /// Bytes of a chunk, what is loaded, randomized and shared between workers at a time (`chunkSizeInBytes`;
        /// default: 32 MiB).
        chunk_size(bytes: u64) = "chunkSizeInBytes";
        /// Malformed values, lines and sequences to skip before reading fails, over all sweeps (`maxErrors`; default:
        /// 0).
        max_errors(errors: u32) = "maxErrors";
        /// Every line is a sequence, whatever ids the lines have (`skipSequenceIds`; default: false).
        skip_sequence_ids(skip: bool) = "skipSequenceIds";
        /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false).
        cache_index(cache: bool) = "cacheIndex";
        /// Chunks stay in memory once they were loaded (`keepDataInMemory`; default: false).
        keep_data_in_memory(keep: bool) = "keepDataInMemory";
        /// CNTK's rules for lines and streams of a sequence (`strictSequences`; default: true). Otherwise a stream's
        /// samples may stand on any line of their sequence, and a sequence in which a stream has no sample is skipped.
        strict_sequences(strict: bool) = "strictSequences";
        /// The ids of several files are one numbering (`sharedIds`; default: false). Otherwise each file has its own.
        shared_ids(shared: bool) = "sharedIds";
    }

    /// The section that a configuration would have in `deserializers`.
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

/// One or several files in CNTK's binary format. The files themselves describe their streams; all are read.
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
    /// Streams that have a name in the file.
    renamed: Vec<String>,
}

impl CbfDeserializer {
    /// Reads a file with all of its streams, or the files that match a pattern, `train-*.cbf`. A path that exists is no
    /// pattern.
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

    /// Adds a file with the same streams, or those that match a pattern: their data follow those of the ones before.
    #[must_use]
    pub fn add_file(mut self, file: impl AsRef<Path>) -> CbfDeserializer {
        self.files.push(file.as_ref().to_owned());
        self
    }

    /// Delivers the stream that the file calls `in_file` as `name`.
    #[must_use]
    pub fn rename(mut self, name: &str, in_file: &str) -> CbfDeserializer {
        // A second name in the file for one stream is refused when the reader is opened.
        if self.renamed.iter().any(|known| known == name) {
            self.streams.push((name.to_owned(), Values::default()));
        }
        self.renamed.push(name.to_owned());
        self.stream(name).set("alias", Value::Text(in_file.to_owned()));
        self
    }

    /// Delivers the index of each sample of the stream `name`, which is sparse in the file, in place
    /// of the sample: see [`CtfDeserializer::ids`]. Another sample than one entry of value 1 is an
    /// error.
    #[must_use]
    pub fn ids(mut self, name: &str, element: ElementType) -> CbfDeserializer {
        self.stream(name).set("ids", element.name());
        self
    }

    /// The value that gaps of truncated minibatches have in the stream `name`, which has
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
        /// Chunks stay in memory once they were loaded (`keepDataInMemory`; default: false).
        keep_data_in_memory(keep: bool) = "keepDataInMemory";
        /// The sequences of several files are numbered from the first to the last (`sharedIds`; default: false). Otherwise
        /// each file has its own numbering.
        shared_ids(shared: bool) = "sharedIds";
    }

    /// The section that a configuration would have in `deserializers`.
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

/// The values of a deserializer of one of CNTK's modules.
fn of_module(name: &str, module: &str) -> Values {
    let mut values = Values::of_type(name);
    values.set("module", Value::Text(module.to_owned()));
    values
}

/// Streams by name.
fn streams<'n>(all: impl Iterator<Item = (&'n str, Values)>) -> Result<Values> {
    let mut streams = Values::default();
    for (name, values) in all {
        check_name(name)?;
        streams.add_section(name, values).map_err(|error| error.in_stream(name))?;
    }
    Ok(streams)
}

/// Refuses names that no interface could deliver: names have an end in C.
fn check_name(name: &str) -> Result<()> {
    if !name.is_empty() && !name.contains('\0') {
        return Ok(());
    }
    let message = format!("The name of a stream is {name:?}.");
    Err(Error::config(InvalidArgument, message).with_detail("A name is not empty and has no NUL character."))
}
