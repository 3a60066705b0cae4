//! Writes numbers as text that CNTK reads back bit for bit.
//!
//! CNTK does not round numbers correctly ([`cntk_reader_text::ctf::parse::number`]), so the
//! shortest digits that identify a number are only a good guess. Each guess is read back; if it
//! reads as another number, neighbouring digits are tried, and other spellings that are rounded
//! differently: with the point elsewhere and an exponent that compensates. In single precision the
//! first guess is nearly always right, for doubles of 17 digits a few guesses are needed.

use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_text::ctf::parse::number::read;
use std::fmt::Write;

/// Appends a single-precision number. Returns false if there is no text for it (a NaN with a
/// payload).
pub fn write_f32(value: f32, out: &mut Vec<u8>) -> Result<bool> {
    let mut text = String::with_capacity(40);
    let size = value.abs();
    if (1e-5..1e16).contains(&size) || size == 0.0 {
        _ = write!(text, "{value}");
    } else if value.is_finite() {
        _ = write!(text, "{value:e}");
    }
    let fits =
        |text: &str| read_back(text).is_some_and(|number| (number as f32).to_bits() == value.to_bits());
    finish(text, f64::from(value), fits, out)
}

/// Appends a double-precision number. Returns false if there is no text for it.
pub fn write_f64(value: f64, out: &mut Vec<u8>) -> Result<bool> {
    let mut text = String::with_capacity(40);
    let size = value.abs();
    if (1e-5..1e17).contains(&size) || size == 0.0 {
        _ = write!(text, "{value}");
    } else if value.is_finite() {
        _ = write!(text, "{value:e}");
    }
    let fits = |text: &str| read_back(text).is_some_and(|number| number.to_bits() == value.to_bits());
    finish(text, value, fits, out)
}

fn read_back(text: &str) -> Option<f64> {
    let reading = read(text.as_bytes());
    reading.value.ok().filter(|_| reading.length == text.len())
}

fn finish(text: String, value: f64, fits: impl Fn(&str) -> bool, out: &mut Vec<u8>) -> Result<bool> {
    if !text.is_empty() && fits(&text) {
        room::extend(out, text.as_bytes(), room::CONVERSION)?;
        return Ok(true);
    }
    let found = if value.is_finite() { search(value, &fits) } else { special(&fits) };
    room::extend(out, found.as_deref().unwrap_or_default().as_bytes(), room::CONVERSION)?;
    Ok(found.is_some())
}

/// Infinities, and the two NaNs that CNTK's arithmetic can produce: zero times infinity, and
/// infinity divided by infinity.
fn special(fits: impl Fn(&str) -> bool) -> Option<String> {
    let nines = "9".repeat(309);
    let texts = [
        "1e400".to_owned(),
        "-1e400".to_owned(),
        "0e400".to_owned(),
        "-0e400".to_owned(),
        format!("0.{nines}"),
        format!("-0.{nines}"),
    ];
    texts.into_iter().find(|text| fits(text))
}

/// Tries decimal neighbours of the value in several spellings.
fn search(value: f64, fits: impl Fn(&str) -> bool) -> Option<String> {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    for digits in [17, 16, 18, 19, 15] {
        let nearest = format!("{:.*e}", digits - 1, value.abs());
        let (mantissa, exponent) = nearest.split_once('e')?;
        let mantissa: i128 = mantissa.replace('.', "").parse().ok()?;
        let exponent: i32 = exponent.parse().ok()?;
        for step in 0..40 {
            // 0, 1, -1, 2, -2 ...
            let offset = if step % 2 == 1 { step / 2 + 1 } else { -(step / 2) };
            let number = (mantissa + offset).max(0).to_string();
            let last_exponent = exponent - (number.len() as i32 - 1);
            let mut attempt = |zeros: usize| {
                // As a fraction with leading zeros, which increase the divisor.
                let shift = exponent + 1 + zeros as i32;
                let text = match shift {
                    0 => format!("{sign}0.{}{number}", "0".repeat(zeros)),
                    _ => format!("{sign}0.{}{number}e{shift}", "0".repeat(zeros)),
                };
                Some(text).filter(|text| fits(text))
            };
            let small = if exponent < -290 { &[100, 200, 250, 280][..] } else { &[] };
            let found = (0..16).chain(small.iter().copied()).find_map(&mut attempt);
            if found.is_some() {
                return found;
            }
            // As an integer with trailing zeros.
            for zeros in 0..24 {
                let text = format!("{sign}{number}{}e{}", "0".repeat(zeros), last_exponent - zeros as i32);
                if fits(&text) {
                    return Some(text);
                }
            }
            // With the point between digits: integer part and fraction are rounded separately.
            for whole in 1..number.len() {
                let (whole, fraction) = number.split_at(whole);
                let text = format!("{sign}{whole}.{fraction}e{}", last_exponent + fraction.len() as i32);
                if fits(&text) {
                    return Some(text);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::testing::cases;
    use proptest::prelude::*;

    fn text_of(value: f64) -> Option<String> {
        let mut out = Vec::new();
        write_f64(value, &mut out).expect("memory").then(|| String::from_utf8(out).expect("ASCII"))
    }

    fn check_f32(bits: u32) {
        let value = f32::from_bits(bits);
        let mut out = Vec::new();
        assert!(write_f32(value, &mut out).expect("memory"), "{value:e} {bits:x}");
        let text = String::from_utf8(out).expect("ASCII");
        assert_eq!((read_back(&text).expect("a number") as f32).to_bits(), bits, "{text}");
    }

    #[test]
    fn plain_numbers_stay_plain() {
        for (value, text) in
            [(0.0, "0"), (-0.0, "-0"), (1.0, "1"), (-2.5, "-2.5"), (0.1, "0.1"), (1e300, "1e300")]
        {
            assert_eq!(text_of(value).as_deref(), Some(text));
        }
    }

    #[test]
    fn extremes_have_a_text() {
        let smallest = f64::from_bits(1);
        for value in
            [f64::MAX, f64::MIN, f64::MIN_POSITIVE, smallest, -smallest, f64::INFINITY, f64::NEG_INFINITY]
        {
            assert!(text_of(value).is_some(), "{value:e}");
        }
        // Neither a fraction nor an integer with an exponent reads as this number.
        let rare = f64::from_bits(18_427_074_697_445_508_390);
        assert!(text_of(rare).is_some_and(|text| read_back(&text) == Some(rare)));
        for bits in [0x7ff8_0000_0000_0000, 0xfff8_0000_0000_0000] {
            let text = text_of(f64::from_bits(bits)).expect("a text for a NaN");
            assert_eq!(read_back(&text).map(f64::to_bits), Some(bits));
        }
        assert_eq!(text_of(f64::from_bits(0x7ff8_0000_0000_0001)), None);
        for bits in [0, 1, 0x007f_ffff, 0x0080_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000] {
            check_f32(bits);
            check_f32(bits | 0x8000_0000);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(20_000)) })]

        #[test]
        fn any_single_reads_back(bits in any::<u32>()) {
            let value = f32::from_bits(bits);
            if !value.is_nan() {
                check_f32(bits);
            }
        }

        #[test]
        fn any_double_reads_back(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            if !value.is_nan() {
                let text = text_of(value);
                prop_assert!(text.is_some(), "{value:e}");
                prop_assert_eq!(read_back(&text.unwrap_or_default()).map(f64::to_bits), Some(bits));
            }
        }

        #[test]
        fn common_doubles_read_back(value in -1000.0f64..1000.0) {
            prop_assert!(text_of(value).is_some(), "{}", value);
        }
    }
}
