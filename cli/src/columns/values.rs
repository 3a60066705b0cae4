//! Takes keys and values out of the arrays of columns.

use super::types::{element_of, type_name};
use super::{INDICES, KEY, VALUES};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use cntk_reader::{Element, ElementType};
use cntk_reader_core::with_element;
use cntk_reader_tools::convert::Column;
use std::fmt::Display;

/// A reason why values of a column cannot be taken, and what to do.
#[derive(Debug)]
pub struct Problem {
    pub what: String,
    pub advice: &'static str,
}

/// The result of taking values.
pub type Taken<T> = std::result::Result<T, Problem>;

/// The advice for values of the right type that are wrong.
const CORRECT: &str = "Correct the values, or leave the column out: name the others with --stream.";

impl From<String> for Problem {
    fn from(what: String) -> Problem {
        Problem { what, advice: CORRECT }
    }
}

/// Returns the keys of the rows, which are empty without a column of keys.
pub fn keys(rows: &RecordBatch, key: Option<usize>) -> Taken<Vec<String>> {
    let Some(number) = key else { return Ok(vec![String::new(); rows.num_rows()]) };
    let column = rows.column(number);
    if column.null_count() > 0 {
        let what = format!("{} of the keys are null", column.null_count());
        return Err(Problem { what, advice: "Give every row a key, or remove or rename the column." });
    }
    match column.data_type() {
        kind if kind.is_integer() => Ok(integers(column)?.iter().map(i64::to_string).collect()),
        _ => texts(column),
    }
}

/// Whether a type can hold keys.
pub fn is_key(kind: &DataType) -> bool {
    match kind {
        DataType::Dictionary(_, values) => values.is_string(),
        kind => kind.is_string() || kind.is_integer(),
    }
}

/// Returns the texts of a column without nulls.
fn texts(array: &ArrayRef) -> Taken<Vec<String>> {
    fn owned<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Vec<String> {
        texts.map(|text| text.unwrap_or_default().to_owned()).collect()
    }
    Ok(match array.data_type() {
        DataType::Utf8 => owned(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => owned(array.as_string::<i64>().iter()),
        DataType::Utf8View => owned(array.as_string_view().iter()),
        DataType::Dictionary(_, values) if values.is_string() => {
            let dictionary = array.as_any_dictionary();
            let known = texts(dictionary.values())?;
            let text = |&code: &usize| known.get(code).cloned().unwrap_or_default();
            dictionary.normalized_keys().iter().map(text).collect()
        }
        kind => {
            let what = format!("the column '{KEY}' has the type {}", type_name(kind));
            return Err(what.into());
        }
    })
}

fn no_nulls(array: &dyn Array) -> Taken<()> {
    match array.null_count() {
        0 => Ok(()),
        count => Err(Problem {
            what: format!("{count} of the values are null, which sequences cannot have"),
            advice: "Replace them first (pandas: fillna, Polars: fill_null, Spark: na.fill), or leave \
                     the column out: name the others with --stream.",
        }),
    }
}

/// Returns the lengths of a list array's elements, and the values they cover.
fn list(array: &ArrayRef) -> Taken<(Vec<u32>, ArrayRef)> {
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
        kind => return Err(format!("expected a list, found {}", type_name(kind)).into()),
    };
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    let lengths = offsets.windows(2).map(|pair| u32::try_from(pair[1] - pair[0]));
    let lengths = lengths.collect::<std::result::Result<Vec<_>, _>>();
    let lengths = lengths.map_err(|_| "a list is too long".to_owned())?;
    let size = last.checked_sub(first).and_then(|size| usize::try_from(size).ok());
    let first = usize::try_from(first).ok();
    match (first, size) {
        (Some(first), Some(size)) if first + size <= values.len() => Ok((lengths, values.slice(first, size))),
        _ => Err("the offsets of a list are wrong".to_owned().into()),
    }
}

/// Appends the sequences of a column.
pub fn take(array: &ArrayRef, is_one_hot: bool, element: ElementType, out: &mut Column) -> Taken<()> {
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
                let index = i32::try_from(class).ok().filter(|index| *index >= 0);
                out.indices.push(index.ok_or_else(|| format!("{class} is not a class number"))?);
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
                found.ok_or_else(|| format!("a sparse sample has no field '{name}'").into()).and_then(list)
            };
            let ((mut counts, indices), (others, values)) = (part(INDICES)?, part(VALUES)?);
            if counts != others {
                return Err("a sparse sample has different numbers of indices and values".to_owned().into());
            }
            out.counts.append(&mut counts);
            for index in integers(&indices)? {
                let fits = i32::try_from(index).ok().filter(|index| *index >= 0);
                out.indices.push(fits.ok_or_else(|| format!("the index {index} is out of range"))?);
            }
            numbers(&values, element, &mut out.values)
        }
        _ => numbers(&samples, element, &mut out.values),
    }
}

/// Appends numbers as values of the element type.
fn numbers(array: &ArrayRef, element: ElementType, out: &mut Vec<u8>) -> Taken<()> {
    no_nulls(array)?;
    with_element!(element, T => numbers_as::<T>(array, out))
}

fn numbers_as<T: Element>(array: &ArrayRef, out: &mut Vec<u8>) -> Taken<()> {
    let inexact = |value: &dyn Display| format!("{} cannot hold the value {value} exactly", T::TYPE.name());
    let mut push = |value: Option<T>, number: &dyn Display| match value {
        Some(value) => {
            out.extend_from_slice(bytemuck::bytes_of(&value));
            Ok(())
        }
        None => Err(Problem::from(inexact(number))),
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
        kind => Err(format!("expected numbers, found {}", type_name(kind)).into()),
    }
}

/// Returns the values of an integer column.
fn integers(array: &ArrayRef) -> Taken<Vec<i64>> {
    no_nulls(array)?;
    if !array.data_type().is_integer() {
        return Err(format!("expected whole numbers, found {}", type_name(array.data_type())).into());
    }
    let mut bytes = Vec::with_capacity(array.len() * size_of::<i64>());
    numbers_as::<i64>(array, &mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|&number| i64::from_ne_bytes(number)).collect())
}
