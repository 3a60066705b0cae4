//! `cntk-reader head` and `cntk-reader sample`: show some sequences as a reader delivers them.

use crate::args::{Form, Global};
use crate::exit::{Exit, Failure, Outcome};
use crate::import::{self, Kind, PreviewArgs};
use crate::input::Input;
use crate::npy;
use crate::numbers::whole;
use crate::output::{self, Output, SCHEMA};
use cntk_reader::{ElementType, Storage, StreamInfo};
use cntk_reader_tools::convert::numpy_type;
use cntk_reader_tools::inspect::{Number, Sequence, SequenceData, SequenceReader, Values};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Show the first sequences, or those with given keys
///
/// On a terminal each stream is one line, cut to fit; elsewhere each sequence is one line of JSON
/// with all of its values.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader head train.ctf -n 3
  cntk-reader head train.ctf --key 17 --key 4711
  cntk-reader head digits.cntk -n 100 --npy folder      features.npy, labels.indices.npy, ...
  cntk-reader head digits.cntk | jq .streams.labels")]
pub struct Head {
    #[command(flatten)]
    shown: Shown,

    /// Show the sequence with this key; may be given several times
    #[arg(long, value_name = "KEY", conflicts_with = "count")]
    key: Vec<String>,

    #[command(flatten)]
    import: PreviewArgs,
}

/// Show some sequences from all over the data
///
/// The sequences are drawn uniformly at random, and shown in the order of the data, in the form of
/// `head`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader sample train.ctf -n 5
  cntk-reader sample digits.cntk -n 1000 --seed 7 --npy folder")]
pub struct Sample {
    #[command(flatten)]
    shown: Shown,

    /// Seed of the draw; another seed draws other sequences
    #[arg(long, value_name = "S", default_value_t = 0, allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    seed: u64,
}

#[derive(Debug, clap::Args)]
struct Shown {
    /// A configuration, or one or several data files, which are joined by key
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Number of sequences
    #[arg(short = 'n', long = "number", id = "count", value_name = "N", default_value_t = 10, allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    count: u64,

    /// Write the sequences to this folder as NumPy arrays instead of showing them
    #[arg(long, value_name = "FOLDER")]
    npy: Option<PathBuf>,
}

pub fn head(options: &Head, global: &Global) -> Outcome {
    let shown = &options.shown;
    if let Some((path, kind)) = import::only(&shown.files, &options.import)? {
        if !options.key.is_empty() {
            let message = "--key finds sequences of data that a reader reads. Convert the file first: cntk-reader convert";
            return Err(Failure::Usage(message.to_owned()));
        }
        let (streams, sequences) = match kind {
            Kind::Records(format) => import::first(&path, format, &options.import, shown.count, global)?,
            Kind::Columns(container) => import::first_rows(&path, container, &options.import, shown.count)?,
            Kind::Folder => return images(&path, shown, global),
        };
        let read = &mut |number| Ok(sequences.get(number as usize).cloned());
        return show(&streams, read, 0..shown.count, shown, global);
    }
    let mut reader = Input::of_files(&shown.files, global)?.sequences()?;
    if options.key.is_empty() {
        return show_read(&mut reader, 0..shown.count, shown, global);
    }
    let mut numbers = Vec::with_capacity(options.key.len());
    for key in &options.key {
        match reader.find(key)? {
            Some(number) => numbers.push(number),
            None => {
                let message =
                    format!("There is no sequence with the key '{key}' in '{}'.", shown.files[0].display());
                return Err(Failure::Data(message));
            }
        }
    }
    show_read(&mut reader, numbers.into_iter(), shown, global)
}

pub fn sample(options: &Sample, global: &Global) -> Outcome {
    let shown = &options.shown;
    let mut reader = Input::of_files(&shown.files, global)?.sequences()?;
    let all = reader.count()?;
    show_read(&mut reader, draw(all, shown.count, options.seed).into_iter(), shown, global)
}

/// Draws `count` distinct numbers below `all` uniformly (Floyd's algorithm), or returns all of them
/// if there are no more.
pub(super) fn draw(all: u64, count: u64, seed: u64) -> BTreeSet<u64> {
    let mut state = seed;
    // SplitMix64.
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut drawn = BTreeSet::new();
    for limit in all.saturating_sub(count)..all {
        // The upper half of the product is uniform over `0..=limit`, with a bias of at most `limit`
        // in 2^64.
        let number = ((u128::from(next()) * (u128::from(limit) + 1)) >> 64) as u64;
        if !drawn.insert(number) {
            drawn.insert(limit);
        }
    }
    drawn
}

