//! Turns a path into data: a configuration file, or a data file alone whose format is recognized by
//! its content.

use crate::args::Global;
use crate::exit::Failure;
use crate::import::{self, Kind};
use cntk_reader::{Builder, CbfDeserializer, Config, Error, FileFormat, Reader};
use cntk_reader_core::file::address;
use cntk_reader_tools::Look;
use cntk_reader_tools::inspect::{
    BareFiles, Brief, CheckOptions, CheckProgress, CheckSummary, Finding, Inspector, SequenceReader,
    TextOutline,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The data that a command works on.
#[derive(Debug, Clone)]
pub struct Input {
    /// Path of the file, or of the first of several, as given.
    pub path: PathBuf,
    /// Its format.
    pub format: FileFormat,
    /// The data files, if there are several, or one of speech or images. `None` for a
    /// configuration, and for data in CNTK's text or binary format.
    files: Option<BareFiles>,
    /// The configuration, if it is one, with the selected reader.
    config: Option<Config>,
    /// The path as text, or its URL.
    name: String,
}

/// Checked data, with the results of the check.
pub struct Checked {
    /// The data.
    pub data: Inspector,
    /// The results of the check.
    pub summary: CheckSummary,
    /// The streams found by reading, for data files without a configuration.
    pub found: FoundStreams,
}

/// Streams that were found by reading data files.
pub enum FoundStreams {
    /// None: the streams are declared.
    Nothing,
    /// The streams of a text file.
    Text(TextOutline),
    /// The streams of files of all kinds.
    Files(BareFiles),
}

impl FoundStreams {
    /// The dimension of a stream, if it was found by reading the data.
    pub fn dim(&self, name: &str) -> Option<usize> {
        match self {
            FoundStreams::Nothing => None,
            FoundStreams::Text(outline) => {
                outline.streams.iter().find(|stream| stream.name == name).map(|stream| stream.dim)
            }
            FoundStreams::Files(files) => files.dim(name),
        }
    }
}

impl Input {
    /// Recognizes a single file. Accepts only configurations and data in CNTK's text or binary
    /// format.
    pub fn recognize(path: &Path, global: &Global) -> Result<Input, Failure> {
        let text = address::text_of(path);
        let input = Input::new(path, format_of(path)?, global)?;
        let text = &*text;
        if input.is_plain() {
            return Ok(input);
        }
        let advice = match BareFiles::recognize(&[text]) {
            Ok(_) => format!("'cntk-reader info {text} --config' prints a configuration that reads it."),
            Err(_) if let Some(failure) = to_be_converted(path)? => return Err(failure),
            Err(_) => advice_on(input.format, text),
        };
        Err(Failure::Data(format!(
            "'{text}' is {}. A configuration was expected, or a data file in CNTK's text or binary format. {advice}",
            input.format.describe(),
        )))
    }

    /// Recognizes one or several files: a configuration, or data files of any kind, which are
    /// joined by key.
    pub fn of_files(paths: &[PathBuf], global: &Global) -> Result<Input, Failure> {
        let texts: Vec<_> = paths.iter().map(|path| address::text_of(path)).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        let formats = paths.iter().map(|path| format_of(path)).collect::<Result<Vec<_>, _>>()?;
        let (Some(path), Some(&format)) = (paths.first(), formats.first()) else {
            return Err(Failure::Usage("Give a configuration, or data files.".to_owned()));
        };
        if paths.len() > 1 && formats.contains(&FileFormat::Configuration) {
            let message = "A configuration already names its files: give it alone, or give only data files.";
            return Err(Failure::Usage(message.to_owned()));
        }
        let mut input = Input::new(path, format, global)?;
        if paths.len() > 1 || !input.is_plain() {
            input.files = Some(match BareFiles::recognize(&texts) {
                Ok(files) => files,
                Err(error) => return Err(explained(error, paths)?),
            });
        }
        Ok(input)
    }

    fn new(path: &Path, format: FileFormat, global: &Global) -> Result<Input, Failure> {
        let config = match (format, &global.reader) {
            (FileFormat::Configuration, Some(reader)) => Some(Config::from_file(path)?.reader(reader)?),
            (FileFormat::Configuration, None) => Some(Config::from_file(path)?),
            (_, Some(reader)) => {
                let message = format!(
                    "--reader {reader} chooses a reader of a configuration, and '{}' is {}.",
                    path.display(),
                    format.describe()
                );
                return Err(Failure::Usage(message));
            }
            (_, None) => None,
        };
        let name = address::text_of(path).into_owned();
        Ok(Input { path: path.to_owned(), format, files: None, config, name })
    }

    /// Whether it is a configuration, or data in CNTK's text or binary format.
    fn is_plain(&self) -> bool {
        matches!(self.format, FileFormat::Configuration | FileFormat::Cbf) || self.is_text()
    }

    /// Whether it is a text file (CTF) without a configuration.
    pub fn is_text(&self) -> bool {
        matches!(self.format, FileFormat::CtfLines | FileFormat::CtfIds | FileFormat::CtfTextIds)
    }

    /// Whether it is several data files, or one of speech or images, without a configuration.
    pub fn has_bare_files(&self) -> bool {
        self.files.is_some()
    }

    /// The path as text, or its URL if the path is not valid text.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The builder of a configuration or a binary file.
    fn builder(&self) -> Result<Builder, Failure> {
        Ok(match &self.config {
            Some(config) => Reader::builder().config(config.clone()),
            None => Reader::builder().cbf(CbfDeserializer::new(&self.path)),
        })
    }

    /// The configuration, if it is one.
    pub fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    /// A quick summary from the index caches; `None` if not all of them fit.
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

    /// Opens the data to look at sequences in the order of the data. The streams of a text file are
    /// found by sampling it.
    pub fn sequences(&self) -> Result<SequenceReader, Failure> {
        if let Some(files) = &self.files {
            return Ok(files.sequences()?);
        }
        if !self.is_text() {
            return Ok(self.builder()?.sequences()?);
        }
        let outline = TextOutline::of_sample(self.name())?;
        // Reporting problems of the file is the task of `validate`.
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
            return Ok(Checked { data, summary, found: FoundStreams::Files(files) });
        }
        if self.is_text() {
            let outline = TextOutline::of_sample(self.name())?;
            let (outline, data, summary) = outline.complete(options, listener, progress)?;
            return Ok(Checked { data, summary, found: FoundStreams::Text(outline) });
        }
        let data = self.builder()?.inspect()?;
        let summary = data.check(options, listener, progress)?;
        Ok(Checked { data, summary, found: FoundStreams::Nothing })
    }
}

