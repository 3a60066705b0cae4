//! `cntk-reader validate`: finds everything that is wrong with data.

use crate::args::{Form, Global};
use crate::exit::{Exit, Outcome};
use crate::input::Input;
use crate::numbers::whole;
use crate::output::{Output, SCHEMA, bytes_in, count};
use crate::part::{PartOption, PartReport};
use crate::progress::Progress;
use cntk_reader::{ErrorKind, LogLevel, set_log_sink};
use cntk_reader_tools::inspect::{CheckOptions, CheckProgress, Finding, Severity};
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Find everything that is wrong with the data: all errors and warnings, in the order of the data
///
/// The data are read by the parsers that training uses, so validating reports what reading reports;
/// but reading ends at the first error that is not tolerated, and validating goes on. If there are
/// several deserializers, their keys are compared, too.
///
/// Each finding is one line: file:line:offset:stream:key: severity: message. Unknown parts are
/// empty. Notes are about legal data; they do not change the exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader validate train.ctf                        a text file without a configuration
  cntk-reader validate feats.scp labels.mlf             features and labels: keys and lengths are compared
  cntk-reader validate digits.cntk --max-errors 0       all files of a configuration, without a limit
  cntk-reader validate train.ctf --format ndjson | jq -c 'select(.severity == \"error\") | [.line, .message]'

Exit codes: 0 nothing is wrong, 1 there are errors or warnings, 2 usage or configuration, 3 a file cannot be read.")]
pub struct Validate {
    /// A configuration, or one or several data files, which are joined by key
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Stop after this many errors and warnings; 0: no limit
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "fail_fast", allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    max_errors: u64,

    /// Stop after the first error or warning
    #[arg(long)]
    fail_fast: bool,

    #[command(flatten)]
    part: PartOption,
}

/// A finding as JSON.
#[derive(Serialize)]
struct JsonFinding<'a> {
    schema: u32,
    severity: &'static str,
    file: Option<&'a str>,
    line: Option<u64>,
    offset: Option<u64>,
    stream: Option<&'a str>,
    key: Option<&'a str>,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

/// Totals of the findings.
#[derive(Serialize)]
struct Summary {
    schema: u32,
    command: &'static str,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<PartReport>,
    errors: u64,
    warnings: u64,
    notes: u64,
    /// Whether everything was read.
    complete: bool,
    bytes: u64,
    seconds: f64,
    gigabytes_per_second: f64,
}

/// The whole result as one JSON value.
#[derive(Serialize)]
struct JsonResult<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    findings: Vec<serde_json::Value>,
}

/// Log lines of the library: its warnings when files are opened.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Finding>>>);

impl Log {
    /// Starts to collect the library's log lines.
    fn collect() -> Log {
        let log = Log::default();
        let lines = log.clone();
        set_log_sink(Some(Arc::new(move |level, line| {
            let severity = match level {
                LogLevel::Error => Severity::Error,
                LogLevel::Warning => Severity::Warning,
                _ => return,
            };
            lines.0.lock().unwrap_or_else(PoisonError::into_inner).push(Finding::new(severity, line));
        })));
        log
    }

    fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Writes findings, and keeps the exit code that they imply.
struct Writer {
    output: Output,
    /// The given file, for log lines that name none.
    file: String,
    /// Findings that `--format json` writes at the end.
    kept: Vec<serde_json::Value>,
    exit: Exit,
    logged: [u64; 2],
    failure: Option<std::io::Error>,
}

impl Writer {
    /// Writes the collected log lines.
    fn write_logged(&mut self, log: &Log) -> ControlFlow<()> {
        for mut logged in log.take() {
            self.logged[usize::from(logged.severity == Severity::Warning)] += 1;
            logged.location.file.get_or_insert_with(|| self.file.clone());
            self.write(&logged)?;
        }
        ControlFlow::Continue(())
    }

