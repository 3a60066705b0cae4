//! Instructions of reading, counted by Callgrind: a baseline that does not depend on the machine's
//! load.

use crate::Outcome;
use crate::data::{self, Data, Generator};
use crate::options::Options;
use crate::subject::bound;
use crate::table::{Table, number};
use anyhow::{Context, Result};
use tooling::project::Project;
use tooling::tools::{self, Tool};

const NOTE: &str = "\
Millions of instructions of opening the reader and five sweeps, randomized over all data, counted by Callgrind with one loading
thread and the instructions up to AVX2, which Valgrind knows. Release: the profile of this workspace, optimized across crates.
Plain: cargo's own release profile, which programs have that use the crate from theirs.";

/// The variables that make cargo's own release profile of the workspace's.
const PLAIN: [(&str, &str); 2] =
    [("CARGO_PROFILE_RELEASE_LTO", "false"), ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")];

/// Counts for all shapes, in both profiles.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    tools::need(project, &[Tool::Valgrind])?;
    let generator = Generator::new(project)?;
    let plain = Project { target: project.target.join("plain"), ..project.clone() };
    // The short form counts only in the profile of the tests.
    let plain = match project.quick {
        true => None,
        false => Some(data::program_with(&plain, "sweeps", &PLAIN)?),
    };
    let mut table =
        Table::new(1, &["shape", "MB", "release", "plain", "release, per byte and sweep", "plain / release"]);
    for shape in &options.shapes {
        let data = generator.text(shape, options.size)?;
        let counted = |program: &str| count(project, program, &data, options.minibatch);
        let release = project.part(&format!("{shape}: release"), || counted(&generator.program))?;
        let plain = match &plain {
            Some(program) => project.part(&format!("{shape}: plain"), || counted(program))?,
            None => release,
        };
        let per_byte = release as f64 / data.bytes as f64 / SWEEPS;
        table.add(vec![
            shape.clone(),
            number(data.megabytes()),
            number(release as f64 / 1e6),
            number(plain as f64 / 1e6),
            number(per_byte),
            number(plain as f64 / release as f64),
        ]);
    }
    let count = table.len();
    Ok(Outcome::Measured(format!("{NOTE}\n\n{table}"), count))
}

/// Sweeps of the program, the checked one included.
const SWEEPS: f64 = 5.0;

/// The instructions of a run.
fn count(project: &Project, program: &str, data: &Data, minibatch: u64) -> Result<u64> {
    let run = bound("valgrind", &project.root, 1);
    let run = run.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", program]);
    let run = run.args(["measure", &data.shape]).arg(&data.path).arg(minibatch.to_string());
    let output = run.env("CNTK_READER_THREADS", "1").go()?;
    let counted = output.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    counted.with_context(|| format!("Callgrind printed no number of instructions:\n{output}"))
}
