//! Where CNTK 2.0 and its betas do not do as later releases, in cases that both can run.

use super::{Rule, is_error, moves};
use crate::oracle::drive::End;

/// Versions of CNTK from which on something is so.
const V21: u32 = 20100;
const V22: u32 = 20200;
const V24: u32 = 20400;
const V25: u32 = 20500;

/// The rules, which apply to these versions alone.
pub const RULES: [Rule; 11] = [
    Rule {
        name: "old: stricter",
        what: "CNTK 2.0 and 2.1 refuse data that later releases read: blank lines at the beginning, unknown inputs, labels that are not used",
        applies: |difference| {
            let is_refused = |lines: &[String]| lines.get(difference.line).is_some_and(|line| is_error(line));
            difference.host.is_before(V22)
                && is_refused(&difference.cntk.lines)
                && !is_refused(&difference.ours.lines)
        },
    },
    Rule {
        name: "old: crash",
        what: "CNTK 2.0 crashes while it opens what is refused here",
        applies: |difference| {
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            let crashed = matches!(difference.cntk.end, End::Crashed(_) | End::Hung);
            difference.host.is_before(V21) && difference.line == 0 && refused && crashed
        },
    },
    Rule {
        name: "old: laxer",
        what: "CNTK 2.0 opens scripts that name an utterance twice, and labels that are not in three columns",
        applies: |difference| {
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            let speech =
                difference.case.config.contains("scpFile") || difference.case.config.contains("mlfFile");
            difference.host.is_before(V21) && difference.line == 0 && refused && speech
        },
    },
    Rule {
        name: "old: duplicates",
        what: "where a file has several sequences of one key, CNTK 2.0 takes another one of them than later releases",
        applies: |difference| {
            let keyed = |name: &str| name.ends_with(".ctf") || name.ends_with(".scp");
            let mut texts = difference.case.files.iter().filter(|(name, _)| keyed(name));
            difference.host.is_before(V21) && texts.any(|(_, text)| repeats_keys(text))
        },
    },
    Rule {
        name: "old: blank lines",
        what: "CNTK 2.0 counts blank lines at the beginning of a file to its first sequence",
        applies: |difference| {
            let mut texts = difference.case.files.iter().filter(|(name, _)| name.ends_with(".ctf"));
            difference.host.is_before(V21)
                && texts.any(|(_, text)| text.starts_with(b"\n") || text.starts_with(b"\r"))
        },
    },
    Rule {
        name: "old: bad labels",
        what: "CNTK 2.0 and 2.1 leave out utterances whose labels they cannot read, when they open the file; here they are errors when they are needed",
        applies: |difference| {
            let has_labels = difference.case.config.contains("HTKMLFDeserializer");
            let fails = difference.ours.lines.iter().any(|line| is_error(line));
            let counts = difference.step() == Some("state");
            difference.host.is_before(V22) && has_labels && (fails && difference.is_minibatch() || counts)
        },
    },
    Rule {
        name: "old: hashes",
        what: "CNTK before 2.4 fails when it is asked for a key that it knows by its hash alone",
        applies: |difference| {
            let line = |lines: &[String]| lines.get(difference.line).cloned().unwrap_or_default();
            let is_named = line(&difference.ours.lines).contains("<Unknown, hash ");
            difference.host.is_before(V24) && is_named && is_error(&line(&difference.cntk.lines))
        },
    },
    Rule {
        name: "old: freed chunks",
        what: "CNTK before 2.5 may free binary data at the end of a sweep before it packs them",
        applies: |difference| {
            let is_binary = difference.case.config.contains("CNTKBinaryFormatDeserializer");
            let line = difference.ours.lines.get(difference.line);
            let is_at_end = line.is_some_and(|line| line.contains("\"end_of_sweep\":true"));
            difference.host.is_before(V25) && is_binary && is_at_end && difference.is_minibatch()
        },
    },
    Rule {
        name: "old: queued",
        what: "truncated, CNTK 2.0 and 2.1 fill their lanes when an epoch starts, and keep what they have when the host goes elsewhere",
        applies: |difference| {
            let has_moved = difference.before().skip(1).any(|(step, _)| moves(step));
            let is_before_reading = !difference.before().any(|(step, _)| step == "read");
            difference.host.is_before(V22)
                && difference.has("truncated = true")
                && (has_moved || is_before_reading)
        },
    },
    Rule {
        name: "old: unchecked",
        what: "with checkData = false, CNTK 2.0 delivers sequences that other deserializers lack, with data of others",
        applies: |difference| difference.host.is_before(V21) && difference.has("checkData = false"),
    },
    Rule {
        name: "old: position at the end",
        what: "after a change of sizes at the end of an epoch, CNTK 2.0 reports the beginning of the last sequence",
        applies: |difference| {
            let configured = difference.before().last().is_some_and(|(step, _)| step.starts_with("config "));
            let reads = difference.before().filter(|(step, _)| *step == "read").last();
            let ended = reads.is_some_and(|(_, line)| line.contains("\"end_of_epoch\":true"));
            difference.host.is_before(V21) && difference.step() == Some("state") && configured && ended
        },
    },
];

/// Whether text has a key in several places.
fn repeats_keys(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut keys: Vec<&str> =
        text.lines().filter_map(|line| line.split(['|', ' ', '\t', '=']).next()).collect();
    keys.dedup();
    let places = keys.len();
    keys.sort_unstable();
    keys.dedup();
    keys.len() < places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_repeat_in_different_places() {
        assert!(!repeats_keys(b"1 |x 2\n1|x 3\n2\t|x 4\n"));
        assert!(repeats_keys(b"1 |x 2\n2 |x 3\n1|x 4\n"));
    }
}
