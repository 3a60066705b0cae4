//! Zip containers and Base64.

use super::super::rng::Rng;
use super::File;
use flate2::{Compression, Crc, write::DeflateEncoder};
use std::io::Write;

/// A zip file with these members, each stored or deflated.
pub fn zip(rng: &mut Rng, members: &[File]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let deflated = rng.once_in(2);
        let data = if deflated { deflate(content) } else { content.clone() };
        let mut crc = Crc::new();
        crc.update(content);
        // Version, flags, method, time, date, check sum, sizes, lengths of the name and of what follows it.
        let mut fields = Vec::new();
        for half in [20_u16, 0, if deflated { 8 } else { 0 }, 0, 0x21] {
            fields.extend(half.to_le_bytes());
        }
        for word in [crc.sum(), data.len() as u32, content.len() as u32] {
            fields.extend(word.to_le_bytes());
        }
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend(0_u16.to_le_bytes());
        let at = out.len() as u32;
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(name.as_bytes());
        out.extend(data);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&fields);
        // Length of the comment, disk, attributes.
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (at, size, count) = (out.len() as u32, directory.len() as u32, members.len() as u16);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0; 2]);
    out
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    // Nothing fails in memory.
    encoder.write_all(content).unwrap_or_default();
    encoder.finish().unwrap_or_default()
}

/// Base64 with padding.
pub fn base64(content: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(content.len().div_ceil(3) * 4);
    for bytes in content.chunks(3) {
        let bits =
            bytes.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - bytes.len()));
        for number in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * number) & 63) as usize];
            out.push(if number <= bytes.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_padded() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!(
            [of(""), of("f"), of("fo"), of("foo"), of("foob")],
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
