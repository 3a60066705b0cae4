//! Fork detection, and fork hooks of modules with static locks.
//!
//! Threads do not survive a fork, and a mutex held by another thread stays locked in the child. So
//! objects that depend on threads or locks remember the [`Process`] that created them, and modules
//! with static locks [`register`] hooks that hold the locks during a fork. This module imports none
//! of them.

#![allow(unsafe_code, reason = "locks held across forks")]

use crate::runtime::lock::{AcrossFork, Mutex};
use crate::system;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};

/// Incremented in the child of every fork. Reading it costs one load, whereas `getpid` is a system
/// call.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The process that created an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// The current process.
    pub fn current() -> Process {
        watch();
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// Returns whether this is still the process that created the object.
    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

/// The modules with hooks, in the order in which these run before a fork; after it they run in
/// reverse. The order does not depend on which module registers first. A thread that holds locks of
/// several modules must take them in this order too.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Position {
    Pool,
    Exit,
}

/// A module's functions that run when the process forks, on the forking thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hooks {
    /// Runs before the fork.
    pub before: fn(),
    /// Runs after the fork, in the parent.
    pub in_parent: fn(),
    /// Runs after the fork, in the child, where this is the only thread. [`Process::is_current`]
    /// already refers to the child.
    pub in_child: fn(),
}

/// Indexed by position.
type HookTable = [OnceLock<Hooks>; Position::Exit as usize + 1];

static TABLE: HookTable = [const { OnceLock::new() }; Position::Exit as usize + 1];

/// Held while hooks are registered and while the process forks: a fork runs all hooks of a module
/// or none, and the child never inherits an entry that another thread is writing.
static LOCK: Mutex<()> = Mutex::new(());
static ACROSS_FORK: AcrossFork<()> = AcrossFork::new(&LOCK);

/// Runs a module's hooks at each fork from now on. Costs one load if they are already registered.
/// The caller must not hold a lock that a hook takes.
pub(crate) fn register(position: Position, hooks: Hooks) {
    let entry = &TABLE[position as usize];
    if entry.get().is_none() {
        watch();
        let _held = LOCK.lock();
        // Another thread may have registered them meanwhile.
        let _ = entry.set(hooks);
    }
}

/// Makes the system call this module at each fork.
fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        // The handlers only lock, unlock and write atomics.
        system::at_forks(before, after_in_parent, after_in_child);
    });
}

extern "C" fn before() {
    ACROSS_FORK.lock();
    run_before(&TABLE);
}

extern "C" fn after_in_parent() {
    run_after(&TABLE, |hooks| hooks.in_parent);
    unlock();
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    run_after(&TABLE, |hooks| hooks.in_child);
    unlock();
}

fn run_before(table: &HookTable) {
    table.iter().filter_map(OnceLock::get).for_each(|hooks| (hooks.before)());
}

fn run_after(table: &HookTable, hook: fn(&Hooks) -> fn()) {
    table.iter().rev().filter_map(OnceLock::get).for_each(|hooks| hook(hooks)());
}

fn unlock() {
    // SAFETY: the system runs the caller once after each call of `before`, which called `lock`,
    // on the thread that forked. In the child that is the only thread.
    unsafe { ACROSS_FORK.unlock() };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    }

    fn note(call: &'static str) {
        CALLS.with_borrow_mut(|calls| calls.push(call));
    }

    #[test]
    fn hooks_run_in_order_of_position_and_then_in_reverse() {
        let table = HookTable::default();
        let registered = |position: Position, hooks| {
            table[position as usize].set(hooks).expect("an empty entry");
        };
        // Modules that have not registered have no hooks; the order of registration does not
        // matter.
        run_before(&table);
        registered(
            Position::Exit,
            Hooks {
                before: || note("exit before"),
                in_parent: || note("exit in parent"),
                in_child: || note("exit in child"),
            },
        );
        registered(
            Position::Pool,
            Hooks {
                before: || note("pool before"),
                in_parent: || note("pool in parent"),
                in_child: || note("pool in child"),
            },
        );
        run_before(&table);
        run_after(&table, |hooks| hooks.in_parent);
        run_after(&table, |hooks| hooks.in_child);
        let expected = [
            "pool before",
            "exit before",
            "exit in parent",
            "pool in parent",
            "exit in child",
            "pool in child",
        ];
        CALLS.with_borrow(|calls| assert_eq!(*calls, expected));
    }
}
