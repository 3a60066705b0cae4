//! Provokes each message of `docs/guide/troubleshooting.md`, and checks that the page shows exactly
//! that message.
//!
//! `UPDATE_PAGE=1 cargo test --test troubleshooting` writes the messages into the page; the
//! explanations are written by hand.

#![cfg(feature = "images")]

mod formats;

use cntk_reader::{
    Config, CtfDeserializer, ElementType, Epoch, Error, FrontEnd, LogLevel, Reader, set_log_sink,
};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/troubleshooting.md");

/// Streams of the configurations below, unless a case has others.
const STREAMS: &str = "x = [ dim = 3 ; format = dense ]\n      y = [ dim = 10 ; format = sparse ]";

const GOOD: &str = "0 |x 1 2 3 |y 1:1\n1 |x 4 5 6 |y 2:1\n";

/// Returns a configuration of one text file, with the reader's keys in its first line.
fn text(reader: &str, element: &str, streams: &str) -> String {
    format!(
        "{reader}\ndeserializers = (\n  [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"\n    \
         {element}\n    input = [\n      {streams}\n    ]\n  ]\n)\n"
    )
}

thread_local! {
    /// The front end that opens configurations.
    static FRONT_END: Cell<FrontEnd> = const { Cell::new(FrontEnd::Configuration) };
}

/// Opens a configuration; for another front end as if its builders had written the text.
fn open(config: &str) -> Result<Reader, Error> {
    let front_end = FRONT_END.get();
    if front_end != FrontEnd::Configuration {
        let config = Config::generated(config, front_end)?;
        return Reader::builder().config(config).front_end(front_end).open();
    }
    fs::write("train.cntk", config).expect("writing the configuration");
    Reader::builder().config(Config::from_file("train.cntk")?).open()
}

/// Opens a configuration, and reads `sweeps` sweeps in minibatches of 4.
fn read(config: &str, sweeps: u64) -> Result<(), Error> {
    let mut reader = open(config)?;
    for minibatch in reader.epoch(Epoch::sweeps(sweeps).minibatch_size(4))? {
        minibatch?;
    }
    Ok(())
}

/// Reads a text file of this content with keys of the reader.
fn data(content: impl AsRef<[u8]>, reader: &str, element: &str) -> Result<(), Error> {
    fs::write("train.ctf", content).expect("writing the data");
    read(&text(reader, &format!("file = \"train.ctf\" ; {element}"), STREAMS), 2)
}

/// Opens a text file at this path.
fn path(path: &str) -> Result<(), Error> {
    read(&text("", &format!("file = \"{path}\""), STREAMS), 1)
}

fn cbf(path: &str) -> Result<(), Error> {
    let section = format!(
        "deserializers = ([ type = \"CNTKBinaryFormatDeserializer\" ; module = \"CNTKBinaryReader\" ; file = \"{path}\" ])"
    );
    read(&section, 1)
}

fn two(first: &str, second: &str) -> Result<(), Error> {
    fs::write("first.ctf", first).expect("writing the data");
    fs::write("second.ctf", second).expect("writing the data");
    let one = |file: &str, stream: &str| {
        format!(
            "[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{file}\" ; input = [ {stream} = [ \
             dim = 1 ; format = dense ] ] ]"
        )
    };
    read(&format!("deserializers = ( {} : {} )", one("first.ctf", "x"), one("second.ctf", "y")), 1)
}

fn good() -> Result<Reader, Error> {
    fs::write("train.ctf", GOOD).expect("writing the data");
    open(&text("", "file = \"train.ctf\"", STREAMS))
}

