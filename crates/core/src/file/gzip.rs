//! The concatenated members of a gzip file.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, Read};

/// Unpacks all members. Zeros after the last member are padding, as tapes and block devices leave
/// it; anything else is an error.
pub struct Members<R: BufRead> {
    /// The member that is being unpacked; `None` after the last one.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    pub fn new(input: R) -> Members<R> {
        Members { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            if let Some(mut input) = self.member.take().map(GzDecoder::into_inner)
                && goes_on(&mut input)?
            {
                self.member = Some(GzDecoder::new(input));
            }
        }
        Ok(0)
    }
}

/// Returns whether another member follows, and skips padding.
fn goes_on(input: &mut impl BufRead) -> io::Result<bool> {
    let mut is_padding = false;
    loop {
        let bytes = match input.fill_buf() {
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        match bytes.get(zeros) {
            None if bytes.is_empty() => return Ok(false),
            None => is_padding = true,
            // The second byte may not be buffered yet.
            Some(0x1f) if zeros == 0 && !is_padding && bytes.get(1).is_none_or(|&next| next == 0x8b) => {
                return Ok(true);
            }
            Some(_) => {
                input.consume(zeros);
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "other data follow the compressed data",
                ));
            }
        }
        input.consume(zeros);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::{BufReader, Write};

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).expect("writing");
        encoder.finish().expect("a member")
    }

    fn unpacked(bytes: &[u8], buffer: usize) -> io::Result<String> {
        let mut text = String::new();
        Members::new(BufReader::with_capacity(buffer, bytes)).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn members_and_padding_are_read_and_trailing_data_refused() {
        let two = [packed("one "), packed("two")].concat();
        for buffer in [1, 2, 7, 8192] {
            assert_eq!(unpacked(&two, buffer).expect("two members"), "one two");
            for zeros in [1, 2, 512, 10_000] {
                let padded = [&two[..], &vec![0; zeros]].concat();
                assert_eq!(unpacked(&padded, buffer).expect("padding"), "one two");
            }
            for junk in [&b"junk"[..], b"\0\0junk", b"\0\x1f\x8b", b"\x1f\x20 more than a header has"] {
                let error = unpacked(&[&two[..], junk].concat(), buffer).expect_err("junk");
                let kinds = [io::ErrorKind::InvalidData, io::ErrorKind::InvalidInput];
                assert!(kinds.contains(&error.kind()), "{junk:?}: {error}");
            }
            for cut in [1, 2, 5] {
                let error = unpacked(&[&two[..], &two[..cut]].concat(), buffer).expect_err("cut");
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{cut}");
            }
        }
    }
}
