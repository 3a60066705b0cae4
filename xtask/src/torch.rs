//! What needs PyTorch: the package's tests with it, the guide's page on it, and examples/distributed on 1 to 3 ranks, which are killed
//! and resumed.

use crate::dist;
use crate::guide;
use crate::lint;
use crate::project::{Project, empty_folder};
use crate::python;
use crate::run::Run;
use crate::steps::Tally;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// PyTorch brings libraries for graphics processors, which are not used: about 5 GB.
const PACKAGES: [&str; 3] = ["torch", "numpy", "scipy"];
/// Free bytes without which it is not installed.
const NEEDED: u64 = 15_000_000_000;
/// The most by which weights may differ between numbers of ranks: gradients are added in another order.
const TOLERANCE: f64 = 1e-10;
/// The page of the guide that needs PyTorch.
const PAGE: &str = "distributed.md";

/// Prints the largest difference between the weights in two files.
const COMPARE: &str = "\
import sys, torch
a, b = (torch.load(path) for path in sys.argv[1:])
assert a.keys() == b.keys() and len(a) > 0
print(max(float((a[name] - b[name]).abs().max()) for name in a))";

/// Where Python with PyTorch is.
pub fn folder(project: &Project) -> PathBuf {
    project.target.join("torch")
}

/// A Python with PyTorch, in target/torch/venv; or the reason why there is none.
pub fn environment(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    let folder = folder(project);
    let (python, ready) = (folder.join("venv/bin/python"), folder.join("ready"));
    if ready.exists() {
        return Ok(Ok(python));
    }
    std::fs::create_dir_all(&folder)?;
    let free = free_bytes(project, &folder)?;
    if free < NEEDED {
        let [free, needed] = [free, NEEDED].map(|bytes| bytes / 1_000_000_000);
        return Ok(Err(format!(
            "PyTorch is not installed where {free} GB are free: it needs {needed} for a while"
        )));
    }
    let made =
        project.part(&format!("Python with {} into {}", PACKAGES.join(", "), folder.display()), || {
            project.run("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")).go()?;
            let pip =
                project.run(&python.to_string_lossy()).args(["-m", "pip", "install", "-q", "--no-cache-dir"]);
            pip.arg("--disable-pip-version-check").args(PACKAGES).go()
        });
    match made {
        Ok(_) => {
            std::fs::write(ready, "")?;
            Ok(Ok(python))
        }
        Err(error) => {
            let text = format!("{error:#}");
            let line = text.lines().rfind(|line| line.starts_with("ERROR")).unwrap_or(&text);
            Ok(Err(format!("PyTorch cannot be installed: {line}")))
        }
    }
}

/// Free bytes of the file system of a folder.
fn free_bytes(project: &Project, folder: &Path) -> Result<u64> {
    let table = project.run("df").args(["--output=avail", "-B1"]).arg(folder).silent().output()?;
    let number = table.lines().nth(1).and_then(|line| line.trim().parse().ok());
    number.with_context(|| format!("df printed no number of free bytes: {table}"))
}

/// Runs everything.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match environment(project)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    let library = dist::build(project)?.library();
    let tests = tests(project, &python, &library)?;
    let page = guide::page(project, PAGE, &python)?;
    let scratch = project.target.join("xtask/torch");
    empty_folder(&scratch)?;
    let example = Example { project, python, library, scratch };
    let types = lint::with_torch(project, &example.python)?;
    Ok(tests.and(page).and(types).and(example.check()?))
}

/// The package's tests that use PyTorch.
fn tests(project: &Project, python: &Path, library: &Path) -> Result<Tally> {
    let run = with_package(project, project.run(&python.to_string_lossy()), library);
    let run = run.args([
        "-m",
        "unittest",
        "discover",
        "-s",
        "python/tests",
        "-t",
        "python",
        "-p",
        "test_torch*.py",
    ]);
    let output = project.part("python/tests/test_torch.py", || run.go())?;
    let line = output.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next());
    let count: usize =
        line.and_then(|count| count.parse().ok()).context("unittest printed no number of tests")?;
    let skipped = output.rsplit_once("skipped=").map_or("", |(_, rest)| rest);
    let skipped = skipped.split([')', ',']).next().and_then(|count| count.parse().ok()).unwrap_or(0);
    ensure!(count > skipped, "No test ran:\n{output}");
    Ok(Tally { passed: count - skipped, failed: 0, skipped })
}

