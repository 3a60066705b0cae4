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

/// No run of CNTK gives what this library gives, nor what another run gave. One output alone does not tell.
pub static RACE: Rule = Rule {
    name: "race",
    what: "CNTK reads a file on two threads through one handle; what it gives changes from run to run",
    applies: |_| false,
};

/// The first line that differs.
struct Difference<'a> {
    case: &'a Case,
    version: &'a str,
    line: usize,
    ours: &'a Output,
    cntk: &'a Output,
}

impl Difference<'_> {
    /// The steps before the one that differs, with CNTK's results.
    fn before(&self) -> impl Iterator<Item = (&str, &str)> {
        let steps = self.case.steps.iter().zip(self.cntk.lines.iter().skip(1));
        steps.take(self.line.saturating_sub(1)).map(|(step, line)| (step.as_str(), line.as_str()))
    }

    fn is_randomized(&self) -> bool {
        self.case.config.lines().any(|line| line.trim() == "randomize = true")
    }
}

const RULES: [Rule; 9] = [
    Rule {
        name: "right splice",
        what: "CNTK 2.5.1 does not know it",
        applies: |difference| {
            difference.version == "2.5.1"
                && difference.case.config.lines().any(|l| l.trim().starts_with("rightSplice"))
        },
    },
    Rule {
        name: "crash",
        what: "CNTK crashes or hangs; everything before is the same",
        applies: |difference| {
            // Data without any sample are refused at once here, and open in CNTK.
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            let ahead = usize::from(refused && difference.line == 0);
            difference.line + ahead >= difference.cntk.lines.len()
                && matches!(difference.cntk.end, End::Crashed(_) | End::Hung)
        },
    },
    Rule {
        name: "lost chunks",
        what: "unrandomized, CNTK reads the wrong chunks where other deserializers have nothing of a whole chunk",
        applies: |difference| difference.case.name.ends_with("bundle-missing") && !difference.is_randomized(),
    },
    Rule {
        name: "after a failure",
        what: "how CNTK goes on after a minibatch that failed depends on its five attempts at each chunk",
        applies: |difference| difference.before().any(|(step, line)| step == "read" && is_error(line)),
    },
    Rule {
        name: "after a refusal",
        what: "a start or a change of sizes that CNTK refuses is applied by half",
        applies: |difference| {
            let changes = |step: &str| step.starts_with("start ") || step.starts_with("config ");
            difference.before().any(|(step, line)| changes(step) && is_error(line))
        },
    },
    Rule {
        name: "seed",
        what: "going back within a sweep, CNTK forgets a randomizationSeed other than 0",
        applies: |difference| {
            let seeded = difference.case.config.lines().any(|line| {
                line.trim().strip_prefix("randomizationSeed = ").is_some_and(|seed| seed.trim() != "0")
            });
            seeded && difference.is_randomized() && difference.before().skip(1).any(|(step, _)| moves(step))
        },
    },
    Rule {
        name: "passed chunks",
        what: "after going elsewhere, CNTK loads chunks that it only passes, whose errors count or fail",
        applies: |difference| {
            let moved = difference.before().collect::<Vec<_>>().into_iter().rev().map(|(step, _)| step);
            let moved = moved.take_while(|&step| step != "read").any(moves);
            let failed = difference.cntk.lines.get(difference.line).is_some_and(|line| is_error(line));
            let crossed = difference.ours.lines.get(difference.line);
            let crossed = crossed.is_some_and(|line| line.contains("\"end_of_sweep\":true"));
            let tolerates = |line: &str| line.contains("maxErrors = ") && !line.contains("maxErrors = 0");
            let counted = difference.case.config.lines().any(tolerates);
            difference.is_randomized() && moved && failed && (crossed || counted)
        },
    },
    Rule {
        name: "gaps",
        what: "where only sequences without samples are left, CNTK gives truncated minibatches of gaps for ever",
        applies: |difference| {
            let line = |output: &Output| output.lines.get(difference.line).cloned().unwrap_or_default();
            let (ours, cntk) = (line(difference.ours), line(difference.cntk));
            let truncated = difference.case.config.lines().any(|line| line.trim() == "truncated = true");
            truncated && cntk.contains("\"keys\":[]") && ours.contains("\"logic_error\"")
        },
    },
    Rule {
        name: "endless",
        what: "CNTK gives a worker without chunks empty minibatches for ever, where its epoch ends here",
        applies: |difference| {
            let empty = |output: &Output, ends: bool| {
                let end = format!("\"end_of_epoch\":{ends},\"streams\":[]");
                output.lines.get(difference.line).is_some_and(|line| line.contains(&end))
            };
            let changed = difference.before().any(|(step, _)| step.starts_with("config "));
            changed
                && difference.is_randomized()
                && empty(difference.ours, true)
                && empty(difference.cntk, false)
        },
    },
];

fn is_error(line: &str) -> bool {
    line.contains("\"error\"")
}

/// Whether a step may lead to another place in the data.
fn moves(step: &str) -> bool {
    step != "read" && step != "state"
}

