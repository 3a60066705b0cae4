//! Unusable or damaged images are skipped, counted and reported, or named in an error.

// These helpers only unwrap results about files that they write themselves, and readers of them.
#![allow(clippy::unwrap_used)]

mod common;

use cntk_reader::language::{self, ReaderType, Section};
use cntk_reader_core::runtime::log;
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/files");

/// The lines of the log, which all tests of the process share.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
static TURN: Mutex<()> = Mutex::new(());

/// Collects the log of one test at a time.
fn logged() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    log::set_sink(Some(std::sync::Arc::new(|_, line: &str| LOG.lock().unwrap().push(line.to_owned()))));
    LOG.lock().unwrap().clear();
    turn
}

fn lines() -> Vec<String> {
    std::mem::take(&mut *LOG.lock().unwrap())
}

fn text(kind: &str, file: &Path, keys: &str) -> String {
    format!(
        "{keys}\nrandomize=false\ndeserializers=([type={kind};module=ImageReader;file=\"{}\"\ninput=[features=[transforms=(\
         [type=Scale;width=4;height=3;channels=3]:[type=Transpose])]\nlabels=[labelDim=4]]])",
        file.display()
    )
}

fn open(kind: &str, file: &Path, keys: &str) -> cntk_reader::Result<Reader> {
    Reader::open(&language::from_text(&text(kind, file, keys))?)
}

/// Opens a reader in CNTK's place.
fn open_in_cntks_place(kind: &str, file: &Path, keys: &str) -> cntk_reader::Result<Reader> {
    let section = Section::parse("reader", &text(kind, file, keys))?;
    Reader::open(&language::from_reader_section(&section, ReaderType::Composite, false)?)
}

/// Returns the keys of a minibatch, or the error's message.
fn keys(read: cntk_reader::Result<Minibatch>) -> Result<Vec<u64>, String> {
    read.map(|read| read.keys.clone()).map_err(|error| error.message().to_owned())
}

fn started(mut reader: Reader, minibatch: u64) -> Reader {
    reader.start_epoch(&Epoch::sweeps(1).minibatch_size(minibatch)).unwrap();
    reader
}

fn map_of(folder: &Path, paths: &[&str]) -> std::path::PathBuf {
    let map = folder.join("map.txt");
    let lines = paths.iter().enumerate().fold(String::new(), |mut text, (number, path)| {
        let path = if path.contains('/') { (*path).to_owned() } else { format!("{FILES}/images/{path}") };
        writeln!(text, "{path}\t{}", number % 4).unwrap();
        text
    });
    std::fs::write(&map, lines).unwrap();
    map
}

#[test]
fn broken_images_of_a_map_are_skipped_counted_and_reported() {
    let _turn = logged();
    let folder = tempfile::tempdir().unwrap();
    let names =
        ["p8x8.png", "missing.png", "notimage.jpg", "p9x13.png", "trunc.png", "empty.jpg", "j420.jpg"];
    let map = map_of(folder.path(), &names);
    let mut reader = started(open("ImageDeserializer", &map, "maxErrors=5").unwrap(), 3);
    assert_eq!(keys(reader.read()), Ok(vec![0]));
    assert_eq!(keys(reader.read()), Ok(vec![3]));
    assert_eq!(keys(reader.read()), Ok(vec![6]));
    let log = lines();
    let first: Vec<_> = log.iter().filter(|line| line.contains("is left out, and counts")).collect();
    assert_eq!(first.len(), 1, "{log:?}");
    let report = log.iter().find(|line| line.contains("had 4 images that cannot be used")).expect("a report");
    for part in ["line 2", "missing.png", "line 3", "line 5", "trunc.png", "line 6"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    // One fewer is tolerated.
    let mut reader = started(open("ImageDeserializer", &map, "maxErrors=3").unwrap(), 3);
    assert_eq!(keys(reader.read()), Ok(vec![0]));
    let error = reader.read().unwrap_err();
    assert!(error.message().starts_with("Cannot open file '"), "{error}");
    assert!(error.detail().contains("'4' in the input exceeded the specified maximum number '3'"), "{error}");
}

#[test]
fn broken_images_are_errors_in_the_place_of_cntk() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["missing.png", "notimage.jpg", "trunc.png"] {
        let map = map_of(folder.path(), &["p8x8.png", name, "p9x13.png"]);
        let reader = open_in_cntks_place("ImageDeserializer", &map, "maxErrors=5").unwrap();
        let mut reader = started(reader, 1);
        assert_eq!(keys(reader.read()), Ok(vec![0]));
        let message = keys(reader.read()).unwrap_err();
        assert_eq!(message, format!("Cannot open file '{FILES}/images/{name}'"));
        assert_eq!(keys(reader.read()), Ok(vec![2]), "CNTK goes on behind it");
    }
}

