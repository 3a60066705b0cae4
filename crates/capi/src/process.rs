//! The end of the process, or of the runtime that callbacks run in.

use super::call::guard_silently;
use cntk_reader_core::runtime::exit;

/// Ends all callbacks, for a host that ends before its process does: an interpreter calls this before it tears itself down. No
/// callback begins any more, and this waits, for ten seconds at most, until those that are running have returned. Calls that
/// need a callback fail from then on with CNTK_READER_STATUS_STATE, and what callbacks would have released is left alone.
///
/// When the process itself ends, the library does this by itself. It cannot be undone. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_callbacks_end() {
    guard_silently(|| exit::close());
}

/// Keeps this thread for good, in a callback whose thread its host is ending: `pthread_exit` would unwind frames of this
/// library, which cannot be. It sleeps until the process ends, and no call of the library waits for it. Never returns. Callbacks in
/// C need not call it: the library does so itself. Those in C++ do, where they catch `abi::__forced_unwind`.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_thread_park() -> ! {
    exit::park()
}
