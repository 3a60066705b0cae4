//! Reads columns of Arrow and Parquet files as sequences.

use super::file::{ColumnFile, MAX_ROWS};
use super::types::{describe, type_name};
use super::values::{Problem, is_key, keys, take};
use super::{ColumnOptions, ColumnOutline, Container, KEY, Outline, Role};
use crate::exit::Failure;
use arrow_array::RecordBatch;
use cntk_reader::{ElementType, Error, Result, StreamInfo};
use cntk_reader_tools::convert::{Batch, Column, Data};
use std::collections::HashSet;

/// A column that becomes a stream.
struct Plan {
    /// Its number in the file.
    number: usize,
    info: StreamInfo,
    is_sequence: bool,
    is_one_hot: bool,
}

/// Opens a file: every column but `key` is a stream.
pub fn open(path: &str, container: Container, options: &ColumnOptions) -> std::result::Result<Data, Failure> {
    let file = ColumnFile::open(path, container)?;
    let schema = file.schema().clone();
    check(&file, options)?;
    let key = key(&file)?;
    // Unknown names are rejected later, with a list of the known ones.
    let is_known = options.streams.iter().all(|name| schema.field_with_name(name).is_ok());
    let is_wanted = |name: &String| options.streams.is_empty() || !is_known || options.streams.contains(name);
    let mut plans = Vec::new();
    for (number, field) in schema.fields().iter().enumerate() {
        if Some(number) != key && is_wanted(field.name()) {
            plans.push(plan(&file, number, options)?);
        }
    }
    if plans.is_empty() {
        let error = Error::data("The file has no column that could be a stream.");
        let detail = format!("Every column but '{KEY}' is a stream.");
        return Err(error.with_detail(detail).in_file(path).into());
    }
    let mut columns: Vec<usize> = plans.iter().map(|plan| plan.number).chain(key).collect();
    columns.sort_unstable();
    let places: Vec<usize> = plans.iter().map(|plan| place(&columns, plan.number)).collect();
    let key_place = key.map(|key| place(&columns, key));
    let mut batches = file.batches(&columns)?;
    let streams: Vec<StreamInfo> = plans.iter().map(|plan| plan.info.clone()).collect();
    let are_single = !plans.iter().any(|plan| plan.is_sequence);
    let rows = file.known_rows()?;
    let mut done = 0;
    let next = move |batch: &mut Batch| -> Result<bool> {
        for rows in batches.by_ref() {
            let rows = rows.map_err(|what| file.damaged(&what))?;
            if rows.num_rows() == 0 {
                continue;
            }
            let wrong = |name: &str, problem: Problem| wrong(&file, name, done, rows.num_rows(), problem);
            batch.keys.extend(keys(&rows, key_place).map_err(|problem| wrong(KEY, problem))?);
            for ((plan, place), column) in plans.iter().zip(&places).zip(&mut batch.columns) {
                let taken = take(rows.column(*place), plan.is_one_hot, plan.info.element, column);
                taken.map_err(|problem| wrong(&plan.info.name, problem))?;
                check_indices(plan, column).map_err(|problem| wrong(&plan.info.name, problem))?;
            }
            done += rows.num_rows() as u64;
            return Ok(true);
        }
        Ok(false)
    };
    Ok(Data::of_batches(streams, key.is_some(), rows, next).with_single_samples(are_single))
}

/// Describes a file: its columns, and what they become.
pub fn outline(
    path: &str,
    container: Container,
    options: &ColumnOptions,
) -> std::result::Result<Outline, Failure> {
    let file = ColumnFile::open(path, container)?;
    check(&file, options)?;
    let mut columns = Vec::new();
    for (number, field) in file.schema().fields().iter().enumerate() {
        let role = match plan(&file, number, options) {
            _ if field.name() == KEY && is_key(field.data_type()) => Role::Key,
            Ok(Plan { info, is_sequence, .. }) => Role::Stream { info, is_sequence },
            Err(error) if error.kind() == cntk_reader::ErrorKind::Io => return Err(error.into()),
            Err(error) => Role::Refused(error.to_string()),
        };
        columns.push(ColumnOutline { name: field.name().clone(), kind: type_name(field.data_type()), role });
    }
    Ok(Outline { rows: file.rows()?, groups: file.groups()?, columns })
}

