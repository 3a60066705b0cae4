//! Measures this library in CNTK's place and CNTK's own modules, in turn, in the same driver.

use crate::comparison::{Comparison, Goal, Row};
use crate::data::{Data, Generator};
use crate::host::{HostTask, Hosts, Module, ReadPlan};
use crate::options::Options;
use crate::subject::{Results, alternate};
use crate::table::{Table, number};
use crate::{Outcome, sweeps};
use anyhow::{Context, Result, ensure};
use oracle::install::{self, Installed};
use std::path::Path;
use tooling::machine;
use tooling::project::Project;

/// Sizes of small minibatches in samples.
const SMALL: [u64; 3] = [1, 8, 32];
/// Maximum size in megabytes of the data that are read in small minibatches.
const SMALL_SIZE: u64 = 20;
/// Shapes that are read in small minibatches: dense samples, and sequences of words.
const SMALL_SHAPES: [&str; 2] = ["integers", "words"];
/// Shapes that are also measured in the binary format: dense and sparse.
const BINARY_SHAPES: [&str; 2] = ["floats", "words"];
/// Shapes whose first minibatch is timed: one without ids, where each line is a sequence, and one
/// with ids.
const FIRST_SHAPES: [&str; 2] = ["floats", "words"];
/// Size of the text that is converted to binary data, as a multiple of `--size`: binary data are
/// read faster.
const BINARY_FACTOR: u64 = 2;
/// Numbers of loading threads in the last table.
const THREADS: [usize; 4] = [1, 2, 3, 4];

/// Measures everything.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    let cntk = match install::install(project, &options.version)? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => return Ok(Outcome::Nothing(reason)),
    };
    let cores = machine::cores();
    let cpus: Vec<usize> = options.threads.iter().copied().filter(|&cpus| cpus <= cores).collect();
    ensure!(!cpus.is_empty(), "This machine has {cores} CPUs, fewer than asked for.");
    let generator = Generator::new(project)?;
    let hosts = Hosts::new(project, &cntk, generator.folder.clone())?;
    let mut bench =
        Bench { project, options, generator, hosts, cpus, comparison: Comparison::new(&options.version) };
    for shape in shapes(options, &["integers", "floats", "words", "bags"]) {
        bench.text(shape)?;
    }
    for shape in shapes(options, &BINARY_SHAPES) {
        bench.binary(shape)?;
    }
    for shape in shapes(options, &SMALL_SHAPES) {
        bench.small(shape)?;
    }
    for shape in shapes(options, &FIRST_SHAPES) {
        bench.first(shape)?;
    }
    let scaling = bench.scaling()?;
    let count = bench.comparison.table.len() + scaling.len();
    let note = note(options);
    let comparison = bench.comparison.table;
    let text = format!("{note}\n\n{comparison}\nThis library alone, from Rust, on all CPUs:\n\n{scaling}");
    Ok(Outcome::Measured(text, count))
}

/// Returns the shapes that the options select.
fn shapes<'a>(options: &Options, shapes: &[&'a str]) -> Vec<&'a str> {
    shapes.iter().copied().filter(|&shape| options.shapes.iter().any(|wanted| wanted == shape)).collect()
}

fn note(options: &Options) -> String {
    format!(
        "\
One driver loads both composite modules through CNTK's native interface; they take turns, and the medians of {} runs each
count. Both processes have the same CPUs, this library as many loading threads as CPUs; CNTK's module, which has no
setting for threads, works on the caller's. Data are in the page cache, randomized over all data, minibatches of {}
samples, unless a row says otherwise. Sweep 1 begins with the start of the epoch; it loads, parses and packs; sweep 2 finds
the data in memory. The time to the first minibatch includes opening the reader. Memory is the peak of resident memory
less what the driver and CNTK's libraries had before. Copying is the time in which the C library copies as many bytes out of memory
that no cache holds. Both modules have delivered the same number of minibatches and samples, and, in runs that are not timed,
the same layouts and values, bit for bit. Times better is CNTK's time or memory divided by this library's; goals without a
unit are for this factor. Rows that do not reach their goal say `missed`. The index is built when a randomized reader is opened.",
        options.repetitions, options.minibatch,
    )
}

/// The state of a run.
struct Bench<'a> {
    project: &'a Project,
    options: &'a Options,
    generator: Generator<'a>,
    hosts: Hosts,
    cpus: Vec<usize>,
    comparison: Comparison,
}

