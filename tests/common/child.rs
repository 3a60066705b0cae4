//! Runs one test of the current test binary in a separate process.

use std::path::Path;
use std::process::Command;

/// Environment variable with the directory in which a child works. Without it, the tests that are
/// meant for a child do nothing.
pub const DIRECTORY: &str = "CNTK_READER_TEST_CHILD";

/// Environment variable with the emulator, and its options, for programs of the target processor,
/// which cannot be started directly.
const RUNNER: &str = "CNTK_READER_TEST_RUNNER";

/// Prefix of the lines that a child sends to its parent.
const MARK: &str = "child says: ";

/// Returns the directory that the parent chose, if this process is a child.
pub fn directory() -> Option<std::path::PathBuf> {
    std::env::var_os(DIRECTORY).map(Into::into)
}

/// Sends a line to the parent.
pub fn say(line: &str) {
    // The test harness may have begun a line before.
    println!("\n{MARK}{line}");
}

/// Returns a command that runs the current test binary.
pub fn this_program() -> Command {
    let binary = std::env::current_exe().expect("the path of the test binary");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(binary) };
    let mut command = Command::new(emulator);
    command.args(words).arg(binary);
    command
}

/// Returns whether an emulator runs this program. The memory of the process is then the emulator's,
/// which keeps some for every thread that ever existed.
pub fn is_emulated() -> bool {
    std::env::var_os(RUNNER).is_some()
}

/// Runs the test `name` of this binary in a child that works in `directory`, and returns the lines
/// that the child sent.
pub fn run(name: &str, directory: &Path) -> Vec<String> {
    let output = this_program()
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
