//! JSON lines: an object in each line.

use super::lines::Lines;
use super::record::{Names, Record, Records, Value, number};
use cntk_reader_core::{Error, Result};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A JSON value. Numbers are texts, so that integers keep all of their digits.
enum Json {
    Null,
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Json, E> {
        Ok(Json::Text(u8::from(value).to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Json, E> {
        Ok(Json::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> std::result::Result<Json, E> {
        Ok(Json::Text(value))
    }

    fn visit_unit<E>(self) -> std::result::Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Json::Object(entries))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(source: D) -> std::result::Result<Json, D::Error> {
        source.deserialize_any(JsonVisitor)
    }
}

/// A file of JSON lines.
pub(super) struct JsonLines {
    lines: Lines,
    names: Names,
}

impl JsonLines {
    /// Opens a file.
    pub fn open(path: &str) -> Result<JsonLines> {
        Ok(JsonLines { lines: Lines::open(path)?, names: Names::default() })
    }
}

impl Records for JsonLines {
    fn columns(&self) -> &[String] {
        self.names.all()
    }

    fn are_columns_fixed(&self) -> bool {
        false
    }

    fn read(&mut self, record: &mut Record) -> Result<bool> {
        let (json, line) = loop {
            let Some((text, line)) = self.lines.next()? else { return Ok(false) };
            if text.trim().is_empty() {
                continue;
            }
            let parsed = serde_json::from_str::<Json>(text);
            let is_array = text.trim_start().starts_with('[');
            break (parsed.map_err(|error| (error, is_array)), line);
        };
        record.begin(line);
        let wrong = |message: String, detail: &str| {
            Error::data(message).with_detail(detail).in_file(self.lines.path()).in_line(line)
        };
        const EACH: &str = "Each line is one object, such as {\"x\": [1, 2], \"label\": \"a\"}.";
        let entries = match json {
            Ok(Json::Object(entries)) => entries,
            Ok(Json::List(_)) => {
                let detail =
                    format!("{EACH} Write an array of objects as lines first: jq -c '.[]' FILE > NEW.jsonl");
                return Err(wrong("The line is an array.".to_owned(), &detail));
            }
            Ok(_) => return Err(wrong("The line is a single value.".to_owned(), EACH)),
            Err((error, is_array)) if error.is_eof() => {
                let command = if is_array { "jq -c '.[]'" } else { "jq -c ." };
                let detail = format!(
                    "{EACH} Write a value of several lines on one line first: {command} FILE > NEW.jsonl"
                );
                return Err(wrong("The line ends before its value does.".to_owned(), &detail));
            }
            Err((error, _)) => {
                let text = error.to_string();
                let cause = text.split(" at line ").next().unwrap_or(&text);
                return Err(wrong(format!("Column {} is not JSON: {cause}.", error.column()), EACH));
            }
        };
        for (name, json) in entries {
            let value = match value(json, record) {
                Some(value) => value,
                None => {
                    let message = format!("The field '{name}' has nested objects, or an object with a text.");
                    let detail = "Expected numbers, texts, lists of them, or an object of numbers, such as {\"word\": 2}. Bring \
                                  inner fields to the top first: jq -c '{x: .a.b}' FILE > NEW.jsonl";
                    return Err(wrong(message, detail));
                }
            };
            record.set(self.names.number(&name), value);
        }
        Ok(true)
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

/// Converts a value; `None` for objects of other values than numbers, and in lists.
fn value(json: Json, record: &mut Record) -> Option<Value> {
    Some(match json {
        Json::Null => Value::Missing,
        Json::Text(text) if text.is_empty() => Value::Missing,
        Json::Text(text) => Value::Text(record.add(&text)),
        Json::List(values) => {
            let is_scalar = |json: &Json| !matches!(json, Json::Object(_));
            if !values.iter().all(is_scalar) {
                return None;
            }
            Value::List(values.into_iter().map(|json| value(json, record)).collect::<Option<_>>()?)
        }
        Json::Object(entries) => {
            let pair = |(name, json): (String, Json)| match json {
                Json::Text(text) => Some((record.add(&name), number(&text)?)),
                _ => None,
            };
            Value::Pairs(entries.into_iter().map(pair).collect::<Option<_>>()?)
        }
    })
}
