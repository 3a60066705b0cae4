//! Builders of the deserializers for speech: HTK features, labels (MLF), lattices and Kaldi archives.

use super::{Keys, check_name, quoted_path};
use crate::Result;
use crate::config::section::Section;
use std::fmt;
use std::path::{Path, PathBuf};

/// The section of a deserializer of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StreamSection {
    /// `type`, and `module` where it has one.
    head: &'static str,
    /// Name of the stream.
    stream: String,
    /// Keys of the deserializer.
    outer: Keys,
    /// Keys of the stream.
    inner: Keys,
    files: Files,
    /// Other paths of the stream's keys.
    paths: Vec<(&'static str, PathBuf)>,
}

/// How the files of a deserializer are written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files {
    paths: Vec<PathBuf>,
    /// The key of a single file, and that of several, an array.
    keys: (&'static str, &'static str),
    /// A single file is written at the deserializer.
    is_inherited: bool,
}

impl StreamSection {
    fn new(head: &'static str, stream: &str, files: Files) -> StreamSection {
        let (outer, inner) = (Keys::default(), Keys::default());
        StreamSection { head, stream: stream.to_owned(), outer, inner, files, paths: Vec::new() }
    }

    fn set_path(&mut self, key: &'static str, path: &Path) {
        self.paths.retain(|(other, _)| *other != key);
        self.paths.push((key, path.to_owned()));
    }

    /// The section; `builder` is its name in messages.
    fn section(&self, builder: &str) -> Result<Section> {
        check_name(&self.stream)?;
        Section::parse_generated(builder, &self.to_string())
    }

    fn write(&self, f: &mut impl fmt::Write) -> fmt::Result {
        writeln!(f, "[\n  {}", self.head)?;
        let Files { paths, keys: (one, several), is_inherited } = &self.files;
        let file = match paths.as_slice() {
            [path] => format!("{one} = {}", quoted_path(path)),
            paths => {
                let paths: Vec<_> = paths.iter().map(|path| quoted_path(path)).collect();
                format!("{several} = ({})", paths.join(":"))
            }
        };
        let is_outside = *is_inherited && paths.len() == 1;
        if is_outside {
            writeln!(f, "  {file}")?;
        }
        for (key, value) in &self.outer.0 {
            writeln!(f, "  {key} = {value}")?;
        }
        write!(f, "  input = [ {} = [", self.stream)?;
        let mut inner: Vec<_> = self.inner.0.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        inner.extend(self.paths.iter().map(|(key, path)| format!("{key} = {}", quoted_path(path))));
        if !is_outside {
            inner.insert(0, file);
        }
        write!(f, " {} ] ]\n]", inner.join(" ; "))
    }
}

/// The section that a configuration would have in `deserializers`.
impl fmt::Display for StreamSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

/// One method for each key of one value, of the stream or of the deserializer.
macro_rules! keys_of {
    ($($(#[$doc:meta])* $method:ident($value:ident: $type:ty) = $place:ident $key:literal;)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub fn $method(mut self, $value: $type) -> Self {
                self.0.$place.set($key, $value);
                self
            }
        )*
    };
}

