//! Log lines. They go to a callback that the host sets, or else to standard error.

use crate::message::shown::visible;
use crate::option::FrontEnd;
use crate::runtime::lock::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The severity of a line. The values are the lowest trace levels of the configuration at which
/// lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
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
    let before = std::mem::replace(&mut *SINK.write(), sink);
    // The destructor of a host's callback runs without the lock: it may log.
    drop(before);
}

/// Writes the log lines of one reader or deserializer, up to its trace level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Logger {
    /// Lines above this level are dropped.
    pub trace_level: u32,
    /// The front end whose names for options the lines use.
    pub front_end: FrontEnd,
}

impl Logger {
    /// Creates a logger for lines up to a level, with the option names of CNTK's configurations.
    pub const fn new(trace_level: u32) -> Logger {
        Logger { trace_level, front_end: FrontEnd::Configuration }
    }

    /// Returns whether a line of this level would be shown. Check this before building an expensive
    /// line.
    pub fn shows(&self, level: Level) -> bool {
        level as u32 <= self.trace_level
    }

    /// Writes one line, given without its line break.
    pub fn write(&self, level: Level, line: &str) {
        if self.shows(level) {
            Self::log_always(level, &self.front_end.say(line));
        }
    }

    /// Writes one line regardless of the trace level, for information that users must get even if
    /// they want no warnings.
    pub fn log_always(level: Level, line: &str) {
        let line = &*visible(line);
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

/// Repeated warnings of one kind about parts of a file, written at every trace level: the first one
/// in full, and the total at the end of a sweep or of the work that they concern.
#[derive(Debug)]
pub struct Repeated {
    /// The things that are counted, as a plural noun.
    what: &'static str,
    count: AtomicU64,
    /// The count that was last reported.
    reported: AtomicU64,
}

impl Repeated {
    /// Creates a counter for `what`, a plural noun.
    pub fn new(what: &'static str) -> Repeated {
        Repeated { what, count: AtomicU64::new(0), reported: AtomicU64::new(1) }
    }

    /// Counts one occurrence, and writes the lines of its warning if it is the first.
    pub fn warn(&self, lines: impl FnOnce() -> Vec<String>) {
        match self.count.fetch_add(1, Ordering::Relaxed) {
            0 => lines().iter().for_each(|line| Logger::log_always(Level::Warning, line)),
            1 => {
                let line = format!(
                    "There are more {}. They are counted, and the total is reported later.",
                    self.what
                );
                Logger::log_always(Level::Warning, &line);
            }
            _ => {}
        }
    }

    /// Reports the count if it is at least twice the last reported one: every sweep finds the same
    /// parts, and one line per sweep would fill the disk.
    pub fn summarize(&self, file: &str) {
        let count = self.count.load(Ordering::Relaxed);
        let is_due = |reported| has_doubled(count, reported).then_some(count);
        if self.reported.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due).is_ok() {
            Logger::log_always(Level::Warning, &format!("'{file}' had {count} {} so far.", self.what));
        }
    }
}

/// Returns whether a count is due for a report if `reported` was the last one: counts grow from
/// sweep to sweep, and are reported ever more rarely.
pub fn has_doubled(count: u64, reported: u64) -> bool {
    count > reported && count / 2 >= reported
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_warnings_are_counted() {
        let repeated = Repeated::new("things");
        let reported = || repeated.reported.load(Ordering::Relaxed);
        repeated.warn(Vec::new);
        repeated.summarize("f");
        assert_eq!(reported(), 1);
        (0..5).for_each(|_| repeated.warn(Vec::new));
        repeated.summarize("f");
        assert_eq!(reported(), 6);
        // Sweeps over the same six parts: reported at 12, 24 and 48.
        let mut lines = Vec::new();
        for _ in 0..10 {
            (0..6).for_each(|_| repeated.warn(Vec::new));
            let before = reported();
            repeated.summarize("f");
            if reported() > before {
                lines.push(reported());
            }
        }
        assert_eq!(lines, [12, 24, 48]);
    }
}
