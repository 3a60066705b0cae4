//! `cntk-reader order`: shows the order in which sequences are read, and how well it mixes them.

mod plot;
mod report;

use crate::args::{Form, Global};
use crate::exit::{Exit, Failure, Outcome};
use crate::input::Input;
use crate::numbers::whole;
use crate::open::{Scan, open};
use crate::output::{Output, SCHEMA, count, number};
use cntk_reader::{Epoch, ReaderOptions};
use cntk_reader_tools::Look;
use cntk_reader_tools::order::{OrderedSequence, SequenceOrder, Shuffle};
use plot::Plot;
use report::Report;
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Show in which order sequences are read, and how well that mixes them
///
/// The data are indexed, but not read. On a terminal the result is a report of how well the order
/// mixes the data. With -n, and elsewhere, the sequences are listed with their key, their number
/// among all sequences of the data, their chunk and their length.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader order train.cntk                                   how well the data are mixed
  cntk-reader order train.cntk -n 10                             the first sequences that training gets
  cntk-reader order train.cntk --sweep 3 --workers 4 --rank 1    the share of one of four workers in the fourth sweep
  cntk-reader order train.cntk --at 100000 --digest              a digest of the order after a checkpoint, to compare runs
  cntk-reader order train.cntk --svg shuffle.svg                 a picture of how well the data are mixed")]
pub struct Order {
    /// A configuration, or a data file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Seed of the randomization [default: the configuration's]
    #[arg(long, allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    seed: Option<u64>,

    /// Randomization window in chunks [default: the configuration's]
    #[arg(long, value_name = "CHUNKS", conflicts_with = "window_samples",
          allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    window_chunks: Option<u64>,

    /// Randomization window in samples
    #[arg(long, value_name = "SAMPLES",
          allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    window_samples: Option<u64>,

    /// Use the order of the data, without randomization
    #[arg(long, conflicts_with_all = ["seed", "window_chunks", "window_samples"])]
    no_randomize: bool,

    /// The first sweep, from 0
    #[arg(long, value_name = "NUMBER", default_value_t = 0,
          allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    sweep: u64,

    /// Number of sweeps
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          allow_negative_numbers = true, value_parser = whole::<u64, 1>)]
    sweeps: u64,

    /// Number of workers that share the data
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          allow_negative_numbers = true, value_parser = whole::<u64, 1>)]
    workers: u64,

    /// The worker whose share is shown, from 0 [default: 0 if there is one worker]
    #[arg(long, value_name = "NUMBER",
          allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    rank: Option<u64>,

    /// Minibatch size in samples
    #[arg(long, value_name = "SAMPLES", default_value_t = 256,
          allow_negative_numbers = true, value_parser = whole::<u64, 1>)]
    minibatch_size: u64,

    /// Resume at this sample, counted from the start of sweep 0: the position in CNTK's checkpoints
    #[arg(long, value_name = "SAMPLE",
          allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    at: Option<u64>,

    /// List this many sequences [default: a report on a terminal, elsewhere all sequences]
    #[arg(short = 'n', value_name = "COUNT",
          allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    count: Option<u64>,

    /// Show only a digest of the order
    #[arg(long, conflicts_with = "count")]
    digest: bool,

    /// Report how well the order mixes the data
    #[arg(long, conflicts_with_all = ["count", "digest"])]
    report: bool,

    /// Plot how well the order mixes the data, and report it
    #[arg(long, value_name = "PATH", conflicts_with_all = ["count", "digest"])]
    svg: Option<PathBuf>,
}

/// Facts about an order that precede the list of sequences.
#[derive(Serialize)]
struct Heading {
    schema: u32,
    command: &'static str,
    file: String,
    sequences: u64,
    samples: u64,
    chunks: u64,
}

#[derive(Serialize)]
struct Listed {
    key: String,
    number: u64,
    chunk: u32,
    samples: u32,
    sweep: u64,
    minibatch: u64,
}

#[derive(Serialize)]
struct List {
    #[serde(flatten)]
    heading: Heading,
    order: Vec<Listed>,
}

#[derive(Serialize)]
struct Digest {
    #[serde(flatten)]
    heading: Heading,
    read: u64,
    digest: String,
}

pub fn run(options: &Order, global: &Global) -> Outcome {
    let input = Input::recognize(&options.file, global)?;
    let builder = open(&input, Scan::Sample, global, |reader| options.apply(reader))?;
    let mut order = builder.order(&options.epoch()?)?;
    if let Some(position) = options.at {
        order.seek(position)?;
    }
    if options.digest {
        let shuffle = measure(&mut order, |_| ())?;
        options.warn_of_nothing(&order, shuffle.sequences(), global);
        return digest(options, &order, &shuffle, global);
    }
    if options.wants_report(global) {
        let mut plot = Plot::default();
        let shuffle = measure(&mut order, |sequence| plot.add(sequence))?;
        options.warn_of_nothing(&order, shuffle.sequences(), global);
        let report = Report::new(heading(options, &order), &order, &shuffle, options.minibatch_size);
        if let Some(path) = &options.svg {
            plot.write(path, &order, &report)?;
        }
        return report.write(global);
    }
    list(options, order, global)
}

impl Order {
    /// Whether to report how well the order mixes the data: also on a terminal, where a list of all
    /// sequences helps nobody.
    fn wants_report(&self, global: &Global) -> bool {
        let is_shown = self.count.is_none() && global.format.is_none() && io::stdout().is_terminal();
        self.report || self.svg.is_some() || is_shown
    }

