//! Reads columns of Arrow files as sequences.

use super::{DIM, INDICES, KEY, SHAPE, VALUES};
use crate::commands::convert::ArrowOptions;
use crate::exit::Failure;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_ipc::reader::FileReader;
use arrow_schema::{DataType, Field, Fields};
use cntk_reader::{Element, ElementType, Error, Result, StreamInfo};
use cntk_reader_core::with_element;
use cntk_reader_tools::convert::{Batch, Column, Data};
use std::fmt::Display;
use std::fs::File;
use std::io::BufReader;

type Reader = FileReader<BufReader<File>>;

/// Opens an Arrow file: every column but `key` is a stream.
pub fn open(path: &str, options: &ArrowOptions) -> std::result::Result<Data, Failure> {
    let mut reader = reader(path)?;
    let schema = reader.schema();
    let key = schema.fields().iter().position(|field| field.name() == KEY);
    let mut streams = Vec::new();
    let mut columns = Vec::new();
    // Unknown names are rejected later, with a list of the known ones.
    let is_known = options.streams.iter().all(|name| schema.field_with_name(name).is_ok());
    let is_wanted =
        |field: &Field| options.streams.is_empty() || !is_known || options.streams.contains(field.name());
    let fields = schema.fields().iter().enumerate();
    for (number, field) in fields.filter(|(number, field)| Some(*number) != key && is_wanted(field)) {
        let one_hot = options.one_hot.iter().find(|(name, _)| name == field.name());
        let described = describe(path, number, field, one_hot.map(|(_, classes)| *classes));
        let (info, is_one_hot) = described.map_err(|error| error.in_stream(field.name()).in_file(path))?;
        streams.push(options.element.map_or(info.clone(), |element| info.element(element)));
        columns.push((number, is_one_hot));
    }
    let (file, infos) = (path.to_owned(), streams.clone());
    let next = move |batch: &mut Batch| -> Result<bool> {
        for rows in reader.by_ref() {
            let rows = rows.map_err(|cause| damaged(&file, &cause.to_string()))?;
            if rows.num_rows() == 0 {
                continue;
            }
            batch.keys.extend(keys(&rows, key).map_err(|what| damaged(&file, &what))?);
            for (((number, is_one_hot), info), column) in columns.iter().zip(&infos).zip(&mut batch.columns) {
                let taken = take(rows.column(*number), *is_one_hot, info.element, column);
                taken.map_err(|what| damaged(&file, &what).in_stream(&info.name))?;
            }
            return Ok(true);
        }
        Ok(false)
    };
    Ok(Data::of_batches(streams, key.is_some(), None, next))
}

fn reader(path: &str) -> Result<Reader> {
    let file = File::open(path).map_err(|cause| Error::io("Error opening file", path, &cause))?;
    FileReader::try_new(BufReader::new(file), None).map_err(|cause| damaged(path, &cause.to_string()))
}

fn damaged(path: &str, what: &str) -> Error {
    Error::data(format!("Cannot read the Arrow file '{path}': {what}.")).in_file(path)
}

/// The element type of a dense stream: the column's, or the smallest supported type that holds its
/// integers.
fn element_of(kind: &DataType) -> Option<ElementType> {
    Some(match kind {
        DataType::Boolean => ElementType::Bool,
        DataType::UInt8 => ElementType::UInt8,
        DataType::Int8 | DataType::Int16 => ElementType::Int16,
        DataType::UInt16 | DataType::Int32 => ElementType::Int32,
        DataType::UInt32 | DataType::Int64 | DataType::UInt64 => ElementType::Int64,
        DataType::Float16 => ElementType::Float16,
        DataType::Float32 => ElementType::Float,
        DataType::Float64 => ElementType::Double,
        _ => return None,
    })
}

/// The type of the values of sparse samples.
fn sparse_element(fields: &Fields) -> ElementType {
    let values = fields.iter().find(|field| field.name() == VALUES).map(|field| field.data_type());
    match values {
        Some(DataType::List(item) | DataType::LargeList(item)) if *item.data_type() == DataType::Float64 => {
            ElementType::Double
        }
        _ => ElementType::Float,
    }
}

/// The type of the samples in a column of sequences.
fn sample_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::List(item) | DataType::LargeList(item) => item.data_type(),
        kind => kind,
    }
}

