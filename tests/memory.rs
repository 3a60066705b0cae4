//! Memory is bounded by the randomization window, whatever the size of the data, and an index is
//! small.
//!
//! The windowed data, text and speech, are 100 MB each, 200 MB in the long form; the environment
//! variable `CNTK_READER_BIG_MB` overrides the size.

mod common;

use cntk_reader::language::from_text;
use cntk_reader_core::testing;
use cntk_reader_engine::randomize::SIZE_UNLIMITED;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

const MEGABYTE: u64 = 1 << 20;

/// Values per line.
const DIM: u64 = 64;

/// Size of the data in bytes.
fn size() -> u64 {
    let default = if testing::is_long() { 200 } else { 100 };
    let megabytes =
        std::env::var("CNTK_READER_BIG_MB").map_or(default, |text| text.parse().expect("a number of MB"));
    megabytes * MEGABYTE
}

/// Chunks so small that a few of them are a small part of the data, and never above CNTK's default
/// of 32 MB.
fn chunk_size() -> u64 {
    (size() / 50).clamp(MEGABYTE, 32 * MEGABYTE)
}

/// Memory limit for a window of two chunks. Besides those two, one chunk is being released, and two
/// are loaded ahead together with their text; a value takes as many bytes in memory as in the text.
/// Add the index (4 bytes for a line of 262) and 40 MB for the program itself and its minibatches.
fn limit() -> u64 {
    40 * MEGABYTE + 9 * chunk_size() + size() / 50
}

/// Writes lines of `DIM` values of four bytes each, and returns their number.
fn write_data(file: &Path) -> u64 {
    let mut block = String::new();
    for line in 0..1_000 {
        block.push_str("|x");
        for value in 0..DIM {
            block.push_str([" 1.5", " 0.1", " -25", " 999"][(line * 7 + value as usize) % 4]);
        }
        block.push('\n');
    }
    let mut out = File::create(file).expect("creating the data");
    let blocks = size().div_ceil(block.len() as u64);
    for _ in 0..blocks {
        out.write_all(block.as_bytes()).expect("writing the data");
    }
    blocks * 1_000
}

#[test]
fn window_bounds_the_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let lines = write_data(&folder.path().join("data.ctf"));
    let said = common::child::run("child_reads", folder.path());
    let numbers: Vec<u64> = said.iter().map(|line| line.parse().expect("a number")).collect();
    let [samples, peak] = numbers[..] else { panic!("the child said {said:?}") };
    assert_eq!(samples, lines, "samples");
    let (peak, limit) = (peak / MEGABYTE, limit() / MEGABYTE);
    println!("peak resident memory: {peak} MB of {limit} MB for {} MB of data", size() / MEGABYTE);
    assert!(peak <= limit, "peak resident memory is {peak} MB, more than {limit} MB");
}

/// Reads one sweep and prints its samples and its peak memory. Does nothing unless the test above
/// started it.
#[test]
fn child_reads() {
    let Some(folder) = common::child::directory() else { return };
    read_a_sweep(&format!(
        "randomize = true\nrandomizationWindow = 2\nsampleBasedRandomizationWindow = false\ndeserializers = ([\n\
         type = \"CNTKTextFormatDeserializer\"\nmodule = \"CNTKTextFormatReader\"\nfile = \"{}\"\n\
         chunkSizeInBytes = {}\ninput = [\nx = [ dim = {DIM} ; format = \"dense\" ]\n]\n])\n",
        folder.join("data.ctf").display(),
        chunk_size()
    ));
}

/// Reads one sweep and prints its samples and the peak memory of the process.
fn read_a_sweep(config: &str) {
    let mut reader = Reader::open(&from_text(config).expect("a configuration")).expect("a reader");
    let read = ReadConfig::new(1_024);
    let epoch = Epoch::from_numbers(read, SIZE_UNLIMITED, 1, 0);
    reader.start_epoch(&epoch).expect("an epoch");
    let (mut samples, mut waited) = (0, false);
    loop {
        let minibatch = reader.read().expect("a minibatch");
        samples += minibatch.streams.first().map_or(0, |stream| stream.layout.samples());
        if minibatch.end_of_epoch {
            break;
        }
        if !waited {
            // Gives prefetching time to load more than it should.
            std::thread::sleep(Duration::from_secs(2));
            waited = true;
        }
    }
    common::child::say(&samples.to_string());
    common::child::say(&peak_resident().to_string());
}

