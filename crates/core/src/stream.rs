//! What a stream is: its name, storage, element type and sample shape.

use std::ops::AddAssign;
use std::sync::OnceLock;

/// Type of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ElementType {
    /// 32-bit IEEE float. CNTK's number for it.
    Float = 1,
    /// 64-bit IEEE float. CNTK's number for it.
    Double = 2,
}

impl ElementType {
    /// Bytes of one value.
    pub const fn size(self) -> usize {
        match self {
            ElementType::Float => 4,
            ElementType::Double => 8,
        }
    }
}

/// A type of values: `f32` or `f64`.
pub trait Element:
    Copy + Default + PartialEq + AddAssign + From<u8> + std::fmt::Debug + Send + Sync + sealed::Sealed + 'static
{
    /// The element type of streams that have values of this type.
    const TYPE: ElementType;
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::Float;
}

impl Element for f64 {
    const TYPE: ElementType = ElementType::Double;
}

/// Keeps users from implementing [`Element`]: they cannot name its supertrait.
mod sealed {
    pub trait Sealed: bytemuck::Pod {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// How the values of a stream are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Storage {
    /// Every value of every sample.
    Dense = 0,
    /// Compressed sparse columns, one column a sample.
    SparseCsc = 1,
}

/// The only dimension of a shape that is known once there are data: see [`LateShapes`]. CNTK's number for it.
pub const UNKNOWN_DIMENSION: usize = usize::MAX - 1;

/// Description of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// Unique name among the streams of a reader.
    pub name: String,
    /// How its values are stored.
    pub storage: Storage,
    /// Type of its values. Streams of one reader, and of one deserializer, may have different ones.
    pub element: ElementType,
    /// Shape of one sample, first dimension varying fastest (column-major, CNTK's order; the
    /// reverse of NumPy's). Empty: a sample is one value, a scalar.
    pub shape: Vec<usize>,
    /// The lengths of this stream's sequences are the lengths that minibatches are measured in.
    pub defines_mb_size: bool,
    /// Its samples are opaque bytes, four each, such as lattices. In minibatches of whole sequences each sequence has a lane of
    /// its own, and its bytes are next to each other: see
    /// `Layout::sequence_major`. In frame mode each frame has the whole sequence.
    pub is_binary: bool,
}

impl StreamInfo {
    /// A stream; `shape` is that of one sample, first dimension varying fastest.
    pub fn new(
        name: impl Into<String>,
        storage: Storage,
        element: ElementType,
        shape: Vec<usize>,
    ) -> StreamInfo {
        StreamInfo { name: name.into(), storage, element, shape, defines_mb_size: false, is_binary: false }
    }

    /// A dense stream of `f32`; the shape is that of one sample, first dimension varying fastest.
    pub fn dense(name: impl Into<String>, shape: &[usize]) -> StreamInfo {
        StreamInfo::new(name, Storage::Dense, ElementType::Float, shape.to_vec())
    }

    /// A sparse stream of `f32`, as [`StreamInfo::dense`].
    pub fn sparse(name: impl Into<String>, shape: &[usize]) -> StreamInfo {
        StreamInfo { storage: Storage::SparseCsc, ..StreamInfo::dense(name, shape) }
    }

    /// The stream with values of this type.
    #[must_use]
    pub fn element(mut self, element: ElementType) -> StreamInfo {
        self.element = element;
        self
    }

    /// The stream as the one whose samples minibatch sizes are measured in.
    #[must_use]
    pub fn defining_minibatch_size(mut self) -> StreamInfo {
        self.defines_mb_size = true;
        self
    }

    /// The stream as one of opaque bytes, four a sample.
    #[must_use]
    pub fn binary(mut self) -> StreamInfo {
        self.is_binary = true;
        self
    }

    /// The stream with samples of another shape.
    #[must_use]
    pub fn with_shape(mut self, shape: Vec<usize>) -> StreamInfo {
        self.shape = shape;
        self
    }

    /// Values of one sample.
    pub fn sample_size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the shape becomes known only with the first data.
    pub fn has_late_shape(&self) -> bool {
        self.shape == [UNKNOWN_DIMENSION]
    }
}

/// Shapes that become known with the first data, by stream; shared between a reader, its pipeline and its descriptions. A
/// shape that is set does not change.
#[derive(Debug, Default)]
pub struct LateShapes(Box<[OnceLock<Box<[usize]>>]>);

impl LateShapes {
    /// None is known yet.
    pub fn new(streams: usize) -> LateShapes {
        LateShapes((0..streams).map(|_| OnceLock::new()).collect())
    }

    /// The shape of a stream, if it is known.
    pub fn get(&self, stream: usize) -> Option<&[usize]> {
        self.0.get(stream)?.get().map(|shape| &**shape)
    }

    /// Sets a shape unless there is one, and gives the one that counts.
    pub fn set(&self, stream: usize, shape: &[usize]) -> Option<&[usize]> {
        self.0.get(stream).map(|place| &**place.get_or_init(|| shape.into()))
    }

    /// Completes the descriptions of the streams as far as shapes are known.
    pub fn complete(&self, streams: &mut [StreamInfo]) {
        for (number, stream) in streams.iter_mut().enumerate() {
            if let (true, Some(shape)) = (stream.has_late_shape(), self.get(number)) {
                stream.shape = shape.to_vec();
            }
        }
    }
}
