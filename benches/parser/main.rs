//! Times one thread that parses text, and for comparison the minimum work of any reader, and
//! general number parsers.
//!
//! ```text
//! parser CONFIG
//!     prints the seconds of each measurement, and the numbers of bytes and of numbers, as one line
//!     of JSON
//! ```
//!
//! - `chunks`: this library loads all chunks: it reads the file, parses it and fills the arrays, in
//!   memory that has been used before.
//! - `read`: reads the bytes of the file into a buffer.
//! - `newlines`: counts the line breaks in a buffer.
//! - `fast_float`: fast-float2 converts every number, indices included, to `f32`, correctly
//!   rounded.
//! - `standard`: the standard library converts every number.
//!
//! The last two get the numbers one by one. Finding them is not timed, and results are not stored;
//! a reader would have to do both.

use cntk_reader::language;
use cntk_reader::language::options::TextOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::ChunkTable;
use cntk_reader_core::runtime::pool::{self, Pool};
use cntk_reader_text::ctf::TextDeserializer;
use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// Size of a block in bytes. A block stays in a core's cache, as do the segments of this library.
const BLOCK: usize = 512 << 10;

/// Number of runs, of which the best time of each measurement is reported.
const RUNS: usize = 3;

/// Seconds of each measurement, and the number of converted numbers.
struct Times {
    chunks: f64,
    read: f64,
    newlines: f64,
    fast_float: f64,
    standard: f64,
    numbers: u64,
}

impl Times {
    /// Returns the better of each time.
    fn best(self, other: Times) -> Times {
        Times {
            chunks: self.chunks.min(other.chunks),
            read: self.read.min(other.read),
            newlines: self.newlines.min(other.newlines),
            fast_float: self.fast_float.min(other.fast_float),
            standard: self.standard.min(other.standard),
            numbers: self.numbers,
        }
    }
}

fn run(config: &str) -> Result<String, Box<dyn Error>> {
    let options = language::from_file(Path::new(config))?;
    let [Some(text)] = options.formats().map(|format| format.of::<TextOptions>()).collect::<Vec<_>>()[..]
    else {
        return Err("The configuration must have one deserializer, of text.".into());
    };
    pool::set_threads(1);
    let pool = Pool::shared()?;
    let corpus = Arc::new(if options.numeric_keys { Corpus::Numeric } else { Corpus::Hashed });
    let deserializer = pool.install(|| TextDeserializer::open(text, &corpus))?;
    let file = File::open(text.files.name())?;
    let bytes = file.metadata()?.len();

    let once = || time(&pool, &deserializer, &file);
    let mut best = once()?;
    for _ in 1..RUNS {
        best = best.best(once()?);
    }
    let Times { chunks, read, newlines, fast_float, standard, numbers } = best;
    Ok(format!(
        "{{\"bytes\":{bytes},\"numbers\":{numbers},\"chunks\":{chunks:?},\"read\":{read:?},\"newlines\":{newlines:?},\
         \"fast_float\":{fast_float:?},\"standard\":{standard:?}}}"
    ))
}

/// Returns the seconds to load all chunks, one after the other, on the pool's only thread.
fn load_chunks(pool: &Pool, deserializer: &TextDeserializer) -> cntk_reader::Result<f64> {
    let clock = Instant::now();
    for chunk in 0..deserializer.chunks().len() {
        let chunk = pool.install(|| deserializer.load(chunk as u32))?;
        chunk.errors().commit()?;
    }
    Ok(clock.elapsed().as_secs_f64())
}

/// Runs each measurement once. All except `chunks` work block by block.
fn time(pool: &Pool, deserializer: &TextDeserializer, file: &File) -> Result<Times, Box<dyn Error>> {
    let chunks = load_chunks(pool, deserializer)?;
    let mut times = Times { chunks, read: 0.0, newlines: 0.0, fast_float: 0.0, standard: 0.0, numbers: 0 };
    let mut buffer = vec![0; BLOCK];
    let mut offset = 0;
    loop {
        let size = timed(&mut times.read, || file.read_at(&mut buffer, offset))?;
        if size == 0 {
            return Ok(times);
        }
        // The last line may continue in the next block.
        let end = memchr::memrchr(b'\n', &buffer[..size]).ok_or("A line is too long for this program.")?;
        let text = &buffer[..=end];
        offset += text.len() as u64;
        timed(&mut times.newlines, || black_box(memchr::memchr_iter(b'\n', text).count()));
        let numbers = find_numbers(text);
        times.numbers += numbers.len() as u64;
        let fast = |number: &&[u8]| fast_float2::parse::<f32, _>(number).unwrap_or(f32::NAN);
        let fast: f32 = timed(&mut times.fast_float, || numbers.iter().map(fast).sum());
        let standard =
            |number: &&[u8]| std::str::from_utf8(number).unwrap_or_default().parse().unwrap_or(f32::NAN);
        let standard: f32 = timed(&mut times.standard, || numbers.iter().map(standard).sum());
        if fast.is_nan() || fast.to_bits() != standard.to_bits() {
            return Err(format!("The libraries differ: {fast} and {standard}.").into());
        }
    }
}

/// Runs `work`, and adds its seconds.
fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let clock = Instant::now();
    let result = work();
    *seconds += clock.elapsed().as_secs_f64();
    result
}

/// Returns the words that are numbers, separated by white space or colons.
fn find_numbers(text: &[u8]) -> Vec<&[u8]> {
    let is_number = |word: &&[u8]| fast_float2::parse::<f32, _>(word).is_ok_and(f32::is_finite);
    text.split(|byte| matches!(byte, b' ' | b'\t' | b':' | b'\r' | b'\n')).filter(is_number).collect()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config] = arguments.as_slice() else {
        eprintln!("usage: parser CONFIG\n(`cargo xtask bench --parser` runs this program)");
        return ExitCode::FAILURE;
    };
    match run(config) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