/// Values of a frame of speech, frames of an utterance, and frames of a chunk. A chunk is complete
/// with the utterance that takes it above 90,000 frames.
const VALUES: u64 = 16;
const FRAMES: u64 = 500;
const CHUNK_FRAMES: u64 = 90_500;

/// Memory limit for a window of two chunks of speech: those two, one being released, and two loaded
/// ahead, each with its frames as they are in the file and about 24 bytes of description per frame;
/// 20 bytes for each utterance of 32,000; and 40 MB for the program itself and its minibatches.
fn speech_limit() -> u64 {
    40 * MEGABYTE + 5 * CHUNK_FRAMES * (4 * VALUES + 24) + size() / 500
}

/// Writes an HTK archive of `size` bytes with its script file, and returns the number of frames.
fn write_speech(folder: &Path) -> u64 {
    let utterances = size().div_ceil(4 * VALUES * FRAMES);
    let frames = utterances * FRAMES;
    let mut archive = BufWriter::new(File::create(folder.join("data.mfc")).expect("creating the data"));
    let header = [u32::try_from(frames).expect("frames"), 100_000, (4 * VALUES as u32) << 16 | 9];
    header.iter().for_each(|part| archive.write_all(&part.to_be_bytes()).expect("writing the data"));
    let utterance: Vec<u8> = (0..VALUES * FRAMES).flat_map(|value| (value as f32).to_be_bytes()).collect();
    let mut script = BufWriter::new(File::create(folder.join("data.scp")).expect("creating the script"));
    for number in 0..utterances {
        archive.write_all(&utterance).expect("writing the data");
        let first = number * FRAMES;
        writeln!(script, "utt{number}.mfc=.../data.mfc[{first},{}]", first + FRAMES - 1)
            .expect("writing the script");
    }
    archive.into_inner().expect("writing the data");
    script.into_inner().expect("writing the script");
    frames
}

#[test]
fn window_bounds_the_memory_of_frames_with_context() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let frames = write_speech(folder.path());
    let said = common::child::run("child_reads_speech", folder.path());
    let numbers: Vec<u64> = said.iter().map(|line| line.parse().expect("a number")).collect();
    let [samples, peak] = numbers[..] else { panic!("the child said {said:?}") };
    assert_eq!(samples, frames, "samples");
    let (peak, limit) = (peak / MEGABYTE, speech_limit() / MEGABYTE);
    println!("peak resident memory: {peak} MB of {limit} MB for {} MB of speech", size() / MEGABYTE);
    assert!(peak <= limit, "peak resident memory is {peak} MB, more than {limit} MB");
}

/// Reads one sweep of frames and prints its samples and its peak memory. Does nothing unless the
/// test above started it.
#[test]
fn child_reads_speech() {
    let Some(folder) = common::child::directory() else { return };
    read_a_sweep(&format!(
        "randomize = true\nrandomizationWindow = 2\nsampleBasedRandomizationWindow = false\nframeMode = true\n\
         deserializers = ([\ntype = \"HTKFeatureDeserializer\"\nmodule = \"HTKDeserializers\"\n\
         input = [ x = [ scpFile = \"{}\" ; dim = {VALUES} ; contextWindow = 1:1 ] ]\n])\n",
        folder.join("data.scp").display(),
    ));
}

/// Sequences of the index: 2 million, 10 million in the long form.
fn sequences() -> u64 {
    if testing::is_long() { 10_000_000 } else { 2_000_000 }
}

/// Memory limit once the index is complete: 16 bytes for each sequence, and 40 MB for the program
/// itself.
fn index_limit() -> u64 {
    40 * MEGABYTE + 16 * sequences()
}

