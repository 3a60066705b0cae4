//! Configuration: the language, the section tree, and the settings that the engine is built from.
//!
//! A text is split into records ([`Section`]), whose values stay text until they are read with a
//! type. [`Config::settings`] builds [`ReaderSettings`] from a section. Errors about the language
//! and its values have CNTK 2.7's wording and exception class. [`typed`] builds the same sections
//! without text.

mod array;
mod arrays;
mod binary;
mod brackets;
mod composite;
mod convert;
mod element;
mod expand;
mod file;
mod images;
mod legacy;
mod lexer;
mod module;
mod native;
pub mod options;
mod section;
mod source;
mod speech;
mod syntax;
mod text;
pub mod typed;
mod unread;
pub mod values;
mod whole;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub use array::Array;
pub use convert::{FromValue, WidenedInt};
pub use legacy::ReaderType;
pub use section::Section;
#[cfg(feature = "images")]
pub use typed::{Base64ImageDeserializer, ImageDeserializer};
pub use typed::{CbfDeserializer, CtfDeserializer, NumpyDeserializer, ReaderOptions};
#[cfg(feature = "speech")]
pub use typed::{
    HtkFeatureDeserializer, HtkMlfBinaryDeserializer, HtkMlfDeserializer, KaldiDeserializer,
    LatticeDeserializer,
};

use cntk_reader_core::Result;
use cntk_reader_core::error::{Error, ExceptionClass};
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::options::Format;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::ElementType;
use options::{BinaryOptions, ReaderSettings, Release, TextOptions};
#[cfg(feature = "images")]
use options::{ImageOptions, TransformOptions};
use source::SourceText;
use std::path::Path;
use std::str::FromStr;
use values::Values;

/// A parsed configuration. Values are not checked until a reader is opened.
///
/// The language is CNTK's; see `docs/configuration.md`.
///
/// ```
/// use cntk_reader::Config;
///
/// let config = Config::from_text("randomize = false\nfrom = \"/data\"")?;
/// let error = Config::from_text("input = [ x = [ dim = 3").unwrap_err();
/// assert_eq!(error.message(), "no closing ] found in parameters");
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    section: Section,
    /// The file it was read from.
    file: Option<String>,
    /// The section belongs to a reader of this kind, in the place of this release of CNTK;
    /// otherwise its keys say which reader it describes, and where.
    kind: Option<(ReaderType, Release)>,
    /// The front end whose names messages use for options.
    front_end: FrontEnd,
}

impl Config {
    /// Parses the text of a configuration. In messages its root is called `unknown`, as in CNTK.
    pub fn from_text(text: &str) -> Result<Config> {
        Ok(Config::from_section(&Section::parse_natively("unknown", &SourceText::written(text))?))
    }

