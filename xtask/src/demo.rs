//! `cargo xtask demo`: trains a classifier of handwritten digits from C++, stops, resumes, and compares the weights.

use crate::build;
use crate::project::{Project, empty_folder};
use anyhow::{Context, Result, bail, ensure};
use std::time::Instant;

/// Builds what is needed and runs the demo.
pub fn command(project: &Project) -> Result<()> {
    println!("The digits example: a softmax classifier trained from examples/data/digits.train.ctf");
    let clock = Instant::now();
    build::everything(project)?;
    let story = project.part("training, stopped and resumed", || resume(project))?;
    println!("\n{story}\nAll in {:.0} s.", clock.elapsed().as_secs_f64());
    Ok(())
}

/// Minibatches between two checkpoints, and before the training is stopped: in the middle of an epoch of 45, and some
/// behind the last checkpoint, as a crash would.
const STOP: (&str, &str) = ("100", "510");

/// Trains in one go, and again with a stop in the middle; the weights must be the same to the last bit. Gives the
/// story in a few lines.
pub fn resume(project: &Project) -> Result<String> {
    let scratch = project.target.join("xtask/demo");
    empty_folder(&scratch)?;
    let data = project.path("examples/data");
    let train = |options: &[&str]| {
        let program = project.target.join("examples/train_digits");
        project.run(&program.to_string_lossy()).arg("--data").arg(&data).args(options).output()
    };
    let checkpoint = scratch.join("digits.checkpoint");
    let checkpoint = checkpoint.to_str().context("the path is not UTF-8")?;

    let whole = train(&[])?;
    let (every, stop) = STOP;
    let stopped = train(&["--checkpoint", checkpoint, "--checkpoint-every", every, "--stop-after", stop])?;
    ensure!(hash(&stopped).is_none(), "The training did not stop after {stop} minibatches:\n{stopped}");
    let resumed = train(&["--resume", checkpoint])?;
    let (Some(wanted), Some(got)) = (hash(&whole), hash(&resumed)) else {
        bail!("The training printed no hash of its weights:\n{whole}\n{resumed}");
    };
    ensure!(
        wanted == got,
        "The resumed training ended elsewhere: {got} instead of {wanted}.\n\n{whole}\n{resumed}"
    );
    let last =
        |output: &str| output.lines().rfind(|line| line.starts_with("epoch")).unwrap_or_default().to_owned();
    let found = resumed.lines().find(|line| line.starts_with("resumed")).unwrap_or_default();
    Ok(format!(
        "in one go             {}   weights {wanted}\n\
         stopped and resumed   {}   weights {got}\n\
         (stopped after {stop} minibatches as a crash would, {found})\n\
         The weights are the same to the last bit.",
        last(&whole),
        last(&resumed)
    ))
}

/// The hash of the weights that a training printed.
fn hash(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.strip_prefix("weights hash "))
}
