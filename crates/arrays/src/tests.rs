//! Valid and damaged arrays, from files to loaded chunks.

use crate::deserializer::ArraySource;
use crate::header::header;
use crate::{ArrayDeserializer, ArrayOptions};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::options::Format;
use cntk_reader_core::format::{Chunk, ChunkSource, ChunkTable, Deserializer, Loaded};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{SequenceId, ValueForm};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use proptest::prelude::*;
use std::fs;
use std::sync::Arc;

/// Array files in a temporary folder.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("writing");
    }

    fn array(&self, name: &str, element: &str, shape: &[u64], values: &[u8]) {
        self.write(name, &[&header(element, shape), values].concat());
    }

    /// Opens arrays as streams with the names of their files.
    fn open(&self, names: &[&str], lengths: Option<&str>, chunk_bytes: u64) -> Result<ArrayDeserializer> {
        let (paths, lengths): (Vec<_>, _) =
            (names.iter().map(|name| self.path(name)).collect(), lengths.map(|name| self.path(name)));
        let sources = names.iter().zip(&paths);
        let sources = sources.map(|(name, path)| ArraySource { name, path, defines_mb_size: false });
        let (corpus, float) = (Corpus::Numeric, ElementType::Float);
        ArrayDeserializer::open(sources, lengths.as_deref(), chunk_bytes, float, &corpus)
    }

    /// Returns the error of opening an array or of loading it.
    fn error(&self, name: &str, lengths: Option<&str>) -> Error {
        match self.open(&[name], lengths, 1 << 20) {
            Err(error) => error,
            Ok(opened) => load(&opened, 0).err().unwrap_or_else(|| panic!("{name} has no error")),
        }
    }
}

fn load(opened: &ArrayDeserializer, chunk: u32) -> Result<Arc<dyn Chunk>> {
    Pool::shared().expect("a pool").install(|| opened.load(chunk))
}

/// Returns the stored values of all sequences of a stream, and their form.
fn stored(opened: &ArrayDeserializer, stream: usize) -> Result<Vec<(ValueForm, Vec<u8>)>> {
    let mut found = Vec::new();
    for (number, info) in (0..).zip(opened.chunks()) {
        let chunk = load(opened, number)?;
        for index in 0..info.sequences {
            let Loaded::Data(view) = chunk.sequence(stream, index) else { panic!("no data") };
            assert_eq!(view.samples, opened.lengths(number).get(index));
            found.push((view.form, view.values.to_vec()));
        }
    }
    Ok(found)
}

#[test]
fn every_type_becomes_a_stream() {
    let files = Files::new();
    for (descr, bytes, element, expected) in [
        ("<f4", [0.5f32, -1.0].map(f32::to_le_bytes).concat(), ElementType::Float, None),
        ("<f2", vec![0, 0x38, 0, 0xbc], ElementType::Float16, None),
        ("|u1", vec![3, 255], ElementType::UInt8, None),
        ("|b1", vec![0, 1], ElementType::Bool, None),
        ("|i1", vec![3, 0xff], ElementType::Int16, Some([3i16, -1].map(i16::to_ne_bytes).concat())),
        ("<i2", [3i16, -300].map(i16::to_le_bytes).concat(), ElementType::Int16, None),
        ("<i4", [3i32, -300].map(i32::to_le_bytes).concat(), ElementType::Int32, None),
        ("<i8", [3i64, -300].map(i64::to_le_bytes).concat(), ElementType::Int64, None),
        ("<u2", vec![3, 0, 255, 255], ElementType::Int32, Some([3i32, 65535].map(i32::to_ne_bytes).concat())),
        (
            "<u4",
            [3u32, 1 << 31].map(u32::to_le_bytes).concat(),
            ElementType::Int64,
            Some([3i64, 1 << 31].map(i64::to_ne_bytes).concat()),
        ),
        ("<u8", [3u64, 1 << 62].map(u64::to_le_bytes).concat(), ElementType::Int64, None),
    ] {
        files.array("x", descr, &[2], &bytes);
        let opened = files.open(&["x"], None, 1 << 20).expect(descr);
        assert_eq!(opened.streams()[0].element, element, "{descr}");
        let found = stored(&opened, 0).expect(descr);
        assert!(found.iter().all(|(form, _)| *form == ValueForm::Whole), "{descr}");
        let found: Vec<u8> = found.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(found, expected.unwrap_or(bytes), "{descr}");
    }
    for (descr, bytes) in [("<u8", u64::MAX.to_le_bytes().to_vec()), ("|b1", vec![2])] {
        files.array("x", descr, &[1], &bytes);
        let opened = files.open(&["x"], None, 1 << 20).expect(descr);
        assert!(stored(&opened, 0).is_err(), "{descr}");
    }
    files.array("x", "<f8", &[1, 2, 3], &[0; 48]);
    let opened = files.open(&["x"], None, 1 << 20).expect("an array");
    let stream = &opened.streams()[0];
    assert_eq!((stream.element, &*stream.shape), (ElementType::Double, &[3, 2][..]));
}

