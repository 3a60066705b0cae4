//! Hints to the processor: memory that will be read soon.

/// Asks for the cache line at this address.
#[inline(always)]
pub(crate) fn line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it reads nothing as far as the program can see, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
