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

/// A loaded chunk that returns one sequence at a time: for images that are decoded, or frames of
/// speech that get their neighbours.
pub trait FetchedChunk: Send + Sync {
    /// Fills in a sequence; `index` is its index in the list of the chunk's sequences. Called on
    /// the reading thread, or on several threads at once if the configuration sets
    /// `multiThreadedDeserialization`.
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()>;

    /// Changes a sequence after all sequences of its minibatch have been fetched and the invalid
    /// ones left out: `position` is its position among the rest. Called on the same threads as
    /// [`FetchedChunk::fetch`].
    fn prepare(&self, position: u32, sequence: &mut UserSequence) -> Result<()> {
        let _ = (position, sequence);
        Ok(())
    }

    /// The chunk's sequences, if [`super::UserDeserializer::sequences`] does not list them
    /// beforehand.
    fn sequences(&self) -> Result<Option<Sequences>> {
        Ok(None)
    }
}

/// The engine's view of such a chunk.
pub trait SequenceSource: Send + Sync {
    /// Fetches a sequence. `used` is a released one, of any deserializer of the reader, whose
    /// memory may be reused.
    fn fetch(&self, index: u32, used: Option<Box<dyn FetchedData>>) -> Result<Box<dyn FetchedData>>;

    /// The chunk's sequences, if it knows them.
    fn sequences(&self) -> Result<Option<Sequences>>;
}

/// A user's chunk that returns single sequences.
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
        // The memory fits this deserializer if it has the same streams.
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
    /// Prepares it; `None` once it has been released.
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
