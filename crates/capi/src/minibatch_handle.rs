//! The handle of a minibatch, and the parts of a reader that minibatches keep alive.

use super::handle::{self, Handle, Header, Kind, Place};
use super::stream::Stream;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::stream::LateShapes;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::reader::Reader;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// A reference-counted minibatch, which owns its data. cntk_reader_minibatch_next and
/// cntk_reader_minibatch_read return one reference, cntk_reader_minibatch_retain adds one, and
/// cntk_reader_minibatch_release releases one. Releasing the last one recycles the memory for later
/// minibatches. A minibatch may outlive its reader.
///
/// Threads: immutable, may be shared; references are counted atomically.
/// Fork: in a child, the data may be read, but not textual keys; releasing does nothing.
pub struct cntk_reader_minibatch(Header);

// SAFETY: no other type has this kind.
unsafe impl Handle for cntk_reader_minibatch {
    const KIND: Kind = Kind::Minibatch;
    type Object = HeldMinibatch;

    fn header(&self) -> &Header {
        &self.0
    }
}

/// The object of a cntk_reader_minibatch.
pub(super) struct HeldMinibatch {
    references: AtomicUsize,
    pub(super) process: Process,
    /// `None` while it is idle.
    shared: Option<Arc<ReaderShared>>,
    pub(super) content: Minibatch,
}

/// The parts of a reader that its minibatches need, even after it is freed.
pub(super) struct ReaderShared {
    pub(super) streams: Vec<Stream>,
    pub(super) corpus: Arc<Corpus>,
    shapes: Arc<LateShapes>,
    idle: IdleObjects,
}

impl ReaderShared {
    pub(super) fn new(reader: &Reader) -> Self {
        ReaderShared {
            streams: reader.streams().iter().map(Stream::new).collect(),
            corpus: Arc::clone(reader.corpus()),
            shapes: Arc::clone(reader.shapes()),
            idle: IdleObjects::default(),
        }
    }

    pub(super) fn stream(&self, index: usize) -> Result<&Stream> {
        self.streams.get(index).ok_or_else(|| {
            Error::argument(format!("There is no stream {index}: the reader has {}.", self.streams.len()))
        })
    }

    /// Returns the shape of a stream's samples; a dimension may be unknown until data are read.
    pub(super) fn shape(&self, index: usize) -> Result<&[usize]> {
        let stream = self.stream(index)?;
        let late = stream.info.has_late_shape().then(|| self.shapes.get(index)).flatten();
        Ok(late.unwrap_or(&stream.info.shape))
    }
}

/// Recycled objects, so that reading need not allocate them.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "handles point to the boxes, which must not move")]
struct IdleObjects(Mutex<Vec<Box<HeldMinibatch>>>);

/// Maximum number of idle objects.
const MAX_IDLE: usize = 8;

impl IdleObjects {
    fn take(&self) -> Option<Box<HeldMinibatch>> {
        self.0.lock().pop()
    }

    fn give_back(&self, object: Box<HeldMinibatch>) {
        let mut objects = self.0.lock();
        if objects.len() < MAX_IDLE {
            objects.push(object);
        }
    }
}

impl HeldMinibatch {
    /// Returns a handle with one reference.
    pub(super) fn hand_out(content: Minibatch, shared: &Arc<ReaderShared>) -> *const cntk_reader_minibatch {
        let held = HeldMinibatch {
            references: AtomicUsize::new(1),
            process: Process::current(),
            shared: Some(Arc::clone(shared)),
            content,
        };
        let object = match shared.idle.take() {
            Some(mut idle) => {
                *idle = held;
                idle
            }
            None => Box::new(held),
        };
        handle::hand_out::<cntk_reader_minibatch>(object)
    }

    /// Adds a reference.
    pub(super) fn retain(&self) {
        self.references.fetch_add(1, Relaxed);
    }

    /// Releases a reference. Releasing the last one returns the content to its pool and the object
    /// to its reader's. Misuse is logged.
    ///
    /// # Safety
    /// `handle` points to a header, and the caller gives up one reference.
    pub(super) unsafe fn give_up(handle: *const cntk_reader_minibatch, place: Place) {
        // SAFETY: this function's contract.
        let held = match handle::object_of(unsafe { handle.as_ref() }, place) {
            Ok(held) => held,
            Err(error) => return handle::log(&error),
        };
        // In the child of a fork the buffers cannot return to their pool: another thread may have
        // held its lock.
        if !held.process.is_current() || held.references.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        // SAFETY: that was the last reference, so nothing uses the object any more.
        let Some(mut last) = (unsafe { handle::release(handle.cast_mut(), place) }) else { return };
        last.content = Minibatch::default();
        if let Some(shared) = last.shared.take() {
            shared.idle.give_back(last);
        }
    }

    /// Returns the shared parts of the minibatch's reader.
    pub(super) fn shared(&self) -> Result<&Arc<ReaderShared>> {
        self.shared.as_ref().ok_or_else(|| Error::internal("A minibatch in use is marked as idle."))
    }
}
