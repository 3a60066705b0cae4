//! Writing NumPy archives (`.npz`): ZIP files without compression, whose members are arrays (`.npy`, version 1.0).
//!
//! `numpy.load` opens such a file at once, whatever its size, and reads an array when it is asked for by its key.

use super::features::Utterance;
use super::refuse_key;
use crate::convert::output::Output;
use crate::{Error, Result};

/// Numbers from this one on are written to the fields of 64 bits that large archives have besides.
const LARGE: u64 = 0xffff_ffff;

/// Flag of a member whose name is UTF-8.
const UTF8: u16 = 1 << 11;

/// Midnight of 1 January 1980, the first date that there is: files of equal content are equal.
const DATE: u16 = 1 << 5 | 1;

/// Version of the format that a reader must know: with fields of 64 bits.
const VERSION: u16 = 45;

/// An archive of arrays.
pub struct NpzWriter {
    output: Output,
    /// The list of members, which stands at the end of the archive.
    directory: Vec<u8>,
    members: u64,
    bytes: Vec<u8>,
}

impl NpzWriter {
    pub fn create(path: &str) -> Result<NpzWriter> {
        Ok(NpzWriter { output: Output::create(path)?, directory: Vec::new(), members: 0, bytes: Vec::new() })
    }

    /// Adds an array of `float32`: frames times values.
    pub fn matrix(&mut self, utterance: &Utterance<'_>) -> Result<()> {
        let rows = utterance.values.len() / utterance.columns.max(1);
        self.header("<f4", &format!("({rows}, {})", utterance.columns));
        self.bytes.extend(utterance.values.iter().flat_map(|value| value.to_le_bytes()));
        self.member(utterance.key)
    }

    /// Adds an array of `int32`: a class number for each frame.
    pub fn classes(&mut self, key: &[u8], classes: &[u16]) -> Result<()> {
        self.header("<i4", &format!("({},)", classes.len()));
        self.bytes.extend(classes.iter().flat_map(|&class| i32::from(class).to_le_bytes()));
        self.member(key)
    }

    /// Begins an array in `bytes`.
    fn header(&mut self, element: &str, shape: &str) {
        const PREFIX: &[u8] = b"\x93NUMPY\x01\x00";
        let text = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}, }}");
        // Values begin at a multiple of 64 bytes from the start; a line break ends the text.
        let size = (PREFIX.len() + 2 + text.len() + 1).next_multiple_of(64);
        self.bytes.clear();
        self.bytes.extend_from_slice(PREFIX);
        self.bytes.extend(((size - PREFIX.len() - 2) as u16).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.resize(size - 1, b' ');
        self.bytes.push(b'\n');
    }

    /// Writes what is in `bytes` as a member.
    fn member(&mut self, key: &[u8]) -> Result<()> {
        let name =
            std::str::from_utf8(key).ok().filter(|key| !key.contains('\0')).map(|key| format!("{key}.npy"));
        let Some(name) = name.filter(|name| name.len() <= usize::from(u16::MAX)) else {
            let detail = "Keys must be UTF-8 of less than 64 KB without NUL.";
            return Err(refuse_key(key, "to a NumPy archive", detail));
        };
        let at = self.output.at();
        let size = u32::try_from(self.bytes.len()).ok().filter(|&size| u64::from(size) < LARGE).ok_or_else(
            || {
                Error::data("The array of an utterance has 4 GB or more.")
                    .for_key(String::from_utf8_lossy(key))
            },
        )?;
        let crc = crc32fast::hash(&self.bytes);
        // What the member itself and the directory say of it: version, flags, no compression, time, date, sum, sizes, name.
        let mut facts = Vec::with_capacity(26);
        for number in [VERSION, UTF8, 0, 0, DATE] {
            facts.extend(number.to_le_bytes());
        }
        for number in [crc, size, size] {
            facts.extend(number.to_le_bytes());
        }
        facts.extend((name.len() as u16).to_le_bytes());
        self.output.write(b"PK\x03\x04")?;
        self.output.write(&facts)?;
        self.output.write(&0u16.to_le_bytes())?;
        self.output.write(name.as_bytes())?;
        self.output.write(&self.bytes)?;

        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(VERSION.to_le_bytes());
        self.directory.extend(facts);
        let is_far = at >= LARGE;
        let extra: u16 = if is_far { 12 } else { 0 };
        self.directory.extend(extra.to_le_bytes());
        // No comment, first disk, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend((at.min(LARGE) as u32).to_le_bytes());
        self.directory.extend(name.as_bytes());
        if is_far {
            self.directory.extend([1, 0, 8, 0]);
            self.directory.extend(at.to_le_bytes());
        }
        self.members += 1;
        Ok(())
    }

    pub fn commit(mut self) -> Result<()> {
        let (at, size, members) = (self.output.at(), self.directory.len() as u64, self.members);
        self.output.write(&self.directory)?;
        let end = at + size;
        if at >= LARGE || size >= LARGE || members >= 0xffff {
            let mut record = b"PK\x06\x06".to_vec();
            record.extend(44u64.to_le_bytes());
            record.extend([VERSION, VERSION].map(u16::to_le_bytes).concat());
            record.extend([0; 8]);
            record.extend([members, members, size, at].map(u64::to_le_bytes).concat());
            record.extend(b"PK\x06\x07\0\0\0\0");
            record.extend(end.to_le_bytes());
            record.extend(1u32.to_le_bytes());
            self.output.write(&record)?;
        }
        let count = (members.min(0xffff) as u16).to_le_bytes();
        let mut record = b"PK\x05\x06\0\0\0\0".to_vec();
        record.extend([count, count].concat());
        record.extend([size, at].map(|number| (number.min(LARGE) as u32).to_le_bytes()).concat());
        record.extend([0; 2]);
        self.output.write(&record)?;
        self.output.commit()
    }
}
