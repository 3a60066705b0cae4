//! Builders of the deserializers for speech: HTK features, labels (MLF), lattices and Kaldi archives.

use super::{of_module, streams};
use crate::language::values::{Value, Values};
use cntk_reader_core::Result;
use cntk_reader_core::stream::ElementType;
use std::path::{Path, PathBuf};

const MODULE: &str = "HTKDeserializers";

/// The values of a deserializer of one stream.
#[derive(Debug, Clone, PartialEq)]
struct OneStream {
    name: String,
    /// Values of the deserializer.
    outer: Values,
    /// Values of the stream.
    inner: Values,
    paths: Vec<PathBuf>,
    keys: PathKeys,
}

/// The keys for the files of a deserializer.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PathKeys {
    one: &'static str,
    several: &'static str,
    /// A single file is that of the deserializer, otherwise of its stream.
    is_outside: bool,
}

impl OneStream {
    fn new(outer: Values, name: &str, path: &Path, keys: PathKeys) -> OneStream {
        let (name, paths) = (name.to_owned(), vec![path.to_owned()]);
        OneStream { name, outer, inner: Values::default(), paths, keys }
    }

    fn values(&self) -> Result<Values> {
        let (mut outer, mut inner) = (self.outer.clone(), self.inner.clone());
        match &*self.paths {
            [path] if self.keys.is_outside => outer.set(self.keys.one, &**path),
            [path] => inner.set(self.keys.one, &**path),
            paths => {
                let paths = paths.iter().map(|path| Value::from(&**path)).collect();
                inner.set(self.keys.several, Value::List(paths));
            }
        }
        outer.set("input", streams([(&*self.name, inner)].into_iter())?);
        Ok(outer)
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

/// The methods for classes that are delivered as numbers.
macro_rules! ids {
    () => {
        /// Delivers classes as numbers, dense integers of the type [`ElementType::Int32`] or
        /// [`ElementType::Int64`], in place of one-hot samples (`ids`).
        #[must_use]
        pub fn ids(mut self, element: ElementType) -> Self {
            self.0.inner.set("ids", element.name());
            self
        }

        /// The value that gaps of truncated minibatches have, with [`ids`](Self::ids) (`padding`;
        /// default: 0).
        #[must_use]
        pub fn padding(mut self, value: i64) -> Self {
            self.0.inner.set("padding", Value::Word(value.to_string()));
            self
        }
    };
}

/// What all builders have beside their keys.
macro_rules! deserializer {
    ($name:ident) => {
        impl $name {
            /// The section that a configuration would have in `deserializers`.
            pub fn to_configuration(&self) -> Result<String> {
                self.values()?.to_section()
            }

            #[doc(hidden)]
            pub fn values(&self) -> Result<Values> {
                self.0.values()
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
/// # assert!(features.to_configuration()?.contains("contextWindow = 5:5"));
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HtkFeatureDeserializer(OneStream);

deserializer!(HtkFeatureDeserializer);

impl HtkFeatureDeserializer {
    /// Reads the utterances of a script file as the stream `stream`. `dim` is the number of values of a frame. Without a
    /// [`context_window`](Self::context_window) it may be an odd multiple of it: samples then have as many frames.
    #[must_use]
    pub fn new(stream: &str, scp_file: impl AsRef<Path>, dim: usize) -> HtkFeatureDeserializer {
        let keys = PathKeys { one: "scpFile", several: "scpFile", is_outside: true };
        let outer = of_module("HTKFeatureDeserializer", MODULE);
        let mut features = OneStream::new(outer, stream, scp_file.as_ref(), keys);
        features.inner.set("dim", dim);
        HtkFeatureDeserializer(features)
    }

    /// Adds another script file, whose lines follow those of the ones before it.
    #[must_use]
    pub fn add_scp_file(mut self, scp_file: impl AsRef<Path>) -> Self {
        self.0.paths.push(scp_file.as_ref().to_owned());
        self
    }

    /// Neighbouring frames that a sample has before and after its own (`contextWindow`; default: none).
    #[must_use]
    pub fn context_window(mut self, before: u32, after: u32) -> Self {
        self.0.inner.set("contextWindow", (before, after));
        self
    }

    /// What stands before each path of the script (`prefixPathInSCP`; default: nothing). Without it, `...` in a line
    /// stands for the folder of the script.
    #[must_use]
    pub fn prefix_path(mut self, prefix: impl AsRef<Path>) -> Self {
        self.0.inner.set("prefixPathInSCP", prefix.as_ref());
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
/// # assert!(labels.to_configuration()?.contains("labelMappingFile = \"states.list\""));
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct HtkMlfDeserializer(OneStream);

deserializer!(HtkMlfDeserializer);

impl HtkMlfDeserializer {
    /// Reads the labels of a file as the stream `stream`. `classes` is their number: the values of a sample.
    #[must_use]
    pub fn new(stream: &str, mlf_file: impl AsRef<Path>, classes: usize) -> HtkMlfDeserializer {
        HtkMlfDeserializer(labels("HTKMLFDeserializer", stream, mlf_file.as_ref(), classes))
    }

    /// Adds another file of labels, read after those before it (`mlfFileList`).
    #[must_use]
    pub fn add_mlf_file(mut self, mlf_file: impl AsRef<Path>) -> Self {
        self.0.paths.push(mlf_file.as_ref().to_owned());
        self
    }

    /// The list of states, whose lines are the names of classes (`labelMappingFile`). Without it each line of labels has a
    /// fourth column with the number of the class.
    #[must_use]
    pub fn state_list(mut self, path: impl AsRef<Path>) -> Self {
        self.0.inner.set("labelMappingFile", path.as_ref());
        self
    }

    ids!();

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
#[derive(Debug, Clone, PartialEq)]
pub struct HtkMlfBinaryDeserializer(OneStream);

deserializer!(HtkMlfBinaryDeserializer);

impl HtkMlfBinaryDeserializer {
    /// Reads the labels of a file as the stream `stream`. `classes` is their number: the values of a sample.
    #[must_use]
    pub fn new(stream: &str, mlf_file: impl AsRef<Path>, classes: usize) -> HtkMlfBinaryDeserializer {
        HtkMlfBinaryDeserializer(labels("HTKMLFBinaryDeserializer", stream, mlf_file.as_ref(), classes))
    }

    ids!();

    /// Adds another file of labels, read after those before it (`mlfFileList`).
    #[must_use]
    pub fn add_mlf_file(mut self, mlf_file: impl AsRef<Path>) -> Self {
        self.0.paths.push(mlf_file.as_ref().to_owned());
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
fn labels(name: &str, stream: &str, mlf_file: &Path, classes: usize) -> OneStream {
    let keys = PathKeys { one: "mlfFile", several: "mlfFileList", is_outside: false };
    let mut labels = OneStream::new(of_module(name, MODULE), stream, mlf_file, keys);
    labels.inner.set("labelDim", classes);
    labels
}

/// Lattices: one stream of opaque bytes for each utterance. It follows a deserializer of features.
#[derive(Debug, Clone, PartialEq)]
pub struct LatticeDeserializer(OneStream);

deserializer!(LatticeDeserializer);

impl LatticeDeserializer {
    /// Reads the lattices of the tables of contents that `index_file` lists as the stream `stream`.
    #[must_use]
    pub fn new(stream: &str, index_file: impl AsRef<Path>) -> LatticeDeserializer {
        let keys = PathKeys { one: "latticeIndexFile", several: "latticeIndexFile", is_outside: true };
        let outer = of_module("LatticeDeserializer", MODULE);
        LatticeDeserializer(OneStream::new(outer, stream, index_file.as_ref(), keys))
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
/// # assert!(labels.to_configuration()?.contains("format = \"sparse\""));
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct KaldiDeserializer(OneStream);

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
        let keys = PathKeys { one: key, several: key, is_outside: true };
        let mut archives = OneStream::new(Values::of_type("KaldiDeserializer"), stream, path, keys);
        archives.inner.set("dim", dim);
        KaldiDeserializer(archives)
    }

    /// The archive has integer vectors of class numbers below `dim` (`format = "sparse"`; default: matrices of features).
    #[must_use]
    pub fn sparse(mut self) -> Self {
        self.0.inner.set("format", "sparse");
        self
    }

    ids!();

    /// Neighbouring frames that a sample has before and after its own (`contextWindow`; default: none).
    #[must_use]
    pub fn context_window(mut self, before: u32, after: u32) -> Self {
        self.0.inner.set("contextWindow", (before, after));
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
