//! Measures speech features with labels beside CNTK's own modules in the same driver, and features
//! beside libraries that read the same formats.

mod corpus;
mod peers;

use crate::Outcome;
use crate::comparison::{Comparison, Goal, Row};
use crate::host::{HostTask, Hosts, ReadPlan};
use crate::options::Options;
use crate::subject::{Results, Subject, alternate, bound};
use crate::table::{Table, number};
use anyhow::{Context, Result, ensure};
use corpus::{ConfigOptions, Corpus, CorpusGenerator, Format, ReadMode, TRUNCATION};
use oracle::install::{self, Installed};
use tooling::machine;
use tooling::project::Project;

/// Frames of an utterance, and values of a frame.
const SHAPE: (u64, u64) = (500, 40);
/// The corpus that is only opened: its number of utterances as a multiple of the other corpus, and
/// its shape.
const OPENED: (u64, (u64, u64)) = (50, (50, 1));
/// Neighbours of a frame on each side.
const CONTEXTS: [u32; 2] = [0, 5];
/// Bytes of the key of an utterance, such as `utt000000`.
const KEY: f64 = 9.0;

/// Whether CNTK and the other libraries are installed.
pub fn are_installed(project: &Project) -> bool {
    install::is_installed(project, install::VERSIONS[0]) && peers::are_installed(project)
}

/// Measures everything.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    let cntk = match install::install(project, &options.version)? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => return Ok(Outcome::Nothing(reason)),
    };
    if let Some(reason) = peers::install(project)? {
        return Ok(Outcome::Nothing(reason));
    }
    let cores = machine::cores();
    let cpus: Vec<usize> = options.threads.iter().copied().filter(|&cpus| cpus <= cores).collect();
    ensure!(!cpus.is_empty(), "This machine has {cores} CPUs, fewer than asked for.");
    let generator = CorpusGenerator::new(project)?;
    let (frames, values) = SHAPE;
    let utterances = (options.size * 1_000_000 / (4 * frames * values)).max(1);
    let corpus = generator.corpus(utterances, frames, values, true)?;
    let hosts = Hosts::new(project, &cntk, generator.folder.clone())?;
    let comparison = Comparison::new(&options.version);
    let copying = Table::new(
        2,
        &["what", "context", "CPUs", "delivered GB/s", "copied GB/s", "of copying", "million values/ms"],
    );
    let mut bench = Bench { project, options, corpus: &corpus, hosts, cpus, comparison, copying };
    for context in CONTEXTS {
        for mode in ReadMode::ALL {
            bench.sweeps(mode, context)?;
        }
    }
    bench.files()?;
    let memory = bench.opening(&generator)?;
    let (comparison, copying) = (bench.comparison.table, bench.copying);
    let peers = peers::measure(project, options, &generator, &corpus)?;
    let count = comparison.len() + memory.len() + peers.len();
    let text = format!(
        "{}\n\n{comparison}\nThis library's second sweeps, and the C library copying as many bytes out of memory that no \
         cache holds:\n\n{copying}\nMemory that an open reader holds, from Rust:\n\n{memory}\n{}\n\n{peers}",
        note(options, &corpus),
        peers::NOTE
    );
    Ok(Outcome::Measured(text, count))
}

fn note(options: &Options, corpus: &Corpus) -> String {
    format!(
        "\
{} utterances of {} frames with {} values ({:.0} MB) and their labels: an HTK archive with a script file, an MLF, and a list of 132
states. One driver loads both composite modules through CNTK's native interface; they take turns, and the medians of {} runs each
count. Both processes have the same CPUs, this library as many loading threads as CPUs; CNTK's module works on the caller's. Data
are in the page cache, randomized over all data. Context 5:5 makes samples of eleven frames. Minibatches have {} samples of whole
utterances, {} single frames, or {} samples of truncated utterances in pieces of {TRUNCATION}. Sweep 1 begins with the start of the
epoch; it loads and packs; sweep 2 finds the data in memory. Memory is the peak of resident memory less what the driver and CNTK's
libraries had before. Both modules have delivered the same number of minibatches and samples, and, in runs that are not timed, the
same layouts and values, bit for bit. Times better is CNTK's time or memory divided by this library's; goals without a unit are for
this factor. Rows that do not reach their goal say `missed`.",
        corpus.utterances,
        corpus.frames,
        corpus.values,
        corpus.megabytes(),
        options.repetitions,
        minibatch(ReadMode::Sequences),
        minibatch(ReadMode::Frames),
        minibatch(ReadMode::Truncated),
    )
}

/// Minibatch size in samples.
fn minibatch(mode: ReadMode) -> u64 {
    match mode {
        ReadMode::Sequences => 5000,
        ReadMode::Frames => 256,
        ReadMode::Truncated => 640,
    }
}

/// The state of a run.
struct Bench<'a> {
    project: &'a Project,
    options: &'a Options,
    corpus: &'a Corpus,
    hosts: Hosts,
    cpus: Vec<usize>,
    comparison: Comparison,
    copying: Table,
}

