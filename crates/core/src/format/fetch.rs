//! Sequences that are fetched when a minibatch needs them.
//!
//! Some formats cannot have all sequences of a chunk in memory as they are delivered: images are decoded, frames of
//! speech get their neighbours. Their chunks hand out one sequence at a time, as an object of its own. Each sequence of a
//! minibatch is fetched; those that turn out invalid are left out; the others are [`prepared`](FetchedData::prepare),
//! and know by then at which position of the minibatch they will be.

use crate::sequence::{Loaded, SequenceKey};
use crate::stream::StreamInfo;
use crate::{Error, Result};
use std::any::Any;

/// Why a sequence cannot be used that counts as invalid.
#[derive(Debug, Clone)]
pub struct Failure {
    pub error: Error,
    /// It ends reading in CNTK 2.7: where too many sequences are invalid, this is the error, not
    /// their number.
    pub ends_alone: bool,
}

/// One deserializer's share of a fetched sequence. Streams are counted within the deserializer.
pub trait FetchedData: Any + Send + Sync {
    /// Whether the sequence can be used at all.
    fn is_valid(&self) -> bool;

    /// What a sequence that cannot be used is: invalid, or skipped by its deserializer, which has counted it then.
    fn left_out(&self) -> Loaded<'_> {
        Loaded::Invalid
    }

    /// Why the sequence counts as invalid, if it does, and its deserializer knows.
    fn failure(&self) -> Option<&Failure> {
        None
    }

    /// Damage in the data of a sequence that can be used nevertheless, for checks, which look at
    /// all of them. Called once it is prepared.
    fn damage(&self) -> Option<String> {
        None
    }

    /// Draws what is random about the sequence. Called once, before [`FetchedData::prepare`], by one thread at a time, for each
    /// sequence of a minibatch in their order; `position` is the sequence's among those of the minibatch, `sweep` the sweep that
    /// it belongs to.
    fn plan(&mut self, position: u32, sweep: u64) -> Result<()> {
        let _ = (position, sweep);
        Ok(())
    }

    /// Makes the data ready. Called once, before they are looked at, by any thread; `position` is the sequence's among
    /// those of the minibatch. The sequence may turn out to be invalid here.
    fn prepare(&mut self, position: u32) -> Result<()>;

    /// The data in a stream.
    fn view(&self, stream: usize) -> Loaded<'_>;

    /// The shape of the samples in a stream whose description leaves that open.
    fn shape(&self, stream: usize) -> Option<&[usize]>;

    /// The key that minibatches report if they take it from this stream. None: the one that the deserializer has listed.
    fn key(&self, stream: usize) -> Option<SequenceKey>;

    /// The data are not needed any more. Nothing is asked after this, but the object may be handed to the thread that fetches the
    /// next sequence, for its memory.
    fn release(&mut self);
}

/// A deserializer's share of a fetched sequence, and the streams of the reader that it has.
pub(super) struct Share {
    /// Number of the first stream.
    pub first: usize,
    /// How many streams.
    pub count: usize,
    pub data: Box<dyn FetchedData>,
}

/// The shares of one sequence.
#[derive(Default)]
pub struct Parts {
    pub(super) parts: Vec<Share>,
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
        self.parts.push(Share { first, count, data });
        Ok(())
    }

    pub(super) fn release(&mut self) {
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
