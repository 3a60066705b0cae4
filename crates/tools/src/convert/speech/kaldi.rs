//! Writes Kaldi archives.

use super::features::Utterance;
use super::refuse_key;
use crate::convert::output::Output;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// A binary archive, and optionally its script.
pub struct ArchiveWriter {
    archive: Output,
    path: String,
    script: Option<Output>,
    bytes: Vec<u8>,
}

impl ArchiveWriter {
    pub fn create(path: &str, script: Option<&str>) -> Result<ArchiveWriter> {
        let archive = Output::create(path)?;
        let script = script.map(Output::create).transpose()?;
        Ok(ArchiveWriter { archive, path: path.to_owned(), script, bytes: Vec::new() })
    }

    /// Writes a matrix of floats.
    pub fn matrix(&mut self, utterance: &Utterance<'_>) -> Result<()> {
        self.begin(utterance.key)?;
        self.bytes.extend(b"FM ");
        self.size(utterance.values.len() / utterance.columns.max(1), utterance.key)?;
        self.size(utterance.columns, utterance.key)?;
        room::reserve(&mut self.bytes, size_of_val(utterance.values), room::CONVERSION)?;
        self.bytes.extend(utterance.values.iter().flat_map(|value| value.to_le_bytes()));
        self.archive.write(&self.bytes)
    }

    /// Writes a vector of class numbers.
    pub fn classes(&mut self, key: &[u8], classes: &[u16]) -> Result<()> {
        self.begin(key)?;
        self.size(classes.len(), key)?;
        // Each class is a byte with the value 4, its size, and four bytes.
        room::reserve(&mut self.bytes, 5 * classes.len(), room::CONVERSION)?;
        for &class in classes {
            self.bytes.push(4);
            self.bytes.extend(i32::from(class).to_le_bytes());
        }
        self.archive.write(&self.bytes)
    }

    /// Begins an object in `bytes`, and writes its line of the script.
    fn begin(&mut self, key: &[u8]) -> Result<()> {
        if key.is_empty() || key.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0) {
            return Err(refuse_key(key, "to a Kaldi archive", "Keys have no white space and are not empty."));
        }
        let offset = self.archive.at() + key.len() as u64 + 1;
        if let Some(script) = &mut self.script {
            script.write(key)?;
            script.write(format!(" {}:{offset}\n", self.path).as_bytes())?;
        }
        self.bytes.clear();
        // Room for the bytes after the key, including two numbers.
        room::reserve(&mut self.bytes, key.len() + 32, room::CONVERSION)?;
        self.bytes.extend_from_slice(key);
        self.bytes.extend(b" \0B");
        Ok(())
    }

    fn size(&mut self, size: usize, key: &[u8]) -> Result<()> {
        let size = i32::try_from(size).map_err(|_| {
            let message =
                format!("An utterance has {size} frames or values, more than a Kaldi archive holds.");
            Error::data(message).for_key(quoted(key))
        })?;
        self.bytes.push(4);
        self.bytes.extend(size.to_le_bytes());
        Ok(())
    }

    /// Gives the files their names: first the archive, then the script that refers to it.
    pub fn commit(self) -> Result<()> {
        self.archive.commit()?;
        self.script.map_or(Ok(()), Output::commit)
    }
}
