//! Value types of arrays, and their conversion to element types of streams.

use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::ValueForm;
use cntk_reader_core::stream::{Element, ElementType, f16};
use cntk_reader_core::with_element;

/// The value type of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// One byte, 0 or 1.
    Bool,
    /// An unsigned integer of this many bytes.
    Unsigned(usize),
    /// A signed integer of this many bytes.
    Signed(usize),
    /// 16-bit IEEE float.
    Half,
    Float,
    Double,
}

/// Returns the name in a header of a stream's element type.
pub fn name_of(element: ElementType) -> &'static str {
    match element {
        ElementType::Float => "<f4",
        ElementType::Double => "<f8",
        ElementType::Float16 => "<f2",
        ElementType::Int16 => "<i2",
        ElementType::UInt8 => "|u1",
        ElementType::Int32 => "<i4",
        ElementType::Int64 => "<i8",
        // As written by the package ml_dtypes; NumPy itself has no such type.
        ElementType::BFloat16 => "<V2",
        ElementType::Bool => "|b1",
    }
}

/// The readable value types, for messages.
pub const READABLE: &str = "float16, float32, float64, bool, or integers of 8 to 64 bits, lowest byte first";

impl ValueType {
    /// Parses a type name from a header, such as `<f4`.
    pub fn of(name: &str) -> Option<ValueType> {
        let (order, name) = match name.as_bytes().first()? {
            b'<' | b'>' | b'=' | b'|' => name.split_at(1),
            _ => ("<", name),
        };
        let (kind, size) = name.split_at_checked(1)?;
        let size = size.parse().ok()?;
        let value = match (kind, size) {
            ("b", 1) => ValueType::Bool,
            ("u", 1 | 2 | 4 | 8) => ValueType::Unsigned(size),
            ("i", 1 | 2 | 4 | 8) => ValueType::Signed(size),
            ("f", 2) => ValueType::Half,
            ("f", 4) => ValueType::Float,
            ("f", 8) => ValueType::Double,
            _ => return None,
        };
        (order != ">" || size == 1).then_some(value)
    }

    /// Returns the size of a value in bytes.
    pub fn size(self) -> usize {
        match self {
            ValueType::Bool => 1,
            ValueType::Unsigned(size) | ValueType::Signed(size) => size,
            ValueType::Half => 2,
            ValueType::Float => 4,
            ValueType::Double => 8,
        }
    }

    /// Returns the element type of a stream of such values: the type in the file, or the smallest
    /// one that represents all of its integers. float32 becomes `precision`.
    pub fn element(self, precision: ElementType) -> ElementType {
        match self {
            ValueType::Bool => ElementType::Bool,
            ValueType::Unsigned(1) => ElementType::UInt8,
            ValueType::Signed(1 | 2) => ElementType::Int16,
            ValueType::Signed(4) | ValueType::Unsigned(2) => ElementType::Int32,
            // Integers beyond the signed 64-bit range are refused when they are read.
            ValueType::Signed(_) | ValueType::Unsigned(_) => ElementType::Int64,
            ValueType::Half => ElementType::Float16,
            ValueType::Double => ElementType::Double,
            ValueType::Float => precision,
        }
    }

    /// Returns the form in which a chunk stores the values unchanged. Returns `None` if they must
    /// be converted or, as booleans, checked.
    pub fn form(self, element: ElementType) -> Option<ValueForm> {
        match (self, element) {
            (ValueType::Unsigned(1), ElementType::UInt8)
            | (ValueType::Signed(2), ElementType::Int16)
            | (ValueType::Signed(4), ElementType::Int32)
            | (ValueType::Signed(8), ElementType::Int64)
            | (ValueType::Half, ElementType::Float16)
            | (ValueType::Float, ElementType::Float)
            | (ValueType::Double, ElementType::Double) => Some(ValueForm::Whole),
            (ValueType::Unsigned(1), element) if element.is_real() => Some(ValueForm::Byte),
            _ => None,
        }
    }

