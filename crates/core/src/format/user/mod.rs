//! Formats implemented by users.
//!
//! A [`UserDeserializer`] declares its streams and its number of chunks, and loads chunks on
//! request. Everything else is optional, and decides what the engine can do with it:
//!
//! - *When sequences are known.* A deserializer that lists the sequences of its chunks beforehand
//!   ([`UserDeserializer::sequences`]) gets the full randomizer and one timeline for all workers,
//!   and may be joined with others by key ([`listed`]). Otherwise chunks list their sequences when
//!   they are loaded, and each worker has a separate timeline (`randomize::local`), as with CNTK's
//!   user-defined deserializers ([`late`]).
//! - *How data are passed.* A chunk is either a set of arrays, which are used in place until the
//!   chunk is not needed any more ([`arrays`]), or an object that returns one sequence at a time,
//!   when a minibatch needs it ([`fetched`]).
//!
//! A [`Factory`] makes the deserializers of other modules while a reader is opened.
//!
//! Nothing from user code is trusted: shapes, strides, ranges and counts are checked when a chunk
//! is loaded, and errors name the chunk and the stream. User code runs on separate threads
//! ([`crate::format::loader`]), never on the library's pool, so that it may itself wait for readers
//! of this library.

mod arrays;
mod buffer;
mod chunk;
mod data;
mod fetched;
mod late;
mod listed;
mod options;
mod sequence;
mod streams;
mod table;
#[cfg(test)]
mod tests;
pub mod transform;

pub use buffer::Buffer;
pub use chunk::UserChunk;
pub use data::{Array, DenseArray, Keys, Sequences, SparseArray, StreamData};
pub use fetched::FetchedChunk;
pub use fetched::SequenceSource;
pub use late::lacks_list_of;
pub use options::{ForeignOptions, UserOptions};
pub use sequence::UserSequence;

use crate::corpus::Corpus;
use crate::format::loader::Loader;
use crate::format::{AnyDeserializer, ChunkInfo};
use crate::runtime::exit;
use crate::sequence::{ChunkId, SequenceId, SequenceInfo};
use crate::stream::StreamInfo;
use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A format implemented by the user: streams, chunks, and how to load a chunk.
///
/// Loading a chunk twice must give the same sequences; order and checkpoints rely on their number
/// and lengths.
///
#[cfg_attr(not(doctest), doc = include_str!("../../../doc/deserializer.md"))]
pub trait UserDeserializer: Send + Sync {
    /// The streams, at least one, in order of stream number. Must not change once a reader has been
    /// opened.
    fn streams(&self) -> &[StreamInfo];

    /// Number of chunks, at least 1. Must not change once a reader has been opened.
    fn chunk_count(&self) -> u32;

    /// Loads a chunk. Called on a thread of the library, by one thread at a time unless
    /// [`UserDeserializer::loads_in_parallel`] returns true.
    fn load(&self, chunk: u32) -> Result<UserChunk>;

    /// The sequences of a chunk, if they are known before it is loaded; must be known for all
    /// chunks or for none. Called on the thread that opens the reader.
    ///
    /// With such lists, the deserializer gets the full randomizer, one timeline for all workers and
    /// CNTK's checkpoint key for files. Without them, every worker has a separate timeline, windows
    /// do not overlap, and the checkpoint state has other keys, all as with CNTK's user-defined
    /// deserializers.
    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        let _ = chunk;
        Ok(None)
    }

    /// Finds the sequences that belong to those of the reader's first deserializer, if this one is
    /// not the first. With `None`, they are found by key among those that
    /// [`UserDeserializer::sequences`] lists.
    fn matcher(&self) -> Option<&dyn SequenceMatcher> {
        None
    }

    /// Whether loaded chunks return their sequences one by one ([`UserChunk::fetched`]). If so, no
    /// minibatch is assembled ahead.
    fn fetches_sequences(&self) -> bool {
        false
    }

    /// Whether several threads may load chunks at once.
    fn loads_in_parallel(&self) -> bool {
        false
    }
}

/// Finds sequences by those of the reader's first deserializer, other than by key.
pub trait SequenceMatcher: Send + Sync {
    /// Finds the sequence that belongs to `of`, a sequence of the reader's first deserializer.
    /// Returns its id and its length in samples, or `None` to leave `of` out. Called on the thread
    /// that opens the reader.
    fn find(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>>;

    /// Size of a chunk, to check that the found sequences exist; `None` or zeros if it is not
    /// known.
    fn chunk_size(&self, chunk: u32) -> Option<ChunkInfo> {
        let _ = chunk;
        None
    }
}

/// Makes the deserializers that a configuration names but this library does not have.
pub trait Factory {
    /// Makes a deserializer. Called on the thread that opens the reader, in the configuration's
    /// order.
    fn make(&self, request: &Request<'_>) -> Result<Arc<dyn UserDeserializer>>;
}

/// A configuration's description of a deserializer that a [`Factory`] makes. Only the configuration
/// and the factory know its type.
#[derive(Clone)]
pub struct Description(Arc<dyn Any + Send + Sync>);

impl Description {
    /// Creates a description from a value of any type.
    pub fn new(description: impl Any + Send + Sync) -> Description {
        Description(Arc::new(description))
    }

