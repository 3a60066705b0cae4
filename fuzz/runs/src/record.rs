//! Figures of runs: stored for each run, and summed up in `fuzz/record.md`.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Write as _};
use std::io::Write as _;
use std::path::PathBuf;
use tooling::machine;
use tooling::project::Project;

/// The document.
const RECORD: &str = "fuzz/record.md";

/// Figures of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figures {
    inputs: u64,
    /// Edges of the control-flow graph that inputs have reached.
    edges: u64,
    /// Features: an edge together with a range of execution counts.
    features: u64,
    /// CPU time in seconds.
    seconds: f64,
}

impl Figures {
    /// Parses the figures in libFuzzer's output.
    pub fn of(output: &str, seconds: f64) -> Figures {
        let number = |line: &str, label: &str| -> Option<u64> {
            line.split_once(label)?.1.split_whitespace().next()?.parse().ok()
        };
        let last = |label: &str| output.lines().rev().find_map(|line| number(line, label)).unwrap_or(0);
        let inputs = last("stat::number_of_executed_units:");
        Figures { inputs, edges: last(" cov: "), features: last(" ft: "), seconds }
    }

    /// Combines the figures with those of later runs. Coverage comes from the later ones, because
    /// it depends on the program.
    fn and(self, later: Figures) -> Figures {
        Figures {
            inputs: self.inputs + later.inputs,
            edges: later.edges,
            features: later.features,
            seconds: self.seconds + later.seconds,
        }
    }
}

impl Display for Figures {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Figures { inputs, edges, features, seconds } = self;
        write!(f, "{inputs} inputs, {features} features, {edges} edges, {seconds:.1} s")
    }
}

fn runs(project: &Project) -> PathBuf {
    project.target.join("fuzz/runs.txt")
}

/// Stores a run for the next record.
pub fn keep(project: &Project, target: &str, figures: &Figures) -> Result<()> {
    let Figures { inputs, edges, features, seconds } = figures;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(runs(project))?;
    Ok(writeln!(file, "{target} {inputs} {edges} {features} {seconds} {}", machine::date(project)?)?)
}

/// Adds the runs since the last record to it.
pub fn write(project: &Project) -> Result<()> {
    let path = runs(project);
    let lines = std::fs::read_to_string(&path).context("There are no runs since the last record.")?;
    let record = std::fs::read_to_string(project.path(RECORD)).unwrap_or_default();
    let mut sums: BTreeMap<&str, (Figures, &str)> = BTreeMap::new();
    for row in rows(&record) {
        let (target, figures, date) = parse_row(row).with_context(|| format!("{RECORD}: {row}"))?;
        sums.insert(target, (figures, date));
    }
    for line in lines.lines() {
        let (target, figures, date) = parse(line).with_context(|| format!("{}: {line}", path.display()))?;
        let sum = sums.entry(target).or_default();
        *sum = (sum.0.and(figures), date);
    }
    let mut text = "# Record\n\nResults of `cargo xtask fuzz`: inputs tried and CPU seconds in all runs so far, and the coverage of\n\
                    these inputs together with the corpus. An edge leads from one basic block of the program to another;\n\
                    a feature is an edge with a range of execution counts. `cargo xtask fuzz --record` adds the runs\n\
                    since the last date to this page.\n\n\
                    | target | inputs | features | edges | seconds | date |\n| --- | ---: | ---: | ---: | ---: | --- |\n"
        .to_owned();
    for (target, (figures, date)) in &sums {
        let Figures { inputs, edges, features, seconds } = figures;
        writeln!(text, "| `{target}` | {inputs} | {features} | {edges} | {seconds:.0} | {date} |")?;
    }
    std::fs::write(project.path(RECORD), &text)?;
    std::fs::remove_file(&path)?;
    say!("{RECORD}: {} targets", sums.len());
    Ok(())
}

/// Returns the rows of the record.
fn rows(record: &str) -> impl Iterator<Item = &str> {
    record.lines().filter(|line| line.starts_with("| `"))
}

fn parse_row(row: &str) -> Option<(&str, Figures, &str)> {
    let mut cells = row.split('|').skip(1).map(str::trim);
    let target = cells.next()?.trim_matches('`');
    let mut number = || cells.next()?.parse().ok();
    let (inputs, features, edges) = (number()?, number()?, number()?);
    let seconds = cells.next()?.parse().ok()?;
    Some((target, Figures { inputs, edges, features, seconds }, cells.next()?))
}

fn parse(line: &str) -> Option<(&str, Figures, &str)> {
    let mut parts = line.split(' ');
    let target = parts.next()?;
    let mut number = || parts.next()?.parse().ok();
    let (inputs, edges, features) = (number()?, number()?, number()?);
    let seconds = parts.next()?.parse().ok()?;
    Some((target, Figures { inputs, edges, features, seconds }, parts.next()?))
}

/// Returns the sums of the record's columns.
pub fn figures(project: &Project) -> Result<String> {
    let text = std::fs::read_to_string(project.path(RECORD))
        .context("There is no record yet: cargo xtask fuzz --record")?;
    let (mut targets, mut sum) = (0, Figures::default());
    for row in rows(&text) {
        let (_, Figures { inputs, edges, seconds, .. }, _) =
            parse_row(row).with_context(|| format!("{RECORD}: {row}"))?;
        targets += 1;
        sum.inputs += inputs;
        sum.edges += edges;
        sum.seconds += seconds;
    }
    let Figures { inputs, edges, seconds, .. } = sum;
    Ok(format!(
        "{targets} targets, {inputs} inputs, {edges} edges of their programs, {:.1} hours of a processor",
        seconds / 3600.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_from_the_last_line() {
        let output = "#2\tINITED cov: 10 ft: 20 corp: 1/1b exec/s: 0 rss: 30Mb\n#90\tDONE   cov: 11 ft: 25 corp: 2/9b\n\
                      Done 90 runs in 1 second(s)\nstat::number_of_executed_units: 90\n";
        let figures = Figures::of(output, 1.5);
        assert_eq!(figures, Figures { inputs: 90, edges: 11, features: 25, seconds: 1.5 });
        assert_eq!(parse("text 90 11 25 1.5 2026-01-02"), Some(("text", figures, "2026-01-02")));
        assert_eq!(
            parse_row("| `text` | 90 | 25 | 11 | 1.5 | 2026-01-02 |"),
            Some(("text", figures, "2026-01-02"))
        );
        assert_eq!(figures.and(figures), Figures { inputs: 180, seconds: 3.0, ..figures });
    }
}
