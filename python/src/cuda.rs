//! Page-locks memory with the CUDA driver, so that a GPU copies directly from minibatches.
//!
//! The driver is loaded at run time: the package also runs without it.

#![allow(unsafe_code, reason = "functions of the CUDA driver")]

use cntk_reader_engine::pack::PageLock;
use libloading::Library;
use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::ptr::null_mut;

type Status = c_int;
type Context = *mut c_void;

const SUCCESS: Status = 0;
/// `CU_MEMHOSTREGISTER_PORTABLE`: the memory is page-locked for all contexts, and so for all GPUs.
const PORTABLE: c_uint = 1;

/// The CUDA driver, with the device's primary context, which PyTorch uses too.
pub struct Driver {
    push: unsafe extern "C" fn(Context) -> Status,
    pop: unsafe extern "C" fn(*mut Context) -> Status,
    register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> Status,
    unregister: unsafe extern "C" fn(*mut c_void) -> Status,
    context: Context,
    /// Keeps the functions loaded.
    _library: Library,
}

// SAFETY: the driver's functions may be called concurrently from any thread, and a context may be
// current on several threads. The struct has no other state.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

impl Driver {
    /// Loads the driver. Returns `None` if there is no driver or no such device.
    pub fn load(library: &OsStr, device: c_int) -> Option<Driver> {
        // SAFETY: the driver may be loaded and unloaded at any time. The signatures are those of
        // `cuda.h`, stable since CUDA 7: a function whose signature changes gets a new suffix.
        // `context` and `handle` are written before a call returns success, and are used only then.
        unsafe {
            let library = Library::new(library).ok()?;
            let init = *library.get::<unsafe extern "C" fn(c_uint) -> Status>(b"cuInit\0").ok()?;
            let get =
                *library.get::<unsafe extern "C" fn(*mut c_int, c_int) -> Status>(b"cuDeviceGet\0").ok()?;
            let retain = *library
                .get::<unsafe extern "C" fn(*mut Context, c_int) -> Status>(b"cuDevicePrimaryCtxRetain\0")
                .ok()?;
            let (mut handle, mut context) = (0, null_mut());
            // The context is never released, like PyTorch's: memory may be unlocked at any time.
            let is_ready = init(0) == SUCCESS
                && get(&raw mut handle, device) == SUCCESS
                && retain(&raw mut context, handle) == SUCCESS;
            is_ready.then_some(())?;
            Some(Driver {
                push: *library.get(b"cuCtxPushCurrent_v2\0").ok()?,
                pop: *library.get(b"cuCtxPopCurrent_v2\0").ok()?,
                register: *library.get(b"cuMemHostRegister_v2\0").ok()?,
                unregister: *library.get(b"cuMemHostUnregister\0").ok()?,
                context,
                _library: library,
            })
        }
    }

    /// Calls a driver function that needs a current context.
    fn within(&self, call: impl FnOnce() -> Status) -> bool {
        // SAFETY: the context was retained and is never released. `pop` undoes `push` on the same
        // thread.
        unsafe {
            if (self.push)(self.context) != SUCCESS {
                return false;
            }
            let (status, mut popped) = (call(), null_mut());
            (self.pop)(&raw mut popped);
            status == SUCCESS
        }
    }
}

impl PageLock for Driver {
    fn lock(&self, memory: &[u8]) -> bool {
        let start = memory.as_ptr().cast_mut().cast();
        // SAFETY: the range stays allocated until `unlock`. The driver pins its pages and does not
        // write to them.
        self.within(|| unsafe { (self.register)(start, memory.len(), PORTABLE) })
    }

    fn unlock(&self, address: usize) {
        // SAFETY: `lock` registered the memory at this address, and it is still allocated; the
        // driver rejects any other address. In a forked child and at process exit the call fails,
        // but nothing is locked there any more.
        self.within(|| unsafe { (self.unregister)(std::ptr::without_provenance_mut(address)) });
    }
}
