//! Compares the lines of both drivers, and knows the differences that are meant to be.
//!
//! Both drivers write with the same code, so equal results are equal lines, to the byte, numbers included.

use super::drive::{End, Output};
use crate::golden::Case;

/// How a comparison came out.
pub enum Verdict {
    /// All lines are the same.
    Same,
    /// The first difference is one of the known ones.
    Known(&'static Rule),
    /// They differ: the line's number (0 is the creation), and both lines.
    Different(usize, String, String),
}

/// A difference that docs/differences.md accounts for.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What CNTK does there.
    pub what: &'static str,
    applies: fn(&Difference) -> bool,
}

/// The first line that differs.
struct Difference<'a> {
    case: &'a Case,
    line: usize,
    cntk: &'a Output,
}

impl Difference<'_> {
    /// The steps before the one that differs, with CNTK's results.
    fn before(&self) -> impl Iterator<Item = (&str, &str)> {
        let steps = self.case.steps.iter().zip(&self.cntk.lines[1..]);
        steps.take(self.line.saturating_sub(1)).map(|(step, line)| (step.as_str(), line.as_str()))
    }

    fn config_has(&self, entry: &str) -> bool {
        self.case.config.lines().any(|line| line.trim() == entry)
    }
}

const RULES: [Rule; 3] = [
    Rule {
        name: "crash",
        what: "CNTK crashes or hangs; everything before is the same",
        applies: |difference| {
            difference.line >= difference.cntk.lines.len()
                && matches!(difference.cntk.end, End::Crashed(_) | End::Hung)
        },
    },
    Rule {
        name: "after a failure",
        what: "how CNTK goes on after a minibatch that failed depends on its five attempts at each chunk",
        applies: |difference| {
            difference.before().any(|(step, line)| step == "read" && line.contains("\"error\""))
        },
    },
    Rule {
        name: "seed",
        what: "going back within a sweep, CNTK forgets a randomizationSeed other than 0",
        applies: |difference| {
            let seeded = difference.case.config.lines().any(|line| {
                line.trim().strip_prefix("randomizationSeed = ").is_some_and(|seed| seed.trim() != "0")
            });
            let moved = difference.case.steps.iter().take(difference.line).skip(1);
            seeded
                && difference.config_has("randomize = true")
                && moved.into_iter().any(|step| step != "read" && step != "state")
        },
    },
];

/// Compares.
pub fn compare(case: &Case, ours: &Output, cntk: &Output) -> Verdict {
    let lines = ours.lines.len().max(cntk.lines.len());
    let different = (0..lines).find(|&line| ours.lines.get(line) != cntk.lines.get(line));
    let line = match different {
        Some(line) => line,
        None if ours.end == cntk.end => return Verdict::Same,
        None => lines,
    };
    let show = |output: &Output| {
        output.lines.get(line).cloned().unwrap_or_else(|| format!("no such line ({:?})", output.end))
    };
    let difference = Difference { case, line, cntk };
    let known = (ours.end == End::Done && !cntk.lines.is_empty())
        .then(|| RULES.iter().find(|rule| (rule.applies)(&difference)))
        .flatten();
    known.map_or_else(|| Verdict::Different(line, show(ours), show(cntk)), Verdict::Known)
}
