//! `cargo xtask demo`: trains a classifier of handwritten digits from C++, stops, resumes, and compares the weights.

use crate::build;
use crate::project::{Project, empty_folder};
use anyhow::{Context, Result, ensure};
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

/// Trains in one go, and again with a stop in the middle; the weights must be the same to the last bit. Gives the
/// story in a few lines.
pub fn resume(project: &Project) -> Result<String> {
    let scratch = project.target.join("xtask/demo");
    empty_folder(&scratch)?;
    let data = project.path("examples/data");
    let checkpoint = scratch.join("digits.checkpoint");
    let train = |options: &[&str]| {
        let run = project.run(&project.target.join("examples/train_digits").to_string_lossy());
        run.folder(&scratch).arg(&data).args(options).silent().output()
    };
    let checkpoint = checkpoint.to_str().context("UTF-8 path")?;
    let whole = train(&[])?;
    train(&["--stop-after", "100", "--checkpoint", checkpoint])?;
    let resumed = train(&["--resume", checkpoint])?;
    let (whole_hash, resumed_hash) = (hash(&whole)?, hash(&resumed)?);
    ensure!(
        whole_hash == resumed_hash,
        "The resumed training ended with other weights: {resumed_hash} instead of {whole_hash}.\n\n{whole}\n{resumed}"
    );
    Ok(format!("{}\nStopped and resumed: the same weights to the last bit ({whole_hash}).", whole.trim_end()))
}

/// The hash of the weights that a training printed.
fn hash(output: &str) -> Result<&str> {
    let line = output
        .lines()
        .find(|line| line.contains("hash"))
        .context("The training printed no hash of its weights.")?;
    line.rsplit(' ').next().context("an empty line")
}
