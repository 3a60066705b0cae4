//! What decoding one image after the other needs, for as many threads as do that at once.

use super::zip::Inflater;
use crate::decode::Decoder;
use crate::transform::Scratch;
use cntk_reader_core::runtime::lock::Mutex;

/// Memory and state for one thread.
#[derive(Default)]
pub(super) struct Worker {
    pub decoder: Decoder,
    pub scratch: Scratch,
    pub inflater: Inflater,
    /// The path of the file that is read.
    pub path: Vec<u8>,
}

/// The workers that no thread uses now. Which one a thread gets makes no difference to its results; the one that was used last
/// has its memory in the caches.
#[derive(Default)]
pub(super) struct Workers(Mutex<Vec<Worker>>);

impl Workers {
    /// Does something with a worker.
    pub fn with<R>(&self, work: impl FnOnce(&mut Worker) -> R) -> R {
        let idle = self.0.lock().pop();
        let mut worker = idle.unwrap_or_default();
        let result = work(&mut worker);
        self.0.lock().push(worker);
        result
    }
}
