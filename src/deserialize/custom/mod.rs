//! Formats that users write themselves.
//!
//! There are two kinds. A [`Simple`] deserializer knows how many chunks it has, and what sequences a chunk has once it
//! is loaded: order and shares are those of CNTK's user-defined deserializers ([`crate::randomize::local`]). A
//! [`Composable`] one also tells the sequences of a chunk beforehand; it is a [`Deserializer`] like any other, with the
//! full randomizer, and may be joined with others by key.
//!
//! An [`OnDemand`] one may be either, and its chunks give one sequence at a time, when a minibatch needs it; nothing of
//! it is kept but lengths. A reader is told of it by a [`Factory`], which makes it while the reader is opened.
//!
//! Nothing that user code gives is trusted: shapes, strides, ranges and counts are checked when a chunk is loaded, and
//! an error tells the chunk and the stream. Data are used where they lie until the chunk is not needed any more.
//!
//! User code runs on threads of its own ([`super::loader`]), never on the library's pool, so it may itself wait for readers
//! of this library.

mod buffer;
mod chunk;
mod composable;
mod data;
mod on_demand;
mod simple;
mod streams;
#[cfg(test)]
mod tests;

pub use buffer::{Buffer, Scalar};
pub use data::{Array, ChunkData, DenseArray, SparseArray, StreamData};
pub use on_demand::{OnDemand, OnDemandChunk};

use super::Deserializer;
use crate::config::Section;
use crate::corpus::Corpus;
use crate::error::ExceptionClass;
use crate::sequence::ChunkId;
use crate::stream::StreamInfo;
use crate::{Error, ErrorKind, Result, exit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A user's deserializer that lists the sequences of a chunk when it loads it.
///
/// Loading a chunk twice should give the same sequences; order and checkpoints rely on their number and lengths.
pub trait Simple: Send + Sync {
    /// The streams, at least one. Asked once.
    fn streams(&self) -> Result<Vec<StreamInfo>>;

    /// Number of chunks, at least 1. Asked once.
    fn chunk_count(&self) -> Result<u32>;

    /// Loads a chunk. Called from one thread at a time, unless [`Simple::is_thread_safe`].
    fn load(&self, chunk: ChunkId) -> Result<ChunkData>;

    /// Whether several chunks may be loaded at once.
    fn is_thread_safe(&self) -> bool {
        false
    }
}

/// A user's deserializer that knows its sequences before it loads them.
pub trait Composable: Simple {
    /// The sequences of a chunk; may be none. Asked once for each chunk, when the reader is opened.
    fn sequences(&self, chunk: ChunkId) -> Result<Sequences>;
}

/// The sequences of a chunk.
#[derive(Debug, Clone, Default)]
pub struct Sequences {
    /// Their number.
    pub count: u32,
    /// The length of each: samples in the stream that defines the minibatch size, else in the longest stream. Without:
    /// all are one sample long.
    pub lengths: Option<Vec<u32>>,
    /// Their keys.
    pub keys: Keys,
}

/// Keys of sequences.
#[derive(Debug, Clone, Default)]
pub enum Keys {
    /// The running number in the whole data.
    #[default]
    Ordinal,
    /// Numbers.
    Numbers(Vec<u64>),
    /// Texts; decimal numbers where the reader's keys are numeric.
    Texts(Vec<String>),
}

/// A user's deserializer of either kind.
#[derive(Clone)]
pub enum UserDeserializer {
    /// Lists sequences when it loads them.
    Simple(Arc<dyn Simple>),
    /// Lists sequences beforehand.
    Composable(Arc<dyn Composable>),
}

/// Makes the deserializers that a configuration names and this library does not have.
pub trait Factory {
    /// Makes one. Called by the thread that opens the reader, in the configuration's order.
    fn make(&self, request: &Request<'_>) -> Result<Arc<dyn OnDemand>>;
}

/// What a [`Factory`] is to make.
pub struct Request<'a> {
    /// Its section, with what the reader puts into it.
    pub section: &'a Section,
    /// Its type.
    pub name: &'a str,
    /// How keys become numbers, in all deserializers of the reader.
    pub corpus: &'a Arc<Corpus>,
    /// It is the reader's first.
    pub is_primary: bool,
}

/// Has a factory make a deserializer.
pub fn make(factory: &dyn Factory, request: &Request<'_>, composable: bool) -> Result<Arc<dyn Deserializer>> {
    let user = call("making it", || factory.make(request))?;
    Ok(Arc::new(on_demand::OnDemandDeserializer::open(user, composable, request.is_primary)?))
}

/// A user's deserializer with the name that configurations call it by (`type`).
#[derive(Clone)]
pub struct Registered {
    /// The name.
    pub name: String,
    /// The deserializer.
    pub deserializer: UserDeserializer,
}

impl Registered {
    /// Whether its sequences are known beforehand.
    pub fn is_composable(&self) -> bool {
        matches!(self.deserializer, UserDeserializer::Composable(_))
    }

    /// Opens it. `composable` is what the configuration wants: without, a composable one is read as a simple one is.
    pub fn open(&self, composable: bool, corpus: &Corpus) -> Result<Arc<dyn Deserializer>> {
        Ok(match &self.deserializer {
            UserDeserializer::Composable(user) if composable => {
                Arc::new(composable::ComposableDeserializer::open(user, corpus)?)
            }
            UserDeserializer::Composable(user) => {
                Arc::new(simple::SimpleDeserializer::open(Arc::clone(user) as Arc<dyn Simple>)?)
            }
            UserDeserializer::Simple(user) => Arc::new(simple::SimpleDeserializer::open(Arc::clone(user))?),
        })
    }
}

/// Runs user code; its panic is its error. Refused once the process ends.
fn call<R>(what: &str, work: impl FnOnce() -> Result<R>) -> Result<R> {
    let Some(_inside) = exit::enter() else {
        return Err(Error::state("The process ends, so no user's deserializer is called any more."));
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

/// User code has given something that cannot be.
fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::User, ExceptionClass::Runtime, message)
}
