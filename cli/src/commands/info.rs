//! `cntk-reader info`: describes the contents of data.

use crate::args::{Form, Global};
use crate::exit::{Exit, Failure, Outcome};
use crate::import::{self, PreviewArgs};
use crate::input::{Checked, FoundStreams, Input};
use crate::output::{Output, SCHEMA, bytes, count, number, storage_name};
use crate::progress::Progress;
use cntk_reader::{CbfDeserializer, ElementType, FileFormat, Location, StreamInfo};
use cntk_reader_tools::index::CacheState;
use cntk_reader_tools::inspect::{
    Brief, CheckOptions, CheckProgress, Finding, Lengths, Severity, StreamStatistics, WindowUse,
};
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Show what a file or a configuration has: streams, dimensions, sequences, chunks
///
/// Reads everything, at the speed of training. Only samples of a binary file, and of a text file
/// with a matching index cache, are read, which takes no time; --full reads all of these as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader info train.ctf               what is in the file
  cntk-reader info train.ctf --config      a configuration that reads the file
  cntk-reader info feats.scp labels.mlf    features and labels, joined by key
  cntk-reader info digits.cntk             what is in the files of a configuration
  cntk-reader info table.csv               the streams that 'convert' would make of a table
  cntk-reader info train.ctf --format json | jq .deserializers[0].streams")]
pub struct Info {
    /// A configuration, or one or several data files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Print a configuration that reads the data file
    #[arg(long)]
    config: bool,

    /// Read everything, even if there is an index
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    import: PreviewArgs,
}

/// The result.
#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    file: String,
    /// The format of the file.
    format: &'static str,
    /// Whether all samples were read; otherwise, figures about samples come from some of them.
    complete: bool,
    deserializers: Vec<Deserializer>,
    window: Window,
    /// Number of errors that `validate` would list, if everything was read.
    errors: u64,
    warnings: u64,
    /// Legal but suspicious content: the first notes that `validate` lists.
    notes: Vec<Note>,
}

#[derive(Serialize)]
struct Note {
    file: Option<String>,
    line: Option<u64>,
    stream: Option<String>,
    message: String,
}

/// Maximum number of notes shown.
const NOTES: usize = 10;

#[derive(Serialize)]
struct Deserializer {
    name: String,
    r#type: String,
    bytes: Option<u64>,
    sequences: u64,
    samples: u64,
    chunks: u64,
    lengths: Option<Quantiles>,
    index: Index,
    streams: Vec<Stream>,
}

#[derive(Serialize)]
struct Index {
    /// State of the cache: `fits`, `missing`, `outdated` or `unfit`; `None` for formats without
    /// one.
    state: Option<&'static str>,
    /// Path of the cache, even if it is missing.
    cache: Option<String>,
    /// Bytes of memory, if the index was loaded.
    memory: Option<u64>,
}

/// Distribution of the numbers of samples of the sequences.
#[derive(Serialize)]
struct Quantiles {
    mean: f64,
    min: u32,
    p25: u32,
    p50: u32,
    p75: u32,
    p90: u32,
    p99: u32,
    max: u32,
}

#[derive(Serialize)]
struct Stream {
    name: String,
    storage: &'static str,
    element: &'static str,
    /// `None` if it differs from sample to sample, as for images.
    shape: Option<Vec<usize>>,
    /// The declared dimension, or for a file without a configuration the dimension that it needs.
    dim: Option<usize>,
    /// The least dimension that all samples fit into.
    dim_seen: u64,
    samples: u64,
    values: u64,
    /// The fraction of values that are stored.
    density: Option<f64>,
}

#[derive(Serialize)]
struct Window {
    chunks: u64,
    samples: u64,
    bytes: Option<u64>,
}

impl From<WindowUse> for Window {
    fn from(window: WindowUse) -> Window {
        Window { chunks: window.chunks, samples: window.samples, bytes: window.bytes }
    }
}

/// Bytes of a binary file that are read without `--full`.
const SAMPLE: u64 = 32 << 20;

