//! The state of an opened source: its reader, which one thread uses at a time, and its closing.

use crate::ending::{detached, is_ending};
use crate::errors::{IntoPython, guarded};
use crate::minibatch::Described;
use crate::transform::PyTransform;
use crate::user::User;
use crate::{callback, files, interrupt, process, watchdog};
use cntk_reader::{Error, ErrorKind, Result};
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_engine::pack;
use cntk_reader_engine::reader::Reader;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A read that takes longer is slow: the next one checks for signals while waiting.
const SLOW: Duration = Duration::from_millis(20);
/// A read that takes less keeps the GIL. Reacquiring the GIL next to a busy Python thread takes up
/// to Python's switch interval, 5 ms.
const QUICK: Duration = Duration::from_millis(1);
/// Interval between two checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// The arguments of a read as passed: size, workers and rank.
pub(super) type Asked = [Option<u64>; 3];

/// The reader, which one thread uses at a time, and the state of reads.
#[derive(Default)]
pub(super) struct Opened {
    /// `None`: the source is closed.
    pub(super) reader: Option<Reader>,
    /// The arguments of the last read, whose meaning is in force.
    pub(super) asked: Option<Asked>,
    /// Whether the next read may take long: it is the first one, or the last one took long.
    pub(super) is_slow: bool,
    /// Whether the last read was so short that releasing the GIL would have taken longer.
    pub(super) is_quick: bool,
}

impl Opened {
    /// Runs `work` with the reader. After a panic the reader is leaked and not used again.
    pub(super) fn with<R>(&mut self, work: impl FnOnce(&mut Reader) -> Result<R>) -> Result<R> {
        let reader = self.reader.as_mut().ok_or_else(closed)?;
        let mut has_panicked = true;
        let result = guarded(|| {
            let result = work(reader);
            has_panicked = false;
            result
        });
        if has_panicked {
            std::mem::forget(self.reader.take());
        }
        result
    }
}

/// The result of a watched call, whether the watchdog cancelled it, and when it ended.
type Watched = (Result<()>, bool, Instant);

/// The state of an opened source.
pub(super) struct Content {
    pub(super) process: Process,
    pub(super) opened: Mutex<Opened>,
    pub(super) canceller: Canceller,
    /// Whether `cancel` was called and the cancelled call has not ended yet.
    pub(super) is_cancelled: AtomicBool,
    pub(super) described: Mutex<Option<Arc<Described>>>,
    pub(super) users: Vec<Arc<User>>,
    pub(super) transforms: Vec<Arc<PyTransform>>,
    /// Number of loops begun so far, to detect loops that a later one has replaced.
    pub(super) loops: AtomicU64,
}

pub(super) fn closed() -> Error {
    Error::state("The source is closed.")
        .with_detail("Open another one, `source.reopen()`, or read before closing it.")
}

impl Content {
    /// Locks the reader for this call.
    pub(super) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Opened>> {
        let locked = if self.process.is_current() {
            match self.opened.try_lock() {
                Ok(opened) if opened.reader.is_none() => Err(closed()),
                Ok(opened) => Ok(opened),
                Err(TryLockError::WouldBlock) => Err(Error::state(
                    "The source is in use, by another thread or by the call that invoked this callback.",
                )),
                Err(TryLockError::Poisoned(_)) => {
                    Err(Error::internal("An earlier call of the source panicked.")
                        .with_detail("The source cannot be used any more: create another one."))
                }
            }
        } else {
            Err(Error::state(
                "The source was opened before a fork, and its threads do not exist in this process: use the \
                 one that source.reopen() returns here.",
            ))
        };
        locked.python(py)
    }