/// Shows the first images of a folder.
fn images(path: &str, shown: &Shown, global: &Global) -> Outcome {
    let mut output = Output::new(global, Form::Ndjson);
    let images = import::first_images(path, shown.count)?;
    let json = |(path, index, class): &(String, usize, String)| serde_json::json!({ "path": path, "class": class, "index": index });
    match output.form {
        Form::Table => {
            let rows: Vec<_> =
                images.into_iter().map(|(path, index, class)| vec![path, index.to_string(), class]).collect();
            output.table(&["image", "index", "class"], &rows)?;
        }
        Form::Ndjson => images.iter().try_for_each(|image| output.json(&json(image)))?,
        Form::Json => {
            let images: Vec<_> = images.iter().map(json).collect();
            output.json(&serde_json::json!({ "schema": SCHEMA, "images": images }))?;
        }
    }
    output.finish()?;
    Ok(Exit::Good)
}

fn show_read(
    reader: &mut SequenceReader,
    numbers: impl Iterator<Item = u64>,
    shown: &Shown,
    global: &Global,
) -> Outcome {
    let streams = reader.streams().to_vec();
    show(&streams, &mut |number| reader.read(number), numbers, shown, global)
}

fn show(
    streams: &[StreamInfo],
    read: &mut dyn FnMut(u64) -> cntk_reader::Result<Option<Sequence>>,
    numbers: impl Iterator<Item = u64>,
    shown: &Shown,
    global: &Global,
) -> Outcome {
    if let Some(folder) = &shown.npy {
        let mut sequences = Vec::new();
        for number in numbers {
            let Some(sequence) = read(number)? else { break };
            sequences.push(sequence);
        }
        write_arrays(folder, streams, &sequences).map_err(|cause| {
            cntk_reader::Error::io("Cannot write arrays to", &folder.display().to_string(), &cause)
        })?;
        return Ok(Exit::Good);
    }
    let mut output = Output::new(global, Form::Ndjson);
    let mut all = Vec::new();
    for number in numbers {
        let Some(sequence) = read(number)? else { break };
        match output.form {
            Form::Table => table(&mut output, streams, &sequence)?,
            Form::Ndjson => output.json(&JsonSequence { streams, sequence: &sequence })?,
            Form::Json => all.push(sequence),
        }
    }
    if output.form == Form::Json {
        let sequences = all.iter().map(|sequence| JsonSequence { streams, sequence }).collect();
        output.json(&JsonSequences { schema: SCHEMA, sequences })?;
    }
    output.finish()?;
    Ok(Exit::Good)
}

#[derive(Serialize)]
struct JsonSequences<'a> {
    schema: u32,
    sequences: Vec<JsonSequence<'a>>,
}

/// A sequence as JSON, with an element for each sample: `{"number": 0, "key": "17", "streams":
/// {"x": [[1, 2]], "y": [{"indices": [3], "values": [1]}]}}`. `streams` is null if the reader
/// leaves the sequence out.
struct JsonSequence<'a> {
    streams: &'a [StreamInfo],
    sequence: &'a Sequence,
}

impl Serialize for JsonSequence<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("number", &self.sequence.number)?;
        map.serialize_entry("key", &self.sequence.key)?;
        map.serialize_entry(
            "streams",
            &self.sequence.streams.as_ref().map(|data| Streams(self.streams, data)),
        )?;
        map.end()
    }
}

struct Streams<'a>(&'a [StreamInfo], &'a [SequenceData]);

impl Serialize for Streams<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1).map(|(info, data)| (&info.name, Samples(data))))
    }
}

/// The samples of a stream.
struct Samples<'a>(&'a SequenceData);

#[derive(Serialize)]
struct SparseSample<'a> {
    indices: &'a [i32],
    values: Floats<'a>,
}

impl Serialize for Samples<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut samples = serializer.serialize_seq(Some(self.0.samples))?;
        for number in 0..self.0.samples {
            let range = self.0.places(number);
            let values = Floats(&self.0.values, range.clone());
            match self.0.offsets.is_empty() {
                true => samples.serialize_element(&values)?,
                false => {
                    samples.serialize_element(&SparseSample { indices: &self.0.indices[range], values })?
                }
            }
        }
        samples.end()
    }
}

/// A number. Infinities and NaN become null, because JSON cannot express them.
struct JsonNumber(Number);

impl Serialize for JsonNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Number::Float(value) => serializer.serialize_f32(value),
            Number::Double(value) => serializer.serialize_f64(value),
            Number::Integer(value) => serializer.serialize_i64(value),
            Number::Bool(value) => serializer.serialize_bool(value),
        }
    }
}

/// A range of values.
struct Floats<'a>(&'a Values, std::ops::Range<usize>);

impl Serialize for Floats<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = self.1.clone().filter_map(|place| self.0.number(place));
        serializer.collect_seq(numbers.map(JsonNumber))
    }
}

