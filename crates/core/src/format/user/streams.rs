//! Checks of a user's deserializer's declarations.

use super::{UserDeserializer, call, wrong};
use crate::Result;
use crate::stream::{Storage, StreamInfo};
use std::sync::Arc;

/// Gets and checks the streams and the number of chunks.
pub(super) fn describe(user: &dyn UserDeserializer) -> Result<(Arc<[StreamInfo]>, u32)> {
    // Called in CNTK's order.
    let chunks = call("giving its number of chunks", || Ok(user.chunk_count()))?;
    let streams: Arc<[StreamInfo]> = call("describing its streams", || Ok(user.streams().into()))?;
    check_streams(&streams)?;
    check_count(chunks)?;
    Ok((streams, chunks))
}

/// Rejects impossible numbers of chunks.
fn check_count(chunks: u32) -> Result<()> {
    if chunks == 0 {
        return Err(wrong("Deserializer must provide at least one chunk"));
    }
    // CNTK reserves the last number for "none".
    if chunks == u32::MAX {
        return Err(wrong("Driving deserializer provided too many chunks."));
    }
    Ok(())
}

/// Rejects impossible streams.
fn check_streams(streams: &[StreamInfo]) -> Result<()> {
    if streams.is_empty() {
        return Err(wrong("Deserializer must provide at least one stream"));
    }
    for (i, stream) in streams.iter().enumerate() {
        check(stream).map_err(|error| error.in_stream(&stream.name))?;
        if streams[..i].iter().any(|other| other.name == stream.name) {
            let message = format!(
                "Two streams with the same name '{}' have been found. Please rename the duplicate.",
                stream.name
            );
            return Err(wrong(message).in_stream(&stream.name));
        }
    }
    Ok(())
}

fn check(stream: &StreamInfo) -> Result<()> {
    if stream.name.is_empty() {
        return Err(wrong("A stream must have a name."));
    }
    if stream.storage == Storage::SparseCsc && !stream.element.is_real() {
        let found = stream.element.name();
        return Err(wrong(format!("Values of a sparse stream are float32 or float64, not {found}.")));
    }
    if stream.has_late_shape() {
        return Ok(());
    }
    let size = stream.shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
    let bytes = size.and_then(|size| size.checked_mul(stream.element.size()));
    let Some(bytes) = bytes.filter(|&bytes| bytes <= isize::MAX as usize) else {
        return Err(wrong(format!("A sample of the shape {:?} is too large for any memory.", stream.shape)));
    };
    if stream.storage == Storage::SparseCsc && bytes / stream.element.size() > i32::MAX as usize {
        return Err(wrong(format!(
            "The shape {:?} of a sparse sample has more values than a 32-bit index can count.",
            stream.shape
        )));
    }
    Ok(())
}

/// A hash of numbers, by which checkpoints of other data are rejected.
#[derive(Clone, Copy)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn of(streams: &[StreamInfo], chunks: u32) -> Self {
        let mut fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);
        fingerprint.add(chunks.into());
        for stream in streams {
            stream.name.bytes().for_each(|byte| fingerprint.add(byte.into()));
            stream.shape.iter().for_each(|&dim| fingerprint.add(dim as u64));
            fingerprint.add(stream.storage as u64);
            fingerprint.add(stream.element as u64);
            fingerprint.add(stream.defines_mb_size.into());
        }
        fingerprint
    }

    pub(super) fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}
