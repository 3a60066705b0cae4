//! A minibatch: its data, layouts, keys and flags, and the pool to which its memory returns.
//!
//! Memory is reused because writing to it is ten times faster than writing to new pages. A
//! [`Minibatch`] returns to its pool as a whole, with its blocks, records and keys. So each stream
//! gets a block that it filled before, sizes settle after a few reads, and steady-state minibatches
//! allocate nothing.

use super::block::{self, SparseColumns};
use super::buffer::AlignedBuffer;
use super::layout::{Layout, Record};
use super::memory::MinibatchMemory;
use cntk_reader_core::cpu::prefetch;
use cntk_reader_core::memory::{Held, Meter, room};
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::stream::{Element, ElementType, Storage};
use cntk_reader_core::{Error, Result};
use std::sync::{Arc, Weak};

/// Maximum number of minibatches packed in one batch, by any number of threads.
pub const MAX_AT_ONCE: usize = 512;

/// Maximum number of idle minibatches in a free list: one batch that is ready, one that is being
/// filled, and a few for callers that collect several before they copy them to a device. A pool's
/// stock can hold the same number.
const MAX_IDLE: usize = 2 * MAX_AT_ONCE + 8;

/// The result of a read. Owns its memory, which returns to the reader's pool when the minibatch is
/// dropped.
#[derive(Debug, Default)]
pub struct Minibatch {
    /// The minibatch reaches or crosses the end of a sweep.
    pub end_of_sweep: bool,
    /// The minibatch is the last one of the epoch or, without streams, comes after it.
    pub end_of_epoch: bool,
    /// The minibatch is a training step: it has data, or it belongs to workers in lockstep that all
    /// take part in the step. Set by the reader on delivery.
    pub is_step: bool,
    /// One entry per stream, or none if there is no data.
    pub streams: Vec<StreamMinibatch>,
    /// The key of each sequence, by its number in the layouts.
    pub keys: Vec<SequenceKey>,
    /// Destination of its memory. Kept while the minibatch is idle, because creating a reference
    /// would make the packing thread write to a counter that the caller's thread also writes.
    free_list: Weak<FreeList>,
    /// Its memory, as reported to the reader's meter.
    held: Held,
}

impl Minibatch {
    /// Creates a minibatch without data.
    pub(crate) fn empty(end_of_sweep: bool, end_of_epoch: bool) -> Minibatch {
        let mut minibatch = Minibatch::default();
        minibatch.end_of_sweep = end_of_sweep;
        minibatch.end_of_epoch = end_of_epoch;
        minibatch
    }

    /// Returns the size in bytes of its data, layouts and keys. For very short sequences, layouts
    /// dominate.
    pub(crate) fn bytes(&self) -> usize {
        let bytes_of = |stream: &StreamMinibatch| stream.block().len() + size_of_val(&*stream.layout.records);
        self.streams.iter().map(bytes_of).sum::<usize>() + size_of_val(&*self.keys)
    }

