//! The library as if it were installed: target/dist with include/, lib/, CMake package and pkg-config file; and, where it is asked
//! for, the command-line tool, bin/cntk-reader, with its manual pages and completions under share/.

use crate::cmake::install;
use crate::header;
use crate::portable::{self, Library};
use crate::project::{Project, empty_folder};
use crate::tools::{self, Tool};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// An installed library.
#[derive(Clone)]
pub struct Dist {
    /// Its prefix.
    pub folder: PathBuf,
    /// Its version.
    pub version: String,
    /// The number of its ABI.
    pub abi: String,
}

impl Dist {
    /// The name that programs are linked against.
    pub fn soname(&self) -> String {
        format!("libcntk_reader.so.{}", self.abi)
    }

    /// The shared library.
    pub fn library(&self) -> PathBuf {
        self.folder.join("lib").join(format!("libcntk_reader.so.{}", self.version))
    }
}

/// Builds the library in release mode and installs it into target/dist.
pub fn build(project: &Project) -> Result<Dist> {
    project.cargo("build").args(["--release", "--package", "cntk-reader", "--lib"]).go()?;
    tools::need(project, &[Tool::Cxx, Tool::Binutils])?;
    let dist =
        Dist { folder: project.target.join("dist"), version: version(project)?, abi: header::abi(project)? };
    empty_folder(&dist.folder)?;
    headers(project, &dist)?;
    libraries(project, &dist)?;
    package(project, &dist)?;
    Ok(dist)
}

/// Builds the command-line tool and installs it beside the library, with its manual pages and completions.
///
/// It has a target folder of its own: its dependencies enable features of crates that the library has too, so in one folder
/// either would be built anew after the other.
pub fn tool(project: &Project, dist: &Dist) -> Result<()> {
    let target = project.target.join("tool");
    let build = project.cargo("build").args(["--release", "--package", "cntk-reader-cli", "--target-dir"]);
    build.arg(&target).go()?;
    let tool = dist.folder.join("bin/cntk-reader");
    install(&target.join("release/cntk-reader"), &tool)?;
    let share = dist.folder.join("share");
    project.run(&tool.to_string_lossy()).arg("man").arg(share.join("man/man1")).go()?;
    for (shell, path) in [
        ("bash", "bash-completion/completions/cntk-reader"),
        ("zsh", "zsh/site-functions/_cntk-reader"),
        ("fish", "fish/vendor_completions.d/cntk-reader.fish"),
    ] {
        let text = project.run(&tool.to_string_lossy()).args(["completions", shell]).output()?;
        let path = share.join(path);
        std::fs::create_dir_all(path.parent().context("a path has a folder")?)?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// The library's version as Cargo knows it.
fn version(project: &Project) -> Result<String> {
    let metadata = project.cargo("metadata").args(["--no-deps", "--format-version=1"]).output()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.into_iter().find(|package| package["name"] == "cntk-reader");
    let version = package.and_then(|package| package["version"].as_str());
    Ok(version.context("cargo does not know the package cntk-reader")?.to_owned())
}

fn headers(project: &Project, dist: &Dist) -> Result<()> {
    let (from, to) = (project.path("include"), dist.folder.join("include"));
    for name in ["cntk_reader.h", "cntk_reader.hpp"] {
        install(&from.join(name), &to.join(name))?;
    }
    // The parts that cntk_reader.hpp includes.
    for part in std::fs::read_dir(from.join("cntk_reader"))? {
        let part = part?.path();
        install(&part, &to.join("cntk_reader").join(part.file_name().context("a file has a name")?))?;
    }
    Ok(())
}

fn libraries(project: &Project, dist: &Dist) -> Result<()> {
    let (from, to) = (project.target.join("release"), dist.folder.join("lib"));
    install(&from.join("libcntk_reader.a"), &to.join("libcntk_reader.a"))?;
    let shared = link(project, dist, &from)?;
    install(&shared, &dist.library())?;
    let file = dist.library();
    let file = file.file_name().context("a library has a name")?;
    std::os::unix::fs::symlink(file, to.join(dist.soname()))?;
    std::os::unix::fs::symlink(dist.soname(), to.join("libcntk_reader.so"))?;
    Ok(())
}

/// Links the shared library again, so that it loads on older systems than this one.
fn link(project: &Project, dist: &Dist, from: &Path) -> Result<PathBuf> {
    let (made, scratch) = (from.join("libcntk_reader.so"), project.target.join("xtask/dist"));
    std::fs::create_dir_all(&scratch)?;
    let symbols = project.run("nm").args(["-D", "--defined-only", "--format=posix"]).arg(&made).output()?;
    let exports = symbols.lines().filter_map(|line| Some(line.split_whitespace().next()?.to_owned()));
    let exports: Vec<String> = exports.collect();
    let compat = scratch.join("newer_names.o");
    let compiler = portable::compiler();
    let run = project.run(&compiler).args(["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"]);
    let run = run.args(["-ffunction-sections", "-c", "dropin/compat/newer_names.cpp", "-o"]);
    run.arg(&compat).go()?;
    let mut inputs = vec![format!("-Wl,-soname,{}", dist.soname())];
    inputs.extend(exports.iter().map(|name| format!("-Wl,-u,{name}")));
    inputs.extend([portable::text(&from.join("libcntk_reader.a"))?, portable::text(&compat)?]);
    let file = scratch.join("libcntk_reader.so");
    let library = Library { file: &file, inputs, exports: &exports, host: None };
    library.link(project, &compiler, &scratch)?;
    portable::check(project, &file, None)?;
    Ok(file)
}

/// CMake package and pkg-config file, from the templates in cmake/.
fn package(project: &Project, dist: &Dist) -> Result<()> {
    let templates = project.path("cmake");
    for entry in std::fs::read_dir(&templates).with_context(|| format!("reading {}", templates.display()))? {
        let path = entry?.path();
        let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        let name = name.strip_suffix(".in").unwrap_or(&name);
        let folder = match Path::new(name).extension().and_then(|extension| extension.to_str()) {
            Some("cmake") => dist.folder.join("lib/cmake/cntk_reader"),
            Some("pc") => dist.folder.join("lib/pkgconfig"),
            _ => continue,
        };
        std::fs::create_dir_all(&folder)?;
        let text = fill(&std::fs::read_to_string(&path)?, dist);
        ensure!(!text.contains('@'), "{} has a placeholder that is not known", path.display());
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// Fills in the placeholders of a template.
fn fill(template: &str, dist: &Dist) -> String {
    template.replace("@VERSION@", &dist.version).replace("@ABI_VERSION@", &dist.abi)
}
