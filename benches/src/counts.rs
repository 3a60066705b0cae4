//! Counts the instructions of reading by Callgrind: a baseline that the load of the machine does
//! not affect.

use crate::Outcome;
use crate::data::{Data, Generator};
use crate::options::Options;
use crate::subject::bound;
use crate::table::{Table, number};
use anyhow::{Context, Result};
use tooling::project::Project;
use tooling::tools::{self, Tool};

const NOTE: &str = "\
Millions of instructions of opening the reader and five sweeps, randomized over all data, counted by Callgrind with one loading
thread and AVX2, the largest instruction set that Valgrind supports.";

/// Counts instructions for all shapes.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    tools::need(project, &[Tool::Valgrind])?;
    let generator = Generator::new(project)?;
    let mut table = Table::new(1, &["shape", "MB", "instructions", "per byte and sweep"]);
    for shape in &options.shapes {
        let data = generator.text(shape, options.size)?;
        let instructions =
            project.part(shape, || count(project, &generator.program, &data, options.minibatch))?;
        let per_byte = instructions as f64 / data.bytes as f64 / SWEEPS;
        table.add(vec![
            shape.clone(),
            number(data.megabytes()),
            number(instructions as f64 / 1e6),
            number(per_byte),
        ]);
    }
    let count = table.len();
    Ok(Outcome::Measured(format!("{NOTE}\n\n{table}"), count))
}

/// Sweeps of the program, including the checked one.
const SWEEPS: f64 = 5.0;

/// Returns the number of instructions of a run.
fn count(project: &Project, program: &str, data: &Data, minibatch: u64) -> Result<u64> {
    let run = bound("valgrind", &project.root, 1);
    let run = run.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program]);
    let run = run.args(["measure", &data.shape]).arg(&data.path).arg(minibatch.to_string());
    let output = run.env("CNTK_READER_THREADS", "1").go()?;
    let counted = output.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    counted.with_context(|| format!("Callgrind printed no number of instructions:\n{output}"))
}
