//! The deliberate differences from CNTK 2.7, and what must still be equal where they apply.

use super::data::{self, ends_in_an_utterance, has_reversed_range};
use super::{Rule, V26, V27, images, is_error, moves, old};
use crate::drive::{End, Output};
use crate::generate::{SHORT_LABELS, SMALL_LABELS};
use crate::golden::Case;

/// An input of a random case that is not a stream of its binary file.
const UNKNOWN: &str = "\n   none = [ alias = \"no such stream\" ]";

pub(super) const RULES: [Rule; 32] = [
    Rule {
        name: "right splice",
        what: "CNTK before 2.6 does not know it",
        applies: |difference| {
            // Modules in CNTK's place ignore it, too.
            !difference.is_module
                && difference.host.is_before(V26)
                && difference.case.config.lines().any(|l| l.trim().starts_with("rightSplice"))
        },
    },
    Rule {
        name: "binary labels",
        what: "CNTK before 2.6 does not know them, CNTK 2.6 not frame by frame",
        applies: |difference| {
            let is_refused =
                difference.line == 0 && difference.cntk.lines.first().is_some_and(|line| is_error(line));
            let is_unknown = difference.host.is_before(V26)
                || difference.host.is_before(V27) && difference.has("frameMode = true");
            is_refused && is_unknown && difference.case.config.contains("\"HTKMLFBinaryDeserializer\"")
        },
    },
    Rule {
        name: "sweeps of several",
        what: "CNTK before 2.6 counts sweeps differently where a stream of one of several deserializers defines the minibatch's size",
        applies: |difference| {
            let config = &difference.case.config;
            difference.host.is_before(V26)
                && difference.line > 0
                && config.matches("module =").count() > 1
                && config.contains("definesMBSize = true")
        },
    },
    Rule {
        name: "crash",
        what: "CNTK crashes or hangs; everything before is the same",
        applies: |difference| {
            // Data without any sample are refused immediately here, but open in CNTK.
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            let ahead = usize::from(refused && difference.line == 0);
            difference.line + ahead >= difference.cntk.lines.len()
                && matches!(difference.cntk.end, End::Crashed(_) | End::Hung)
        },
    },
    Rule {
        name: "short labels",
        what: "in frame mode, CNTK gives frames past the end of their labels those of the next utterance",
        applies: |difference| {
            difference.case.name.ends_with(SHORT_LABELS)
                && difference.has("frameMode = true")
                && difference.line > 0
                && difference.agrees_by_key(Some("labels"))
        },
    },
    Rule {
        name: "reversed range",
        what: "CNTK opens a script with a range of frames that ends before it begins, and fails when it reads the chunk",
        applies: |difference| {
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            difference.line == 0 && refused && has_reversed_range(&difference.case.files)
        },
    },
    Rule {
        name: "large class",
        what: "CNTK refuses a class that is too large when its sequence is read; here the whole chunk is refused",
        applies: |difference| {
            let refused = difference.ours.lines.get(difference.line).is_some_and(|line| is_error(line));
            let small =
                |key: &str| difference.case.config.contains(&format!("labels = [ {key} = {SMALL_LABELS} "));
            refused
                && (small("dim") || small("labelDim"))
                && difference.says("exceeds the model output dimension")
        },
    },
    Rule {
        name: "first error",
        what: "where several things prevent opening, CNTK reports the first deserializer's; here settings come before files",
        applies: |difference| {
            let refused = |output: &Output| output.lines.first().is_some_and(|line| is_error(line));
            // With a single deserializer, there is only one possible first error.
            let has_several = difference.case.config.matches("module =").count() > 1;
            difference.line == 0 && has_several && refused(difference.ours) && refused(difference.cntk)
        },
    },
    Rule {
        name: "two columns",
        what: "CNTK reads past the end of a line of labels that names no state, and goes on with what it finds, or crashes",
        applies: |difference| {
            let is_short = |line: &str| line.split(' ').count() == 2 && !line.starts_with('"');
            let labels = difference.case.files.iter().filter(|(name, _)| name.ends_with(".mlf"));
            let mut texts = labels.map(|(_, content)| String::from_utf8_lossy(content));
            let failed = difference.ours.lines.get(difference.line).is_some_and(|line| is_error(line));
            failed && texts.any(|text| text.lines().any(is_short))
        },
    },
    Rule {
        name: "cut labels",
        what: "CNTK ignores the beginning of another utterance at the end of binary labels; here the file is incomplete",
        applies: |difference| {
            let is_cut =
                |(name, content): &(String, Vec<u8>)| name == "l.bin" && ends_in_an_utterance(content);
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            difference.line == 0 && refused && difference.case.files.iter().any(is_cut)
        },
    },
    Rule {
        name: "long runs",
        what: "where runs of binary labels are longer than their utterance, CNTK writes past the end of its memory, and goes on if \
               it survives; here the chunk is refused",
        applies: |difference| {
            let refused = difference.ours.lines.get(difference.line).is_some_and(|line| is_error(line));
            refused
                && difference.says("The runs of an utterance have")
                && data::files_of(&difference.case.files, ".bin").any(data::has_long_runs)
        },
    },
    Rule {
        name: "narrow samples",
        what: "where frames have more values than 'dim' and a context window is given, CNTK opens the files, and writes past the end \
               of samples or fails when it reads; here they are refused",
        applies: |difference| {
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            difference.line == 0
                && refused
                && difference.says("'dim' is smaller than the dimension of the input features")
                && data::with_wide_samples(difference.case).is_some()
        },
    },
    Rule {
        name: "cut images",
        what: "where a JPEG in a container is cut off, CNTK goes on in memory that has the rest of an image that was read before",
        applies: |difference| {
            let keys = images::keys_of_cut_images(difference.case);
            // Truncated minibatches do not report all keys. On its own, a JPEG must be equal.
            difference.is_minibatch()
                && !difference.has("truncated = true")
                && images::with_cut_images_alone(difference.case).is_some()
                && difference.differs_in_dense_values_of(&|key| keys.iter().any(|cut| cut == key))
        },
    },
    Rule {
        name: "repeated views",
        what: "of a Base64 deserializer that is not the first one, CNTK takes record n / 10 in view n mod 10 for the key of record n",
        applies: |difference| difference.is_minibatch() && images::has_secondary_views(difference.case),
    },
    Rule {
        name: "repeated members",
        what: "of several images in zip containers with one key, CNTK takes the last one for all lines of the key",
        applies: |difference| difference.is_minibatch() && images::has_repeated_members(difference.case),
    },
    Rule {
        name: "mixed channels",
        what: "where Scale declares other channels than images have, CNTK delivers the first values of each; outside of CNTK, this \
               library delivers the channels that were asked for",
        applies: |difference| {
            difference.is_native()
                && difference.is_minibatch()
                && images::mixes_channels(difference.case)
                && difference.differs_in_dense_values_alone()
        },
    },
    Rule {
        name: "left out images",
        what: "CNTK fails for an image of a map that cannot be used, whatever maxErrors says; here it is left out",
        applies: |difference| {
            let line = |output: &Output| output.lines.get(difference.line).cloned().unwrap_or_default();
            let is_left_out =
                difference.says("The image is left out, and counts against the reader's 'maxErrors'");
            // CNTK looks up all members of a container when it opens it. Here a missing one may
            // never be needed.
            let is_never_read = difference.line == 0
                && !is_error(&line(difference.ours))
                && difference.cntk.messages.contains("is not found in container")
                && images::has_missing_members(difference.case);
            difference.is_native()
                && is_error(&line(difference.cntk))
                && images::leaves_out(difference.case)
                && (is_left_out || is_never_read)
                && difference.agrees_by_key(None)
        },
    },
    Rule {
        name: "unknown stream",
        what: "CNTK ignores an input that names no stream of a binary file; outside of CNTK that is an error",
        applies: |difference| {
            let refused = difference.ours.lines.first().is_some_and(|line| is_error(line));
            difference.is_native()
                && difference.line == 0
                && refused
                && difference.case.config.contains(UNKNOWN)
                && difference.says("The file has no stream 'no such stream'")
        },
    },
    Rule {
        name: "nothing delivered",
        what: "CNTK ends a sweep whose sequences are all invalid without a word; outside of CNTK that is an error, and so is one \
               invalid sequence more than maxErrors",
        applies: |difference| {
            let line = |output: &Output| output.lines.get(difference.line).cloned().unwrap_or_default();
            let is_empty = line(difference.cntk).contains("\"streams\":[]");
            let reasons = ["A whole sweep has delivered nothing", "Number of invalid sequences"];
            difference.is_native()
                && is_error(&line(difference.ours))
                && is_empty
                && reasons.iter().any(|reason| difference.says(reason))
                && difference.agrees_by_key(None)
        },
    },
    Rule {
        name: "equal indices",
        what: "in truncated minibatches, CNTK takes the last of several values with one index, elsewhere their sum; outside of CNTK, \
               this library always takes the sum",
        applies: |difference| {
            difference.is_native()
                && difference.is_minibatch()
                && difference.has("truncated = true")
                && difference.case.config.contains("\"CNTKBinaryFormatDeserializer\"")
                && difference.differs_in_dense_values_alone()
        },
    },
    Rule {
        name: "empty crop",
        what: "a crop that leaves nothing of an image is an error here; CNTK delivers samples without values",
        applies: |difference| {
            let line = |output: &Output| output.lines.get(difference.line).cloned().unwrap_or_default();
            is_error(&line(difference.ours)) && line(difference.cntk).contains("\"dense\":[[]")
        },
    },
    Rule {
        name: "repeated lines",
        what: "of consecutive lines of Base64 with one key, CNTK drops all but the first; here that is an error",
        applies: |difference| {
            let failed = difference.ours.lines.get(difference.line).is_some_and(|line| is_error(line));
            failed && images::has_repeated_lines(difference.case)
        },
    },
    Rule {
        name: "borrowed columns",
        what: "where a line of Base64 lacks columns, CNTK takes them from the next line; here that is an error",
        applies: |difference| {
            let failed = difference.ours.lines.get(difference.line).is_some_and(|line| is_error(line));
            failed && images::has_line_without_columns(difference.case)
        },
    },
    Rule {
        name: "blank before Base64",
        what: "CNTK cannot decode Base64 with a blank before it, and leaves the image out; outside of CNTK it is read",
        applies: |difference| !difference.is_module && images::has_blank_before_data(difference.case),
    },
    Rule {
        name: "lost chunks",
        what: "unrandomized, CNTK reads the wrong chunks where other deserializers have nothing of a whole chunk",
        applies: |difference| difference.case.name.ends_with("bundle-missing") && !difference.is_randomized(),
    },
    Rule {
        name: "after a failure",
        what: "how CNTK goes on after a minibatch that failed depends on its five attempts at each chunk",
        applies: |difference| {
            // The grouping into minibatches may differ, and CNTK may fail more often, because it
            // counts errors at each attempt.
            difference.before().any(|(step, line)| step == "read" && is_error(line))
                && difference.failures(difference.ours) <= difference.failures(difference.cntk)
                && difference.agrees_by_key(None)
        },
    },
    Rule {
        name: "unequal lengths",
        what: "where streams of a truncated sequence differ in length, CNTK fails, keeps what it has begun, and delivers that and the \
               memory behind it in later minibatches, or keeps failing; this reader delivers nothing of the sequence",
        applies: |difference| {
            let refusals = [
                "For BPTT sequences between different input stream should have the same length",
                "AddSequence: Sequences must be a least one frame long",
            ];
            // Later minibatches have keys and values that are in no file.
            difference.before().any(|(step, line)| step == "read" && is_error(line))
                && difference.has("truncated = true")
                && refusals.iter().any(|refusal| difference.says(refusal))
        },
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
            let step = difference.line.saturating_sub(1);
            let truncated = difference.has("truncated = true");
            seeded
                && difference.is_randomized()
                && difference.before().skip(1).any(|(step, _)| moves(step))
                && (difference.positions)().is_some_and(|positions| {
                    positions.is_after_going_back(&difference.case.steps, step, truncated)
                })
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
        what: "where only sequences without samples are left, CNTK delivers truncated minibatches of gaps for ever",
        applies: |difference| {
            let line = |output: &Output| output.lines.get(difference.line).cloned().unwrap_or_default();
            let (ours, cntk) = (line(difference.ours), line(difference.cntk));
            difference.has("truncated = true")
                && cntk.contains("\"keys\":[]")
                && ours.contains("\"logic_error\"")
        },
    },
    Rule {
        name: "endless",
        what: "CNTK delivers empty minibatches for ever to a worker without chunks; here its epoch ends",
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

/// Returns another case, run from a fresh start, that must be equal for a difference to be excused.
/// `None` if nothing is left to compare.
pub fn alone(rule: &Rule, case: &Case, line: usize) -> Option<Case> {
    match rule.name {
        "crash" => after_a_crash(case, line),
        // Randomized, CNTK finds the right chunks.
        "lost chunks" => {
            let config = case.config.replacen("randomize = false", "randomize = true", 1);
            (config != case.config).then(|| Case { config, ..case.clone() })
        }
        "long runs" => data::without_long_runs(case),
        "narrow samples" => data::with_wide_samples(case),
        "cut images" => images::with_cut_images_alone(case),
        "left out images" if line == 0 => images::without_missing_members(case),
        "unknown stream" => {
            let config = case.config.replacen(UNKNOWN, "", 1);
            (config != case.config).then(|| Case { config, ..case.clone() })
        }
        _ => old::alone(rule, case, line),
    }
}

/// Returns the steps after CNTK's crash, from the next start on; if there is none, from the last
/// start before it.
fn after_a_crash(case: &Case, line: usize) -> Option<Case> {
    let rest = case.steps.get(line..).filter(|_| line > 0)?;
    let is_start = |step: &String| step.starts_with("start ");
    let steps = match rest.iter().position(is_start) {
        Some(next) => rest[next..].to_vec(),
        None => {
            let start = case.steps[..line].iter().rfind(|step| is_start(step))?;
            [std::slice::from_ref(start), rest].concat()
        }
    };
    let reads = steps.iter().any(|step| step == "read");
    (reads && steps.len() < case.steps.len()).then(|| Case { steps, ..case.clone() })
}