    fn write(&mut self, finding: &Finding) -> ControlFlow<()> {
        let exit = match (finding.severity, finding.kind) {
            (Severity::Note, _) => Exit::Good,
            (_, Some(ErrorKind::Io)) => Exit::Io,
            _ => Exit::WrongData,
        };
        self.exit = self.exit.max(exit);
        let written = match self.output.form {
            Form::Table => {
                let line = self.text(finding);
                self.output.line(&line)
            }
            Form::Ndjson => self.output.json(&json(finding)),
            Form::Json => match serde_json::to_value(json(finding)) {
                Ok(value) => {
                    self.kept.push(value);
                    Ok(())
                }
                Err(error) => Err(error.into()),
            },
        };
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failure = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// Formats a finding as `file:line:offset:stream:key: severity: message`.
    fn text(&self, finding: &Finding) -> String {
        let place = &finding.location;
        let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        let place = [
            place.file.clone().unwrap_or_default(),
            number(place.line),
            number(place.offset),
            place.stream.clone().unwrap_or_default(),
            place.key.clone().unwrap_or_default(),
        ];
        let color = match finding.severity {
            Severity::Error => "1;31",
            Severity::Warning => "1;33",
            _ => "1;36",
        };
        let severity = self.output.colored(color, name(finding.severity));
        // Some of CNTK's messages have no full stop.
        let separator = match finding.message.ends_with(['.', '!', '?', ':']) {
            _ if finding.detail.is_empty() => "",
            true => " ",
            false => ". ",
        };
        format!("{}: {severity}: {}{separator}{}", place.join(":"), finding.message, finding.detail)
    }
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        _ => "note",
    }
}

fn json(finding: &Finding) -> JsonFinding<'_> {
    let place = &finding.location;
    JsonFinding {
        schema: SCHEMA,
        severity: name(finding.severity),
        file: place.file.as_deref(),
        line: place.line,
        offset: place.offset,
        stream: place.stream.as_deref(),
        key: place.key.as_deref(),
        message: &finding.message,
        detail: &finding.detail,
    }
}

pub fn run(options: &Validate, global: &Global) -> Outcome {
    let begun = Instant::now();
    let input = Input::of_files(&options.files, global)?;
    options.part.check(&input)?;
    let log = Log::collect();
    let progress = Progress::bytes(global, "Validating");
    let output = Output::new(global, Form::Table);
    let mut writer = Writer {
        output,
        file: input.name().to_owned(),
        kept: Vec::new(),
        exit: Exit::Good,
        logged: [0; 2],
        failure: None,
    };
    let check = match options {
        Validate { fail_fast: true, .. } => CheckOptions::default().most(1),
        Validate { max_errors: 0, .. } => CheckOptions::default(),
        Validate { max_errors, .. } => CheckOptions::default().most(*max_errors),
    };
    let check = options.part.part.into_iter().fold(check, CheckOptions::part);
    let mut take = |finding: Finding| {
        writer.write_logged(&log)?;
        writer.write(&finding)
    };
    let mut show = |at: CheckProgress| progress.set(at.bytes, at.total);
    let checked = input.check(&check, &mut take, &mut show)?;
    let _ = writer.write_logged(&log);
    drop(progress);
    let Writer { mut output, kept, exit, logged: [errors, warnings], failure, .. } = writer;
    if let Some(error) = failure {
        return Err(error.into());
    }
    let found = checked.summary;
    let seconds = begun.elapsed().as_secs_f64();
    let summary = Summary {
        schema: SCHEMA,
        command: "validate",
        file: input.name().to_owned(),
        part: options.part.part.map(|part| PartReport::new(part, None)),
        errors: found.errors + errors,
        warnings: found.warnings + warnings,
        notes: found.notes,
        complete: found.is_complete,
        bytes: found.bytes,
        seconds,
        gigabytes_per_second: found.bytes as f64 / 1e9 / seconds,
    };
    match output.form {
        Form::Table => {}
        Form::Ndjson => output.json(&summary)?,
        Form::Json => output.json(&JsonResult { summary: &summary, findings: kept })?,
    }
    output.finish()?;
    if !global.quiet {
        // Bytes of speech and images are not counted, because only parts of their files are read.
        let amount = match summary.bytes {
            0 => {
                let sequences = checked.data.members().iter().map(|member| member.lengths().sequences());
                format!("{} in {seconds:.1} s", count(sequences.max().unwrap_or(0), "sequence"))
            }
            bytes => bytes_in(bytes, seconds),
        };
        let end = if summary.complete { "" } else { "; there may be more (--max-errors)" };
        eprintln!(
            "{}, {}, {}{end}. Read {amount}.",
            count(summary.errors, "error"),
            count(summary.warnings, "warning"),
            count(summary.notes, "note"),
        );
    }
    Ok(exit)
}
