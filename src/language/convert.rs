//! Converts the text of a value to a boolean, a number or a string, accepting exactly what CNTK
//! accepts.
//!
//! Integers are read like C's `strtol` family (leading white space, a sign, saturation),
//! floating-point numbers like `strtod`.

use cntk_reader_core::error::ExceptionClass::Runtime;
use cntk_reader_core::limits::LONGEST_NUMBER;
use cntk_reader_core::{Error, Result};

/// A type that a value can be read as.
pub trait FromValue: Sized {
    /// Describes valid values in messages.
    const EXPECTED: &str;

    /// Converts the text of a value.
    fn from_value(text: &str) -> Result<Self>;

    /// Describes why a value that CNTK would accept is out of range: a negative size, which wraps
    /// around.
    fn out_of_range(_text: &str) -> Option<&'static str> {
        None
    }
}

/// Describes why a size is out of range.
fn size_out_of_range(text: &str) -> Option<&'static str> {
    match integer(text)? {
        (_, 0) => None,
        (true, _) => Some("is negative"),
        (false, size) => (size > u128::from(u64::MAX)).then_some("is too large"),
    }
}

fn invalid(type_name: &str, text: &str) -> Error {
    Error::config(Runtime, format!("ConfigValue ({type_name}): invalid input string '{text}'")).as_cntk()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Returns the text of a number, unless it is longer than any reasonable number.
fn number(text: &str) -> Result<&str> {
    if text.len() <= LONGEST_NUMBER {
        return Ok(text);
    }
    let message = format!("A number has {} characters; at most {LONGEST_NUMBER} are allowed.", text.len());
    Err(Error::config(Runtime, message))
}

/// Parses a decimal integer into sign and magnitude; the magnitude saturates. None if the text is
/// anything else.
fn integer(text: &str) -> Option<(bool, u128)> {
    let text = text.trim_start_matches(|c: char| u8::try_from(c).is_ok_and(is_space));
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let magnitude = digits
        .bytes()
        .fold(0u128, |sum, digit| sum.saturating_mul(10).saturating_add(u128::from(digit - b'0')));
    Some((negative, magnitude))
}

/// Parses like C's `strtoul`: saturates, and a minus sign wraps a value that did not saturate.
fn unsigned(text: &str) -> Option<u64> {
    let (negative, magnitude) = integer(text)?;
    Some(match u64::try_from(magnitude) {
        Ok(value) if negative => value.wrapping_neg(),
        Ok(value) => value,
        Err(_) => u64::MAX,
    })
}

impl FromValue for String {
    const EXPECTED: &str = "a text";

    fn from_value(text: &str) -> Result<Self> {
        Ok(text.to_owned())
    }
}

impl FromValue for bool {
    const EXPECTED: &str = "true or false";

    fn from_value(text: &str) -> Result<Self> {
        match text {
            "true" | "True" | "TRUE" | "t" | "T" | "1" => Ok(true),
            "false" | "False" | "FALSE" | "f" | "F" | "0" | "" => Ok(false),
            _ => Err(Error::config(Runtime, "ConfigValue (bool): boolean argument expected").as_cntk()),
        }
    }
}

impl FromValue for i32 {
    const EXPECTED: &str = "a whole number of 32 bits with a sign";

    fn from_value(text: &str) -> Result<Self> {
        let (negative, magnitude) = integer(number(text)?).ok_or_else(|| invalid("long", text))?;
        let value = i128::try_from(magnitude).unwrap_or(i128::MAX);
        i32::try_from(if negative { -value } else { value })
            .map_err(|_| Error::config(Runtime, "ConfigValue (int): integer argument expected").as_cntk())
    }
}

impl FromValue for u32 {
    const EXPECTED: &str = "a whole number of 32 bits";

    fn from_value(text: &str) -> Result<Self> {
        let value = unsigned(number(text)?).ok_or_else(|| invalid("unsigned long", text))?;
        u32::try_from(value).map_err(|_| {
            Error::config(Runtime, "ConfigValue (unsigned int): integer argument expected").as_cntk()
        })
    }
}

/// A size. Negative numbers wrap around, as everywhere in CNTK: `-1` is the greatest size.
impl FromValue for u64 {
    const EXPECTED: &str = "a whole number, without a fraction or an exponent";

    fn out_of_range(text: &str) -> Option<&'static str> {
        size_out_of_range(text)
    }

    fn from_value(text: &str) -> Result<Self> {
        unsigned(number(text)?).ok_or_else(|| invalid("uint64_t", text))
    }
}

