//! Formats that users write themselves.
//!
//! A [`UserDeserializer`] declares its streams and its number of chunks, and loads a chunk when it is asked to. All else
//! is optional, and decides what the engine can do with it:
//!
//! - *When sequences are known.* A deserializer that lists the sequences of its chunks beforehand
//!   ([`UserDeserializer::sequences`]) gets the full randomizer, one timeline for all workers, and may be joined with
//!   others by key ([`listed`]). One that does not lists them when a chunk is loaded: each worker has a timeline of its
//!   own (`randomize::local`), as with CNTK's user-defined deserializers ([`late`]).
//! - *How data come.* A chunk is either arrays, which are used where they lie until the chunk is not needed any more
//!   ([`arrays`]), or an object that gives one sequence at a time, when a minibatch needs it ([`fetched`]).
//!
//! A [`Factory`] makes the deserializers of other modules while a reader is opened.
//!
//! Nothing that user code gives is trusted: shapes, strides, ranges and counts are checked when a
//! chunk is loaded, and an error names the chunk and the stream. User code runs on threads of its
//! own ([`crate::format::loader`]), never on the library's pool, so that it may itself wait for
//! readers of this library.

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
use crate::{Error, Result};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A format of the user's own: streams, chunks, and how a chunk is loaded.
///
/// Loading a chunk twice has to give the same sequences; order and checkpoints rely on their number and lengths.
///
#[cfg_attr(not(doctest), doc = include_str!("../../../doc/deserializer.md"))]
pub trait UserDeserializer: Send + Sync {
    /// The streams, at least one, in the order of their numbers. Must not change once a reader was opened.
    fn streams(&self) -> &[StreamInfo];

    /// Number of chunks, at least 1. Must not change either.
    fn chunk_count(&self) -> u32;

    /// Loads a chunk. Called on a thread of the library's, from one thread at a time unless
    /// [`UserDeserializer::loads_in_parallel`].
    fn load(&self, chunk: u32) -> Result<UserChunk>;

    /// The sequences of a chunk, if they are known before it is loaded: for all chunks or for none. Called by the thread
    /// that opens the reader.
    ///
    /// With them, the deserializer gets the full randomizer, one timeline for all workers and CNTK's checkpoint key of
    /// files. Without, every worker has a timeline of its own, windows do not overlap, and the checkpoint state has other
    /// keys, all as with CNTK's user-defined deserializers.
    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        let _ = chunk;
        Ok(None)
    }

    /// Where the deserializer is not the reader's first: who finds its sequences by those of the first one. None: they
    /// are found by key, among those that [`UserDeserializer::sequences`] lists.
    fn matcher(&self) -> Option<&dyn SequenceMatcher> {
        None
    }

    /// Whether loaded chunks give their sequences one by one ([`UserChunk::fetched`]). No minibatch is assembled ahead then.
    fn fetches_sequences(&self) -> bool {
        false
    }

    /// Whether several threads may load chunks at once.
    fn loads_in_parallel(&self) -> bool {
        false
    }
}

/// Finds sequences of a deserializer by those of the reader's first one, other than by key.
pub trait SequenceMatcher: Send + Sync {
    /// Where the sequence is that belongs to `of`, a sequence of the reader's first deserializer, and its length in
    /// samples; None if there is none, which leaves `of` out. Called by the thread that opens the reader.
    fn find(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>>;

    /// Size of a chunk, for the check that the found sequences exist; None or zeros if it is not known.
    fn chunk_size(&self, chunk: u32) -> Option<ChunkInfo> {
        let _ = chunk;
        None
    }
}

/// Makes the deserializers that a configuration names and this library does not have.
pub trait Factory {
    /// Makes one. Called by the thread that opens the reader, in the configuration's order.
    fn make(&self, request: &Request<'_>) -> Result<Arc<dyn UserDeserializer>>;
}

/// A configuration's description of a deserializer that a [`Factory`] makes. Only these two know its type.
#[derive(Clone)]
pub struct Description(Arc<dyn Any + Send + Sync>);

impl Description {
    /// A description of any type.
    pub fn new(description: impl Any + Send + Sync) -> Description {
        Description(Arc::new(description))
    }

    /// The description, if it has this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// A description is only equal to itself.
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

/// What a [`Factory`] is to make.
pub struct Request<'a> {
    /// The configuration's description of it.
    pub description: &'a Description,
    /// Its type.
    pub name: &'a str,
    /// How keys become numbers, in all deserializers of the reader.
    pub corpus: &'a Arc<Corpus>,
    /// It is the reader's first.
    pub is_primary: bool,
    /// It has to list its sequences beforehand; false: its chunks list them when they are loaded.
    pub is_composable: bool,
}

/// Has a factory make a deserializer.
pub(crate) fn make(factory: &dyn Factory, request: &Request<'_>) -> Result<AnyDeserializer> {
    let user = call("making it", || factory.make(request))?;
    streams::describe(&*user)?;
    let made = Registered { name: request.name.to_owned(), user, first: None };
    made.open(request.is_composable, request.is_primary, request.corpus)
}

/// A user's deserializer with the name that configurations call it by (`type`).
#[derive(Clone)]
pub struct Registered {
    name: String,
    user: Arc<dyn UserDeserializer>,
    /// The sequences of the first chunk, which were asked for to see whether there is a list.
    first: Option<Sequences>,
}

impl Registered {
    /// Checks what the deserializer says about itself, and asks for its first list of sequences.
    pub fn new(name: impl Into<String>, user: Arc<dyn UserDeserializer>) -> Result<Registered> {
        streams::describe(&*user)?;
        let first = match user.matcher() {
            // It may be that no list is ever needed.
            Some(_) => None,
            None => call("listing chunk 0", || user.sequences(0))?,
        };
        Ok(Registered { name: name.into(), user, first })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its sequences are known beforehand, or it finds them by others.
    pub fn is_composable(&self) -> bool {
        self.first.is_some() || self.user.matcher().is_some()
    }

    /// Opens it. Without `composable`, sequences are listed by loaded chunks whatever the deserializer knows beforehand.
    /// `is_primary`: chunks and order of the reader are this deserializer's.
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

/// Starts the threads that a user's deserializer is loaded on.
fn start_loader(user: &dyn UserDeserializer) -> Result<Arc<Loader>> {
    /// Threads that load chunks at the same time, where that is allowed.
    const MOST_THREADS: usize = 8;
    let threads =
        if user.loads_in_parallel() { crate::runtime::pool::threads().min(MOST_THREADS) } else { 1 };
    Ok(Arc::new(Loader::start(threads)?))
}

/// Runs user code; a panic becomes an error. Refused once the process ends.
fn call<R>(what: &str, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let Some(_inside) = exit::enter() else {
        return Err(exit::refusal("no user's deserializer is called any more"));
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown cause");
        Err(wrong(format!("The user's deserializer panicked {what}: {text}")))
    })
}

/// The error of user code that has given something impossible.
fn wrong(message: impl Into<String>) -> Error {
    Error::user(message)
}

/// The same about one chunk.
fn wrong_chunk(chunk: ChunkId, message: impl std::fmt::Display) -> Error {
    wrong(format!("Chunk {chunk} of the user's deserializer: {message}"))
}
