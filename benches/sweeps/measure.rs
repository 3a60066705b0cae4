//! Measures opening and timed sweeps, and checks the data of one more sweep.

use crate::allocations;
use crate::generate::sums_path;
use crate::shapes::{Shape, Stream};
use crate::sums::{StreamSums, Sums};
use cntk_reader::language;
use cntk_reader_engine::pack::{Minibatch, StreamMinibatch};
use cntk_reader_engine::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Number of timed sweeps, of which the first two are reported. The last one allocates nothing: the
/// pool has enough minibatches.
const TIMED_SWEEPS: usize = 4;

/// Measures, and returns one line of JSON in the format of the replay driver's step `bench`,
/// extended by the allocations per minibatch of the last timed sweep and the peak of resident
/// memory in bytes.
pub fn measure(shape: &Shape, data: &Path, minibatch: u64) -> Result<String, Box<dyn Error>> {
    let expected = std::fs::read_to_string(sums_path(data))?;
    let path = data.to_str().ok_or("The path of the data is not UTF-8.")?;
    let options = language::from_text(&shape.config(path, false, false))?;

    let clock = Instant::now();
    let mut reader = Reader::open(&options)?;
    let open = clock.elapsed().as_secs_f64();
    let names: Vec<&str> = reader.streams().iter().map(|stream| stream.name.as_str()).collect();
    assert!(
        names.iter().copied().eq(shape.streams.iter().map(|stream| stream.name.as_str())),
        "streams are {names:?}"
    );
    let read = ReadConfig::new(minibatch).cross_sweeps(false);
    reader.start_epoch(&Epoch::from_numbers(read, SIZE_UNLIMITED, SWEEPS_UNLIMITED, 0))?;

    let (mut minibatches, mut samples) = (0_u32, 0);
    let mut seconds = Vec::with_capacity(TIMED_SWEEPS);
    let mut allocations = 0.0;
    for _ in 0..TIMED_SWEEPS {
        let (allocated, delivered) = (allocations::count(), minibatches);
        let clock = Instant::now();
        sweep(&mut reader, |minibatch| {
            minibatches += 1;
            samples +=
                minibatch.streams.iter().map(|stream| stream.layout.samples()).max().unwrap_or(0) as u64;
        })?;
        seconds.push(clock.elapsed().as_secs_f64());
        allocations = (allocations::count() - allocated) as f64 / f64::from(minibatches - delivered);
    }
    let memory = peak_memory();

    let mut sums = Sums::new(shape.streams.len());
    let mut sequences = Vec::new();
    sweep(&mut reader, |minibatch| add(minibatch, &shape.streams, &mut sums, &mut sequences))?;
    if sums.to_string() != expected.trim_end() {
        return Err(format!("The data differ.\nwritten: {}\nread:    {sums}", expected.trim_end()).into());
    }
    let in_timed_sweeps = TIMED_SWEEPS as u64 * sums.samples();
    if samples != in_timed_sweeps {
        return Err(format!("The timed sweeps gave {samples} samples instead of {in_timed_sweeps}.").into());
    }
    Ok(format!(
        "{{\"minibatches\":{minibatches},\"samples\":{samples},\"sweeps\":{seconds:?},\"open\":{open:?},\"allocations\":{allocations:?},\"memory\":{memory}}}"
    ))
}

/// Reads to the end of the sweep.
fn sweep(reader: &mut Reader, mut with: impl FnMut(&Minibatch)) -> cntk_reader::Result<()> {
    loop {
        let minibatch = reader.read()?;
        with(&minibatch);
        if minibatch.end_of_sweep || minibatch.end_of_epoch {
            return Ok(());
        }
    }
}

/// Adds the data of a minibatch, sequence by sequence.
fn add(minibatch: &Minibatch, streams: &[Stream], sums: &mut Sums, sequences: &mut Vec<Vec<StreamSums>>) {
    sequences.clear();
    sequences.resize(minibatch.keys.len(), vec![StreamSums::default(); streams.len()]);
    for (number, (part, stream)) in minibatch.streams.iter().zip(streams).enumerate() {
        for record in part.layout.records.iter().filter(|record| !record.is_gap()) {
            let sums = &mut sequences[record.id as usize][number];
            for step in record.begin as usize..record.end as usize {
                add_column(part, step * part.layout.lanes + record.lane as usize, stream, sums);
            }
        }
    }
    for sequence in sequences {
        sums.add_sequence(sequence);
    }
}

/// Adds one sample.
fn add_column(part: &StreamMinibatch, column: usize, stream: &Stream, sums: &mut StreamSums) {
    let mut add = |index: usize, value: f32| {
        let value = f64::from(value);
        sums.add_value(index as u32, (value * f64::from(stream.scale)).round() as i64);
    };
    if stream.sparse {
        let (indices, values) = part.sparse::<f32>().expect("sparse data").column(column).expect("a column");
        indices.iter().zip(values).for_each(|(&index, &value)| add(index as usize, value));
    } else {
        let dim = stream.dim as usize;
        let values = &part.dense::<f32>().expect("dense data")[column * dim..][..dim];
        values.iter().enumerate().for_each(|(index, &value)| add(index, value));
    }
    sums.samples += 1;
}

/// Returns the peak of resident memory so far in bytes, or 0 if the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map_or(0, |kib| kib * 1024)
}
