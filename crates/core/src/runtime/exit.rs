//! Process exit: makes sure that no foreign code is running then.
//!
//! A user's deserializer may live in a module of its own and use objects that static destructors
//! destroy while `exit` runs. The library's threads keep running meanwhile: a thread that loads a
//! chunk at that moment would crash in code whose objects are gone. So each thread that is about to
//! run foreign code, or to read memory that foreign code owns, [enters](enter) first. An `atexit`
//! handler closes the entrance and waits until all threads inside have left.
//!
//! Handlers and destructors run in the reverse order of their registration, so the handler must be
//! registered after the destructors of all objects that foreign code uses. These objects are
//! created when the code's module is loaded, when a deserializer is opened, and when the code that
//! uses them first runs. So [`register`] is called at each opening, and again after 1, 2, 4, 8 ...
//! chunks; registering the handler several times does no harm.
//!
//! The handler also [ends the threads](ForeignThreads) that exist for foreign code alone. A
//! run-time library that this code uses (Intel's OpenMP, with which CNTK's modules load features)
//! keeps data for each calling thread, and its own threads wait for the next call; shut down in
//! that state, it crashed in 3 of 200 programs. It releases the data when the calling thread ends.
//!
//! A runtime may end threads inside foreign code: up to version 3.13, Python calls `pthread_exit`
//! in every thread that wants its lock during finalization. That unwinds the stack, and must not
//! drop objects owned by Rust frames. So foreign code is called by [`foreign`], which stops the
//! unwinding before its caller and [parks](park) the thread until the process ends. No thread waits
//! for a parked one. Callbacks are `extern "C-unwind"`, because the frames between them and that
//! place, which have nothing to drop, are unwound. `pthread_cancel` would unwind any frame, so
//! threads of this library [refuse](refuse_cancel) it.
//!
//! A host whose code must not be called any more even before the process exits, such as Python's,
//! calls [`close`] itself.
//!
//! Threads inside are counted by atomics. The only lock is held across forks (see
//! [`crate::runtime::fork`]), so that a child never inherits it locked.

#![allow(unsafe_code, reason = "locks held across forks")]

use crate::Error;
use crate::runtime::fork::{self, Hooks, Position, Process};
use crate::runtime::lock::{AcrossFork, Mutex};
use crate::runtime::sync;
use crate::system;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Number of entries that have not been left, over all threads.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// The process is exiting: no thread enters any more.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// The handler has timed out on some threads inside, and does not wait again.
static HAS_STRAGGLERS: AtomicBool = AtomicBool::new(false);
/// The thread that runs the handler. Destructors that it runs afterwards may still be foreign code.
static CLOSER: AtomicUsize = AtomicUsize::new(0);
/// Number of threads that run the handler. Callbacks on several threads may end the process at once.
static CLOSING: AtomicUsize = AtomicUsize::new(0);
/// Number of threads that are parked for good.
static PARKED: AtomicUsize = AtomicUsize::new(0);
/// Number of jobs of foreign code that were completed.
static JOBS: AtomicU64 = AtomicU64::new(0);

/// Threads that exist for foreign code alone.
pub(crate) trait ForeignThreads: Send + Sync {
    /// Makes the threads end, and waits for them until `deadline` at most. The calling thread, if
    /// it is one of them, is not waited for.
    fn end(&self, deadline: Instant);
}

/// The groups of such threads, each with its process.
static THREADS: Mutex<Groups> = Mutex::new(Vec::new());
static ACROSS_FORK: AcrossFork<Groups> = AcrossFork::new(&THREADS);

type Groups = Vec<(Process, Weak<dyn ForeignThreads>)>;

/// Keeps other threads from holding the lock during a fork. In the child, only the forking thread
/// exists.
const HOOKS: Hooks = Hooks {
    before: || ACROSS_FORK.lock(),
    in_parent: unlock_after_fork,
    in_child: || {
        INSIDE.store(DEPTH.get(), Ordering::SeqCst);
        PARKED.store(0, Ordering::SeqCst);
        unlock_after_fork();
    },
};

fn unlock_after_fork() {
    // SAFETY: `fork` runs this once after each call of `before`, which called `lock`, on the thread
    // that forked. In the child that is the only thread.
    unsafe { ACROSS_FORK.unlock() };
}

