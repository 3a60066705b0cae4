//! Checks the wheel for Windows. Nothing here imports it: that takes a CPython for Windows.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tooling::project::Project;

/// The extension module in the wheel.
const MODULE: &str = "cntk_reader/_native.pyd";

/// Python's library with the stable ABI, which every CPython for Windows has.
const PYTHON: &str = "python3.dll";

/// The libraries of Windows that the module may need; others have to come with it.
const WINDOWS: [&str; 9] = [
    "advapi32.dll",
    "bcrypt.dll",
    "bcryptprimitives.dll",
    "dbghelp.dll",
    "kernel32.dll",
    "msvcrt.dll",
    "ntdll.dll",
    "userenv.dll",
    "ws2_32.dll",
];

/// The names of sets of Windows' functions begin like this.
const API_SET: &str = "api-ms-win-";

/// Writes the description of Python for Windows, which also says how the files of modules end.
pub fn configuration(project: &Project) -> Result<PathBuf> {
    let own = std::fs::read_to_string(project.path("python/pyo3.txt"))?;
    let file = project.target.join("platforms/pyo3-windows.txt");
    std::fs::create_dir_all(file.parent().context("a file has a folder")?)?;
    std::fs::write(&file, format!("{}\next_suffix=.pyd\n", own.trim_end()))?;
    Ok(file)
}

/// Checks the module of the unpacked wheel: Python finds its entry, and it needs the libraries of
/// Python's stable ABI and of Windows only, nothing of MinGW.
pub fn check(project: &Project, unpacked: &Path) -> Result<()> {
    let module = unpacked.join(MODULE);
    let headers = project.run("x86_64-w64-mingw32-objdump").arg("-p").arg(&module).output()?;
    let (_, exports) = headers.split_once("[Ordinal/Name Pointer] Table").context("a table of exports")?;
    ensure!(exports.contains("PyInit__native"), "{} is no module for Python.", module.display());
    let names = headers.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: "));
    // A library may have several tables of functions.
    let names: BTreeSet<String> = names.map(str::to_lowercase).collect();
    ensure!(names.contains(PYTHON), "{} does not load {PYTHON}.", module.display());
    let is_known =
        |name: &&String| *name == PYTHON || name.starts_with(API_SET) || WINDOWS.contains(&name.as_str());
    let foreign = names.iter().find(|name| !is_known(name));
    ensure!(
        foreign.is_none(),
        "{} needs {}, which neither Windows nor Python has.",
        module.display(),
        foreign.map_or("", |name| name)
    );
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    say!("  the module loads {names}; it was not imported: no CPython for Windows is here");
    Ok(())
}
