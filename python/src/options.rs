//! A reader's options from Python dictionaries.

use crate::ending::Section;
use crate::errors::IntoPython;
use crate::interrupt::interruptible;
use cntk_reader::language::values::{Value, Values, check};
use cntk_reader::{Config, Result};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::system;
use pyo3::exceptions::{PyOverflowError, PyRecursionError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyMapping, PySequence, PyString, PyType};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Maximum nesting of sections; the library's own options have six levels. It stops dictionaries
/// that contain themselves.
const MAX_DEPTH: usize = 100;

/// Python classes for recognizing the type of a value.
struct Classes<'py> {
    bool: &'py Bound<'py, PyType>,
    integer: &'py Bound<'py, PyType>,
    floating: &'py Bound<'py, PyType>,
    exact_path: &'py Bound<'py, PyType>,
    path_or_pattern: &'py Bound<'py, PyType>,
    path_like: &'py Bound<'py, PyType>,
}

impl<'py> Classes<'py> {
    fn get(py: Python<'py>) -> PyResult<Classes<'py>> {
        static CLASSES: [PyOnceLock<Py<PyType>>; 6] = [const { PyOnceLock::new() }; 6];
        Ok(Classes {
            bool: CLASSES[0].import(py, "numpy", "bool_")?,
            integer: CLASSES[1].import(py, "numpy", "integer")?,
            floating: CLASSES[2].import(py, "numpy", "floating")?,
            exact_path: CLASSES[3].import(py, "cntk_reader._options", "ExactPath")?,
            path_or_pattern: CLASSES[4].import(py, "cntk_reader._options", "PathOrPattern")?,
            path_like: CLASSES[5].import(py, "os", "PathLike")?,
        })
    }

    fn is_bool(&self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        Ok(value.is_instance_of::<PyBool>() || value.is_instance(self.bool)?)
    }

    fn is_integer(&self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        Ok(value.is_instance_of::<PyInt>() || value.is_instance(self.integer)?)
    }

    fn is_real(&self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        Ok(value.is_instance_of::<PyFloat>() || value.is_instance(self.floating)?)
    }

    fn is_path(&self, value: &Bound<'py, PyAny>) -> PyResult<bool> {
        Ok(value.is_instance(self.exact_path)? || value.is_instance(self.path_like)?)
    }
}

/// Converts a Python mapping to typed options.
pub fn values(py: Python<'_>, mapping: &Bound<'_, PyAny>) -> PyResult<Values> {
    section(&Classes::get(py)?, mapping.cast::<PyMapping>()?, MAX_DEPTH)
}

fn section<'py>(classes: &Classes<'py>, mapping: &Bound<'py, PyMapping>, deepest: usize) -> PyResult<Values> {
    if deepest == 0 {
        let message = "Sections of options are nested too deeply. Does a dictionary contain itself?";
        return Err(PyRecursionError::new_err(message));
    }
    let mut values = Values::default();
    for item in mapping.items()?.iter() {
        let (key, value) = item.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>()?;
        let name = match key.cast::<PyString>() {
            Ok(text) => text.to_cow()?,
            Err(_) => Cow::Borrowed(""),
        };
        if name.is_empty() || name.contains('\0') {
            let message = format!("{} is not a valid name of an option or a stream.", key.repr()?);
            return Err(PyValueError::new_err(message));
        }
        if value.is_none() {
            let message = format!("The option {} is None. Omit it to get its default.", key.repr()?);
            return Err(PyTypeError::new_err(message));
        }
        set(classes, &mut values, &key, &name, &value, deepest)?;
    }
    Ok(values)
}

