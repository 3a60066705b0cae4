//! One sequence, filled in by user code.

use super::wrong;
use crate::Result;
use crate::sequence::{SequenceKey, SequenceView, SparseView, ValueForm, ViewKind};
use crate::stream::{Element, ElementType, Storage, StreamInfo};
use std::any::Any;
use std::sync::Arc;

macro_rules! values {
    ($(($variant:ident, $rust:ty, $name:literal)),*) => {
        /// Values of a stream's element type.
        enum Values {
            $($variant(Vec<$rust>),)*
        }

        impl Values {
            fn new(element: ElementType) -> Values {
                match element {
                    $(ElementType::$variant => Values::$variant(Vec::new()),)*
                }
            }

            /// Returns the list if its values have this type.
            fn list<T: Element>(&mut self) -> Option<&mut Vec<T>> {
                // Compiles to a comparison of the variant, because the types are known.
                let list: &mut dyn Any = match self {
                    $(Values::$variant(list) => list,)*
                };
                list.downcast_mut()
            }

            fn len(&self) -> usize {
                match self {
                    $(Values::$variant(list) => list.len(),)*
                }
            }

            fn clear(&mut self) {
                match self {
                    $(Values::$variant(list) => list.clear(),)*
                }
            }

            fn bytes(&self) -> &[u8] {
                match self {
                    $(Values::$variant(list) => bytemuck::cast_slice(list),)*
                }
            }
        }
    };
}

crate::for_elements!(values);

/// The data of one sequence in all streams of a deserializer. It is passed empty and reused, so
/// that short sequences need no allocations.
pub struct UserSequence {
    infos: Arc<[StreamInfo]>,
    streams: Vec<Stream>,
    key: Option<SequenceKey>,
    is_invalid: bool,
}

/// One stream's data.
struct Stream {
    values: Values,
    /// For sparse streams: the index of each value within its sample, and `samples + 1` entry
    /// offsets.
    indices: Vec<i32>,
    offsets: Vec<u32>,
    shape: Vec<usize>,
    /// Set by [`UserSequence::check`].
    samples: u32,
}

impl UserSequence {
    pub(super) fn new(infos: &Arc<[StreamInfo]>) -> UserSequence {
        let stream = |info: &StreamInfo| Stream {
            values: Values::new(info.element),
            indices: Vec::new(),
            offsets: vec![0],
            shape: Vec::new(),
            samples: 0,
        };
        let streams = infos.iter().map(stream).collect();
        UserSequence { infos: Arc::clone(infos), streams, key: None, is_invalid: false }
    }

    /// Empties it for another sequence.
    pub(super) fn clear(&mut self) {
        for stream in &mut self.streams {
            stream.values.clear();
            stream.indices.clear();
            stream.offsets.truncate(1);
            stream.shape.clear();
        }
        (self.key, self.is_invalid) = (None, false);
    }

    /// The values of a dense stream, to be filled in: those of the first sample, then of the
    /// second, and so on. `T` must be the stream's element type.
    pub fn dense<T: Element>(&mut self, stream: usize) -> Result<&mut Vec<T>> {
        self.list(stream, Storage::Dense).map(|(values, _)| values)
    }

    /// Adds a sample to a sparse stream: its values and their indices within the sample, in any
    /// order. `T` must be the stream's element type.
    pub fn push_sparse<T: Element>(&mut self, stream: usize, values: &[T], indices: &[i32]) -> Result<()> {
        if values.len() != indices.len() {
            return Err(wrong(format!(
                "A sparse sample has {} values, but {} indices.",
                values.len(),
                indices.len()
            )));
        }
        let (list, others) = self.list(stream, Storage::SparseCsc)?;
        list.extend_from_slice(values);
        let end = u32::try_from(list.len()).map_err(|_| wrong("A sequence has too many values."))?;
        others.indices.extend_from_slice(indices);
        others.offsets.push(end);
        Ok(())
    }

    /// Sets the key that minibatches report: a number, or the number of a text in the reader's
    /// corpus. The default is the key that was listed.
    pub fn set_key(&mut self, key: u64) {
        self.key = Some(key);
    }

