//! The checkout's folders, and how commands print their progress.

use crate::console;
use crate::cross::{self, Cross};
use crate::run::Run;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The environment variable that is `1` where missing packages of Debian are installed.
const INSTALLS: &str = "CNTK_READER_INSTALL_PACKAGES";

/// The checkout that a command works on.
#[derive(Clone)]
pub struct Project {
    /// Its root.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Show the output of the programs that are run.
    pub verbose: bool,
    /// Parts of commands are not printed.
    pub silent: bool,
    /// Tests take their short form, for every change.
    pub short: bool,
    /// Tests take their long form.
    pub long: bool,
    /// What is built in release mode is hardly optimized: it is built in a fraction of the time.
    /// Tests are built with it.
    pub quick: bool,
    /// Missing packages of Debian are installed: the commands for newcomers do it, others name
    /// them.
    pub installs: bool,
    /// The compilers, where programs are built for another processor than this machine's.
    pub cross: Option<Cross>,
}

impl Project {
    /// The project that this program belongs to.
    pub fn find(verbose: bool) -> Result<Project> {
        // Cargo sets the variable for `cargo run`; the other value is for a program that is started
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

    /// A path below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A program to run in the root.
    pub fn run(&self, program: &str) -> Run {
        Run::new(program, &self.root, self.verbose)
    }

    /// The cargo that runs this program.
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

    /// The variable by which programs in other packages, and scripts, install missing packages of
    /// Debian as well.
    pub fn installing(&self) -> [(&'static str, &'static str); 1] {
        [(INSTALLS, if self.installs { "1" } else { "0" })]
    }

    /// The folder in which cargo puts what it builds in release mode.
    pub fn release_folder(&self) -> PathBuf {
        match &self.cross {
            Some(_) => self.target.join(cross::TARGET).join("release"),
            None => self.target.join("release"),
        }
    }

    /// The C++ compiler.
    pub fn compiler(&self) -> String {
        match &self.cross {
            Some(cross) => cross.compiler(),
            None => std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned()),
        }
    }

    /// A program of binutils for the processor that is built for.
    pub fn binutil(&self, name: &str) -> String {
        let prefix = if self.cross.is_some() { cross::PREFIX } else { "" };
        format!("{prefix}{name}")
    }

    /// A path below the target folder as messages show it.
    pub fn shown(&self, path: &str) -> String {
        let path = self.target.join(path);
        path.strip_prefix(&self.root).unwrap_or(&path).display().to_string()
    }

    /// A program that was built, to run in the root: under the emulator if it is for another
    /// processor.
    pub fn run_built(&self, program: &Path) -> Run {
        match &self.cross {
            Some(cross) => {
                let [emulator, options @ ..] = cross.runner();
                self.run(emulator).args(options).arg(program)
            }
            None => self.run(&program.to_string_lossy()),
        }
    }

    /// Does one part of a command; prints its name and the time it took.
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

    /// Files under version control, and new ones that are not ignored, as paths relative to the
    /// root.
    pub fn files(&self) -> Result<Vec<String>> {
        let listed = self
            .run("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .silent()
            .output()?;
        let mut files: Vec<String> =
            listed.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
        // A file that was deleted but is not committed as such is still listed.
        files.retain(|file| self.path(file).is_file());
        files.sort();
        files.dedup();
        Ok(files)
    }
}

/// Waits until no other thread does what the lock stands for: two steps of `cargo xtask test` at a
/// time may need the same thing.
pub fn alone<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Folder for a command's scratch files, empty.
pub fn empty_folder(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_dir_all(path).with_context(|| format!("emptying {}", path.display()))?;
    }
    std::fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))
}
