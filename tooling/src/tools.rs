//! Tools that commands need besides Rust: found, installed, or listed in one message.

use crate::cross;
use crate::project::{Project, alone};
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// A tool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// A C++ compiler with make.
    Cxx,
    /// CMake.
    CMake,
    /// GoogleTest.
    GoogleTest,
    /// clang-format, in the version used for the sources: other versions break lines differently.
    ClangFormat,
    /// Valgrind.
    Valgrind,
    /// pkg-config.
    PkgConfig,
    /// nm and readelf.
    Binutils,
    /// Open MPI with its headers.
    Mpi,
    /// A compiler and a runtime for C#.
    Mono,
    /// The same with .NET Standard, and a library that edits assemblies.
    MonoDevel,
    /// zip and unzip.
    Zip,
    /// bash, zsh and fish.
    Shells,
    /// abidw and abidiff.
    Abigail,
    /// The other C++ compiler.
    Clang,
    /// A C++ compiler for 64-bit ARM.
    CrossCxx,
    /// A Rust compiler for 64-bit ARM.
    CrossRust,
    /// An emulator of 64-bit ARM.
    Emulator,
    /// A Rust compiler with the sources of its standard library, and the sanitizers of its LLVM.
    RustWithSources,
    /// A Rust compiler with the sources of its standard library.
    RustSources,
    /// A C++ compiler for Windows.
    Mingw,
    /// Runs programs for Windows.
    Wine,
    /// A C compiler for musl, and its dynamic linker.
    Musl,
    /// Makes the reference of the C and C++ headers.
    Doxygen,
    /// A browser without a screen.
    Chromium,
    /// Makes root folders of Debian.
    Mmdebstrap,
    /// Installs packages of Fedora and its relatives.
    Rpm,
    /// Checks packages of Debian.
    Lintian,
}

/// Programs, and Debian's packages, of the shells that have completions.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

const CLANG_FORMAT_VERSION: u32 = 14;

/// Cargo of Debian's current Rust, which Debian provides for building browsers. It may be installed
/// beside another Rust, so its programs have full paths.
pub const DEBIAN_CARGO: &str = "/usr/bin/cargo";
/// The compiler of Debian's current Rust.
pub const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
/// A file of the sources of its standard library.
const STANDARD_LIBRARY: &str = "/usr/lib/rustlib/src/rust/library/Cargo.toml";

/// The Clang with the same LLVM version as Debian's Rust (`rustc -vV`): both need the same
/// sanitizer run-time libraries.
pub const CLANG_OF_RUST: &str = "clang-22";

/// The names of .NET Standard 2.0's types, in Mono's folder.
pub const NETSTANDARD: &str = "/usr/lib/mono/4.8-api/Facades/netstandard.dll";
/// Mono's library that edits assemblies.
pub const CECIL: &str = "/usr/lib/mono/gac/Mono.Cecil/0.11.0.0__0738eb9f132ed756/Mono.Cecil.dll";

