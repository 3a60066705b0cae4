//! Builders of the speech deserializers: HTK features, labels (MLF), lattices and Kaldi archives.

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

/// The keys for a deserializer's files.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PathKeys {
    one: &'static str,
    several: &'static str,
    /// Whether a single file belongs to the section of the deserializer; otherwise it belongs to
    /// the stream's section.
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

/// Defines a setter for each single-valued key of the stream or of the deserializer.
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

/// Defines the methods for delivering class ids.
macro_rules! ids {
    () => {
        /// Delivers class ids as dense integers of type [`ElementType::Int32`] or
        /// [`ElementType::Int64`] instead of one-hot samples (`ids`).
        #[must_use]
        pub fn ids(mut self, element: ElementType) -> Self {
            self.0.inner.set("ids", element.name());
            self
        }

        /// Sets the value of gaps of truncated minibatches, with [`ids`](Self::ids) (`padding`;
        /// default: 0).
        #[must_use]
        pub fn padding(mut self, value: i64) -> Self {
            self.0.inner.set("padding", Value::Word(value.to_string()));
            self
        }
    };
}

/// Implements the methods that all builders share.
macro_rules! deserializer {
    ($name:ident) => {
        impl $name {
            /// Returns the section for `deserializers` in a configuration.
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

/// Features in HTK archives, listed in a script file: one dense stream.
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
    /// Reads the utterances of a script file as the stream `stream`. `dim` is the number of values
    /// of a frame. Without a [`context_window`](Self::context_window) it may be an odd multiple of
    /// that: samples then consist of that many frames.
    #[must_use]
    pub fn new(stream: &str, scp_file: impl AsRef<Path>, dim: usize) -> HtkFeatureDeserializer {
        let keys = PathKeys { one: "scpFile", several: "scpFile", is_outside: true };
        let outer = of_module("HTKFeatureDeserializer", MODULE);
        let mut features = OneStream::new(outer, stream, scp_file.as_ref(), keys);
        features.inner.set("dim", dim);
        HtkFeatureDeserializer(features)
    }

    /// Adds another script file, whose lines follow the earlier ones.
    #[must_use]
    pub fn add_scp_file(mut self, scp_file: impl AsRef<Path>) -> Self {
        self.0.paths.push(scp_file.as_ref().to_owned());
        self
    }

    /// Adds this many neighbouring frames before and after a sample's own frame (`contextWindow`;
    /// default: none).
    #[must_use]
    pub fn context_window(mut self, before: u32, after: u32) -> Self {
        self.0.inner.set("contextWindow", (before, after));
        self
    }

    /// Sets the prefix of each path in the script (`prefixPathInSCP`; default: none). Without it,
    /// `...` in a line means the folder of the script.
    #[must_use]
    pub fn prefix_path(mut self, prefix: impl AsRef<Path>) -> Self {
        self.0.inner.set("prefixPathInSCP", prefix.as_ref());
        self
    }

    keys_of! {
        /// Each utterance is a single frame, such as an i-vector, which is repeated for every
        /// sample of the reader's first deserializer (`expandToUtterance`; default: false).
        expand_to_utterance(expand: bool) = inner "expandToUtterance";
        /// Skips utterances with more frames (`maxSequenceSize`; default: no limit).
        max_sequence_size(frames: u32) = outer "maxSequenceSize";
        /// Measures minibatches and windows in frames of this stream (`definesMBSize`; default: the
        /// longest stream).
        defines_minibatch_size(defines: bool) = outer "definesMBSize";
    }
}

/// Frame labels in text files of the HTK master label format: one sparse stream of class ids. It
/// must follow a deserializer of features.
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
    /// Reads the labels of a file as the stream `stream`, with `classes` classes.
    #[must_use]
    pub fn new(stream: &str, mlf_file: impl AsRef<Path>, classes: usize) -> HtkMlfDeserializer {
        HtkMlfDeserializer(labels("HTKMLFDeserializer", stream, mlf_file.as_ref(), classes))
    }

    /// Adds another file of labels, read after the earlier ones (`mlfFileList`).
    #[must_use]
    pub fn add_mlf_file(mut self, mlf_file: impl AsRef<Path>) -> Self {
        self.0.paths.push(mlf_file.as_ref().to_owned());
        self
    }

    /// Sets the state list, whose lines are the class names (`labelMappingFile`). Without it each
    /// label line has a fourth column with the class id.
    #[must_use]
    pub fn state_list(mut self, path: impl AsRef<Path>) -> Self {
        self.0.inner.set("labelMappingFile", path.as_ref());
        self
    }

    ids!();

    keys_of! {
        /// The value is 2 where a range of frames begins (`phoneBoundaries`; default: false). Not
        /// in frame mode.
        phone_boundaries(boundaries: bool) = inner "phoneBoundaries";
        /// Caches the index in a file beside the data, in CNTK's format (`cacheIndex`; default:
        /// false). Has an effect only if keys are hashed; see
        /// [`ReaderOptions::hash_keys`](crate::ReaderOptions::hash_keys).
        cache_index(cache: bool) = inner "cacheIndex";
        /// Bytes of a chunk, the unit of loading (`chunkSizeInBytes`; default: 64 MiB).
        chunk_size(bytes: u64) = outer "chunkSizeInBytes";
    }
}

/// Frame labels in CNTK's binary files: one sparse stream of class ids. It must follow a
/// deserializer of features.
#[derive(Debug, Clone, PartialEq)]
pub struct HtkMlfBinaryDeserializer(OneStream);

deserializer!(HtkMlfBinaryDeserializer);

impl HtkMlfBinaryDeserializer {
    /// Reads the labels of a file as the stream `stream`, with `classes` classes.
    #[must_use]
    pub fn new(stream: &str, mlf_file: impl AsRef<Path>, classes: usize) -> HtkMlfBinaryDeserializer {
        HtkMlfBinaryDeserializer(labels("HTKMLFBinaryDeserializer", stream, mlf_file.as_ref(), classes))
    }

    ids!();

    /// Adds another file of labels, read after the earlier ones (`mlfFileList`).
    #[must_use]
    pub fn add_mlf_file(mut self, mlf_file: impl AsRef<Path>) -> Self {
        self.0.paths.push(mlf_file.as_ref().to_owned());
        self
    }

    keys_of! {
        /// Caches the index in a file beside the data, in CNTK's format (`cacheIndex`; default:
        /// false). Has an effect only if keys are hashed; see
        /// [`ReaderOptions::hash_keys`](crate::ReaderOptions::hash_keys).
        cache_index(cache: bool) = inner "cacheIndex";
        /// Bytes of a chunk, the unit of loading (`chunkSizeInBytes`; default: 64 MiB).
        chunk_size(bytes: u64) = outer "chunkSizeInBytes";
    }
}

/// Paths of labels are only read from the section of the stream itself, and a one-element array
/// would be taken for the path of a list of files.
fn labels(name: &str, stream: &str, mlf_file: &Path, classes: usize) -> OneStream {
    let keys = PathKeys { one: "mlfFile", several: "mlfFileList", is_outside: false };
    let mut labels = OneStream::new(of_module(name, MODULE), stream, mlf_file, keys);
    labels.inner.set("labelDim", classes);
    labels
}

/// Lattices: one stream of opaque bytes for each utterance. It must follow a deserializer of
/// features.
#[derive(Debug, Clone, PartialEq)]
pub struct LatticeDeserializer(OneStream);

deserializer!(LatticeDeserializer);

impl LatticeDeserializer {
    /// Reads the lattices of the tables of contents listed in `index_file` as the stream `stream`.
    #[must_use]
    pub fn new(stream: &str, index_file: impl AsRef<Path>) -> LatticeDeserializer {
        let keys = PathKeys { one: "latticeIndexFile", several: "latticeIndexFile", is_outside: true };
        let outer = of_module("LatticeDeserializer", MODULE);
        LatticeDeserializer(OneStream::new(outer, stream, index_file.as_ref(), keys))
    }

    keys_of! {
        /// Caches the index in a file beside the data, in CNTK's format (`cacheIndex`; default:
        /// false). Has an effect only if keys are hashed; see
        /// [`ReaderOptions::hash_keys`](crate::ReaderOptions::hash_keys).
        cache_index(cache: bool) = inner "cacheIndex";
        /// Bytes of a chunk, the unit of loading (`chunkSizeInBytes`; default: 64 MiB).
        chunk_size(bytes: u64) = outer "chunkSizeInBytes";
    }
}

/// Kaldi archives: feature matrices as a dense stream, or integer vectors of class ids as a sparse
/// one. CNTK has no such deserializer.
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
    /// Reads the utterances listed in a script file (`.scp`) as the stream `stream`. `dim` is the
    /// number of values of a frame, or the number of classes.
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

    /// Reads integer vectors of class ids below `dim` (`format = "sparse"`; default: feature
    /// matrices).
    #[must_use]
    pub fn sparse(mut self) -> Self {
        self.0.inner.set("format", "sparse");
        self
    }

    ids!();

    /// Adds this many neighbouring frames before and after a sample's own frame (`contextWindow`;
    /// default: none).
    #[must_use]
    pub fn context_window(mut self, before: u32, after: u32) -> Self {
        self.0.inner.set("contextWindow", (before, after));
        self
    }

    keys_of! {
        /// Each utterance is a single frame, such as an i-vector, which is repeated for every
        /// sample of the reader's first deserializer (`expandToUtterance`; default: false).
        expand_to_utterance(expand: bool) = inner "expandToUtterance";
        /// Skips utterances with more frames (`maxSequenceSize`; default: no limit).
        max_sequence_size(frames: u32) = outer "maxSequenceSize";
        /// Measures minibatches and windows in frames of this stream (`definesMBSize`; default: the
        /// longest stream).
        defines_minibatch_size(defines: bool) = outer "definesMBSize";
    }
}
