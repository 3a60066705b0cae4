//! Checks `docs/differences.md`: every way in which CNTK 2.7 crashes, hangs or delivers wrong
//! results names the tests of what this reader does instead, and the named tests exist.

use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fmt::{Display, Formatter};
use tooling::project::Project;

const PAGE: &str = "docs/differences.md";

/// Kinds of failures of CNTK 2.7: the word at the start of the column "why", and the plural in the
/// summary. Rows with other reasons (waiting, missing messages) may name tests, too.
const KINDS: [(&str, &str); 5] = [
    ("crash", "crashes"),
    ("hang", "hangs"),
    ("garbage", "kinds of garbage"),
    ("wrong data", "kinds of wrong data"),
    ("data are lost", "losses of data"),
];

/// Numbers of rows of the page that have tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestedRows {
    /// By kind of failure.
    by_kind: [usize; KINDS.len()],
    /// Rows with other reasons that name a test.
    others: usize,
    /// Oddities of CNTK that this reader reproduces.
    oddities: usize,
}

impl TestedRows {
    /// The number of ways in which CNTK crashes, hangs, or delivers wrong results.
    pub fn kills(&self) -> usize {
        self.by_kind.iter().sum()
    }
}

impl Display for TestedRows {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let kinds = KINDS.iter().zip(self.by_kind).map(|((_, name), count)| format!("{count} {name}"));
        let kinds = kinds.collect::<Vec<_>>().join(", ");
        let TestedRows { others, oddities, .. } = self;
        write!(
            f,
            "{} ways in which CNTK 2.7 fails, each with a test ({kinds}); with tests too: {others} other differences, {oddities} \
             oddities that are kept",
            self.kills()
        )
    }
}

/// Fails if a row lacks tests, or names a test that does not exist.
pub fn check(project: &Project) -> Result<TestedRows> {
    let mut tests = Tests::default();
    for file in project.files()? {
        if [".rs", ".py", ".cpp"].iter().any(|end| file.ends_with(end)) {
            tests.add(&file, &std::fs::read_to_string(project.path(&file))?);
        }
    }
    let page = std::fs::read_to_string(project.path(PAGE))?;
    check_page(&page, &tests)
}

fn check_page(page: &str, tests: &Tests) -> Result<TestedRows> {
    let (mut kept, mut faults) = (TestedRows::default(), Vec::new());
    // In a table, whether it has a column "why".
    let mut table: Option<bool> = None;
    for (number, line) in (1..).zip(page.lines()) {
        let Some(cells) = cells(line) else {
            table = None;
            continue;
        };
        match (table, cells.as_slice()) {
            (None, ["where", "CNTK 2.7", "this reader", "why", "test"]) => table = Some(true),
            (None, ["oddity", "test"]) => table = Some(false),
            (None, _) => faults.push(format!("{number}: a table without the usual columns")),
            (Some(_), [first, ..]) if first.starts_with("---") => {}
            (Some(true), [_, _, _, why, named]) => match row(why, named, tests, &mut kept) {
                Ok(()) => {}
                Err(error) => faults.push(format!("{number}: {error:#}")),
            },
            (Some(false), [_, named]) => match tests.all_exist(named) {
                Ok(0) => faults.push(format!("{number}: no test of this oddity")),
                Ok(_) => kept.oddities += 1,
                Err(error) => faults.push(format!("{number}: {error:#}")),
            },
            (Some(_), _) => faults.push(format!("{number}: {} columns", cells.len())),
        }
    }
    ensure!(faults.is_empty(), "{PAGE}:\n{}", faults.join("\n"));
    ensure!(kept.kills() > 0, "{PAGE} has no tables");
    Ok(kept)
}

/// Splits a table row into its cells.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix("| ")?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

fn row(why: &str, named: &str, tests: &Tests, kept: &mut TestedRows) -> Result<()> {
    let count = tests.all_exist(named)?;
    match KINDS.iter().position(|(kind, _)| why.starts_with(kind)) {
        Some(kind) => {
            ensure!(count > 0, "'{why}' without a test");
            kept.by_kind[kind] += 1;
        }
        None => kept.others += usize::from(count > 0),
    }
    Ok(())
}

/// The tests of the repository: for each name, the files with such a test.
#[derive(Default)]
struct Tests(HashMap<String, Vec<String>>);

