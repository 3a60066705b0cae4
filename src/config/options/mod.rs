//! Settings: what a configuration means to the engine.

mod image;
mod pace;
mod release;

pub use image::{
    ColorOptions, CropKind, CropOptions, CropRatio, ImageOptions, IntensityOptions, Interpolation, ScaleMode,
    ScaleOptions, TransformOptions, TransformedStream, UserTransformOptions,
};
pub use pace::Pace;
pub use release::{Quirks, Release};

use super::{Section, Written};
use crate::file::Confinement;
use crate::stream::{ElementType, Storage, StreamInfo};

/// Everything a reader is built from.
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderSettings {
    /// Which kind of configuration this was.
    pub shape: Shape,
    /// The deserializers in the order of the configuration; the first one is primary.
    pub deserializers: Vec<DeserializerOptions>,
    /// Streams of deserializers that are not for images, whose samples are transformed as images.
    pub transformed: Vec<TransformedStream>,
    /// Keys of sequences are numbers (`useNumericSequenceKeys`).
    pub numeric_keys: bool,
    /// Textual keys are numbered by hash (`hashSequenceKeys`).
    pub hash_keys: bool,
    /// Order of sequences.
    pub order: Order,
    /// How minibatches are packed.
    pub packing: Packing,
    /// Truncated minibatches are as long as the epoch's minibatch size says, and have this many lanes: one number for
    /// each epoch, of which the last one counts for all later epochs. `None`: `packing` has the length.
    pub lanes_by_epoch: Option<Vec<u64>>,
    /// Each worker's minibatch size is its share of the total (`localTimeline`); otherwise all workers walk the same
    /// global minibatch and keep their share.
    pub local_timeline: bool,
    /// Every worker reads as many minibatches as the others, and gets one without data where its share is empty
    /// (`lockstep`). Not with a local timeline.
    pub lockstep: bool,
    /// Invalid sequences tolerated by the reader; bad lines of a text file are counted by its deserializer.
    pub max_errors: u64,
    /// Type of the delivered values.
    pub element: ElementType,
    /// `traceLevel`.
    pub trace_level: u32,
    /// `verbosity`.
    pub verbosity: i32,
    /// Sequences that are fetched one by one are fetched by several threads (`multiThreadedDeserialization`).
    pub multithreaded: bool,
    /// Minibatches are packed ahead (`prefetch`).
    pub prefetch: bool,
    /// The release of CNTK in whose place the reader stands: its section came from CNTK, which chose the module by itself. What CNTK
    /// ignores without a word is ignored then, and is an error otherwise.
    pub in_place_of: Option<Release>,
    /// Where the key was written that `packing` comes from: `frameMode` or `truncated`.
    pub packing_key: Written,
    /// Where each of `deserializers` was described; there may be fewer places than deserializers.
    pub descriptions: Vec<Written>,
}

impl ReaderSettings {
    /// How far each worker reads for a minibatch.
    pub fn pace(&self) -> Pace {
        match self.in_place_of {
            _ if self.lockstep => Pace::Lockstep,
            Some(release) => release.pace(),
            None => Pace::Own,
        }
    }
}

/// The kinds of configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// `deserializers = ( ... )`: what CNTK's API and its composite reader use.
    Composite,
    /// `readerType = "CNTKTextFormatReader"`, with one text deserializer. CNTK puts
    /// `CNTKTextFormatReader: While reading '<file>': ` before the runtime errors that occur once this reader's
    /// configuration has been read.
    TextReader,
    /// `readerType = "CNTKBinaryReader"`, with one binary deserializer. CNTK's prefix is
    /// `CNTKBinaryReader: While reading '<file>': ` here.
    BinaryReader,
    /// `readerType = "ImageReader"`, with one deserializer of images.
    ImageReader,
    /// `readerType = "HTKMLFReader"` or `"HTKDeserializers"`: features and labels in sections of the reader's own.
    HtkReader,
}

/// Order of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The data's own order.
    InOrder,
    /// Randomization in windows: rolling ones where sequences are known beforehand, else tumbling ones.
    Block {
        /// How far sequences move.
        window: WindowSize,
        /// Added to the sweep's number to seed it.
        seed: u64,
    },
}

