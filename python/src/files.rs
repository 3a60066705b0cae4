//! File systems implemented in Python.

use crate::callback::{call, call_quietly};
use crate::ending::detached;
use crate::errors::IntoPython;
use cntk_reader::Result;
use cntk_reader_core::file::mounted::{self, FileSystem, RemoteFile};
use cntk_reader_core::runtime::exit;
use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PySlice};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of file systems that are mounted or have open files.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// A user's `cntk_reader.FileSystem`.
struct System {
    /// `None` only while being dropped.
    user: Option<Py<PyAny>>,
}

/// A `cntk_reader.RemoteFile` of a file system.
struct File {
    system: Arc<System>,
    /// `None` only while being dropped.
    user: Option<Py<PyAny>>,
}

/// The file system as mounted in the library.
struct Mounted(Arc<System>);

impl System {
    fn new(user: Py<PyAny>) -> System {
        IN_USE.fetch_add(1, Ordering::Relaxed);
        System { user: Some(user) }
    }

    /// Calls a method of the file system or of one of its files. An exception becomes a transient
    /// error if the file system's `may_pass` says so.
    fn call<R>(
        &self,
        what: &str,
        work: impl for<'py> FnOnce(Python<'py>, &Bound<'py, PyAny>) -> PyResult<R>,
    ) -> io::Result<R> {
        let Some(user) = &self.user else { return Err(closed()) };
        let mut may_pass = false;
        let called = call(
            user,
            || what.to_owned(),
            |py, user| {
                work(py, user).map_err(|exception| {
                    let answer = user.call_method1("may_pass", (exception.value(py),));
                    match answer.and_then(|answer| answer.is_truthy()) {
                        Ok(answer) => may_pass = answer,
                        Err(other) if other.is_instance_of::<PyKeyboardInterrupt>(py) => return other,
                        // The file system's own exception matters more.
                        Err(_) => {}
                    }
                    exception
                })
            },
        );
        called.map_err(|error| {
            let kind = if may_pass { io::ErrorKind::TimedOut } else { io::ErrorKind::Other };
            io::Error::new(kind, error)
        })
    }
}

/// Returns the error for a call on an object that is being dropped; no such call exists.
fn closed() -> io::Error {
    io::Error::other("the file is closed")
}

impl FileSystem for Mounted {
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>> {
        let file = self.0.call("open", |_, system| Ok(system.call_method1("open", (path,))?.unbind()))?;
        Ok(Box::new(File { system: Arc::clone(&self.0), user: Some(file) }))
    }
}

impl File {
    /// Calls a method of the file.
    fn call<R>(
        &self,
        what: &str,
        work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<R>,
    ) -> io::Result<R> {
        let Some(file) = &self.user else { return Err(closed()) };
        self.system.call(what, |py, _| work(file.bind(py)))
    }
}

impl RemoteFile for File {
    fn size(&self) -> io::Result<u64> {
        self.call("size", |file| {
            static WHOLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            let whole = WHOLE.import(file.py(), "cntk_reader._rules", "whole")?;
            whole.call1(("The size of a file", file.call_method0("size")?))?.extract()
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.call("read_at", |file| fill(&file.call_method1("read_at", (offset, buffer.len()))?, buffer))
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        self.call("identity", |file| {
            let identity = file.py().get_type::<PyBytes>().call1((file.call_method0("identity")?,))?;
            Ok(identity.cast::<PyBytes>()?.as_bytes().to_vec())
        })
    }
}

/// Copies the bytes returned by `read_at` to the beginning of a buffer. Returns their number.
fn fill(data: &Bound<'_, PyAny>, buffer: &mut [u8]) -> PyResult<usize> {
    let capacity = buffer.len();
    let too_many = |count: usize| {
        let message = format!("read_at returned {count} bytes, but at most {capacity} were requested.");
        PyValueError::new_err(message)
    };
    if let Ok(bytes) = data.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        buffer.get_mut(..bytes.len()).ok_or_else(|| too_many(bytes.len()))?.copy_from_slice(bytes);
        return Ok(bytes.len());
    }
    if !data.is_instance_of::<PyByteArray>() && !data.is_instance_of::<PyMemoryView>() {
        let message = format!("read_at must return bytes, not {}.", data.get_type().name()?);
        return Err(PyTypeError::new_err(message));
    }
    let view = PyMemoryView::from(data)?;
    let count = view.getattr("nbytes")?.extract::<usize>()?;
    if count > capacity {
        return Err(too_many(count));
    }
    if count > 0 {
        copy(&view, &mut buffer[..count])?;
    }
    Ok(count)
}

/// Copies a memory view to a target of equal size. Other threads may change the view's memory
/// meanwhile, so Python does the copying.
fn copy(view: &Bound<'_, PyMemoryView>, target: &mut [u8]) -> PyResult<()> {
    /// `PyBUF_WRITE`, which PyO3 lacks.
    const WRITABLE: std::ffi::c_int = 0x200;
    let py = view.py();
    let bytes = match view.getattr("c_contiguous")?.is_truthy()? {
        true => view.call_method1("cast", ("B",))?,
        false => view.call_method0("tobytes")?,
    };
    let length = target.len().cast_signed();
    // SAFETY: `start` points to the `length` bytes of `target`, which stays borrowed for the whole
    // function. The view is released before the function returns, and nothing else refers to it.
    let target = unsafe {
        let start = target.as_mut_ptr().cast();
        let view = pyo3::ffi::PyMemoryView_FromMemory(start, length, WRITABLE);
        Bound::from_owned_ptr_or_err(py, view)
    }?;
    let copied = target.set_item(PySlice::full(py), bytes);
    target.call_method0("release")?;
    copied
}

/// Drops a user's object after a final call with it. During finalization PyO3 drops the object
/// instead, but never on a library thread.
fn give_up(user: Option<Py<PyAny>>, last: impl FnOnce(&Py<PyAny>)) {
    let (Some(user), Some(_inside)) = (user, exit::enter()) else { return };
    // While attached, dropping frees the object immediately.
    Python::try_attach(|_| {
        last(&user);
        drop(user);
    });
}

impl Drop for File {
    fn drop(&mut self) {
        give_up(self.user.take(), |file| call_quietly(file, |file| file.call_method0("close").map(drop)));
    }
}

impl Drop for System {
    fn drop(&mut self) {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
        give_up(self.user.take(), |_| {});
    }
}

/// Mounts a `FileSystem` for all paths with this scheme.
#[pyfunction]
fn mount(py: Python<'_>, scheme: String, file_system: Py<PyAny>) -> PyResult<()> {
    let system = Arc::new(Mounted(Arc::new(System::new(file_system))));
    detached(py, || mounted::mount(&scheme, system)).python(py)
}

/// Unmounts the file system of a scheme.
#[pyfunction]
fn unmount(py: Python<'_>, scheme: String) -> PyResult<()> {
    let ended = |scheme: &str| -> Result<()> {
        mounted::check_scheme(scheme)?;
        mounted::unmount(scheme);
        Ok(())
    };
    detached(py, || ended(&scheme)).python(py)
}

/// Returns whether any file system implemented in Python is in use.
pub fn is_mounted() -> bool {
    IN_USE.load(Ordering::Relaxed) > 0
}

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(mount, module)?)?;
    module.add_function(wrap_pyfunction!(unmount, module)?)
}
