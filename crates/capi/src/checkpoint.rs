//! Checkpoints of a reader.

use super::buffer::cntk_reader_buffer;
use super::call::{call, given, inputs};
use super::error::cntk_reader_error;
use super::handle::{hand_out, object};
use super::reader::cntk_reader;
use super::status::cntk_reader_status;
use std::mem::MaybeUninit;

/// Saves a checkpoint of the position after the most recently read minibatch. It continues exactly
/// in every mode. It is opaque, versioned and checksummed, and has a few hundred bytes in most
/// modes. The caller owns the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_checkpoint_save(
    reader: Option<&cntk_reader>,
    checkpoint: Option<&mut MaybeUninit<*mut cntk_reader_buffer>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (reader, checkpoint) = (object!(reader)?, given(checkpoint, "checkpoint")?);
        let bytes = reader.with(|reader| reader.checkpoint())?;
        checkpoint.write(hand_out(Box::new(bytes)));
        Ok(())
    })
}

/// Restores a checkpoint of `size` bytes: the next minibatch is the one that followed it. This also
/// starts the epoch in which it was saved, so that a new reader can continue at once, as the worker
/// that saved it. Calling cntk_reader_epoch_start afterwards would drop the position. A reader
/// whose number of workers and rank were set, by cntk_reader_epoch_start or
/// cntk_reader_configuration_set, keeps them. A checkpoint is refused if the data or the
/// configuration differ, or if these workers cannot continue it exactly; the error says what
/// differs, and the reader is unchanged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_checkpoint_restore(
    reader: *mut cntk_reader,
    bytes: *const u8,
    size: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `bytes` is NULL, which `inputs` refuses unless `size` is 0, or has `size` bytes,
        // as documented above.
        let checkpoint = unsafe { inputs(bytes, size, "bytes") }?;
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        object!(reader)?.with(|reader| reader.restore(checkpoint))
    })
}

/// Restores a checkpoint like cntk_reader_checkpoint_restore, but allows values of the data to have
/// changed since it was saved. The sequences must have the same keys and lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_checkpoint_restore_over_changed_values(
    reader: *mut cntk_reader,
    bytes: *const u8,
    size: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `bytes` is NULL, which `inputs` refuses unless `size` is 0, or has `size` bytes,
        // as documented above.
        let checkpoint = unsafe { inputs(bytes, size, "bytes") }?;
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        object!(reader)?.with(|reader| reader.restore_over_changed_values(checkpoint))
    })
}
