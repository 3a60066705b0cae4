//! Infers the streams of a file by reading it once, or collects the dimensions and categories of
//! requested streams.

use super::facts::{Facts, Refusal, Shape, Strays};
use super::keys::Keys;
use super::layout;
use super::options::{ImportOptions, KindSpec, StreamSpec, no_column, unknown};
use super::record::{Record, Value};
use super::schema::{Kind, Schema, Stream};
use super::{Import, ImportFormat, records};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::collections::HashSet;

/// Names of columns of numbers that are labels and not features.
const LABELS: [&str; 5] = ["label", "labels", "class", "target", "y"];

/// Number of records between two reports of progress.
const REPORT_EVERY: u64 = 4096;

/// Opens a file: see [`Import::open`].
pub(super) fn open(
    path: &str,
    format: ImportFormat,
    options: &ImportOptions,
    listener: &mut dyn FnMut(u64, u64),
) -> Result<Import> {
    if let Some(like) = &options.like {
        let mut schema = Schema::read(like)?;
        if schema.format != format {
            let (own, found) = (schema.format.name(), format.name());
            let message =
                format!("The description '{like}' is for the format {own}, but the file has {found}.");
            return Err(Error::argument(message)
                .with_detail("Give --from if the format is another one.")
                .in_file(path));
        }
        schema.adjust(options)?;
        let path = path.to_owned();
        return Ok(Import {
            path,
            schema,
            records: None,
            sequences: None,
            notes: Vec::new(),
            checks_keys: !options.may_repeat_keys,
        });
    }
    let mut keeps_all = HashSet::new();
    loop {
        let scan = Scan::run(path, format, options, &keeps_all, listener)?;
        let before = keeps_all.len();
        let mut finder = Finder { scan: &scan, options, needed: HashSet::new(), notes: Vec::new() };
        let streams = finder.streams()?;
        let Finder { needed, mut notes, .. } = finder;
        keeps_all.extend(needed);
        if keeps_all.len() > before {
            continue;
        }
        if streams.is_empty() {
            let error = Error::data("No column becomes a stream.").with_detail(notes.join(" "));
            return Err(error.in_file(path));
        }
        if scan.layout.is_some_and(|(_, header)| !header)
            && options.header.is_none()
            && options.columns.is_empty()
        {
            notes.push(
                "The first row has numbers, so it is a record, and columns are named c1, c2 and so on. If it has names, give --header."
                    .to_owned(),
            );
        }
        let schema = Schema {
            format,
            delimiter: scan.layout.map(|(delimiter, _)| delimiter),
            header: scan.layout.map(|(_, header)| header),
            columns: options.columns.clone(),
            key: scan.key.clone(),
            missing: options.missing,
            streams,
        };
        return Ok(Import {
            path: path.to_owned(),
            schema,
            records: Some(scan.records),
            sequences: scan.is_complete.then_some(scan.sequences),
            notes,
            checks_keys: !scan.is_complete && !options.may_repeat_keys,
        });
    }
}

/// The facts about the columns of a file.
struct Scan<'a> {
    path: &'a str,
    format: ImportFormat,
    columns: Vec<String>,
    layout: Option<(u8, bool)>,
    /// The facts about wanted columns.
    facts: Vec<Option<Facts>>,
    key: Option<String>,
    records: u64,
    sequences: u64,
    /// The line of the first record.
    first_line: u64,
    /// Whether all records were read.
    is_complete: bool,
}

