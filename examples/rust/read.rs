//! Reads a file in CNTK's text format, and prints its minibatches.
//!
//!     cargo run --example read
//!
//! writes a small example file and reads it. To read your own, change the path and the streams.

use cntk_reader::{CtfDeserializer, Epoch, Reader, Result};

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("cntk-reader-example.ctf");
    let line = |i: u32| format!("|features {i} {}.5 0 |labels {}:1\n", i * 2, i % 10);
    std::fs::write(&path, (0..1000).map(line).collect::<String>()).expect("writing the example's data");

    let mut reader = Reader::builder()
        .ctf(CtfDeserializer::new(&path).dense("features", 3).sparse("labels", 10))
        .open()?;
    for stream in reader.streams() {
        println!("{}: {:?}, samples of shape {:?}", stream.name, stream.storage, stream.shape);
    }

    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(256))? {
        let minibatch = minibatch?;
        let features = minibatch.stream("features")?;
        let labels = minibatch.stream("labels")?.sparse::<f32>()?;
        let values: &[f32] = features.dense()?;
        println!(
            "{} samples of {} values, {} labels; the first: {:?} with label {:?}",
            features.samples(),
            features.sample_size(),
            labels.values.len(),
            &values[..features.sample_size()],
            labels.column(0).map(|(indices, _)| indices),
        );
    }
    Ok(())
}
