//! `cntk-reader merge`: puts the reports of parts together.

mod outputs;

use crate::args::{Form, Global};
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Output, SCHEMA, bytes, count};
use cntk_reader::Error;
use cntk_reader_tools::convert::Digest;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Put the reports of parts together, and check that nothing is missing or doubled
///
/// `convert`, `validate` and `index` work on a part of the data with --part K/N, and write a report
/// with --format json. The reports of all N parts become the report of the whole. The digest of
/// converted parts is the digest that converting the whole data has. The outputs of `convert` must
/// exist with the sizes in their reports; their content is not read again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader convert train.cntk 1.cbf --part 1/2 --format json > 1.json
  cntk-reader convert train.cntk 2.cbf --part 2/2 --format json > 2.json
  cntk-reader merge 1.json 2.json

Exit codes:
  0  all parts are there, and all is well
  1  a part or its output is missing, doubled or foreign, or a part has found errors")]
pub struct Merge {
    /// The reports of all parts, in any order
    #[arg(value_name = "REPORT", required = true)]
    reports: Vec<PathBuf>,
}

/// The report of a part.
struct Part {
    path: String,
    number: u64,
    parts: u64,
    report: Value,
    /// The findings of `validate`.
    findings: Vec<Value>,
}

pub fn run(options: &Merge, global: &Global) -> Outcome {
    let mut parts = options.reports.iter().map(|path| Part::read(path)).collect::<Result<Vec<_>, _>>()?;
    parts.sort_by_key(|part| part.number);
    check(&parts)?;
    let Some(first) = parts.first() else {
        return Err(Failure::Usage("Name the reports of all parts.".to_owned()));
    };
    let (report, lines, exit) = match first.command() {
        "convert" => {
            outputs::check(&parts)?;
            converted(&parts)?
        }
        "validate" => validated(&parts),
        _ => indexed(&parts),
    };
    let mut output = Output::new(global, Form::Table);
    match output.form {
        Form::Table => lines.iter().try_for_each(|line| output.line(line))?,
        Form::Json | Form::Ndjson => output.json(&report)?,
    }
    output.finish()?;
    Ok(exit)
}

impl Part {
    fn read(path: &Path) -> Result<Part, Failure> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|cause| Failure::Library(Error::io("Cannot read", &shown, &cause)))?;
        let strange = |found: &str| {
            let advice =
                "Reports of parts are written by convert, validate and index with --part K/N --format json.";
            Failure::Data(format!("'{shown}' is not the report of a part: {found}. {advice}"))
        };
        // The findings of `--format ndjson` precede the summary.
        let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let mut findings = values
            .collect::<Result<Vec<_>, _>>()
            .map_err(|cause| strange(&format!("it is not JSON ({cause})")))?;
        let failed = "it is empty, so the command that should have written it has failed";
        let mut report = findings.pop().ok_or_else(|| strange(failed))?;
        let is_known = ["convert", "validate", "index"].iter().any(|command| report["command"] == *command);
        if report["schema"] != SCHEMA || !is_known {
            return Err(strange("it is the report of no such command"));
        }
        let (Some(number), Some(parts)) =
            (report["part"]["number"].as_u64(), report["part"]["parts"].as_u64())
        else {
            return Err(strange("it is about the whole data"));
        };
        if let Some(Value::Array(own)) = report.get_mut("findings").map(Value::take) {
            findings = own;
        }
        Ok(Part { path: shown, number, parts, report, findings })
    }

    fn command(&self) -> &str {
        self.report["command"].as_str().unwrap_or_default()
    }

    /// Whether a part of a conversion has no sequences, and hence no output.
    fn is_empty(&self) -> bool {
        self.number("sequences") == 0
    }

    fn number(&self, member: &str) -> u64 {
        self.report[member].as_u64().unwrap_or(0)
    }
}

/// Fails unless these are all parts of one whole, each once.
fn check(parts: &[Part]) -> Result<(), Failure> {
    let Some(first) = parts.first() else { return Ok(()) };
    for part in parts {
        // Properties that all parts of one whole share.
        for member in
            ["/command", "/part/parts", "/file", "/input", "/from", "/to", "/streams", "/part/total"]
        {
            let [own, others] = [part, first].map(|part| part.report.pointer(member));
            if own != others {
                let [own, others] = [own, others].map(|value| value.unwrap_or(&Value::Null));
                let name = member.rsplit('/').next().unwrap_or(member);
                return Err(Failure::Data(format!(
                    "'{}' and '{}' are not parts of one whole: '{name}' is {own} in the first, and {others} in the second. \
                     Merge the reports of one command on the same data.",
                    part.path, first.path
                )));
            }
        }
    }
    if let Some([one, other]) = parts.windows(2).find(|pair| pair[0].number == pair[1].number) {
        return Err(Failure::Data(format!(
            "Part {} of {} is there twice: '{}' and '{}'. Leave out one of them.",
            one.number, one.parts, one.path, other.path
        )));
    }
    let is_there = |number: &u64| parts.iter().any(|part| part.number == *number);
    let missing: Vec<String> = (1..=first.parts)
        .filter(|number| !is_there(number))
        .take(20)
        .map(|number| number.to_string())
        .collect();
    if !missing.is_empty() {
        let (noun, verb, them) =
            if missing.len() == 1 { ("Part", "is", "it") } else { ("Parts", "are", "them") };
        let more = if first.parts - parts.len() as u64 > 20 { ", ..." } else { "" };
        return Err(Failure::Data(format!(
            "{noun} {}{more} of {} {verb} missing. Run the command for {them}: --part {}/{}",
            missing.join(", "),
            first.parts,
            missing[0],
            first.parts
        )));
    }
    let mut end = Some(0);
    for part in parts.iter().filter(|part| part.command() == "convert") {
        let place = |member: &str| part.report["part"][member].as_u64();
        if place("begin") != end {
            return Err(Failure::Data(format!(
                "Part {} in '{}' begins at sequence {}, but the parts before it end at sequence {}: the data have changed between \
                 the parts. Convert all parts again.",
                part.number,
                part.path,
                place("begin").unwrap_or(0),
                end.unwrap_or(0)
            )));
        }
        end = place("end");
    }
    Ok(())
}

