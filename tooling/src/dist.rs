//! Installs the library into target/dist, with include/, lib/, CMake package and pkg-config file,
//! and on request the command-line tool bin/cntk-reader, with its manual pages and completions
//! under share/.

use crate::cmake::install;
use crate::joint;
use crate::portable::{self, Age, Library};
use crate::project::{Project, alone, empty_folder};
use crate::run::Run;
use crate::tools::{self, Tool};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The C header for programs, below the root.
pub const HEADER: &str = "include/cntk_reader.h";

/// The C header for CNTK's modules, which may change at any time.
pub const HOST_HEADER: &str = "include/cntk_reader_host.h";

/// Where CMake package and pkg-config file find libraries and headers.
pub struct Layout<'a> {
    /// The folder of the libraries below the prefix.
    pub lib: &'a str,
    /// The prefix; without one, the installed tree may be moved.
    pub prefix: Option<&'a str>,
}

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
    /// Returns the name that programs are linked against.
    pub fn soname(&self) -> String {
        format!("libcntk_reader.so.{}", self.abi)
    }

    /// Returns the path of the shared library.
    pub fn library(&self) -> PathBuf {
        self.folder.join("lib").join(format!("libcntk_reader.so.{}", self.version))
    }
}

/// A cargo command in release mode. Panic messages and debug information contain paths of source
/// files, so the folders of this machine are removed from them: the checkout, and cargo's registry.
pub fn release(project: &Project, command: &str) -> Run {
    project.cargo(command).arg("--release").envs(&release_variables(project))
}

/// The environment of [`release`]. Cargo commands with the same variables share compiled code.
pub fn release_variables(project: &Project) -> Vec<(&'static str, String)> {
    release_variables_with(project, &[])
}