impl<'a> Scan<'a> {
    fn run(
        path: &'a str,
        format: ImportFormat,
        options: &ImportOptions,
        keeps_all: &HashSet<String>,
        listener: &mut dyn FnMut(u64, u64),
    ) -> Result<Scan<'a>> {
        let mut source = records(path, format, options)?;
        if let Some((delimiter, _)) = source.layout() {
            layout::check(path, delimiter, source.columns().len(), options)?;
        }
        let total = DataFile::open(path)?.size()?;
        let are_fixed = source.are_columns_fixed();
        let wanted = Wanted::of(options, source.columns(), are_fixed)?;
        let default_key = (format == ImportFormat::LibSvm).then(|| "qid".to_owned());
        let mut key = options.key.clone().or(default_key);
        if let Some(name) = options.key.as_ref().filter(|name| are_fixed && !source.columns().contains(name))
        {
            return Err(no_column(name, source.columns()).in_file(path));
        }
        let mut facts: Vec<Option<Facts>> = Vec::new();
        let mut record = Record::default();
        let (mut count, mut sequences, mut first_line) = (0, 0, 0);
        let mut last_key: Option<String> = None;
        let mut keys = (!options.may_repeat_keys).then(Keys::default);
        let is_complete = loop {
            if options.sample.is_some_and(|most| count >= most) {
                break !source.read(&mut record)?;
            }
            if !source.read(&mut record)? {
                break true;
            }
            first_line = if count == 0 { record.line } else { first_line };
            for name in &source.columns()[facts.len()..] {
                let is_wanted = Some(name) != key.as_ref() && wanted.has(name);
                let mut new = Facts::new(keeps_all.contains(name));
                new.first_missing = (count > 0).then_some(first_line);
                facts.push(is_wanted.then_some(new));
            }
            for (number, facts) in facts.iter_mut().enumerate() {
                if let Some(facts) = facts {
                    facts.add(record.get(number), &record);
                }
            }
            let place = key.as_ref().and_then(|key| source.columns().iter().position(|name| name == key));
            let own = match place.map(|place| record.get(place)) {
                Some(Value::Text(span)) => Some(record.text(*span)),
                _ => None,
            };
            if own.is_none() || own != last_key.as_deref() {
                sequences += 1;
                if let (Some(keys), Some(own), Some(column)) = (&mut keys, own, &key) {
                    keys.add(own, record.line, column, path)?;
                }
                last_key = own.map(str::to_owned);
            }
            count += 1;
            if count % REPORT_EVERY == 0 {
                listener(source.position(), total);
            }
        };
        if count == 0 {
            let error = Error::data("There are no records.");
            return Err(error.with_detail("Check how the file was written.").in_file(path));
        }
        let columns = source.columns().to_vec();
        if options.key.is_none() && last_key.is_none() {
            key = None;
        }
        if let Some(name) = options.key.as_ref().filter(|name| !columns.contains(name)) {
            return Err(no_column(name, &columns).in_file(path));
        }
        Ok(Scan {
            path,
            format,
            columns,
            layout: source.layout(),
            facts,
            key,
            records: count,
            sequences,
            first_line,
            is_complete,
        })
    }

    fn facts(&self, name: &str) -> Option<&Facts> {
        self.facts.get(self.columns.iter().position(|own| own == name)?)?.as_ref()
    }
}

/// The columns that the requested streams need.
enum Wanted {
    All,
    Some(HashSet<String>),
}

impl Wanted {
    fn of(options: &ImportOptions, columns: &[String], are_fixed: bool) -> Result<Wanted> {
        let mut names = HashSet::new();
        for spec in &options.streams {
            let is_column = columns.contains(&spec.name);
            if spec.columns.is_none() && !is_column || !are_fixed && spec.has_places() {
                return Ok(Wanted::All);
            }
            names.extend(spec.resolve(columns, are_fixed)?);
        }
        Ok(if options.streams.is_empty() { Wanted::All } else { Wanted::Some(names) })
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Some(names) => names.contains(name),
        }
    }
}

/// Finds the streams by the facts.
struct Finder<'a> {
    scan: &'a Scan<'a>,
    options: &'a ImportOptions,
    /// Columns whose texts must be collected in another pass.
    needed: HashSet<String>,
    notes: Vec<String>,
}