const RUST_PACKAGES: [&str; 6] =
    ["rustc-web", "cargo-web", "libstd-rust-web-dev", "rust-web-src", "clang-22", "libclang-rt-22-dev"];

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::Cxx => "a C++ compiler and make",
            Tool::CMake => "CMake",
            Tool::GoogleTest => "GoogleTest",
            Tool::ClangFormat => "clang-format 14",
            Tool::Valgrind => "Valgrind",
            Tool::PkgConfig => "pkg-config",
            Tool::Binutils => "binutils (nm, readelf)",
            Tool::Mpi => "Open MPI",
            Tool::Mono => "Mono (mcs, mono)",
            Tool::MonoDevel => "Mono with .NET Standard and Mono.Cecil",
            Tool::Zip => "zip and unzip",
            Tool::Shells => "bash, zsh and fish",
            Tool::Abigail => "abigail-tools (abidw, abidiff)",
            Tool::Clang => "Clang",
            Tool::CrossCxx => "a C++ compiler for aarch64",
            Tool::CrossRust => "Rust for aarch64 (with rustup: rustup target add aarch64-unknown-linux-gnu)",
            Tool::Emulator => "QEMU's emulator for programs of aarch64",
            Tool::RustWithSources => "Rust with the sources of its standard library, and its sanitizers",
            Tool::RustSources => "Rust with the sources of its standard library",
            Tool::Mingw => "MinGW, a C++ compiler for Windows",
            Tool::Wine => "Wine",
            Tool::Musl => "musl's C compiler",
            Tool::Doxygen => "Doxygen",
            Tool::Chromium => "Chromium",
            Tool::Mmdebstrap => "mmdebstrap",
            Tool::Rpm => "rpm",
            Tool::Lintian => "lintian",
        }
    }

    /// Debian's packages.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Tool::Cxx => &["g++", "make"],
            Tool::CMake => &["cmake"],
            Tool::GoogleTest => &["libgtest-dev"],
            Tool::ClangFormat => &["clang-format-14"],
            // Valgrind cannot start programs without the symbols of the dynamic loader.
            Tool::Valgrind => &["valgrind", "libc6-dbg"],
            Tool::PkgConfig => &["pkg-config"],
            Tool::Binutils => &["binutils"],
            Tool::Mpi => &["openmpi-bin", "libopenmpi-dev"],
            Tool::Mono => &["mono-mcs", "mono-runtime"],
            Tool::MonoDevel => &["mono-devel", "mono-mcs", "mono-runtime", "libmono-cecil-private-cil"],
            Tool::Zip => &["zip", "unzip"],
            Tool::Shells => &SHELLS,
            Tool::Abigail => &["abigail-tools"],
            Tool::Clang => &["clang"],
            Tool::CrossCxx => &["g++-aarch64-linux-gnu"],
            Tool::CrossRust => &["rustc-web", "libstd-rust-web-dev", "libstd-rust-web-dev:arm64"],
            Tool::Emulator => &["qemu-user"],
            Tool::RustWithSources => &RUST_PACKAGES,
            Tool::RustSources => &RUST_PACKAGES[..4],
            Tool::Mingw => &["g++-mingw-w64-x86-64"],
            Tool::Wine => &["wine64"],
            Tool::Musl => &["musl-tools"],
            Tool::Doxygen => &["doxygen"],
            // Ubuntu's package is a snap, which a container cannot install.
            Tool::Chromium => &["chromium"],
            Tool::Mmdebstrap => &["mmdebstrap"],
            Tool::Rpm => &["rpm"],
            Tool::Lintian => &["lintian"],
        }
    }

    fn is_there(self, project: &Project) -> bool {
        match self {
            Tool::Cxx => {
                let compiler = std::env::var("CXX").is_ok() || on_path("c++").is_some();
                compiler && (on_path("make").is_some() || std::env::var("CMAKE_GENERATOR").is_ok())
            }
            Tool::CMake => on_path("cmake").is_some(),
            Tool::GoogleTest => {
                let mut prefixes = vec![PathBuf::from("/usr"), PathBuf::from("/usr/local")];
                for variable in ["GTEST_ROOT", "CMAKE_PREFIX_PATH"] {
                    prefixes.extend(std::env::var_os(variable).map(PathBuf::from));
                }
                prefixes.iter().any(|prefix| prefix.join("include/gtest/gtest.h").exists())
            }
            Tool::ClangFormat => clang_format(project).is_some(),
            Tool::Valgrind => on_path("valgrind").is_some(),
            Tool::PkgConfig => on_path("pkg-config").is_some(),
            Tool::Binutils => on_path("nm").is_some() && on_path("readelf").is_some(),
            // `ompi_info` tells Open MPI from other implementations, whose `mpirun` has other
            // options.
            Tool::Mpi => ["mpirun", "mpicxx", "ompi_info"].iter().all(|name| on_path(name).is_some()),
            Tool::Mono => on_path("mcs").is_some() && on_path("mono").is_some(),
            Tool::MonoDevel => {
                Tool::Mono.is_there(project)
                    && [NETSTANDARD, CECIL].iter().all(|file| Path::new(file).exists())
            }
            Tool::Zip => on_path("zip").is_some() && on_path("unzip").is_some(),
            Tool::Shells => SHELLS.iter().all(|name| on_path(name).is_some()),
            Tool::Abigail => on_path("abidw").is_some() && on_path("abidiff").is_some(),
            Tool::Clang => on_path("clang++").is_some(),
            Tool::CrossCxx => on_path(&format!("{}g++", cross::PREFIX)).is_some(),
            Tool::CrossRust => cross::rustc(project).is_some(),
            Tool::Emulator => cross::emulator().is_some(),
            Tool::Doxygen => on_path("doxygen").is_some(),
            Tool::Chromium => on_path("chromium").is_some(),
            Tool::RustSources => has_sources(),
            Tool::Mingw => on_path("x86_64-w64-mingw32-g++-posix").is_some(),
            Tool::Wine => wine().is_some(),
            Tool::Musl => on_path("musl-gcc").is_some(),
            Tool::RustWithSources => on_path(CLANG_OF_RUST).is_some() && has_sources(),
            Tool::Mmdebstrap => on_path("mmdebstrap").is_some(),
            Tool::Rpm => on_path("rpm").is_some(),
            Tool::Lintian => on_path("lintian").is_some(),
        }
    }
}

