//! Streams: name, storage, element type and sample shape.

pub use half::{bf16, f16};
use std::sync::OnceLock;

/// The type of one value. The numbers are CNTK's where it has one, and part of the C ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ElementType {
    /// 32-bit IEEE float, `f32`.
    Float = 1,
    /// 64-bit IEEE float, `f64`.
    Double = 2,
    /// 16-bit IEEE float, [`struct@f16`].
    Float16 = 4,
    /// 16-bit signed integer, `i16`.
    Int16 = 6,
    /// 8-bit unsigned integer, `u8`.
    UInt8 = 16,
    /// 32-bit signed integer, `i32`.
    Int32 = 17,
    /// 64-bit signed integer, `i64`.
    Int64 = 18,
    /// Float with the exponent of `f32` and 8 bits of precision, [`struct@bf16`].
    BFloat16 = 19,
    /// A byte that is 0 or 1, `bool`.
    Bool = 20,
}

/// Calls a macro with all element types: `(Float, f32, "float32"), ...`.
#[doc(hidden)]
#[macro_export]
macro_rules! for_elements {
    ($callback:ident) => {
        $callback! {
            (Float, f32, "float32"), (Double, f64, "float64"), (Float16, $crate::stream::f16, "float16"), (Int16, i16, "int16"),
            (UInt8, u8, "uint8"), (Int32, i32, "int32"), (Int64, i64, "int64"), (BFloat16, $crate::stream::bf16, "bfloat16"),
            (Bool, bool, "bool")
        }
    };
}

/// Evaluates an expression with a name bound to the Rust type of an element type.
///
/// ```ignore
/// with_element!(stream.element(), T => stream.dense::<T>().map(<[T]>::len))
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! with_element {
    (@ $T:ident = $rust:ty, $body:expr) => {{
        type $T = $rust;
        $body
    }};
    ($element:expr, $T:ident => $body:expr) => {{
        use $crate::stream::ElementType as Types;
        match $element {
            Types::Float => $crate::with_element!(@ $T = f32, $body),
            Types::Double => $crate::with_element!(@ $T = f64, $body),
            Types::Float16 => $crate::with_element!(@ $T = $crate::stream::f16, $body),
            Types::Int16 => $crate::with_element!(@ $T = i16, $body),
            Types::UInt8 => $crate::with_element!(@ $T = u8, $body),
            Types::Int32 => $crate::with_element!(@ $T = i32, $body),
            Types::Int64 => $crate::with_element!(@ $T = i64, $body),
            Types::BFloat16 => $crate::with_element!(@ $T = $crate::stream::bf16, $body),
            Types::Bool => $crate::with_element!(@ $T = bool, $body),
        }
    }};
}

macro_rules! facts {
    ($(($variant:ident, $rust:ty, $name:literal)),*) => {
        impl ElementType {
            /// All element types.
            pub const ALL: &[ElementType] = &[$(ElementType::$variant),*];

            /// Returns the size of one value in bytes.
            pub const fn size(self) -> usize {
                match self {
                    $(ElementType::$variant => size_of::<$rust>(),)*
                }
            }

            /// Returns the name in messages, options and NumPy, such as `"float32"`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ElementType::$variant => $name,)*
                }
            }
        }

        $(
            impl Element for $rust {
                const TYPE: ElementType = ElementType::$variant;
            }
        )*
    };
}

for_elements!(facts);

impl ElementType {
    /// Returns the type with this number.
    pub fn from_number(number: u32) -> Option<ElementType> {
        ElementType::ALL.iter().copied().find(|element| *element as u32 == number)
    }

    /// Returns the type with this name.
    pub fn from_name(name: &str) -> Option<ElementType> {
        ElementType::ALL.iter().copied().find(|element| element.name() == name)
    }

    /// Returns whether sparse streams may have values of this type, and chunks may store them in
    /// fewer bytes: true for `f32` and `f64`. All other types are stored unchanged.
    pub const fn is_real(self) -> bool {
        matches!(self, ElementType::Float | ElementType::Double)
    }
}

/// A Rust type of values: see [`ElementType`].
pub trait Element:
    Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + sealed::Sealed + 'static
{
    /// The corresponding element type.
    const TYPE: ElementType;
}

/// Keeps users from implementing [`Element`], because they cannot name its supertrait.
mod sealed {
    use super::{bf16, f16};

