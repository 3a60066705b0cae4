//! Chunks whose sequences are fetched one by one, when a minibatch needs them.

use super::call;
use super::data::Sequences;
use super::sequence::UserSequence;
use crate::Result;
use crate::format::Loaded;
use crate::format::fetch::FetchedData;
use crate::sequence::SequenceKey;
use crate::stream::StreamInfo;
use std::any::Any;
use std::sync::Arc;

/// A loaded chunk that gives one sequence at a time: images that are decoded, frames of speech that get their neighbours.
pub trait FetchedChunk: Send + Sync {
    /// Fills in a sequence; `index` is its place in the list of the chunk's sequences. Called by the thread that reads, or
    /// by several at once if the configuration says `multiThreadedDeserialization`.
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()>;

    /// Changes a sequence once all of its minibatch are fetched and the invalid ones among them are left out: `position` is
    /// its position among the others. Threads: as for [`FetchedChunk::fetch`].
    fn prepare(&self, position: u32, sequence: &mut UserSequence) -> Result<()> {
        let _ = (position, sequence);
        Ok(())
    }

    /// The chunk's sequences, if [`super::UserDeserializer::sequences`] does not list them beforehand.
    fn sequences(&self) -> Result<Option<Sequences>> {
        Ok(None)
    }
}

/// What the engine sees of such a chunk.
pub trait SequenceSource: Send + Sync {
    /// Fetches a sequence. `used` is one that was released, of any deserializer of the reader: its memory may be used again.
    fn fetch(&self, index: u32, used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>>;

    /// The chunk's sequences, if it knows them.
    fn sequences(&self) -> Result<Option<Sequences>>;
}

/// A user's chunk that gives single sequences.
pub(super) struct Single {
    chunk: Arc<dyn FetchedChunk>,
    streams: Arc<[StreamInfo]>,
}

impl Single {
    pub(super) fn new(chunk: Arc<dyn FetchedChunk>, streams: &Arc<[StreamInfo]>) -> Single {
        Single { chunk, streams: Arc::clone(streams) }
    }
}

impl SequenceSource for Single {
    fn fetch(&self, index: u32, used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>> {
        let used = used.and_then(|used| (used as Box<dyn Any>).downcast::<Filled>().ok());
        // Memory belongs to this deserializer if it has its streams.
        let used = used.filter(|used| Arc::ptr_eq(&used.streams, &self.streams));
        let mut filled = match used {
            Some(mut used) => {
                used.sequence.clear();
                used
            }
            None => Box::new(Filled {
                chunk: None,
                streams: Arc::clone(&self.streams),
                sequence: UserSequence::new(&self.streams),
            }),
        };
        self.chunk.fetch(index, &mut filled.sequence)?;
        filled.chunk = Some(Arc::clone(&self.chunk));
        Ok(filled)
    }

    fn sequences(&self) -> Result<Option<Sequences>> {
        self.chunk.sequences()
    }
}

/// A sequence that user code has filled in, or the memory for one.
struct Filled {
    /// Who prepares it; None once it was released.
    chunk: Option<Arc<dyn FetchedChunk>>,
    streams: Arc<[StreamInfo]>,
    sequence: UserSequence,
}

impl FetchedData for Filled {
    fn is_valid(&self) -> bool {
        !self.sequence.is_invalid()
    }

    fn prepare(&mut self, position: u32) -> Result<()> {
        if let Some(chunk) = &self.chunk {
            call("preparing a sequence", || chunk.prepare(position, &mut self.sequence))?;
        }
        self.sequence.check()
    }

    fn view(&self, stream: usize) -> Loaded<'_> {
        match self.sequence.view(stream) {
            Some(view) => Loaded::Data(view),
            None => Loaded::Invalid,
        }
    }

    fn shape(&self, stream: usize) -> Option<&[usize]> {
        self.sequence.shape(stream)
    }

    fn key(&self, _stream: usize) -> Option<SequenceKey> {
        self.sequence.key()
    }

    fn release(&mut self) {
        self.chunk = None;
    }
}
