//! Runs the golden cases through the driver `replay`, which uses the C++ header, and compares bit
//! by bit.

use crate::golden::{self, Case};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;
use tooling::project::{Project, empty_folder};
use tooling::run::Run;
use tooling::{Tally, machine};

/// Maximum number of differences shown.
const SHOWN: usize = 20;

/// Replays every `every`-th case with a driver, run under the program `under` (such as Valgrind) if
/// it is not empty.
pub fn check(project: &Project, every: usize, driver: &Path, under: &[String]) -> Result<Tally> {
    let scratch = project.target.join("xtask/replay");
    empty_folder(&scratch)?;
    let cases: Vec<Case> = golden::load(project)?.into_iter().step_by(every).collect();
    let mixed = golden::mixed(project)?;
    let threads = machine::cores();
    let work = |first: usize| -> Vec<String> {
        let cases = cases.iter().skip(first).step_by(threads);
        let outcomes = cases.map(|case| {
            let output = replay(project, case, driver, under, &scratch.join(&case.name));
            let compare = if mixed.contains(&case.name) { compare_mixed } else { compare };
            output.and_then(|output| compare(case, &output)).with_context(|| case.name.clone())
        });
        outcomes.filter_map(|outcome| outcome.err().map(|error| format!("{error:#}"))).collect()
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads).map(|first| scope.spawn(move || work(first))).collect();
        let panicked = |_| vec!["a thread that replayed cases has panicked".to_owned()];
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let passed = cases.len().saturating_sub(failures.len());
    if !failures.is_empty() {
        let shown = failures.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
        say!(
            "{shown}\n{} of {} cases differ; their data are in {}",
            failures.len(),
            failures.len() + passed,
            scratch.display()
        );
    }
    Ok(Tally { passed, failed: failures.len(), ..Tally::default() })
}

fn replay(project: &Project, case: &Case, driver: &Path, under: &[String], folder: &Path) -> Result<String> {
    let (config, script) = case.unpack(folder)?;
    let command: Vec<&str> =
        under.iter().map(String::as_str).chain([driver.to_str().context("UTF-8 path")?]).collect();
    let run: Run = project.run(command[0]).args(&command[1..]);
    run.arg(config).arg(script).output()
}

/// Compares a case in which CNTK mixes the channels of images: only pixels differ.
fn compare_mixed(case: &Case, output: &str) -> Result<()> {
    ensure!(compare(case, output).is_err(), "no difference: remove the case from mixed-channels.txt");
    compare(&case.without_pixels(), output)
}

/// Compares the driver's lines with the record.
pub fn compare(case: &Case, output: &str) -> Result<()> {
    let lines: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("not JSON: {line}")))
        .collect::<Result<_>>()?;
    let mut lines = lines.iter();
    let create = lines.next().context("no output")?;
    same_result(part(create, "create")?, &case.create, &[]).context("create")?;
    // The element types of the streams determine the precision in which values are compared.
    let doubles: Vec<bool> = match case.create["streams"].as_array() {
        Some(streams) => streams.iter().map(|stream| stream["element"] == "double").collect(),
        None => Vec::new(),
    };
    for (number, (op, recorded)) in case.steps.iter().zip(&case.results).enumerate() {
        let place = || format!("step {number} ({op})");
        let line = lines.next().context("no output").with_context(place)?;
        ensure!(line["op"].as_str() == Some(op), "the driver took the step {}", line["op"]);
        same_result(part(line, "result")?, recorded, &doubles).with_context(place)?;
    }
    ensure!(lines.next().is_none(), "more lines than steps");
    Ok(())
}

/// Returns a member of a line.
fn part<'a>(line: &'a Value, name: &str) -> Result<&'a Value> {
    line.get(name).with_context(|| format!("`{name}` is missing in {}", short(line)))
}

/// Compares one result. For errors, only the kind counts, not the wording.
fn same_result(got: &Value, recorded: &Value, doubles: &[bool]) -> Result<()> {
    if let Some(kind) = recorded.get("error") {
        ensure!(got.get("error") == Some(kind), "gave {}, CNTK the error {kind}", short(got));
        return Ok(());
    }
    if doubles.is_empty() || recorded.get("streams").is_none() {
        return same(got, recorded, "result");
    }
    let (Value::Object(got), Value::Object(recorded)) = (got, recorded) else { bail!("not an object") };
    for (name, recorded) in recorded {
        let got = got.get(name).with_context(|| format!("`{name}` is missing"))?;
        let (Value::Array(got), Value::Array(recorded)) = (got, recorded) else {
            same(got, recorded, name)?;
            continue;
        };
        ensure!(got.len() == recorded.len(), "{} streams, CNTK has {}", got.len(), recorded.len());
        for (number, (got, recorded)) in got.iter().zip(recorded).enumerate() {
            same_stream(got, recorded, doubles[number]).with_context(|| format!("stream {number}"))?;
        }
    }
    Ok(())
}

