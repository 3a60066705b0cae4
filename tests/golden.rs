//! Compares what this library delivers through its C ABI with records of what CNTK 2.7 delivered.
//!
//! The records are in `tests/golden/`, whose README explains their format. Values are compared bit by bit.

mod common;
#[path = "golden/driver.rs"]
mod driver;

use driver::{Batch, Column, Columns, Driver, Failure, Start, StreamBatch, StreamDescription};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

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

/// No file of records is left out above.
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
        "norand",
        "rand",
        "reconfigure",
    ];
    assert_eq!(names, tested);
}

fn records() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Runs all cases of a file and reports every one that differs.
fn group(name: &str) {
    common::quiet();
    let text = std::fs::read_to_string(records().join(format!("{name}.json"))).expect("a file of records");
    let cases: Vec<Value> = serde_json::from_str(&text).expect("records in JSON");
    let mut failures = String::new();
    let mut failed = 0;
    for case in &cases {
        if let Err(difference) = run(case) {
            failed += 1;
            writeln!(failures, "{}: {difference}", text_of(&case["name"])).expect("writing to a string");
        }
    }
    assert!(failed == 0, "{failed} of {} cases differ:\n{failures}", cases.len());
}

fn text_of(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn list_of(value: &Value) -> &Vec<Value> {
    value.as_array().expect("an array")
}

fn number_of(value: &Value) -> u64 {
    value.as_u64().expect("a number that is not negative")
}

/// Unpacks a case and runs its steps. Returns a description of the first difference.
fn run(case: &Value) -> Result<(), String> {
    let name = text_of(&case["name"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in list_of(&case["files"]) {
        let content = match &file["hex"] {
            Value::String(hex) => unhex(hex),
            _ => join(&file["lines"]).into_bytes(),
        };
        std::fs::write(folder.path().join(text_of(&file["name"])), content)
            .expect("writing the data of a case");
    }
    let config = join(&case["config"]).replace("@DIR@", folder.path().to_str().expect("a UTF-8 path"));

    let mut driver = match (Driver::open(&config), &case["create"]["error"]) {
        (Ok(driver), Value::Null) => driver,
        (Err(failure), Value::String(class)) => {
            return check_failure(&failure, class).map_err(|what| format!("create: {what}"));
        }
        (Ok(_), Value::String(class)) => return Err(format!("create: no error, CNTK {class}")),
        (Err(failure), _) => return Err(format!("create: {failure}")),
        (_, other) => panic!("{name}: malformed record: {other}"),
    };
    let streams = driver.streams();
    check_streams(&streams, &case["create"]["streams"]).map_err(|what| format!("create: {what}"))?;

    for (number, step) in list_of(&case["steps"]).iter().enumerate() {
        let op = text_of(&step["op"]);
        let outcome = take(&mut driver, &streams, op, &step["result"]);
        outcome.map_err(|what| format!("step {number} ({op}): {what}"))?;
    }
    Ok(())
}

fn join(lines: &Value) -> String {
    list_of(lines).iter().map(text_of).collect::<Vec<_>>().join("\n")
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Takes one step and compares its result.
fn take(
    driver: &mut Driver,
    streams: &[StreamDescription],
    op: &str,
    recorded: &Value,
) -> Result<(), String> {
    let mut words = op.split(' ');
    let kind = words.next().expect("a step");
    let words: Vec<&str> = words.collect();
    let class = recorded["error"].as_str();
    match kind {
        "start" => without_data(driver.start(&start(&words)), class),
        "config" => without_data(driver.configure(&start(&words)), class),
        "restore" => {
            let state: Vec<(&str, u64)> = words.chunks(2).map(|pair| (pair[0], parse(pair[1]))).collect();
            without_data(driver.set_state(&state), class)
        }
        "state" => {
            let wanted: BTreeMap<String, u64> = recorded["state"]
                .as_object()
                .expect("a state")
                .iter()
                .map(|(key, value)| (key.clone(), number_of(value)))
                .collect();
            let got = driver.state().map_err(|failure| failure.to_string())?;
            if got == wanted { Ok(()) } else { Err(format!("state is {got:?}, CNTK's {wanted:?}")) }
        }
        "read" => match (driver.read(), class) {
            (Ok(batch), None) => check_batch(&batch, streams, recorded),
            (Ok(_), Some(class)) => Err(format!("no error, CNTK {class}")),
            (Err(failure), Some(class)) => check_failure(&failure, class),
            (Err(failure), None) => Err(failure.to_string()),
        },
        other => panic!("unknown step {other}"),
    }
}

fn parse(word: &str) -> u64 {
    word.parse().expect("a number in a step")
}

/// The words after `start` and `config`; the latter has only the first six.
fn start(words: &[&str]) -> Start {
    Start {
        workers: parse(words[0]),
        rank: parse(words[1]),
        minibatch: parse(words[2]),
        truncation: parse(words[3]),
        right_splice: parse(words[4]),
        cross_sweeps: words[5] == "1",
        samples: match words.get(6) {
            None | Some(&"inf") => u64::MAX >> 1,
            Some(&"sweep") => u64::MAX >> 2,
            Some(number) => parse(number),
        },
        sweeps: match words.get(7) {
            None | Some(&"inf") => u64::MAX,
            Some(number) => parse(number),
        },
        index: words.get(8).map_or(0, |word| parse(word)),
    }
}

fn without_data(outcome: Result<(), Failure>, class: Option<&str>) -> Result<(), String> {
    match (outcome, class) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(class)) => Err(format!("no error, CNTK {class}")),
        (Err(failure), Some(class)) => check_failure(&failure, class),
        (Err(failure), None) => Err(failure.to_string()),
    }
}

fn check_failure(failure: &Failure, class: &str) -> Result<(), String> {
    if failure.class == class { Ok(()) } else { Err(format!("{failure}, CNTK {class}")) }
}

fn check_streams(streams: &[StreamDescription], recorded: &Value) -> Result<(), String> {
    let recorded = list_of(recorded);
    if streams.len() != recorded.len() {
        return Err(format!("{} streams, CNTK has {}", streams.len(), recorded.len()));
    }
    for (number, (stream, recorded)) in streams.iter().zip(recorded).enumerate() {
        let wanted = StreamDescription {
            name: text_of(&recorded["name"]).to_owned(),
            id: number_of(&recorded["id"]),
            sparse: text_of(&recorded["storage"]) == "sparse_csc",
            double: text_of(&recorded["element"]) == "double",
            shape: list_of(&recorded["shape"]).iter().map(number_of).collect(),
            defines_mb_size: recorded["defines_mb_size"] == true,
        };
        if *stream != wanted {
            return Err(format!("stream {number} is {stream:?}, CNTK's {wanted:?}"));
        }
    }
    Ok(())
}

/// Compares two things and names them if they differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what} is {got:?}, CNTK's {wanted:?}")) }
}

fn check_batch(batch: &Batch, streams: &[StreamDescription], recorded: &Value) -> Result<(), String> {
    same("end_of_sweep", batch.end_of_sweep, recorded["end_of_sweep"] == true)?;
    same("end_of_epoch", batch.end_of_epoch, recorded["end_of_epoch"] == true)?;
    let recorded = list_of(&recorded["streams"]);
    same("number of streams", batch.streams.len(), recorded.len())?;
    for ((stream, recorded), description) in batch.streams.iter().zip(recorded).zip(streams) {
        check_stream(stream, description, recorded)
            .map_err(|what| format!("stream {}: {what}", description.name))?;
    }
    Ok(())
}

fn check_stream(
    stream: &StreamBatch,
    description: &StreamDescription,
    recorded: &Value,
) -> Result<(), String> {
    same("num_time_steps", stream.steps, number_of(&recorded["num_time_steps"]))?;
    same("num_parallel", stream.rows, number_of(&recorded["num_parallel"]))?;
    let signed = |value: &Value| value.as_i64().expect("a whole number");
    let sequences: Vec<[i64; 4]> = list_of(&recorded["sequences"])
        .iter()
        .map(|record| std::array::from_fn(|part| signed(&record[part])))
        .collect();
    same("sequences", &stream.records, &sequences)?;
    let keys: Vec<&str> = list_of(&recorded["keys"]).iter().map(text_of).collect();
    same("keys", stream.keys.iter().map(String::as_str).collect(), keys)?;
    let shape: Vec<u64> = list_of(&recorded["shape"]).iter().map(number_of).collect();
    same("shape", &description.shape, &shape)?;

    match (&stream.columns, &recorded["dense"]) {
        (Columns::Dense(columns), Value::Array(recorded)) => {
            same("number of columns", columns.len(), recorded.len())?;
            for (number, (column, recorded)) in columns.iter().zip(recorded).enumerate() {
                check_column(column, recorded, description.double)
                    .map_err(|what| format!("column {number}: {what}"))?;
            }
            Ok(())
        }
        (Columns::Sparse { values, rows, starts }, Value::Null) => {
            let whole = |name: &str| list_of(&recorded[name]).iter().map(signed).collect::<Vec<_>>();
            same("nnz", values.len() as u64, number_of(&recorded["nnz"]))?;
            same("rows", rows.iter().map(|&row| i64::from(row)).collect(), whole("rows"))?;
            same("cols", starts.iter().map(|&start| i64::from(start)).collect(), whole("cols"))?;
            check_values(values, list_of(&recorded["values"]), description.double)
        }
        (Columns::Dense(_), _) => Err("dense, CNTK's is sparse".to_owned()),
        (Columns::Sparse { .. }, _) => Err("sparse, CNTK's is dense".to_owned()),
    }
}

/// CNTK leaves the columns of gaps undefined; this library fills them with zeros.
fn check_column(column: &Column, recorded: &Value, double: bool) -> Result<(), String> {
    match recorded {
        Value::Null if column.gap => same("a gap's content", &column.values, &vec![0; column.values.len()]),
        Value::Null => Err("data, CNTK has a gap".to_owned()),
        _ if column.gap => Err("a gap, CNTK has data".to_owned()),
        _ => check_values(&column.values, list_of(recorded), double),
    }
}

fn check_values(values: &[u64], recorded: &[Value], double: bool) -> Result<(), String> {
    same("number of values", values.len(), recorded.len())?;
    for (number, (&bits, recorded)) in values.iter().zip(recorded).enumerate() {
        let value = if double { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) };
        // The records lack the sign of a zero and of a NaN; `signs_that_the_records_lack` checks those.
        let is_zero = value == 0.0 && recorded.as_u64() == Some(0);
        if is_zero || value.is_nan() && recorded == "nan" {
            continue;
        }
        let wanted = bits_of(recorded, double);
        if bits != wanted {
            return Err(format!("value {number} is {value:?} ({bits:#x}), CNTK's {recorded} ({wanted:#x})"));
        }
    }
    Ok(())
}

