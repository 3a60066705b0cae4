//! Builds readers from configurations, options and deserializers.

use crate::Reader;
use crate::language::values::Values;
#[cfg(feature = "images")]
use crate::language::{Base64ImageDeserializer, ImageDeserializer};
use crate::language::{
    CbfDeserializer, Config, CtfDeserializer, ExtensionTypes, NumpyDeserializer, ReaderOptions, Section,
    UserType,
};
#[cfg(feature = "speech")]
use crate::language::{
    HtkFeatureDeserializer, HtkMlfBinaryDeserializer, HtkMlfDeserializer, KaldiDeserializer,
    LatticeDeserializer,
};
use cntk_reader_core::format::user::transform::{self, UserTransform};
use cntk_reader_core::format::user::{Registered, UserDeserializer};
use cntk_reader_core::message::names::Distinct;
use cntk_reader_core::option::{self, FrontEnd};
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::settings::ReaderSettings;
use cntk_reader_engine::reader::{self, Reader as Engine};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Builds a [`Reader`] from a configuration, from options and deserializers written in Rust, or
/// from both.
///
/// The configuration's deserializers come first; those added here follow in the order they were
/// added. The first one is primary: it determines the order of the data, and the others are joined
/// to it by sequence key. A user-defined deserializer that the configuration names (`type = "..."`
/// in `deserializers`) takes the position where it is named.
///
/// Options set here override the configuration's keys.
///
/// ```no_run
/// use cntk_reader::{CtfDeserializer, Reader, ReaderOptions};
///
/// let reader = Reader::builder()
///     .options(ReaderOptions::new().randomization_seed(7))
///     .ctf(CtfDeserializer::new("train.ctf").dense("features", 784).sparse("labels", 10))
///     .open()?;
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until open is called"]
pub struct Builder {
    config: Option<Config>,
    front_end: Option<FrontEnd>,
    options: ReaderOptions,
    added: Vec<AddedDeserializer>,
    transforms: Vec<(String, Arc<dyn UserTransform>)>,
    canceller: Option<Canceller>,
}

enum AddedDeserializer {
    /// A deserializer of this library.
    Own(Result<Values>),
    User(String, Arc<dyn UserDeserializer>),
}

impl AddedDeserializer {
    /// Returns the section of the `number`th deserializer that was added.
    fn section(&self, number: usize, front_end: FrontEnd) -> Result<Section> {
        Ok(match self {
            AddedDeserializer::Own(values) => {
                let values = values.as_ref().map_err(Error::clone)?;
                let kind = values.kind().unwrap_or_default();
                Section::of_values(&option::name_of_deserializer(kind, number, front_end), values)
            }
            AddedDeserializer::User(name, _) => Section::of_user(name),
        })
    }

    /// Returns the name of a user-defined deserializer.
    fn user(&self) -> Option<&str> {
        match self {
            AddedDeserializer::Own(_) => None,
            AddedDeserializer::User(name, _) => Some(name),
        }
    }
}

impl Builder {
    /// Sets the configuration; replaces an earlier one.
    pub fn config(mut self, config: Config) -> Builder {
        self.config = Some(config);
        self
    }

    /// Sets the language in which messages name options. The default is the configuration language
    /// if there is a configuration, otherwise this crate's methods.
    pub fn front_end(mut self, front_end: FrontEnd) -> Builder {
        self.front_end = Some(front_end);
        self
    }

    /// Sets the configuration from text; see [`Config::from_text`].
    pub fn config_text(self, text: &str) -> Result<Builder> {
        Ok(self.config(Config::from_text(text)?))
    }

    /// Sets the configuration from a file; see [`Config::from_file`].
    pub fn config_file(self, path: impl AsRef<Path>) -> Result<Builder> {
        Ok(self.config(Config::from_file(path)?))
    }

    /// Sets the reader's options. Those set here override the configuration's keys.
    pub fn options(mut self, options: ReaderOptions) -> Builder {
        self.options = options;
        self
    }

    /// Adds a file in CNTK's text format.
    pub fn ctf(self, ctf: CtfDeserializer) -> Builder {
        self.own(ctf.values())
    }

    /// Adds a file in CNTK's binary format.
    pub fn cbf(self, cbf: CbfDeserializer) -> Builder {
        self.own(cbf.values())
    }

    /// Adds NumPy arrays.
    pub fn numpy(self, arrays: NumpyDeserializer) -> Builder {
        self.own(arrays.values())
    }

    /// Adds features in HTK archives.
    #[cfg(feature = "speech")]
    pub fn htk_features(self, features: HtkFeatureDeserializer) -> Builder {
        self.own(features.values())
    }

    /// Adds labels of the HTK master label format.
    #[cfg(feature = "speech")]
    pub fn htk_mlf(self, labels: HtkMlfDeserializer) -> Builder {
        self.own(labels.values())
    }

    /// Adds labels in CNTK's binary format.
    #[cfg(feature = "speech")]
    pub fn htk_mlf_binary(self, labels: HtkMlfBinaryDeserializer) -> Builder {
        self.own(labels.values())
    }

