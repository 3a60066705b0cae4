//! `info` and `head` for Arrow and Parquet files.

use super::{PreviewArgs, SAMPLE};
use crate::args::Form;
use crate::columns::{self, ColumnOptions, ColumnOutline, Container, Outline, Role};
use crate::exit::Failure;
use crate::output::{Output, SCHEMA, bytes, count, storage_name};
use cntk_reader::{ElementType, Storage, StreamInfo};
use cntk_reader_tools::inspect::Sequence;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    file: String,
    format: &'static str,
    bytes: Option<u64>,
    records: u64,
    sequences: u64,
    /// Row groups of a Parquet file, record batches of an Arrow file.
    groups: u64,
    columns: Vec<Column>,
    streams: Vec<Stream>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Column {
    name: String,
    r#type: String,
    /// `key`, `stream`, or `none` if the column cannot be converted.
    role: &'static str,
}

#[derive(Serialize)]
struct Stream {
    name: String,
    storage: &'static str,
    element: &'static str,
    dim: usize,
    shape: Vec<usize>,
    is_sequence: bool,
}

/// Prints the columns of a file, and the streams that they become.
pub fn info(
    output: &mut Output,
    path: &str,
    container: Container,
    args: &PreviewArgs,
) -> Result<(), Failure> {
    let mut outline = columns::outline(path, container, &ColumnOptions::default())?;
    let names = args.names()?;
    if let Some(name) = names.iter().find(|name| !outline.columns.iter().any(|own| own.name == **name)) {
        let known: Vec<_> = outline.columns.iter().take(20).map(|own| format!("'{}'", own.name)).collect();
        let message = format!("There is no column '{name}'. The file has {}.", known.join(", "));
        return Err(Failure::Usage(message));
    }
    if !names.is_empty() {
        outline.columns.retain(|column| matches!(column.role, Role::Key) || names.contains(&column.name));
    }
    let size = std::fs::metadata(path).ok().map(|file| file.len());
    match output.form {
        Form::Table => table(output, path, container, size, &outline)?,
        _ => output.json(&report(path, container, size, outline))?,
    }
    Ok(())
}

fn report(path: &str, container: Container, bytes: Option<u64>, outline: Outline) -> Report {
    let mut report = Report {
        schema: SCHEMA,
        command: "info",
        file: path.to_owned(),
        format: container.describe(),
        bytes,
        records: outline.rows,
        sequences: outline.rows,
        groups: outline.groups,
        columns: Vec::new(),
        streams: Vec::new(),
        notes: Vec::new(),
    };
    for ColumnOutline { name, kind, role } in outline.columns {
        let use_of = match role {
            Role::Key => "key",
            Role::Stream { info, is_sequence } => {
                report.streams.push(Stream {
                    name: info.name.clone(),
                    storage: storage_name(info.storage),
                    element: info.element.name(),
                    dim: info.sample_size(),
                    shape: info.shape.clone(),
                    is_sequence,
                });
                "stream"
            }
            Role::Refused(reason) => {
                report.notes.push(reason);
                "none"
            }
        };
        report.columns.push(Column { name, r#type: kind, role: use_of });
    }
    report
}

fn table(
    output: &mut Output,
    path: &str,
    container: Container,
    size: Option<u64>,
    outline: &Outline,
) -> std::io::Result<()> {
    let title = output.bold(path);
    let size = size.map_or_else(String::new, |size| format!(", {}", bytes(size)));
    output.line(&format!("{title}  {}{size}", container.describe()))?;
    let groups = match (outline.groups, container.group()) {
        (1, group) => format!("1 {group}"),
        (groups, "record batch") => format!("{} record batches", crate::output::number(groups)),
        (groups, group) => count(groups, group),
    };
    output.line(&format!("  {}, {groups}", count(outline.rows, "row")))?;
    let columns = &outline.columns;
    let width = |text: fn(&ColumnOutline) -> &String| {
        columns.iter().map(|column| text(column).chars().count()).max().unwrap_or(0)
    };
    let (names, kinds) = (width(|column| &column.name), width(|column| &column.kind).min(64));
    for column in columns {
        let role = match &column.role {
            Role::Key => "keys".to_owned(),
            Role::Stream { info, is_sequence } => summary(info, *is_sequence),
            Role::Refused(_) => "no stream".to_owned(),
        };
        output.line(&format!("  {:names$}  {:kinds$}  {role}", column.name, column.kind))?;
    }
    for column in columns {
        if let Role::Refused(reason) = &column.role {
            output.line(&format!("{}: {reason}", output.colored("1;36", "note")))?;
        }
    }
    output.line(&format!("To train with it: cntk-reader convert {path} NEW.ctf"))
}

/// Describes a stream in the words of other imports.
fn summary(info: &StreamInfo, is_sequence: bool) -> String {
    let element = match info.element {
        ElementType::Float => String::new(),
        other => format!(" of {}", other.name()),
    };
    let what = match info.storage {
        Storage::Dense => format!("dense, {}{element}", count(info.sample_size() as u64, "value")),
        Storage::SparseCsc => format!("sparse, dimension {}", info.sample_size()),
    };
    let steps = if is_sequence { ", a sample for each element" } else { "" };
    format!("{what}{steps}")
}

/// Returns the streams and the first rows of a file.
pub fn first(
    path: &str,
    container: Container,
    args: &PreviewArgs,
    count: u64,
) -> Result<(Vec<StreamInfo>, Vec<Sequence>), Failure> {
    let names = args.names()?;
    let options = ColumnOptions {
        streams: names.to_vec(),
        sample: Some(SAMPLE.max(count)),
        ..ColumnOptions::default()
    };
    let mut data = columns::open(path, container, &options)?;
    if !names.is_empty() {
        data.select(names)?;
    }
    let streams = data.streams().to_vec();
    Ok((streams, Sequence::first_of(&mut data, count)?))
}
