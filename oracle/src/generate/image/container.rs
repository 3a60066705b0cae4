//! Writes and reads zip containers, and encodes Base64.

use super::super::rng::Rng;
use super::File;
use flate2::{Compression, Crc, read::DeflateDecoder, write::DeflateEncoder};
use std::io::{Read, Write};

/// Writes a zip file with these members, each stored or deflated.
pub fn zip(rng: &mut Rng, members: &[File]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let deflated = rng.once_in(2);
        let data = if deflated { deflate(content) } else { content.clone() };
        let mut crc = Crc::new();
        crc.update(content);
        // Version, flags, method, time, date, checksum, sizes, lengths of the name and of the extra
        // field.
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
    // Writing to memory does not fail.
    encoder.write_all(content).unwrap_or_default();
    encoder.finish().unwrap_or_default()
}

/// Encodes Base64 with padding.
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

/// A member of a container.
pub struct Member {
    pub name: String,
    pub content: Vec<u8>,
}

/// Returns the members of a container written by [`zip`]; none for other data.
pub fn members(zip: &[u8]) -> Vec<Member> {
    /// Length of the end record without a comment.
    const END: usize = 22;
    let Some(end) = zip.len().checked_sub(END) else { return Vec::new() };
    let mut members = Vec::new();
    let mut at = word(zip, end + 16);
    while let Some(place) = at.filter(|&at| zip.get(at..at + 4) == Some(b"PK\x01\x02")) {
        let Some((member, next)) = member(zip, place) else { break };
        members.push(member);
        at = Some(next);
    }
    members
}

/// Returns the member of a directory entry, and the offset of the next entry.
fn member(zip: &[u8], entry: usize) -> Option<(Member, usize)> {
    /// Lengths of a directory entry and of a local header, without the name.
    const ENTRY: usize = 46;
    const HEADER: usize = 30;
    let (size, name) = (word(zip, entry + 20)?, half(zip, entry + 28)?);
    let next = entry + ENTRY + name + half(zip, entry + 30)? + half(zip, entry + 32)?;
    let own = word(zip, entry + 42)?;
    let data = own + HEADER + half(zip, own + 26)? + half(zip, own + 28)?;
    let data = zip.get(data..data + size)?;
    let mut content = Vec::new();
    match half(zip, entry + 10)? {
        0 => content.extend(data),
        _ => drop(DeflateDecoder::new(data).read_to_end(&mut content).ok()?),
    }
    let name = zip.get(entry + ENTRY..entry + ENTRY + name)?;
    Some((Member { name: String::from_utf8_lossy(name).into_owned(), content }, next))
}

fn half(zip: &[u8], at: usize) -> Option<usize> {
    let bytes = zip.get(at..)?.first_chunk()?;
    Some(usize::from(u16::from_le_bytes(*bytes)))
}

fn word(zip: &[u8], at: usize) -> Option<usize> {
    let bytes = zip.get(at..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

/// Whether an image is a JPEG without its end marker.
pub fn is_cut_jpeg(content: &[u8]) -> bool {
    content.starts_with(b"\xff\xd8") && !content.ends_with(b"\xff\xd9")
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

    #[test]
    fn members_round_trip() {
        let long = b"0123456789".repeat(50);
        let files = [("a.jpg", &b"\xff\xd8x"[..]), ("b", &long), ("c.png", b"")];
        let files = files.map(|(name, content)| (name.to_owned(), content.to_vec()));
        for seed in 0..8 {
            let members = members(&zip(&mut Rng::new(seed), &files));
            let members: Vec<_> = members.into_iter().map(|member| (member.name, member.content)).collect();
            assert_eq!(members, files);
        }
        assert!(
            members(&zip(&mut Rng::new(1), &[])).is_empty()
                && members(b"").is_empty()
                && members(&long).is_empty()
        );
    }

    #[test]
    fn jpegs_without_an_end_are_cut() {
        assert!(is_cut_jpeg(b"\xff\xd8\xff\xda1"));
        assert!(!is_cut_jpeg(b"\xff\xd8\xff\xda1\xff\xd9") && !is_cut_jpeg(b"\x89PNG"));
    }
}