    /// Adds lattices.
    #[cfg(feature = "speech")]
    pub fn lattices(self, lattices: LatticeDeserializer) -> Builder {
        self.own(lattices.values())
    }

    /// Adds Kaldi archives.
    #[cfg(feature = "speech")]
    pub fn kaldi(self, archives: KaldiDeserializer) -> Builder {
        self.own(archives.values())
    }

    /// Adds images in files.
    #[cfg(feature = "images")]
    pub fn images(self, images: ImageDeserializer) -> Builder {
        self.own(images.values())
    }

    /// Adds images as lines of Base64.
    #[cfg(feature = "images")]
    pub fn base64_images(self, images: Base64ImageDeserializer) -> Builder {
        self.own(images.values())
    }

    fn own(mut self, values: Result<Values>) -> Builder {
        self.added.push(AddedDeserializer::Own(values));
        self
    }

    /// Adds your own deserializer. `name` is its `type` in a configuration, and its name
    /// in messages about several deserializers.
    pub fn deserializer(mut self, name: &str, deserializer: impl UserDeserializer + 'static) -> Builder {
        self.added.push(AddedDeserializer::User(name.to_owned(), Arc::new(deserializer)));
        self
    }

    /// Adds your own transform. `name` is the `type` of its element of `transforms` in a
    /// configuration, without a `module`.
    pub fn transform(mut self, name: &str, transform: impl UserTransform + 'static) -> Builder {
        self.transforms.push((name.to_owned(), Arc::new(transform)));
        self
    }

    /// Lets a canceller, or any clone of it, end the opening and the calls of the opened reader;
    /// see [`Canceller`].
    pub fn canceller(mut self, canceller: &Canceller) -> Builder {
        self.canceller = Some(canceller.clone());
        self
    }

    /// Opens the reader: opens and indexes the files, which takes a while for large ones, but reads
    /// no data yet.
    ///
    /// A large text file that is read in its own order is indexed while it is read; a fault past
    /// its start is then reported by the minibatch that needs that part.
    pub fn open(self) -> Result<Reader> {
        self.with_settings(|settings, others| Engine::open_with(settings, others).map(Reader::new))
    }

    /// Reads the data as whole sequences in file order, whatever the settings say.
    #[doc(hidden)]
    pub fn in_whole_sequences(mut self) -> Builder {
        self.options = self.options.whole_sequences();
        self
    }

    /// Opens something with the resolved settings. For this project's other crates; not covered by
    /// semver.
    #[doc(hidden)]
    pub fn with_settings<R>(
        self,
        open: impl FnOnce(&ReaderSettings, &reader::Extensions<'_>) -> Result<R>,
    ) -> Result<R> {
        let own = self.front_end.unwrap_or(FrontEnd::Rust);
        let added = self.added.iter().zip(1..).map(|(one, number)| one.section(number, own));
        let added = added.collect::<Result<Vec<_>>>()?;
        let mut names = Distinct::default();
        for name in self.added.iter().filter_map(AddedDeserializer::user) {
            if names.add(name).is_some() {
                let message = format!(
                    "Two deserializers were added under the name '{name}'. Give each one a name of its own."
                );
                return Err(Error::argument(message));
            }
        }
        let mut registered: Vec<Registered> = Vec::new();
        for one in self.added {
            let AddedDeserializer::User(name, user) = one else { continue };
            registered.push(Registered::new(name, user)?);
        }
        let users: Vec<_> = registered
            .iter()
            .map(|user| UserType { name: user.name(), composable: user.is_composable() })
            .collect();
        let mut transforms = Vec::with_capacity(self.transforms.len());
        for (name, transform) in self.transforms {
            transform::register(&mut transforms, &name, transform)?;
        }
        let names: Vec<_> = transforms.iter().map(|(name, _)| name.as_str()).collect();
        let others =
            ExtensionTypes { users: &users, added: &added, transforms: &names, ..ExtensionTypes::default() };
        let default = if self.config.is_some() { FrontEnd::Configuration } else { FrontEnd::Rust };
        let front_end = self.front_end.unwrap_or(default);
        let config = match self.config {
            Some(config) => config.spoken_by(front_end),
            None => Config::empty(front_end),
        };
        let config = config.with_options(&self.options, others);
        let settings = config.map_err(|error| error.in_words_of(front_end))?.settings(others)?;
        let others = reader::Extensions {
            registered: &registered,
            transforms: &transforms,
            canceller: self.canceller.as_ref(),
            ..reader::Extensions::default()
        };
        others.run(|| open(&settings, &others)).map_err(|error| error.in_words_of(front_end))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let added = |added: &AddedDeserializer| match added {
            AddedDeserializer::Own(values) => format!("{values:?}"),
            AddedDeserializer::User(name, _) => name.clone(),
        };
        let names: Vec<_> = self.added.iter().map(added).collect();
        f.debug_struct("Builder")
            .field("config", &self.config)
            .field("options", &self.options)
            .field("added", &names)
            .field("transforms", &self.transforms.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}
