//! Judges what CNTK's Python gave with CNTK's modules and with this project's.

use crate::oracle::drive::{End, Output};
use serde_json::Value;

/// How a comparison came out.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All lines say the same.
    Same,
    /// They differ as they may, for this reason.
    Known(String),
    /// They differ: both lines.
    Different(String, String),
}

/// A difference that a case announces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// Why both may differ.
    pub reason: String,
    /// All that may differ: a member of the lines. Anything, from the first difference on, if `None`.
    pub only: Option<String>,
}

/// Compares one case with what it announces.
///
/// - Values, states and classes of exceptions have to be the same, to the byte.
/// - Memory that is said to be bounded has to be so in ours, whatever CNTK's does.
/// - An exception's message has to begin with CNTK's; a place may follow.
/// - Where CNTK's process dies or hangs, everything before has to be the same, and ours has to reach its end. Only
///   where one of CNTK's modules is at work on both sides ours `may_crash`, too, in the same place.
pub fn judge(announced: Option<&Announced>, may_crash: bool, ours: &Output, cntk: &Output) -> Verdict {
    let lines = ours.lines.len().max(cntk.lines.len());
    let only = announced.and_then(|announced| announced.only.as_deref());
    let same = |line: &usize, only: Option<&str>| match (ours.lines.get(*line), cntk.lines.get(*line)) {
        (Some(ours), Some(cntk)) => {
            ours == cntk
                || is_same_error(ours, cntk)
                || only.is_some_and(|member| are_same_without(member, ours, cntk))
        }
        _ => false,
    };
    let is_growing =
        |line: &usize| ours.lines.get(*line).is_some_and(|line| line.contains("\"bounded\": false"));
    let first = |only| (0..lines).find(|line| !same(line, only) || is_growing(line)).unwrap_or(lines);
    let line = first(only);
    if line == lines && ours.end == cntk.end {
        match (ours.end, announced) {
            (End::Done, Some(announced)) if only.is_some() && first(None) < lines => {
                return Verdict::Known(announced.reason.clone());
            }
            (End::Done, _) => return Verdict::Same,
            (end, _) if may_crash => return Verdict::Known(format!("both end the same ({end:?})")),
            _ => {}
        }
    }
    if line >= cntk.lines.len() && cntk.end != End::Done && ours.end == End::Done {
        return Verdict::Known("CNTK crashes or hangs; everything before is the same".to_owned());
    }
    match announced {
        Some(Announced { reason, only: None }) if ours.end == End::Done => {
            return Verdict::Known(reason.clone());
        }
        _ => {}
    }
    let show = |output: &Output| {
        output.lines.get(line).cloned().unwrap_or_else(|| format!("no such line ({:?})", output.end))
    };
    Verdict::Different(show(ours), show(cntk))
}

/// Whether both lines are objects that are the same but for one member.
fn are_same_without(member: &str, ours: &str, cntk: &str) -> bool {
    let rest = |line| {
        let mut line: Value = serde_json::from_str(line).ok()?;
        line.as_object_mut()?.remove(member);
        Some(line)
    };
    rest(ours).is_some_and(|ours| rest(cntk).is_some_and(|cntk| ours == cntk))
}