    /// Reads a configuration file and the files that it includes, whose paths are relative to the
    /// current directory. In messages its root is called `global`, as in CNTK.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Config> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Err(Error::argument("The path of the configuration file is empty."));
        }
        let shown = path.display().to_string();
        let section =
            Section::parse_natively("global", &file::read(path)?).map_err(|error| error.in_file(&shown))?;
        Ok(Config { file: Some(shown), ..Config::from_section(&section) })
    }

    /// Parses a text as the options of a front end without text: messages show no lines of it. For
    /// tests of messages.
    #[doc(hidden)]
    pub fn generated(text: &str, front_end: FrontEnd) -> Result<Config> {
        let section = Section::parse_natively(front_end.reader_options(), &SourceText::generated(text))
            .map_err(|error| error.in_words_of(front_end))?;
        Ok(Config::from_section(&section).spoken_by(front_end))
    }

    /// Returns the options of a front end without text.
    #[doc(hidden)]
    pub fn of_values(values: &Values, front_end: FrontEnd) -> Config {
        Config::from_section(&Section::of_options(values, front_end)).spoken_by(front_end)
    }

    /// Returns a configuration without keys.
    pub(crate) fn empty(front_end: FrontEnd) -> Config {
        Config::of_values(&Values::default(), front_end)
    }

    /// Sets the front end whose names messages use.
    pub(crate) fn spoken_by(self, front_end: FrontEnd) -> Config {
        Config { front_end, ..self }
    }

    /// Returns the names of the readers in the configuration's sections, as [`Config::reader`]
    /// takes them: a file for CNTK's command line may have several, such as `train.reader` and
    /// `test.reader`. A reader at the root of the file has no name.
    ///
    /// ```
    /// use cntk_reader::Config;
    ///
    /// let text = "train = [ reader = [ file = a.ctf ] ] \n test = [ reader = [ file = b.ctf ] ]";
    /// let config = Config::from_text(text)?;
    /// assert_eq!(config.readers(), ["test.reader", "train.reader"]);
    /// let test = config.reader("test.reader")?;
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    pub fn readers(&self) -> Vec<String> {
        whole::readers(&self.section).into_iter().map(|found| found.name).collect()
    }

    /// Returns the configuration of the reader with this name, the path of keys to its section,
    /// such as `train.reader`. Variables of the enclosing sections apply, as in CNTK.
    ///
    /// A configuration with a single reader needs no choice.
    pub fn reader(&self, name: &str) -> Result<Config> {
        let section = whole::choose(&self.section, name).map_err(|error| match &self.file {
            Some(file) => error.in_file(file),
            None => error,
        })?;
        Ok(Config { section, ..self.clone() })
    }

    /// Takes a section that describes a reader, or that has a `reader` section which does.
    #[doc(hidden)]
    pub fn from_section(section: &Section) -> Config {
        Config { section: section.clone(), file: None, kind: None, front_end: FrontEnd::default() }
    }

    /// Takes the section of a reader of a known kind: CNTK's hosts, of this release, pass it to the
    /// module that they chose.
    #[doc(hidden)]
    pub fn from_reader_section(section: &Section, kind: ReaderType, release: Release) -> Config {
        Config { kind: Some((kind, release)), ..Config::from_section(section) }
    }

    /// Returns the same configuration with some keys replaced or added.
    #[doc(hidden)]
    pub fn with_options(&self, options: &ReaderOptions, others: ExtensionTypes<'_>) -> Result<Config> {
        let section = match self.kind {
            Some(_) => self.section.clone(),
            None => reader_section(&self.section, others.adds_any())?,
        };
        Ok(Config { section: options.over(&section), ..self.clone() })
    }

    /// Returns the settings that the engine is built from. Unread keys are logged as warnings at
    /// trace level 1.
    #[doc(hidden)]
    pub fn settings(&self, others: ExtensionTypes<'_>) -> Result<ReaderSettings> {
        let settings = match self.kind {
            Some((kind, release)) => {
                // CNTK's API writes these two keys for every speech stream, but CNTK does not read
                // them.
                let settings =
                    settings_of(&self.section, kind, others, &["maxSequenceLength", "definesMBSize"]);
                settings.map(|mut settings| {
                    settings.in_place_of = Some(release);
                    settings.deserializers.iter_mut().for_each(|one| one.follow(release));
                    settings
                })
            }
            None => reader_section(&self.section, others.adds_any()).and_then(|section| {
                let kind = legacy::reader_type(&section, others.adds_any())?;
                let settings = settings_of(&section, kind, others, &[])?;
                if kind == ReaderType::Composite {
                    composite::check_truncation(&section)?;
                }
                Ok(settings)
            }),
        };
        let front_end = if self.kind.is_some() { FrontEnd::Cntk } else { self.front_end };
        let mut settings = settings.map_err(|error| {
            let error = error.in_words_of(front_end);
            match &self.file {
                Some(file) => error.in_file(file),
                None => error,
            }
        })?;
        settings.speak(front_end);
        Ok(settings)
    }
}

/// A configuration without keys: every option has its default, and there are no deserializers yet.
impl Default for Config {
    fn default() -> Self {
        Config::empty(FrontEnd::Configuration)
    }
}

impl FromStr for Config {
    type Err = Error;

    fn from_str(text: &str) -> Result<Config> {
        Config::from_text(text)
    }
}

/// A user-defined deserializer, as configurations know it.
#[derive(Debug, Clone, Copy)]
pub struct UserType<'a> {
    /// Its name: the `type` of a section in `deserializers`.
    pub name: &'a str,
    /// Its sequences are known in advance.
    pub composable: bool,
}