#[test]
fn chunks_are_bounded_and_keep_sequences_whole() {
    let files = Files::new();
    files.array("x", "|u1", &[7, 3], &(0..21).collect::<Vec<u8>>());
    files.array("n", "<u2", &[4], &[1u16, 2, 3, 1].map(u16::to_le_bytes).concat());
    let sizes = |opened: &ArrayDeserializer| -> Vec<_> {
        opened.chunks().iter().map(|chunk| (chunk.samples, chunk.sequences)).collect()
    };
    for (lengths, bytes, expected) in [
        (None, 1, vec![(1, 1); 7]),
        (None, 8, vec![(2, 2), (2, 2), (2, 2), (1, 1)]),
        (None, 1 << 20, vec![(7, 7)]),
        (Some("n"), 6, vec![(1, 1), (2, 1), (3, 1), (1, 1)]),
        (Some("n"), 9, vec![(3, 2), (3, 1), (1, 1)]),
        (Some("n"), u64::MAX, vec![(7, 4)]),
    ] {
        let opened = files.open(&["x"], lengths, bytes).expect("an array");
        assert_eq!(sizes(&opened), expected);
        let all: Vec<u8> =
            stored(&opened, 0).expect("chunks").into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(all, (0..21).collect::<Vec<u8>>());
        let mut keys = Vec::new();
        for (chunk, info) in (0..).zip(opened.chunks()) {
            let ids: Vec<_> = (0..info.sequences).map(|index| SequenceId { chunk, index }).collect();
            opened.keys(&ids, &mut keys);
            let found: Vec<_> = keys[keys.len() - ids.len()..].iter().map(|&key| opened.find(key)).collect();
            assert_eq!(found, ids.into_iter().map(Some).collect::<Vec<_>>());
        }
        assert_eq!(keys, (0..keys.len() as u64).collect::<Vec<_>>());
        assert_eq!(opened.find(keys.len() as u64), None);
    }
    // Other lengths make other sequences.
    let fingerprint = |lengths| files.open(&["x"], lengths, 1 << 20).expect("an array").fingerprint(None);
    assert_ne!(fingerprint(None), fingerprint(Some("n")));
}

#[test]
fn errors_say_what_to_do() {
    let files = Files::new();
    let sound = [header("<f4", &[2]), vec![0; 8]].concat();
    let fortran = |shape: &[u64]| {
        let header = String::from_utf8_lossy(&header("<f4", shape)[10..]).replace("False, ", "True, ");
        [&sound[..8], &(header.len() as u16).to_le_bytes(), header.as_bytes(), &[0; 24]].concat()
    };
    let big = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, 4), }}", u64::MAX / 2);
    let of_text = |text: &str| [&sound[..8], &(text.len() as u16).to_le_bytes(), text.as_bytes()].concat();
    for (name, bytes, offset, words) in [
        ("magic", b"|x 1 2\n|x 3 4\n".to_vec(), 0, "it begins with '|x 1 2'"),
        ("empty", Vec::new(), 0, "Expected the byte 0x93 and 'NUMPY'"),
        ("version", [&sound[..6], b"\x04\0", &sound[8..]].concat(), 6, "Expected version 1, 2 or 3"),
        ("cut", sound[..50].to_vec(), 50, "ends inside its header"),
        ("short", sound[..sound.len() - 1].to_vec(), 135, "has 135 bytes and should have 136"),
        ("long", [&sound[..], &sound].concat(), 136, "remove what follows it"),
        ("order", fortran(&[2, 3]), 6, "save numpy.ascontiguousarray(array)"),
        ("endian", [header(">f4", &[2]), vec![0; 8]].concat(), 6, "array.astype(numpy.float32)"),
        ("complex", [header("<c8", &[1]), vec![0; 8]].concat(), 6, "values of the type '<c8'"),
        ("scalar", [header("<f4", &[]), vec![0; 4]].concat(), 6, "at least one dimension"),
        ("none", header("<f4", &[0, 3]), 6, "at least one row"),
        ("thin", header("<f4", &[3, 0]), 6, "one value in a row"),
        ("huge", of_text(&big), 6, "the file is damaged"),
        ("records", of_text("{'descr': [('a', '<f4')], "), 20, "records cannot be read"),
        ("twice", of_text("{'shape': (1,), 'shape': (1,)}"), 26, "once each"),
        ("dims", of_text("{'shape': (1, -2)}"), 24, "Expected the size of a dimension"),
        (
            "inexact",
            [header("<u8", &[2]), [7u64, 1 << 63].map(u64::to_le_bytes).concat()].concat(),
            136,
            "A stream of int64 cannot hold it",
        ),
    ] {
        files.write(name, &bytes);
        let error = files.error(name, None);
        let place = error.location();
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert_eq!(
            (place.file.clone(), place.offset),
            (Some(files.path(name)), Some(offset)),
            "{name}: {error}"
        );
        assert_eq!(place.stream.as_deref(), Some(name), "{error}");
    }
    // With one row or one column, both orders are the same.
    let one = fortran(&[6, 1]);
    files.write("one", &one);
    assert!(files.open(&["one"], None, 1).is_ok());
}

