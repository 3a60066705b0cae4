//! Measures batches of padded token ids in Python, beside PyTorch's DataLoader, HF datasets,
//! mosaicml-streaming and Grain.

use crate::Outcome;
use crate::comparison::Goal;
use crate::options::Options;
use crate::peers::{last_line, version};
use crate::subject::{Results, Subject, alternate, bound};
use crate::table::{Table, number};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tooling::dist::{self, Dist};
use tooling::project::Project;
use tooling::{python, pytorch};

/// CPUs, loading threads of this library, and worker processes of the others. Equals `WORKERS` in
/// `benches/python/loaders.py`.
const CPUS: usize = 2;
/// Packages that are installed into the environment of PyTorch. One command installs them all, so
/// that their versions are compatible. By uv: pip backtracks for more than ten minutes.
const PACKAGES: [&str; 4] = ["datasets", "grain", "mosaicml-streaming", "torchdata"];

/// A loader of `benches/python/loaders.py`.
struct Loader {
    /// The name in that file.
    id: &'static str,
    /// The name in the table.
    name: &'static str,
    /// The files that it reads, in the folder of the data.
    data: &'static str,
    is_own: bool,
}

const LOADERS: [Loader; 8] = [
    Loader { id: "cntk-reader-ctf", name: "cntk-reader", data: "tokens.ctf", is_own: true },
    Loader { id: "cntk-reader-ids", name: "cntk-reader", data: "tokens.ctf, `ids`", is_own: true },
    Loader { id: "cntk-reader-cbf", name: "cntk-reader", data: "tokens.cbf", is_own: true },
    Loader { id: "dataloader", name: "DataLoader", data: "tokens.npy", is_own: false },
    Loader { id: "dataloader-batches", name: "DataLoader, whole batches", data: "tokens.npy", is_own: false },
    Loader { id: "datasets", name: "HF datasets", data: "arrow", is_own: false },
    Loader { id: "grain", name: "Grain", data: "tokens.npy", is_own: false },
    Loader { id: "mosaicml-streaming", name: "mosaicml-streaming", data: "mds", is_own: false },
];

/// Whether the libraries are installed.
pub fn are_installed(project: &Project) -> bool {
    pytorch::folder(project).join("ready").exists() && pytorch::folder(project).join("loaders").exists()
}

/// Returns a Python with all loaders, or the reason why there is none.
fn environment(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    let marker = pytorch::folder(project).join("loaders");
    let python = match pytorch::environment(project)? {
        Ok(python) if !marker.exists() => python,
        other => return Ok(other),
    };
    let installed = project.part(&PACKAGES.join(", "), || {
        let python = python.to_string_lossy();
        let pip = project.run(&python).args(["-m", "pip", "install", "-q", "--no-cache-dir"]);
        pip.args(["--disable-pip-version-check", "uv"]).go()?;
        let uv =
            project.run(&python).args(["-m", "uv", "pip", "install", "--quiet", "--no-cache", "--python"]);
        uv.arg(&*python).args(PACKAGES).go()
    });
    if let Err(error) = installed {
        return Ok(Err(format!("the loaders cannot be installed: {}", last_line(&error))));
    }
    std::fs::write(marker, "")?;
    Ok(Ok(python))
}

/// Measures all loaders.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    let python = match environment(project)? {
        Ok(python) => python,
        Err(reason) => return Ok(Outcome::Nothing(reason)),
    };
    let variables = project.part("extension, release mode", || python::variables(project))?;
    let dist = project.part("library, release mode", || dist::build(project))?;
    let folder = corpus(project, &dist, &python, options.size)?;
    let bench = Bench { project, python, variables, folder };

    let (mut measured, mut failures) = (Vec::new(), String::new());
    for loader in &LOADERS {
        match bench.check(loader) {
            Ok(checks) => measured.push((loader, checks)),
            Err(error) if !loader.is_own => {
                failures += &format!("\n{} could not be measured: {}\n", loader.name, last_line(&error));
            }
            Err(error) => return Err(error.context(loader.id)),
        }
    }
    let subjects = |what: &'static str| -> Vec<Subject> {
        measured.iter().map(|(loader, _)| bench.subject(what, loader.id)).collect()
    };
    let sweeps = alternate(project, "two sweeps", &subjects("sweeps"), options.repetitions, &["/sequences"])?;
    let resumed = alternate(project, "resuming", &subjects("resume-first"), options.repetitions, &[])?;
    let mut rows = Vec::new();
    for (((loader, checks), sweeps), resumed) in measured.into_iter().zip(&sweeps).zip(&resumed) {
        rows.push(Row::new(loader, checks, sweeps, resumed)?);
    }
    let count = rows.len();
    let text = format!(
        "{}\n\n{}\n{}{failures}\n{}",
        note(options, &bench.folder, &sweeps[0])?,
        table(&rows),
        ratios(&rows),
        bench.padding()?
    );
    Ok(Outcome::Measured(text, count))
}

