//! Times the sweeps of a reader, and counts its allocations.

use crate::allocations;
use crate::sums::Sums;
use cntk_reader::language;
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Opens a reader and reads `sweeps` sweeps. Returns one line of JSON: their seconds, counts, and
/// the allocations for each image of the last sweep. `is_checked` adds the sums of one more sweep,
/// which must deliver whole images in the order of the map file.
pub fn measure(
    config: &Path,
    minibatch: u64,
    sweeps: usize,
    is_checked: bool,
) -> Result<String, Box<dyn Error>> {
    let settings = language::from_text(&std::fs::read_to_string(config)?)?;
    let clock = Instant::now();
    let mut reader = Reader::open(&settings)?;
    let open = clock.elapsed().as_secs_f64();
    let read = ReadConfig::new(minibatch).cross_sweeps(false);
    let mut clock = Instant::now();
    reader.start_epoch(&Epoch::from_numbers(read, SIZE_UNLIMITED, SWEEPS_UNLIMITED, 0))?;
    let (mut minibatches, mut images) = (0_u64, 0_u64);
    let (mut seconds, mut allocations_each) = (Vec::with_capacity(sweeps), 0.0);
    for _ in 0..sweeps {
        let (allocated, before) = (allocations::count(), images);
        sweep(&mut reader, |minibatch| {
            minibatches += 1;
            images += minibatch.streams[0].layout.samples() as u64;
        })?;
        allocations_each = (allocations::count() - allocated) as f64 / (images - before).max(1) as f64;
        seconds.push(clock.elapsed().as_secs_f64());
        clock = Instant::now();
    }
    let mut result = json!({"open": open, "sweeps": seconds, "minibatches": minibatches, "samples": images,
                            "allocations": allocations_each});
    if is_checked {
        let features = reader.streams().iter().position(|stream| stream.name == "features");
        let features = features.ok_or("There is no stream `features`.")?;
        let (mut sums, mut number) = (Sums::default(), 0);
        sweep(&mut reader, |minibatch| {
            let part = &minibatch.streams[features];
            let values = part.dense::<f32>().expect("dense data");
            for image in values.chunks_exact(values.len() / part.layout.samples().max(1)) {
                // Each image is a sequence of one sample, so columns are in the order of sequences.
                sums.add(number, image.iter().map(|&value| value as u64));
                number += 1;
            }
        })?;
        result["sums"] = sums.json();
    }
    Ok(result.to_string())
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