/// Whether both lines are exceptions of one class in one step, and ours only adds to CNTK's message.
fn is_same_error(ours: &str, cntk: &str) -> bool {
    let parse = |line| serde_json::from_str::<Value>(line).unwrap_or_default();
    let (ours, cntk) = (parse(ours), parse(cntk));
    // The driver of BrainScript's interface has results of their own beside the step.
    let same_step = ours["step"] == cntk["step"] && ours["op"] == cntk["op"];
    let inner = |line: Value| if line["result"].is_object() { line["result"].clone() } else { line };
    let (ours, cntk) = (inner(ours), inner(cntk));
    let message = |line: &Value| line["message"].as_str().map(str::to_owned);
    let (Some(text), Some(beginning)) = (message(&ours), message(&cntk)) else { return false };
    same_step
        && ours["error"].is_string()
        && ours["error"] == cntk["error"]
        && text.starts_with(beginning.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(announced: Option<&Announced>, ours: &Output, cntk: &Output) -> Verdict {
        judge(announced, false, ours, cntk)
    }

    fn announced(only: Option<&str>) -> Announced {
        Announced { reason: "why".to_owned(), only: only.map(str::to_owned) }
    }

    fn output(lines: &[&str], end: End) -> Output {
        Output { lines: lines.iter().map(|&line| line.to_owned()).collect(), end }
    }

    #[test]
    fn values_count_to_the_byte() {
        let one = output(&[r#"{"a": 1}"#], End::Done);
        assert_eq!(verdict(None, &one, &output(&[r#"{"a": 1}"#], End::Done)), Verdict::Same);
        let other = output(&[r#"{"a": 1.0}"#], End::Done);
        assert!(matches!(verdict(None, &one, &other), Verdict::Different(..)));
        assert_eq!(verdict(Some(&announced(None)), &one, &other), Verdict::Known("why".to_owned()));
    }

    #[test]
    fn memory_that_grows_is_never_the_same() {
        let grows = || output(&[r#"{"bounded": false, "step": "memory"}"#], End::Done);
        assert!(matches!(verdict(None, &grows(), &grows()), Verdict::Different(..)));
    }

    #[test]
    fn messages_may_say_more() {
        let error = |class: &str, message: &str| {
            let line = format!(r#"{{"step": "read", "error": "{class}", "message": "{message}"}}"#);
            output(&[&line], End::Done)
        };
        let cntk = error("RuntimeError", "No file.");
        assert_eq!(verdict(None, &error("RuntimeError", "No file (file x)"), &cntk), Verdict::Same);
        for other in [error("ValueError", "No file."), error("RuntimeError", "Nothing.")] {
            assert!(matches!(verdict(None, &other, &cntk), Verdict::Different(..)));
        }
    }

    #[test]
    fn a_crash_of_cntk_excuses_nothing_before_it() {
        let ours = output(&["{1}", "{2}"], End::Done);
        let known = |verdict| matches!(verdict, Verdict::Known(_));
        assert!(known(verdict(None, &ours, &output(&["{1}"], End::Crashed(11)))));
        assert!(known(verdict(None, &ours, &output(&["{1}"], End::Hung))));
        assert!(!known(verdict(None, &ours, &output(&["{3}"], End::Crashed(11)))));
        assert!(!known(verdict(None, &ours, &output(&["{1}"], End::Done))));
        let crashed = output(&["{1}"], End::Crashed(6));
        assert!(
            !known(verdict(Some(&announced(None)), &crashed, &ours)),
            "ours must not crash where CNTK does not"
        );
        let both = (&crashed, &output(&["{1}"], End::Crashed(6)));
        assert!(!known(judge(None, false, both.0, both.1)), "ours must not crash where CNTK does");
        assert!(known(judge(None, true, both.0, both.1)), "unless CNTK's own module does");
    }

    #[test]
    fn what_is_announced_may_differ_and_nothing_else() {
        let line = |state: u32, value: u32| {
            output(&[&format!(r#"{{"step": "read", "state": {state}, "value": {value}}}"#)], End::Done)
        };
        let state = announced(Some("state"));
        assert_eq!(verdict(Some(&state), &line(1, 1), &line(1, 1)), Verdict::Same);
        assert_eq!(verdict(Some(&state), &line(1, 1), &line(2, 1)), Verdict::Known("why".to_owned()));
        assert!(matches!(verdict(Some(&state), &line(1, 1), &line(2, 2)), Verdict::Different(..)));
        let (no_object, other) = (output(&["1"], End::Done), output(&["2"], End::Done));
        assert!(matches!(verdict(Some(&state), &no_object, &other), Verdict::Different(..)));
        let more = output(&["{1}", "{2}"], End::Done);
        assert!(matches!(verdict(Some(&state), &more, &output(&["{1}"], End::Done)), Verdict::Different(..)));
    }
}
