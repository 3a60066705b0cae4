//! The end of the process: code that is not the library's own must not be running then.
//!
//! A user's deserializer may live in a module of its own, and uses objects that its static destructors destroy while
//! `exit` runs. The library's threads go on all the same: one that loads a chunk at that moment would crash in code whose
//! objects are gone. So each thread that is about to run foreign code, or to read memory that foreign code owns,
//! [enters](enter) first. A handler of `atexit` closes the entrance, and waits until all threads inside have left.
//!
//! Handlers and destructors run in the opposite order of their registration, so the handler has to be registered after the
//! destructors of all objects that foreign code uses. These are made when its module is loaded, when a deserializer is
//! opened, and when the code that uses them runs for the first time. Hence [`register`], with each opening and again after
//! 1, 2, 4, 8 ... chunks were loaded: to register a handler several times does no harm.
//!
//! The handler also [ends the threads](ForeignThreads) that exist for foreign code alone. A run-time library that this code
//! uses (Intel's OpenMP, which CNTK's modules load features with) keeps data for each thread that has called it, and its own
//! threads wait for the next call; shut down in that state it crashed in 3 of 200 programs. It lets go when the thread ends.
//!
//! A runtime may end threads inside foreign code: up to version 3.13, Python calls `pthread_exit` in every thread that wants its
//! lock while the interpreter ends. That unwinds the stack, and must not drop what frames of Rust own. So foreign code is called
//! by [`foreign`], which stops the unwinding before its caller and [parks](park) the thread until the process ends. No thread
//! waits for one that is parked. Callbacks are `extern "C-unwind"`, because the frames between them and that place, which have
//! nothing to drop, are unwound. `pthread_cancel` would unwind any frame, so threads of this library [refuse](refuse_cancel) it.
//!
//! A host whose code must not be called any more before the process itself ends, as Python's, calls [`close`] by itself.
//!
//! What is inside is counted by atomics. The only lock is held across forks (see
//! [`crate::runtime::fork`]), so that a child never inherits it locked.

#![allow(unsafe_code, reason = "atexit, and threads that end inside foreign code")]

use crate::Error;
use crate::runtime::fork::{self, Hooks, Position, Process};
use crate::runtime::lock::{AcrossFork, Mutex};
use crate::runtime::sync;
use std::cell::Cell;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many times threads have entered and not left.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// The process ends: no thread enters any more.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// The handler has waited in vain for some threads inside, and does not wait again.
static HAS_STRAGGLERS: AtomicBool = AtomicBool::new(false);
/// The thread that runs the handler: destructors that it runs afterwards may still be foreign code.
static CLOSER: AtomicUsize = AtomicUsize::new(0);
/// Threads that run the handler. Callbacks may end the process on several threads at once.
static CLOSING: AtomicUsize = AtomicUsize::new(0);
/// Threads that are parked for good.
static PARKED: AtomicUsize = AtomicUsize::new(0);
/// Pieces of work that foreign threads have done.
static JOBS: AtomicU64 = AtomicU64::new(0);

/// Threads for foreign code alone.
pub(crate) trait ForeignThreads: Send + Sync {
    /// Has them end, and waits for that until `deadline` at most. If this is one of them, it is not waited for.
    fn end(&self, deadline: Instant);
}

/// The groups of such threads, each with the process that they belong to.
static THREADS: Mutex<Groups> = Mutex::new(Vec::new());
static ACROSS_FORK: AcrossFork<Groups> = AcrossFork::new(&THREADS);

type Groups = Vec<(Process, Weak<dyn ForeignThreads>)>;

/// No other thread holds the lock while the process forks, and of all threads only the one that forks is in the child.
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
    // SAFETY: `fork` runs this once after each call of `before`, which called `lock`, in the thread that forked. In the child that
    // is the only thread.
    unsafe { ACROSS_FORK.unlock() };
}

