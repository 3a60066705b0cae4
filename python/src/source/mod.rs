//! The class of sources of minibatches.

mod content;

use self::content::{Content, Opened, closed};
use crate::cuda::Driver;
use crate::ending::Section;
use crate::errors::IntoPython;
use crate::minibatch::{Described, Minibatch, Stream};
use crate::transform::PyTransform;
use crate::user::User;
use crate::{callback, interrupt, options};
use cntk_reader::language::{Config, ExtensionTypes, UserType};
use cntk_reader::{Error, Result};
use cntk_reader_core::format::user::Registered;
use cntk_reader_core::format::user::transform::{self, UserTransform};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::stream::Storage;
use cntk_reader_engine::reader::{self, Epoch, EpochState, ReadConfig, Reader};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyInt, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The base class of `MinibatchSource`.
#[pyclass(frozen, subclass, weakref, module = "cntk_reader._native")]
pub struct Source {
    content: OnceLock<Content>,
}

impl Source {
    fn content(&self, py: Python<'_>) -> PyResult<&Content> {
        self.content.get().ok_or_else(closed).python(py)
    }

    /// Returns the number of the latest loop.
    pub fn loop_in_force(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.content(py)?.loops.load(Ordering::Relaxed))
    }

    /// Returns the next step, with the source's own size and worker, or `None` at the end of the
    /// steps.
    pub fn next_step(slf: &Bound<'_, Self>) -> PyResult<Option<Minibatch>> {
        Source::_next(slf, true, None, None, None)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let Some(content) = self.content.take() else { return };
        let mut place = Some(content);
        let freed = Python::try_attach(|py| {
            // This may drop the last reference to a user's object, whose `__del__` then runs.
            let _section = Section::enter(py);
            if let Some(content) = place.take() {
                content.release(py);
            }
        });
        if freed.is_none()
            && let Some(content) = place.as_mut()
            && let Ok(opened) = content.opened.get_mut()
        {
            // The interpreter has finalized: the memory is freed at process exit.
            std::mem::forget(opened.reader.take());
        }
    }
}

/// Extracts an `int`, not an instance of a subclass, that fits. The outer `None`: anything else.
fn plain(value: Option<&Bound<'_, PyAny>>) -> Option<Option<u64>> {
    match value {
        None => Some(None),
        Some(value) if value.is_exact_instance_of::<PyInt>() => value.extract().ok().map(Some),
        Some(_) => None,
    }
}

fn config(workers: u64, rank: u64, size: u64) -> ReadConfig {
    ReadConfig::new(size).worker(rank, workers)
}

#[pymethods]
impl Source {
    #[new]
    #[pyo3(signature = (*_arguments, **_options))]
    fn new(_arguments: &Bound<'_, PyTuple>, _options: Option<&Bound<'_, PyDict>>) -> Source {
        Source { content: OnceLock::new() }
    }

