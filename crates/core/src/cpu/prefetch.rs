//! Prefetching of memory that will be read soon.

#![allow(unsafe_code, reason = "the prefetch instruction")]

/// Number of bytes that [`first`] prefetches.
pub const FIRST_BYTES: usize = 256;

/// The target of a prefetch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    Nearest,
    Second,
}

/// Prefetches the cache line at this address, which need not be valid.
#[inline(always)]
fn request(address: *const u8, cache: Cache) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64 processor. A prefetch changes no register or memory,
        // and ignores unmapped addresses, so any pointer will do.
        unsafe {
            match cache {
                Cache::Nearest => _mm_prefetch::<_MM_HINT_T0>(address.cast()),
                Cache::Second => _mm_prefetch::<_MM_HINT_T1>(address.cast()),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, cache);
}

/// Prefetches the cache line at this address, for a read that follows soon. The address need not be
/// valid.
#[inline(always)]
pub fn line(address: *const u8) {
    request(address, Cache::Nearest);
}

/// Prefetches all cache lines of some bytes.
#[inline(always)]
fn request_all(bytes: &[u8], cache: Cache) {
    bytes.chunks(64).for_each(|chunk| request(chunk.as_ptr(), cache));
    // Data are seldom aligned to cache lines, so they may reach into one more.
    if let Some(last) = bytes.last() {
        request(last, cache);
    }
}

/// Prefetches all cache lines of some bytes into the nearest cache, for reads that follow soon.
#[inline(always)]
pub fn soon(bytes: &[u8]) {
    request_all(bytes, Cache::Nearest);
}

/// Prefetches all cache lines of some bytes into the second nearest cache, for reads a little
/// later.
///
/// The nearest cache accepts fewer requests at a time, and a thread that exceeds them stalls:
/// prefetching into it makes later sweeps by one thread 17 % slower on average (AMD Zen 5).
#[inline(always)]
pub fn bytes(bytes: &[u8]) {
    request_all(bytes, Cache::Second);
}

/// Prefetches the first [`FIRST_BYTES`] bytes of some data, for reads a little later.
#[inline(always)]
pub fn first(data: &[u8]) {
    bytes(&data[..data.len().min(FIRST_BYTES)]);
}
