//! Maps the types of columns to streams, and refuses unsupported types.

use super::{DIM, INDICES, SHAPE, VALUES};
use arrow_schema::{DataType, Field, Fields};
use cntk_reader::{ElementType, Error, Result, StreamInfo};

/// The stream that a column becomes.
pub struct Description {
    /// The stream. The dimension of a sparse stream is 0 if only its indices tell it.
    pub info: StreamInfo,
    /// Whether a row may have several samples.
    pub is_sequence: bool,
    /// Whether the column has class numbers.
    pub is_one_hot: bool,
}

/// The supported types, for messages.
const SUPPORTED: &str = "Supported are numbers and booleans, FixedSizeList of them, Struct<indices: \
                         List<int32>, values: List<float>>, and List or LargeList of one of these.";

/// The element type of a dense stream: the column's, or the smallest supported type that holds its
/// integers.
pub fn element_of(kind: &DataType) -> Option<ElementType> {
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

/// The name of a type as pyarrow prints it, for types that this module knows.
pub fn type_name(kind: &DataType) -> String {
    let name = match kind {
        DataType::Boolean => "bool",
        DataType::Int8 => "int8",
        DataType::Int16 => "int16",
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt8 => "uint8",
        DataType::UInt16 => "uint16",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float16 => "halffloat",
        DataType::Float32 => "float",
        DataType::Float64 => "double",
        DataType::Utf8 => "string",
        DataType::LargeUtf8 => "large_string",
        DataType::Utf8View => "string_view",
        DataType::List(item) => return format!("List<{}>", type_name(item.data_type())),
        DataType::LargeList(item) => return format!("LargeList<{}>", type_name(item.data_type())),
        DataType::FixedSizeList(item, size) => {
            return format!("FixedSizeList<{}, {size}>", type_name(item.data_type()));
        }
        DataType::Dictionary(codes, values) => {
            return format!("Dictionary<{}, {}>", type_name(codes), type_name(values));
        }
        DataType::Struct(fields) => {
            let field =
                |field: &std::sync::Arc<Field>| format!("{}: {}", field.name(), type_name(field.data_type()));
            let mut shown: Vec<String> = fields.iter().take(4).map(field).collect();
            if fields.len() > shown.len() {
                shown.push("...".to_owned());
            }
            return format!("Struct<{}>", shown.join(", "));
        }
        kind => return kind.to_string(),
    };
    name.to_owned()
}

/// Describes the stream of a column; `classes` is the number of classes that a user gave for it.
pub fn describe(field: &Field, classes: Option<usize>) -> Result<Description> {
    let (sample, is_sequence) = match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) => (item.data_type(), true),
        kind => (kind, false),
    };
    let stated = |name: &str| field.metadata().get(name);
    let shape = |size: usize| {
        let shape = stated(SHAPE)
            .and_then(|shape| shape.split(':').map(|dim| dim.parse().ok()).collect::<Option<Vec<usize>>>());
        let product = |shape: &Vec<usize>| shape.iter().try_fold(1usize, |all, &dim| all.checked_mul(dim));
        shape.filter(|shape| product(shape) == Some(size)).unwrap_or_else(|| vec![size])
    };
    let (values, width) = match sample {
        DataType::FixedSizeList(item, size) => (item.data_type(), usize::try_from(*size).unwrap_or(0)),
        kind => (kind, 1),
    };
    let described = |info, is_one_hot| Ok(Description { info, is_sequence, is_one_hot });
    match (sample, classes) {
        (kind, Some(classes)) if kind.is_integer() => {
            described(StreamInfo::sparse(field.name(), &[classes]), true)
        }
        (_, None)
            if width > 0
                && let Some(element) = element_of(values) =>
        {
            described(StreamInfo::dense(field.name(), &shape(width)).element(element), false)
        }
        (DataType::Struct(fields), classes) if let Some(element) = sparse_element(fields) => {
            let dim = classes.or_else(|| stated(DIM).and_then(|dim| dim.parse().ok())).unwrap_or(0);
            let dim = if i32::try_from(dim).is_ok() { dim } else { 0 };
            described(StreamInfo::sparse(field.name(), &shape(dim)).element(element), false)
        }
        _ => {
            let kind = type_name(field.data_type());
            let message =
                format!("The column '{}' has the type {kind}, which cannot become a stream.", field.name());
            let advice = match classes {
                Some(_) => "--one-hot NAME=CLASSES is for columns of whole numbers.",
                None => advice(sample, field.data_type()),
            };
            let detail =
                format!("{SUPPORTED} {advice} Or leave the column out: name the others with --stream.");
            Err(Error::data(message).with_detail(detail).in_stream(field.name()))
        }
    }
}

/// The type of the values of sparse samples with these fields, if they are sparse samples.
fn sparse_element(fields: &Fields) -> Option<ElementType> {
    let item = |name: &str| {
        let field = fields.iter().find(|field| field.name() == name)?;
        match field.data_type() {
            DataType::List(item) | DataType::LargeList(item) => Some(item.data_type()),
            _ => None,
        }
    };
    let values = element_of(item(VALUES)?)?;
    item(INDICES)?.is_integer().then_some(match values {
        ElementType::Double => ElementType::Double,
        _ => ElementType::Float,
    })
}

/// Says how to change a column of an unsupported type.
fn advice(sample: &DataType, whole: &DataType) -> &'static str {
    match sample {
        DataType::Dictionary(_, values) if values.is_string() => {
            "Replace categories by their numbers (pandas: df[c] = df[c].cat.codes), and give --one-hot \
             NAME=CLASSES."
        }
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) => {
            "Decode it first (pyarrow: column.dictionary_decode())."
        }
        kind if kind.is_string() => {
            "Only the column 'key' has texts. Replace texts by class numbers (pandas: df[c] = \
             df[c].astype('category').cat.codes), and give --one-hot NAME=CLASSES; or write the table \
             as CSV, whose texts become categories."
        }
        kind if kind.is_decimal() => {
            "Cast it to double, or to whole numbers (pandas: df[c] = df[c].astype('float64'))."
        }
        kind if kind.is_temporal() => {
            "Cast it to numbers, such as seconds or days since a date (pyarrow: \
             column.cast('int64'))."
        }
        DataType::Null => "It has no values.",
        DataType::List(_) | DataType::LargeList(_) => {
            "Vectors in a sequence have one size: cast them to a fixed-size list (pyarrow: \
             pa.list_(pa.list_(pa.float32(), SIZE)))."
        }
        DataType::FixedSizeList(item, _)
            if matches!(whole, DataType::FixedSizeList(..)) && item.data_type().is_list() =>
        {
            "Samples are flat: make one list of all their values."
        }
        DataType::Struct(_) => "Make a column of each of its fields (pyarrow: table.flatten()).",
        _ => "Convert it to one of these types.",
    }
}
