//! `cargo xtask coverage`: the lines and branches of the library that its Rust tests execute, by
//! cargo-llvm-cov.
//!
//! Tests and models do not count. The C functions are executed by tests in C++ and Python as well,
//! which are not measured here.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use tooling::project::Project;

/// Names of files and folders that hold tests.
const TESTS: [&str; 4] = ["tests", "naive", "schedules", "testing"];

/// The part of a coverage report that is counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Coverage {
    lines: usize,
    executed_lines: usize,
    branches: usize,
    executed_branches: usize,
}

impl Coverage {
    fn add(&mut self, other: Coverage) {
        self.lines += other.lines;
        self.executed_lines += other.executed_lines;
        self.branches += other.branches;
        self.executed_branches += other.executed_branches;
    }

    fn row(self, name: &str) -> String {
        let share = |part: usize, all: usize| format!("{:.1} %", 100.0 * part as f64 / all.max(1) as f64);
        let Coverage { lines, executed_lines, branches, executed_branches } = self;
        let (of_lines, of_branches) = (share(executed_lines, lines), share(executed_branches, branches));
        format!("| {name} | {lines} | {of_lines} | {branches} | {of_branches} |")
    }
}

/// Runs the tests of the library and the tool, and prints a row for each crate.
pub fn command(project: &Project) -> Result<()> {
    if project.cargo("llvm-cov").arg("--version").silent().go().is_err() {
        bail!(
            "cargo-llvm-cov is missing: cargo install --locked cargo-llvm-cov. It needs llvm-cov and llvm-profdata of \
             the compiler's version of LLVM, in $LLVM_COV and $LLVM_PROFDATA."
        );
    }
    let packages: Vec<&str> = crate::packages::library().chain(["--package", "cntk-reader-cli"]).collect();
    let report = project.target.join("coverage.lcov");
    let run = project.cargo("llvm-cov").args(["--branch", "--lib", "--bins", "--tests"]).args(packages);
    let run = run.args(["--lcov", "--output-path"]).arg(&report);
    // Counting branches is unstable in the compiler. It must not change the toolchain by itself.
    let run = run.env("RUSTC_BOOTSTRAP", "1").env("CARGO_LLVM_COV_SETUP", "no");
    project.part("tests of the library and the tool", || run.go())?;
    let text = std::fs::read_to_string(&report).with_context(|| format!("reading {}", report.display()))?;
    say!("| crate | lines | executed | branches | executed |");
    say!("| --- | ---: | ---: | ---: | ---: |");
    let mut all = Coverage::default();
    for (name, coverage) in by_crate(&text, &project.root) {
        say!("{}", coverage.row(&name));
        all.add(coverage);
    }
    say!("{}", all.row("all"));
    Ok(())
}

/// Sums up an lcov report by crate.
fn by_crate(report: &str, root: &Path) -> BTreeMap<String, Coverage> {
    let mut crates: BTreeMap<String, Coverage> = BTreeMap::new();
    for record in report.split("end_of_record") {
        let Some(path) = record.lines().find_map(|line| line.strip_prefix("SF:")) else { continue };
        let Ok(path) = Path::new(path).strip_prefix(root) else { continue };
        let Some(name) = crate_of(path) else { continue };
        let source = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        crates.entry(name).or_default().add(of_file(record, code_lines(&source)));
    }
    crates
}

/// The crate of a source file; `None` for files of tests.
fn crate_of(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let stem = |part: &str| part.trim_end_matches(".rs").to_owned();
    let is_test = |part: &&str| {
        let stem = stem(part);
        TESTS.contains(&&*stem) || stem.starts_with("test_") || stem.ends_with("_tests")
    };
    if parts.iter().any(is_test) {
        return None;
    }
    match *parts {
        ["crates", name, ..] => Some(format!("crates/{name}")),
        [name, ..] => Some(name.to_owned()),
        [] => None,
    }
}

/// The number of lines before the tests at a file's end.
fn code_lines(source: &str) -> usize {
    let lines: Vec<&str> = source.lines().collect();
    let is_begin = |pair: &[&str]| pair[0].trim() == "#[cfg(test)]" && pair[1].trim().ends_with('{');
    lines.windows(2).position(is_begin).unwrap_or(lines.len())
}

/// Counts what a record of lcov says of the first `limit` lines.
fn of_file(record: &str, limit: usize) -> Coverage {
    let mut lines: BTreeMap<usize, bool> = BTreeMap::new();
    let mut coverage = Coverage::default();
    for entry in record.lines() {
        let (kind, fields) = entry.split_once(':').unwrap_or_default();
        let mut fields = fields.split(',');
        let line = fields.next().and_then(|number| number.parse::<usize>().ok());
        let Some(line) = line.filter(|line| *line <= limit) else { continue };
        match kind {
            // Generic functions have a line once for each instance.
            "DA" => *lines.entry(line).or_default() |= fields.next().is_some_and(|count| count != "0"),
            "BRDA" => {
                coverage.branches += 1;
                let count = fields.nth(2).unwrap_or("-");
                coverage.executed_branches += usize::from(!["-", "0"].contains(&count));
            }
            _ => {}
        }
    }
    coverage.lines = lines.len();
    coverage.executed_lines = lines.values().filter(|is_executed| **is_executed).count();
    coverage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_do_not_count() {
        let crates = ["crates/core/src/limits.rs", "src/lib.rs", "crates/text/src/ctf/tests/a.rs"];
        let crates = crates.map(|path| crate_of(Path::new(path)));
        assert_eq!(crates, [Some("crates/core".to_owned()), Some("src".to_owned()), None]);
        assert_eq!(crate_of(Path::new("crates/core/src/file/fault_tests.rs")), None);
        assert_eq!(code_lines("a\nb\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(code_lines("#[cfg(test)]\nuse a;\nb\n"), 3);
    }

    #[test]
    fn lines_and_branches_are_counted_up_to_the_tests() {
        let record = "SF:a.rs\nDA:1,0\nDA:1,4\nDA:2,0\nDA:9,7\nBRDA:1,0,0,3\nBRDA:1,0,1,-\nBRDA:9,0,0,1\n";
        let expected = Coverage { lines: 2, executed_lines: 1, branches: 2, executed_branches: 1 };
        assert_eq!(of_file(record, 5), expected);
        assert_eq!(expected.row("a"), "| a | 2 | 50.0 % | 2 | 50.0 % |");
    }
}