pub fn run(options: &Info, global: &Global) -> Outcome {
    if let Some((path, kind)) = import::only(&options.files, &options.import)? {
        if options.config {
            let message = "--config makes a configuration for data that a reader reads. Convert the file first: cntk-reader convert";
            return Err(Failure::Usage(message.to_owned()));
        }
        return import::info(&path, kind, &options.import, global);
    }
    let input = Input::of_files(&options.files, global)?;
    let mut output = Output::new(global, Form::Table);
    let wants_all = options.full || options.config || input.format == FileFormat::Cbf;
    if !wants_all && let Some(brief) = input.brief()? {
        return write(output, &Report::brief(&input, &brief));
    }
    let progress = Progress::bytes(global, "Reading");
    let mut show = |at: CheckProgress| progress.set(at.bytes, at.total);
    let check = CheckOptions::default().without_join();
    let check = match input.format {
        FileFormat::Cbf if !options.full => check.sample(SAMPLE),
        _ => check,
    };
    let mut notes = Vec::new();
    let mut keep_notes = |finding: Finding| {
        if finding.severity == Severity::Note && notes.len() < NOTES {
            let Location { file, line, stream, .. } = finding.location;
            let message = [finding.message, finding.detail].join(" ").trim_end().to_owned();
            notes.push(Note { file, line, stream, message });
        }
        ControlFlow::Continue(())
    };
    let checked = input.check(&check, &mut keep_notes, &mut show)?;
    drop(progress);
    if let Some(error) = checked.data.members().iter().find_map(|member| member.error()) {
        return Err(error.clone().into());
    }
    if options.config {
        output.line(&configuration(&input, &checked.found)?)?;
        output.finish()?;
        return Ok(Exit::Good);
    }
    write(output, &Report { notes, ..Report::full(&input, &checked) })
}

fn write(mut output: Output, report: &Report) -> Outcome {
    match output.form {
        Form::Table => table(&mut output, report)?,
        Form::Json | Form::Ndjson => output.json(report)?,
    }
    output.finish()?;
    Ok(Exit::Good)
}