/// Generates the sequences in all formats if necessary; returns their folder.
fn corpus(project: &Project, dist: &Dist, python: &Path, size: u64) -> Result<PathBuf> {
    let folder = project.target.join(format!("bench-data/tokens-{size}"));
    if !folder.join("complete").exists() {
        project.part(&format!("token sequences: generating {size} MB in four formats"), || {
            let run = project.run(&python.to_string_lossy()).arg("benches/python/corpus.py");
            run.arg(&folder).arg(size.to_string()).go()
        })?;
    }
    if !folder.join("tokens.cbf").exists() {
        project.part("command-line tool", || dist::tool(project, dist))?;
        project.part("token sequences: converting to CBF", || {
            let tool = dist.folder.join("bin/cntk-reader");
            let (text, binary) = (folder.join("tokens.ctf"), folder.join("tokens.cbf"));
            project.run(&tool.to_string_lossy()).arg("convert").arg(text).arg(binary).go()
        })?;
    }
    Ok(folder)
}

struct Bench<'a> {
    project: &'a Project,
    python: PathBuf,
    variables: [(&'static str, PathBuf); 3],
    folder: PathBuf,
}

/// The results of the runs that are not timed: memory, and the sequences that resuming in the
/// middle of a sweep loses or repeats.
struct CheckResults {
    memory: f64,
    lost: u64,
    repeated: u64,
}

impl Bench<'_> {
    fn subject(&self, what: &'static str, id: &'static str) -> Subject {
        let root = self.project.root.clone();
        let variables = self.variables.clone();
        let (python, folder) = (self.python.clone(), self.folder.clone());
        Subject::new(id, move || {
            let run = bound(&python.to_string_lossy(), &root, CPUS).arg("benches/python/measure.py");
            run.envs(&variables).args([what, id]).arg(&folder)
        })
    }

    /// Measures padding beside reading, and beside loops in NumPy. The program checks the results
    /// that it times.
    fn padding(&self) -> Result<String> {
        let printed = self.project.part("padding 20,000 sequences of words", || {
            let run = bound(&self.python.to_string_lossy(), &self.project.root, CPUS);
            let run = run.envs(&self.variables);
            run.arg("benches/forms/main.py").output()
        })?;
        Ok(format!(
            "Forms of sequences, by `benches/forms/main.py`, medians in milliseconds:\n\n```text\n{printed}```\n"
        ))
    }

    fn check(&self, loader: &Loader) -> Result<CheckResults> {
        let [checked, _, resumed] = self.project.part(&format!("{}: checking", loader.id), || {
            let once = |what| self.subject(what, loader.id).once();
            Ok([once("check")?, once("stop")?, once("resume")?])
        })?;
        let integer = |result: &Value, name: &str| {
            result[name].as_u64().with_context(|| format!("`{name}` is missing in {result}"))
        };
        let wrong = integer(&checked, "wrong")?;
        ensure!(wrong == 0, "{wrong} sequences were missing, repeated or wrong");
        let batch = checked["batch"].as_f64().context("`batch` is missing")?;
        // The last batch of a sweep is smaller, and batches of CBF vary.
        ensure!((58.0..=64.5).contains(&batch), "batches have {batch} sequences instead of 64");
        let (lost, repeated) = (integer(&resumed, "lost")?, integer(&resumed, "repeated")?);
        ensure!(
            !loader.is_own || lost + repeated == 0,
            "{lost} sequences were lost, and {repeated} repeated"
        );
        let memory = checked["memory"].as_f64().context("`memory` is missing")?;
        Ok(CheckResults { memory, lost, repeated })
    }
}

