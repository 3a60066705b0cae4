//! A cache of unpacked frames for subsequent reads.

#![allow(unsafe_code, reason = "decompresses into uninitialized memory")]

use crate::Result;
use crate::memory::room;
use crate::runtime::pool;
use crate::runtime::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Minimum and maximum number of bytes that are kept for a file.
const LEAST: u64 = 16 << 20;
const MOST: u64 = 256 << 20;

/// The most recently used frames. A frame that several threads need at once is unpacked by one of
/// them.
#[derive(Debug)]
pub struct FrameCache {
    state: Mutex<CacheState>,
    /// Signals that unpacking a frame has finished or failed.
    changed: Condvar,
    /// Maximum number of bytes to keep.
    capacity: u64,
}

#[derive(Debug, Default)]
struct CacheState {
    /// Ordered by last use; the least recently used frame comes first.
    entries: VecDeque<Entry>,
    /// Bytes of all entries.
    bytes: u64,
    /// Memory of an evicted frame, for reuse.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Entry {
    number: usize,
    /// `None` while a thread unpacks the frame.
    data: Option<Arc<Vec<u8>>>,
}

impl FrameCache {
    /// Creates a cache for frames of up to `largest` bytes, large enough for each thread's current
    /// and previous frame.
    pub fn new(largest: u64) -> FrameCache {
        let wanted = 2 * largest * pool::threads() as u64;
        let capacity = wanted.clamp(LEAST, MOST).max(2 * largest);
        FrameCache { state: Mutex::default(), changed: Condvar::new(), capacity }
    }

    /// Returns the size of the cached data in bytes.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Returns a frame if it is cached.
    pub fn get(&self, number: usize) -> Option<Arc<Vec<u8>>> {
        let state = self.state.lock();
        state.entries.iter().find(|entry| entry.number == number)?.data.clone()
    }

    /// Returns the frame `number`, which has `size` bytes. If it is not cached, `make` unpacks it:
    /// on success, `make` must have initialized all of the memory.
    pub fn get_or_make(
        &self,
        number: usize,
        size: usize,
        make: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<()>,
    ) -> Result<Arc<Vec<u8>>> {
        let mut state = self.state.lock();
        while let Some(place) = state.entries.iter().position(|entry| entry.number == number) {
            if let Some(data) = state.entries[place].data.clone() {
                if let Some(entry) = state.entries.remove(place) {
                    state.entries.push_back(entry);
                }
                return Ok(data);
            }
            self.changed.wait(&mut state);
        }
        state.entries.push_back(Entry { number, data: None });
        let mut memory = state.spare.pop().unwrap_or_default();
        drop(state);

        let pending = Pending { cache: self, number };
        memory.clear();
        room::reserve_exact(&mut memory, size, room::FILE)?;
        make(&mut memory.spare_capacity_mut()[..size])?;
        // SAFETY: `reserve_exact` has ensured a capacity of `size` bytes, and `make` has succeeded,
        // so it has initialized all of them.
        unsafe { memory.set_len(size) };
        let data = Arc::new(memory);
        pending.fill(Arc::clone(&data));
        Ok(data)
    }

    /// Evicts frames until the cache is within its capacity. The most recent frame stays.
    fn trim(&self, state: &mut CacheState) {
        while state.bytes > self.capacity {
            let oldest = state.entries.iter().position(|entry| entry.data.is_some());
            let Some(place) = oldest.filter(|place| place + 1 < state.entries.len()) else { return };
            let Some(data) = state.entries.remove(place).and_then(|entry| entry.data) else { return };
            state.bytes -= data.len() as u64;
            // Otherwise another thread still copies from it, and frees it afterwards.
            if let (Ok(memory), true) = (Arc::try_unwrap(data), state.spare.is_empty()) {
                state.spare.push(memory);
            }
        }
    }
}

