//! Measures reading and opening.

use crate::live;
use crate::sums::Sums;
use cntk_reader::language;
use cntk_reader::language::options::ReaderSettings;
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Number of timed sweeps.
const SWEEPS: usize = 2;

/// Times opening a reader and two sweeps. The first sweep begins with the start of the epoch.
pub fn measure(
    config: &Path,
    minibatch: u64,
    truncation: u64,
    is_checked: bool,
) -> Result<String, Box<dyn Error>> {
    let settings = settings(config)?;
    let clock = Instant::now();
    let mut reader = Reader::open(&settings)?;
    let open = clock.elapsed().as_secs_f64();

    let read = ReadConfig::new(minibatch).truncation_length(truncation).cross_sweeps(false);
    let mut clock = Instant::now();
    reader.start_epoch(&Epoch::from_numbers(read, SIZE_UNLIMITED, SWEEPS_UNLIMITED, 0))?;
    let (mut minibatches, mut samples, mut sweeps) = (0_u64, 0, [0.0; SWEEPS]);
    for seconds in &mut sweeps {
        sweep(&mut reader, |minibatch| {
            minibatches += 1;
            samples += minibatch.streams.iter().map(|stream| stream.layout.samples()).max().unwrap_or(0);
        })?;
        *seconds = clock.elapsed().as_secs_f64();
        clock = Instant::now();
    }
    let mut result = json!({"open": open, "sweeps": sweeps, "minibatches": minibatches, "samples": samples});
    if is_checked {
        let features = reader.streams().iter().position(|stream| stream.name == "features");
        let features = features.ok_or("There is no stream `features`.")?;
        let (mut sums, mut utterances) = (Sums::default(), 0);
        sweep(&mut reader, |minibatch| utterances += add(minibatch, features, utterances, &mut sums))?;
        result["sums"] = sums.json();
    }
    Ok(result.to_string())
}

/// Times opening a reader, and counts the bytes that a second one holds: the first also allocates
/// the threads and tables of the library.
pub fn open(config: &Path) -> Result<String, Box<dyn Error>> {
    let settings = settings(config)?;
    let clock = Instant::now();
    let reader = Reader::open(&settings)?;
    let open = clock.elapsed().as_secs_f64();
    drop(reader);
    let before = live::bytes();
    let reader = Reader::open(&settings)?;
    let held = live::bytes() - before;
    let index = reader.memory().index;
    Ok(json!({"open": open, "held": held, "index": index}).to_string())
}

fn settings(config: &Path) -> Result<ReaderSettings, Box<dyn Error>> {
    Ok(language::from_text(&std::fs::read_to_string(config)?)?)
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

/// Adds the utterances of a minibatch, numbered from `first`, and returns their number.
fn add(minibatch: &Minibatch, stream: usize, first: u64, sums: &mut Sums) -> u64 {
    let part = &minibatch.streams[stream];
    let values = part.dense::<f32>().expect("dense data");
    let (lanes, columns) = (part.layout.lanes, part.layout.steps * part.layout.lanes);
    let dim = values.len() / columns.max(1);
    let mut count = 0;
    for record in part.layout.records.iter().filter(|record| !record.is_gap()) {
        count += 1;
        for (frame, step) in (record.begin as usize..record.end as usize).enumerate() {
            let column = step * lanes + record.lane as usize;
            sums.add(first + record.id, frame as u64, &values[column * dim..][..dim]);
        }
    }
    count
}
