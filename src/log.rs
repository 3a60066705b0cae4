//! Log lines. They go to a callback that the host sets, otherwise to standard error.

use parking_lot::RwLock;
use std::sync::Arc;

/// How important a line is. The values are the trace levels of the configuration from which on lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
#[non_exhaustive]
pub enum Level {
    /// Always shown.
    Error = 0,
    /// Shown at trace level 1, the default.
    Warning = 1,
    /// Shown at trace level 2 and above.
    Info = 2,
}

type Sink = dyn Fn(Level, &str) + Send + Sync;

static SINK: RwLock<Option<Arc<Sink>>> = RwLock::new(None);

/// Sends all further lines of the process to `sink`, or with `None` to standard error.
pub fn set_sink(sink: Option<Arc<Sink>>) {
    *SINK.write() = sink;
}

/// Writes the log lines of one reader or deserializer, up to its trace level.
#[derive(Debug, Clone, Copy)]
pub struct Logger {
    /// Lines above this level are dropped.
    pub trace_level: u32,
}

impl Logger {
    /// Whether a line of this level would be shown. Check it before building a line that is costly to build.
    pub fn shows(&self, level: Level) -> bool {
        level as u32 <= self.trace_level
    }

    /// Writes one line, without its line break.
    pub fn write(&self, level: Level, line: &str) {
        if self.shows(level) {
            Self::log_always(level, line);
        }
    }

    /// Writes one line whatever the trace level, for what users must learn even if they want no warnings.
    pub fn log_always(level: Level, line: &str) {
        // The lock is not held during the call, so that the sink may call `set_sink`.
        let sink = SINK.read().clone();
        match sink {
            Some(sink) => sink(level, line),
            None => {
                let prefix = match level {
                    Level::Error => "ERROR",
                    Level::Warning => "WARNING",
                    Level::Info => "INFO",
                };
                eprintln!("{prefix}: {line}");
            }
        }
    }
}
