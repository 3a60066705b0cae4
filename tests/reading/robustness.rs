//! Invalid input of every kind leads to an error with a location, never to a panic or a hang.

use crate::common;

use cntk_reader::Result;
use cntk_reader::language::from_text;
use cntk_reader_core::error::ErrorKind;
use cntk_reader_core::stream::ElementType;
use cntk_reader_engine::randomize::SWEEPS_UNLIMITED;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use common::reading::{check_errors, epoch, use_it};
use common::seen::read_all;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time after which a case counts as hung, far longer than any case takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs numbered cases on a separate thread, and names the one that panics or hangs.
fn for_cases(count: u64, case: impl Fn(u64, &Path) + Send + 'static) {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_owned();
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        for number in 0..count {
            sender.send(number).expect("the receiver waits");
            case(number, &path);
        }
    });
    let mut running = 0;
    loop {
        match receiver.recv_timeout(PATIENCE) {
            Ok(number) => running = number,
            Err(RecvTimeoutError::Timeout) => panic!("case {running} hangs"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Err(panic) = thread.join() {
        eprintln!("case {running} of {count}");
        std::panic::resume_unwind(panic);
    }
}

fn config_for(file: &Path, more: &str) -> String {
    format!(
        "traceLevel = 0\n{more}\ndeserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\n\
         module = \"CNTKTextFormatReader\"\nfile = \"{}\"\nchunkSizeInBytes = 100\n\
         input = [\nx = [ dim = 2 ; format = \"dense\" ]\n]\n])\n",
        file.display()
    )
}

fn open(file: &Path, more: &str) -> Result<Reader> {
    Reader::open(&from_text(&config_for(file, more))?)
}

#[test]
fn invalid_files_are_refused() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, content: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("writing a file");
        path
    };
    let utf16: Vec<u8> = "\u{feff}|x 1 2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases = [
        ("missing", folder.path().join("missing.ctf"), ErrorKind::Io),
        ("directory", folder.path().to_owned(), ErrorKind::Io),
        ("empty", write("empty.ctf", b""), ErrorKind::Data),
        ("blank", write("blank.ctf", b" \n\t\r\n"), ErrorKind::Data),
        ("BOM alone", write("bom.ctf", b"\xef\xbb\xbf"), ErrorKind::Data),
        ("UTF-16", write("utf16.ctf", &utf16), ErrorKind::Data),
        ("no id", write("text.ctf", b"hello world\n"), ErrorKind::Data),
        ("overflow", write("overflow.ctf", b"18446744073709551616 |x 1 2\n"), ErrorKind::Data),
    ];
    for (what, path, kind) in cases {
        let Err(error) = open(&path, "") else { panic!("{what}: no error") };
        assert_eq!(error.kind(), kind, "{what}: {error}");
        assert_eq!(error.location().file.as_deref(), path.to_str(), "{what}: {error}");
        assert_eq!(error.class(), cntk_reader_core::error::ExceptionClass::Runtime, "{what}: {error}");
    }
}

/// CNTK divides by zero here when it randomizes.
#[test]
fn data_without_the_defining_stream() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|y 1 2\n|y 3 4\n").expect("writing data");
    for randomize in [true, false] {
        let config = config_for(&file, &format!("randomize = {randomize}"));
        let config = config.replace("format = \"dense\"", "format = \"dense\" ; definesMBSize = true");
        let options = from_text(&config).expect("a configuration");
        let errors = use_it(&options, &epoch(1, 0, 4)).expect_err("there is nothing to read");
        check_errors(&errors, &config);
    }
}