    pub trait Sealed: bytemuck::CheckedBitPattern + bytemuck::NoUninit {
        /// 1, or true.
        const ONE: Self;

        /// Returns the sum; integers wrap around, and `bool` uses "or".
        #[must_use]
        fn plus(self, other: Self) -> Self;

        /// Converts an integer, if the type represents it exactly.
        fn of_integer(number: i128) -> Option<Self>;

        /// Converts a number: floats are rounded to nearest, integers must be exact.
        fn of_number(number: f64) -> Option<Self>;

        /// Converts the value to another type. Returns `None` if that type is integral and cannot
        /// represent it.
        fn to<T: Sealed>(self) -> Option<T>;

        /// Returns whether the value is neither infinite nor NaN.
        fn is_finite(self) -> bool;
    }

    macro_rules! floats {
        ($($float:ty, $one:expr, $from:expr);*) => {$(
            impl Sealed for $float {
                const ONE: $float = $one;

                #[inline(always)]
                fn plus(self, other: $float) -> $float {
                    self + other
                }

                #[inline(always)]
                fn of_integer(number: i128) -> Option<$float> {
                    let from: fn(f64) -> $float = $from;
                    let value = from(number as f64);
                    (f64::from(value) as i128 == number).then_some(value)
                }

                #[inline(always)]
                fn of_number(number: f64) -> Option<$float> {
                    let from: fn(f64) -> $float = $from;
                    Some(from(number))
                }

                #[inline(always)]
                fn to<T: Sealed>(self) -> Option<T> {
                    T::of_number(self.into())
                }

                #[inline(always)]
                fn is_finite(self) -> bool {
                    <$float>::is_finite(self)
                }
            }
        )*};
    }

    floats! {
        f32, 1.0, |number| number as f32; f64, 1.0, |number| number;
        f16, f16::ONE, f16::from_f64; bf16, bf16::ONE, bf16::from_f64
    }

    macro_rules! integers {
        ($($integer:ty),*) => {$(
            impl Sealed for $integer {
                const ONE: $integer = 1;

                #[inline(always)]
                fn plus(self, other: $integer) -> $integer {
                    self.wrapping_add(other)
                }

                #[inline(always)]
                fn of_integer(number: i128) -> Option<$integer> {
                    number.try_into().ok()
                }

                #[inline(always)]
                fn of_number(number: f64) -> Option<$integer> {
                    let integer = number as i128;
                    if integer as f64 == number { Self::of_integer(integer) } else { None }
                }

                #[inline(always)]
                fn to<T: Sealed>(self) -> Option<T> {
                    T::of_integer(self.into())
                }

                fn is_finite(self) -> bool {
                    true
                }
            }
        )*};
    }

    integers!(u8, i16, i32, i64);

    impl Sealed for bool {
        const ONE: bool = true;

        fn plus(self, other: bool) -> bool {
            self | other
        }

        fn of_integer(number: i128) -> Option<bool> {
            match number {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            }
        }

        fn of_number(number: f64) -> Option<bool> {
            if number == 0.0 || number == 1.0 { Some(number == 1.0) } else { None }
        }

        fn to<T: Sealed>(self) -> Option<T> {
            T::of_integer(self.into())
        }

        fn is_finite(self) -> bool {
            true
        }
    }
}

/// The storage of a stream's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Storage {
    /// Every value of every sample.
    Dense = 0,
    /// Compressed sparse columns, one column per sample.
    SparseCsc = 1,
}

/// The only dimension of a shape that becomes known with the first data: see [`LateShapes`]. The
/// number is CNTK's.
pub const UNKNOWN_DIMENSION: usize = usize::MAX - 1;

/// The description of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamInfo {
    /// Unique name among the streams of a reader.
    pub name: String,
    /// Storage of its values.
    pub storage: Storage,
    /// Type of its values. Streams of one reader, and of one deserializer, may have different
    /// types.
    pub element: ElementType,
    /// Shape of one sample, first dimension varying fastest (column-major, CNTK's order; the
    /// reverse of NumPy's). Empty: a sample is one value, a scalar.
    pub shape: Vec<usize>,
    /// Whether minibatches are measured in samples of this stream.
    pub defines_mb_size: bool,
    /// Whether its samples are opaque bytes, four each, such as lattices. In minibatches of whole
    /// sequences, each sequence has its own lane, and its bytes are contiguous: see
    /// `Layout::sequence_major`. In frame mode, each frame has the whole sequence.
    pub is_binary: bool,
    /// If the values are class numbers, the number of classes.
    pub classes: Option<usize>,
    /// Value of padding in truncated minibatches. Only streams of class numbers have a value other
    /// than 0.
    pub padding: i64,
}

