//! Builds the wheel for one free-threaded Python: such builds have no stable ABI before version
//! 3.15. Without an interpreter, the wheel is checked but not run.

use super::{OLDEST, auditwheel, licences, maturin, twine, unpack, wheels, with_extension};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};

/// Prints the version of a Python, and 1 if it is free-threaded.
const ABOUT: &str = "\
import sys, sysconfig
print('%d.%d' % sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)";

/// Fails if importing the package has enabled the global lock.
const IS_FREE: &str = "import sys, cntk_reader; sys.exit(sys._is_gil_enabled())";

/// A function that only modules for free-threaded Pythons call. Modules for a single other Python
/// count references by themselves, and those for all Pythons since 3.9 call `Py_DecRef`.
const RELEASE: &str = "_Py_DecRef";

/// Builds the wheel into target/free-threaded, for a Python, which needs NumPy for the trial, or
/// for a version such as `3.14`.
pub fn build(project: &Project, target: &str, python: &Path) -> Result<PathBuf> {
    let named = python.to_string_lossy();
    let is_version = named.starts_with("3.") && named[2..].chars().all(|c| c.is_ascii_digit());
    let run = || project.run(&named);
    let version = if is_version {
        named.clone().into_owned()
    } else {
        version(&run().args(["-c", ABOUT]).output()?, python)?
    };
    let folder = project.target.join("free-threaded");
    empty_folder(&folder)?;
    licences::write(project, target)?;
    // Replaces python/pyo3.txt, which asks for the stable ABI.
    let configuration = folder.join("pyo3.txt");
    let text = format!(
        "implementation=CPython\nversion={version}\ntarget_abi=CPython-free_threaded-{version}\nshared=true\n\
         build_flags=Py_GIL_DISABLED\nsuppress_build_script_link_lines=false\n"
    );
    std::fs::write(&configuration, text)?;
    let interpreter = if is_version { format!("python{version}t") } else { named.clone().into_owned() };
    let run_maturin = maturin(project, true)?.env("PYO3_CONFIG_FILE", &configuration);
    let run_maturin = run_maturin.args(["build", "--release", "--interpreter", &interpreter]);
    let run_maturin = run_maturin.args(["--zig", "--auditwheel", "check", "--compatibility", OLDEST]);
    let run_maturin = run_maturin.arg("--out").arg(&folder);
    project.part(&format!("wheel for free-threaded Python {version}, release mode"), || run_maturin.go())?;
    let wheel = wheels(&folder)?.pop().context("maturin has made no wheel")?;
    let unpacked = folder.join("unpacked");
    unpack(project, &wheel, &unpacked)?;
    check(project, &wheel, &unpacked, &version)?;
    if is_version {
        say!("  the package was not run: no interpreter was named");
        return Ok(wheel);
    }
    project.part("the package in it, without the global lock", || {
        run().env("PYTHONPATH", &unpacked).args(["-c", IS_FREE]).go()
    })?;
    Ok(wheel)
}

/// Returns the version of a Python that has described itself, and fails if it has a global lock.
fn version(about: &str, python: &Path) -> Result<String> {
    let (version, is_free) = about.trim().split_once(' ').context("a version of Python")?;
    ensure!(
        is_free == "1",
        "{} is Python {version} with a global lock: build without --free-threaded",
        python.display()
    );
    Ok(version.to_owned())
}

/// Checks the wheel's name and description, and that its module is for free-threaded Pythons.
fn check(project: &Project, wheel: &Path, unpacked: &Path, version: &str) -> Result<()> {
    let tag = version.replace('.', "");
    let name = wheel.file_name().context("a wheel has a name")?.to_string_lossy();
    ensure!(
        name.contains(&format!("-cp{tag}-cp{tag}t-")),
        "{name} is not for free-threaded Python {version}"
    );
    twine(project, wheel)?;
    auditwheel(project, wheel, &format!("{OLDEST}_x86_64"))?;
    let module = with_extension(&unpacked.join("cntk_reader"), "so")?.pop();
    let module = module.with_context(|| format!("{name} has no extension module"))?;
    let asked = project.run("nm").args(["--dynamic", "--undefined-only", "--format=posix"]);
    let asked = asked.arg(&module).output()?;
    let is_asked = |symbol: &str| asked.lines().any(|line| line.split(' ').next() == Some(symbol));
    ensure!(
        is_asked(RELEASE),
        "{} does not call {RELEASE}, so it is not for free-threaded Pythons",
        module.display()
    );
    Ok(())
}