/// CNTK divides by zero here, too, when it randomizes.
#[test]
fn a_binary_file_without_sequences() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, file) = (folder.path().join("data.ctf"), folder.path().join("data.cbf"));
    std::fs::write(&text, "").expect("writing data");
    let options = TextToBinary {
        input: text.display().to_string(),
        output: file.display().to_string(),
        streams: parse_streams("x x dense 2").expect("streams"),
        chunk_size: 100,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a file of one empty chunk");
    for randomize in [true, false] {
        let config = format!(
            "traceLevel = 0\nrandomize = {randomize}\ndeserializers = ([ type = \"CNTKBinaryFormatDeserializer\"\n\
             module = \"CNTKBinaryReader\" ; file = \"{}\" ])",
            file.display()
        );
        let errors = use_it(&from_text(&config).expect("a configuration"), &epoch(1, 0, 4));
        let errors = errors.expect_err("there is nothing to read");
        assert!(errors[0].message().contains("Expected input to contain samples"), "{errors:?}");
        check_errors(&errors, &config);
    }
}

#[test]
fn more_workers_than_data() {
    for_cases(2 * 8 * 2 * 2, |number, folder| {
        let (randomize, rank, local) = (number % 2 == 0, number / 2 % 8, number / 16 % 2 == 0);
        // One sequence per chunk, or all in one.
        let chunk_size = if number / 32 == 0 { 1 } else { 1_000 };
        let file = folder.join("data.ctf");
        std::fs::write(&file, "|x 1 2\n|x 3 4\n|x 5 6\n").expect("writing data");
        let config = config_for(&file, &format!("randomize = {randomize}\nlocalTimeline = {local}"))
            .replace("chunkSizeInBytes = 100", &format!("chunkSizeInBytes = {chunk_size}"));
        let mut reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
        reader.start_epoch(&epoch(8, rank, 16)).expect("an epoch");
        let all = read_all(&mut reader, 100).expect("an epoch that ends");
        let share = all.iter().map(|seen| seen.keys.len()).sum::<usize>();
        let chunks = if chunk_size == 1 { 3 } else { 1 };
        match randomize {
            // A worker owns whole chunks, and each of two sweeps has all of them.
            true if rank < chunks => assert_eq!(share as u64, 2 * 3 / chunks, "rank {rank}"),
            true => assert_eq!(share, 0, "rank {rank}"),
            // Six sequences are counted through both sweeps.
            false => assert_eq!(share, usize::from(rank < 6), "rank {rank}"),
        }
    });
}

#[test]
fn impossible_workers_are_refused() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|x 1 2\n|x 3 4\n|x 5 6\n").expect("writing data");
    for randomize in [true, false] {
        let mut reader = open(&file, &format!("randomize = {randomize}")).expect("a reader");
        for (workers, rank, minibatch) in [(0, 0, 4), (2, 2, 4), (1, u64::MAX, 4), (1, 0, 0)] {
            let outcome = reader.start_epoch(&epoch(workers, rank, minibatch));
            // A minibatch size of 0 may only fail when a minibatch is read.
            let error = outcome.and_then(|()| reader.read().map(drop)).expect_err("these cannot be");
            let kinds = [ErrorKind::InvalidArgument, ErrorKind::State];
            assert!(kinds.contains(&error.kind()), "{workers} {rank} {minibatch}: {error}");
        }
        reader.start_epoch(&epoch(1, 0, 4)).expect("an epoch after errors");
        assert_eq!(read_all(&mut reader, 10).expect("an epoch").len(), 3);
    }
}

#[test]
fn reading_before_an_epoch() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|x 1 2\n").expect("writing data");
    let mut reader = open(&file, "").expect("a reader");
    assert_eq!(reader.read().expect_err("no epoch was started").kind(), ErrorKind::State);
}

