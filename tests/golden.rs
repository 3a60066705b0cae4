//! Compares the output of this library through its C ABI with records of CNTK 2.7's output.
//!
//! The records are in `tests/golden/`, whose README explains their format. Values are compared bit
//! by bit.

#[path = "golden/check.rs"]
mod check;
mod common;
#[path = "golden/driver.rs"]
mod driver;
#[path = "golden/unpack.rs"]
mod unpack;

use check::{join, list_of, run_steps, start, text_of};
use driver::{Columns, Driver};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use unpack::unpack;

#[test]
fn bad() {
    group("bad");
}

#[test]
fn bptt() {
    group("bptt");
}

#[test]
fn bundle() {
    group("bundle");
}

#[test]
fn cbf() {
    group("cbf");
}

#[test]
fn checkpoint() {
    group("checkpoint");
}

#[test]
fn ctf_numbers() {
    group("ctf-numbers");
}

#[test]
fn ctf_seq() {
    group("ctf-seq");
}

#[test]
fn ctf_text() {
    group("ctf-text");
}

#[test]
fn empty() {
    group("empty");
}

#[test]
fn epoch() {
    group("epoch");
}

#[test]
fn frame() {
    group("frame");
}

#[test]
fn htk() {
    group("htk");
}

#[test]
fn image() {
    group("image");
}

#[test]
fn norand() {
    group("norand");
}

#[test]
fn rand() {
    group("rand");
}

#[test]
fn reconfigure() {
    group("reconfigure");
}

/// Every file of records has a test above.
#[test]
fn every_group_has_a_test() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(records()).expect("the folder of records") {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            names.push(path.file_stem().expect("a file name").to_string_lossy().into_owned());
        }
    }
    names.sort();
    let tested = [
        "bad",
        "bptt",
        "bundle",
        "cbf",
        "checkpoint",
        "ctf-numbers",
        "ctf-seq",
        "ctf-text",
        "empty",
        "epoch",
        "frame",
        "htk",
        "image",
        "norand",
        "rand",
        "reconfigure",
    ];
    assert_eq!(names, tested);
}

fn records() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Runs all cases of a file and reports every difference.
fn group(name: &str) {
    common::quiet();
    let text = std::fs::read_to_string(records().join(format!("{name}.json"))).expect("a file of records");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("records in JSON");
    let mixed = std::fs::read_to_string(records().join("mixed-channels.txt")).expect("a list of cases");
    let mut failures = String::new();
    let mut failed = 0;
    for case in &cases {
        let is_mixed = mixed.lines().any(|name| case["name"] == name);
        let outcome = if is_mixed { run_mixed(case) } else { run(case) };
        if let Err(difference) = outcome {
            failed += 1;
            writeln!(failures, "{}: {difference}", text_of(&case["name"])).expect("writing to a string");
        }
    }
    assert!(failed == 0, "{failed} of {} cases differ:\n{failures}", cases.len());
}

/// Runs a case in which CNTK mixes up the channels of images, while this library delivers the
/// requested channels. Only the pixels may differ.
fn run_mixed(case: &Value) -> Result<(), String> {
    if run(case).is_ok() {
        return Err("no difference: remove the case from mixed-channels.txt".to_owned());
    }
    let mut case = case.clone();
    for step in case["steps"].as_array_mut().expect("an array") {
        let Some(streams) = step["result"]["streams"].as_array_mut() else { continue };
        for stream in streams.iter_mut().filter(|stream| list_of(&stream["shape"]).len() == 3) {
            for column in stream["dense"].as_array_mut().expect("dense pixels") {
                // `check_column` then only compares the number of values.
                if let Value::Array(values) = column {
                    *column = values.len().into();
                }
            }
        }
    }
    run(&case)
}

/// Unpacks a case and runs its steps. Returns a description of the first difference.
fn run(case: &Value) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    run_steps(case, &unpack(case, folder.path()))
}

/// The bits of `x` were recorded from CNTK 2.7. The numbers of `s` are read by the same parser.
#[test]
fn signs_that_the_records_lack() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|x -0 -0.0 0 -1e-400 0e400 |s 0:-0 1:5 2:0\n").expect("writing data");
    let config = format!(
        "randomize = false\ndeserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\n\
         module = \"CNTKTextFormatReader\"\nfile = \"{}\"\n\
         input = [\nx = [ dim = 5 ; format = \"dense\" ]\ns = [ dim = 3 ; format = \"sparse\" ]\n]\n])\n",
        file.display()
    );
    let mut driver = Driver::open(&config).expect("a reader");
    driver.start(&start(&["1", "0", "1", "0", "0", "1"])).expect("an epoch");
    let batch = driver.read().expect("a minibatch");
    let Columns::Sparse { values, .. } = &batch.streams[0].columns else { panic!("s is sparse") };
    assert_eq!(values, &[0x8000_0000, 0x40a0_0000, 0], "s");
    let Columns::Dense(columns) = &batch.streams[1].columns else { panic!("x is dense") };
    assert_eq!(columns[0].values, [0x8000_0000, 0x8000_0000, 0, 0x8000_0000, 0xffc0_0000], "x");
}

