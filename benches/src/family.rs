//! Measures random shapes and look-alikes of public corpora by both composite modules, in the same
//! driver as [`super::cntk`].

use crate::Outcome;
use crate::comparison::Goal;
use crate::data::Generator;
use crate::host::{Hosts, ReadPlan};
use crate::options::Options;
use crate::subject::Results;
use crate::table::{Table, number};
use anyhow::{Context, Result};
use oracle::install::{self, Installed};
use tooling::machine;
use tooling::project::Project;

const NOTE: &str = "\
The seed after `--family` draws the shapes; shapes with names are look-alikes of public corpora. One driver loads both composite
modules through CNTK's native interface; they take turns, and the medians of their runs count. Data are in the page cache, randomized
over all data. Minibatches have 256 samples unless the command has `--minibatch`, or a 64th of the data if that is less. Sweep 1 begins
with the start of the epoch; it loads, parses and packs; sweep 2 finds the data in memory. Memory is the peak of resident memory less
what the driver and CNTK's libraries had before. Before the timed runs both have delivered the same layouts and values, bit for bit.
Ratios are CNTK's time or memory divided by this library's. The ratio of copying is CNTK's time for sweep 2 divided by the time in
which the C library copies as many bytes, in pieces as large as the minibatches and on all CPUs at once, out of memory that no cache
holds. A reader that stores values as it delivers them cannot exceed it.";

const TUNING: &str = "\
This library was tuned on families 1 to 9 and on the look-alikes. Families from 10 on are for records only.";

/// Smaller seeds are for tuning.
pub const FIRST_SEED_OF_RECORDS: u64 = 10;

/// Minimum number of minibatches of a sweep.
const FEWEST_MINIBATCHES: u64 = 64;

/// Number of worst shapes whose time is broken down.
const WORST: usize = 3;

/// The measurements of a shape with a number of CPUs.
struct Row {
    name: String,
    description: String,
    megabytes: f64,
    cpus: usize,
    cntk: Times,
    own: Times,
}

/// Seconds and peak bytes of one module.
struct Times {
    open: f64,
    sweeps: [f64; 2],
    /// Time to copy the minibatches of a sweep.
    copying: f64,
    memory: f64,
}

impl Times {
    fn of(results: &Results) -> Result<Times> {
        Ok(Times {
            open: results.median("/open")?,
            sweeps: [results.median("/sweeps/0")?, results.median("/sweeps/1")?],
            // `copy_by_all` is for both sweeps.
            copying: results.median("/copy_by_all")? / 2.0,
            memory: results.median("/memory")? - results.median("/memory_before")?,
        })
    }
}

/// A ratio whose worst, median and best values are reported.
struct Ratio {
    what: &'static str,
    of: fn(&Row) -> f64,
    /// Goals of the worst and the median value, on one CPU and on several.
    goals: Option<[[f64; 2]; 2]>,
}

const RATIOS: [Ratio; 5] = [
    Ratio {
        what: "sweep 1",
        of: |row| row.cntk.sweeps[0] / row.own.sweeps[0],
        goals: Some([[5.0, 7.0], [8.0, 10.0]]),
    },
    Ratio {
        what: "sweep 2",
        of: |row| row.cntk.sweeps[1] / row.own.sweeps[1],
        goals: Some([[4.0, 6.0], [4.0, 6.0]]),
    },
    Ratio {
        what: "copying",
        of: |row| row.cntk.sweeps[1] / row.cntk.copying.min(row.own.copying),
        goals: None,
    },
    Ratio { what: "opening", of: |row| row.cntk.open / row.own.open, goals: None },
    Ratio {
        what: "memory",
        of: |row| row.cntk.memory / row.own.memory,
        goals: Some([[1.0, 1.0], [1.0, 1.0]]),
    },
];