    /// The description, if it has this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// A description equals only itself.
impl PartialEq for Description {
    fn eq(&self, other: &Description) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Description")
    }
}

/// A request to a [`Factory`] for a deserializer.
pub struct Request<'a> {
    /// The configuration's description of the deserializer.
    pub description: &'a Description,
    /// Its type.
    pub name: &'a str,
    /// Maps textual keys to numbers, for all deserializers of the reader.
    pub corpus: &'a Arc<Corpus>,
    /// It is the reader's first deserializer.
    pub is_primary: bool,
    /// It must list its sequences beforehand; if false, its chunks list them when they are loaded.
    pub is_composable: bool,
}

/// Makes a deserializer with a factory.
pub(crate) fn make(factory: &dyn Factory, request: &Request<'_>) -> Result<AnyDeserializer> {
    let user = call("making it", || factory.make(request))?;
    streams::describe(&*user)?;
    let made = Registered { name: request.name.to_owned(), user, first: None };
    made.open(request.is_composable, request.is_primary, request.corpus)
}

/// A user's deserializer, with its name (`type`) in configurations.
#[derive(Clone)]
pub struct Registered {
    name: String,
    user: Arc<dyn UserDeserializer>,
    /// The sequences of the first chunk, requested to find out whether there is a list.
    first: Option<Sequences>,
}

impl Registered {
    /// Checks the deserializer's declarations, and requests its first list of sequences.
    pub fn new(name: impl Into<String>, user: Arc<dyn UserDeserializer>) -> Result<Registered> {
        streams::describe(&*user)?;
        let first = match user.matcher() {
            // A list may never be needed.
            Some(_) => None,
            None => call("listing chunk 0", || user.sequences(0))?,
        };
        Ok(Registered { name: name.into(), user, first })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its sequences are known beforehand, or are found by those of others.
    pub fn is_composable(&self) -> bool {
        self.first.is_some() || self.user.matcher().is_some()
    }

    /// Opens the deserializer. Without `composable`, loaded chunks list the sequences even if the
    /// deserializer knows them beforehand. With `is_primary`, it determines the reader's chunks and
    /// order.
    pub(crate) fn open(
        &self,
        composable: bool,
        is_primary: bool,
        corpus: &Arc<Corpus>,
    ) -> Result<AnyDeserializer> {
        let user = Arc::clone(&self.user);
        Ok(match composable {
            true => {
                let first = self.first.as_ref().map(Sequences::copied).transpose()?;
                let opened = listed::ListedDeserializer::open(user, first, is_primary, corpus)?;
                AnyDeserializer::Known(Arc::new(opened))
            }
            false => AnyDeserializer::Listing(Arc::new(late::LateDeserializer::open(user, corpus)?)),
        })
    }
}

/// Starts the threads that load a user's deserializer.
fn start_loader(user: &dyn UserDeserializer) -> Result<Arc<Loader>> {
    /// Maximum number of threads that load chunks at once, if that is allowed.
    const MAX_THREADS: usize = 8;
    let threads = if user.loads_in_parallel() { crate::runtime::pool::threads().min(MAX_THREADS) } else { 1 };
    Ok(Arc::new(Loader::start(threads)?))
}

/// Runs user code; a panic becomes an error. Refused once the process is exiting.
fn call<R>(what: impl fmt::Display, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let Some(_inside) = exit::enter() else {
        return Err(exit::refusal("no user's deserializer is called any more"));
    };
    let outcome = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown cause");
        Err(wrong(format!("The user's deserializer panicked {what}: {text}")))
    });
    outcome.map_err(|error| match error.kind() {
        ErrorKind::User | ErrorKind::Data if !error.message().to_ascii_lowercase().contains(BY_USERS) => {
            error.with_detail(format!("The user's deserializer failed {what}."))
        }
        _ => error,
    })
}

/// Words of messages that already say which code has failed.
const BY_USERS: &str = "the user's deserializer";

/// The error of user code that returned something invalid.
fn wrong(message: impl Into<String>) -> Error {
    Error::user(message)
}

/// Like [`wrong`], for one chunk.
fn wrong_chunk(chunk: ChunkId, message: impl std::fmt::Display) -> Error {
    wrong(format!("Chunk {chunk} of the user's deserializer: {message}"))
}
