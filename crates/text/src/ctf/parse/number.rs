//! Real numbers of the text format: CNTK's arithmetic, bit for bit.
//!
//! CNTK does not round numbers correctly. It accumulates the digits before and after the point in
//! two doubles, divides the second by a power of ten, adds, and multiplies by `pow(10, exponent)`:
//! every step rounds. Bitwise reproducible training needs the same steps, so no library routine can
//! replace them. [`read`] walks the digits one by one and explains every failure; [`quick`]
//! computes the same bits in integer registers.

use cntk_reader_core::cpu::digits::{joined, leading_digits, leading_runs, load8};
use cntk_reader_core::memory::compact::Value;
use cntk_reader_core::system::power_of_ten;
use std::sync::LazyLock;

/// Why a text is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// A number cannot begin with this byte.
    Start(u8),
    /// This byte, which is no digit, follows a sign.
    Sign(u8),
    /// This byte, which is neither digit nor sign, follows an exponent's letter.
    Exponent(u8),
    /// This byte, which is no digit, follows an exponent's sign.
    ExponentSign(u8),
    /// The text ended where a digit was required.
    Ended,
}

impl Flaw {
    /// Returns the byte that was found instead of a digit.
    pub(crate) fn found(self) -> Option<u8> {
        match self {
            Flaw::Start(byte) | Flaw::Sign(byte) | Flaw::Exponent(byte) | Flaw::ExponentSign(byte) => {
                Some(byte)
            }
            Flaw::Ended => None,
        }
    }
}

/// Result of [`read`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// The number, or why there is none.
    pub value: Result<f64, Flaw>,
    /// Number of bytes of the number, or of bytes before the one that is wrong.
    pub length: usize,
    /// Whether the text ended with the number, so that more digits might have followed.
    pub at_end: bool,
}

/// Reads the number at the start of `text`: `[+-] digit+ ['.' digit*]` or
/// `[+-] digit+ ['.' digit+] e [+-] digit+`. It ends before the first byte that cannot continue it.
pub fn read(text: &[u8]) -> Reading {
    let mut at = 0;
    let flaw = |at: usize, why: fn(u8) -> Flaw| Reading {
        value: Err(text.get(at).map_or(Flaw::Ended, |&byte| why(byte))),
        length: at,
        at_end: at == text.len(),
    };
    let negative = text.first() == Some(&b'-');
    let signed = negative || text.first() == Some(&b'+');
    at += usize::from(signed);
    let Some((mut number, _)) = digits(text, &mut at) else {
        return flaw(at, if signed { Flaw::Sign } else { Flaw::Start });
    };
    let mut may_have_exponent = true;
    if text.get(at) == Some(&b'.') {
        at += 1;
        match digits(text, &mut at) {
            Some((fraction, divisor)) => number += defined(fraction / divisor),
            None => may_have_exponent = false,
        }
    }
    if negative {
        number = -number;
    }
    if may_have_exponent && matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        let negative = text.get(at) == Some(&b'-');
        let signed = negative || text.get(at) == Some(&b'+');
        at += usize::from(signed);
        let Some((exponent, _)) = digits(text, &mut at) else {
            return flaw(at, if signed { Flaw::ExponentSign } else { Flaw::Exponent });
        };
        number = scaled(number, power_of_ten(if negative { -exponent } else { exponent }));
    }
    Reading { value: Ok(number), length: at, at_end: at == text.len() }
}

/// Returns a run of digits as a double, accumulated one by one, and `10^digits`, multiplied up one
/// by one.
fn digits(text: &[u8], at: &mut usize) -> Option<(f64, f64)> {
    let mut found = None;
    while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
        let digit = f64::from(digit - b'0');
        found =
            Some(found.map_or((digit, 10.0), |(sum, power): (f64, f64)| (sum * 10.0 + digit, power * 10.0)));
        *at += 1;
    }
    found
}

/// The NaN that x86-64 computes from operands that are not NaN: its sign bit is set. Other
/// processors, and compilers that evaluate such an operation in advance, produce one without a
/// sign.
const NAN_OF_X86: f64 = f64::from_bits(0xfff8_0000_0000_0000);

/// Returns a quotient as x86-64 computes it, on every processor: infinity divided by infinity is
/// [`NAN_OF_X86`].
#[inline(always)]
fn defined(quotient: f64) -> f64 {
    if quotient.is_nan() { NAN_OF_X86 } else { quotient }
}

