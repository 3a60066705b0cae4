//! One minibatch ahead: a thread that assembles the next minibatch while the caller works on this one.
//!
//! The pipeline itself travels: the reader gives it away with the order to read once, and gets it back with the
//! result. So there is nothing to lock, and whoever has the pipeline may do with it what it likes.

use super::checkpoint::Progress;
use super::pipeline::Pipeline;
use crate::error::ExceptionClass;
use crate::pack::Minibatch;
use crate::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// One read: the minibatch, where the pipeline stood afterwards, and how long it took.
pub(super) struct Assembled {
    pub minibatch: Result<Minibatch>,
    pub progress: Progress,
    pub took: Duration,
}

impl Assembled {
    /// Reads once. `before` is a progress of which only the memory is used.
    pub(super) fn by(pipeline: &mut Pipeline, before: Progress) -> Assembled {
        let start = Instant::now();
        let minibatch = pipeline.read();
        let progress = pipeline.progress(before);
        Assembled { minibatch, progress, took: start.elapsed() }
    }
}

/// The thread. Lives as long as its reader.
pub(super) struct Assembler {
    orders: Option<SyncSender<(Box<Pipeline>, Progress)>>,
    results: Receiver<(Box<Pipeline>, Assembled)>,
    thread: Option<JoinHandle<()>>,
}

impl Assembler {
    pub(super) fn start() -> Result<Assembler> {
        let (orders, inbox) = sync_channel::<(Box<Pipeline>, Progress)>(1);
        let (outbox, results) = sync_channel(1);
        let work = move || {
            for (mut pipeline, before) in inbox {
                // A panic drops the pipeline and closes the channel: the reader sees that and refuses further use.
                let Ok(assembled) = catch_unwind(AssertUnwindSafe(|| Assembled::by(&mut pipeline, before)))
                else {
                    return;
                };
                if outbox.send((pipeline, assembled)).is_err() {
                    return;
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("cntk-reader-mb".to_owned()).spawn(work).map_err(|cause| {
                let message = format!("Cannot start the assembling thread: {cause}");
                Error::new(ErrorKind::Io, ExceptionClass::Runtime, message)
            })?;
        Ok(Assembler { orders: Some(orders), results, thread: Some(thread) })
    }

    /// Gives the pipeline away to read once, with a progress for its memory. The thread is known to wait: there is one
    /// pipeline, and it is here.
    pub(super) fn give(&self, pipeline: Box<Pipeline>, before: Progress) -> Result<()> {
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send((pipeline, before)).map_err(|_| gone())
    }

    /// Takes the pipeline back, with what it read. Waits for it.
    pub(super) fn take(&self) -> Result<(Box<Pipeline>, Assembled)> {
        self.results.recv().map_err(|_| gone())
    }

    /// Forgets the thread without waiting for it: it does not exist in a forked child.
    pub(super) fn abandon(mut self) {
        std::mem::forget(self.thread.take());
        std::mem::forget(self);
    }
}

impl Drop for Assembler {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends after the minibatch it works on; its panics were caught.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::internal("Assembling a minibatch panicked; the reader cannot be used any more.")
}
