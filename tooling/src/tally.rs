//! Counts of checks, made by this program and by the programs it runs.

use anyhow::{Context, Result, bail};
use std::fmt::{Display, Formatter};

/// The numbers of checks of a step that passed, failed, or were skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Skipped: one for each program, package or comparison that is not available on this machine.
    pub skipped: usize,
}

impl Tally {
    /// Returns a tally of `passed` passed checks.
    pub fn passed(passed: usize) -> Result<Tally> {
        Ok(Tally { passed, ..Tally::default() })
    }

    /// Returns a tally of one skipped check, and prints the reason.
    pub fn skipped(reason: impl Display) -> Result<Tally> {
        say!("      skipped: {reason}");
        Ok(Tally { skipped: 1, ..Tally::default() })
    }

    /// Reports that the comparison with CNTK is impossible here: as a skipped check on a
    /// developer's machine, as an error in continuous integration, where skipped checks go
    /// unnoticed.
    pub fn without_cntk(reason: impl Display) -> Result<Tally> {
        Tally::without_cntk_in(&std::env::var("CI").unwrap_or_default(), reason)
    }

    /// [`Tally::without_cntk`] with this value of the environment variable `CI`.
    fn without_cntk_in(ci: &str, reason: impl Display) -> Result<Tally> {
        match ci {
            "" | "0" | "false" => Tally::skipped(reason),
            _ => bail!("CI={ci}, and the comparison with CNTK was skipped: {reason}"),
        }
    }

    /// Adds two tallies.
    pub fn and(self, other: Tally) -> Tally {
        Tally {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl Display for Tally {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Tally { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Parses the display form of [`Tally`].
impl std::str::FromStr for Tally {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Tally> {
        let count = |part: &str, name| part.strip_suffix(name)?.strip_suffix(' ')?.parse().ok();
        let counts = || match text.split(", ").collect::<Vec<_>>()[..] {
            [passed, failed, skipped] => Some(Tally {
                passed: count(passed, "passed")?,
                failed: count(failed, "failed")?,
                skipped: count(skipped, "skipped")?,
            }),
            _ => None,
        };
        counts().with_context(|| format!("not a number of checks: {text}"))
    }
}

/// Sums up the lines that libtest prints at the end of each test program: `test result: ok. 12
/// passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
pub fn libtest(output: &str) -> Tally {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ")?.split_once(". "));
    let count = |counts: &str, what: &str| {
        let mut counts = counts.split("; ").filter_map(|count| count.split_once(' '));
        counts.find(|(_, name)| *name == what).and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
    };
    results.fold(Tally::default(), |sum, (_, counts)| {
        let [passed, failed, skipped] = ["passed", "failed", "ignored"].map(|what| count(counts, what));
        sum.and(Tally { passed, failed, skipped })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_cntk_is_an_error_in_ci() {
        for ci in ["", "0", "false"] {
            let tally = Tally::without_cntk_in(ci, "no Python").expect("skipped");
            assert_eq!(tally.to_string(), "0 passed, 0 failed, 1 skipped", "CI={ci}");
        }
        assert!(Tally::without_cntk_in("true", "no Python").is_err());
    }

    #[test]
    fn displayed_tally_parses_back() {
        let tally = Tally { passed: 15, failed: 2, skipped: 1 };
        assert_eq!(tally.to_string().parse::<Tally>().expect("a result"), tally);
        for text in ["", "15 passed", "15 passed, 2 failed, x skipped", "1 failed, 2 passed, 3 skipped"] {
            assert!(text.parse::<Tally>().is_err(), "{text}");
        }
    }

    #[test]
    fn libtest_counts_ignored_tests_too() {
        let output = "running 2 tests\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
                      finished in 0.01s\n\ntest result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\n";
        assert_eq!(libtest(output), Tally { passed: 15, failed: 2, skipped: 1 });
    }
}
