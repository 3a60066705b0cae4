//! Options of the deserializer of arrays.

use crate::deserializer::{ArrayDeserializer, ArraySource};
use cntk_reader_core::Result;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Context, Facts, Format, Opened, Signature};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::stream::ElementType;
use std::sync::Arc;

/// Options of the deserializer of arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayOptions {
    /// The arrays; at least one.
    pub streams: Vec<ArrayStream>,
    /// Path of an array with the lengths of sequences, in rows. Without it, each row is a sequence.
    pub lengths: Option<String>,
    /// Size of a chunk in bytes.
    pub chunk_size: u64,
    /// Element type of streams from float32 arrays. Arrays of float64 keep their type.
    pub element: ElementType,
}

/// An array, which becomes a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayStream {
    /// Its name.
    pub name: String,
    /// Path of the array.
    pub file: String,
    /// Whether minibatches are measured in this stream's samples.
    pub defines_mb_size: bool,
}

impl Format for ArrayOptions {
    fn type_name(&self) -> &str {
        "NumpyDeserializer"
    }

    fn name(&self) -> &str {
        self.streams.first().map_or("", |stream| &stream.file)
    }

    fn facts(&self) -> Facts {
        Facts { signature: Signature::Is(FileFormat::Npy), ..Facts::default() }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, .. } = context;
        let sources = || {
            let streams = self.streams.iter();
            streams.map(|ArrayStream { name, file, defines_mb_size }| ArraySource {
                name,
                path: file,
                defines_mb_size: *defines_mb_size,
            })
        };
        let lengths = self.lengths.as_deref();
        let opened = pool
            .install(|| ArrayDeserializer::open(sources(), lengths, self.chunk_size, self.element, corpus))?;
        Ok(AnyDeserializer::Known(Arc::new(opened)).into())
    }

    fn data_files(&self) -> Result<Vec<String>> {
        Ok(self.streams.iter().map(|stream| stream.file.clone()).chain(self.lengths.clone()).collect())
    }

    fn confine(&mut self, _: &Confinement) {}

    fn follow(&mut self, _: Release) {}
}