/// A size that CNTK reads as a 32-bit integer and then widens: `-1` is 2^64-1, and 3000000000 is an
/// error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WidenedInt(pub u64);

impl FromValue for WidenedInt {
    const EXPECTED: &str = "a whole number below 2147483648";

    fn out_of_range(text: &str) -> Option<&'static str> {
        size_out_of_range(text)
    }

    fn from_value(text: &str) -> Result<Self> {
        i32::from_value(text).map(|value| WidenedInt(i64::from(value).cast_unsigned()))
    }
}

impl FromValue for f64 {
    const EXPECTED: &str = "a number";

    fn from_value(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(invalid("double", text));
        }
        let (value, rest) = leading_double(number(text)?);
        // Microsoft's library wrote infinity as "1.#INF"; CNTK reads it as positive whatever
        // precedes the mark.
        let mark = rest.as_bytes().get(..4);
        if mark.is_some_and(|mark| mark.eq_ignore_ascii_case(b"#inf")) {
            return Ok(f64::INFINITY);
        }
        if rest.is_empty() { Ok(value) } else { Err(invalid("double", text)) }
    }
}

impl FromValue for f32 {
    const EXPECTED: &str = "a number";

    #[expect(clippy::cast_possible_truncation, reason = "CNTK rounds the double to a float")]
    fn from_value(text: &str) -> Result<Self> {
        f64::from_value(text).map(|value| value as f32)
    }
}

fn skip_digits(bytes: &[u8], from: usize, is_digit: impl Fn(u8) -> bool) -> usize {
    from + bytes[from..].iter().take_while(|&&byte| is_digit(byte)).count()
}

/// Returns the position after an exponent that starts at `at`, or `at` if there is none.
fn skip_exponent(bytes: &[u8], at: usize, mark: u8) -> usize {
    if !bytes.get(at).is_some_and(|byte| byte.eq_ignore_ascii_case(&mark)) {
        return at;
    }
    let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
    let digits = at + 1 + sign;
    let end = skip_digits(bytes, digits.min(bytes.len()), |byte| byte.is_ascii_digit());
    if end > digits { end } else { at }
}

