//! Arrow and Parquet files with the feature `arrow`, and the message of the tool without it.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::{data, run};

#[cfg(not(feature = "arrow"))]
#[test]
fn build_without_arrow_names_the_feature() {
    let (folder, _) = data(10);
    std::fs::write(folder.path().join("a"), b"PAR1 and more").expect("writing");
    std::fs::write(folder.path().join("b"), b"ARROW1 and more").expect("writing");
    for arguments in [
        &["convert", "data.ctf", "data.arrow"][..],
        &["convert", "data.ctf", "data.parquet"],
        &["convert", "a", "a.ctf"],
        &["info", "a"],
        &["info", "b"],
        &["head", "a"],
        &["head", "b"],
    ] {
        let (code, out, errors) = run(folder.path(), arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(errors.contains("--features arrow"), "{errors}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 4);
}

#[cfg(feature = "arrow")]
mod with_arrow {
    use super::*;
    use serde_json::Value;
    use std::path::{Path, PathBuf};

    /// Converts a file, and returns the digest.
    fn convert(folder: &Path, input: &str, output: &str, options: &[&str]) -> String {
        let arguments = [&["convert", input, output, "--format", "json", "-q"], options].concat();
        let (code, report, errors) = run(folder, &arguments);
        assert_eq!((code, errors.as_str()), (0, ""), "{input} to {output}");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["is_verified"], true);
        report["digest"].as_str().expect("a digest").to_owned()
    }

    #[test]
    fn single_sample_sequences_round_trip() {
        let (folder, _) = data(70_000);
        let folder = folder.path();
        let plain = convert(folder, "data.ctf", "data.cbf", &[]);
        for (input, output) in [
            ("data.ctf", "a.arrow"),
            ("data.cbf", "b.feather"),
            ("a.arrow", "a.ctf"),
            ("b.feather", "b.cbf"),
            ("a.arrow", "a.npz"),
            ("a.npz", "c.arrow"),
            ("a.arrow", "d.arrow"),
            ("data.ctf", "a.parquet"),
            ("a.parquet", "b.ctf"),
            ("a.parquet", "e.arrow"),
            ("e.arrow", "b.parquet"),
        ] {
            assert_eq!(convert(folder, input, output, &[]), plain, "{input} to {output}");
        }
        let bytes = |file: &str| std::fs::read(folder.join(file)).expect("a file");
        assert_eq!(bytes("b.ctf"), bytes("a.ctf"));
        assert_eq!(bytes("e.arrow"), bytes("a.arrow"));
        assert_eq!(bytes("b.parquet"), bytes("a.parquet"));
        assert!(bytes("a.parquet").len() < bytes("a.arrow").len() / 2);
        convert(folder, "a.arrow", "y.ctf", &["--stream", "y"]);
        convert(folder, "a.parquet", "z.ctf", &["--stream", "y"]);
        assert_eq!(bytes("y.ctf"), bytes("z.ctf"));
        let head = |file: &str| run(folder, &["head", file, "-n", "3"]).1;
        for file in ["a.ctf", "a.arrow", "a.parquet"] {
            assert_eq!(head(file), head("data.ctf"), "{file}");
        }
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 16);
    }

    #[test]
    fn sequences_of_any_length_keep_keys_and_values() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let text = "b |x 1 0.1 |y 3:1 1:-2\nb |x -0 1e30 |y\nk2 |x 3 4 |y 0:0.5\n";
        std::fs::write(folder.join("a.ctf"), text).expect("writing");
        for precision in ["float", "double"] {
            let digest = convert(folder, "a.ctf", "a.arrow", &["--precision", precision]);
            assert_eq!(convert(folder, "a.arrow", "b.ctf", &[]), digest);
            let written = std::fs::read_to_string(folder.join("b.ctf")).expect("text");
            assert!(written.starts_with("b\t|x 1 0.1\t|y 3:1 1:-2\nb\t|x -0 1e30\t|y "), "{written}");
            assert!(written.ends_with("k2\t|x 3 4\t|y 0:0.5\n"), "{written}");
            assert_eq!(convert(folder, "a.ctf", "a.parquet", &["--precision", precision]), digest);
            assert_eq!(convert(folder, "a.parquet", "c.ctf", &[]), digest);
            assert_eq!(std::fs::read_to_string(folder.join("c.ctf")).expect("text"), written);
        }
    }

    /// The test data, which pyarrow has written.
    fn pyarrow() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
    }

    /// The streams of the test data.
    const STREAMS: [&str; 10] =
        ["--stream", "x", "--stream", "label", "--stream", "steps", "--stream", "flag", "--stream", "words"];

    #[test]
    fn files_of_pyarrow_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = [&STREAMS[..], &["--one-hot", "label=3"]].concat();
        for file in ["columns.parquet", "columns.feather"] {
            std::fs::copy(pyarrow().join(file), folder.path().join(file)).expect("copying");
            convert(folder.path(), file, "a.ctf", &options);
            let text = std::fs::read_to_string(folder.path().join("a.ctf")).expect("text");
            let start = "k0\t|x 0 0.25\t|label 0:1\t|steps 0\t|flag 1\t|words 0:0.5\n\
                         k1\t|x 0.5 0.75\t|label 1:1\t|steps 0\t|flag 0\t|words 1:0.5\n\
                         k1\t|steps 1\t|words 1:0.5\n";
            assert!(text.starts_with(start), "{text}");
            assert!(text.ends_with("k9\t|words 2:0.5\n"), "{text}");
            assert_eq!(text.lines().count(), 21);
        }
    }

    #[test]
    fn info_shows_columns_and_streams() {
        for (file, kind, group) in [
            ("columns.parquet", "a Parquet file", "row groups"),
            ("columns.feather", "an Arrow (Feather) file", "record batches"),
        ] {
            let (code, out, errors) = run(&pyarrow(), &["info", file, "--format", "table"]);
            assert_eq!((code, errors.as_str()), (0, ""));
            let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
            let line = |number: usize| lines[number].join(" ");
            assert!(line(0).starts_with(&format!("{file} {kind}, ")), "{out}");
            assert_eq!(line(1), format!("10 rows, 3 {group}"));
            assert_eq!(line(2), "key string keys");
            assert_eq!(line(3), "x FixedSizeList<float, 2> dense, 2 values");
            assert_eq!(line(4), "label int64 dense, 1 value of int64");
            assert_eq!(
                line(5),
                "steps LargeList<double> dense, 1 value of float64, a sample for each element"
            );
            assert_eq!(line(6), "flag bool dense, 1 value of bool");
            let words = "List<Struct<indices: List<int32>, values: List<float>>>";
            assert_eq!(line(7), format!("words {words} sparse, dimension 7, a sample for each element"));
            assert_eq!(line(8), "name string no stream");
            assert!(line(9).starts_with("note: The column 'name' has the type string"), "{out}");
            let (code, out, _) = run(&pyarrow(), &["info", file, "--format", "json", "--stream", "words"]);
            let report: Value = serde_json::from_str(&out).expect("JSON");
            assert_eq!((code, &report["records"], &report["groups"]), (0, &10.into(), &3.into()));
            assert_eq!(report["columns"].as_array().map(Vec::len), Some(2));
            assert_eq!(report["streams"][0]["dim"], 7);
            assert_eq!(report["streams"][0]["is_sequence"], true);
        }
        let (code, _, errors) = run(&pyarrow(), &["info", "columns.parquet", "--stream", "word"]);
        assert!(code == 2 && errors.contains("no column 'word'"), "{errors}");
    }

    #[test]
    fn head_shows_rows() {
        for file in ["columns.parquet", "columns.feather"] {
            let arguments = [&["head", file, "-n", "2"], &STREAMS[..]].concat();
            let (code, out, errors) = run(&pyarrow(), &arguments);
            assert_eq!((code, errors.as_str(), out.lines().count()), (0, "", 2));
            let second: Value = serde_json::from_str(out.lines().nth(1).expect("a line")).expect("JSON");
            assert_eq!((&second["number"], &second["key"]), (&1.into(), &"k1".into()));
            assert_eq!(second["streams"]["x"], serde_json::json!([[0.5, 0.75]]));
            assert_eq!(second["streams"]["steps"], serde_json::json!([[0.0], [1.0]]));
        }
        let (code, _, errors) = run(&pyarrow(), &["head", "columns.parquet"]);
        assert!(code == 1 && errors.contains("'name' has the type string"), "{errors}");
        let (code, _, errors) = run(&pyarrow(), &["head", "columns.parquet", "--missing", "0"]);
        assert!(code == 2 && errors.contains("--missing"), "{errors}");
    }

    #[test]
    fn unsupported_columns_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::copy(pyarrow().join("odd.parquet"), folder.path().join("odd.parquet")).expect("copying");
        for (column, found, advice) in [
            ("decimal", "Decimal128(3, 2)", "astype('float64')"),
            ("time", "Timestamp", "cast('int64')"),
            ("text", "string", "--one-hot NAME=CLASSES"),
            ("category", "Dictionary<int32, string>", "cat.codes"),
            ("struct", "Struct<a: int64, b: double>", "table.flatten()"),
            ("nested", "List<List<double>>", "fixed-size list"),
            ("binary", "Binary", "Supported are numbers"),
            ("nothing", "Null", "--stream"),
            ("null", "rows 1 to 2: 1 of the values are null", "fillna"),
            ("inner", "rows 1 to 2: 1 of the values are null", "fillna"),
            ("vector", "rows 1 to 2: 1 of the values are null", "fillna"),
            ("index", "the index -1 is out of range", "--stream"),
        ] {
            let (code, out, errors) =
                run(folder.path(), &["convert", "odd.parquet", "a.ctf", "--stream", column]);
            assert_eq!((code, out.as_str()), (1, ""), "{column}");
            assert!(errors.contains(&format!("The column '{column}'")), "{errors}");
            assert!(errors.contains(found) && errors.contains(advice), "{errors}");
            assert!(!folder.path().join("a.ctf").exists());
        }
        let (code, out, _) = run(folder.path(), &["info", "odd.parquet", "--format", "json"]);
        let report: Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!((code, report["notes"].as_array().map(Vec::len)), (0, Some(9)));
    }

    #[test]
    fn pages_of_absurd_sizes_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut bytes = std::fs::read(pyarrow().join("columns.parquet")).expect("a file");
        // The header of the first page: its type, and its size when unpacked.
        assert_eq!((&bytes[..5], bytes[6]), (&b"PAR1\x15"[..], 0x15));
        let end = (7..).find(|&at| bytes[at] < 128).expect("the end of a number");
        bytes.splice(7..=end, [0xfe, 0xff, 0xff, 0xff, 0x0f]);
        std::fs::write(folder.path().join("a.parquet"), bytes).expect("writing");
        let arguments = ["convert", "a.parquet", "a.ctf", "--stream", "x"];
        let (code, _, errors) = run(folder.path(), &arguments);
        assert!(code == 1 && errors.contains("the size of a page is wrong"), "{errors}");
    }

    #[test]
    fn damaged_files_are_errors() {
        let (folder, _) = data(500);
        let folder = folder.path();
        for (file, signature) in [("a.arrow", &b"ARROW1\0\0"[..]), ("a.parquet", b"PAR1")] {
            convert(folder, "data.ctf", file, &[]);
            let whole = std::fs::read(folder.join(file)).expect("a file");
            let size = whole.len();
            let mut cases: Vec<Vec<u8>> = [8, size / 4, size / 2, size - 20, size - 1]
                .iter()
                .map(|&end| whole[..end].to_vec())
                .collect();
            let noise = (0..200u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8);
            let noise: Vec<u8> = [signature, &noise.collect::<Vec<_>>()].concat();
            cases.push([&noise[..], signature].concat());
            cases.push(noise);
            // The footer and its length, and lengths in it.
            cases.extend((1..120).step_by(3).map(|back| {
                let mut bytes = whole.clone();
                bytes[size - back] ^= 0xff;
                bytes
            }));
            let mut failures = 0;
            for bytes in cases {
                std::fs::write(folder.join("b"), &bytes).expect("writing");
                for command in
                    [&["convert", "b", "b.npz", "-q"][..], &["info", "b"], &["head", "b", "-n", "1"]]
                {
                    let (code, _, errors) = run(folder, command);
                    assert!(code <= 1 && !errors.contains("panicked"), "{code}, {errors}");
                    failures += code;
                    assert!(code == 0 || !folder.join("b.npz").exists(), "an output is left");
                }
                let _ = std::fs::remove_file(folder.join("b.npz"));
            }
            assert!(failures >= 21, "{failures}");
        }
    }

    #[test]
    fn types_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let text = "0 |u 255 |i -9 |l 9007199254740993 |h 0.5 |b 1 |f 0.1 |d 0.1 |w 7:1\n\
                    1 |u 0 |i 9 |l -1 |h -2 |b 0 |f 1 |d 2 |w 0:1\n";
        std::fs::write(folder.join("a.ctf"), text).expect("writing");
        let types = [
            ("u", "uint8"),
            ("i", "int16"),
            ("l", "int64"),
            ("h", "float16"),
            ("b", "bool"),
            ("d", "float64"),
        ];
        let streams: String = types
            .iter()
            .map(|(name, element)| {
                format!("{name} = [ dim = 1 ; format = \"dense\" ; element = \"{element}\" ] ")
            })
            .collect();
        let config = format!(
            "deserializers = ( [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"a.ctf\" ; input = [ {streams} \
             f = [ dim = 1 ; format = \"dense\" ] w = [ dim = 8 ; format = \"sparse\" ; ids = \"int32\" ] ] ] )"
        );
        std::fs::write(folder.join("a.cntk"), config).expect("writing");
        let digest = convert(folder, "a.cntk", "a.cbf", &[]);
        for (input, output) in [
            ("a.cntk", "a.arrow"),
            ("a.arrow", "b.cbf"),
            ("b.cbf", "b.npz"),
            ("b.npz", "b.arrow"),
            ("a.cntk", "a.parquet"),
            ("a.parquet", "c.cbf"),
            ("c.cbf", "b.parquet"),
        ] {
            assert_eq!(convert(folder, input, output, &[]), digest, "{input} to {output}");
        }
        let (code, _, errors) = run(folder, &["convert", "a.arrow", "c.cbf", "--precision", "double"]);
        assert!(code == 1 && errors.contains("float64 cannot hold the value 9007199254740993"), "{errors}");
        convert(folder, "a.arrow", "c.cbf", &["--precision", "float", "--stream", "u", "--stream", "h"]);
        let version = &std::fs::read(folder.join("c.cbf")).expect("a file")[8..12];
        assert_eq!(version, 1u32.to_le_bytes(), "CNTK reads it");
    }
}