/// Compares with what a version of CNTK gave.
pub fn compare(case: &Case, version: &str, ours: &Output, cntk: &Output) -> Verdict {
    let lines = ours.lines.len().max(cntk.lines.len());
    let different = (0..lines).find(|&line| ours.lines.get(line) != cntk.lines.get(line));
    let line = match different {
        Some(line) => line,
        // A crash of ours is never right.
        None if ours.end == cntk.end && !matches!(ours.end, End::Crashed(_) | End::Hung) => {
            return Verdict::Same;
        }
        None => lines,
    };
    let show = |output: &Output| {
        output.lines.get(line).cloned().unwrap_or_else(|| format!("no such line ({:?})", output.end))
    };
    let difference = Difference { case, version, line, ours, cntk };
    let known = (ours.end == End::Done && !cntk.lines.is_empty())
        .then(|| RULES.iter().find(|rule| (rule.applies)(&difference)))
        .flatten();
    known.map_or_else(|| Verdict::Different(line, show(ours), show(cntk)), Verdict::Known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn verdict(config: &str, steps: &[&str], ours: &[&str], cntk: &[&str], end: End) -> String {
        verdict_of(config, steps, (ours, End::Done), (cntk, end))
    }

    fn verdict_of(config: &str, steps: &[&str], ours: (&[&str], End), cntk: (&[&str], End)) -> String {
        let case = Case {
            name: String::new(),
            create: Value::Null,
            steps: steps.iter().map(|&step| step.to_owned()).collect(),
            results: Vec::new(),
            config: config.to_owned(),
            files: Vec::new(),
            rewritten: None,
        };
        let output = |(lines, end): (&[&str], End)| Output {
            lines: lines.iter().map(|&l| l.to_owned()).collect(),
            end,
        };
        match compare(&case, "2.7", &output(ours), &output(cntk)) {
            Verdict::Same => "same".to_owned(),
            Verdict::Known(rule) => rule.name.to_owned(),
            Verdict::Different(line, ..) => line.to_string(),
        }
    }

    #[test]
    fn every_byte_counts() {
        let steps = ["start ", "read"];
        assert_eq!(verdict("", &steps, &["c", "s", "1"], &["c", "s", "1"], End::Done), "same");
        assert_eq!(verdict("", &steps, &["c", "s", "1"], &["c", "s", "1.0"], End::Done), "2");
        assert_eq!(verdict("", &steps, &["c", "s"], &["c", "s", "1"], End::Done), "2");
    }

    #[test]
    fn known_differences_are_those_of_cntk_only() {
        let steps = ["start ", "read", "restore ", "read"];
        let all = ["c", "s", "1", "r", "2"];
        assert_eq!(verdict("", &steps, &all, &all[..3], End::Crashed(11)), "crash");
        assert_eq!(verdict("", &steps, &all, &["c", "s", "0"], End::Crashed(11)), "2");
        let both = (&all[..3], End::Crashed(11));
        assert_eq!(verdict_of("", &steps, both, both), "3", "a crash of ours is never right");
        let seeded = "randomize = true\nrandomizationSeed = 5";
        assert_eq!(verdict(seeded, &steps, &all, &["c", "s", "1", "r", "0"], End::Done), "seed");
        assert_eq!(verdict(seeded, &steps, &all, &["c", "s", "0", "r", "2"], End::Done), "2");
        assert_eq!(verdict("", &steps, &all, &["c", "s", "1", "r", "0"], End::Done), "4");
        let failed = ["c", "s", "{\"error\":\"runtime_error\"}", "r", "2"];
        let ours = [&failed[..3], &["r", "0"]].concat();
        assert_eq!(verdict("", &steps, &ours, &failed, End::Done), "after a failure");
        assert_eq!(verdict("", &steps, &all, &failed, End::Done), "2");
    }

    #[test]
    fn what_cntk_accepts_or_counts_before_it_fails_is_known() {
        let error = "{\"error\":\"logic_error\"}";
        // It opens what is refused here, and crashes with the next step; not later.
        let steps = ["start ", "read"];
        assert_eq!(verdict("", &steps, &[error], &["c"], End::Crashed(8)), "crash");
        assert_eq!(verdict("", &steps, &[error], &["c"], End::Done), "0");
        assert_eq!(verdict("", &steps, &[error], &["c", "s"], End::Crashed(8)), "0");
        // It goes elsewhere, and counts the errors of a chunk that it passes.
        let (steps, ours, cntk) = (["start ", "read"], ["c", "s", "1"], ["c", "s", error]);
        let config = |errors: &str| format!("randomize = true\n[ file = \"x\" ; maxErrors = {errors} ; ]");
        assert_eq!(verdict(&config("3"), &steps, &ours, &cntk, End::Done), "passed chunks");
        assert_eq!(verdict(&config("0"), &steps, &ours, &cntk, End::Done), "2");
        // It gives gaps where there are only empty sequences.
        let (ours, cntk) = (["c", "s", error], ["c", "s", "{\"keys\":[]}"]);
        assert_eq!(verdict("truncated = true", &steps, &ours, &cntk, End::Done), "gaps");
        assert_eq!(verdict("truncated = false", &steps, &ours, &cntk, End::Done), "2");
    }
}
