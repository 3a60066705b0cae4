//! Page-locks memory by the CUDA driver, so that a GPU copies from minibatches directly.
//!
//! The driver is loaded at run time: the package runs without it.

#![allow(unsafe_code, reason = "functions of the CUDA driver")]

use cntk_reader_engine::pack::PageLock;
use libloading::Library;
use std::ffi::{OsStr, c_int, c_uint, c_void};
use std::ptr::null_mut;

type Status = c_int;
type Context = *mut c_void;

const SUCCESS: Status = 0;
/// `CU_MEMHOSTREGISTER_PORTABLE`: the memory is page-locked for all contexts, so for other GPUs
/// too.
const PORTABLE: c_uint = 1;

/// The CUDA driver, with the context that PyTorch uses on a device.
pub struct Driver {
    push: unsafe extern "C" fn(Context) -> Status,
    pop: unsafe extern "C" fn(*mut Context) -> Status,
    register: unsafe extern "C" fn(*mut c_void, usize, c_uint) -> Status,
    unregister: unsafe extern "C" fn(*mut c_void) -> Status,
    context: Context,
    /// Has the functions.
    _library: Library,
}

// SAFETY: the driver's functions may be called on any thread, also at the same time, and a context
// may be current on several threads. Nothing else is in here.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

impl Driver {
    /// Loads the driver; `None` if there is none, or no such device.
    pub fn load(library: &OsStr, device: c_int) -> Option<Driver> {
        // SAFETY: the driver may be loaded at any time, and unloaded. The types are those of
        // `cuda.h`, whose functions have kept them since CUDA 7: a name gets a suffix where its
        // type changes. `context` and `handle` are written before a call returns success, and are
        // used only then.
        unsafe {
            let library = Library::new(library).ok()?;
            let init = *library.get::<unsafe extern "C" fn(c_uint) -> Status>(b"cuInit\0").ok()?;
            let get =
                *library.get::<unsafe extern "C" fn(*mut c_int, c_int) -> Status>(b"cuDeviceGet\0").ok()?;
            let retain = *library
                .get::<unsafe extern "C" fn(*mut Context, c_int) -> Status>(b"cuDevicePrimaryCtxRetain\0")
                .ok()?;
            let (mut handle, mut context) = (0, null_mut());
            // The context stays with the process, as PyTorch's does: memory may be unlocked at any
            // time.
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

    /// Calls a function of the driver that needs a current context.
    fn within(&self, call: impl FnOnce() -> Status) -> bool {
        // SAFETY: the context was retained and is never released. `pop` undoes `push`, on the same
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
        // SAFETY: the range is allocated, and stays so until `unlock`. The driver locks its pages
        // and does not write to them.
        self.within(|| unsafe { (self.register)(start, memory.len(), PORTABLE) })
    }

    fn unlock(&self, address: usize) {
        // SAFETY: the memory at this address was registered by `lock`, and is still allocated. The
        // driver refuses others. It fails in a child process of a fork and at the end of the
        // process, where nothing is locked any more.
        self.within(|| unsafe { (self.unregister)(std::ptr::without_provenance_mut(address)) });
    }
}