/// Deserializers beside the library's own that a configuration may name.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExtensionTypes<'a> {
    /// User-defined deserializers. An element of `deserializers` refers to one by its `type`, and
    /// needs no `module`. Without any elements, all of them are used, in this order.
    pub users: &'a [UserType<'a>],
    /// Sections that follow the elements of `deserializers`. The section of a user-defined
    /// deserializer is left out if `deserializers` already has it.
    pub added: &'a [Section],
    /// Unknown modules are not errors, because the caller makes their deserializers, as well as
    /// image deserializers with transforms of such modules.
    pub foreign: bool,
    /// Names of user-defined transforms: the `type` of an element of `transforms`, which needs no
    /// `module`.
    pub transforms: &'a [&'a str],
}

impl ExtensionTypes<'_> {
    /// Returns whether there are deserializers that the configuration need not name.
    fn adds_any(&self) -> bool {
        !(self.users.is_empty() && self.added.is_empty())
    }
}

/// Returns the settings of a text, without user-defined deserializers.
pub fn from_text(text: &str) -> Result<ReaderSettings> {
    Config::from_text(text)?.settings(ExtensionTypes::default())
}

/// Returns the settings of a text, with user-defined deserializers.
pub fn from_text_with(text: &str, users: &[UserType<'_>]) -> Result<ReaderSettings> {
    Config::from_text(text)?.settings(ExtensionTypes { users, ..ExtensionTypes::default() })
}

/// Returns the settings of a file, without user-defined deserializers.
pub fn from_file(path: &Path) -> Result<ReaderSettings> {
    Config::from_file(path)?.settings(ExtensionTypes::default())
}

/// Returns the settings of a section, without user-defined deserializers.
pub fn from_section(section: &Section) -> Result<ReaderSettings> {
    Config::from_section(section).settings(ExtensionTypes::default())
}

/// Returns the settings of the section of a reader of a known kind. With `foreign`, deserializers
/// that this library does not have are left to others.
pub fn from_reader_section(section: &Section, kind: ReaderType, foreign: bool) -> Result<ReaderSettings> {
    Config::from_reader_section(section, kind, Release::Current)
        .settings(ExtensionTypes { foreign, ..ExtensionTypes::default() })
}

/// Reads the options of one deserializer of the text module, as CNTK's composite reader passes
/// them.
pub fn text_deserializer(section: &Section, name: &str) -> Result<TextOptions> {
    native::text_deserializer(section, name).map(in_place_of_cntk)
}

/// Sets the words of messages in CNTK's place.
fn in_place_of_cntk<O: Format>(mut options: O) -> O {
    options.speak(FrontEnd::Cntk);
    options
}

/// Reads the options of one deserializer of the binary module, as CNTK's composite reader passes
/// them.
pub fn binary_deserializer(section: &Section, name: &str) -> Result<BinaryOptions> {
    let options = in_place_of_cntk(native::binary_deserializer(section, name)?);
    Ok(BinaryOptions { ignores_unmatched: true, ..options })
}

/// Reads the options of one deserializer of the speech module, as CNTK's composite reader passes
/// them. `is_primary`: it is the first one of its reader. `hash_keys`: textual keys are hashed.
pub fn speech_deserializer(
    section: &Section,
    name: &str,
    is_primary: bool,
    hash_keys: bool,
) -> Result<Box<dyn Format>> {
    let mut options = native::speech_deserializer(section, name, is_primary, hash_keys)?;
    options.speak(FrontEnd::Cntk);
    Ok(options)
}

/// Returns the error of a section that needs a feature which is not enabled.
#[cfg(not(all(feature = "images", feature = "speech")))]
fn without(feature: &str, section: &Section) -> Error {
    let message = format!("{} needs {feature}, which this library was built without.", section.subject());
    let detail = format!("Build 'cntk-reader' with the feature '{feature}', one of its default features.");
    Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail)
}

