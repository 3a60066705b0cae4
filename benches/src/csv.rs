//! User-defined deserializers of a CSV table of numbers: a Python class, the same class under
//! CNTK's own Python package, and one in Rust.

use crate::Outcome;
use crate::data::Data;
use crate::options::Options;
use crate::subject::{Results, Subject, alternate, bound};
use crate::table::{Table, number};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tooling::project::Project;
use tooling::run::Run;
use tooling::{dist, machine, python};

const COLUMNS: usize = 151;
/// Bytes of a row, on average.
const ROW: u64 = 1580;
const MINIBATCH: &str = "128";
const ORDERS: [&str; 2] = ["ordered", "shuffled"];

const NOTE: &str = "\
Rows of 151 quoted columns, read as minibatches of 128 by user-defined deserializers: the class of
`examples/python/csv_deserializer.py`, which parses with pandas, in CNTK 2.7 and through this library; and `examples/rust/csv.rs`.
One sweep, opening included, in fresh memory, data in the page cache; medians. A shuffled sweep of CNTK takes minutes and runs once.
Positions in the file, values, and for shuffled data labels were checked in sweeps that are not timed, of CNTK only the ordered one.";

/// Builds a run for an order, with or without a check.
type Command = dyn Fn(&str, bool) -> Run;

/// A reader of the table.
struct Reader {
    name: &'static str,
    command: Rc<Command>,
}

impl Reader {
    fn new(name: &'static str, command: impl Fn(&str, bool) -> Run + 'static) -> Reader {
        Reader { name, command: Rc::new(command) }
    }

    fn subject(&self, order: &'static str, is_checked: bool) -> Subject {
        let command = Rc::clone(&self.command);
        Subject::new(self.name, move || command(order, is_checked))
    }
}

/// The folder of a separate installation of CNTK with pandas.
fn folder(project: &Project) -> PathBuf {
    project.target.join("csv/cntk")
}

/// Whether CNTK with pandas and Python are installed.
pub fn are_installed(project: &Project) -> bool {
    folder(project).join("pandas-ready").exists() && python::is_installed(project)
}

/// Installs CNTK with pandas if necessary; returns the reason if it cannot be installed.
fn install(project: &Project) -> Result<Option<String>> {
    let folder = folder(project);
    if folder.join("pandas-ready").exists() {
        return Ok(None);
    }
    let installed = project.part("CNTK 2.7 with pandas", || {
        project
            .run("bash")
            .envs(&project.installing())
            .arg("oracle/scripts/install-cntk.sh")
            .arg(&folder)
            .arg("2.7")
            .go()?;
        let pip = project.run(&folder.join("venv/bin/pip").to_string_lossy());
        pip.args(["install", "-q", "--disable-pip-version-check", "pandas"]).go()?;
        Ok(std::fs::write(folder.join("pandas-ready"), "")?)
    });
    Ok(installed.err().map(|error| format!("{error:#}")))
}

/// Measures all readers, in file order and shuffled.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    if let Some(reason) = install(project)? {
        return Ok(Outcome::Nothing(reason));
    }
    let python = match python::environment(project)? {
        Ok(python) => python,
        Err(reason) => return Ok(Outcome::Nothing(reason)),
    };
    let (data, expected) = generated(project, options.size)?;
    let [cntk, own, native] = readers(project, &python, &data.path)?;
    let rows = expected["samples"].as_f64().context("`samples` is missing")?;
    let mut table = Table::new(2, &["order", "reader", "MB", "samples/s", "MB/s", "times CNTK"]);
    for order in ORDERS {
        let is_shuffled = order == "shuffled";
        let checked: &[&Reader] = if is_shuffled { &[&own, &native] } else { &[&cntk, &own, &native] };
        for reader in checked {
            let found = project.part(&format!("{order}, checking: {}", reader.name), || {
                reader.subject(order, true).once()
            })?;
            check(reader.name, &found, &expected, is_shuffled)?;
        }
        let all = [&cntk, &own, &native].map(|reader| reader.subject(order, false));
        let results = if is_shuffled {
            let (slow, others) = all.split_at(1);
            let mut results = alternate(project, order, slow, 1, &["/samples"])?;
            results.extend(alternate(project, order, others, options.repetitions, &["/samples"])?);
            results
        } else {
            alternate(project, order, &all, options.repetitions, &["/samples"])?
        };
        let seconds: Vec<f64> =
            results.iter().map(|results: &Results| results.median("/seconds")).collect::<Result<_>>()?;
        for ((subject, results), &time) in all.iter().zip(&results).zip(&seconds) {
            let found = results.first("/samples");
            ensure!(found == Some(&expected["samples"]), "{} read {found:?} rows", subject.name);
            table.add(vec![
                order.to_owned(),
                subject.name.clone(),
                number(data.megabytes()),
                number(rows / time),
                number(data.megabytes() / time),
                number(seconds[0] / time),
            ]);
        }
    }
    let count = table.len();
    Ok(Outcome::Measured(format!("{NOTE}\n\n{table}"), count))
}

