//! Runs the tool on data that the tests make.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Environment variable with the emulator and its options, for tools that are built for another
/// processor and cannot be started directly.
const RUNNER: &str = "CNTK_READER_TEST_RUNNER";

/// The tool, to be run.
pub fn program() -> Command {
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(env!("CARGO_BIN_EXE_cntk-reader")) };
    let mut command = Command::new(emulator);
    command.args(words).arg(env!("CARGO_BIN_EXE_cntk-reader"));
    command
}

/// The tool, to be run in a folder.
pub fn tool(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = program();
    command.current_dir(folder).args(arguments).env_remove("NO_COLOR").env("TERM", "xterm");
    command
}

/// Runs the tool with its output in pipes.
#[allow(dead_code, reason = "not every test program needs every helper")]
pub fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = tool(folder, arguments).output().expect("the tool runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

/// Makes a folder with a text file `data.ctf` of this many sequences of one sample, in several
/// chunks, and a configuration `data.cntk` that reads it.
pub fn data(sequences: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |number: usize| format!("|x {} 0.{number} |y {}:1\n", number % 7, number % 5);
    let path = folder.path().join("data.ctf");
    std::fs::write(&path, (0..sequences).map(line).collect::<String>()).expect("writing");
    let configuration = "randomize = true\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; \
        file = \"data.ctf\" ; \
        chunkSizeInBytes = 4000 ; input = [ x = [ dim = 2 ; format = \"dense\" ] ; y = [ dim = 5 ; format = \"sparse\" ] ] ])\n";
    std::fs::write(folder.path().join("data.cntk"), configuration).expect("writing");
    (folder, path)
}
