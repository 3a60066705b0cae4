//! Users' image transforms.
//!
//! `cntk_reader._transform` calls the methods of the user's object and checks their results: see
//! its functions `described` and `applied`.

use crate::normalize::{Normalize, Numbers};
use crate::{callback, given};
use bytemuck::Pod;
use cntk_reader_core::Result;
use cntk_reader_core::format::user::transform::{UserTransform, check_info};
use cntk_reader_core::image::{Depth, Drawn, Image, ImageInfo, PixelOrder, Pixels};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::ElementType;
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::{MutexExt, PyOnceLock};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::{Arc, Mutex, PoisonError};

const MODULE: &str = "cntk_reader._transform";

/// A user's transform. It is the only owner of its reference to the Python object: its owners must
/// show it to the garbage collector with [`PyTransform::traverse`].
pub struct PyTransform {
    object: Py<PyAny>,
    /// Held during calls, unless several threads may call the object concurrently.
    turn: Option<Mutex<()>>,
    /// Replaces the object's methods, if it is a transform of the package.
    native: Option<Normalize>,
}

/// Width, height, channels, type of the values (0: bytes, 1: float, 2: double), and whether the
/// image is planar.
type Description = (u32, u32, u32, u8, bool);

fn described(info: ImageInfo) -> Description {
    let depth = match info.depth {
        Depth::Byte => 0,
        Depth::Element(ElementType::Double) => 2,
        Depth::Element(_) => 1,
    };
    (info.width, info.height, info.channels, depth, info.order == PixelOrder::Planar)
}

impl PyTransform {
    /// Creates a transform that calls this object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Arc<PyTransform>> {
        let is_thread_safe = object.getattr("thread_safe")?.is_truthy()?;
        let turn = (!is_thread_safe).then(Mutex::default);
        let numbers = object.getattr_opt("_numbers")?;
        let numbers: Option<Numbers> = numbers.map(|numbers| numbers.extract()).transpose()?.flatten();
        Ok(Arc::new(PyTransform {
            object: object.clone().unbind(),
            turn,
            native: numbers.map(Normalize::new),
        }))
    }

    /// Shows the object to the garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.object)
    }

    /// Calls the object once it is this thread's turn. A thread detaches while waiting, because the
    /// thread whose turn it is may need the GIL.
    fn call<R>(
        &self,
        what: &str,
        work: impl for<'py> FnOnce(Python<'py>, &Bound<'py, PyAny>) -> PyResult<R>,
    ) -> Result<R> {
        callback::call(
            &self.object,
            || what.to_owned(),
            |py, user| {
                let turn = self.turn.as_ref().map(|turn| turn.lock_py_attached(py));
                let _turn = turn.map(|turn| turn.unwrap_or_else(PoisonError::into_inner));
                work(py, user)
            },
        )
    }
}

/// Creates an array that owns an image's values, so that users' code may keep it.
fn array<T: Element>(py: Python<'_>, values: Vec<T>, info: ImageInfo) -> PyResult<Bound<'_, PyAny>> {
    let mut shape = info.shape();
    shape.reverse();
    Ok(PyArray1::from_vec(py, values).reshape(shape)?.into_any())
}

fn copied<T: Element + Pod>(array: &Bound<'_, PyAny>) -> PyResult<Vec<T>> {
    given::list(array, room::IMAGE)
}

impl UserTransform for PyTransform {
    fn result(&self, image: ImageInfo) -> Result<ImageInfo> {
        if let Some(native) = &self.native {
            return native.result(image);
        }
        static DESCRIBED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        self.call("result", |py, user| {
            let described = DESCRIBED.import(py, MODULE, "described")?.call1((user, described(image)))?;
            let (width, height, channels, depth, is_planar) = described.extract::<Description>()?;
            let depth = match depth {
                0 => Depth::Byte,
                1 => Depth::Element(ElementType::Float),
                _ => Depth::Element(ElementType::Double),
            };
            let order = if is_planar { PixelOrder::Planar } else { PixelOrder::Interleaved };
            Ok(ImageInfo { width, height, channels, depth, order })
        })
    }

    fn shape(&self, before: Option<[usize; 3]>) -> Option<[usize; 3]> {
        self.native.as_ref().and_then(|native| native.shape(before))
    }

    fn apply(&self, image: &mut Image, random: u64) -> Result<()> {
        let drawn = Drawn::whole(image.width, image.height);
        self.apply_drawn(image, random, &drawn)
    }

    fn apply_drawn(&self, image: &mut Image, random: u64, drawn: &Drawn) -> Result<()> {
        if let Some(native) = &self.native {
            return native.apply(image, random);
        }
        static APPLIED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let info = image.info();
        let after = check_info(self.result(info)?)?;
        // The values move into an array; if the call fails, the image stays empty.
        let pixels = std::mem::take(&mut image.pixels);
        let Drawn { left, top, width, height, mirrored, source_width, source_height } = *drawn;
        let draw = (left, top, width, height, u8::from(mirrored), source_width, source_height);
        image.pixels = self.call("apply", |py, user| {
            let array = match pixels {
                Pixels::Bytes(values) => array(py, values, info),
                Pixels::Floats(values) => array(py, values, info),
                Pixels::Doubles(values) => array(py, values, info),
            }?;
            let arguments = (user, array, random, draw, described(after));
            let made = APPLIED.import(py, MODULE, "applied")?.call1(arguments)?;
            Ok(match after.depth {
                Depth::Byte => Pixels::Bytes(copied(&made)?),
                Depth::Element(ElementType::Double) => Pixels::Doubles(copied(&made)?),
                Depth::Element(_) => Pixels::Floats(copied(&made)?),
            })
        })?;
        (image.width, image.height, image.channels) = (after.width, after.height, after.channels);
        image.planar = after.order == PixelOrder::Planar;
        Ok(())
    }
}