fn same_stream(got: &Value, recorded: &Value, double: bool) -> Result<()> {
    for (name, recorded) in recorded.as_object().context("not an object")? {
        let got = got.get(name).with_context(|| format!("`{name}` is missing"))?;
        match name.as_str() {
            "dense" => {
                let (got, recorded) = (columns(got)?, columns(recorded)?);
                ensure!(got.len() == recorded.len(), "{} columns, CNTK has {}", got.len(), recorded.len());
                for (number, (got, recorded)) in got.iter().zip(recorded).enumerate() {
                    same_values(got, recorded, double).with_context(|| format!("column {number}"))?;
                }
            }
            "values" => same_values(got, recorded, double).context("values")?,
            _ => same(got, recorded, name)?,
        }
    }
    Ok(())
}

fn columns(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().context("`dense` is not an array")
}

/// Compares the values of a column; a gap is `null`, and a number stands for that many values.
fn same_values(got: &Value, recorded: &Value, double: bool) -> Result<()> {
    if let (Value::Array(got), Some(count)) = (got, recorded.as_u64()) {
        ensure!(got.len() as u64 == count, "{} values, CNTK has {count}", got.len());
        return Ok(());
    }
    let (Value::Array(got), Value::Array(recorded)) = (got, recorded) else {
        return same(got, recorded, "column");
    };
    ensure!(got.len() == recorded.len(), "{} values, CNTK has {}", got.len(), recorded.len());
    for (number, (got, recorded)) in got.iter().zip(recorded).enumerate() {
        // Zeros in the records have lost their signs; tests/golden.rs tests signs.
        let unsigned_zero = recorded.as_u64() == Some(0) && got.as_f64() == Some(0.0);
        let equal = unsigned_zero
            || match (got.as_f64(), recorded.as_f64()) {
                (Some(got), Some(recorded)) if double => got.to_bits() == recorded.to_bits(),
                (Some(got), Some(recorded)) => (got as f32).to_bits() == (recorded as f32).to_bits(),
                _ => got == recorded,
            };
        ensure!(equal, "value {number} is {got}, CNTK's {recorded}");
    }
    Ok(())
}

fn same(got: &Value, recorded: &Value, what: &str) -> Result<()> {
    ensure!(got == recorded, "{what} is {}, CNTK's {}", short(got), short(recorded));
    Ok(())
}

/// Returns the beginning of a value's text.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn floats_are_compared_as_floats_and_doubles_as_doubles() {
        assert!(same_values(&json!([0.0]), &json!([-0.0]), false).is_err(), "the sign of zero");
        assert!(
            same_values(&json!([-0.0]), &json!([0]), false).is_ok(),
            "a zero whose sign was not recorded"
        );
        assert!(same_values(&json!([0.100000001]), &json!([0.1]), false).is_ok());
        assert!(same_values(&json!([0.100000001]), &json!([0.1]), true).is_err());
        assert!(same_values(&json!([178]), &json!([178.0]), true).is_ok());
        assert!(same_values(&json!(["nan"]), &json!(["nan"]), true).is_ok());
        assert!(same_values(&json!([1, 2]), &json!(2), false).is_ok(), "two values, whatever they are");
        assert!(same_values(&json!([1, 2]), &json!(3), false).is_err());
        assert!(same_values(&json!(null), &json!([0]), true).is_err());
    }

    #[test]
    fn negative_zero_survives_parsing() {
        let value: Value = serde_json::from_str("-0").expect("a number");
        assert_eq!(value.as_f64().map(f64::to_bits), Some((-0.0f64).to_bits()));
    }

    #[test]
    fn errors_are_compared_by_kind() {
        let recorded = json!({"error": "runtime_error"});
        assert!(same_result(&json!({"error": "runtime_error", "message": "x"}), &recorded, &[]).is_ok());
        assert!(same_result(&json!({"error": "logic_error"}), &recorded, &[]).is_err());
        assert!(same_result(&json!({"ok": true}), &recorded, &[]).is_err());
    }
}