impl Finder<'_> {
    fn streams(&mut self) -> Result<Vec<Stream>> {
        let scan = self.scan;
        let specs = &self.options.streams;
        let is_inferred = |spec: &StreamSpec| spec.columns.is_none() && !scan.columns.contains(&spec.name);
        let needs_all = specs.is_empty() || specs.iter().any(is_inferred);
        let inferred = if needs_all { self.inferred()? } else { Vec::new() };
        if specs.is_empty() {
            return Ok(inferred);
        }
        let mut streams: Vec<Stream> = Vec::new();
        for spec in specs {
            let columns = match is_inferred(spec) {
                false => spec.resolve(&scan.columns, true)?,
                true => match inferred.iter().find(|stream| stream.name == spec.name) {
                    Some(stream) => stream.columns.clone(),
                    None => {
                        let names = inferred.iter().map(|stream| &stream.name).chain(&scan.columns);
                        let names: Vec<String> = names.cloned().collect();
                        let message = format!("There is no stream or column '{}'.", spec.name);
                        return Err(unknown(message, &spec.name, &names).in_file(scan.path));
                    }
                },
            };
            if streams.iter().any(|stream| stream.name == spec.name) {
                let error = Error::argument(format!("The stream '{}' is described twice.", spec.name));
                return Err(error.with_detail("Describe each stream once.").in_stream(&spec.name));
            }
            streams.extend(self.requested(spec, columns)?);
        }
        Ok(streams)
    }

    /// The stream that a user described; `None` if another pass is needed.
    fn requested(&mut self, spec: &StreamSpec, columns: Vec<String>) -> Result<Option<Stream>> {
        let scan = self.scan;
        let are_sequences = scan.format == ImportFormat::Conll;
        let mut element = None;
        let mut shapes = Vec::new();
        for name in &columns {
            let Some(facts) = scan.facts(name) else {
                let message = format!("The column '{name}' of the stream '{}' has the keys.", spec.name);
                return Err(Error::argument(message).with_detail("Leave it out.").in_file(scan.path));
            };
            let is_label = columns.len() == 1 && (is_label(name) || is_label(&spec.name));
            if spec.kind.is_none() && columns.len() == 1 {
                self.check_strays(name, facts)?;
            }
            let shape = match spec.kind {
                None if columns.len() == 1 && facts.is_scalar() && !facts.is_numeric() => {
                    facts.category(false, true)
                }
                None if columns.len() == 1 => facts.shape(is_label, self.options.first_index, are_sequences),
                None => facts.dense(are_sequences),
                Some(KindSpec::Dense(own)) => {
                    element = own;
                    facts.dense(are_sequences)
                }
                Some(KindSpec::Category) => facts.category(facts.has_lists(), true),
                Some(KindSpec::Index(dim)) => {
                    let first = if facts.has_pairs() { self.options.first_index } else { Some(0) };
                    let shape = facts.index(first, facts.has_lists());
                    if let (Some(dim), Ok(found)) = (dim, &shape)
                        && found.dim > dim
                    {
                        let message =
                            format!("The column '{name}' needs the dimension {}, not {dim}.", found.dim);
                        let detail = "The dimension is the greatest index plus 1.";
                        return Err(Error::argument(message).with_detail(detail).in_file(scan.path));
                    }
                    shape.map(|shape| Shape { dim: dim.unwrap_or(shape.dim), ..shape })
                }
            };
            match shape {
                Ok(shape) => shapes.push(shape),
                Err(Refusal::NeedsTexts) => _ = self.needed.insert(name.clone()),
                Err(refusal) => return Err(refused(name, &refusal, scan)),
            }
        }
        if !self.needed.is_empty() {
            return Ok(None);
        }
        let is_one = shapes.len() == 1;
        if !is_one && shapes.iter().any(|shape| shape.kind != Kind::Dense || shape.is_sequence) {
            let message =
                format!("The stream '{}' has several columns that are not plain numbers.", spec.name);
            let detail = "Only columns of numbers become one dense stream. Give other columns a stream each.";
            return Err(Error::argument(message).with_detail(detail).in_file(scan.path));
        }
        let dim = shapes.iter().map(|shape| shape.dim).sum();
        let Some(shape) = shapes.into_iter().next() else { return Ok(None) };
        Ok(Some(self.stream(spec.name.clone(), columns, Shape { dim, ..shape }, element)))
    }

    /// All streams by inference.
    fn inferred(&mut self) -> Result<Vec<Stream>> {
        let scan = self.scan;
        let is_table = matches!(scan.format, ImportFormat::Csv | ImportFormat::Tsv | ImportFormat::Blanks);
        let is_feature =
            |name: &String| is_table && !is_label(name) && scan.facts(name).is_some_and(Facts::is_number);
        let features: Vec<String> = scan.columns.iter().filter(|name| is_feature(name)).cloned().collect();
        let mut names = HashSet::new();
        let mut streams = Vec::new();
        for (place, column) in scan.columns.iter().enumerate() {
            let Some(facts) = scan.facts(column) else { continue };
            if features.len() > 1 && is_feature(column) {
                if column == &features[0] {
                    let shape = Shape { kind: Kind::Dense, dim: features.len(), is_sequence: false };
                    names.insert("features".to_owned());
                    streams.push(self.stream("features".to_owned(), features.clone(), shape, None));
                }
                continue;
            }
            let is_skipped = match scan.format {
                ImportFormat::VowpalWabbit => column == "tag",
                ImportFormat::Conll => facts.is_blank() || column == "id" && scan.columns.len() == 10,
                _ => false,
            };
            if is_skipped {
                self.notes.push(format!("The column '{column}' is left out. --stream {column} takes it."));
                continue;
            }
            if !self.is_chosen(column) {
                self.check_strays(column, facts)?;
            }
            let are_sequences = scan.format == ImportFormat::Conll;
            match facts.shape(is_label(column), self.options.first_index, are_sequences) {
                Ok(shape) => {
                    let name = unique(column, place, &mut names);
                    streams.push(self.stream(name, vec![column.clone()], shape, None));
                }
                Err(Refusal::NeedsTexts) => _ = self.needed.insert(column.clone()),
                // Formats have columns that few files use.
                Err(Refusal::Empty) if !is_table => {}
                Err(refusal) => self.notes.push(left_out(column, &refusal)),
            }
        }
        Ok(streams)
    }

    /// Whether a user chose the type of the column's stream.
    fn is_chosen(&self, column: &String) -> bool {
        let has = |spec: &StreamSpec| {
            spec.resolve(&self.scan.columns, true).is_ok_and(|columns| columns.contains(column))
        };
        self.options.streams.iter().any(|spec| spec.kind.is_some() && has(spec))
    }

    /// Fails if the column has numbers except for a few texts: as categories, all of its numbers
    /// would become names.
    fn check_strays(&self, column: &str, facts: &Facts) -> Result<()> {
        let scan = self.scan;
        // The values of the other formats are names, or have numbers by their syntax.
        if matches!(scan.format, ImportFormat::Conll | ImportFormat::VowpalWabbit | ImportFormat::LibSvm) {
            return Ok(());
        }
        let Some(Strays { count, first, line, numbers }) = facts.strays() else { return Ok(()) };
        let message = match count {
            1 => format!("The column '{column}' has the text '{first}' among {numbers} numbers."),
            _ => {
                format!(
                    "The column '{column}' has {count} texts among {numbers} numbers, the first is '{first}'."
                )
            }
        };
        let mut detail = String::new();
        if count == 1 && line == scan.first_line && scan.layout.is_some_and(|(_, has_names)| !has_names) {
            detail += match self.options.header {
                Some(false) => "If the first row has names, leave out --no-header. ",
                _ => "If the first row has names, give --header. ",
            };
        }
        detail += &format!(
            "Correct the file, or write NA for a missing number, which --missing NUMBER replaces. If the column does not have numbers, \
             choose its type, and describe all streams: --stream {column}:category."
        );
        if self.options.missing.is_some() {
            detail +=
                &format!(" --missing replaces only empty fields, NA, N/A, NaN and null, not '{first}'.");
        }
        Err(Error::data(message).with_detail(detail).in_file(scan.path).in_line(line))
    }

    /// Makes a stream, and notes what is odd about it.
    fn stream(
        &mut self,
        name: String,
        columns: Vec<String>,
        shape: Shape,
        element: Option<ElementType>,
    ) -> Stream {
        let scan = self.scan;
        let is_dense = shape.kind == Kind::Dense;
        let default = self.options.element.unwrap_or(ElementType::Float);
        let element = element.filter(|_| is_dense).unwrap_or(default);
        let (mut missing, mut first_missing) = (0, None);
        for column in &columns {
            let Some(facts) = scan.facts(column) else { continue };
            let words = if is_dense { facts.missing_words } else { 0 };
            let own = scan.records - facts.present + words;
            missing = missing.max(own);
            if own > 0 && first_missing.is_none() {
                first_missing = facts.first_missing.map(|line| (line, column.clone()));
            }
            if is_dense && element == ElementType::Float && facts.exceeds_float() {
                self.notes.push(format!(
                    "The column '{column}' has whole numbers beyond 16777216, which float32 rounds: --precision double keeps them."
                ));
            }
            if is_dense && columns.len() > 1 && facts.counts_records() {
                self.notes.push(format!(
                    "The column '{column}' counts the records: leave it out (--stream NAME=COLUMNS), or use it as --key-column."
                ));
            }
        }
        let Shape { kind, dim, is_sequence } = shape;
        Stream { name, columns, kind, dim, is_sequence, element, missing, first_missing }
    }
}

