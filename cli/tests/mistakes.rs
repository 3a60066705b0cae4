//! Odd files and wrong options as new users give them: the message names the cause and the fix.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::run;
use std::path::Path;

/// A PNG image of 1 x 1 pixels, as Base64.
const IMAGE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

const GOOD: &str = "0 |x 1 2 |y 0:1\n1 |x 3 4 |y 1:1\n";

fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), content).expect("writing");
}

/// Runs the tool on one file. Returns the exit code and all output.
fn said(command: &str, name: &str, content: impl AsRef<[u8]>) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), name, content);
    let (code, out, err) = run(folder.path(), &["-q", command, name]);
    (code, out + &err)
}

#[track_caller]
fn says(command: &str, name: &str, content: impl AsRef<[u8]>, code: i32, expected: &[&str]) {
    let (found, text) = said(command, name, content);
    for part in expected {
        assert!(text.contains(part), "{name}: no '{part}' in: {text}");
    }
    assert_eq!(found, code, "{name}: {text}");
}

#[test]
fn images_as_base64_are_recognized_with_and_without_keys() {
    let plain = format!("0\t{IMAGE}\n3\t{IMAGE}\n");
    for content in [
        plain.clone(),
        format!("5\t0\t{IMAGE}\n6\t3\t{IMAGE}\n"),
        format!("a\t0\t{IMAGE}\nb\t3\t{IMAGE}\n"),
        format!("0\tdata:image/png;base64,{IMAGE}\n3\tb'{IMAGE}'\n"),
    ] {
        says("info", "images.txt", &content, 0, &["Base64ImageDeserializer", "2 sequences", "4         4"]);
        says("validate", "images.txt", &content, 0, &[]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "images.txt", format!("a\t0\t{IMAGE}\nb\t3\t{IMAGE}\n"));
    let (_, config, _) = run(folder.path(), &["info", "images.txt", "--config"]);
    write(folder.path(), "images.cntk", config);
    let (code, out, err) = run(folder.path(), &["head", "images.cntk", "-n", "2"]);
    assert!(code == 0 && out.contains("\"key\":\"b\"") && out.contains("\"indices\":[3]"), "{out}{err}");
}

#[test]
fn a_further_column_of_images_is_a_note_or_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.pgm", "P2\n1 1\n255\n7\n");
    write(folder.path(), "map.txt", "1\ta.pgm\t0\n2\ta.pgm\t1\t0.5 0.5\n");
    for command in ["info", "validate"] {
        let (code, out, err) = run(folder.path(), &["-q", command, "map.txt"]);
        assert_eq!(code, 0, "{out}{err}");
        assert!(out.contains("1 line of the map file has more than the three columns"), "{out}{err}");
        assert!(out.contains("Found '0.5 0.5'"), "{out}");
    }
    let line = format!("1\t0\t{IMAGE}\tmore\n");
    says("validate", "images.txt", line, 1, &["A further column follows the image."]);
}

#[test]
fn names_that_differ_in_case_are_noted_by_info() {
    let text = "0 |x 1 2 |y 0:1\n1 |X 1 2 |y 1:1\n";
    says("info", "a.ctf", text, 0, &["note: Samples with the name 'x' are not read", "'X' differs from it"]);
}

#[test]
fn files_of_other_kinds_are_named_with_what_to_do() {
    let mut tar = vec![b'a'; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    says("info", "a.tar", tar, 1, &["an archive of files", "Unpack it first"]);
    says("info", "a.7z", b"7z\xbc\xaf\x27\x1c\0\x04....", 1, &["an archive of files"]);
    says(
        "info",
        "a.html",
        "<!DOCTYPE html>\n<html>404</html>\n",
        1,
        &["an HTML page", "download the file again"],
    );
    says("info", "a.ctf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", 1, &["git lfs pull"]);
    says("info", "map.txt", "a/1.jpg,0\nb/2.png,1\n", 1, &["Expected a path, a tab and a class number"]);
    says("validate", "a.mlf", "#!MLF!#\n", 0, &["note: There are no sequences"]);
}

#[test]
fn data_compressed_twice_are_reported() {
    // Text compressed once and twice, as by 'gzip' and 'gzip | gzip'.
    let folder = tempfile::tempdir().expect("a folder");
    let gzip = |from: &str, to: &str| {
        let bytes = std::fs::read(folder.path().join(from)).expect("reading");
        // A stored block: header, last block, length, its complement, data, checksum, size.
        let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1];
        packed.extend((bytes.len() as u16).to_le_bytes());
        packed.extend((!(bytes.len() as u16)).to_le_bytes());
        packed.extend(&bytes);
        packed.extend(crc32(&bytes).to_le_bytes());
        packed.extend((bytes.len() as u32).to_le_bytes());
        write(folder.path(), to, &packed);
    };
    write(folder.path(), "a.ctf", GOOD);
    gzip("a.ctf", "once.ctf.gz");
    gzip("once.ctf.gz", "twice.ctf.gz");
    let mut padded = std::fs::read(folder.path().join("once.ctf.gz")).expect("reading");
    padded.extend([0; 512]);
    write(folder.path(), "padded.ctf.gz", &padded);
    padded.extend(b"more");
    write(folder.path(), "more.ctf.gz", &padded);
    for (name, code, expected) in [
        ("once.ctf.gz", 0, "2 sequences"),
        ("padded.ctf.gz", 0, "2 sequences"),
        ("twice.ctf.gz", 1, "It was compressed twice"),
        ("more.ctf.gz", 1, "other data follow the compressed data"),
    ] {
        let (found, out, err) = run(folder.path(), &["-q", "info", name]);
        assert_eq!(found, code, "{name}: {out}{err}");
        assert!((out.clone() + &err).contains(expected), "{name}: {out}{err}");
    }
}

