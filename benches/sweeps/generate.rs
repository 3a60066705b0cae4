//! Writes the data of a shape. Blocks are generated on all cores and written in order, so the bytes
//! are reproducible.

use crate::random::Random;
use crate::shapes::Shape;
use crate::sums::{StreamSums, Sums};
use std::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Blocks that one thread generates before they are written.
const BLOCKS_PER_THREAD: u64 = 8;

/// Returns the path of the sums of a data file.
pub fn sums_path(data: &Path) -> PathBuf {
    data.with_extension("sums")
}

/// Writes `megabytes` megabytes of data, and a file of sums beside them.
pub fn generate(shape: &Shape, megabytes: u64, data: &Path) -> Result<(), Box<dyn Error>> {
    let size = megabytes * 1_000_000;
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    // The sums are written last: data without them are incomplete.
    let _ = fs::remove_file(sums_path(data));
    let mut file = File::create(data)?;
    let (mut written, mut block) = (0, 0);
    let mut sums = Sums::new(shape.streams.len());
    while written < size {
        let parts: Vec<(Vec<u8>, Sums)> = std::thread::scope(|scope| {
            let jobs: Vec<_> = (0..threads)
                .map(|thread| {
                    let first = block + thread * BLOCKS_PER_THREAD;
                    scope.spawn(move || {
                        (first..first + BLOCKS_PER_THREAD).map(|block| make(shape, block)).collect::<Vec<_>>()
                    })
                })
                .collect();
            jobs.into_iter().flat_map(|job| job.join().expect("making a block cannot fail")).collect()
        });
        // Excess blocks are dropped, so the number of threads does not affect the file.
        for (text, part) in parts {
            if written < size {
                file.write_all(&text)?;
                written += text.len() as u64;
                sums.add(&part);
            }
        }
        block += threads * BLOCKS_PER_THREAD;
    }
    drop(file);
    fs::write(sums_path(data), format!("{sums}\n"))?;
    Ok(())
}

/// Generates the text and sums of a block.
fn make(shape: &Shape, block: u64) -> (Vec<u8>, Sums) {
    let mut random = Random::new(shape.number, block);
    let mut text = Vec::with_capacity(400_000);
    let mut sums = Sums::new(shape.streams.len());
    let mut sequence = vec![StreamSums::default(); shape.streams.len()];
    for index in 0..shape.block {
        sequence.fill(StreamSums::default());
        (shape.write)(&mut text, &mut random, block * shape.block + index, &mut sequence);
        sums.add_sequence(&sequence);
    }
    (text, sums)
}
