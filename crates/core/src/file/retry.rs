//! Retries of failed calls.

use crate::runtime::cancel;
use crate::system;
use std::io::{self, ErrorKind as IoErrorKind};
use std::time::Duration;

/// Pauses between attempts. Like CNTK: five attempts within four seconds.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(1000),
    Duration::from_millis(2500),
];

/// Runs `attempt` until it succeeds, fails permanently, or has had five transient failures.
///
/// The rule, for every call of the operating system that a data file needs:
/// - `EINTR`: again at once. A signal came in between; it costs no attempt and no pause.
/// - `EIO`, `ESTALE`, `EAGAIN`, `ETIMEDOUT`: again after a pause, at most four times. Networks and
///   disks recover.
/// - errors of a network connection, which mounted file systems have: likewise; and on Windows, a
///   file that another program has for itself.
/// - anything else is final, and so is every failure of a call of this library that is cancelled.
pub fn with_retry<R>(attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
    with_pauses(attempt, |duration| {
        // Tests make calls fail on purpose and do not wait for them to recover.
        if !cfg!(test) {
            cancel::pause(duration);
        }
    })
}

fn with_pauses<R>(
    mut attempt: impl FnMut() -> io::Result<R>,
    mut pause: impl FnMut(Duration),
) -> io::Result<R> {
    let mut pauses = PAUSES.into_iter();
    loop {
        match attempt() {
            Err(cause) if cause.kind() == IoErrorKind::Interrupted && cancel::check().is_ok() => {}
            Err(cause) if is_transient(&cause) && cancel::check().is_ok() => match pauses.next() {
                Some(duration) => pause(duration),
                None => return Err(cause),
            },
            result => return result,
        }
    }
}

/// Returns whether the same call may succeed a little later.
fn is_transient(cause: &io::Error) -> bool {
    use IoErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, NotConnected, TimedOut, WouldBlock,
    };
    let of_network = matches!(
        cause.kind(),
        ConnectionReset | ConnectionAborted | ConnectionRefused | NotConnected | BrokenPipe
    );
    matches!(cause.kind(), WouldBlock | TimedOut) || of_network || system::may_recover(cause)
}

/// Returns whether a file cannot be read for a permanent reason: the data or their path are at
/// fault, rather than a disk or network that may recover. After such an error a reader continues
/// after the affected sequences.
pub fn is_lasting(cause: &io::Error) -> bool {
    use IoErrorKind::{
        InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound, PermissionDenied,
    };
    let kinds = [NotFound, PermissionDenied, IsADirectory, NotADirectory, InvalidInput, InvalidFilename];
    system::is_cycle_of_links(cause) || kinds.contains(&cause.kind())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Returns the number of attempts of a call that always fails with `errno`, and the pauses in
    /// between.
    fn attempts(errno: i32) -> (usize, Vec<Duration>) {
        let (mut attempts, mut pauses) = (0, Vec::new());
        let failing = || {
            attempts += 1;
            if attempts > 100 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
        };
        let result = with_pauses(failing, |duration| pauses.push(duration));
        assert_eq!(result.is_ok(), attempts > 100);
        (attempts, pauses)
    }

    #[test]
    fn transient_errors_are_tried_five_times() {
        for errno in [libc::EIO, libc::ESTALE, libc::EAGAIN, libc::ETIMEDOUT] {
            let (attempts, pauses) = attempts(errno);
            assert_eq!((attempts, pauses.as_slice()), (5, PAUSES.as_slice()));
        }
        assert!(PAUSES.iter().sum::<Duration>() < Duration::from_secs(4));
        assert!(PAUSES.is_sorted());
    }

    #[test]
    fn eintr_is_retried_at_once() {
        assert_eq!(attempts(libc::EINTR), (101, Vec::new()));
    }

    #[test]
    fn eintr_uses_up_no_attempt() {
        let errnos = [libc::EINTR, libc::EIO, libc::EINTR, libc::EIO, libc::EIO, libc::EINTR, libc::EIO];
        let mut errnos = errnos.into_iter();
        let mut pauses = 0;
        let attempt = || errnos.next().map_or(Ok(7), |errno| Err(io::Error::from_raw_os_error(errno)));
        assert_eq!(with_pauses(attempt, |_| pauses += 1).ok(), Some(7));
        assert_eq!(pauses, 4);
    }

    #[test]
    fn permanent_errors_are_final() {
        for errno in [libc::EACCES, libc::ENOENT, libc::EBADF, libc::EISDIR] {
            assert_eq!(attempts(errno), (1, Vec::new()));
        }
    }

    #[test]
    fn lasting_and_transient_errors_are_told_apart() {
        for errno in
            [libc::ENOENT, libc::EACCES, libc::EISDIR, libc::ENOTDIR, libc::ENAMETOOLONG, libc::ELOOP]
        {
            let cause = io::Error::from_raw_os_error(errno);
            assert!(is_lasting(&cause) && !crate::Error::io("Error", "f", &cause).may_pass(), "{cause}");
        }
        for errno in [libc::EIO, libc::ESTALE, libc::EAGAIN, libc::ETIMEDOUT, libc::ENOSPC, libc::EMFILE] {
            let cause = io::Error::from_raw_os_error(errno);
            assert!(!is_lasting(&cause) && crate::Error::io("Error", "f", &cause).may_pass(), "{cause}");
        }
    }
}
