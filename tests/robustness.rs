//! Bad input of every kind ends in an error that says where, never in a panic or a hang.

mod common;

use cntk_reader::config::from_text;
use cntk_reader::config::options::{DeserializerOptions, ReaderOptions};
use cntk_reader::convert::{TextToBinary, parse_streams, text_to_binary};
use cntk_reader::error::ErrorKind;
use cntk_reader::randomize::SIZE_UNLIMITED;
use cntk_reader::reader::{EpochStart, ReadConfig, Reader};
use cntk_reader::stream::ElementType;
use cntk_reader::{Error, Result};
use common::rng::Rng;
use common::seen::{Seen, read_all};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Far more than any case takes, and far less than a hang.
const PATIENCE: Duration = Duration::from_secs(30);

fn epoch(workers: u64, rank: u64, minibatch: u64) -> EpochStart {
    let read = ReadConfig { workers, rank, minibatch, truncation: 0, right_splice: 0, cross_sweeps: true };
    EpochStart { read, samples: SIZE_UNLIMITED, sweeps: 2, index: 0 }
}

/// Opens a reader and reads two sweeps; goes on after errors, as a host may.
fn use_it(options: &ReaderOptions, epoch: &EpochStart) -> std::result::Result<(), Vec<Error>> {
    let mut reader = Reader::open(options).map_err(|error| vec![error])?;
    reader.start_epoch(epoch).map_err(|error| vec![error])?;
    let mut errors = Vec::new();
    for _ in 0..500 {
        match reader.read() {
            Ok(minibatch) if minibatch.end_of_epoch && minibatch.streams.is_empty() => break,
            Ok(minibatch) => _ = Seen::of(&minibatch, reader.streams()),
            Err(error) => errors.push(error),
        }
        if errors.len() == 5 {
            break;
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Errors in data and files name the file, or the stream where the error is one of packing; none is a mistake of the
/// library.
fn check_errors(errors: &[Error], what: &dyn std::fmt::Debug) {
    for error in errors {
        assert_ne!(error.kind(), ErrorKind::Internal, "{what:?}: {error}");
        assert!(!error.message().is_empty(), "{what:?}: no message");
        if matches!(error.kind(), ErrorKind::Data | ErrorKind::Io) {
            let place = error.place();
            assert!(place.file.is_some() || place.stream.is_some(), "{what:?}: no place in: {error}");
        }
    }
}

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

const BASES: [&str; 6] = [
    "|x 1 2 |s 0:1 2:3\n|x 3 4 |s\n|x 5 6 |s 1:1\n|x 7 8 |s 2:2\n",
    "0 |x 1 2 |s 0:1\n0 |x 3 4 |s 1:1\n1 |x 5 6 |s 2:7\n2 |x 7 8 |s\n2 |x 9 10 |s 0:5\n",
    "10 |x -1.5e+3 2.25 |s 0:0.1\n20 |s 1:-1e-9 |x 0.000001 123456789.987654321\n",
    "\u{feff}|x 1 2|s 0:1\r\n|x 3 4|s 1:1\r\n|# comment |x 5 6 |s 1:2\r\n",
    "7\t|x\t1\t2\t|s\t1:2\n8\t|x\t3\t4\t|s\t2:3",
    "5 |x 1 2 |s 0:1 |other 5 5 5\n5 |# |x\n6 |x 1 2 |s 0:1\n",
];

const PIECES: [&[u8]; 30] = [
    b"|",
    b"||",
    b"|#",
    b"\n",
    b"\n\n",
    b"\r\n",
    b" ",
    b"\t",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b":",
    b"-",
    b"+",
    b".",
    b"e",
    b"1e999",
    b"-0",
    b"nan",
    b"99999999999999999999999",
    b"18446744073709551616 ",
    b"0.",
    b".5",
    b"3:1",
    b"-1:1",
    b"|x",
    b"|s 0:1",
    b"|x 1 2",
    b"\n9 ",
    b"1e-400 ",
];

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, pieces: &[&[u8]]) {
    for _ in 0..rng.range(1, 4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        match rng.below(7) {
            0 => bytes[at] = rng.bits() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => _ = bytes.remove(at),
            3 => bytes.truncate(at),
            4 => {
                let to = at + rng.below((bytes.len() - at).min(20));
                bytes.drain(at..to);
            }
            5 => {
                let to = at + rng.below((bytes.len() - at).min(30));
                let copy = bytes[at..to].to_vec();
                let into = rng.below(bytes.len());
                bytes.splice(into..into, copy);
            }
            _ => {
                let piece = *rng.pick(pieces);
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
}

#[test]
fn mutated_data() {
    for_cases(6_000, |number, folder| {
        let rng = &mut Rng::new(number);
        let mut data = rng.pick(&BASES).as_bytes().to_vec();
        mutate(rng, &mut data, &PIECES);
        let file = folder.join("data.ctf");
        std::fs::write(&file, &data).expect("writing data");
        let randomize = rng.once_in(2);
        let truncated = if rng.once_in(4) { "truncated = true\ntruncationLength = 2\n" } else { "" };
        let config = format!(
            "traceLevel = 0\nrandomize = {randomize}\n{truncated}deserializers = ([\n\
             type = \"CNTKTextFormatDeserializer\"\nmodule = \"CNTKTextFormatReader\"\nfile = \"{}\"\n\
             maxErrors = {}\nchunkSizeInBytes = {}\nskipSequenceIds = {}\n\
             input = [\nx = [ dim = 2 ; format = \"dense\"{} ]\ns = [ dim = 3 ; format = \"sparse\" ]\n]\n])\n",
            file.display(),
            rng.pick(&[0, 1, 3, 1_000_000]),
            rng.pick(&[1, 20, 64, 33_554_432]),
            rng.once_in(5),
            if rng.once_in(4) { " ; definesMBSize = true" } else { "" },
        );
        let options = from_text(&config).expect("a configuration without fault");
        let workers = rng.range(1, 3);
        let epoch = epoch(workers, rng.range(0, workers - 1), 4 * workers);
        if let Err(errors) = use_it(&options, &epoch) {
            check_errors(&errors, &String::from_utf8_lossy(&data));
        }
    });
}

const CONFIG_PIECES: [&[u8]; 28] = [
    b"[",
    b"]",
    b"(",
    b")",
    b"{",
    b"}",
    b"\"",
    b"=",
    b":",
    b";",
    b",",
    b"\n",
    b"\r\n",
    b" # ",
    b"#",
    b"$a$",
    b"$",
    b"$randomize$",
    b"x = ",
    b"default",
    b"-1",
    b"0",
    b"99999999999999999999",
    b"1e3",
    b"true",
    b"*3",
    b"\0",
    b"\xff",
];

#[test]
fn mutated_configurations() {
    for_cases(4_000, |number, folder| {
        let rng = &mut Rng::new(number);
        let file = folder.join("data.ctf");
        std::fs::write(&file, BASES[1]).expect("writing data");
        let config = format!(
            "traceLevel = 0\nrandomize = true\nrandomizationWindow = 3\nrandomizationSeed = 5\na = 1 # one\nb = $a$\n\
             truncated = false ; frameMode = false ; truncationLength = 2\ndeserializers = (\n[ \
             type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{}\" ; \
             maxErrors = 1 ; chunkSizeInBytes = 30 ;\ninput = [\nfeature = [ alias = \"x\" ; dim = 2 ; \
             format = \"dense\" ]\ns = [ dim = 3 ; format = \"sparse\" ]\n]\n])\n",
            file.display(),
        );
        let mut bytes = config.into_bytes();
        mutate(rng, &mut bytes, &CONFIG_PIECES);
        let config = String::from_utf8_lossy(&bytes);
        let options = match from_text(&config) {
            Ok(options) => options,
            Err(error) => return check_errors(&[error], &config),
        };
        // What asks for gigabytes gets them.
        let is_small = |deserializer: &DeserializerOptions| match deserializer {
            DeserializerOptions::Text(text) => text.streams.iter().all(|stream| stream.dim <= 10_000),
            _ => true,
        };
        if !options.deserializers.iter().all(is_small) {
            return;
        }
        if let Err(errors) = use_it(&options, &epoch(1, 0, 4)) {
            check_errors(&errors, &config);
        }
    });
}

/// A small binary file of three chunks, dense and sparse.
fn binary_file(folder: &Path) -> Vec<u8> {
    let (text, binary) = (folder.join("base.ctf"), folder.join("base.cbf"));
    std::fs::write(&text, BASES[1].repeat(3).replace("|s\n", "|s 1:1 2:2\n")).expect("writing data");
    let options = TextToBinary {
        input: text.display().to_string(),
        output: binary.display().to_string(),
        streams: parse_streams("x x dense 2\ns s sparse 3\n").expect("streams"),
        chunk_size: 60,
        element: ElementType::Float,
        chunks_of_script: false,
    };
    // The last line of the base has a row beyond the dimension in `s`, which the converter refuses.
    let text_without = std::fs::read_to_string(&text).expect("data");
    std::fs::write(&text, text_without.replace(" |s 0:5", "")).expect("writing data");
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a binary file");
    std::fs::read(binary).expect("a binary file")
}

const WORDS: [&[u8]; 8] = [
    &[0; 4],
    &[0xff; 4],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0x7f],
    &[1, 0, 0, 0],
    &[0, 0, 0, 0x80],
    b"nib_ktnc",
    &[12, 0, 0, 0, 0, 0, 0, 0],
];

/// What damage can do is limited: no panic, no hang, no memory beyond the file's size.
#[test]
fn damaged_binary_files() {
    for_cases(3_000, |number, folder| {
        let rng = &mut Rng::new(number);
        let mut bytes = binary_file_of(folder, number);
        if rng.once_in(3) {
            // A whole word, so that offsets and counts meet their extremes.
            let at = rng.below(bytes.len() / 4) * 4;
            let word = *rng.pick(&WORDS);
            let end = (at + word.len()).min(bytes.len());
            bytes.splice(at..end, word.iter().copied());
        } else {
            mutate(rng, &mut bytes, &WORDS);
        }
        let file = folder.join("data.cbf");
        std::fs::write(&file, &bytes).expect("writing data");
        let config = format!(
            "traceLevel = 0\nrandomize = {}\ndeserializers = ([ type = CNTKBinaryFormatDeserializer\n\
             module = CNTKBinaryReader ; file = \"{}\" ])",
            number % 2 == 0,
            file.display()
        );
        let options = from_text(&config).expect("a configuration");
        if let Err(errors) = use_it(&options, &epoch(1, 0, 4)) {
            check_errors(&errors, &bytes);
        }
    });
}

/// The file to be damaged: of one layout or of the other.
fn binary_file_of(folder: &Path, number: u64) -> Vec<u8> {
    if number % 4 != 3 {
        return match std::fs::read(folder.join("base.cbf")) {
            Ok(bytes) => bytes,
            Err(_) => binary_file(folder),
        };
    }
    let mut bytes = Vec::new();
    let mut words = |words: &[i32]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    // Version, chunks, streams; `x` and `s`; the table; the chunk.
    words(&[
        1,
        0,
        1,
        0,
        2,
        4,
        i32::from_le_bytes(*b"xxxx"),
        0,
        0,
        2,
        4,
        i32::from_le_bytes(*b"ssss"),
        1,
        0,
        0,
        1,
        5,
    ]);
    words(&[0, 0, 2, 3, 0x3f80_0000, 0x4000_0000, 0x40a0_0000, 0x40d0_0000]);
    words(&[5, 1, 2, 3, 4, 5, 0, 1, 4, 7, 8, 0, 2, 5]);
    bytes
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
        assert_eq!(error.place().file.as_deref(), path.to_str(), "{what}: {error}");
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
        // CNTK reads on after an error, and so may a host of this library.
        for _ in 0..3 {
            _ = reader.read();
        }
        drop(reader);
        if file.is_dir() {
            std::fs::remove_dir(&file).expect("removing the directory");
        }
    });
}

/// An error does not end a reader: the next read goes on behind it, and a new epoch starts afresh.
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
        let mut start = epoch(1, 0, 3);
        start.sweeps = 1;
        reader.start_epoch(&start).expect("an epoch");
        let first = common::seen::read(&mut reader).expect("the first minibatch");
        assert_eq!(first.keys, [0, 1, 2]);
        for state in [6, 9] {
            let error = reader.read().expect_err("a chunk with a bad line");
            assert_eq!(error.place().line, Some(7), "{error}");
            assert_eq!(reader.state()[0].1, state, "the state after an error");
        }
        let last = common::seen::read(&mut reader).expect("the last minibatch");
        assert_eq!(last.keys, [9, 10, 11]);
        assert!(last.end_of_sweep && last.end_of_epoch);
    }
}
