//! Fetches the sequences of a minibatch, where their chunks do not have them ready: see [`crate::deserialize::fetch`].

use crate::deserialize::fetch::Fetched;
use crate::deserialize::{Chunk, ChunkSource};
use crate::error::ExceptionClass;
use crate::pool::Pool;
use crate::sequence::{SequenceId, SequenceKey};
use crate::stream::LateShapes;
use crate::{Error, ErrorKind, Result};
use rayon::prelude::*;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The sequences that were fetched last.
pub(super) struct Fetcher {
    fetching: Workforce,
    preparing: Workforce,
    /// Names of the streams.
    streams: Vec<String>,
    /// Streams whose shapes the first data tell.
    late: Vec<usize>,
    shapes: Arc<LateShapes>,
    /// Minibatches take the keys from the first stream, truncated ones from the last (CNTK 2.7).
    key_stream: usize,
    truncated: bool,
    /// By position in the selection, and behind those in use what is left of earlier ones.
    fetched: Vec<Fetched>,
    /// So many are in use.
    count: usize,
    /// Sequences with their keys. Those that a truncated packer still holds stay among them.
    keys: Vec<(SequenceId, SequenceKey, Weak<Fetched>)>,
}

impl Fetcher {
    /// A fetcher if the deserializer needs one.
    pub(super) fn of(
        deserializer: &dyn ChunkSource,
        truncated: bool,
        shapes: &Arc<LateShapes>,
        pool: Option<Pool>,
    ) -> Option<Fetcher> {
        let streams = deserializer.streams();
        let late = (0..streams.len()).filter(|&stream| streams[stream].has_late_shape());
        deserializer.is_fetched().then(|| Fetcher {
            fetching: Workforce::new(pool.clone()),
            preparing: Workforce::new(pool),
            streams: streams.iter().map(|stream| stream.name.clone()).collect(),
            late: late.collect(),
            shapes: Arc::clone(shapes),
            key_stream: if truncated { streams.len() - 1 } else { 0 },
            truncated,
            fetched: Vec::new(),
            count: 0,
            keys: Vec::new(),
        })
    }

    /// Fetches sequences, whose chunks are in memory. Of several failures the first in their order counts.
    pub(super) fn fetch(
        &mut self,
        deserializer: &dyn ChunkSource,
        sequences: &[SequenceId],
        chunks: &[Option<Arc<dyn Chunk>>],
    ) -> Result<()> {
        self.release();
        let outcome = self.fetch_all(deserializer, sequences, chunks);
        if outcome.is_err() {
            self.release();
        }
        outcome
    }

    fn fetch_all(
        &mut self,
        deserializer: &dyn ChunkSource,
        sequences: &[SequenceId],
        chunks: &[Option<Arc<dyn Chunk>>],
    ) -> Result<()> {
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
        self.fetching.each(open.iter_mut().zip(sequences), self.count, fetch)?;
        // Those that can be used, with their positions in the minibatch.
        let whole = (0..).zip(open.iter_mut().filter(|fetched| fetched.is_whole(streams)));
        self.preparing.each(whole, self.count, |(position, fetched)| fetched.prepare(position))?;
        if !self.late.is_empty() {
            for sequence in self.fetched().iter().filter(|sequence| sequence.is_whole(streams)) {
                self.check_shapes(sequence)?;
            }
        }
        for (position, &id) in sequences.iter().enumerate() {
            let key = self.key(deserializer, id, &self.fetched[position]);
            self.keys.push((id, key, Weak::new()));
        }
        Ok(())
    }

    /// A sequence of those fetched last, for a truncated packer.
    pub(super) fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>> {
        let key = self.keys.len().checked_sub(self.count)? + position;
        let fetched = Arc::new(std::mem::take(self.fetched[..self.count].get_mut(position)?));
        self.keys.get_mut(key)?.2 = Arc::downgrade(&fetched);
        Some(fetched)
    }

    /// Lets go of what was fetched last: a minibatch has it, or a truncated packer. The memory is kept for the next.
    pub(super) fn release(&mut self) {
        let used = self.fetched.iter_mut().take(std::mem::take(&mut self.count));
        used.for_each(Fetched::release);
    }

