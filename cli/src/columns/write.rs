//! Writes sequences as columns of Arrow and Parquet files.

use super::{ColumnOptions, Container, DIM, INDICES, KEY, SHAPE, VALUES, open};
use crate::exit::Failure;
use crate::progress::Progress;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, UInt8Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, ListArray, PrimitiveArray, RecordBatch,
    StringArray, StructArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use cntk_reader::{ElementType, Error, Storage, StreamInfo};
use cntk_reader_tools::convert::{Column, Data, Digest, Digester, Output};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::collections::HashMap;
use std::sync::Arc;

/// Largest size of a row group, which is kept in memory until it is complete.
const GROUP_BYTES: usize = 64 << 20;

/// Writes record batches.
enum Sink {
    Arrow(Box<FileWriter<Output>>),
    Parquet(Box<ArrowWriter<Output>>),
}

impl Sink {
    fn create(output: Output, container: Container, schema: &Arc<Schema>) -> Result<Sink, ArrowError> {
        if container == Container::Arrow {
            return Ok(Sink::Arrow(Box::new(FileWriter::try_new(output, schema)?)));
        }
        // Statistics of values help queries, which nobody makes of samples.
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_max_row_group_bytes(Some(GROUP_BYTES))
            .build();
        let writer = ArrowWriter::try_new(output, Arc::clone(schema), Some(properties))?;
        Ok(Sink::Parquet(Box::new(writer)))
    }

    fn write(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            Sink::Arrow(writer) => writer.write(rows),
            Sink::Parquet(writer) => writer.write(rows).map_err(ParquetError::into),
        }
    }

    fn finish(self) -> Result<Output, ArrowError> {
        match self {
            Sink::Arrow(mut writer) => writer.finish().and_then(|()| writer.into_inner()),
            Sink::Parquet(writer) => writer.into_inner().map_err(ParquetError::into),
        }
    }
}

/// Writes data to a file, which appears under its name once complete. With `verify` the file is
/// read back first.
pub fn write(
    mut data: Data,
    container: Container,
    path: &str,
    verify: bool,
    progress: &Progress,
) -> Result<Digest, Failure> {
    let failed = |cause: ArrowError| Error::data(format!("Cannot write '{path}': {cause}.")).in_file(path);
    data.widen_bfloat16();
    let streams = data.streams().to_vec();
    if let Some(stream) = streams.iter().find(|stream| stream.name == KEY) {
        let error = Error::argument(format!("The stream '{KEY}' has the name of the column of keys."));
        return Err(error
            .with_detail("Give it another name in the configuration.")
            .in_stream(&stream.name)
            .into());
    }
    let are_single = data.are_single();
    let mut fields = vec![Field::new(KEY, DataType::Utf8, false)];
    for stream in &streams {
        fields.push(field(stream, are_single)?);
    }
    let schema = Arc::new(Schema::new(fields));
    let total = data.sequences().unwrap_or(0);
    let mut sink = Sink::create(Output::create(path)?, container, &schema).map_err(failed)?;
    let mut digester = Digester::new(&streams);
    let mut done = 0;
    while let Some(batch) = data.next_batch()? {
        digester.add(batch);
        let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(&batch.keys))];
        for ((column, stream), field) in batch.columns.iter().zip(&streams).zip(&schema.fields()[1..]) {
            columns.push(array(column, stream, are_single, field).map_err(failed)?);
        }
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(failed)?;
        sink.write(&rows).map_err(failed)?;
        done += batch.keys.len() as u64;
        progress.set(done, total);
    }
    let written = digester.finish();
    drop(data);
    let mut output = sink.finish().map_err(failed)?;
    if verify {
        let found = output.read_again(|readable| {
            let again = open(readable, container, &ColumnOptions::default());
            Digest::of(&mut again.map_err(Failure::into_error)?)
        })?;
        if found != written {
            let error = Error::data("The output differs from the data.");
            let detail = format!(
                "{} sequences with the digest {written} were written, but {} with {found} were read back. The output was not kept.",
                written.sequences, found.sequences
            );
            return Err(error.with_detail(detail).in_file(path).into());
        }
    }
    output.commit()?;
    Ok(written)
}

fn item(kind: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", kind, false))
}

fn value(stream: &StreamInfo) -> DataType {
    match stream.element {
        ElementType::Double => DataType::Float64,
        ElementType::Float16 => DataType::Float16,
        ElementType::Int16 => DataType::Int16,
        ElementType::UInt8 => DataType::UInt8,
        ElementType::Int32 => DataType::Int32,
        ElementType::Int64 => DataType::Int64,
        ElementType::Bool => DataType::Boolean,
        // bfloat16 has been widened to float.
        ElementType::Float | ElementType::BFloat16 => DataType::Float32,
    }
}