type Case = (&'static str, fn() -> Result<(), Error>);

/// The title of each entry of the page, and the code that provokes its messages.
const CASES: &[Case] = &[
    // Configurations.
    ("A value of the wrong type", || data(GOOD, "randomize = maybe", "")),
    ("A bracket that is never closed", || read("deserializers = (\n  [ type = \"x\"\n", 1)),
    ("A bracket that closes another one", || read("deserializers = (\n  [ type = \"x\" )\n", 1)),
    ("A quote that a comment ends", || read("file = \"data #1.ctf\"\n", 1)),
    ("Single quotes", || data(GOOD, "traceLevel = '1'", "")),
    ("A colon in place of '='", || data(GOOD, "randomize: true", "")),
    ("A key without a value", || read("randomize =\n", 1)),
    ("A required key that is missing", || read(&text("", "fiel = \"train.ctf\"", STREAMS), 1)),
    ("A stream without 'dim' or 'format'", || {
        read(&text("", "file = \"train.ctf\"", "x = [ din = 3 ; format = dense ]"), 1)
    }),
    ("A variable that is not defined", || read(&text("", "file = \"$data$/train.ctf\"", STREAMS), 1)),
    ("A key that has no effect", || data(GOOD, "randomise = false", "")),
    ("A number out of range", || data(GOOD, "randomizationWindow = -1", "")),
    ("Names of streams that differ only in case", || {
        read(
            &text(
                "",
                "file = \"train.ctf\"",
                "x = [ dim = 3 ; format = dense ]\n      X = [ dim = 3 ; format = dense ]",
            ),
            1,
        )
    }),
    ("Several readers in one file", || {
        fs::write("train.ctf", GOOD).expect("writing the data");
        let reader = text("", "file = \"train.ctf\"", STREAMS);
        read(&format!("train = [\nreader = [ {reader} ]\n]\ntest = [\nreader = [ {reader} ]\n]\n"), 1)
    }),
    ("A deserializer that does not exist", || {
        read("deserializers = ([ type = \"TextDeserializer\" ; module = \"CNTKTextFormatReader\" ])\n", 1)
    }),
    ("A deserializer's name in another language", || {
        read("deserializers = ([ type = \"CTFDeserializer\" ; module = \"CNTKTextFormatReader\" ])\n", 1)
    }),
    ("A misspelled module", || {
        read(
            "deserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatreader\" ])\n",
            1,
        )
    }),
    ("A list without parentheses", || {
        read(
            "deserializers = [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ]\n",
            1,
        )
    }),
    ("Samples without values", || {
        read(&text("", "file = \"train.ctf\"", "x = [ dim = 0 ; format = dense ]"), 1)
    }),
    ("A truncation length without truncation", || data(GOOD, "truncationLength = 20", "")),
    ("Truncation and frames at once", || data(GOOD, "frameMode = true ; truncated = true", "")),
    ("A configuration file that does not exist", || Config::from_file("trian.cntk").map(drop)),
    // Files.
    ("A file that does not exist", || path("data/train.ctf")),
    ("An empty path", || read(&text("", "file = \"\"", STREAMS), 1)),
    ("A path with '~'", || path("~/train.ctf")),
    ("A path with an environment variable", || path("$HOME/train.ctf")),
    ("A path with a pattern", || path("train-*.ctf")),
    ("A URI", || path("s3://bucket/train.ctf")),
    ("A folder", || path(".")),
    ("A pipe or a device", || {
        let made = std::process::Command::new("mkfifo").arg("pipe").status().expect("mkfifo");
        assert!(made.success());
        path("pipe")
    }),
    ("An output that is not a regular file", || {
        fs::write("train.ctf", GOOD).expect("writing the data");
        let options = TextToBinary {
            input: "train.ctf".to_owned(),
            output: "/dev/null".to_owned(),
            streams: parse_streams("x x dense 3\ny y sparse 10")?,
            chunk_size: 0,
            element: ElementType::Float,
            ctf2bin_compatible: false,
        };
        text_to_binary(&options, &mut |_| ControlFlow::Continue(())).map(drop)
    }),
    ("An empty file", || data("", "", "")),
    ("A compressed file", || data(b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "", "")),
    ("An archive of files", || {
        let mut archive = vec![0; 1024];
        archive[..9].copy_from_slice(b"train.ctf");
        archive[257..262].copy_from_slice(b"ustar");
        data(archive, "", "")
    }),
    ("Bytes of no known format", || {
        data((0..4000).map(|n: u32| ((n * n) >> 3) as u8 | 128).collect::<Vec<_>>(), "", "")
    }),
    ("A table (CSV)", || data("1,0.5,0.25\n2,0.5,0.75\n", "", "")),
    ("A table with column names", || data("label,a,b\n1,0.5,0.25\n", "", "")),
    ("A file in UTF-16", || {
        let bytes: Vec<u8> = "\u{feff}|x 1 2 3".encode_utf16().flat_map(u16::to_le_bytes).collect();
        data(bytes, "", "")
    }),
    ("An HTML page in place of the data", || data("<!DOCTYPE html>\n<html>404</html>\n", "", "")),
    ("A binary file where text was expected", || data(b"nib_ktnc\x01\0\0\0", "", "")),
    ("A text file where a binary one was expected", || {
        fs::write("train.ctf", GOOD).expect("writing the data");
        cbf("train.ctf")
    }),
    ("Ids that are text", || data("utt1 |x 1 2 3 |y 1:1\n", "", "")),
    ("Ids that are missing", || data("|x 1 2 3 |y 1:1\n", "useNumericSequenceKeys = false", "")),
    // Content of text files.
    ("A name that the file does not have", || data("0 |x 1 2 3 |Y 1:1\n1 |x 4 5 6 |Y 2:1\n", "", "")),
    ("An alias that the file does not have", || {
        fs::write("train.ctf", GOOD.replace("|x", "|features")).expect("writing the data");
        let streams =
            "x = [ dim = 3 ; format = dense ; alias = featuers ]\n      y = [ dim = 10 ; format = sparse ]";
        read(&text("", "file = \"train.ctf\"", streams), 1)
    }),
    ("Lines without samples of any stream", || data("0 |features 1 2 3 |Y 1:1\n", "", "")),
    ("An empty line", || data("0 |x 1 2 3 |y 1:1\n\n1 |x 4 5 6 |y 2:1\n", "", "")),
    ("A sequence that lacks a stream", || data("0 |x 1 2 3 |y 1:1\n1 |x 4 5 6\n", "", "")),
    ("A value that is not a number", || data("0 |x 1 2 three |y 1:1\n", "", "")),
    ("A value that is too large", || data("0 |x 1 2 1e400 |y 1:1\n", "", "")),
    ("Decimal commas", || data("0 |x 1,5 2,5 3,5 |y 1:1\n", "", "")),
    ("An index that is not a number", || data("0 |x 1 2 3 |y positive\n", "", "")),
    ("An index beyond the dimension", || data("0 |x 1 2 3 |y 10:1\n", "", "")),
    ("Samples with too few values", || {
        let mut lines = String::new();
        (0..50_000).for_each(|id| writeln!(lines, "{id} |x 1 2 |y 1:1").expect("a string"));
        data(lines, "", "")
    }),
    ("More samples than lines", || data("0 |x 1 2 3 |x 4 5 6 |y 1:1\n", "", "")),
    ("Bytes that are not text", || data("0 |x 1 2 3\0 4 |y 1:1\n", "", "")),
    ("A truncated file", || data("0 |x 1 2 3 |y 1:1\n1 |x 4 5 6", "", "")),
    ("A first line without an id", || data("|x 1 2 3 |y 1:1\n1 |x 4 5 6 |y 2:1\n", "", "")),
    ("A blank before an id", || data("0 |x 1 2 3 |y 1:1\n 1 |x 4 5 6 |y 2:1\n", "", "")),
    ("A sweep that delivers nothing", || data("0 |x 1 2 3\n1 |x 4 5 6\n", "", "strictSequences = false")),
    ("A repeated id", || data("0 |x 1 2 3 |y 1:1\n1 |x 4 5 6 |y 2:1\n0 |x 7 8 9 |y 3:1\n", "", "")),
    ("Sequences that only one deserializer has", || two("0 |x 1\n1 |x 2\n", "0 |y 1\n2 |y 2\n")),
    ("Deserializers without common sequences", || two("0 |x 1\n", "7 |y 1\n")),
    ("Two deserializers with one stream", || {
        fs::write("train.ctf", GOOD).expect("writing the data");
        let one = "[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"train.ctf\" ; input = \
                   [ x = [ dim = 3 ; format = dense ] ] ]";
        read(&format!("deserializers = ( {one} : {one} )"), 1)
    }),
    // Packing modes, workers, calls.
    ("Many words and one label, in frame mode", || {
        data("0 |x 1 2 3 |y 1:1\n0 |x 4 5 6\n0 |x 7 8 9\n", "frameMode = true", "")
    }),
    ("Many words and one label, truncated", || {
        data("0 |x 1 2 3 |y 1:1\n0 |x 4 5 6\n0 |x 7 8 9\n", "truncated = true ; truncationLength = 20", "")
    }),
    ("More workers than chunks", || {
        let mut reader = good()?;
        reader.epoch(Epoch::sweeps(1).minibatch_size(8).worker(0, 4)).map(drop)
    }),
    ("A minibatch size of 0", || good()?.epoch(Epoch::sweeps(1)).map(drop)),
    ("A rank beyond the workers", || {
        good()?.epoch(Epoch::sweeps(1).minibatch_size(8).worker(4, 4)).map(drop)
    }),
    ("Reading before an epoch was started", || good()?.read().map(drop)),
    ("A stream that the reader does not have", || {
        let mut reader = good()?;
        let mut epoch = reader.epoch(Epoch::sweeps(1).minibatch_size(8))?;
        let minibatch = epoch.next().expect("a minibatch")?;
        minibatch.stream("Y").map(drop)
    }),
    ("A checkpoint of other data", || {
        let mut reader = good()?;
        reader.epoch(Epoch::sweeps(1).minibatch_size(8)).map(drop)?;
        let checkpoint = reader.checkpoint()?;
        fs::write("other.ctf", "0 |x 1 2 3\n").expect("writing the data");
        let other = Reader::builder().ctf(CtfDeserializer::new("other.ctf").dense("x", 3));
        other.open()?.restore(&checkpoint)
    }),
    ("A checkpoint over other values", || {
        let mut reader = good()?;
        reader.epoch(Epoch::sweeps(1).minibatch_size(8)).map(drop)?;
        let checkpoint = reader.checkpoint()?;
        drop(reader);
        fs::write("train.ctf", GOOD.replace("1 2 3", "9 8 7")).expect("writing the data");
        open(&text("", "file = \"train.ctf\"", STREAMS))?.restore(&checkpoint)
    }),
];

/// Returns the messages of a case as a program shows them, with a fixed name for the folder.
fn messages(folder: &Path, provoke: fn() -> Result<(), Error>) -> String {
    let lines = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&lines);
    set_log_sink(Some(Arc::new(move |level, line: &str| {
        if level != LogLevel::Info {
            writeln!(sink.lock().expect("no panic"), "{}: {line}", format!("{level:?}").to_uppercase())
                .expect("a string");
        }
    })));
    let result = provoke();
    set_log_sink(None);
    let mut text = lines.lock().expect("no panic").clone();
    if let Err(error) = result {
        writeln!(text, "{error:?}").expect("a string");
    }
    text.replace(&folder.display().to_string(), "/data/me")
}