/// Returns the error for files that are not recognized, with the command that makes data of them if
/// there is one.
fn explained(error: Error, paths: &[PathBuf]) -> Result<Failure, Failure> {
    for path in paths {
        let text = address::text_of(path);
        if BareFiles::recognize(&[&text]).is_ok() {
            continue;
        }
        if let Some(failure) = to_be_converted(path)? {
            return Ok(failure);
        }
        let format = format_of(path)?;
        if is_image(format) {
            let message = format!("'{text}' is {}. {}", format.describe(), advice_on(format, &text));
            return Ok(Failure::Data(message));
        }
    }
    Ok(error.into())
}

/// Returns the error for a table or alike, which only some commands read.
fn to_be_converted(path: &Path) -> Result<Option<Failure>, Failure> {
    let what = match import::kind_of(path)? {
        Some(Kind::Records(format)) => import::describe(format),
        Some(Kind::Columns(container)) => container.describe(),
        _ => return Ok(None),
    };
    let text = address::text_of(path);
    Ok(Some(Failure::Data(format!(
        "'{text}' is {what}, which only convert, info and head read. Convert it first: cntk-reader convert {text} NEW.ctf"
    ))))
}

fn is_image(format: FileFormat) -> bool {
    use FileFormat::{Bmp, Gif, Jpeg, Png, Tiff, Webp};
    matches!(format, Bmp | Gif | Jpeg | Png | Tiff | Webp)
}

/// Says what to do with a file that this tool does not read as it is.
pub fn advice_on(format: FileFormat, path: &str) -> String {
    match is_image(format) {
        true => "Images are read by a map file. Put the images into a folder for each class, FOLDER/CLASS/IMAGE, and make one: \
                 cntk-reader convert FOLDER NEW.map; or write a line 'path<tab>class' for each."
            .to_owned(),
        false => format.advice_on(path).into_owned(),
    }
}

/// Recognizes a file. A file with the extension of a configuration is treated as one, unless it
/// certainly is something else.
pub fn format_of(path: &Path) -> Result<FileFormat, Failure> {
    if path == Path::new("-") {
        let message = "Data are not read from the standard input, because they are read more than once: write them to a file. A \
                       file named '-' is './-'.";
        return Err(Failure::Usage(message.to_owned()));
    }
    let format = FileFormat::of_file(&address::text_of(path))?;
    let is_named =
        path.extension().is_some_and(|ending| ["cntk", "bs", "config"].iter().any(|known| ending == *known));
    let may_be = matches!(
        format,
        FileFormat::Text
            | FileFormat::Json
            | FileFormat::Csv
            | FileFormat::Tsv
            | FileFormat::Script
            | FileFormat::LibSvm
            | FileFormat::Numbers
            | FileFormat::ImageMap
            | FileFormat::KaldiText
    );
    Ok(if is_named && may_be { FileFormat::Configuration } else { format })
}
