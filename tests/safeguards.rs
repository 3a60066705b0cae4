//! Nothing is endless or silent in the engine's decisions: sweeps that deliver nothing, sizes that
//! exceed memory, checkpoints of other workers or other data, and errors that are counted twice.

mod common;

use cntk_reader::{Result, language};
use cntk_reader_core::error::ErrorKind;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use common::quiet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

fn epoch(sweeps: Option<u64>, read: ReadConfig) -> Epoch {
    sweeps.map_or_else(Epoch::unlimited, Epoch::sweeps).read_config(read)
}

fn open(text: &str) -> Reader {
    quiet();
    Reader::open(&language::from_text(text).expect("a configuration")).expect("a reader")
}

/// Returns a configuration for a text file with a stream `x` of this dimension.
fn ctf(file: &Path, dim: usize, reader: &str, deserializer: &str) -> String {
    format!(
        "{reader}\ndeserializers=([type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";{deserializer}\n\
         input=[x=[dim={dim};format=dense]]])",
        file.display()
    )
}

fn write(folder: &Path, name: &str, lines: impl IntoIterator<Item = String>) -> std::path::PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, lines.into_iter().collect::<String>()).expect("a file");
    path
}

/// Returns the outcomes of reads, samples or errors, up to the end of the epoch.
fn reads(reader: &mut Reader, most: usize) -> Vec<Result<u32>> {
    let mut outcomes = Vec::new();
    for _ in 0..most {
        let read = reader.read();
        let ends = read.as_ref().is_ok_and(|minibatch| minibatch.end_of_epoch);
        outcomes.push(read.map(|minibatch| minibatch.keys.len() as u32));
        if ends {
            break;
        }
    }
    outcomes
}

fn errors(outcomes: &[Result<u32>]) -> Vec<String> {
    outcomes
        .iter()
        .filter_map(|outcome| outcome.as_ref().err().map(|error| error.message().to_owned()))
        .collect()
}

#[test]
fn sweep_without_data_is_an_explained_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), "bad.ctf", (0..6).map(|i| format!("{i} |x 1 2 a\n")));
    for order in ["randomize=false", "randomize=true"] {
        for workers in [1, 2] {
            let tolerant = "maxErrors=1000000;strictSequences=false;chunkSizeInBytes=16";
            let text = ctf(&file, 2, &format!("{order};maxErrors=1000000"), tolerant);
            for sweeps in [Some(1), None] {
                let mut reader = open(&text);
                reader.start_epoch(&epoch(sweeps, ReadConfig::new(2).worker(0, workers))).expect("an epoch");
                let outcomes = reads(&mut reader, 100);
                let found = errors(&outcomes);
                assert!(
                    found[0].starts_with("A whole sweep has delivered nothing"),
                    "{order}, {workers}: {found:?}"
                );
                // It occurs once for each sweep.
                assert_eq!(found.len() == 1, sweeps.is_some(), "{order}, {workers}: {found:?}");
            }
        }
    }
}

#[test]
fn sweep_without_images_is_an_explained_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), "images.txt", (0..6).map(|i| format!("{i}\t0\tb'abcde'\n")));
    let text = |reader: &str| {
        format!(
            "{reader};traceLevel=0\ndeserializers=([type=Base64ImageDeserializer;module=ImageReader;file=\"{}\"\n\
             input=[features=[transforms=()]\nlabels=[labelDim=2]]])",
            file.display()
        )
    };
    for order in ["randomize=false", "randomize=true"] {
        let mut reader = open(&text(&format!("{order};maxErrors=1000")));
        reader.start_epoch(&epoch(None, ReadConfig::new(3))).expect("an epoch");
        let found = errors(&reads(&mut reader, 3));
        assert!(found[0].contains("all 6 sequences that were read were left out"), "{found:?}");
        // The limit is checked although nothing is left to deliver.
        let mut reader = open(&text(order));
        reader.start_epoch(&epoch(Some(1), ReadConfig::new(4))).expect("an epoch");
        let found = errors(&reads(&mut reader, 100));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("Number of invalid sequences '6'"), "{found:?}");
    }
}

