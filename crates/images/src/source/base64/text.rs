//! Base64 decoding as in CNTK 2.7.

use cntk_reader_core::Result;
use cntk_reader_core::memory::room;

/// The value of each character. Characters outside the alphabet, and `=`, count as 0 (CNTK 2.7).
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

/// Returns whether a character may be data. Other characters at the end of the data are dropped
/// (CNTK 2.7).
pub(super) fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Strips decorations that programs write around the data: white space, quotes, Python's `b'...'`,
/// and the prefix of a `data:` URI.
pub(super) fn bare(data: &[u8]) -> &[u8] {
    let mut data = data.trim_ascii();
    for quote in [b'"', b'\''] {
        let inner = data.strip_prefix(b"b").unwrap_or(data);
        if let Some(inner) = inner.strip_prefix(&[quote]) {
            data = inner.strip_suffix(&[quote]).unwrap_or(inner).trim_ascii();
        }
    }
    let is_uri = data.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"data:"));
    match memchr::memchr(b',', data) {
        Some(comma) if is_uri => &data[comma + 1..],
        _ => data,
    }
}

/// Returns a hint for messages why the data may not be valid Base64 for CNTK 2.7; empty if there is
/// none.
pub(super) fn remark(data: &[u8]) -> &'static str {
    let start = data.trim_ascii_start();
    if start.starts_with(b"b'") || start.starts_with(b"b\"") {
        return " The data begin with b', as Python writes bytes: write 'data.decode()' to the file.";
    }
    if start.starts_with(b"'") || start.starts_with(b"\"") {
        return " The data begin with a quote: remove the quotes.";
    }
    if start.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(b"data:")) {
        return " The data begin with 'data:': remove everything up to the comma.";
    }
    let is_url_safe = data.iter().any(|byte| matches!(byte, b'-' | b'_'));
    if is_url_safe {
        return " The data contain '-' or '_' of the URL-safe alphabet: write '+' and '/'.";
    }
    match data.iter().find(|&&byte| !is_base64(byte)) {
        Some(b' ') => " The data contain a space, which is not a Base64 character.",
        Some(b'\t') => {
            " The data contain a tab, which is not a Base64 character: a line has no more columns."
        }
        Some(_) => " The data contain characters that are not Base64.",
        None => "",
    }
}

/// Decodes URL-safe Base64 (`-` and `_` for `+` and `/`), with or without padding, into `bytes`.
/// Returns false if the length is impossible.
pub(super) fn decode_for_urls(text: &[u8], bytes: &mut Vec<u8>) -> Result<bool> {
    let mut plain = room::with_capacity(text.len() + 3, room::IMAGE)?;
    plain.extend(text.iter().map(|&byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    }));
    match plain.len() % 4 {
        2 => plain.extend_from_slice(b"=="),
        3 => plain.push(b'='),
        _ => {}
    }
    decode(&plain, bytes)
}

/// Decodes a text into `bytes`, reusing its memory. Returns false if the length of the text is not
/// a multiple of 4.
///
/// The `base64` crate rejects input that CNTK decodes: unknown characters, and `=` before the end.
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
    fn decorations_around_data_are_stripped() {
        for text in [
            "Zm9v",
            "'Zm9v'",
            "\"Zm9v\"",
            "b'Zm9v'",
            "b\"Zm9v\"",
            "b'Zm9v",
            " Zm9v\r",
            "data:image/png;base64,Zm9v",
            "\"DATA:;base64,Zm9v\"",
        ] {
            assert_eq!(bare(text.as_bytes()), b"Zm9v", "{text}");
        }
        assert_eq!(bare(b"bm9v"), b"bm9v");
    }

    #[test]
    fn url_safe_alphabet_needs_no_padding() {
        let mut bytes = Vec::new();
        for (text, expected) in [("-_-_", &b"\xfb\xff\xbf"[..]), ("-_8", b"\xfb\xff"), ("-w", b"\xfb")] {
            assert!(decode_for_urls(text.as_bytes(), &mut bytes).expect("memory"), "{text}");
            assert_eq!(bytes, expected);
        }
        assert!(!decode_for_urls(b"-____", &mut bytes).expect("memory"));
    }

    #[test]
    fn is_as_tolerant_as_cntk() {
        for text in ["Z", "Zm9vY", " Zm9v", "Zm9v=", "Zm8"] {
            assert_eq!(decoded(text), None, "{text}");
        }
        // Unknown characters and padding in the middle count as zeros.
        assert_eq!(decoded("Zm9v*m==Zm9v"), Some(b"foo\x02\x60\x00foo".to_vec()));
        assert_eq!(decoded("Zm=v"), Some(vec![b'f']));
    }
}
