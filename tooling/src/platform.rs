//! Builds for other operating systems and C libraries than this machine's.
//!
//! Rust comes with the standard library of such a target (`rustup target add`), or cargo compiles it
//! from the sources that Debian's Rust has. Zig, from PyPI, is the C compiler and linker for systems
//! that Debian has none for.

use crate::project::Project;
use crate::run::Run;
use crate::tools::{self, DEBIAN_CARGO, DEBIAN_RUSTC, Tool};
use crate::{cross, dist, python};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// cargo-zigbuild, and the Zig that it calls.
const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// The C compiler and linker for Windows.
const MINGW: &str = "x86_64-w64-mingw32-gcc";

/// A platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Platform {
    /// Its name on command lines.
    pub name: &'static str,
    /// Its name in Rust.
    pub target: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Compiled by MinGW, run by Wine.
    Windows,
    /// Compiled by Zig, run by this machine.
    Musl,
    /// Compiled by Zig, run by the emulator of 64-bit ARM.
    MuslAarch64,
    /// Compiled by Zig. Nothing here runs it.
    MacOs,
}

/// Windows.
pub const WINDOWS: Platform =
    Platform { name: "windows", target: "x86_64-pc-windows-gnu", kind: Kind::Windows };
/// Linux with musl, for programs that need no library of the system.
pub const MUSL: Platform = Platform { name: "musl", target: "x86_64-unknown-linux-musl", kind: Kind::Musl };
/// The same for 64-bit ARM.
pub const MUSL_AARCH64: Platform =
    Platform { name: "musl-aarch64", target: "aarch64-unknown-linux-musl", kind: Kind::MuslAarch64 };
/// macOS.
pub const MACOS: Platform = Platform { name: "macos", target: "aarch64-apple-darwin", kind: Kind::MacOs };

/// All platforms.
pub const ALL: [Platform; 4] = [WINDOWS, MUSL, MUSL_AARCH64, MACOS];

/// The packages of the library for C and of the tool.
pub const FRONT_ENDS: [&str; 4] = ["--package", "cntk-reader-clib", "--package", "cntk-reader-cli"];

/// The function of Windows 10 that Rust's standard library takes random numbers from, in a library
/// that Wine 8 lacks.
const RANDOM: &str = r#"#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) {
  for (; size > 0; ++data, --size)
    if (!SystemFunction036(data, 1)) return FALSE;
  return TRUE;
}
"#;

/// A platform with its tools.
pub struct Builder<'a> {
    project: &'a Project,
    platform: Platform,
    /// Whether cargo compiles the standard library.
    builds_std: bool,
    /// cargo-zigbuild.
    zigbuild: Option<PathBuf>,
}