/// Returns a zip file with one stored member of this name, method and flags.
fn zip_of(name: &str, method: u16, flags: u16, data: &[u8]) -> Vec<u8> {
    let crc = crc32fast::hash(data);
    let mut facts = [20u16, flags, method, 0, 0].map(u16::to_le_bytes).concat();
    facts.extend([crc, data.len() as u32, data.len() as u32].map(u32::to_le_bytes).concat());
    facts.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
    let mut bytes = [b"PK\x03\x04", &facts[..], name.as_bytes(), data].concat();
    let start = bytes.len() as u32;
    bytes.extend([b"PK\x01\x02\x14\0", &facts[..], &[0; 14], name.as_bytes()].concat());
    let length = bytes.len() as u32 - start;
    bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    bytes.extend([length, start].map(u32::to_le_bytes).concat());
    bytes.extend([0; 2]);
    bytes
}

#[test]
fn zip_members_with_backslashes_are_found_by_either_spelling() {
    let folder = tempfile::tempdir().unwrap();
    let image = std::fs::read(format!("{FILES}/images/p8x8.png")).unwrap();
    let zip = folder.path().join("windows.zip");
    std::fs::write(&zip, zip_of("d\\i.png", 0, 0, &image)).unwrap();
    let paths = ["d\\i.png", "d/i.png"].map(|name| format!("{}@/{name}", zip.display()));
    let map = map_of(folder.path(), &paths.each_ref().map(String::as_str));
    let mut reader = started(open("ImageDeserializer", &map, "").unwrap(), 2);
    assert_eq!(keys(reader.read()), Ok(vec![0, 1]));
    // libzip compares names exactly, after CNTK has replaced the backslashes of the map by slashes.
    let error = open_in_cntks_place("ImageDeserializer", &map, "").map(drop).unwrap_err();
    assert!(error.message().starts_with("Cannot retrieve image data for some sequences."), "{error}");
}

#[test]
fn unreadable_zip_members_are_named_and_can_be_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let image = std::fs::read(format!("{FILES}/images/p8x8.png")).unwrap();
    let zip = folder.path().join("a.zip");
    let member = format!("{}@/i.png", zip.display());
    let map = map_of(folder.path(), &["p9x13.png", &member]);
    for (method, flags, name) in [
        (12, 0, "bzip2"),
        (14, 0, "lzma"),
        (93, 0, "zstd"),
        (9, 0, "deflate64"),
        (95, 0, "xz"),
        (99, 1, "encrypted"),
        (0, 1, "encrypted"),
        (8, 1, "encrypted"),
        (98, 0, "method 98"),
    ] {
        std::fs::write(&zip, zip_of("i.png", method, flags, &image)).unwrap();
        let error = open("ImageDeserializer", &map, "").map(drop).unwrap_err();
        assert!(error.detail().contains(name), "{name}: {error}");
        assert_eq!(error.location().line, Some(2));
        let mut reader = started(open("ImageDeserializer", &map, "maxErrors=1").unwrap(), 2);
        assert_eq!(keys(reader.read()), Ok(vec![0]), "{name}");
    }
    // A member with a wrong checksum, and one that is missing in the directory.
    let mut wrong = zip_of("i.png", 0, 0, &image);
    wrong[100] ^= 1;
    for zipped in [wrong, zip_of("j.png", 0, 0, &image)] {
        std::fs::write(&zip, zipped).unwrap();
        let mut reader = started(open("ImageDeserializer", &map, "maxErrors=1").unwrap(), 2);
        assert_eq!(keys(reader.read()), Ok(vec![0]));
    }
}

