//! Sequences that are fetched when a minibatch needs them.
//!
//! Some formats cannot have all sequences of a chunk in memory as they are delivered: images are decoded, frames of
//! speech get their neighbours. Their chunks hand out one sequence at a time, as an object of its own. Each sequence of a
//! minibatch is fetched; those that turn out invalid are left out; the others are [`prepared`](FetchedData::prepare),
//! and know by then at which position of the minibatch they will be.

use super::{Chunk, Loaded};
use crate::Result;
use crate::sequence::SequenceKey;
use crate::stream::StreamInfo;
use std::sync::Arc;

/// One deserializer's share of a fetched sequence. Streams are counted within the deserializer.
pub trait FetchedData: Send + Sync {
    /// Whether the sequence can be used at all.
    fn is_valid(&self) -> bool;

    /// Makes the data ready. Called once, before they are looked at, by any thread; `position` is the sequence's among
    /// those of the minibatch.
    fn prepare(&mut self, position: u32) -> Result<()>;

    /// The data in a stream.
    fn view(&self, stream: usize) -> Loaded<'_>;

    /// The shape of the samples in a stream whose description leaves that open.
    fn shape(&self, stream: usize) -> Option<&[usize]>;

    /// The key that minibatches report if they take it from this stream.
    fn key(&self, stream: usize) -> SequenceKey;
}

/// A share and the streams of the reader that it has.
pub struct Part {
    /// Number of the first stream.
    pub first: usize,
    /// How many streams.
    pub count: usize,
    /// The data.
    pub data: Box<dyn FetchedData>,
}

/// A sequence in all streams: what was fetched, and the rest where it lies in the chunk. Takes a chunk's place before
/// the packer, whatever index that asks for.
pub struct Fetched {
    chunk: Arc<dyn Chunk>,
    index: u32,
    parts: Vec<Part>,
}

impl Fetched {
    /// Fetches a sequence of a chunk.
    pub fn new(chunk: &Arc<dyn Chunk>, index: u32) -> Result<Fetched> {
        let mut parts = Vec::with_capacity(2); // more are rare
        chunk.fetch(index, 0, &mut parts)?;
        Ok(Fetched { chunk: Arc::clone(chunk), index, parts })
    }

    /// Whether there is something in each of so many streams.
    pub fn is_whole(&self, streams: usize) -> bool {
        (0..streams).all(|stream| match self.part(stream) {
            Some((part, _)) => part.data.is_valid(),
            None => matches!(self.chunk.sequence(stream, self.index), Loaded::Data(_)),
        })
    }

    /// See [`FetchedData::prepare`].
    pub fn prepare(&mut self, position: u32) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.data.prepare(position))
    }

    /// The shape of the samples in a stream whose description leaves that open.
    pub fn shape(&self, stream: usize) -> Option<&[usize]> {
        self.part(stream).and_then(|(part, inner)| part.data.shape(inner))
    }

    /// The key that a stream gives its sequence, if it was fetched.
    pub fn key(&self, stream: usize) -> Option<SequenceKey> {
        self.part(stream).map(|(part, inner)| part.data.key(inner))
    }

    fn part(&self, stream: usize) -> Option<(&Part, usize)> {
        let has = |part: &&Part| (part.first..part.first + part.count).contains(&stream);
        self.parts.iter().find(has).map(|part| (part, stream - part.first))
    }
}

impl Chunk for Fetched {
    fn sequence(&self, stream: usize, _index: u32) -> Loaded<'_> {
        match self.part(stream) {
            Some((part, _)) if !part.data.is_valid() => Loaded::Invalid,
            Some((part, inner)) => part.data.view(inner),
            None => self.chunk.sequence(stream, self.index),
        }
    }
}

/// CNTK's checks of the streams that a packer gets, where they come from others.
pub fn check_late_shapes(streams: &[StreamInfo], truncated: bool) -> Result<()> {
    match streams.iter().find(|stream| truncated && stream.has_late_shape()) {
        None => Ok(()),
        Some(stream) => {
            let message = "Input streams with unknown sample shape are currently not supported.";
            Err(crate::Error::new(crate::ErrorKind::User, crate::error::ExceptionClass::Runtime, message)
                .in_stream(&stream.name))
        }
    }
}