    /// Opens the reader. May be called only once.
    #[pyo3(signature = (*, options = None, text = None, path = None, reader = None, users, transforms))]
    fn _open_source(
        slf: &Bound<'_, Self>,
        options: Option<&Bound<'_, PyAny>>,
        text: Option<&str>,
        path: Option<PathBuf>,
        reader: Option<String>,
        users: Vec<(String, Bound<'_, PyAny>)>,
        transforms: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<()> {
        let py = slf.py();
        // The constructors call methods of users' objects.
        let _section = Section::enter(py);
        let values = options.map(|options| options::values(py, options)).transpose()?;
        let own_users = users.iter().map(|(_, user)| User::new(user));
        let own_users = own_users.collect::<PyResult<Vec<_>>>()?;
        let own_transforms = transforms.iter().map(|(_, user)| PyTransform::new(user));
        let own_transforms = own_transforms.collect::<PyResult<Vec<_>>>()?;
        let names: Vec<_> = users.into_iter().map(|(name, _)| name).collect();
        let transform_names: Vec<_> = transforms.into_iter().map(|(name, _)| name).collect();
        let (canceller, text) = (Canceller::new(), text.map(str::to_owned));
        let (called_users, called_transforms) = (own_users.clone(), own_transforms.clone());
        let cancelled_by = canceller.clone();
        let open = move || {
            let config = match values {
                Some(values) => Config::of_values(&values, FrontEnd::Python),
                None => options::configuration(text.as_deref(), path.as_deref())?,
            };
            let config = match reader {
                Some(reader) => config.reader(&reader)?,
                None => config,
            };
            let users = names.iter().zip(called_users);
            let registered = users.map(|(name, user)| Registered::new(name.as_str(), user));
            let registered = registered.collect::<Result<Vec<_>>>()?;
            let types = registered.iter();
            let types: Vec<_> =
                types.map(|user| UserType { name: user.name(), composable: user.is_composable() }).collect();
            let mut transforms: Vec<(String, Arc<dyn UserTransform>)> = Vec::new();
            for (name, user) in transform_names.iter().zip(called_transforms) {
                transform::register(&mut transforms, name, user)?;
            }
            let known: Vec<_> = transforms.iter().map(|(name, _)| name.as_str()).collect();
            let others = ExtensionTypes { users: &types, transforms: &known, ..ExtensionTypes::default() };
            let settings = config.settings(others)?;
            let opened = Reader::open_with(
                &settings,
                &reader::Extensions {
                    registered: &registered,
                    transforms: &transforms,
                    canceller: Some(&cancelled_by),
                    ..reader::Extensions::default()
                },
            );
            opened.map_err(|error| error.in_words_of(settings.front_end))
        };
        let reader = interrupt::interruptible(py, &canceller, open)?;
        let content = Content {
            process: Process::current(),
            opened: Mutex::new(Opened { reader: Some(reader), asked: None, is_slow: true, is_quick: false }),
            canceller,
            is_cancelled: AtomicBool::new(false),
            described: Mutex::new(None),
            users: own_users,
            transforms: own_transforms,
            loops: AtomicU64::new(0),
        };
        slf.get().content.set(content).map_err(|_| Error::state("The source is open already.")).python(py)
    }

    /// Returns the streams: name, whether sparse, name of the element type, shape in NumPy's order,
    /// whether they define the minibatch size, whether binary, number of classes. A shape that is
    /// not known yet is None.
    #[allow(clippy::type_complexity, reason = "a row of a table")]
    fn _streams(
        &self,
        py: Python<'_>,
    ) -> PyResult<Vec<(String, bool, &'static str, Option<Vec<usize>>, bool, bool, Option<usize>)>> {
        self.content(py)?.with(py, |reader| {
            let streams = reader.streams().iter().enumerate();
            Ok(streams
                .map(|(number, stream)| {
                    let is_open = stream.has_late_shape();
                    let late = is_open.then(|| reader.shapes().get(number)).flatten();
                    let known = if is_open { late } else { Some(&stream.shape[..]) };
                    let shape = known.map(|shape| shape.iter().rev().copied().collect());
                    let is_sparse = stream.storage == Storage::SparseCsc;
                    (
                        stream.name.clone(),
                        is_sparse,
                        stream.element.name(),
                        shape,
                        stream.defines_mb_size,
                        stream.is_binary,
                        stream.classes,
                    )
                })
                .collect())
        })
    }

    /// Sets the objects that describe the streams of later minibatches.
    fn _set_streams(&self, py: Python<'_>, by_name: &Bound<'_, PyDict>) -> PyResult<()> {
        let content = self.content(py)?;
        let numbers = PyDict::new(py);
        let mut streams = Vec::new();
        let rows = self._streams(py)?;
        let is_open = rows.iter().any(|row| row.3.is_none());
        for (number, row) in rows.into_iter().enumerate() {
            numbers.set_item(&row.0, number)?;
            let info = by_name.get_item(&row.0)?.ok_or_else(|| Error::internal("A stream is not described."));
            streams.push(Stream {
                info: info.python(py)?.unbind(),
                name: row.0,
                shape: row.3.unwrap_or_default(),
            });
        }
        let corpus = content.with(py, |reader| Ok(Arc::clone(reader.corpus())))?;
        let (by_name, numbers) = (by_name.clone().unbind(), numbers.unbind());
        let described = Arc::new(Described { by_name, numbers, streams, corpus, is_open });
        // Dropping the old value may run Python code, so it is dropped without the lock.
        let _earlier = content.described.lock().map(|mut place| place.replace(described));
        Ok(())
    }

    /// Returns the number of samples, sequences and chunks, each possibly None; whether keys are
    /// numbers; whether workers read in lockstep; and whether minibatches are truncated.
    #[allow(clippy::type_complexity, reason = "a row of a table")]
    fn _info(&self, py: Python<'_>) -> PyResult<(Option<u64>, Option<u64>, Option<u64>, bool, bool, bool)> {
        self.content(py)?.with(py, |reader| {
            let sizes = reader.sizes();
            let flags = (reader.corpus().is_numeric(), reader.is_in_lockstep(), reader.is_truncated());
            Ok((sizes.samples, sizes.sequences, sizes.chunks, flags.0, flags.1, flags.2))
        })
    }

    /// Returns the deserializers: name, type, samples, sequences, chunks.
    #[allow(clippy::type_complexity, reason = "a row of a table")]
    fn _members(
        &self,
        py: Python<'_>,
    ) -> PyResult<Vec<(String, String, Option<u64>, Option<u64>, Option<u64>)>> {
        self.content(py)?.with(py, |reader| {
            let members = reader.members().iter().map(|member| {
                let sizes = member.sizes();
                let names = (member.name().to_owned(), member.type_name().to_owned());
                (names.0, names.1, sizes.samples, sizes.sequences, sizes.chunks)
            });
            Ok(members.collect())
        })
    }

    fn _progress(&self, py: Python<'_>) -> PyResult<(u64, Option<u64>, u64)> {
        let progress = self.content(py)?.with(py, |reader| reader.progress())?;
        Ok((progress.delivered, progress.expected, progress.sweep))
    }

    fn _memory(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        let memory = self.content(py)?.with(py, |reader| Ok(reader.memory()))?;
        Ok((memory.window, memory.buffers, memory.index))
    }

    /// Page-locks minibatches for a GPU from now on. Returns False if there is no driver or no such
    /// device.
    fn _lock_pages(&self, py: Python<'_>, device: i32, library: &str) -> PyResult<bool> {
        let Some(driver) = py.detach(|| Driver::load(library.as_ref(), device)) else { return Ok(false) };
        self.content(py)?.with(py, |reader| {
            reader.lock_pages(Arc::new(driver));
            Ok(true)
        })
    }

    fn _suggest_chunk_size(&self, py: Python<'_>, workers: u64) -> PyResult<u64> {
        self.content(py)?.with(py, |reader| Ok(reader.suggest_chunk_size(workers)))
    }

    /// Starts the epoch with this number; with None the next one of this size, or the rest of a
    /// restored one. Returns its number. A CNTK state is restored in the same call.
    #[allow(clippy::too_many_arguments, reason = "the numbers of an epoch")]
    fn _start_epoch(
        &self,
        py: Python<'_>,
        number: Option<u64>,
        samples: u64,
        sweeps: u64,
        size: u64,
        workers: u64,
        rank: u64,
        state: Option<Vec<(String, u64)>>,
    ) -> PyResult<u64> {
        let epoch = Epoch::from_numbers(config(workers, rank, size), samples, sweeps, number.unwrap_or(0));
        let content = self.content(py)?;
        content.lock(py)?.asked = None;
        content.interruptibly(py, move |reader| {
            let started = match number {
                Some(number) => reader.start_epoch(&epoch).map(|()| number)?,
                None => reader.start_next_epoch(&epoch)?,
            };
            if let Some(state) = state {
                set_state(reader, &state)?;
            }
            Ok(started)
        })
    }

    /// Returns the current epoch: samples, sweeps, number, whether it was resumed, whether it is
    /// over.
    #[allow(clippy::type_complexity, reason = "a row of a table")]
    fn _current_epoch(&self, py: Python<'_>) -> PyResult<Option<(u64, u64, u64, bool, bool)>> {
        self.content(py)?.with(py, |reader| {
            Ok(reader.current_epoch().map(|(epoch, state)| {
                let (_, samples, sweeps, number) = epoch.numbers();
                (samples, sweeps, number, state == EpochState::Resumed, state == EpochState::Over)
            }))
        })
    }

    /// Sets size, workers and rank, and keeps the truncation.
    fn _configure(&self, py: Python<'_>, size: u64, workers: u64, rank: u64) -> PyResult<()> {
        let content = self.content(py)?;
        content.lock(py)?.asked = None;
        let work = move |reader: &mut Reader| {
            let mut config = reader.config()?;
            (config.minibatch_size, config.workers, config.rank) = (size, workers, rank);
            reader.configure(&config)
        };
        let is_slow = content.lock(py)?.is_slow;
        if is_slow { content.interruptibly(py, work) } else { content.with_detached(py, work) }
    }

    /// Returns the current size, workers and rank.
    fn _config(&self, py: Python<'_>) -> PyResult<(u64, u64, u64)> {
        let config = self.content(py)?.with(py, |reader| reader.config())?;
        Ok((config.minibatch_size, config.workers, config.rank))
    }

    /// Returns the next minibatch, as CNTK reads it, or the next step; None at the end of the
    /// steps.
    fn _next(
        slf: &Bound<'_, Self>,
        is_step: bool,
        size: Option<&Bound<'_, PyAny>>,
        workers: Option<&Bound<'_, PyAny>>,
        rank: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Minibatch>> {
        let py = slf.py();
        let _section = Section::enter(py);
        let content = slf.get().content(py)?;
        let mut opened = content.lock(py)?;
        // Values that only compare equal to an `int`, such as True or 1.0, do not count.
        let asked = plain(size).zip(plain(workers)).zip(plain(rank));
        let asked = asked.map(|((size, workers), rank)| [size, workers, rank]);
        if asked.is_none() || opened.asked != asked {
            drop(opened);
            slf.call_method1("_put_in_force", (size, workers, rank))?;
            opened = content.lock(py)?;
            opened.asked = asked;
        }
        let Some(minibatch) = content.take(py, &mut opened, is_step)? else { return Ok(None) };
        let described = content.described.lock().ok().and_then(|described| described.clone());
        let Some(mut described) = described else {
            return Err(Error::internal("The streams are not described.")).python(py);
        };
        if described.is_open {
            drop(opened);
            slf.call_method0("_describe_streams")?;
            if let Some(known) = content.described.lock().ok().and_then(|described| described.clone()) {
                described = known;
            }
        }
        Ok(Some(Minibatch::new(minibatch, &described)))
    }

    /// Forgets the arguments of the last read, because their meaning has changed.
    fn _forget_arguments(&self, py: Python<'_>) -> PyResult<()> {
        self.content(py)?.lock(py)?.asked = None;
        Ok(())
    }

    fn _checkpoint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let checkpoint = self.content(py)?.with_detached(py, |reader| reader.checkpoint())?;
        Ok(PyBytes::new(py, &checkpoint))
    }

    fn _restore(&self, py: Python<'_>, checkpoint: Vec<u8>, allow_changed_values: bool) -> PyResult<()> {
        let content = self.content(py)?;
        content.lock(py)?.asked = None;
        content.interruptibly(py, move |reader| match allow_changed_values {
            true => reader.restore_over_changed_values(&checkpoint),
            false => reader.restore(&checkpoint),
        })
    }

    /// Returns CNTK's state.
    fn _state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.content(py)?.with_detached(py, |reader| Ok(reader.state()))?;
        let entries = PyDict::new(py);
        for (key, value) in state {
            entries.set_item(key, value)?;
        }
        Ok(entries)
    }

    fn _set_state(&self, py: Python<'_>, state: Vec<(String, u64)>) -> PyResult<()> {
        self.content(py)?.interruptibly(py, move |reader| set_state(reader, &state))
    }

    /// Begins a loop and returns its number. Earlier loops cannot continue.
    fn _enter_loop(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.content(py)?.loops.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Cancels the call that another thread is in, such as :meth:`MinibatchSource.next_minibatch`:
    /// it raises a :class:`ReaderError` of the kind ``cancelled`` and has no effect. Repeating it
    /// continues at the same place, and no minibatch is lost.
    ///
    /// Returns False if no call is in progress: then nothing happens, and the next call is not
    /// affected. May be called from any thread.
    fn cancel(&self, py: Python<'_>) -> PyResult<bool> {
        let content = self.content(py)?;
        content.is_cancelled.store(true, Ordering::SeqCst);
        let is_running = content.canceller.cancel();
        if !is_running {
            content.is_cancelled.store(false, Ordering::SeqCst);
        }
        Ok(is_running)
    }

    /// Whether this process opened the source and may read from it. In a forked child, call
    /// :meth:`MinibatchSource.reopen`.
    #[getter]
    fn is_of_this_process(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.content(py)?.process.is_current())
    }

    /// Closes the source. Waits for a user's deserializer that is loading, unless Ctrl-C
    /// interrupted the last call. May be called repeatedly.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(content) = self.content.get() else { return Ok(()) };
        let is_closed = content.opened.try_lock().is_ok_and(|opened| opened.reader.is_none());
        if is_closed || !content.process.is_current() {
            content.release(py);
            return Ok(());
        }
        let mut opened = content.lock(py)?;
        let runs_python = !content.users.is_empty() || !content.transforms.is_empty();
        if !runs_python || interrupt::has_interrupted() || callback::is_inside() {
            drop(opened);
            content.release(py);
            return Ok(());
        }
        let Some(reader) = opened.reader.take() else { return Ok(()) };
        drop(opened);
        interrupt::interruptible(py, &content.canceller, move || {
            drop(reader);
            Ok(())
        })
    }