#[test]
fn idle_workers_and_empty_parts_of_sweeps_are_not_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    // Of four sequences the last two have no sample.
    let line = |i: usize| if i < 2 { format!("{i} |x {i}\n") } else { format!("{i} |x a\n") };
    let file = write(folder.path(), "half.ctf", (0..4).map(line));
    let text = ctf(&file, 1, "randomize=false;maxErrors=100", "maxErrors=100000;strictSequences=false");
    let mut reader = open(&text);
    reader.start_epoch(&epoch(Some(3), ReadConfig::new(1))).expect("an epoch");
    assert_eq!(errors(&reads(&mut reader, 100)), [""; 0]);
    // The second half alone.
    reader.start_epoch(&Epoch::samples(2).index(1).minibatch_size(1)).expect("an epoch");
    assert_eq!(errors(&reads(&mut reader, 100)), [""; 0]);
    // More workers than sequences.
    let file = write(folder.path(), "few.ctf", (0..3).map(|i| format!("{i} |x {i}\n")));
    for order in ["randomize=false", "randomize=true", "lockstep=true"] {
        for rank in 0..5 {
            let mut reader = open(&ctf(&file, 1, order, "chunkSizeInBytes=6"));
            reader.start_epoch(&epoch(Some(2), ReadConfig::new(5).worker(rank, 5))).expect("an epoch");
            assert_eq!(errors(&reads(&mut reader, 100)), [""; 0], "{order}, rank {rank}");
        }
    }
}

#[test]
fn log_lines_of_sweeps_are_rate_limited() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |i: usize| if i.is_multiple_of(2) { format!("{i} |x {i}\n") } else { format!("{i} |x a\n") };
    let file = write(folder.path(), "half.ctf", (0..8).map(line));
    let text = ctf(&file, 1, "randomize=true", "maxErrors=1000000;strictSequences=false;chunkSizeInBytes=20");
    let lines = Arc::new(Mutex::new(0));
    let mut reader = open(&text);
    let count = Arc::clone(&lines);
    cntk_reader_core::runtime::log::set_sink(Some(Arc::new(move |_, line: &str| {
        *count.lock().expect("a lock") += usize::from(line.contains("half.ctf"));
    })));
    let mut in_sweeps = Vec::new();
    for sweeps in [100, 200] {
        reader.start_epoch(&epoch(Some(sweeps), ReadConfig::new(3))).expect("an epoch");
        assert_eq!(errors(&reads(&mut reader, 10_000)), [""; 0]);
        in_sweeps.push(*lines.lock().expect("a lock"));
    }
    quiet();
    assert!(in_sweeps[1] < 150 && in_sweeps[1] - in_sweeps[0] <= 20, "{in_sweeps:?}");
}

#[test]
fn impossible_sizes_are_refused_before_allocating() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), "data.ctf", (0..6).map(|i| format!("{i} |x {i}\n")));
    let truncated = |length: &str| ctf(&file, 1, &format!("truncated=true;truncationLength={length}"), "");
    // A negative length is already refused with the configuration.
    let long = truncated("2147483647").replace("dim=1;", "dim=1000000;");
    for sweeps in [Some(1), None] {
        let mut reader = open(&long);
        let error = reader.start_epoch(&epoch(sweeps, ReadConfig::new(10))).expect_err("2^31 steps");
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.message().contains("a truncated minibatch"), "{error}");
    }
    let mut reader = open(&truncated("2"));
    reader.start_epoch(&epoch(None, ReadConfig::new(10))).expect("an epoch");
    let long = ReadConfig::new(u64::MAX).truncation_length(1 << 63);
    assert_eq!(reader.configure(&long).expect_err("2^63 steps").kind(), ErrorKind::Memory);
    reader.read().expect("as before");
    // Equally many parallel sequences.
    let error = open(&truncated("2")).start_epoch(&epoch(None, ReadConfig::new(u64::MAX / 2)));
    assert_eq!(error.expect_err("lanes").kind(), ErrorKind::Memory);
    // Finite data make a huge size possible; endlessly repeated data do not. A machine with enough
    // memory accepts it.
    let wide = ctf(&file, 1, "", "").replace("dim=1;", "dim=100000;");
    let mut reader = open(&wide);
    reader.start_epoch(&epoch(Some(1), ReadConfig::new(u64::MAX))).expect("all that there is");
    let read = ReadConfig::new(u64::MAX);
    let error = reader.start_epoch(&epoch(None, read)).expect_err("more than there is memory for");
    assert_eq!(error.kind(), ErrorKind::Memory);
    let error = reader.configure(&ReadConfig::new(10)).map(|()| reader.progress());
    assert!(error.is_ok_and(|progress| progress.is_ok_and(|progress| progress.delivered == 0)), "as it was");
}

