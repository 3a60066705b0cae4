//! From a path to data: a configuration file, or a data file alone whose format is recognized by its content.

use crate::exit::Failure;
use cntk_reader::inspect::{
    Brief, CheckOptions, CheckProgress, CheckSummary, Finding, Inspector, TextOutline,
};
use cntk_reader::{Builder, CbfDeserializer, FileFormat, Reader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A file to look at.
#[derive(Debug, Clone)]
pub struct Input {
    /// Its path, as it was given.
    pub path: PathBuf,
    /// What it is: a configuration, or data in CNTK's text or binary format.
    pub format: FileFormat,
}

/// Data that were checked.
pub struct Checked {
    /// The data.
    pub data: Inspector,
    /// What the check has found.
    pub summary: CheckSummary,
    /// Of a text file without a configuration, what was found by reading it.
    pub outline: Option<TextOutline>,
}

impl Input {
    /// Recognizes what a file is. Refuses files that cannot be read without more being known of them.
    pub fn recognize(path: &Path) -> Result<Input, Failure> {
        let text = path.to_str().ok_or_else(|| {
            Failure::Usage(format!(
                "The path '{}' is not UTF-8 text, which paths must be here.",
                path.display()
            ))
        })?;
        let format = FileFormat::of_file(text)?;
        let input = Input { path: path.to_owned(), format };
        if format == FileFormat::Configuration || format == FileFormat::Cbf || input.is_text() {
            return Ok(input);
        }
        Err(Failure::Data(format!(
            "'{text}' is {}. A configuration was expected, or a data file in CNTK's text or binary format. {}",
            format.describe(),
            format.advice()
        )))
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
        let builder = match self.is_text() {
            true => {
                let outline = TextOutline::of_sample(self.name())?;
                Reader::builder().options(outline.options()).ctf(outline.deserializer())
            }
            false => self.builder()?,
        };
        Ok(builder.brief()?)
    }

    /// A builder for looking at sequences in the order of the data. The streams of a text file are those that are found in some
    /// places of it.
    pub fn sequences(&self) -> Result<Builder, Failure> {
        if !self.is_text() {
            return self.builder();
        }
        let outline = TextOutline::of_sample(self.name())?;
        // What is wrong with the file is what `validate` says.
        let options = outline.options().trace_level(0);
        Ok(Reader::builder().options(options).ctf(outline.lenient_deserializer()))
    }

    /// Checks all data.
    pub fn check(
        &self,
        options: &CheckOptions,
        listener: &mut dyn FnMut(Finding) -> ControlFlow<()>,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<Checked, Failure> {
        if self.is_text() {
            let outline = TextOutline::of_sample(self.name())?;
            let (outline, data, summary) = outline.complete(options, listener, progress)?;
            return Ok(Checked { data, summary, outline: Some(outline) });
        }
        let data = self.builder()?.inspect()?;
        let summary = data.check(options, listener, progress)?;
        Ok(Checked { data, summary, outline: None })
    }
}