impl Bench<'_> {
    /// Measures two sweeps in one mode, with each number of CPUs.
    fn sweeps(&mut self, mode: ReadMode, context: u32) -> Result<()> {
        let format = Format::Archive;
        let options = ConfigOptions { format, mode, context, with_labels: true, is_randomized: true };
        let config = self.corpus.config(options)?;
        let truncation = if mode == ReadMode::Truncated { TRUNCATION } else { 0 };
        let read = ReadPlan { minibatch: minibatch(mode), truncation, samples: "inf", sweeps: "2" };
        let name = format!("{}, context {context}", mode.name());
        let millions = self.corpus.all_frames() / 1e6;
        for cpus in self.cpus.clone() {
            let repetitions = self.options.repetitions;
            let results = self.hosts.compare(self.project, &name, &config, &read, cpus, repetitions)?;
            let row = |what: &str, goal| Row { what: what.to_owned(), data: name.clone(), cpus, goal };
            let first = Goal::times(if context == 0 { 8.0 } else { 5.0 });
            for (sweep, pointer, goal) in
                [("sweep 1", "/sweeps/0", first), ("sweep 2", "/sweeps/1", Goal::times(2.0))]
            {
                let row = row(&format!("{sweep}, million frames/s"), goal);
                self.comparison.rate(row, &results, |results| Ok(millions / results.median(pointer)?))?;
            }
            self.comparison.cost(row("memory, MB", Goal::NONE), &results, |results| {
                Ok((results.median("/memory")? - results.median("/memory_before")?) / 1e6)
            })?;
            self.copying(mode, context, cpus, &results[1])?;
        }
        Ok(())
    }

    /// Adds a row that compares a second sweep with copying.
    fn copying(&mut self, mode: ReadMode, context: u32, cpus: usize, own: &Results) -> Result<()> {
        // `bytes` and `copy` are for both sweeps.
        let (bytes, copy, sweep) =
            (own.median("/bytes")? / 2.0, own.median("/copy")? / 2.0, own.median("/sweeps/1")?);
        let context = if context == 0 { "0".to_owned() } else { format!("{context}:{context}") };
        self.copying.add(vec![
            mode.name().to_owned(),
            context,
            cpus.to_string(),
            number(bytes / sweep / 1e9),
            number(bytes / copy / 1e9),
            format!("{:.0} %", 100.0 * copy / sweep),
            number(bytes / 4.0 / sweep / 1e9),
        ]);
        Ok(())
    }

    /// Measures a first sweep over one file for each utterance, in order, without labels.
    fn files(&mut self) -> Result<()> {
        let (format, mode) = (Format::Files, ReadMode::Sequences);
        let options = ConfigOptions { format, mode, context: 0, with_labels: false, is_randomized: false };
        let config = self.corpus.config(options)?;
        let read = ReadPlan { minibatch: minibatch(mode), truncation: 0, samples: "inf", sweeps: "1" };
        let utterances = self.corpus.utterances as f64;
        for cpus in self.cpus.clone() {
            let repetitions = self.options.repetitions;
            let results =
                self.hosts.compare(self.project, "separate files", &config, &read, cpus, repetitions)?;
            let goal = if cpus == 1 { Goal::own(34.0, "µs") } else { Goal::NONE };
            let data = "sequences, separate files, in order".to_owned();
            let row = Row { what: "sweep 1, µs an utterance".to_owned(), data, cpus, goal };
            self.comparison
                .cost(row, &results, |results| Ok(results.median("/sweeps/0")? * 1e6 / utterances))?;
        }
        Ok(())
    }

    /// Measures opening many utterances with labels: the time beside CNTK, and the memory of the
    /// open reader.
    fn opening(&mut self, generator: &CorpusGenerator<'_>) -> Result<Table> {
        let (factor, (frames, values)) = OPENED;
        let corpus = generator.corpus(factor * self.corpus.utterances, frames, values, false)?;
        let (format, mode) = (Format::Archive, ReadMode::Sequences);
        let options = ConfigOptions { format, mode, context: 0, with_labels: true, is_randomized: true };
        let config = corpus.config(options)?;
        let script = self.hosts.script_of_opening()?;
        let utterances = corpus.utterances as f64;
        let name = format!("{utterances} utterances");
        for cpus in self.cpus.clone() {
            let subjects = self.hosts.both(&HostTask { config: &config, script: &script, cpus });
            let what = format!("opening, {cpus} CPUs");
            let results = alternate(self.project, &what, &subjects, self.options.repetitions, &[])?;
            let row = |what: &str, goal| Row { what: what.to_owned(), data: name.clone(), cpus, goal };
            let cost = row("opening, ms", Goal::times(10.0));
            self.comparison.cost(cost, &results, |results| Ok(results.median("/open")? * 1e3))?;
            let cost = row("resident after opening, bytes an utterance", Goal::NONE);
            self.comparison.cost(cost, &results, |results| {
                Ok((results.median("/memory")? - results.median("/memory_before")?) / utterances)
            })?;
        }
        self.held(generator, &corpus)
    }

    /// Measures the memory that an open reader holds for each utterance.
    fn held(&self, generator: &CorpusGenerator<'_>, corpus: &Corpus) -> Result<Table> {
        let mut table =
            Table::new(1, &["data", "utterances", "held, bytes an utterance", "beside its key", "goal"]);
        for (name, format, with_labels) in [
            ("HTK archive", Format::Archive, false),
            ("HTK archive and labels", Format::Archive, true),
            ("Kaldi archive", Format::Kaldi, false),
        ] {
            let mode = ReadMode::Sequences;
            let config = corpus.config(ConfigOptions {
                format,
                mode,
                context: 0,
                with_labels,
                is_randomized: true,
            })?;
            let (root, program) = (self.project.root.clone(), generator.program.clone());
            let subject = Subject::new("cntk-reader", move || {
                bound(&program, &root, machine::cores()).arg("open").arg(&config)
            });
            let held = subject.once()?["held"].as_f64().context("`held` is missing")?;
            let each = held / corpus.utterances as f64;
            let goal = Goal::own(64.0, "bytes");
            table.add(vec![
                name.to_owned(),
                corpus.utterances.to_string(),
                number(each),
                number(each - KEY),
                goal.show(1.0, each - KEY, false),
            ]);
        }
        Ok(table)
    }
}
