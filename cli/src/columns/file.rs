//! Opens files of columns, and reads their record batches.

use super::check::{check_arrow, guarded};
use super::{Container, pages};
use arrow_array::RecordBatch;
use arrow_ipc::reader::FileReader;
use arrow_schema::SchemaRef;
use cntk_reader::{Error, Result};
use cntk_reader_core::file::address;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::file::metadata::ParquetStatisticsPolicy;
use std::fs::File;
use std::io::BufReader;

/// Approximate number of bytes of values in a batch of a Parquet file.
const BATCH_BYTES: u64 = 8 << 20;

/// Maximum number of rows in a batch of a Parquet file.
pub const MAX_ROWS: u64 = 1 << 16;

/// A file of columns.
pub struct ColumnFile {
    path: String,
    container: Container,
    schema: SchemaRef,
    /// The footer of a Parquet file.
    footer: Option<ArrowReaderMetadata>,
}

/// The rows of some columns, in batches.
pub enum Batches {
    Arrow(Box<FileReader<BufReader<File>>>),
    Parquet(Box<ParquetRecordBatchReader>),
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, String>;

    fn next(&mut self) -> Option<Self::Item> {
        guarded(|| match self {
            Batches::Arrow(reader) => reader.next().transpose(),
            Batches::Parquet(reader) => reader.next().transpose(),
        })
        .transpose()
    }
}

impl ColumnFile {
    /// Opens a file.
    pub fn open(path: &str, container: Container) -> Result<ColumnFile> {
        let (schema, footer) = match container {
            Container::Arrow => {
                check_arrow(&file(path)?).map_err(|what| damaged(path, container, what))?;
                (arrow(path, None)?.schema(), None)
            }
            Container::Parquet => {
                // Statistics are not needed, and could be damaged.
                let skip = || ParquetStatisticsPolicy::SkipAll;
                let options = ArrowReaderOptions::new()
                    .with_column_stats_policy(skip())
                    .with_encoding_stats_policy(skip())
                    .with_size_stats_policy(skip());
                let file = file(path)?;
                let footer = guarded(|| ArrowReaderMetadata::load(&file, options));
                let footer = footer.map_err(|what| damaged(path, container, &what))?;
                (footer.schema().clone(), Some(footer))
            }
        };
        Ok(ColumnFile { path: path.to_owned(), container, schema, footer })
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The number of rows. Those of an Arrow file are counted by reading it.
    pub fn rows(&self) -> Result<u64> {
        let Some(footer) = &self.footer else {
            let mut batches = self.batches(&[])?;
            return batches.try_fold(0u64, |rows, batch| {
                let batch = batch.map_err(|what| self.damaged(&what))?;
                Ok(rows.saturating_add(batch.num_rows() as u64))
            });
        };
        let groups = footer.metadata().row_groups().iter();
        let mut rows = groups.map(|group| u64::try_from(group.num_rows()).ok());
        let sum = rows.try_fold(0u64, |sum, rows| sum.checked_add(rows?));
        sum.ok_or_else(|| self.damaged("a row group has a wrong number of rows"))
    }

    /// The number of rows, if it is known without reading them.
    pub fn known_rows(&self) -> Result<Option<u64>> {
        self.footer.is_some().then(|| self.rows()).transpose()
    }

    /// The number of row groups or record batches.
    pub fn groups(&self) -> Result<u64> {
        Ok(match &self.footer {
            Some(footer) => footer.metadata().num_row_groups(),
            None => arrow(&self.path, None)?.num_batches(),
        } as u64)
    }

    /// Reads the columns with these numbers, in ascending order.
    pub fn batches(&self, columns: &[usize]) -> Result<Batches> {
        let Some(footer) = &self.footer else {
            return Ok(Batches::Arrow(Box::new(arrow(&self.path, Some(columns.to_vec()))?)));
        };
        let source = file(&self.path)?;
        let mask = ProjectionMask::roots(footer.parquet_schema(), columns.iter().copied());
        let mut bytes = 0u64;
        for group in footer.metadata().row_groups() {
            let chunks = group.columns().iter().enumerate();
            for (_, chunk) in chunks.filter(|(leaf, _)| mask.leaf_included(*leaf)) {
                if let Compression::BROTLI(_) | Compression::LZO = chunk.compression() {
                    let column = chunk.column_path().parts().first().cloned().unwrap_or_default();
                    let method = chunk.compression().to_string();
                    let method = method.split('(').next().unwrap_or_default().to_lowercase();
                    let message = format!("The column '{column}' is compressed by {method}.");
                    let error = Error::data(message);
                    let detail = "Supported are snappy, zstd, gzip, lz4 and no compression. Write the \
                                  file again with one of these, or leave the column out: name the \
                                  others with --stream.";
                    return Err(error.with_detail(detail).in_file(&self.path));
                }
                if !pages::are_plausible(&source, chunk) {
                    return Err(self.damaged("the size of a page is wrong"));
                }
                bytes = bytes.saturating_add(u64::try_from(chunk.uncompressed_size()).unwrap_or(0));
            }
        }
        // Bounded by rows as well, because encodings may make a row smaller in the file.
        let rows = BATCH_BYTES / (bytes / self.rows()?.max(1)).max(1);
        let rows = rows.clamp(1, MAX_ROWS) as usize;
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(source, footer.clone());
        let reader = guarded(|| reader.with_projection(mask).with_batch_size(rows).build());
        Ok(Batches::Parquet(Box::new(reader.map_err(|what| self.damaged(&what))?)))
    }

    /// The error for a damaged file.
    pub fn damaged(&self, what: &str) -> Error {
        damaged(&self.path, self.container, what)
    }
}

fn damaged(path: &str, container: Container, what: &str) -> Error {
    let name = container.name();
    let what = what.trim_end_matches('.');
    let error = Error::data(format!("Cannot read the {name} file '{path}': {what}."));
    error.with_detail("It is damaged or incomplete: write or copy it again.").in_file(path)
}

fn file(path: &str) -> Result<File> {
    File::open(address::exact(path)).map_err(|cause| Error::io("Error opening file", path, &cause))
}

fn arrow(path: &str, columns: Option<Vec<usize>>) -> Result<FileReader<BufReader<File>>> {
    let file = BufReader::new(file(path)?);
    guarded(|| FileReader::try_new(file, columns)).map_err(|what| damaged(path, Container::Arrow, &what))
}