thread_local! {
    /// How often this thread is inside.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The handler waits no longer than this. Foreign code may itself wait for the thread that ends the process, as Python's
/// waits for the interpreter's lock; such a process would never end.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How often the handler looks whether all have left.
const POLL: Duration = Duration::from_micros(50);

/// How often a thread that waits for foreign code looks whether that is lost.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// This thread is inside as long as this exists.
pub struct Inside {
    /// Bound to its thread.
    _here: std::marker::PhantomData<*const ()>,
}

/// Enters; `None` once the process ends.
pub fn enter() -> Option<Inside> {
    // Before this thread is counted: a child must not count it.
    fork::register(Position::Exit, HOOKS);
    change(1);
    let inside = Inside { _here: std::marker::PhantomData };
    // Counted before looking: either the handler sees this thread, or this thread sees that it is closed.
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

/// Waits for other threads without being inside meanwhile: they may be waiting for the process to end themselves. What
/// the thread finds afterwards may be the errors of work that was refused because the process ends.
pub(crate) fn outside<R>(wait: impl FnOnce() -> R) -> R {
    /// Goes back inside, also after a panic.
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

/// Has the handler run before the destructors of all that foreign code has made up to now.
pub fn register() {
    // SAFETY: the handler is a function of this library without arguments. If the library is unloaded before the process
    // ends, the C library calls it then, because `atexit` notes which library it was called from. Failure (no memory)
    // leaves the end of the process as it would be without a handler.
    unsafe { libc::atexit(close) };
}

/// Has these threads end when the process does.
pub(crate) fn end_with_process(threads: Weak<dyn ForeignThreads>) {
    let process = Process::current();
    fork::register(Position::Exit, HOOKS);
    let mut all = THREADS.lock();
    all.retain(|(_, known)| known.strong_count() > 0);
    all.push((process, threads));
}

/// Notes that foreign code has done a piece of work.
pub(crate) fn count_job() {
    if (JOBS.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
        register();
    }
}

/// Whether the process ends, so that no thread enters any more.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::SeqCst)
}

/// Whether a thread will never leave, or has not left in time: whatever waits for foreign code gives up.
pub fn has_lost_threads() -> bool {
    PARKED.load(Ordering::SeqCst) > 0
        || (HAS_STRAGGLERS.load(Ordering::SeqCst) && INSIDE.load(Ordering::SeqCst) > DEPTH.get())
}

/// The error of a call that needs foreign code which does not run any more; `consequence` follows "so".
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

/// Has no thread enter any more. A host that wants to wait by itself for those inside calls this,
/// and [`close`] when [`others_inside`] says that there are none.
pub fn refuse() {
    CLOSED.store(true, Ordering::SeqCst);
    CLOSER.store(this_thread(), Ordering::SeqCst);
}

/// Whether threads other than this one are inside.
pub fn others_inside() -> bool {
    INSIDE.load(Ordering::SeqCst) > DEPTH.get()
}

/// Has no thread enter any more, and waits until those inside have left, for [`LONGEST_WAIT`] at
/// most.
pub extern "C" fn close() {
    refuse();
    CLOSING.fetch_add(1, Ordering::SeqCst);
    let begin = Instant::now();
    let deadline = if HAS_STRAGGLERS.load(Ordering::SeqCst) { begin } else { begin + LONGEST_WAIT };
    // The thread that ends the process may do so from inside.
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

fn this_thread() -> usize {
    // SAFETY: the function has no conditions.
    unsafe { libc::pthread_self() as usize }
}

/// Calls foreign code. If its runtime ends the thread meanwhile, the caller's frames stay as they are: see [`park`]. Once the
/// handler has waited for a thread in vain, only the thread that ends the process calls any.
///
/// `call` must do nothing but call a function that is `extern "C-unwind"`, and own nothing that has to be dropped: the frames of
/// `call` and of `unwinding::stopped` are unwound.
#[inline]
pub fn foreign<R: Copy>(call: impl FnOnce() -> R) -> R {
    if HAS_STRAGGLERS.load(Ordering::Relaxed) && CLOSER.load(Ordering::Relaxed) != this_thread() {
        park();
    }
    unwinding::stopped(call)
}

/// Ends this thread's part in all, without unwinding it: it sleeps until the process ends, and is not waited for.
pub fn park() -> ! {
    fork::register(Position::Exit, HOOKS);
    change(-(DEPTH.get() as isize));
    PARKED.fetch_add(1, Ordering::SeqCst);
    loop {
        // SAFETY: it sleeps until a signal comes, which the process handles.
        unsafe { libc::pause() };
    }
}

/// Has `pthread_cancel` wait for ever with this thread, which is one of the library's: the C library acts on it in system calls,
/// and unwinds whatever frames there are. Foreign code that allows it again is ended as by `pthread_exit`.
pub(crate) fn refuse_cancel() {
    unwinding::refuse_cancel();
}

#[cfg(all(target_os = "linux", not(miri)))]
mod unwinding {
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    /// `struct _pthread_cleanup_buffer` of glibc, and `struct __ptcb` of musl, which is smaller.
    type Buffer = [*mut c_void; 4];

    unsafe extern "C" {
        fn _pthread_cleanup_push(
            buffer: *mut Buffer,
            routine: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
        fn _pthread_cleanup_pop(buffer: *mut Buffer, execute: i32);
        fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    }

    /// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
    const DISABLE: c_int = 1;

    pub fn refuse_cancel() {
        let mut old = 0;
        // SAFETY: a state that the C library knows, and a variable for the one before.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    }

    extern "C" fn park(_: *mut c_void) {
        super::park();
    }

    /// Calls `call`. If that ends the thread, the thread is parked once the frame of this function has been unwound, and before
    /// that of its caller is.
    ///
    /// The C library runs the handler of a frame that was left before it looks at the next frame. So this must be a frame of
    /// its own. It and that of `call`, which may be inlined, are unwound: they have nothing to drop, and the call in them is one that
    /// may unwind.
    #[inline(never)]
    pub fn stopped<R: Copy>(call: impl FnOnce() -> R) -> R {
        let mut buffer = MaybeUninit::<Buffer>::uninit();
        // SAFETY: the buffer has at least the size of the C library's, and stays where it is until it is taken off below, or until
        // `park` has run, which never returns. Between the two calls lies one of foreign code. If it unwinds, this frame is left
        // after nothing but `park`'s call, so nobody uses the buffer again.
        unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), park, null_mut()) };
        let result = call();
        // SAFETY: the buffer that was put on last.
        unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) };
        result
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod unwinding {
    /// Calls `call`: threads that end here unwind nothing.
    pub fn stopped<R: Copy>(call: impl FnOnce() -> R) -> R {
        call()
    }

    /// Nothing is unwound.
    pub fn refuse_cancel() {}
}

/// Waits for a thread to end, until `deadline` at most, and not while another thread ends the process as well: it may be
/// this one.
pub(crate) fn join_until(thread: sync::thread::JoinHandle<()>, deadline: Instant) {
    let is_lost = || PARKED.load(Ordering::SeqCst) > 0 || CLOSING.load(Ordering::SeqCst) > 1;
    let is_waiting = || Instant::now() < deadline && !is_lost();
    while !sync::is_finished(&thread) && is_waiting() {
        std::thread::sleep(POLL);
    }
    if sync::is_finished(&thread) {
        // What is left are the destructors of its thread-local data. Loading threads catch all panics.
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
    fn a_thread_that_waits_is_outside() {
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