/// A frame that this thread is unpacking. If that fails or panics, the next thread that needs the
/// frame tries again.
struct Pending<'a> {
    cache: &'a FrameCache,
    number: usize,
}

impl Pending<'_> {
    fn fill(self, data: Arc<Vec<u8>>) {
        let mut state = self.cache.state.lock();
        state.bytes += data.len() as u64;
        if let Some(entry) = state.entries.iter_mut().find(|entry| entry.number == self.number) {
            entry.data = Some(data);
        }
        self.cache.trim(&mut state);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let mut state = self.cache.state.lock();
        state.entries.retain(|entry| entry.number != self.number || entry.data.is_some());
        drop(state);
        self.cache.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn fill(memory: &mut [MaybeUninit<u8>]) -> Result<()> {
        memory.fill(MaybeUninit::new(7));
        Ok(())
    }

    #[test]
    fn capacity_bounds_cached_frames() {
        let cache = FrameCache { capacity: 100, ..FrameCache::new(1) };
        let made = AtomicUsize::new(0);
        let get = |number| {
            let make = |memory: &mut [MaybeUninit<u8>]| {
                made.fetch_add(1, Ordering::Relaxed);
                fill(memory)
            };
            assert_eq!(*cache.get_or_make(number, 40, make).expect("a frame"), [7; 40]);
        };
        (0..2).for_each(get);
        get(0);
        assert_eq!((made.load(Ordering::Relaxed), cache.bytes()), (2, 80));
        // Frame 1 is the least recently used one.
        get(2);
        assert_eq!((cache.get(1).is_none(), cache.get(0).is_some(), cache.bytes()), (true, true, 80));
        get(1);
        assert_eq!(made.load(Ordering::Relaxed), 4);
        // A frame that exceeds the capacity is kept all the same, alone.
        cache.get_or_make(9, 300, fill).expect("a frame");
        assert_eq!(cache.bytes(), 300);
    }

    #[test]
    fn failure_leaves_no_entry_and_threads_unpack_once() {
        let cache = FrameCache::new(1000);
        assert!(cache.get_or_make(3, 10, |_| Err(Error::data("no"))).is_err());
        assert!(cache.state.lock().entries.is_empty());
        let made = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = |memory: &mut [MaybeUninit<u8>]| {
                        made.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        fill(memory)
                    };
                    cache.get_or_make(3, 10, make).expect("a frame");
                });
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use crate::Error;
    use crate::runtime::sync::{explore, thread};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Three threads need the same frames in different orders; every second attempt fails, and the
    /// capacity is two frames.
    #[test]
    fn frames_are_unpacked_by_one_thread_at_a_time() {
        explore::random("cache of unpacked frames, three threads, failures", || {
            let cache = Arc::new(FrameCache { capacity: 80, ..FrameCache::new(1) });
            let (busy, tries) = (Arc::new(<[AtomicUsize; 3]>::default()), Arc::new(AtomicUsize::new(0)));
            let threads: Vec<_> = (0..3)
                .map(|first| {
                    let (cache, busy, tries) = (Arc::clone(&cache), Arc::clone(&busy), Arc::clone(&tries));
                    thread::spawn(move || {
                        for number in [first, (first + 1) % 3] {
                            let make = |memory: &mut [MaybeUninit<u8>]| {
                                assert_eq!(busy[number].fetch_add(1, Ordering::SeqCst), 0, "alone");
                                thread::yield_now();
                                memory.fill(MaybeUninit::new(number as u8));
                                busy[number].fetch_sub(1, Ordering::SeqCst);
                                match tries.fetch_add(1, Ordering::SeqCst) % 2 {
                                    0 => Ok(()),
                                    _ => Err(Error::data("on purpose")),
                                }
                            };
                            if let Ok(frame) = cache.get_or_make(number, 40, make) {
                                assert_eq!(*frame, [number as u8; 40]);
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert!(cache.bytes() <= 80);
        });
    }
}
