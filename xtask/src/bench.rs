//! `cargo xtask bench`: generates data, times reading it, checks what was read, and keeps a record.
//!
//! Every measurement is a process of its own, so that its peak of memory is its own too. The program that is timed is
//! `benches/sweeps`; another reader is measured beside it by another [`Subject`].

use crate::machine;
use crate::project::Project;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What to measure.
pub struct Options {
    /// Megabytes of each shape.
    pub size: u64,
    /// Numbers of loading threads.
    pub threads: Vec<usize>,
    /// Only this shape.
    pub shape: Option<String>,
    /// Minibatch size in samples.
    pub minibatch: u64,
    /// Keep the result.
    pub record: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { size: 200, threads: vec![1, 2], shape: None, minibatch: 256, record: true }
    }
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--no-record" {
                options.record = false;
                continue;
            }
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--size" => options.size = positive(value()?)?,
                "--minibatch" => options.minibatch = positive(value()?)?,
                "--shape" => options.shape = Some(value()?.clone()),
                "--threads" => {
                    let numbers = value()?.split(',').map(|number| Ok(positive(number)? as usize));
                    options.threads = numbers.collect::<Result<_>>()?;
                }
                unknown => bail!("bench does not know '{unknown}'. See cargo xtask help."),
            }
        }
        Ok(options)
    }
}

fn positive(text: &str) -> Result<u64> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("'{text}' is not a whole number above 0."),
    }
}

/// Measures a reader on some data with a number of loading threads.
type Measure = dyn Fn(&Data, usize) -> Result<Measurement>;

/// A reader to be timed.
struct Subject {
    name: &'static str,
    measure: Box<Measure>,
}

/// One generated file.
struct Data {
    shape: String,
    path: PathBuf,
    bytes: u64,
}

/// What one process measured.
struct Measurement {
    /// Seconds to open the reader.
    index: f64,
    /// Samples of one sweep.
    samples: f64,
    /// Seconds of each sweep.
    sweeps: Vec<f64>,
    /// Peak of resident memory in bytes.
    memory: f64,
}

/// Measures as the arguments say.
pub fn command(project: &Project, arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let table = measure(project, &options)?;
    println!("\n{table}");
    if options.record {
        let path = record(project, &options, &table)?;
        println!("recorded in {}", path.display());
    }
    Ok(())
}

/// Measures everything; gives the table. Fails if data were read wrongly.
pub fn measure(project: &Project, options: &Options) -> Result<String> {
    let program = project.part("the bench program, release mode", || build(project))?;
    let shapes = project.run(&program).arg("shapes").output()?;
    let mut shapes: Vec<&str> = shapes.lines().collect();
    if let Some(only) = &options.shape {
        ensure!(
            shapes.contains(&only.as_str()),
            "There is no shape '{only}'; the shapes are {}.",
            shapes.join(", ")
        );
        shapes.retain(|shape| shape == only);
    }
    let subjects = [own(project, &program, options.minibatch)];
    let mut table = HEADING.to_owned();
    for shape in shapes {
        let data = data(project, &program, shape, options.size)?;
        for subject in &subjects {
            for &threads in &options.threads {
                let what = format!(
                    "{shape}: {}, {threads} thread{}",
                    subject.name,
                    if threads == 1 { "" } else { "s" }
                );
                let measurement = project.part(&what, || (subject.measure)(&data, threads))?;
                table += &row(subject, &data, threads, &measurement);
            }
        }
    }
    Ok(table)
}

/// This library's reader.
fn own(project: &Project, program: &str, minibatch: u64) -> Subject {
    let (root, program) = (project.root.clone(), program.to_owned());
    let measure = move |data: &Data, threads: usize| {
        let run = crate::run::Run::new(&program, &root, false)
            .arg("measure")
            .arg(&data.shape)
            .arg(&data.path)
            .arg(minibatch.to_string())
            .env("CNTK_READER_THREADS", threads.to_string());
        Measurement::parse(&run.output()?)
    };
    Subject { name: "cntk-reader", measure: Box::new(measure) }
}

