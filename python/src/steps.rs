//! Iterators over the steps of a source.

use crate::ending::Section;
use crate::errors::IntoPython;
use crate::minibatch::Minibatch;
use crate::source::Source;
use cntk_reader::Error;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::atomic::{AtomicBool, Ordering};

/// The iterator that `iter(source)` returns, and the base class of `Epoch`.
///
/// A `for` statement assigns each step before Python checks for signals, so Ctrl-C loses no
/// minibatch.
#[pyclass(frozen, subclass, module = "cntk_reader._native")]
pub struct Steps {
    source: Py<Source>,
    /// The number of the loop, which cannot continue once another loop has begun. `None`: any loop
    /// may continue where another one stopped.
    number: Option<u64>,
    is_over: AtomicBool,
}

#[pymethods]
impl Steps {
    #[new]
    #[pyo3(signature = (source, number = None))]
    fn new(source: Py<Source>, number: Option<u64>) -> Steps {
        Steps { source, number, is_over: AtomicBool::new(false) }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Minibatch>> {
        if self.is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let _section = Section::enter(py);
        if !self.is_in_force(py)? {
            let message = "Another epoch of the source has begun: this loop cannot continue.";
            return Err(Error::state(message)).python(py);
        }
        let step = Source::next_step(self.source.bind(py))?;
        self.is_over.store(step.is_none(), Ordering::Relaxed);
        Ok(step)
    }

    /// Whether no other loop has begun.
    #[getter(_is_in_force)]
    fn is_in_force(&self, py: Python<'_>) -> PyResult<bool> {
        let in_force = self.source.get().loop_in_force(py)?;
        Ok(self.number.is_none_or(|number| number == in_force))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.source)
    }
}
