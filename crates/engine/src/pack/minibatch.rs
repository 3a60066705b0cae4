//! One minibatch: its data, layouts, keys and flags, and the pool that its memory returns to.
//!
//! Memory is used again because writing to it costs a tenth of writing to new pages. A [`Minibatch`] returns to its pool as
//! a whole, with its blocks, its lists of records and its list of keys. So each stream gets a block that it filled before,
//! sizes settle after a few reads, and from then on a minibatch allocates nothing.

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

/// Minibatches that are packed together, at most, by any number of threads.
pub const MOST_AT_ONCE: usize = 512;

/// Idle minibatches that a free list keeps. A reader has a batch of them ready, another batch that is being filled, and some in
/// the caller's hands; callers that collect a few before they copy them to a device should find them here too. A pool has up to as many
/// in its stock.
const MAX_IDLE: usize = 2 * MOST_AT_ONCE + 8;

/// What a read delivers. Owns its memory, which returns to the reader's pool when the minibatch is dropped.
#[derive(Debug, Default)]
pub struct Minibatch {
    /// The minibatch reaches or crosses the end of a sweep.
    pub end_of_sweep: bool,
    /// The minibatch is the last of the epoch or, without streams, comes after the last.
    pub end_of_epoch: bool,
    /// The minibatch is a step of training: it has data, or all workers in lockstep take part in
    /// it. Set by the reader when it delivers the minibatch.
    pub is_step: bool,
    /// One entry per stream, or none if there is no data.
    pub streams: Vec<StreamMinibatch>,
    /// The key of each sequence, by its number in the layouts.
    pub keys: Vec<SequenceKey>,
    /// Where its memory goes. It stays while the minibatch is idle: to make another reference, the thread that packs would write to a counter that
    /// the caller's thread writes too.
    free_list: Weak<FreeList>,
    /// Reports its memory to the reader's meter.
    held: Held,
}

impl Minibatch {
    /// A minibatch without data.
    pub(crate) fn empty(end_of_sweep: bool, end_of_epoch: bool) -> Minibatch {
        let mut minibatch = Minibatch::default();
        minibatch.end_of_sweep = end_of_sweep;
        minibatch.end_of_epoch = end_of_epoch;
        minibatch
    }

    /// Bytes of its data and layouts. Where sequences have a sample or two, the layouts are most of it.
    pub(crate) fn bytes(&self) -> usize {
        let bytes_of = |stream: &StreamMinibatch| stream.block().len() + size_of_val(&*stream.layout.records);
        self.streams.iter().map(bytes_of).sum::<usize>() + size_of_val(&*self.keys)
    }

    /// Prefetches what comes soon of minibatches that another thread had: the first one's data, and the descriptions of the second one's
    /// streams, which say where its data are.
    ///
    /// Cache lines come from another core in 50 nanoseconds, or in 200 if it has another L3 cache, and a small minibatch is some thirty lines, of
    /// which many would be waited for one by one. (Minibatches of 8 samples in CNTK's place, 2 CPUs that share no L3 cache: later sweeps over
    /// slots and phonemes take 0.90 and 0.95 of the time; where they share one 0.93 and 0.98.)
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

    /// Reports the memory that the minibatch has now to its pool's meter.
    fn count_memory(&mut self, meter: &Meter) {
        let bytes_of = |stream: &StreamMinibatch| {
            stream.block.held() + stream.layout.records.capacity() * size_of::<Record>()
        };
        let streams = self.streams.iter().map(bytes_of).sum::<usize>();
        self.held.update(meter, streams + self.keys.capacity() * size_of::<SequenceKey>());
    }

    /// Reserves memory for the records and keys of `sequences` sequences in an empty minibatch, and for half as many again,
    /// so that sizes settle. Two records per sequence suffice: a lane has at most one gap, and there are no more lanes than
    /// sequences.
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
    /// Which columns belong to which sequence.
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
    /// How the values are stored.
    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Type of the values.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Values of one sample: the height of a column.
    pub fn sample_size(&self) -> usize {
        self.sample_size
    }

    /// All values of a dense stream, column after column, `sample_size` values each; columns of gaps hold zeros. `None` if
    /// the stream is sparse or its values are of another type.
    pub fn dense<T: Element>(&self) -> Option<&[T]> {
        match self.storage {
            Storage::Dense if self.element == T::TYPE => block::dense(self.block.bytes()),
            _ => None,
        }
    }

    /// The columns of a sparse stream; columns of gaps are empty. `None` if the stream is dense or its values are of another
    /// type.
    pub fn sparse<T: Element>(&self) -> Option<SparseColumns<'_, T>> {
        match self.storage {
            Storage::SparseCsc if self.element == T::TYPE => {
                block::sparse(self.block.bytes(), self.layout.columns())
            }
            _ => None,
        }
    }

    /// The whole block as CNTK lays it out, aligned to 64 bytes, for those who hand it on to CNTK. Dense: the values.
    /// Sparse: `u64` number of values, the values, `i32` indices, `columns + 1` `i32` offsets.
    pub fn block(&self) -> &[u8] {
        self.block.bytes()
    }

    /// The address of the block. Where the minibatch is shared, callers of the C ABI may write there as long as nobody else
    /// reads or writes.
    pub fn block_pointer(&self) -> *mut u8 {
        self.block.pointer()
    }

    /// Makes the block as large as the layout needs, `nnz` being the number of stored values of a sparse stream, and hands it
    /// out to be written. Its content is unspecified.
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

    /// The layout and the block, to be written.
    pub(super) fn parts_mut(&mut self) -> (&mut Layout, &mut [u8]) {
        (&mut self.layout, self.block.bytes_mut())
    }
}

