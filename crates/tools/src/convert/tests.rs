//! Round trips between text and binary files, byte for byte.

use super::*;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_text::cbf::sample::{DUMP, bytes_of};
use std::path::Path;

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn continued(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn convert(text: &str, streams: &str, chunk_size: u64, ctf2bin_compatible: bool) -> Result<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (path(folder.path(), "in.ctf"), path(folder.path(), "out.cbf"));
    std::fs::write(&input, text).expect("writing");
    let options = TextToBinary {
        input,
        output: output.clone(),
        streams: parse_streams(streams)?,
        chunk_size,
        element: ElementType::Float,
        ctf2bin_compatible,
    };
    let done = text_to_binary(&options, &mut continued);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1 + usize::from(done.is_ok()), "files left: {left:?}");
    done.map(|_| std::fs::read(output).expect("the output"))
}

const TEXT: &str = "0 |x 1 2 |s 1:3 0:4 |# comment here\n0 |x 3 4\n1 |s 4:1 |x 5 6.5\n1 |s\n1 |s 2:0.5 3:-1\n2 |x 7 8 |s 0:9\n";
const STREAMS: &str = "features x dense 2\nwords s sparse 5\n";

#[test]
fn writes_the_bytes_of_the_script() {
    assert_eq!(convert(TEXT, STREAMS, 40, false).expect("a file"), bytes_of(DUMP));
    assert_eq!(convert(TEXT, STREAMS, 40, true).expect("a file"), bytes_of(DUMP));
}

/// Returns the offset, the sequences and the samples of each chunk of a file with one stream called
/// `x`.
fn table(file: &[u8]) -> Vec<(u64, u32, u32)> {
    let header = u64::from_le_bytes(*file.last_chunk().expect("a trailer")) as usize;
    let records = &file[header + 8 + 8 + 1 + 4 + 1 + 1 + 4..file.len() - 8];
    let word = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("a word"));
    records.chunks(16).map(|record| (word(record, 0).into(), word(record, 8), word(record, 12))).collect()
}

#[test]
fn chunks_have_their_size() {
    let text: String = (0..8).map(|i| format!("{i} |x {i} 1\n")).collect();
    let of = |size, script| table(&convert(&text, "x x dense 2", size, script).expect("a file"));
    let singles = [(60, 1, 1), (76, 1, 1), (92, 1, 1), (108, 1, 1), (124, 1, 1)];
    assert_eq!(of(24, true), [&[(12, 3, 3)][..], &singles].concat());
    assert_eq!(of(24, false), [(12, 3, 3), (60, 3, 3), (108, 2, 2)]);
    assert_eq!(of(0, false).len(), 8);
    assert_eq!(of(1 << 20, false), [(12, 8, 8)]);
    assert_eq!(table(&convert("", "x x dense 2", 24, false).expect("a file")), [(12, 0, 0)]);
}

#[test]
fn ids_are_texts() {
    let sequences = |text: &str| table(&convert(text, "x x dense 1", 1 << 20, false).expect("a file"))[0];
    assert_eq!(sequences("|x 1\n|x 2\n5 |x 3\n|x 4\n5 |x 5\n"), (12, 3, 5));
    assert_eq!(sequences("7 |x 1\n07 |x 2\n7 |x 3\n"), (12, 3, 3));
    assert_eq!(sequences("1 |x 1 |x 2 |x\n"), (12, 1, 2));
    assert_eq!(sequences("\u{feff}|x 1\r\n|x inf\r\n"), (12, 2, 2));
}

#[test]
fn flaws_are_refused_with_their_place() {
    for (text, message) in [
        ("|x 1 2\n\n", "no '|'"),
        ("|x 1\n", "Invalid sample dimension for input features"),
        ("|x 1 2 3\n", "Invalid sample dimension for input features"),
        ("|x 1 a\n", "'a' is no number"),
        ("|s 5:1\n", "Invalid sample dimension for input words. Max 5, given 5"),
        ("|s -1:1\n", "given -1"),
        ("|s 1:2:3\n", "no index:value"),
        ("|s 1\n", "no index:value"),
        ("|s a:1\n", "no integer"),
        ("|y 1\n", "There is no stream 'y'"),
        ("|# |y 1\n", "There is no stream 'y'"),
    ] {
        let error = convert(text, STREAMS, 40, false).expect_err("must be refused");
        assert!(error.message().contains(message), "{error} instead of {message}");
        assert!(error.location().file.is_some() && error.location().line.is_some(), "{error}");
    }
    for (streams, message) in [
        ("", "no streams"),
        ("a b dense\n", "expected 4, got 3"),
        ("\n", "expected 4, got 0"),
        ("a b dens 1\n", "Invalid input format dens"),
        ("a b dense 0\n", "no dimension"),
    ] {
        let error = parse_streams(streams).expect_err("must be refused");
        assert!(error.message().contains(message), "{error} instead of {message}");
    }
    let twice = parse_streams("a x DENSE 1\nb y sparse 2\nc x Sparse 3").expect("streams");
    assert_eq!((twice.len(), twice[0].name.as_str(), twice[0].storage), (2, "c", Storage::SparseCsc));
}

#[test]
fn text_and_binary_round_trip() {
    let folder = tempfile::tempdir().expect("a folder");
    let (binary, text, again) =
        (path(folder.path(), "a.cbf"), path(folder.path(), "b.ctf"), path(folder.path(), "c.cbf"));
    std::fs::write(&binary, bytes_of(DUMP)).expect("writing");
    std::fs::write(&text, "old").expect("writing");
    let mut seen = Vec::new();
    let done = binary_to_text(&binary, &text, &mut |progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    })
    .expect("text");
    assert_eq!((done.sequences, done.bytes, seen.len()), (3, done.total, 2));
    let expected = "0\t|features 1 2\t|words 0:4 1:3\n0\t|features 3 4\n1\t|features 5 6.5\t|words 4:1\n\
                    1\t|words 2:0.5 3:-1\n2\t|features 7 8\t|words 0:9\n";
    assert_eq!(std::fs::read_to_string(&text).expect("text"), expected);
    let options = TextToBinary {
        input: text,
        output: again.clone(),
        streams: parse_streams("features features dense 2\nwords words sparse 5").expect("streams"),
        chunk_size: 40,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut continued).expect("a file");
    assert_eq!(std::fs::read(again).expect("a file"), bytes_of(DUMP));
}

#[test]
fn stopping_leaves_the_old_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (binary, text) = (path(folder.path(), "a.cbf"), path(folder.path(), "b.ctf"));
    std::fs::write(&binary, bytes_of(DUMP)).expect("writing");
    std::fs::write(&text, "old").expect("writing");
    let error = binary_to_text(&binary, &text, &mut |_| ControlFlow::Break(())).expect_err("stopped");
    assert_eq!(error.message(), "The conversion was stopped.");
    assert_eq!(std::fs::read_to_string(&text).expect("text"), "old");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    let error = binary_to_text(&binary, &binary, &mut continued).expect_err("the same file");
    assert!(error.message().contains("the same file"), "{error}");
    assert_eq!(std::fs::read(&binary).expect("a file"), bytes_of(DUMP));
}