/// Twelve sequences of one to three samples, each in its own chunk.
fn uneven(folder: &Path) -> std::path::PathBuf {
    write(
        folder,
        "uneven.ctf",
        (0..12).map(|i| (0..=i % 3).fold(String::new(), |lines, _| lines + &format!("{i} |x {i}\n"))),
    )
}

#[test]
fn other_workers_continue_only_if_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = uneven(folder.path());
    let text = |settings: &str| ctf(&file, 1, settings, "chunkSizeInBytes=8");
    let checkpoint = |settings: &str, workers: u64, reads: usize| {
        let mut reader = open(&text(settings));
        reader.start_epoch(&epoch(Some(1), ReadConfig::new(4).worker(0, workers))).expect("an epoch");
        (0..reads).for_each(|_| _ = reader.read().expect("a minibatch"));
        reader.checkpoint().expect("a checkpoint")
    };
    let go_on = |settings: &str, workers: u64, reads: usize| {
        let mut reader = open(&text(settings));
        reader.restore(&checkpoint(settings, workers, reads)).expect("it fits");
        reader.configure(&ReadConfig::new(4).worker(1, 3))
    };
    // The setting in the last case is in a comment.
    for settings in
        ["localTimeline=false", "randomize=false;localTimeline=false", "", "# lockstep = true\nx = 1"]
    {
        let error = go_on(settings, 2, 1).expect_err(settings);
        assert_eq!(error.kind(), ErrorKind::Checkpoint);
        assert!(error.message().contains("worker 0 of 2 in the middle of an epoch"), "{error}");
        // Before the first minibatch, at the end of the epoch, and from a single worker, each
        // sequence is read once.
        go_on(settings, 2, 0).expect("nothing was read");
        go_on(settings, 1, 1).expect("one worker has read all before");
        let mut reader = open(&text(settings));
        reader.restore(&checkpoint(settings, 2, 1)).expect("it fits");
        reader.configure(&ReadConfig::new(7).worker(0, 2)).expect("the same worker");
    }
    go_on("lockstep=true", 2, 1).expect("in lockstep");
}

/// A program of four workers starts its epoch, and then finds a checkpoint of two.
#[test]
fn started_epoch_keeps_its_workers_on_restore() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = uneven(folder.path());
    let started = |settings: &str, worker: (u64, u64)| {
        let mut reader = open(&ctf(&file, 1, settings, "chunkSizeInBytes=8"));
        let read = ReadConfig::new(4).worker(worker.0, worker.1);
        reader.start_epoch(&epoch(Some(1), read)).expect("an epoch");
        reader
    };
    // The numbers of the sequences that are left in the epoch.
    let left = |reader: &mut Reader| {
        let mut keys = Vec::new();
        while let Ok(minibatch) = reader.read() {
            keys.extend(minibatch.keys.iter().map(|&key| reader.corpus().text_of(key)));
            if minibatch.end_of_epoch {
                break;
            }
        }
        keys
    };
    let checkpoint = |settings: &str| {
        let mut reader = started(settings, (0, 2));
        reader.read().expect("a minibatch");
        reader.checkpoint().expect("a checkpoint")
    };
    // In lockstep the four continue together, and each sequence is read once.
    let checkpoint_of_two = checkpoint("lockstep=true");
    let mut before: Vec<String> = (0..2)
        .flat_map(|rank| {
            let mut reader = started("lockstep=true", (rank, 2));
            let minibatch = reader.read().expect("a minibatch");
            minibatch.keys.iter().map(|&key| reader.corpus().text_of(key)).collect::<Vec<_>>()
        })
        .collect();
    for rank in 0..4 {
        let mut reader = started("lockstep=true", (rank, 4));
        reader.restore(&checkpoint_of_two).expect("it fits");
        let config = reader.config().expect("an epoch");
        assert_eq!((config.rank, config.workers), (rank, 4));
        before.extend(left(&mut reader));
    }
    let mut numbers: Vec<u32> = before.iter().map(|key| key.parse().expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..12).collect::<Vec<_>>());
    // Otherwise that is refused, and the reader keeps its position.
    let mut reader = started("", (1, 4));
    let expected = left(&mut started("", (1, 4)));
    let error = reader.restore(&checkpoint("")).expect_err("other workers");
    assert!(error.message().contains("worker 0 of 2 in the middle of an epoch"), "{error}");
    assert_eq!(reader.config().expect("an epoch").workers, 4);
    assert_eq!(left(&mut reader), expected);
}

