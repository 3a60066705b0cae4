//! Huge pages for freshly allocated memory.
//!
//! Zeroing a huge page takes a quarter to a half of the time of zeroing the same amount in small
//! pages, and accesses cause fewer TLB misses. But huge pages can be slow to get: on fragmented
//! memory the system has to move other pages first, and in a virtual machine whose host has taken
//! free memory back, the host needs 2 to 5 ms per page to provide it again. So the process keeps a
//! balance of the time that huge pages have saved and cost, and stops asking once they have cost
//! [`LOSS`].
//!
//! With enough free memory, first sweeps over speech features are 16 to 20 % shorter and later ones
//! 15 %; first sweeps over dense binary data are 30 % shorter. On a host that takes free memory
//! back, a first sweep takes 13 % longer with the limit, and more than three times as long without.

use crate::system;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use crate::system::HUGE_PAGE;

/// Lower bound of the time to get the same amount of memory in small pages.
const SMALL_PAGES: Duration = Duration::from_micros(500);

/// Maximum loss in microseconds. A single slow page exceeds it, unless several fast ones came
/// before.
const LOSS: i64 = 2_000;

/// Maximum saving that counts, in microseconds: it makes up for one or two slow pages.
const SAVED: i64 = 6_000;

/// Microseconds that the huge pages of this process have saved so far; negative if they have cost
/// time.
static BALANCE: AtomicI64 = AtomicI64::new(0);

/// Requests a huge page for memory that has not been written yet. Returns false if there will be
/// none: the memory does not have the size and alignment of a huge page, huge pages are too slow to
/// get, or the system has none. The caller populates the memory and must [`report`] how long that
/// took. Runs on a thread of the pool.
pub(crate) fn ask(memory: &mut [MaybeUninit<u8>]) -> bool {
    let fits = memory.as_ptr().addr().is_multiple_of(HUGE_PAGE) && memory.len() == HUGE_PAGE;
    fits && BALANCE.load(Ordering::Relaxed) >= -LOSS && system::advise_huge(memory)
}

/// Records how long it took to populate `pages` huge pages.
pub(crate) fn report(pages: u32, took: Duration) {
    if pages > 0 {
        let saved = i64::from(pages) * SMALL_PAGES.as_micros() as i64 - took.as_micros() as i64;
        let sum = |balance: i64| Some(balance.saturating_add(saved).min(SAVED));
        let _ = BALANCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum);
    }
}

/// Populates memory of the size and alignment of a huge page with a huge page, if one is available.
/// Returns false if the memory was left alone. Runs on a thread of the pool.
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
    fn only_aligned_ranges_get_huge_pages() {
        let mut memory: Vec<u8> = Vec::with_capacity(3 * HUGE_PAGE);
        let spare = memory.spare_capacity_mut();
        let first = spare.as_ptr().addr().next_multiple_of(HUGE_PAGE) - spare.as_ptr().addr();
        assert!(!populate(&mut spare[first..][..HUGE_PAGE - 1]));
        assert!(!populate(&mut spare[first + 1..][..HUGE_PAGE]));
        let place = &mut spare[first..][..HUGE_PAGE];
        place.fill(MaybeUninit::new(7));
        // The system decides whether there is a huge page.
        populate(place);
        // SAFETY: `fill` above has written every byte of `place`.
        assert!(place.iter().all(|byte| unsafe { byte.assume_init() } == 7));
    }
}