impl<'a> Builder<'a> {
    /// Finds the tools. The error says what is missing.
    pub fn new(project: &'a Project, platform: Platform) -> Result<Builder<'a>> {
        let zigbuild = match platform.kind {
            Kind::Windows => {
                tools::need(project, &[Tool::Mingw])?;
                None
            }
            Kind::Musl | Kind::MuslAarch64 | Kind::MacOs => {
                let python =
                    python::environment_with(project, "zigbuild", &ZIG)?.map_err(anyhow::Error::msg)?;
                Some(python.with_file_name("cargo-zigbuild"))
            }
        };
        if platform.kind == Kind::MuslAarch64 {
            tools::need(project, &[Tool::Emulator])?;
        }
        let folder = project.run("rustc").args(["--print", "target-libdir", "--target", platform.target]);
        let builds_std = !folder.silent().output().is_ok_and(|folder| Path::new(folder.trim()).is_dir());
        if builds_std {
            tools::need(project, &[Tool::RustSources])?;
        }
        Ok(Builder { project, platform, builds_std, zigbuild })
    }

    /// Returns the platform.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// Returns cargo's target folder.
    pub fn folder(&self) -> PathBuf {
        self.project.target.join("platforms").join(self.platform.name)
    }

    /// Returns the folder of what a profile builds.
    pub fn built(&self, profile: &str) -> PathBuf {
        self.folder().join(self.platform.target).join(profile)
    }

    /// Prepares to run a cargo command for the platform.
    pub fn cargo(&self, command: &str) -> Run {
        let run = match &self.zigbuild {
            Some(zigbuild) => {
                let command = if command == "build" { "zigbuild" } else { command };
                let run = self.project.run(&zigbuild.to_string_lossy()).named("cargo-zigbuild").arg(command);
                // It calls Zig as a module of the first Python on the path.
                run.env("PATH", tools::path_with(&zigbuild.with_file_name("")))
            }
            None if self.builds_std => self.project.run(DEBIAN_CARGO).named("cargo").arg(command),
            None => self.project.run("cargo").arg(command),
        };
        let run = self.environment(run).args(["--target", self.platform.target]);
        let run = run.env("CARGO_TERM_COLOR", "never").env("CARGO_INCREMENTAL", "0");
        // These programs are not debugged here.
        let run = run.env("CARGO_PROFILE_DEV_DEBUG", "false");
        match self.platform.kind {
            Kind::Windows => match tools::wine() {
                Some(wine) => {
                    run.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", wine).envs(&self.wine_variables())
                }
                // Checks and builds run no program.
                None => run,
            },
            Kind::Musl | Kind::MuslAarch64 => {
                let target = self.platform.target.replace('-', "_").to_uppercase();
                run.env(&format!("CARGO_TARGET_{target}_RUSTFLAGS"), self.rust_flags().join(" "))
            }
            Kind::MacOs => run,
        }
    }

    /// Makes a program that calls cargo, such as maturin, build for the platform in release mode.
    /// The target is an argument of its own.
    pub fn configure(&self, run: Run) -> Run {
        self.environment(run).envs(&dist::release_variables_with(self.project, self.rust_flags()))
    }

    fn environment(&self, run: Run) -> Run {
        let run = run.env("CARGO_TARGET_DIR", self.folder());
        let run = if self.builds_std {
            let run = run.env("CARGO_UNSTABLE_BUILD_STD", "std,panic_unwind").env("RUSTC_BOOTSTRAP", "1");
            run.env("RUSTC", DEBIAN_RUSTC).env("CARGO", DEBIAN_CARGO)
        } else {
            run
        };
        match self.platform.kind {
            Kind::Windows => self.with_date(run).env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER", MINGW),
            Kind::Musl | Kind::MuslAarch64 | Kind::MacOs => run,
        }
    }

    /// Makes MinGW's tools write the time of the commit into files instead of the current time.
    pub fn with_date(&self, run: Run) -> Run {
        const DATE: &str = "SOURCE_DATE_EPOCH";
        let commit = || self.project.run("git").args(["log", "-1", "--format=%ct"]).silent().output();
        let date = std::env::var(DATE).or_else(|_| commit());
        run.env(DATE, date.unwrap_or_default().trim())
    }

    /// Builds the library and the tool in release mode. Returns their folder.
    pub fn release(&self) -> Result<PathBuf> {
        let build = self.configure(self.cargo("build")).arg("--release").args(FRONT_ENDS);
        self.project.part("library and tool, release mode", || build.go())?;
        Ok(self.built("release"))
    }

    /// The flags that the Rust compiler needs for the platform.
    fn rust_flags(&self) -> &'static [&'static str] {
        match self.platform.kind {
            // The start files are Zig's.
            Kind::Musl | Kind::MuslAarch64 => &["-Clink-self-contained=no"],
            Kind::Windows | Kind::MacOs => &[],
        }
    }

    /// Prepares to run a program that was built.
    pub fn run(&self, program: &Path) -> Run {
        match self.platform.kind {
            Kind::Windows => {
                let run = self.project.run(&tools::wine().unwrap_or_default()).named("wine");
                run.arg(program).envs(&self.wine_variables())
            }
            Kind::MuslAarch64 => {
                let emulator = cross::emulator().unwrap_or_default();
                self.project.run(&emulator).arg(program)
            }
            Kind::Musl | Kind::MacOs => self.project.run(&program.to_string_lossy()),
        }
    }

    /// The environment of Wine.
    pub fn wine_variables(&self) -> [(&'static str, String); 2] {
        let prefix = self.folder().join("wine").display().to_string();
        [("WINEPREFIX", prefix), ("WINEDEBUG", "-all".to_owned())]
    }

    /// Makes the folder that Wine takes for its drive C, with the library that it lacks.
    pub fn prepare_wine(&self) -> Result<()> {
        tools::need(self.project, &[Tool::Wine])?;
        let wine = self.folder().join("wine");
        let library = wine.join("drive_c/windows/system32/bcryptprimitives.dll");
        if library.exists() {
            return Ok(());
        }
        std::fs::create_dir_all(&wine)?;
        let boot = self.project.run(&tools::wine().context("Wine is gone")?).named("wine").arg("wineboot");
        boot.arg("--update").envs(&self.wine_variables()).go()?;
        let source = wine.join("random.c");
        std::fs::write(&source, RANDOM)?;
        let compile = self.project.run(MINGW).args(["-O1", "-shared", "-o"]);
        compile.arg(&library).arg(&source).arg("-ladvapi32").go().map(drop)
    }
}
