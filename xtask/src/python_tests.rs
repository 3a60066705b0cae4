//! The Python package under python: its environment and its tests.

use crate::{lint, wheel};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tooling::programs::{Program, outputs, run_all, slowest};
use tooling::project::{Project, empty_folder};
use tooling::python::{bytecode, environment, make, pip, variables};
use tooling::{Tally, machine, portable, tools};

/// The Pythons that the wheel supports, by the names of their programs.
const PYTHONS: [&str; 6] =
    ["python3.9", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"];

/// A user's first program. It needs only NumPy.
pub const FIRST_PROGRAM: &str = "
import os, sys
import cntk_reader
from cntk_reader import CTFDeserializer, MinibatchSource, StreamDef, StreamDefs
package = os.path.dirname(cntk_reader.__file__)
assert os.path.dirname(cntk_reader.library_path) == package, cntk_reader.library_path
assert os.path.exists(os.path.join(package, 'py.typed'))
digits = CTFDeserializer(sys.argv[1], StreamDefs(features=StreamDef(shape=64)))
with MinibatchSource(digits, max_sweeps=1, minibatch_size=512) as source:
    assert sum(minibatch['features'].num_samples for minibatch in source) == 1437
";

/// Returns a Python with [`PACKAGES`] and the wheel of this checkout, or the reason why there is
/// none.
pub fn environment_with_wheel(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    let packages = match environment(project)? {
        Ok(python) => python,
        Err(reason) => return Ok(Err(reason)),
    };
    let folder = project.target.join("python/with-wheel");
    let (python, ready) = (folder.join("bin/python"), folder.join("ready"));
    if !ready.exists() {
        make(project, "python3", &folder)?;
        // Use the packages of the other environment.
        let own = site_packages(project, &python)?;
        let path = site_packages(project, &packages)?;
        std::fs::write(own.join("packages.pth"), portable::text(&path)?)?;
        std::fs::write(ready, "")?;
    }
    let wheel = portable::text(&wheel::build(project)?)?;
    pip(project, &python, ["--force-reinstall", "--no-deps", "--no-index", &wheel])?;
    Ok(Ok(python))
}

/// Runs the tests, in the checkout and with the wheel, and tries the installed wheel in each
/// Python.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match environment(project)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    if project.short {
        let checkout = variables(project)?.map(|(name, value)| (name, value.into_os_string()));
        return tests(project, &python, &checkout);
    }
    let wheel = wheel::build(project)?;
    let checks = wheel::check(project, &wheel)?;
    std::thread::scope(|scope| {
        let tested = scope.spawn(|| {
            let of_wheel = tests_of_wheel(project, &python, &wheel)?;
            if !project.long {
                // The checkout has the same files and library as the wheel, which is what users
                // have.
                return Ok(of_wheel);
            }
            let checkout = variables(project)?.map(|(name, value)| (name, value.into_os_string()));
            Ok(of_wheel.and(tests(project, &python, &checkout)?))
        });
        // The source distribution compiles all crates again.
        let source = if project.long { from_source(project, &python) } else { Ok(()) };
        let installed = source.and_then(|()| in_each_python(project, &wheel));
        let tested = tested.join().unwrap_or_else(|_| bail!("the thread that ran the tests has panicked"))?;
        Ok(tested.and(installed?).and(Tally::passed(checks + usize::from(project.long))?))
    })
}

/// Runs `python/edges`, in which the package's operations are interrupted, collected, forked and
/// starved.
pub fn edges(project: &Project) -> Result<Tally> {
    let python = match environment(project)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    let run = project.run(&python.to_string_lossy()).args(["-m", "edges"]);
    let run = if project.long { run.arg("--long") } else { run };
    let run = variables(project)?.into_iter().fold(run, |run, (name, value)| run.env(name, value));
    let output = run.go()?;
    output.lines().for_each(|line| say!("      {line}"));
    // A line for each edge: `interrupts: 123 cases, 0 problems, ...`
    Tally::passed(output.lines().filter(|line| line.contains(" cases, 0 problems, ")).count())
}

