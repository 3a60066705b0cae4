//! Measures this library alone, from Rust: opening, two sweeps, memory.

use crate::Outcome;
use crate::data::{Data, Generator};
use crate::options::Options;
use crate::subject::{Subject, alternate, bound};
use crate::table::{Table, number};
use anyhow::Result;
use tooling::machine;
use tooling::project::Project;

const NOTE: &str = "\
Randomized over all data, data in the page cache, minibatches of 256 samples unless the command has `--minibatch`. Sweep 1
loads and parses, index is the time to open the reader, peak is the peak of resident memory after four sweeps, allocations
are per minibatch of the fourth sweep. The data of every run were checked in a fifth sweep, which is not timed.";

/// Measures all shapes and numbers of threads.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    let generator = Generator::new(project)?;
    let mut table = Table::new(
        2,
        &[
            "shape",
            "reader",
            "threads",
            "MB",
            "index s",
            "sweep 1 MB/s",
            "samples/s",
            "sweep 2 MB/s",
            "samples/s",
            "peak MB",
            "allocations",
        ],
    );
    for shape in &options.shapes {
        let data = generator.text(shape, options.size)?;
        let own = |&threads| own(project, &generator, &data, options.minibatch, threads, machine::cores());
        let subjects: Vec<Subject> = options.threads.iter().map(own).collect();
        let results =
            alternate(project, shape, &subjects, options.repetitions, &["/samples", "/minibatches"])?;
        for (results, threads) in results.iter().zip(&options.threads) {
            let mut row = vec![shape.clone(), "cntk-reader".to_owned(), threads.to_string()];
            let samples = results.median("/samples")? / 4.0;
            row.extend([number(data.megabytes()), number(results.median("/open")?)]);
            for sweep in ["/sweeps/0", "/sweeps/1"] {
                let seconds = results.median(sweep)?;
                row.extend([number(data.megabytes() / seconds), number(samples / seconds)]);
            }
            row.extend([number(results.median("/memory")? / 1e6), number(results.median("/allocations")?)]);
            table.add(row);
        }
    }
    let count = table.len();
    Ok(Outcome::Measured(format!("{NOTE}\n\n{table}"), count))
}

/// Returns the subject that runs this library with `threads` loading threads on `cpus` CPUs.
pub fn own(
    project: &Project,
    generator: &Generator<'_>,
    data: &Data,
    minibatch: u64,
    threads: usize,
    cpus: usize,
) -> Subject {
    let (root, program, data) = (project.root.clone(), generator.program.clone(), data.clone());
    let name = format!("{threads} thread{}", if threads == 1 { "" } else { "s" });
    Subject::new(name, move || {
        let run = bound(&program, &root, cpus).args(["measure", &data.shape]).arg(&data.path);
        run.arg(minibatch.to_string()).env("CNTK_READER_THREADS", threads.to_string())
    })
}