    /// Prefetches minibatches from another thread's cache: the data of the first one, and the
    /// stream descriptions of the second one, which contain the addresses of its data.
    ///
    /// A cache line takes 50 ns from another core, or 200 ns across L3 caches, and a small
    /// minibatch has some 30 lines, many of which would be waited for one by one. This makes
    /// minibatches of 8 samples 2 to 10 % faster.
    #[inline(always)]
    pub(crate) fn prefetch<'a>(mut next: impl Iterator<Item = &'a Minibatch>) {
        if let Some(first) = next.next() {
            first.prefetch_data();
        }
        if let Some(second) = next.next() {
            let start = second.streams.as_ptr().cast::<u8>();
            let lines = (0..size_of_val(&*second.streams)).step_by(64);
            lines.for_each(|at| prefetch::line(start.wrapping_add(at)));
        }
    }

    #[inline(always)]
    fn prefetch_data(&self) {
        prefetch::line(self.keys.as_ptr().cast());
        for stream in &self.streams {
            prefetch::line(stream.layout.records.as_ptr().cast());
            prefetch::first(stream.block.bytes());
        }
    }

    /// Reports the minibatch's current memory to its pool's meter.
    fn count_memory(&mut self, meter: &Meter) {
        let bytes_of = |stream: &StreamMinibatch| {
            stream.block.held() + stream.layout.records.capacity() * size_of::<Record>()
        };
        let streams = self.streams.iter().map(bytes_of).sum::<usize>();
        self.held.update(meter, streams + self.keys.capacity() * size_of::<SequenceKey>());
    }

    /// Reserves memory for the records and keys of `sequences` sequences in an empty minibatch, and
    /// half as much again when it grows, so that sizes settle. Two records per sequence suffice: a
    /// lane has at most one gap, and there are at most `sequences` lanes.
    pub(super) fn reserve(&mut self, sequences: usize) -> Result<()> {
        fn grow<T>(list: &mut Vec<T>, needed: usize) -> Result<()> {
            match list.capacity() < needed {
                true => room::reserve(list, needed + needed / 2, room::MINIBATCH),
                false => Ok(()),
            }
        }
        grow(&mut self.keys, sequences)?;
        self.streams.iter_mut().try_for_each(|stream| grow(&mut stream.layout.records, 2 * sequences))
    }
}

impl Drop for Minibatch {
    fn drop(&mut self) {
        if let Some(free_list) = self.free_list.upgrade() {
            free_list.put(std::mem::take(self));
        }
    }
}

/// One stream of a minibatch.
#[derive(Debug)]
pub struct StreamMinibatch {
    /// Assigns columns to sequences.
    pub layout: Layout,
    storage: Storage,
    element: ElementType,
    sample_size: usize,
    block: AlignedBuffer,
}

impl Default for StreamMinibatch {
    fn default() -> StreamMinibatch {
        StreamMinibatch {
            layout: Layout::default(),
            storage: Storage::Dense,
            element: ElementType::Float,
            sample_size: 0,
            block: AlignedBuffer::default(),
        }
    }
}

impl StreamMinibatch {
    /// Returns how the values are stored.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Returns the type of the values.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Returns the number of values per sample: the height of a column.
    pub fn sample_size(&self) -> usize {
        self.sample_size
    }

    /// Returns all values of a dense stream, column by column, `sample_size` values each; columns
    /// of gaps hold zeros. `None` if the stream is sparse or has another type of values.
    pub fn dense<T: Element>(&self) -> Option<&[T]> {
        match self.storage {
            Storage::Dense if self.element == T::TYPE => block::dense(self.block.bytes()),
            _ => None,
        }
    }

    /// Returns the columns of a sparse stream; columns of gaps are empty. `None` if the stream is
    /// dense or has another type of values.
    pub fn sparse<T: Element>(&self) -> Option<SparseColumns<'_, T>> {
        match self.storage {
            Storage::SparseCsc if self.element == T::TYPE => {
                block::sparse(self.block.bytes(), self.layout.columns())
            }
            _ => None,
        }
    }

    /// Returns the whole block in CNTK's layout, aligned to 64 bytes, to be passed on to CNTK.
    /// Dense: the values. Sparse: `u64` number of values, the values, `i32` indices, `columns + 1`
    /// `i32` offsets.
    pub fn block(&self) -> &[u8] {
        self.block.bytes()
    }

    /// Returns the address of the block. If the minibatch is shared, callers of the C ABI may write
    /// there only while there is no other access.
    pub fn block_pointer(&self) -> *mut u8 {
        self.block.pointer()
    }

    /// Resizes the block for the layout, and for `nnz` stored values if the stream is sparse.
    /// Returns it for writing, with unspecified content.
    pub(super) fn allocate(
        &mut self,
        storage: Storage,
        element: ElementType,
        sample_size: usize,
        nnz: usize,
    ) -> Result<(&Layout, &mut [u8])> {
        let size = self.layout.steps.checked_mul(self.layout.lanes).and_then(|columns| match storage {
            Storage::Dense => block::dense_size(columns, sample_size, element.size()),
            Storage::SparseCsc => block::sparse_size(nnz, element.size(), columns),
        });
        let size = size.ok_or_else(|| {
            let Layout { steps, lanes, .. } = self.layout;
            Error::data(format!(
                "The minibatch is too large: {steps} steps of {lanes} parallel sequences exceed the address space."
            ))
        })?;
        self.block.resize(size)?;
        (self.storage, self.element, self.sample_size) = (storage, element, sample_size);
        Ok((&self.layout, self.block.bytes_mut()))
    }

    /// Returns the layout and the block for writing.
    pub(super) fn parts_mut(&mut self) -> (&mut Layout, &mut [u8]) {
        (&mut self.layout, self.block.bytes_mut())
    }
}