/// Ensures that the tools are available. The error lists the packages to install, unless the
/// project may and does install them.
pub fn need(project: &Project, tools: &[Tool]) -> Result<()> {
    // Only one apt-get can run at a time.
    static LOOKING: Mutex<()> = Mutex::new(());
    let _alone = alone(&LOOKING);
    let missing =
        |project| tools.iter().copied().filter(|tool| !tool.is_there(project)).collect::<Vec<Tool>>();
    let absent = missing(project);
    if absent.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = absent.iter().map(|tool| tool.name()).collect();
    let packages: Vec<&str> = absent.iter().flat_map(|tool| tool.packages()).copied().collect();
    let is_foreign = packages.iter().any(|package| package.ends_with(&format!(":{}", cross::DEBIAN)));
    let mut install = format!("apt-get install {}", packages.join(" "));
    if is_foreign {
        install =
            format!("dpkg --add-architecture {} && sudo apt-get update && sudo {install}", cross::DEBIAN);
    }
    if !(project.installs
        && is_root()
        && Path::new("/etc/debian_version").exists()
        && on_path("apt-get").is_some())
    {
        bail!("Missing: {}.\nOn Debian and Ubuntu: sudo {install}", names.join(", "));
    }
    project.part(&format!("installing {} (apt-get)", names.join(", ")), || {
        let apt = || project.run("apt-get").env("DEBIAN_FRONTEND", "noninteractive");
        if is_foreign {
            project.run("dpkg").args(["--add-architecture", cross::DEBIAN]).go()?;
        }
        // A failed update is not an error yet: older package lists may suffice.
        let updated = apt().args(["update", "-q"]).go();
        let install = apt().args(["install", "-q", "-y", "--no-install-recommends"]).args(&packages).go();
        install.and(updated).map(drop)
    })?;
    if let Some(tool) = missing(project).first() {
        bail!("`{install}` succeeded, but {} still cannot be found.", tool.name());
    }
    Ok(())
}

/// Finds clang-format in the right version.
pub fn clang_format(project: &Project) -> Option<String> {
    let names = [format!("clang-format-{CLANG_FORMAT_VERSION}"), "clang-format".to_owned()];
    let version = format!("version {CLANG_FORMAT_VERSION}.");
    let fits = |name: &String| {
        on_path(name).is_some()
            && project.run(name).arg("--version").silent().output().is_ok_and(|text| text.contains(&version))
    };
    names.into_iter().find(fits)
}

fn has_sources() -> bool {
    [DEBIAN_CARGO, DEBIAN_RUSTC, STANDARD_LIBRARY].iter().all(|file| Path::new(file).exists())
}

/// Finds Wine for 64-bit programs, which Debian keeps off the path without its 32-bit part.
pub fn wine() -> Option<String> {
    let names = ["wine64", "wine"].into_iter().filter_map(on_path);
    let mut found = names.chain([PathBuf::from("/usr/lib/wine/wine64")]).filter(|program| program.exists());
    found.next().map(|program| program.display().to_string())
}

/// Returns `PATH` with a folder in front.
pub fn path_with(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = folder.as_os_str().to_owned();
    all.push(":");
    all.push(path);
    all
}

/// Returns the path of a program, if it is on `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}
