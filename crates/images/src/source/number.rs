//! Numbers as parsed by the C library, which CNTK 2.7 uses for labels and numeric keys.

/// The number at the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CNumber {
    /// A number; a negative one wraps around.
    Value(u64),
    /// A number that does not fit in 64 bits.
    TooLarge,
    /// No digit.
    None,
}

/// Parses the decimal number at the beginning of a text like `strtoull`: after white space and a
/// sign, up to the first non-digit.
pub(super) fn unsigned(text: &[u8]) -> CNumber {
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let (is_negative, digits) = match &text[spaces..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = digits[..count]
        .iter()
        .try_fold(0u64, |value, &byte| value.checked_mul(10)?.checked_add(u64::from(byte - b'0')));
    match value {
        _ if count == 0 => CNumber::None,
        None => CNumber::TooLarge,
        Some(value) => CNumber::Value(if is_negative { value.wrapping_neg() } else { value }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_parsed_like_strtoull() {
        for (text, value) in [
            ("7", CNumber::Value(7)),
            (" 2", CNumber::Value(2)),
            ("\x0b\t 3", CNumber::Value(3)),
            ("+2", CNumber::Value(2)),
            ("2abc", CNumber::Value(2)),
            ("1.9", CNumber::Value(1)),
            ("0x2", CNumber::Value(0)),
            ("-1", CNumber::Value(u64::MAX)),
            ("18446744073709551615", CNumber::Value(u64::MAX)),
            ("18446744073709551616", CNumber::TooLarge),
            ("", CNumber::None),
            ("abc", CNumber::None),
            ("- 1", CNumber::None),
            ("+-1", CNumber::None),
        ] {
            assert_eq!(unsigned(text.as_bytes()), value, "'{text}'");
        }
    }
}
