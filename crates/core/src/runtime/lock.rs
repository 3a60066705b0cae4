//! Locks of the standard library, without poisoning: the C ABI has already turned a panic into an
//! error.
//!
//! A process may fork while threads of this library sleep, and the child may use the library. So
//! locks must not keep state about sleeping threads in the process: on Linux, the locks of the
//! standard library are futexes. Locks with queues in user space, such as parking_lot's, still list
//! the parent's sleeping threads in the child, where the memory of these threads is reused by other
//! threads, and the queues would write into it.

#![allow(unsafe_code, reason = "locks that are held across a fork")]

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Defines locks over the primitives of a module with the interface of `std::sync`. The model
/// ([`crate::runtime::sync`]) defines its own with this macro, so it checks these very locks.
macro_rules! locks {
    ($sync:ident) => {
        /// A mutual exclusion lock.
        #[derive(Debug, Default)]
        pub struct Mutex<T>($sync::Mutex<T>);

        /// Holds the lock until dropped. Empty only while [`Condvar::wait`] or
        /// [`MutexGuard::unlocked`] has released it.
        #[derive(Debug)]
        pub struct MutexGuard<'a, T> {
            mutex: &'a Mutex<T>,
            guard: Option<$sync::MutexGuard<'a, T>>,
        }

        impl<T> Mutex<T> {
            /// Creates a free lock.
            pub const fn new(value: T) -> Mutex<T> {
                Mutex($sync::Mutex::new(value))
            }

            /// Waits until the lock is free, and takes it.
            pub fn lock(&self) -> MutexGuard<'_, T> {
                MutexGuard { mutex: self, guard: Some(self.locked()) }
            }

            /// Consumes the lock and returns the value.
            pub fn into_inner(self) -> T {
                self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
            }

            /// Returns the value, without locking.
            #[cfg_attr(
                shuttle,
                allow(dead_code, reason = "only locks of the model's protocols have such owners")
            )]
            pub fn get_mut(&mut self) -> &mut T {
                self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
            }

            fn locked(&self) -> $sync::MutexGuard<'_, T> {
                self.0.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }

        impl<T> MutexGuard<'_, T> {
            /// Releases the lock while `work` runs.
            pub fn unlocked<R>(this: &mut Self, work: impl FnOnce() -> R) -> R {
                this.guard = None;
                let result = work();
                this.guard = Some(this.mutex.locked());
                result
            }
        }

        impl<T> Deref for MutexGuard<'_, T> {
            type Target = T;

            fn deref(&self) -> &T {
                self.guard.as_ref().expect("the lock is held")
            }
        }

        impl<T> DerefMut for MutexGuard<'_, T> {
            fn deref_mut(&mut self) -> &mut T {
                self.guard.as_mut().expect("the lock is held")
            }
        }

        /// A condition variable.
        #[derive(Debug, Default)]
        pub struct Condvar($sync::Condvar);

        impl Condvar {
            /// Creates a condition variable.
            pub const fn new() -> Condvar {
                Condvar($sync::Condvar::new())
            }

            /// Releases the lock and sleeps until notified, or spuriously woken; then takes the
            /// lock again.
            #[cfg_attr(
                shuttle,
                allow(dead_code, reason = "the protocols that wait without a limit are the model's")
            )]
            pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
                let held = guard.guard.take().expect("the lock is held");
                guard.guard = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
            }

            /// Like [`wait`](Condvar::wait), for `most` at most.
            pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) {
                let held = guard.guard.take().expect("the lock is held");
                let (held, _) = self.0.wait_timeout(held, most).unwrap_or_else(PoisonError::into_inner);
                guard.guard = Some(held);
            }

            /// Wakes all waiting threads.
            pub fn notify_all(&self) {
                self.0.notify_all();
            }
        }
    };
}
#[cfg(shuttle)]
pub(super) use locks;

locks!(sync);

/// A reader-writer lock.
#[derive(Debug, Default)]
pub struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Creates a free lock.
    pub(crate) const fn new(value: T) -> RwLock<T> {
        RwLock(sync::RwLock::new(value))
    }

    /// Waits until no thread writes.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread reads or writes.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds a lock while the process forks, so that the child never inherits it locked by a thread
/// that does not exist there.
pub(crate) struct AcrossFork<T: 'static> {
    mutex: &'static Mutex<T>,
    held: UnsafeCell<Option<sync::MutexGuard<'static, T>>>,
}

// SAFETY: `held` is only accessed by the thread that holds `mutex`: `lock` has just taken it, and
// `unlock` requires that the calling thread has called `lock`.
unsafe impl<T: Send> Sync for AcrossFork<T> {}

impl<T> AcrossFork<T> {
    /// Wraps a free lock.
    pub const fn new(mutex: &'static Mutex<T>) -> AcrossFork<T> {
        AcrossFork { mutex, held: UnsafeCell::new(None) }
    }

    /// Takes the lock, before the process forks.
    pub fn lock(&self) {
        let guard = self.mutex.locked();
        // SAFETY: this thread holds the lock, so no other thread accesses `held`.
        unsafe { *self.held.get() = Some(guard) };
    }

    /// Releases the lock, after the process has forked.
    ///
    /// # Safety
    ///
    /// The calling thread has called [`lock`](AcrossFork::lock), and has not called this function
    /// in between. In the child, the calling thread is the one that forked.
    pub unsafe fn unlock(&self) {
        // SAFETY: by this function's contract, this thread holds the lock until `guard` is dropped.
        let guard = unsafe { (*self.held.get()).take() };
        drop(guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    #[test]
    fn panic_does_not_poison() {
        let (mutex, rw) = (Mutex::new(1), RwLock::new(2));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _held = (mutex.lock(), rw.write());
            panic!("while locks are held");
        }));
        assert!(panicked.is_err());
        *rw.write() += *mutex.lock();
        assert_eq!((*rw.read(), mutex.into_inner()), (3, 1));
    }

    #[test]
    fn waiting_and_unlocked_release_the_lock() {
        let (mutex, changed) = (Mutex::new(0), Condvar::new());
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2 {
                    *mutex.lock() += 1;
                    changed.notify_all();
                }
            });
            let mut count = mutex.lock();
            while *count < 2 {
                changed.wait_for(&mut count, Duration::from_secs(10));
            }
            MutexGuard::unlocked(&mut count, || *mutex.lock() += 1);
            assert_eq!(*count, 3);
        });
    }

    #[test]
    fn lock_is_held_across_fork() {
        static MUTEX: Mutex<u32> = Mutex::new(0);
        static HELD: AcrossFork<u32> = AcrossFork::new(&MUTEX);
        HELD.lock();
        let other = thread::spawn(|| *MUTEX.lock() += 1);
        assert!(MUTEX.0.try_lock().is_err());
        // SAFETY: this thread has called `lock` above.
        unsafe { HELD.unlock() };
        other.join().expect("the thread ends");
        assert_eq!(*MUTEX.lock(), 1);
    }
}
