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

/// Compares one case. `differs` is why the case says that both may differ, if it does.
///
/// - Values, states and classes of exceptions have to be the same, to the byte.
/// - Memory that is said to be bounded has to be so in ours, whatever CNTK's does.
/// - An exception's message has to begin with CNTK's; a place may follow.
/// - Where CNTK's process dies or hangs, everything before has to be the same, and ours has to reach its end. Where both
///   die at the same place, CNTK's own module had been asked by ours; that is told.
pub fn judge(differs: Option<&str>, ours: &Output, cntk: &Output) -> Verdict {
    let lines = ours.lines.len().max(cntk.lines.len());
    let same = |line: &usize| match (ours.lines.get(*line), cntk.lines.get(*line)) {
        (Some(ours), Some(cntk)) => ours == cntk || is_same_error(ours, cntk),
        _ => false,
    };
    let is_growing =
        |line: &usize| ours.lines.get(*line).is_some_and(|line| line.contains("\"bounded\": false"));
    let line = (0..lines).find(|line| !same(line) || is_growing(line)).unwrap_or(lines);
    if line == lines && ours.end == cntk.end {
        return match ours.end {
            End::Done => Verdict::Same,
            end => Verdict::Known(format!("both end the same ({end:?})")),
        };
    }
    if line >= cntk.lines.len() && cntk.end != End::Done && ours.end == End::Done {
        return Verdict::Known("CNTK crashes or hangs; everything before is the same".to_owned());
    }
    if let (Some(reason), End::Done) = (differs, ours.end) {
        return Verdict::Known(reason.to_owned());
    }
    let show = |output: &Output| {
        output.lines.get(line).cloned().unwrap_or_else(|| format!("no such line ({:?})", output.end))
    };
    Verdict::Different(show(ours), show(cntk))
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

    fn output(lines: &[&str], end: End) -> Output {
        Output { lines: lines.iter().map(|&line| line.to_owned()).collect(), end }
    }

    #[test]
    fn values_count_to_the_byte() {
        let one = output(&[r#"{"a": 1}"#], End::Done);
        assert_eq!(judge(None, &one, &output(&[r#"{"a": 1}"#], End::Done)), Verdict::Same);
        let other = output(&[r#"{"a": 1.0}"#], End::Done);
        assert!(matches!(judge(None, &one, &other), Verdict::Different(..)));
        assert_eq!(judge(Some("why"), &one, &other), Verdict::Known("why".to_owned()));
    }

    #[test]
    fn memory_that_grows_is_never_the_same() {
        let grows = || output(&[r#"{"bounded": false, "step": "memory"}"#], End::Done);
        assert!(matches!(judge(None, &grows(), &grows()), Verdict::Different(..)));
    }

    #[test]
    fn messages_may_say_more() {
        let error = |class: &str, message: &str| {
            let line = format!(r#"{{"step": "read", "error": "{class}", "message": "{message}"}}"#);
            output(&[&line], End::Done)
        };
        let cntk = error("RuntimeError", "No file.");
        assert_eq!(judge(None, &error("RuntimeError", "No file (file x)"), &cntk), Verdict::Same);
        for other in [error("ValueError", "No file."), error("RuntimeError", "Nothing.")] {
            assert!(matches!(judge(None, &other, &cntk), Verdict::Different(..)));
        }
    }

    #[test]
    fn a_crash_of_cntk_excuses_nothing_before_it() {
        let ours = output(&["{1}", "{2}"], End::Done);
        let known = |verdict| matches!(verdict, Verdict::Known(_));
        assert!(known(judge(None, &ours, &output(&["{1}"], End::Crashed(11)))));
        assert!(known(judge(None, &ours, &output(&["{1}"], End::Hung))));
        assert!(!known(judge(None, &ours, &output(&["{3}"], End::Crashed(11)))));
        assert!(!known(judge(None, &ours, &output(&["{1}"], End::Done))));
        let crashed = output(&["{1}"], End::Crashed(6));
        assert!(!known(judge(Some("why"), &crashed, &ours)), "ours must not crash where CNTK does not");
        assert!(known(judge(None, &crashed, &output(&["{1}"], End::Crashed(6)))));
    }
}
