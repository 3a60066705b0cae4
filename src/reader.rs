//! The reader as Rust programs see it.

use super::minibatch::Descriptions;
use crate::{Builder, EpochCursor, EpochIter, Minibatch};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::{
    Epoch, EpochProgress, EpochState, Member, MemoryUse, ReadConfig, Reader as Engine, Sizes, State,
};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Reads minibatches. Opened by a [`Builder`].
///
/// *Threads*: a reader may move between threads; its calls need it exclusively. Minibatches live on their own and may
/// be used, and dropped, on any thread.
///
/// *Fork*: a reader belongs to the process that opened it. In a child process every call fails, and dropping it leaks
/// its memory rather than waiting for threads that do not exist there.
pub struct Reader {
    engine: Engine,
    descriptions: Arc<Descriptions>,
    /// The number of the cursor given last.
    cursor: u64,
}

impl Reader {
    /// Begins to build a reader.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn new(engine: Engine) -> Reader {
        let descriptions = Descriptions::new(engine.streams(), engine.shapes(), engine.corpus());
        let descriptions = Arc::new(descriptions);
        Reader { engine, descriptions, cursor: 0 }
    }

    /// The streams in the order of their numbers: alphabetical for text, as in the file for binary data.
    ///
    /// Sparse streams are delivered, and described here, as dense ones in truncated mode.
    #[must_use]
    pub fn streams(&self) -> &[StreamInfo] {
        &self.descriptions.streams
    }

    /// The description of a stream. An unknown name is an error that lists the names there are.
    pub fn stream(&self, name: &str) -> Result<&StreamInfo> {
        self.descriptions.find(name).map(|number| &self.descriptions.streams[number])
    }

    /// Starts an epoch and gives its minibatches.
    pub fn epoch(&mut self, epoch: Epoch) -> Result<EpochIter<'_>> {
        let cursor = self.epoch_cursor(epoch)?;
        Ok(EpochIter::new(self, cursor))
    }

    /// Starts the epoch after the one in force and gives its minibatches: the first call starts
    /// epoch 0, the next one epoch 1, and so on. `epoch` says their size, workers and flags.
    ///
    /// After [`Reader::restore`] the first call goes on with the rest of the checkpoint's epoch,
    /// unless its end was reported before. An error if the epoch in force has another size: then
    /// [`Reader::epoch`] with [`Epoch::index`] says which one to start.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// use cntk_reader::Epoch;
    ///
    /// let sweep = Epoch::sweeps(1).minibatch_size(256);
    /// loop {
    ///     for minibatch in reader.next_epoch(sweep)? {
    ///         let minibatch = minibatch?;
    ///     }
    ///     if reader.current_epoch().is_some_and(|(index, _)| index == 9) {
    ///         break;
    ///     }
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    pub fn next_epoch(&mut self, epoch: Epoch) -> Result<EpochIter<'_>> {
        let cursor = self.next_epoch_cursor(epoch)?;
        Ok(EpochIter::new(self, cursor))
    }

    /// Starts an epoch, as [`Reader::next_epoch`] does, for a loop that does not borrow the reader.
    pub fn next_epoch_cursor(&mut self, epoch: Epoch) -> Result<EpochCursor> {
        let (read, ..) = epoch.numbers();
        check_size(&read)?;
        self.engine.start_next_epoch(&epoch)?;
        Ok(self.rest_cursor())
    }

    /// The number of the epoch in force, from 0, and how far it has come; `None` before the first
    /// one. A checkpoint that was restored brings its epoch back.
    #[must_use]
    pub fn current_epoch(&self) -> Option<(u64, EpochState)> {
        self.engine.current_epoch().map(|(epoch, state)| (epoch.numbers().3, state))
    }

    /// The minibatches from the current position to the end of the epoch, after [`Reader::restore`] or a loop that was
    /// left early.
    pub fn rest_of_epoch(&mut self) -> EpochIter<'_> {
        let cursor = self.rest_cursor();
        EpochIter::new(self, cursor)
    }

    /// Starts an epoch, as [`Reader::epoch`] does, for a loop that does not borrow the reader.
    pub fn epoch_cursor(&mut self, epoch: Epoch) -> Result<EpochCursor> {
        let (read, ..) = epoch.numbers();
        check_size(&read)?;
        self.engine.start_epoch(&epoch)?;
        Ok(self.rest_cursor())
    }

    /// The minibatches of [`Reader::rest_of_epoch`], for a loop that does not borrow the reader. It takes
    /// the place of earlier cursors.
    pub fn rest_cursor(&mut self) -> EpochCursor {
        let cursor = EpochCursor::new();
        self.cursor = cursor.number();
        cursor
    }

    /// Whether this is the cursor given last.
    pub(super) fn check_cursor(&self, number: u64) -> Result<()> {
        match self.cursor == number {
            true => Ok(()),
            false => Err(Error::state("Another loop over the reader was begun: this one cannot go on.")
                .with_detail("A reader has one position. Use the cursor or iterator that it gave last.")),
        }
    }

    /// The next step of the epoch: a minibatch with data or, in lockstep, one that all workers take
    /// part in. `None` at the end of the epoch, again and again.
    #[expect(clippy::should_implement_trait, reason = "an error does not end the steps of a reader")]
    pub fn next(&mut self) -> Result<Option<Minibatch>> {
        let step = self.engine.next()?;
        Ok(step.map(|minibatch| Minibatch::new(minibatch, &self.descriptions)))
    }

    /// [`Reader::next`], which waits no longer than `patience`. If the result is pending, nothing
    /// is lost: a later call delivers what this one has waited for. Meanwhile a thread of the
    /// reader's goes on reading, and the caller can do something else, such as looking for signals.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// # let epoch = cntk_reader::Epoch::sweeps(1).minibatch_size(256);
    /// use std::task::Poll;
    /// use std::time::Duration;
    ///
    /// let _ = reader.epoch(epoch)?;
    /// loop {
    ///     match reader.next_within(Duration::from_millis(50))? {
    ///         Poll::Ready(Some(minibatch)) => println!("{} sequences", minibatch.sequences()),
    ///         Poll::Ready(None) => break,
    ///         Poll::Pending => println!("still waiting"),
    ///     }
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    ///
    /// It may wait longer after a call that failed or was cancelled, whose effects are undone
    /// first, and if the system has no thread left to start.
    pub fn next_within(&mut self, patience: Duration) -> Result<Poll<Option<Minibatch>>> {
        let step = self.engine.next_within(patience)?;
        Ok(step.map(|step| step.map(|minibatch| Minibatch::new(minibatch, &self.descriptions))))
    }

    /// Waits until the next minibatch, or an error in its place, can be had without waiting, but no
    /// longer than `patience`. Returns whether it can, by [`Reader::read`] as by [`Reader::next`];
    /// the latter waits again only where this worker has no share of a minibatch. See also
    /// [`Reader::next_within`].
    pub fn wait(&mut self, patience: Duration) -> Result<bool> {
        self.engine.wait(patience)
    }

    /// Reads the next minibatch, as CNTK's GetMinibatch does. It may be without data, and past the
    /// end of the epoch it always is: [`Minibatch::is_step`] and [`Minibatch::end_of_epoch`] say
    /// what it is. [`Reader::epoch`] and [`Reader::next`] are easier to use.
    pub fn read(&mut self) -> Result<Minibatch> {
        let minibatch = self.engine.read()?;
        Ok(Minibatch::new(minibatch, &self.descriptions))
    }

    /// Changes minibatch size, workers and flags between two minibatches; the position stays. In truncated mode the
    /// rest of sequences that were begun is dropped, as in CNTK.
    pub fn configure(&mut self, config: ReadConfig) -> Result<()> {
        check_size(&config)?;
        self.engine.configure(&config)
    }

    /// Minibatch size, workers and flags in force, those of a restored checkpoint too.
    pub fn config(&self) -> Result<ReadConfig> {
        self.engine.config()
    }

    /// The position after the minibatch read last, as opaque bytes; every mode continues exactly.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// # let mut another = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// let bytes = reader.checkpoint()?;
    /// // Later, in another process perhaps, over the same data and configuration:
    /// another.restore(&bytes)?;
    /// for minibatch in another.rest_of_epoch() {
    ///     let minibatch = minibatch?;
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        self.engine.checkpoint()
    }

    /// Continues where [`Reader::checkpoint`] was called, in the epoch of that time. A new reader
    /// becomes the worker that took the checkpoint; one that has started an epoch stays the worker
    /// that it is. A checkpoint of other data, of another configuration, or one that this worker
    /// cannot continue exactly is refused with an error that says what differs; the reader then stays
    /// as it was.
    pub fn restore(&mut self, checkpoint: &[u8]) -> Result<()> {
        self.engine.restore(checkpoint)
    }

    /// [`Reader::restore`] where the values of the data were changed on purpose, for example to
    /// correct some of them: the sequences must be the same, in their keys and lengths.
    pub fn restore_over_changed_values(&mut self, checkpoint: &[u8]) -> Result<()> {
        self.engine.restore_over_changed_values(checkpoint)
    }

    /// How much data there is. Of several deserializers, the sequences that all of them have count.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.engine.sizes()
    }

    /// The deserializers in their order, each with its sizes. The first one is primary.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        self.engine.members()
    }

    /// How far the epoch has come, for a bar of progress.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// let progress = reader.progress()?;
    /// match progress.expected {
    ///     Some(expected) => println!("{} of {expected} samples", progress.delivered),
    ///     None => println!("{} samples", progress.delivered),
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    pub fn progress(&self) -> Result<EpochProgress> {
        self.engine.progress()
    }

    /// Memory that the reader holds.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        self.engine.memory()
    }

    /// A size of chunks, in bytes, with which this many workers share the data evenly: for
    /// [`CtfDeserializer::chunk_size`](crate::CtfDeserializer::chunk_size).
    #[must_use]
    pub fn suggest_chunk_size(&self, workers: u64) -> u64 {
        self.engine.suggest_chunk_size(workers)
    }

    /// CNTK's checkpoint state: named numbers, for programs that keep CNTK's own checkpoints. Where minibatches leave
    /// parts of sequences for later, as in truncated mode, it does not continue exactly; [`Reader::checkpoint`] does.
    #[must_use]
    pub fn cntk_state(&self) -> State {
        self.engine.state()
    }

    /// Restores [`Reader::cntk_state`] in the epoch that was started. Unknown names are ignored, a missing one is an
    /// error.
    pub fn restore_cntk_state(&mut self, state: &[(&str, u64)]) -> Result<()> {
        self.engine.set_state(state)
    }
}

/// Refuses a minibatch size that was not set, with a hint.
fn check_size(read: &ReadConfig) -> Result<()> {
    if read.minibatch_size > 0 {
        return Ok(());
    }
    let detail = "Set the minibatch size of the epoch to a number of samples, such as 256: those of all workers together.";
    Err(Error::argument("The minibatch size is 0.").with_detail(detail))
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("streams", &self.streams())
            .field("config", &self.config().ok())
            .finish()
    }
}
