//! Loaded chunks: views of their sequences, without copies.

use crate::call::{call, given, guard_silently};
use crate::error::cntk_reader_error;
use crate::host::fetched::cntk_reader_fetched;
use crate::sized::{Sized, SizedOutput};
use crate::status::cntk_reader_status;
use crate::stream::Stream;
use cntk_reader_core::Error;
use cntk_reader_core::format::{Chunk, Loaded};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_engine::pack::plain::{PlainSequence, is_plain};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// The data of a chunk's sequences, from cntk_reader_deserializer_load_chunk. It may outlive the
/// deserializer.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_chunk {
    streams: Arc<[Stream]>,
    sequences: u32,
    data: Arc<dyn Chunk>,
}

/// Result of loading a sequence.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_presence {
    /// The sequence has data.
    CNTK_READER_PRESENCE_PRESENT = 0,
    /// The sequence was left out, and already counted as an error.
    CNTK_READER_PRESENCE_SKIPPED = 1,
    /// The sequence is invalid: to be left out and counted as an error.
    CNTK_READER_PRESENCE_INVALID = 2,
}

/// A sequence's data in one stream. The pointers are valid as long as the chunk, or as the
/// cntk_reader_decoded that came with them.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_sequence {
    /// sizeof(cntk_reader_sequence), set by the caller.
    pub struct_size: usize,
    /// Whether the sequence has data.
    pub presence: cntk_reader_presence,
    /// Number of samples in this stream.
    pub samples: u32,
    /// The values, of the stream's element type, possibly unaligned. Dense: `samples` times the
    /// size of a sample. Sparse: the stored values, sample by sample.
    pub values: *const c_void,
    /// Number of values.
    pub value_count: usize,
    /// Sparse: the index of each value within its sample, possibly unaligned. Dense: NULL.
    pub indices: *const i32,
    /// Sparse: samples + 1 ascending numbers. Sample s has the values from
    /// `sample_offsets[s] - sample_offsets[0]` up to, but not including,
    /// `sample_offsets[s + 1] - sample_offsets[0]`. Dense: NULL.
    pub sample_offsets: *const u32,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has integers and pointers, for which zero is valid,
// and an enum, which is only written.
unsafe impl Sized for cntk_reader_sequence {
    const NAME: &'static str = "cntk_reader_sequence";
}

impl cntk_reader_chunk {
    pub(crate) fn hand_out(data: Arc<dyn Chunk>, streams: Arc<[Stream]>, sequences: u32) -> *mut Self {
        Box::into_raw(Box::new(cntk_reader_chunk { streams, sequences, data }))
    }

    /// Fetches a sequence.
    pub(crate) fn fetch(&self, index: u32) -> cntk_reader_core::Result<cntk_reader_fetched> {
        if index >= self.sequences {
            return Err(Error::argument(format!("There is no sequence {index} in this chunk.")));
        }
        cntk_reader_fetched::new(&self.data, &self.streams, index)
    }

    /// Loads a sequence, and returns it with the description of its stream.
    fn load(&self, stream: usize, index: u32) -> cntk_reader_core::Result<(&StreamInfo, Loaded<'_>)> {
        let Some(info) = self.streams.get(stream).filter(|_| index < self.sequences) else {
            return Err(Error::argument(format!(
                "There is no sequence {index} in a stream {stream} of this chunk."
            )));
        };
        let loaded = self.data.sequence(stream, index);
        match loaded {
            Loaded::Invalid => self.data.failure(stream, index).map_or(Ok((&info.info, loaded)), Err),
            _ => Ok((&info.info, loaded)),
        }
    }
}

impl cntk_reader_sequence {
    /// A sequence without data.
    pub(crate) const INVALID: cntk_reader_sequence = cntk_reader_sequence {
        struct_size: 0,
        presence: cntk_reader_presence::CNTK_READER_PRESENCE_INVALID,
        samples: 0,
        values: null(),
        value_count: 0,
        indices: null(),
        sample_offsets: null(),
    };

    /// Describes a sequence whose view is plain.
    pub(crate) fn of(info: &StreamInfo, loaded: Loaded<'_>) -> Self {
        match loaded {
            Loaded::Skipped => {
                let presence = cntk_reader_presence::CNTK_READER_PRESENCE_SKIPPED;
                cntk_reader_sequence { presence, ..Self::INVALID }
            }
            Loaded::Invalid => Self::INVALID,
            Loaded::Data(view) => cntk_reader_sequence {
                struct_size: 0,
                presence: cntk_reader_presence::CNTK_READER_PRESENCE_PRESENT,
                samples: view.samples,
                values: view.values.as_ptr().cast(),
                value_count: view.values.len() / info.element.size(),
                indices: view.sparse().map_or(null(), |sparse| sparse.indices.as_ptr().cast()),
                sample_offsets: view.sparse().map_or(null(), |sparse| sparse.offsets.as_ptr()),
            },
        }
    }
}

/// A sequence's decoded data in one stream: plain numbers in separate memory. Comes from
/// cntk_reader_chunk_decode_sequence; the caller frees it with cntk_reader_decoded_free.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_decoded {
    _numbers: PlainSequence,
    /// Keeps the offsets of a sparse sequence alive, which are not copied.
    _chunk: Arc<dyn Chunk>,
}

