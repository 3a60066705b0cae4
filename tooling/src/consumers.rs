//! Uses an installed library as its users do: builds the C++ program in the README with CMake and
//! with pkg-config, and compares what it prints with the README.

use crate::cmake::Build;
use crate::dist::Dist;
use crate::document::blocks;
use crate::project::Project;
use crate::tools::{self, Tool};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// The project that [`check`] builds with CMake, below the root. `README_PROGRAM` is the path of
/// the program.
pub const CMAKE_PROJECT: &str = "xtask/consumers";

/// The programs of the README.
pub struct Readme {
    /// The one in C++.
    pub cpp: String,
    /// The one in Python.
    pub python: String,
    /// The output of both.
    pub output: String,
}

impl Readme {
    /// Reads the README.
    pub fn read(project: &Project) -> Result<Readme> {
        let text = std::fs::read_to_string(project.path("README.md"))?;
        let block = |language: &str| {
            let found = blocks(&text).into_iter().find(|block| block.language == language);
            let found = found.with_context(|| format!("The README has no block of {language}."))?;
            Ok::<String, anyhow::Error>(found.text.to_owned())
        };
        Ok(Readme { cpp: block("cpp")?, python: block("python")?, output: block("text")? })
    }

    /// Fails if `program` has not printed what the README says.
    pub fn expect(&self, program: &str, printed: &str) -> Result<()> {
        let expected = &self.output;
        ensure!(printed == expected, "{program} printed\n{printed}\ninstead of\n{expected}");
        Ok(())
    }
}

/// Builds the README's C++ program with CMake, with pkg-config, and with pkg-config and the static
/// library, and runs them. `scratch` is an existing folder.
pub fn check(project: &Project, dist: &Dist, scratch: &Path) -> Result<()> {
    let readme = Readme::read(project)?;
    let program = scratch.join("readme.cpp");
    std::fs::write(&program, &readme.cpp)?;
    let option = format!("-DREADME_PROGRAM={}", program.display());
    let folder = scratch.join("cmake");
    let build = Build::configure(project, dist, CMAKE_PROJECT, &folder.to_string_lossy(), &[&option])?;
    build.build(None)?;
    let mut built = vec![build.file("readme")];
    for is_static in [false, true] {
        built.push(by_pkg_config(project, dist, &program, is_static, None)?);
    }
    built.iter().try_for_each(|file| readme.expect(&file.display().to_string(), &start(project, file, dist)?))
}

/// Builds the README's C++ program with pkg-config against a library that was installed with
/// another root, and runs it.
pub fn check_below(project: &Project, dist: &Dist, root: &Path, scratch: &Path) -> Result<()> {
    let readme = Readme::read(project)?;
    let program = scratch.join("readme.cpp");
    std::fs::write(&program, &readme.cpp)?;
    let built = by_pkg_config(project, dist, &program, false, Some(root))?;
    readme.expect(&built.display().to_string(), &start(project, &built, dist)?)
}

/// Runs a program in the root, the base of the README's paths.
fn start(project: &Project, program: &Path, dist: &Dist) -> Result<String> {
    project.run_built(program).env("LD_LIBRARY_PATH", dist.folder.join("lib")).output()
}

/// Builds the program with the flags that pkg-config prints, whose absolute paths are below `root`.
fn by_pkg_config(
    project: &Project,
    dist: &Dist,
    program: &Path,
    is_static: bool,
    root: Option<&Path>,
) -> Result<PathBuf> {
    tools::need(project, &[Tool::Cxx, Tool::PkgConfig])?;
    let search = dist.folder.join("lib/pkgconfig");
    let mut ask = vec!["--cflags", "--libs", "cntk_reader"];
    if is_static {
        ask.push("--static");
    }
    let run = project.run("pkg-config").args(&ask).env("PKG_CONFIG_PATH", search);
    let run = match root {
        // Without it, pkg-config omits the system's own folders.
        Some(root) => run
            .env("PKG_CONFIG_SYSROOT_DIR", root)
            .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
            .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1"),
        None => run,
    };
    let flags = run.output()?;
    // A linker prefers the shared library if both exist.
    let archive = dist.folder.join("lib/libcntk_reader.a");
    let flags = flags.split_whitespace().map(|flag| match flag {
        "-lcntk_reader" if is_static => archive.to_string_lossy().into_owned(),
        flag => flag.to_owned(),
    });
    let output = program.with_extension(if is_static { "pkgconfig-static" } else { "pkgconfig" });
    project
        .run(&project.compiler())
        .arg("-std=c++17")
        .arg(program)
        .arg("-o")
        .arg(&output)
        .args(flags)
        .go()?;
    Ok(output)
}