/// Sets an option to a Python value.
fn set<'py>(
    classes: &Classes<'py>,
    values: &mut Values,
    key: &Bound<'py, PyAny>,
    name: &str,
    value: &Bound<'py, PyAny>,
    deepest: usize,
) -> PyResult<()> {
    let py = value.py();
    let one = if classes.is_bool(value)? {
        Value::from(value.is_truthy()?)
    } else if classes.is_integer(value)? {
        integer(key, value)?
    } else if classes.is_real(value)? {
        Value::from(real(value)?)
    } else if value.is_instance(classes.path_or_pattern)? {
        return add(values, name, Value::Files(vec![path(value)?])).python(py);
    } else if classes.is_path(value)? {
        Value::Path(path(value)?)
    } else if let Ok(text) = value.cast::<PyString>() {
        Value::Text(text.to_cow()?.into_owned())
    } else if let Ok(mapping) = value.cast::<PyMapping>() {
        // Not checked: a stream may have the name of an option.
        return values.add_section(name, section(classes, mapping, deepest - 1)?).python(py);
    } else if value.is_instance_of::<PySequence>() && !value.is_instance_of::<PyBytes>() {
        let mut is_empty = true;
        for part in value.try_iter()? {
            let part = element(classes, key, &part?, deepest)?;
            add(values, name, part).python(py)?;
            is_empty = false;
        }
        if !is_empty {
            return Ok(());
        }
        // An empty list is a value, too.
        Value::List(Vec::new())
    } else {
        let message = format!("{} is not a valid value for the option {}.", value.repr()?, key.repr()?);
        return Err(PyTypeError::new_err(message));
    };
    check(values, name, &one, FrontEnd::Python).python(py)?;
    values.set(name, one);
    Ok(())
}

/// Converts an element of a list to a list with one element.
fn element<'py>(
    classes: &Classes<'py>,
    key: &Bound<'py, PyAny>,
    value: &Bound<'py, PyAny>,
    deepest: usize,
) -> PyResult<Value> {
    let one = if let Ok(mapping) = value.cast::<PyMapping>() {
        Value::Section(section(classes, mapping, deepest - 1)?)
    } else if value.is_instance(classes.path_or_pattern)? {
        return Ok(Value::Files(vec![path(value)?]));
    } else if classes.is_path(value)? {
        Value::Path(path(value)?)
    } else if classes.is_bool(value)? {
        Value::Text(value.is_truthy()?.to_string())
    } else if value.is_instance_of::<PyString>() || classes.is_integer(value)? {
        Value::Text(value.str()?.to_cow()?.into_owned())
    } else if classes.is_real(value)? {
        Value::Text(PyFloat::new(value.py(), real(value)?).repr()?.to_cow()?.into_owned())
    } else {
        let message = format!("{} is not a valid element of the list {}.", value.repr()?, key.repr()?);
        return Err(PyTypeError::new_err(message));
    };
    Ok(Value::List(vec![one]))
}

/// Appends elements to a list option, which the first one creates.
fn add(values: &mut Values, key: &str, added: Value) -> Result<()> {
    check(values, key, &added, FrontEnd::Python)?;
    values.add(key, added)
}

/// Converts an integer of Python or NumPy.
fn integer(key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let number = value.py().get_type::<PyInt>().call1((value,))?;
    if let Ok(number) = number.extract::<i64>()
        && number != i64::MIN
    {
        return Ok(Value::from(number));
    }
    if let Ok(number) = number.extract::<u64>() {
        return Ok(Value::from(number));
    }
    let message = format!("The option {} is {number}, which does not fit in 64 bits.", key.repr()?);
    Err(PyOverflowError::new_err(message))
}

fn real(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    value.py().get_type::<PyFloat>().call1((value,))?.extract()
}

/// Converts a path to the system's encoding.
fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    static FSENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let encoded = FSENCODE.import(value.py(), "os", "fsencode")?.call1((value,))?;
    Ok(PathBuf::from(system::path_from_bytes(encoded.cast::<PyBytes>()?.as_bytes()).into_owned()))
}

/// Opens a configuration from its text or from the path of its file.
pub fn configuration(text: Option<&str>, path: Option<&Path>) -> Result<Config> {
    match (text, path) {
        (_, Some(path)) => Config::from_file(path),
        (text, None) => Config::from_text(text.unwrap_or_default()),
    }
}

/// Returns the names of the readers in the sections of a configuration, which is a text or a file.
#[pyfunction]
#[pyo3(signature = (text = None, path = None))]
fn readers(py: Python<'_>, text: Option<String>, path: Option<Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let path = {
        let _section = Section::enter(py);
        path.as_ref().map(self::path).transpose()?
    };
    let canceller = Canceller::new();
    let ended = canceller.clone();
    interruptible(py, &canceller, move || {
        ended.run(|| Ok(configuration(text.as_deref(), path.as_deref())?.readers()))
    })
}

/// Adds the functions to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(readers, module)?)
}