    /// Frees the reader at finalization, unless a thread is using it.
    fn _end(&self, py: Python<'_>) {
        let Some(content) = self.content.get() else { return };
        if interrupt::has_interrupted() || !content.process.is_current() {
            if let Ok(mut opened) = content.opened.try_lock() {
                std::mem::forget(opened.reader.take());
            }
        } else if let Ok(mut opened) = content.opened.try_lock() {
            let reader = opened.reader.take();
            drop(opened);
            py.detach(|| drop(reader));
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        let Some(content) = self.content.get() else { return Ok(()) };
        content.users.iter().try_for_each(|user| user.traverse(&visit))?;
        content.transforms.iter().try_for_each(|user| user.traverse(&visit))
    }

    fn __clear__(&self) {
        if let Some(content) = self.content.get() {
            Python::try_attach(|py| content.release(py));
        }
    }
}

fn set_state(reader: &mut Reader, state: &[(String, u64)]) -> Result<()> {
    let state: Vec<_> = state.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    reader.set_state(&state)
}

/// Records that Ctrl-C left a `with` statement: users' code may be stuck.
#[pyfunction]
fn note_interrupt() {
    interrupt::note(true);
}

/// Adds the classes to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Source>()?;
    module.add_function(wrap_pyfunction!(note_interrupt, module)?)
}
