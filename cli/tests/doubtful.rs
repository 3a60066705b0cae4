//! Data that are most likely not what the user meant, whether reading fails or not: messages name
//! the cause.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use cntk_reader::{CtfDeserializer, Epoch, LogLevel, Reader, ReaderOptions, set_log_sink};
use common::run;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The exit code and the output of `validate` for a file with this content.
fn validate(name: &str, content: &[u8]) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(name), content).expect("writing");
    let (code, out, errors) = run(folder.path(), &["validate", name]);
    (code, out + &errors)
}

/// The exit code and the output of `validate` for a text file that a configuration reads with these
/// streams.
fn with_streams(content: &str, input: &str, more: &str) -> (i32, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "deserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"d\" ; {more} input = [ {input} ] ])"
    );
    std::fs::write(folder.path().join("d"), content).expect("writing");
    std::fs::write(folder.path().join("c.cntk"), config).expect("writing");
    let (code, out, errors) = run(folder.path(), &["validate", "c.cntk"]);
    (code, out + &errors)
}

#[test]
fn values_that_become_infinite_or_nan_are_warnings_with_their_places() {
    // Dense samples with few and with many values, sparse samples, and a last line without a line
    // break.
    let wide = format!("|x {} 1e39{}\n", "0.5 ".repeat(40), " 1.5".repeat(23));
    for (text, place, what) in [
        ("|x 1 2\n|x 1 1e400\n".to_owned(), ":2:12:x:1:", "too large"),
        ("|x 1 2\n|x -1e39 1\n".to_owned(), ":2:10:x:1:", "too large"),
        ("|x 1 0e400\n".to_owned(), ":1:5:x:0:", "gives NaN"),
        (wide.clone(), ":1:164:x:0:", "too large"),
        (wide.repeat(40), ":40:", "too large"),
        (format!("|x 1 {}\n", "9".repeat(310)), ":1:5:x:0:", "too large"),
        ("|s 3:1 5:1e99\n|s 1:1 2:2\n".to_owned(), ":1:9:s:0:", "too large"),
        ("|s 3:1e400\n|s 1:1\n".to_owned(), ":1:5:s:0:", "too large"),
        ("7 |x 1 2\n8 |x 1 3e38999".to_owned(), ":2:16:x:8:", "too large"),
    ] {
        let (code, said) = validate("a.ctf", text.as_bytes());
        assert_eq!(code, 1, "{said}");
        let found = said.lines().find(|line| line.contains(place) && line.contains("warning"));
        assert!(found.is_some_and(|line| line.contains(what)), "{text}\n{said}");
        assert!(said.contains(" 0 errors,") || said.contains("0 errors, "), "{said}");
    }
    // A double can hold 1e39.
    let folder = tempfile::tempdir().expect("a folder");
    let config = "precision = \"double\"\ndeserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; \
                  file = \"d\" ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ])";
    std::fs::write(folder.path().join("d"), "|x 1e39\n|x 1e309\n").expect("writing");
    std::fs::write(folder.path().join("c.cntk"), config).expect("writing");
    let (_, said, _) = run(folder.path(), &["validate", "c.cntk"]);
    assert!(said.contains("d:2:11:x:1: warning") && !said.contains("d:1:"), "{said}");
}

#[test]
fn words_and_hexadecimal_digits_for_numbers_are_errors() {
    for value in ["nan", "inf", "-inf", "0x10", "1.5.5", ".5"] {
        let text = format!("|x 1\n|x {value}\n");
        let (code, said) = with_streams(&text, "x = [ dim = 1 ; format = \"dense\" ]", "");
        assert!(code == 1 && said.contains("d:2:") && said.contains("error"), "{value}\n{said}");
    }
}

#[test]
fn numbers_that_become_0_are_noted_once() {
    let (code, said) = validate("a.ctf", b"|x 1 2\n|x 1e-50 2\n|x 2 3E-46\n|x 0e-99 1e-44\n");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("a.ctf:2:10:x:1: note: 2 numbers are so small that they become 0"), "{said}");
    let tiny = format!("|x 0.{}1\n|x 1\n", "0".repeat(60));
    assert!(validate("a.ctf", tiny.as_bytes()).1.contains("1 numbers are so small"));
    assert!(!validate("a.ctf", b"|x 1e-30\n|x 0e-99\n").1.contains("so small"));
}

