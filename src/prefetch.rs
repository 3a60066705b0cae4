//! Hints to the processor: memory that will be read soon.

/// Asks the processor to load the cache line at this address. The address need not be valid.
#[inline(always)]
pub(crate) fn line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64 processor. A prefetch changes no register or memory, and an address that is not
        // mapped is ignored, so any pointer will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
