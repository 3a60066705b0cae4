//! From a path to data: a configuration file, or a data file alone whose format is recognized by its content.

use crate::exit::Failure;
use cntk_reader::inspect::{
    BareFiles, Brief, CheckOptions, CheckProgress, CheckSummary, Finding, Inspector, SequenceReader,
    TextOutline,
};
use cntk_reader::{Builder, CbfDeserializer, FileFormat, Reader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// What to look at.
#[derive(Debug, Clone)]
pub struct Input {
    /// Path of the file, or of the first of several, as it was given.
    pub path: PathBuf,
    /// What it is.
    pub format: FileFormat,
    /// Several data files, or one of speech or images. Otherwise it is a configuration, or data in CNTK's text or binary format.
    files: Option<BareFiles>,
}

/// Data that were checked.
pub struct Checked {
    /// The data.
    pub data: Inspector,
    /// What the check has found.
    pub summary: CheckSummary,
    /// Of data files without a configuration, what was found by reading them.
    pub found: Found,
}

/// What was found by reading data files.
pub enum Found {
    /// Nothing: their streams are stated.
    Nothing,
    /// The streams of a text file.
    Text(TextOutline),
    /// The streams of files of all kinds.
    Files(BareFiles),
}

impl Found {
    /// The dimension of a stream, if it was found by reading the data.
    pub fn dim(&self, name: &str) -> Option<usize> {
        match self {
            Found::Nothing => None,
            Found::Text(outline) => {
                outline.streams.iter().find(|stream| stream.name == name).map(|stream| stream.dim)
            }
            Found::Files(files) => files.dim(name),
        }
    }
}

impl Input {
    /// Recognizes what a file is. Refuses all but configurations and data in CNTK's text or binary format.
    pub fn recognize(path: &Path) -> Result<Input, Failure> {
        let text = text(path)?;
        let input = Input { path: path.to_owned(), format: FileFormat::of_file(text)?, files: None };
        if input.is_plain() {
            return Ok(input);
        }
        let advice = match BareFiles::recognize(&[text]) {
            Ok(_) => format!("'cntk-reader info {text} --config' prints a configuration that reads it."),
            Err(_) => input.format.advice().to_owned(),
        };
        Err(Failure::Data(format!(
            "'{text}' is {}. A configuration was expected, or a data file in CNTK's text or binary format. {advice}",
            input.format.describe(),
        )))
    }

    /// Recognizes what files are: a configuration, or data files of any kind, which are joined by key.
    pub fn of_files(paths: &[PathBuf]) -> Result<Input, Failure> {
        let texts = paths.iter().map(|path| text(path)).collect::<Result<Vec<_>, Failure>>()?;
        let formats = texts.iter().map(|text| FileFormat::of_file(text)).collect::<Result<Vec<_>, _>>()?;
        let (Some(path), Some(&format)) = (paths.first(), formats.first()) else {
            return Err(Failure::Usage("Give a configuration, or data files.".to_owned()));
        };
        let mut input = Input { path: path.clone(), format, files: None };
        if paths.len() > 1 && formats.contains(&FileFormat::Configuration) {
            let message = "A configuration says itself which files belong together: give it alone, or give data files only.";
            return Err(Failure::Usage(message.to_owned()));
        }
        if paths.len() > 1 || !input.is_plain() {
            input.files = Some(BareFiles::recognize(&texts)?);
        }
        Ok(input)
    }

    /// Whether it is a configuration, or data in CNTK's text or binary format.
    fn is_plain(&self) -> bool {
        matches!(self.format, FileFormat::Configuration | FileFormat::Cbf) || self.is_text()
    }

    /// Whether it is a text file (CTF) without a configuration.
    pub fn is_text(&self) -> bool {
        matches!(self.format, FileFormat::CtfLines | FileFormat::CtfIds | FileFormat::CtfTextIds)
    }

    /// The path as text.
    pub fn name(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }

    /// The builder of a configuration or a binary file.
    fn builder(&self) -> Result<Builder, Failure> {
        Ok(match self.format {
            FileFormat::Configuration => Reader::builder().config_file(&self.path)?,
            _ => Reader::builder().cbf(CbfDeserializer::new(&self.path)),
        })
    }

    /// What is known at once, from the caches of indexes; `None` if there are none that fit.
    pub fn brief(&self) -> Result<Option<Brief>, Failure> {
        if self.files.is_some() {
            return Ok(None);
        }
        let builder = match self.is_text() {
            true => {
                let outline = TextOutline::of_sample(self.name())?;
                Reader::builder().options(outline.options()).ctf(outline.deserializer())
            }
            false => self.builder()?,
        };
        Ok(builder.brief()?)
    }

    /// Opens the data to look at sequences in the order of the data. The streams of a text file are those that are found in some
    /// places of it.
    pub fn sequences(&self) -> Result<SequenceReader, Failure> {
        if let Some(files) = &self.files {
            return Ok(files.sequences()?);
        }
        if !self.is_text() {
            return Ok(self.builder()?.sequences()?);
        }
        let outline = TextOutline::of_sample(self.name())?;
        // What is wrong with the file is what `validate` says.
        let options = outline.options().trace_level(0);
        Ok(Reader::builder().options(options).ctf(outline.lenient_deserializer()).sequences()?)
    }

    /// Checks all data.
    pub fn check(
        &self,
        options: &CheckOptions,
        listener: &mut dyn FnMut(Finding) -> ControlFlow<()>,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<Checked, Failure> {
        if let Some(files) = &self.files {
            let mut files = files.clone();
            let data = files.inspect()?;
            let summary = data.check(options, listener, progress)?;
            files.learn(&data, &summary);
            return Ok(Checked { data, summary, found: Found::Files(files) });
        }
        if self.is_text() {
            let outline = TextOutline::of_sample(self.name())?;
            let (outline, data, summary) = outline.complete(options, listener, progress)?;
            return Ok(Checked { data, summary, found: Found::Text(outline) });
        }
        let data = self.builder()?.inspect()?;
        let summary = data.check(options, listener, progress)?;
        Ok(Checked { data, summary, found: Found::Nothing })
    }
}

/// A path as text.
fn text(path: &Path) -> Result<&str, Failure> {
    let message = || format!("The path '{}' is not UTF-8 text, which paths must be here.", path.display());
    path.to_str().ok_or_else(|| Failure::Usage(message()))
}
