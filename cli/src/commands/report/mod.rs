//! `cntk-reader report`: describes a data set in one HTML page.

mod charts;
mod mixing;
mod page;
mod picture;
mod values;

use super::head::draw;
use crate::args::Global;
use crate::exit::{Exit, Outcome};
use crate::input::{FoundStreams, Input};
use crate::numbers::whole;
use crate::output::count;
use crate::progress::Progress;
use cntk_reader::{Error, StreamInfo};
use cntk_reader_tools::inspect::{
    CheckOptions, CheckProgress, CheckSummary, Finding, Inspector, Sequence, WindowUse,
};
use mixing::Mixing;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use values::StreamValues;

/// Write an HTML page about a data set: streams, lengths, values, classes, shuffling, findings,
/// samples
///
/// All data are checked, as by `validate`. Values, classes and samples come from sequences drawn
/// uniformly at random. The page is one file without scripts and without links to other files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader report digits.cntk                                 writes digits.cntk.html
  cntk-reader report train.ctf -o page.html --minibatch-size 64,512
  cntk-reader report feats.scp labels.mlf -o speech.html         features and labels, joined by key")]
pub struct Report {
    /// A configuration, or one or several data files, which are joined by key
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The page; an existing file is replaced [default: the name of the first file, with .html
    /// appended]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,

    /// Minibatch sizes in samples, for shuffling and padding
    #[arg(long, value_name = "SAMPLES", value_delimiter = ',', default_values_t = [64, 256, 1024],
          allow_negative_numbers = true, value_parser = whole::<u64, 1>)]
    minibatch_size: Vec<u64>,

    /// Number of sequences that values and classes are counted in
    #[arg(long, value_name = "N", default_value_t = 2000, allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    sequences: u64,

    /// Number of sequences shown
    #[arg(long, value_name = "N", default_value_t = 6, allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    samples: u64,

    /// Seed of the draw; another seed draws other sequences
    #[arg(long, value_name = "S", default_value_t = 0, allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    seed: u64,
}

/// Maximum number of findings shown.
const FINDINGS: usize = 100;

/// The contents of the page.
struct Facts {
    file: String,
    format: &'static str,
    data: Inspector,
    summary: CheckSummary,
    found: FoundStreams,
    window: WindowUse,
    findings: Vec<Finding>,
    drawn: Drawn,
    mixing: Result<Vec<Mixing>, String>,
}

/// The drawn sequences.
struct Drawn {
    streams: Vec<StreamInfo>,
    /// Number of all sequences.
    all: u64,
    /// Number of drawn sequences that have data.
    read: u64,
    /// Number of drawn sequences that the reader leaves out.
    left_out: u64,
    values: Vec<StreamValues>,
    samples: Vec<Sequence>,
    /// The error that ended reading.
    error: Option<Error>,
}

pub fn run(options: &Report, global: &Global) -> Outcome {
    let input = Input::of_files(&options.files, global)?;
    let progress = Progress::bytes(global, "Checking");
    let mut findings = Vec::new();
    let mut keep = |finding: Finding| {
        if findings.len() < FINDINGS {
            findings.push(finding);
        }
        ControlFlow::Continue(())
    };
    let mut show = |at: CheckProgress| progress.set(at.bytes, at.total);
    let checked = input.check(&CheckOptions::default(), &mut keep, &mut show)?;
    drop(progress);
    if let Some(error) = checked.data.members().iter().find_map(|member| member.error()) {
        return Err(error.clone().into());
    }
    let facts = Facts {
        file: input.name().to_owned(),
        format: input.format.describe(),
        window: checked.data.window(Some(&checked.summary.streams)),
        data: checked.data,
        summary: checked.summary,
        found: checked.found,
        findings,
        drawn: Drawn::read(&input, options, global)?,
        mixing: mixing::measure(&input, &options.minibatch_size, global),
    };
    let path = options.output.clone().unwrap_or_else(|| default_path(&options.files[0]));
    let text = page::write(&facts);
    std::fs::write(&path, text)
        .map_err(|cause| Error::io("Cannot write", &path.display().to_string(), &cause))?;
    if !global.quiet {
        let Facts { summary, .. } = &facts;
        let findings = [count(summary.errors, "error"), count(summary.warnings, "warning")].join(", ");
        eprintln!("Wrote {}: {findings}.", path.display());
    }
    Ok(if facts.summary.errors > 0 { Exit::WrongData } else { Exit::Good })
}

/// Returns the path of the page of a file: in the current folder, because data may be read-only.
fn default_path(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or(file.as_os_str()).to_owned();
    name.push(".html");
    PathBuf::from(name)
}

impl Drawn {
    /// Draws sequences, and reads them in the order of the data, so that each chunk is loaded once.
    fn read(input: &Input, options: &Report, global: &Global) -> Result<Drawn, crate::exit::Failure> {
        let mut reader = input.sequences()?;
        let all = reader.count()?;
        let streams = reader.streams().to_vec();
        let values = streams.iter().map(StreamValues::new).collect();
        let mut drawn =
            Drawn { streams, all, read: 0, left_out: 0, values, samples: Vec::new(), error: None };
        let numbers = draw(all, options.sequences.max(options.samples), options.seed);
        let shown = draw(numbers.len() as u64, options.samples, options.seed);
        let progress = Progress::sequences(global, "Reading sequences");
        for (at, number) in (0..).zip(&numbers) {
            progress.set(at, numbers.len() as u64);
            let sequence = match reader.read(*number) {
                Ok(Some(sequence)) => sequence,
                Ok(None) => break,
                Err(error) => {
                    drawn.error.get_or_insert(error);
                    continue;
                }
            };
            match &sequence.streams {
                Some(data) => {
                    drawn.read += 1;
                    drawn.values.iter_mut().zip(data).for_each(|(values, data)| values.add(data));
                }
                None => drawn.left_out += 1,
            }
            if shown.contains(&at) {
                drawn.samples.push(sequence);
            }
        }
        Ok(drawn)
    }
}