/// Parses the number that a text starts with, like C's `strtod`, and returns the rest of the text.
fn leading_double(text: &str) -> (f64, &str) {
    let bytes = text.as_bytes();
    let mut at = skip_digits(bytes, 0, is_space);
    let negative = bytes.get(at) == Some(&b'-');
    if matches!(bytes.get(at), Some(b'+' | b'-')) {
        at += 1;
    }
    let signed = |value: f64| if negative { -value } else { value };
    let starts =
        |word: &str| bytes[at..].get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    for word in ["infinity", "inf"] {
        if starts(word) {
            return (signed(f64::INFINITY), &text[at + word.len()..]);
        }
    }
    if starts("nan") {
        let mut end = at + 3;
        if bytes.get(end) == Some(&b'(') {
            let close = skip_digits(bytes, end + 1, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if bytes.get(close) == Some(&b')') {
                end = close + 1;
            }
        }
        return (signed(f64::NAN), &text[end..]);
    }
    if starts("0x")
        && let Some((value, end)) = hexadecimal(bytes, at + 2)
    {
        return (signed(value), &text[end..]);
    }
    let whole = skip_digits(bytes, at, |byte| byte.is_ascii_digit());
    let (mut end, mut digits) = (whole, whole - at);
    if bytes.get(whole) == Some(&b'.') {
        let fraction = skip_digits(bytes, whole + 1, |byte| byte.is_ascii_digit());
        digits += fraction - whole - 1;
        end = fraction;
    }
    if digits == 0 {
        return (0.0, text);
    }
    end = skip_exponent(bytes, end, b'e');
    // Both libraries round correctly, so the same digits give the same bits.
    (signed(text[at..end].parse().unwrap_or(0.0)), &text[end..])
}

/// Parses a hexadecimal number whose digits start at `start`; also returns the position after it.
fn hexadecimal(bytes: &[u8], start: usize) -> Option<(f64, usize)> {
    let mut mantissa = 0u64;
    let mut exponent = 0i64;
    let mut digits = 0usize;
    let mut point = false;
    let mut at = start;
    while let Some(&byte) = bytes.get(at) {
        if byte == b'.' && !point {
            point = true;
        } else if let Some(digit) = (byte as char).to_digit(16) {
            digits += 1;
            if mantissa >> 58 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                exponent -= if point { 4 } else { 0 };
            } else {
                // Digits beyond the 58th bit only matter as a sticky bit, which decides ties.
                mantissa |= u64::from(digit != 0);
                exponent += if point { 0 } else { 4 };
            }
        } else {
            break;
        }
        at += 1;
    }
    if digits == 0 {
        return None;
    }
    let end = skip_exponent(bytes, at, b'p');
    if end > at {
        let written = std::str::from_utf8(&bytes[at + 1..end]).ok()?;
        let (negative, magnitude) = integer(written)?;
        let magnitude = i64::try_from(magnitude.min(1 << 40)).ok()?;
        exponent += if negative { -magnitude } else { magnitude };
    }
    Some((scaled(mantissa, exponent), end))
}