/// Returns the folder where a Python looks for packages.
fn site_packages(project: &Project, python: &Path) -> Result<PathBuf> {
    let program = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
    Ok(project.run(&python.to_string_lossy()).args(["-c", program]).output()?.into())
}

/// Runs the tests with these variables, several files in parallel: mostly they wait for processes
/// and signals.
fn tests(project: &Project, python: &Path, variables: &[(&str, OsString)]) -> Result<Tally> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(project.path("python/tests"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("test_") && name.ends_with(".py") {
            files.push(name);
        }
    }
    // The slowest first.
    files
        .sort_by_key(|name| !["test_ctrl_c.py", "test_end.py", "test_interrupt.py"].contains(&name.as_str()));
    let work = |name: String| {
        let run =
            project.run(&python.to_string_lossy()).args(["-m", "unittest", "discover", "-v", "-p", &name]);
        Program { name, run: run.envs(variables).args(["-s", "python/tests", "-t", "python"]) }
    };
    let done = run_all(files.into_iter().map(work), 2 * machine::cores());
    say!("      the slowest files of tests: {}", slowest(&done));
    unittest(&outputs(done)?)
}

/// Sums up the last lines of unittest's outputs: `Ran 12 tests in 0.5s` and `OK (skipped=2)`.
/// Prints the reasons of skipped tests, which the outputs contain if run with `-v`.
pub fn unittest<S: AsRef<str>>(outputs: &[S]) -> Result<Tally> {
    let (mut tally, mut reasons) = (Tally::default(), BTreeSet::new());
    for output in outputs.iter().map(AsRef::as_ref) {
        let line = output.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next());
        let count: usize =
            line.and_then(|count| count.parse().ok()).context("unittest printed no number of tests")?;
        let skipped = output.rsplit_once("skipped=").map_or("", |(_, rest)| rest);
        let skipped = skipped.split([')', ',']).next().and_then(|count| count.parse().ok()).unwrap_or(0);
        let passed = count.checked_sub(skipped).context("unittest skipped more tests than it ran")?;
        tally = tally.and(Tally { passed, failed: 0, skipped });
        reasons.extend(
            output
                .lines()
                .filter_map(|line| Some(line.split_once(" ... skipped ")?.1.trim_matches(['\'', '"']))),
        );
    }
    ensure!(tally.passed > 0, "No test ran.");
    for reason in reasons {
        say!("      skipped: {reason}");
    }
    Ok(tally)
}

/// Runs the tests with the package installed from the wheel.
fn tests_of_wheel(project: &Project, python: &Path, wheel: &Path) -> Result<Tally> {
    let site = project.target.join("python/site");
    empty_folder(&site)?;
    let (target, file) = (portable::text(&site)?, portable::text(wheel)?);
    pip(project, python, ["--no-deps", "--no-index", "--target", &target, &file])?;
    // unittest puts the tests' folder at the front of the path, unless the path contains it.
    let path = std::env::join_paths([&site, &project.path("python")])?;
    let [kept, folder] = bytecode(project).map(|(name, value)| (name, value.into_os_string()));
    let variables = [("PYTHONPATH", path), kept, folder];
    let run = project.run(&python.to_string_lossy()).env("PYTHONPATH", &variables[0].1);
    let digits = project.path("examples/data/digits.train.ctf");
    run.args(["-c", FIRST_PROGRAM]).arg(&digits).go().context("The package does not come from the wheel")?;
    // NumPy comes from the environment of the tests.
    let own = site_packages(project, python)?;
    let stubs = lint::stubs(project, &std::env::join_paths([&site, &own])?)?;
    Ok(stubs.and(tests(project, python, &variables)?))
}