impl Measurement {
    fn parse(line: &str) -> Result<Measurement> {
        let line: Value =
            serde_json::from_str(line.trim()).with_context(|| format!("not a measurement: {line}"))?;
        let number = |name: &str| line[name].as_f64().with_context(|| format!("`{name}` is missing"));
        let sweeps = line["sweeps"].as_array().context("`sweeps` is missing")?;
        let sweeps: Vec<f64> = sweeps.iter().filter_map(Value::as_f64).collect();
        ensure!(sweeps.len() == 2, "two sweeps are expected");
        let samples = number("samples")? / sweeps.len() as f64;
        Ok(Measurement { index: number("index")?, samples, sweeps, memory: number("memory")? })
    }
}

/// Builds the program that generates and measures; gives its path.
fn build(project: &Project) -> Result<String> {
    let build = project.cargo("build").args([
        "--release",
        "--bench",
        "sweeps",
        "--message-format=json-render-diagnostics",
    ]);
    let messages = build.output()?;
    let executable = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let executable = executable.filter(|message| message["target"]["name"] == "sweeps");
    let executable =
        executable.filter_map(|message| Some(message["executable"].as_str()?.to_owned())).next_back();
    executable.context("cargo built no program")
}

/// The data of a shape, generated unless they are there already.
fn data(project: &Project, program: &str, shape: &str, size: u64) -> Result<Data> {
    let folder = project.target.join("bench-data");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{shape}-{size}.ctf"));
    if !path.with_extension("sums").exists() || !path.exists() {
        project.part(&format!("{shape}: generating {size} MB"), || {
            project.run(program).args(["generate", shape, &size.to_string()]).arg(&path).go()
        })?;
    }
    let bytes = std::fs::metadata(&path)?.len();
    Ok(Data { shape: shape.to_owned(), path, bytes })
}

const HEADING: &str = "\
| shape    | reader      | threads |     MB | index s | sweep 1 MB/s |  samples/s | sweep 2 MB/s |  samples/s | peak MB |
| -------- | ----------- | ------: | -----: | ------: | -----------: | ---------: | -----------: | ---------: | ------: |
";

fn row(subject: &Subject, data: &Data, threads: usize, measured: &Measurement) -> String {
    let megabytes = data.bytes as f64 / 1e6;
    let mut row = format!(
        "| {:<8} | {:<11} | {threads:>7} | {megabytes:>6.1} | {:>7.3} |",
        data.shape, subject.name, measured.index
    );
    for seconds in &measured.sweeps {
        row += &format!(" {:>12.1} | {:>10.0} |", megabytes / seconds, measured.samples / seconds);
    }
    row + &format!(" {:>7.1} |\n", measured.memory / 1e6)
}

/// Writes the record of a run.
fn record(project: &Project, options: &Options, table: &str) -> Result<PathBuf> {
    let (date, commit) = (machine::date(project)?, machine::commit(project)?);
    let folder = project.path("benches/record");
    std::fs::create_dir_all(&folder)?;
    let path = unused(&folder, &date);
    let mut text = format!("# Reading of generated text data, {date}\n\n");
    writeln!(text, "- commit: {commit}")?;
    writeln!(
        text,
        "- machine: {}, {} CPUs, {} GiB memory",
        machine::processor(),
        machine::cores(),
        machine::memory()
    )?;
    writeln!(
        text,
        "- command: `cargo xtask bench --size {} --minibatch {}`",
        options.size, options.minibatch
    )?;
    writeln!(
        text,
        "\nRandomized over all data, minibatches of {} samples, data in the page cache. Sweep 1 loads and parses, index is the\n\
         time to open the reader, peak is that of the resident memory after both sweeps. The data of every run were checked\n\
         in a third sweep, which is not timed.\n\n{table}",
        options.minibatch
    )?;
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A name for the day's next record.
fn unused(folder: &Path, date: &str) -> PathBuf {
    let name = |number: u32| {
        folder.join(if number == 1 { format!("{date}.md") } else { format!("{date}-{number}.md") })
    };
    let mut number = 1;
    while name(number).exists() {
        number += 1;
    }
    name(number)
}
