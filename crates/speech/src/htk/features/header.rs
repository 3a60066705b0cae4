//! The header of HTK feature files.

use byteorder::{BigEndian, ByteOrder, LittleEndian, NativeEndian};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::sequence::FrameEncoding;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::fmt;

/// Length of the fields of every header.
const FIELDS: usize = 12;

/// Length of the identifier that follows a header of kind [`GUID_KIND`].
const GUID: usize = 16;

/// The low bits of a kind: the base kind.
const BASE: u16 = 0o77;

/// A kind that is exactly this number is followed by an identifier of the features. With any suffix
/// it is an alias of [`USER`].
const GUID_KIND: u16 = 12;

/// User-defined features.
const USER: u16 = 9;

/// Values are stored in 16 bits.
const COMPRESSED: u16 = 0o2000;

/// Values are code book indices.
const VECTOR_QUANTIZED: u16 = 0o40000;

/// Base kinds and their names.
const BASES: [(u16, &str); 4] = [(6, "MFCC"), (7, "FBANK"), (USER, "USER"), (11, "PLP")];

/// The bits of a kind that appear in its name, in CNTK's order. Compression and checksums do not
/// appear.
const SUFFIXES: [(u16, &str); 7] = [
    (0o100, "_E"),
    (0o400, "_D"),
    (0o200, "_N"),
    (0o1000, "_A"),
    (0o100_000, "_T"),
    (0o4000, "_Z"),
    (0o20000, "_0"),
];

/// Properties that all files read together must share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// Kind of the values.
    pub kind: FeatureKind,
    /// Values per frame; not 0.
    pub dim: usize,
    /// Time from one frame to the next in units of 100 ns.
    pub period: i32,
}

/// The feature kind of a file. CNTK compares the names shown by `Display`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeatureKind {
    /// The base kind, and the bits of [`SUFFIXES`] that are set.
    code: u16,
    guid: Option<[u8; GUID]>,
}

impl fmt::Display for FeatureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = BASES.iter().find(|base| base.0 == self.code & BASE).map_or("USER", |base| base.1);
        f.write_str(base)?;
        for (bit, suffix) in SUFFIXES {
            if self.code & bit != 0 {
                f.write_str(suffix)?;
            }
        }
        if let Some(guid) = &self.guid {
            f.write_str(";guid=")?;
            guid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

/// The header of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Properties that the file must share with others.
    pub facts: Facts,
    /// Encoding of the values.
    pub encoding: FrameEncoding,
    /// Number of frames claimed by the file, unverified. CNTK 2.7 reads a negative number as an
    /// enormous one.
    pub frames: i64,
    /// Offset of the first frame in the file.
    pub start: u64,
}

impl Header {
    /// Reads the header of a file. Like in CNTK 2.7, it is not compared with the size of the file.
    pub fn read(file: &DataFile) -> Result<Header> {
        let mut bytes = [0; FIELDS + GUID];
        let count = file.read_at(0, &mut bytes).map_err(in_cntks_words)?;
        let Some(fields) = bytes[..count].first_chunk::<FIELDS>() else {
            return Err(ends_early(file, count as u64, "Its header needs 12 bytes."));
        };
        if is_big_endian(fields) {
            Self::decode::<BigEndian>(file, fields, &bytes[FIELDS..count])
        } else {
            Self::decode::<LittleEndian>(file, fields, &bytes[FIELDS..count])
        }
    }

