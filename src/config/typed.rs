//! Configurations written in Rust instead of CNTK's language: builders that make the sections that a text would have.
//!
//! A builder only collects keys; [`crate::config`] reads them as it reads those of a text, with the same defaults,
//! checks and messages.

pub mod image;
mod speech;

pub use image::{Base64ImageDeserializer, ImageDeserializer};
pub use speech::{
    HtkFeatureDeserializer, HtkMlfBinaryDeserializer, HtkMlfDeserializer, KaldiDeserializer,
    LatticeDeserializer,
};

use super::section::Section;
use super::syntax;
use crate::error::ExceptionClass::InvalidArgument;
use crate::file::address;
use crate::stream::ElementType;
use crate::{Error, Result};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// Keys with their values as a text has them, each key once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Keys(Vec<(&'static str, String)>);

impl Keys {
    fn set(&mut self, key: &'static str, value: impl fmt::Display) {
        self.0.retain(|(other, _)| *other != key);
        self.0.push((key, value.to_string()));
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        self.0.iter().try_for_each(|(key, value)| writeln!(f, "{indent}{key} = {value}"))
    }
}

/// What a reader does with the sequences of its deserializers: order, modes, tolerance. The keys of the reader's
/// section in a configuration, with the same defaults.
///
/// ```
/// use cntk_reader::{Config, ReaderOptions};
///
/// let options = ReaderOptions::new().randomization_window_in_chunks(8).randomization_seed(7).frame_mode(true);
/// // Its text is what a configuration would say.
/// assert!(options.to_string().contains("randomizationWindow = 8"));
/// # Config::from_text(&options.to_string())?;
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReaderOptions {
    keys: Keys,
}

/// One method for each key of one value.
macro_rules! keys {
    ($($(#[$doc:meta])* $method:ident($value:ident: $type:ty) = $key:literal;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $method(mut self, $value: $type) -> Self {
                self.keys.set($key, $value);
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
        self.keys.set("randomizationWindow", chunks);
        self.keys.set("sampleBasedRandomizationWindow", false);
        self
    }

    /// Randomizes within windows of this many samples (`randomizationWindow`, `sampleBasedRandomizationWindow`).
    #[must_use]
    pub fn randomization_window_in_samples(mut self, samples: u64) -> ReaderOptions {
        self.keys.set("randomizationWindow", samples);
        self.keys.set("sampleBasedRandomizationWindow", true);
        self
    }

    /// Packs for truncated back-propagation through time, minibatches of this many steps (`truncated`,
    /// `truncationLength`).
    #[must_use]
    pub fn truncation_length(mut self, steps: u64) -> ReaderOptions {
        self.keys.set("truncated", true);
        self.keys.set("truncationLength", steps);
        self
    }

    /// Paths that data files name (script files, map files, lists) must lead to the folder of the file that names them, or to
    /// one of the `allowed` folders, once symbolic links and `..` are resolved (`confinePaths`, `allowedFolders`; default: they
    /// may lead anywhere).
    #[must_use]
    pub fn confine_paths<P: AsRef<Path>>(mut self, allowed: &[P]) -> ReaderOptions {
        self.keys.set("confinePaths", true);
        let folders: Vec<_> = allowed.iter().map(|path| quoted_path(path.as_ref())).collect();
        self.keys.set("allowedFolders", format!("({})", folders.join(":")));
        self
    }

    /// Delivers whole sequences in the data's own order.
    pub(crate) fn whole_sequences(mut self) -> ReaderOptions {
        for key in ["randomize", "frameMode", "truncated"] {
            self.keys.set(key, false);
        }
        self
    }

    /// Type of the delivered values (`precision`; default: [`ElementType::Float`]).
    #[must_use]
    pub fn precision(mut self, element: ElementType) -> ReaderOptions {
        let word = match element {
            ElementType::Float => "float",
            ElementType::Double => "double",
        };
        self.keys.set("precision", word);
        self
    }

    /// The section with these keys in the place of its own.
    pub(super) fn over(&self, section: &Section) -> Section {
        let values: Vec<_> = self.keys.0.iter().map(|(key, value)| (*key, value.as_str())).collect();
        if values.is_empty() { section.clone() } else { section.with(&values) }
    }
}

/// The lines that a configuration would have.
impl fmt::Display for ReaderOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.keys.write(f, "")
    }
}

/// The file of a deserializer, or several.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files(Vec<PathBuf>);

impl Files {
    fn new(file: &Path) -> Files {
        Files(vec![file.to_owned()])
    }
}

