//! Whole readers of small text files, under many interleavings of their threads: those that load,
//! index and open files, pack, and read ahead. In every interleaving a reader delivers the same
//! data, and terminates when dropped.

use crate::language::from_text;
use crate::language::options::TextOptions;
use cntk_reader_core::ErrorKind;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::runtime::sync::{explore, thread};
use cntk_reader_engine::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::parallel_packer::PackingThreads;
use cntk_reader_engine::reader::{Epoch, Extensions, ReadConfig, Reader, build};
use cntk_reader_text::ctf::TextDeserializer;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Threads of the pool.
const THREADS: usize = 2;

/// Packing threads. A waiting caller helps in addition.
const PACKING: PackingThreads = PackingThreads { all: 2, beside_caller: 2 };

/// Sequences of each file, one sample each.
const SEQUENCES: u32 = 24;

/// Bytes scanned by one indexing step.
const STEP: u64 = 70;

/// Writes files of sequences whose values continue from file to file.
fn write(folder: &Path, files: u32) {
    for file in 0..files {
        let mut text = String::new();
        (file * SEQUENCES..(file + 1) * SEQUENCES).for_each(|value| _ = writeln!(text, "|x {value}"));
        std::fs::write(folder.join(format!("{file}.ctf")), text).expect("writing the data");
    }
}

fn config(files: &str, order: &str) -> String {
    format!(
        "{order}\ntraceLevel = 0\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"\n\
         file = \"{files}\" ; chunkSizeInBytes = 40 ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ])\n"
    )
}

/// Opens a reader of this configuration; with `grows`, its index is built incrementally while data
/// are read.
fn open(config: &str, grows: bool) -> Reader {
    let options = from_text(config).expect("a configuration");
    let (pool, corpus) = (Pool::of_model(THREADS), build::corpus(&options));
    let source = match (options.deserializers[0].of::<TextOptions>(), grows) {
        (Some(text), true) => {
            let opened = TextDeserializer::open_in_steps(text, &corpus, &pool, STEP).expect("good data");
            (AnyDeserializer::Known(Arc::new(opened)), Vec::new())
        }
        _ => build::deserializer(&options, &Extensions::default(), &corpus, &pool).expect("good data"),
    };
    Reader::over(source, &options, corpus, pool, PACKING, Process::current()).expect("a reader")
}

fn read_config(minibatch_size: u64) -> ReadConfig {
    ReadConfig::new(minibatch_size)
}

/// Returns the values of a minibatch; `None` at the end of the epoch.
fn values(reader: &mut Reader) -> Option<Vec<u32>> {
    let minibatch = reader.read().expect("a minibatch");
    let stream = minibatch.streams.first()?;
    Some(stream.dense::<f32>().expect("floats").iter().map(|&value| value as u32).collect())
}

fn all(reader: &mut Reader) -> Vec<u32> {
    std::iter::from_fn(|| values(reader)).flatten().collect()
}

/// Reads a sweep, with a change of configuration and a restore in between, and part of a second
/// sweep.
fn use_and_drop(mut reader: Reader, sequences: u32, is_random: bool) {
    let epoch = Epoch { read: read_config(5), samples: SIZE_UNLIMITED, sweeps: 1, index: 0 };
    reader.start_epoch(&epoch).expect("an epoch");
    let mut seen: Vec<u32> = (0..3).filter_map(|_| values(&mut reader)).flatten().collect();
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    reader.configure(&read_config(3)).expect("a configuration");
    seen.extend(values(&mut reader).into_iter().flatten());
    seen.truncate(15);
    reader.restore(&checkpoint).expect("its own checkpoint");
    seen.extend(all(&mut reader));
    if is_random {
        seen.sort_unstable();
    }
    assert_eq!(seen, (0..sequences).collect::<Vec<_>>());
    let endless = Epoch { read: read_config(4), samples: SIZE_UNLIMITED, sweeps: SWEEPS_UNLIMITED, index: 0 };
    reader.start_epoch(&endless).expect("an epoch");
    (0..2).for_each(|_| _ = values(&mut reader));
    drop(reader);
}

#[test]
fn a_reader_of_randomized_data() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 1);
    let config = config(
        &folder.path().join("0.ctf").display().to_string(),
        "randomize = true\nrandomizationWindow = 3",
    );
    explore::random_readers("reader, randomized", move || {
        use_and_drop(open(&config, false), SEQUENCES, true)
    });
}

#[test]
fn a_reader_whose_index_grows() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 1);
    let config = config(&folder.path().join("0.ctf").display().to_string(), "randomize = false");
    explore::random_readers("reader, indexed while it is read", move || {
        use_and_drop(open(&config, true), SEQUENCES, false);
    });
}

