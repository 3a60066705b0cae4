//! Runs measuring programs in turn.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::Path;
use tooling::machine;
use tooling::project::Project;
use tooling::run::Run;

/// Timeout of a run in seconds.
const PATIENCE: &str = "3600";

/// Binds a program to the first `cpus` of the CPUs that this process may use.
pub fn bound(program: &str, folder: &Path, cpus: usize) -> Run {
    let cpus: Vec<String> = machine::cpus().iter().take(cpus).map(usize::to_string).collect();
    Run::new("timeout", folder, false).args([PATIENCE, "taskset", "-c", &cpus.join(","), program])
}

/// A program that reads data and prints its measurements as JSON.
pub struct Subject {
    /// The name in tables.
    pub name: String,
    command: Box<dyn Fn() -> Run>,
}

impl Subject {
    /// Creates a subject that runs this command.
    pub fn new(name: impl Into<String>, command: impl Fn() -> Run + 'static) -> Subject {
        Subject { name: name.into(), command: Box::new(command) }
    }

    /// Measures once. The result is the last line of JSON that the program prints, or the field
    /// `result` of a driver's line for a step.
    pub fn once(&self) -> Result<Value> {
        let output = (self.command)().output().with_context(|| self.name.clone())?;
        let line = output.lines().rfind(|line| line.starts_with('{'));
        let line = line.with_context(|| format!("{} printed no result", self.name))?;
        let value: Value =
            serde_json::from_str(line).with_context(|| format!("{} printed no result: {line}", self.name))?;
        let result = if value["op"].is_string() { value["result"].clone() } else { value };
        if result["error"].is_string() || result["create"].is_object() {
            bail!("{} failed: {line}", self.name);
        }
        Ok(result)
    }
}

/// The results of all runs of a subject.
pub struct Results(Vec<Value>);

impl Results {
    /// Returns the value of the first run at a JSON pointer.
    pub fn first(&self, pointer: &str) -> Option<&Value> {
        self.0.first()?.pointer(pointer)
    }

    /// Returns the median of the numbers at a JSON pointer.
    pub fn median(&self, pointer: &str) -> Result<f64> {
        let number = |result: &Value| {
            let number = result.pointer(pointer).and_then(Value::as_f64);
            number.with_context(|| format!("`{pointer}` is missing in {result}"))
        };
        let mut numbers: Vec<f64> = self.0.iter().map(number).collect::<Result<_>>()?;
        ensure!(!numbers.is_empty(), "nothing was measured");
        numbers.sort_by(f64::total_cmp);
        let middle = numbers.len() / 2;
        Ok(if numbers.len() % 2 == 1 {
            numbers[middle]
        } else {
            (numbers[middle - 1] + numbers[middle]) / 2.0
        })
    }
}

/// Measures the subjects in turn, `repetitions` times, so that disturbances of the machine affect
/// all of them. The values at the JSON pointers `equal` must agree in all runs of all subjects.
pub fn alternate(
    project: &Project,
    what: &str,
    subjects: &[Subject],
    repetitions: usize,
    equal: &[&str],
) -> Result<Vec<Results>> {
    let mut results: Vec<Results> = subjects.iter().map(|_| Results(Vec::new())).collect();
    let names: Vec<&str> = subjects.iter().map(|subject| subject.name.as_str()).collect();
    project.part(&format!("{what}: {}", names.join(", ")), || {
        for _ in 0..repetitions {
            for (subject, results) in subjects.iter().zip(&mut results) {
                results.0.push(subject.once()?);
            }
        }
        for pointer in equal {
            let mut values =
                results.iter().flat_map(|results| &results.0).map(|result| result.pointer(pointer));
            let first = values.next().flatten().with_context(|| format!("`{pointer}` is missing"))?;
            if let Some(other) = values.find(|&value| value != Some(first)) {
                bail!("{what}: `{pointer}` is {first} in one run and {other:?} in another");
            }
        }
        Ok(())
    })?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn medians() {
        let results = |numbers: &[f64]| Results(numbers.iter().map(|x| json!({"a": [x]})).collect());
        assert_eq!(results(&[5.0, 1.0, 2.0]).median("/a/0").ok(), Some(2.0));
        assert_eq!(results(&[5.0, 1.0]).median("/a/0").ok(), Some(3.0));
        assert!(results(&[5.0]).median("/a/1").is_err());
    }
}
