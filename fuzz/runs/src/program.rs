//! Builds and runs the program with all targets.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tooling::project::Project;

/// Coverage instrumentation and comparison hooks: the flags that cargo-fuzz passes.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The environment variable with the name of the target to run.
const VARIABLE: &str = "CNTK_READER_FUZZ_TARGET";

/// Seconds after which an input counts as a hang. Most inputs take milliseconds, labels of millions
/// of frames six seconds, and other targets may run in parallel.
const PATIENCE: u32 = 60;

/// Memory limit of the process in megabytes. Inputs are small, and so are their data.
const MEMORY: u32 = 2048;

/// Maximum size of an input in bytes.
pub const LONGEST: u64 = 24 << 10;

/// A target from the program's list.
pub struct Target {
    pub name: String,
    /// The name of its dictionary, or "".
    dictionary: String,
    pub what: String,
}

/// The built program.
pub struct Program {
    path: PathBuf,
    /// The folder `fuzz`.
    folder: PathBuf,
}

/// Fails with a message about what is missing, if the program cannot be built.
pub fn can_be_built(project: &Project) -> Result<()> {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let probe = project.run(&compiler).args(COVERAGE.split_whitespace());
    let probe = probe.args(["--crate-type=rlib", "--crate-name=probe", "--emit=obj", "-o", "/dev/null", "-"]);
    probe.silent().go().context(
        "This Rust compiler cannot count what is executed (-Cpasses=sancov-module), which libFuzzer goes by: take rustup's, \
         stable or later.",
    )?;
    let cpp = project.run(&project.compiler()).arg("--version").silent().go();
    cpp.context("libFuzzer is compiled from C++: install g++ or clang++, or set CXX.").map(drop)
}

impl Program {
    /// Builds it, with a sanitizer if one is named.
    pub fn build(project: &Project, sanitizer: Option<&str>) -> Result<Program> {
        let host = host(project)?;
        let folder = project.path("fuzz");
        let target_folder = project.target.join("fuzz").join(format!("build{}", sanitizer.unwrap_or("")));
        let mut flags = COVERAGE.to_owned();
        let mut cargo =
            project.cargo("build").args(["--quiet", "--release", "--bin", "any", "--target", &host]);
        if let Some(sanitizer) = sanitizer {
            // An unstable option, which the stable compiler rejects without this variable.
            cargo = cargo.env("RUSTC_BOOTSTRAP", "1");
            flags += &format!(" -Zsanitizer={sanitizer}");
        }
        let cargo = cargo.arg("--manifest-path").arg(folder.join("Cargo.toml")).env("RUSTFLAGS", &flags);
        cargo.arg("--target-dir").arg(&target_folder).go()?;
        Ok(Program { path: target_folder.join(host).join("release/any"), folder })
    }

    /// Lists all targets.
    pub fn targets(&self) -> Result<Vec<Target>> {
        let output = Command::new(&self.path).env_remove(VARIABLE).output()?;
        ensure!(output.status.success(), "The program does not name its targets.");
        let lines = String::from_utf8(output.stdout)?;
        let target = |line: &str| {
            let mut parts = line.split('\t').map(str::to_owned);
            let mut part = || parts.next().context("a line of the program's list");
            Ok(Target { name: part()?, dictionary: part()?, what: part()? })
        };
        lines.lines().map(target).collect()
    }

    /// Returns a command that runs a target, with the limits for each input. Failing inputs are
    /// written to `failures`.
    pub fn command(&self, target: &Target, failures: &Path) -> Command {
        let mut command = Command::new(&self.path);
        command.env(VARIABLE, &target.name).stdin(Stdio::null()).current_dir(&self.folder);
        command.arg(format!("-timeout={PATIENCE}")).arg(format!("-rss_limit_mb={MEMORY}"));
        command.arg(format!("-max_len={LONGEST}"));
        command.arg(format!("-artifact_prefix={}/", failures.display()));
        if !target.dictionary.is_empty() {
            let name = format!("dictionaries/{}.dict", target.dictionary);
            command.arg(format!("-dict={}", self.folder.join(name).display()));
        }
        command
    }

    /// Returns the corpus of a target under version control.
    pub fn corpus(&self, target: &Target) -> PathBuf {
        self.folder.join("corpus").join(&target.name)
    }

    /// Runs one input, showing the program's output.
    pub fn run_again(&self, target: &Target, input: &Path) -> Result<()> {
        let folder = input.parent().context("an input in a folder")?;
        let mut child = self.command(target, folder).env("CNTK_READER_FUZZ_SHOW", "1").arg(input).spawn()?;
        let status = child.wait();
        clean_after(child.id());
        ensure!(status?.success(), "The input fails.");
        Ok(())
    }
}

/// Removes the scratch folder of a process that may have died before removing it.
pub fn clean_after(process: u32) {
    for base in [PathBuf::from("/dev/shm"), std::env::temp_dir()] {
        _ = std::fs::remove_dir_all(base.join(format!("cntk-reader-fuzz-{process}")));
    }
}

/// Returns this machine's target triple. With an explicit target, build scripts and procedural
/// macros are not instrumented.
fn host(project: &Project) -> Result<String> {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = project.run(&compiler).arg("-vV").silent().output()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say what machine this is.")
}
