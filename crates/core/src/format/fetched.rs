//! A fetched sequence that takes the place of a chunk.

use super::fetch::{Failure, Parts, Share};
use super::{Ahead, Chunk, ChunkErrors, Listing, NoErrors, expand};
use crate::sequence::{Loaded, SequenceKey};
use crate::{Error, Result};
use std::sync::Arc;

/// A sequence in all streams: its fetched shares, and the other streams as the chunk has them. It
/// stands in for a chunk in the packer, and ignores the index that the packer asks for. Reused
/// after release, because there are too many frames to allocate one for each.
#[derive(Default)]
pub struct Fetched {
    parts: Parts,
    chunk: Option<Arc<dyn Chunk>>,
    index: u32,
}

impl Fetched {
    /// Replaces the previous sequence by one fetched from a chunk.
    pub fn take(&mut self, chunk: &Arc<dyn Chunk>, index: u32) -> Result<()> {
        self.release();
        self.index = index;
        self.chunk.insert(Arc::clone(chunk)).fetch(index, 0, &mut self.parts)
    }

    /// Releases the sequence, and then its chunk.
    pub fn release(&mut self) {
        self.parts.release();
        self.chunk = None;
    }

    /// Whether there are data in each of the first `streams` streams.
    pub fn is_whole(&self, streams: usize) -> bool {
        (0..streams).all(|stream| match self.part(stream) {
            Some((part, _)) => part.data.is_valid(),
            None => matches!(self.ready(stream), Loaded::Data(_)),
        })
    }

    /// Why the sequence is invalid: see
    /// [`FetchedData::failure`](super::fetch::FetchedData::failure).
    pub fn failure(&self) -> Option<&Failure> {
        self.parts.parts.iter().find_map(|part| part.data.failure())
    }

    /// See [`FetchedData::damage`](super::fetch::FetchedData::damage).
    pub fn damage(&self) -> Option<String> {
        self.parts.parts.iter().find_map(|part| part.data.damage())
    }

    /// See [`FetchedData::plan`](super::fetch::FetchedData::plan).
    pub fn plan(&mut self, position: u32, sweep: u64) -> Result<()> {
        self.parts.parts.iter_mut().try_for_each(|part| part.data.plan(position, sweep))
    }

    /// See [`FetchedData::prepare`](super::fetch::FetchedData::prepare).
    pub fn prepare(&mut self, position: u32) -> Result<()> {
        self.parts.parts.iter_mut().try_for_each(|part| part.data.prepare(position))
    }

    /// The shape of the samples in a stream whose description leaves the shape open.
    pub fn shape(&self, stream: usize) -> Option<&[usize]> {
        self.part(stream).and_then(|(part, inner)| part.data.shape(inner))
    }

    /// The key that a stream reports for its sequence, if it was fetched.
    pub fn key(&self, stream: usize) -> Option<SequenceKey> {
        self.part(stream).and_then(|(part, inner)| part.data.key(inner))
    }

    fn part(&self, stream: usize) -> Option<(&Share, usize)> {
        let has = |part: &&Share| (part.first..part.first + part.count).contains(&stream);
        self.parts.parts.iter().find(has).map(|part| (part, stream - part.first))
    }

    /// The sequence as the chunk itself has it.
    fn ready(&self, stream: usize) -> Loaded<'_> {
        self.chunk.as_ref().map_or(Loaded::Invalid, |chunk| chunk.sequence(stream, self.index))
    }

    /// The sequence in a stream.
    fn view(&self, stream: usize) -> Loaded<'_> {
        match self.part(stream) {
            Some((part, _)) if !part.data.is_valid() => part.data.left_out(),
            Some((part, inner)) => part.data.view(inner),
            // The chunk knows the length of the first stream's sequence only if it was not fetched.
            None if stream > 0 && self.is_expanded(stream) => expand(self.ready(stream), self.view(0)),
            None => self.ready(stream),
        }
    }
}

impl Chunk for Fetched {
    fn sequence(&self, stream: usize, _: u32) -> Loaded<'_> {
        self.view(stream)
    }

    fn sequences<'a>(&'a self, _: u32, loaded: &mut [Loaded<'a>]) {
        loaded.iter_mut().enumerate().for_each(|(stream, loaded)| *loaded = self.view(stream));
    }

    fn failure(&self, stream: usize, _: u32) -> Option<Error> {
        self.chunk.as_ref()?.failure(stream, self.index)
    }

    fn is_expanded(&self, stream: usize) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| chunk.is_expanded(stream))
    }

    /// The packer gives no hints for fetched sequences.
    fn prefetch(&self, _: u32, _: Ahead) {}

    /// The reader lets the chunk itself warn and count errors.
    fn warn(&self) {}

    fn errors(&self) -> &dyn ChunkErrors {
        &NoErrors
    }

    /// Fetched already.
    fn fetch(&self, _: u32, _: usize, _: &mut Parts) -> Result<()> {
        Ok(())
    }

    fn listing(&self) -> Option<Listing<'_>> {
        None
    }
}
