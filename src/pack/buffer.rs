//! Memory for minibatches, recycled: writing to memory that was used before costs a tenth of writing to new pages.
//!
//! A [`Minibatch`] is recycled as a whole, with its buffers, its lists of records and its list of keys. So each stream
//! meets a buffer that it filled before, sizes settle after a few reads, and from then on a minibatch allocates nothing.

use super::MOST_AT_ONCE;
use super::minibatch::Minibatch;
use crate::memory::Meter;
use crate::{Error, Result};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// The unit of allocation. Its alignment is the buffers' alignment: a cache line, and the widest vector register.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A growing, 64-byte aligned run of bytes.
///
/// All memory is zeroed once, when it is allocated. A buffer that is used again shows what it held before: stale, but
/// never uninitialized.
#[derive(Debug, Default)]
pub struct Buffer {
    lines: Vec<Line>,
    size: usize,
}

impl Buffer {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `Line` is 64 initialized bytes without padding, and `size <= lines.len() * 64` (see `resize`).
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.size) }
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; every bit pattern is a valid `Line`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.size) }
    }

    /// Makes it `size` bytes long. The content is unspecified afterwards. Fails if there is no memory for it.
    pub fn resize(&mut self, size: usize) -> Result<()> {
        let needed = size.div_ceil(size_of::<Line>());
        if needed > self.lines.len() {
            // What was too small gets half as much again, so that sizes settle. The old memory goes first: its content
            // is of no use.
            let grown = if self.lines.is_empty() { needed } else { needed + needed / 2 };
            *self = Buffer::default();
            let room = self.lines.try_reserve_exact(grown);
            room.map_err(|_| Error::data(format!("There is no memory for a minibatch of {size} bytes.")))?;
            self.lines.resize(grown, Line([0; 64]));
        }
        self.size = size;
        Ok(())
    }

    /// Bytes of memory that it holds on to.
    pub fn capacity(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }
}

/// Minibatches that wait for their next use.
pub(super) type Shelf = Mutex<Vec<Minibatch>>;

/// Idle minibatches that a pool keeps. A reader has a burst of them ready, another one that is being filled, and some in
/// the caller's hands; callers that collect a few before they copy them to a device should find them here too.
const MAX_IDLE: usize = 2 * MOST_AT_ONCE + 8;

/// Where minibatches come from, and where they go when they are dropped, from any thread. Clones share one store; it
/// lives until the last clone is gone, and minibatches may outlive it.
#[derive(Debug, Default, Clone)]
pub struct BufferPool {
    shelf: Arc<Shelf>,
    meter: Meter,
}

impl BufferPool {
    /// A pool whose minibatches' memory is counted, wherever they are.
    pub(crate) fn metered(meter: &Meter) -> BufferPool {
        BufferPool { meter: meter.clone(), ..BufferPool::default() }
    }

    /// Counts the memory of a minibatch that has got its content.
    pub(super) fn count(&self, minibatch: &mut Minibatch) {
        minibatch.count_memory(&self.meter);
    }

    /// A minibatch with this number of streams and no flags. Layouts and keys are empty; buffers have unspecified sizes
    /// and contents.
    pub fn take(&self, streams: usize) -> Minibatch {
        let mut minibatch = self.shelf.lock().pop().unwrap_or_default();
        minibatch.end_of_sweep = false;
        minibatch.end_of_epoch = false;
        minibatch.keys.clear();
        minibatch.streams.resize_with(streams, Default::default);
        for stream in &mut minibatch.streams {
            stream.layout.clear();
        }
        minibatch.home = Arc::downgrade(&self.shelf);
        minibatch
    }

    /// Bytes that idle minibatches hold.
    pub fn idle_bytes(&self) -> usize {
        let bytes = |minibatch: &Minibatch| -> usize {
            minibatch.streams.iter().map(|stream| stream.data.capacity()).sum()
        };
        self.shelf.lock().iter().map(bytes).sum()
    }
}

/// Puts the content of a minibatch back; called by its `Drop`.
pub(super) fn recycle(minibatch: &mut Minibatch) {
    let Some(home) = std::mem::take(&mut minibatch.home).upgrade() else { return };
    // Without a home, so that neither a full shelf nor the shelf's own end brings it here again.
    let idle = Minibatch {
        end_of_sweep: false,
        end_of_epoch: false,
        streams: std::mem::take(&mut minibatch.streams),
        keys: std::mem::take(&mut minibatch.keys),
        home: Weak::new(),
        held: std::mem::take(&mut minibatch.held),
    };
    let mut shelf = home.lock();
    if shelf.len() < MAX_IDLE {
        shelf.push(idle);
        return;
    }
    drop(shelf);
    drop(idle);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_grow() {
        let mut buffer = Buffer::default();
        assert!(buffer.bytes().is_empty());
        for size in [1, 63, 64, 65, 1000, 10, 100_000] {
            buffer.resize(size).expect("memory");
            assert_eq!(buffer.bytes().len(), size);
            assert_eq!(buffer.bytes().as_ptr() as usize % 64, 0);
        }
        assert!(buffer.resize(isize::MAX as usize).is_err());
        assert!(buffer.bytes().is_empty());
        buffer.resize(100_000).expect("memory");
        assert!(buffer.bytes().iter().all(|&byte| byte == 0));
        buffer.bytes_mut().fill(7);
        buffer.resize(50_000).expect("memory");
        buffer.resize(100_000).expect("memory");
        assert!(buffer.bytes().iter().all(|&byte| byte == 7));
    }

    #[test]
    fn dropped_minibatches_are_used_again() {
        let pool = BufferPool::default();
        let mut minibatch = pool.take(2);
        minibatch.streams[1].data.resize(5000).expect("memory");
        minibatch.keys.push(3);
        minibatch.end_of_sweep = true;
        let address = minibatch.streams[1].data.bytes().as_ptr() as usize;
        std::thread::spawn(move || drop(minibatch)).join().expect("dropping");
        assert!(pool.idle_bytes() >= 5000);
        let again = pool.clone().take(2);
        assert_eq!(again.streams[1].data.bytes().as_ptr() as usize, address);
        assert!(again.keys.is_empty() && !again.end_of_sweep);
        assert_eq!(pool.idle_bytes(), 0);
        drop(pool);
        drop(again);
    }

    #[test]
    fn the_pool_is_bounded() {
        let pool = BufferPool::default();
        let many: Vec<_> = (0..3 * MAX_IDLE).map(|_| pool.take(1)).collect();
        drop(many);
        assert_eq!(pool.shelf.lock().len(), MAX_IDLE);
    }
}