fn is_label(name: &str) -> bool {
    LABELS.iter().any(|label| label.eq_ignore_ascii_case(name))
}

/// Makes a name that all formats accept, and that differs from the others.
fn unique(column: &str, place: usize, names: &mut HashSet<String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut name: String = column.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.chars().all(|c| c == '_') {
        name = format!("c{name}");
    }
    // Names in a configuration do not depend on case.
    if !names.insert(name.to_ascii_lowercase()) {
        name = format!("{name}_{}", place + 1);
        names.insert(name.to_ascii_lowercase());
    }
    name
}

fn left_out(column: &str, refusal: &Refusal) -> String {
    match refusal {
        Refusal::FreeText(total, Some(count)) => format!(
            "The column '{column}' is left out: {count} of its {total} texts differ. --stream {column}:category takes it."
        ),
        Refusal::FreeText(..) | Refusal::NeedsTexts => {
            format!(
                "The column '{column}' is left out: most of its texts differ. --stream {column}:category takes it."
            )
        }
        Refusal::Wrong(what, line) => {
            let line = line.map_or_else(String::new, |line| format!(" (line {line})"));
            format!("The column '{column}' is left out: {what}{line}.")
        }
        Refusal::Empty => format!("The column '{column}' is left out: it has no values."),
    }
}

fn refused(column: &str, refusal: &Refusal, scan: &Scan<'_>) -> Error {
    let (what, line) = match refusal {
        Refusal::Wrong(what, line) => (what.clone(), *line),
        Refusal::Empty => ("it has no values".to_owned(), None),
        Refusal::FreeText(..) | Refusal::NeedsTexts => ("its texts hardly repeat".to_owned(), None),
    };
    let error = Error::data(format!("The column '{column}' does not fit its stream: {what}."))
        .with_detail("Give the stream another type, or leave the column out.")
        .in_file(scan.path);
    line.into_iter().fold(error, Error::in_line)
}