/// Returns a file of each format whose values can be changed without changing its shape: the
/// configuration, and its files.
fn formats(folder: &Path) -> Vec<(&'static str, String, Vec<std::path::PathBuf>)> {
    let numbers = |name: &str, from: usize| {
        write(folder, name, (0..40).map(|i| format!("{i} |x {}\n", 10 + (from + i) % 80)))
    };
    let (one, two) = (numbers("one.ctf", 0), numbers("two.ctf", 7));
    let mut formats =
        vec![("text", ctf(&one, 1, "randomize=true", "chunkSizeInBytes=64"), vec![one.clone()])];
    let list = ctf(&one, 1, "", "").replace(
        &format!("file=\"{}\"", one.display()),
        &format!("file=(\"{}\":\"{}\")", one.display(), two.display()),
    );
    formats.push(("list", list, vec![one, two]));
    // HTK features: a header of 12 bytes, then values of 4 bytes.
    let mut htk = Vec::new();
    htk.extend(30_u32.to_be_bytes());
    htk.extend(100_000_u32.to_be_bytes());
    htk.extend(8_u16.to_be_bytes());
    htk.extend(9_u16.to_be_bytes());
    (0..60_u8).for_each(|value| htk.extend([0x40, value, 0, 0]));
    let features = folder.join("u.htk");
    std::fs::write(&features, htk).expect("a file");
    let script = write(
        folder,
        "u.scp",
        (0..3).map(|i| format!("{i}={}[{},{}]\n", features.display(), 10 * i, 10 * i + 9)),
    );
    formats.push((
        "features",
        format!(
            "deserializers=([type=HTKFeatureDeserializer;module=HTKDeserializers\ninput=[f=[dim=2;scpFile=\"{}\"]]])",
            script.display()
        ),
        vec![features],
    ));
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/files/images/p8x8.png");
    let image = folder.join("i.png");
    std::fs::copy(images, &image).expect("an image");
    let map = write(folder, "map.txt", [format!("{}\t0\n", image.display())]);
    formats.push((
        "images",
        format!(
            "deserializers=([type=ImageDeserializer;module=ImageReader;file=\"{}\"\n\
             input=[f=[transforms=([type=Scale;width=4;height=3;channels=3]:[type=Transpose])]\nl=[labelDim=1]]])",
            map.display()
        ),
        vec![image],
    ));
    formats
}