/// Reads the options of one deserializer of the image module, as CNTK's composite reader passes
/// them: without transforms, which the host makes itself.
#[cfg(feature = "images")]
pub fn image_deserializer(section: &Section, name: &str) -> Result<ImageOptions> {
    native::image_deserializer(section, name).map(in_place_of_cntk)
}

/// Reads the options of one transform of the image module, as CNTK's composite reader passes them.
#[cfg(feature = "images")]
pub fn transform(section: &Section, name: &str) -> Result<TransformOptions> {
    images::read_transform(section, name)
}

/// Returns the element type of a reader's values (`precision`), which CNTK's composite reader
/// writes into each section that it passes to a module.
pub fn element_type(section: &Section) -> Result<ElementType> {
    native::element_of_section(section)
}

/// `unremarkable`: keys that are not reported as unread.
fn settings_of(
    section: &Section,
    kind: ReaderType,
    others: ExtensionTypes<'_>,
    unremarkable: &[&str],
) -> Result<ReaderSettings> {
    if kind != ReaderType::Composite && others.adds_any() {
        let message = format!(
            "{} describes a reader of one file ('readerType', or 'input' without 'deserializers'), to which no other \
             deserializer can be added. Write its file as an element of 'deserializers = ( ... )'.",
            section.subject()
        );
        return Err(section.blame("input", Error::config(ExceptionClass::InvalidArgument, message)));
    }
    let mut settings = match kind {
        ReaderType::Composite => composite::read_with(section, others)?,
        ReaderType::Text => legacy::read_text(section)?,
        ReaderType::Binary => legacy::read_binary(section)?,
        ReaderType::Image => legacy::read_image(section)?,
        ReaderType::Htk => legacy::read_htk(section)?,
    };
    let confinement = read_confinement(section)?;
    settings.deserializers.iter_mut().for_each(|one| one.confine(&confinement));
    section.log().report(section.path(), unremarkable, Logger::new(settings.trace_level));
    Ok(settings)
}

/// Reads `confinePaths` and `allowedFolders`.
fn read_confinement(section: &Section) -> Result<Confinement> {
    let folders = section.array_or_empty("allowedFolders")?.paths();
    match (section.get_or("confinePaths", false)?, folders.is_empty()) {
        (true, _) => Ok(Confinement::to(folders)),
        (false, true) => Ok(Confinement::default()),
        (false, false) => {
            let message = "‹allowed_folders› confines no paths without ‹confine_paths›.";
            let detail = "Set ‹confine_paths = true›, or remove ‹allowed_folders›: without it paths may lead anywhere.";
            let error = Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail);
            Err(section.blame("allowedFolders", error))
        }
    }
}

/// Returns the section that describes the reader: this one, its `reader` section, or the one that
/// `readers` names. It may lack deserializers if there are others.
fn reader_section(section: &Section, has_others: bool) -> Result<Section> {
    let describes = |section: &Section| section.exists_here("deserializers") || section.exists_here("input");
    let section = if describes(section) || !section.exists_here("reader") {
        section.clone()
    } else {
        let reader = section.section("reader")?;
        whole::note_others(section, &reader);
        reader
    };
    let is_described = |section: &Section| {
        describes(section)
            || section.exists_here("readers")
            || section.exists("readerType")
            || section.exists("deserializers")
    };
    if !is_described(&section)
        && !has_others
        && let Some(only) = whole::only(&section)?
    {
        return reader_section(&only, has_others);
    }
    if section.is_native() {
        syntax::check(&section)?;
    }
    if !describes(&section) && section.exists_here("readers") {
        let names = section.array("readers")?;
        return match names.texts().as_slice() {
            [name] => section.section(name),
            _ => {
                let key = match section.is_native() {
                    true => format!("'readers' of {}", section.place()),
                    false => format!("{}:readers", section.path()),
                };
                let message = format!("{key} names {} readers; one is supported.", names.len());
                let error = Error::config(ExceptionClass::InvalidArgument, message);
                Err(section.blame("readers", error.with_detail("Name the section of one reader.")))
            }
        };
    }
    let is_described = describes(&section) || has_others;
    if !is_described && !section.exists("readerType") && !section.exists("deserializers") {
        return Err(composite::no_deserializers(&section));
    }
    Ok(section)
}
