//! The generated corpora, and configurations that read them.

use crate::data;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tooling::project::Project;

/// Steps of truncated minibatches.
pub const TRUNCATION: u64 = 20;

/// The files of the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One HTK archive.
    Archive,
    /// One HTK file for each utterance.
    Files,
    /// A Kaldi archive of matrices.
    Kaldi,
}

/// How utterances become minibatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// Whole utterances.
    Sequences,
    /// Single frames.
    Frames,
    /// Pieces of utterances.
    Truncated,
}

impl ReadMode {
    /// All modes.
    pub const ALL: [ReadMode; 3] = [ReadMode::Sequences, ReadMode::Frames, ReadMode::Truncated];

    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            ReadMode::Sequences => "sequences",
            ReadMode::Frames => "frames",
            ReadMode::Truncated => "truncated",
        }
    }

    /// Returns the lines of a configuration that select this mode.
    fn keys(self) -> String {
        match self {
            ReadMode::Sequences => String::new(),
            ReadMode::Frames => "frameMode = true\n".to_owned(),
            ReadMode::Truncated => format!("truncated = true\ntruncationLength = {TRUNCATION}\n"),
        }
    }
}

/// The options of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct ConfigOptions {
    /// The files of the features.
    pub format: Format,
    /// How utterances become minibatches.
    pub mode: ReadMode,
    /// Neighbours of a frame on each side.
    pub context: u32,
    /// Whether to read labels, too.
    pub with_labels: bool,
    /// Whether to randomize over all data.
    pub is_randomized: bool,
}

/// A generated corpus.
pub struct Corpus {
    /// The folder of the corpus.
    pub folder: PathBuf,
    /// The number of utterances.
    pub utterances: u64,
    /// Frames of an utterance.
    pub frames: u64,
    /// Values of a frame.
    pub values: u64,
    /// The sums that a reader must find.
    pub sums: Value,
}

/// Generates corpora by the program `benches/speech`. Existing ones are reused.
pub struct CorpusGenerator<'a> {
    project: &'a Project,
    /// The path of the program.
    pub program: String,
    /// The folder of the corpora.
    pub folder: PathBuf,
}

impl<'a> CorpusGenerator<'a> {
    /// Builds the program.
    pub fn new(project: &'a Project) -> Result<CorpusGenerator<'a>> {
        let folder = project.target.join("bench-data/speech");
        std::fs::create_dir_all(&folder)?;
        Ok(CorpusGenerator { project, program: data::program(project, "speech")?, folder })
    }

    /// Generates a corpus if necessary, with `with_files` also as a file for each utterance.
    pub fn corpus(&self, utterances: u64, frames: u64, values: u64, with_files: bool) -> Result<Corpus> {
        let folder = self.folder.join(format!("{utterances}-{frames}-{values}"));
        let sums = folder.join("sums.json");
        if !sums.exists() {
            self.project.part(&format!("generating {utterances} utterances"), || {
                let sizes = [utterances, frames, values].map(|size| size.to_string());
                let flags = if with_files { &["files"][..] } else { &[] };
                self.project.run(&self.program).arg("generate").arg(&folder).args(sizes).args(flags).go()
            })?;
        }
        let sums = serde_json::from_str(&std::fs::read_to_string(&sums)?)?;
        Ok(Corpus { folder, utterances, frames, values, sums })
    }
}

impl Corpus {
    /// Returns the path of a file of the corpus.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the size of the features in megabytes.
    pub fn megabytes(&self) -> f64 {
        (4 * self.utterances * self.frames * self.values) as f64 / 1e6
    }

    /// Returns the number of frames.
    pub fn all_frames(&self) -> f64 {
        (self.utterances * self.frames) as f64
    }

    /// Writes a configuration, and returns its path.
    pub fn config(&self, options: ConfigOptions) -> Result<PathBuf> {
        let ConfigOptions { format, mode, context, with_labels, is_randomized } = options;
        let path = |name: &str| -> Result<String> {
            Ok(self.file(name).to_str().context("the path is not UTF-8")?.to_owned())
        };
        let window =
            if context == 0 { String::new() } else { format!(" ; contextWindow = {context}:{context}") };
        // CNTK has no Kaldi deserializer, so there is no module to name.
        let htk = "\"HTKFeatureDeserializer\" ; module = \"HTKDeserializers\"";
        let (kind, script) = match format {
            Format::Archive => (htk, "archive.scp"),
            Format::Files => (htk, "files.scp"),
            Format::Kaldi => ("\"KaldiDeserializer\"", "ark.scp"),
        };
        let mut text = format!(
            "{}randomize = {is_randomized}\ndeserializers = (\n  [ type = {kind}\n    input = [ features = [ scpFile = \"{}\" ; dim = \
             {}{window} ] ] ]",
            mode.keys(),
            path(script)?,
            self.values
        );
        if with_labels {
            text += &format!(
                " :\n  [ type = \"HTKMLFDeserializer\" ; module = \"HTKDeserializers\"\n    input = [ labels = [ mlfFile = \
                 \"{}\" ; labelMappingFile = \"{}\" ; labelDim = 132 ] ] ]",
                path("labels.mlf")?,
                path("states.list")?
            );
        }
        text += " )\n";
        let name =
            format!("{format:?}-{mode:?}-{context}-{with_labels}-{is_randomized}.config").to_lowercase();
        let path = self.folder.join(name);
        write(&path, &text)?;
        Ok(path)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}