/// The key that a configuration would have.
impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.0.iter().map(|path| quoted_pattern(path)).collect();
        match &*paths {
            [path] => write!(f, "file = {path}"),
            paths => write!(f, "file = ({})", paths.join(":")),
        }
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
/// # assert!(digits.to_string().contains("alias = \"l\""));
/// ```
///
/// Streams are numbered in the alphabetical order of their names, whatever the order here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CtfDeserializer {
    files: Files,
    keys: Keys,
    streams: Vec<Stream>,
    /// A method that describes the stream added last, called before there was one.
    early: Option<&'static str>,
}

/// A section of `input`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stream {
    name: String,
    dim: usize,
    format: &'static str,
    alias: Option<String>,
    defines_size: bool,
}

impl CtfDeserializer {
    /// Reads a file, or the files that match a pattern, `train-*.ctf`; streams are still to be added. A path that exists is
    /// no pattern.
    #[must_use]
    pub fn new(file: impl AsRef<Path>) -> CtfDeserializer {
        let files = Files::new(file.as_ref());
        CtfDeserializer { files, keys: Keys::default(), streams: Vec::new(), early: None }
    }

    /// Adds a file, or those that match a pattern: their data follow those of the ones before.
    #[must_use]
    pub fn add_file(mut self, file: impl AsRef<Path>) -> CtfDeserializer {
        self.files.0.push(file.as_ref().to_owned());
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
        self.streams.push(Stream { name: name.to_owned(), dim, format, alias: None, defines_size: false });
        self
    }

    /// Says what the stream added last is called in the file (`alias`). Without it the file has the stream's name.
    #[must_use]
    pub fn alias(mut self, alias: &str) -> CtfDeserializer {
        if let Some(stream) = self.last("alias") {
            stream.alias = Some(alias.to_owned());
        }
        self
    }

    /// Measures minibatches and windows in samples of the stream added last (`definesMBSize`). Without such a stream a
    /// sequence counts as long as its longest stream.
    #[must_use]
    pub fn defines_minibatch_size(mut self) -> CtfDeserializer {
        if let Some(stream) = self.last("defines_minibatch_size") {
            stream.defines_size = true;
        }
        self
    }

    fn last(&mut self, method: &'static str) -> Option<&mut Stream> {
        if self.streams.is_empty() {
            self.early.get_or_insert(method);
        }
        self.streams.last_mut()
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

    pub(crate) fn section(&self) -> Result<Section> {
        if let Some(method) = self.early {
            return Err(Error::argument(format!(
                "CtfDeserializer::{method} was called before a stream was added. It describes the stream added last: \
                 call it after dense or sparse."
            )));
        }
        check_distinct(self.streams.iter().map(|stream| stream.name.as_str()))?;
        for stream in &self.streams {
            check_name(&stream.name)?;
            stream.alias.iter().try_for_each(|alias| check_quoted("alias", alias))?;
        }
        Section::parse_generated("CtfDeserializer", &self.to_string())
    }
}

/// The section that a configuration would have in `deserializers`.
impl fmt::Display for CtfDeserializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[\n  type = \"CNTKTextFormatDeserializer\"\n  module = \"CNTKTextFormatReader\"")?;
        writeln!(f, "  {}", self.files)?;
        self.keys.write(f, "  ")?;
        writeln!(f, "  input = [")?;
        for Stream { name, dim, format, alias, defines_size } in &self.streams {
            write!(f, "    {name} = [ dim = {dim} ; format = \"{format}\"")?;
            if let Some(alias) = alias {
                write!(f, " ; alias = {}", quoted(alias))?;
            }
            writeln!(f, "{} ]", if *defines_size { " ; definesMBSize = true" } else { "" })?;
        }
        f.write_str("  ]\n]")
    }
}

/// One or several files in CNTK's binary format. The files themselves describe their streams; all are read.
///
/// ```
/// use cntk_reader::CbfDeserializer;
///
/// let digits = CbfDeserializer::new("train.cbf").rename("features", "x");
/// # assert!(digits.to_string().contains("alias = \"x\""));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CbfDeserializer {
    files: Files,
    keys: Keys,
    /// New names of streams, each with the name in the file.
    renamed: Vec<(String, String)>,
}

impl CbfDeserializer {
    /// Reads a file with all of its streams, or the files that match a pattern, `train-*.cbf`. A path that exists is no
    /// pattern.
    #[must_use]
    pub fn new(file: impl AsRef<Path>) -> CbfDeserializer {
        CbfDeserializer { files: Files::new(file.as_ref()), keys: Keys::default(), renamed: Vec::new() }
    }

