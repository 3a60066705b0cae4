//! Builds for another processor than this machine's: the compilers, and the emulator that runs the
//! programs.

use crate::project::Project;
use crate::run::Run;
use crate::tools::{self, Tool, on_path};
use anyhow::{Context, Result};
use std::path::Path;

/// Compilers for 64-bit ARM from Debian's packages or rustup, and an emulator.
#[derive(Clone)]
pub struct Cross {
    /// A Rust compiler with the target's standard library.
    rustc: String,
    /// The emulator.
    emulator: String,
}

/// The target in Rust's spelling.
pub const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The prefix of the names of Debian's cross compiler and its tools.
pub const PREFIX: &str = "aarch64-linux-gnu-";

/// The processor, as in the names of platforms.
pub const PROCESSOR: &str = "aarch64";

/// The processor, as in the names of Debian's packages.
pub const DEBIAN: &str = "arm64";

/// The target's dynamic linker.
pub const LOADER: &str = "ld-linux-aarch64.so.1";

/// Candidate roots for the libraries of target programs: `/` if Debian's packages for that
/// processor are installed, else the folder of the cross compilers' packages. Only one of them is
/// used, because a C library and a dynamic linker of different versions do not work together.
const ROOTS: [&str; 2] = ["/", "/usr/aarch64-linux-gnu"];

/// The environment variable with the emulator through which tests start their own programs.
const TEST_RUNNER: &str = "CNTK_READER_TEST_RUNNER";

/// The checkout, built for 64-bit ARM under target/aarch64. The error names missing compilers, or
/// the emulator.
pub fn aarch64(project: &Project) -> Result<Project> {
    tools::need(project, &[Tool::CrossCxx, Tool::Emulator, Tool::CrossRust])?;
    let cross = without_compiler(project)?;
    Ok(Project { target: project.target.join(PROCESSOR), cross: Some(cross), ..project.clone() })
}

/// The Rust compiler and the emulator only. The error names what is missing.
pub fn without_compiler(project: &Project) -> Result<Cross> {
    tools::need(project, &[Tool::Emulator, Tool::CrossRust])?;
    let rustc = rustc(project).context("the Rust compiler for aarch64 is gone")?;
    let emulator = emulator().context("the emulator is gone")?;
    Ok(Cross { rustc, emulator })
}

/// Finds a Rust compiler with the standard library for [`TARGET`]: `$RUSTC`, the one on `PATH`, or
/// Debian's.
pub fn rustc(project: &Project) -> Option<String> {
    let named = std::env::var("RUSTC").ok();
    let candidates = named.into_iter().chain(["rustc", "/usr/bin/rustc"].map(str::to_owned));
    let mut there = candidates.filter(|rustc| {
        let asked = project.run(rustc).args(["--print", "target-libdir", "--target", TARGET]).silent();
        asked.output().is_ok_and(|folder| Path::new(folder.trim()).is_dir())
    });
    there.next()
}

/// Finds the user-mode emulator.
pub fn emulator() -> Option<String> {
    let mut names = ["qemu-aarch64-static", "qemu-aarch64"].into_iter();
    names.find(|name| on_path(name).is_some()).map(str::to_owned)
}

impl Cross {
    /// Makes cargo build for the target, and run the results under the emulator.
    pub fn configure(&self, cargo: Run) -> Run {
        let runner = self.runner().join(" ");
        cargo
            .env("RUSTC", &self.rustc)
            .env("RUSTDOC", format!("{}doc", self.rustc))
            .env("CARGO_BUILD_TARGET", TARGET)
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", format!("{PREFIX}gcc"))
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", &runner)
            .env(TEST_RUNNER, &runner)
            // These programs are not debugged here.
            .env("CARGO_PROFILE_DEV_DEBUG", "false")
            .env("CARGO_INCREMENTAL", "0")
            .env("CC_aarch64_unknown_linux_gnu", format!("{PREFIX}gcc"))
            .env("AR_aarch64_unknown_linux_gnu", format!("{PREFIX}ar"))
    }

    /// Makes a program that calls cargo use this Rust compiler.
    pub fn compile_by(&self, run: Run) -> Run {
        run.env("RUSTC", &self.rustc)
    }

    /// The emulator with its options; a program and its arguments follow.
    pub fn runner(&self) -> [&str; 3] {
        let is_there = |root: &&str| Path::new(root).join("lib").join(LOADER).exists();
        [&self.emulator, "-L", ROOTS.into_iter().find(is_there).unwrap_or(ROOTS[1])]
    }

    /// The emulator.
    pub fn emulator(&self) -> &str {
        &self.emulator
    }

    /// The C++ compiler.
    pub fn compiler(&self) -> String {
        format!("{PREFIX}g++")
    }

    /// The options of CMake for these compilers.
    pub fn cmake(&self) -> [String; 4] {
        [
            "-DCMAKE_SYSTEM_NAME=Linux".to_owned(),
            format!("-DCMAKE_SYSTEM_PROCESSOR={PROCESSOR}"),
            format!("-DCMAKE_C_COMPILER={PREFIX}gcc"),
            format!("-DCMAKE_CXX_COMPILER={PREFIX}g++"),
        ]
    }

    /// Whether cargo can find the sources of Rust's standard library.
    pub fn has_sources(&self, project: &Project) -> Result<bool> {
        let root = project.run(&self.rustc).args(["--print", "sysroot"]).output()?;
        Ok(Path::new(root.trim()).join("lib/rustlib/src/rust/library/std/src/lib.rs").is_file())
    }

    /// The version of the Rust compiler.
    pub fn version(&self, project: &Project) -> Result<String> {
        Ok(project.run(&self.rustc).arg("--version").output()?.trim().to_owned())
    }
}