fn table(output: &mut Output, streams: &[StreamInfo], sequence: &Sequence) -> std::io::Result<()> {
    let title = output.bold(&format!("sequence {}", sequence.number));
    let Some(data) = &sequence.streams else {
        return output.line(&format!("{title}  key {}  left out", sequence.key));
    };
    output.line(&format!("{title}  key {}", sequence.key))?;
    let most = output::width();
    let width = streams.iter().map(|info| info.name.chars().count()).max().unwrap_or(0);
    for (info, data) in streams.iter().zip(data) {
        let samples = if data.samples == 1 { "sample" } else { "samples" };
        let shape: Vec<String> = data.shape.iter().map(usize::to_string).collect();
        // For a file without a configuration, the dimension of a sparse stream is not known here.
        let form = match info.storage {
            Storage::Dense => format!("of {}, dense", shape.join(" x ")),
            _ => "sparse".to_owned(),
        };
        let comma = if info.storage == Storage::Dense { " " } else { ", " };
        let mut line = format!("  {:width$}  {} {samples}{comma}{form}:", info.name, data.samples);
        // The length of the line up to the last value after which " ..." still fits.
        let mut fits = line.len();
        let mut length = line.chars().count();
        'samples: for sample in 0..data.samples {
            let mut separator = if sample > 0 { " | " } else { " " };
            for place in data.places(sample) {
                let mut word = separator.to_owned();
                separator = " ";
                if let Some(index) = data.indices.get(place) {
                    let _ = write!(word, "{index}:");
                }
                if let Some(number) = data.values.number(place) {
                    let _ = write!(word, "{number}");
                }
                length += word.len();
                if length > most {
                    line.truncate(fits);
                    line.push_str(" ...");
                    break 'samples;
                }
                line.push_str(&word);
                if length + " ...".len() <= most {
                    fits = line.len();
                }
            }
        }
        output.line(&line)?;
    }
    Ok(())
}

/// Writes the sequences as arrays. A dense stream becomes `NAME.npy`, with the number of samples as
/// the first dimension, then the shape of a sample. A sparse stream becomes `NAME.data.npy`,
/// `NAME.indices.npy` and `NAME.indptr.npy`, with a row for each sample, as
/// `scipy.sparse.csr_array` takes them. Unless each sequence is one sample, `NAME.offsets.npy` has
/// the index of the first sample of each sequence. Sequences that are left out have no samples.
fn write_arrays(folder: &Path, streams: &[StreamInfo], sequences: &[Sequence]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, info) in streams.iter().enumerate() {
        // A stream name may contain a slash, a file name may not.
        let name = info.name.replace('/', "_");
        let path = |what: &str| folder.join(format!("{name}{what}.npy"));
        let data: Vec<&SequenceData> =
            sequences.iter().filter_map(|sequence| sequence.streams.as_ref()?.get(number)).collect();
        let mut offsets = vec![0i64];
        for sequence in sequences {
            let samples = sequence.streams.as_ref().map_or(0, |data| data[number].samples);
            offsets.push(offsets.last().copied().unwrap_or(0) + samples as i64);
        }
        let samples = offsets.last().map_or(0, |&samples| samples as usize);
        if info.storage == Storage::Dense {
            // NumPy's last dimension varies fastest, CNTK's first.
            let shape = data.first().map_or(&info.shape, |data| &data.shape);
            let shape: Vec<usize> = std::iter::once(samples).chain(shape.iter().rev().copied()).collect();
            write_values(&path(""), &shape, &data, info.element)?;
        } else {
            let mut rows = vec![0i64];
            for data in &data {
                let first = rows.last().copied().unwrap_or(0);
                rows.extend(data.offsets.iter().skip(1).map(|&offset| first + i64::from(offset)));
            }
            let indices: Vec<i32> = data.iter().flat_map(|data| data.indices.iter().copied()).collect();
            write_values(&path(".data"), &[indices.len()], &data, info.element)?;
            npy::write(&path(".indices"), &[indices.len()], &indices)?;
            npy::write(&path(".indptr"), &[rows.len()], &rows)?;
        }
        if samples != sequences.len() || offsets.windows(2).any(|pair| pair[1] - pair[0] != 1) {
            npy::write(&path(".offsets"), &[offsets.len()], &offsets)?;
        }
    }
    let keys: Vec<&str> = sequences.iter().map(|sequence| sequence.key.as_str()).collect();
    std::fs::write(folder.join("keys.txt"), keys.join("\n") + "\n")
}

fn write_values(
    path: &Path,
    shape: &[usize],
    data: &[&SequenceData],
    element: ElementType,
) -> std::io::Result<()> {
    let bytes: Vec<&[u8]> = data.iter().map(|data| data.values.bytes()).collect();
    npy::write_bytes(path, numpy_type(element), shape, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draw_is_uniform_without_repeats() {
        assert_eq!(draw(5, 10, 1), (0..5).collect());
        assert_eq!(draw(0, 10, 1), BTreeSet::new());
        let mut counts = [0; 10];
        for seed in 0..5000 {
            let drawn = draw(10, 3, seed);
            assert_eq!(drawn.len(), 3);
            drawn.iter().for_each(|&number| counts[number as usize] += 1);
        }
        // The expected count is 1500 each, with a standard deviation of 32.
        assert!(counts.iter().all(|&count| (1350..1650).contains(&count)), "{counts:?}");
    }
}