    /// Warns if the worker reads nothing.
    fn warn_of_nothing(&self, order: &SequenceOrder, read: u64, global: &Global) {
        let rank = self.rank.unwrap_or(0);
        if read == 0 && rank >= order.chunks() && !global.quiet {
            eprintln!(
                "warning: The worker of rank {} reads nothing: {} workers share {}, and randomized data are shared out by \
                 chunks. Set a smaller 'chunkSizeInBytes' in a configuration, or use fewer workers.",
                rank,
                number(self.workers),
                count(order.chunks(), "chunk")
            );
        }
    }

    /// The worker whose share is shown. With several workers `--rank` is required, because the
    /// default 0 would silently show the share of the first.
    fn rank(&self) -> Result<u64, Failure> {
        match self.rank {
            None if self.workers > 1 => Err(Failure::Usage(format!(
                "There are {} workers: add --rank, from 0 to {}, to choose the worker whose share is shown.",
                self.workers,
                self.workers - 1
            ))),
            Some(rank) if rank >= self.workers && self.workers == 1 => Err(Failure::Usage(format!(
                "--rank {rank} is a worker beside others, but there is one worker, of rank 0. Say how many there are: --workers COUNT."
            ))),
            rank => Ok(rank.unwrap_or(0)),
        }
    }

    /// Applies the options of the command line.
    fn apply(&self, mut reader: ReaderOptions) -> ReaderOptions {
        if let Some(seed) = self.seed {
            reader = reader.randomization_seed(seed);
        }
        if let Some(chunks) = self.window_chunks {
            reader = reader.randomization_window_in_chunks(chunks);
        }
        if let Some(samples) = self.window_samples {
            reader = reader.randomization_window_in_samples(samples);
        }
        if self.no_randomize { reader.randomize(false) } else { reader }
    }

    /// The sweeps as one epoch. An epoch starts at a multiple of its length, so the first sweep
    /// must be a multiple of the number of sweeps.
    fn epoch(&self) -> Result<Epoch, Failure> {
        let read = cntk_reader::ReadConfig::new(self.minibatch_size).worker(self.rank()?, self.workers);
        if self.sweep.is_multiple_of(self.sweeps) {
            return Ok(Epoch::sweeps(self.sweeps).index(self.sweep / self.sweeps).read_config(read));
        }
        Err(Failure::Usage(format!(
            "{} sweeps cannot begin at sweep {}: ask for one sweep at a time, or begin at a multiple of the number of \
             sweeps.",
            self.sweeps, self.sweep
        )))
    }
}

fn heading(options: &Order, order: &SequenceOrder) -> Heading {
    Heading {
        schema: SCHEMA,
        command: "order",
        file: options.file.display().to_string(),
        sequences: order.sequences(),
        samples: order.samples(),
        chunks: order.chunks(),
    }
}

/// Measures the whole order, showing each sequence to `see`.
fn measure(order: &mut SequenceOrder, mut see: impl FnMut(&OrderedSequence)) -> cntk_reader::Result<Shuffle> {
    let mut shuffle = Shuffle::default();
    while let Some(minibatch) = order.next_minibatch()? {
        minibatch.sequences.iter().for_each(&mut see);
        shuffle.add(minibatch);
    }
    Ok(shuffle)
}

fn digest(options: &Order, order: &SequenceOrder, shuffle: &Shuffle, global: &Global) -> Outcome {
    let mut output = Output::new(global, Form::Table);
    let digest = format!("{:016x}", shuffle.digest());
    match output.form {
        Form::Table => output.line(&format!("{digest}  {}", count(shuffle.sequences(), "sequence")))?,
        Form::Json | Form::Ndjson => {
            output.json(&Digest { heading: heading(options, order), read: shuffle.sequences(), digest })?;
        }
    }
    output.finish()?;
    Ok(Exit::Good)
}

/// Lists the sequences.
fn list(options: &Order, mut order: SequenceOrder, global: &Global) -> Outcome {
    let mut output = Output::new(global, Form::Ndjson);
    let heading = heading(options, &order);
    let mut all = Vec::new();
    let most = options.count.unwrap_or(u64::MAX);
    let mut left = most;
    let mut found: Vec<OrderedSequence> = Vec::new();
    match output.form {
        Form::Table => output.line(&format!(
            "{:>9} {:>6} {:>12} {:>8} {:>8}  key",
            "minibatch", "sweep", "number", "chunk", "samples"
        ))?,
        Form::Ndjson => output.json(&heading)?,
        Form::Json => {}
    }
    for minibatch in 0.. {
        let Some(next) = order.next_minibatch()?.filter(|_| left > 0) else { break };
        found.clone_from(&next.sequences);
        for sequence in &found[..found.len().min(usize::try_from(left).unwrap_or(usize::MAX))] {
            let &OrderedSequence { key, number, chunk, samples, sweep, .. } = sequence;
            let one = Listed { key: order.key_text(key), number, chunk, samples, sweep, minibatch };
            match output.form {
                Form::Table => output.line(&format!(
                    "{minibatch:>9} {sweep:>6} {number:>12} {chunk:>8} {samples:>8}  {}",
                    one.key
                ))?,
                Form::Ndjson => output.json(&one)?,
                Form::Json => all.push(one),
            }
        }
        left = left.saturating_sub(found.len() as u64);
    }
    if output.form == Form::Json {
        output.json(&List { heading, order: all })?;
    }
    output.finish()?;
    options.warn_of_nothing(&order, most - left, global);
    Ok(Exit::Good)
}
