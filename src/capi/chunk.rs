//! Loaded chunks: views of their sequences, no copies.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::stream::Stream;
use crate::Error;
use crate::deserialize::{Chunk, Loaded};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::Arc;

/// The data of a chunk's sequences. Comes from cntk_reader_deserializer_load_chunk, may outlive the deserializer.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_chunk {
    streams: Arc<[Stream]>,
    sequences: u32,
    data: Arc<dyn Chunk>,
}

/// What loading made of a sequence.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_presence {
    /// It has data.
    CNTK_READER_PRESENCE_PRESENT = 0,
    /// It was left out and counted as an error already.
    CNTK_READER_PRESENCE_SKIPPED = 1,
    /// It is invalid, to be left out and counted.
    CNTK_READER_PRESENCE_INVALID = 2,
}

/// A sequence's data in one stream. The pointers live as long as the chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_sequence {
    /// sizeof(cntk_reader_sequence), set by the caller.
    pub struct_size: usize,
    /// Whether there are data.
    pub presence: cntk_reader_presence,
    /// Samples in this stream.
    pub samples: u32,
    /// The values, of the stream's element type, not necessarily aligned. Dense: `samples` times the sample's size.
    /// Sparse: the stored ones, sample after sample.
    pub values: *const c_void,
    /// Number of values.
    pub value_count: usize,
    /// Sparse: the index of each value within its sample, not necessarily aligned. Dense: NULL.
    pub indices: *const i32,
    /// Sparse: samples + 1 ascending numbers. Sample s has the values from `sample_offsets[s] - sample_offsets[0]` to
    /// before `sample_offsets[s + 1] - sample_offsets[0]`. Dense: NULL.
    pub sample_offsets: *const u32,
}

// SAFETY: integers and pointers, which may have all bits zero; the enum is only ever written.
unsafe impl Sized for cntk_reader_sequence {
    const NAME: &'static str = "cntk_reader_sequence";
}

impl cntk_reader_chunk {
    pub(super) fn hand_out(data: Arc<dyn Chunk>, streams: Arc<[Stream]>, sequences: u32) -> *mut Self {
        Box::into_raw(Box::new(cntk_reader_chunk { streams, sequences, data }))
    }

    fn sequence(&self, stream: usize, index: u32) -> crate::Result<cntk_reader_sequence> {
        let Some(info) = self.streams.get(stream).filter(|_| index < self.sequences) else {
            return Err(Error::argument(format!(
                "There is no sequence {index} in a stream {stream} of this chunk."
            )));
        };
        let empty = cntk_reader_sequence {
            struct_size: 0,
            presence: cntk_reader_presence::CNTK_READER_PRESENCE_PRESENT,
            samples: 0,
            values: null(),
            value_count: 0,
            indices: null(),
            sample_offsets: null(),
        };
        Ok(match self.data.sequence(stream, index) {
            Loaded::Skipped => {
                cntk_reader_sequence { presence: cntk_reader_presence::CNTK_READER_PRESENCE_SKIPPED, ..empty }
            }
            Loaded::Invalid => {
                cntk_reader_sequence { presence: cntk_reader_presence::CNTK_READER_PRESENCE_INVALID, ..empty }
            }
            Loaded::Data(view) => cntk_reader_sequence {
                samples: view.samples,
                values: view.values.as_ptr().cast(),
                value_count: view.values.len() / info.info.element.size(),
                indices: view.sparse.map_or(null(), |sparse| sparse.indices.as_ptr().cast()),
                sample_offsets: view.sparse.map_or(null(), |sparse| sparse.offsets.as_ptr()),
                ..empty
            },
        })
    }
}

/// Gives a sequence's data in one stream, where they lie. `sequence->struct_size` must be set. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_chunk_get_sequence(
    chunk: Option<&cntk_reader_chunk>,
    stream: usize,
    index: u32,
    sequence: *mut cntk_reader_sequence,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `sequence` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (chunk, sequence) = (given(chunk, "chunk")?, unsafe { SizedOutput::new(sequence) }?);
        sequence.set(chunk.sequence(stream, index)?);
        Ok(())
    })
}

/// Frees a chunk. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_chunk_free(chunk: Option<Box<cntk_reader_chunk>>) {
    guard_silently(|| drop(chunk));
}
