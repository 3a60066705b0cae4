//! Base64 as CNTK 2.7 decodes it.

use crate::Result;
use crate::memory::room;

/// The value of each character. Characters that are none of Base64 count as 0, as `=` does (CNTK 2.7).
const VALUES: [u8; 256] = {
    let mut values = [0; 256];
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut value = 0;
    while value < alphabet.len() {
        values[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Whether a character may be part of the data. Others at their end are not (CNTK 2.7).
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Decodes a text into `bytes`, whose memory is used again. False if the length of the text is no multiple of 4.
///
/// The `base64` crate refuses what CNTK decodes: characters of no meaning, and `=` before the end.
pub(super) fn decode(text: &[u8], bytes: &mut Vec<u8>) -> Result<bool> {
    bytes.clear();
    let (groups, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return Ok(false);
    }
    room::reserve(bytes, groups.len() * 3, room::IMAGE)?;
    bytes.extend(groups.iter().flat_map(|&group| {
        let [a, b, c, d] = group.map(|byte| u32::from(VALUES[usize::from(byte)]));
        let [_, first, second, third] = (a << 18 | b << 12 | c << 6 | d).to_be_bytes();
        [first, second, third]
    }));
    let padding = match groups.last() {
        Some([_, _, b'=', _]) => 2,
        Some([_, _, _, b'=']) => 1,
        _ => 0,
    };
    bytes.truncate(bytes.len() - padding);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Option<Vec<u8>> {
        let mut bytes = vec![9; 5];
        decode(text.as_bytes(), &mut bytes).expect("memory").then_some(bytes)
    }

    #[test]
    fn decodes_what_was_encoded() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYmFy", b"foobar"),
            ("+/+/", b"\xfb\xff\xbf"),
        ] {
            assert_eq!(decoded(text).as_deref(), Some(bytes), "{text}");
        }
    }

    #[test]
    fn is_as_tolerant_as_cntk() {
        for text in ["Z", "Zm9vY", " Zm9v", "Zm9v=", "Zm8"] {
            assert_eq!(decoded(text), None, "{text}");
        }
        // Unknown characters and padding in the middle are zeros.
        assert_eq!(decoded("Zm9v*m==Zm9v"), Some(b"foo\x02\x60\x00foo".to_vec()));
        assert_eq!(decoded("Zm=v"), Some(vec![b'f']));
    }
}
