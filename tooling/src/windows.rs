//! The library installed for programs of Windows, as [`dist`] installs it for Linux, and programs
//! that use it, under Wine.

use crate::consumers::{CMAKE_PROJECT, Readme};
use crate::dist::{self, Dist, Layout};
use crate::platform::Builder;
use crate::project::{Project, empty_folder};
use crate::tools::{self, Tool};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Libraries of Windows that Rust's standard library needs.
const LIBRARIES: [&str; 6] = ["-lkernel32", "-lntdll", "-luserenv", "-lws2_32", "-ldbghelp", "-lbcrypt"];

/// The compiler; its other variant lacks C++ threads.
const CXX: &str = "x86_64-w64-mingw32-g++-posix";

/// Links the library, `bin/cntk_reader.dll` with its import libraries for MinGW and for Microsoft's
/// linker, and installs it with headers, CMake package and tool below the platform's target folder.
/// `built` is the folder of what cargo has built.
pub fn install(project: &Project, builder: &Builder<'_>, built: &Path) -> Result<Dist> {
    let folder = builder.folder().join("dist");
    empty_folder(&folder)?;
    let dist = Dist { folder, version: dist::version(project)?, abi: dist::abi(project)? };
    dist::headers(project, &dist)?;
    link(project, builder, &dist.folder, &built.join("libcntk_reader_clib.a"))?;
    let tool = dist.folder.join("bin/cntk-reader.exe");
    std::fs::copy(built.join("cntk-reader.exe"), &tool)?;
    builder.with_date(project.run("x86_64-w64-mingw32-strip")).arg(tool).go()?;
    let layout = Layout { lib: "lib", prefix: None };
    dist::package(project, &dist, &layout, &dist.folder.join("lib"))?;
    Ok(dist)
}

fn link(project: &Project, builder: &Builder<'_>, folder: &Path, archive: &Path) -> Result<()> {
    for part in ["bin", "lib"] {
        std::fs::create_dir_all(folder.join(part))?;
    }
    let nm = |options: &[&str], file: &Path| {
        project.run("x86_64-w64-mingw32-nm").arg("--format=posix").args(options).arg(file).output()
    };
    let symbols = nm(&["--extern-only", "--defined-only"], archive)?;
    let names = symbols.lines().filter_map(|line| line.split_whitespace().next());
    let mut names: Vec<&str> = names.filter(|name| name.starts_with("cntk_reader_")).collect();
    names.sort_unstable();
    ensure!(!names.is_empty(), "{} exports nothing.", archive.display());
    let definition = folder.join("lib/cntk_reader.def");
    std::fs::write(&definition, format!("LIBRARY cntk_reader.dll\nEXPORTS\n  {}\n", names.join("\n  ")))?;
    let library = folder.join("bin/cntk_reader.dll");
    let mingw = |program: &str| builder.with_date(project.run(&format!("x86_64-w64-mingw32-{program}")));
    let run = mingw("gcc").args(["-shared", "-static-libgcc", "-o"]);
    run.arg(&library).arg(&definition).arg(archive).args(LIBRARIES).go()?;
    // The C library's `fmaf` rounds wrongly: the processor's instruction has to be there instead.
    let names = nm(&[], &library)?;
    let wrong = names.lines().find(|line| line.starts_with("fmaf "));
    ensure!(wrong.is_none(), "{} has {}.", library.display(), wrong.unwrap_or_default());
    mingw("strip").arg(&library).go()?;
    // The names of its files are part of an import library, so they have no folders.
    for import in ["libcntk_reader.dll.a", "cntk_reader.lib"] {
        let run = mingw("dlltool").args(["--deterministic-libraries", "--temp-prefix", "cntk_reader"]);
        let run = run.args(["-D", "cntk_reader.dll", "-d", "cntk_reader.def", "-l", import]);
        run.folder(&folder.join("lib")).go()?;
    }
    Ok(())
}

/// Compiles a C++ program against the installed library, which is copied beside it. Its name has no
/// `.exe`.
pub fn compile(project: &Project, dist: &Dist, source: &Path, folder: &Path) -> Result<PathBuf> {
    empty_folder(folder)?;
    std::fs::copy(dist.folder.join("bin/cntk_reader.dll"), folder.join("cntk_reader.dll"))?;
    let name = source.file_stem().context("a source has a name")?;
    let program = folder.join(name);
    let run = project.run(CXX).args(["-std=c++17", "-O1", "-static", "-I"]);
    let run = run.arg(dist.folder.join("include")).arg(source).arg("-o").arg(program.with_extension("exe"));
    run.arg(dist.folder.join("lib/libcntk_reader.dll.a")).go()?;
    std::fs::rename(program.with_extension("exe"), &program)?;
    Ok(program)
}

/// Builds the README's program with CMake, and compares what it prints under Wine.
pub fn check_readme(project: &Project, builder: &Builder<'_>, dist: &Dist, folder: &Path) -> Result<()> {
    tools::need(project, &[Tool::CMake])?;
    let readme = Readme::read(project)?;
    empty_folder(folder)?;
    let source = folder.join("readme.cpp");
    std::fs::write(&source, &readme.cpp)?;
    let cmake = project.run("cmake").arg("-S").arg(project.path(CMAKE_PROJECT)).arg("-B").arg(folder);
    let cmake = cmake.args(["-DCMAKE_SYSTEM_NAME=Windows", "-DCMAKE_EXE_LINKER_FLAGS=-static"]);
    let cmake = cmake.arg(format!("-DCMAKE_CXX_COMPILER={CXX}"));
    // Otherwise CMake looks for packages in the compiler's own folders alone.
    let cmake =
        cmake.arg(format!("-Dcntk_reader_DIR={}", dist.folder.join("lib/cmake/cntk_reader").display()));
    cmake.arg(format!("-DREADME_PROGRAM={}", source.display())).go()?;
    project.run("cmake").arg("--build").arg(folder).go()?;
    std::fs::copy(dist.folder.join("bin/cntk_reader.dll"), folder.join("cntk_reader.dll"))?;
    let printed = builder.run(&folder.join("readme.exe")).output()?.replace("\r\n", "\n");
    readme.expect("The program", &printed)
}