/// Fails for names that occur twice, and for options about columns that do not exist.
fn check(file: &ColumnFile, options: &ColumnOptions) -> Result<()> {
    let mut names = HashSet::new();
    let fields = file.schema().fields();
    if let Some(field) = fields.iter().find(|field| !names.insert(field.name())) {
        let error = Error::data(format!("Two columns have the name '{}'.", field.name()));
        return Err(error
            .with_detail("Rename one of them, because streams have different names.")
            .in_file(file.path()));
    }
    if let Some((name, _)) = options.one_hot.iter().find(|(name, _)| !names.contains(name)) {
        let known: Vec<_> = fields.iter().take(20).map(|field| format!("'{}'", field.name())).collect();
        let error = Error::argument(format!("There is no column '{name}', which --one-hot names."));
        return Err(error.with_detail(format!("The file has {}.", known.join(", "))).in_file(file.path()));
    }
    Ok(())
}

/// Returns the number of the column of keys.
fn key(file: &ColumnFile) -> Result<Option<usize>> {
    let Some((number, field)) = file.schema().column_with_name(KEY) else { return Ok(None) };
    if is_key(field.data_type()) {
        return Ok(Some(number));
    }
    let message = format!("The column '{KEY}' has the type {}.", type_name(field.data_type()));
    let detail = "The column of this name has the keys of the sequences, which are texts or whole \
                  numbers. Rename it if it has something else.";
    Err(Error::data(message).with_detail(detail).in_file(file.path()))
}

fn plan(file: &ColumnFile, number: usize, options: &ColumnOptions) -> Result<Plan> {
    let field = file.schema().field(number);
    let one_hot = options.one_hot.iter().find(|(name, _)| name == field.name());
    let described = describe(field, one_hot.map(|(_, classes)| *classes));
    let described = described.map_err(|error| error.in_file(file.path()))?;
    let mut info = described.info;
    if info.sample_size() == 0 {
        let dim = greatest_index(file, number, options.sample)? + 1;
        info = StreamInfo::sparse(field.name(), &[dim]).element(info.element);
    }
    if let Some(element) = options.element {
        info = info.element(element);
    }
    Ok(Plan { number, info, is_sequence: described.is_sequence, is_one_hot: described.is_one_hot })
}

fn place(columns: &[usize], number: usize) -> usize {
    columns.iter().position(|column| *column == number).unwrap_or(0)
}

/// Returns the greatest index in a column of sparse samples.
fn greatest_index(file: &ColumnFile, number: usize, sample: Option<u64>) -> Result<usize> {
    let (mut greatest, mut done) = (0, 0);
    let mut column = Column::default();
    let name = file.schema().field(number).name();
    for rows in file.batches(&[number])? {
        let rows: RecordBatch = rows.map_err(|what| file.damaged(&what))?;
        column.clear();
        take(rows.column(0), false, ElementType::Float, &mut column)
            .map_err(|problem| wrong(file, name, done, rows.num_rows(), problem))?;
        greatest = column.indices.iter().fold(greatest, |greatest, &index| greatest.max(index));
        done += rows.num_rows() as u64;
        // Batches of several columns have fewer rows, and may end later.
        if sample.is_some_and(|most| done >= most + MAX_ROWS) {
            break;
        }
    }
    Ok(greatest.max(0) as usize)
}

/// Fails for an index beyond the dimension.
fn check_indices(plan: &Plan, column: &Column) -> std::result::Result<(), Problem> {
    let dim = plan.info.sample_size();
    match column.indices.iter().find(|&&index| usize::try_from(index).is_ok_and(|index| index >= dim)) {
        Some(index) => Err(format!("the index {index} does not fit into the dimension {dim}").into()),
        None => Ok(()),
    }
}

/// The error for values in a batch of rows.
fn wrong(file: &ColumnFile, column: &str, first: u64, rows: usize, problem: Problem) -> Error {
    let last = first + rows as u64;
    let message = format!("The column '{column}', rows {} to {last}: {}.", first + 1, problem.what);
    Error::data(message).with_detail(problem.advice).in_stream(column).in_file(file.path())
}
