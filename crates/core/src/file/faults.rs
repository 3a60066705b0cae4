//! Fault injection for tests: makes calls for a file fail, by its path.

use crate::runtime::lock::Mutex;
use std::io;

/// A call of the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Opening the file.
    Open,
    /// Asking for its size and times.
    State,
    /// Reading from it.
    Read,
}

/// The effect of a fault on a call.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// It fails with this `errno`.
    Fails(i32),
    /// It reads at most this many bytes.
    Reads(usize),
}

struct Injected {
    path: String,
    operation: Operation,
    fault: Fault,
    /// Calls that succeed before the first fault.
    after: usize,
    /// Calls that are still to be affected.
    times: usize,
}

static FAULTS: Mutex<Vec<Injected>> = Mutex::new(Vec::new());

/// The faults of a path. Dropping it removes them.
pub struct Faults(String);

impl Faults {
    /// Begins without any faults.
    pub fn of(path: &str) -> Faults {
        Faults(path.to_owned())
    }

    /// Injects `fault` into the next `times` calls after `after` calls of this kind.
    pub fn inject(&self, operation: Operation, fault: Fault, after: usize, times: usize) -> &Faults {
        let path = self.0.clone();
        FAULTS.lock().push(Injected { path, operation, fault, after, times });
        self
    }

    /// Returns the number of faults that have not occurred yet.
    pub fn left(&self) -> usize {
        FAULTS.lock().iter().filter(|fault| fault.path == self.0).map(|fault| fault.times).sum()
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        FAULTS.lock().retain(|fault| fault.path != self.0);
    }
}

/// Applies the faults of this path to a call: fails, or limits a read to the returned number of
/// bytes.
pub(crate) fn check(path: &str, operation: Operation) -> io::Result<Option<usize>> {
    let mut faults = FAULTS.lock();
    let mut of_call = faults
        .iter_mut()
        .filter(|fault| fault.path == path && fault.operation == operation && fault.times > 0);
    let Some(fault) = of_call.next() else { return Ok(None) };
    if let Some(after) = fault.after.checked_sub(1) {
        fault.after = after;
        return Ok(None);
    }
    fault.times -= 1;
    match fault.fault {
        Fault::Fails(errno) => Err(io::Error::from_raw_os_error(errno)),
        Fault::Reads(count) => Ok(Some(count)),
    }
}
