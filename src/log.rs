//! Log lines: to a callback that the host sets, otherwise to standard error.

use parking_lot::RwLock;
use std::sync::Arc;

/// How much a line matters; also the trace levels of the configuration.
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

/// Sends all further lines of the process to `sink`; `None` brings standard error back.
pub fn set_sink(sink: Option<Arc<Sink>>) {
    *SINK.write() = sink;
}

/// The lines of one reader or deserializer: those up to its trace level.
#[derive(Debug, Clone, Copy)]
pub struct Logger {
    /// Lines above this level are dropped.
    pub trace_level: u32,
}

impl Logger {
    /// Whether a line of this level would be shown; ask before building a costly one.
    pub fn shows(&self, level: Level) -> bool {
        level as u32 <= self.trace_level
    }

    /// Writes one line, without its line break.
    pub fn write(&self, level: Level, line: &str) {
        if self.shows(level) {
            Self::log_always(level, line);
        }
    }

    /// Writes one line whatever the trace level: what users have to learn even if they want no warnings.
    pub fn log_always(level: Level, line: &str) {
        // The sink is called without the lock, so that it may itself change the sink.
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
