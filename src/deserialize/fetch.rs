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
use std::any::Any;
use std::sync::Arc;

/// One deserializer's share of a fetched sequence. Streams are counted within the deserializer.
pub trait FetchedData: Any + Send + Sync {
    /// Whether the sequence can be used at all.
    fn is_valid(&self) -> bool;

    /// Makes the data ready. Called once, before they are looked at, by any thread; `position` is the sequence's among
    /// those of the minibatch.
    fn prepare(&mut self, position: u32) -> Result<()>;

    /// The data in a stream.
    fn view(&self, stream: usize) -> Loaded<'_>;

    /// The shape of the samples in a stream whose description leaves that open.
    fn shape(&self, stream: usize) -> Option<&[usize]>;

    /// The key that minibatches report if they take it from this stream. None: the one that the deserializer has listed.
    fn key(&self, stream: usize) -> Option<SequenceKey>;

    /// The data are not needed any more. Nothing is asked after this, but the object may be handed to whoever fetches the
    /// next sequence, for its memory.
    fn release(&mut self);
}

/// A share and the streams of the reader that it has.
struct Part {
    /// Number of the first stream.
    first: usize,
    /// How many streams.
    count: usize,
    data: Box<dyn FetchedData>,
}

/// The shares of one sequence.
#[derive(Default)]
pub struct Parts {
    parts: Vec<Part>,
    /// Those of a sequence before, the first one last.
    used: Vec<Box<dyn FetchedData>>,
}

impl Parts {
    /// Adds the share of `count` streams from `first` on. `fetch` may get one that was released, mostly of the same
    /// deserializer.
    pub fn add(
        &mut self,
        first: usize,
        count: usize,
        fetch: impl FnOnce(Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>>,
    ) -> Result<()> {
        let data = fetch(self.used.pop())?;
        self.parts.push(Part { first, count, data });
        Ok(())
    }

    fn release(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        self.used.clear();
        while let Some(mut part) = self.parts.pop() {
            part.data.release();
            self.used.push(part.data);
        }
    }
}

/// A sequence in all streams: what was fetched, and the rest where it lies in the chunk. Takes a chunk's place before
/// the packer, whatever index that asks for. One that was released can be used for another sequence: frames are too many
/// to allocate for each.
#[derive(Default)]
pub struct Fetched {
    parts: Parts,
    chunk: Option<Arc<dyn Chunk>>,
    index: u32,
}

impl Fetched {
    /// Fetches a sequence of a chunk in place of the one before.
    pub fn take(&mut self, chunk: &Arc<dyn Chunk>, index: u32) -> Result<()> {
        self.release();
        self.index = index;
        self.chunk.insert(Arc::clone(chunk)).fetch(index, 0, &mut self.parts)
    }

    /// Lets go of the sequence, and then of its chunk.
    pub fn release(&mut self) {
        self.parts.release();
        self.chunk = None;
    }

    /// Whether there is something in each of so many streams.
    pub fn is_whole(&self, streams: usize) -> bool {
        (0..streams).all(|stream| match self.part(stream) {
            Some((part, _)) => part.data.is_valid(),
            None => matches!(self.ready(stream), Loaded::Data(_)),
        })
    }

    /// See [`FetchedData::prepare`].
    pub fn prepare(&mut self, position: u32) -> Result<()> {
        self.parts.parts.iter_mut().try_for_each(|part| part.data.prepare(position))
    }

    /// The shape of the samples in a stream whose description leaves that open.
    pub fn shape(&self, stream: usize) -> Option<&[usize]> {
        self.part(stream).and_then(|(part, inner)| part.data.shape(inner))
    }

    /// The key that a stream gives its sequence, if it was fetched.
    pub fn key(&self, stream: usize) -> Option<SequenceKey> {
        self.part(stream).and_then(|(part, inner)| part.data.key(inner))
    }

    fn part(&self, stream: usize) -> Option<(&Part, usize)> {
        let has = |part: &&Part| (part.first..part.first + part.count).contains(&stream);
        self.parts.parts.iter().find(has).map(|part| (part, stream - part.first))
    }

    /// What the chunk has of it.
    fn ready(&self, stream: usize) -> Loaded<'_> {
        self.chunk.as_ref().map_or(Loaded::Invalid, |chunk| chunk.sequence(stream, self.index))
    }
}

impl Chunk for Fetched {
    fn sequence(&self, stream: usize, _index: u32) -> Loaded<'_> {
        match self.part(stream) {
            Some((part, _)) if !part.data.is_valid() => Loaded::Invalid,
            Some((part, inner)) => part.data.view(inner),
            None => self.ready(stream),
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