/// The warnings that reading a file logs in `sweeps` sweeps.
fn warnings(path: &Path, sweeps: u64) -> Vec<String> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().expect("no panic before");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let name = path.display().to_string();
    set_log_sink(Some(Arc::new(move |level, line| {
        if level == LogLevel::Warning && line.contains(&name) {
            kept.lock().expect("lines").push(line.to_owned());
        }
    })));
    let ctf = CtfDeserializer::new(path).dense("x", 1).sparse("s", 10).chunk_size(4000).max_errors(1000);
    let mut reader =
        Reader::builder().options(ReaderOptions::new().randomize(false)).ctf(ctf).open().expect("a reader");
    let epoch = reader.epoch(Epoch::sweeps(sweeps).minibatch_size(100)).expect("an epoch");
    epoch.for_each(|minibatch| _ = minibatch.expect("a minibatch"));
    drop(reader);
    set_log_sink(None);
    Arc::try_unwrap(lines).expect("the only one").into_inner().expect("lines")
}

#[test]
fn reading_warns_of_infinite_values_once_a_file_and_counts_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ctf");
    let line = |number: usize| match number % 100 {
        7 => format!("|x 1e39 |s 1:{number}.5\n"),
        8 => format!("|x {number}.25 |s 1:2 2:1e400\n"),
        _ => format!("|x {number}.25 |s 1:{number}.5\n"),
    };
    std::fs::write(&path, (0..1000).map(line).collect::<String>()).expect("writing");
    let said = warnings(&path, 2);
    let places: Vec<_> = said.iter().filter(|line| line.contains("too large for the type")).collect();
    assert_eq!(places.len(), 2, "{said:#?}");
    assert!(places.iter().any(|line| line.contains("line 8, stream x, sequence 7")), "{said:#?}");
    assert!(places.iter().any(|line| line.contains("line 9, stream s, sequence 8")), "{said:#?}");
    // There is a summary after the first sweep, which may already count chunks of the second. The
    // second sweep has its own summary if the count has doubled.
    for stream in ["x", "s"] {
        let end = format!(" values that are infinite or NaN in stream '{stream}' so far, the first in line ");
        let of_stream: Vec<_> = said.iter().filter(|line| line.contains(&end)).collect();
        let counts: Vec<u64> = of_stream
            .iter()
            .filter_map(|line| line.split(" had ").nth(1)?.split(' ').next()?.parse().ok())
            .collect();
        let is_right = match counts[..] {
            [first] => (11..=20).contains(&first),
            [first, second] => (first, second) == (10, 20),
            _ => false,
        };
        assert!(is_right, "{counts:?} {said:#?}");
    }
    // Finite values cause no message.
    std::fs::write(&path, "|x 3e38 |s 1:1e-300\n|x 0.5 |s 2:1\n").expect("writing");
    assert_eq!(warnings(&path, 1), [""; 0]);
}

#[test]
fn infinite_values_of_other_formats_are_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("writing");
    // HTK: three frames of two values, big-endian.
    let mut htk = vec![0, 0, 0, 3, 0, 1, 0x86, 0xa0, 0, 8, 0, 9];
    [1.0, 2.0, 3.0, f32::NAN, 5.0, 6.0].iter().for_each(|value: &f32| htk.extend(value.to_be_bytes()));
    write("u.mfc", &htk);
    write("k.ark", b"utt1  [\n  1 2\n  3 nan ]\n");
    write("a.ctf", b"|x 1 1e39 |s 3:0e400\n|x 1.5 2 |s 1:2.5\n");
    let (code, _, errors) = run(folder.path(), &["convert", "a.ctf", "a.cbf"]);
    assert_eq!(code, 0, "{errors}");
    for (file, expected) in [("u.mfc", "sample 1 of"), ("a.cbf", "sample 0 of"), ("a.cbf", "entry 0 of")] {
        let (code, said, errors) = run(folder.path(), &["validate", file]);
        assert_eq!(code, 1, "{file}: {said}{errors}");
        assert!(
            said.contains("warning: The sequence has 1 values that are infinite or NaN"),
            "{file}: {said}"
        );
        assert!(said.contains(expected), "{file}: {said}");
    }
    let (code, said, errors) = run(folder.path(), &["validate", "k.ark"]);
    assert!(code == 1 && said.contains("nan") | said.contains("NaN"), "{said}{errors}");
}