#[test]
fn a_reader_of_several_files() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 3);
    let config = config(&folder.path().join("*.ctf").display().to_string(), "randomize = false");
    explore::random_readers("reader, files opened while they are read", move || {
        use_and_drop(open(&config, false), 3 * SEQUENCES, false);
    });
}

/// Dropped at once: indexing, opening, loading and reading ahead have hardly begun.
#[test]
fn a_reader_that_is_dropped_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 3);
    let (one, several) = (folder.path().join("0.ctf"), folder.path().join("*.ctf"));
    let in_order = |path: &Path| config(&path.display().to_string(), "randomize = false");
    let configs = [(in_order(&one), true), (in_order(&several), false)];
    explore::random_readers("reader, dropped at once", move || {
        for (config, grows) in &configs {
            for reads in 0..3 {
                let mut reader = open(config, *grows);
                let epoch = Epoch { read: read_config(5), samples: SIZE_UNLIMITED, sweeps: 1, index: 0 };
                reader.start_epoch(&epoch).expect("an epoch");
                (0..reads).for_each(|_| _ = values(&mut reader));
            }
        }
    });
}

/// Repeats a call until it is not cancelled.
fn until_done<R>(mut call: impl FnMut() -> cntk_reader_core::Result<R>) -> R {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Cancelled => {}
            result => return result.expect("nothing fails"),
        }
    }
}

/// Another thread cancels calls at any point. The same data are delivered.
#[test]
fn readers_whose_calls_are_cancelled() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 1);
    let file = folder.path().join("0.ctf").display().to_string();
    for (what, order, grows) in [
        ("randomized", "randomize = true\nrandomizationWindow = 3", false),
        ("indexed while it is read", "randomize = false", true),
    ] {
        let config = config(&file, order);
        explore::random_readers(&format!("reader, {what}, cancelled"), move || {
            let mut reader = open(&config, grows);
            let canceller = Canceller::new();
            reader.set_canceller(&canceller);
            let thread = thread::spawn(move || {
                (0..4).for_each(|_| {
                    canceller.cancel();
                    thread::yield_now();
                });
            });
            let epoch = Epoch { read: read_config(5), samples: SIZE_UNLIMITED, sweeps: 1, index: 0 };
            until_done(|| reader.start_epoch(&epoch));
            let mut seen = Vec::new();
            loop {
                let minibatch = until_done(|| reader.read());
                let Some(stream) = minibatch.streams.first() else { break };
                seen.extend(stream.dense::<f32>().expect("floats").iter().map(|&value| value as u32));
                if seen.len() == 10 {
                    let checkpoint = reader.checkpoint().expect("a checkpoint");
                    until_done(|| reader.restore(&checkpoint));
                }
            }
            if !grows {
                seen.sort_unstable();
            }
            assert_eq!(seen, (0..SEQUENCES).collect::<Vec<_>>());
            drop(reader);
            thread.join().expect("no panic");
        });
    }
}

/// Waits that time out before the data arrive, at any point of the reader's thread, with other
/// calls in between; and a reader that is dropped while its thread reads. The same data are
/// delivered.
#[test]
fn readers_that_are_polled() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 1);
    let file = folder.path().join("0.ctf").display().to_string();
    for (what, order, grows) in [
        ("randomized", "randomize = true\nrandomizationWindow = 3", false),
        ("indexed while it is read", "randomize = false", true),
    ] {
        let config = config(&file, order);
        explore::random_readers(&format!("reader, {what}, polled"), move || {
            let mut reader = open(&config, grows);
            let epoch = Epoch { read: read_config(5), samples: SIZE_UNLIMITED, sweeps: 1, index: 0 };
            reader.start_epoch(&epoch).expect("an epoch");
            let (mut seen, mut polls) = (Vec::new(), 0);
            loop {
                polls += 1;
                match reader.next_within(Duration::ZERO).expect("no failure") {
                    Poll::Ready(Some(minibatch)) => {
                        let values = minibatch.streams[0].dense::<f32>().expect("floats");
                        seen.extend(values.iter().map(|&value| value as u32));
                    }
                    Poll::Ready(None) => break,
                    // Takes the pipeline back from the thread.
                    Poll::Pending if polls == 3 => {
                        let checkpoint = reader.checkpoint().expect("a checkpoint");
                        reader.restore(&checkpoint).expect("its own checkpoint");
                    }
                    Poll::Pending => {}
                }
            }
            if !grows {
                seen.sort_unstable();
            }
            assert_eq!(seen, (0..SEQUENCES).collect::<Vec<_>>());
            reader.start_epoch(&epoch).expect("an epoch");
            _ = reader.next_within(Duration::ZERO).expect("no failure");
            drop(reader);
        });
    }
}
