//! The file: reads at an offset, patient with failures that pass.

use crate::{Error, Result};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Pauses between attempts: under 4 seconds in all, CNTK's patience.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(1000),
    Duration::from_millis(2500),
];

/// Repeats `attempt` while it fails in a way that may pass.
pub fn patiently<R>(attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
    with_pauses(attempt, std::thread::sleep)
}

fn with_pauses<R>(mut attempt: impl FnMut() -> io::Result<R>, pause: impl Fn(Duration)) -> io::Result<R> {
    for duration in PAUSES {
        match attempt() {
            Err(cause) if may_pass(&cause) => pause(duration),
            result => return result,
        }
    }
    attempt()
}

/// Whether the same call may succeed later: networks recover, interruptions end.
fn may_pass(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
        || matches!(cause.raw_os_error(), Some(libc::EIO | libc::ESTALE))
}

/// Opens the file; CNTK's words if that fails.
pub fn open(path: &str) -> Result<File> {
    let file = patiently(|| File::open(path)).map_err(|cause| {
        let what = format!("Input file '{path}' is not open.");
        let class = crate::error::ExceptionClass::Runtime;
        Error::new(crate::ErrorKind::Io, class, format!("{what} {cause}")).in_file(path)
    })?;
    let metadata =
        patiently(|| file.metadata()).map_err(|cause| Error::io("Error reading file", path, &cause))?;
    if metadata.is_dir() {
        let cause = io::Error::from_raw_os_error(libc::EISDIR);
        return Err(Error::io("Error reading file", path, &cause));
    }
    Ok(file)
}

/// Fills `buffer` from `offset` on; less only where the file ends.
pub fn read_at(file: &File, path: &str, offset: u64, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        match patiently(|| file.read_at(&mut buffer[filled..], at)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(cause) => return Err(Error::io("Error reading file", path, &cause).at(at, None)),
        }
    }
    Ok(filled)
}

/// The number of the line, from 1, that the byte at `offset` is in; `None` if the file cannot be read.
pub fn line_at(file: &File, path: &str, offset: u64) -> Option<u64> {
    let mut buffer = vec![0; 1 << 20];
    let mut line = 1;
    let mut at = 0;
    while at < offset {
        let size = (offset - at).min(buffer.len() as u64) as usize;
        let count = read_at(file, path, at, &mut buffer[..size]).ok()?;
        line += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
        if count < size {
            break;
        }
        at += count as u64;
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn tries_five_times_and_no_longer_than_cntk() {
        let pauses = RefCell::new(Vec::new());
        let attempts = Cell::new(0);
        let failing = || {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(io::Error::from_raw_os_error(libc::EIO))
        };
        let result = with_pauses(failing, |duration| pauses.borrow_mut().push(duration));
        assert_eq!(result.map_err(|cause| cause.raw_os_error()), Err(Some(libc::EIO)));
        assert_eq!(attempts.get(), 5);
        assert!(pauses.borrow().iter().sum::<Duration>() < Duration::from_secs(4));
        assert!(pauses.borrow().is_sorted());
    }

    #[test]
    fn succeeds_when_the_failure_passes() {
        let attempts = Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 3 { Err(ErrorKind::Interrupted.into()) } else { Ok(attempts.get()) }
        };
        assert_eq!(with_pauses(attempt, |_| ()).ok(), Some(3));
    }

    #[test]
    fn does_not_repeat_what_cannot_pass() {
        let attempts = Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            Err::<(), _>(io::Error::from_raw_os_error(libc::EACCES))
        };
        assert!(with_pauses(attempt, |_| ()).is_err());
        assert_eq!(attempts.get(), 1);
    }
}
