//! `cargo xtask bench --csv`: a table of numbers in a CSV file, read by users' deserializers: a Python class by pandas, the
//! same class under CNTK's own Python package, and one in Rust.
//!
//! Each run is a process of its own, and those that are compared take turns. What was read is held against sums that the
//! generator kept, and shuffled data of two readers against each other.

use crate::project::Project;
use crate::run::Run;
use crate::{dist, machine, python};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

const COLUMNS: usize = 151;
const MINIBATCH: &str = "128";
const ROUNDS: usize = 3;

/// What the generator put into the file: rows, and for labels and features the sum of (row mod 1009 + 1) times value.
struct Table {
    path: PathBuf,
    rows: u64,
    sums: [f64; 2],
}

/// A program that reads the table.
struct Subject<'a> {
    name: &'static str,
    /// Makes a run, shuffled or not, with or without a check.
    run: Box<dyn Fn(bool, bool) -> Run + 'a>,
    /// CNTK takes minutes for a shuffled sweep: it runs once, unchecked.
    is_slow_shuffled: bool,
}

/// Measures as the arguments say.
pub fn command(project: &Project, arguments: &[String]) -> Result<()> {
    let (mut rows, mut record) = (200_000, true);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--no-record" => record = false,
            "--rows" => {
                let text = arguments.next().context("--rows needs a value")?;
                rows = text.parse().ok().filter(|&rows| rows > 0).context("--rows needs a number above 0")?;
            }
            unknown => bail!("bench --csv does not know '{unknown}'. See cargo xtask help."),
        }
    }
    let text = measure(project, rows)?;
    println!("\n{text}");
    if record {
        let path = project.path("benches/record").join(format!("csv-{}.md", machine::date(project)?));
        std::fs::write(&path, format!("# Reading of a CSV table, {}\n\n{text}", machine::date(project)?))?;
        println!("recorded in {}", path.display());
    }
    Ok(())
}

fn measure(project: &Project, rows: u64) -> Result<String> {
    let dist = project.part("the library", || dist::build(project))?;
    project.part("the Rust example", || {
        project.cargo("build").args(["--release", "--package", "cntk-reader", "--example", "csv"]).go()
    })?;
    let table = generated(project, rows)?;
    let (columns, path) = (COLUMNS.to_string(), table.path.clone());
    let order = |is_shuffled| if is_shuffled { "shuffled" } else { "ordered" };
    let script = project.path("benches/csv/read.py");
    let read = |run: Run, package: &str, is_shuffled: bool, is_checked: bool| {
        let run =
            run.arg(&script).arg(package).arg(&path).args([columns.as_str(), MINIBATCH, order(is_shuffled)]);
        if is_checked { run } else { run.arg("unchecked") }
    };
    let environment = python::environment(project)?;
    let mut subjects = Vec::new();
    let mut notes = String::new();
    match cntk(project) {
        Ok(program) => subjects.push(Subject {
            name: "CNTK 2.7, Python class, pandas",
            run: Box::new(move |is_shuffled, is_checked| {
                let run = project.run(&program.to_string_lossy());
                let run = run.env("PYTHONPATH", project.path("examples/python"));
                read(run, "cntk", is_shuffled, is_checked)
            }),
            is_slow_shuffled: true,
        }),
        Err(error) => notes += &format!("CNTK was not measured: {error:#}\n"),
    }
    match &environment {
        Ok(program) => subjects.push(Subject {
            name: "cntk-reader, the same class",
            run: Box::new(|is_shuffled, is_checked| {
                let run = python::program(project, &dist, &program.to_string_lossy());
                read(run, "cntk_reader", is_shuffled, is_checked)
            }),
            is_slow_shuffled: false,
        }),
        Err(reason) => notes += &format!("Python was not measured: {reason}\n"),
    }
    subjects.push(Subject {
        name: "cntk-reader, examples/rust/csv.rs",
        run: Box::new(|is_shuffled, is_checked| {
            let program = project.target.join("release/examples/csv");
            let run = project.run(&program.to_string_lossy()).arg(&table.path);
            run.args([columns.as_str(), MINIBATCH, order(is_shuffled), if is_checked { "check" } else { "" }])
        }),
        is_slow_shuffled: false,
    });
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut text = format!(
        "- commit: {}\n- machine: {}, {} CPUs, {} GiB memory; load before: {}\n- table: {rows} rows of {COLUMNS} quoted \
         columns, {:.1} MB, in the page cache; minibatches of {MINIBATCH}; one sweep, opening included; medians of {ROUNDS}\n\n\
         | order | reader | samples/s | to CNTK |\n| --- | --- | ---: | ---: |\n",
        machine::commit(project)?,
        machine::processor(),
        machine::cores(),
        machine::memory(),
        load.split(' ').next().unwrap_or("unknown"),
        std::fs::metadata(&table.path)?.len() as f64 / 1e6
    );
    for is_shuffled in [false, true] {
        let mut reference = None;
        for (subject, speed) in subjects.iter().zip(compare(project, &subjects, &table, is_shuffled)?) {
            match speed {
                Ok(speed) => {
                    if subject.is_slow_shuffled {
                        reference = Some(speed);
                    }
                    let ratio = reference.map_or("-".to_owned(), |other| format!("{:.2}", speed / other));
                    writeln!(text, "| {} | {} | {speed:.0} | {ratio} |", order(is_shuffled), subject.name)?;
                }
                Err(reason) => {
                    writeln!(text, "| {} | {} | failed | - |", order(is_shuffled), subject.name)?;
                    writeln!(notes, "{} failed, {}: {reason}", subject.name, order(is_shuffled))?;
                }
            }
        }
    }
    Ok(format!("{text}\n{notes}"))
}

