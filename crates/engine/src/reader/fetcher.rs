//! Fetches the sequences of a minibatch from chunks that do not hold them ready to use: see
//! [`cntk_reader_core::format::fetch`].

use crate::pack::explain::Explain;
use crate::randomize::Selection;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::fetch::Failure;
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::format::{Chunk, ChunkSource};
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::runtime::helpers::{Helpers, Team};
use cntk_reader_core::sequence::{SequenceId, SequenceKey};
use cntk_reader_core::stream::LateShapes;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::sync::{Arc, Weak};

/// Fetches sequences, and holds the last selection's.
pub(super) struct Fetcher {
    /// Threads that fetch and prepare together with the reading thread, if enabled. They do not
    /// belong to the pool: they run users' code, which may wait for another reader, whose loading
    /// needs the pool.
    helpers: Option<Helpers>,
    /// Names of the streams.
    streams: Vec<String>,
    explain: Explain,
    /// Streams whose shapes are discovered with the first data.
    late: Vec<usize>,
    shapes: Arc<LateShapes>,
    /// The stream whose keys minibatches report: the first one, or the last one for truncated
    /// minibatches (CNTK 2.7).
    key_stream: usize,
    truncated: bool,
    /// The first `count` are the fetched sequences, by position in the selection. The rest are left
    /// over from earlier selections, to reuse their memory.
    fetched: Vec<Fetched>,
    /// Number of sequences fetched last.
    count: usize,
    /// Why the first invalid one of them cannot be used, if known.
    failure: Option<Failure>,
    /// Keys of fetched sequences: first those still held by a truncated packer, then the last
    /// selection's.
    keys: Vec<(SequenceId, SequenceKey, Weak<Fetched>)>,
}

impl Fetcher {
    /// Creates a fetcher if the deserializer needs one.
    pub(super) fn of(
        deserializer: &dyn ChunkSource,
        explain: &Explain,
        truncated: bool,
        shapes: &Arc<LateShapes>,
        threads: Option<usize>,
    ) -> Option<Fetcher> {
        let streams = deserializer.streams();
        let late = (0..streams.len()).filter(|&stream| streams[stream].has_late_shape());
        deserializer.facts().is_fetched.then(|| Fetcher {
            helpers: threads.map(Helpers::new),
            streams: streams.iter().map(|stream| stream.name.clone()).collect(),
            explain: explain.clone(),
            late: late.collect(),
            shapes: Arc::clone(shapes),
            key_stream: if truncated { streams.len() - 1 } else { 0 },
            truncated,
            fetched: Vec::new(),
            count: 0,
            failure: None,
            keys: Vec::new(),
        })
    }

    /// Fetches the selected sequences, whose chunks are in memory. Of several errors, returns the
    /// first sequence's.
    pub(super) fn fetch(
        &mut self,
        deserializer: &dyn ChunkSource,
        selection: &Selection,
        chunks: &[Option<Arc<dyn Chunk>>],
    ) -> Result<()> {
        self.release();
        self.failure = None;
        let outcome = self.fetch_all(deserializer, selection, chunks);
        if outcome.is_err() {
            self.release();
        }
        outcome
    }

    fn fetch_all(
        &mut self,
        deserializer: &dyn ChunkSource,
        selection: &Selection,
        chunks: &[Option<Arc<dyn Chunk>>],
    ) -> Result<()> {
        let sequences = &selection.sequences;
        match self.truncated {
            true => self.keys.retain(|(_, _, fetched)| fetched.strong_count() > 0),
            false => self.keys.clear(),
        }
        if self.fetched.len() < sequences.len() {
            self.fetched.resize_with(sequences.len(), Fetched::default);
        }
        self.count = sequences.len();
        let streams = self.streams.len();
        let fetch = |(fetched, id): (&mut Fetched, &SequenceId)| match chunks
            .get(id.chunk as usize)
            .and_then(Option::as_ref)
        {
            Some(chunk) => fetched.take(chunk, id.index),
            None => Err(Error::internal("The chunk of a sequence is not in memory.")),
        };
        let open = &mut self.fetched[..self.count];
        each(self.helpers.as_mut(), open.iter_mut().zip(sequences), fetch)?;
        // All sequences must draw even if one fails, because later draws depend on the number of
        // draws.
        let (mut drawn, mut position) = (Ok(()), 0);
        for (index, fetched) in open.iter_mut().enumerate().filter(|(_, fetched)| fetched.is_whole(streams)) {
            drawn = drawn.and(fetched.plan(position, selection.sweep_of(index)));
            position += 1;
        }
        drawn?;
        // The sequences with data in every stream, and their positions in the minibatch.
        let whole = open.iter_mut().filter(|fetched| fetched.is_whole(streams));
        let whole: Vec<_> = (0..).zip(whole).collect();
        each(self.helpers.as_mut(), whole.into_iter(), |(position, fetched)| fetched.prepare(position))?;
        self.failure = self.fetched().iter().find_map(|fetched| fetched.failure().cloned());
        if !self.late.is_empty() {
            for (sequence, &id) in self.fetched().iter().zip(sequences) {
                if sequence.is_whole(streams) {
                    self.check_shapes(sequence).map_err(|(error, stream)| {
                        self.explain.locate(error, id, stream, sequence.key(self.key_stream))
                    })?;
                }
            }
        }
        for (position, &id) in sequences.iter().enumerate() {
            let key = self.key(deserializer, id, &self.fetched[position]);
            self.keys.push((id, key, Weak::new()));
        }
        Ok(())
    }

