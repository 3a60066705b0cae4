//! Byte buffers owned by the caller: checkpoints.

use super::call::{call, given};
use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use std::mem::MaybeUninit;

/// A buffer of bytes, owned by the caller. Free it with cntk_reader_buffer_free.
///
/// Threads: immutable, may be shared. It may outlive its reader.
pub struct cntk_reader_buffer(pub(super) Vec<u8>);

/// Gets the bytes of a buffer: a pointer that is valid as long as the buffer, and the number of
/// bytes.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_buffer_get_bytes(
    buffer: Option<&cntk_reader_buffer>,
    bytes: Option<&mut MaybeUninit<*const u8>>,
    size: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let cntk_reader_buffer(content) = given(buffer, "buffer")?;
        let (bytes, size) = (given(bytes, "bytes")?, given(size, "size")?);
        bytes.write(content.as_ptr());
        size.write(content.len());
        Ok(())
    })
}

/// Frees a buffer. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_buffer_free(buffer: Option<Box<cntk_reader_buffer>>) {
    drop(buffer);
}
