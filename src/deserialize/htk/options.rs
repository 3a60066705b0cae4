//! Options of the deserializers of HTK features, labels and lattices.

use crate::file::Confinement;
use crate::release::Quirks;
use crate::stream::ElementType;

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