/// Bytes from which on a minibatch is large: a processor's own caches do not keep it for the thread that has filled it.
const LARGE: usize = 1 << 20;

/// Minibatches that wait for their next use.
#[derive(Debug, Default)]
struct FreeList {
    idle: Mutex<Vec<Minibatch>>,
    /// Where large ones wait, those of several threads.
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

/// Where minibatches come from, and where they return when they are dropped, from any thread. Minibatches may outlive it.
#[derive(Debug, Default)]
pub struct MinibatchPool {
    free_list: Arc<FreeList>,
    /// What was in the free list when this was empty: to take one at a time from where another thread puts them, two processors would have to
    /// hand over the list for each minibatch.
    stock: Vec<Minibatch>,
    memory: MinibatchMemory,
}

impl MinibatchPool {
    /// A pool whose minibatches count as part of `memory`, wherever they are.
    pub(crate) fn of_memory(memory: &MinibatchMemory) -> MinibatchPool {
        MinibatchPool { memory: memory.clone(), ..MinibatchPool::default() }
    }

    /// A pool for one of the threads that fill minibatches, so that it gets back those that it filled before: they are in its
    /// processor's caches. Large ones return to this pool, and any thread takes them. (Minibatches of 1 to 3 MB, two threads, in
    /// CNTK's place: 1.5 to 2.6 MB less than if each thread kept them.)
    pub(crate) fn of_thread(&self) -> MinibatchPool {
        let free_list = FreeList { large: Some(Arc::clone(&self.free_list)), ..FreeList::default() };
        MinibatchPool { free_list: Arc::new(free_list), stock: Vec::new(), memory: self.memory.clone() }
    }

    /// Counts the memory of a minibatch whose content is complete, and page-locks it if the reader
    /// was asked to.
    pub(super) fn finish(&self, minibatch: &mut Minibatch) {
        minibatch.count_memory(self.memory.meter());
        minibatch.streams.iter_mut().for_each(|stream| self.memory.lock(&mut stream.block));
    }

    /// A minibatch with this number of streams and no flags. Layouts and keys are empty; sizes and contents of blocks are
    /// unspecified.
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

    /// Bytes of the blocks that idle minibatches hold.
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
    fn dropped_minibatches_are_used_again() {
        let mut pool = MinibatchPool::default();
        let mut minibatch = filled(&mut pool);
        minibatch.keys.push(3);
        minibatch.end_of_sweep = true;
        let address = minibatch.streams[1].block().as_ptr() as usize;
        std::thread::spawn(move || drop(minibatch)).join().expect("dropping");
        assert!(pool.idle_bytes() >= 6000);
        let again = pool.take(2);
        assert_eq!(again.streams[1].block().as_ptr() as usize, address);
        assert!(again.keys.is_empty() && !again.end_of_sweep);
        assert_eq!(pool.idle_bytes(), 0);
        drop(pool);
        drop(again);
    }

    #[test]
    fn large_minibatches_are_used_by_all_threads() {
        for (columns, shared) in [(100, false), (LARGE / 12, false), (LARGE / 12 + 1, true)] {
            let pool = MinibatchPool::default();
            let (mut one, mut other) = (pool.of_thread(), pool.of_thread());
            let mut minibatch = one.take(1);
            let stream = &mut minibatch.streams[0];
            (stream.layout.steps, stream.layout.lanes) = (1, columns);
            stream.allocate(Storage::Dense, ElementType::Float, 3, 0).expect("memory");
            let address = stream.block().as_ptr().addr();
            drop(minibatch);
            let again = other.take(1);
            assert_eq!(again.streams[0].block().as_ptr().addr() == address, shared, "{columns} columns");
        }
    }

    #[test]
    fn a_pool_that_ends_frees_what_is_idle() {
        let memory = MinibatchMemory::default();
        let meter = memory.meter();
        let (mut pool, mut other) =
            (MinibatchPool::of_memory(&memory), MinibatchPool::of_memory(&memory).of_thread());
        for pool in [&mut pool, &mut other] {
            let mut minibatches = [filled(pool), filled(pool), filled(pool)];
            minibatches.iter_mut().for_each(|minibatch| pool.finish(minibatch));
            drop(minibatches);
            // Two of them are in the stock.
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
    fn data_are_seen_as_what_they_are() {
        let mut minibatch = filled(&mut MinibatchPool::default());
        let stream = &minibatch.streams[1];
        assert_eq!(stream.dense::<f32>(), Some(&[0.0; 1500][..]));
        assert_eq!((stream.dense::<f64>(), stream.sparse::<f32>()), (None, None));
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
        assert_eq!((stream.dense::<f64>(), stream.sparse::<f32>()), (None, None));
        let columns = stream.sparse::<f64>().expect("sparse columns");
        assert_eq!(columns, SparseColumns { values: &[2.5], indices: &[6], offsets: &[0, 0, 1] });
        let too_many = stream.allocate(Storage::Dense, ElementType::Double, usize::MAX, 0);
        assert!(too_many.is_err());
    }
}
