//! Sequences that are fetched from their chunk one at a time: images.

use crate::call::{call, given, guard_silently};
use crate::error::cntk_reader_error;
use crate::host::chunk::{cntk_reader_chunk, cntk_reader_sequence};
use crate::host::image::cntk_reader_image;
use crate::sized::SizedOutput;
use crate::status::cntk_reader_status;
use crate::stream::Stream;
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::format::{Chunk, Loaded};
use cntk_reader_core::image::{Depth, ImageInfo, PixelOrder};
use cntk_reader_core::sequence::{SequenceView, ValueForm};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::pack::plain::PlainSequence;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// A sequence that was fetched from its chunk: an image is read and decoded. Comes from
/// cntk_reader_chunk_fetch_sequence; the caller frees it with cntk_reader_fetched_free. It may
/// outlive the chunk.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_fetched {
    streams: Vec<FetchedStream>,
    // Owners of the heap memory that the pointers in `streams` lead to, whose addresses are stable.
    _fetched: Fetched,
    _numbers: Vec<PlainSequence>,
}

/// A sequence's data in one stream.
#[derive(Clone, Copy)]
enum FetchedStream {
    Numbers(cntk_reader_sequence),
    Image(cntk_reader_image),
    /// The sequence is unusable.
    None,
}

impl cntk_reader_fetched {
    /// Fetches a sequence. An unusable one has no data in any stream.
    pub(crate) fn new(chunk: &Arc<dyn Chunk>, streams: &Arc<[Stream]>, index: u32) -> Result<Self> {
        let mut fetched = Fetched::default();
        fetched.take(chunk, index)?;
        let is_whole = fetched.is_whole(streams.len());
        if is_whole {
            fetched.plan(0, 0)?;
            fetched.prepare(0)?;
        }
        let mut numbers: Vec<_> = streams.iter().map(|_| PlainSequence::default()).collect();
        let mut data = Vec::with_capacity(streams.len());
        for ((number, stream), memory) in streams.iter().enumerate().zip(&mut numbers) {
            let info = &stream.info;
            data.push(match fetched.sequence(number, index) {
                Loaded::Data(view) if is_whole => match fetched.shape(number) {
                    Some(&[channels, width, height]) if info.has_late_shape() => {
                        FetchedStream::Image(image(&view, info, [width, height, channels])?)
                    }
                    _ => {
                        let plain = Loaded::Data(memory.decode(&view, info)?);
                        FetchedStream::Numbers(cntk_reader_sequence::of(info, plain))
                    }
                },
                _ => FetchedStream::None,
            });
        }
        Ok(cntk_reader_fetched { streams: data, _fetched: fetched, _numbers: numbers })
    }

    fn stream(&self, stream: usize) -> Result<FetchedStream> {
        self.streams.get(stream).copied().ok_or_else(|| {
            Error::argument(format!("There is no stream {stream}: the sequence has {}.", self.streams.len()))
        })
    }
}

/// Describes the image in a view, with its values as decoded.
fn image(view: &SequenceView<'_>, info: &StreamInfo, size: [usize; 3]) -> Result<cntk_reader_image> {
    let depth = match view.form {
        ValueForm::Byte => Depth::Byte,
        _ => Depth::Element(info.element),
    };
    let [Ok(width), Ok(height), Ok(channels)] = size.map(u32::try_from) else {
        return Err(Error::internal("An image has a dimension of more than 32 bits."));
    };
    let info = ImageInfo { width, height, channels, depth, order: PixelOrder::Interleaved };
    Ok(cntk_reader_image::new(&info, view.values))
}

/// Fetches a sequence of a chunk of images: reads and decodes the image. The caller owns
/// `*fetched`. If an image cannot be decoded, the call succeeds, but the sequence has no data. May
/// be called from any thread, also by several at once.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_chunk_fetch_sequence(
    chunk: Option<&cntk_reader_chunk>,
    index: u32,
    fetched: Option<&mut MaybeUninit<*mut cntk_reader_fetched>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (chunk, fetched) = (given(chunk, "chunk")?, given(fetched, "fetched")?);
        fetched.write(Box::into_raw(Box::new(chunk.fetch(index)?)));
        Ok(())
    })
}

/// Gets the data of a fetched sequence in a stream of numbers, such as labels.
/// `sequence->struct_size` must be set. If the sequence is unusable, its presence is
/// CNTK_READER_PRESENCE_INVALID in all streams.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_fetched_get_sequence(
    fetched: Option<&cntk_reader_fetched>,
    stream: usize,
    sequence: *mut cntk_reader_sequence,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `sequence` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let (fetched, place) = (given(fetched, "fetched")?, unsafe { SizedOutput::new(sequence) }?);
        match fetched.stream(stream)? {
            FetchedStream::Numbers(numbers) => place.set(numbers),
            FetchedStream::None => place.set(cntk_reader_sequence::INVALID),
            FetchedStream::Image(_) => {
                let error = Error::argument(format!("Stream {stream} of this sequence has an image."));
                return Err(error.with_detail("Get it with cntk_reader_fetched_get_image."));
            }
        }
        Ok(())
    })
}

