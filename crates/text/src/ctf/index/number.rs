//! Numeric ids: digits as a 64-bit number, with CNTK's overflow check.
//!
//! CNTK compares the number before and after each digit, modulo 2^64. Some numbers that are too
//! large pass this check (30000000000000000000 becomes 11553255926290448384); they pass here too.

use cntk_reader_core::Error;
use cntk_reader_core::cpu::digits::up_to_eight;

/// The digits at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digits {
    /// The number; `None` after an overflow.
    pub value: Option<u64>,
    /// Number of digits, up to the one that overflows.
    pub len: usize,
}

impl Digits {
    /// Returns CNTK's error for a number that is too large.
    pub fn overflow() -> Error {
        Error::data("Overflow while reading a numeric sequence id (8-bit value).")
            .as_cntk()
            .with_detail("A sequence id is too large.")
            .with_detail("Expected a number below 2^64: choose smaller ids, or set ‹numeric_keys = false›.")
    }

    /// Reads the digits at the start of `text`.
    #[inline]
    pub fn read(text: &[u8]) -> Digits {
        // Most ids are short: all digits are in the first eight bytes.
        match up_to_eight(text) {
            Some((value, len)) if len < 8 => Digits { value: Some(value), len },
            Some((first, _)) => {
                // Sixteen digits cannot overflow.
                let (value, len) = match up_to_eight(&text[8..]) {
                    Some((second, len)) => (first * 10u64.pow(len as u32) + second, 8 + len),
                    None => (first, 8),
                };
                if len % 8 != 0 {
                    return Digits { value: Some(value), len };
                }
                let Digits { value, len: more } = Self::continue_from(value, &text[len..]);
                Digits { value, len: len + more }
            }
            None => Self::continue_from(0, text),
        }
    }

    /// Continues with the digits at the start of `text`, after digits with this value.
    pub fn continue_from(mut value: u64, text: &[u8]) -> Digits {
        for (len, &byte) in text.iter().enumerate() {
            if !byte.is_ascii_digit() {
                return Digits { value: Some(value), len };
            }
            match step(value, byte) {
                Some(next) => value = next,
                None => return Digits { value: None, len },
            }
        }
        Digits { value: Some(value), len: text.len() }
    }
}

/// Appends a digit; `None` if the number overflows.
#[inline]
pub(super) fn step(value: u64, digit: u8) -> Option<u64> {
    let next = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
    (next >= value).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overflows_as_cntk_does() {
        let value = |text: &str| Digits::read(text.as_bytes()).value;
        assert_eq!(value("18446744073709551615 "), Some(u64::MAX));
        assert_eq!(value("18446744073709551616 "), None);
        assert_eq!(value("30000000000000000000 "), Some(11553255926290448384));
        assert_eq!(value("000000000000000000000000007|"), Some(7));
    }

    proptest! {
        #[test]
        fn reads_as_digit_by_digit(digits in "[0-9]{0,24}", rest in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut text = digits.into_bytes();
            text.extend(rest);
            prop_assert_eq!(Digits::read(&text), Digits::continue_from(0, &text));
        }
    }
}