#[test]
fn zip_syntax_of_paths_with_an_at_sign_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let named = folder.path().join("user@host");
    std::fs::create_dir(&named).unwrap();
    std::fs::copy(format!("{FILES}/images/p8x8.png"), named.join("i.png")).unwrap();
    let map = map_of(folder.path(), &[&named.join("i.png").display().to_string()]);
    let error = open("ImageDeserializer", &map, "").map(drop).unwrap_err();
    assert!(error.message().ends_with("/user, zip library error: No such file"), "{error}");
    assert!(error.detail().contains("A path with '@' names a zip file"), "{error}");
}

#[test]
fn non_image_files_are_recognized() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("i.jpg");
    let map = map_of(folder.path(), &[&file.display().to_string()]);
    for (bytes, name) in [
        (&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], "is compressed by gzip"),
        (b"PK\x03\x04\x14\0\0\0", "is a zip file"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "is a HEIC image"),
        (b"\0\0\0\x18ftypavif\0\0\0\0", "is an AVIF image"),
        (b"GIF89a..", "is a GIF image"),
        (b"<!DOCTYPE html><html>", "is an HTML page"),
        (&[0; 4096], "contains only zeros"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let error = started(open("ImageDeserializer", &map, "").unwrap(), 1).read().unwrap_err();
        assert!(error.detail().contains(name), "{name}: {error}");
    }
}

#[test]
fn fourth_column_of_a_map_is_reported() {
    let _turn = logged();
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("map.txt");
    std::fs::write(&map, format!("7\t{FILES}/images/p8x8.png\t1\n8\t{FILES}/images/p8x8.png\t1\t0.5 0.5\n"))
        .unwrap();
    let mut reader = started(open("ImageDeserializer", &map, "").unwrap(), 2);
    assert_eq!(keys(reader.read()), Ok(vec![7, 8]));
    let log = lines();
    let remarks: Vec<_> = log.iter().filter(|line| line.contains("more than the three columns")).collect();
    assert!(matches!(remarks[..], [line] if line.contains("line 2") && line.contains("0.5 0.5")), "{log:?}");
}

/// Returns a JPEG with a hundred zeroed bytes in the middle of its coded data.
fn damaged_jpeg() -> Vec<u8> {
    let mut file = std::fs::read(format!("{FILES}/images/s444.jpg")).unwrap();
    let data = file.windows(2).rposition(|marker| marker == [0xFF, 0xDA]).unwrap();
    let middle = (data + file.len()) / 2;
    file[middle..middle + 100].fill(0);
    file
}

#[test]
fn damaged_jpeg_data_warn_once_per_image() {
    let _turn = logged();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged.jpg");
    std::fs::write(&file, damaged_jpeg()).unwrap();
    let map = map_of(folder.path(), &["p8x8.png", &file.display().to_string(), "s420.jpg"]);
    let mut reader = open("ImageDeserializer", &map, "").unwrap();
    reader.start_epoch(&Epoch::sweeps(3).minibatch_size(3)).unwrap();
    for _ in 0..3 {
        assert_eq!(keys(reader.read()), Ok(vec![0, 1, 2]));
    }
    let log = lines();
    let warnings: Vec<_> = log.iter().filter(|line| line.contains("the JPEG data are damaged")).collect();
    assert!(
        matches!(warnings[..], [line] if line.contains("damaged.jpg") && line.contains("line 2")),
        "{log:?}"
    );
    assert_eq!(log.iter().filter(|line| line.contains("had 1 images with damaged data")).count(), 1);
}

#[test]
fn undamaged_jpegs_do_not_warn() {
    let _turn = logged();
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for kind in ["images", "jpeg", "formats"] {
        let Ok(files) = std::fs::read_dir(format!("{FILES}/{kind}")) else { continue };
        let files = files.map(|file| file.unwrap().path().display().to_string());
        all.extend(files.filter(|file| {
            file.ends_with(".jpg") && !["trunc", "notimage", "empty"].iter().any(|no| file.contains(no))
        }));
    }
    assert!(all.len() > 15);
    for file in all {
        let map = map_of(folder.path(), &[&file]);
        let mut reader = started(open("ImageDeserializer", &map, "maxErrors=9").unwrap(), 1);
        let _ = reader.read();
        let log = lines();
        assert!(!log.iter().any(|line| line.contains("are damaged")), "{file}: {log:?}");
    }
}