/// The bits that a recorded value stands for.
///
/// Floats are recorded with 9 digits, and conversion through `f64` yields the same `f32` as direct conversion:
/// the digits lie within a third of the way from the float they were printed from to the nearest point where rounding
/// would turn to its neighbour (9 digits are that much finer than 24 bits), and rounding to 53 bits first moves them
/// by less than 2^-28 of that way.
fn bits_of(recorded: &Value, double: bool) -> u64 {
    let value = match recorded {
        Value::Number(number) => number.as_f64().expect("a finite number"),
        Value::String(text) if text == "inf" => f64::INFINITY,
        Value::String(text) if text == "-inf" => f64::NEG_INFINITY,
        Value::String(text) if text == "nan" => f64::NAN,
        other => panic!("malformed value {other}"),
    };
    if double { value.to_bits() } else { u64::from((value as f32).to_bits()) }
}

/// The bits of `x` are recorded from CNTK 2.7. The numbers of `s` are read by the same parser.
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

/// Where an error of a `bad-*` case lies: all of them are on the second line, in the sequence with key 1.
struct Expected {
    /// The part of the name after `bad-`.
    name: &'static str,
    /// The stream of the first error, if it has one.
    stream: Option<&'static str>,
    /// The offending text of the first error.
    token: &'static str,
    /// The stream that stays without a sample, which is an error whatever `maxErrors` is.
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

/// Every error in the data names its location.
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
    // The line from its first byte to the first of the next one.
    let begin = data.find('\n').expect("a first line") as u64 + 1;
    let end = begin + data[begin as usize..].find('\n').expect("a second line") as u64 + 1;
    let token =
        begin + data[begin as usize..end as usize].rfind(expected.token).ok_or("no such token")? as u64;
    // Tolerated errors leave a stream without samples, which is fatal. Either may be named: the error, because CNTK
    // tries again and again until it is one too many; the stream, because that is what is wrong in the end.
    let mut places = vec![(expected.stream, token, token + expected.token.len() as u64)];
    if tolerated != "0" {
        places.push((expected.empty, begin, end));
    }
    let fits = |&(stream, from, to): &(Option<&str>, u64, u64)| {
        place.stream.as_deref() == stream && place.offset.is_some_and(|offset| (from..=to).contains(&offset))
    };
    if places.iter().any(fits) { Ok(()) } else { wrong(&format!("stream or offset is none of {places:?}")) }
}
