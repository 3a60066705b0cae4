//! Huge pages for memory that is written for the first time.
//!
//! Zeroing a huge page takes a quarter to a half of the time of as many bytes of small ones, and look-ups in it seldom wait for the
//! processor's tables of pages. But a huge page may be slow to get: where memory is fragmented the system first has to move other
//! pages, and in a virtual machine the host may have taken large free blocks back, and has to provide them again, in 2 to 5 ms. So
//! the process keeps a balance of what its huge pages have saved and cost, and asks for no more once they have cost [`LOSS`].
//!
//! Measured with 160 MB of HTK features and labels (utterances, single frames) and 43 MB of dense binary data, one CPU, medians of
//! seven to nine alternating runs, in ms a sweep without huge pages, with them, and with them whatever they cost:
//!
//! | the host | sweep | without | with | always |
//! | --- | --- | ---: | ---: | ---: |
//! | has all memory | first, utterances | 95 | 76 | 76 |
//! | has all memory | later, utterances | 21.6 | 17.8 | 18.1 |
//! | has all memory | first, single frames | 265 | 223 | 237 |
//! | has all memory | later, single frames | 182 | 155 | 154 |
//! | has all memory | first, binary data | 20 | 14 | 11 |
//! | has all memory | later, binary data | 5.7 | 5.0 | 5.0 |
//! | takes free memory back | first, utterances | 95 | 107 | 318 |
//!
//! Chunks of text (100 MB, 38 MB in memory, samples of 11876 decimals, one CPU): a first sweep takes 54 ms instead of 60, and the
//! reader is destroyed in 1.5 ms instead of 3.6.
//!
//! (The last row was measured with a rule that gave up after four slow pages of 2.3 ms each.)

#![allow(unsafe_code, reason = "madvise")]

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Size of a huge page in bytes. A huge page begins at a multiple of its size.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// What getting as many bytes of small pages takes, at least.
const SMALL_PAGES: Duration = Duration::from_micros(500);

/// Most time that huge pages may have cost. One slow page is more, unless several were fast before it.
const LOSS: i64 = 2_000;

/// Most time that is counted as saved: after this many microseconds saved, one or two slow pages are tolerated.
const SAVED: i64 = 6_000;

/// Microseconds that the huge pages of this process have saved so far, or cost if negative.
static BALANCE: AtomicI64 = AtomicI64::new(0);

/// Asks that the memory of one huge page, which has not been written yet, is one. False if it will not be: the memory is not of a
/// huge page's size or place, huge pages are slow to get, or the system has none. Who populates the memory must
/// [`report`] how long that took. Runs on a thread of the pool.
#[cfg(target_os = "linux")]
pub(crate) fn ask(memory: &mut [MaybeUninit<u8>]) -> bool {
    let start = memory.as_mut_ptr();
    let fits = start.addr().is_multiple_of(HUGE_PAGE) && memory.len() == HUGE_PAGE;
    if !fits || BALANCE.load(Ordering::Relaxed) < -LOSS {
        return false;
    }
    // SAFETY: `HUGE_PAGE` bytes from `start` on are exactly `memory`, by the check of its length above, which is borrowed and thus
    // mapped. The advice does not change its content, whether it succeeds or fails.
    unsafe { libc::madvise(start.cast(), HUGE_PAGE, libc::MADV_HUGEPAGE) == 0 }
}

/// Asks for nothing.
#[cfg(not(target_os = "linux"))]
pub fn ask(_: &mut [MaybeUninit<u8>]) -> bool {
    false
}

/// Takes note of how long it took to populate `pages` huge pages.
pub(crate) fn report(pages: u32, took: Duration) {
    if pages > 0 {
        let saved = i64::from(pages) * SMALL_PAGES.as_micros() as i64 - took.as_micros() as i64;
        let sum = |balance: i64| Some(balance.saturating_add(saved).min(SAVED));
        let _ = BALANCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

/// Gets one huge page for memory that has its size and alignment, if the system has one available. False if the memory was
/// left as it is. Runs on a thread of the pool.
pub(crate) fn populate(memory: &mut [MaybeUninit<u8>]) -> bool {
    if !ask(memory) {
        return false;
    }
    let before = Instant::now();
    super::populate(memory);
    report(1, before.elapsed());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_place_of_a_huge_page_gets_one() {
        let mut memory: Vec<u8> = Vec::with_capacity(3 * HUGE_PAGE);
        let spare = memory.spare_capacity_mut();
        let first = spare.as_ptr().addr().next_multiple_of(HUGE_PAGE) - spare.as_ptr().addr();
        assert!(!populate(&mut spare[first..][..HUGE_PAGE - 1]));
        assert!(!populate(&mut spare[first + 1..][..HUGE_PAGE]));
        let place = &mut spare[first..][..HUGE_PAGE];
        place.fill(MaybeUninit::new(7));
        // Whether there is one is the system's choice.
        populate(place);
        // SAFETY: `fill` above has written every byte of `place`.
        assert!(place.iter().all(|byte| unsafe { byte.assume_init() } == 7));
    }
}
