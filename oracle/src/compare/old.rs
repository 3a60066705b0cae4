//! Differences between CNTK 2.0 with its betas and later releases, in cases that both can run.

use super::data::{files_of, repeats_keys, scripts};
use super::{Difference, Rule, is_error, moves};
use crate::drive::{self, End};
use crate::golden::Case;
use serde_json::Value;
use std::collections::BTreeMap;

/// Versions of CNTK.
const V21: u32 = 20100;
const V22: u32 = 20200;
const V24: u32 = 20400;
const V25: u32 = 20500;

/// The rules for these versions only. Rules for betas state the exact condition; rules for releases
/// are wider.
pub const RULES: [Rule; 19] = [
    Rule {
        name: "old: stricter",
        what: "CNTK 2.0 and 2.1 refuse data that later releases read: blank lines at the beginning, unknown inputs, labels that are not used",
        applies: |difference| {
            let is_refused = |lines: &[String]| lines.get(difference.line).is_some_and(|line| is_error(line));
            is_release_before(difference, V22)
                && is_refused(&difference.cntk.lines)
                && !is_refused(&difference.ours.lines)
        },
    },
    Rule {
        name: "old: laxer",
        what: "CNTK 2.0 opens scripts that name an utterance twice, and labels that are not in three columns",
        applies: |difference| {
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            let speech =
                difference.case.config.contains("scpFile") || difference.case.config.contains("mlfFile");
            is_release_before(difference, V21) && difference.line == 0 && refused && speech
        },
    },
    Rule {
        name: "old: bad labels",
        what: "CNTK 2.0 and 2.1 leave out utterances whose labels they cannot read, when they open the file, some of which later releases read; \
               here others are errors when they are needed",
        applies: |difference| {
            let left_out = |messages: &str| messages.matches("Cannot parse the utterance").count();
            is_release_before(difference, V22)
                && difference.case.config.contains("mlfFile")
                && left_out(&difference.cntk.messages) > left_out(&difference.ours.messages)
        },
    },
    Rule {
        name: "old: refused labels",
        what: "betas read all labels when they open a file, and refuse the file for one that they cannot read, or that has a key twice; \
               here it is an error, or left out, when it is needed",
        applies: |difference| {
            const MESSAGES: [&str; 7] = [
                // A line of two columns, which these versions read past its end.
                "create: basic_string::_S_construct null not valid",
                "create: basic_string: construction from null is not valid",
                "create: Labels are not in the consecutive order MLF in label set",
                "create: htkmlfreader: ",
                "create: htkmlfentry: ",
                "create: todouble: invalid input string",
                "create: Class id ",
            ];
            difference.host.is_beta()
                && difference.case.config.contains("mlfFile")
                && is_refused(difference, &MESSAGES)
        },
    },
    Rule {
        name: "old: skipped labels",
        what: "betas leave out an utterance whose labels they have read before, or cannot read; here it is an error, or left out, when it is needed",
        applies: |difference| {
            difference.host.is_beta()
                && difference.case.config.contains("mlfFile")
                && difference.cntk.messages.contains("skip current mlf entry from line")
        },
    },
    Rule {
        name: "old: lists of labels",
        what: "betas know no list in parentheses as mlfFileList",
        applies: |difference| {
            difference.host.is_beta()
                && difference.case.config.contains("mlfFileList = (")
                && is_refused(difference, &["create: auto_file_ptr: error opening file '("])
        },
    },
    Rule {
        name: "old: sections",
        what: "betas do not read sections of old-style readers by the module of speech",
        applies: |difference| {
            difference.host.is_beta()
                && drive::is_old_style(difference.case)
                && is_refused(difference, &["create: Could not find deserializers in the reader config."])
        },
    },
    Rule {
        name: "old: early errors",
        what: "truncated, CNTK 2.0 and 2.1 fill their lanes when an epoch starts, so that errors in the data are those of the start; here they are \
               those of the first minibatch",
        applies: |difference| {
            let starts = difference.step().is_some_and(moves);
            let failed = |lines: &[String], line: usize| lines.get(line).is_some_and(|line| is_error(line));
            let steps = difference.case.steps.iter().skip(difference.line);
            let next = steps.take_while(|step| !moves(step)).position(|step| step == "read");
            let read = next.map(|next| difference.line + 1 + next);
            difference.host.is_before(V22)
                && difference.has("truncated = true")
                && starts
                && failed(&difference.cntk.lines, difference.line)
                && !failed(&difference.ours.lines, difference.line)
                && read.is_none_or(|read| failed(&difference.ours.lines, read))
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
        name: "old: scripts",
        what: "betas refuse a line of a script with two equals signs, the second of which belongs to the path",
        applies: |difference| {
            difference.host.is_beta()
                && is_refused(difference, &["create: parsedpath: "])
                && scripts(&difference.case.files).any(|text| {
                    String::from_utf8_lossy(text).lines().any(|line| line.matches('=').count() > 1)
                })
        },
    },
    Rule {
        name: "old: fewer frames",
        what: "in frame mode, betas do not compare the numbers of frames of an utterance in several files, and read past the end of the shorter one",
        applies: |difference| {
            const MESSAGE: &str = "frame(s), whereas the primary sequence expects at least";
            let fails = difference.ours.lines.get(difference.line).is_some_and(|line| is_error(line));
            difference.host.is_beta()
                && fails
                && difference.has("frameMode = true")
                && difference.ours.messages.contains(MESSAGE)
        },
    },
    Rule {
        name: "old: empty labels",
        what: "betas keep an utterance that has no labels, with no frame; later releases leave it out",
        applies: |difference| {
            difference.host.is_beta() && files_of(&difference.case.files, ".mlf").any(has_empty_labels)
        },
    },
    Rule {
        name: "old: blank lines",
        what: "CNTK 2.0 refuses blank lines at the beginning of a file, or counts them to its first sequence",
        applies: |difference| {
            let mut texts = difference.case.files.iter().filter(|(name, _)| name.ends_with(".ctf"));
            is_release_before(difference, V21)
                && texts.any(|(_, text)| text.starts_with(b"\n") || text.starts_with(b"\r"))
        },
    },
    Rule {
        name: "old: duplicates",
        what: "where a file has several sequences of one key, CNTK 2.0 takes another one of them than later releases",
        applies: |difference| {
            let keyed = |name: &str| name.ends_with(".ctf") || name.ends_with(".scp");
            let mut texts = difference.case.files.iter().filter(|(name, _)| keyed(name));
            // Modules for betas do so, too. Here the library itself reads old sections, and does
            // not.
            let is_other = difference.host.is_beta() && drive::is_old_style(difference.case);
            let repeats = is_other || texts.any(|(_, text)| repeats_keys(text));
            (is_release_before(difference, V21)
                || is_other && super::has_repeated_keys(&difference.case.files))
                && repeats
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
        what: "CNTK before 2.5 may free binary data at the end of a sweep before it packs them: other values in the same sequences",
        applies: |difference| {
            let is_binary = difference.case.config.contains("CNTKBinaryFormatDeserializer");
            let line = difference.ours.lines.get(difference.line);
            let is_at_end = line.is_some_and(|line| line.contains("\"end_of_sweep\":true"));
            let line = |lines: &[String]| without_values(lines.get(difference.line)?);
            difference.host.is_before(V25)
                && is_binary
                && is_at_end
                && difference.is_minibatch()
                && line(&difference.ours.lines) == line(&difference.cntk.lines)
        },
    },
    Rule {
        name: QUEUED,
        what: "truncated, CNTK 2.0 and 2.1 fill their lanes when an epoch starts, report the position after that, and keep what they have when the \
               host goes elsewhere",
        applies: |difference| {
            let has_moved = difference.before().skip(1).any(|(step, _)| moves(step));
            let is_before_reading = !difference.before().any(|(step, _)| step == "read");
            let is_read = difference.step() == Some("read");
            let is_state = difference.step() == Some("state");
            difference.host.is_before(V22)
                && difference.has("truncated = true")
                && (has_moved && (is_read || is_state) || is_before_reading && is_state)
        },
    },
    Rule {
        name: "old: unchecked",
        what: "with checkData = false, CNTK 2.0 does not compare its files: those of other keys or lengths come differently, sequences that a file lacks with data of others",
        applies: |difference| {
            difference.host.is_before(V21)
                && difference.has("checkData = false")
                && have_different_sequences(&difference.case.files)
        },
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

/// The rule for data that CNTK has read before the host moves to another place.
const QUEUED: &str = "old: queued";

/// Returns the rest of a case in which data read before a move make a line differ: from the last
/// start on, without the states before anything was read. On its own it must be equal. `None` if
/// the rule has another reason, or if the rest is the whole case.
pub fn alone(rule: &Rule, case: &Case, line: usize) -> Option<Case> {
    let start = case.steps.get(..line)?.iter().rposition(|step| step.starts_with("start "))?;
    let mut is_read = false;
    let mut steps = case.steps.get(start..)?.to_vec();
    steps.retain(|step| {
        is_read |= step == "read";
        is_read || step != "state"
    });
    (rule.name == QUEUED && steps.len() < case.steps.len()).then(|| Case { steps, ..case.clone() })
}

/// Whether CNTK is a release, not a beta, and older than a version.
fn is_release_before(difference: &Difference<'_>, version: u32) -> bool {
    difference.host.is_before(version) && !difference.host.is_beta()
}

/// Whether CNTK refuses with one of these messages a case that can be opened here.
fn is_refused(difference: &Difference<'_>, messages: &[&str]) -> bool {
    let fails = |lines: &[String]| lines.first().is_some_and(|line| is_error(line));
    difference.line == 0
        && fails(&difference.cntk.lines)
        && !fails(&difference.ours.lines)
        && messages.iter().any(|message| difference.cntk.messages.contains(message))
}

/// Whether labels have an utterance without lines, or with lines without frames.
fn has_empty_labels(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.lines().map(str::trim_end).skip_while(|line| !line.starts_with('"')).peekable();
    let is_empty = |line: &str| {
        let mut bounds = line.split(' ');
        bounds.next() == bounds.next()
    };
    while lines.next().is_some() {
        let mut has_frames = false;
        while let Some(line) = lines.next_if(|line| *line != ".") {
            has_frames |= !is_empty(line);
        }
        if !has_frames {
            return true;
        }
        lines.next();
    }
    false
}

/// Returns a driver's line without the values of samples.
fn without_values(line: &str) -> Option<Value> {
    let mut line: Value = serde_json::from_str(line).ok()?;
    for stream in line["result"]["streams"].as_array_mut()? {
        let stream = stream.as_object_mut()?;
        stream.retain(|member, _| !["dense", "values", "rows", "cols", "nnz"].contains(&member.as_str()));
    }
    Some(line)
}

/// Returns the keys of the sequences in a text file, with their numbers of lines.
fn keys(text: &[u8]) -> BTreeMap<String, usize> {
    let text = String::from_utf8_lossy(text);
    let mut last = String::new();
    let mut keys = BTreeMap::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        match line.split(['|', ' ', '\t']).next() {
            Some("") if last.is_empty() => _ = keys.insert(number.to_string(), 1),
            Some("") | None => *keys.entry(last.clone()).or_default() += 1,
            Some(key) => {
                key.clone_into(&mut last);
                *keys.entry(last.clone()).or_default() += 1;
            }
        }
    }
    keys
}

/// Whether the first file and another one have different keys, or sequences of different lengths.
fn have_different_sequences(files: &[(String, Vec<u8>)]) -> bool {
    let mut texts = files.iter().filter(|(name, _)| name.ends_with(".ctf")).map(|(_, text)| keys(text));
    let first = texts.next();
    // The first deserializer may have another format.
    let others = files.iter().any(|(name, _)| !name.ends_with(".ctf"));
    others || texts.any(|other| first.as_ref() != Some(&other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_after_the_last_start_are_compared_on_their_own() {
        let queued = RULES.iter().find(|rule| rule.name == QUEUED).expect("the rule");
        let rest = |steps: &[&str], line| {
            let steps = steps.iter().map(|&step| step.to_owned()).collect();
            let case = Case { steps, ..crate::compare::tests::case("", &[]) };
            alone(queued, &case, line).map(|case| case.steps.join(","))
        };
        let steps = ["start a", "read", "start b", "state", "read", "state", "start c", "read"];
        assert_eq!(rest(&steps, 2), None);
        assert_eq!(rest(&steps, 4).as_deref(), Some("start b,read,state,start c,read"));
        assert_eq!(rest(&steps, 8).as_deref(), Some("start c,read"));
        assert_eq!(rest(&["start a", "state", "read"], 2).as_deref(), Some("start a,read"));
        let other = RULES.iter().find(|rule| rule.name != QUEUED).expect("a rule");
        let case = crate::compare::tests::case("", &steps);
        assert!(alone(other, &case, 8).is_none());
    }

    #[test]
    fn files_of_different_sequences_are_found() {
        let differ = |first: &str, second: &str| {
            let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
            have_different_sequences(&[file("a.ctf", first), file("b.ctf", second)])
        };
        assert!(!differ("1 |x 2\n|x 3\n2|x 4\n", "2\t|y 1\n1 |y 1\n1 |y 1\n"));
        assert!(differ("1 |x 2\n2|x 4\n", "2 |y 1\n|y 2\n1 |y 1\n"));
        assert!(differ("1 |x 2\n2|x 4\n", "2 |y 1\n3 |y 1\n"));
        assert!(!differ("|x 2\n|x 3\n", "0 |y 1\n1 |y 1\n"));
        assert!(differ("|x 2\n|x 3\n", "|y 1\n"));
    }

    #[test]
    fn utterances_without_labels_are_found() {
        assert!(has_empty_labels(b"#!MLF!#\n\"a.lab\"\n0 1 s\n.\n\"b.rec\" \n.\n"));
        assert!(has_empty_labels(b"#!MLF!#\n\"*/1.rec\"\n0 0 name 2\n.\n"));
        assert!(!has_empty_labels(b"#!MLF!#\n\"a.lab\"\n0 1 s\n.\n\"b.rec\"\n0 1 s\n.\n"));
    }

    #[test]
    fn lines_without_values_have_their_sequences() {
        let line = |keys: &str, values: &str| {
            format!("{{\"result\":{{\"streams\":[{{\"keys\":[{keys}],\"dense\":[[{values}]]}}]}}}}")
        };
        assert_eq!(without_values(&line("1", "2")), without_values(&line("1", "3")));
        assert_ne!(without_values(&line("1", "2")), without_values(&line("2", "2")));
        assert_eq!(without_values("{\"result\":{\"error\":\"e\"}}"), None);
    }
}
