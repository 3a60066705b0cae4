//! Conversions between formats.

use crate::callback::call;
use crate::interrupt::interruptible;
use cntk_reader::Result;
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_tools::convert::speech::{self, SpeechConversion};
use cntk_reader_tools::convert::{CompressOptions, Listener, Progress, compress_with};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString};
use std::ops::ControlFlow;

type Convert = fn(&SpeechConversion, &mut Listener<'_>) -> Result<Progress>;

/// The speech conversions by the names of their Python functions.
const SPEECH: [(&str, Convert); 9] = [
    ("htk_to_kaldi", speech::htk_to_kaldi),
    ("kaldi_to_htk", speech::kaldi_to_htk),
    ("htk_to_numpy", speech::htk_to_numpy),
    ("kaldi_to_numpy", speech::kaldi_to_numpy),
    ("mlf_to_kaldi", speech::mlf_to_kaldi),
    ("kaldi_to_mlf", speech::kaldi_to_mlf),
    ("mlf_to_text", speech::mlf_to_text),
    ("text_to_mlf", speech::text_to_mlf),
    ("mlf_to_numpy", speech::mlf_to_numpy),
];

/// Runs a conversion that reports progress to `callback(bytes, total, sequences)`. The conversion
/// stops if the callback returns False or raises; the exception propagates to the caller.
fn run(
    py: Python<'_>,
    callback: Option<Py<PyAny>>,
    convert: impl FnOnce(&mut Listener<'_>) -> Result<Progress> + Send + 'static,
) -> PyResult<()> {
    let canceller = Canceller::new();
    let ends = canceller.clone();
    let converted = interruptible(py, &canceller, move || {
        ends.run(|| {
            let mut raised = None;
            let result = convert(&mut |progress| match &callback {
                Some(callback) => report(callback, progress, &mut raised),
                None => ControlFlow::Continue(()),
            });
            match raised {
                Some(exception) => Ok(Err(exception)),
                None => result.map(Ok),
            }
        })
    });
    converted?.map(drop)
}

/// Calls the progress callback. Stores an exception in `raised`.
fn report(callback: &Py<PyAny>, progress: Progress, raised: &mut Option<PyErr>) -> ControlFlow<()> {
    let Progress { bytes, total, sequences } = progress;
    let continues = call(
        callback,
        || "progress".to_owned(),
        |_, callback| {
            Ok(match callback.call1((bytes, total, sequences)) {
                Ok(answer) => !answer.cast::<PyBool>().is_ok_and(|answer| !answer.is_true()),
                Err(exception) => {
                    *raised = Some(exception);
                    false
                }
            })
        },
    );
    // An error means that the interpreter is finalizing.
    match continues {
        Ok(true) => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}

/// Converts speech data; `kind` is the name of the function in Python.
#[pyfunction]
#[pyo3(signature = (kind, input, output, progress, *, stream = None, script = None, states = None, number_ids = false))]
#[expect(clippy::too_many_arguments, reason = "the parameters of the Python functions")]
fn convert(
    py: Python<'_>,
    kind: &Bound<'_, PyString>,
    input: String,
    output: String,
    progress: Option<Py<PyAny>>,
    stream: Option<String>,
    script: Option<String>,
    states: Option<String>,
    number_ids: bool,
) -> PyResult<()> {
    let kind = kind.to_cow()?;
    let Some(&(_, convert)) = SPEECH.iter().find(|(name, _)| *name == kind) else {
        return Err(PyValueError::new_err(format!("There is no conversion '{kind}'.")));
    };
    let stream = stream.unwrap_or_default();
    let conversion = SpeechConversion { input, output, script, states, stream, number_ids };
    run(py, progress, move |listener| convert(&conversion, listener))
}

/// Compresses a file by zstd.
#[pyfunction]
fn compress(
    py: Python<'_>,
    input: String,
    output: String,
    progress: Option<Py<PyAny>>,
    level: u32,
) -> PyResult<()> {
    let mut options = CompressOptions::default();
    options.level = level;
    run(py, progress, move |listener| compress_with(&input, &output, &options, listener))
}

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(compress, module)?)?;
    module.add_function(wrap_pyfunction!(convert, module)?)
}
