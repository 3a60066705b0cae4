//! What ends calls that take long.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use cntk_reader_core::runtime::cancel::Canceller;
use std::mem::MaybeUninit;

/// Ends calls that take long, from another thread: opening, the start of an epoch, setting a configuration, reading, and
/// restoring. Make it with cntk_reader_canceller_create, set it as `canceller` of a cntk_reader_source, and free it with
/// cntk_reader_canceller_free. It may serve several readers, whose calls it ends together.
///
/// Code of users (deserializers, transforms, mounted file systems) is not interrupted. Where it runs on threads of its own, the
/// call stops waiting for it; where it runs in the call, the call ends after it.
///
/// Threads: may be shared.
pub struct cntk_reader_canceller(pub(super) Canceller);

/// Makes a canceller, which the caller owns.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_canceller_create(
    canceller: Option<&mut MaybeUninit<*mut cntk_reader_canceller>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let canceller = given(canceller, "canceller")?;
        canceller.write(Box::into_raw(Box::new(cntk_reader_canceller(Canceller::new()))));
        Ok(())
    })
}

/// Ends the calls in progress of the readers that were opened with this canceller, opening included: they return
/// CNTK_READER_STATUS_CANCELLED soon, and have changed nothing. Made again, such a call continues where it stood, and no
/// minibatch is lost. Gives 1 if there is a call to be ended, else 0: then nothing happens, and the next call is not affected.
/// Returns at once. May be called from any thread, but not from a handler of signals.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_canceller_cancel(
    canceller: Option<&cntk_reader_canceller>,
    ends: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_canceller(canceller), ends) = (given(canceller, "canceller")?, given(ends, "ends")?);
        ends.write(canceller.cancel().into());
        Ok(())
    })
}

/// Frees a canceller. NULL is allowed. Readers that were opened with it stay usable; nothing ends their calls any more.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_canceller_free(canceller: Option<Box<cntk_reader_canceller>>) {
    guard_silently(|| drop(canceller));
}