/// Describes the stream of a column, and returns whether the column holds class numbers.
fn describe(path: &str, number: usize, field: &Field, classes: Option<usize>) -> Result<(StreamInfo, bool)> {
    let sample = sample_type(field.data_type());
    let stated = |name: &str| field.metadata().get(name);
    let shape = |size: usize| {
        let shape = stated(SHAPE)
            .and_then(|shape| shape.split(':').map(|dim| dim.parse().ok()).collect::<Option<Vec<usize>>>());
        shape.filter(|shape| shape.iter().product::<usize>() == size).unwrap_or_else(|| vec![size])
    };
    let (values, width) = match sample {
        DataType::FixedSizeList(item, size) => (item.data_type(), *size as usize),
        kind => (kind, 1),
    };
    match (sample, classes) {
        (kind, Some(classes)) if kind.is_integer() => {
            Ok((StreamInfo::sparse(field.name(), &[classes]), true))
        }
        (_, None)
            if width > 0
                && let Some(element) = element_of(values) =>
        {
            Ok((StreamInfo::dense(field.name(), &shape(width)).element(element), false))
        }
        (DataType::Struct(fields), classes) => {
            let dim = match classes.or_else(|| stated(DIM).and_then(|dim| dim.parse().ok())) {
                Some(dim) => dim,
                None => greatest_index(path, number)? + 1,
            };
            Ok((StreamInfo::sparse(field.name(), &shape(dim)).element(sparse_element(fields)), false))
        }
        (kind, _) => {
            let error = Error::data(format!("The column '{}' has the type {kind}.", field.name()));
            Err(error.with_detail(
                "Expected numbers, FixedSizeList of numbers, Struct<indices: List<int32>, values: List<float>>, or a List of \
                 one of these. --one-hot NAME=CLASSES takes whole numbers as classes.",
            ))
        }
    }
}

/// Returns the greatest index in a column of sparse samples.
fn greatest_index(path: &str, number: usize) -> Result<usize> {
    let mut greatest = 0;
    for rows in reader(path)? {
        let rows = rows.map_err(|cause| damaged(path, &cause.to_string()))?;
        let mut column = Column::default();
        take(rows.column(number), false, ElementType::Float, &mut column)
            .map_err(|what| damaged(path, &what))?;
        greatest = column.indices.iter().fold(greatest, |greatest, &index| greatest.max(index));
    }
    Ok(greatest.max(0) as usize)
}

fn keys(rows: &RecordBatch, key: Option<usize>) -> std::result::Result<Vec<String>, String> {
    let Some(number) = key else { return Ok(vec![String::new(); rows.num_rows()]) };
    let column = rows.column(number);
    no_nulls(column)?;
    Ok(match column.data_type() {
        DataType::Utf8 => {
            column.as_string::<i32>().iter().map(|key| key.unwrap_or_default().to_owned()).collect()
        }
        DataType::LargeUtf8 => {
            column.as_string::<i64>().iter().map(|key| key.unwrap_or_default().to_owned()).collect()
        }
        kind if kind.is_integer() => integers(column)?.iter().map(i64::to_string).collect(),
        kind => {
            return Err(format!("the column '{KEY}' has the type {kind}; expected strings or whole numbers"));
        }
    })
}

fn no_nulls(array: &ArrayRef) -> std::result::Result<(), String> {
    match array.null_count() {
        0 => Ok(()),
        count => Err(format!("{count} values are null, which sequences cannot have")),
    }
}

/// Returns the lengths of a list array's elements, and the values they cover.
fn list(array: &ArrayRef) -> std::result::Result<(Vec<u32>, ArrayRef), String> {
    no_nulls(array)?;
    let (offsets, values): (Vec<i64>, &ArrayRef) = match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            (list.value_offsets().iter().map(|&offset| offset.into()).collect(), list.values())
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            (list.value_offsets().to_vec(), list.values())
        }
        kind => return Err(format!("expected a list, found {kind}")),
    };
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let lengths = offsets.windows(2).map(|pair| u32::try_from(pair[1] - pair[0]));
    let lengths = lengths.collect::<std::result::Result<Vec<_>, _>>().map_err(|_| "a list is too long")?;
    let size = last.checked_sub(first).and_then(|size| usize::try_from(size).ok());
    let first = usize::try_from(first).ok();
    match (first, size) {
        (Some(first), Some(size)) if first + size <= values.len() => Ok((lengths, values.slice(first, size))),
        _ => Err("the offsets of a list are wrong".to_owned()),
    }
}

