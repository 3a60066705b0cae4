//! The exit codes, and the reporting of failures.

use cntk_reader::ErrorKind;
use std::io;

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

/// The result of a command.
pub type Outcome = Result<Exit, Failure>;

/// Reports a failure on standard error; returns the exit code.
pub fn end(outcome: Outcome) -> Exit {
    match outcome {
        Ok(exit) => exit,
        Err(Failure::Library(error)) => {
            eprintln!("error: {error}");
            error.kind().into()
        }
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            Exit::Usage
        }
        Err(Failure::Data(message)) => {
            eprintln!("error: {message}");
            Exit::WrongData
        }
        // The reader of the pipe has seen enough and closed it, as `head` does.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Good,
        Err(Failure::Output(error)) => {
            eprintln!("error: Cannot write to standard output: {error}.");
            Exit::Io
        }
    }
}
