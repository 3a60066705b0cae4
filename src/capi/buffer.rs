//! Bytes that the library hands out for good: checkpoints.

use super::call::{Output, guard, guard_silently, input};
use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use std::ffi::c_void;

/// Bytes that the caller owns; free them with cntk_reader_buffer_free.
///
/// Threads: immutable, may be shared. Independent of the reader that made it.
pub struct cntk_reader_buffer(pub(super) Vec<u8>);

/// Gives the bytes of a buffer: a pointer that is valid as long as the buffer, and their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_buffer_get_bytes(
    buffer: *const cntk_reader_buffer,
    bytes: *mut *const c_void,
    size: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let cntk_reader_buffer(content) = input(buffer, "buffer")?;
            let (bytes, size) = (Output::new(bytes, "bytes")?, Output::new(size, "size")?);
            bytes.set(content.as_ptr().cast());
            size.set(content.len());
            Ok(())
        })
    }
}

/// Frees a buffer. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_buffer_free(buffer: *mut cntk_reader_buffer) {
    if !buffer.is_null() {
        // SAFETY: the caller gives up its ownership, which was passed out by `Box::into_raw`.
        guard_silently(|| drop(unsafe { Box::from_raw(buffer) }));
    }
}
