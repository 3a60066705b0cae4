//! Values of a type that a stream declares (`element`), instead of the file's precision.
//!
//! They are written like all numbers ([`number`]). Integers do not pass through floats: digits
//! become an integer, and a number that is not an integer, or does not fit, is an error. Floats are
//! rounded once, from the double of CNTK's arithmetic.
//!
//! A column stores these values as bytes ([`Column::typed`](super::output::Column::typed)), so that
//! the line parsers are not generic over a type for each stream. Each stream has the functions for
//! its type, which are called once per sample.

use super::blocks::Place;
use super::dense::{self, SLACK};
use super::number;
use super::output::ScratchVec;
use super::rules::{is_non_printable, is_value_delimiter};
use super::simd::Simd;
use cntk_reader_core::cpu::processor::{Processor, dispatch};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{Element, ElementType};
use cntk_reader_core::with_element;
use std::marker::PhantomData;

/// Minimum number of values in a sample that is read by blocks.
const MANY: usize = 16;

/// Integers below this are exact in doubles, and so are all intermediate results of CNTK's
/// arithmetic.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Why a number is not a value of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// It is not an integer.
    Fraction,
    /// It is beyond the type's range.
    Range,
}

/// Properties of a stored number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    pub is_finite: bool,
    pub is_zero: bool,
}

/// Appends the value of a number, given its text and its double.
type Push = fn(&[u8], f64, &mut ScratchVec<u8>) -> Result<Stored, Misfit>;

/// The functions of one type.
#[derive(Debug)]
struct Functions {
    element: ElementType,
    sample: fn(&[u8], usize, usize, &mut [u8]) -> Option<Place>,
    convert: fn(Processor, &[f64], &mut [u8]) -> Option<()>,
    value: Push,
    not_finite: fn(&[u8]) -> u64,
}

