//! `package cinstall`: installs the library with cargo-c, as distributions of C libraries do, and
//! compares the result with target/dist.

use super::TARGET;
use crate::{Made, Packages, tools};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use tooling::consumers;
use tooling::dist::{self, Dist};
use tooling::project::{Project, empty_folder};

/// Newer versions need a newer Rust than the project's tools.
const VERSION: &str = "0.10.24+cargo-0.98.0";

/// Installs the library below target/packages/cinstall.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    let program = tools::from_crates(project, "cargo-c", VERSION)?.with_file_name("cargo-cinstall");
    let dist = project.part("library, release mode", || dist::build(project))?;
    let (root, time) = (packages.folder.join("root"), crate::commit(project)?.seconds);
    empty_folder(&root)?;
    let run = project.run(&program.to_string_lossy()).args(["cinstall", "--release"]);
    let run = run.args(["--package", "cntk-reader-clib", "--prefix", "/usr", "--libdir", "/usr/lib"]);
    let run = run.args(["--target", TARGET, "--destdir"]).arg(&root).env("SOURCE_DATE_EPOCH", time);
    let run = run.envs(&dist::release_variables(project)).env("CARGO_TARGET_DIR", &project.target);
    project.part("cargo cinstall", || run.go())?;

    let installed = root.join("usr");
    let headers = same_headers(&dist.folder.join("include"), &installed.join("include"))?;
    let expected = libraries(&dist.folder.join("lib"))?;
    let found = libraries(&installed.join("lib"))?;
    ensure!(found == expected, "cargo cinstall installs\n{found:#?}\ninstead of\n{expected:#?}");
    let scratch = project.target.join("packaging/cinstall");
    empty_folder(&scratch)?;
    let dist = Dist { folder: installed, ..dist };
    project.part("trial", || consumers::check_below(project, &dist, &root, &scratch))?;
    Ok(Made {
        files: Vec::new(),
        trials: vec![
            format!("The {headers} headers are those of target/dist, byte by byte."),
            "The names of libraries and pkg-config file are those of target/dist.".to_owned(),
            "The README's C++ program builds with the installed pkg-config file, and prints the README's \
             output."
                .to_owned(),
        ],
    })
}

/// Fails unless both folders have the same files. Returns their number.
fn same_headers(one: &Path, other: &Path) -> Result<usize> {
    let (names, others) = (files(one)?, files(other)?);
    ensure!(names == others, "The headers are\n{others:#?}\ninstead of\n{names:#?}");
    for name in &names {
        let (here, there) = (one.join(name), other.join(name));
        ensure!(std::fs::read(&here)? == std::fs::read(&there)?, "{} differs", there.display());
    }
    Ok(names.len())
}

/// Returns the names of libraries and pkg-config files. The file behind the links has the version
/// in its name in one case, and the number of the ABI in the other.
fn libraries(folder: &Path) -> Result<Vec<String>> {
    let mut names = files(folder)?;
    names.retain(|name| !name.starts_with("cmake/"));
    for name in &mut names {
        if name.starts_with("libcntk_reader.so.") && name.matches('.').count() > 2 {
            *name = "the shared library".to_owned();
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the files below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(one) = folders.pop() {
        for entry in std::fs::read_dir(&one).with_context(|| format!("reading {}", one.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder)?.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
