//! Fetches the sequences of a minibatch, where their chunks do not have them ready: see [`crate::deserialize::fetch`].

use crate::deserialize::fetch::Fetched;
use crate::deserialize::{Chunk, Deserializer};
use crate::error::ExceptionClass;
use crate::pool::Pool;
use crate::sequence::{SequenceId, SequenceKey};
use crate::stream::LateShapes;
use crate::{Error, ErrorKind, Result};
use rayon::prelude::*;
use std::sync::{Arc, Weak};

/// The sequences that were fetched last.
pub(super) struct Fetcher {
    /// Threads to fetch on; without, the reading thread does it.
    pool: Option<Pool>,
    /// Names of the streams.
    streams: Vec<String>,
    /// Streams whose shapes the first data tell.
    late: Vec<usize>,
    shapes: Arc<LateShapes>,
    /// Minibatches take the keys from the first stream, truncated ones from the last (CNTK 2.7).
    key_stream: usize,
    truncated: bool,
    /// By position in the selection.
    fetched: Vec<Option<Arc<dyn Chunk>>>,
    /// Sequences with their keys, those that a truncated packer still holds among them.
    keys: Vec<(SequenceId, SequenceKey, Weak<dyn Chunk>)>,
}

impl Fetcher {
    /// A fetcher if the deserializer needs one.
    pub(super) fn of(
        deserializer: &dyn Deserializer,
        truncated: bool,
        shapes: &Arc<LateShapes>,
        pool: Option<Pool>,
    ) -> Option<Fetcher> {
        let streams = deserializer.streams();
        let late = (0..streams.len()).filter(|&stream| streams[stream].has_late_shape());
        deserializer.is_fetched().then(|| Fetcher {
            pool,
            streams: streams.iter().map(|stream| stream.name.clone()).collect(),
            late: late.collect(),
            shapes: Arc::clone(shapes),
            key_stream: if truncated { streams.len() - 1 } else { 0 },
            truncated,
            fetched: Vec::new(),
            keys: Vec::new(),
        })
    }

    /// Fetches sequences, whose chunks are in memory. Of several failures the first in their order counts.
    pub(super) fn fetch(
        &mut self,
        deserializer: &dyn Deserializer,
        sequences: &[SequenceId],
        chunks: &[Option<Arc<dyn Chunk>>],
    ) -> Result<()> {
        self.fetched.clear();
        match self.truncated {
            true => self.keys.retain(|(_, _, chunk)| chunk.strong_count() > 0),
            false => self.keys.clear(),
        }
        let fetch = |id: &SequenceId| match chunks.get(id.chunk as usize).and_then(Option::as_ref) {
            Some(chunk) => Fetched::new(chunk, id.index).map(Arc::new),
            None => Err(Error::internal("The chunk of a sequence is not in memory.")),
        };
        let mut fetched: Vec<Arc<Fetched>> = Vec::with_capacity(sequences.len());
        let streams = self.streams.len();
        match &self.pool {
            // Both steps in one go: each way to the pool and back costs two changes of threads.
            Some(pool) => pool.install(|| {
                fetched = in_order(sequences.par_iter().map(fetch).collect())?;
                in_order(whole(&mut fetched, streams).into_par_iter().map(prepare).collect())
            })?,
            None => {
                for id in sequences {
                    fetched.push(fetch(id)?);
                }
                whole(&mut fetched, streams).into_iter().try_for_each(prepare)?;
            }
        }
        for sequence in fetched.iter().filter(|sequence| sequence.is_whole(streams)) {
            self.check_shapes(sequence)?;
        }
        for (&id, fetched) in sequences.iter().zip(fetched) {
            let fetched = self.remember(deserializer, id, fetched);
            self.fetched.push(Some(fetched));
        }
        Ok(())
    }

    /// Fetches one sequence for a packer that had it before.
    pub(super) fn refetch(
        &mut self,
        deserializer: &dyn Deserializer,
        id: SequenceId,
        chunk: &Arc<dyn Chunk>,
    ) -> Result<Arc<dyn Chunk>> {
        let mut fetched = Fetched::new(chunk, id.index)?;
        fetched.prepare(0)?;
        Ok(self.remember(deserializer, id, Arc::new(fetched)))
    }

    /// Notes the key of a sequence.
    fn remember(
        &mut self,
        deserializer: &dyn Deserializer,
        id: SequenceId,
        fetched: Arc<Fetched>,
    ) -> Arc<dyn Chunk> {
        let key = fetched.key(self.key_stream).or_else(|| {
            let mut keys = Vec::with_capacity(1);
            deserializer.reported_keys(&[id], self.truncated, &mut keys);
            keys.pop()
        });
        let fetched: Arc<dyn Chunk> = fetched;
        self.keys.push((id, key.unwrap_or_default(), Arc::downgrade(&fetched)));
        fetched
    }

    /// All samples of a stream have one shape, whether it was told beforehand or by the first of them.
    fn check_shapes(&self, fetched: &Fetched) -> Result<()> {
        for &stream in &self.late {
            let name = &self.streams[stream];
            let error = |kind, class, message: String| Err(Error::new(kind, class, message).in_stream(name));
            let Some(shape) = fetched.shape(stream) else {
                let message = format!("Unknown shape of the sequence in stream '{name}'.");
                return error(ErrorKind::User, ExceptionClass::Logic, message);
            };
            if self.shapes.tell(stream, shape) != Some(shape) {
                // CNTK 2.7's words.
                let message = format!(
                    "Packer currently does not support samples with varying shapes.Please make sure there is a \
                     transform that unifies the shape of samples for input stream '{name}' or the deserializer \
                     provides samples with the same shape."
                );
                return error(ErrorKind::Data, ExceptionClass::Runtime, message);
            }
        }
        Ok(())
    }

    /// What was fetched last, by position.
    pub(super) fn fetched(&self) -> &[Option<Arc<dyn Chunk>>] {
        &self.fetched
    }

    /// Shapes that the data have told.
    pub(super) fn shapes(&self) -> &LateShapes {
        &self.shapes
    }

    /// Appends the keys of sequences that were fetched, in the order in which they were if they are not truncated.
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

/// The sequences that can be used, with their positions in the minibatch.
fn whole(fetched: &mut [Arc<Fetched>], streams: usize) -> Vec<(u32, &mut Arc<Fetched>)> {
    (0..).zip(fetched.iter_mut().filter(|fetched| fetched.is_whole(streams))).collect()
}

fn prepare((position, fetched): (u32, &mut Arc<Fetched>)) -> Result<()> {
    match Arc::get_mut(fetched) {
        Some(fetched) => fetched.prepare(position),
        None => Err(Error::internal("A sequence is in use before it is ready.")),
    }
}

/// The results of threads, all of which have done their work: the first failure in the order of sequences.
fn in_order<T, R: FromIterator<T>>(results: Vec<Result<T>>) -> Result<R> {
    results.into_iter().collect()
}
