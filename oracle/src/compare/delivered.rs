//! The samples of an output by key, which must be equal even if minibatches are not.

use crate::drive::Output;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The stream of a sample, the key of its sequence, and its number in the sequence.
type Place = (usize, String, i64);

/// The values of samples by place; several if sequences share a key.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Delivered(BTreeMap<Place, BTreeSet<String>>);

impl Delivered {
    /// Collects all samples of an output.
    pub fn of(output: &Output) -> Delivered {
        let mut delivered = Delivered::default();
        for line in &output.lines {
            let line: Option<Value> = serde_json::from_str(line).ok();
            let streams = line.as_ref().and_then(|line| line["result"]["streams"].as_array());
            for (number, stream) in streams.into_iter().flatten().enumerate() {
                delivered.add(number, stream);
            }
        }
        delivered
    }

    /// Adds the samples of one stream of a minibatch.
    fn add(&mut self, number: usize, stream: &Value) {
        let (steps, lanes) = (int(&stream["num_time_steps"]), int(&stream["num_parallel"]));
        let mut keys = stream["keys"].as_array().into_iter().flatten();
        let mut binary = stream["binary"].as_array().into_iter().flatten();
        for record in stream["sequences"].as_array().into_iter().flatten() {
            let [sequence, lane, begin, end] = [0, 1, 2, 3].map(|at| int(&record[at]));
            if sequence < 0 {
                continue;
            }
            // Old-style sections have no keys.
            let key = keys.next().and_then(Value::as_str).unwrap_or_default();
            if let Some(words) = binary.next() {
                self.0.entry((number, key.to_owned(), 0)).or_default().insert(words.to_string());
                continue;
            }
            for step in begin.max(0)..end.min(steps) {
                let value = sample(stream, (step * lanes + lane) as usize);
                self.0.entry((number, key.to_owned(), step - begin)).or_default().insert(value);
            }
        }
    }

    /// Whether the samples that both have are equal. With `keys_are_unique`, all samples of a place
    /// must be equal; otherwise one side's must be a subset of the other's. `skipped` selects
    /// streams that are not compared.
    pub fn agrees(&self, other: &Delivered, keys_are_unique: bool, skipped: impl Fn(usize) -> bool) -> bool {
        let shared = self.0.iter().filter_map(|(place, own)| Some((place, own, other.0.get(place)?)));
        shared.filter(|((stream, ..), ..)| !skipped(*stream)).all(|(_, own, others)| match keys_are_unique {
            true => own == others && own.len() == 1,
            false => own.is_subset(others) || others.is_subset(own),
        })
    }
}

/// Replaces the dense values of a minibatch's sequences with matching keys.
pub(super) fn forget(stream: &mut Value, is_such: &dyn Fn(&str) -> bool) {
    let lanes = int(&stream["num_parallel"]);
    let records = stream["sequences"].as_array().cloned().unwrap_or_default();
    let keys = stream["keys"].as_array().cloned().unwrap_or_default();
    let Some(columns) = stream.get_mut("dense").and_then(Value::as_array_mut) else { return };
    let sequences = records.iter().filter(|record| int(&record[0]) >= 0);
    for (record, _) in sequences.zip(keys).filter(|(_, key)| key.as_str().is_some_and(is_such)) {
        let [lane, begin, end] = [1, 2, 3].map(|at| int(&record[at]));
        for step in begin.max(0)..end {
            if let Some(column) = columns.get_mut((step * lanes + lane) as usize) {
                *column = Value::Null;
            }
        }
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Returns the values of a column as text.
fn sample(stream: &Value, column: usize) -> String {
    if let Some(dense) = stream["dense"].as_array() {
        return dense.get(column).map(Value::to_string).unwrap_or_default();
    }
    let bounds = [column, column + 1].map(|at| int(&stream["cols"][at]) as usize);
    let entries = (bounds[0]..bounds[1]).map(|at| format!("{}:{}", stream["rows"][at], stream["values"][at]));
    entries.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::End;

    fn delivered(minibatches: &[&str]) -> Delivered {
        let lines = minibatches
            .iter()
            .map(|streams| format!("{{\"op\":\"read\",\"result\":{{\"streams\":[{streams}]}}}}"));
        Delivered::of(&Output { lines: lines.collect(), end: End::Done, messages: String::new() })
    }

    /// One stream: sequences of one sample each.
    fn dense(samples: &[(&str, f32)]) -> String {
        let list = |of: &dyn Fn(usize) -> String| {
            let all: Vec<String> = (0..samples.len()).map(of).collect();
            all.join(",")
        };
        format!(
            "{{\"num_time_steps\":1,\"num_parallel\":{},\"sequences\":[{}],\"keys\":[{}],\"dense\":[{}]}}",
            samples.len(),
            list(&|at| format!("[{at},{at},0,1]")),
            list(&|at| format!("\"{}\"", samples[at].0)),
            list(&|at| format!("[{}]", samples[at].1)),
        )
    }

    #[test]
    fn order_and_grouping_do_not_matter_but_values_do() {
        let all = delivered(&[&dense(&[("a", 1.0), ("b", 2.0)]), &dense(&[("c", 3.0)])]);
        let others = delivered(&[&dense(&[("c", 3.0)]), &dense(&[("b", 2.0)])]);
        assert!(all.agrees(&others, true, |_| false) && others.agrees(&all, true, |_| false));
        let planted = delivered(&[&dense(&[("c", 3.5)]), &dense(&[("b", 2.0)])]);
        assert!(!all.agrees(&planted, true, |_| false) && !all.agrees(&planted, false, |_| false));
        assert!(all.agrees(&planted, true, |stream| stream == 0));
        // The right value as well as a wrong one.
        let both = delivered(&[&dense(&[("c", 3.0)]), &dense(&[("c", 4.0)])]);
        assert!(!all.agrees(&both, true, |_| false) && all.agrees(&both, false, |_| false));
    }

    #[test]
    fn samples_are_compared_by_their_places_in_sequences() {
        let stream = |steps: u32, record: &str, dense: &str| {
            format!(
                "{{\"num_time_steps\":{steps},\"num_parallel\":1,\"sequences\":[{record}],\"keys\":[\"k\"],\"dense\":[{dense}]}}"
            )
        };
        // Truncated: the same sequence in pieces of two and of three steps.
        let twos = [stream(2, "[0,0,0,4]", "[1],[2]"), stream(2, "[0,0,-2,2]", "[3],[4]")];
        let threes = [stream(3, "[0,0,0,4]", "[1],[2],[3]"), stream(3, "[0,0,-3,1]", "[4],null,null")];
        let of = |parts: &[String]| delivered(&parts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(of(&twos), of(&threes));
        let wrong = [stream(3, "[0,0,0,4]", "[1],[2],[4]")];
        assert!(!of(&twos).agrees(&of(&wrong), true, |_| false));
    }

    #[test]
    fn sparse_samples_and_gaps_are_told_apart() {
        let stream = |values: &str| {
            delivered(&[&format!(
                "{{\"num_time_steps\":2,\"num_parallel\":2,\"sequences\":[[0,0,0,2],[1,1,0,1],[-1,1,1,2]],\"keys\":[\"a\",\"b\"],\
                 \"nnz\":3,\"values\":[{values}],\"rows\":[4,5,6],\"cols\":[0,1,2,3,3]}}"
            )])
        };
        assert_eq!(stream("1,2,3").0.len(), 3);
        assert!(!stream("1,2,3").agrees(&stream("1,2,4"), true, |_| false));
        assert!(!stream("1,2,3").agrees(&stream("1,3,3"), true, |_| false));
    }
}
