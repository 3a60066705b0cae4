//! Options of the HTK feature, label and lattice deserializers.

use super::{HtkFeatureDeserializer, LatticeDeserializer, MlfDeserializer, mlf};
use cntk_reader_core::Result;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Ahead, Context, Facts, Format, Opened, Signature};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::{Quirks, Release};
use cntk_reader_core::runtime::cancel::Current;
use cntk_reader_core::stream::{ElementType, Ids};
use std::sync::Arc;

/// Options of the deserializer for HTK feature files.
#[derive(Debug, Clone, PartialEq)]
pub struct HtkFeatureOptions {
    /// Name of its stream.
    pub stream: String,
    /// Paths of the script files, read as if they were concatenated.
    pub scp_files: Vec<String>,
    /// Values per frame; without a context window, values per sample (`dim`).
    pub dim: u64,
    /// Context frames per sample, before and after. If both are 0, their number follows from `dim`.
    pub context: (u32, u32),
    /// `prefixPathInSCP`, unchanged.
    pub prefix: String,
    /// The single frame of each utterance is repeated for each sample of the reader's first stream
    /// (`expandToUtterance`).
    pub expand: bool,
    /// Utterances with more frames are skipped (`maxSequenceSize`).
    pub max_sequence_size: u32,
    /// Minibatches are measured in this stream's samples.
    pub defines_mb_size: bool,
    /// Log level (`verbosity`).
    pub verbosity: i32,
    /// Type of the values.
    pub element: ElementType,
    /// Each frame is a sequence.
    pub frame_mode: bool,
    /// Folders that the file's paths may lead to (`confinePaths`).
    pub confinement: Confinement,
    /// Quirks of the release that the reader replaces.
    pub quirks: Quirks,
}

impl HtkFeatureOptions {
    /// Returns options to read all frames of a script, whatever their number of values.
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

/// Options of the label deserializers.
#[derive(Debug, Clone, PartialEq)]
pub struct MlfOptions {
    /// Name of its stream.
    pub stream: String,
    /// Paths of the label files, in order.
    pub files: Vec<String>,
    /// Path of the file that lists them, one per line (`mlfFileList`), if they are not in the
    /// configuration.
    pub list: Option<String>,
    /// Path of the state list (`labelMappingFile`). Binary labels have none.
    pub state_list: Option<String>,
    /// Number of classes: the dimension of samples.
    pub dim: u64,
    /// Values are 2 at the beginning of ranges, otherwise 1 (`phoneBoundaries`).
    pub phone_boundaries: bool,
    /// Classes are delivered as numbers (`ids`).
    pub ids: Option<Ids>,
    /// Keep and use an index file next to the data; only with hashed keys.
    pub cache_index: bool,
    /// Chunk size in bytes; never 0.
    pub chunk_size: u64,
    /// The files are binary.
    pub binary: bool,
    /// Type of the values.
    pub element: ElementType,
    /// Each frame is a sequence.
    pub frame_mode: bool,
    /// Folders that the file's paths may lead to (`confinePaths`).
    pub confinement: Confinement,
    /// Quirks of the release that the reader replaces.
    pub quirks: Quirks,
    /// The front end whose option names appear in messages.
    pub front_end: FrontEnd,
}

/// Options of the lattice deserializer.
#[derive(Debug, Clone, PartialEq)]
pub struct LatticeOptions {
    /// Name of its stream.
    pub stream: String,
    /// Path of the index file, which lists tables of contents.
    pub index_file: String,
    /// Keep and use an index file next to the data; only with hashed keys.
    pub cache_index: bool,
    /// Chunk size in bytes; never 0.
    pub chunk_size: u64,
    /// Log level (`verbosity`).
    pub verbosity: i32,
    /// Folders that the file's paths may lead to (`confinePaths`).
    pub confinement: Confinement,
}

impl Format for HtkFeatureOptions {
    fn type_name(&self) -> &str {
        "HTKFeatureDeserializer"
    }

    fn name(&self) -> &str {
        first(&self.scp_files)
    }

    fn facts(&self) -> Facts {
        Facts {
            signature: Signature::Is(FileFormat::HtkFeatures),
            frame_mode: self.frame_mode,
            ..Facts::default()
        }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, is_primary, next, .. } = context;
        // If labels come next, scan their file while keys are numbered here.
        let next = next.filter(|_| pool.threads() > 1);
        let call = Current::get();
        let open = || HtkFeatureDeserializer::open(self, corpus, is_primary);
        let scan = || call.within(|| next.and_then(Format::scan_ahead));
        let (opened, ahead) = pool.install(|| rayon::join(open, scan));
        Ok(Opened { deserializer: AnyDeserializer::Known(Arc::new(opened?)), ahead })
    }

    fn confine(&mut self, confinement: &Confinement) {
        self.confinement.clone_from(confinement);
    }

    fn follow(&mut self, release: Release) {
        self.quirks = release.quirks();
    }
}

impl Format for MlfOptions {
    fn type_name(&self) -> &str {
        if self.binary { "HTKMLFBinaryDeserializer" } else { "HTKMLFDeserializer" }
    }

    fn name(&self) -> &str {
        first(&self.files)
    }

    fn facts(&self) -> Facts {
        Facts { signature: Signature::Is(FileFormat::Mlf), frame_mode: self.frame_mode, ..Facts::default() }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, is_primary, labels_may_be_first, ahead, .. } = context;
        let is_primary = is_primary && !labels_may_be_first;
        let scanned = ahead.and_then(|ahead| ahead.downcast().ok()).map(|scanned| *scanned);
        let opened = pool.install(|| MlfDeserializer::open(self, corpus, is_primary, scanned))?;
        Ok(AnyDeserializer::Known(Arc::new(opened)).into())
    }

    fn scan_ahead(&self) -> Option<Ahead> {
        mlf::scan_ahead(self).map(|scanned| Box::new(scanned) as Ahead)
    }

    fn confine(&mut self, confinement: &Confinement) {
        self.confinement.clone_from(confinement);
    }

    fn speak(&mut self, front_end: FrontEnd) {
        self.front_end = front_end;
    }

    fn follow(&mut self, release: Release) {
        self.quirks = release.quirks();
    }
}

impl Format for LatticeOptions {
    fn type_name(&self) -> &str {
        "LatticeDeserializer"
    }

    fn name(&self) -> &str {
        &self.index_file
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, is_primary, .. } = context;
        let opened = pool.install(|| LatticeDeserializer::open(self, corpus, is_primary))?;
        Ok(AnyDeserializer::Known(Arc::new(opened)).into())
    }

    fn confine(&mut self, confinement: &Confinement) {
        self.confinement.clone_from(confinement);
    }

    fn follow(&mut self, _: Release) {}
}

/// Returns the first of several paths.
fn first(paths: &[String]) -> &str {
    paths.first().map_or("", String::as_str)
}
