//! The primitives of real builds: the library's own locks, rayon and the standard library.

use std::io;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

pub use crate::runtime::lock::{Condvar, Mutex, MutexGuard};
pub use rayon::ThreadPool;
pub use std::thread;

/// Returns whether a thread has ended.
pub fn is_finished(thread: &thread::JoinHandle<()>) -> bool {
    thread.is_finished()
}

/// Starts a thread pool; `start` starts each thread, given its number and its work.
pub fn thread_pool(
    threads: usize,
    mut start: impl FnMut(usize, Box<dyn FnOnce() + Send>) -> io::Result<()>,
) -> io::Result<ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let builder = builder.spawn_handler(|work| start(work.index(), Box::new(|| work.run())));
    builder.build().map_err(io::Error::other)
}

/// Returns the number of threads of the current thread's pool.
pub fn current_threads() -> usize {
    rayon::current_num_threads()
}

/// Runs `work` on up to `threads` idle threads of the pool, and returns when all of them are done.
/// Runs on a thread of the pool.
pub fn on_threads(threads: usize, work: impl Fn() + Sync) {
    rayon::scope(|scope| {
        (1..threads).for_each(|_| scope.spawn(|_| work()));
        work();
    });
}

/// How long a thread spins before it parks: about as long as a wake-up takes, which is 40 to 110
/// microseconds in a virtual machine. Half as long makes later sweeps by two threads up to 19 %
/// slower; twice as long gains nothing.
const SPIN: Duration = Duration::from_micros(60);

/// Number of spin iterations before yielding: some microseconds. The scheduler may leave two
/// threads on one CPU for milliseconds while another CPU is idle, and a spinning thread would delay
/// the very thread that it waits for. Yielding makes later sweeps by two threads 6 to 16 % faster
/// on average, by shortening the slowest ones.
const LOOKS: usize = 128;

/// Whether another thread can make progress while this one spins: the process has more than one
/// CPU.
static IS_PARALLEL: LazyLock<bool> =
    LazyLock::new(|| thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1));

/// Spins for a short time until `is_done`. Returns whether it is done.
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
        // The other thread may be waiting for this CPU.
        thread::yield_now();
    }
}
