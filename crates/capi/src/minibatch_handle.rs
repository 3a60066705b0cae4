//! The handle of a minibatch, and what minibatches need of their reader even after it is gone.

use super::stream::Stream;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::stream::LateShapes;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::reader::Reader;
use std::sync::Arc;

/// One minibatch. It owns its data and counts its references: cntk_reader_minibatch_next and
/// cntk_reader_minibatch_read give one, cntk_reader_minibatch_retain adds one,
/// cntk_reader_minibatch_release takes one away. With the last one its memory
/// becomes available for later minibatches. It may outlive its reader.
///
/// Threads: immutable, may be shared; references are counted atomically.
/// Fork: data may be read in the child, textual keys may not; releasing it there does nothing.
pub struct cntk_reader_minibatch {
    pub(super) process: Process,
    /// `None` while it is idle.
    shared: Option<Arc<Shared>>,
    pub(super) content: Minibatch,
}

/// What a reader's minibatches need of it.
pub(super) struct Shared {
    pub(super) streams: Vec<Stream>,
    pub(super) corpus: Arc<Corpus>,
    shapes: Arc<LateShapes>,
    idle: IdleHandles,
}

impl Shared {
    pub(super) fn new(reader: &Reader) -> Self {
        Shared {
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

    /// The shape of a stream's samples, as far as it is known.
    pub(super) fn shape(&self, index: usize) -> Result<&[usize]> {
        let stream = self.stream(index)?;
        let late = stream.info.has_late_shape().then(|| self.shapes.get(index)).flatten();
        Ok(late.unwrap_or(&stream.info.shape))
    }
}

/// Handles without a minibatch, kept for the next ones, so that reading allocates none.
#[derive(Default)]
struct IdleHandles(Mutex<Vec<Arc<cntk_reader_minibatch>>>);

/// Idle handles that are kept, at most.
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
    /// A handle with one reference.
    pub(super) fn hand_out(content: Minibatch, shared: &Arc<Shared>) -> *const cntk_reader_minibatch {
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

    /// Takes a reference away. The last one gives the content back to its pool, and the handle to its reader's.
    pub(super) fn give_up(mut handle: Arc<cntk_reader_minibatch>) {
        if let Some(last) = Arc::get_mut(&mut handle) {
            last.content = Minibatch::default();
            if let Some(shared) = last.shared.take() {
                shared.idle.give_back(handle);
            }
        }
    }

    /// What its reader has left for it.
    pub(super) fn shared(&self) -> Result<&Arc<Shared>> {
        self.shared.as_ref().ok_or_else(|| Error::argument("The minibatch was released before."))
    }
}