/// The checksum of gzip.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, &byte| {
        (0..8).fold(
            sum ^ u32::from(byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

#[test]
fn characters_that_look_like_blanks_and_digits_are_shown() {
    says("validate", "a.ctf", "0 |x 1\u{a0}2 |y 0:1\n", 1, &["'\\u{a0}' ended the sample at offset 6"]);
    says(
        "validate",
        "a.ctf",
        "0 |x \u{ff11} \u{ff12} |y 0:1\n",
        1,
        &["'\u{ff11}' ended the sample at offset 5"],
    );
    let text = "0 |x 1 2 |y 0:1\n1 |x 3\0 4 |y 1:1\n";
    says("validate", "a.ctf", text, 1, &["A zero byte ended the sample at offset 22"]);
}

#[test]
fn quotes_and_backslashes_in_map_paths_are_explained() {
    says("validate", "map.txt", "\"a.jpg\"\t0\n", 1, &["Here the quotes are part of the path; remove them."]);
    says("validate", "map.txt", "images\\a.jpg\t0\n", 1, &["write '/'"]);
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "map.txt", "a.jpg\t-1\n");
    let section = "deserializers = ([ type = ImageDeserializer ; module = ImageReader ; file = \"map.txt\" ; input = [ \
                   features = [ transforms = ( ) ] ; labels = [ labelDim = 2 ] ] ])";
    write(folder.path(), "map.cntk", section);
    let (_, out, err) = run(folder.path(), &["-q", "validate", "map.cntk"]);
    assert!((out.clone() + &err).contains("has the class -1, but 'labelDim' is 2"), "{out}{err}");
}

#[test]
fn options_out_of_range_and_named_twice_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.ctf", GOOD);
    write(folder.path(), "b.ctf", "2 |x 5 6 |y 0:1\n");
    for (arguments, code, expected) in [
        (&["--threads", "99999999", "info", "a.ctf"][..], 2, "write a number from 1 to 1024"),
        (&["--threads", "0", "info", "a.ctf"], 2, "leave out --threads to use all CPUs"),
        (&["info", "-"], 2, "not read from the standard input"),
        (&["convert", "a.ctf", "o.cbf", "--stream", "x", "--stream", "x"], 2, "'x' is selected twice"),
        (&["validate", "a.ctf", "b.ctf"], 1, "Several of the files have a stream 'x'"),
    ] {
        let (found, out, err) = run(folder.path(), arguments);
        assert!(err.contains(expected), "{arguments:?}: {out}{err}");
        assert_eq!(found, code, "{arguments:?}: {out}{err}");
    }
}

#[test]
fn numbers_on_the_command_line_say_what_was_expected() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.ctf", GOOD);
    for (arguments, expected) in [
        (&["head", "a.ctf", "-n", "-1"][..], "expected a whole number of at least 0, found '-1'"),
        (&["head", "a.ctf", "-n", "x"], "expected a whole number of at least 0, found 'x'"),
        (&["sample", "a.ctf", "--seed", "1.5"], "expected a whole number of at least 0, found '1.5'"),
        (&["order", "a.ctf", "--at", "-1"], "expected a whole number of at least 0, found '-1'"),
        (&["order", "a.ctf", "--sweeps", "0"], "expected a whole number of at least 1, found '0'"),
        (&["order", "a.ctf", "--workers", "0"], "expected a whole number of at least 1, found '0'"),
        (
            &["report", "a.ctf", "--minibatch-size", "64,x"],
            "expected a whole number of at least 1, found 'x'",
        ),
        (&["bench", "a.ctf", "--threads-list", "1,0"], "expected a whole number of at least 1, found '0'"),
        (&["bench", "a.ctf", "--repetitions", "-3"], "expected a whole number of at least 1, found '-3'"),
        (&["validate", "a.ctf", "--max-errors", "all"], "expected a whole number of at least 0, found 'all'"),
        (
            &["convert", "a.ctf", "b.cbf", "--chunk-size", "1M"],
            "expected a whole number of at least 0, found '1M'",
        ),
        (
            &["convert", "a.ctf", "b.ctf.zst", "--level", "25"],
            "expected a whole number from 1 to 22, found '25'",
        ),
        (&["convert", "a.csv", "b.ctf", "--missing", "x"], "expected a number, found 'x'"),
        (&["info", "a.csv", "--first-index", "-1"], "expected a whole number of at least 0, found '-1'"),
        (&["--threads", "-1", "info", "a.ctf"], "write a number from 1 to 1024, not '-1'"),
        (&["order", "a.ctf", "--rank", "1"], "Say how many there are: --workers COUNT"),
    ] {
        let (code, out, err) = run(folder.path(), arguments);
        assert!(err.contains(expected), "{arguments:?}: {out}{err}");
        assert!(!err.contains("tip:"), "{arguments:?}: {err}");
        assert_eq!(code, 2, "{arguments:?}: {out}{err}");
    }
}

