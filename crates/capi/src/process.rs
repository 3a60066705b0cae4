//! Shutdown of the process, or of the runtime in which callbacks run.

use super::call::guard_silently;
use cntk_reader_core::runtime::exit;

/// Shuts down all callbacks, for a host that ends before its process does, such as an interpreter.
/// No new callback begins, and the call waits up to ten seconds for running ones to return. Calls
/// that need a callback then fail with CNTK_READER_STATUS_STATE, and objects that callbacks would
/// have released are leaked.
///
/// The library does this by itself when the process exits. It cannot be undone. May be called from
/// any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_callbacks_end() {
    guard_silently(|| exit::close());
}

/// Parks this thread until the process ends; never returns. For callbacks whose thread the host is
/// terminating: `pthread_exit` would unwind frames of this library, which is not supported. No call
/// of the library waits for a parked thread. Callbacks in C need not call this, because the library
/// does so itself; callbacks in C++ call it where they catch `abi::__forced_unwind`.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_thread_park() -> ! {
    exit::park()
}
