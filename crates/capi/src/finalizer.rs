//! What a user hands over for the library to keep, and how the library gives it back.

use cntk_reader_core::runtime::exit;
use std::ffi::c_void;

/// Called once with the userdata that it was registered with, when the library will not use that userdata again.
pub type cntk_reader_finalizer = Option<unsafe extern "C-unwind" fn(userdata: *mut c_void)>;

/// A user's pointer, which is given back when this is dropped.
///
/// The header lets the library call the finalizer on any thread, and demands userdata that any thread may use.
pub(super) struct Userdata {
    pointer: *mut c_void,
    finalizer: cntk_reader_finalizer,
}

// SAFETY: the pointer is never dereferenced here. It goes to the user's functions alone, which the header requires to
// take it on any thread.
unsafe impl Send for Userdata {}
// SAFETY: as above; a shared reference gives the pointer's value, no access to what it points to.
unsafe impl Sync for Userdata {}

impl Userdata {
    pub(super) fn new(pointer: *mut c_void, finalizer: cntk_reader_finalizer) -> Self {
        Userdata { pointer, finalizer }
    }

    pub(super) fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

impl Drop for Userdata {
    fn drop(&mut self) {
        if let Some(finalizer) = self.finalizer {
            // SAFETY: the user registered this function for this pointer; dropping is its only call.
            exit::foreign(|| unsafe { finalizer(self.pointer) });
        }
    }
}