    /// Parses a header. `rest` holds the bytes after the fields, up to the length of an identifier,
    /// or fewer at the end of the file.
    fn decode<E: ByteOrder>(file: &DataFile, fields: &[u8; FIELDS], rest: &[u8]) -> Result<Header> {
        let frames = i64::from(E::read_i32(&fields[0..4]));
        let period = E::read_i32(&fields[4..8]);
        let frame_bytes = usize::from(E::read_u16(&fields[8..10]));
        let code = E::read_u16(&fields[10..12]);
        let base = code & BASE;
        if base != GUID_KIND && BASES.iter().all(|known| known.0 != base) {
            let error = Error::data("htkfeatreader:unsupported feature kind").as_cntk();
            let error = error
                .with_detail(format!("The file has features of the unknown kind {code} (octal {code:o})."));
            let error = error.with_detail(format!(
                "Its lowest six bits are {base}; supported are 6 (MFCC), \
                 7 (FBANK), 9 and 12 (USER) and 11 (PLP). The byte order is guessed from the sample period, which is {period}. Check \
                 that this is a file of HTK features, or write it as one of these kinds."
            ));
            return Err(error.in_file(file.path()).at(10, None));
        }
        if code & VECTOR_QUANTIZED != 0 {
            let error = Error::data("htkfeatreader:we do not support VQ").as_cntk();
            let found = format!(
                "The file has codes of features (vector quantization): its kind is {code} (octal {code:o})."
            );
            let error = error.with_detail(found).with_detail("Store the features themselves.");
            return Err(error.in_file(file.path()).at(10, None));
        }
        let is_compressed = code & COMPRESSED != 0;
        let value_bytes = if is_compressed { 2 } else { 4 };
        if frame_bytes == 0 || !frame_bytes.is_multiple_of(value_bytes) {
            let error = Error::data("htkfeatreader:sample size not multiple of dimension").as_cntk();
            let found = format!("A frame has {frame_bytes} bytes, but each of its values has {value_bytes}.");
            let error = error.with_detail(found).with_detail("Check that this is a file of HTK features.");
            return Err(error.in_file(file.path()).at(8, None));
        }
        let dim = frame_bytes / value_bytes;
        let guid = match code {
            GUID_KIND => Some(*rest.first_chunk::<GUID>().ok_or_else(|| {
                let detail = "Files of kind 12 have an identifier of 16 bytes after the header.";
                ends_early(file, (FIELDS + rest.len()) as u64, detail)
            })?),
            _ => None,
        };
        let shown: u16 = SUFFIXES.iter().map(|suffix| suffix.0).sum();
        let base = if base == GUID_KIND && guid.is_none() { USER } else { base };
        let facts = Facts { kind: FeatureKind { code: code & shown | base, guid }, dim, period };
        let swapped = E::read_u16(&[0, 1]) != NativeEndian::read_u16(&[0, 1]);
        let start = (FIELDS + if guid.is_some() { GUID } else { 0 }) as u64;
        if !is_compressed {
            let encoding = if swapped { FrameEncoding::SwappedFloat } else { FrameEncoding::Float };
            return Ok(Header { facts, encoding, frames, start });
        }
        let mut factors = vec![0; 8 * dim];
        file.read_exact_at(start, &mut factors).map_err(in_cntks_words)?;
        let (scale, offset) = factors.split_at(4 * dim);
        let encoding =
            FrameEncoding::Linear { swapped, scale: floats::<E>(scale), offset: floats::<E>(offset) };
        // The factors count as four frames, whose size they have.
        Ok(Header { facts, encoding, frames: frames - 4, start: start + factors.len() as u64 })
    }

    /// Checks an inclusive range of frames against the number claimed by the header.
    pub fn check_range(&self, start: u32, end: u32, path: &str) -> Result<()> {
        check_order(start, end, path)?;
        // In CNTK a negative number counts as enormous.
        if self.frames >= 0 && i64::from(end) >= self.frames {
            let frames = self.frames;
            let message =
                format!("open: end frame exceeds archive's total number of frames {frames} in '{path}'");
            let found =
                format!("The range of frames [{start},{end}] ends after the {frames} frames of the file.");
            let detail = "Frames count from 0, and the end is part of a range: correct the range.";
            return Err(Error::data(message).as_cntk().with_detail(found).with_detail(detail).in_file(path));
        }
        Ok(())
    }
}

/// Rejects a range that ends before it starts, with CNTK's message and signed numbers.
pub fn check_order(start: u32, end: u32, path: &str) -> Result<()> {
    if start <= end {
        return Ok(());
    }
    let (start, end) = (start as i32, end as i32);
    let error = Error::data(format!("open: start frame {start} > end frame {end} in '{path}'")).as_cntk();
    Err(error
        .with_detail(format!("The range of frames [{start},{end}] ends before it starts."))
        .with_detail("Both frames of a range are part of it, and count from 0: correct the range.")
        .in_file(path))
}

/// Guesses the byte order from the period alone, like CNTK: the one that makes the period smaller.
fn is_big_endian(fields: &[u8; FIELDS]) -> bool {
    BigEndian::read_u32(&fields[4..8]) < LittleEndian::read_u32(&fields[4..8])
}

fn floats<E: ByteOrder>(bytes: &[u8]) -> Box<[f32]> {
    bytes.chunks_exact(4).map(E::read_f32).collect()
}

/// Returns the error for a file that ends too early.
fn ends_early(file: &DataFile, size: u64, detail: &str) -> Error {
    let found = format!("The file ends at {size}: it is not complete.");
    let error = Error::data("error reading from file: Success").as_cntk().with_detail(found);
    let error = error.with_detail("Write or copy it again.").with_detail(detail);
    error.in_file(file.path()).at(size, None)
}