/// Returns the product of a number and a power of ten as x86-64 computes it, on every processor: a
/// number that is a NaN stays that NaN, and zero times infinity is [`NAN_OF_X86`].
#[inline(always)]
pub(crate) fn scaled(number: f64, power: f64) -> f64 {
    let product = number * power;
    match product.is_nan() {
        true if number.is_nan() => number,
        true => NAN_OF_X86,
        false => product,
    }
}

/// [`POWERS`] covers exponents from minus this to plus this. Powers of ten beyond are 0 or infinite
/// in doubles.
const LARGEST_EXPONENT: usize = 400;

/// `power_of_ten(-400 ..= 400)`, computed on first use.
pub(crate) static POWERS: LazyLock<Box<[f64]>> = LazyLock::new(|| {
    let limit = LARGEST_EXPONENT as i32;
    (-limit..=limit).map(|exponent| power_of_ten(f64::from(std::hint::black_box(exponent)))).collect()
});

/// [`usual_powers`] covers exponents from minus this to plus this. Their product with eight digits
/// is finite, and 0 only if the digits are.
pub(crate) const USUAL_EXPONENT: i32 = 300;

/// Returns `power_of_ten(-300 ..= 300)`.
#[inline(always)]
pub(crate) fn usual_powers() -> &'static [f64] {
    let beyond = LARGEST_EXPONENT - USUAL_EXPONENT as usize;
    POWERS.get(beyond..=2 * LARGEST_EXPONENT - beyond).unwrap_or_default()
}

/// Returns the element of [`POWERS`] for an integral exponent, if there is one: any exponent
/// outside the table, however large, maps to an index beyond its end.
#[inline(always)]
pub(crate) fn power(powers: &[f64], exponent: f64) -> Option<f64> {
    powers.get((exponent as i64).wrapping_add(LARGEST_EXPONENT as i64) as usize).copied()
}

/// Maximum digits of a run that [`quick`] reads. Numbers with longer runs are left to [`read`].
const LONGEST_RUN: usize = 40;

/// `10^k` as CNTK computes it, by `k` multiplications by ten. Exact up to `10^22`.
pub(crate) const DIVISORS: [f64; LONGEST_RUN + 1] = {
    let mut table = [1.0; LONGEST_RUN + 1];
    let mut k = 1;
    while k < table.len() {
        table[k] = table[k - 1] * 10.0;
        k += 1;
    }
    table
};

/// Returns a run of digits as the double that [`digits`] computes, and the number of digits. `None`
/// if the text is too short to find the end of the run: it is read eight bytes at a time.
///
/// Up to 16 digits are accumulated as an integer, which gives the same double: the steps of
/// [`digits`] are exact below 2^53, and the step for the last of 16 digits rounds the exact sum
/// once, as the conversion of the integer does. Further digits are added one by one.
#[inline(always)]
fn run(text: &[u8], at: usize) -> Option<(f64, usize)> {
    let (count, first) = leading_digits(load8(text, at)?);
    if count < 8 {
        return Some((joined(first, count) as f64, count as usize));
    }
    let (more, second) = leading_digits(load8(text, at + 8)?);
    let scale = [1u64, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000][more as usize];
    let mut sum = (joined(first, 8) * scale + joined(second, more)) as f64;
    let mut count = 8 + more as usize;
    if more == 8 {
        while let Some(digit) = text.get(at + count).filter(|byte| byte.is_ascii_digit()) {
            sum = sum * 10.0 + f64::from(digit - b'0');
            count += 1;
        }
    }
    Some((sum, count))
}

/// Reads a run of 1 to 15 digits from byte `at` as an integer, and returns the place after it as
/// well. `None` if there is no such run, or if the text ends less than eight bytes after it.
#[inline(always)]
pub(crate) fn integer(text: &[u8], at: usize) -> Option<(u64, usize)> {
    let (count, digits) = leading_digits(load8(text, at)?);
    if count < 8 {
        return (count > 0).then(|| (joined(digits, count), at + count as usize));
    }
    let (more, rest) = leading_digits(load8(text, at + 8)?);
    if more == 8 {
        return None;
    }
    let scale = 10u64.pow(more);
    Some((joined(digits, 8) * scale + joined(rest, more), at + 8 + more as usize))
}