fn with_package(project: &Project, run: Run, library: &Path) -> Run {
    let variables = python::variables(project, library);
    variables.into_iter().fold(run, |run, (name, value)| run.env(name, value))
}

struct Example<'a> {
    project: &'a Project,
    python: PathBuf,
    library: PathBuf,
    scratch: PathBuf,
}

impl Example<'_> {
    /// What the example's README promises: equal results on any number of ranks, also after one of them was killed.
    fn check(&self) -> Result<Tally> {
        let make = self.project.path("examples/distributed/make_sentences.py");
        self.python().arg(make).arg(&self.scratch).go()?;
        let mut passed = 0;

        let digits = ["digits", "--epochs", "2"];
        let one = self.train("digits-1", 1, &digits)?;
        for ranks in [2, 3] {
            let weights = self.train(&format!("digits-{ranks}"), ranks, &digits)?;
            self.compare(&format!("digits on {ranks} ranks"), &weights, &one)?;
            passed += 1;
        }

        // Killed in the second of three epochs, resumed by fewer ranks. Small minibatches have no data for some ranks.
        let tagger = ["tagger", "--epochs", "3"];
        let small = ["digits", "--epochs", "1", "--minibatch-size", "4"];
        for (name, arguments, ranks, kill_at) in
            [("tagger", tagger.as_slice(), [3, 2], "100"), ("small", &small, [2, 3], "200")]
        {
            let one = self.train(&format!("{name}-1"), 1, arguments)?;
            let checkpoint = self.scratch.join(format!("{name}.state"));
            let with_checkpoint =
                [arguments, &["--checkpoint", text(&checkpoint)?, "--checkpoint-every", "30"]].concat();
            let killing = [with_checkpoint.as_slice(), &["--kill-at", kill_at]].concat();
            let Err(error) = self.run(ranks[0], &killing) else {
                bail!("{name}: killing a rank ended nothing")
            };
            let message = format!("{error:#}");
            ensure!(message.contains("SIGKILL"), "{name}: the ranks ended for another reason:\n{message}");
            let weights = self.train(&format!("{name}-resumed"), ranks[1], &with_checkpoint)?;
            let what = format!("{name} on {} ranks, one killed, then on {}", ranks[0], ranks[1]);
            self.compare(&what, &weights, &one)?;
            passed += 1;
        }
        Tally::passed(passed)
    }

    /// Trains to the end; returns the file of the weights.
    fn train(&self, name: &str, ranks: usize, arguments: &[&str]) -> Result<PathBuf> {
        let weights = self.scratch.join(format!("{name}.pt"));
        let output = self.run(ranks, &[arguments, &["--weights", text(&weights)?]].concat())?;
        ensure!(output.contains("sequences read once"), "{name} printed:\n{output}");
        Ok(weights)
    }

    /// Runs the example under torchrun.
    fn run(&self, ranks: usize, arguments: &[&str]) -> Result<String> {
        let data =
            if arguments[0] == "digits" { self.project.path("examples/data") } else { self.scratch.clone() };
        let ranks = ranks.to_string();
        let run =
            self.python().args(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", &ranks]);
        let run = run.arg(self.project.path("examples/distributed/train.py")).args(arguments);
        run.arg("--data").arg(data).env("OMP_NUM_THREADS", "1").go()
    }

    fn python(&self) -> Run {
        with_package(self.project, self.project.run(&self.python.to_string_lossy()), &self.library)
    }

    /// Fails unless two trainings came to equal weights.
    fn compare(&self, what: &str, got: &Path, wanted: &Path) -> Result<()> {
        let output = self.python().args(["-c", COMPARE]).arg(got).arg(wanted).output()?;
        let difference: f64 = output.trim().parse().with_context(|| format!("no difference: {output}"))?;
        ensure!(difference <= TOLERANCE, "{what}: the weights differ by {difference} from those of 1 rank");
        println!(
            "      {what}: each sequence once a sweep, weights within {difference:.1e} of those of 1 rank"
        );
        Ok(())
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