/// Size of a randomization window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSize {
    /// In chunks: from 1 to 2^32-1.
    Chunks(u64),
    /// In samples. 0 is the least window, one chunk.
    Samples(u64),
}

/// How minibatches are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Whole sequences in parallel lanes.
    Sequence,
    /// Single samples.
    Frame,
    /// Truncated back-propagation through time.
    Truncated {
        /// Steps of a minibatch; 2^64-1 is possible and means "all". 0 stands for the minibatch size of each epoch, see
        /// [`ReaderSettings::lanes_by_epoch`].
        length: u64,
        /// Overlap of minibatches of one sequence, at most the length.
        right_splice: u64,
    },
}

/// One deserializer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DeserializerOptions {
    /// CNTK text format.
    Text(TextOptions),
    /// CNTK binary format.
    Binary(BinaryOptions),
    /// HTK feature files.
    HtkFeatures(HtkFeatureOptions),
    /// Labels of the HTK master label format, as text or binary.
    Mlf(MlfOptions),
    /// Lattices: opaque bytes.
    Lattice(LatticeOptions),
    /// Kaldi archives.
    Kaldi(KaldiOptions),
    /// Images.
    Image(ImageOptions),
    /// A format of the user's own.
    User(UserOptions),
    /// A format of another module.
    Foreign(ForeignOptions),
}

/// Options of a deserializer that this library does not have.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignOptions {
    /// The section's `type`.
    pub name: String,
    /// Its section, with what the reader puts into it.
    pub section: Section,
    /// Its sequences are known beforehand (`composable`).
    pub composable: bool,
}

/// Options of a user's deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOptions {
    /// The name that it was registered by, the section's `type`.
    pub name: String,
    /// Its sequences are known beforehand, and the section does not forbid to use that (`composable = false`).
    pub composable: bool,
}

impl DeserializerOptions {
    /// Confines the paths that its files name.
    pub(super) fn confine(&mut self, confinement: &Confinement) {
        let own = match self {
            DeserializerOptions::HtkFeatures(features) => &mut features.confinement,
            DeserializerOptions::Mlf(labels) => &mut labels.confinement,
            DeserializerOptions::Lattice(lattices) => &mut lattices.confinement,
            DeserializerOptions::Kaldi(kaldi) => &mut kaldi.confinement,
            DeserializerOptions::Image(images) => &mut images.confinement,
            DeserializerOptions::Text(_)
            | DeserializerOptions::Binary(_)
            | DeserializerOptions::User(_)
            | DeserializerOptions::Foreign(_) => return,
        };
        own.clone_from(confinement);
    }

    /// Reads the data as a release does.
    pub(super) fn follow(&mut self, release: Release) {
        match self {
            DeserializerOptions::Text(text) => text.quirks = release.quirks(),
            DeserializerOptions::HtkFeatures(features) => features.quirks = release.quirks(),
            DeserializerOptions::Mlf(labels) => labels.quirks = release.quirks(),
            DeserializerOptions::Binary(binary) => binary.ignores_unmatched = true,
            DeserializerOptions::Image(image) => {
                (image.as_cntk, image.draws) = (true, None);
            }
            DeserializerOptions::Lattice(_)
            | DeserializerOptions::Kaldi(_)
            | DeserializerOptions::User(_)
            | DeserializerOptions::Foreign(_) => {}
        }
    }

    /// The `type` that stands for it in configurations.
    pub fn type_name(&self) -> &str {
        match self {
            DeserializerOptions::Text(_) => "CNTKTextFormatDeserializer",
            DeserializerOptions::Binary(_) => "CNTKBinaryFormatDeserializer",
            DeserializerOptions::HtkFeatures(_) => "HTKFeatureDeserializer",
            DeserializerOptions::Mlf(mlf) if mlf.binary => "HTKMLFBinaryDeserializer",
            DeserializerOptions::Mlf(_) => "HTKMLFDeserializer",
            DeserializerOptions::Lattice(_) => "LatticeDeserializer",
            DeserializerOptions::Kaldi(_) => "KaldiDeserializer",
            DeserializerOptions::Image(image) if image.base64 => "Base64ImageDeserializer",
            DeserializerOptions::Image(_) => "ImageDeserializer",
            DeserializerOptions::User(user) => &user.name,
            DeserializerOptions::Foreign(foreign) => &foreign.name,
        }
    }

