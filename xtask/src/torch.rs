//! The step for PyTorch and JAX: the package's tests with them, the guide's pages about them, and
//! examples/distributed on 1 to 3 ranks, killed and resumed, under torchrun and under Ray. The
//! conversion in parts as tasks of Ray, too.

use crate::{guide, lint, python_tests};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};
use tooling::run::Run;
use tooling::{Tally, python, pytorch};

/// Selects the tests of PyTorch and JAX, other tests that use either, and the programs of the
/// package's readme.
const TESTS: [&str; 5] = ["test_torch", "test_jax", "test_minibatch", "test_arrays", "Readme"];
/// Maximum difference of weights between numbers of ranks, which add gradients in different orders.
const TOLERANCE: f64 = 1e-10;
/// Prints the largest difference between the weights in two files.
const COMPARE: &str = "\
import sys, torch
a, b = (torch.load(path) for path in sys.argv[1:])
assert a.keys() == b.keys() and len(a) > 0
print(max(float((a[name] - b[name]).abs().max()) for name in a))";

/// Runs the program of docs/tool.md that converts in parts as tasks of Ray.
const PARTS: &str = "xtask/scripts/ray_parts.py";

/// Runs everything.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match pytorch::environment(project)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    let variables = python::variables(project)?;
    let tests = tests(project, &python, &variables)?;
    let mut pages = Tally::default();
    for page in guide::WITH_TORCH.into_iter().chain(guide::PARTLY_WITH_TORCH) {
        pages = pages.and(guide::page(project, page, &python)?);
    }
    let scratch = project.target.join("xtask/torch");
    empty_folder(&scratch)?;
    std::fs::create_dir(scratch.join("home"))?;
    let example = Example { project, python, variables, scratch };
    let has_ray = example.python().args(["-c", "import ray.train.torch"]).silent().go().is_ok();
    let types = lint::with_torch(project, &example.python, has_ray)?;
    // On a loaded machine, Ray gives up and then waits forever.
    let reason = match (has_ray, project.long) {
        (false, _) => Some("ray[train] is not installed here"),
        (true, false) => Some("the long form runs it, `cargo xtask test --long torch`"),
        (true, true) => None,
    };
    let ray = match reason {
        Some(reason) => Tally::skipped(format!("examples/distributed/train_ray.py, {PARTS}: {reason}"))?,
        None => example.parts()?,
    };
    let launchers: &[_] = match reason {
        None => &[Launcher::Torchrun, Launcher::Ray],
        Some(_) => &[Launcher::Torchrun],
    };
    Ok(tests.and(pages).and(types).and(example.check(launchers)?).and(ray))
}