thread_local! {
    /// How many times this thread is inside.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Maximum wait of the handler. Foreign code may itself wait for the thread that ends the process,
/// as Python code waits for the interpreter's lock; without a limit, such a process would never
/// end.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Interval at which the handler checks whether all threads have left.
const POLL: Duration = Duration::from_micros(50);

/// Interval at which a thread that waits for foreign code checks whether that is lost.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Keeps this thread inside until it is dropped.
pub struct Inside {
    /// Makes this type `!Send`.
    _here: std::marker::PhantomData<*const ()>,
}

/// Enters; returns `None` once the process is exiting.
pub fn enter() -> Option<Inside> {
    // Before this thread is counted: a child must not count it.
    fork::register(Position::Exit, HOOKS);
    change(1);
    let inside = Inside { _here: std::marker::PhantomData };
    // Counted before checking: either the handler sees this thread, or this thread sees that the
    // entrance is closed.
    (!CLOSED.load(Ordering::SeqCst)).then_some(inside)
}

impl Drop for Inside {
    fn drop(&mut self) {
        change(-1);
    }
}

fn change(by: isize) {
    DEPTH.set(DEPTH.get().wrapping_add_signed(by));
    match by {
        0.. => INSIDE.fetch_add(by.unsigned_abs(), Ordering::SeqCst),
        _ => INSIDE.fetch_sub(by.unsigned_abs(), Ordering::SeqCst),
    };
}

/// Runs `wait`, which waits for other threads, with this thread outside: they may be waiting for
/// the process to exit themselves. Their work may have been refused because the process is exiting.
pub(crate) fn outside<R>(wait: impl FnOnce() -> R) -> R {
    /// Re-enters, also after a panic.
    struct Back(isize);
    impl Drop for Back {
        fn drop(&mut self) {
            change(self.0);
        }
    }
    let depth = DEPTH.get() as isize;
    if depth == 0 {
        return wait();
    }
    change(-depth);
    let _back = Back(depth);
    wait()
}

/// Makes the handler run before the destructors of all objects that foreign code has created so
/// far.
pub fn register() {
    system::at_exit(close);
}

/// Makes these threads end when the process exits.
pub(crate) fn end_with_process(threads: Weak<dyn ForeignThreads>) {
    let process = Process::current();
    fork::register(Position::Exit, HOOKS);
    let mut all = THREADS.lock();
    all.retain(|(_, known)| known.strong_count() > 0);
    all.push((process, threads));
}

/// Records that foreign code has completed a job.
pub(crate) fn count_job() {
    if (JOBS.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
        register();
    }
}

/// Returns whether the process is exiting, so that no thread enters any more.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::SeqCst)
}

/// Returns whether a thread will never leave, or has not left in time: waits for foreign code then
/// give up.
pub fn has_lost_threads() -> bool {
    PARKED.load(Ordering::SeqCst) > 0
        || (HAS_STRAGGLERS.load(Ordering::SeqCst) && INSIDE.load(Ordering::SeqCst) > DEPTH.get())
}

/// Returns the error of a call that needs foreign code which no longer runs; `consequence` follows
/// "so".
pub fn refusal(consequence: &str) -> Error {
    let is_ending = is_closed() || PARKED.load(Ordering::SeqCst) == 0;
    let cause =
        if is_ending { "The process ends" } else { "A thread of this library was ended inside a callback" };
    let error = Error::state(format!("{cause}, so {consequence}."));
    match is_ending {
        true => error,
        false => error
            .with_detail("Callbacks have to return: have them call neither pthread_exit nor pthread_cancel."),
    }
}

/// Closes the entrance. A host that wants to wait for the threads inside by itself calls this, and
/// then [`close`] once [`others_inside`] returns false.
pub fn refuse() {
    CLOSED.store(true, Ordering::SeqCst);
    CLOSER.store(this_thread(), Ordering::SeqCst);
}

/// Returns whether threads other than this one are inside.
pub fn others_inside() -> bool {
    INSIDE.load(Ordering::SeqCst) > DEPTH.get()
}