    /// Path of the file, or the name of a user's deserializer.
    pub fn name(&self) -> &str {
        match self {
            DeserializerOptions::Text(text) => &text.file,
            DeserializerOptions::Binary(binary) => &binary.file,
            DeserializerOptions::HtkFeatures(features) => first(&features.scp_files),
            DeserializerOptions::Mlf(mlf) => first(&mlf.files),
            DeserializerOptions::Lattice(lattice) => &lattice.index_file,
            DeserializerOptions::Kaldi(kaldi) => &kaldi.file,
            DeserializerOptions::Image(image) => &image.file,
            DeserializerOptions::User(user) => &user.name,
            DeserializerOptions::Foreign(foreign) => &foreign.name,
        }
    }
}

/// Options of the binary deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryOptions {
    /// Path of the file; or a pattern, or a list of both.
    pub file: String,
    /// Several files share one numbering of sequences (`sharedIds`).
    pub shared_ids: bool,
    /// New names of streams with their names in the file.
    pub renamed: Vec<(String, String)>,
    /// Of several new names for one stream the last one counts, and those of streams that the file
    /// does not have mean nothing, as in CNTK. Otherwise both are errors.
    pub ignores_unmatched: bool,
    /// Keep every chunk that was loaded once.
    pub keep_data_in_memory: bool,
    /// What is logged.
    pub trace_level: u32,
    /// Type of the values; the file's must be the same.
    pub element: ElementType,
}

/// The greatest number of errors that can be tolerated: that of all.
pub const MOST_ERRORS: u32 = crate::limits::MOST_ERRORS;

/// Options of the text deserializer.
#[derive(Debug, Clone, PartialEq)]
pub struct TextOptions {
    /// Path of the file; or a pattern, or a list of both.
    pub file: String,
    /// Several files share one numbering of sequences (`sharedIds`).
    pub shared_ids: bool,
    /// Streams, sorted by name without regard to case: their order is the order of stream numbers.
    pub streams: Vec<TextStream>,
    /// Take every line as a sequence, whatever ids say.
    pub skip_sequence_ids: bool,
    /// Errors tolerated in the data.
    pub max_errors: u32,
    /// What is logged.
    pub trace_level: u32,
    /// Bytes of a chunk; never 0.
    pub chunk_size: u64,
    /// Keep and use an index file beside the data.
    pub cache_index: bool,
    /// Keep every chunk that was loaded once. CNTK's composite reader has no such cache.
    pub keep_data_in_memory: bool,
    /// Type of the values.
    pub element: ElementType,
    /// CNTK's rules for lines and streams of a sequence; false is the documentation's more generous reading.
    pub strict_sequences: bool,
    /// Those of the release in whose place the reader stands.
    pub quirks: Quirks,
}

impl TextOptions {
    /// The streams as the deserializer offers them.
    pub fn stream_infos(&self) -> Vec<StreamInfo> {
        let info = |stream: &TextStream| StreamInfo {
            name: stream.name.clone(),
            storage: stream.storage,
            element: self.element,
            shape: vec![stream.dim as usize],
            defines_mb_size: stream.defines_mb_size,
            is_binary: false,
        };
        self.streams.iter().map(info).collect()
    }
}

/// A stream of the text deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextStream {
    /// Name of the stream.
    pub name: String,
    /// Name in the file; bytes, case-sensitive.
    pub alias: String,
    /// Values of one sample.
    pub dim: u64,
    /// Dense or sparse.
    pub storage: Storage,
    /// Minibatches are measured in this stream's samples.
    pub defines_mb_size: bool,
}

/// The first of several paths.
fn first(paths: &[String]) -> &str {
    paths.first().map_or("", String::as_str)
}

