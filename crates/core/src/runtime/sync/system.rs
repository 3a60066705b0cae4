//! What the library uses: its own locks, rayon and the standard library.

use std::io;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub use crate::runtime::lock::{Condvar, Mutex, MutexGuard};
pub use rayon::ThreadPool;
pub use std::thread;

/// Whether a thread has ended.
pub fn is_finished(thread: &thread::JoinHandle<()>) -> bool {
    thread.is_finished()
}

/// Starts a pool of threads, each by `start`, which gets the thread's number and what it has to do.
pub fn thread_pool(
    threads: usize,
    mut start: impl FnMut(usize, Box<dyn FnOnce() + Send>) -> io::Result<()>,
) -> io::Result<ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let builder = builder.spawn_handler(|work| start(work.index(), Box::new(|| work.run())));
    builder.build().map_err(io::Error::other)
}

/// The number of threads of the pool whose thread this is.
pub fn current_threads() -> usize {
    rayon::current_num_threads()
}

/// Runs `work` on as many threads of the pool as are free, `threads` at most, and returns when all of them are done. Runs on
/// a thread of the pool.
pub fn on_threads(threads: usize, work: impl Fn() + Sync) {
    rayon::scope(|scope| {
        (1..threads).for_each(|_| scope.spawn(|_| work()));
        work();
    });
}

/// How long a thread looks for what it waits for before it sleeps: about as long as it takes to be woken up, which is 40 to 110
/// microseconds in a virtual machine. (Later sweeps by 2 threads take 0.84 to 0.99 of the time that they take with half as long; twice as
/// long gains no more.)
const SPIN: Duration = Duration::from_micros(60);

/// How often a thread looks before it lets others have its CPU, if any wait for it: some microseconds. Systems leave two threads on one CPU for
/// milliseconds while another one has nothing to do, and one that only looks would keep the other from what it looks for. (Later sweeps
/// by 2 threads over features of speech, integers and decimals in CNTK's place take 0.93, 0.94 and 0.84 of the time in the mean, as long in the median; the
/// slowest of 50 took 2.5 to 4 times the median, and now 2.)
const LOOKS: usize = 128;

/// Whether another thread can do something while this one waits. Not if the process has one CPU.
static IS_PARALLEL: LazyLock<bool> =
    LazyLock::new(|| thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1));

/// Waits a short time for something that another thread is about to do. Returns whether it is done.
pub fn spin(is_done: impl Fn() -> bool) -> bool {
    if !*IS_PARALLEL {
        return is_done();
    }
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if is_done() {
                return true;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > SPIN {
            return false;
        }
        // Whoever does it may be waiting for this CPU.
        thread::yield_now();
    }
}
