//! Compares the library's output through its C ABI with a record of CNTK's output, step by step and
//! bit by bit.

use super::driver::{Batch, Column, Columns, Driver, Failure, Start, StreamBatch, StreamDescription};
use serde_json::Value;
use std::collections::BTreeMap;

/// Opens a case's reader with `config` and runs its steps. Returns a description of the first
/// difference.
pub fn run_steps(case: &Value, config: &str) -> Result<(), String> {
    let mut driver = match (Driver::open(config), &case["create"]["error"]) {
        (Ok(driver), Value::Null) => driver,
        (Err(failure), _) => {
            return check_failure(&failure, &case["create"]).map_err(|what| format!("create: {what}"));
        }
        (Ok(_), _) => return Err(format!("create: no error, CNTK {}", case["create"])),
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

pub fn text_of(value: &Value) -> &str {
    value.as_str().expect("a string")
}

pub fn list_of(value: &Value) -> &Vec<Value> {
    value.as_array().expect("an array")
}

pub fn number_of(value: &Value) -> u64 {
    value.as_u64().expect("a number that is not negative")
}

pub fn join(lines: &Value) -> String {
    list_of(lines).iter().map(text_of).collect::<Vec<_>>().join("\n")
}

/// Takes one step and compares its result.
pub fn take(
    driver: &mut Driver,
    streams: &[StreamDescription],
    op: &str,
    recorded: &Value,
) -> Result<(), String> {
    let mut words = op.split(' ');
    let kind = words.next().expect("a step");
    let words: Vec<&str> = words.collect();
    match kind {
        "start" => without_data(driver.start(&start(&words)), recorded),
        "config" => without_data(driver.configure(&start(&words)), recorded),
        "restore" => {
            let state: Vec<(&str, u64)> = words.chunks(2).map(|pair| (pair[0], parse(pair[1]))).collect();
            without_data(driver.set_state(&state), recorded)
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
        "read" => match (driver.read(), &recorded["error"]) {
            (Ok(batch), Value::Null) => check_batch(&batch, streams, recorded),
            (Ok(_), _) => Err(format!("no error, CNTK {recorded}")),
            (Err(failure), _) => check_failure(&failure, recorded),
        },
        other => panic!("unknown step {other}"),
    }
}

pub fn parse(word: &str) -> u64 {
    word.parse().expect("a number in a step")
}

/// Parses the words after `start` and `config`; the latter has only the first six.
pub fn start(words: &[&str]) -> Start {
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

pub fn without_data(outcome: Result<(), Failure>, recorded: &Value) -> Result<(), String> {
    match (outcome, &recorded["error"]) {
        (Ok(()), Value::Null) => Ok(()),
        (Ok(()), _) => Err(format!("no error, CNTK {recorded}")),
        (Err(failure), _) => check_failure(&failure, recorded),
    }
}

/// Compares the class of an error, and its message if that was recorded.
pub fn check_failure(failure: &Failure, recorded: &Value) -> Result<(), String> {
    let is_class = recorded["error"].as_str() == Some(failure.class);
    let is_message = recorded["message"].as_str().is_none_or(|message| message == failure.message);
    if is_class && is_message { Ok(()) } else { Err(format!("{failure}, CNTK {recorded}")) }
}

pub fn check_streams(streams: &[StreamDescription], recorded: &Value) -> Result<(), String> {
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
            binary: recorded["is_binary"] == true,
        };
        if *stream != wanted {
            return Err(format!("stream {number} is {stream:?}, CNTK's {wanted:?}"));
        }
    }
    Ok(())
}

/// Compares two values and describes them if they differ.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what} is {got:?}, CNTK's {wanted:?}")) }
}

pub fn check_batch(batch: &Batch, streams: &[StreamDescription], recorded: &Value) -> Result<(), String> {
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

pub fn check_stream(
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
    // CNTK has no keys for readers of legacy sections.
    if let Value::Array(keys) = &recorded["keys"] {
        let keys = keys.iter().map(text_of).collect();
        same("keys", stream.keys.iter().map(String::as_str).collect::<Vec<_>>(), keys)?;
    }
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
        // For the largest minibatches, only the layout is recorded.
        (Columns::Dense(_), Value::Null) if recorded["nnz"].is_null() => Ok(()),
        (Columns::Binary(sequences), Value::Null) => {
            let recorded = list_of(&recorded["binary"]);
            let wanted = recorded.iter().map(|words| list_of(words).iter().map(number_of).collect());
            same("words", sequences, &wanted.collect::<Vec<Vec<u64>>>())
        }
        (Columns::Binary(_), _) => Err("binary, CNTK's is dense".to_owned()),
        (Columns::Dense(_), _) => Err("dense, CNTK's is sparse".to_owned()),
        (Columns::Sparse { .. }, _) => Err("sparse, CNTK's is dense".to_owned()),
    }
}

/// CNTK leaves the columns of gaps undefined; this library fills them with zeros. If only the
/// number of values of a column was recorded, the values may be anything.
pub fn check_column(column: &Column, recorded: &Value, double: bool) -> Result<(), String> {
    match recorded {
        Value::Null if column.gap => same("a gap's content", &column.values, &vec![0; column.values.len()]),
        Value::Null => Err("data, CNTK has a gap".to_owned()),
        _ if column.gap => Err("a gap, CNTK has data".to_owned()),
        Value::Number(_) => same("number of values", column.values.len() as u64, number_of(recorded)),
        _ => check_values(&column.values, list_of(recorded), double),
    }
}

pub fn check_values(values: &[u64], recorded: &[Value], double: bool) -> Result<(), String> {
    same("number of values", values.len(), recorded.len())?;
    for (number, (&bits, recorded)) in values.iter().zip(recorded).enumerate() {
        let value = if double { f64::from_bits(bits) } else { f64::from(f32::from_bits(bits as u32)) };
        // The records lack the sign of a zero or a NaN; `signs_that_the_records_lack` checks those.
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

/// Returns the bits of a recorded value.
///
/// Floats are recorded with 9 digits, and conversion through `f64` yields the same `f32` as direct
/// conversion: the digits lie within a third of the distance from the original float to the nearest
/// rounding boundary (9 digits are that much finer than 24 bits), and rounding to 53 bits first
/// moves them by less than 2^-28 of that distance.
pub fn bits_of(recorded: &Value, double: bool) -> u64 {
    let value = match recorded {
        Value::Number(number) => number.as_f64().expect("a finite number"),
        Value::String(text) if text == "inf" => f64::INFINITY,
        Value::String(text) if text == "-inf" => f64::NEG_INFINITY,
        Value::String(text) if text == "nan" => f64::NAN,
        other => panic!("malformed value {other}"),
    };
    if double { value.to_bits() } else { u64::from((value as f32).to_bits()) }
}
