//! Measures this library beside others that read the same features, each on one thread.

use super::corpus::{ConfigOptions, Corpus, CorpusGenerator, Format, ReadMode};
use crate::comparison::Goal;
use crate::options::Options;
use crate::peers::{last_line, version};
use crate::subject::{Results, Subject, alternate, bound};
use crate::table::{Table, number};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::path::PathBuf;
use tooling::project::Project;

/// Packages that pip installs.
const PACKAGES: [&str; 3] = ["numpy", "kaldi_native_io", "kaldiio"];

/// CPUs and threads of each library.
const CPUS: usize = 1;

/// The libraries, by format.
const PEERS: [(Format, &[&str]); 3] = [
    (Format::Files, &["numpy-files"]),
    (Format::Archive, &["numpy-archive"]),
    (Format::Kaldi, &["kaldi_native_io", "kaldi_native_io-scp", "kaldiio", "kaldiio-scp"]),
];

/// Describes the table.
pub const NOTE: &str = "\
The same features beside other libraries, without context and labels: in order, one CPU, one thread, fresh memory, data in the page
cache; medians. The libraries build one matrix for each utterance, and drop it; NumPy reads the bytes and swaps their order. cntk-reader
delivers minibatches of one utterance (`matrices`) or of ten; its first sweep is timed, and opening, which reads the script file,
separately. Frames, values and a weighted sum of all values were checked for each library.";

/// The folder of the Python environment.
fn folder(project: &Project) -> PathBuf {
    project.target.join("speech-peers")
}

/// Whether the libraries are installed.
pub fn are_installed(project: &Project) -> bool {
    folder(project).join("ready").exists()
}

/// Installs the libraries if necessary; returns the reason if that fails.
pub fn install(project: &Project) -> Result<Option<String>> {
    crate::peers::install(project, &folder(project), &PACKAGES)
}

/// Measures this library and all others.
pub fn measure(
    project: &Project,
    options: &Options,
    generator: &CorpusGenerator<'_>,
    corpus: &Corpus,
) -> Result<Table> {
    let mut table = Table::new(2, &["features", "library", "opening ms", "µs an utterance", "GB/s", "goal"]);
    for (format, libraries) in PEERS {
        let own = [("matrices", 1), ("of ten", 5000)].map(|(what, minibatch)| {
            own(project, generator, corpus, format, minibatch)
                .map(|command| (Subject::new(format!("cntk-reader, {what}"), command), false))
        });
        let others = libraries.iter().map(|library| Ok((peer(project, library, corpus), true)));
        let mut subjects = Vec::new();
        for subject in own.into_iter().chain(others) {
            let (subject, is_peer) = subject?;
            let found = subject.once().map_err(|error| error.context(subject.name.clone()));
            if let Err(error) = found.and_then(|found| check(&subject.name, &found["sums"], &corpus.sums)) {
                ensure!(is_peer, error);
                say!("{} could not be measured: {}", subject.name, last_line(&error));
                continue;
            }
            subjects.push(subject);
        }
        let what = name(format);
        let results = alternate(project, what, &subjects, options.repetitions, &[])?;
        for (subject, results) in subjects.iter().zip(&results) {
            table.add(row(what, format, corpus, &subject.name, results)?);
        }
    }
    Ok(table)
}

/// Returns the name of a format in the table.
fn name(format: Format) -> &'static str {
    match format {
        Format::Files => "separate HTK files",
        Format::Archive => "HTK archive",
        Format::Kaldi => "Kaldi archive",
    }
}

fn row(what: &str, format: Format, corpus: &Corpus, name: &str, results: &Results) -> Result<Vec<String>> {
    let is_own = results.first("/sweeps").is_some();
    let seconds = results.median(if is_own { "/sweeps/0" } else { "/seconds" })?;
    let opening = if is_own { number(results.median("/open")? * 1e3) } else { String::new() };
    let each = seconds * 1e6 / corpus.utterances as f64;
    let speed = corpus.megabytes() / 1e3 / seconds;
    let goal = match (is_own, format) {
        (false, _) => String::new(),
        (true, Format::Files) => Goal::own(34.0, "µs").show(1.0, each, false),
        (true, _) => Goal::own(4.0, "GB/s").show(1.0, speed, true),
    };
    let library = if is_own { name.to_owned() } else { format!("{name} {}", version(results)?) };
    Ok(vec![what.to_owned(), library, opening, number(each), number(speed), goal])
}

/// Returns the command that runs this library from Rust.
fn own(
    project: &Project,
    generator: &CorpusGenerator<'_>,
    corpus: &Corpus,
    format: Format,
    minibatch: u64,
) -> Result<impl Fn() -> tooling::run::Run + 'static> {
    let mode = ReadMode::Sequences;
    let config = corpus.config(ConfigOptions {
        format,
        mode,
        context: 0,
        with_labels: false,
        is_randomized: false,
    })?;
    let (root, program) = (project.root.clone(), generator.program.clone());
    Ok(move || {
        let run = bound(&program, &root, CPUS).arg("measure").arg(&config);
        run.args([minibatch.to_string().as_str(), "0", "check"]).env("CNTK_READER_THREADS", CPUS.to_string())
    })
}

/// Returns the subject in which another library reads the features.
fn peer(project: &Project, library: &'static str, corpus: &Corpus) -> Subject {
    let (root, script) = (project.root.clone(), project.path("benches/scripts/speech_peers.py"));
    let python = folder(project).join("venv/bin/python");
    let (folder, values) = (corpus.folder.clone(), corpus.values.to_string());
    Subject::new(library, move || {
        let run = bound(&python.to_string_lossy(), &root, CPUS).arg(&script).arg(library);
        run.arg(&folder).arg(&values)
    })
}

/// Fails if a library did not read the data that the generator wrote.
fn check(library: &str, found: &Value, expected: &Value) -> Result<()> {
    for what in ["frames", "values", "weighted"] {
        let [read, written] = [found, expected].map(|sums| sums[what].as_f64());
        ensure!(
            read == written && written.is_some(),
            "{library}: `{what}` is {} instead of {}",
            found[what],
            expected[what]
        );
    }
    Ok(())
}
