//! Compares the output of Python under CNTK with CNTK's modules and with this project's.

use crate::drive::{End, Output};
use serde_json::Value;

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All lines are equal.
    Same,
    /// They differ as announced, for this reason.
    Known(String),
    /// They differ: the line of each side.
    Different(String, String),
}

/// A difference announced by a case. Everything that it does not allow must be equal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The reason for the difference.
    pub reason: String,
    /// The allowed difference.
    pub what: Allowed,
}

/// A difference that is allowed in a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// Only this member of the lines.
    Member(String),
    /// Everything from this line on, in which ours must contain this text. Earlier lines must be
    /// equal.
    From(usize, String),
    /// CNTK's process dies or hangs. Everything before that must be equal.
    Death,
}

/// Judges one case, given the difference that it announces.
///
/// - Values, states, exception classes and messages must be equal, byte for byte.
/// - An exception in the case's own code is a failure, even if both sides have it.
/// - Memory that must be bounded is checked in ours, whatever CNTK's is.
/// - If CNTK's process dies or hangs, the case must announce it, everything before must be equal,
///   and ours must reach its end. Only if one of CNTK's modules runs on both sides, ours
///   `may_crash`, too, at the same place.
pub fn judge(announced: Option<&Announced>, may_crash: bool, ours: &Output, cntk: &Output) -> Verdict {
    let lines = ours.lines.len().max(cntk.lines.len());
    let allowed = announced.map(|announced| &announced.what);
    let member = match allowed {
        Some(Allowed::Member(member)) => Some(member.as_str()),
        _ => None,
    };
    let same = |line: &usize, member: Option<&str>| match (ours.lines.get(*line), cntk.lines.get(*line)) {
        (Some(ours), Some(cntk)) => {
            ours == cntk || member.is_some_and(|member| are_same_without(member, ours, cntk))
        }
        _ => false,
    };
    let ours_has = |line: &usize, text: &str| ours.lines.get(*line).is_some_and(|line| line.contains(text));
    let is_bad = |line: &usize| ours_has(line, "\"bounded\": false") || ours_has(line, "\"step\": \"case\"");
    let first = |member| (0..lines).find(|line| !same(line, member) || is_bad(line)).unwrap_or(lines);
    let line = first(member);
    let show = |output: &Output| {
        output.lines.get(line).cloned().unwrap_or_else(|| format!("no such line ({:?})", output.end))
    };
    let known = |announced: &Announced| Verdict::Known(announced.reason.clone());
    if line == lines && ours.end == cntk.end {
        match (ours.end, announced) {
            (End::Done, Some(announced)) if member.is_some() && first(None) < lines => {
                return known(announced);
            }
            (End::Done, _) => return Verdict::Same,
            (end, _) if may_crash => return Verdict::Known(format!("both end the same ({end:?})")),
            _ => {}
        }
    }
    let is_allowed = ours.end == End::Done
        && !(0..lines).any(|line| is_bad(&line))
        && match allowed {
            Some(Allowed::From(from, text)) => line == *from && ours_has(&line, text),
            Some(Allowed::Death) => line >= cntk.lines.len() && cntk.end != End::Done,
            Some(Allowed::Member(_)) | None => false,
        };
    match announced {
        Some(announced) if is_allowed => known(announced),
        _ => Verdict::Different(show(ours), show(cntk)),
    }
}

