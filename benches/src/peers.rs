//! Measures this library beside other libraries that read the same values from other formats.

use crate::data::{Data, Generator};
use crate::options::Options;
use crate::subject::{Results, Subject, alternate, bound};
use crate::table::{Table, number};
use crate::{Outcome, sweeps};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tooling::project::Project;

/// Threads of each library.
const THREADS: usize = 2;
/// Size of this library's minibatches.
const MINIBATCH: u64 = 256;
/// Packages that pip installs.
const PACKAGES: [&str; 6] = ["numpy", "polars", "pyarrow", "duckdb", "scikit-learn", "xgboost-cpu"];

/// Shapes, with their columns, the format of the other libraries, and these libraries.
const PEERS: [(&str, u32, &str, &[&str]); 2] = [
    ("floats", 150, "csv", &["polars", "pyarrow", "duckdb"]),
    ("bags", 100_000, "libsvm", &["xgboost", "scikit-learn"]),
];

const NOTE: &str = "\
The same values, each library in its own format, two CPUs, two threads where a library can use them (scikit-learn has one for
this), fresh memory, data in the page cache; medians. The libraries do different work: polars, pyarrow, DuckDB, xgboost and
scikit-learn build one table or matrix of all the data; cntk-reader opens the file, which builds an index, and delivers all of it
once, as minibatches of 256 samples in random order. CSV has no names or indices; CTF has the name of each stream in every line.
Rows, values and a weighted sum of all values were checked for each library.";

/// The folder of the Python environment.
fn folder(project: &Project) -> PathBuf {
    project.target.join("peers")
}

/// Whether the libraries are installed.
pub fn are_installed(project: &Project) -> bool {
    folder(project).join("ready").exists()
}

/// Creates the Python environment `venv` with some packages in a folder if necessary; returns the
/// reason if that fails. The file `ready` marks it as complete.
pub fn install(project: &Project, folder: &Path, packages: &[&str]) -> Result<Option<String>> {
    if folder.join("ready").exists() {
        return Ok(None);
    }
    let installed = project.part(&format!("{} into {}", packages.join(", "), folder.display()), || {
        project.run("python3").args(["-m", "venv"]).arg(folder.join("venv")).go()?;
        let pip = folder.join("venv/bin/pip");
        let pip = project.run(&pip.to_string_lossy()).args(["install", "--disable-pip-version-check", "-q"]);
        pip.args(packages).go()?;
        Ok(std::fs::write(folder.join("ready"), "")?)
    });
    Ok(installed.err().map(|error| format!("{error:#}")))
}

/// Measures this library and all others.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    if let Some(reason) = install(project, &folder(project), &PACKAGES)? {
        return Ok(Outcome::Nothing(reason));
    }
    let generator = Generator::new(project)?;
    let mut table = Table::new(
        3,
        &["values", "library", "format", "threads", "MB", "seconds", "MB/s", "million values/s"],
    );
    let mut failures = String::new();
    for (shape, columns, format, libraries) in PEERS {
        if !options.shapes.iter().any(|wanted| wanted == shape) {
            continue;
        }
        let text = generator.text(shape, options.size)?;
        let (file, expected) = generator.table(&text, format)?;
        let mut subjects = vec![sweeps::own(project, &generator, &text, MINIBATCH, THREADS, THREADS)];
        for library in libraries {
            let subject = peer(project, library, &file, columns);
            match subject.once().and_then(|found| check(library, &found, &expected)) {
                Ok(()) => subjects.push(subject),
                Err(error) => {
                    failures += &format!("\n{library} could not be measured: {}\n", last_line(&error))
                }
            }
        }
        let mut results = alternate(project, shape, &subjects, options.repetitions, &[])?.into_iter();
        let own = results.next().context("this library was measured")?;
        let values = expected["values"].as_f64().context("`values` is missing")?;
        let mut add = |name: String, format: &str, threads, data: &Data, seconds: f64| {
            let (size, speed) = (number(data.megabytes()), number(data.megabytes() / seconds));
            let each = number(values / 1e6 / seconds);
            table.add(vec![
                shape.to_owned(),
                name,
                format.to_owned(),
                threads,
                size,
                number(seconds),
                speed,
                each,
            ]);
        };
        let seconds = own.median("/open")? + own.median("/sweeps/0")?;
        add("cntk-reader".to_owned(), "CTF", THREADS.to_string(), &text, seconds);
        for (subject, results) in subjects[1..].iter().zip(results) {
            let threads = if subject.name == "scikit-learn" { 1 } else { THREADS };
            let name = format!("{} {}", subject.name, version(&results)?);
            add(name, format, threads.to_string(), &file, results.median("/seconds")?);
        }
    }
    if table.len() == 0 {
        return Ok(Outcome::Nothing("no other library reads this shape".to_owned()));
    }
    let count = table.len();
    Ok(Outcome::Measured(format!("{NOTE}\n\n{table}{failures}"), count))
}

/// Returns the subject in which another library reads a file.
fn peer(project: &Project, library: &'static str, file: &Data, columns: u32) -> Subject {
    let (root, script) = (project.root.clone(), project.path("benches/scripts/peers.py"));
    let python = folder(project).join("venv/bin/python");
    let path = file.path.clone();
    Subject::new(library, move || {
        let run = bound(&python.to_string_lossy(), &root, THREADS).arg(&script).arg(library).arg(&path);
        run.args([THREADS.to_string(), columns.to_string()])
    })
}

/// Fails if a library did not read the content of the file.
fn check(library: &str, found: &Value, expected: &Value) -> Result<()> {
    for count in ["rows", "values"] {
        ensure!(
            found[count] == expected[count],
            "{library} read {} {count} of {}",
            found[count],
            expected[count]
        );
    }
    let sums = [found, expected].map(|sums| sums["weighted"].as_f64().unwrap_or(f64::NAN));
    // The library rounds values to 32 bits; the expected sum is not rounded.
    let near = (sums[0] - sums[1]).abs() <= 1e-6 * sums[1].abs() + 1.0;
    ensure!(near, "{library} read other values: their sum is {} instead of {}", sums[0], sums[1]);
    Ok(())
}

/// Returns the version of the library.
pub fn version(results: &Results) -> Result<String> {
    let version = results.first("/version").and_then(Value::as_str);
    Ok(version.context("`version` is missing")?.to_owned())
}

/// Returns the last line of an error: what a program printed before it failed.
pub fn last_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let mut lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("` failed ("));
    lines.next_back().unwrap_or("no reason").to_owned()
}
