//! Python environments with packages from PyPI.

use crate::cmake::install;
use crate::project::{Project, alone};
use crate::{dist, tools};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Packages that tests and examples need. The step `torch` tests what needs PyTorch or JAX.
const PACKAGES: [&str; 6] = ["numpy", "scipy", "pandas", "pyarrow", "fsspec", "tqdm"];

/// The oldest supported Python.
const OLDEST: &str = "3.9";

/// Returns a Python with [`PACKAGES`], in target/python/venv, or the reason why there is none.
pub fn environment(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    environment_with(project, "venv", &PACKAGES)
}

/// Returns a Python with these packages, in a folder below target/python, or the reason why there
/// is none.
pub fn environment_with(
    project: &Project,
    name: &str,
    packages: &[&str],
) -> Result<std::result::Result<PathBuf, String>> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = alone(&MAKING);
    let folder = project.target.join("python");
    let python = folder.join(name).join("bin/python");
    let ready = folder.join(if name == "venv" { "ready".to_owned() } else { format!("ready-{name}") });
    let wanted = packages.join(" ");
    if std::fs::read_to_string(&ready).is_ok_and(|installed| installed == wanted) {
        return Ok(Ok(python));
    }
    let test = format!("import sys; sys.exit(sys.version_info < ({}))", OLDEST.replace('.', ", "));
    if tools::on_path("python3").is_none()
        || project.run("python3").args(["-c", &test]).silent().go().is_err()
    {
        return Ok(Err(format!("there is no python3, or it is older than {OLDEST}")));
    }
    std::fs::create_dir_all(&folder)?;
    let made = project.part(&format!("Python with {}", packages.join(", ")), || {
        make(project, "python3", &folder.join(name))?;
        pip(project, &python, packages.iter().copied())
    });
    match made {
        Ok(()) => {
            std::fs::write(ready, wanted)?;
            Ok(Ok(python))
        }
        Err(error) => {
            // The cause is in the last lines of pip's output.
            let text = format!("{error:#}");
            let line = text.lines().rfind(|line| line.starts_with("ERROR")).unwrap_or(&text);
            Ok(Err(format!("Python's packages cannot be installed: {line}")))
        }
    }
}

/// Whether the environment exists.
pub fn is_installed(project: &Project) -> bool {
    project.target.join("python/ready").exists()
}

/// Returns the environment variables for a Python program that uses the package in the checkout.
/// Builds the extension module into the package.
pub fn variables(project: &Project) -> Result<[(&'static str, PathBuf); 3]> {
    install(&dist::extension(project)?, &project.path("python/cntk_reader/_native.abi3.so"))?;
    let [kept, folder] = bytecode(project);
    Ok([("PYTHONPATH", project.path("python")), kept, folder])
}

/// Environment variables that make Python keep its bytecode outside the checkout. Otherwise each
/// process would spend 4 s on compiling PyTorch.
pub fn bytecode(project: &Project) -> [(&'static str, PathBuf); 2] {
    [
        ("PYTHONDONTWRITEBYTECODE", PathBuf::new()),
        ("PYTHONPYCACHEPREFIX", project.target.join("python/bytecode")),
    ]
}

/// Creates an empty environment in a folder.
pub fn make(project: &Project, python: &str, folder: &Path) -> Result<()> {
    // `venv --clear` would empty the target of a link.
    if folder.symlink_metadata().is_ok() {
        std::fs::remove_dir_all(folder)?;
    }
    project.run(python).args(["-m", "venv"]).arg(folder).go().map(drop)
}

/// Runs `pip install`.
pub fn pip<'a>(project: &Project, python: &Path, arguments: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let pip = project.run(&python.to_string_lossy()).args(["-m", "pip", "install", "-q"]);
    pip.arg("--disable-pip-version-check").args(arguments).go().map(drop)
}