/// The measurements of a loader.
struct Row {
    loader: &'static Loader,
    version: String,
    checks: CheckResults,
    /// Sequences a second in each of two sweeps.
    rates: [f64; 2],
    /// Seconds to the first batch of a new loader and of a resumed one.
    first: f64,
    resumed: f64,
}

impl Row {
    fn new(
        loader: &'static Loader,
        checks: CheckResults,
        sweeps: &Results,
        resumed: &Results,
    ) -> Result<Row> {
        let sequences = sweeps.median("/sequences")?;
        let rates = [sequences / sweeps.median("/sweeps/0")?, sequences / sweeps.median("/sweeps/1")?];
        let (first, resumed) = (sweeps.median("/first")?, resumed.median("/seconds")?);
        Ok(Row { loader, version: version(sweeps)?, checks, rates, first, resumed })
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        2,
        &[
            "loader",
            "reads",
            "sweep 1, sequences/s",
            "sweep 2, sequences/s",
            "first batch, ms",
            "resuming, ms",
            "lost",
            "repeated",
            "memory, MB",
        ],
    );
    for Row { loader, version, checks, rates, first, resumed } in rows {
        table.add(vec![
            format!("{} {version}", loader.name),
            loader.data.to_owned(),
            number(rates[0]),
            number(rates[1]),
            number(first * 1e3),
            number(resumed * 1e3),
            checks.lost.to_string(),
            checks.repeated.to_string(),
            number(checks.memory / 1e6),
        ]);
    }
    table
}

/// Compares this library with the fastest of the others.
fn ratios(rows: &[Row]) -> Table {
    let mut table = Table::new(2, &["times the fastest other", "reads", "measured", "goal"]);
    for own in rows.iter().filter(|row| row.loader.is_own) {
        for (at, sweep) in ["sweep 1", "sweep 2"].into_iter().enumerate() {
            let others = rows.iter().filter(|row| !row.loader.is_own).map(|row| row.rates[at]);
            let times = own.rates[at] / others.fold(0.0, f64::max);
            if times.is_finite() {
                let goal = Goal::times(5.0).show(times, 0.0, true);
                table.add(vec![sweep.to_owned(), own.loader.data.to_owned(), number(times), goal]);
            }
        }
    }
    table
}

fn note(options: &Options, folder: &Path, results: &Results) -> Result<String> {
    let sequences = results.median("/sequences")?;
    let sizes = ["tokens.ctf", "tokens.cbf", "tokens.npy"]
        .map(|name| std::fs::metadata(folder.join(name)).map_or(0.0, |data| data.len() as f64 / 1e6));
    Ok(format!(
        "\
{sequences} sequences of 8 to 120 token ids with a label each, shuffled, as tensors of 64 sequences that are padded to the longest
one of the batch (for CBF, whose minibatches count samples, 4096 ids, the average of 64 sequences): {:.0} MB of CTF, {:.0} MB of CBF,
{:.0} MB of 32-bit integers in the formats of the others. Each process tree has two CPUs; this library reads on two threads, the others
on two worker processes. Data are in the page cache; the medians of {} runs in turn count. Sweep 1 and the first batch begin before
opening, after imports; sweep 2 is read from an open loader whose workers exist. Memory is the peak of the process and its workers in
a sweep, less the memory of Python and PyTorch before; shared pages count once (PSS). Resuming: half a sweep was read and the state
saved; a new process opens the loader, loads the state and gets the first batch. Lost and repeated sequences are missing from both
halves, or in them twice. By digest, each loader has delivered all sequences and labels in a sweep that is not timed.

Shuffling: this library over all data (window of 128 chunks); DataLoader and Grain by a permutation; HF datasets with 64 shards and a
buffer of 10,000; mosaicml-streaming by its default, with one canonical node. DataLoader and Grain read a file that is mapped into
memory and pad by `pad_sequence`; `whole batches` has a sampler of batches, and one NumPy gather a batch. Resuming uses torchdata's
StatefulDataLoader and its samplers, Grain's iterators, and mosaicml's StreamingDataLoader. Workers are persistent, other settings
are defaults.",
        sizes[0], sizes[1], sizes[2], options.repetitions,
    ))
}
