//! The step `python-lint`: style and types of the Python package, its tests, and the examples.

use anyhow::Result;
use std::path::{Path, PathBuf};
use tooling::project::Project;
use tooling::{Tally, python};

/// The tools, with fixed versions, because newer ones report more.
const TOOLS: [&str; 3] = ["mypy==2.4.1", "pyright[nodejs]==1.1.414", "ruff==0.17.6"];

const CONFIGURATION: &str = "python/pyproject.toml";

/// Folders that are linted and checked for formatting.
const STYLED: [&str; 4] = ["python", "examples", "attack", "docs/site"];

/// Folders that are completely typed.
const TYPED: [&str; 2] = ["python/cntk_reader", "examples"];

/// Files that are checked against PyTorch and JAX themselves.
const WITH_TORCH: [&str; 5] = [
    "python/cntk_reader/torch.py",
    "python/cntk_reader/_torch_batches.py",
    "python/cntk_reader/_torch_items.py",
    "python/cntk_reader/jax.py",
    "examples/distributed",
];

/// Runs the tools.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match python::environment(project)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    let tools = match tools(project)? {
        Ok(tools) => tools,
        Err(reason) => return Tally::skipped(reason),
    };
    let tool = |name: &str| project.run(&tools.join(name).to_string_lossy()).named(name);
    let cache = |name: &str| project.target.join("python").join(name);
    for (command, check) in [("check", "--quiet"), ("format", "--check")] {
        let ruff = tool("ruff").args([command, check, "--config", CONFIGURATION]);
        ruff.arg("--cache-dir").arg(cache("ruff-cache")).args(STYLED).go()?;
    }
    let mypy = tool("mypy").args(["--config-file", CONFIGURATION]).arg("--python-executable").arg(&python);
    mypy.arg("--cache-dir").arg(cache("mypy-cache")).args(TYPED).go()?;
    Ok(Tally::passed(3)?.and(pyright(project, &tools, "python", &python)?))
}

/// Checks the types of code that uses PyTorch, JAX and Ray, against a Python that has them. Ray may
/// be missing.
pub fn with_torch(project: &Project, python: &Path, has_ray: bool) -> Result<Tally> {
    let tools = match tools(project)? {
        Ok(tools) => tools,
        Err(reason) => return Tally::skipped(reason),
    };
    let mypy = project.run(&tools.join("mypy").to_string_lossy()).named("mypy");
    let mypy = mypy.args(["--config-file", "python/mypy-torch.ini", "--python-executable"]).arg(python);
    let mypy = mypy.arg("--cache-dir").arg(project.target.join("python/mypy-cache-torch"));
    mypy.args(WITH_TORCH).go()?;
    let torch = pyright(project, &tools, "python/pyright-torch.json", python)?;
    let ray =
        if has_ray { pyright(project, &tools, "python/pyright-ray.json", python)? } else { Tally::default() };
    Ok(Tally::passed(1)?.and(torch).and(ray))
}

/// Compares the stub of the extension module with the module itself. The module and NumPy must be
/// in the folders of `path`.
pub fn stubs(project: &Project, path: &std::ffi::OsStr) -> Result<Tally> {
    let tools = match tools(project)? {
        Ok(tools) => tools,
        Err(reason) => return Tally::skipped(reason),
    };
    let python = project.run(&tools.join("python").to_string_lossy()).args(["-m", "mypy.stubtest"]);
    let python = python.args(["--mypy-config-file", CONFIGURATION, "--ignore-disjoint-bases"]);
    let python = python.args(["--allowlist", "python/stubtest-allowlist.txt", "cntk_reader._native"]);
    python.env("PYTHONPATH", path).go().and_then(|_| Tally::passed(1))
}

/// Returns the folder of the tools, or the reason why there is none.
fn tools(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    Ok(python::environment_with(project, "lint", &TOOLS)?.map(|python| python.with_file_name("")))
}

fn pyright(project: &Project, tools: &Path, configuration: &str, python: &Path) -> Result<Tally> {
    let pyright = || project.run(&tools.join("pyright").to_string_lossy()).named("pyright");
    // The Python package of pyright downloads the program when it runs for the first time.
    if pyright().arg("--version").silent().go().is_err() {
        return Tally::skipped("pyright, which cannot be fetched here");
    }
    pyright().args(["--project", configuration]).arg("--pythonpath").arg(python).go()?;
    Tally::passed(1)
}
