//! The interface between formats and the rest of the library: facts about a deserializer's options,
//! and opening its data.
//!
//! Each format implements [`Format`] in its own folder. Code elsewhere that depends on the format
//! asks for a fact, never for the type.

use super::AnyDeserializer;
use crate::Result;
use crate::corpus::Corpus;
use crate::file::Confinement;
use crate::format::recognize::FileFormat;
use crate::format::user::transform::UserTransform;
use crate::format::user::{Factory, Registered};
use crate::message::names::Distinct;
use crate::option::FrontEnd;
use crate::option::release::Release;
use crate::runtime::pool::Pool;
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// Options as values. Implemented for every format.
pub trait Value: Any + Debug {
    /// A copy of the options.
    fn to_box(&self) -> Box<dyn Format>;

    /// Whether the other options are of this format, and equal.
    fn equals(&self, other: &dyn Format) -> bool;
}

impl<T: Format + Clone + PartialEq + Debug> Value for T {
    fn to_box(&self) -> Box<dyn Format> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Format) -> bool {
        other.of::<T>() == Some(self)
    }
}

impl Clone for Box<dyn Format> {
    fn clone(&self) -> Self {
        (**self).to_box()
    }
}

impl PartialEq for dyn Format {
    fn eq(&self, other: &dyn Format) -> bool {
        self.equals(other)
    }
}

impl dyn Format {
    /// Returns the options if they are of the format `T`: for the language and for tools of one
    /// format. The engine uses [facts](Format::facts) instead.
    pub fn of<T: Format>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Like `of`, but mutable.
    pub fn of_mut<T: Format>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// The options of one deserializer.
pub trait Format: Value + Send + Sync {
    /// Its `type` in CNTK's configurations.
    fn type_name(&self) -> &str;

    /// Its name in lists and log lines: the path of its file; the path of the first of several
    /// files, or the list as the configuration writes it; or the name of a user's deserializer.
    /// Errors name their own file.
    fn name(&self) -> &str;

    /// Facts that the engine and the tools need before opening.
    fn facts(&self) -> Facts;

    /// Opens the data. Called on the thread that opens the reader: the library's formats enter the
    /// pool themselves ([`Pool::install`]) to index the data, and users' code stays on the calling
    /// thread.
    fn open(&self, context: Context<'_>) -> Result<Opened>;

    /// Does the part of opening that does not depend on the previous deserializer, while that one
    /// is being opened. Returns `None` if there is no such part.
    fn scan_ahead(&self) -> Option<Ahead> {
        None
    }

    /// Paths of the files whose bytes are the data. Formats whose files list other files return
    /// none.
    fn data_files(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Confines the paths that its files contain.
    fn confine(&mut self, confinement: &Confinement);

    /// Reads the data like a given release of CNTK.
    fn follow(&mut self, release: Release);

    /// Words messages for a front end. Most formats log nothing that names an option.
    fn speak(&mut self, _front_end: FrontEnd) {}

    /// Keeps neither index caches nor loaded chunks, so that each run does all the work. Most
    /// formats keep neither in any case.
    fn keep_nothing(&mut self) {}

    /// Reports warnings about the data at any trace level. Most formats always do.
    fn report_warnings(&mut self) {}
}

/// Facts about a format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts {
    /// The kind of file that it reads. If opening fails with an error of the kind
    /// [`Data`](crate::ErrorKind::Data) in a file of another kind, the error is extended to say
    /// what the file is and what reads it; formats need not check that.
    pub signature: Signature,
    /// Users' code finds its sequences, and itself lists the frames of frame mode.
    pub is_foreign: bool,
    /// Each sequence is one image, which cannot be truncated.
    pub has_images: bool,
    /// Whether its random draws are reproducible; `None` if it makes none.
    pub reproducible: Option<bool>,
    /// Its sparse samples have indices that a program wrote, which may mistakenly count from 1.
    pub has_written_indices: bool,
    /// Each frame is a sequence.
    pub frame_mode: bool,
    /// Its sequences have no keys, and report the key 0.
    pub lacks_keys: bool,
    /// Messages may suggest another `chunkSizeInBytes`, computed from the size of the file.
    pub suggests_chunk_size: bool,
}

/// The kind of file that a format reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signature {
    /// Not known.
    #[default]
    Unknown,
    /// Files of this format.
    Is(FileFormat),
    /// The format's own errors explain files of other kinds.
    Explained,
}

impl Signature {
    /// Whether a file of the found format needs no explanation.
    pub fn accepts(self, found: FileFormat) -> bool {
        match self {
            Signature::Unknown => false,
            Signature::Is(format) => format == found,
            Signature::Explained => true,
        }
    }
}

/// A wrapper that changes the samples of an opened deserializer, such as transforms of images.
pub trait Adapter: Any + Debug + Send + Sync {
    /// Number of the deserializer.
    fn deserializer(&self) -> usize;

    /// Wraps the deserializer. `users` has the users' transforms.
    fn apply(
        &self,
        deserializer: AnyDeserializer,
        users: &Users<'_>,
        corpus: &Arc<Corpus>,
    ) -> Result<AnyDeserializer>;

    /// For each stream for which it makes random draws: whether they are reproducible.
    fn reproducible(&self) -> Vec<bool>;

    /// Whether the other adapter makes the same changes.
    fn equals(&self, other: &dyn Adapter) -> bool;
}

impl PartialEq for dyn Adapter {
    fn eq(&self, other: &dyn Adapter) -> bool {
        self.equals(other)
    }
}

/// The result of [`Format::scan_ahead`], for [`Format::open`] of the same options.
pub type Ahead = Box<dyn Any + Send>;

/// Everything that is needed to open a deserializer.
pub struct Context<'a> {
    /// Maps textual keys to numbers, for all deserializers of the reader.
    pub corpus: &'a Arc<Corpus>,
    /// The pool that indexes data.
    pub pool: &'a Pool,
    /// It is the reader's first deserializer, which determines chunks and order.
    pub is_primary: bool,
    /// Labels may be the first deserializer, which only tools can use.
    pub labels_may_be_first: bool,
    /// Its table of chunks may be built while data are read.
    pub is_incremental: bool,
    /// The deserializer that is opened next.
    pub next: Option<&'a dyn Format>,
    /// The result of scanning ahead for this one.
    pub ahead: Option<Ahead>,
    /// Extensions from users.
    pub users: Users<'a>,
}

impl<'a> Context<'a> {
    /// The context of a deserializer that is opened alone.
    pub fn alone(corpus: &'a Arc<Corpus>, pool: &'a Pool, is_primary: bool) -> Context<'a> {
        Context {
            corpus,
            pool,
            is_primary,
            labels_may_be_first: false,
            is_incremental: false,
            next: None,
            ahead: None,
            users: Users::default(),
        }
    }
}

/// Deserializers and transforms from users.
#[derive(Clone, Copy, Default)]
pub struct Users<'a> {
    /// Deserializers, by name.
    pub registered: &'a [Registered],
    /// Their names.
    pub names: Option<&'a Distinct<'a>>,
    /// Makes deserializers that the configuration names but this library does not have.
    pub factory: Option<&'a dyn Factory>,
    /// Transforms, by name.
    pub transforms: &'a [(String, Arc<dyn UserTransform>)],
}

/// An opened deserializer.
pub struct Opened {
    /// The deserializer.
    pub deserializer: AnyDeserializer,
    /// The result of scanning ahead for the next one.
    pub ahead: Option<Ahead>,
}

impl From<AnyDeserializer> for Opened {
    fn from(deserializer: AnyDeserializer) -> Opened {
        Opened { deserializer, ahead: None }
    }
}