/// [`release_variables`] with more flags of the Rust compiler.
pub fn release_variables_with(project: &Project, more: &[&str]) -> Vec<(&'static str, String)> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.into_iter().flat_map(|home| std::fs::read_dir(home.join("registry/src"))).flatten();
    let mut flags: Vec<String> = match std::env::var("CARGO_ENCODED_RUSTFLAGS") {
        Ok(encoded) => encoded.split('\x1f').map(str::to_owned).collect(),
        Err(_) => {
            std::env::var("RUSTFLAGS").unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        }
    };
    flags.extend(
        registries.flatten().map(|folder| format!("--remap-path-prefix={}=", folder.path().display())),
    );
    flags.push(format!("--remap-path-prefix={}=cntk-reader", project.root.display()));
    flags.extend(more.iter().map(|flag| (*flag).to_owned()));
    flags.retain(|flag| !flag.is_empty());
    let mut variables = vec![("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))];
    if project.quick {
        // Tests link the library that programs get, so its arithmetic is checked, too.
        let settings = [
            ("CARGO_PROFILE_RELEASE_LTO", "off"),
            // Compiling with optimization takes longer than it saves the tests.
            ("CARGO_PROFILE_RELEASE_OPT_LEVEL", if project.long { "1" } else { "0" }),
            ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
            ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true"),
            ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "true"),
            ("CARGO_PROFILE_RELEASE_INCREMENTAL", "true"),
        ];
        variables.extend(settings.map(|(name, value)| (name, value.to_owned())));
    }
    variables
}

/// Builds the static library in release mode, and returns its path. The shared library and the
/// modules for CNTK are linked from it.
pub fn archive(project: &Project) -> Result<PathBuf> {
    if project.quick {
        joint::build(project)?;
    } else {
        let build = release(project, "rustc").args(["--package", "cntk-reader-clib", "--lib"]);
        build.args(["--crate-type", "staticlib"]).go()?;
    }
    Ok(project.release_folder().join("libcntk_reader_clib.a"))
}

/// Builds the library in release mode and installs it into target/dist, once per process: other
/// steps may be using it.
pub fn build(project: &Project) -> Result<Dist> {
    /// The installed libraries, and whether each was built quickly.
    static BUILT: Mutex<Vec<(Dist, bool)>> = Mutex::new(Vec::new());
    let mut built = alone(&BUILT);
    let folder = project.target.join("dist");
    if let Some((dist, _)) =
        built.iter().find(|(dist, quick)| dist.folder == folder && *quick == project.quick)
    {
        return Ok(dist.clone());
    }
    built.retain(|(dist, _)| dist.folder != folder);
    let dist = install_all(project, folder)?;
    built.push((dist.clone(), project.quick));
    Ok(dist)
}

fn install_all(project: &Project, folder: PathBuf) -> Result<Dist> {
    let archive = archive(project)?;
    tools::need(project, &[Tool::Cxx, Tool::Binutils])?;
    let dist = Dist { folder, version: version(project)?, abi: abi(project)? };
    // The tool stays: it takes longer to build, and only some commands do so.
    for part in ["include", "lib"] {
        empty_folder(&dist.folder.join(part))?;
    }
    headers(project, &dist)?;
    libraries(project, &dist, &archive)?;
    package(project, &dist, &Layout { lib: "lib", prefix: None }, &dist.folder.join("lib"))?;
    Ok(dist)
}

/// Builds the command-line tool, and returns its path. It runs on systems older than this one.
pub fn tool_program(project: &Project) -> Result<PathBuf> {
    tools::need(project, &[Tool::Cxx, Tool::Binutils])?;
    let scratch = project.target.join("xtask/tool");
    std::fs::create_dir_all(&scratch)?;
    let compiler = project.compiler();
    let stubs = portable::all_stubs(project, &compiler, &scratch)?;
    let objects = [newer_names(project, &compiler, &scratch)?, start(project, &compiler, &scratch)?];
    let mut options = vec!["-nostartfiles".to_owned(), format!("-L{}", stubs.display())];
    options.extend(objects.iter().map(|object| object.display().to_string()));
    options.extend(["-lgcc".to_owned(), "-l:libc_nonshared.a".to_owned()]);
    let build = release(project, "rustc").args(["--package", "cntk-reader-cli", "--bin", "cntk-reader"]);
    build.arg("--").args(options.iter().map(|option| format!("-Clink-arg={option}"))).go()?;
    let built = project.release_folder().join("cntk-reader");
    portable::check(project, &built, None, Age::Gcc5)?;
    Ok(built)
}

/// Builds the command-line tool and installs it beside the library, with its manual pages and
/// completions.
pub fn tool(project: &Project, dist: &Dist) -> Result<()> {
    let built = tool_program(project)?;
    let tool = dist.folder.join("bin/cntk-reader");
    install(&built, &tool)?;
    share(&dist.folder.join("share"), || project.run_built(&tool))
}

/// Writes the manual pages and completions of the tool, which `run` prepares to run, into an empty
/// folder.
pub fn share(folder: &Path, run: impl Fn() -> Run) -> Result<()> {
    empty_folder(folder)?;
    run().arg("man").arg(folder.join("man/man1")).go()?;
    for (shell, path) in [
        ("bash", "bash-completion/completions/cntk-reader"),
        ("zsh", "zsh/site-functions/_cntk-reader"),
        ("fish", "fish/vendor_completions.d/cntk-reader.fish"),
    ] {
        let text = run().args(["completions", shell]).output()?;
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().context("a path has a folder")?)?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// Returns the library's version according to Cargo.
pub fn version(project: &Project) -> Result<String> {
    let metadata = project.cargo("metadata").args(["--no-deps", "--format-version=1"]).output()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.into_iter().find(|package| package["name"] == "cntk-reader");
    let version = package.and_then(|package| package["version"].as_str());
    Ok(version.context("cargo does not know the package cntk-reader")?.to_owned())
}

/// Returns the ABI number in the committed header.
pub fn abi(project: &Project) -> Result<String> {
    let text = std::fs::read_to_string(project.path(HEADER)).with_context(|| format!("reading {HEADER}"))?;
    let number = text.lines().find_map(|line| line.strip_prefix("#define CNTK_READER_ABI_VERSION "));
    Ok(number.with_context(|| format!("{HEADER} has no CNTK_READER_ABI_VERSION"))?.trim().to_owned())
}

/// Installs the headers.
pub fn headers(project: &Project, dist: &Dist) -> Result<()> {
    let (from, to) = (project.path("include"), dist.folder.join("include"));
    for name in ["cntk_reader.h", "cntk_reader_host.h", "cntk_reader.hpp"] {
        install(&from.join(name), &to.join(name))?;
    }
    // The headers that cntk_reader.hpp includes.
    for part in std::fs::read_dir(from.join("cntk_reader"))? {
        let part = part?.path();
        install(&part, &to.join("cntk_reader").join(part.file_name().context("a file has a name")?))?;
    }
    Ok(())
}

fn libraries(project: &Project, dist: &Dist, archive: &Path) -> Result<()> {
    let to = dist.folder.join("lib");
    install(archive, &to.join("libcntk_reader.a"))?;
    let shared = link(project, dist, archive)?;
    install(&shared, &dist.library())?;
    let file = dist.library();
    let file = file.file_name().context("a library has a name")?;
    std::os::unix::fs::symlink(file, to.join(dist.soname()))?;
    std::os::unix::fs::symlink(dist.soname(), to.join("libcntk_reader.so"))?;
    Ok(())
}

/// Builds the extension module of the Python package in release mode for this machine, and returns
/// its path.
pub fn extension(project: &Project) -> Result<PathBuf> {
    if project.quick {
        joint::build(project)?;
    } else {
        release(project, "build").args(["--package", "cntk-reader-python", "--lib"]).go()?;
    }
    Ok(project.release_folder().join("lib_native.so"))
}

/// Links the shared library so that it loads on systems older than this one.
fn link(project: &Project, dist: &Dist, archive: &Path) -> Result<PathBuf> {
    let scratch = project.target.join("xtask/dist");
    std::fs::create_dir_all(&scratch)?;
    let run = project.run(&project.binutil("nm")).args(["--extern-only", "--defined-only", "--format=posix"]);
    let symbols = run.arg(archive).output()?;
    let symbols = symbols.lines().filter_map(|line| line.split_whitespace().next());
    let mut exports: Vec<String> =
        symbols.filter(|name| name.starts_with("cntk_reader_")).map(str::to_owned).collect();
    exports.sort_unstable();
    let compiler = project.compiler();
    let compat = newer_names(project, &compiler, &scratch)?;
    let mut inputs = vec![format!("-Wl,-soname,{}", dist.soname())];
    inputs.extend(exports.iter().map(|name| format!("-Wl,-u,{name}")));
    inputs.extend([portable::text(archive)?, portable::text(&compat)?]);
    let file = scratch.join("libcntk_reader.so");
    let library =
        Library { file: &file, inputs, exports: &exports, host: None, age: Age::Gcc5, has_lines: true };
    library.link(project, &compiler, &scratch)?;
    portable::check(project, &file, None, Age::Gcc5)?;
    Ok(file)
}

/// Compiles the symbols that old systems lack to an object file in `scratch`.
fn newer_names(project: &Project, compiler: &str, scratch: &Path) -> Result<PathBuf> {
    compile(project, compiler, "dropin/compat/newer_names.cpp", scratch.join("newer_names.o"))
}

/// Compiles the start-up code of programs for old systems to an object file in `scratch`.
fn start(project: &Project, compiler: &str, scratch: &Path) -> Result<PathBuf> {
    compile(project, compiler, "dropin/compat/start.cpp", scratch.join("start.o"))
}

fn compile(project: &Project, compiler: &str, source: &str, object: PathBuf) -> Result<PathBuf> {
    let run = project.run(compiler).args(["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden"]);
    run.args(["-ffunction-sections", "-c", source, "-o"]).arg(&object).go()?;
    Ok(object)
}

/// Writes the CMake package and the pkg-config file into subfolders of `lib`, from the templates in
/// cmake/.
pub fn package(project: &Project, dist: &Dist, layout: &Layout<'_>, lib: &Path) -> Result<()> {
    let templates = project.path("cmake");
    for entry in std::fs::read_dir(&templates).with_context(|| format!("reading {}", templates.display()))? {
        let path = entry?.path();
        let name = path.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        let name = name.strip_suffix(".in").unwrap_or(&name);
        let folder = match Path::new(name).extension().and_then(|extension| extension.to_str()) {
            Some("cmake") => lib.join("cmake/cntk_reader"),
            Some("pc") => lib.join("pkgconfig"),
            _ => continue,
        };
        std::fs::create_dir_all(&folder)?;
        let text = fill(&std::fs::read_to_string(&path)?, dist, layout);
        ensure!(!text.contains('@'), "{} has a placeholder that is not known", path.display());
        std::fs::write(folder.join(name), text)?;
    }
    Ok(())
}

/// Fills in the placeholders of a template.
fn fill(template: &str, dist: &Dist, layout: &Layout<'_>) -> String {
    let up = layout.lib.split('/').map(|_| "..").collect::<Vec<_>>().join("/");
    let prefix = layout.prefix.map_or_else(|| format!("${{pcfiledir}}/../{up}"), str::to_owned);
    let values = [
        ("@VERSION@", &dist.version),
        ("@ABI_VERSION@", &dist.abi),
        ("@LIB@", &layout.lib.to_owned()),
        ("@UP@", &up),
        ("@PREFIX@", &prefix),
    ];
    values.into_iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}