/// Size in bytes above which a minibatch is large: too large to stay in the private caches of the
/// core that filled it.
const LARGE: usize = 1 << 20;

/// Idle minibatches.
#[derive(Debug, Default)]
struct FreeList {
    idle: Mutex<Vec<Minibatch>>,
    /// The list for large minibatches, shared by several threads.
    large: Option<Arc<FreeList>>,
}

impl FreeList {
    /// Keeps a minibatch, or frees it if the list is full.
    fn put(&self, mut idle: Minibatch) {
        if let Some(large) = self.large.as_ref().filter(|_| idle.bytes() > LARGE) {
            return large.put(idle);
        }
        let mut list = self.idle.lock();
        if list.len() < MAX_IDLE {
            list.push(idle);
            return;
        }
        drop(list);
        idle.free_list = Weak::new();
    }
}

/// A pool of minibatches, to which they return when dropped, from any thread. Minibatches may
/// outlive it.
#[derive(Debug, Default)]
pub struct MinibatchPool {
    free_list: Arc<FreeList>,
    /// Minibatches taken from the free list in bulk whenever the stock is empty: taking them one at
    /// a time would pass the list's cache line between two cores for each minibatch.
    stock: Vec<Minibatch>,
    memory: MinibatchMemory,
}

impl MinibatchPool {
    /// Creates a pool whose minibatches, in use or idle, count towards `memory`.
    pub(crate) fn of_memory(memory: &MinibatchMemory) -> MinibatchPool {
        MinibatchPool { memory: memory.clone(), ..MinibatchPool::default() }
    }

    /// Creates a pool for one of several packing threads. The thread gets back the minibatches that
    /// it filled, which are in its core's caches. Large ones return to this pool for use by any
    /// thread, which saves memory.
    pub(crate) fn of_thread(&self) -> MinibatchPool {
        let free_list = FreeList { large: Some(Arc::clone(&self.free_list)), ..FreeList::default() };
        MinibatchPool { free_list: Arc::new(free_list), stock: Vec::new(), memory: self.memory.clone() }
    }

    /// Counts the memory of a completed minibatch, and page-locks it if requested.
    pub(super) fn finish(&self, minibatch: &mut Minibatch) {
        minibatch.count_memory(self.memory.meter());
        minibatch.streams.iter_mut().for_each(|stream| self.memory.lock(&mut stream.block));
    }

    /// Returns a minibatch with this number of streams and no flags. Layouts and keys are empty;
    /// sizes and contents of blocks are unspecified.
    pub(crate) fn take(&mut self, streams: usize) -> Minibatch {
        if self.stock.is_empty() {
            std::mem::swap(&mut self.stock, &mut *self.free_list.idle.lock());
        }
        let own = self.stock.pop();
        Minibatch::prefetch(self.stock.iter().rev());
        let mut minibatch =
            own.or_else(|| self.free_list.large.as_ref()?.idle.lock().pop()).unwrap_or_default();
        (minibatch.end_of_sweep, minibatch.end_of_epoch, minibatch.is_step) = (false, false, false);
        minibatch.keys.clear();
        minibatch.streams.resize_with(streams, Default::default);
        for stream in &mut minibatch.streams {
            stream.layout.clear();
        }
        if minibatch.free_list.as_ptr() != Arc::as_ptr(&self.free_list) {
            minibatch.free_list = Arc::downgrade(&self.free_list);
        }
        minibatch
    }

