//! State shared by all minibatches of a reader: a count of their memory, and the page lock.

use super::buffer::AlignedBuffer;
use cntk_reader_core::memory::Meter;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Page-locks memory, so that a device can copy from it directly and asynchronously.
///
/// A dropped minibatch returns its memory to the reader's pool, where it is overwritten. So the
/// caller must keep each minibatch until the device has copied it.
pub trait PageLock: Send + Sync {
    /// Page-locks memory, which does not move until [`unlock`](PageLock::unlock). Returns false on
    /// failure: the memory then stays pageable and usable. Called on any thread.
    fn lock(&self, memory: &[u8]) -> bool;

    /// Unlocks the memory that begins at this address, before it is freed.
    fn unlock(&self, address: usize);
}

/// Page-locked memory, unlocked on drop.
pub(super) struct Locked {
    by: Arc<dyn PageLock>,
    address: usize,
    pub(super) size: usize,
}

impl Locked {
    pub(super) fn new(by: &Arc<dyn PageLock>, memory: &[u8]) -> Option<Locked> {
        let is_locked = by.lock(memory);
        is_locked.then(|| Locked { by: Arc::clone(by), address: memory.as_ptr().addr(), size: memory.len() })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.by.unlock(self.address);
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Locked").field("size", &self.size).finish_non_exhaustive()
    }
}

/// The memory of a reader's minibatches. Clones share one count and one page lock.
#[derive(Clone, Default)]
pub(crate) struct MinibatchMemory {
    meter: Meter,
    page_lock: Arc<OnceLock<Arc<dyn PageLock>>>,
}

impl MinibatchMemory {
    /// Returns the meter of the bytes of all minibatches.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Page-locks large blocks from now on. Only the first call has an effect.
    pub(crate) fn lock_pages(&self, by: Arc<dyn PageLock>) {
        let _ = self.page_lock.set(by);
    }

    /// Page-locks a block if it is large enough and not locked yet.
    pub(super) fn lock(&self, block: &mut AlignedBuffer) {
        if let Some(page_lock) = self.page_lock.get() {
            block.lock_pages(page_lock);
        }
    }
}

impl fmt::Debug for MinibatchMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MinibatchMemory").field("meter", &self.meter).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::minibatch::{Minibatch, MinibatchPool};
    use super::*;
    use cntk_reader_core::runtime::lock::Mutex;
    use cntk_reader_core::stream::{ElementType, Storage};
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Maps the address of each locked range to its size.
    #[derive(Default)]
    struct Fake {
        locked: Mutex<HashMap<usize, usize>>,
        /// Number of calls of `lock`.
        calls: AtomicUsize,
        refuses: bool,
    }

    impl PageLock for Fake {
        fn lock(&self, memory: &[u8]) -> bool {
            self.calls.fetch_add(1, Relaxed);
            let known =
                !self.refuses && self.locked.lock().insert(memory.as_ptr().addr(), memory.len()).is_some();
            assert!(!known, "locked twice");
            !self.refuses
        }

        fn unlock(&self, address: usize) {
            self.locked.lock().remove(&address).expect("locked");
        }
    }

    fn filled(pool: &mut MinibatchPool, samples: usize) -> Minibatch {
        let mut minibatch = pool.take(1);
        let stream = &mut minibatch.streams[0];
        (stream.layout.steps, stream.layout.lanes) = (1, samples);
        stream.allocate(Storage::Dense, ElementType::UInt8, 1, 0).expect("memory").1.fill(7);
        pool.finish(&mut minibatch);
        minibatch
    }

    #[test]
    fn large_blocks_stay_locked_until_they_are_freed() {
        let (memory, fake) = (MinibatchMemory::default(), Arc::new(Fake::default()));
        let mut pool = MinibatchPool::of_memory(&memory);
        memory.lock_pages(fake.clone());
        let sizes = || fake.locked.lock().values().copied().collect::<Vec<_>>();
        drop(filled(&mut pool, 1000));
        assert_eq!(sizes(), []);
        // A reused block stays locked. It is locked again if a minibatch uses more of it or it has
        // moved.
        for (samples, size, calls) in [
            (1 << 20, 1 << 20, 1),
            (1000, 1 << 20, 1),
            (1 << 20, 1 << 20, 1),
            (5 << 18, 5 << 18, 2),
            (1 << 20, 5 << 18, 2),
            (1 << 22, 1 << 22, 3),
        ] {
            let minibatch = filled(&mut pool, samples);
            assert_eq!((sizes(), fake.calls.load(Relaxed)), (vec![size], calls));
            assert_eq!(
                *fake.locked.lock().keys().next().expect("one"),
                minibatch.streams[0].block_pointer().addr()
            );
            drop(minibatch);
        }
        drop(pool);
        assert_eq!(sizes(), []);
    }

    #[test]
    fn unlockable_blocks_are_still_used() {
        let memory = MinibatchMemory::default();
        memory.lock_pages(Arc::new(Fake { refuses: true, ..Fake::default() }));
        let minibatch = filled(&mut MinibatchPool::of_memory(&memory), 1 << 20);
        assert!(minibatch.streams[0].block().iter().all(|&byte| byte == 7));
    }

    #[test]
    fn debug_output_shows_sizes() {
        let memory = MinibatchMemory::default();
        let by: Arc<dyn PageLock> = Arc::new(Fake::default());
        let locked = Locked::new(&by, &[0; 3]).expect("locked");
        assert_eq!(format!("{locked:?}"), "Locked { size: 3, .. }");
        assert_eq!(format!("{memory:?}"), format!("MinibatchMemory {{ meter: {:?}, .. }}", Meter::default()));
    }
}