/// What all builders have beside their keys.
macro_rules! deserializer {
    ($name:ident) => {
        impl $name {
            pub(crate) fn section(&self) -> Result<Section> {
                self.0.section(stringify!($name))
            }
        }

        /// The section that a configuration would have in `deserializers`.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

/// Features in HTK archives, which a script file lists: one dense stream.
///
/// ```
/// use cntk_reader::HtkFeatureDeserializer;
///
/// let features = HtkFeatureDeserializer::new("features", "train.scp", 40).context_window(5, 5);
/// # assert!(features.to_string().contains("contextWindow = 5:5"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtkFeatureDeserializer(StreamSection);

deserializer!(HtkFeatureDeserializer);

impl HtkFeatureDeserializer {
    /// Reads the utterances of a script file as the stream `stream`. `dim` is the number of values of a frame. Without a
    /// [`context_window`](Self::context_window) it may be an odd multiple of it: samples then have as many frames.
    #[must_use]
    pub fn new(stream: &str, scp_file: impl AsRef<Path>, dim: usize) -> HtkFeatureDeserializer {
        let head = "type = \"HTKFeatureDeserializer\" ; module = \"HTKDeserializers\"";
        let paths = vec![scp_file.as_ref().to_owned()];
        let files = Files { paths, keys: ("scpFile", "scpFile"), is_inherited: true };
        let mut section = StreamSection::new(head, stream, files);
        section.inner.set("dim", dim);
        HtkFeatureDeserializer(section)
    }

    /// Adds another script file, whose lines follow those of the ones before it.
    #[must_use]
    pub fn add_scp_file(mut self, scp_file: impl AsRef<Path>) -> Self {
        self.0.files.paths.push(scp_file.as_ref().to_owned());
        self
    }

    /// Neighbouring frames that a sample has before and after its own (`contextWindow`; default: none).
    #[must_use]
    pub fn context_window(mut self, before: u32, after: u32) -> Self {
        self.0.inner.set("contextWindow", format!("{before}:{after}"));
        self
    }

    /// What stands before each path of the script (`prefixPathInSCP`; default: nothing). Without it, `...` in a line
    /// stands for the folder of the script.
    #[must_use]
    pub fn prefix_path(mut self, prefix: impl AsRef<Path>) -> Self {
        self.0.set_path("prefixPathInSCP", prefix.as_ref());
        self
    }

    keys_of! {
        /// Each utterance is one frame, which is repeated for every sample of the reader's first deserializer
        /// (`expandToUtterance`; default: false): i-vectors.
        expand_to_utterance(expand: bool) = inner "expandToUtterance";
        /// Utterances with more frames are left out (`maxSequenceSize`; default: none is).
        max_sequence_size(frames: u32) = outer "maxSequenceSize";
        /// Minibatches and windows are measured in frames of this stream (`definesMBSize`; default: in those of the
        /// longest stream).
        defines_minibatch_size(defines: bool) = outer "definesMBSize";
    }
}

/// Labels of frames in text files of the HTK master label format: one sparse stream of class numbers. It follows a
/// deserializer of features.
///
/// ```
/// use cntk_reader::HtkMlfDeserializer;
///
/// let labels = HtkMlfDeserializer::new("labels", "train.mlf", 132).state_list("states.list");
/// # assert!(labels.to_string().contains("labelMappingFile = \"states.list\""));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtkMlfDeserializer(StreamSection);

deserializer!(HtkMlfDeserializer);

impl HtkMlfDeserializer {
    /// Reads the labels of a file as the stream `stream`. `classes` is their number: the values of a sample.
    #[must_use]
    pub fn new(stream: &str, mlf_file: impl AsRef<Path>, classes: usize) -> HtkMlfDeserializer {
        let head = "type = \"HTKMLFDeserializer\" ; module = \"HTKDeserializers\"";
        HtkMlfDeserializer(labels(head, stream, mlf_file.as_ref(), classes))
    }

    /// Adds another file of labels, read after those before it (`mlfFileList`).
    #[must_use]
    pub fn add_mlf_file(mut self, mlf_file: impl AsRef<Path>) -> Self {
        self.0.files.paths.push(mlf_file.as_ref().to_owned());
        self
    }

    /// The list of states, whose lines are the names of classes (`labelMappingFile`). Without it each line of labels has a
    /// fourth column with the number of the class.
    #[must_use]
    pub fn state_list(mut self, path: impl AsRef<Path>) -> Self {
        self.0.set_path("labelMappingFile", path.as_ref());
        self
    }

    keys_of! {
        /// The value is 2 where a range of frames begins (`phoneBoundaries`; default: false). Not in frame mode.
        phone_boundaries(boundaries: bool) = inner "phoneBoundaries";
        /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false). Counts only where
        /// keys are hashed, see [`ReaderOptions::hash_keys`](crate::ReaderOptions::hash_keys).
        cache_index(cache: bool) = inner "cacheIndex";
        /// Bytes of a chunk, the unit of loading (`chunkSizeInBytes`; default: 64 MiB).
        chunk_size(bytes: u64) = outer "chunkSizeInBytes";
    }
}

/// Labels of frames in CNTK's binary files: one sparse stream of class numbers. It follows a deserializer of features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtkMlfBinaryDeserializer(StreamSection);

deserializer!(HtkMlfBinaryDeserializer);

impl HtkMlfBinaryDeserializer {
    /// Reads the labels of a file as the stream `stream`. `classes` is their number: the values of a sample.
    #[must_use]
    pub fn new(stream: &str, mlf_file: impl AsRef<Path>, classes: usize) -> HtkMlfBinaryDeserializer {
        let head = "type = \"HTKMLFBinaryDeserializer\" ; module = \"HTKDeserializers\"";
        HtkMlfBinaryDeserializer(labels(head, stream, mlf_file.as_ref(), classes))
    }

    /// Adds another file of labels, read after those before it (`mlfFileList`).
    #[must_use]
    pub fn add_mlf_file(mut self, mlf_file: impl AsRef<Path>) -> Self {
        self.0.files.paths.push(mlf_file.as_ref().to_owned());
        self
    }

    keys_of! {
        /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false). Counts only where
        /// keys are hashed, see [`ReaderOptions::hash_keys`](crate::ReaderOptions::hash_keys).
        cache_index(cache: bool) = inner "cacheIndex";
        /// Bytes of a chunk, the unit of loading (`chunkSizeInBytes`; default: 64 MiB).
        chunk_size(bytes: u64) = outer "chunkSizeInBytes";
    }
}