    /// Fetches one sequence for a packer that had it before.
    pub(super) fn refetch(
        &mut self,
        deserializer: &dyn ChunkSource,
        id: SequenceId,
        chunk: &Arc<dyn Chunk>,
    ) -> Result<Arc<dyn Chunk>> {
        let mut fetched = Fetched::default();
        fetched.take(chunk, id.index)?;
        fetched.prepare(0)?;
        let key = self.key(deserializer, id, &fetched);
        let fetched = Arc::new(fetched);
        self.keys.push((id, key, Arc::downgrade(&fetched)));
        Ok(fetched)
    }

    /// The key that minibatches report.
    fn key(&self, deserializer: &dyn ChunkSource, id: SequenceId, fetched: &Fetched) -> SequenceKey {
        let key = fetched.key(self.key_stream).or_else(|| {
            let mut keys = Vec::with_capacity(1);
            deserializer.reported_keys(&[id], self.truncated, &mut keys);
            keys.pop()
        });
        key.unwrap_or_default()
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
    pub(super) fn fetched(&self) -> &[Fetched] {
        &self.fetched[..self.count]
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

/// The reading thread, and threads that help where that pays.
struct Workforce {
    helpers: Option<Pool>,
    /// So many times the reading thread does not try alone first.
    busy: u32,
}

/// Work that one thread does in less is not handed over: HTK frames in minibatches of 256 take half of this.
const QUICK: Duration = Duration::from_micros(300);

/// Nor are sequences that take less each: threads that fetch them get into each other's way, and frames took twice as long.
const SLOW: Duration = Duration::from_micros(5);

/// What has to have passed before the rest is estimated: the first sequence alone may wait for cold caches.
const TRIAL: Duration = Duration::from_micros(30);

/// How often work is handed over before the reading thread tries again: at images a trial takes the time of a whole one.
const HANDED_OVER: u32 = 31;

impl Workforce {
    fn new(helpers: Option<Pool>) -> Workforce {
        Workforce { helpers, busy: 0 }
    }

    /// Does something for each item, of which there are `most` or less. Of several failures the first in their order counts.
    fn each<T: Send>(
        &mut self,
        mut items: impl Iterator<Item = T>,
        most: usize,
        work: impl Fn(T) -> Result<()> + Sync,
    ) -> Result<()> {
        let Some(helpers) = &self.helpers else { return items.try_for_each(work) };
        match self.busy.checked_sub(1) {
            Some(busy) => self.busy = busy,
            None => {
                let start = Instant::now();
                for (done, item) in (1u32..).zip(items.by_ref()) {
                    work(item)?;
                    if done.is_power_of_two() {
                        let took = start.elapsed();
                        let pays = took >= SLOW * done
                            && took.as_secs_f64() * most as f64 > QUICK.as_secs_f64() * f64::from(done);
                        if took > TRIAL && pays {
                            self.busy = HANDED_OVER;
                            break;
                        }
                    }
                }
            }
        }
        let rest: Vec<T> = items.collect();
        if rest.is_empty() {
            return Ok(());
        }
        // All of them do their work, whichever fails.
        let results: Vec<_> = helpers.install(|| rest.into_par_iter().map(&work).collect());
        results.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Slow work is spread, quick work is not; either way each item is done once.
    #[test]
    fn every_item_is_done_once_whoever_does_it() {
        for pause in [Duration::ZERO, 2 * QUICK] {
            for helpers in [None, Some(Pool::shared().expect("threads"))] {
                let helps = helpers.is_some();
                let mut workforce = Workforce::new(helpers);
                let done: Vec<_> = (0..40).map(|_| AtomicU32::new(0)).collect();
                for times in 1..=3 {
                    let work = |item: &AtomicU32| {
                        std::thread::sleep(pause);
                        item.fetch_add(1, Ordering::Relaxed);
                        Ok(())
                    };
                    workforce.each(done.iter(), done.len(), work).expect("no failure");
                    assert!(done.iter().all(|item| item.load(Ordering::Relaxed) == times));
                }
                if !pause.is_zero() {
                    assert_eq!(workforce.busy > 0, helps);
                }
            }
        }
    }

    #[test]
    fn the_first_failure_in_order_counts() {
        for pause in [Duration::ZERO, 2 * QUICK] {
            let mut workforce = Workforce::new(Some(Pool::shared().expect("threads")));
            for _ in 0..2 {
                let work = |item: u32| {
                    std::thread::sleep(pause);
                    if item % 7 == 5 { Err(Error::data(item.to_string())) } else { Ok(()) }
                };
                let error = workforce.each(0..20, 20, work).expect_err("three items fail");
                assert_eq!(error.message(), "5");
            }
        }
    }
}