/// Gets a sequence's data in one stream, without a copy. `sequence->struct_size` must be set. Fails
/// if the chunk stores the data encoded, as features and labels of speech are: use
/// cntk_reader_chunk_decode_sequence. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_chunk_get_sequence(
    chunk: Option<&cntk_reader_chunk>,
    stream: usize,
    index: u32,
    sequence: *mut cntk_reader_sequence,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `sequence` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let (chunk, sequence) = (given(chunk, "chunk")?, unsafe { SizedOutput::new(sequence) }?);
        let (info, loaded) = chunk.load(stream, index)?;
        if matches!(&loaded, Loaded::Data(view) if !is_plain(view)) {
            return Err(Error::argument("The data of this sequence are encoded.")
                .with_detail("Read them with cntk_reader_chunk_decode_sequence.")
                .in_stream(&info.name));
        }
        sequence.set(cntk_reader_sequence::of(info, loaded));
        Ok(())
    })
}

/// Gets a sequence's data in one stream as plain numbers: decodes frames, gives each sample its
/// context, and widens narrow numbers to the element type. Data that are already plain numbers are
/// not copied: `*decoded` is NULL, and `sequence` points into the chunk. Otherwise the caller owns
/// `*decoded`, whose data are valid until cntk_reader_decoded_free, even after the chunk is freed.
/// `sequence->struct_size` must be set. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_chunk_decode_sequence(
    chunk: Option<&cntk_reader_chunk>,
    stream: usize,
    index: u32,
    sequence: *mut cntk_reader_sequence,
    decoded: Option<&mut MaybeUninit<*mut cntk_reader_decoded>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (chunk, decoded) = (given(chunk, "chunk")?, given(decoded, "decoded")?);
        // SAFETY: `sequence` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let sequence = unsafe { SizedOutput::new(sequence) }?;
        decoded.write(null_mut());
        let (info, loaded) = chunk.load(stream, index)?;
        match loaded {
            Loaded::Data(view) if !is_plain(&view) => {
                let mut numbers = PlainSequence::default();
                // `numbers` owns heap memory, so the addresses stay valid when it moves into its
                // box.
                let plain = cntk_reader_sequence::of(info, Loaded::Data(numbers.decode(&view, info)?));
                let own = cntk_reader_decoded { _numbers: numbers, _chunk: Arc::clone(&chunk.data) };
                decoded.write(Box::into_raw(Box::new(own)));
                sequence.set(plain);
            }
            plain => sequence.set(cntk_reader_sequence::of(info, plain)),
        }
        Ok(())
    })
}

/// Frees decoded data. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_decoded_free(decoded: Option<Box<cntk_reader_decoded>>) {
    guard_silently(|| drop(decoded));
}

/// Frees a chunk. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_chunk_free(chunk: Option<Box<cntk_reader_chunk>>) {
    guard_silently(|| drop(chunk));
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::format::LeafChunk;
    use cntk_reader_core::sequence::{
        FrameEncoding, FrameSpec, FrameView, SequenceView, ValueForm, ViewKind,
    };

    /// Two sequences: frames with their left neighbour, and plain values.
    struct Speech {
        spec: FrameSpec,
        values: Vec<u8>,
    }

    impl LeafChunk for Speech {
        fn sequence(&self, _: usize, index: u32) -> Loaded<'_> {
            let kind = match index {
                0 => ViewKind::Frames(FrameView { first: 0, spec: &self.spec }),
                _ => ViewKind::Dense,
            };
            Loaded::Data(SequenceView { samples: 2, values: &self.values, form: ValueForm::Whole, kind })
        }
    }

    #[test]
    fn encoded_sequences_are_decoded_and_outlive_the_chunk() {
        let spec = FrameSpec { dim: 1, encoding: FrameEncoding::Float, left: 1, right: 0 };
        let values = [1f32, 2.0, 3.0, 4.0].map(f32::to_ne_bytes).concat();
        let streams: Arc<[Stream]> = Arc::new([Stream::new(&StreamInfo::dense("x", &[2]))]);
        let chunk = cntk_reader_chunk::hand_out(Arc::new(Speech { spec, values }), streams, 2);
        // SAFETY: `hand_out` has made the handle, which is freed only below.
        let chunk = unsafe { Box::from_raw(chunk) };
        let mut sequence = cntk_reader_sequence::of(&StreamInfo::dense("x", &[2]), Loaded::Skipped);
        sequence.struct_size = size_of::<cntk_reader_sequence>();
        let get = |index, sequence: &mut cntk_reader_sequence| {
            // SAFETY: `sequence` is a struct with its size in the first member.
            unsafe { cntk_reader_chunk_get_sequence(Some(&chunk), 0, index, sequence, None) }
        };
        let decode = |index, sequence: &mut cntk_reader_sequence| {
            let mut decoded = MaybeUninit::uninit();
            let out = Some(&mut decoded);
            // SAFETY: `sequence` is a struct with its size in the first member.
            let status =
                unsafe { cntk_reader_chunk_decode_sequence(Some(&chunk), 0, index, sequence, out, None) };
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            // SAFETY: the successful call above has written it.
            unsafe { decoded.assume_init() }
        };
        assert_ne!(get(0, &mut sequence), cntk_reader_status::CNTK_READER_STATUS_OK);
        assert_eq!(get(1, &mut sequence), cntk_reader_status::CNTK_READER_STATUS_OK);
        let plain = sequence.values;
        assert!(decode(1, &mut sequence).is_null());
        assert_eq!(sequence.values, plain);

        let decoded = decode(0, &mut sequence);
        drop(chunk);
        assert_eq!((sequence.samples, sequence.value_count), (2, 4));
        // SAFETY: `decoded` owns these four values, which are aligned to 64 bytes.
        let values = unsafe { std::slice::from_raw_parts(sequence.values.cast::<f32>(), 4) };
        assert_eq!(values, [1.0, 1.0, 1.0, 2.0]);
        // SAFETY: the handle is from above and freed once.
        cntk_reader_decoded_free(Some(unsafe { Box::from_raw(decoded) }));
    }
}