#[test]
fn index_is_small() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let mut out = BufWriter::new(File::create(folder.path().join("data.ctf")).expect("creating the data"));
    for sequence in 0..sequences() {
        // Keys are not consecutive and lengths differ, so both have to be stored.
        let lines = if sequence % 1_000 == 0 { 2 } else { 1 };
        (0..lines).for_each(|_| writeln!(out, "{} |x 1", 3 * sequence).expect("writing the data"));
    }
    out.into_inner().expect("writing the data");
    let said = common::child::run("child_indexes", folder.path());
    let peak: u64 = said.concat().parse().expect("a number");
    println!("peak resident memory: {} MB for {} sequences", peak / MEGABYTE, sequences());
    assert!(peak <= index_limit(), "peak resident memory is {} MB", peak / MEGABYTE);
}

/// Opens the data and prints its peak memory. Does nothing unless the test above started it.
#[test]
fn child_indexes() {
    let Some(folder) = common::child::directory() else { return };
    let config = format!(
        "randomize = true\ndeserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\n\
         module = \"CNTKTextFormatReader\"\nfile = \"{}\"\ninput = [\nx = [ dim = 1 ; format = \"dense\" ]\n]\n])\n",
        folder.join("data.ctf").display()
    );
    let reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
    common::child::say(&peak_resident().to_string());
    drop(reader);
}

/// Returns the peak resident memory of this process, in bytes.
fn peak_resident() -> u64 {
    status("VmHWM:")
}

/// Returns a number from the status of this process, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the number");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kilobytes * 1024
}

/// Number of readers that one process opens and destroys, one after the other.
fn readers() -> usize {
    if testing::is_long() { 40 } else { 8 }
}

/// Threads that serve the readers.
const THREADS: usize = 16;

/// Bytes of the data, in lines of a few streams.
const SMALL: usize = 20 << 20;

/// Memory, in MB, that may stay resident afterwards: 10 MB for the program; for each thread 2 MB
/// for the text and the results of parsing, and 4 MB that the allocator keeps for it. On a busy
/// machine all threads may parse at the same time and use all of it. Without releasing the memory
/// of chunks, 115 MB stay resident.
const LEFT: u64 = 10 + 6 * THREADS as u64;

#[test]
fn destroyed_readers_release_their_memory() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let line = |number: usize| {
        format!(
            "|a 0.25 {} -17 1.5 |b {}:1 77:0.5 |c 1 2 3 |d {}:1\n",
            number % 1000,
            number % 50,
            number % 10
        )
    };
    let mut text = String::new();
    let mut number = 0;
    while text.len() < SMALL {
        text.push_str(&line(number));
        number += 1;
    }
    std::fs::write(folder.path().join("data.ctf"), text).expect("writing the data");
    let said = common::child::run("child_opens_readers", folder.path());
    let sizes: Vec<u64> = said.iter().map(|line| line.parse::<u64>().expect("a number") / MEGABYTE).collect();
    let left = sizes.last().copied().unwrap_or(u64::MAX);
    println!("resident memory after {} readers: {left} MB of {LEFT} MB (after each: {sizes:?})", readers());
    assert!(left <= LEFT || common::child::is_emulated(), "{left} MB stay resident, more than {LEFT} MB");
}

/// Opens readers one after the other, reads a sweep with each, and prints the memory of the process
/// after each. Does nothing unless the test above started it.
#[test]
fn child_opens_readers() {
    let Some(folder) = common::child::directory() else { return };
    let config = format!(
        "randomize = true\ndeserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\nmodule = \"CNTKTextFormatReader\"\n\
         file = \"{}\"\ninput = [\na = [ dim = 4 ; format = \"dense\" ]\n\
         b = [ dim = 100 ; format = \"sparse\" ]\nc = [ dim = 3 ; format = \"dense\" ]\n\
         d = [ dim = 10 ; format = \"sparse\" ]\n]\n])\n",
        folder.join("data.ctf").display()
    );
    cntk_reader::set_threads(THREADS);
    for number in 0..readers() {
        let mut reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
        let epoch = Epoch::from_numbers(ReadConfig::new(256 + number as u64), SIZE_UNLIMITED, 1, 0);
        reader.start_epoch(&epoch).expect("an epoch");
        while !reader.read().expect("a minibatch").end_of_epoch {}
        drop(reader);
        common::child::say(&resident().to_string());
    }
}

/// Returns the resident memory of this process, in bytes.
fn resident() -> u64 {
    status("VmRSS:")
}
