//! The folders of the checkout, and the progress output of commands.

use crate::console;
use crate::cross::{self, Cross};
use crate::run::Run;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The environment variable that is `1` if missing Debian packages may be installed.
const INSTALLS: &str = "CNTK_READER_INSTALL_PACKAGES";

/// The checkout that a command works on.
#[derive(Clone)]
pub struct Project {
    /// Its root.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Whether the output of programs is shown.
    pub verbose: bool,
    /// Whether the parts of commands are not printed.
    pub silent: bool,
    /// Whether tests run in their short form, for every change.
    pub short: bool,
    /// Whether tests run in their long form.
    pub long: bool,
    /// Whether release builds are hardly optimized, which compiles several times faster. Used for
    /// tests.
    pub quick: bool,
    /// Whether missing Debian packages are installed, as in the commands for newcomers; otherwise
    /// they are listed.
    pub installs: bool,
    /// The cross compilers, if programs are built for another processor.
    pub cross: Option<Cross>,
}

impl Project {
    /// Finds the project that this program belongs to.
    pub fn find(verbose: bool) -> Result<Project> {
        // Cargo sets the variable for `cargo run`; the fallback is for a program that is started
        // directly.
        let own =
            std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root = Path::new(&own).parent().context("the package has no parent folder")?.to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let target = std::path::absolute(target)?;
        let installs = std::env::var_os(INSTALLS).is_some_and(|value| value == "1");
        Ok(Project {
            root,
            target,
            verbose,
            silent: false,
            short: false,
            long: false,
            quick: false,
            installs,
            cross: None,
        })
    }

    /// Returns a path below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Prepares to run a program in the root.
    pub fn run(&self, program: &str) -> Run {
        Run::new(program, &self.root, self.verbose)
    }

    /// Prepares to run a cargo command, with the cargo that runs this program.
    pub fn cargo(&self, command: &str) -> Run {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let run = self.run(&cargo).named("cargo").arg(command).env("CARGO_TERM_COLOR", "never");
        let run = run.env("CARGO_TARGET_DIR", &self.target).envs(&self.installing());
        let run = if self.long { run.env("CNTK_READER_TEST_LONG", "1") } else { run };
        match &self.cross {
            Some(cross) => cross.configure(run),
            None => run,
        }
    }

    /// The variable that makes programs in other packages, and scripts, install missing Debian
    /// packages as well.
    pub fn installing(&self) -> [(&'static str, &'static str); 1] {
        [(INSTALLS, if self.installs { "1" } else { "0" })]
    }

    /// Returns cargo's folder for release builds.
    pub fn release_folder(&self) -> PathBuf {
        match &self.cross {
            Some(_) => self.target.join(cross::TARGET).join("release"),
            None => self.target.join("release"),
        }
    }

    /// Returns the C++ compiler.
    pub fn compiler(&self) -> String {
        match &self.cross {
            Some(cross) => cross.compiler(),
            None => std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned()),
        }
    }

    /// Returns a program of binutils for the target processor.
    pub fn binutil(&self, name: &str) -> String {
        let prefix = if self.cross.is_some() { cross::PREFIX } else { "" };
        format!("{prefix}{name}")
    }

    /// Returns a path below the target folder, as shown in messages.
    pub fn shown(&self, path: &str) -> String {
        let path = self.target.join(path);
        path.strip_prefix(&self.root).unwrap_or(&path).display().to_string()
    }

    /// Prepares to run a program that was built, in the root: under the emulator if it is for
    /// another processor.
    pub fn run_built(&self, program: &Path) -> Run {
        match &self.cross {
            Some(cross) => {
                let [emulator, options @ ..] = cross.runner();
                self.run(emulator).args(options).arg(program)
            }
            None => self.run(&program.to_string_lossy()),
        }
    }

    /// Runs one part of a command, and prints its name and run time.
    pub fn part<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.silent {
            return work();
        }
        console::print(format_args!("  {what} ... "));
        if self.verbose {
            say!("");
        }
        let clock = Instant::now();
        let result = work();
        let seconds = clock.elapsed().as_secs_f64();
        match &result {
            Ok(_) => say!("{seconds:.1} s"),
            Err(_) => say!("failed after {seconds:.1} s"),
        }
        result
    }

    /// Returns the files under version control, and new files that are not ignored, relative to the
    /// root.
    pub fn files(&self) -> Result<Vec<String>> {
        let listed = self
            .run("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .silent()
            .output()?;
        let mut files: Vec<String> =
            listed.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
        // A deleted file is listed until the deletion is committed.
        files.retain(|file| self.path(file).is_file());
        files.sort();
        files.dedup();
        Ok(files)
    }
}

/// Acquires a lock that serializes work, such as installing packages: several steps of `cargo xtask
/// test` run in parallel and may need the same thing.
pub fn alone<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates an empty folder, for a command's scratch files.
pub fn empty_folder(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_dir_all(path).with_context(|| format!("emptying {}", path.display()))?;
    }
    std::fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))
}