impl Bench<'_> {
    /// Measures two sweeps of text.
    fn text(&mut self, shape: &'static str) -> Result<()> {
        let data = self.generator.text(shape, self.options.size)?;
        let sparse = matches!(shape, "words" | "bags");
        for (cpus, results) in self.sweeps(shape, &data)? {
            let goal = match (shape, cpus) {
                ("floats", 1) => Goal::times(4.5),
                ("floats", _) => Goal::times(8.0),
                (_, 1) => Goal::times(6.0),
                _ => Goal::times(10.0),
            };
            let what =
                |what: &str| Row { what: what.to_owned(), data: shape.to_owned(), cpus, goal: Goal::NONE };
            let rate = |amount: f64, sweep: &'static str| {
                move |results: &Results| Ok(amount / results.median(sweep)?)
            };
            let samples = results[0].median("/samples")? / 2.0;
            let comparison = &mut self.comparison;
            comparison.rate(
                Row { goal, ..what("sweep 1, MB/s") },
                &results,
                rate(data.megabytes(), "/sweeps/0"),
            )?;
            let goal = match shape {
                "words" => Goal { own: Some((40.0, "million")), ..Goal::times(4.0) },
                _ if sparse => Goal::times(4.0),
                _ => Goal::times(2.0),
            };
            comparison.rate(
                Row { goal, ..what("sweep 2, million samples/s") },
                &results,
                rate(samples / 1e6, "/sweeps/1"),
            )?;
            comparison.cost(what("opening, ms"), &results, |results| Ok(results.median("/open")? * 1e3))?;
            comparison.cost(Row { goal: Goal::times(1.7), ..what("memory, MB") }, &results, |results| {
                Ok((results.median("/memory")? - results.median("/memory_before")?) / 1e6)
            })?;
        }
        Ok(())
    }

    /// Measures two sweeps of binary data.
    fn binary(&mut self, shape: &'static str) -> Result<()> {
        let text = self.generator.text(shape, BINARY_FACTOR * self.options.size)?;
        let data = self.generator.binary(&text)?;
        let name = format!("{shape}, binary");
        for (cpus, results) in self.sweeps(&name, &data)? {
            let what = |what: &str, goal| Row { what: what.to_owned(), data: name.clone(), cpus, goal };
            let samples = results[0].median("/samples")? / 2.0;
            let own = (shape == "floats" && cpus > 1).then_some((2000.0, "MB/s"));
            let goal = Goal { own, ..Goal::times(5.0) };
            let comparison = &mut self.comparison;
            comparison.rate(what("sweep 1, MB/s", goal), &results, |results| {
                Ok(data.megabytes() / results.median("/sweeps/0")?)
            })?;
            comparison.rate(what("sweep 2, million samples/s", Goal::NONE), &results, |results| {
                Ok(samples / 1e6 / results.median("/sweeps/1")?)
            })?;
        }
        Ok(())
    }

    /// Measures two sweeps by both modules, with each number of CPUs.
    fn sweeps(&self, what: &str, data: &Data) -> Result<Vec<(usize, Vec<Results>)>> {
        let config = self.generator.config(data, &[])?;
        let read = ReadPlan { minibatch: self.options.minibatch, truncation: 0, samples: "inf", sweeps: "2" };
        let measure = |&cpus: &usize| Ok((cpus, self.both(what, &config, &read, cpus)?));
        self.cpus.iter().map(measure).collect()
    }

    /// Measures both modules, CNTK's first, after comparing their minibatches.
    fn both(&self, what: &str, config: &Path, read: &ReadPlan<'_>, cpus: usize) -> Result<Vec<Results>> {
        self.hosts.compare(self.project, what, config, read, cpus, self.options.repetitions)
    }

    /// Measures the cost of each small minibatch in the second sweep.
    fn small(&mut self, shape: &'static str) -> Result<()> {
        let cpus = self.most_cpus();
        let data = self.generator.text(shape, self.options.size.min(SMALL_SIZE))?;
        let config = self.generator.config(&data, &[])?;
        for size in SMALL {
            let read = ReadPlan { minibatch: size, truncation: 0, samples: "inf", sweeps: "2" };
            let results = self.both(&format!("{shape}, minibatches of {size}"), &config, &read, cpus)?;
            // `minibatches` counts both sweeps.
            let each = |results: &Results| -> Result<f64> {
                Ok(results.median("/sweeps/1")? * 2e6 / results.median("/minibatches")?)
            };
            let copying = |results: &Results| -> Result<f64> {
                Ok(results.median("/copy")? * 1e6 / results.median("/minibatches")?)
            };
            let row = |what: &str, goal| Row {
                what: format!("minibatch of {size}, {what}"),
                data: shape.to_owned(),
                cpus,
                goal,
            };
            self.comparison.cost(row("µs", Goal::NONE), &results, each)?;
            self.comparison.cost(row("µs beside copying", Goal::own(3.0, "µs")), &results, |results| {
                Ok((each(results)? - copying(results)?).max(0.0))
            })?;
        }
        Ok(())
    }

    /// Measures the time to the first minibatch of data that are not randomized, without and with
    /// an index cache.
    fn first(&mut self, shape: &'static str) -> Result<()> {
        let cpus = self.most_cpus();
        let data = self.generator.text(shape, self.options.first_size)?;
        self.index(shape, &data)?;
        let minibatch = self.options.minibatch;
        let read = ReadPlan { minibatch, truncation: 0, samples: &minibatch.to_string(), sweeps: "inf" };
        for (what, flags) in [("", &["in-order"][..]), (" with index", &["in-order", "cache-index"])] {
            let config = self.generator.config(&data, flags)?;
            if !what.is_empty() {
                // The cache is in CNTK's format, so one file serves both modules.
                let script = self.hosts.script(&read, "bench")?;
                self.hosts
                    .subject(Module::Own, &HostTask { config: &config, script: &script, cpus })
                    .once()?;
                self.check_index(&data)?;
            }
            let results = self.both(&format!("{shape}, first minibatch{what}"), &config, &read, cpus)?;
            let row = Row {
                what: format!("first minibatch{what}, ms"),
                data: format!("{shape}, {:.0} MB, in order", data.megabytes()),
                cpus,
                // The goal holds for 1 GB of data.
                goal: if what.is_empty() || self.options.first_size != 1000 {
                    Goal::NONE
                } else {
                    Goal::own(200.0, "ms")
                },
            };
            self.comparison.cost(row, &results, |results| {
                Ok((results.median("/open")? + results.median("/first")?) * 1e3)
            })?;
        }
        Ok(())
    }

    /// Measures how fast the whole index is built, which opening a randomized reader requires.
    fn index(&mut self, shape: &str, data: &Data) -> Result<()> {
        let cpus = self.most_cpus();
        let config = self.generator.config(data, &[])?;
        let script = self.hosts.script_of_opening()?;
        let subjects = self.hosts.both(&HostTask { config: &config, script: &script, cpus });
        let what = format!("{shape}, index");
        let results = alternate(self.project, &what, &subjects, self.options.repetitions, &[])?;
        let data_name = format!("{shape}, {:.0} MB", data.megabytes());
        let row = Row { what: "index, MB/s".to_owned(), data: data_name, cpus, goal: Goal::NONE };
        self.comparison.rate(row, &results, |results| Ok(data.megabytes() / results.median("/open")?))
    }

    /// Fails if there is no index cache beside the data.
    fn check_index(&self, data: &Data) -> Result<()> {
        let name = data.path.file_name().context("data have a name")?.to_string_lossy().into_owned();
        let files = std::fs::read_dir(&self.generator.folder)?.filter_map(|entry| entry.ok());
        let mut names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let found = names.any(|file| file.starts_with(&name) && file.ends_with(".cache"));
        ensure!(found, "{name}: no index was written");
        Ok(())
    }

    /// Measures this library alone, with increasing numbers of threads.
    fn scaling(&self) -> Result<Table> {
        let mut table = Table::new(
            1,
            &[
                "shape",
                "threads",
                "sweep 1 MB/s",
                "by 1 thread",
                "sweep 2 MB/s",
                "by 1 thread",
                "allocations a minibatch",
            ],
        );
        let (project, options) = (self.project, self.options);
        for shape in &options.shapes {
            let data = self.generator.text(shape, options.size)?;
            let own = |threads| {
                sweeps::own(project, &self.generator, &data, options.minibatch, threads, machine::cores())
            };
            let subjects = THREADS.map(own);
            let results =
                alternate(project, shape, &subjects, options.repetitions, &["/minibatches", "/samples"])?;
            let rate = |results: &Results, sweep: &str| {
                Ok::<f64, anyhow::Error>(data.megabytes() / results.median(sweep)?)
            };
            for (threads, result) in THREADS.iter().zip(&results) {
                let mut row = vec![shape.clone(), threads.to_string()];
                for sweep in ["/sweeps/0", "/sweeps/1"] {
                    let speed = rate(result, sweep)?;
                    row.extend([number(speed), number(speed / rate(&results[0], sweep)?)]);
                }
                row.push(number(result.median("/allocations")?));
                table.add(row);
            }
        }
        Ok(table)
    }

    fn most_cpus(&self) -> usize {
        self.cpus.iter().copied().max().unwrap_or(1)
    }
}