/// Samples per second of each subject, in turns; CNTK may fail, others may not.
fn compare(
    project: &Project,
    subjects: &[Subject<'_>],
    table: &Table,
    is_shuffled: bool,
) -> Result<Vec<std::result::Result<f64, String>>> {
    let mut seconds = vec![Ok(Vec::new()); subjects.len()];
    for round in 0..ROUNDS {
        for (subject, seconds) in subjects.iter().zip(&mut seconds) {
            let is_once = is_shuffled && subject.is_slow_shuffled;
            if is_once && round > 0 {
                continue;
            }
            let order = if is_shuffled { "shuffled" } else { "ordered" };
            let what = format!("{order}: {}, {} of {ROUNDS}", subject.name, round + 1);
            let timed = project.part(&what, || once(&(subject.run)(is_shuffled, false).output()?, "seconds"));
            match (timed, &mut *seconds) {
                (Ok((rows, time)), Ok(seconds)) => {
                    ensure!(rows == table.rows, "{}: {rows} rows instead of {}", subject.name, table.rows);
                    seconds.push(time);
                }
                (Err(error), _) if is_once => *seconds = Err(format!("{error:#}")),
                (Err(error), _) => return Err(error),
                (Ok(_), Err(_)) => {}
            }
        }
    }
    let mut shuffled = None;
    for subject in subjects.iter().filter(|subject| !(is_shuffled && subject.is_slow_shuffled)) {
        project.part(&format!("checking: {}", subject.name), || {
            let output = (subject.run)(is_shuffled, true).output()?;
            let sums = [once(&output, "label")?.1, once(&output, "features")?.1];
            let expected = if is_shuffled { *shuffled.get_or_insert(sums) } else { table.sums };
            for (sum, expected) in sums.into_iter().zip(expected) {
                // Values are rounded either way: ten times the error to be expected of their sum, weighted.
                let tolerance = 10.0 * 505.0 * ((table.rows * COLUMNS as u64) as f64).sqrt() * 6e-8;
                ensure!((sum - expected).abs() < tolerance, "{sum} was read instead of {expected}");
            }
            Ok(())
        })?;
    }
    let speed = |mut seconds: Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        table.rows as f64 / seconds[seconds.len() / 2]
    };
    Ok(seconds.into_iter().map(|seconds| seconds.map(speed)).collect())
}

/// The rows and one of the numbers that a program printed in its last line of JSON.
fn once(output: &str, name: &str) -> Result<(u64, f64)> {
    let line = output.lines().rfind(|line| line.starts_with('{')).context("no result was printed")?;
    let value: Value = serde_json::from_str(line)?;
    let rows = value["samples"].as_u64().context("`samples` is missing")?;
    Ok((rows, value[name].as_f64().with_context(|| format!("`{name}` is missing in {line}"))?))
}

/// CNTK with pandas, in a folder of its own.
fn cntk(project: &Project) -> Result<PathBuf> {
    let folder = project.target.join("csv/cntk");
    let program = folder.join("python");
    if !folder.join("pandas-ready").exists() {
        project.part("CNTK 2.7 with pandas", || {
            project.run("bash").arg("xtask/scripts/install-cntk.sh").arg(&folder).arg("2.7").go()?;
            let pip = project.run(&folder.join("venv/bin/pip").to_string_lossy());
            pip.args(["install", "-q", "--disable-pip-version-check", "pandas"]).go()
        })?;
        std::fs::write(folder.join("pandas-ready"), "")?;
    }
    Ok(program)
}

/// The table, generated unless it is there already.
fn generated(project: &Project, rows: u64) -> Result<Table> {
    let folder = project.target.join("csv");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("table-{rows}.csv"));
    let sums = path.with_extension("sums");
    if !sums.exists() || !path.exists() {
        let kept = project.part(&format!("a table of {rows} rows"), || write_table(&path, rows))?;
        std::fs::write(&sums, format!("{} {}", kept[0], kept[1]))?;
    }
    let text = std::fs::read_to_string(&sums)?;
    let kept: Vec<f64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
    let sums = kept.try_into().map_err(|_| anyhow::anyhow!("{} is damaged", sums.display()))?;
    Ok(Table { path, rows, sums })
}

/// Writes a label and features with five digits in each row; gives the sums.
fn write_table(path: &Path, rows: u64) -> Result<[f64; 2]> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let (mut line, mut state) = (Vec::new(), 88_172_645_463_325_252_u64);
    // In units of the last digit: exact.
    let (mut labels, mut features) = (0i64, 0i64);
    for row in 0..rows {
        let weight = (row % 1009 + 1) as i64;
        line.clear();
        write!(line, "\"{}\"", row % 10)?;
        labels += weight * (row % 10) as i64;
        for _ in 1..COLUMNS {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let value = (state >> 32) as i64 % 199_999 - 99_999;
            features += weight * value;
            line.extend(if value < 0 { b",\"-0.".as_slice() } else { b",\"0." });
            // Formatting by the library takes minutes where this program is not optimized.
            let digit = |power| b'0' + (value.abs() / power % 10) as u8;
            line.extend([digit(10_000), digit(1000), digit(100), digit(10), digit(1), b'"']);
        }
        line.extend(b"\r\n");
        file.write_all(&line)?;
    }
    file.flush()?;
    Ok([labels as f64, features as f64 / 1e5])
}
