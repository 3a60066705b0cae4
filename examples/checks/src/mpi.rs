//! The MPI example: trains on 1 to 12 ranks, resumes with other numbers of ranks, and fails on one
//! rank.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use tooling::cmake::{Build, install};
use tooling::project::{Project, empty_folder};
use tooling::{Tally, dist};

/// Numbers of ranks. Of 12 ranks, many have no sample in a minibatch.
const RANKS: [usize; 5] = [1, 2, 3, 4, 12];
/// Sweeps of 45 minibatches.
const EPOCHS: &str = "6";
/// Number of minibatches between two checkpoints, and before the training is stopped: in the middle
/// of an epoch, as in a crash.
const STOP: (&str, &str) = ("50", "170");
/// Maximum difference of weights between numbers of ranks: gradients are added in another order.
const TOLERANCE: f64 = 1e-12;
/// Timeout in seconds for ranks that hang.
const PATIENCE: &str = "60";

/// Builds the example and checks the guarantees in its README.
pub fn check(project: &Project) -> Result<Tally> {
    let installed = dist::build(project)?;
    let build = Build::configure(project, &installed, "examples/mpi", "cmake/examples-mpi", &[])?;
    build.build(None)?;
    let program = project.target.join("examples/train_digits_mpi");
    install(&build.file("train_digits_mpi"), &program)?;
    let scratch = project.target.join("xtask/mpi");
    empty_folder(&scratch)?;
    let example = Example { project, program, data: project.path("examples/data"), scratch };

    let mut passed = 0;
    let mut whole = Vec::new();
    for ranks in RANKS {
        let file = example.scratch.join(format!("whole-{ranks}"));
        example.train(ranks, &["--checkpoint", text(&file)?])?;
        whole.push(weights(&file)?);
        compare(&format!("{ranks} ranks"), whole.last().context("weights")?, &whole[0])?;
        passed += 1;
    }

    let stopped = example.scratch.join("stopped");
    let (every, stop) = STOP;
    let options = ["--checkpoint", text(&stopped)?, "--checkpoint-every", every, "--stop-after", stop];
    example.run(3, &options)?;
    for ranks in RANKS {
        let file = example.scratch.join(format!("resumed-{ranks}"));
        std::fs::copy(&stopped, &file)?;
        example.train(ranks, &["--resume", text(&file)?])?;
        compare(&format!("3 ranks, then {ranks}"), &weights(&file)?, &whole[0])?;
        passed += 1;
    }

    passed += example.failures()?;
    Tally::passed(passed)
}

struct Example<'a> {
    project: &'a Project,
    program: PathBuf,
    data: PathBuf,
    scratch: PathBuf,
}

impl Example<'_> {
    /// Trains to the end, and checks that every sample was read once and that ranks agree.
    fn train(&self, ranks: usize, options: &[&str]) -> Result<()> {
        let output = self.run(ranks, options)?;
        let complete = output.contains("each of 1437 samples was read once in each of");
        ensure!(complete && output.contains("the same on all ranks"), "{ranks} ranks printed:\n{output}");
        Ok(())
    }

    fn run(&self, ranks: usize, options: &[&str]) -> Result<String> {
        let ranks = ranks.to_string();
        let run = self.mpirun().args(["-n", &ranks]).arg(&self.program).arg("--data").arg(&self.data);
        run.args(["--epochs", EPOCHS]).args(options).output()
    }

    /// `mpirun` with options for a container: more ranks than cores, perhaps as root.
    fn mpirun(&self) -> tooling::run::Run {
        let run = self.project.run("mpirun").args(["--oversubscribe", "--timeout", PATIENCE]);
        run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
    }

    /// Checks that both of two ranks end and report the location if one has broken or missing data.
    fn failures(&self) -> Result<usize> {
        let broken = self.scratch.join("broken");
        std::fs::create_dir(&broken)?;
        let train = std::fs::read_to_string(self.data.join("digits.train.ctf"))?;
        let mut lines: Vec<&str> = train.lines().collect();
        let line = lines.get(700).copied().context("the digits have 1437 lines")?;
        let bad = line.get(..line.len() - 1).map(|start| format!("{start}z")).context("digits are ASCII")?;
        lines[700] = &bad;
        std::fs::write(broken.join("digits.train.ctf"), lines.join("\n") + "\n")?;
        std::fs::copy(self.data.join("digits.test.ctf"), broken.join("digits.test.ctf"))?;

        let cases = [(broken, "line 701"), (self.scratch.join("missing"), "is not open")];
        for (data, message) in &cases {
            let rank = |data: &Path| ["--epochs".into(), EPOCHS.into(), "--data".into(), data.to_owned()];
            let run = self.mpirun().args(["-n", "1"]).arg(&self.program).args(rank(&self.data));
            let run = run.args([":", "-n", "1"]).arg(&self.program).args(rank(data));
            let Err(error) = run.go() else { bail!("Nothing failed with {}.", data.display()) };
            let output = format!("{error:#}");
            let parts = [*message, "rank 1: ", "rank 0: stops because another rank has failed"];
            for part in parts {
                ensure!(output.contains(part), "`{part}` is not in:\n{output}");
            }
        }
        Ok(cases.len())
    }
}

/// Returns the weights in a checkpoint of the example, which follow the hash and the progress.
fn weights(file: &Path) -> Result<Vec<f64>> {
    let bytes = std::fs::read(file)?;
    let mut rest = bytes.get(8..).unwrap_or_default();
    let mut array = || -> Option<&[u8]> {
        let (size, more) = rest.split_first_chunk()?;
        let (array, more) = more.split_at_checked(usize::try_from(u64::from_le_bytes(*size)).ok()?)?;
        rest = more;
        Some(array)
    };
    array();
    let weights = array().with_context(|| format!("{} is not a checkpoint", file.display()))?;
    Ok(weights.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
}

fn compare(what: &str, got: &[f64], wanted: &[f64]) -> Result<()> {
    let differences = got.iter().zip(wanted).map(|(got, wanted)| (got - wanted).abs());
    let largest = differences.fold(0.0, f64::max);
    ensure!(
        got.len() == wanted.len() && largest <= TOLERANCE,
        "{what}: the weights differ by {largest} from those of 1 rank"
    );
    say!("      {what}: each sample once a sweep, weights within {largest:.1e} of those of 1 rank");
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
