//! The parts of a source that is open: the reader, which one thread at a time uses, and how it
//! ends.

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

/// A read that takes longer is slow: the next one looks for signals while it waits.
const SLOW: Duration = Duration::from_millis(20);
/// A read that takes less keeps the interpreter's lock. Beside a busy thread of Python, to get it
/// back takes up to the interval in which threads of Python take turns, 5 ms.
const QUICK: Duration = Duration::from_millis(1);
/// The time between two looks for signals.
const PIECE: Duration = Duration::from_millis(50);

/// Arguments of a read as they were given, and what they meant.
pub(super) type Asked = [Option<u64>; 3];

/// The reader, which one thread at a time uses.
#[derive(Default)]
pub(super) struct Opened {
    /// `None`: the source is closed.
    pub(super) reader: Option<Reader>,
    /// The arguments of the last read. They mean what is in force.
    pub(super) asked: Option<Asked>,
    /// The next read may take long: the last one did, or it is the first one.
    pub(super) is_slow: bool,
    /// The last read was so short that releasing the interpreter's lock would have taken longer.
    pub(super) is_quick: bool,
}

impl Opened {
    /// Does some work with the reader. After a panic nothing uses it any more.
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

/// The result of a watched call, whether the watchdog has cancelled it, and when it ended.
type Watched = (Result<()>, bool, Instant);

/// The parts of a source that is open.
pub(super) struct Content {
    pub(super) process: Process,
    pub(super) opened: Mutex<Opened>,
    pub(super) canceller: Canceller,
    /// `cancel` was called, and its call has not ended yet.
    pub(super) is_cancelled: AtomicBool,
    pub(super) described: Mutex<Option<Arc<Described>>>,
    pub(super) users: Vec<Arc<User>>,
    pub(super) transforms: Vec<Arc<PyTransform>>,
    /// Counts loops, to recognize one that another one has taken the place of.
    pub(super) loops: AtomicU64,
}

pub(super) fn closed() -> Error {
    Error::state("The source is closed.")
}

impl Content {
    /// The reader, for this call alone.
    pub(super) fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Opened>> {
        let locked = if self.process.is_current() {
            match self.opened.try_lock() {
                Ok(opened) if opened.reader.is_none() => Err(closed()),
                Ok(opened) => Ok(opened),
                Err(TryLockError::WouldBlock) => Err(Error::state(
                    "The source is in use, by another thread or by the call that this callback came from.",
                )),
                Err(TryLockError::Poisoned(_)) => {
                    Err(Error::internal("An earlier call of the source panicked.")
                        .with_detail("The source cannot be used any more: make another one."))
                }
            }
        } else {
            Err(Error::state(
                "The reader was opened before a fork. Its threads do not exist in this process: open another one.",
            ))
        };
        locked.python(py)
    }

    /// Does what takes no time.
    pub(super) fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Reader) -> Result<R>) -> PyResult<R> {
        let mut opened = self.lock(py)?;
        opened.with(work).python(py)
    }

    /// Does what takes little time, without the interpreter's lock.
    pub(super) fn with_detached<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Reader) -> Result<R> + Send,
    ) -> PyResult<R> {
        let mut opened = self.lock(py)?;
        let opened = &mut *opened;
        detached(py, || opened.with(work)).python(py)
    }

    /// Does what may take long: as a whole, or Ctrl-C ends it and it has changed nothing. If users'
    /// code in it does not come back then, the source is closed, and its memory stays.
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
            // The call has panicked, and nothing uses the reader any more.
            Err(TryLockError::Poisoned(reader)) => std::mem::forget(reader.into_inner().take()),
            // The call goes on, and drops the reader when it ends.
            Err(TryLockError::WouldBlock) => {}
        }
        self.is_cancelled.store(false, Ordering::SeqCst);
        opened.is_slow = true;
        result
    }

    /// Waits until the next read does not have to wait. Ctrl-C ends that: nothing is lost then,
    /// because nothing was delivered, and the library goes on reading.
    fn wait(&self, py: Python<'_>, opened: &mut Opened) -> PyResult<()> {
        let begun = Instant::now();
        let is_main = interrupt::is_main_thread(py);
        // Getting the interpreter's lock back does not count.
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
            let work = || (opened.with(|reader| reader.wait(PIECE)), Instant::now());
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

    /// Waits until the next read does not have to wait, but not for long. Returns when that was;
    /// None if the watchdog has ended it.
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

    /// Whether reading may run Python code on other threads, which needs the interpreter's lock.
    fn runs_python(&self) -> bool {
        !self.users.is_empty()
            || !self.transforms.is_empty()
            || files::is_mounted()
            || process::has_callback()
    }

    /// The next minibatch, or step. Signals are looked for right before it is taken: an exception
    /// of their handlers leaves it to the next call.
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

    /// Ends the reader: with the interpreter's lock, which this releases meanwhile.
    pub(super) fn release(&self, py: Python<'_>) {
        let Ok(mut opened) = self.opened.try_lock() else { return };
        let Some(reader) = opened.reader.take() else { return };
        drop(opened);
        if !self.process.is_current() || is_ending() {
            // Its threads do not exist here, or the memory goes with the process.
            std::mem::forget(reader);
        } else if callback::is_inside() || interrupt::has_interrupted() {
            // This thread runs users' code that the end of the reader would wait for; or users'
            // code may never come back. If there is no thread to be had, the reader stays.
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
