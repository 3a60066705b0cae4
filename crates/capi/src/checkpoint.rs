//! Checkpoints of a reader.

use super::buffer::cntk_reader_buffer;
use super::call::{call, given, input, inputs};
use super::error::cntk_reader_error;
use super::reader::cntk_reader;
use super::status::cntk_reader_status;
use std::mem::MaybeUninit;

/// Saves a checkpoint that continues exactly in every mode: opaque bytes, versioned and checksummed, a few hundred in
/// most modes. It stands for the position after the minibatch that was read last. The caller owns the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_checkpoint_save(
    reader: Option<&cntk_reader>,
    checkpoint: Option<&mut MaybeUninit<*mut cntk_reader_buffer>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (reader, checkpoint) = (given(reader, "reader")?, given(checkpoint, "checkpoint")?);
        let bytes = reader.with(|reader| reader.checkpoint())?;
        checkpoint.write(Box::into_raw(Box::new(cntk_reader_buffer(bytes))));
        Ok(())
    })
}

/// Restores a checkpoint, given as its `size` bytes: the next minibatch is the one that followed it.
/// Also starts the epoch that it was taken in, so that a new reader can continue at once, as the
/// worker that saved it. A reader whose number of workers and rank were set, by
/// cntk_reader_epoch_start or cntk_reader_configuration_set, keeps them. A checkpoint of other data,
/// of another configuration, or one that these workers cannot continue exactly is refused with an
/// error that says what differs; the reader is then as before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_checkpoint_restore(
    reader: *mut cntk_reader,
    bytes: *const u8,
    size: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `bytes` is NULL, which `inputs` refuses unless `size` is 0, or has `size` bytes, as documented above.
        let checkpoint = unsafe { inputs(bytes, size, "bytes") }?;
        // SAFETY: `reader` is NULL, which `input` refuses, or a handle that is not freed yet. It is borrowed as shared, so that
        // a second thread in a call is refused by its lock.
        unsafe { input(reader, "reader") }?.with(|reader| reader.restore(checkpoint))
    })
}

/// As cntk_reader_checkpoint_restore, where the values of the data were changed on purpose since the checkpoint was saved: the
/// sequences must be the same, in their keys and lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_checkpoint_restore_over_changed_values(
    reader: *mut cntk_reader,
    bytes: *const u8,
    size: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `bytes` is NULL, which `inputs` refuses unless `size` is 0, or has `size` bytes, as documented above.
        let checkpoint = unsafe { inputs(bytes, size, "bytes") }?;
        // SAFETY: `reader` is NULL, which `input` refuses, or a handle that is not freed yet. It is borrowed as shared, so that
        // a second thread in a call is refused by its lock.
        unsafe { input(reader, "reader") }?.with(|reader| reader.restore_over_changed_values(checkpoint))
    })
}
