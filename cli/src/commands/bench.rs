//! `cntk-reader bench`: times each stage of reading on the user's own data and machine.

use crate::args::{Form, Global};
use crate::exit::{Exit, Outcome};
use crate::input::Input;
use crate::numbers::whole;
use crate::open::{Scan, open};
use crate::output::{Output, SCHEMA, count, rounded};
use crate::progress::Progress;
use cntk_reader::Epoch;
use cntk_reader_tools::Look;
use cntk_reader_tools::stages::Work;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Time the stages of reading, each alone, and all of them together
///
/// The stages: `read` reads the bytes of the files; `index` finds where sequences lie; `parse`
/// loads all chunks (including the bytes); `randomize` draws the order of a sweep; `pack` makes
/// minibatches of chunks that are in memory; `all` is a sweep as training gets it. Each stage runs
/// once to warm up and then --repetitions times; the median is reported.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader bench train.cntk                     1, 2, 4 ... threads, up to the number of CPUs
  cntk-reader bench train.ctf --stages parse,all --threads-list 1,8 --format json > bench.json")]
pub struct Bench {
    /// A configuration, or a data file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Stages to time
    #[arg(long, value_enum, value_delimiter = ',', value_name = "STAGE",
          default_values_t = [Stage::Read, Stage::Index, Stage::Parse, Stage::Randomize, Stage::Pack, Stage::All])]
    stages: Vec<Stage>,

    /// Numbers of threads [default: --threads, or 1, 2, 4 ... up to the number of CPUs]
    #[arg(long, value_delimiter = ',', value_name = "N", allow_negative_numbers = true,
          value_parser = whole::<usize, 1>)]
    threads_list: Vec<usize>,

    /// Number of times each stage is timed
    #[arg(long, value_name = "COUNT", default_value_t = 3, allow_negative_numbers = true,
          value_parser = whole::<usize, 1>)]
    repetitions: usize,

    /// Minibatch size in samples
    #[arg(long, value_name = "SAMPLES", default_value_t = 256, allow_negative_numbers = true,
          value_parser = whole::<u64, 1>)]
    minibatch_size: u64,

    /// Amount of data to hold in memory for packing, in MB of their files
    #[arg(long, value_name = "MB", default_value_t = 256, allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    pack_size: u64,
}

/// A stage of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Stage {
    Read,
    Index,
    Parse,
    Randomize,
    Pack,
    All,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    file: String,
    version: &'static str,
    machine: Machine,
    minibatch_size: u64,
    repetitions: usize,
    results: Vec<Timing>,
}

#[derive(Serialize)]
struct Machine {
    processor: String,
    cpus: usize,
    memory_bytes: u64,
    system: String,
    /// Average number of processes that ran or waited for a CPU in the last minute, before the
    /// first measurement.
    load: f64,
}

#[derive(Serialize)]
struct Timing {
    stage: Stage,
    threads: usize,
    bytes: u64,
    sequences: u64,
    samples: u64,
    seconds: f64,
    slowest_seconds: f64,
    megabytes_per_second: f64,
    samples_per_second: f64,
}