    /// Adds a file with the same streams, or those that match a pattern: their data follow those of the ones before.
    #[must_use]
    pub fn add_file(mut self, file: impl AsRef<Path>) -> CbfDeserializer {
        self.files.0.push(file.as_ref().to_owned());
        self
    }

    /// Delivers the stream that the file calls `in_file` as `name`.
    #[must_use]
    pub fn rename(mut self, name: &str, in_file: &str) -> CbfDeserializer {
        self.renamed.push((name.to_owned(), in_file.to_owned()));
        self
    }

    keys! {
        /// Chunks stay in memory once they were loaded (`keepDataInMemory`; default: false).
        keep_data_in_memory(keep: bool) = "keepDataInMemory";
        /// The sequences of several files are numbered from the first to the last (`sharedIds`; default: false). Otherwise
        /// each file has its own numbering.
        shared_ids(shared: bool) = "sharedIds";
    }

    pub(crate) fn section(&self) -> Result<Section> {
        check_distinct(self.renamed.iter().map(|(name, _)| name.as_str()))?;
        for (name, in_file) in &self.renamed {
            check_name(name)?;
            check_quoted("name of a stream in the file", in_file)?;
        }
        Section::parse_generated("CbfDeserializer", &self.to_string())
    }
}

/// The section that a configuration would have in `deserializers`.
impl fmt::Display for CbfDeserializer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[\n  type = \"CNTKBinaryFormatDeserializer\"\n  module = \"CNTKBinaryReader\"")?;
        writeln!(f, "  {}", self.files)?;
        self.keys.write(f, "  ")?;
        if !self.renamed.is_empty() {
            writeln!(f, "  input = [")?;
            for (name, in_file) in &self.renamed {
                writeln!(f, "    {name} = [ alias = {} ]", quoted(in_file))?;
            }
            writeln!(f, "  ]")?;
        }
        f.write_char(']')
    }
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// A path that is taken as it is, alone or in an array: in quotes, or as its URL where quotes do
/// not protect it.
fn quoted_path(path: &Path) -> String {
    match path.to_str() {
        // In an array a star would repeat the element, and brackets would make one of a single
        // path.
        Some(text) if is_plain_path(text) && !text.contains('*') && !text.starts_with(['(', '[', '{']) => {
            quoted(text)
        }
        _ => quoted(&address::url_of(path, false)),
    }
}

/// A path or a pattern, otherwise as [`quoted_path`].
fn quoted_pattern(path: &Path) -> String {
    match path.to_str() {
        Some(text) if is_plain_path(text) => quoted(text),
        _ => quoted(&address::url_of(path, true)),
    }
}

fn is_plain_path(text: &str) -> bool {
    is_plain(text) && !address::is_like_url(text)
}

/// Whether a text in quotes comes out as it is.
fn is_plain(text: &str) -> bool {
    let comment = text.starts_with('#') || text.contains(" #") || text.contains("\t#");
    let variable = text.matches('$').count() > 1;
    let trimmed = text.trim_matches([' ', '\t']).len() == text.len();
    let control = text.contains(|c: char| c == '"' || c.is_control());
    trimmed && !comment && !variable && text != "default" && !control && syntax::strange_value(text).is_none()
}

/// Refuses texts that quotes do not protect.
fn check_quoted(what: &str, text: &str) -> Result<()> {
    if is_plain(text) { Ok(()) } else { Err(unwritable(what, text)) }
}

/// Refuses names of streams that cannot be a key.
fn check_name(name: &str) -> Result<()> {
    let is_key = is_plain(name) && !name.contains(['=', '[', ']', '{', '}', '(', ')', ',', ';']);
    if is_key && !name.is_empty() { Ok(()) } else { Err(unwritable("stream name", name)) }
}

/// Refuses two streams of one name: one of them would be lost. Upper and lower case are the same,
/// as in all keys of configurations.
fn check_distinct<'n>(names: impl Iterator<Item = &'n str>) -> Result<()> {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if let Some(earlier) = seen.iter().find(|earlier| earlier.eq_ignore_ascii_case(name)) {
            let message = format!("Two streams have the names '{earlier}' and '{name}'.");
            let detail =
                "Give each stream a name of its own. Upper and lower case are the same in names of one file.";
            return Err(Error::config(InvalidArgument, message).with_detail(detail).in_stream(name));
        }
        seen.push(name);
    }
    Ok(())
}

fn unwritable(what: &str, text: &str) -> Error {
    let message = format!(
        "The {what} '{text}' cannot be part of a configuration. It must not be empty, begin or end with a blank, or \
         contain line breaks, quotes, brackets, '=', ',', ';', a '#' after a blank or two '$'."
    );
    Error::config(InvalidArgument, message)
}
