//! Times the decoder alone: reads and decodes files, and drops their pixels.

use crate::sums::Sums;
use cntk_reader_core::image::{Image, Pixels, Region};
use cntk_reader_images::decode::{DecodeOptions, Decoder, WebpChannels};
use serde_json::json;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The options with which the reader decodes images in files.
const OPTIONS: DecodeOptions = DecodeOptions {
    grayscale: false,
    orient: true,
    in_memory: false,
    max_pixels: 1 << 28,
    webp: WebpChannels::AsAsked,
};

/// Reads and decodes all images of a folder on `threads` threads. Returns one line of JSON: the
/// seconds, and the sums of a second pass.
pub fn decode(folder: &Path, threads: usize) -> Result<String, Box<dyn Error>> {
    let sums: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join("sums.json"))?)?;
    let count = sums["images"].as_u64().ok_or("`sums.json` has no number of images.")?;
    let clock = Instant::now();
    pass(folder, count, threads, |_, _| Sums::default())?;
    let seconds = clock.elapsed().as_secs_f64();
    let sums = pass(folder, count, threads, |number, image| {
        let mut sums = Sums::default();
        if let Pixels::Bytes(bytes) = &image.pixels {
            sums.add(number, bytes.iter().map(|&byte| byte.into()));
        }
        sums
    })?;
    Ok(json!({"seconds": seconds, "sums": sums.json()}).to_string())
}

/// Decodes all images once, and returns the total of the sums that `with` computes of each.
fn pass(
    folder: &Path,
    count: u64,
    threads: usize,
    with: impl Fn(u64, &Image) -> Sums + Sync,
) -> Result<Sums, String> {
    let next = AtomicU64::new(0);
    let work = || -> Result<Sums, String> {
        let (mut decoder, mut image) = (Decoder::default(), Image::default());
        let (mut file, mut sums) = (Vec::new(), Sums::default());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(sums);
            }
            let path = folder.join(format!("files/{number:06}.jpg"));
            let mut from = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            file.clear();
            from.read_to_end(&mut file).map_err(|error| error.to_string())?;
            let header = decoder.header(&file, &OPTIONS).map_err(|error| error.message)?;
            let region = Region::whole(header.width, header.height);
            decoder.decode(&file, &OPTIONS, region, &mut image).map_err(|error| error.message)?;
            sums = sums.and(with(number, &image));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut results = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        results.try_fold(Sums::default(), |sums, one| Ok(sums.and(one?)))
    })
}