/// Lets pip build the package from its sources, with little optimization, and uses it.
fn from_source(project: &Project, python: &Path) -> Result<()> {
    let sources = wheel::source(project)?;
    let site = project.target.join("python/site-from-source");
    empty_folder(&site)?;
    let tools = wheel::tools(project)?;
    let pip = project.run(&tools.join("python").to_string_lossy()).args(["-m", "pip", "install", "-q"]);
    let pip = pip.args(["--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation"]);
    // pip runs maturin by its name.
    let pip = pip.env("PATH", tooling::tools::path_with(&tools));
    // Files of the distribution have fixed times, so cargo would mistake earlier builds for
    // up-to-date ones.
    let built = project.target.join("xtask/from-source");
    empty_folder(&built)?;
    let pip = pip.env("CARGO_TARGET_DIR", built);
    let pip = pip.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
    let pip =
        pip.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16").env("CARGO_PROFILE_RELEASE_DEBUG", "false");
    pip.arg("--target").arg(&site).arg(&sources).go()?;
    let run = || project.run(&python.to_string_lossy()).env("PYTHONPATH", &site);
    run().args(["-c", FIRST_PROGRAM]).arg(project.path("examples/data/digits.train.ctf")).go()?;
    run().args(["-m", "cntk_reader", "--version"]).go().map(drop)
}

/// Finds the program of a Python: on the path, or in pyenv.
fn find(project: &Project, name: &str) -> Option<String> {
    // The shims of version managers may exist but refuse to start.
    let starts = |program: &str| project.run(program).args(["-c", "import venv"]).silent().go().is_ok();
    if tools::on_path(name).is_some() && starts(name) {
        return Some(name.to_owned());
    }
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")))?;
    let versions = std::fs::read_dir(root.join("versions")).ok()?.flatten();
    let mut programs: Vec<_> = versions
        .filter_map(|version| portable::text(&version.path().join("bin").join(name)).ok())
        .filter(|program| Path::new(program).is_file() && starts(program))
        .collect();
    programs.sort();
    programs.pop()
}

/// Installs the wheel in an empty environment of each available Python, with only NumPy, and uses
/// the package and the tool.
fn in_each_python(project: &Project, wheel: &Path) -> Result<Tally> {
    let (mut used, mut missing) = (0, Vec::new());
    for name in PYTHONS {
        let Some(program) = find(project, name) else {
            missing.push(name);
            continue;
        };
        let folder = project.target.join("python/plain").join(name);
        let (python, ready) = (folder.join("bin/python"), folder.join("ready"));
        if !ready.exists() {
            std::fs::create_dir_all(folder.parent().context("an environment has a folder")?)?;
            make(project, &program, &folder)?;
            pip(project, &python, ["numpy"])?;
            std::fs::write(&ready, "")?;
        }
        let run = |program: &Path| project.run(&program.to_string_lossy()).folder(&project.target);
        run(&python).args(["-m", "pip", "uninstall", "-q", "-y", "cntk-reader"]).go()?;
        // Fails if the package needs more than NumPy.
        pip(project, &python, ["--no-index", &portable::text(wheel)?])?;
        let digits = project.path("examples/data/digits.train.ctf");
        run(&python).args(["-c", FIRST_PROGRAM]).arg(&digits).go().context(name)?;
        let shown = run(&folder.join("bin/cntk-reader")).arg("info").arg(&digits).output()?;
        ensure!(shown.contains("1,437 sequences"), "{name}: the tool printed\n{shown}");
        used += 1;
    }
    let tally = Tally::passed(used)?;
    if missing.is_empty() {
        return Ok(tally);
    }
    Ok(tally.and(Tally::skipped(format!("the wheel in {}, which are not here", missing.join(", ")))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_do_not_count_as_passed() {
        let tally = unittest(&["..s\nRan 12 tests in 0.5s\n\nOK (skipped=2)\n"]).expect("a tally");
        assert_eq!(tally, Tally { passed: 10, failed: 0, skipped: 2 });
        assert_eq!(unittest(&["Ran 3 tests in 1s\n\nOK\n"]).expect("a tally").passed, 3);
        assert!(unittest(&["Ran 2 tests in 0s\n\nOK (skipped=2)\n"]).is_err());
        assert!(unittest(&[""]).is_err());
    }
}
