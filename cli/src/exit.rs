//! The exit codes, and the reporting of failures.

use cntk_reader::ErrorKind;
use std::{fmt, io};

/// Exit codes. They are part of the program's interface, described in `docs/tool.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Good = 0,
    /// The data are wrong.
    WrongData = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// A file cannot be read or written.
    Io = 3,
}

impl From<ErrorKind> for Exit {
    fn from(kind: ErrorKind) -> Exit {
        match kind {
            ErrorKind::Config | ErrorKind::InvalidArgument => Exit::Usage,
            ErrorKind::Io => Exit::Io,
            _ => Exit::WrongData,
        }
    }
}

/// Reasons for a command to end early.
#[derive(Debug)]
pub enum Failure {
    /// An error of the library.
    Library(cntk_reader::Error),
    /// A usage error.
    Usage(String),
    /// Data that cannot be read.
    Data(String),
    /// A failure to write results.
    Output(io::Error),
}

#[cfg(feature = "arrow")]
impl Failure {
    /// Turns it into an error of the library.
    pub fn into_error(self) -> cntk_reader::Error {
        match self {
            Failure::Library(error) => error,
            other => cntk_reader::Error::data(other.to_string()),
        }
    }
}

impl From<cntk_reader::Error> for Failure {
    fn from(error: cntk_reader::Error) -> Failure {
        Failure::Library(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Library(error) => error.fmt(f),
            Failure::Usage(message) | Failure::Data(message) => f.write_str(message),
            Failure::Output(error) => write!(f, "Cannot write to standard output: {error}."),
        }
    }
}

/// The result of a command.
pub type Outcome = Result<Exit, Failure>;

/// Reports a failure on standard error; returns the exit code.
pub fn end(outcome: Outcome) -> Exit {
    let failure = match outcome {
        Ok(exit) => return exit,
        // The reader of the pipe has seen enough and closed it, as `head` does.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Exit::Good,
        Err(failure) => failure,
    };
    eprintln!("error: {failure}");
    match failure {
        Failure::Library(error) => error.kind().into(),
        Failure::Usage(_) => Exit::Usage,
        Failure::Data(_) => Exit::WrongData,
        Failure::Output(_) => Exit::Io,
    }
}
