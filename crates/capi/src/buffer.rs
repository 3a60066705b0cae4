//! Byte buffers owned by the caller: checkpoints.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::handle::{self, Handle, Header, Kind, argument, object};
use super::status::cntk_reader_status;
use std::mem::MaybeUninit;

/// A buffer of bytes, owned by the caller. Free it with cntk_reader_buffer_free.
///
/// Threads: immutable, may be shared. It may outlive its reader.
pub struct cntk_reader_buffer(Header);

// SAFETY: no other type has this kind.
unsafe impl Handle for cntk_reader_buffer {
    const KIND: Kind = Kind::Buffer;
    type Object = Vec<u8>;

    fn header(&self) -> &Header {
        &self.0
    }
}

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
        let content = object!(buffer)?;
        let (bytes, size) = (given(bytes, "bytes")?, given(size, "size")?);
        bytes.write(content.as_ptr());
        size.write(content.len());
        Ok(())
    })
}

/// Frees a buffer. NULL is allowed. For a released buffer or another handle it does nothing but log
/// the mistake.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_buffer_free(buffer: *mut cntk_reader_buffer) {
    // SAFETY: NULL or a handle, which the caller gives up.
    guard_silently(|| drop(unsafe { handle::release(buffer, argument!("buffer")) }));
}