/// Builds the readers: CNTK, this library's Python module, and the Rust example.
fn readers(project: &Project, python: &Path, data: &Path) -> Result<[Reader; 3]> {
    project.part("the Rust example", || {
        dist::release(project, "build").args(["--package", "cntk-reader", "--example", "csv"]).go()
    })?;
    let (root, columns) = (project.root.clone(), COLUMNS.to_string());
    let run = {
        let data = data.to_owned();
        move |program: &Path, front: &[&str], order: &str| {
            let run = bound(&program.to_string_lossy(), &root, machine::cores()).args(front).arg(&data);
            run.args([columns.as_str(), MINIBATCH, order])
        }
    };
    let script = project.path("benches/csv/read.py").to_string_lossy().into_owned();
    let package_of_checkout = python::variables(project)?;
    let in_python = |program: PathBuf, package: &'static str| {
        let (run, script, environment) = (run.clone(), script.clone(), package_of_checkout.clone());
        move |order: &str, is_checked: bool| {
            let run = run(&program, &[&script, package], order);
            let run = if is_checked { run } else { run.arg("unchecked") };
            run.envs(&environment)
        }
    };
    let native = project.target.join("release/examples/csv");
    Ok([
        Reader::new("CNTK 2.7, Python class", in_python(folder(project).join("python"), "cntk")),
        Reader::new("cntk-reader, the same class", in_python(python.to_owned(), "cntk_reader")),
        Reader::new("cntk-reader, Rust", {
            let run = run.clone();
            move |order, is_checked| {
                let run = run(&native, &[], order);
                if is_checked { run.arg("check") } else { run }
            }
        }),
    ])
}

/// Fails if a reader did not read the data that the generator wrote.
fn check(reader: &str, found: &Value, expected: &Value, is_shuffled: bool) -> Result<()> {
    let rows = &expected["samples"];
    ensure!(found["samples"] == *rows, "{reader} read {} rows of {rows}", found["samples"]);
    // Values are rounded to 32 bits: allow ten times the expected error of their weighted sum.
    let unit = 10.0 * 6e-8 * (rows.as_f64().unwrap_or(0.0) * COLUMNS as f64).sqrt();
    let sums: &[(&str, f64)] = if is_shuffled {
        &[("pairs", 6.0)]
    } else {
        &[("pairs", 6.0), ("label", 505.0), ("features", 505.0)]
    };
    for &(name, weight) in sums {
        let [sum, wanted] = [found, expected].map(|sums| sums[name].as_f64().unwrap_or(f64::NAN));
        ensure!((sum - wanted).abs() < unit * weight, "{reader}: `{name}` is {sum} instead of {wanted}");
    }
    Ok(())
}

/// Returns a table of `size` megabytes, generated if necessary, and the sums that a reader must
/// find.
fn generated(project: &Project, size: u64) -> Result<(Data, Value)> {
    let folder = project.target.join("bench-data");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("table-{size}.csv"));
    let sums = path.with_extension("csv.sums");
    if !sums.exists() || !path.exists() {
        let expected = project.part(&format!("generating {size} MB"), || {
            write_table(&path, (size * 1_000_000).div_ceil(ROW))
        })?;
        std::fs::write(&sums, expected.to_string())?;
    }
    Ok((Data::new("csv", path)?, serde_json::from_str(&std::fs::read_to_string(&sums)?)?))
}

/// Writes a label and features with five digits in each row; returns the sums that
/// `benches/csv/read.py` describes.
fn write_table(path: &Path, rows: u64) -> Result<Value> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let (mut line, mut state) = (Vec::new(), 88_172_645_463_325_252_u64);
    // Counted in units of the last digit, so that sums are exact.
    let (mut labels, mut features, mut pairs) = (0i64, 0i64, 0i64);
    for row in 0..rows {
        let (weight, label) = ((row % 1009 + 1) as i64, (row % 10) as i64);
        line.clear();
        write!(line, "\"{label}\"")?;
        labels += weight * label;
        for _ in 1..COLUMNS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let value = (state >> 32) as i64 % 199_999 - 99_999;
            features += weight * value;
            pairs += (label + 1) * value;
            line.extend(if value < 0 { b",\"-0.".as_slice() } else { b",\"0." });
            // The standard library's formatting takes minutes in an unoptimized program.
            let digit = |power| b'0' + (value.abs() / power % 10) as u8;
            line.extend([digit(10_000), digit(1000), digit(100), digit(10), digit(1), b'"']);
        }
        line.extend(b"\r\n");
        file.write_all(&line)?;
    }
    file.flush()?;
    let [features, pairs] = [features, pairs].map(|sum| sum as f64 / 1e5);
    Ok(json!({"samples": rows, "label": labels as f64, "features": features, "pairs": pairs}))
}
