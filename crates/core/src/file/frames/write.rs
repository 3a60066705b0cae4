//! Writes files of frames in the seekable format of zstd.

use super::table::{FOOTER, FOOTER_MAGIC, TABLE_MAGIC};
use crate::file::zstd::{Packer, most_packed};
use crate::memory::room;
use crate::{Error, Result};

/// Compresses the bytes of one frame.
pub fn pack(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut frame = room::with_capacity(most_packed(bytes.len()), room::CONVERSION)?;
    let packed = Packer::new(level).and_then(|mut packer| packer.pack(bytes, &mut frame));
    packed.map_err(|reason| Error::internal(format!("zstd does not compress: {reason}.")))?;
    Ok(frame)
}

/// The seek table of the frames written so far, which ends the file.
#[derive(Debug, Default)]
pub struct FrameTable {
    entries: Vec<u8>,
    frames: u32,
}

impl FrameTable {
    /// Adds the next frame, given its compressed and its unpacked size.
    pub fn add(&mut self, packed: usize, unpacked: usize) -> Result<()> {
        // The frame that holds the table states its size in 32 bits.
        let limit = (u32::MAX as usize - FOOTER as usize) / 8;
        let (Ok(packed), Ok(unpacked), true) =
            (u32::try_from(packed), u32::try_from(unpacked), (self.frames as usize) < limit)
        else {
            let message = "There are more frames than a table of zstd frames can have.";
            return Err(Error::data(message).with_detail("Write larger frames, or several files."));
        };
        room::reserve(&mut self.entries, 2 * size_of::<u32>(), room::CONVERSION)?;
        self.entries.extend(packed.to_le_bytes());
        self.entries.extend(unpacked.to_le_bytes());
        self.frames += 1;
        Ok(())
    }

    /// Returns the bytes of the table.
    pub fn finish(self) -> Vec<u8> {
        let mut bytes = TABLE_MAGIC.to_le_bytes().to_vec();
        bytes.extend((self.entries.len() as u32 + FOOTER as u32).to_le_bytes());
        bytes.extend(self.entries);
        bytes.extend(self.frames.to_le_bytes());
        // No checksums: the frames have their own.
        bytes.push(0);
        bytes.extend(FOOTER_MAGIC.to_le_bytes());
        bytes
    }
}
