//! Runs one test of the current test binary in a process of its own.

use std::path::Path;
use std::process::Command;

/// The directory that a child works in is handed over in this variable; without it, the hidden tests do nothing.
const DIRECTORY: &str = "CNTK_READER_TEST_CHILD";

/// The lines that a child sends back begin with this.
const MARK: &str = "child says: ";

/// The directory that the parent chose, if this process is a child.
pub fn directory() -> Option<std::path::PathBuf> {
    std::env::var_os(DIRECTORY).map(Into::into)
}

/// Sends a line to the parent.
pub fn say(line: &str) {
    // The test harness writes without a line break before a test's own output.
    println!("\n{MARK}{line}");
}

/// Runs the test `name` of this binary in a child that works in `directory`, and returns what it said.
pub fn run(name: &str, directory: &Path) -> Vec<String> {
    let binary = std::env::current_exe().expect("the path of the test binary");
    let output = Command::new(binary)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .output()
        .expect("a child process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "the child failed ({}):\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines().filter_map(|line| line.strip_prefix(MARK)).map(str::to_owned).collect()
}
