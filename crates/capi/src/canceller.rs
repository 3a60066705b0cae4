//! Cancellation of long-running calls.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::handle::{self, Handle, Header, Kind, argument, object};
use super::status::cntk_reader_status;
use cntk_reader_core::runtime::cancel::Canceller;
use std::mem::MaybeUninit;

/// Cancels long-running calls from another thread: opening a reader, starting an epoch, setting a
/// configuration, reading and restoring. Create it with cntk_reader_canceller_create, set it as
/// `canceller` of a cntk_reader_source, and free it with cntk_reader_canceller_free. It may serve
/// several readers, whose calls it cancels together.
///
/// User code (deserializers, transforms, mounted file systems) is not interrupted. If it runs on
/// another thread, the call stops waiting for it; if it runs on the thread of the call, the call
/// ends after it.
///
/// Threads: may be shared.
pub struct cntk_reader_canceller(Header);

// SAFETY: no other type has this kind.
unsafe impl Handle for cntk_reader_canceller {
    const KIND: Kind = Kind::Canceller;
    type Object = Canceller;

    fn header(&self) -> &Header {
        &self.0
    }
}

/// Creates a canceller, which the caller owns.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_canceller_create(
    canceller: Option<&mut MaybeUninit<*mut cntk_reader_canceller>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let canceller = given(canceller, "canceller")?;
        canceller.write(handle::hand_out(Box::new(Canceller::new())));
        Ok(())
    })
}

/// Cancels the running calls of all readers that were opened with this canceller, including the
/// opening. They soon return CNTK_READER_STATUS_CANCELLED without effect. The same call made again
/// continues where it stopped, and no minibatch is lost. `ends` is set to 1 if there was a call to
/// cancel, otherwise to 0: then nothing happens, and the next call is not affected. Returns at
/// once. May be called from any thread, but not from a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_canceller_cancel(
    canceller: Option<&cntk_reader_canceller>,
    ends: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (canceller, ends) = (object!(canceller)?, given(ends, "ends")?);
        ends.write(canceller.cancel().into());
        Ok(())
    })
}

/// Frees a canceller. NULL is allowed. For a released canceller or another handle it does nothing
/// but log the mistake. Readers that were opened with it stay usable, but their calls can no longer
/// be cancelled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_canceller_free(canceller: *mut cntk_reader_canceller) {
    // SAFETY: NULL or a handle, which the caller gives up.
    guard_silently(|| drop(unsafe { handle::release(canceller, argument!("canceller")) }));
}
