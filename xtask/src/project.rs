//! The checkout's folders, and how commands print their progress.

use crate::run::Run;
use anyhow::{Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The checkout that a command works on.
pub struct Project {
    /// Its root.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// Show the output of the programs that are run.
    pub verbose: bool,
}

impl Project {
    /// The project that this program belongs to.
    pub fn find(verbose: bool) -> Result<Project> {
        // Cargo sets the variable for `cargo run`; the other value is for a program that is started directly.
        let own =
            std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root = Path::new(&own).parent().context("xtask has no parent folder")?.to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let target = std::path::absolute(target)?;
        Ok(Project { root, target, verbose })
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
        self.run(&cargo).named("cargo").arg(command).env("CARGO_TERM_COLOR", "never")
    }

    /// Does one part of a command; prints its name and the time it took.
    pub fn part<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        print!("  {what} ... ");
        if self.verbose {
            println!();
        }
        std::io::stdout().flush()?;
        let clock = Instant::now();
        let result = work();
        let seconds = clock.elapsed().as_secs_f64();
        match &result {
            Ok(_) => println!("{seconds:.1} s"),
            Err(_) => println!("failed after {seconds:.1} s"),
        }
        result
    }

    /// Files under version control, and new ones that are not ignored, as paths relative to the root.
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

/// Folder for a command's scratch files, empty.
pub fn empty_folder(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_dir_all(path).with_context(|| format!("emptying {}", path.display()))?;
    }
    std::fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))
}