#[test]
fn ignored_ids_are_reported_with_a_fix() {
    for (text, place, what) in [
        ("10 |x 1\n 11 |x 2\n", "a.ctf:2:9:", "An id counts only at the very beginning of its line"),
        ("10 |x 1\n\t11 |x 2\n", "a.ctf:2:9:", "An id counts only at the very beginning of its line"),
        ("1 |x 1\n\u{feff}2 |x 2\n", "a.ctf:2:10:", "A byte order mark stands before the id"),
        ("0.0 |x 1\n0.5 |x 2\n", "a.ctf:1:1:", "An id is digits only"),
        ("1 |x 1\n1: |x 2\n", "a.ctf:2:8:", "An id is digits only"),
        ("1 |x 1\n-1 |x 2\n1 |x 3\n", "a.ctf:2:7:", "A line begins with the id of its sequence"),
        ("1 |x 1\r2 |x 2\r3 |x 3\r", "a.ctf:1:7:", "A carriage return alone ends no line"),
        ("|x 1\r|x 2\r|x 3\r", "a.ctf:1:0:", "A carriage return alone ends no line"),
    ] {
        let (code, said) = if text.contains("-1") {
            // Without a configuration, this looks like another format.
            with_streams(text, "x = [ dim = 1 ; format = \"dense\" ]", "maxErrors = 9 ;")
        } else {
            validate("a.ctf", text.as_bytes())
        };
        let place = if text.contains("-1") { place.replace("a.ctf", "d") } else { place.to_owned() };
        let found = said.lines().find(|line| line.starts_with(&place) && line.contains(what));
        assert!(code == 1 && found.is_some(), "{text:?}\n{said}");
    }
    // Carriage returns before line feeds are fine.
    assert_eq!(validate("a.ctf", b"1 |x 1\r\n2 |x 2\r\n").0, 0);
}

#[test]
fn ids_that_begin_with_digits_may_be_text() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.ctf"), "19-198-0 |x 1\n19-198-0 |x 2\n19-227-0 |x 3\n")
        .expect("writing");
    let (code, said, errors) = run(folder.path(), &["validate", "a.ctf"]);
    assert_eq!(code, 0, "{said}{errors}");
    let (_, said, _) = run(folder.path(), &["head", "a.ctf"]);
    assert!(said.contains("\"key\":\"19-198-0\",\"streams\":{\"x\":[[1.0],[2.0]]}"), "{said}");
    assert!(said.contains("\"key\":\"19-227-0\""), "{said}");
    let (_, said, _) = run(folder.path(), &["info", "--config", "a.ctf"]);
    assert!(said.contains("useNumericSequenceKeys = false"), "{said}");
    // As numbers they are one sequence, and the message says how to have two.
    let (code, said) = with_streams("19-198-0 |x 1\n", "x = [ dim = 1 ; format = \"dense\" ]", "");
    assert!(code == 1 && said.contains("'useNumericSequenceKeys = false'"), "{said}");
}

#[test]
fn sequences_are_not_merged_silently_where_errors_are_tolerated() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ctf");
    for (text, what) in [
        ("10 |x 1 |s 1:1\n 11 |x 2 |s 1:1\n", "An id counts only at the very beginning of its line"),
        ("0.0 |x 1 |s 1:1\n0.5 |x 2 |s 1:1\n", "An id is digits only"),
        ("1 |x 1 |s 1:1\r2 |x 2 |s 1:1\r", "A carriage return alone ends no line"),
    ] {
        std::fs::write(&path, text).expect("writing");
        let said = warnings(&path, 1);
        assert!(said.iter().any(|line| line.contains(what) && line.contains("line ")), "{text:?} {said:#?}");
    }
}

#[test]
fn names_that_differ_in_case_alone_are_two_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.ctf"), "|x 1 2 |X 3:1 |x2 5\n|x 3 4 |X 0:1 |x2 6\n")
        .expect("writing");
    let (code, said, _) = run(folder.path(), &["validate", "a.ctf"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("note: Samples named 'X' are read as the stream 'X3'"), "{said}");
    let (_, said, _) = run(folder.path(), &["info", "a.ctf"]);
    assert!(said.contains("x  ") && said.contains("X3 ") && said.contains("x2 "), "{said}");
    let (code, config, _) = run(folder.path(), &["info", "a.ctf", "--config"]);
    assert!(
        code == 0 && config.contains("X3 = [ dim = 4 ; format = \"sparse\" ; alias = \"X\" ]"),
        "{config}"
    );
    std::fs::write(folder.path().join("a.cntk"), config).expect("writing");
    let (code, said, errors) = run(folder.path(), &["head", "a.cntk", "-n", "1"]);
    assert!(code == 0 && said.contains("X3") && said.contains("x2"), "{said}{errors}");
}