/// Wraps long lines at blanks, except for lines of configurations and carets below them.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let is_excerpt = line.trim_start().split_once('|').is_some_and(|(number, _)| {
            line.starts_with(' ') && number.trim().bytes().all(|byte| byte.is_ascii_digit())
        });
        let mut column = 0;
        for (number, word) in line.split(' ').enumerate() {
            if number > 0 {
                if is_excerpt || column + word.len() < 100 {
                    wrapped.push(' ');
                    column += 1;
                } else {
                    wrapped.push_str("\n  ");
                    column = 2;
                }
            }
            wrapped.push_str(word);
            column += word.len();
        }
        wrapped.push('\n');
    }
    wrapped
}

/// Returns the entries of the page: headings of the third level, each with the range of the text in
/// its first block.
fn entries(page: &str) -> Vec<(&str, std::ops::Range<usize>)> {
    let mut entries = Vec::new();
    for (at, _) in page.match_indices("\n### ") {
        let rest = &page[at + 5..];
        let title = rest.lines().next().unwrap_or_default();
        let own = &rest[..rest.find("\n#").unwrap_or(rest.len())];
        let start = own.find("```text\n").unwrap_or_else(|| panic!("'{title}' has no message")) + 8;
        let length = own[start..].find("```").unwrap_or_else(|| panic!("'{title}' does not end its message"));
        let after = own[start + length + 3..].trim();
        assert!(after.len() > 10, "'{title}' explains nothing");
        entries.push((title, at + 5 + start..at + 5 + start + length));
    }
    entries
}