/// The place of the error in a `bad-*` case: always on the second line, in the sequence with key 1.
struct Expected {
    /// The part of the name after `bad-`.
    name: &'static str,
    /// The stream of the first error, if it has one.
    stream: Option<&'static str>,
    /// The offending text of the first error.
    token: &'static str,
    /// The stream that is left without a sample, which is an error whatever `maxErrors` is.
    empty: Option<&'static str>,
}

const fn expect(
    name: &'static str,
    stream: Option<&'static str>,
    token: &'static str,
    empty: Option<&'static str>,
) -> Expected {
    Expected { name, stream, token, empty }
}

const X: Option<&str> = Some("x");
const Y: Option<&str> = Some("y");

const PLACES: [Expected; 21] = [
    expect("comma", X, "1,2,3", X),
    expect("dangling", None, "|\n", None),
    expect("dot-exp", X, "2.e3", X),
    expect("empty-sparse-value", Y, "1:\n", Y),
    expect("exp-no-digits", X, "1e ", X),
    expect("garbage", None, "hello", X),
    expect("hex", X, "0x10", X),
    expect("index-negative", Y, "-1:1", Y),
    expect("index-too-big", Y, "8:1", Y),
    expect("junk-before", X, "junk", X),
    expect("leading-dot", X, ".5", X),
    expect("missing-input", Y, "|x 1 2 3\n", Y),
    expect("nan", X, "nan", X),
    expect("no-colon", Y, "1 2\n", Y),
    expect("nul", None, "3 ", None),
    expect("space-after-pipe", None, "| x", X),
    expect("space-around-colon", Y, "1 : 2", Y),
    expect("too-many-dense", X, "1 2 3 4 |", X),
    expect("twice", X, "|x 1 2 3 |x 4 5 6 |y 1:1\n", None),
    expect("two-dots", X, "1.2.3", X),
    expect("word", X, "two", X),
];

/// Every error in the data has a location.
#[test]
fn bad_cases_name_the_place() {
    common::quiet();
    let text = std::fs::read_to_string(records().join("bad.json")).expect("a file of records");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("records in JSON");
    let mut failures = String::new();
    let mut errors = 0;
    for case in &cases {
        if !list_of(&case["steps"]).iter().any(|step| step["result"]["error"].is_string()) {
            continue;
        }
        errors += 1;
        if let Err(what) = check_place(case) {
            writeln!(failures, "{}: {what}", text_of(&case["name"])).expect("writing to a string");
        }
    }
    assert_eq!(errors, 57, "cases that end in an error");
    assert!(failures.is_empty(), "wrong places:\n{failures}");
}

fn check_place(case: &Value) -> Result<(), String> {
    let (name, tolerated) = text_of(&case["name"])["bad-".len()..].rsplit_once("-e").expect("bad-NAME-eN");
    let expected = PLACES.iter().find(|place| place.name == name).ok_or("no expected place")?;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = join(&case["files"][0]["lines"]);
    let path = folder.path().join("data.ctf");
    std::fs::write(&path, &data).expect("writing the data of a case");
    let config = join(&case["config"]).replace("@DIR@", folder.path().to_str().expect("a UTF-8 path"));
    let mut driver = Driver::open(&config).map_err(|failure| failure.to_string())?;
    let words: Vec<&str> = text_of(&case["steps"][0]["op"]).split(' ').skip(1).collect();
    driver.start(&start(&words)).map_err(|failure| failure.to_string())?;
    let failure = driver.read().err().ok_or("no error")?;
    let place = &failure.place;
    let wrong = |what: &str| Err(format!("{what}: {failure}"));

    if place.file.as_deref() != path.to_str() {
        return wrong("file");
    }
    if place.line != Some(2) {
        return wrong("line");
    }
    if place.key.as_deref() != Some("1") {
        return wrong("key");
    }
    // The line from its first byte to the first byte of the next one.
    let begin = data.find('\n').expect("a first line") as u64 + 1;
    let end = begin + data[begin as usize..].find('\n').expect("a second line") as u64 + 1;
    let token =
        begin + data[begin as usize..end as usize].rfind(expected.token).ok_or("no such token")? as u64;
    // Tolerated errors leave a stream without samples, which is fatal. Either may be named: the
    // error, because CNTK retries until there is one too many, or the stream, because it is the
    // final cause.
    let mut places = vec![(expected.stream, token, token + expected.token.len() as u64)];
    if tolerated != "0" {
        places.push((expected.empty, begin, end));
    }
    let fits = |&(stream, from, to): &(Option<&str>, u64, u64)| {
        place.stream.as_deref() == stream && place.offset.is_some_and(|offset| (from..=to).contains(&offset))
    };
    if places.iter().any(fits) { Ok(()) } else { wrong(&format!("stream or offset is none of {places:?}")) }
}
