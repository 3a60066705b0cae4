//! The handle of a minibatch, and the parts of a reader that minibatches keep alive.

use super::stream::Stream;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::stream::LateShapes;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::reader::Reader;
use std::sync::Arc;

/// A reference-counted minibatch, which owns its data. cntk_reader_minibatch_next and
/// cntk_reader_minibatch_read return one reference, cntk_reader_minibatch_retain adds one, and
/// cntk_reader_minibatch_release releases one. Releasing the last one recycles the memory for later
/// minibatches. A minibatch may outlive its reader.
///
/// Threads: immutable, may be shared; references are counted atomically.
/// Fork: in a child, the data may be read, but not textual keys; releasing does nothing.
pub struct cntk_reader_minibatch {
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
    idle: IdleHandles,
}

impl ReaderShared {
    pub(super) fn new(reader: &Reader) -> Self {
        ReaderShared {
            streams: reader.streams().iter().map(Stream::new).collect(),
            corpus: Arc::clone(reader.corpus()),
            shapes: Arc::clone(reader.shapes()),
            idle: IdleHandles::default(),
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

/// Recycled handles, so that reading need not allocate them.
#[derive(Default)]
struct IdleHandles(Mutex<Vec<Arc<cntk_reader_minibatch>>>);

/// Maximum number of idle handles.
const MAX_IDLE: usize = 8;

impl IdleHandles {
    fn take(&self) -> Option<Arc<cntk_reader_minibatch>> {
        self.0.lock().pop()
    }

    fn give_back(&self, handle: Arc<cntk_reader_minibatch>) {
        let mut handles = self.0.lock();
        if handles.len() < MAX_IDLE {
            handles.push(handle);
        }
    }
}

impl cntk_reader_minibatch {
    /// Returns a handle with one reference.
    pub(super) fn hand_out(content: Minibatch, shared: &Arc<ReaderShared>) -> *const cntk_reader_minibatch {
        let handle =
            cntk_reader_minibatch { process: Process::current(), shared: Some(Arc::clone(shared)), content };
        if let Some(mut idle) = shared.idle.take()
            && let Some(place) = Arc::get_mut(&mut idle)
        {
            *place = handle;
            return Arc::into_raw(idle);
        }
        Arc::into_raw(Arc::new(handle))
    }

    /// Releases a reference. Releasing the last one returns the content to its pool and the handle
    /// to its reader's.
    pub(super) fn give_up(mut handle: Arc<cntk_reader_minibatch>) {
        if let Some(last) = Arc::get_mut(&mut handle) {
            last.content = Minibatch::default();
            if let Some(shared) = last.shared.take() {
                shared.idle.give_back(handle);
            }
        }
    }

    /// Returns the shared parts of the minibatch's reader.
    pub(super) fn shared(&self) -> Result<&Arc<ReaderShared>> {
        self.shared.as_ref().ok_or_else(|| Error::argument("The minibatch was already released."))
    }
}