#[test]
fn commands_that_read_no_tables_name_the_command_that_converts() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.csv", "x;text;y\n1;\"a; b\";2\n3;c;4\n");
    write(folder.path(), "a.jsonl", "{\"x\": 1}\n");
    write(folder.path(), "a.svm", "1 1:0.5\n");
    write(folder.path(), "a.png", b"\x89PNG\r\n\x1a\n");
    for command in ["validate", "report", "sample", "order", "bench", "index"] {
        for (name, what) in
            [("a.csv", "a table with commas or semicolons"), ("a.jsonl", "JSON lines"), ("a.svm", "LIBSVM")]
        {
            let (code, out, err) = run(folder.path(), &[command, name]);
            assert!(err.contains(what), "{command}: {out}{err}");
            assert!(err.contains(&format!("cntk-reader convert {name} NEW.ctf")), "{command}: {err}");
            assert_eq!(code, 1, "{command}: {out}{err}");
        }
        let (_, _, err) = run(folder.path(), &[command, "a.png"]);
        assert!(err.contains("cntk-reader convert FOLDER NEW.map"), "{command}: {err}");
    }
    for (arguments, code, expected) in [
        (&["convert", "a.png", "b.ctf"][..], 1, "cntk-reader convert FOLDER NEW.map"),
        (&["convert", "a.csv", "b.cbf", "--part", "1/3"], 2, "cntk-reader convert a.csv NEW.cbf"),
        (&["convert", "a.svm", "b.ctf", "--stream", "labl"], 2, "Did you mean 'label'?"),
    ] {
        let (found, out, err) = run(folder.path(), arguments);
        assert!(err.contains(expected), "{arguments:?}: {out}{err}");
        assert!(!err.contains("CNTK's message") && !err.contains("ImageDeserializer"), "{err}");
        assert_eq!(found, code, "{arguments:?}: {out}{err}");
    }
}

#[test]
fn parts_of_one_data_set_are_not_joined() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.ctf", GOOD);
    for output in ["p1.cbf", "p2.cbf"] {
        let (code, _, err) = run(folder.path(), &["convert", "a.ctf", output]);
        assert_eq!(code, 0, "{err}");
    }
    for arguments in [
        &["info", "p1.cbf", "p2.cbf"][..],
        &["info", "p1.cbf", "p2.cbf", "--config"],
        &["validate", "a.ctf", "p1.cbf"],
    ] {
        let (code, out, err) = run(folder.path(), arguments);
        assert!(
            err.contains("Several of the files have a stream 'x'") && err.contains("\"p1.cbf\""),
            "{err}"
        );
        assert_eq!((code, out.as_str()), (1, ""), "{arguments:?}");
    }
}

#[test]
fn streams_with_fewer_samples_than_lines_are_one_note() {
    let text = "0 |x 1 |y 0:1 |z 5\n0 |x 2\n1 |x 3 |y 1:1 |z 6\n1 |x 4 |z 7\n";
    let (code, said) = said("validate", "a.ctf", text);
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.matches("fewer samples").count(), 1, "{said}");
    assert!(said.contains("'y' in 2 sequences, 'z' in 1 sequence; the first is here"), "{said}");
}

#[test]
fn one_stream_in_two_deserializers_is_found_by_validate() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "a.ctf", GOOD);
    write(folder.path(), "b.ctf", GOOD);
    let one = |file: &str| {
        format!(
            "[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{file}\" ; \
             input = [ x = [ dim = 2 ; format = \"dense\" ] ] ]"
        )
    };
    write(folder.path(), "two.cntk", format!("deserializers = ( {} : {} )", one("a.ctf"), one("b.ctf")));
    let (code, out, err) = run(folder.path(), &["validate", "two.cntk"]);
    let text = out + &err;
    assert!(code == 1 && text.contains("'a.ctf' and 'b.ctf', have a stream with the name 'x'"), "{text}");
    assert!(text.contains("b.ctf::::"), "{text}");
}