/// Measures all shapes.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    let cntk = match install::install(project, &options.version)? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => return Ok(Outcome::Nothing(reason)),
    };
    let generator = Generator::new(project)?;
    let hosts = Hosts::new(project, &cntk, generator.folder.clone())?;
    let shapes = generator.family(options.seed)?;
    let shapes = &shapes[..options.most_shapes.min(shapes.len())];
    let mut rows = Vec::new();
    for (name, description) in shapes {
        let data = generator.text(name, options.size)?;
        let config = generator.config(&data, &[])?;
        let minibatch = options.minibatch.min(data.samples()? / FEWEST_MINIBATCHES).max(1);
        let read = ReadPlan { minibatch, truncation: 0, samples: "inf", sweeps: "2" };
        for &cpus in options.threads.iter().filter(|&&cpus| cpus <= machine::cores()) {
            let results = hosts.compare(project, name, &config, &read, cpus, options.repetitions)?;
            let [cntk, own] = &results[..] else {
                anyhow::bail!("{name}: results of two modules were expected")
            };
            rows.push(Row {
                name: name.clone(),
                description: description.clone(),
                megabytes: data.megabytes(),
                cpus,
                cntk: Times::of(cntk)?,
                own: Times::of(own)?,
            });
        }
    }
    let most = rows.iter().map(|row| row.cpus).max().context("no number of CPUs to measure with")?;
    let of_seed = if options.seed < FIRST_SEED_OF_RECORDS { " This family was used for tuning." } else { "" };
    let text = format!(
        "{NOTE}\n\n{TUNING}{of_seed}\n\n{}\nThe shapes with the smallest ratio in sweep 1, and how this library spends its time: \
         milliseconds of opening, of loading \
         (sweep 1 less sweep 2) and of packing (sweep 2).\n\n{}\nAll shapes.\n\n{}",
        summary(&rows),
        worst(&rows, most),
        all(&rows)
    );
    Ok(Outcome::Measured(text, rows.len()))
}

/// Tabulates the worst, median and best value of each ratio.
fn summary(rows: &[Row]) -> Table {
    let mut table =
        Table::new(2, &["CNTK by cntk-reader", "CPUs", "worst", "goal", "median", "goal", "best"]);
    let mut cpus: Vec<usize> = rows.iter().map(|row| row.cpus).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpus in cpus {
        for Ratio { what, of, goals } in &RATIOS {
            let mut ratios: Vec<f64> = rows.iter().filter(|row| row.cpus == cpus).map(of).collect();
            ratios.sort_by(f64::total_cmp);
            let [worst, median, best] = [0, ratios.len() / 2, ratios.len() - 1].map(|place| ratios[place]);
            let goals = goals.map(|goals| goals[usize::from(cpus > 1)]);
            let goal = |place: usize, ratio| {
                goals.map_or(String::new(), |goals| Goal::times(goals[place]).show(ratio, ratio, true))
            };
            table.add(vec![
                (*what).to_owned(),
                cpus.to_string(),
                number(worst),
                goal(0, worst),
                number(median),
                goal(1, median),
                number(best),
            ]);
        }
    }
    table
}

/// Tabulates the shapes with the smallest ratio of first sweeps on this number of CPUs.
fn worst(rows: &[Row], cpus: usize) -> Table {
    let mut table =
        Table::new(2, &["shape", "description", "sweep 1", "MB", "opening", "loading", "packing"]);
    let gain = RATIOS[0].of;
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.cpus == cpus).collect();
    rows.sort_by(|a, b| gain(a).total_cmp(&gain(b)));
    for row in rows.iter().take(WORST) {
        let [first, second] = row.own.sweeps;
        let times = [row.own.open, (first - second).max(0.0), second].map(|seconds| number(seconds * 1e3));
        let mut cells =
            vec![row.name.clone(), row.description.clone(), number(gain(row)), number(row.megabytes)];
        cells.extend(times);
        table.add(cells);
    }
    table
}

/// Tabulates all rows.
fn all(rows: &[Row]) -> Table {
    let mut headings = vec!["shape", "description", "CPUs", "sweep 1 MB/s", "sweep 2 MB/s"];
    headings.extend(RATIOS.iter().map(|ratio| ratio.what));
    let mut table = Table::new(2, &headings);
    for row in rows {
        let mut cells = vec![row.name.clone(), row.description.clone(), row.cpus.to_string()];
        cells.extend(row.own.sweeps.map(|seconds| number(row.megabytes / seconds)));
        cells.extend(RATIOS.iter().map(|ratio| number((ratio.of)(row))));
        table.add(cells);
    }
    table
}