/// Returns a configuration that reads the file.
fn configuration(input: &Input, found: &FoundStreams) -> Result<String, Failure> {
    let (options, deserializer) = match (input.format, found) {
        (_, FoundStreams::Files(files)) => return Ok(files.configuration()?),
        (_, FoundStreams::Text(outline)) => {
            (outline.options().to_configuration()?, outline.deserializer().to_configuration()?)
        }
        (FileFormat::Cbf, _) => (String::new(), CbfDeserializer::new(&input.path).to_configuration()?),
        _ => {
            let message =
                "--config makes a configuration for a data file, and the file is a configuration already.";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    Ok(format!("randomize = true\n{options}deserializers = ( {deserializer} )"))
}

impl Report {
    /// The report after reading all data.
    fn full(input: &Input, checked: &Checked) -> Report {
        let Checked { data, summary, found } = checked;
        let deserializers = data.members().iter().zip(&summary.streams).map(|(member, statistics)| {
            let lengths = member.lengths();
            let streams = member
                .streams()
                .iter()
                .zip(statistics)
                .map(|(info, seen)| stream(info, seen, found.dim(&info.name)));
            let cache = member.index_cache();
            Deserializer {
                name: member.name().to_owned(),
                r#type: member.type_name().to_owned(),
                bytes: member.file_bytes(),
                sequences: lengths.sequences(),
                samples: lengths.samples(),
                chunks: member.chunks(),
                lengths: quantiles(&lengths),
                index: Index {
                    state: cache.map(|(_, state)| state.name()),
                    cache: cache.map(|(path, _)| path.to_owned()),
                    memory: Some(member.index_memory()),
                },
                streams: streams.collect(),
            }
        });
        Report {
            schema: SCHEMA,
            command: "info",
            file: input.name().to_owned(),
            format: input.format.describe(),
            complete: summary.is_complete,
            deserializers: deserializers.collect(),
            window: data.window(Some(&summary.streams)).into(),
            errors: summary.errors,
            warnings: summary.warnings,
            notes: Vec::new(),
        }
    }

    /// The report from indexes and samples of the files.
    fn brief(input: &Input, brief: &Brief) -> Report {
        let deserializers = brief.members().iter().map(|member| Deserializer {
            name: member.name.clone(),
            r#type: member.type_name.clone(),
            bytes: Some(member.bytes),
            sequences: member.lengths.sequences(),
            samples: member.lengths.samples(),
            chunks: member.chunks,
            lengths: quantiles(&member.lengths),
            index: Index {
                state: Some(CacheState::Fits.name()),
                cache: Some(member.cache.clone()),
                memory: None,
            },
            streams: member
                .streams
                .iter()
                .zip(&member.statistics)
                .map(|(info, seen)| stream(info, seen, None))
                .collect(),
        });
        Report {
            schema: SCHEMA,
            command: "info",
            file: input.name().to_owned(),
            format: input.format.describe(),
            complete: false,
            deserializers: deserializers.collect(),
            window: brief.window().into(),
            errors: 0,
            warnings: 0,
            notes: Vec::new(),
        }
    }
}

fn stream(info: &StreamInfo, seen: &StreamStatistics, found: Option<usize>) -> Stream {
    let declared = (!info.has_late_shape()).then(|| info.classes.unwrap_or(info.sample_size()));
    let dim = found.or(declared);
    let places = dim.map_or(0.0, |dim| seen.samples as f64 * dim as f64);
    Stream {
        name: info.name.clone(),
        storage: storage_name(info.storage),
        element: match info.element {
            ElementType::Float => "float",
            ElementType::Double => "double",
            other => other.name(),
        },
        shape: found.map(|dim| vec![dim]).or_else(|| declared.map(|_| info.shape.clone())),
        dim,
        dim_seen: seen.dim,
        samples: seen.samples,
        values: seen.values,
        // An id is the number of one of `dim` classes: it has no density.
        density: (places > 0.0 && info.classes.is_none()).then(|| seen.values as f64 / places),
    }
}

fn quantiles(lengths: &Lengths) -> Option<Quantiles> {
    let at = |share| lengths.quantile(share);
    Some(Quantiles {
        mean: lengths.mean(),
        min: at(0.0)?,
        p25: at(0.25)?,
        p50: at(0.5)?,
        p75: at(0.75)?,
        p90: at(0.9)?,
        p99: at(0.99)?,
        max: at(1.0)?,
    })
}

fn table(output: &mut Output, report: &Report) -> std::io::Result<()> {
    for one in &report.deserializers {
        let title = output.bold(&one.name);
        let size = one.bytes.map_or_else(String::new, |size| format!(", {}", bytes(size)));
        output.line(&format!("{title}  {}{size}", one.r#type))?;
        output.line(&format!(
            "  {}, {}, {}",
            count(one.sequences, "sequence"),
            count(one.samples, "sample"),
            count(one.chunks, "chunk"),
        ))?;
        if let Some(q) = &one.lengths {
            output.line(&format!(
                "  samples of a sequence: mean {:.1}, min {}, max {}",
                q.mean,
                number(q.min.into()),
                number(q.max.into())
            ))?;
            if q.min != q.max {
                output.line(&format!(
                    "    at most {} in 25 % of them, {} in 50 %, {} in 75 %, {} in 90 %, {} in 99 %",
                    q.p25, q.p50, q.p75, q.p90, q.p99
                ))?;
            }
        }
        let memory = one.index.memory.map(|memory| format!("{} of memory", bytes(memory)));
        let cache = one.index.state.map(|state| match state {
            "fits" => "its cache fits".to_owned(),
            state => format!("its cache is {state}"),
        });
        let index: Vec<String> = memory.into_iter().chain(cache).collect();
        output.line(&format!("  index: {}", index.join(", ")))?;
        let heading = ["stream", "storage", "element", "dim", "dim seen", "samples", "values", "density"];
        let rows: Vec<Vec<String>> = one.streams.iter().map(row).collect();
        output.table(&heading, &rows)?;
    }
    let Window { chunks, samples, bytes: size } = &report.window;
    let size = size.map_or_else(String::new, |size| format!(", at most {}", bytes(size)));
    output.line(&format!(
        "The randomization window has {}, {}{size} in memory.",
        count(*chunks, "chunk"),
        count(*samples, "sample")
    ))?;
    if !report.complete {
        output.line("Samples and values are from a part of the data; --full reads everything.")?;
    }
    if report.errors + report.warnings > 0 {
        let (errors, warnings) = (count(report.errors, "error"), count(report.warnings, "warning"));
        output.line(&format!("{errors} and {warnings}: cntk-reader validate {}", report.file))?;
    }
    for Note { file, line, message, .. } in &report.notes {
        let file = file.as_deref().unwrap_or(&report.file);
        let line = line.map_or_else(String::new, |line| format!(", line {line}"));
        output.line(&format!("{}: {message} ({file}{line})", output.colored("1;36", "note")))?;
    }
    Ok(())
}

fn row(stream: &Stream) -> Vec<String> {
    vec![
        stream.name.clone(),
        stream.storage.to_owned(),
        stream.element.to_owned(),
        stream.dim.map_or_else(|| "varies".to_owned(), |dim| dim.to_string()),
        stream.dim_seen.to_string(),
        number(stream.samples),
        number(stream.values),
        stream.density.map_or_else(String::new, |density| format!("{:.3} %", 100.0 * density)),
    ]
}