/// The values of a column.
fn values(column: &Column, element: ElementType) -> ArrayRef {
    fn primitive<T: ArrowPrimitiveType>(bytes: &[u8]) -> ArrayRef {
        let count = bytes.len() / size_of::<T::Native>();
        Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::new(Buffer::from(bytes), 0, count), None))
    }
    let bytes = &column.values[..];
    match element {
        ElementType::Double => primitive::<Float64Type>(bytes),
        ElementType::Float16 => primitive::<Float16Type>(bytes),
        ElementType::Int16 => primitive::<Int16Type>(bytes),
        ElementType::UInt8 => primitive::<UInt8Type>(bytes),
        ElementType::Int32 => primitive::<Int32Type>(bytes),
        ElementType::Int64 => primitive::<Int64Type>(bytes),
        ElementType::Bool => Arc::new(BooleanArray::from_iter(bytes.iter().map(|&byte| Some(byte != 0)))),
        ElementType::Float | ElementType::BFloat16 => primitive::<Float32Type>(bytes),
    }
}

/// The number of values of a dense sample.
fn size(stream: &StreamInfo) -> Result<i32, Error> {
    i32::try_from(stream.sample_size()).map_err(|_| {
        let message =
            format!("The samples of the stream '{}' have too many values for a column.", stream.name);
        Error::argument(message).in_stream(&stream.name)
    })
}

fn sparse_fields(stream: &StreamInfo) -> Fields {
    Fields::from(vec![
        Field::new(INDICES, DataType::List(item(DataType::Int32)), false),
        Field::new(VALUES, DataType::List(item(value(stream))), false),
    ])
}

/// The column of a stream.
fn field(stream: &StreamInfo, are_single: bool) -> Result<Field, Error> {
    let sample = match stream.storage {
        Storage::Dense => DataType::FixedSizeList(item(value(stream)), size(stream)?),
        _ => DataType::Struct(sparse_fields(stream)),
    };
    let kind = if are_single { sample } else { DataType::List(item(sample)) };
    let mut metadata = HashMap::new();
    if stream.storage != Storage::Dense {
        metadata.insert(DIM.to_owned(), stream.sample_size().to_string());
    }
    if stream.shape.len() > 1 {
        let shape: Vec<_> = stream.shape.iter().map(usize::to_string).collect();
        metadata.insert(SHAPE.to_owned(), shape.join(":"));
    }
    Ok(Field::new(&stream.name, kind, false).with_metadata(metadata))
}

/// The sequences of a batch in a stream.
fn array(
    column: &Column,
    stream: &StreamInfo,
    are_single: bool,
    field: &Field,
) -> Result<ArrayRef, ArrowError> {
    let values = values(column, stream.element);
    let samples: ArrayRef = match stream.storage {
        Storage::Dense => {
            let size = i32::try_from(stream.sample_size()).unwrap_or(i32::MAX);
            Arc::new(FixedSizeListArray::try_new(item(value(stream)), size, values, None)?)
        }
        _ => {
            let offsets = offsets(&column.counts)?;
            let indices = Arc::new(Int32Array::from(column.indices.clone()));
            let indices = ListArray::try_new(item(DataType::Int32), offsets.clone(), indices, None)?;
            let values = ListArray::try_new(item(value(stream)), offsets, values, None)?;
            let parts: Vec<ArrayRef> = vec![Arc::new(indices), Arc::new(values)];
            Arc::new(StructArray::try_new(sparse_fields(stream), parts, None)?)
        }
    };
    match field.data_type() {
        DataType::List(item) if !are_single => {
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets(&column.lengths)?, samples, None)?))
        }
        _ if column.lengths.iter().all(|&length| length == 1) => Ok(samples),
        _ => Err(ArrowError::InvalidArgumentError(format!(
            "a sequence of the stream '{}' does not have exactly one sample, although the data's index says so",
            stream.name
        ))),
    }
}

/// Converts lengths to offsets, which have 31 bits in Arrow's lists.
fn offsets(lengths: &[u32]) -> Result<OffsetBuffer<i32>, ArrowError> {
    let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    if total > i32::MAX as u64 {
        return Err(ArrowError::OffsetOverflowError(total as usize));
    }
    Ok(OffsetBuffer::from_lengths(lengths.iter().map(|&length| length as usize)))
}
