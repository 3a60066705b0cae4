//! A pool of reusable decoding state, one worker per active thread.

use super::zip::Inflater;
use crate::decode::Decoder;
use crate::transform::Scratch;
use cntk_reader_core::runtime::lock::Mutex;

/// Memory and decoder state for one thread.
#[derive(Default)]
pub(super) struct Worker {
    pub decoder: Decoder,
    pub scratch: Scratch,
    pub inflater: Inflater,
    /// The path of the file being read.
    pub path: Vec<u8>,
}

/// The idle workers, used as a stack: the one used last is warm in the caches. The choice does not
/// affect results.
#[derive(Default)]
pub(super) struct Workers(Mutex<Vec<Worker>>);

impl Workers {
    /// Runs `work` with an idle or new worker.
    pub fn with<R>(&self, work: impl FnOnce(&mut Worker) -> R) -> R {
        let idle = self.0.lock().pop();
        let mut worker = idle.unwrap_or_default();
        let result = work(&mut worker);
        self.0.lock().push(worker);
        result
    }
}
