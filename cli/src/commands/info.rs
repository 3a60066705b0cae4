//! `cntk-reader info`: what a file or a configuration has.

use crate::args::{Form, Global};
use crate::exit::{Exit, Failure, Outcome};
use crate::input::{Checked, Input};
use crate::output::{Output, SCHEMA, bytes, number};
use crate::progress::Progress;
use cntk_reader::inspect::{CheckOptions, CheckProgress, Lengths, StreamStatistics, TextOutline};
use cntk_reader::{ElementType, FileFormat, Storage, StreamInfo};
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Show what a file or a configuration has: streams, dimensions, sequences, chunks
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader info train.ctf               what the file has
  cntk-reader info train.ctf --config      a configuration that reads the file
  cntk-reader info digits.cntk             what the files of a configuration have
  cntk-reader info train.ctf --format json | jq .deserializers[0].streams")]
pub struct Info {
    /// A configuration, or a data file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print a configuration that reads the data file
    #[arg(long)]
    config: bool,
}

/// The result.
#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    file: String,
    deserializers: Vec<Deserializer>,
    window: Window,
    /// What `validate` would list.
    errors: u64,
    warnings: u64,
}

#[derive(Serialize)]
struct Deserializer {
    name: String,
    r#type: String,
    bytes: Option<u64>,
    sequences: u64,
    samples: u64,
    chunks: u64,
    index_memory: u64,
    lengths: Option<Quantiles>,
    streams: Vec<Stream>,
}

/// How many samples sequences have.
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
    shape: Vec<usize>,
    /// The declared dimension; of a file without a configuration the one that it needs.
    dim: usize,
    /// The least dimension that all samples fit into.
    dim_seen: u64,
    samples: u64,
    values: u64,
    /// The share of values that are stored.
    density: Option<f64>,
}

#[derive(Serialize)]
struct Window {
    chunks: u64,
    samples: u64,
    bytes: Option<u64>,
}

pub fn run(options: &Info, global: &Global) -> Outcome {
    let input = Input::recognize(&options.file)?;
    let mut output = Output::new(global, Form::Table);
    let progress = Progress::bytes(global, "Reading");
    let mut show = |at: CheckProgress| progress.set(at.bytes, at.total);
    let all = CheckOptions::default().without_join();
    let checked = input.check(&all, &mut |_| ControlFlow::Continue(()), &mut show)?;
    if let Some(error) = checked.data.members().iter().find_map(|member| member.error()) {
        return Err(error.clone().into());
    }
    drop(progress);
    if options.config {
        output.line(&configuration(&input, checked.outline.as_ref())?)?;
        output.finish()?;
        return Ok(Exit::Good);
    }
    let report = report(&input, &checked);
    match output.form {
        Form::Table => table(&mut output, &report)?,
        Form::Json | Form::Ndjson => output.json(&report)?,
    }
    output.finish()?;
    Ok(Exit::Good)
}

/// A configuration that reads the file.
fn configuration(input: &Input, outline: Option<&TextOutline>) -> Result<String, Failure> {
    let (options, deserializer) = match (input.format, outline) {
        (_, Some(outline)) => (outline.options().to_string(), outline.deserializer().to_string()),
        (FileFormat::Cbf, _) => (String::new(), cntk_reader::CbfDeserializer::new(&input.path).to_string()),
        _ => {
            let message =
                "--config makes a configuration for a data file, and the file is a configuration already.";
            return Err(Failure::Usage(message.to_owned()));
        }
    };
    Ok(format!("randomize = true\n{options}deserializers = ( {deserializer} )"))
}

fn report(input: &Input, checked: &Checked) -> Report {
    let Checked { data, summary, outline } = checked;
    let statistics = &summary.streams;
    let deserializers = data.members().iter().zip(statistics).map(|(member, statistics)| {
        let lengths = member.lengths();
        let streams = member.streams().iter().zip(statistics).map(|(info, seen)| {
            let found = outline
                .as_ref()
                .and_then(|outline| outline.streams.iter().find(|stream| stream.name == info.name));
            stream(info, seen, found.map(|stream| stream.dim))
        });
        Deserializer {
            name: member.name().to_owned(),
            r#type: member.type_name().to_owned(),
            bytes: member.file_bytes(),
            sequences: lengths.sequences(),
            samples: lengths.samples(),
            chunks: member.chunks(),
            index_memory: member.index_memory(),
            lengths: quantiles(&lengths),
            streams: streams.collect(),
        }
    });
    let window = data.window(Some(statistics));
    Report {
        schema: SCHEMA,
        command: "info",
        file: input.path.display().to_string(),
        deserializers: deserializers.collect(),
        window: Window { chunks: window.chunks, samples: window.samples, bytes: window.bytes },
        errors: summary.errors,
        warnings: summary.warnings,
    }
}

fn stream(info: &StreamInfo, seen: &StreamStatistics, found: Option<usize>) -> Stream {
    let dim = found.unwrap_or_else(|| info.sample_size());
    let places = seen.samples as f64 * dim as f64;
    Stream {
        name: info.name.clone(),
        storage: if info.storage == Storage::Dense { "dense" } else { "sparse" },
        element: if info.element == ElementType::Float { "float" } else { "double" },
        shape: found.map_or_else(|| info.shape.clone(), |dim| vec![dim]),
        dim,
        dim_seen: seen.dim,
        samples: seen.samples,
        values: seen.values,
        density: (places > 0.0).then(|| seen.values as f64 / places),
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
            "  {} sequences, {} samples, {} chunks; the index takes {}",
            number(one.sequences),
            number(one.samples),
            number(one.chunks),
            bytes(one.index_memory)
        ))?;
        if let Some(q) = &one.lengths {
            output.line(&format!(
                "  samples of a sequence: mean {:.1}, min {}, 25 % {}, 50 % {}, 75 % {}, 90 % {}, 99 % {}, max {}",
                q.mean, q.min, q.p25, q.p50, q.p75, q.p90, q.p99, q.max
            ))?;
        }
        let heading = ["stream", "storage", "element", "dim", "dim seen", "samples", "values", "density"];
        let rows: Vec<Vec<String>> = one
            .streams
            .iter()
            .map(|stream| {
                vec![
                    stream.name.clone(),
                    stream.storage.to_owned(),
                    stream.element.to_owned(),
                    stream.dim.to_string(),
                    stream.dim_seen.to_string(),
                    number(stream.samples),
                    number(stream.values),
                    stream.density.map_or_else(String::new, |density| format!("{:.3} %", 100.0 * density)),
                ]
            })
            .collect();
        output.table(&heading, &rows)?;
    }
    let Window { chunks, samples, bytes: size } = &report.window;
    let size = size.map_or_else(String::new, |size| format!(", at most {}", bytes(size)));
    output.line(&format!(
        "The randomization window has {} chunks, {} samples{size} in memory.",
        number(*chunks),
        number(*samples)
    ))?;
    if report.errors + report.warnings > 0 {
        let (errors, warnings) = (number(report.errors), number(report.warnings));
        output.line(&format!(
            "{errors} errors and {warnings} warnings: cntk-reader validate {}",
            report.file
        ))?;
    }
    Ok(())
}
