//! Writes an HTK archive: one feature file with all utterances, and a script with a range of frames
//! for each.

use super::features::Utterance;
use super::refuse_key;
use crate::convert::output::Output;
use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, Result};

/// The HTK kind of features of no particular kind (`USER`).
const KIND: u16 = 9;

/// Time from one frame to the next, in units of 100 ns: 10 ms.
const PERIOD: u32 = 100_000;

/// A feature file and its script.
pub struct HtkWriter {
    archive: Output,
    path: String,
    script: Output,
    /// Frames written so far.
    frames: u64,
    bytes: Vec<u8>,
}

impl HtkWriter {
    /// Creates a file of `frames` frames of `columns` values.
    pub fn create(path: &str, script: &str, frames: u64, columns: usize) -> Result<HtkWriter> {
        // Readers of a script give these a special meaning.
        if path.contains('[') || path.contains("...") || path.contains(['\n', '\r']) {
            let error = Error::argument(format!("The path '{path}' cannot be written to an HTK script."));
            return Err(error.with_detail("It must have no '[', no '...' and no line break."));
        }
        let count = i32::try_from(frames).map_err(|_| {
            Error::data(format!("An HTK file cannot hold {frames} frames.")).with_detail("Divide the input.")
        })?;
        let size = u16::try_from(columns * size_of::<f32>())
            .map_err(|_| Error::data(format!("An HTK file cannot hold frames of {columns} values.")))?;
        let mut archive = Output::create(path)?;
        archive.write(&count.to_be_bytes())?;
        archive.write(&PERIOD.to_be_bytes())?;
        archive.write(&size.to_be_bytes())?;
        archive.write(&KIND.to_be_bytes())?;
        let script = Output::create(script)?;
        Ok(HtkWriter { archive, path: path.to_owned(), script, frames: 0, bytes: Vec::new() })
    }

    pub fn write(&mut self, utterance: &Utterance<'_>) -> Result<()> {
        let key = utterance.key;
        let dots = key.windows(3).any(|bytes| bytes == b"...");
        if dots || key.iter().any(|byte| matches!(byte, b'=' | b'\n' | b'\r')) {
            let detail = "Keys must have no '=', no '...' and no line break.";
            return Err(refuse_key(key, "to an HTK script", detail));
        }
        let end = self.frames + (utterance.values.len() / utterance.columns.max(1)) as u64;
        self.bytes.clear();
        room::reserve(&mut self.bytes, size_of_val(utterance.values), room::CONVERSION)?;
        self.bytes.extend(utterance.values.iter().flat_map(|value| value.to_be_bytes()));
        self.archive.write(&self.bytes)?;
        self.script.write(key)?;
        // Ranges include both ends.
        let range = format!(".mfc={}[{},{}]\n", self.path, self.frames, end.saturating_sub(1));
        self.script.write(range.as_bytes())?;
        self.frames = end;
        Ok(())
    }

    /// Gives the files their names: first the archive, then the script that refers to it.
    pub fn commit(self) -> Result<()> {
        self.archive.commit()?;
        self.script.commit()
    }
}