/// Reader of values of one type. A reference, so that the array of streams that the line parser
/// looks at stays small.
#[derive(Debug, Clone, Copy)]
pub struct Typed(&'static Functions);

impl Typed {
    /// Returns the reader of this type.
    pub(crate) fn new(element: ElementType) -> Typed {
        with_element!(element, T => Typed(const {
            &Functions {
                element: T::TYPE,
                sample: sample::<T>,
                convert: convert::<T>,
                value: value::<T>,
                not_finite: not_finite::<T>,
            }
        }))
    }

    /// Type of the values.
    pub(crate) fn element(&self) -> ElementType {
        self.0.element
    }

    /// Reads one dense sample from byte `at` of the text, and returns the place after it. `None` if
    /// anything is unusual. With `is_quiet`, missing values cause no message.
    pub(crate) fn read(
        &self,
        simd: impl Simd,
        text: &[u8],
        at: usize,
        dim: usize,
        is_quiet: bool,
        (numbers, out): (&mut Vec<f64>, &mut ScratchVec<u8>),
    ) -> Option<usize> {
        let size = self.0.element.size();
        let bytes = dim.checked_mul(size)?;
        let values = out.spare(bytes)?.get_mut(..bytes)?;
        let place = match self.by_blocks(simd, text, at, dim, numbers, values) {
            Some(place) => place,
            None => (self.0.sample)(text, at, dim, values)?,
        };
        let Place { at, count } = place;
        if count < dim {
            if !is_quiet {
                return None;
            }
            values.get_mut(count * size..)?.fill(0);
        }
        out.advance(bytes);
        Some(at)
    }

    /// Reads a sample of many values as doubles, by blocks, and converts them. `None` if the values
    /// have to be read one by one.
    fn by_blocks(
        &self,
        simd: impl Simd,
        text: &[u8],
        at: usize,
        dim: usize,
        numbers: &mut Vec<f64>,
        out: &mut [u8],
    ) -> Option<Place> {
        if dim < MANY {
            return None;
        }
        if numbers.len() < dim + SLACK {
            room::resize(numbers, dim + SLACK, 0.0, room::CHUNK).ok()?;
        }
        let place = doubles(simd.processor(), text, at, numbers, dim)?;
        // CNTK's arithmetic is exact only for plain digits; integers in another notation are read
        // one by one.
        let sample = text.get(at..place.at)?;
        if !is_float(self.0.element) && memchr::memchr3(b'.', b'e', b'E', sample).is_some() {
            return None;
        }
        (self.0.convert)(simd.processor(), numbers.get(..place.count)?, out)?;
        Some(place)
    }

    /// Appends the value of a number, `text`, which [`number::read`] has read as `number`.
    pub(crate) fn push(&self, text: &[u8], number: f64, out: &mut ScratchVec<u8>) -> Result<Stored, Misfit> {
        (self.0.value)(text, number, out)
    }

    /// Returns the number of infinite or NaN values in these bytes.
    pub(crate) fn not_finite(&self, bytes: &[u8]) -> u64 {
        if is_float(self.0.element) { (self.0.not_finite)(bytes) } else { 0 }
    }
}

/// Whether the type has fractions.
const fn is_float(element: ElementType) -> bool {
    element.is_real() || matches!(element, ElementType::Float16 | ElementType::BFloat16)
}

fn not_finite<T: Element>(bytes: &[u8]) -> u64 {
    let values = bytes.chunks_exact(size_of::<T>()).map(bytemuck::checked::pod_read_unaligned::<T>);
    values.filter(|value| !value.is_finite()).count() as u64
}

dispatch! {
    /// Reads the values of one dense sample as doubles.
    #[inline(never)]
    fn doubles(text: &[u8], at: usize, out: &mut [f64], dim: usize) -> Option<Place> = doubles_with;
}

/// See [`doubles`].
#[inline(always)]
fn doubles_with<S: Simd>(simd: S, text: &[u8], at: usize, out: &mut [f64], dim: usize) -> Option<Place> {
    dense::read(simd, text, at, out, dim)
}

/// Writes the values of numbers. `None` if a number is not a value of the type, or is an integer
/// that a double may not hold exactly.
fn convert<T: Element>(processor: Processor, numbers: &[f64], out: &mut [u8]) -> Option<()> {
    match T::TYPE {
        ElementType::UInt8 => small_integers(processor, numbers, out, PhantomData::<u8>),
        ElementType::Bool => small_integers(processor, numbers, out, PhantomData::<bool>),
        ElementType::Int16 => small_integers(processor, numbers, out, PhantomData::<i16>),
        ElementType::Int32 => small_integers(processor, numbers, out, PhantomData::<i32>),
        _ => {
            let mut are_values = true;
            for (&number, out) in numbers.iter().zip(out.chunks_exact_mut(size_of::<T>())) {
                let value = if is_float(T::TYPE) {
                    T::of_number(number)
                } else {
                    are_values &= number.abs() < EXACT;
                    T::of_integer((number as i64).into())
                };
                are_values &= value.is_some();
                out.copy_from_slice(bytemuck::bytes_of(&value.unwrap_or_default()));
            }
            are_values.then_some(())
        }
    }
}

/// An integer of up to 32 bits.
trait SmallInteger: bytemuck::NoUninit + Into<f64> {
    /// Returns the integer in the lowest bits.
    fn of_bits(bits: u64) -> Self;
}

macro_rules! small_integer {
    ($($type:ty: $of_bits:expr),*) => {$(
        impl SmallInteger for $type {
            #[inline(always)]
            fn of_bits(bits: u64) -> $type {
                let of_bits: fn(u64) -> $type = $of_bits;
                of_bits(bits)
            }
        }
    )*};
}

small_integer!(u8: |bits| bits as u8, i16: |bits| bits as i16, i32: |bits| bits as i32, bool: |bits| bits & 1 == 1);

dispatch! {
    /// [`convert`] for small integers.
    #[inline(never)]
    fn small_integers<T: SmallInteger>(
        numbers: &[f64],
        out: &mut [u8],
        integer: PhantomData<T>,
    ) -> Option<()> = small_integers_with;
}

/// Body of [`small_integers`]. The loop has no branches, so that it is vectorized; a conversion
/// from `f64` by `as` would not be, because it clamps.
#[inline(always)]
fn small_integers_with<T: SmallInteger, S: Simd>(
    _: S,
    numbers: &[f64],
    out: &mut [u8],
    _: PhantomData<T>,
) -> Option<()> {
    /// 2^52 + 2^51: the sum with an integer below 2^51 has the integer in its low bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    let mut differing = 0;
    for (&number, out) in numbers.iter().zip(out.chunks_exact_mut(size_of::<T>())) {
        let value = T::of_bits((number + SHIFT).to_bits());
        // Adding 0 turns -0 into 0. NaN, and numbers that are not values of the type, differ from
        // the value.
        differing |= value.into().to_bits() ^ (number + 0.0).to_bits();
        out.copy_from_slice(bytemuck::bytes_of(&value));
    }
    (differing == 0).then_some(())
}

/// Reads the values of one sample into `out`, which has room for `dim` of them, and returns its
/// end.
fn sample<T: Element>(text: &[u8], mut at: usize, dim: usize, out: &mut [u8]) -> Option<Place> {
    let mut places = out.chunks_exact_mut(size_of::<T>());
    let mut count = 0;
    loop {
        let byte = *text.get(at)?;
        if is_value_delimiter(byte) {
            at += 1;
        } else if byte == b'|' || is_non_printable(byte) {
            return Some(Place { at, count });
        } else if count < dim {
            let (value, end) = quick::<T>(text, at)?;
            places.next()?.copy_from_slice(bytemuck::bytes_of(&value));
            (at, count) = (end, count + 1);
        } else {
            return None;
        }
    }
}

/// Returns the value of the number at byte `at` of the text, and the place after it. `None` if
/// there is no number, or if it is not a value of this type.
#[inline(always)]
fn quick<T: Element>(text: &[u8], at: usize) -> Option<(T, usize)> {
    if is_float(T::TYPE) {
        let (number, end) = number::quick(text, at)?;
        return Some((T::of_number(number)?, end));
    }
    let negative = *text.get(at)? == b'-';
    // Up to 15 digits; all other notations take the slow path.
    if let Some((digits, end)) = number::integer(text, at + usize::from(negative))
        && !matches!(text.get(end)?, b'.' | b'e' | b'E')
    {
        let integer = digits.cast_signed();
        return Some((T::of_integer(if negative { -integer } else { integer }.into())?, end));
    }
    let rest = text.get(at..)?;
    let reading = number::read(rest);
    reading.value.ok()?;
    let integer = integer(rest.get(..reading.length)?).ok()?;
    Some((T::of_integer(integer)?, at + reading.length))
}

fn value<T: Element>(text: &[u8], number: f64, out: &mut ScratchVec<u8>) -> Result<Stored, Misfit> {
    let value = match is_float(T::TYPE) {
        true => T::of_number(number),
        false => T::of_integer(integer(text)?),
    };
    let value = value.ok_or(Misfit::Range)?;
    let bytes = bytemuck::bytes_of(&value);
    // If there is no memory, `check_memory` rejects the whole output.
    if let Some(spare) = out.spare(bytes.len()).and_then(|spare| spare.get_mut(..bytes.len())) {
        spare.copy_from_slice(bytes);
        out.advance(bytes.len());
    }
    Ok(Stored { is_finite: value.is_finite(), is_zero: value == T::default() })
}

/// Returns the integer that a number of any length equals, such as `-12`, `3.0` or `1e2`; `25e-1`
/// is none.
///
/// No type has integers of more than 19 digits, so significant digits are accumulated only slightly
/// beyond that, and the power of ten is counted.
fn integer(text: &[u8]) -> Result<i128, Misfit> {
    /// More digits than any integer that fits.
    const DIGITS: i64 = 20;
    let (mantissa, power) = match text.iter().position(|byte| byte | 0x20 == b'e') {
        Some(letter) => (&text[..letter], &text[letter + 1..]),
        None => (text, &[][..]),
    };
    // The digits without zeros at either end as a number, their count, the zeros after them so far,
    // and the number of digits after the point.
    let (mut sum, mut digits, mut zeros, mut fraction) = (0i128, 0i64, 0i64, 0i64);
    let mut is_fraction = false;
    for byte in mantissa {
        match byte {
            b'.' => is_fraction = true,
            b'0' => {
                zeros += i64::from(digits > 0);
                fraction += i64::from(is_fraction);
            }
            b'1'..=b'9' => {
                digits += zeros + 1;
                if digits <= DIGITS {
                    sum = sum * 10i128.pow(zeros as u32 + 1) + i128::from(byte - b'0');
                }
                zeros = 0;
                fraction += i64::from(is_fraction);
            }
            _ => {}
        }
    }
    if digits == 0 {
        return Ok(0);
    }
    let size = power
        .iter()
        .filter(|byte| byte.is_ascii_digit())
        .fold(0i64, |size, digit| size.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    let size = if power.first() == Some(&b'-') { -size } else { size };
    // The last digit is not 0, so a negative power leaves a fraction.
    let power = size.saturating_add(zeros).saturating_sub(fraction);
    if power < 0 {
        return Err(Misfit::Fraction);
    }
    if digits.saturating_add(power) > DIGITS {
        return Err(Misfit::Range);
    }
    let sum = sum * 10i128.pow(power as u32);
    Ok(if text.first() == Some(&b'-') { -sum } else { sum })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::cpu::processor::for_each_instruction_set;

    fn check_small<T: SmallInteger + Element>(processor: Processor) {
        let of_range = (0..20).map(|power| f64::from(1 << power)).flat_map(|n| [n - 1.0, n, -n, -n - 1.0]);
        let others = [-0.0, 0.5, -0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 5e-324];
        let wide = [31, 32, 33, 51, 52, 53, 63, 64].map(|power| 2f64.powi(power));
        let wide = wide.into_iter().flat_map(|n| [n, -n, n - 1.0, n + 1.0, n + 5.0, -n - 1.0]);
        for number in of_range.chain(others).chain(wide) {
            let mut out = [0; 8];
            let out = &mut out[..size_of::<T>()];
            let expected = T::of_number(number);
            let found = small_integers(processor, &[number], out, PhantomData::<T>);
            assert_eq!(found.is_some(), expected.is_some(), "{number} as {}", T::TYPE.name());
            if let Some(expected) = expected {
                assert_eq!(out, bytemuck::bytes_of(&expected), "{number} as {}", T::TYPE.name());
            }
        }
    }

    #[test]
    fn small_integers_match_the_type() {
        for_each_instruction_set!(instructions => {
            let processor = cntk_reader_core::cpu::processor::InstructionSet::processor(instructions);
            check_small::<u8>(processor);
            check_small::<bool>(processor);
            check_small::<i16>(processor);
            check_small::<i32>(processor);
        });
    }

    #[test]
    fn large_integers_are_not_read_as_doubles() {
        for_each_instruction_set!(instructions => {
            let processor = cntk_reader_core::cpu::processor::InstructionSet::processor(instructions);
            for (number, is_exact) in [(EXACT - 1.0, true), (1.0 - EXACT, true), (EXACT, false), (-EXACT, false)] {
                let mut out = [0; 8];
                assert_eq!(convert::<i64>(processor, &[number], &mut out).is_some(), is_exact, "{number}");
                assert!(!is_exact || i64::from_ne_bytes(out) == number as i64);
            }
        });
    }

    #[test]
    fn unusual_values_are_counted() {
        let count = |element, bytes: &[u8]| Typed::new(element).not_finite(bytes);
        let halves = [1.0, f32::INFINITY, f32::NAN, -1.0, f32::NEG_INFINITY]
            .map(cntk_reader_core::stream::f16::from_f32);
        assert_eq!(count(ElementType::Float16, bytemuck::cast_slice(&halves)), 3);
        assert_eq!(count(ElementType::Double, bytemuck::cast_slice(&[1.0, f64::NAN])), 1);
        assert_eq!(count(ElementType::Int16, &[0xff; 8]), 0);
        assert_eq!(count(ElementType::Bool, &[1, 0]), 0);
    }

    #[test]
    fn values_are_appended() {
        let push = |element, text: &str| -> Result<(Vec<u8>, bool, bool), Misfit> {
            let mut out = ScratchVec::default();
            let number = number::read(text.as_bytes()).value.expect("a number");
            let stored = Typed::new(element).push(text.as_bytes(), number, &mut out)?;
            Ok((out.to_vec(), stored.is_finite, stored.is_zero))
        };
        let bytes = |value: i16| value.to_ne_bytes().to_vec();
        assert_eq!(push(ElementType::Int16, "-300"), Ok((bytes(-300), true, false)));
        assert_eq!(push(ElementType::Int16, "0.0"), Ok((bytes(0), true, true)));
        assert_eq!(push(ElementType::Int16, "0.5"), Err(Misfit::Fraction));
        assert_eq!(push(ElementType::Int16, "40000"), Err(Misfit::Range));
        assert_eq!(push(ElementType::Bool, "1"), Ok((vec![1], true, false)));
        assert_eq!(push(ElementType::Float16, "1e-9"), Ok((vec![0, 0], true, true)));
        let (_, is_finite, is_zero) = push(ElementType::Float16, "7e9").expect("an infinity");
        assert_eq!((is_finite, is_zero), (false, false));
    }

    #[test]
    fn integers_are_read_exactly() {
        let read = |text: &str| integer(text.as_bytes());
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("+007", 7),
            ("3.", 3),
            ("3.000", 3),
            ("1e2", 100),
            ("1.50e1", 15),
            ("-1200e-2", -12),
            ("0e400", 0),
            ("0.0e-999999999999999999999", 0),
            ("9007199254740993", 9_007_199_254_740_993),
            ("9223372036854775807", i64::MAX.into()),
            ("-9223372036854775808", i64::MIN.into()),
            ("92233720368547758.07e2", i64::MAX.into()),
            ("9223372036854775808", 9_223_372_036_854_775_808),
        ] {
            assert_eq!(read(text), Ok(value), "{text}");
        }
        let small = format!("0.{}1e31", "0".repeat(30));
        assert_eq!(read(&small), Ok(1));
        assert_eq!(read(&format!("1{}e-40", "0".repeat(40))), Ok(1));
        let fractions =
            ["0.5", "-2.5", "1e-1", "25e-1", "2.9999999999999999999999999999999", "123456789012345678901e-1"];
        for text in fractions {
            assert_eq!(read(text), Err(Misfit::Fraction), "{text}");
        }
        for text in ["1e40", "123456789012345678901", "1e99999999999999999999999", "-1e20"] {
            assert_eq!(read(text), Err(Misfit::Range), "{text}");
        }
        let long = format!("1{}", "0".repeat(400));
        assert_eq!(read(&long), Err(Misfit::Range));
    }
}