    /// Returns the size in bytes of the blocks held by idle minibatches.
    #[cfg(test)]
    fn idle_bytes(&self) -> usize {
        let bytes = |minibatch: &Minibatch| -> usize {
            minibatch.streams.iter().map(|stream| stream.block.held()).sum()
        };
        self.free_list.idle.lock().iter().map(bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &mut MinibatchPool) -> Minibatch {
        let mut minibatch = pool.take(2);
        let stream = &mut minibatch.streams[1];
        (stream.layout.steps, stream.layout.lanes) = (5, 100);
        stream.allocate(Storage::Dense, ElementType::Float, 3, 0).expect("memory").1.fill(0);
        minibatch
    }

    #[test]
    fn dropped_minibatches_are_reused() {
        let mut pool = MinibatchPool::default();
        let mut minibatch = filled(&mut pool);
        minibatch.keys.push(3);
        (minibatch.end_of_sweep, minibatch.end_of_epoch, minibatch.is_step) = (true, true, true);
        let address = minibatch.streams[1].block().as_ptr() as usize;
        std::thread::spawn(move || drop(minibatch)).join().expect("dropping");
        assert!(pool.idle_bytes() >= 6000);
        let again = pool.take(2);
        assert_eq!(again.streams[1].block().as_ptr() as usize, address);
        assert!(again.keys.is_empty());
        assert_eq!((again.end_of_sweep, again.end_of_epoch, again.is_step), (false, false, false));
        assert_eq!(again.streams[1].layout, Layout::without_columns());
        assert_eq!(pool.idle_bytes(), 0);
        drop(again);
        let fewer = pool.take(1);
        assert_eq!(fewer.streams.len(), 1);
        drop(pool);
        drop(fewer);
    }

    #[test]
    fn large_minibatches_are_shared_by_all_threads() {
        for (columns, shared) in [(100, false), (LARGE, false), (LARGE + 1, true)] {
            let pool = MinibatchPool::default();
            let (mut one, mut other) = (pool.of_thread(), pool.of_thread());
            let mut minibatch = one.take(1);
            let stream = &mut minibatch.streams[0];
            (stream.layout.steps, stream.layout.lanes) = (1, columns);
            stream.allocate(Storage::Dense, ElementType::UInt8, 1, 0).expect("memory");
            let address = stream.block().as_ptr().addr();
            drop(minibatch);
            let again = other.take(1);
            assert_eq!(again.streams[0].block().as_ptr().addr() == address, shared, "{columns} columns");
        }
    }

    #[test]
    fn dropped_pool_frees_idle_minibatches() {
        let memory = MinibatchMemory::default();
        let meter = memory.meter();
        let (mut pool, mut other) =
            (MinibatchPool::of_memory(&memory), MinibatchPool::of_memory(&memory).of_thread());
        for pool in [&mut pool, &mut other] {
            let mut minibatches = [filled(pool), filled(pool), filled(pool)];
            minibatches.iter_mut().for_each(|minibatch| pool.finish(minibatch));
            drop(minibatches);
            // Two of the minibatches are in the stock.
            drop(pool.take(2));
        }
        assert!(meter.bytes() >= 6 * 6000);
        let out = other.take(2);
        drop((pool, other));
        assert!((6000..12000).contains(&meter.bytes()));
        drop(out);
        assert_eq!(meter.bytes(), 0);
    }

    #[test]
    fn the_pool_is_bounded() {
        let mut pool = MinibatchPool::default();
        let many: Vec<_> = (0..3 * MAX_IDLE).map(|_| pool.take(1)).collect();
        drop(many);
        assert_eq!(pool.free_list.idle.lock().len(), MAX_IDLE);
    }

    #[test]
    fn data_are_typed() {
        let mut minibatch = filled(&mut MinibatchPool::default());
        let stream = &minibatch.streams[1];
        assert_eq!(stream.dense::<f32>(), Some(&[0.0; 1500][..]));
        assert_eq!((stream.dense::<f64>(), stream.dense::<i32>()), (None, None));
        assert_eq!(stream.sparse::<f32>(), None);
        assert_eq!(
            (stream.storage(), stream.element(), stream.sample_size()),
            (Storage::Dense, ElementType::Float, 3)
        );
        let stream = &mut minibatch.streams[0];
        (stream.layout.steps, stream.layout.lanes) = (1, 2);
        let (_, block) = stream.allocate(Storage::SparseCsc, ElementType::Double, 7, 1).expect("memory");
        let parts = block::begin_sparse(block, 8, 1);
        parts.values.copy_from_slice(&2.5f64.to_ne_bytes());
        parts.indices.copy_from_slice(&6i32.to_ne_bytes());
        parts.offsets.copy_from_slice(&[0i32, 0, 1].map(i32::to_ne_bytes));
        assert_eq!(stream.dense::<f64>(), None);
        assert_eq!((stream.sparse::<f32>(), stream.sparse::<i64>()), (None, None));
        let columns = stream.sparse::<f64>().expect("sparse columns");
        assert_eq!(columns, SparseColumns { values: &[2.5], indices: &[6], offsets: &[0, 0, 1] });
        let too_many = stream.allocate(Storage::Dense, ElementType::Double, usize::MAX, 0);
        let message = "The minibatch is too large: 1 steps of 2 parallel sequences exceed the address space.";
        assert_eq!(too_many.expect_err("too large").message(), message);
    }

    #[test]
    fn all_memory_is_counted() {
        let memory = MinibatchMemory::default();
        let mut pool = MinibatchPool::of_memory(&memory);
        let mut minibatch = filled(&mut pool);
        assert_eq!(minibatch.bytes(), 6000);
        minibatch.keys.extend([1, 2]);
        let record = Record { id: 0, lane: 0, begin: 0, end: 5 };
        minibatch.streams[1].layout.records.extend([record; 3]);
        assert_eq!(minibatch.bytes(), 6000 + 3 * size_of::<Record>() + 2 * size_of::<SequenceKey>());
        let records = minibatch.streams[1].layout.records.capacity() * size_of::<Record>();
        let keys = minibatch.keys.capacity() * size_of::<SequenceKey>();
        pool.finish(&mut minibatch);
        // Blocks consist of lines of 64 bytes.
        assert_eq!(memory.meter().bytes(), 6016 + (records + keys) as u64);
    }

    /// Lists get half as much room again when they grow.
    #[test]
    fn room_is_reserved_for_records_and_keys() {
        let mut minibatch = MinibatchPool::default().take(2);
        let capacities = |minibatch: &Minibatch| {
            let streams = minibatch.streams.iter().map(|stream| stream.layout.records.capacity());
            [minibatch.keys.capacity()].into_iter().chain(streams).collect::<Vec<_>>()
        };
        minibatch.reserve(10).expect("memory");
        let first = capacities(&minibatch);
        assert!((15..20).contains(&first[0]) && first[1..].iter().all(|records| (30..40).contains(records)));
        minibatch.reserve(first[0]).expect("memory");
        assert_eq!(capacities(&minibatch), first);
        minibatch.reserve(first[0] + 1).expect("memory");
        assert!(capacities(&minibatch).iter().zip(first).all(|(now, before)| *now >= before * 3 / 2));
    }
}
