//! The builder of the deserializer for NumPy arrays.

use super::streams;
use crate::language::values::{Value, Values};
use cntk_reader_core::{Error, Result};
use std::path::Path;

/// NumPy arrays (`.npy`), each a stream. Row `i` of each array is a sample of the sequence with key
/// `i`. CNTK has no such deserializer.
///
/// ```
/// use cntk_reader::NumpyDeserializer;
///
/// let digits = NumpyDeserializer::new().array("features", "x.npy").array("labels", "y.npy");
/// # assert!(digits.to_configuration()?.contains("file = \"y.npy\""));
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct NumpyDeserializer {
    values: Values,
    streams: Vec<(String, Values)>,
    /// A method that describes the last array was called before any array was added.
    is_early: bool,
}

impl Default for NumpyDeserializer {
    fn default() -> Self {
        NumpyDeserializer::new()
    }
}

impl NumpyDeserializer {
    /// Returns a deserializer without arrays; add at least one.
    #[must_use]
    pub fn new() -> NumpyDeserializer {
        let values = Values::of_type("NumpyDeserializer");
        NumpyDeserializer { values, streams: Vec::new(), is_early: false }
    }

    /// Adds an array file as the stream `name`. All arrays must have the same number of rows.
    #[must_use]
    pub fn array(mut self, name: &str, file: impl AsRef<Path>) -> Self {
        let mut stream = Values::default();
        stream.set("file", file.as_ref());
        self.streams.push((name.to_owned(), stream));
        self
    }

    /// Measures minibatches and windows in samples of the array added last (`definesMBSize`).
    #[must_use]
    pub fn defines_minibatch_size(mut self) -> Self {
        match self.streams.last_mut() {
            Some((_, stream)) => stream.set("definesMBSize", true),
            None => self.is_early = true,
        }
        self
    }

    /// Sets an integer array with the lengths of sequences, in rows (`lengths`; default: each row
    /// is a sequence). The lengths must add up to the number of rows.
    #[must_use]
    pub fn lengths(mut self, file: impl AsRef<Path>) -> Self {
        self.values.set("lengths", file.as_ref());
        self
    }

    /// Sets the bytes of a chunk, the unit of loading (`chunkSizeInBytes`; default: 32 MiB).
    #[must_use]
    pub fn chunk_size(mut self, bytes: u64) -> Self {
        self.values.set("chunkSizeInBytes", bytes);
        self
    }

    /// Returns the section for `deserializers` in a configuration.
    pub fn to_configuration(&self) -> Result<String> {
        self.values()?.to_section()
    }

    pub fn values(&self) -> Result<Values> {
        if self.is_early {
            return Err(Error::argument(
                "NumpyDeserializer::defines_minibatch_size was called before an array was added. It describes the array \
                 added last: call it after array.",
            ));
        }
        let mut values = self.values.clone();
        let all = self.streams.iter().map(|(name, stream)| (&**name, stream.clone()));
        values.set("input", Value::Section(streams(all)?));
        Ok(values)
    }
}
