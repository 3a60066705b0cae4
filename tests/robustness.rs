//! Invalid input of every kind leads to an error with a location, never to a panic or a hang.

mod common;

use cntk_reader::Result;
use cntk_reader::config::from_text;
use cntk_reader::error::ErrorKind;
use cntk_reader::reader::{Epoch, Reader};
use common::reading::{check_errors, epoch, use_it};
use common::seen::read_all;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Time after which a case counts as hung: far more than any case takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs numbered cases on a thread of its own, and names the one that panics or hangs.
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
fn files_that_are_none() {
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
        assert_eq!(error.class(), cntk_reader::error::ExceptionClass::Runtime, "{what}: {error}");
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

#[test]
fn more_workers_than_data() {
    for_cases(2 * 8 * 2 * 2, |number, folder| {
        let (randomize, rank, local) = (number % 2 == 0, number / 2 % 8, number / 16 % 2 == 0);
        // One sequence to a chunk, or all in one.
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
fn workers_that_cannot_be() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    std::fs::write(&file, "|x 1 2\n|x 3 4\n|x 5 6\n").expect("writing data");
    for randomize in [true, false] {
        let mut reader = open(&file, &format!("randomize = {randomize}")).expect("a reader");
        for (workers, rank, minibatch) in [(0, 0, 4), (2, 2, 4), (1, u64::MAX, 4), (1, 0, 0)] {
            let outcome = reader.start_epoch(&epoch(workers, rank, minibatch));
            // A minibatch size of 0 may also show when a minibatch is asked for.
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

/// The file shrinks, vanishes or becomes another one between indexing and reading.
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
        // Either the data that were there, or an error; never other data.
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

/// An error does not end a reader: the next read continues after it, and a new epoch starts from its beginning.
#[test]
fn a_reader_outlives_errors() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    // 12 lines of 8 bytes, chunks of 4 lines; line 6 is bad.
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
