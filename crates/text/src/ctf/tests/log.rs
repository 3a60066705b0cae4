//! Log lines in tests.

use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::{Level, set_sink};
use std::sync::{Arc, Once};

type Lines = Vec<(Level, String)>;

/// Collected lines, by the text that they have to contain.
static COLLECTED: Mutex<Vec<(String, Lines)>> = Mutex::new(Vec::new());

/// Keeps log lines of tests from standard error. All tests share this sink, because a process has
/// only one.
pub fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_sink(Some(Arc::new(|level, line| {
            for (text, lines) in COLLECTED.lock().iter_mut().filter(|(text, _)| line.contains(&**text)) {
                lines.push((level, line.replace(&**text, "F")));
            }
        })));
    });
}

/// Collects the log lines with a text that only one test uses, such as the path of its file.
pub struct LogLines(String);

impl LogLines {
    pub fn with(text: &str) -> LogLines {
        silence();
        COLLECTED.lock().push((text.to_owned(), Vec::new()));
        LogLines(text.to_owned())
    }

    /// Returns the lines since the last call, with `F` in place of the text.
    pub fn take(&self) -> Lines {
        let mut all = COLLECTED.lock();
        let own = all.iter_mut().find(|(text, _)| *text == self.0);
        own.map(|(_, lines)| std::mem::take(lines)).unwrap_or_default()
    }
}

impl Drop for LogLines {
    fn drop(&mut self) {
        COLLECTED.lock().retain(|(text, _)| *text != self.0);
    }
}