pub fn run(options: &Bench, global: &Global) -> Outcome {
    let input = Input::recognize(&options.file, global)?;
    let opened = || open(&input, Scan::Whole, global, |reader| reader.trace_level(0));
    let mut report = Report {
        schema: SCHEMA,
        command: "bench",
        file: options.file.display().to_string(),
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::this(),
        minibatch_size: options.minibatch_size,
        repetitions: options.repetitions,
        results: Vec::new(),
    };
    let progress = Progress::activity(global);
    let epoch = Epoch::sweeps(1).minibatch_size(options.minibatch_size);
    for threads in options.threads(global) {
        cntk_reader::set_threads(threads);
        let stages = opened()?.stages()?;
        for &stage in &options.stages {
            let stage_name = format!("{stage:?}").to_lowercase();
            progress.say(format!("Timing '{stage_name}' with {}", count(threads as u64, "thread")));
            let mut time = |work: &mut dyn FnMut() -> cntk_reader::Result<Work>| {
                Timing::of(stage, threads, options.repetitions, work)
                    .map(|timing| report.results.push(timing))
            };
            match stage {
                Stage::Read => time(&mut || stages.read())?,
                Stage::Index => time(&mut || stages.index())?,
                Stage::Parse => time(&mut || stages.parse())?,
                Stage::Randomize => time(&mut || stages.randomize(&epoch))?,
                Stage::Pack => {
                    let mut loaded = stages.load_for_packing(options.pack_size.saturating_mul(1_000_000))?;
                    time(&mut || loaded.pack(options.minibatch_size))?;
                }
                Stage::All => {
                    let all = stages.work();
                    let mut reader = opened()?.open()?;
                    time(&mut || {
                        reader.epoch(epoch)?.try_for_each(|minibatch| minibatch.map(drop)).map(|()| all)
                    })?;
                }
            }
        }
    }
    drop(progress);
    let mut output = Output::new(global, Form::Table);
    match output.form {
        Form::Table => report.table(&mut output)?,
        Form::Json | Form::Ndjson => output.json(&report)?,
    }
    output.finish()?;
    Ok(Exit::Good)
}

impl Bench {
    fn threads(&self, global: &Global) -> Vec<usize> {
        if !self.threads_list.is_empty() {
            return self.threads_list.clone();
        }
        if let Some(threads) = global.threads {
            return vec![threads as usize];
        }
        let cpus = cntk_reader::threads();
        let powers = std::iter::successors(Some(1usize), |threads| threads.checked_mul(2));
        powers.take_while(|&threads| threads < cpus).chain([cpus]).collect()
    }
}

impl Timing {
    fn of(
        stage: Stage,
        threads: usize,
        repetitions: usize,
        work: &mut dyn FnMut() -> cntk_reader::Result<Work>,
    ) -> cntk_reader::Result<Timing> {
        let mut done = work()?;
        let mut times = Vec::with_capacity(repetitions);
        for _ in 0..repetitions {
            let begun = Instant::now();
            done = work()?;
            times.push(begun.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let seconds = times[times.len() / 2];
        let rate = |amount: u64| amount as f64 / seconds.max(1e-9);
        Ok(Timing {
            stage,
            threads,
            bytes: done.bytes,
            sequences: done.sequences,
            samples: done.samples,
            seconds,
            slowest_seconds: times.last().copied().unwrap_or(seconds),
            megabytes_per_second: rate(done.bytes) / 1e6,
            samples_per_second: rate(done.samples),
        })
    }
}

impl Report {
    fn table(&self, output: &mut Output) -> std::io::Result<()> {
        let Machine { processor, cpus, load, .. } = &self.machine;
        output.line(&format!(
            "{}, version {}; {processor}, {}, load {load}",
            self.file,
            self.version,
            count(*cpus as u64, "CPU")
        ))?;
        let row = |timing: &Timing| {
            // Drawing an order reads nothing, and of speech and images bytes are not counted.
            let rate = match (timing.bytes, timing.stage) {
                (0, _) | (_, Stage::Randomize) => "-".to_owned(),
                _ => rounded(timing.megabytes_per_second),
            };
            vec![
                format!("{:?}", timing.stage).to_lowercase(),
                timing.threads.to_string(),
                rounded(timing.seconds),
                rate,
                rounded(timing.samples_per_second),
            ]
        };
        let rows: Vec<Vec<String>> = self.results.iter().map(row).collect();
        output.table(&["stage", "threads", "seconds", "MB/s", "samples/s"], &rows)
    }
}

impl Machine {
    fn this() -> Machine {
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(|line| line.trim_start_matches([' ', '\t', ':']).trim().to_owned())
        };
        let memory = after(&file("/proc/meminfo"), "MemTotal");
        let memory = memory.and_then(|line| line.strip_suffix(" kB")?.parse::<u64>().ok());
        Machine {
            processor: after(&file("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get()),
            memory_bytes: memory.unwrap_or(0) << 10,
            system: file("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: file("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        }
    }
}
