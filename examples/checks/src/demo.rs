//! `cargo xtask demo`: trains a classifier of handwritten digits from C++, stops it, resumes it,
//! compares the weights, and checks its accuracy.

use crate::example;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Instant;
use tooling::project::{Project, empty_folder};
use tooling::{dist, drivers, tools};

/// Percentage of the held-out digits that the trained classifier must recognize.
const ACCURACY: f64 = 95.0;

/// Builds and runs the demo.
pub fn command(project: &Project) -> Result<()> {
    say!("The digits example: a softmax classifier trained from examples/data/digits.train.ctf");
    let clock = Instant::now();
    let project = &Project { installs: true, ..project.clone() };
    build(project)?;
    let story = project.part("training, stopped and resumed", || resume(project))?;
    say!("\n{story}\nAll in {:.0} s.", clock.elapsed().as_secs_f64());
    Ok(())
}

/// Builds the library and the demo's example program.
pub fn build(project: &Project) -> Result<()> {
    tools::need(project, &drivers::TOOLS)?;
    let dist = project.part("library, release mode, into target/dist", || dist::build(project))?;
    project.part("the digits example", || example(project, &dist, "cpp", "train_digits"))
}

/// A training run by an example program.
pub struct Training<'a> {
    /// The program, below `target/examples`.
    pub program: &'a str,
    /// Folder of its data.
    pub data: &'a Path,
    /// Number of minibatches between two checkpoints, and before the training is stopped: in the
    /// middle of an epoch, and some minibatches after the last checkpoint, as in a crash.
    pub stop: (&'a str, &'a str),
    /// The samples that it learns to recognize, for messages.
    pub samples: &'a str,
    /// Percentage of the held-out samples that it must recognize.
    pub accuracy: f64,
}

/// Trains on the digits in one go, and again with a stop in the middle, by [`Training::resume`].
pub fn resume(project: &Project) -> Result<String> {
    let data = project.path("examples/data");
    // An epoch has 45 minibatches.
    let stop = ("100", "510");
    Training { program: "train_digits", data: &data, stop, samples: "digits", accuracy: ACCURACY }
        .resume(project)
}

impl Training<'_> {
    /// Trains in one go, and again with a stop in the middle. Fails unless the weights are
    /// bit-identical and the classifier reaches its accuracy. Returns a summary in a few lines.
    pub fn resume(&self, project: &Project) -> Result<String> {
        let scratch = project.target.join("xtask/demo");
        empty_folder(&scratch)?;
        let train = |options: &[&str]| {
            let program = project.target.join("examples").join(self.program);
            project.run(&program.to_string_lossy()).arg("--data").arg(self.data).args(options).output()
        };
        let checkpoint = scratch.join("training.checkpoint");
        let checkpoint = checkpoint.to_str().context("the path is not UTF-8")?;

        let whole = train(&[])?;
        let (every, stop) = self.stop;
        let stopped =
            train(&["--checkpoint", checkpoint, "--checkpoint-every", every, "--stop-after", stop])?;
        ensure!(hash(&stopped).is_none(), "The training did not stop after {stop} minibatches:\n{stopped}");
        let resumed = train(&["--resume", checkpoint])?;
        let hash =
            |output| hash(output).with_context(|| format!("No hash of the weights was printed:\n{output}"));
        let (wanted, got) = (hash(&whole)?, hash(&resumed)?);
        ensure!(
            wanted == got,
            "The resumed training ended with the weights {got} instead of {wanted}.\n\n{whole}\n{resumed}"
        );
        let (samples, goal) = (self.samples, self.accuracy);
        for output in [&whole, &resumed] {
            let accuracy = accuracy(output).with_context(|| format!("No accuracy was printed:\n{output}"))?;
            ensure!(
                accuracy >= goal,
                "The classifier recognizes {accuracy} % of the held-out {samples}, {goal} % are expected:\n{output}"
            );
        }
        let found = resumed.lines().find(|line| line.starts_with("resumed")).unwrap_or_default();
        Ok(format!(
            "in one go             {}   weights {wanted}\n\
             stopped and resumed   {}   weights {got}\n\
             (stopped after {stop} minibatches as in a crash, {found})\n\
             The weights are bit-identical, and at least {goal} % of the held-out {samples} are recognized.",
            last_epoch(&whole).unwrap_or_default(),
            last_epoch(&resumed).unwrap_or_default()
        ))
    }
}

/// Returns the hash of the weights that a training printed.
fn hash(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.strip_prefix("weights hash "))
}

/// Returns the line of the last epoch: `epoch 20  loss 0.0917  accuracy 97.98 %  held out 96.39 %`.
fn last_epoch(output: &str) -> Option<&str> {
    output.lines().rfind(|line| line.starts_with("epoch"))
}

/// Returns the percentage of held-out digits that were recognized after the last epoch.
fn accuracy(output: &str) -> Option<f64> {
    last_epoch(output)?.split_once("held out")?.1.trim().strip_suffix('%')?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_epoch_is_parsed() {
        let epoch =
            |number, held_out| format!("epoch {number}  loss 0.3  accuracy 99.00 %  held out {held_out} %\n");
        let output = epoch(1, "80.12") + &epoch(2, " 96.4") + "weights hash 00ff\n";
        assert_eq!((accuracy(&output), hash(&output)), (Some(96.4), Some("00ff")));
        assert_eq!(accuracy("stopped after 3 minibatches\n"), None);
    }
}
