//! Measures images beside CNTK's own modules in the same driver, and beside decoders and PyTorch's
//! DataLoader.

mod corpus;
mod peers;

use crate::Outcome;
use crate::comparison::{Comparison, Goal, Row};
use crate::host::{Hosts, ReadPlan};
use crate::options::Options;
use anyhow::{Result, ensure};
use corpus::{Corpus, Pipeline, SIDE};
use oracle::install::{self, Installed};
use tooling::machine;
use tooling::project::Project;

/// Images of a minibatch.
const MINIBATCH: u64 = 64;

/// Whether CNTK, the decoders and PyTorch are installed.
pub fn are_installed(project: &Project) -> bool {
    install::has_images(project, install::VERSIONS[0]) && peers::are_installed(project)
}

/// Measures everything.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    let cntk = match install::install(project, &options.version)? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => return Ok(Outcome::Nothing(reason)),
    };
    if let Some(reason) = install::images(project, &cntk)? {
        return Ok(Outcome::Nothing(reason));
    }
    if let Some(reason) = peers::install(project)? {
        return Ok(Outcome::Nothing(reason));
    }
    let cores = machine::cores();
    let cpus: Vec<usize> = options.threads.iter().copied().filter(|&cpus| cpus <= cores).collect();
    ensure!(!cpus.is_empty(), "This machine has {cores} CPUs, fewer than asked for.");
    let corpus = Corpus::new(project, options.size)?;
    let hosts = Hosts::new(project, &cntk, corpus.folder.clone())?;
    let read = ReadPlan { minibatch: MINIBATCH, truncation: 0, samples: "inf", sweeps: "1" };
    let mut comparison = Comparison::new(&options.version);
    for pipeline in [Pipeline::Crops, Pipeline::Whole] {
        let (name, config) = (pipeline.name(), corpus.config(pipeline)?);
        for &cpus in &cpus {
            let results = hosts.compare(project, name, &config, &read, cpus, options.repetitions)?;
            let row = |what: &str, goal| Row { what: what.to_owned(), data: name.to_owned(), cpus, goal };
            let goal = if pipeline == Pipeline::Crops { Goal::times(3.0) } else { Goal::NONE };
            let images = corpus.images as f64;
            comparison
                .rate(row("images/s", goal), &results, |results| Ok(images / results.median("/sweeps/0")?))?;
            comparison.cost(row("memory, MB", Goal::NONE), &results, |results| {
                Ok((results.median("/memory")? - results.median("/memory_before")?) / 1e6)
            })?;
        }
    }
    let comparison = comparison.table;
    let (speeds, ratios) = peers::measure(project, options, &cpus, &corpus)?;
    let count = comparison.len() + speeds.len() + ratios.len();
    let text = format!(
        "{}\n\n{comparison}\n{}\n\n{speeds}\nRatios of these, with their goals:\n\n{ratios}",
        note(options, &corpus, cntk.jpeg_note()),
        peers::NOTE
    );
    Ok(Outcome::Measured(text, count))
}

fn note(options: &Options, corpus: &Corpus, jpeg: &str) -> String {
    format!(
        "\
{} JPEG files of 500 x 375 pixels, quality 90, color at half the resolution (4:2:0), {:.0} MB; generated from smooth noise at all
scales, shapes and grain. `{}`: in random order, a random part of 8 to 100 % of the area, mirrored at random, scaled to
{SIDE} x {SIDE} (linear), less a mean image, transposed to planes. `{}`: the decoded pixels, in order. Minibatches of {MINIBATCH}
images, with sparse labels. One driver loads both composite modules through CNTK's native interface; they take turns, and the
medians of {} runs each count. Both processes have the same CPUs, this library as many loading threads as CPUs, CNTK as many
OpenMP threads. CNTK decodes with {jpeg}. Files are in the page cache; the first sweep is timed from the start of the epoch.
Memory is the peak of resident memory less what the driver and CNTK's libraries had before. Both modules have delivered the same
layouts, pixels and labels, bit for bit, in runs that are not timed. Rows that do not reach their goal say `missed`.",
        corpus.images,
        corpus.megabytes,
        Pipeline::Crops.name(),
        Pipeline::Whole.name(),
        options.repetitions,
    )
}