/// The file shrinks, disappears or is replaced between indexing and reading.
#[test]
fn files_that_change_under_the_reader() {
    let text: String = (0..400).map(|line| format!("|x {line} {}\n", line + 1)).collect();
    for_cases(40, move |number, folder| {
        let file = folder.join("data.ctf");
        std::fs::write(&file, &text).expect("writing data");
        let more = format!("randomize = {}\nrandomizationWindow = 5", number % 2 == 0);
        let mut whole = open(&file, &more).expect("a reader");
        whole.start_epoch(&epoch(1, 0, 7)).expect("an epoch");
        let whole = read_all(&mut whole, 1_000).expect("the whole data");

        let mut reader = open(&file, &more).expect("a reader");
        reader.start_epoch(&epoch(1, 0, 7)).expect("an epoch");
        let before = number as usize / 8;
        for wanted in &whole[..before] {
            assert_eq!(&common::seen::read(&mut reader).expect("a minibatch"), wanted);
        }
        let handle = std::fs::File::options().write(true).open(&file).expect("the data");
        match number % 8 {
            0 | 1 => handle.set_len(0).expect("emptying"),
            2 | 3 => handle.set_len(text.len() as u64 / 2 + number).expect("truncating"),
            4 | 5 => std::fs::remove_file(&file).expect("removing"),
            _ => {
                std::fs::remove_file(&file).expect("removing");
                std::fs::create_dir(&file).expect("a directory in its place");
            }
        }
        // Either the original data or an error; never other data.
        for wanted in &whole[before..] {
            match common::seen::read(&mut reader) {
                Ok(seen) => assert_eq!(&seen, wanted),
                Err(error) => {
                    check_errors(&[error], &number);
                    break;
                }
            }
        }
        // CNTK can read on after an error, so a host of this library may do so, too.
        for _ in 0..3 {
            _ = reader.read();
        }
        drop(reader);
        if file.is_dir() {
            std::fs::remove_dir(&file).expect("removing the directory");
        }
    });
}

/// An error does not end a reader: the next read continues after it, and a new epoch starts from
/// its beginning.
#[test]
fn a_reader_outlives_errors() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    // 12 lines of 8 bytes, chunks of 4 lines; line 6 is malformed.
    let text: String = (0..12)
        .map(|line| if line == 6 { "|x 1 zz\n".to_owned() } else { format!("|x {line:02} 1\n") })
        .collect();
    std::fs::write(&file, &text).expect("writing data");
    let config = config_for(&file, "randomize = false").replace("= 100", "= 32");
    let mut reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
    for _ in 0..2 {
        let start = Epoch::sweeps(1).minibatch_size(3);
        reader.start_epoch(&start).expect("an epoch");
        let first = common::seen::read(&mut reader).expect("the first minibatch");
        assert_eq!(first.keys, [0, 1, 2]);
        for state in [6, 9] {
            let error = reader.read().expect_err("a chunk with a bad line");
            assert_eq!(error.location().line, Some(7), "{error}");
            assert_eq!(reader.state()[0].1, state, "the state after an error");
        }
        let last = common::seen::read(&mut reader).expect("the last minibatch");
        assert_eq!(last.keys, [9, 10, 11]);
        assert!(last.end_of_sweep && last.end_of_epoch);
    }
}

/// CNTK applies half of such a change, so that the next minibatch has old and new settings.
#[test]
fn refused_changes_have_no_effect() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    let text: String = (0..60).map(|line| format!("{} |x {line} 1\n", line / 3)).collect();
    std::fs::write(&file, text).expect("writing data");
    for more in ["", "randomize = false", "truncated = true\ntruncationLength = 2"] {
        let length = if more.starts_with("trunc") { 2 } else { 0 };
        let read = |workers, rank, minibatch| {
            ReadConfig::new(minibatch).worker(rank, workers).truncation_length(length)
        };
        let good = read(2, 1, 6);
        let start = epoch(2, 1, 6).read_config(good);
        let started = || {
            let mut reader = open(&file, more).expect("a reader");
            reader.start_epoch(&start).expect("an epoch");
            reader
        };
        let undisturbed = read_all(&mut started(), 100).expect("an epoch");
        let mut reader = started();
        for (number, wanted) in undisturbed.iter().enumerate() {
            let state = reader.state();
            for (workers, rank, minibatch) in [(2, 1, 0), (0, 0, 6), (2, 2, 6), (3, 7, 9)] {
                let bad = read(workers, rank, minibatch);
                reader.configure(&bad).expect_err("a bad configuration");
                reader.start_epoch(&start.read_config(bad)).expect_err("a bad epoch");
            }
            // Good sizes of an impossible epoch.
            let empty = Epoch::from_numbers(read(1, 0, 8), 0, SWEEPS_UNLIMITED, 0);
            let error = reader.start_epoch(&empty).expect_err("an epoch of no samples");
            assert_eq!(error.message(), "Epoch size cannot be 0.");
            assert_eq!(reader.config().expect("a configuration"), good, "{more}");
            assert_eq!(reader.state(), state, "{more}");
            let seen = common::seen::read(&mut reader).expect("a minibatch");
            assert_eq!(&seen, wanted, "{more}: minibatch {number}");
        }
    }
}