    /// Runs `work` that takes no time.
    pub(super) fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Reader) -> Result<R>) -> PyResult<R> {
        let mut opened = self.lock(py)?;
        opened.with(work).python(py)
    }

    /// Runs `work` that takes little time, without the GIL.
    pub(super) fn with_detached<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Reader) -> Result<R> + Send,
    ) -> PyResult<R> {
        let mut opened = self.lock(py)?;
        let opened = &mut *opened;
        detached(py, || opened.with(work)).python(py)
    }

    /// Runs `work` that may take long. Either it completes, or Ctrl-C interrupts it without any
    /// effect. If users' code in it does not return after an interrupt, the source is closed and
    /// its memory leaked.
    pub(super) fn interruptibly<R: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Reader) -> Result<R> + Send + 'static,
    ) -> PyResult<R> {
        let mut opened = self.lock(py)?;
        let place = Arc::new(Mutex::new(opened.reader.take()));
        let inside = Arc::clone(&place);
        let result = interrupt::interruptible(py, &self.canceller, move || {
            let mut reader = inside.lock().map_err(|_| Error::internal("A call panicked."))?;
            work(reader.as_mut().ok_or_else(closed)?)
        });
        match place.try_lock() {
            Ok(mut reader) => opened.reader = reader.take(),
            // The call has panicked; the reader is not used again.
            Err(TryLockError::Poisoned(reader)) => std::mem::forget(reader.into_inner().take()),
            // The call continues, and drops the reader when it ends.
            Err(TryLockError::WouldBlock) => {}
        }
        self.is_cancelled.store(false, Ordering::SeqCst);
        opened.is_slow = true;
        result
    }

    /// Waits until the next read will not block. Ctrl-C interrupts the wait without loss: nothing
    /// was delivered, and the library continues reading.
    fn wait(&self, py: Python<'_>, opened: &mut Opened) -> PyResult<()> {
        let begun = Instant::now();
        let is_main = interrupt::is_main_thread(py);
        // The time to reacquire the GIL does not count.
        let mut ended = None;
        if opened.is_quick && !self.runs_python() {
            ended = self.make_ready(py, opened, |work| work())?;
        }
        if ended.is_none() && !is_main {
            let work = || (opened.with(Reader::make_ready), Instant::now());
            let (result, end) = detached(py, work);
            self.is_cancelled.store(false, Ordering::SeqCst);
            result.python(py)?;
            ended = Some(end);
        } else if ended.is_none() && !opened.is_slow {
            ended = self.make_ready(py, opened, |work| py.detach(work))?;
        }
        while ended.is_none() {
            if let Err(exception) = py.check_signals() {
                interrupt::note(true);
                return Err(exception);
            }
            let work = || (opened.with(|reader| reader.wait(SIGNAL_INTERVAL)), Instant::now());
            let (result, end) = py.detach(work);
            self.is_cancelled.store(false, Ordering::SeqCst);
            ended = result.python(py)?.then_some(end);
        }
        if is_main {
            interrupt::note(false);
        }
        let elapsed = ended.map_or(SLOW, |ended| ended - begun);
        (opened.is_quick, opened.is_slow) = (elapsed < QUICK, elapsed > SLOW);
        Ok(())
    }

    /// Waits until the next read will not block, up to the watchdog's timeout. Returns when that
    /// was, or `None` if the watchdog cancelled the wait.
    fn make_ready(
        &self,
        py: Python<'_>,
        opened: &mut Opened,
        run: impl FnOnce(&mut (dyn FnMut() -> Watched + Send)) -> Watched,
    ) -> PyResult<Option<Instant>> {
        let mut work = || {
            let (result, was_cut) = watchdog::watched(&self.canceller, || opened.with(Reader::make_ready));
            (result, was_cut, Instant::now())
        };
        let (result, was_cut, ended) = run(&mut work);
        let by_program = self.is_cancelled.swap(false, Ordering::SeqCst);
        match result {
            Err(error) if error.kind() == ErrorKind::Cancelled && was_cut && !by_program => Ok(None),
            result => result.python(py).map(|()| Some(ended)),
        }
    }

    /// Returns whether reading may run Python code on other threads, which needs the GIL.
    fn runs_python(&self) -> bool {
        !self.users.is_empty()
            || !self.transforms.is_empty()
            || files::is_mounted()
            || process::has_callback()
    }

    /// Returns the next minibatch or step. Signals are checked right before it is taken, so an
    /// exception in a handler leaves it to the next call.
    pub(super) fn take(
        &self,
        py: Python<'_>,
        opened: &mut Opened,
        is_step: bool,
    ) -> PyResult<Option<pack::Minibatch>> {
        loop {
            let reader = opened.reader.as_mut().ok_or_else(closed).python(py)?;
            let is_ready = if is_step { reader.is_next_ready() } else { reader.is_read_ready() };
            if !is_ready {
                self.wait(py, opened)?;
            }
            py.check_signals()?;
            if !is_step {
                return opened.with(Reader::read).python(py).map(Some);
            }
            let step = opened.with(|reader| reader.next_within(Duration::ZERO)).python(py)?;
            if let Poll::Ready(step) = step {
                return Ok(step);
            }
        }
    }

    /// Closes the reader. Releases the GIL meanwhile.
    pub(super) fn release(&self, py: Python<'_>) {
        let Ok(mut opened) = self.opened.try_lock() else { return };
        let Some(reader) = opened.reader.take() else { return };
        drop(opened);
        if !self.process.is_current() || is_ending() {
            // Its threads do not exist in this process, or its memory is freed at process exit.
            std::mem::forget(reader);
        } else if callback::is_inside() || interrupt::has_interrupted() {
            // Closing the reader would wait for users' code, which is running on this thread or may
            // never return. If no thread can be spawned, the reader is leaked.
            let place = Arc::new(Mutex::new(Some(reader)));
            let inside = Arc::clone(&place);
            let spawned = std::thread::Builder::new().name("cntk-end".to_owned()).spawn(move || {
                drop(inside.lock().ok().and_then(|mut reader| reader.take()));
            });
            if spawned.is_err() {
                std::mem::forget(place);
            }
        } else {
            detached(py, || drop(reader));
        }
    }
}