/// Runs the package's tests that use PyTorch or JAX.
fn tests(project: &Project, python: &Path, variables: &[(&'static str, PathBuf)]) -> Result<Tally> {
    let run = project.run(&python.to_string_lossy()).envs(variables);
    let run = run.args(["-m", "unittest", "discover", "-v", "-s", "python/tests", "-t", "python"]);
    let run = TESTS.iter().fold(run, |run, name| run.args(["-k", name]));
    let output = project.part("python/tests with PyTorch and JAX", || run.go())?;
    python_tests::unittest(&[output])
}

struct Example<'a> {
    project: &'a Project,
    python: PathBuf,
    variables: [(&'static str, PathBuf); 3],
    scratch: PathBuf,
}

/// A launcher of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Launcher {
    Torchrun,
    Ray,
}

impl Launcher {
    /// A part of its message if a rank was killed.
    fn of_killed(self) -> &'static str {
        match self {
            Launcher::Torchrun => "SIGKILL",
            Launcher::Ray => "The worker died unexpectedly",
        }
    }
}

impl Example<'_> {
    /// Checks the promise of the example's README: equal results on any number of ranks, even after
    /// one of them was killed.
    fn check(&self, launchers: &[Launcher]) -> Result<Tally> {
        let make = self.project.path("examples/distributed/make_sentences.py");
        self.python().arg(make).arg(&self.scratch).go()?;
        let mut passed = 0;

        let digits = ["digits", "--epochs", "2"];
        let one = self.train("digits-1", Launcher::Torchrun, 1, &digits)?;
        for &(launcher, ranks) in [(Launcher::Torchrun, 2), (Launcher::Torchrun, 3), (Launcher::Ray, 2)]
            .iter()
            .filter(|(launcher, ranks)| launchers.contains(launcher) && (*ranks == 2 || self.project.long))
        {
            let weights = self.train(&format!("digits-{launcher:?}-{ranks}"), launcher, ranks, &digits)?;
            self.compare(&format!("{launcher:?}, digits on {ranks} ranks"), &weights, &one)?;
            passed += 1;
        }

        // Killed in the second of three epochs, and resumed with another number of ranks. With
        // small minibatches, some ranks have no data.
        let tagger = ["tagger", "--epochs", "3"];
        let small = ["digits", "--epochs", "1", "--minibatch-size", "4"];
        for (name, arguments, ranks, kill_at, launchers) in [
            ("tagger", tagger.as_slice(), [3, 2], "100", launchers),
            ("small", &small, [2, 3], "200", &[Launcher::Torchrun]),
        ] {
            let one = self.train(&format!("{name}-1"), Launcher::Torchrun, 1, arguments)?;
            for &launcher in launchers {
                let checkpoint = self.scratch.join(format!("{name}-{launcher:?}.state"));
                let with_checkpoint =
                    [arguments, &["--checkpoint", text(&checkpoint)?, "--checkpoint-every", "30"]].concat();
                let killing = [with_checkpoint.as_slice(), &["--kill-at", kill_at]].concat();
                let Err(error) = self.run(launcher, ranks[0], &killing) else {
                    bail!("{launcher:?}, {name}: killing a rank ended nothing")
                };
                let message = format!("{error:#}");
                let is_killed = message.contains(launcher.of_killed());
                ensure!(is_killed, "{launcher:?}, {name}: the ranks ended for another reason:\n{message}");
                let resumed = format!("{name}-{launcher:?}-resumed");
                let weights = self.train(&resumed, launcher, ranks[1], &with_checkpoint)?;
                let what =
                    format!("{launcher:?}, {name} on {} ranks, one killed, then on {}", ranks[0], ranks[1]);
                self.compare(&what, &weights, &one)?;
                passed += 1;
            }
        }
        Tally::passed(passed)
    }

    /// Converts in parts as tasks of Ray.
    fn parts(&self) -> Result<Tally> {
        let parts = self.python().arg(self.project.path(PARTS)).arg(self.scratch.join("parts"));
        let output = self.ray(parts).output()?;
        say!("      {PARTS}: {}", output.lines().next_back().unwrap_or_default());
        Tally::passed(1)
    }

    /// Has Ray keep its files in the scratch folder, and send nothing to its makers.
    fn ray(&self, run: Run) -> Run {
        let run = run.env("HOME", self.scratch.join("home")).env("RAY_USAGE_STATS_ENABLED", "0");
        // On a busy machine, importing PyTorch takes longer than the minute that Ray waits.
        run.env("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "300")
    }

    /// Trains to the end. Returns the file of the weights.
    fn train(&self, name: &str, launcher: Launcher, ranks: usize, arguments: &[&str]) -> Result<PathBuf> {
        let weights = self.scratch.join(format!("{name}.pt"));
        let output = self.run(launcher, ranks, &[arguments, &["--weights", text(&weights)?]].concat())?;
        ensure!(output.contains("sequences read once"), "{name} printed:\n{output}");
        Ok(weights)
    }

    /// Runs the example.
    fn run(&self, launcher: Launcher, ranks: usize, arguments: &[&str]) -> Result<String> {
        let example = |file: &str| self.project.path("examples/distributed").join(file);
        let data =
            if arguments[0] == "digits" { self.project.path("examples/data") } else { self.scratch.clone() };
        let ranks = ranks.to_string();
        let run = match launcher {
            Launcher::Torchrun => {
                let torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", &ranks];
                self.python().args(torchrun).arg(example("train.py")).args(arguments)
            }
            Launcher::Ray => {
                let run =
                    self.python().arg(example("train_ray.py")).args(arguments).args(["--ranks", &ranks]);
                self.ray(run)
            }
        };
        run.arg("--data").arg(data).env("OMP_NUM_THREADS", "1").folder(&self.scratch).go()
    }

    fn python(&self) -> Run {
        self.project.run(&self.python.to_string_lossy()).envs(&self.variables)
    }

    /// Fails unless two trainings have equal weights.
    fn compare(&self, what: &str, got: &Path, wanted: &Path) -> Result<()> {
        let output = self.python().args(["-c", COMPARE]).arg(got).arg(wanted).output()?;
        let difference: f64 = output.trim().parse().with_context(|| format!("no difference: {output}"))?;
        ensure!(difference <= TOLERANCE, "{what}: the weights differ by {difference} from those of 1 rank");
        say!("      {what}: each sequence once a sweep, weights within {difference:.1e} of those of 1 rank");
        Ok(())
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