/// Only the very section of the stream may have the paths of labels, and an array of one would be taken for the path of a
/// list of files.
fn labels(head: &'static str, stream: &str, mlf_file: &Path, classes: usize) -> StreamSection {
    let files =
        Files { paths: vec![mlf_file.to_owned()], keys: ("mlfFile", "mlfFileList"), is_inherited: false };
    let mut section = StreamSection::new(head, stream, files);
    section.inner.set("labelDim", classes);
    section
}

/// Lattices: one stream of opaque bytes for each utterance. It follows a deserializer of features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatticeDeserializer(StreamSection);

deserializer!(LatticeDeserializer);

impl LatticeDeserializer {
    /// Reads the lattices of the tables of contents that `index_file` lists as the stream `stream`.
    #[must_use]
    pub fn new(stream: &str, index_file: impl AsRef<Path>) -> LatticeDeserializer {
        let head = "type = \"LatticeDeserializer\" ; module = \"HTKDeserializers\"";
        let paths = vec![index_file.as_ref().to_owned()];
        let files = Files { paths, keys: ("latticeIndexFile", "latticeIndexFile"), is_inherited: true };
        LatticeDeserializer(StreamSection::new(head, stream, files))
    }

    keys_of! {
        /// Keeps the index in a file beside the data, in CNTK's format (`cacheIndex`; default: false). Counts only where
        /// keys are hashed, see [`ReaderOptions::hash_keys`](crate::ReaderOptions::hash_keys).
        cache_index(cache: bool) = inner "cacheIndex";
        /// Bytes of a chunk, the unit of loading (`chunkSizeInBytes`; default: 64 MiB).
        chunk_size(bytes: u64) = outer "chunkSizeInBytes";
    }
}

/// Kaldi archives: matrices of features as a dense stream, or integer vectors of class numbers as a sparse one. CNTK has
/// no such deserializer.
///
/// ```
/// use cntk_reader::KaldiDeserializer;
///
/// let features = KaldiDeserializer::script("features", "feats.scp", 40).context_window(5, 5);
/// let labels = KaldiDeserializer::archive("labels", "ali.ark", 3000).sparse();
/// # assert!(labels.to_string().contains("format = sparse"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KaldiDeserializer(StreamSection);

deserializer!(KaldiDeserializer);

impl KaldiDeserializer {
    /// Reads the utterances that a script file (`.scp`) lists as the stream `stream`. `dim` is the number of values of a
    /// frame, or that of classes.
    #[must_use]
    pub fn script(stream: &str, path: impl AsRef<Path>, dim: usize) -> KaldiDeserializer {
        KaldiDeserializer::of(stream, "scpFile", path.as_ref(), dim)
    }

    /// Reads the utterances of an archive (`.ark`) as the stream `stream`.
    #[must_use]
    pub fn archive(stream: &str, path: impl AsRef<Path>, dim: usize) -> KaldiDeserializer {
        KaldiDeserializer::of(stream, "arkFile", path.as_ref(), dim)
    }

    fn of(stream: &str, key: &'static str, path: &Path, dim: usize) -> KaldiDeserializer {
        let files = Files { paths: vec![path.to_owned()], keys: (key, key), is_inherited: true };
        let mut section = StreamSection::new("type = \"KaldiDeserializer\"", stream, files);
        section.inner.set("dim", dim);
        KaldiDeserializer(section)
    }

    /// The archive has integer vectors of class numbers below `dim` (`format = "sparse"`; default: matrices of features).
    #[must_use]
    pub fn sparse(mut self) -> Self {
        self.0.inner.set("format", "sparse");
        self
    }

    /// Neighbouring frames that a sample has before and after its own (`contextWindow`; default: none).
    #[must_use]
    pub fn context_window(mut self, before: u32, after: u32) -> Self {
        self.0.inner.set("contextWindow", format!("{before}:{after}"));
        self
    }

    keys_of! {
        /// Each utterance is one frame, which is repeated for every sample of the reader's first deserializer
        /// (`expandToUtterance`; default: false): i-vectors.
        expand_to_utterance(expand: bool) = inner "expandToUtterance";
        /// Utterances with more frames are left out (`maxSequenceSize`; default: none is).
        max_sequence_size(frames: u32) = outer "maxSequenceSize";
        /// Minibatches and windows are measured in frames of this stream (`definesMBSize`; default: in those of the
        /// longest stream).
        defines_minibatch_size(defines: bool) = outer "definesMBSize";
    }
}