/// Options of the deserializer of HTK feature files.
#[derive(Debug, Clone, PartialEq)]
pub struct HtkFeatureOptions {
    /// Name of its stream.
    pub stream: String,
    /// Paths of the script files: their lines are read as if they stood in one file.
    pub scp_files: Vec<String>,
    /// `dim`: values of a frame, or those of a sample if there is no context window.
    pub dim: u64,
    /// Neighbouring frames of a sample, before and after. Both 0: as many as `dim` asks for.
    pub context: (u32, u32),
    /// `prefixPathInSCP`, as it is in the configuration.
    pub prefix: String,
    /// The only frame of each utterance is repeated for each sample of the reader's first stream (`expandToUtterance`).
    pub expand: bool,
    /// Utterances with more frames are left out (`maxSequenceSize`).
    pub max_sequence_size: u32,
    /// Minibatches are measured in this stream's samples.
    pub defines_mb_size: bool,
    /// What is logged (`verbosity`).
    pub verbosity: i32,
    /// Type of the values.
    pub element: ElementType,
    /// Each frame is a sequence.
    pub frame_mode: bool,
    /// Where the paths may lead that the file names (`confinePaths`).
    pub confinement: Confinement,
    /// Those of the release in whose place the reader stands.
    pub quirks: Quirks,
}

impl HtkFeatureOptions {
    /// Those that read all frames that a script names, whatever the number of their values.
    pub fn of_frames(script: &str) -> HtkFeatureOptions {
        HtkFeatureOptions {
            stream: "features".into(),
            scp_files: vec![script.to_owned()],
            dim: 0,
            context: (0, 0),
            prefix: String::new(),
            expand: false,
            max_sequence_size: u32::MAX,
            defines_mb_size: false,
            verbosity: 0,
            element: ElementType::Float,
            frame_mode: false,
            confinement: Confinement::default(),
            quirks: Quirks::default(),
        }
    }
}

/// Options of the deserializers of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct MlfOptions {
    /// Name of its stream.
    pub stream: String,
    /// Paths of the label files, in their order.
    pub files: Vec<String>,
    /// Path of the file that names them, one a line (`mlfFileList`), if they are not in the configuration.
    pub list: Option<String>,
    /// Path of the list of states (`labelMappingFile`). Binary labels have none.
    pub state_list: Option<String>,
    /// Number of classes: values of a sample.
    pub dim: u64,
    /// The value is 2 where a range of frames begins, else 1 (`phoneBoundaries`).
    pub phone_boundaries: bool,
    /// Keep and use an index file beside the data; only with hashed keys.
    pub cache_index: bool,
    /// Bytes of a chunk; never 0.
    pub chunk_size: u64,
    /// The files are binary.
    pub binary: bool,
    /// Type of the values.
    pub element: ElementType,
    /// Each frame is a sequence.
    pub frame_mode: bool,
    /// Where the paths may lead that the file names (`confinePaths`).
    pub confinement: Confinement,
    /// Those of the release in whose place the reader stands.
    pub quirks: Quirks,
}

/// Options of the deserializer of lattices.
#[derive(Debug, Clone, PartialEq)]
pub struct LatticeOptions {
    /// Name of its stream.
    pub stream: String,
    /// Path of the list of tables of contents.
    pub index_file: String,
    /// Keep and use an index file beside the data; only with hashed keys.
    pub cache_index: bool,
    /// Bytes of a chunk; never 0.
    pub chunk_size: u64,
    /// What is logged (`verbosity`).
    pub verbosity: i32,
    /// Where the paths may lead that the file names (`confinePaths`).
    pub confinement: Confinement,
}

/// Options of the deserializer of Kaldi archives.
#[derive(Debug, Clone, PartialEq)]
pub struct KaldiOptions {
    /// Name of its stream.
    pub stream: String,
    /// Path of the script file (`.scp`) or of the archive (`.ark`).
    pub file: String,
    /// `file` is a script file.
    pub is_script: bool,
    /// Values of a frame, or number of classes of integer vectors.
    pub dim: u64,
    /// Dense: matrices of features. Sparse: integer vectors of class numbers.
    pub storage: Storage,
    /// Neighbouring frames of a sample, before and after.
    pub context: (u32, u32),
    /// The only frame of each utterance is repeated for each sample of the reader's first stream (`expandToUtterance`).
    pub expand: bool,
    /// Utterances with more frames are left out (`maxSequenceSize`).
    pub max_sequence_size: u32,
    /// Minibatches are measured in this stream's samples.
    pub defines_mb_size: bool,
    /// Type of the values.
    pub element: ElementType,
    /// Each frame is a sequence.
    pub frame_mode: bool,
    /// Where the paths may lead that the file names (`confinePaths`).
    pub confinement: Confinement,
}