/// CNTK does not load the rest of a window after an unreadable chunk. The first minibatch of such a
/// window fails, as in CNTK.
#[test]
fn broken_chunk_does_not_affect_the_rest_of_its_window() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    // Ten chunks of 4 lines of 8 bytes; the sixth chunk has a malformed line.
    let text: String = (0..40)
        .map(|line| if line == 22 { "|x 1 zz\n".to_owned() } else { format!("|x {line:02} 1\n") })
        .collect();
    std::fs::write(&file, &text).expect("writing data");
    for seed in 0..5 {
        // All data are one window.
        let config = config_for(&file, &format!("randomizationSeed = {seed}")).replace("= 100", "= 32");
        let mut reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
        reader.start_epoch(&Epoch::sweeps(1).minibatch_size(1)).expect("an epoch");
        let fails = |reader: &mut Reader| match common::seen::read(reader) {
            Ok(seen) => Ok(seen.keys[0]),
            Err(error) => {
                assert_eq!(error.location().line, Some(23), "{error}");
                Err(())
            }
        };
        let first = fails(&mut reader);
        let rest: Vec<_> = (1..40).map(|_| fails(&mut reader)).collect();
        assert_eq!(first, Err(()), "seed {seed}");
        let keys: BTreeSet<u64> = rest.iter().filter_map(|read| read.ok()).collect();
        assert!(keys.iter().all(|key| !(20..24).contains(key)), "seed {seed}: {keys:?}");
        // The very first sequence may belong to the broken chunk.
        assert!(keys.len() >= 35 && rest.len() - keys.len() <= 4, "seed {seed}: {rest:?}");
    }
}

/// CNTK allocates memory for what a chunk of this size could hold.
#[test]
fn huge_chunk_size_only_allocates_for_the_data() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|x 1 2\n|x 3 4\n|x 5 6\n").expect("writing data");
    for size in ["9223372036854775807", "18446744073709551615", "1000000000000"] {
        let config = config_for(&file, "randomize = false").replace("= 100", &format!("= {size}"));
        let mut reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
        reader.start_epoch(&epoch(1, 0, 2)).expect("an epoch");
        let keys: Vec<u64> =
            read_all(&mut reader, 10).expect("minibatches").into_iter().flat_map(|seen| seen.keys).collect();
        assert_eq!(keys, [0, 1, 2, 0, 1, 2], "chunkSizeInBytes = {size}");
        let memory = reader.memory();
        assert!(memory.index + memory.window < 1 << 20, "chunkSizeInBytes = {size}: {memory:?}");
    }
}

/// With a capital letter CNTK parses doubles and delivers them as floats: the low half of each.
#[test]
fn any_spelling_of_float_is_float() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|x 1 2.5\n|x -3 1e10\n").expect("writing data");
    for (precision, is_double) in
        [("float", false), ("Float", false), ("FLOAT", false), ("Double", true), ("double", true)]
    {
        let mut reader =
            open(&file, &format!("randomize = false\nprecision = {precision}")).expect("a reader");
        reader.start_epoch(&epoch(1, 0, 2)).expect("an epoch");
        let minibatch = reader.read().expect("a minibatch");
        let stream = &minibatch.streams[0];
        let expected = [1.0, 2.5, -3.0, 1e10];
        assert_eq!(stream.dense::<f64>().is_some(), is_double, "{precision}");
        match stream.dense::<f32>() {
            Some(values) => assert_eq!(values, expected.map(|value| value as f32), "{precision}"),
            None => assert_eq!(stream.dense::<f64>(), Some(&expected[..]), "{precision}"),
        }
    }
}
