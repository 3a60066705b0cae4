//! Huge pages for large blocks of memory, where the system has them: they take one fault where small pages take 512, and
//! reads from all over the block do not miss the processor's table of page addresses each time.

/// Size of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Asks for huge pages under a list that was just allocated and not yet written; small ones stay as they are.
pub(crate) fn on_huge_pages<T>(list: &mut Vec<T>) {
    let bytes = list.capacity() * size_of::<T>();
    if bytes >= 2 * HUGE_PAGE {
        advise(list.as_mut_ptr().cast(), bytes);
    }
}

/// Asks for huge pages under the memory's inner pages. A hint: where it fails, pages stay small.
fn advise(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        let before = start.align_offset(HUGE_PAGE).min(bytes);
        let bytes = (bytes - before) / HUGE_PAGE * HUGE_PAGE;
        if bytes > 0 {
            // SAFETY: the range lies within one allocation of this program; the advice changes no content.
            unsafe { libc::madvise(start.add(before).cast(), bytes, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_about_lists_leaves_them_alone() {
        let mut list: Vec<u64> = vec![7; HUGE_PAGE];
        on_huge_pages(&mut list);
        assert!(list.iter().all(|&word| word == 7));
        on_huge_pages(&mut Vec::<u8>::new());
    }
}
