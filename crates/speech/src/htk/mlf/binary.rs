//! Binary label files: `MLF`, a version, and for each utterance its key, its length, and runs of
//! equal classes.
//!
//! All numbers are little-endian and unaligned.

use super::index::Entry;
use super::parse::Failure;
use byteorder::{ByteOrder, LE};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::limits::LONGEST_BINARY_KEY;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// Signature of a file.
const TAG: &[u8] = b"MLF";
/// Length of the tag and the version.
const HEADER: u64 = 5;
/// Bytes per run: its class and its length.
const RUN: usize = 4;
/// Bytes per read.
const BLOCK: usize = 1 << 20;

/// The format version, which determines how keys are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// As 32-bit numbers.
    Numbers,
    /// As text, preceded by its 16-bit length.
    Texts,
}

/// Checks the signature and reads the version.
pub(super) fn read_version(file: &DataFile) -> Result<Version> {
    let mut header = [0; HEADER as usize];
    let count = file.read_at(0, &mut header)?;
    if count < header.len() || !header.starts_with(TAG) {
        let detail =
            "It must begin with 'MLF' and a version. For labels in text form, use the type ‹mlf_type›.";
        let error = Error::data("MLFBinaryIndexBuilder: MLF binary file is malformed.").as_cntk();
        let error = error.with_detail("The file is not a binary label file.").with_detail(detail);
        return Err(error.in_file(file.path()).at(0, None));
    }
    match LE::read_i16(&header[TAG.len()..]) {
        1 => Ok(Version::Numbers),
        2 => Ok(Version::Texts),
        version => {
            let detail = format!(
                "The binary label file has the version {version}, but only versions 1 and 2 are supported: write the labels as one of these."
            );
            let error = Error::data("Not supported MLF model version.").as_cntk().with_detail(detail);
            Err(error.in_file(file.path()).at(TAG.len() as u64, None))
        }
    }
}

/// Indexes a file: passes the key and entry of each utterance to `add`. The entry's key is not
/// numbered yet.
pub(super) fn index(
    file: &DataFile,
    version: Version,
    mut add: impl FnMut(&[u8], Entry) -> Result<()>,
) -> Result<()> {
    let size = file.size()?;
    let mut window = Window { file, size, start: 0, bytes: Vec::new() };
    let mut offset = HEADER;
    let mut number = Vec::new();
    while offset < size {
        let (key, head) = match version {
            Version::Numbers => {
                let value = LE::read_u32(window.get(offset, 4)?);
                number.clear();
                number.extend_from_slice(value.to_string().as_bytes());
                (None, 4)
            }
            Version::Texts => {
                let length = LE::read_u16(window.get(offset, 2)?);
                if length > LONGEST_BINARY_KEY {
                    return Err(long_key(&mut window, offset, length));
                }
                (Some(usize::from(length)), 2 + usize::from(length))
            }
        };
        let bytes = window.get(offset, head + 6)?;
        let frames = LE::read_u32(&bytes[head..]);
        let runs = usize::from(LE::read_u16(&bytes[head + 4..]));
        let size = (head + 6 + runs * RUN) as u32;
        let key = key.map_or(&number[..], |length| &bytes[2..2 + length]);
        add(key, Entry { key: 0, offset, size, frames })?;
        offset += u64::from(size);
    }
    Ok(())
}

fn long_key(window: &mut Window<'_>, offset: u64, length: u16) -> Error {
    let key = match window.get(offset + 2, length.into()) {
        Ok(key) => quoted(key).into_owned(),
        Err(error) => return error,
    };
    let message = format!("Utterance label length is greater than limit {length}: {key}");
    let detail = format!(
        "A key must not have more than {LONGEST_BINARY_KEY} bytes: shorten it, or write the file again."
    );
    Error::data(message).with_detail(detail).in_file(window.file.path()).at(offset, None)
}

/// A part of a file in memory.
struct Window<'a> {
    file: &'a DataFile,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Returns bytes of the file. Fails if it ends before them.
    fn get(&mut self, offset: u64, count: usize) -> Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if offset < self.start || offset + count as u64 > end {
            let most = self.size.saturating_sub(offset).min(BLOCK as u64) as usize;
            room::resize(&mut self.bytes, most.max(count), 0, room::FILE)?;
            self.start = offset;
            let read = self.file.read_exact_at(offset, &mut self.bytes);
            if let Err(error) = read {
                self.bytes.clear();
                return Err(error);
            }
        }
        let at = (offset - self.start) as usize;
        Ok(&self.bytes[at..at + count])
    }
}

/// Decodes the runs of an utterance. Frames after the last run have class 0.
pub(super) fn utterance(
    bytes: &[u8],
    version: Version,
    dim: u32,
    classes: &mut [u16],
) -> std::result::Result<(), Failure> {
    let head = match version {
        Version::Numbers => 4,
        Version::Texts => 2 + bytes.get(..2).map_or(0, |length| usize::from(LE::read_u16(length))),
    };
    let at = head + 6;
    let Some(runs) = bytes.get(at..) else { return Err(Failure::Short) };
    let mut next = 0;
    for (number, run) in runs.as_chunks::<RUN>().0.iter().enumerate() {
        let (class, length) = (LE::read_u16(run), usize::from(LE::read_u16(&run[2..])));
        let at = at + number * RUN;
        if u32::from(class) >= dim {
            return Err(Failure::Class { class, at, is_text: false });
        }
        let Some(frames) = classes.get_mut(next..next + length) else {
            return Err(Failure::Runs { sum: next + length, at });
        };
        frames.fill(class);
        next += length;
    }
    if dim == 0 && next < classes.len() {
        return Err(Failure::Class { class: 0, at, is_text: false });
    }
    Ok(())
}