#[test]
fn changed_values_of_the_same_shape_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (format, text, files) in formats(folder.path()) {
        let mut reader = open(&text);
        reader.start_epoch(&epoch(None, ReadConfig::new(1))).expect("an epoch");
        reader.read().expect("a minibatch");
        let checkpoint = reader.checkpoint().expect("a checkpoint");
        open(&text).restore(&checkpoint).expect("the same data");
        for file in files {
            let good = std::fs::read(&file).expect("the file");
            // A copy at the same path, with another timestamp: the same data.
            std::fs::remove_file(&file).expect("removing");
            std::fs::write(&file, &good).expect("writing");
            open(&text).restore(&checkpoint).expect("a copy");
            let mut bad = good.clone();
            let last = bad.len() - 2;
            bad[last] = if bad[last] == b'1' { b'2' } else { b'1' };
            std::fs::write(&file, &bad).expect("writing");
            let mut other = open(&text);
            let error = other.restore(&checkpoint).expect_err(format);
            assert_eq!(error.kind(), ErrorKind::Checkpoint, "{format}");
            assert!(
                error.message().contains("the same sequences, but different values"),
                "{format}: {error}"
            );
            // Changed on purpose.
            other
                .restore_over_changed_values(&checkpoint)
                .unwrap_or_else(|error| panic!("{format}: {error}"));
            assert!(other.progress().expect("a progress").delivered > 0, "{format}");
            std::fs::write(&file, &good).expect("writing");
        }
    }
}

#[test]
fn changed_values_are_allowed_only_with_the_same_sequences() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), "data.ctf", (0..6).map(|i| format!("{i} |x {i}\n")));
    let text = ctf(&file, 1, "", "");
    let mut reader = open(&text);
    reader.start_epoch(&epoch(None, ReadConfig::new(1))).expect("an epoch");
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    write(folder.path(), "data.ctf", (0..5).map(|i| format!("{i} |x {i}\n")));
    let error = open(&text).restore_over_changed_values(&checkpoint).expect_err("fewer sequences");
    assert!(error.message().contains("data: checkpoint '6 sequences"), "{error}");
}

/// Twenty-four sequences in chunks of three; number 10 has an error.
fn one_error(folder: &Path) -> String {
    let mut lines = String::new();
    for i in 0..24 {
        let bad = if i == 10 { "|x a" } else { "" };
        writeln!(lines, "{bad}|x {i}").expect("a line");
    }
    let file = write(folder, "error.ctf", [lines]);
    ctf(&file, 1, "randomize=false;traceLevel=0", "maxErrors=1;chunkSizeInBytes=20;traceLevel=0")
}

#[test]
fn undelivered_errors_are_not_counted_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = one_error(folder.path());
    let pause = || std::thread::sleep(std::time::Duration::from_millis(3));
    let mut other = open(&text);
    other.start_epoch(&epoch(Some(1), ReadConfig::new(2).worker(1, 2))).expect("an epoch");
    other.read().expect("a minibatch");
    let of_other = other.checkpoint().expect("a checkpoint");
    for reads_before in 1..16 {
        let started = || {
            let mut reader = open(&text);
            reader.start_epoch(&epoch(Some(1), ReadConfig::new(1))).expect("an epoch");
            for _ in 0..reads_before {
                reader.read().expect("a minibatch");
                // Leave time to read ahead.
                pause();
            }
            reader
        };
        // Setting the same position again, other sizes, and a state that is refused.
        let mut reader = started();
        let position = reader.state()[0].1;
        reader.set_state(&[("minibatchSourcePosition", position)]).expect("a state");
        assert_eq!(errors(&reads(&mut reader, 100)), [""; 0], "a state after {reads_before}");
        let mut reader = started();
        reader.configure(&ReadConfig::new(2)).expect("sizes");
        assert_eq!(errors(&reads(&mut reader, 100)), [""; 0], "sizes after {reads_before}");
        let mut reader = started();
        assert!(reader.set_state(&[("nothing", 1)]).is_err() && reader.restore(b"nonsense").is_err());
        assert!(reader.restore(&of_other).is_err(), "the checkpoint of another worker");
        assert_eq!(reads(&mut reader, 100).len(), 24 - reads_before, "a refusal after {reads_before}");
    }
}

#[test]
fn restored_reader_counts_errors_like_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut reader = open(&one_error(folder.path()));
    reader.start_epoch(&epoch(Some(1), ReadConfig::new(1))).expect("an epoch");
    let start = reader.checkpoint().expect("a checkpoint");
    for _ in 0..3 {
        let outcomes = reads(&mut reader, 100);
        assert_eq!((outcomes.len(), errors(&outcomes)), (24, Vec::new()));
        reader.restore(&start).expect("the start");
    }
}
