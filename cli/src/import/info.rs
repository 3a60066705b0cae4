//! `info` for files of other formats.

use super::{Kind, PreviewArgs, open};
use crate::args::{Form, Global};
use crate::exit::{Exit, Outcome};
use crate::output::{Output, SCHEMA, bytes, count, storage_name};
use cntk_reader::FileFormat;
use cntk_reader_tools::import::folder::ImageFolder;
use cntk_reader_tools::import::{Import, ImportFormat, Kind as StreamKind};
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    file: String,
    format: &'static str,
    bytes: Option<u64>,
    records: Option<u64>,
    sequences: Option<u64>,
    streams: Vec<Stream>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Stream {
    name: String,
    storage: &'static str,
    element: &'static str,
    dim: usize,
    /// `dense`, `category` or `index`.
    r#type: &'static str,
    columns: Vec<String>,
    categories: Option<usize>,
    is_sequence: bool,
    missing: u64,
}

#[derive(Serialize)]
struct Images {
    schema: u32,
    command: &'static str,
    file: String,
    format: &'static str,
    images: u64,
    /// Files that are no images.
    others: u64,
    classes: Vec<Class>,
    /// Sizes of some images.
    sizes: Vec<Size>,
}

#[derive(Serialize)]
struct Class {
    name: String,
    index: usize,
    images: usize,
}

#[derive(Serialize)]
struct Size {
    file: String,
    width: u32,
    height: u32,
}

/// Number of images whose sizes are shown.
const SIZES: usize = 5;

/// Runs the command.
pub fn info(path: &str, kind: Kind, args: &PreviewArgs, global: &Global) -> Outcome {
    let mut output = Output::new(global, Form::Table);
    match kind {
        Kind::Folder => {
            args.refuse()?;
            let folder = ImageFolder::open(path)?;
            let sizes = folder.sizes(SIZES)?;
            images(&mut output, path, &folder, &sizes)?;
        }
        Kind::Columns(container) => super::columns::info(&mut output, path, container, args)?,
        Kind::Records(format) => {
            let import = open(path, format, &args.options()?, global)?;
            records(&mut output, path, format, &import)?;
        }
    }
    output.finish()?;
    Ok(Exit::Good)
}

/// A noun phrase for the format.
pub fn describe(format: ImportFormat) -> &'static str {
    match format {
        ImportFormat::Csv => FileFormat::Csv.describe(),
        ImportFormat::Tsv => FileFormat::Tsv.describe(),
        ImportFormat::Blanks => FileFormat::Numbers.describe(),
        ImportFormat::JsonLines => "a file of JSON lines",
        ImportFormat::LibSvm => FileFormat::LibSvm.describe(),
        ImportFormat::VowpalWabbit => FileFormat::VowpalWabbit.describe(),
        _ => "a file of words in columns (CoNLL)",
    }
}

/// Describes the streams, a line each.
pub fn lines(import: &Import) -> Vec<String> {
    let streams = &import.schema.streams;
    let width = streams.iter().map(|stream| stream.name.chars().count()).max().unwrap_or(0);
    let line = |stream: &cntk_reader_tools::import::Stream| {
        format!("  {:width$}  {}", stream.name, stream.summary())
    };
    streams.iter().map(line).collect()
}

/// Summarizes the records.
pub fn summary(import: &Import) -> String {
    let records = import.records.map(|records| count(records, "record"));
    let sequences = import.sequences.filter(|_| import.schema.key.is_some());
    let parts = records.into_iter().chain(sequences.map(|sequences| count(sequences, "sequence")));
    parts.collect::<Vec<_>>().join(", ")
}

fn records(output: &mut Output, path: &str, format: ImportFormat, import: &Import) -> std::io::Result<()> {
    let size = std::fs::metadata(path).ok().map(|file| file.len());
    if output.form != Form::Table {
        let streams = import.schema.streams.iter().map(|stream| {
            let info = stream.info();
            Stream {
                name: stream.name.clone(),
                storage: storage_name(info.storage),
                element: stream.element.name(),
                dim: stream.dim,
                r#type: stream.kind.name(),
                columns: stream.columns.clone(),
                categories: match &stream.kind {
                    StreamKind::Category(names) => Some(names.len()),
                    _ => None,
                },
                is_sequence: stream.is_sequence,
                missing: stream.missing,
            }
        });
        return output.json(&Report {
            schema: SCHEMA,
            command: "info",
            file: path.to_owned(),
            format: describe(format),
            bytes: size,
            records: import.records,
            sequences: import.sequences,
            streams: streams.collect(),
            notes: import.notes.clone(),
        });
    }
    let size = size.map_or_else(String::new, |size| format!(", {}", bytes(size)));
    let title = output.bold(path);
    output.line(&format!("{title}  {}{size}", describe(format)))?;
    let records = summary(import);
    if !records.is_empty() {
        output.line(&format!("  {records}"))?;
    }
    lines(import).iter().try_for_each(|line| output.line(line))?;
    for note in &import.notes {
        output.line(&format!("{}: {note}", output.colored("1;36", "note")))?;
    }
    output.line(&format!("To train with it: cntk-reader convert {path} NEW.ctf"))
}

fn images(
    output: &mut Output,
    path: &str,
    folder: &ImageFolder,
    sizes: &[(&str, u32, u32)],
) -> std::io::Result<()> {
    let classes = folder.classes.iter().zip(&folder.images).enumerate();
    if output.form != Form::Table {
        return output.json(&Images {
            schema: SCHEMA,
            command: "info",
            file: path.to_owned(),
            format: "a folder of images",
            images: folder.count(),
            others: folder.others,
            classes: classes
                .map(|(index, (name, images))| Class { name: name.clone(), index, images: images.len() })
                .collect(),
            sizes: sizes
                .iter()
                .map(|&(file, width, height)| Size { file: file.to_owned(), width, height })
                .collect(),
        });
    }
    let title = output.bold(path);
    let others = match folder.others {
        0 => String::new(),
        others => format!(", {}", count(others, "other file")),
    };
    output.line(&format!("{title}  a folder of images: {}{others}", count(folder.count(), "image")))?;
    let rows: Vec<Vec<String>> = classes
        .map(|(index, (name, images))| vec![name.clone(), index.to_string(), images.len().to_string()])
        .collect();
    output.table(&["class", "index", "images"], &rows)?;
    let sizes: Vec<_> = sizes.iter().map(|(_, width, height)| format!("{width} x {height}")).collect();
    output.line(&format!("Some sizes: {}", sizes.join(", ")))?;
    output.line(&format!("To train with it: cntk-reader convert {path} NEW.map"))
}
