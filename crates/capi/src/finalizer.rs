//! Userdata that the library keeps, and its finalizers.

use cntk_reader_core::runtime::exit;
use std::ffi::c_void;

/// Called once with the userdata that it was registered with, after the last use of that userdata.
pub type cntk_reader_finalizer = Option<unsafe extern "C-unwind" fn(userdata: *mut c_void)>;

/// A user's pointer; dropping it calls the finalizer.
///
/// The header allows the finalizer to be called on any thread, and requires userdata that any
/// thread may use.
pub(super) struct Userdata {
    pointer: *mut c_void,
    finalizer: cntk_reader_finalizer,
}

// SAFETY: the pointer is never dereferenced here, only passed to the user's functions, which the
// header requires to accept it on any thread.
unsafe impl Send for Userdata {}
// SAFETY: as above; a shared reference exposes the pointer's value only.
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
            // SAFETY: the user registered this function for this pointer, and it is called only
            // here.
            exit::foreign(|| unsafe { finalizer(self.pointer) });
        }
    }
}