/// The delivery of class numbers in place of one-hot samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ids {
    /// Their type: [`ElementType::Int32`] or [`ElementType::Int64`].
    pub element: ElementType,
    /// See [`StreamInfo::padding`].
    pub padding: i64,
}

impl StreamInfo {
    /// Describes a stream; `shape` is the shape of one sample, first dimension varying fastest.
    pub fn new(
        name: impl Into<String>,
        storage: Storage,
        element: ElementType,
        shape: Vec<usize>,
    ) -> StreamInfo {
        StreamInfo {
            name: name.into(),
            storage,
            element,
            shape,
            defines_mb_size: false,
            is_binary: false,
            classes: None,
            padding: 0,
        }
    }

    /// Describes a stream of class numbers.
    pub fn ids(name: impl Into<String>, classes: usize, ids: Ids) -> StreamInfo {
        let info = StreamInfo::new(name, Storage::Dense, ids.element, Vec::new());
        StreamInfo { classes: Some(classes), padding: ids.padding, ..info }
    }

    /// Describes a dense stream of `f32`; `shape` is the shape of one sample, first dimension
    /// varying fastest.
    pub fn dense(name: impl Into<String>, shape: &[usize]) -> StreamInfo {
        StreamInfo::new(name, Storage::Dense, ElementType::Float, shape.to_vec())
    }

    /// Describes a sparse stream of `f32`; see [`StreamInfo::dense`].
    pub fn sparse(name: impl Into<String>, shape: &[usize]) -> StreamInfo {
        StreamInfo { storage: Storage::SparseCsc, ..StreamInfo::dense(name, shape) }
    }

    /// Sets the type of the values.
    #[must_use]
    pub fn element(mut self, element: ElementType) -> StreamInfo {
        self.element = element;
        self
    }

    /// Makes this the stream in whose samples minibatch sizes are measured.
    #[must_use]
    pub fn defining_minibatch_size(mut self) -> StreamInfo {
        self.defines_mb_size = true;
        self
    }

    /// Makes this a stream of opaque bytes, four per sample.
    #[must_use]
    pub fn binary(mut self) -> StreamInfo {
        self.is_binary = true;
        self
    }

    /// Sets the shape of a sample.
    #[must_use]
    pub fn with_shape(mut self, shape: Vec<usize>) -> StreamInfo {
        self.shape = shape;
        self
    }

    /// Returns the number of values in one sample.
    pub fn sample_size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the shape becomes known only with the first data.
    pub fn has_late_shape(&self) -> bool {
        self.shape == [UNKNOWN_DIMENSION]
    }
}

/// Shapes that become known with the first data, by stream; shared between a reader, its pipeline
/// and its descriptions. Once set, a shape does not change.
#[derive(Debug, Default)]
pub struct LateShapes(Box<[OnceLock<Box<[usize]>>]>);

impl LateShapes {
    /// Creates the shapes of `streams` streams, all unknown.
    pub fn new(streams: usize) -> LateShapes {
        LateShapes((0..streams).map(|_| OnceLock::new()).collect())
    }

    /// Returns the shape of a stream, if known.
    pub fn get(&self, stream: usize) -> Option<&[usize]> {
        self.0.get(stream)?.get().map(|shape| &**shape)
    }

    /// Sets a shape if it is unknown, and returns the resulting one.
    pub fn set(&self, stream: usize, shape: &[usize]) -> Option<&[usize]> {
        self.0.get(stream).map(|place| &**place.get_or_init(|| shape.into()))
    }

    /// Fills in the known shapes in the descriptions of the streams.
    pub fn complete(&self, streams: &mut [StreamInfo]) {
        for (number, stream) in streams.iter_mut().enumerate() {
            if let (true, Some(shape)) = (stream.has_late_shape(), self.get(number)) {
                stream.shape = shape.to_vec();
            }
        }
    }
}
