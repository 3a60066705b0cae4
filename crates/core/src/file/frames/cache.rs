//! Unpacked frames that the next reads may need.

#![allow(unsafe_code, reason = "decompresses into uninitialized memory")]

use crate::Result;
use crate::memory::room;
use crate::runtime::pool;
use crate::runtime::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Least and most bytes that are kept for a file.
const LEAST: u64 = 16 << 20;
const MOST: u64 = 256 << 20;

/// The frames that were needed last. A frame that several threads need at once is unpacked by one of them.
#[derive(Debug)]
pub struct FrameCache {
    state: Mutex<State>,
    /// Signals that a frame was unpacked, or that this has failed.
    changed: Condvar,
    /// Bytes that may be kept.
    capacity: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The frame that was not needed for the longest time comes first.
    entries: VecDeque<Entry>,
    /// Bytes of all entries.
    bytes: u64,
    /// Memory of frames that were given up.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Entry {
    number: usize,
    /// `None` while a thread unpacks the frame.
    data: Option<Arc<Vec<u8>>>,
}

impl FrameCache {
    /// A cache for frames of up to `largest` bytes: enough that each thread has the frame that it is in and the one before.
    pub fn new(largest: u64) -> FrameCache {
        let wanted = 2 * largest * pool::threads() as u64;
        let capacity = wanted.clamp(LEAST, MOST).max(2 * largest);
        FrameCache { state: Mutex::default(), changed: Condvar::new(), capacity }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// A frame, if it was unpacked already.
    pub fn get(&self, number: usize) -> Option<Arc<Vec<u8>>> {
        let state = self.state.lock();
        state.entries.iter().find(|entry| entry.number == number)?.data.clone()
    }

    /// A frame of `size` bytes; `make` unpacks it if it is not there, into memory all of which it initializes unless it fails.
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
        // SAFETY: `reserve_exact` has seen to a capacity of `size` bytes, and `make` has initialized all of them.
        unsafe { memory.set_len(size) };
        let data = Arc::new(memory);
        pending.fill(Arc::clone(&data));
        Ok(data)
    }

    /// Gives up frames until the rest is small enough. The last one stays.
    fn trim(&self, state: &mut State) {
        while state.bytes > self.capacity {
            let oldest = state.entries.iter().position(|entry| entry.data.is_some());
            let Some(place) = oldest.filter(|place| place + 1 < state.entries.len()) else { return };
            let Some(data) = state.entries.remove(place).and_then(|entry| entry.data) else { return };
            state.bytes -= data.len() as u64;
            // Another thread may still copy from it, and frees it then.
            if let (Ok(memory), true) = (Arc::try_unwrap(data), state.spare.is_empty()) {
                state.spare.push(memory);
            }
        }
    }
}

/// A frame that this thread unpacks. If it fails or panics, the next thread that needs the frame tries.
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
    fn frames_are_kept_within_the_bound_and_made_again() {
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
        // Number 1 was not needed for the longest time.
        get(2);
        assert_eq!((cache.get(1).is_none(), cache.get(0).is_some(), cache.bytes()), (true, true, 80));
        get(1);
        assert_eq!(made.load(Ordering::Relaxed), 4);
        // One that is larger than the bound is there all the same, alone.
        cache.get_or_make(9, 300, fill).expect("a frame");
        assert_eq!(cache.bytes(), 300);
    }

    #[test]
    fn a_failure_leaves_nothing_and_several_threads_unpack_once() {
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

    /// Three threads need the same frames in different orders; every second attempt fails, and there is room for two frames.
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