/// [`read`] for numbers in the middle of a text: returns the number that begins at byte `at`, and
/// the place after it. `None` if there is none, if it is so long that [`read`] has to look, or if
/// the text ends less than eight bytes after it.
#[inline(always)]
pub(crate) fn quick(text: &[u8], mut at: usize) -> Option<(f64, usize)> {
    let sign = *text.get(at)?;
    let negative = sign == b'-';
    at += usize::from(negative | (sign == b'+'));
    let (mut number, count) = run(text, at)?;
    if count == 0 {
        return None;
    }
    at += count;
    let mut may_have_exponent = true;
    let mut byte = *text.get(at)?;
    if byte == b'.' {
        let (fraction, count) = run(text, at + 1)?;
        // Without digits, this adds 0 / 1.
        number += fraction / DIVISORS.get(count)?;
        may_have_exponent = count > 0;
        at += 1 + count;
        byte = *text.get(at)?;
    }
    number = f64::from_bits(number.to_bits() | (u64::from(negative) << 63));
    if (byte | 0x20) == b'e' && may_have_exponent {
        let (power, end) = exponent(text, at + 1)?;
        return Some((scaled(number, power), end));
    }
    Some((number, at))
}

/// [`quick`] for numbers that are mostly short, as a value. An `f32` without a power and with at
/// most seven digits is read with its point left out and divided once, as
/// [`Simd`](super::simd::Simd) does with several: this gives the same value as CNTK's steps.
/// Samples of one decimal are 16 % faster than with [`quick`], single entries 4 %.
#[inline(always)]
pub(crate) fn value<T: Value>(text: &[u8], at: usize) -> Option<(T, usize)> {
    let negative = *text.get(at)? == b'-';
    let first = at + usize::from(negative);
    let (whole, end, digits) = leading_runs(load8(text, first)?);
    if (1..8).contains(&whole) && size_of::<T>() == size_of::<f32>() {
        let has_point = (digits >> (8 * whole)) as u8 == b'.' ^ b'0';
        let (length, count, digits) = if has_point {
            let before = (1 << (8 * whole)) - 1;
            (end, end - 1, digits & before | digits >> 8 & !before)
        } else {
            (whole, whole, digits)
        };
        let ender = *text.get(first + length as usize)?;
        if !ender.is_ascii_digit() && ender | 0x20 != b'e' {
            let number = joined(digits, count) as i32 as f32 / FLOAT_DIVISORS[(count - whole) as usize % 8];
            let value = T::from_f64(number.into()).negated_if(u64::from(negative));
            return Some((value, first + length as usize));
        }
    }
    quick(text, at).map(|(number, end)| (T::from_f64(number), end))
}

