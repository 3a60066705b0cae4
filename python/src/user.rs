//! Users' deserializers.
//!
//! `cntk_reader._user` calls the methods of the user's object, checks their results and converts
//! them to plain arrays: see its functions `described`, `loaded` and `listed`. This module takes
//! over the arrays.

use crate::errors::IntoPython;
use crate::{callback, given};
use cntk_reader_core::format::user::{
    Array, Keys, Sequences, SparseArray, StreamData, UserChunk, UserDeserializer,
};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;
use pyo3::{PyTraverseError, PyVisit};
use std::sync::Arc;

const MODULE: &str = "cntk_reader._user";

/// A user's deserializer. It is the only owner of its references to Python objects: its owners must
/// show them to the garbage collector with [`User::traverse`].
pub struct User {
    object: Py<PyAny>,
    /// The streams as Python objects.
    descriptions: Py<PyAny>,
    streams: Vec<StreamInfo>,
    chunks: u32,
    is_thread_safe: bool,
    /// Whether it lists the sequences of its chunks before loading them.
    is_composable: bool,
}

/// Name, whether sparse, name of the element type, shape with the first dimension varying fastest,
/// and whether it defines the minibatch size.
type Description = (String, bool, String, Vec<usize>, bool);

impl User {
    /// Asks the object for its chunks and streams.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Arc<User>> {
        static DESCRIBED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let described = DESCRIBED.import(object.py(), MODULE, "described")?.call1((object,))?;
        let (chunks, descriptions, streams, is_thread_safe, is_composable) =
            described.extract::<(u32, Bound<'_, PyAny>, Vec<Description>, bool, bool)>()?;
        let info = |(name, is_sparse, element, shape, defines_mb_size): Description| {
            let storage = if is_sparse { Storage::SparseCsc } else { Storage::Dense };
            let element = ElementType::from_name(&element)?;
            let mut info = StreamInfo::new(name, storage, element, shape);
            info.defines_mb_size = defines_mb_size;
            Some(info)
        };
        let unknown = || Error::internal("A stream has an unknown element type.");
        let streams: Option<Vec<_>> = streams.into_iter().map(info).collect();
        Ok(Arc::new(User {
            object: object.clone().unbind(),
            descriptions: descriptions.unbind(),
            streams: streams.ok_or_else(unknown).python(object.py())?,
            chunks,
            is_thread_safe,
            is_composable,
        }))
    }

    /// Shows the objects to the garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.object)?;
        visit.call(&self.descriptions)
    }

    /// Converts the result of `cntk_reader._user.loaded` to the data of a chunk.
    fn data(&self, loaded: &Bound<'_, PyAny>) -> PyResult<Vec<StreamData>> {
        let owner = given::Memory::of(loaded);
        let array = |info: &StreamInfo, object: &Bound<'_, PyAny>| match info.storage {
            Storage::Dense => Ok(Array::Dense(given::dense(object, &owner)?)),
            Storage::SparseCsc => {
                let parts = object.extract::<[Bound<'_, PyAny>; 3]>()?;
                let [values, indices, offsets] = &parts;
                let buffer = |object| given::buffer(object, &owner);
                PyResult::Ok(SparseArray::new(buffer(values)?, buffer(indices)?, buffer(offsets)?).into())
            }
        };
        let mut data = Vec::with_capacity(self.streams.len());
        for (info, part) in self.streams.iter().zip(loaded.try_iter()?) {
            let (given, lengths) = part?.extract::<(Bound<'_, PyAny>, Option<Bound<'_, PyAny>>)>()?;
            data.push(match (given.cast::<PyList>(), lengths) {
                (Ok(arrays), _) => {
                    let arrays = arrays.iter().map(|object| array(info, &object));
                    StreamData::Arrays(arrays.collect::<PyResult<_>>()?)
                }
                (Err(_), None) => StreamData::Samples(array(info, &given)?),
                (Err(_), Some(lengths)) => {
                    StreamData::Sequences(array(info, &given)?, given::list(&lengths, room::CHUNK)?)
                }
            });
        }
        Ok(data)
    }
}

/// Converts the result of `cntk_reader._keys.checked` to keys of sequences.
fn keys(keys: Option<Bound<'_, PyAny>>) -> PyResult<Keys> {
    let Some(keys) = keys else { return Ok(Keys::Ordinal) };
    Ok(match keys.cast::<PyList>() {
        Ok(texts) => Keys::Texts(texts.extract()?),
        Err(_) => Keys::Numbers(given::list(&keys, room::KEYS)?),
    })
}

impl UserDeserializer for User {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        self.chunks
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        static LOADED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let data = callback::call(
            &self.object,
            || format!("get_chunk({chunk})"),
            |py, user| {
                let arguments = (user, chunk, &self.descriptions);
                self.data(&LOADED.import(py, MODULE, "loaded")?.call1(arguments)?)
            },
        );
        data.map(UserChunk::arrays)
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        static LISTED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        if !self.is_composable {
            return Ok(None);
        }
        let (count, lengths, keys) = callback::call(
            &self.object,
            || format!("get_sequences({chunk})"),
            |py, user| {
                let listed = LISTED.import(py, MODULE, "listed")?.call1((user, chunk))?;
                let (count, lengths, given) =
                    listed.extract::<(u64, Option<Bound<'_, PyAny>>, Option<Bound<'_, PyAny>>)>()?;
                let lengths = lengths.map(|lengths| given::list(&lengths, room::INDEX)).transpose()?;
                Ok((count, lengths, keys(given)?))
            },
        )?;
        let count = u32::try_from(count).map_err(|_| {
            Error::user(format!(
                "Chunk {chunk} of the user's deserializer: {count} sequences exceed the limit of 4294967295 per chunk."
            ))
        })?;
        Ok(Some(Sequences { count, lengths, keys, ..Sequences::default() }))
    }

    fn loads_in_parallel(&self) -> bool {
        self.is_thread_safe
    }
}
