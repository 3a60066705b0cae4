//! Converts generated data to CNTK's binary format, and to tables for other readers.

use crate::shapes::Shape;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_tools::convert::{StreamRule, TextToBinary, text_to_binary};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

/// Size of the chunks of a binary file in bytes: CNTK's default for text.
const CHUNK_SIZE: u64 = 32 << 20;

/// Writes CNTK's binary format.
pub fn binary(shape: &Shape, data: &str, output: &str) -> Result<(), Box<dyn Error>> {
    let rule = |stream: &crate::shapes::Stream| StreamRule {
        name: stream.name.clone(),
        alias: stream.name.clone(),
        storage: if stream.sparse { Storage::SparseCsc } else { Storage::Dense },
        dim: stream.dim,
    };
    let options = TextToBinary {
        input: data.to_owned(),
        output: output.to_owned(),
        streams: shape.streams.iter().map(rule).collect(),
        chunk_size: CHUNK_SIZE,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(()))?;
    Ok(())
}

/// Writes a table of all values, one line for every line of the data: CSV if streams are dense, the
/// libsvm format with the label 0 if they are sparse. The columns of each stream follow the columns
/// of the stream before it in the line. Returns a line of JSON with the numbers that a reader of
/// the table must find: rows, values, and the sum of `(column + 1) * value`.
pub fn table(shape: &Shape, data: &Path, output: &Path) -> Result<String, Box<dyn Error>> {
    let mut output = BufWriter::with_capacity(1 << 20, File::create(output)?);
    let (mut rows, mut values, mut weighted) = (0_u64, 0_u64, 0_f64);
    let mut line = String::new();
    let mut lines = BufReader::with_capacity(1 << 20, File::open(data)?).lines();
    while let Some(text) = lines.next().transpose()? {
        line.clear();
        let mut first = 0;
        for item in text.split('|').skip(1) {
            let (name, item) = item.trim_end().split_once(' ').unwrap_or((item, ""));
            let stream = shape.streams.iter().find(|stream| stream.name == name);
            let stream = stream.ok_or_else(|| format!("there is no stream '{name}'"))?;
            for (position, entry) in item.split_ascii_whitespace().enumerate() {
                let (column, value) = match entry.split_once(':') {
                    Some((row, value)) => (first + row.parse::<usize>()?, value),
                    None => (first + position, entry),
                };
                values += 1;
                weighted += (column + 1) as f64 * value.parse::<f64>()?;
                if stream.sparse {
                    line += &format!(" {column}:{value}");
                } else {
                    line += if line.is_empty() { "" } else { "," };
                    line += value;
                }
            }
            first += stream.dim as usize;
        }
        let label = if shape.streams.iter().all(|stream| stream.sparse) { "0" } else { "" };
        writeln!(output, "{label}{line}")?;
        rows += 1;
    }
    output.flush()?;
    Ok(format!("{{\"rows\":{rows},\"values\":{values},\"weighted\":{weighted:?}}}"))
}