/// Writes lines of Base64 whose text is derived from an image's by `change`.
fn base64_of(folder: &Path, key: &str, change: impl Fn(&str) -> String) -> std::path::PathBuf {
    let text = std::fs::read_to_string(format!("{FILES}/b64.txt")).unwrap();
    let data = text.lines().next().unwrap().split('\t').nth(1).unwrap();
    let file = folder.join("images.b64");
    std::fs::write(&file, format!("{key}1\t{}\n", change(data.trim_end()))).unwrap();
    file
}

type Change = fn(&str) -> String;

const SPELLINGS: [(&str, Change); 7] = [
    ("a space", |data| format!(" {data}")),
    ("b'", |data| format!("b'{data}'")),
    ("a quote", |data| format!("\"{data}\"")),
    ("a quote", |data| format!("'{data}'")),
    ("data:", |data| format!("data:image/png;base64,{data}")),
    ("'-' or '_'", |data| data.replace('+', "-").replace('/', "_")),
    ("'-' or '_'", |data| data.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()),
];

#[test]
fn all_common_variants_of_base64_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let values = |change: &dyn Fn(&str) -> String| {
        let file = base64_of(folder.path(), "", change);
        let mut reader = started(open("Base64ImageDeserializer", &file, "").unwrap(), 1);
        let read = reader.read().unwrap();
        read.streams.first().map(|stream| stream.dense::<f32>().unwrap().to_vec())
    };
    let plain = values(&str::to_owned);
    assert!(plain.is_some());
    for (name, change) in SPELLINGS {
        assert_eq!(values(&change), plain, "{name}");
    }
}

#[test]
fn unusual_base64_is_explained_in_the_place_of_cntk() {
    let _turn = logged();
    let folder = tempfile::tempdir().unwrap();
    for (name, change) in SPELLINGS {
        let file = base64_of(folder.path(), "", change);
        lines();
        let reader = open_in_cntks_place("Base64ImageDeserializer", &file, "maxErrors=1").unwrap();
        assert_eq!(keys(started(reader, 1).read()), Ok(vec![]), "{name}");
        let log = lines();
        assert!(log.iter().any(|line| line.contains(name)), "{name}: {log:?}");
    }
}

#[test]
fn text_keys_of_base64_are_read_or_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = base64_of(folder.path(), "cat\t", str::to_owned);
    let reader = open("Base64ImageDeserializer", &file, "useNumericSequenceKeys=false").unwrap();
    assert_eq!(keys(started(reader, 1).read()), Ok(vec![0]));
    let error = open("Base64ImageDeserializer", &file, "").map(drop).unwrap_err();
    assert!(error.to_string().contains("useNumericSequenceKeys"), "{error}");
}

/// As in CNTK, truncated minibatches take the keys of the stream of labels, whose sequences have
/// none.
#[test]
fn truncated_minibatches_of_images_report_the_key_0() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("map.txt");
    std::fs::write(&map, format!("7\t{FILES}/images/p8x8.png\t1\n9\t{FILES}/images/p8x8.png\t1\n")).unwrap();
    let keys_of = |options: &str| {
        let mut reader = open("ImageDeserializer", &map, options).unwrap();
        let mut epoch = Epoch::sweeps(1).minibatch_size(2);
        if !options.is_empty() {
            epoch = epoch.read_config(ReadConfig::new(2).truncation_length(1));
        }
        reader.start_epoch(&epoch).unwrap();
        (0..2).flat_map(|_| keys(reader.read()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(keys_of(""), [7, 9]);
    assert_eq!(keys_of("truncated=true\ntruncationLength=1"), [0, 0]);
}

#[test]
fn truncated_image_readers_need_a_truncation_length() {
    let folder = tempfile::tempdir().unwrap();
    let map = map_of(folder.path(), &["p8x8.png", "p9x13.png"]);
    let options = "truncated=true\ntruncationLength=1";
    let text = text("ImageDeserializer", &map, options).replace("randomize=false", "randomize=true");
    let mut reader = Reader::open(&language::from_text(&text).unwrap()).unwrap();
    reader
        .start_epoch(&Epoch::sweeps(1).read_config(ReadConfig::new(2).truncation_length(1)))
        .expect("it has been asked for");
    assert_eq!(reader.read().unwrap().keys.len(), 2);
}
