//! Sequences that are fetched when a minibatch needs them.
//!
//! Some formats cannot keep all sequences of a chunk in memory in the form in which they are
//! delivered: images are decoded, frames of speech get their neighbours. Their chunks hand out one
//! sequence at a time, as a separate object. Each sequence of a minibatch is fetched; invalid ones
//! are left out; the others, whose positions in the minibatch are then known, are
//! [`prepared`](FetchedData::prepare).

use crate::sequence::{Loaded, SequenceKey};
use crate::stream::StreamInfo;
use crate::{Error, Result};
use std::any::Any;

/// Why a sequence is invalid.
#[derive(Debug, Clone)]
pub struct Failure {
    pub error: Error,
    /// The error ends reading in CNTK 2.7: if too many sequences are invalid, report this error
    /// rather than their number.
    pub ends_alone: bool,
}

/// One deserializer's share of a fetched sequence. Stream numbers are those of the deserializer.
pub trait FetchedData: Any + Send + Sync {
    /// Whether the sequence can be used at all.
    fn is_valid(&self) -> bool;

    /// State of a sequence that cannot be used: invalid, or skipped by its deserializer, which has
    /// then counted it.
    fn left_out(&self) -> Loaded<'_> {
        Loaded::Invalid
    }

    /// Why the sequence is invalid, if it is and its deserializer knows the reason.
    fn failure(&self) -> Option<&Failure> {
        None
    }

    /// Damage in the data of a usable sequence, for checks, which examine every sequence. Called
    /// once it is prepared.
    fn damage(&self) -> Option<String> {
        None
    }

    /// Makes the random draws for the sequence. Called once, before [`FetchedData::prepare`], by
    /// one thread at a time, for the sequences of a minibatch in their order. `position` is the
    /// position in the minibatch, `sweep` the sequence's sweep.
    fn plan(&mut self, position: u32, sweep: u64) -> Result<()> {
        let _ = (position, sweep);
        Ok(())
    }

    /// Makes the data ready. Called once, by any thread, before the data are read; `position` is
    /// the position in the minibatch. The sequence may turn out to be invalid here.
    fn prepare(&mut self, position: u32) -> Result<()>;

    /// The data in a stream.
    fn view(&self, stream: usize) -> Loaded<'_>;

    /// The shape of the samples in a stream whose description leaves the shape open.
    fn shape(&self, stream: usize) -> Option<&[usize]>;

    /// The key that minibatches report if they take it from this stream; `None` for the key that
    /// the deserializer listed.
    fn key(&self, stream: usize) -> Option<SequenceKey>;

    /// Called when the data are not needed any more. No other method is called after this, but the
    /// object may be passed to the next fetch on some thread, to reuse its memory.
    fn release(&mut self);
}

/// A deserializer's share of a fetched sequence, and its range of the reader's streams.
pub(super) struct Share {
    /// Number of the first stream.
    pub first: usize,
    /// Number of streams.
    pub count: usize,
    pub data: Box<dyn FetchedData>,
}

/// The shares of one sequence.
#[derive(Default)]
pub struct Parts {
    pub(super) parts: Vec<Share>,
    /// Released shares of the previous sequence, the first one last.
    used: Vec<Box<dyn FetchedData>>,
}

impl Parts {
    /// Adds the share for `count` streams from `first` on. `fetch` may get a released share to
    /// reuse, usually from the same deserializer.
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

/// CNTK's check that truncation gets no streams whose sample shape is unknown beforehand.
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
