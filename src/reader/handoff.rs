//! A thread that works on what it is given, and gives it back. A thing belongs to one thread at a time: nothing is shared, so
//! there is nothing to lock.

use crate::thread;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Work that takes less time is not handed over: handing a thing to another thread and back, with the waking of both, costs
/// about as much. A batch of minibatches is read ahead if reading it and what the caller does between reads both take at least
/// this long, because nothing is gained where the caller only waits. (Counts of words in minibatches of 256, one by one, read
/// by a caller that does nothing: a fifth of the time went into changing threads. If all work is handed over, second sweeps
/// over four shapes of data in minibatches of 32 and 256 take 1.1 to 4 times as long with such a caller on 2 CPUs.) Chunks are
/// loaded ahead in any case.
pub(super) const WORTH_A_THREAD: Duration = Duration::from_micros(50);

/// The thread. It has one thing at a time; to hand that over allocates nothing.
pub(super) struct HandoffThread<T> {
    orders: Option<SyncSender<T>>,
    results: Receiver<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> HandoffThread<T> {
    /// Starts the thread. If there can be none now, that is logged, and the caller does the work itself.
    pub(super) fn start(name: &str, work: fn(&mut T)) -> Option<HandoffThread<T>> {
        let (orders, inbox) = sync_channel::<T>(1);
        let (outbox, results) = sync_channel(1);
        let work = move || {
            for mut thing in inbox {
                // A panic drops the thing and closes the channel: the reader sees that and refuses further use.
                if catch_unwind(AssertUnwindSafe(|| work(&mut thing))).is_err() || outbox.send(thing).is_err()
                {
                    return;
                }
            }
        };
        match thread::start(name, work) {
            Ok(thread) => Some(HandoffThread { orders: Some(orders), results, thread: Some(thread) }),
            Err(cause) => {
                thread::warn_of_missing(name, &cause);
                None
            }
        }
    }

    /// Gives a thing away to be worked on. The thread is known to wait: it has given back what it had before.
    pub(super) fn give(&self, thing: T) -> Result<()> {
        let orders = self.orders.as_ref().ok_or_else(gone)?;
        orders.send(thing).map_err(|_| gone())
    }

    /// Takes back what was given away. Waits for it.
    pub(super) fn take(&self) -> Result<T> {
        self.results.recv().map_err(|_| gone())
    }
}

impl<T> HandoffThread<T> {
    /// Forgets the thread without waiting for it: it does not exist in a forked child.
    pub(super) fn forget(mut self) {
        std::mem::forget(self.thread.take());
        std::mem::forget(self);
    }
}

impl<T> Drop for HandoffThread<T> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends after what it works on; its panics were caught.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::internal("Assembling a minibatch panicked; the reader cannot be used any more.")
}
