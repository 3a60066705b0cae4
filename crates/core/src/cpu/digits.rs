//! Counts and parses decimal digits, eight bytes at a time.

/// Eight times `0`.
pub const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Loads the eight bytes that begin at `at`, the first one lowest; `None` if the text has fewer.
#[inline(always)]
pub fn load8(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Returns the number of leading digits of `text` (eight bytes, the first one lowest), and `text`
/// with each byte XORed with `'0'`, so that a digit's byte is its value.
#[inline(always)]
pub fn leading_digits(text: u64) -> (u32, u64) {
    let (count, _, digits) = leading_runs(text);
    (count, digits)
}

/// Like [`leading_digits`], with an additional result in the middle: the index at which a second
/// run of digits ends, if one byte, such as a point, separates it from the first.
///
/// A byte was a digit if it is now below 10: then adding 0x76 leaves its top bit clear. A byte of
/// 0x8a or more carries into the byte above it, but that only spoils bytes after the first
/// non-digit, which do not count; a point does not carry.
#[inline(always)]
pub fn leading_runs(text: u64) -> (u32, u32, u64) {
    let digits = text ^ ZEROS;
    let others = (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080;
    let after_first = others & others.wrapping_sub(1);
    (others.trailing_zeros() >> 3, after_first.trailing_zeros() >> 3, digits)
}

/// Returns the number that the first `count` (0 to 8) bytes of `digits` spell.
///
/// Shifting moves the digits to the top with zeros before them, as if the number were written with
/// eight digits. Then neighbours are combined into four numbers of two digits, two of four, and one
/// of eight. This takes three multiplications and no branches for any length.
#[inline(always)]
pub fn joined(digits: u64, count: u32) -> u64 {
    // Two shifts, because a shift by 64 bits is not allowed.
    let half = 32 - 4 * count;
    let digits = (digits << half) << half;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

/// Returns the number that the leading digits of the text spell, at most eight, and how many there
/// are. `None` if the text has fewer than eight bytes.
#[inline(always)]
pub fn up_to_eight(text: &[u8]) -> Option<(u64, usize)> {
    let (count, digits) = leading_digits(load8(text, 0)?);
    Some((joined(digits, count), count as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn leading_digits_are_parsed(digits in "[0-9]{0,9}", rest in proptest::collection::vec(any::<u8>(), 0..9)) {
            let mut text = digits.into_bytes();
            text.extend(rest);
            let count = text.iter().take(8).take_while(|byte| byte.is_ascii_digit()).count();
            let number = text[..count].iter().fold(0, |number, digit| 10 * number + u64::from(digit - b'0'));
            prop_assert_eq!(up_to_eight(&text), (text.len() >= 8).then_some((number, count)));
        }
    }
}
