//! Each rule excuses only its own difference.

use super::*;
use crate::generate::{Rng, SHORT_LABELS, SMALL_LABELS, container};
use dropin::HOSTS;
use serde_json::Value;

fn verdict(config: &str, steps: &[&str], ours: &[&str], cntk: &[&str], end: End) -> String {
    verdict_of(config, steps, (ours, End::Done), (cntk, end))
}

/// A case without files.
pub fn case(config: &str, steps: &[&str]) -> Case {
    Case {
        name: String::new(),
        create: Value::Null,
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
        results: Vec::new(),
        config: config.to_owned(),
        files: Vec::new(),
        rewritten: None,
    }
}

fn output(lines: &[&str], end: End) -> Output {
    let lines = lines.iter().map(|&line| line.to_owned()).collect();
    Output { lines, end, messages: String::new() }
}

fn verdict_of(config: &str, steps: &[&str], ours: (&[&str], End), cntk: (&[&str], End)) -> String {
    let case = case(config, steps);
    // Sweeps of 10 samples; the restored position is in the first one.
    let positions = || Some(Positions { sweep: 10, before: [0, 0, 5, 2, 7].map(Some).to_vec() });
    let output = |(lines, end): (&[&str], End)| output(lines, end);
    match compare(&case, (HOSTS[0], true), &output(ours), &output(cntk), &positions) {
        Verdict::Same => "same".to_owned(),
        Verdict::Known(rule, _) => rule.name.to_owned(),
        Verdict::Different(lines) => lines.number.to_string(),
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
fn known_differences_do_not_excuse_this_library() {
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
fn only_going_back_within_a_sweep_forgets_the_seed() {
    let steps = ["start", "read", "restore", "read", "read"].map(str::to_owned);
    let known = |before: [u64; 6], step, truncated| {
        let positions = Positions { sweep: 10, before: before.map(Some).to_vec() };
        positions.is_after_going_back(&steps, step, truncated)
    };
    assert!(known([0, 0, 5, 2, 7, 9], 3, false));
    assert!(known([0, 0, 5, 2, 7, 9], 4, false));
    assert!(!known([0, 0, 5, 2, 7, 9], 2, false), "before it goes back");
    assert!(!known([0, 0, 5, 7, 9, 9], 3, false), "forward");
    assert!(!known([0, 0, 5, 22, 25, 27], 3, false), "to another sweep");
    assert!(!known([0, 0, 15, 2, 7, 9], 3, false), "back to another sweep");
    assert!(known([0, 0, 10, 2, 7, 9], 3, false), "at the end of a sweep it is still in it");
    assert!(!known([0, 0, 5, 2, 12, 14], 4, false), "the next sweep has the seed again");
    assert!(known([0, 0, 5, 2, 12, 14], 4, true), "but what is packed may come from before");
}

#[test]
fn new_sizes_do_not_enter_the_next_sweep() {
    let known = |second: &str, before: [u64; 6]| {
        let steps = ["start", "read", second, "restore", "read"].map(str::to_owned);
        let positions = Positions { sweep: 10, before: before.map(Some).to_vec() };
        positions.is_after_going_back(&steps, 4, false)
    };
    assert!(known("config ", [0, 0, 10, 10, 2, 7]), "the sweep has ended, and is still the current one");
    assert!(!known("restore", [0, 0, 10, 10, 2, 7]), "the next sweep was entered");
    assert!(!known("start ", [0, 0, 10, 10, 2, 7]), "the next sweep was entered");
    assert!(known("config ", [0, 0, 5, 5, 2, 7]));
    assert!(!known("config ", [0, 0, 10, 10, 12, 17]), "forward");
    assert!(!known("config ", [0, 0, 15, 15, 2, 7]), "to another sweep");
}

/// A minibatch with a sample for each key in the streams `features` and `labels`.
fn read(samples: &[(&str, u32, u32)]) -> String {
    let list = |of: &dyn Fn(usize) -> String| (0..samples.len()).map(of).collect::<Vec<_>>().join(",");
    let stream = |value: &dyn Fn(usize) -> u32| {
        format!(
            "{{\"num_time_steps\":1,\"num_parallel\":{},\"sequences\":[{}],\"keys\":[{}],\"dense\":[{}]}}",
            samples.len(),
            list(&|at| format!("[{at},{at},0,1]")),
            list(&|at| format!("\"{}\"", samples[at].0)),
            list(&|at| format!("[{}]", value(at))),
        )
    };
    let (features, labels) = (stream(&|at| samples[at].1), stream(&|at| samples[at].2));
    format!("{{\"op\":\"read\",\"result\":{{\"streams\":[{features},{labels}]}}}}")
}

const CREATED: &str = "{\"create\":{\"streams\":[{\"name\":\"features\",\"storage\":\"dense\"},\
                       {\"name\":\"labels\",\"storage\":\"dense\"}]}}";
const FAILED: &str = "{\"op\":\"read\",\"result\":{\"error\":\"runtime_error\"}}";

/// Returns the verdict on two outputs of a case, given this library's log.
fn judged(case: &Case, ours: &[&str], messages: &str, cntk: &[&str]) -> String {
    let ours = Output { messages: messages.to_owned(), ..output(ours, End::Done) };
    match compare(case, (HOSTS[0], true), &ours, &output(cntk, End::Done), &|| None) {
        Verdict::Same => "same".to_owned(),
        Verdict::Known(rule, _) => rule.name.to_owned(),
        Verdict::Different(lines) => lines.number.to_string(),
    }
}

#[test]
fn after_a_failure_order_and_grouping_are_excused_and_values_are_not() {
    let case = case("randomize = false", &["start ", "read", "read", "read"]);
    let (both, one, two) = (read(&[("a", 1, 0), ("b", 2, 0)]), read(&[("b", 2, 0)]), read(&[("a", 1, 0)]));
    let of = |ours: [&str; 2], cntk: [&str; 2]| {
        let begun = [CREATED, "s", FAILED];
        judged(&case, &[&begun[..], &ours].concat(), "", &[&begun[..], &cntk].concat())
    };
    assert_eq!(of([&both, &one], [&one, &two]), "after a failure");
    assert_eq!(of([&both, &one], [FAILED, &two]), "after a failure", "CNTK fails more often");
    assert_eq!(of([FAILED, &one], [&one, &two]), "3", "this library fails more often");
    // A wrong value of one key, of either stream.
    for planted in [read(&[("a", 1, 0), ("b", 3, 0)]), read(&[("a", 1, 7), ("b", 2, 0)])] {
        assert_eq!(of([&planted, &one], [&one, &two]), "3");
        assert_eq!(of([&one, &two], [&planted, &one]), "3");
    }
    // Values of keys that only one side delivers may be right.
    assert_eq!(of([&one, &read(&[("c", 9, 9)])], [&both, &one]), "after a failure");
}

#[test]
fn minibatches_after_unequal_lengths_are_excused_and_those_before_are_not() {
    let truncated = case("truncated = true", &["start ", "read", "read"]);
    let text = "For BPTT sequences between different input stream should have the same length.";
    let garbage = read(&[("a", 1, 0), ("498216206433", 2, 0)]);
    let of = |case: &Case, messages: &str, ours: &str| {
        let begun = [CREATED, "s", FAILED];
        judged(case, &[&begun[..], &[ours]].concat(), messages, &[&begun[..], &[&garbage]].concat())
    };
    assert_eq!(of(&truncated, text, FAILED), "unequal lengths");
    assert_eq!(of(&truncated, "another error", FAILED), "3");
    assert_eq!(of(&truncated, text, &read(&[("a", 7, 0)])), "unequal lengths");
    let of_first = |ours: &str| {
        judged(&truncated, &[CREATED, "s", ours, FAILED], text, &[CREATED, "s", &garbage, FAILED])
    };
    assert_eq!(of_first(&read(&[("a", 7, 0)])), "2", "nothing failed before");
    assert_eq!(of(&case("truncated = false", &["start ", "read", "read"]), text, FAILED), "3");
}

#[test]
fn short_labels_excuse_only_labels() {
    let of = |config: &str, ours: &[(&str, u32, u32)], cntk: &[(&str, u32, u32)]| {
        let case = Case { name: format!("5-{SHORT_LABELS}"), ..case(config, &["start ", "read"]) };
        judged(&case, &[CREATED, "s", &read(ours)], "", &[CREATED, "s", &read(cntk)])
    };
    let frame = "frameMode = true";
    assert_eq!(of(frame, &[("a", 1, 0)], &[("a", 1, 0), ("a", 2, 5)]), SHORT);
    assert_eq!(of(frame, &[("a", 1, 4)], &[("a", 1, 0)]), SHORT);
    assert_eq!(of(frame, &[("a", 3, 0)], &[("a", 1, 0), ("a", 2, 5)]), "2", "a wrong feature");
    assert_eq!(of("", &[("a", 1, 0)], &[("a", 1, 0), ("a", 2, 5)]), "2");
}

const SHORT: &str = "short labels";

#[test]
fn a_class_that_is_too_large_has_to_be_the_reason() {
    let config = format!("labels = [ dim = {SMALL_LABELS} ; x ]");
    let case = case(&config, &["start ", "read"]);
    let (ours, cntk) = ([CREATED, "s", FAILED], [CREATED, "s", "{\"streams\":[]}"]);
    let message = "read: Class id '9d' exceeds the model output dimension '6'.";
    assert_eq!(judged(&case, &ours, message, &cntk), "large class");
    assert_eq!(judged(&case, &ours, "read: The file was changed.", &cntk), "2");
}

/// Returns the verdict outside of CNTK.
fn judged_natively(case: &Case, ours: &[&str], messages: &str, cntk: &[&str]) -> String {
    let ours = Output { messages: messages.to_owned(), ..output(ours, End::Done) };
    match compare(case, (HOSTS[0], false), &ours, &output(cntk, End::Done), &|| None) {
        Verdict::Same => "same".to_owned(),
        Verdict::Known(rule, _) => rule.name.to_owned(),
        Verdict::Different(lines) => lines.number.to_string(),
    }
}

#[test]
fn an_unknown_stream_is_an_error_outside_of_cntk_alone() {
    let config = "input = [\n   x = [ dim = 1 ]\n   none = [ alias = \"no such stream\" ] ]";
    let case = case(config, &["start ", "read"]);
    let (ours, cntk) = (["{\"create\":{\"error\":\"runtime_error\"}}"], [CREATED, "s", "1"]);
    let message = "replay: The file has no stream 'no such stream', which is to be delivered as 'none'.";
    assert_eq!(judged_natively(&case, &ours, message, &cntk), "unknown stream");
    assert_eq!(judged_natively(&case, &ours, "replay: The file was changed.", &cntk), "0");
    assert_eq!(judged(&case, &ours, message, &cntk), "0", "in CNTK's place it is opened");
    let rule = RULES.iter().find(|rule| rule.name == "unknown stream").expect("the rule");
    let rest = alone(rule, &case, 0).map(|case| case.config);
    assert_eq!(rest.as_deref(), Some("input = [\n   x = [ dim = 1 ] ]"));
}

#[test]
fn a_sweep_without_a_sequence_has_to_be_the_reason_of_an_error() {
    let case = case("", &["start ", "read", "read"]);
    let ended = "{\"op\":\"read\",\"result\":{\"end_of_sweep\":true,\"end_of_epoch\":false,\"streams\":[]}}";
    let (ours, cntk) = ([CREATED, "s", FAILED, ended], [CREATED, "s", ended, ended]);
    let message =
        "replay: A whole sweep has delivered nothing: all 2 sequences that were read were left out.";
    assert_eq!(judged_natively(&case, &ours, message, &cntk), "nothing delivered");
    assert_eq!(judged_natively(&case, &ours, "replay: The file was changed.", &cntk), "2");
    assert_eq!(judged(&case, &ours, message, &cntk), "2");
    let delivers = [CREATED, "s", &read(&[("a", 1, 0)]), ended];
    assert_eq!(judged_natively(&case, &ours, message, &delivers), "2", "CNTK delivers a sequence");
}

#[test]
fn equal_indices_excuse_dense_values_of_truncated_binary_data() {
    let config = "truncated = true\ntype = \"CNTKBinaryFormatDeserializer\"";
    let of = |config: &str, ours: &[(&str, u32, u32)]| {
        let case = case(config, &["start ", "read"]);
        judged_natively(&case, &[CREATED, "s", &read(ours)], "", &[CREATED, "s", &read(&[("a", 1, 0)])])
    };
    assert_eq!(of(config, &[("a", 3, 0)]), "equal indices");
    assert_eq!(of(config, &[("b", 3, 0)]), "2", "another key");
    assert_eq!(of(config, &[("a", 1, 0), ("b", 3, 0)]), "2", "one more sequence");
    assert_eq!(of("truncated = true", &[("a", 3, 0)]), "2", "text");
    assert_eq!(of(&config.replace("true", "false"), &[("a", 3, 0)]), "2", "whole sequences");
}

/// Returns a case with a map of two members of a container with these members.
fn of_members(config: &str, steps: &[&str], members: &[(&str, &[u8])]) -> Case {
    let members: Vec<_> =
        members.iter().map(|&(name, content)| (name.to_owned(), content.to_vec())).collect();
    let zip = container::zip(&mut Rng::new(1), &members);
    let map = b"a\t.../c.zip@/a.jpg\t0\nb\t.../c.zip@/b.jpg\t0\n".to_vec();
    Case { files: vec![("map.txt".to_owned(), map), ("c.zip".to_owned(), zip)], ..case(config, steps) }
}

#[test]
fn unread_members_may_be_missing() {
    let config = "maxErrors = 1\ntype = \"ImageDeserializer\"";
    let of = |members: &[(&str, &[u8])], messages: &str, ours: &str, is_module| {
        let case = of_members(config, &["start "], members);
        let cntk = Output {
            messages: messages.to_owned(),
            ..output(&["{\"create\":{\"error\":\"runtime_error\"}}"], End::Done)
        };
        match compare(&case, (HOSTS[0], is_module), &output(&[ours], End::Done), &cntk, &|| None) {
            Verdict::Known(rule, _) => rule.name.to_owned(),
            _ => "different".to_owned(),
        }
    };
    let (one, both) = ([("a.jpg", &b"x"[..])], [("a.jpg", &b"x"[..]), ("b.jpg", b"y")]);
    let missing = "Sequence b.jpg is not found in container c.zip.";
    assert_eq!(of(&one, missing, CREATED, false), "left out images");
    assert_eq!(of(&both, missing, CREATED, false), "different", "it is not missing");
    assert_eq!(of(&one, "Another error.", CREATED, false), "different");
    assert_eq!(of(&one, missing, CREATED, true), "different", "in CNTK's place");
    let failed = "{\"create\":{\"error\":\"logic_error\"}}";
    assert_eq!(of(&one, missing, failed, false), "different", "another error here");
    let rule = RULES.iter().find(|rule| rule.name == "left out images").expect("the rule");
    let rest = alone(rule, &of_members(config, &[], &one), 0).expect("a line is left");
    assert_eq!(rest.files[0].1, b"a\t.../c.zip@/a.jpg\t0\n");
    assert!(alone(rule, &of_members(config, &[], &one), 2).is_none(), "what was opened is compared");
}

#[test]
fn cut_images_excuse_their_own_values_alone() {
    let (whole, cut) = (&b"\xff\xd8x\xff\xd9"[..], &b"\xff\xd8x"[..]);
    let of = |config: &str, second, ours: &[(&str, u32, u32)]| {
        let case = of_members(config, &["start ", "read"], &[("a.jpg", whole), ("b.jpg", second)]);
        judged(&case, &[CREATED, "s", &read(ours)], "", &[CREATED, "s", &read(&[("a", 1, 0), ("b", 2, 0)])])
    };
    assert_eq!(of("", cut, &[("a", 1, 0), ("b", 9, 0)]), "cut images");
    assert_eq!(of("", cut, &[("a", 9, 0), ("b", 2, 0)]), "2", "the value of another image");
    assert_eq!(of("", cut, &[("a", 9, 0), ("b", 9, 0)]), "2", "the value of another image as well");
    assert_eq!(of("", cut, &[("a", 1, 0), ("c", 2, 0)]), "2", "another key");
    assert_eq!(of("", cut, &[("b", 9, 0), ("a", 1, 0)]), "2", "another order");
    assert_eq!(of("", whole, &[("a", 1, 0), ("b", 9, 0)]), "2", "a whole image");
    assert_eq!(of("truncated = true", cut, &[("a", 1, 0), ("b", 9, 0)]), "2");
    // In the rest, the container has no other image.
    let first = of_members("", &["start ", "read"], &[("a.jpg", whole), ("b.jpg", cut)]);
    let rule = RULES.iter().find(|rule| rule.name == "cut images").expect("the rule");
    let rest = alone(rule, &first, 2).expect("the other image has moved");
    let (ours, cntk) = (read(&[("a", 1, 0), ("b", 9, 0)]), read(&[("a", 1, 0), ("b", 2, 0)]));
    assert_eq!(judged(&rest, &[CREATED, "s", &ours], "", &[CREATED, "s", &cntk]), "2");
}

#[test]
fn long_runs_and_narrow_samples_have_to_be_in_the_files() {
    let long = b"MLF\x01\0\x01\0\0\0\x03\0\0\0\x01\0\x05\0\x03\0\x02\0\0\0\x01\0\0\0\x01\0\x05\0\x02\0";
    let message = "The runs of an utterance have 2 frames or more, the utterance has 1.";
    let of = |labels: &[u8], message: &str, ours: &str| {
        let case = case("", &["start ", "read"]);
        let case = Case { files: vec![("l.bin".to_owned(), labels.to_vec())], ..case };
        judged(&case, &[CREATED, "s", ours], message, &[CREATED, "s", &read(&[("a", 1, 0)])])
    };
    assert_eq!(of(long, message, FAILED), "long runs");
    assert_eq!(of(&long[..23], message, FAILED), "2", "no utterance has long runs");
    assert_eq!(of(long, "The file was changed.", FAILED), "2");
    assert_eq!(of(long, message, &read(&[("a", 2, 0)])), "2", "a wrong value");

    let message = "HTKDeserializer: 'dim' is smaller than the dimension of the input features.";
    let of = |dim: u32, message: &str| {
        let entries = format!("scpFile = \"@DIR@/a.scp\" ; dim = {dim} ; contextWindow = 1:2");
        let header = vec![0, 0, 0, 9, 0, 3, 13, 64, 0, 12, 0, 9];
        let files = vec![("a.scp".to_owned(), b"u=a0.mfc[0,1]".to_vec()), ("a0.mfc".to_owned(), header)];
        let case = Case { files, ..case(&format!("[ {entries} ]"), &["start "]) };
        judged(&case, &["{\"create\":{\"error\":\"runtime_error\"}}"], message, &[CREATED, "s"])
    };
    assert_eq!(of(2, message), "narrow samples");
    assert_eq!(of(3, message), "0", "the frames are as wide");
    assert_eq!(of(2, "The file was changed."), "0");
}

#[test]
fn images_are_left_out_outside_of_cntk_alone() {
    let case = case("maxErrors = 1\ntype = \"ImageDeserializer\"", &["start ", "read"]);
    let (ours, cntk) = (read(&[("a", 1, 0)]), [CREATED, "s", FAILED]);
    let message = "WARNING: The image is left out, and counts against the reader's 'maxErrors'. Fix it.";
    assert_eq!(judged_natively(&case, &[CREATED, "s", &ours], message, &cntk), "left out images");
    assert_eq!(judged_natively(&case, &[CREATED, "s", &ours], "", &cntk), "2");
    assert_eq!(judged(&case, &[CREATED, "s", &ours], message, &cntk), "2");
}

#[test]
fn only_several_deserializers_have_a_first_error() {
    let (ours, cntk) = ("{\"create\":{\"error\":\"invalid_argument\"}}", FAILED);
    let of = |config: &str| judged(&case(config, &["start "]), &[ours], "", &[cntk]);
    assert_eq!(of("module = \"a\"\nmodule = \"b\""), "first error");
    assert_eq!(of("module = \"a\""), "0");
}

#[test]
fn steps_after_a_crash_or_lost_chunks_are_compared_on_their_own() {
    let rule = |name: &str| RULES.iter().find(|rule| rule.name == name).expect("a rule");
    let rest =
        |steps: &[&str], line| alone(rule("crash"), &case("", steps), line).map(|case| case.steps.join(","));
    let steps = ["start a", "read", "read", "state", "start b", "read"];
    assert_eq!(rest(&steps, 2).as_deref(), Some("start b,read"));
    assert_eq!(rest(&steps[..4], 2).as_deref(), Some("start a,read,state"));
    assert_eq!(rest(&steps, 0), None, "it crashes while it opens");
    assert_eq!(rest(&steps, 6), None, "nothing is left");
    assert_eq!(rest(&["start a", "read", "state"], 2), None, "nothing is read");
    let lost = |config: &str| alone(rule("lost chunks"), &case(config, &steps), 2).map(|case| case.config);
    assert_eq!(lost("x\nrandomize = false\ny").as_deref(), Some("x\nrandomize = true\ny"));
    assert_eq!(lost("randomize = true"), None);
    assert!(alone(rule("seed"), &case("", &steps), 2).is_none());
}

#[test]
fn cut_images_in_containers_may_race() {
    let images = case("type = \"ImageDeserializer\"", &[]);
    assert!(!can_race(&images));
    assert!(can_race(&Case { files: vec![("c.zip".to_owned(), Vec::new())], ..images }));
}

#[test]
fn races_are_of_known_inputs_and_show_twice() {
    let of = |deserializers: &str| can_race(&case(deserializers, &[]));
    assert!(!of("type = \"CNTKTextFormatDeserializer\""));
    assert!(of("type = \"CNTKBinaryFormatDeserializer\""));
    assert!(of("type = \"CNTKTextFormatDeserializer\" type = \"CNTKTextFormatDeserializer\""));
    assert!(of("type = \"HTKFeatureDeserializer\""));
    assert!(of("type = \"Ramp\" ; module = \"a\" type = \"CNTKTextFormatDeserializer\" ; module = \"b\""));
    let outputs = |lines: &[&str]| -> Vec<Output> {
        let output = |line: &&str| output(&["c", line], End::Done);
        lines.iter().map(output).collect()
    };
    assert!(is_race(&outputs(&["a", "a", "b", "a", "b"]), 1));
    assert!(is_race(&outputs(&["a", "b", "c", "a", "a"]), 1));
    assert!(!is_race(&outputs(&["a", "a", "b", "a", "a"]), 1));
    assert!(!is_race(&outputs(&["a", "b", "c", "d", "e"]), 0), "all the same up to that line");
}

#[test]
fn late_errors_of_cntk_are_known_differences() {
    let error = "{\"error\":\"logic_error\"}";
    // CNTK opens a case that is refused here, and crashes in the next step, not later.
    let steps = ["start ", "read"];
    assert_eq!(verdict("", &steps, &[error], &["c"], End::Crashed(8)), "crash");
    assert_eq!(verdict("", &steps, &[error], &["c"], End::Done), "0");
    assert_eq!(verdict("", &steps, &[error], &["c", "s"], End::Crashed(8)), "0");
    // It does not open scripts in which each key is repeated.
    let opened = |script: &str| {
        let files = vec![("a.scp".to_owned(), script.as_bytes().to_vec())];
        let (ours, cntk) = (output(&[error], End::Done), output(&[], End::Crashed(11)));
        compare(&Case { files, ..case("", &steps) }, (HOSTS[0], true), &ours, &cntk, &|| None)
    };
    assert!(matches!(opened("u.a=x[0,1]\nu.b=x[2,3]\n"), Verdict::Known(rule, _) if rule.name == "crash"));
    assert!(matches!(opened("u.a=x[0,1]\nv.b=x[2,3]\n"), Verdict::Different(Lines { number: 0, .. })));
    // CNTK skips a chunk when it moves, but counts its errors.
    let (steps, ours, cntk) = (["start ", "read"], ["c", "s", "1"], ["c", "s", error]);
    let config = |errors: &str| format!("randomize = true\n[ file = \"x\" ; maxErrors = {errors} ; ]");
    assert_eq!(verdict(&config("3"), &steps, &ours, &cntk, End::Done), "passed chunks");
    assert_eq!(verdict(&config("0"), &steps, &ours, &cntk, End::Done), "2");
    // CNTK delivers gaps if there are only empty sequences.
    let (ours, cntk) = (["c", "s", error], ["c", "s", "{\"keys\":[]}"]);
    assert_eq!(verdict("truncated = true", &steps, &ours, &cntk, End::Done), "gaps");
    assert_eq!(verdict("truncated = false", &steps, &ours, &cntk, End::Done), "2");
}
