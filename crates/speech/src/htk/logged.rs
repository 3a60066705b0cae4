//! Log lines of tests, which run at the same time: each test looks for its own files.

use cntk_reader_core::runtime::log::set_sink;
use std::sync::{Arc, Mutex, Once};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the lines that are logged from now on.
pub fn start() {
    static SET: Once = Once::new();
    SET.call_once(|| {
        set_sink(Some(Arc::new(|level, line: &str| {
            LINES.lock().expect("no panic").push(format!("{level:?}: {line}"));
        })));
    });
}

/// Returns the kept lines that contain a text, such as a path.
pub fn about(text: &str) -> Vec<String> {
    LINES.lock().expect("no panic").iter().filter(|line| line.contains(text)).cloned().collect()
}
