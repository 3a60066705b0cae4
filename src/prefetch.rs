//! Hints to the processor: memory that will be read soon.

/// Cache lines that are prefetched of data long before they are read. From there on the processor's own prefetching has noticed the pattern.
pub(crate) const FIRST_LINES: usize = 4;

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

/// Asks for the first `lines` cache lines of some bytes, and for the last one if there are fewer: short runs seldom begin
/// where a cache line begins, so they may reach into one more.
#[inline(always)]
pub(crate) fn bytes(bytes: &[u8], lines: usize) {
    for chunk in bytes.chunks(64).take(lines) {
        line(chunk.as_ptr());
    }
    if let (true, Some(last)) = (bytes.len() < lines * 64, bytes.last()) {
        line(last);
    }
}