#[test]
fn wrong_lengths_and_rows_are_errors() {
    let files = Files::new();
    files.array("x", "|u1", &[5], &[0; 5]);
    files.array("y", "|u1", &[4], &[0; 4]);
    for (name, element, bytes, words) in [
        ("zero", "|u1", &[2u8, 0, 3][..], "Sequence 1 has the length 0 (file "),
        ("many", "|u1", &[2, 4], "Expected 1 to 3"),
        ("few", "|u1", &[2, 2], "add up to 4 rows"),
        ("negative", "|i1", &[2, 0xff], "Sequence 1 has the length -1 (file "),
        ("floats", "<f4", &[0; 8], "Expected one dimension, and integer values"),
    ] {
        let count = bytes.len() as u64 / if element == "<f4" { 4 } else { 1 };
        files.array(name, element, &[count], bytes);
        let error = files.error("x", Some(name));
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert_eq!(error.location().file, Some(files.path(name)));
    }
    let error = files.open(&["x", "y"], None, 9).err().expect("an error");
    assert!(error.to_string().contains("Expected 5"), "{error}");
    assert_eq!(error.location().stream.as_deref(), Some("y"));
    let symbolic = ArrayDeserializer::open(
        [ArraySource { name: "x", path: &files.path("x"), defines_mb_size: false }].into_iter(),
        None,
        9,
        ElementType::Float,
        &Corpus::symbolic(),
    );
    assert!(symbolic.err().expect("an error").to_string().contains("numbers of their rows"));
    let none =
        ArrayOptions { streams: Vec::new(), lengths: None, chunk_size: 9, element: ElementType::Float };
    assert_eq!(none.name(), "");
}

#[test]
fn array_changed_while_open_is_an_error() {
    let files = Files::new();
    for (element, size) in [("|u1", 1), ("<i4", 4)] {
        files.array("x", element, &[100], &vec![0; 100 * size]);
        let opened = files.open(&["x"], None, 9).expect("an array");
        files.write("x", &[7; 20]);
        let error = load(&opened, 0).err().expect("an error");
        assert!(error.message().ends_with("was changed while it was in use."), "{error}");
    }
}

proptest! {
    /// Damage leads to an error that names a file, or to other values, but never to a panic.
    #[test]
    fn damaged_files_are_errors_or_data(at in 0usize..200, byte: u8, cut in 0usize..400) {
        let files = Files::new();
        files.array("n", "|u1", &[3], &[1, 1, 1]);
        let mut bytes = [header("<i4", &[3, 2]), vec![1; 24]].concat();
        let place = at % bytes.len();
        bytes[place] = byte;
        bytes.truncate(cut);
        files.write("x", &bytes);
        match files.open(&["x"], Some("n"), 10).and_then(|opened| stored(&opened, 0)) {
            Ok(_) => {}
            Err(error) => prop_assert!(error.location().file.is_some(), "{}", error),
        }
    }
}