/// Appends the sequences of a column.
fn take(
    array: &ArrayRef,
    is_one_hot: bool,
    element: ElementType,
    out: &mut Column,
) -> std::result::Result<(), String> {
    let samples = match array.data_type() {
        DataType::List(_) | DataType::LargeList(_) => {
            let (mut lengths, samples) = list(array)?;
            out.lengths.append(&mut lengths);
            samples
        }
        _ => {
            out.lengths.extend(std::iter::repeat_n(1, array.len()));
            array.slice(0, array.len())
        }
    };
    no_nulls(&samples)?;
    match samples.data_type() {
        _ if is_one_hot => {
            for class in integers(&samples)? {
                let index = i32::try_from(class).map_err(|_| format!("{class} is not a class number"))?;
                out.indices.push(index);
                out.counts.push(1);
                match element {
                    ElementType::Double => out.values.extend(1f64.to_ne_bytes()),
                    _ => out.values.extend(1f32.to_ne_bytes()),
                }
            }
            Ok(())
        }
        DataType::FixedSizeList(_, size) => {
            let list = samples.as_fixed_size_list();
            let first = list.value_offset_at(0);
            numbers(&list.values().slice(first, samples.len() * *size as usize), element, &mut out.values)
        }
        DataType::Struct(_) => {
            let parts = samples.as_struct();
            let part = |name: &str| {
                let found = parts.column_by_name(name);
                found.ok_or_else(|| format!("a sparse sample has no field '{name}'")).and_then(list)
            };
            let ((mut counts, indices), (others, values)) = (part(INDICES)?, part(VALUES)?);
            if counts != others {
                return Err("a sparse sample has different numbers of indices and values".to_owned());
            }
            out.counts.append(&mut counts);
            for index in integers(&indices)? {
                out.indices
                    .push(i32::try_from(index).map_err(|_| format!("the index {index} is too large"))?);
            }
            numbers(&values, element, &mut out.values)
        }
        _ => numbers(&samples, element, &mut out.values),
    }
}

/// Appends numbers as values of the element type.
fn numbers(array: &ArrayRef, element: ElementType, out: &mut Vec<u8>) -> std::result::Result<(), String> {
    no_nulls(array)?;
    with_element!(element, T => numbers_as::<T>(array, out))
}

fn numbers_as<T: Element>(array: &ArrayRef, out: &mut Vec<u8>) -> std::result::Result<(), String> {
    let inexact = |value: &dyn Display| format!("{} cannot hold the value {value} exactly", T::TYPE.name());
    let mut push = |value: Option<T>, number: &dyn Display| match value {
        Some(value) => {
            out.extend_from_slice(bytemuck::bytes_of(&value));
            Ok(())
        }
        None => Err(inexact(number)),
    };
    macro_rules! integers {
        ($type:ty) => {{
            let mut values = array.as_primitive::<$type>().values().iter();
            values.try_for_each(|value| push(T::of_integer((*value).into()), value))
        }};
    }
    macro_rules! floats {
        ($type:ty) => {{
            let values = array.as_primitive::<$type>().values();
            if element_of(&<$type>::DATA_TYPE) == Some(T::TYPE) {
                // Copied, because a conversion through `f64` may change the bits of a NaN.
                out.extend_from_slice(values.inner().as_slice());
                return Ok(());
            }
            values.iter().try_for_each(|value| push(T::of_number((*value).into()), value))
        }};
    }
    match array.data_type() {
        DataType::Boolean => {
            let mut values = array.as_boolean().values().iter();
            values.try_for_each(|value| push(T::of_integer(value.into()), &value))
        }
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float16 => floats!(Float16Type),
        DataType::Float32 => floats!(Float32Type),
        DataType::Float64 => floats!(Float64Type),
        kind => Err(format!("expected numbers, found {kind}")),
    }
}

/// Returns the values of an integer column.
fn integers(array: &ArrayRef) -> std::result::Result<Vec<i64>, String> {
    no_nulls(array)?;
    if !array.data_type().is_integer() {
        return Err(format!("expected whole numbers, found {}", array.data_type()));
    }
    let mut bytes = Vec::with_capacity(array.len() * size_of::<i64>());
    numbers_as::<i64>(array, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|&number| i64::from_ne_bytes(number)).collect())
}