fn converted(parts: &[Part]) -> Result<(Value, Vec<String>, Exit), Failure> {
    let mut whole = Digest::default();
    for part in parts {
        let text = part.report["digest"].as_str().unwrap_or_default();
        let [sequences, samples, values] = ["sequences", "samples", "values"].map(|name| part.number(name));
        let digest = Digest::from_text(text, sequences, samples, values)
            .ok_or_else(|| Failure::Data(format!("'{}' has no digest.", part.path)))?;
        whole.append(&digest);
    }
    let total = |member| parts.iter().map(|part| part.number(member)).sum::<u64>();
    let is_verified = parts.iter().all(|part| part.report["is_verified"] == true);
    let first = &parts[0].report;
    let outputs: Vec<&Value> =
        parts.iter().filter(|part| !part.is_empty()).map(|part| &part.report["output"]).collect();
    let report = json!({
        "schema": SCHEMA, "command": "convert", "parts": parts.len(), "input": first["input"], "from": first["from"],
        "outputs": outputs, "to": first["to"], "streams": first["streams"], "sequences": whole.sequences,
        "samples": whole.samples, "values": whole.values, "digest": whole.to_string(), "is_verified": is_verified,
        "bytes": total("bytes"), "seconds": seconds(parts),
    });
    let line = format!(
        "{}, {}, {}, digest {whole}, {}",
        count(parts.len() as u64, "part"),
        count(whole.sequences, "sequence"),
        bytes(total("bytes")),
        if is_verified { "verified" } else { "not verified" }
    );
    Ok((report, vec![line], Exit::Good))
}

fn validated(parts: &[Part]) -> (Value, Vec<String>, Exit) {
    let total = |member| parts.iter().map(|part| part.number(member)).sum::<u64>();
    let is_complete = parts.iter().all(|part| part.report["complete"] == true);
    let [errors, warnings, notes] = ["errors", "warnings", "notes"].map(total);
    let findings: Vec<&Value> = parts.iter().flat_map(|part| &part.findings).collect();
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut lines: Vec<String> = Vec::new();
    for finding in &findings {
        let place = ["file", "line", "offset", "stream", "key"].map(|name| text(&finding[name])).join(":");
        let [severity, message, detail] = ["severity", "message", "detail"].map(|name| text(&finding[name]));
        lines.push(format!("{place}: {severity}: {message} {detail}").trim_end().to_owned());
    }
    let end = if is_complete { "" } else { "; there may be more (--max-errors)" };
    lines.push(format!(
        "{}, {}, {} in {}{end}.",
        count(errors, "error"),
        count(warnings, "warning"),
        count(notes, "note"),
        count(parts.len() as u64, "part")
    ));
    let report = json!({
        "schema": SCHEMA, "command": "validate", "parts": parts.len(), "file": parts[0].report["file"], "errors": errors,
        "warnings": warnings, "notes": notes, "complete": is_complete, "bytes": total("bytes"), "seconds": seconds(parts),
        "findings": findings,
    });
    (report, lines, if errors + warnings > 0 { Exit::WrongData } else { Exit::Good })
}

fn indexed(parts: &[Part]) -> (Value, Vec<String>, Exit) {
    let caches: Vec<&Value> =
        parts.iter().flat_map(|part| part.report["caches"].as_array().into_iter().flatten()).collect();
    let fits = |cache: &&&Value| cache["state"] == "fits" || cache["is_made"] == true;
    let fitting = caches.iter().filter(fits).count();
    let line = format!(
        "{}: {} of {} fit",
        count(parts.len() as u64, "part"),
        fitting,
        count(caches.len() as u64, "index cache")
    );
    let all_fit = fitting == caches.len();
    let report = json!({
        "schema": SCHEMA, "command": "index", "parts": parts.len(), "file": parts[0].report["file"], "caches": caches,
    });
    (report, vec![line], if all_fit { Exit::Good } else { Exit::WrongData })
}

/// Returns the time that all parts took together.
fn seconds(parts: &[Part]) -> f64 {
    parts.iter().filter_map(|part| part.report["seconds"].as_f64()).sum()
}