/// Returns `mantissa * 2^exponent`, rounded once, to nearest with ties to even.
fn scaled(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let bits = i64::from(64 - mantissa.leading_zeros());
    if exponent + bits > 1024 {
        return f64::INFINITY;
    }
    // The exponent of the result's last place: 53 bits, fewer if the result is subnormal.
    let unit = (exponent + bits - 53).max(-1074);
    let shift = unit - exponent;
    let kept = if shift <= 0 {
        mantissa << -shift
    } else if shift > 64 {
        0
    } else {
        let wide = u128::from(mantissa);
        let (kept, lost, half) = (wide >> shift, wide & ((1 << shift) - 1), 1u128 << (shift - 1));
        let up = lost > half || lost == half && kept & 1 == 1;
        u64::try_from(kept).unwrap_or(u64::MAX) + u64::from(up)
    };
    // Two factors, because powers such as 2^-1074 are not normal doubles; both products are exact.
    #[expect(clippy::cast_precision_loss, reason = "at most 53 bits are left")]
    let value = kept as f64;
    let power = |exponent: i64| 2f64.powi(i32::try_from(exponent).unwrap_or(0));
    value * power(unit / 2) * power(unit - unit / 2)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn booleans() {
        for text in ["true", "True", "TRUE", "t", "T", "1"] {
            assert!(bool::from_value(text).unwrap());
        }
        for text in ["false", "False", "FALSE", "f", "F", "0", ""] {
            assert!(!bool::from_value(text).unwrap());
        }
        for text in ["yes", "2", "tRUE", "1.0", "none", " true"] {
            let error = bool::from_value(text).unwrap_err();
            assert_eq!(error.message(), "ConfigValue (bool): boolean argument expected");
            assert_eq!(error.class(), Runtime);
        }
    }

    #[test]
    fn integers() {
        assert_eq!(i32::from_value("010").unwrap(), 10);
        assert_eq!(i32::from_value("-2147483648").unwrap(), i32::MIN);
        assert_eq!(i32::from_value("+7").unwrap(), 7);
        for text in ["5.0", "1e3", "0x10", "", "-", "5 ", "--5"] {
            let message = format!("ConfigValue (long): invalid input string '{text}'");
            assert_eq!(i32::from_value(text).unwrap_err().message(), message);
        }
        for text in ["4294967296", "2147483648", "-99999999999999999999999999999999999999999999"] {
            assert_eq!(
                i32::from_value(text).unwrap_err().message(),
                "ConfigValue (int): integer argument expected"
            );
        }
        assert_eq!(u32::from_value("4294967295").unwrap(), u32::MAX);
        for text in ["-1", "4294967296"] {
            let message = "ConfigValue (unsigned int): integer argument expected";
            assert_eq!(u32::from_value(text).unwrap_err().message(), message);
        }
        assert_eq!(
            u32::from_value("x").unwrap_err().message(),
            "ConfigValue (unsigned long): invalid input string 'x'"
        );
        assert_eq!(WidenedInt::from_value("-1").unwrap(), WidenedInt(u64::MAX));
        assert!(WidenedInt::from_value("3000000000").is_err());
    }

    #[test]
    fn sizes_out_of_range_are_explained() {
        let why = |text: &str| {
            assert_eq!(WidenedInt::out_of_range(text), u64::out_of_range(text));
            u64::out_of_range(text)
        };
        for text in ["0", "-0", "+5", "18446744073709551615", "x", "", "1.5"] {
            assert_eq!(why(text), None, "{text}");
        }
        assert_eq!([why("-1"), why("-99999999999999999999")], [Some("is negative"); 2]);
        assert_eq!(why("18446744073709551616"), Some("is too large"));
        assert_eq!((i32::out_of_range("-1"), f64::out_of_range("-1")), (None, None));
        for (text, value) in
            [(" \t\n\r\u{b}\u{c}7", Some(7)), ("\u{a0}7", None), ("\u{b3}7", None), ("7 ", None)]
        {
            assert_eq!(i32::from_value(text).ok(), value, "{text:?}");
        }
    }

    #[test]
    fn overlong_numbers_are_refused() {
        let zeros = format!("{}7", "0".repeat(LONGEST_NUMBER - 1));
        assert_eq!(u64::from_value(&zeros).unwrap(), 7);
        let longer = format!("0{zeros}");
        let message = "A number has 1001 characters; at most 1000 are allowed.";
        assert_eq!(u64::from_value(&longer).unwrap_err().message(), message);
        assert_eq!(u32::from_value(&longer).unwrap_err().message(), message);
        assert_eq!(WidenedInt::from_value(&longer).unwrap_err().message(), message);
        assert_eq!(f64::from_value(&longer).unwrap_err().message(), message);
    }

    #[test]
    fn sizes() {
        assert_eq!(u64::from_value("-5").unwrap(), 18_446_744_073_709_551_611);
        assert_eq!(u64::from_value("99999999999999999999").unwrap(), u64::MAX);
        assert_eq!(u64::from_value("-99999999999999999999").unwrap(), u64::MAX);
        assert_eq!(u64::from_value("010").unwrap(), 10);
        for text in ["true", "1e3", "", "1.0"] {
            let message = format!("ConfigValue (uint64_t): invalid input string '{text}'");
            assert_eq!(u64::from_value(text).unwrap_err().message(), message);
        }
    }

    #[test]
    fn doubles() {
        let table = [
            (".5", 0.5),
            ("5.", 5.0),
            ("1e3", 1000.0),
            ("-2.5E-1", -0.25),
            ("0x10", 16.0),
            ("0x1.8p3", 12.0),
            ("-0x.8", -0.5),
            ("0x1p-1074", 5e-324),
            ("0x1p-1075", 0.0),
            ("0x1.8p-1075", 5e-324),
            ("0x1p1024", f64::INFINITY),
            ("0x1.fffffffffffff8p0", 2.0),
            // A single digit far behind the others decides the tie.
            ("0x20000000000001000000001", f64::from_bits(0x4580_0000_0000_0001)),
            ("inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
            ("1e400", f64::INFINITY),
            ("1.#inf", f64::INFINITY),
            ("1.#infx", f64::INFINITY),
            ("#inf", f64::INFINITY),
            ("1#INFx", f64::INFINITY),
            ("-1.#inf", f64::INFINITY),
        ];
        let more = [
            (" \t5", 5.0),
            ("+5", 5.0),
            ("1.e5", 100_000.0),
            ("1E+2", 100.0),
            ("-1e400", f64::NEG_INFINITY),
            ("INFINITY", f64::INFINITY),
            ("0X1P+1", 2.0),
            ("0x1.p1", 2.0),
            ("0x1p-1", 0.5),
            ("-0x1", -1.0),
            ("0x0p99", 0.0),
            // Ties go to even.
            ("0x1.00000000000008p0", 1.0),
            ("0x1.00000000000018p0", 1.0 + 2.0 * f64::EPSILON),
            ("0x1.000000000000080000000001p0", 1.0 + f64::EPSILON),
            ("0x1.000000000000080000000000p0", 1.0),
            ("0x1p1023", 2f64.powi(1023)),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("0x1.fffffffffffff8p1023", f64::INFINITY),
            ("0x8p-1078", 0.0),
            ("0x9p-1078", 5e-324),
            ("0x1p-1140", 0.0),
            ("0x1p99999999999999999999", f64::INFINITY),
            ("0x1p-99999999999999999999", 0.0),
        ];
        for (text, value) in table.into_iter().chain(more) {
            assert_eq!(f64::from_value(text).unwrap(), value, "{text}");
        }
        assert!(f64::from_value("-nan()").is_ok_and(|nan| nan.is_nan() && nan.is_sign_negative()));
        assert!(f64::from_value("nan").unwrap().is_nan());
        assert!(f64::from_value("nan(x_1)").unwrap().is_nan());
        for text in [
            "1.5x",
            "",
            ".",
            "e5",
            "1,5",
            "0x",
            "1.5 ",
            "nan(",
            "--1",
            "- 1",
            "1e",
            "1e+",
            "1..5",
            ".e5",
            "0xg",
            "0x.p1",
            "0x1p",
            "0x1p-",
            "0x1.8.1",
            "infinityx",
            "in",
            "nan(a b)",
            "nan(a",
            "1#in",
            "1.#ina",
        ] {
            let message = format!("ConfigValue (double): invalid input string '{text}'");
            assert_eq!(f64::from_value(text).unwrap_err().message(), message);
        }
        assert_eq!(f32::from_value("0.1").unwrap(), 0.1f32);
    }

    proptest! {
        #[test]
        fn hexadecimal_numbers_round_trip(bits in any::<u64>()) {
            let value = f64::from_bits(bits).abs();
            prop_assume!(value.is_finite());
            let exponent = (bits >> 52 & 0x7ff) as i64;
            let fraction = bits & ((1 << 52) - 1);
            let text = match exponent {
                0 => format!("0x0.{fraction:013x}p-1022"),
                _ => format!("0x1.{fraction:013x}p{}", exponent - 1023),
            };
            prop_assert_eq!(f64::from_value(&text).unwrap(), value);
        }

        #[test]
        fn long_hexadecimal_numbers_round_once(high in any::<u64>(), low in any::<u64>(), zeros in 0u32..127, exponent in -300i32..300) {
            let mantissa = (u128::from(high) << 64 | u128::from(low)) >> zeros;
            // Converting an integer rounds, and scaling by a power of two does not.
            let value = mantissa as f64 * 2f64.powi(exponent);
            prop_assert_eq!(f64::from_value(&format!("0x{mantissa:x}p{exponent}")).unwrap(), value);
            let (whole, fraction) = (mantissa >> 64, mantissa as u64);
            let text = format!("0x{whole:x}.{fraction:016x}p{}", exponent + 64);
            prop_assert_eq!(f64::from_value(&text).unwrap(), value);
        }

        #[test]
        fn any_text_is_a_number_or_an_error(text in "[ -0-9.xXeEpPinfa#()+]{0,12}") {
            let _ = (f64::from_value(&text), u64::from_value(&text), i32::from_value(&text), u32::from_value(&text));
        }
    }
}