    /// Takes the reason why the first invalid sequence fetched last cannot be used, if known.
    pub(super) fn take_failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Takes out one of the sequences fetched last, for a truncated packer to hold.
    pub(super) fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>> {
        let key = self.keys.len().checked_sub(self.count)? + position;
        let fetched = Arc::new(std::mem::take(self.fetched[..self.count].get_mut(position)?));
        self.keys.get_mut(key)?.2 = Arc::downgrade(&fetched);
        Some(fetched)
    }

    /// Releases the sequences fetched last, after a minibatch has copied them or a truncated packer
    /// has taken them. Keeps their memory for the next selection.
    pub(super) fn release(&mut self) {
        let used = self.fetched.iter_mut().take(std::mem::take(&mut self.count));
        used.for_each(Fetched::release);
    }

    /// Fetches a sequence again, for a packer that held it when a checkpoint was taken. `sweep` is
    /// the sequence's sweep.
    pub(super) fn refetch(
        &mut self,
        deserializer: &dyn ChunkSource,
        id: SequenceId,
        chunk: &Arc<dyn Chunk>,
        sweep: u64,
    ) -> Result<Arc<dyn Chunk>> {
        let mut fetched = Fetched::default();
        fetched.take(chunk, id.index)?;
        fetched.plan(0, sweep)?;
        fetched.prepare(0)?;
        let key = self.key(deserializer, id, &fetched);
        let fetched = Arc::new(fetched);
        self.keys.push((id, key, Arc::downgrade(&fetched)));
        Ok(fetched)
    }

    /// Returns the key that minibatches report.
    fn key(&self, deserializer: &dyn ChunkSource, id: SequenceId, fetched: &Fetched) -> SequenceKey {
        let key = fetched.key(self.key_stream).or_else(|| {
            let mut keys = Vec::with_capacity(1);
            deserializer.reported_keys(&[id], self.truncated, &mut keys);
            keys.pop()
        });
        key.unwrap_or_default()
    }

    /// Checks that all samples of a stream have the same shape: the one in its description, or the
    /// first sample's. Returns an error with the number of its stream.
    fn check_shapes(&self, fetched: &Fetched) -> std::result::Result<(), (Error, usize)> {
        for &stream in &self.late {
            let name = &self.streams[stream];
            let error = |kind, class, message: String, detail: &str| {
                Err((Error::new(kind, class, message).with_detail(detail).in_stream(name), stream))
            };
            let Some(shape) = fetched.shape(stream) else {
                let message = format!("Unknown shape of the sequence in stream '{name}'.");
                let detail = "Its deserializer leaves the shape open, so each sequence must have one.";
                return error(ErrorKind::User, ExceptionClass::Logic, message, detail);
            };
            if self.shapes.set(stream, shape) != Some(shape) {
                // CNTK 2.7's message.
                let message = format!(
                    "Packer currently does not support samples with varying shapes.Please make sure there is a \
                     transform that unifies the shape of samples for input stream '{name}' or the deserializer \
                     provides samples with the same shape."
                );
                let found = format!("Samples differ in shape: {shape:?} differs from earlier ones.");
                let remedy = "A 'Scale' makes the shapes of images equal.";
                let error = Error::data(message).as_cntk().with_detail(found).with_detail(remedy);
                return Err((error.in_stream(name), stream));
            }
        }
        Ok(())
    }

    /// Returns the sequences fetched last, by position in the selection.
    pub(super) fn fetched(&self) -> &[Fetched] {
        &self.fetched[..self.count]
    }

    /// Returns the shapes discovered with the first data.
    pub(super) fn shapes(&self) -> &LateShapes {
        &self.shapes
    }

    /// Appends the keys of fetched sequences. Unless minibatches are truncated, `sequences` must be
    /// in the order of fetching.
    pub(super) fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let mut from = 0;
        for id in sequences {
            let known = self.keys[from..].iter().position(|(known, ..)| known == id);
            keys.push(known.map_or(0, |known| self.keys[from + known].1));
            if !self.truncated {
                from += known.map_or(0, |known| known + 1);
            }
        }
    }
}

/// Runs `work` for each item, on all threads. Of several errors, returns the first in the items'
/// order.
fn each<T: Send>(
    helpers: Option<&mut Helpers>,
    mut items: impl DoubleEndedIterator<Item = T> + ExactSizeIterator + Send,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    match helpers {
        Some(helpers) if items.len() > 1 => {
            Team { threads: helpers.most(), helpers }.each(items, carried(&work))
        }
        _ => items.try_for_each(work),
    }
}
