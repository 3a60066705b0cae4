//! Builds the wheel for one free-threaded Python: such builds have no stable ABI before version
//! 3.15.

use super::{OLDEST, licences, maturin, unpack, wheels};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};

/// Prints the version of a Python, and 1 if it is free-threaded.
const ABOUT: &str = "\
import sys, sysconfig
print('%d.%d' % sys.version_info[:2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)";

/// Fails if importing the package has enabled the global lock.
const IS_FREE: &str = "import sys, cntk_reader; sys.exit(sys._is_gil_enabled())";

/// Builds the wheel for this Python into target/free-threaded. The Python needs NumPy for the
/// trial.
pub fn build(project: &Project, target: &str, python: &Path) -> Result<PathBuf> {
    let run = || project.run(&python.to_string_lossy());
    let about = run().args(["-c", ABOUT]).output()?;
    let (version, is_free) = about.trim().split_once(' ').context("a version of Python")?;
    ensure!(
        is_free == "1",
        "{} is Python {version} with a global lock: build without --free-threaded",
        python.display()
    );
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
    let run_maturin = maturin(project, true)?.env("PYO3_CONFIG_FILE", &configuration);
    let run_maturin = run_maturin.args(["build", "--release", "--interpreter"]).arg(python);
    let run_maturin = run_maturin.args(["--zig", "--auditwheel", "check", "--compatibility", OLDEST]);
    let run_maturin = run_maturin.arg("--out").arg(&folder);
    project.part(&format!("wheel for free-threaded Python {version}, release mode"), || run_maturin.go())?;
    let wheel = wheels(&folder)?.pop().context("maturin has made no wheel")?;
    let tag = version.replace('.', "");
    let name = wheel.file_name().context("a wheel has a name")?.to_string_lossy();
    ensure!(
        name.contains(&format!("-cp{tag}-cp{tag}t-")),
        "{name} is not for free-threaded Python {version}"
    );
    let unpacked = folder.join("unpacked");
    unpack(project, &wheel, &unpacked)?;
    project.part("the package in it, without the global lock", || {
        run().env("PYTHONPATH", &unpacked).args(["-c", IS_FREE]).go()
    })?;
    Ok(wheel)
}