/// Powers of ten.
const FLOAT_DIVISORS: [f32; 8] = [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

/// Returns the power of ten after an exponent's letter, and the place after it.
#[inline(never)]
fn exponent(text: &[u8], mut at: usize) -> Option<(f64, usize)> {
    let sign = *text.get(at)?;
    let negative = sign == b'-';
    at += usize::from(negative | (sign == b'+'));
    let (count, digits) = leading_digits(load8(text, at)?);
    let size = joined(digits, count) as usize;
    if count == 0 || count == 8 || size > LARGEST_EXPONENT {
        return None;
    }
    let place = if negative { LARGEST_EXPONENT - size } else { LARGEST_EXPONENT + size };
    Some((POWERS[place], at + count as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::testing::cases;
    use proptest::prelude::*;

    fn quickly(text: &str) -> Option<(f64, usize)> {
        let mut padded = text.as_bytes().to_vec();
        padded.push(b'\n');
        padded.extend([0xff; 8]);
        let found = quick(&padded, 0);
        let bits = |found: Option<(f64, usize)>| found.map(|(number, length)| (number.to_bits(), length));
        let single = value::<f32>(&padded, 0).map(|(number, length)| (number.to_bits(), length));
        assert_eq!(single, found.map(|(number, length)| ((number as f32).to_bits(), length)), "{text}");
        assert_eq!(bits(value::<f64>(&padded, 0)), bits(found), "{text}");
        found
    }

    #[test]
    fn bits_match_cntk() {
        for (text, bits) in [
            ("1e23", 0x44b5_2d02_c7e1_4af7u64),
            ("123.456e-3", 0x3fbf_9acf_fa7e_b6c0),
            ("99999999999999999", 0x4376_3457_85d8_a001),
            ("0.99999999999999999999", 0x3ff0_0000_0000_0001),
            ("3.4028235e38", 0x47ef_ffff_e54d_aff9),
            ("123456789012345678901234567890", 0x45f8_ee90_ff6c_373d),
            ("1.7976931348623157e308", f64::MAX.to_bits()),
            ("0e400", 0xfff8_0000_0000_0000),
            ("0.0e999", 0xfff8_0000_0000_0000),
            ("-1e-400", 0x8000_0000_0000_0000),
            ("-0", 0x8000_0000_0000_0000),
            ("-0.0", 0x8000_0000_0000_0000),
            ("4.9e-324", 0),
            ("1e309", f64::INFINITY.to_bits()),
        ] {
            let reading = read(text.as_bytes());
            assert_eq!(reading.value.map(f64::to_bits), Ok(bits), "{text}");
            assert!(reading.at_end && reading.length == text.len());
            if let Some((number, length)) = quickly(text) {
                assert_eq!((number.to_bits(), length), (bits, text.len()), "{text}");
            }
        }
        assert_eq!(read(format!("0.{}", "1".repeat(309)).as_bytes()).value, Ok(0.0));
        let ones = format!("0.{}", "1".repeat(308));
        assert_eq!(read(ones.as_bytes()).value.map(f64::to_bits), Ok(0x3fbc_71c7_1c71_c725));
        let nines = format!("0.{}", "9".repeat(309));
        assert_eq!(read(nines.as_bytes()).value.map(|v| (v as f32).to_bits()), Ok(0xffc0_0000));
    }

    /// The bits are recorded from CNTK 2.7. Processors differ in the sign of a NaN that they
    /// compute.
    #[test]
    fn nans_have_the_bits_of_x86() {
        let (nines, zeros) = ("9".repeat(309), "0".repeat(310));
        let nan = 0xfff8_0000_0000_0000u64;
        for (text, bits) in [
            // Zero times infinity, with either sign, at the edge of the table of powers and beyond
            // it.
            ("0e309".to_owned(), nan),
            ("-0e309".to_owned(), nan),
            ("0e401".to_owned(), nan),
            ("-0.0e12345678".to_owned(), nan),
            // Infinity times zero.
            (format!("1{zeros}e-400"), nan),
            (format!("-1{zeros}e-400"), nan),
            // Infinity divided by infinity. The minus is applied after the division and flips the
            // sign; the power comes last.
            (format!("0.{nines}"), nan),
            (format!("-0.{nines}"), nan ^ (1 << 63)),
            (format!("1{zeros}.{nines}"), nan),
            (format!("-1{zeros}.{nines}"), nan ^ (1 << 63)),
            (format!("-0.{nines}e400"), nan ^ (1 << 63)),
            (format!("0.{nines}e-400"), nan),
            // Not NaN.
            (format!("1{zeros}"), f64::INFINITY.to_bits()),
            (format!("1{zeros}e400"), f64::INFINITY.to_bits()),
            (format!("-1{zeros}.5"), f64::NEG_INFINITY.to_bits()),
        ] {
            assert_eq!(read(text.as_bytes()).value.map(f64::to_bits), Ok(bits), "{text}");
            let single = read(text.as_bytes()).value.map(|value| (value as f32).to_bits());
            let sign = (bits >> 32) as u32 & 0x8000_0000;
            let expected = if f64::from_bits(bits).is_nan() { 0x7fc0_0000 } else { 0x7f80_0000 };
            assert_eq!(single, Ok(sign | expected), "{text}");
            if let Some((number, _)) = quickly(&text) {
                assert_eq!(number.to_bits(), bits, "{text}");
            }
        }
    }

    /// The checksum of all powers is the one of glibc 2.28 and newer on x86-64.
    #[test]
    fn powers_of_ten_match_x86() {
        let sum = POWERS.iter().fold(0u64, |sum, power| sum.rotate_left(7) ^ power.to_bits());
        assert_eq!(sum, 0x349d_9c2f_0648_819d, "{sum:#x}");
    }

    #[test]
    fn usual_powers_are_finite() {
        let powers = usual_powers();
        let at = |exponent: i32| powers[(exponent + USUAL_EXPONENT) as usize];
        assert_eq!(powers.len(), 601);
        assert_eq!([-300, -1, 0, 1, 300].map(at), [1e-300, 0.1, 1.0, 10.0, 1e300]);
        let of = |exponent: f64| power(&POWERS, exponent);
        assert_eq!([-400.0, -5.0, 0.0, 400.0].map(of), [0.0, 1e-5, 1.0, f64::INFINITY].map(Some));
        assert_eq!([-401.0, 401.0, 1e300, f64::NEG_INFINITY].map(of), [None; 4]);
    }

    #[test]
    fn integers_of_up_to_15_digits_are_read() {
        for (text, expected) in [
            ("x", None),
            ("7:", Some((7, 1))),
            ("1234567 ", Some((1_234_567, 7))),
            ("12345678 ", Some((12_345_678, 8))),
            ("123456789 ", Some((123_456_789, 9))),
            ("000000000000012|", Some((12, 15))),
            ("123456789012345.", Some((123_456_789_012_345, 15))),
            ("1234567890123456 ", None),
        ] {
            let padded = format!("9{text}.......");
            assert_eq!(
                integer(padded.as_bytes(), 1),
                expected.map(|(value, end)| (value, end + 1)),
                "{text}"
            );
        }
        assert_eq!(integer(b"1234 78", 0), None, "too short to look at eight bytes");
        assert_eq!(integer(b"12345678 01234", 0), None, "too short after eight digits");
    }

    /// Longer exponents are left to [`read`].
    #[test]
    fn quick_reads_exponents_of_the_table() {
        for (text, is_quick) in [
            ("1e400", true),
            ("1e-400", true),
            ("1e+0000007", true),
            ("1e401", false),
            ("1e-401", false),
            ("1e00000007", false),
            ("1e", false),
        ] {
            assert_eq!(quickly(text).is_some(), is_quick, "{text}");
        }
        // A run of digits may be long, and a fraction has up to 40 digits.
        for (digits, fraction) in [(8, 8), (9, 9), (16, 16), (17, 17), (40, 40), (60, 40), (0, 1), (1, 41)] {
            let text = format!("{}.{}", "1".repeat(digits), "1".repeat(fraction));
            let is_quick = digits > 0 && fraction <= LONGEST_RUN;
            assert_eq!(quickly(&text).map(|(_, length)| length), is_quick.then_some(text.len()), "{text}");
        }
    }

    #[test]
    fn wrong_byte_is_known() {
        let found = [Flaw::Start(1), Flaw::Sign(2), Flaw::Exponent(3), Flaw::ExponentSign(4), Flaw::Ended];
        assert_eq!(found.map(Flaw::found), [Some(1), Some(2), Some(3), Some(4), None]);
        for (text, length, at_end) in
            [("1", 1, true), ("1 ", 1, false), ("-", 1, true), ("-a", 1, false), ("1e+", 3, true)]
        {
            let reading = read(text.as_bytes());
            assert_eq!((reading.length, reading.at_end), (length, at_end), "{text}");
        }
    }

    #[test]
    fn ends_where_cntk_ends() {
        for (text, length) in
            [("1.", 2), ("1.e2", 2), ("1-2", 1), ("1..5", 2), ("1e1.5", 3), ("0x10", 1), ("+5", 2)]
        {
            assert_eq!(read(text.as_bytes()).length, length, "{text}");
            assert_eq!(quickly(text).map(|(_, length)| length), Some(length), "{text}");
        }
        for (text, flaw) in [
            (".5", Flaw::Start(b'.')),
            ("-.5", Flaw::Sign(b'.')),
            ("--1", Flaw::Sign(b'-')),
            ("1ex", Flaw::Exponent(b'x')),
            ("1e+", Flaw::Ended),
            ("1e+x", Flaw::ExponentSign(b'x')),
            ("-", Flaw::Ended),
            ("", Flaw::Ended),
        ] {
            assert_eq!(read(text.as_bytes()).value, Err(flaw), "{text}");
            assert_eq!(quickly(text), None, "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(20_000)) })]

        #[test]
        fn quick_gives_the_bits_of_read(
            text in "[+-]?[0-9]{1,22}(\\.[0-9]{0,24})?([eE][+-]?[0-9]{1,3})?[0-9.eE+: -]{0,3}",
            short in "[+-]?[0-9]{1,8}(\\.[0-9]{0,7})?[0-9.eE+: -]{0,3}",
        ) {
            for text in [text, short] {
                if let Some((number, length)) = quickly(&text) {
                    let slow = read(text.as_bytes());
                    prop_assert_eq!(slow.value.map(f64::to_bits), Ok(number.to_bits()));
                    prop_assert_eq!(slow.length, length);
                }
            }
        }

        #[test]
        fn quick_reads_common_numbers(text in "-?[0-9]{1,16}(\\.[0-9]{1,18})?(e[+-][0-9]{2})?") {
            prop_assert!(quickly(&text).is_some());
        }
    }
}
