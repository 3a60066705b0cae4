//! Types of values, and their conversion to those of streams.

use cntk_reader_core::Result;
use cntk_reader_core::format::buffer::ChunkBuffer;
use cntk_reader_core::sequence::ValueForm;
use cntk_reader_core::stream::ElementType;

/// The type of the values of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// One byte, 0 or 1.
    Bool,
    /// An integer of this many bytes.
    Unsigned(usize),
    /// An integer of this many bytes, with a sign.
    Signed(usize),
    /// 16-bit IEEE float.
    Half,
    Float,
    Double,
}

/// The types of values that can be read, for messages.
pub const READABLE: &str = "float16, float32, float64, bool, or integers of 8 to 64 bits, lowest byte first";

impl ValueType {
    /// The type that a header names, such as `<f4`.
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

    /// Bytes of a value.
    pub fn size(self) -> usize {
        match self {
            ValueType::Bool => 1,
            ValueType::Unsigned(size) | ValueType::Signed(size) => size,
            ValueType::Half => 2,
            ValueType::Float => 4,
            ValueType::Double => 8,
        }
    }

    /// The element type of a stream of such values, where the reader's is `precision`.
    pub fn element(self, precision: ElementType) -> ElementType {
        if self == ValueType::Double { ElementType::Double } else { precision }
    }

    /// The form in which a chunk stores the values as the file has them. `None` if they have to be
    /// converted.
    pub fn form(self, element: ElementType) -> Option<ValueForm> {
        match (self, element) {
            (ValueType::Bool | ValueType::Unsigned(1), _) => Some(ValueForm::Byte),
            (ValueType::Float, ElementType::Float) | (ValueType::Double, ElementType::Double) => {
                Some(ValueForm::Whole)
            }
            _ => None,
        }
    }

    /// Appends the values that `bytes` are, as values of a stream. Gives the number of the first
    /// integer that the stream's type cannot hold; then nothing is appended.
    pub fn convert(self, bytes: &[u8], element: ElementType, out: &mut ChunkBuffer) -> Result<Option<usize>> {
        macro_rules! integers {
            ($type:ty) => {{
                let numbers = bytes.as_chunks::<{ size_of::<$type>() }>().0;
                let decode = <$type>::from_le_bytes;
                if let Some(at) = numbers.iter().position(|&number| !is_exact(decode(number).into(), element))
                {
                    return Ok(Some(at));
                }
                match element {
                    ElementType::Float => {
                        out.extend(numbers, |number| (decode(number) as f32).to_ne_bytes())?
                    }
                    ElementType::Double => {
                        out.extend(numbers, |number| (decode(number) as f64).to_ne_bytes())?
                    }
                }
            }};
        }
        macro_rules! floats {
            ($size:literal, $decode:expr) => {{
                let numbers = bytes.as_chunks::<$size>().0;
                match element {
                    ElementType::Float => {
                        out.extend(numbers, |number| ($decode(number) as f32).to_ne_bytes())?
                    }
                    ElementType::Double => {
                        out.extend(numbers, |number| f64::from($decode(number)).to_ne_bytes())?
                    }
                }
            }};
        }
        match self {
            ValueType::Bool | ValueType::Unsigned(1) => integers!(u8),
            ValueType::Unsigned(2) => integers!(u16),
            ValueType::Unsigned(4) => integers!(u32),
            ValueType::Unsigned(_) => integers!(u64),
            ValueType::Signed(1) => integers!(i8),
            ValueType::Signed(2) => integers!(i16),
            ValueType::Signed(4) => integers!(i32),
            ValueType::Signed(_) => integers!(i64),
            ValueType::Half => floats!(2, |number| half(u16::from_le_bytes(number))),
            ValueType::Float => floats!(4, f32::from_le_bytes),
            ValueType::Double => floats!(8, f64::from_le_bytes),
        }
        Ok(None)
    }

    /// The integer that `bytes` are. `None` if the type is no integer.
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

/// Whether a type has exactly this number.
fn is_exact(number: i128, element: ElementType) -> bool {
    let most = match element {
        ElementType::Float => 1 << f32::MANTISSA_DIGITS,
        ElementType::Double => 1 << f64::MANTISSA_DIGITS,
    };
    // Others are the rare ones.
    (-most..=most).contains(&number)
        || match element {
            ElementType::Float => number as f32 as i128 == number,
            ElementType::Double => number as f64 as i128 == number,
        }
}

/// The number of 16 bits as one of 32, which has them all.
fn half(bits: u16) -> f32 {
    let (sign, exponent, mantissa) =
        (u32::from(bits & 0x8000) << 16, u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // Denormal numbers: multiples of 2^-24, which a float has as normal numbers.
        0 => (mantissa as f32 * (1.0 / 16_777_216.0)).to_bits(),
        // Infinity and NaN, with all its bits.
        0x1f => 0x7f80_0000 | mantissa << 13,
        _ => (exponent + 127 - 15) << 23 | mantissa << 13,
    };
    f32::from_bits(sign | magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_exact() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits), value, "{bits:#x}");
        }
        assert!(half(0x7e01).is_nan() && half(0x8000).is_sign_negative());
    }

    #[test]
    fn integers_are_exact_or_refused() {
        let convert = |value: ValueType, bytes: &[u8], element| {
            let mut out = ChunkBuffer::default();
            let wrong = value.convert(bytes, element, &mut out).expect("memory");
            (wrong, out.bytes().to_vec())
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
    fn types_are_known_by_their_names() {
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