/// Closes the entrance and waits until the threads inside have left, for [`LONGEST_WAIT`] at most.
pub extern "C" fn close() {
    refuse();
    CLOSING.fetch_add(1, Ordering::SeqCst);
    let begin = Instant::now();
    let deadline = if HAS_STRAGGLERS.load(Ordering::SeqCst) { begin } else { begin + LONGEST_WAIT };
    // The thread that ends the process may itself be inside.
    outside(|| {
        while INSIDE.load(Ordering::SeqCst) > 0 {
            if Instant::now() >= deadline {
                HAS_STRAGGLERS.store(true, Ordering::SeqCst);
                break;
            }
            std::thread::sleep(POLL);
        }
    });
    // Threads of a parent process do not exist here.
    let here = |(process, threads): &(Process, Weak<dyn ForeignThreads>)| {
        process.is_current().then(|| threads.upgrade()).flatten()
    };
    let all: Vec<_> = THREADS.lock().iter().filter_map(here).collect();
    all.iter().for_each(|threads| threads.end(deadline));
    CLOSING.fetch_sub(1, Ordering::SeqCst);
}

/// Returns a number that no other thread has now. It needs no memory that ends with the thread, so
/// handlers at exit may ask for it.
fn this_thread() -> usize {
    DEPTH.with(|depth| std::ptr::from_ref(depth).addr())
}

/// Calls foreign code. If its runtime ends the thread meanwhile, the caller's frames stay intact:
/// see [`park`]. Once the handler has timed out, only the thread that ends the process may call
/// foreign code.
///
/// `call` must do nothing but call an `extern "C-unwind"` function, and must own nothing that needs
/// dropping: its frame and the frame of [`system::stop_unwinding`] are unwound.
#[inline]
pub fn foreign<R: Copy>(call: impl FnOnce() -> R) -> R {
    if HAS_STRAGGLERS.load(Ordering::Relaxed) && CLOSER.load(Ordering::Relaxed) != this_thread() {
        park();
    }
    system::stop_unwinding(call, park_ended)
}

/// Parks this thread until the process ends, without unwinding it. No thread waits for it.
pub fn park() -> ! {
    fork::register(Position::Exit, HOOKS);
    change(-(DEPTH.get() as isize));
    PARKED.fetch_add(1, Ordering::SeqCst);
    loop {
        std::thread::sleep(Duration::MAX);
    }
}

/// [`park`], as the system calls it on a thread that a runtime ends.
extern "C" fn park_ended(_: *mut c_void) {
    park();
}

/// Keeps `pthread_cancel` from acting on this thread of the library: the C library would act in
/// system calls and unwind any frames. Foreign code that enables cancellation again is ended as by
/// `pthread_exit`.
pub(crate) fn refuse_cancel() {
    system::refuse_cancel();
}

/// Joins a thread, until `deadline` at most. Gives up while another thread ends the process as well:
/// it may be this one.
pub(crate) fn join_until(thread: sync::thread::JoinHandle<()>, deadline: Instant) {
    let is_lost = || PARKED.load(Ordering::SeqCst) > 0 || CLOSING.load(Ordering::SeqCst) > 1;
    let is_waiting = || Instant::now() < deadline && !is_lost();
    while !sync::is_finished(&thread) && is_waiting() {
        std::thread::sleep(POLL);
    }
    if sync::is_finished(&thread) {
        // Only destructors of its thread-local data are left. Loading threads catch all panics.
        let _ = thread.join();
    }
}

/// Waits for a thread that runs foreign code to end, unless threads are lost.
pub(crate) fn join(thread: sync::thread::JoinHandle<()>) {
    while !sync::is_finished(&thread) {
        if has_lost_threads() {
            return std::mem::forget(thread);
        }
        std::thread::sleep(POLL);
    }
    // Loading threads catch all panics.
    let _ = thread.join();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_thread_is_outside() {
        let first = enter().expect("the process goes on");
        let second = enter().expect("the process goes on");
        assert_eq!(DEPTH.get(), 2);
        assert_eq!(outside(|| DEPTH.get()), 0);
        assert_eq!(DEPTH.get(), 2);
        let caught = std::panic::catch_unwind(|| outside(|| panic!("on purpose")));
        assert!(caught.is_err());
        assert_eq!(DEPTH.get(), 2);
        drop((first, second));
        assert_eq!(DEPTH.get(), 0);
    }
}