/// Counts minibatches for a claim of the page: some workers reach the end of the epoch before
/// others, with a local and with a global timeline.
fn minibatches_of_workers(local_timeline: bool) -> Vec<usize> {
    let mut lines = String::new();
    // Chunks of a few sequences, of very different lengths.
    for id in 0..40 {
        for _ in 0..1 + id % 13 * 5 {
            writeln!(lines, "{id} |x 1 2 3 |y 1:1").expect("a string");
        }
    }
    fs::write("train.ctf", lines).expect("writing the data");
    let reader = format!("traceLevel = 0 ; localTimeline = {local_timeline}");
    let config = text(&reader, "file = \"train.ctf\" ; chunkSizeInBytes = 2000", STREAMS);
    let count = |rank| {
        let mut reader = open(&config).expect("a reader");
        let epoch = Epoch::sweeps(1).minibatch_size(100).worker(rank, 4);
        drop(reader.epoch(epoch).expect("an epoch"));
        // Unlike an iterator, `read` also returns minibatches without data.
        1 + (0..).take_while(|_| !reader.read().expect("a minibatch").end_of_epoch()).count()
    };
    (0..4).map(count).collect()
}

/// The working folder and the log sink belong to one test at a time.
static PROCESS: Mutex<()> = Mutex::new(());