/// Gets the image of a fetched sequence. If the sequence is unusable, `image->presence` is
/// CNTK_READER_PRESENCE_INVALID. `image->struct_size` must be set. Fails if the stream has no
/// images.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_fetched_get_image(
    fetched: Option<&cntk_reader_fetched>,
    stream: usize,
    image: *mut cntk_reader_image,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `image` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        let (fetched, place) = (given(fetched, "fetched")?, unsafe { SizedOutput::new(image) }?);
        match fetched.stream(stream)? {
            FetchedStream::Image(image) => place.set(image),
            FetchedStream::None => place.set(cntk_reader_image::NONE),
            FetchedStream::Numbers(_) => {
                return Err(Error::argument(format!("Stream {stream} of this sequence has no image.")));
            }
        }
        Ok(())
    })
}

/// Frees a fetched sequence. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_fetched_free(fetched: Option<Box<cntk_reader_fetched>>) {
    guard_silently(|| drop(fetched));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::chunk::cntk_reader_presence;
    use cntk_reader_core::format::LeafChunk;
    use cntk_reader_core::format::fetch::{FetchedData, Parts};
    use cntk_reader_core::sequence::{SequenceKey, SparseView, ViewKind};
    use cntk_reader_core::stream::{StreamInfo, UNKNOWN_DIMENSION};

    /// Sequence 0 is an image of two columns, one row and three channels, with a label; the others
    /// are invalid.
    struct Pictures;
    struct Picture(bool);

    impl LeafChunk for Pictures {
        fn sequence(&self, _: usize, _: u32) -> Loaded<'_> {
            Loaded::Invalid
        }

        fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
            parts.add(first, 2, |_| Ok(Box::new(Picture(index == 0))))
        }
    }

    impl FetchedData for Picture {
        fn is_valid(&self) -> bool {
            self.0
        }

        fn prepare(&mut self, _: u32) -> Result<()> {
            Ok(())
        }

        fn view(&self, stream: usize) -> Loaded<'_> {
            let view = SequenceView { samples: 1, values: &[], form: ValueForm::Ones, kind: ViewKind::Dense };
            let sparse = SparseView { indices: &[7, 0, 0, 0], narrow: false, offsets: &[0, 1], single: true };
            Loaded::Data(match stream {
                0 => SequenceView { values: &[1, 2, 3, 4, 5, 6], form: ValueForm::Byte, ..view },
                _ => SequenceView { kind: ViewKind::Sparse(sparse), ..view },
            })
        }

        fn shape(&self, stream: usize) -> Option<&[usize]> {
            (stream == 0).then_some(&[3, 2, 1])
        }

        fn key(&self, _: usize) -> Option<SequenceKey> {
            None
        }

        fn release(&mut self) {}
    }

    fn fetch(index: u32) -> cntk_reader_fetched {
        let images = Stream::new(&StreamInfo::dense("x", &[UNKNOWN_DIMENSION]));
        let labels = StreamInfo::sparse("y", &[9]);
        let streams: Arc<[Stream]> = Arc::new([images, Stream::new(&labels)]);
        cntk_reader_fetched::new(&(Arc::new(Pictures) as Arc<dyn Chunk>), &streams, index)
            .expect("a sequence")
    }

    #[test]
    fn images_stay_bytes_and_labels_become_numbers() {
        let fetched = fetch(0);
        let FetchedStream::Image(image) = fetched.stream(0).expect("a stream") else { panic!("no image") };
        assert_eq!((image.width, image.height, image.channels, image.element), (2, 1, 3, 16));
        // SAFETY: an image of six bytes, which `fetched` owns.
        let values = unsafe { std::slice::from_raw_parts(image.values.cast::<u8>(), 6) };
        assert_eq!(values, [1, 2, 3, 4, 5, 6]);
        let FetchedStream::Numbers(label) = fetched.stream(1).expect("a stream") else { panic!("no label") };
        assert_eq!((label.samples, label.value_count), (1, 1));
        // SAFETY: one value and one index, which `fetched` owns, and two offsets.
        unsafe {
            assert_eq!(
                (label.values.cast::<f32>().read_unaligned(), label.indices.read_unaligned()),
                (1.0, 7)
            );
            assert_eq!(label.sample_offsets.add(1).read(), 1);
        }
        assert!(fetched.stream(2).is_err());
    }

    #[test]
    fn unusable_sequence_has_no_data() {
        let fetched = fetch(1);
        for stream in 0..2 {
            let mut sequence = cntk_reader_sequence::INVALID;
            sequence.struct_size = size_of::<cntk_reader_sequence>();
            sequence.presence = cntk_reader_presence::CNTK_READER_PRESENCE_PRESENT;
            // SAFETY: a struct with its size in the first member.
            let status =
                unsafe { cntk_reader_fetched_get_sequence(Some(&fetched), stream, &raw mut sequence, None) };
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            assert_eq!(sequence.presence, cntk_reader_presence::CNTK_READER_PRESENCE_INVALID);
        }
    }
}
