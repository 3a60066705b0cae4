//! The wheel for 64-bit ARM, by a cross compiler. Unlike the one for x86-64 it is not linked for older systems than those of the
//! compiler's C library: its name has the version of glibc that the programs in it need.

use super::{backend, packed};
use crate::dist;
use crate::project::Project;
use crate::tools::on_path;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

const TARGET: &str = "aarch64-unknown-linux-gnu";

/// What the names of Debian's cross compiler and its tools begin with.
const PREFIX: &str = "aarch64-linux-gnu-";

/// Builds the wheel into target/wheel; runs the tool in it where there is an emulator.
pub fn build(project: &Project) -> Result<PathBuf> {
    let [compiler, archiver, reader, strip] =
        ["gcc", "ar", "readelf", "strip"].map(|tool| format!("{PREFIX}{tool}"));
    ensure!(
        on_path(&compiler).is_some(),
        "There is no {compiler}. On Debian and Ubuntu: sudo apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
    );
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let library = project.run(&rustc).args(["--print", "target-libdir", "--target", TARGET]).output()?;
    ensure!(
        Path::new(library.trim()).exists(),
        "{rustc} has no library for {TARGET}. With rustup: rustup target add {TARGET}. Or set RUSTC to another compiler that \
         has it."
    );
    let target = project.target.join("aarch64");
    project.part("library and tool for aarch64, release mode", || {
        let cargo = dist::release(project, "build").args([
            "--package",
            "cntk-reader",
            "--package",
            "cntk-reader-cli",
        ]);
        let cargo = cargo.args(["--lib", "--bins", "--target", TARGET, "--target-dir"]).arg(&target);
        let cargo = cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", &compiler);
        let cargo = cargo.env("CC_aarch64_unknown_linux_gnu", &compiler);
        cargo.env("AR_aarch64_unknown_linux_gnu", &archiver).go()
    })?;
    let built = target.join(TARGET).join("release");
    let (library, tool) = (built.join("libcntk_reader.so"), built.join("cntk-reader"));
    let version = glibc(project, &reader, &library)?.max(glibc(project, &reader, &tool)?);
    run(project, &tool)?;
    let platform = format!("manylinux_2_{version}_aarch64");
    let backend = backend(project)?.arg("--library").arg(&library).arg("--tool").arg(&tool);
    packed(project, backend.args(["--platform", &platform, "--strip", &strip]))
}

/// The second number of the oldest glibc that a program or library runs with; 17 at least.
fn glibc(project: &Project, reader: &str, file: &Path) -> Result<u32> {
    let versions = project.run(reader).args(["--version-info", "--wide"]).arg(file).output()?;
    let asked =
        versions.lines().filter_map(|line| line.split_once("Name: GLIBC_2.")?.1.split_whitespace().next());
    let asked = asked.filter_map(|version| version.split('.').next()?.parse::<u32>().ok());
    let newest = asked.max().with_context(|| format!("{} asks for no version of glibc", file.display()))?;
    Ok(newest.max(17))
}

/// Runs the tool under an emulator, and says so where there is none.
fn run(project: &Project, tool: &Path) -> Result<()> {
    let Some(emulator) =
        ["qemu-aarch64-static", "qemu-aarch64"].into_iter().find(|name| on_path(name).is_some())
    else {
        println!("  not run: there is no qemu-aarch64 (Debian: qemu-user-static)");
        return Ok(());
    };
    let digits = project.path("examples/data/digits.train.ctf");
    let run = project.run(emulator).args(["-L", "/usr/aarch64-linux-gnu"]).arg(tool).arg("info").arg(digits);
    let shown = run.output()?;
    ensure!(shown.contains("1,437 sequences"), "The tool printed under {emulator}:\n{shown}");
    Ok(())
}
