//! Writes NumPy archives of utterances.

use super::features::Utterance;
use super::refuse_key;
use crate::convert::numpy::{ArchiveWriter, header};
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;

/// An archive of arrays, one for each utterance.
pub struct NpzWriter {
    archive: ArchiveWriter,
    bytes: Vec<u8>,
}

impl NpzWriter {
    pub fn create(path: &str) -> Result<NpzWriter> {
        Ok(NpzWriter { archive: ArchiveWriter::create(path)?, bytes: Vec::new() })
    }

    /// Adds an array of `float32`: frames times values.
    pub fn matrix(&mut self, utterance: &Utterance<'_>) -> Result<()> {
        let rows = utterance.values.len() / utterance.columns.max(1);
        self.bytes = header("<f4", &[rows as u64, utterance.columns as u64]);
        room::reserve(&mut self.bytes, size_of_val(utterance.values), room::CONVERSION)?;
        self.bytes.extend(utterance.values.iter().flat_map(|value| value.to_le_bytes()));
        self.member(utterance.key)
    }

    /// Adds an array of `int32`: a class number for each frame.
    pub fn classes(&mut self, key: &[u8], classes: &[u16]) -> Result<()> {
        self.bytes = header("<i4", &[classes.len() as u64]);
        room::reserve(&mut self.bytes, size_of::<i32>() * classes.len(), room::CONVERSION)?;
        self.bytes.extend(classes.iter().flat_map(|&class| i32::from(class).to_le_bytes()));
        self.member(key)
    }

    /// Writes `bytes` as a member.
    fn member(&mut self, key: &[u8]) -> Result<()> {
        let name =
            std::str::from_utf8(key).ok().filter(|key| !key.contains('\0')).map(|key| format!("{key}.npy"));
        let Some(name) = name.filter(|name| name.len() <= usize::from(u16::MAX)) else {
            let detail = "Keys must be UTF-8 of less than 64 KB without NUL.";
            return Err(refuse_key(key, "to a NumPy archive", detail));
        };
        self.archive.begin(&name, self.bytes.len() as u64, crc32fast::hash(&self.bytes))?;
        self.archive.write(&self.bytes)
    }

    pub fn commit(self) -> Result<()> {
        self.archive.finish()?.commit()
    }
}
