//! Status codes of calls.

use cntk_reader_core::ErrorKind;

/// Status of a call. Numbers are never reused, and new ones may be added: treat an unknown one as a
/// failure.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_status {
    /// The call succeeded; its outputs are written.
    CNTK_READER_STATUS_OK = 0,
    /// The configuration's text, or one of its values, is invalid.
    CNTK_READER_STATUS_CONFIG = 1,
    /// An argument is invalid: NULL, an index out of range, a minibatch size of 0, a rank beyond
    /// the workers.
    CNTK_READER_STATUS_INVALID_ARGUMENT = 2,
    /// The operating system reported an error: a file is missing, a read failed.
    CNTK_READER_STATUS_IO = 3,
    /// The content of a data file is invalid.
    CNTK_READER_STATUS_DATA = 4,
    /// A checkpoint is damaged, or does not match the data or the configuration.
    CNTK_READER_STATUS_CHECKPOINT = 5,
    /// The handle's state does not allow the call: no epoch was started, another thread is using
    /// the reader, the process is the child of a fork, an earlier call ended in
    /// CNTK_READER_STATUS_INTERNAL.
    CNTK_READER_STATUS_STATE = 6,
    /// A user's callback failed or returned invalid data.
    CNTK_READER_STATUS_USER = 7,
    /// Internal error (a bug in this library). The reader that reported it refuses all further
    /// calls; only cntk_reader_free is allowed.
    CNTK_READER_STATUS_INTERNAL = 8,
    /// The call was cancelled by cntk_reader_canceller_cancel without effect. The same call made
    /// again continues where it stopped.
    CNTK_READER_STATUS_CANCELLED = 9,
    /// Not enough memory. The reader stays usable: the next call does what the failed one would
    /// have done.
    CNTK_READER_STATUS_MEMORY = 10,
}

impl From<ErrorKind> for cntk_reader_status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Config => Self::CNTK_READER_STATUS_CONFIG,
            ErrorKind::InvalidArgument => Self::CNTK_READER_STATUS_INVALID_ARGUMENT,
            ErrorKind::Io => Self::CNTK_READER_STATUS_IO,
            ErrorKind::Data => Self::CNTK_READER_STATUS_DATA,
            ErrorKind::Checkpoint => Self::CNTK_READER_STATUS_CHECKPOINT,
            ErrorKind::State => Self::CNTK_READER_STATUS_STATE,
            ErrorKind::User => Self::CNTK_READER_STATUS_USER,
            ErrorKind::Cancelled => Self::CNTK_READER_STATUS_CANCELLED,
            ErrorKind::Memory => Self::CNTK_READER_STATUS_MEMORY,
            // Kinds of errors may be added; each gets its own status here.
            ErrorKind::Internal | _ => Self::CNTK_READER_STATUS_INTERNAL,
        }
    }
}