    /// Calls `append` with the values in `bytes`, converted to the element type. If the type cannot
    /// represent a value, returns the index of the first such value without calling `append`.
    pub fn convert(
        self,
        bytes: &[u8],
        element: ElementType,
        append: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Option<usize>> {
        with_element!(element, T => self.convert_to::<T>(bytes, append))
    }

    fn convert_to<T: Element>(
        self,
        bytes: &[u8],
        append: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Option<usize>> {
        let mut values: Vec<T> = room::with_capacity(bytes.len() / self.size(), room::FILE)?;
        macro_rules! converted {
            ($size:literal, $value:expr) => {{
                let value = $value;
                for &number in bytes.as_chunks::<$size>().0 {
                    match value(number) {
                        Some(value) => values.push(value),
                        None => return Ok(Some(values.len())),
                    }
                }
            }};
        }
        macro_rules! integers {
            ($size:literal, $type:ty) => {
                converted!($size, |number| T::of_integer(<$type>::from_le_bytes(number).into()))
            };
        }
        match self {
            ValueType::Bool | ValueType::Unsigned(1) => integers!(1, u8),
            ValueType::Unsigned(2) => integers!(2, u16),
            ValueType::Unsigned(4) => integers!(4, u32),
            ValueType::Unsigned(_) => integers!(8, u64),
            ValueType::Signed(1) => integers!(1, i8),
            ValueType::Signed(2) => integers!(2, i16),
            ValueType::Signed(4) => integers!(4, i32),
            ValueType::Signed(_) => integers!(8, i64),
            ValueType::Half => converted!(2, |number| T::of_number(f16::from_le_bytes(number).into())),
            ValueType::Float => converted!(4, |number| T::of_number(f32::from_le_bytes(number).into())),
            ValueType::Double => converted!(8, |number| T::of_number(f64::from_le_bytes(number))),
        }
        append(bytemuck::cast_slice(&values))?;
        Ok(None)
    }

    /// Returns the integer in `bytes`, or `None` if the type is not integral.
    pub fn integer(self, bytes: &[u8]) -> Option<i128> {
        let is_negative = match self {
            ValueType::Signed(_) => bytes.last().is_some_and(|&last| last >= 0x80),
            ValueType::Unsigned(_) => false,
            _ => return None,
        };
        let mut all = [if is_negative { 0xff } else { 0 }; 16];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(i128::from_le_bytes(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_or_refused() {
        let convert = |value: ValueType, bytes: &[u8], element| {
            let mut out = Vec::new();
            let append = |values: &[u8]| {
                out.extend_from_slice(values);
                Ok(())
            };
            let wrong = value.convert(bytes, element, append).expect("memory");
            (wrong, out)
        };
        let (float, double) = (ElementType::Float, ElementType::Double);
        let numbers = [-(1i64 << 24), 1 << 40, i64::MIN];
        let bytes = numbers.map(i64::to_le_bytes).concat();
        let floats = numbers.map(|number| (number as f32).to_ne_bytes()).concat();
        assert_eq!(convert(ValueType::Signed(8), &bytes, float), (None, floats));
        let bytes = [0i64, (1 << 24) + 1].map(i64::to_le_bytes).concat();
        assert_eq!(convert(ValueType::Signed(8), &bytes, float), (Some(1), Vec::new()));
        assert_eq!(convert(ValueType::Signed(8), &bytes, double).0, None);
        for number in [i64::MAX, (1 << 53) + 1] {
            assert_eq!(convert(ValueType::Signed(8), &number.to_le_bytes(), double).0, Some(0));
        }
        assert_eq!(convert(ValueType::Unsigned(8), &u64::MAX.to_le_bytes(), double).0, Some(0));
        let (wrong, bytes) = convert(ValueType::Signed(1), &[0xff], float);
        assert_eq!((wrong, bytes), (None, (-1f32).to_ne_bytes().to_vec()));
        assert_eq!(ValueType::Signed(2).integer(&[0xfe, 0xff]), Some(-2));
        assert_eq!(ValueType::Unsigned(2).integer(&[0xfe, 0xff]), Some(65534));
    }

    #[test]
    fn type_names_are_parsed() {
        for (name, value) in [
            ("<f4", Some(ValueType::Float)),
            ("f8", Some(ValueType::Double)),
            ("|u1", Some(ValueType::Unsigned(1))),
            (">i1", Some(ValueType::Signed(1))),
            ("|b1", Some(ValueType::Bool)),
            (">f4", None),
            ("<c8", None),
            ("<U3", None),
            ("|O", None),
            ("<f16", None),
            ("", None),
            ("<", None),
            ("<é4", None),
        ] {
            assert_eq!(ValueType::of(name), value, "{name}");
        }
    }
}