/// Rewords read errors and early ends of files to CNTK's messages. Other errors stay unchanged.
pub fn in_cntks_words(error: Error) -> Error {
    let message = error.message();
    if !message.starts_with("Error reading file '") {
        return error;
    }
    let reason = match error.kind() {
        // The system call itself succeeded.
        ErrorKind::Data => "Success",
        _ => message.rsplit("': ").next().unwrap_or_default().trim_end_matches('.'),
    };
    let message = format!("error reading from file: {reason}");
    error.reworded(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Parses the header of a file with these fields, followed by `rest`.
    fn read<E: ByteOrder>(frames: i32, period: i32, size: u16, kind: u16, rest: &[u8]) -> Result<Header> {
        let mut bytes = vec![0; FIELDS];
        E::write_i32(&mut bytes[0..4], frames);
        E::write_i32(&mut bytes[4..8], period);
        E::write_u16(&mut bytes[8..10], size);
        E::write_u16(&mut bytes[10..12], kind);
        bytes.extend_from_slice(rest);
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("writing");
        Header::read(&DataFile::from_file(file, "a.mfc"))
    }

    fn big(kind: u16) -> Result<Header> {
        read::<BigEndian>(5, 100_000, 12, kind, &[0xab; 60])
    }

    #[test]
    fn kinds_have_cntks_names() {
        let named = |kind| big(kind).expect("a header").facts.kind.to_string();
        assert_eq!([6, 7, 9, 11].map(named), ["MFCC", "FBANK", "USER", "PLP"]);
        assert_eq!(named(0xabc6 & !COMPRESSED), "MFCC_E_D_N_A_T_Z_0");
        assert_eq!(named(6 | 0o10000), "MFCC");
        assert_eq!(named(12), format!("USER;guid={}", "ab".repeat(16)));
        assert_eq!(named(12 | 0o100), "USER_E");
        assert_eq!(big(12 | 0o100).expect("a header").facts, big(9 | 0o100).expect("a header").facts);
        assert_ne!(big(12).expect("a header").facts, big(9).expect("a header").facts);
    }

    #[test]
    fn frames_begin_after_the_kinds_extra_fields() {
        let start = |kind| big(kind).expect("a header").start;
        assert_eq!([9, 12, 12 | 0o100, 9 | COMPRESSED].map(start), [12, 28, 12, 12 + 48]);
        let header = big(9 | COMPRESSED).expect("a header");
        assert_eq!((header.facts.dim, header.frames, header.encoding.size()), (6, 1, 2));
    }

    #[test]
    fn period_determines_the_byte_order() {
        let period = |header: Result<Header>| header.expect("a header").facts.period;
        assert_eq!(period(read::<BigEndian>(5, 100_000, 12, 9, &[])), 100_000);
        assert_eq!(period(read::<LittleEndian>(5, 100_000, 12, 9, &[])), 100_000);
        assert_eq!(period(read::<LittleEndian>(5, 0, 12, 9, &[])), 0);
        for period in [0, 65_536, -5] {
            let error = read::<BigEndian>(5, period, 12, 9, &[]).expect_err("the other byte order");
            assert_eq!(error.message(), "htkfeatreader:unsupported feature kind");
        }
    }

    #[test]
    fn kind_is_checked_before_size() {
        let message = |kind, size| {
            let error = read::<BigEndian>(5, 100_000, size, kind, &[0; 60]).expect_err("an error");
            assert!(error.location().offset.is_some() && error.location().file.is_some());
            error.message().to_owned()
        };
        let (kind, size) =
            ("htkfeatreader:unsupported feature kind", "htkfeatreader:sample size not multiple of dimension");
        let quantized = "htkfeatreader:we do not support VQ";
        assert_eq!(message(10, 13), kind);
        assert_eq!(message(VECTOR_QUANTIZED | 10, 12), kind);
        assert_eq!(message(VECTOR_QUANTIZED | 9, 13), quantized);
        for (kind, bytes) in [(9, 13), (9, 14), (9, 0), (9 | COMPRESSED, 13), (9 | COMPRESSED, 0)] {
            assert_eq!(message(kind, bytes), size);
        }
    }

    #[test]
    fn headers_that_end_early_are_errors() {
        let cases = [(12, 0), (12, 15), (9 | COMPRESSED, 47)];
        for (kind, rest) in cases {
            let error = read::<BigEndian>(5, 100_000, 12, kind, &vec![0; rest]).expect_err("an error");
            assert_eq!(error.message(), "error reading from file: Success");
            assert_eq!(error.location().offset, Some(12 + rest as u64));
        }
    }
}
