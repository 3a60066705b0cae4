//! A Python with PyTorch, JAX and Ray.

use crate::project::{Project, alone};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// PyTorch's dependencies include about 5 GB of unused GPU libraries.
const PACKAGES: [&str; 3] = ["torch", "numpy", "scipy"];
/// Installed as well, if possible. Tests report what is missing.
const OPTIONAL: [&str; 3] = ["torchdata", "jax", "datasets"];
/// Installed in the long form as well.
const LONG: [&str; 1] = ["ray[train]"];
/// Minimum free disk space for the installation, in bytes.
const NEEDED: u64 = 15_000_000_000;

/// Returns the folder of the Python with PyTorch.
pub fn folder(project: &Project) -> PathBuf {
    project.target.join("torch")
}

/// Returns a Python with PyTorch, in target/torch/venv, or the reason why there is none.
pub fn environment(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    static INSTALLING: Mutex<()> = Mutex::new(());
    let _alone = alone(&INSTALLING);
    let folder = folder(project);
    let (python, ready) = (folder.join("venv/bin/python"), folder.join("ready"));
    let optional = [&OPTIONAL[..], if project.long { &LONG } else { &[] }].concat();
    let wanted = [&PACKAGES[..], &optional].concat().join(" ");
    if std::fs::read_to_string(&ready).is_ok_and(|installed| installed.starts_with(&wanted)) {
        return Ok(Ok(python));
    }
    std::fs::create_dir_all(&folder)?;
    let free = free_bytes(project, &folder)?;
    if free < NEEDED {
        let [free, needed] = [free, NEEDED].map(|bytes| bytes / 1_000_000_000);
        return Ok(Err(format!(
            "PyTorch is not installed, because only {free} GB are free: installing it temporarily needs {needed}"
        )));
    }
    let made =
        project.part(&format!("Python with {} into {}", PACKAGES.join(", "), folder.display()), || {
            project.run("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")).go()?;
            let pip = |packages: &[&str]| {
                let pip = project.run(&python.to_string_lossy()).args(["-m", "pip", "install", "-q"]);
                pip.args(["--no-cache-dir", "--no-compile", "--disable-pip-version-check"])
                    .args(packages)
                    .go()
            };
            pip(&PACKAGES)?;
            for package in optional {
                if pip(&[package]).is_err() {
                    say!("{package} cannot be installed");
                }
            }
            Ok(())
        });
    match made {
        Ok(()) => {
            std::fs::write(ready, wanted)?;
            Ok(Ok(python))
        }
        Err(error) => {
            let text = format!("{error:#}");
            let line = text.lines().rfind(|line| line.starts_with("ERROR")).unwrap_or(&text);
            Ok(Err(format!("PyTorch cannot be installed: {line}")))
        }
    }
}

/// Returns the free bytes of the file system of a folder.
fn free_bytes(project: &Project, folder: &Path) -> Result<u64> {
    let table = project.run("df").args(["--output=avail", "-B1"]).arg(folder).silent().output()?;
    let number = table.lines().nth(1).and_then(|line| line.trim().parse().ok());
    number.with_context(|| format!("df printed no number of free bytes: {table}"))
}