    /// Sets the shape of the samples in a stream whose description leaves the shape open; it must
    /// be the same for all sequences.
    pub fn set_shape(&mut self, stream: usize, shape: &[usize]) -> Result<()> {
        let count = self.streams.len();
        let stream = self.streams.get_mut(stream).ok_or_else(|| no_stream(stream, count))?;
        stream.shape.clear();
        stream.shape.extend_from_slice(shape);
        Ok(())
    }

    /// Marks the sequence as invalid: it is left out, and counted against the reader's `maxErrors`.
    pub fn set_invalid(&mut self) {
        self.is_invalid = true;
    }

    /// Returns the values of a stream and its other lists.
    fn list<T: Element>(
        &mut self,
        stream: usize,
        storage: Storage,
    ) -> Result<(&mut Vec<T>, SparseLists<'_>)> {
        let count = self.streams.len();
        let (Some(info), Some(data)) = (self.infos.get(stream), self.streams.get_mut(stream)) else {
            return Err(no_stream(stream, count));
        };
        if info.storage != storage {
            let message = match storage {
                Storage::Dense => "The stream is sparse: add its samples with `push_sparse`.",
                Storage::SparseCsc => "The stream is dense: fill the list that `dense` gives.",
            };
            return Err(wrong(message).in_stream(&info.name));
        }
        let others = SparseLists { indices: &mut data.indices, offsets: &mut data.offsets };
        match data.values.list() {
            Some(list) => Ok((list, others)),
            None => {
                let message = format!(
                    "The values are {}, those of the stream {}.",
                    T::TYPE.name(),
                    info.element.name()
                );
                Err(wrong(message).in_stream(&info.name))
            }
        }
    }

    pub(super) fn is_invalid(&self) -> bool {
        self.is_invalid
    }

    pub(super) fn key(&self) -> Option<SequenceKey> {
        self.key
    }

    /// The shape of the samples in a stream whose description leaves the shape open.
    pub(super) fn shape(&self, stream: usize) -> Option<&[usize]> {
        let is_late = self.infos.get(stream)?.has_late_shape();
        is_late.then(|| &*self.streams[stream].shape)
    }

    /// Checks everything that was filled in. Must be called before [`UserSequence::view`].
    pub(super) fn check(&mut self) -> Result<()> {
        for (info, stream) in self.infos.iter().zip(&mut self.streams) {
            let shape = if info.has_late_shape() { &stream.shape } else { &info.shape };
            let sample_size = shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
            let sample_size =
                sample_size.ok_or_else(|| wrong("A sample is too large.").in_stream(&info.name))?;
            let samples = match info.storage {
                Storage::Dense => {
                    let count = stream.values.len();
                    if count.checked_rem(sample_size).is_none_or(|rest| rest > 0) {
                        let message =
                            format!("Its {count} values are not a whole number of samples of {sample_size}.");
                        return Err(wrong(message).in_stream(&info.name));
                    }
                    count / sample_size
                }
                Storage::SparseCsc => {
                    let is_good = |index: i32| usize::try_from(index).is_ok_and(|index| index < sample_size);
                    if let Some(bad) = stream.indices.iter().find(|&&index| !is_good(index)) {
                        let message =
                            format!("A value has the index {bad}, but a sample has {sample_size} values.");
                        return Err(wrong(message).in_stream(&info.name));
                    }
                    stream.offsets.len() - 1
                }
            };
            stream.samples = u32::try_from(samples)
                .map_err(|_| wrong("A sequence has too many samples.").in_stream(&info.name))?;
        }
        Ok(())
    }

    /// The data in a stream. Must be checked first.
    pub(super) fn view(&self, stream: usize) -> Option<SequenceView<'_>> {
        let (info, data) = (self.infos.get(stream)?, self.streams.get(stream)?);
        let kind = match info.storage {
            Storage::Dense => ViewKind::Dense,
            Storage::SparseCsc => ViewKind::Sparse(SparseView {
                indices: bytemuck::cast_slice(&data.indices),
                narrow: false,
                offsets: &data.offsets,
                single: false,
            }),
        };
        let values = data.values.bytes();
        Some(SequenceView { samples: data.samples, values, form: ValueForm::Whole, kind })
    }
}

/// The lists of a sparse stream other than its values.
struct SparseLists<'a> {
    indices: &'a mut Vec<i32>,
    offsets: &'a mut Vec<u32>,
}

fn no_stream(stream: usize, count: usize) -> crate::Error {
    wrong(format!("There is no stream {stream}: the deserializer has {count}."))
}