#[test]
fn legal_but_suspicious_data_are_noted() {
    let both =
        |y: &str| format!("x = [ dim = 2 ; format = \"dense\" ] ; y = [ dim = {y} ; format = \"sparse\" ]");
    for (text, y, expected) in [
        (
            "|x 1 2 |y 1:1\n|x 1 3 |y 2:1\n|x 1 4 |y 3:1\n",
            "4",
            "No sample of 'y' has the index 0; the indices are 1 to 3.",
        ),
        ("|x 1 2 |y 1:1\n|x 1 3 |y 2:1\n|x 1 4 |y 3:1\n", "3", "indices count from 0"),
        (
            "1 |x 1 2 |y 1:1\n1 |x 2 3\n2 |x 1 2 |y 0:1\n2 |x 1 2\n",
            "4",
            "In 2 sequences 'y' has fewer samples",
        ),
        (
            "1 |x 1 2 |y 1:1\n1 |x 2 3 |y 1:1\n1 |x 1 2\n2 |x 1 2 |y 0:1\n",
            "4",
            "In 1 sequence 'y' has fewer samples",
        ),
        (
            "|x 1 2 |y 4:1\n|x 1 2 |y 0:1\n",
            "5000",
            "The dimension of 'y' is 5000, but the largest index in the data is 4.",
        ),
        ("|x 1 2 |y\n|x 1 2 |y\n", "5", "No sample of 'y' has an entry: all are zeros."),
        ("|x 1 2 |y\n|x 1 2 |y\n", "0", "Expected the number of values of a sample, at least 1."),
        ("|x |y 0:1\n|x |y 1:1\n", "5", "No sample of 'x' has a value: all are zeros."),
        (
            "|x 1 2 |y 1:3\n|x 1 2 |y 1:0\n|x 1 2 |y 1:7\n",
            "8",
            "All samples of 'y' have one entry, with the index 1 and several values.",
        ),
        (
            "0 |x 1 2 |y 0:1\n0 |x 1 2 |y 1:1\n0 |x 1 3 |y 1:1\n",
            "2",
            "All 3 lines have one id: they are one sequence.",
        ),
    ] {
        let (_, said) = with_streams(text, &both(y), "");
        assert!(said.contains(expected), "{text}\n{said}");
    }
    // Without a configuration.
    let (code, said) = validate("a.ctf", b"|y 1:1 |x 1 2\n|y 2:1 |x 1 3\n|y 3:1 |x 1 4\n");
    assert!(code == 0 && said.contains("No sample of 'y' has the index 0"), "{said}");
    let (code, said) = validate("a.ctf", b"0 |f 0:0.5 2:2\n0 |f 2:1\n1 |f 3:1\n");
    assert!(code == 0 && said.contains("note: The lines have ids, and samples of one stream only"), "{said}");
    // These have no notes.
    for text in
        ["|x 1 2 |y 0:1\n|x 1 3 |y 2:1\n|x 1 4 |y 3:1\n", "1 |x 1 |y 0:1\n1 |x 2 |y 1:1\n2 |x 3 |y 1:1\n"]
    {
        let (code, said) = validate("a.ctf", text.as_bytes());
        assert!(code == 0 && said.contains("0 notes"), "{said}");
    }
}

#[test]
fn formats_that_look_like_text_are_named() {
    for (text, format) in [
        ("1 qid:1 1:0.5 2:1\n0 qid:1 1:0.3\n", "LIBSVM"),
        ("2 qid:7 1:0.5 # doc |a b\n0 qid:7 1:0.3 # doc |a b\n", "LIBSVM"),
        ("-1 |f a:0.5 b:2\n+1 |f b:1\n", "Vowpal Wabbit"),
        ("1 |f a:0.5 b:2\n-1 |f b:1\n", "Vowpal Wabbit"),
        ("1 1.0 'tag|f 1:0.5 2:2\n0 2.0 'tag2|f 2:1\n", "Vowpal Wabbit"),
        ("1 | 1:0.5 2:1\n0 | 2:1\n", "Vowpal Wabbit"),
    ] {
        let (code, said) = validate("a.txt", text.as_bytes());
        assert!(code != 0 && said.contains(format), "{text}\n{said}");
    }
    for (text, format) in [
        ("1,2,3\n4,5,6\n", "CSV"),
        ("a\tb\n1\t2\n", "TSV"),
        ("{\"x\": 1}\n{\"x\": 2}\n", "JSON"),
        ("1 qid:1 1:0.5 2:1\n0 qid:1 1:0.3\n", "LIBSVM"),
    ] {
        let (code, said) = with_streams(text, "x = [ dim = 1 ; format = \"dense\" ]", "");
        assert!(code != 0 && said.contains(format), "{text}\n{said}");
    }
}

#[test]
fn binary_files_in_the_documented_layout_are_recognized() {
    // Version, chunks, streams; one dense stream `x` of two floats; one chunk of two sequences.
    let mut bytes = Vec::new();
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(b"x");
    for number in [0u32, 0, 2] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(2u32.to_le_bytes());
    bytes.extend(2u32.to_le_bytes());
    [1f32, 2.0, 3.0, 4.0].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("d.bin"), &bytes).expect("writing");
    let (code, said, errors) = run(folder.path(), &["info", "d.bin"]);
    assert_eq!(code, 0, "{errors}");
    assert!(said.contains("CNTKBinaryFormatDeserializer") && said.contains("2 sequences"), "{said}");
    let (code, said, errors) = run(folder.path(), &["validate", "d.bin"]);
    assert_eq!(code, 0, "{said}{errors}");
    let (code, said, errors) = run(folder.path(), &["head", "d.bin"]);
    assert!(code == 0 && said.contains('4'), "{said}{errors}");
}