impl Tests {
    fn add(&mut self, file: &str, text: &str) {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            is_test |= line == "#[test]";
            let name = match file.rsplit_once('.') {
                Some((_, "rs")) => {
                    let name = line.strip_prefix("fn ").and_then(|rest| rest.split_once('('));
                    name.filter(|_| std::mem::take(&mut is_test)).map(|(name, _)| name.to_owned())
                }
                Some((_, "py")) => {
                    let name = line.strip_prefix("def ").and_then(|rest| rest.split_once('('));
                    name.filter(|(name, _)| name.starts_with("test")).map(|(name, _)| name.to_owned())
                }
                _ => {
                    let names = ["TEST(", "TEST_F("].iter().find_map(|macro_| line.strip_prefix(macro_));
                    names.and_then(|rest| rest.split_once(')')).map(|(names, _)| names.replace(", ", "."))
                }
            };
            if let Some(name) = name {
                self.0.entry(name).or_default().push(file.to_owned());
            }
        }
    }

    /// Checks that each test in a cell exists. Returns their number.
    fn all_exist(&self, cell: &str) -> Result<usize> {
        let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        for name in &names {
            self.find(name)?;
        }
        Ok(names.len())
    }

    /// Fails unless there is exactly one test of this name. The end of its file's path may precede
    /// the name: `block/tests::ends`.
    fn find(&self, name: &str) -> Result<()> {
        let (place, function) = name.rsplit_once("::").unwrap_or(("", name));
        let files = self.0.get(function).with_context(|| format!("there is no test '{function}'"))?;
        let is_meant = |file: &&String| {
            let path = file.rsplit_once('.').map_or(file.as_str(), |(path, _)| path);
            place.is_empty() || path == place || path.ends_with(&format!("/{place}"))
        };
        let meant: Vec<_> = files.iter().filter(is_meant).collect();
        ensure!(!meant.is_empty(), "the test '{function}' is in {}", files.join(", "));
        ensure!(meant.len() == 1, "there are {} tests '{name}': {meant:?}", meant.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests() -> Tests {
        let mut tests = Tests::default();
        tests.add("src/a/tests.rs", "#[test]\nfn ends() {}\nfn helper() {}\n    #[test]\n    fn inner(\n");
        tests.add("src/b/tests.rs", "#[test]\n#[ignore]\nfn ends() {\n");
        tests.add("python/tests/test_user.py", "    def test_fork(self):\n    def other(self):\n");
        tests.add("cpp_tests/fork_test.cpp", "TEST_F(ForkTest, Refuses) {\nTEST(A, B) {\n");
        tests
    }

    #[test]
    fn tests_are_found_by_name_and_place() {
        let tests = tests();
        for name in ["inner", "a/tests::ends", "src/b/tests::ends", "test_fork", "ForkTest.Refuses", "A.B"] {
            tests.find(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        for name in ["ends", "tests::ends", "helper", "other", "c/tests::ends", "b/tests::inner", "B"] {
            assert!(tests.find(name).is_err(), "{name}");
        }
    }

    #[test]
    fn rows_need_tests_by_their_kind() {
        let page = |row: &str| {
            let head = "| where | CNTK 2.7 | this reader | why | test |\n| --- | --- | --- | --- | --- |\n";
            format!(
                "{head}| a | b | c | crash | `inner` |\n{row}\n\n| oddity | test |\n| --- | --- |\n| x | `A.B` |\n"
            )
        };
        let good = check_page(&page("| a | b | c | rare | |"), &tests()).expect("a page");
        assert_eq!(good, TestedRows { by_kind: [1, 0, 0, 0, 0], others: 0, oddities: 1 });
        let good = check_page(&page("| a | b | c | data are lost, often | `inner`, `A.B` |"), &tests());
        assert_eq!(good.expect("a page").by_kind, [1, 0, 0, 0, 1]);
        for row in [
            "| a | b | c | hang | |",
            "| a | b | c | hang | inner |",
            "| a | b | c | rare | `nothing` |",
            "| a | b | c | rare |",
            "| a | b | c | garbage | `ends` |",
        ] {
            assert!(check_page(&page(row), &tests()).is_err(), "{row}");
        }
        assert!(check_page("text\n", &tests()).is_err());
    }
}