/// Whether both lines are objects that are equal except for one member.
fn are_same_without(member: &str, ours: &str, cntk: &str) -> bool {
    let rest = |line| {
        let mut line: Value = serde_json::from_str(line).ok()?;
        line.as_object_mut()?.remove(member);
        Some(line)
    };
    rest(ours).is_some_and(|ours| rest(cntk).is_some_and(|cntk| ours == cntk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(announced: Option<&Announced>, ours: &Output, cntk: &Output) -> Verdict {
        judge(announced, false, ours, cntk)
    }

    fn announced(what: Allowed) -> Announced {
        Announced { reason: "why".to_owned(), what }
    }

    fn output(lines: &[&str], end: End) -> Output {
        Output { lines: lines.iter().map(|&line| line.to_owned()).collect(), end, messages: String::new() }
    }

    #[test]
    fn values_must_be_equal_bytes() {
        let one = output(&[r#"{"a": 1}"#], End::Done);
        assert_eq!(verdict(None, &one, &output(&[r#"{"a": 1}"#], End::Done)), Verdict::Same);
        let other = output(&[r#"{"a": 1.0}"#], End::Done);
        assert!(matches!(verdict(None, &one, &other), Verdict::Different(..)));
    }

    #[test]
    fn growing_memory_is_a_difference() {
        let grows = || output(&[r#"{"bounded": false, "step": "memory"}"#], End::Done);
        assert!(matches!(verdict(None, &grows(), &grows()), Verdict::Different(..)));
    }

    #[test]
    fn an_exception_in_the_case_itself_fails() {
        let broken = || output(&[r#"{"error": "KeyError", "step": "case"}"#], End::Done);
        for rule in [
            None,
            Some(announced(Allowed::From(0, String::new()))),
            Some(announced(Allowed::Member("error".to_owned()))),
        ] {
            assert!(
                matches!(verdict(rule.as_ref(), &broken(), &broken()), Verdict::Different(..)),
                "{rule:?}"
            );
        }
    }

    #[test]
    fn messages_must_be_equal() {
        let error = |class: &str, message: &str| {
            let line = format!(r#"{{"step": "read", "error": "{class}", "message": "{message}"}}"#);
            output(&[&line], End::Done)
        };
        let cntk = error("RuntimeError", "No file.");
        assert_eq!(verdict(None, &error("RuntimeError", "No file."), &cntk), Verdict::Same);
        for other in [error("ValueError", "No file."), error("RuntimeError", "No file. (file x)")] {
            assert!(matches!(verdict(None, &other, &cntk), Verdict::Different(..)));
        }
    }

    #[test]
    fn announced_death_excuses_nothing_before_it() {
        let ours = output(&["{1}", "{2}"], End::Done);
        let death = announced(Allowed::Death);
        let known = |cntk: &Output| matches!(verdict(Some(&death), &ours, cntk), Verdict::Known(_));
        assert!(known(&output(&["{1}"], End::Crashed(11))));
        assert!(known(&output(&["{1}"], End::Hung)));
        assert!(!known(&output(&["{3}"], End::Crashed(11))));
        assert!(!known(&output(&["{1}"], End::Done)));
        let crashed = output(&["{1}"], End::Crashed(6));
        let is_known = |verdict| matches!(verdict, Verdict::Known(_));
        assert!(!is_known(verdict(None, &ours, &crashed)), "it was not announced");
        let from_first = announced(Allowed::From(0, String::new()));
        assert!(
            !is_known(verdict(Some(&from_first), &crashed, &ours)),
            "ours must not crash where CNTK does not"
        );
        let both = (&crashed, &output(&["{1}"], End::Crashed(6)));
        assert!(!is_known(judge(Some(&death), false, both.0, both.1)), "ours must not crash where CNTK does");
        assert!(is_known(judge(None, true, both.0, both.1)), "unless CNTK's own module does");
    }

    #[test]
    fn rule_from_a_line_needs_that_line_and_text() {
        let rule = announced(Allowed::From(1, "error".to_owned()));
        let of =
            |lines: &[&str]| verdict(Some(&rule), &output(lines, End::Done), &output(&["a", "b"], End::Done));
        assert_eq!(of(&["a", "error", "c"]), Verdict::Known("why".to_owned()));
        assert!(matches!(of(&["error", "b"]), Verdict::Different(..)), "earlier");
        assert!(matches!(of(&["a", "c"]), Verdict::Different(..)), "another text");
    }

    #[test]
    fn only_announced_members_may_differ() {
        let line = |state: u32, value: u32| {
            output(&[&format!(r#"{{"step": "read", "state": {state}, "value": {value}}}"#)], End::Done)
        };
        let state = announced(Allowed::Member("state".to_owned()));
        assert_eq!(verdict(Some(&state), &line(1, 1), &line(1, 1)), Verdict::Same);
        assert_eq!(verdict(Some(&state), &line(1, 1), &line(2, 1)), Verdict::Known("why".to_owned()));
        assert!(matches!(verdict(Some(&state), &line(1, 1), &line(2, 2)), Verdict::Different(..)));
        let (no_object, other) = (output(&["1"], End::Done), output(&["2"], End::Done));
        assert!(matches!(verdict(Some(&state), &no_object, &other), Verdict::Different(..)));
        let more = output(&["{1}", "{2}"], End::Done);
        assert!(matches!(verdict(Some(&state), &more, &output(&["{1}"], End::Done)), Verdict::Different(..)));
    }
}
