//! Options of the Kaldi deserializer.

use super::KaldiDeserializer;
use cntk_reader_core::Result;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Context, Facts, Format, Opened, Signature};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::stream::{ElementType, Ids, Storage};
use std::sync::Arc;

/// Options of the deserializer for Kaldi archives.
#[derive(Debug, Clone, PartialEq)]
pub struct KaldiOptions {
    /// Name of its stream.
    pub stream: String,
    /// Path of the script file (`.scp`) or of the archive (`.ark`).
    pub file: String,
    /// `file` is a script file.
    pub is_script: bool,
    /// Values per frame, or number of classes of integer vectors.
    pub dim: u64,
    /// Dense: matrices of features. Sparse: integer vectors of class numbers.
    pub storage: Storage,
    /// Class numbers are delivered as integers, not as one-hot samples (`ids`).
    pub ids: Option<Ids>,
    /// Context frames per sample, before and after.
    pub context: (u32, u32),
    /// The single frame of each utterance is repeated for each sample of the reader's first stream
    /// (`expandToUtterance`).
    pub expand: bool,
    /// Utterances with more frames are skipped (`maxSequenceSize`).
    pub max_sequence_size: u32,
    /// Minibatches are measured in this stream's samples.
    pub defines_mb_size: bool,
    /// Type of the values.
    pub element: ElementType,
    /// Each frame is a sequence.
    pub frame_mode: bool,
    /// Folders that the file's paths may lead to (`confinePaths`).
    pub confinement: Confinement,
}

impl Format for KaldiOptions {
    fn type_name(&self) -> &str {
        "KaldiDeserializer"
    }

    fn name(&self) -> &str {
        &self.file
    }

    fn facts(&self) -> Facts {
        Facts {
            signature: Signature::Is(FileFormat::KaldiArchive),
            frame_mode: self.frame_mode,
            ..Facts::default()
        }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, is_primary, .. } = context;
        let opened = pool.install(|| KaldiDeserializer::open(self, corpus, is_primary))?;
        Ok(AnyDeserializer::Known(Arc::new(opened)).into())
    }

    fn confine(&mut self, confinement: &Confinement) {
        self.confinement.clone_from(confinement);
    }

    fn follow(&mut self, _: Release) {}
}