/// Enters a new working folder.
fn enter() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    std::env::set_current_dir(&root).expect("entering the folder");
    (folder, root)
}

/// Returns words of CNTK's language in a message for other front ends: keys, and places in a
/// configuration. CNTK's own messages are exempt.
fn words_of_configurations(message: &str) -> Vec<String> {
    let message = message.split("CNTK's message: ").next().unwrap_or_default();
    let quoted = message.split('\'').skip(1).map(|part| part.split([' ', '=']).next().unwrap_or_default());
    let is_key = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.contains(|c: char| c.is_ascii_uppercase())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let mut found: Vec<String> = quoted.filter(is_key).map(str::to_owned).collect();
    let places = [
        "of the configuration.",
        "(in the configuration",
        "unknown:",
        "deserializers[",
        "beside 'deserializers'",
    ];
    found.extend(places.iter().filter(|place| message.contains(**place)).map(|&place| place.to_owned()));
    found
}

#[test]
fn messages_are_in_the_words_of_each_front_end() {
    let _process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let first = CASES.iter().position(|(title, _)| *title == "A file that does not exist").expect("a case");
    let mut found = Vec::new();
    for front_end in [FrontEnd::Rust, FrontEnd::Cpp, FrontEnd::Python] {
        FRONT_END.set(front_end);
        // Cases before this one are about mistakes in the language itself. Only a configuration
        // names a deserializer by its type, and refuses tabs as CNTK does. Text stands in for
        // builders here, and has no names of classes for places. A state has CNTK's keys in all
        // languages.
        let is_of_all = |(title, _): &&Case| {
            ![
                "A deserializer that was not registered",
                "Labels with tabs",
                "An empty path",
                "A misspelled transform",
                "A state without the name that is needed",
            ]
            .contains(title)
        };
        for (title, provoke) in CASES[first..].iter().chain(formats::CASES).filter(is_of_all) {
            let (_folder, root) = enter();
            let message = messages(&root, *provoke);
            assert!(!message.is_empty(), "'{title}' provokes nothing");
            let words = words_of_configurations(&message);
            if !words.is_empty() {
                found.push(format!("{front_end:?}, {title}: {words:?} in {message}"));
            }
        }
    }
    FRONT_END.set(FrontEnd::Configuration);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn page_shows_the_messages() {
    let _process = PROCESS.lock().unwrap_or_else(PoisonError::into_inner);
    let (_folder, root) = enter();
    let mut page = fs::read_to_string(PAGE).expect("the page");
    let titles: Vec<String> = entries(&page).iter().map(|(title, _)| (*title).to_owned()).collect();
    let all = || CASES.iter().chain(formats::CASES);
    let cases: Vec<&str> = all().map(|(title, _)| *title).collect();
    assert_eq!(titles, cases, "the page and this test do not have the same entries in the same order");
    let update = std::env::var_os("UPDATE_PAGE").is_some();
    for (number, (title, provoke)) in all().enumerate() {
        let found = wrapped(&messages(&root, *provoke));
        assert!(!found.is_empty(), "'{title}' provokes nothing");
        let range = entries(&page)[number].1.clone();
        if update {
            page.replace_range(range, &found);
        } else {
            assert_eq!(&page[range], found, "the message of '{title}' is not the one of the page");
        }
    }
    let (local, global) = (minibatches_of_workers(true), minibatches_of_workers(false));
    assert!(local.iter().any(|count| *count != local[0]), "{local:?} {global:?}");
    assert!(global.iter().any(|count| *count != global[0]), "{local:?} {global:?}");
    if update {
        fs::write(PAGE, page).expect("writing the page");
    }
}
