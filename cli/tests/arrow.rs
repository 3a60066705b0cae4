//! Conversions from and to Arrow files with the feature `arrow`, and the message of the tool
//! without it.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::{data, run};

#[cfg(not(feature = "arrow"))]
#[test]
fn build_without_arrow_names_the_feature() {
    let (folder, _) = data(10);
    let (code, out, errors) = run(folder.path(), &["convert", "data.ctf", "data.arrow"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(errors.contains("--features arrow"), "{errors}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
}

#[cfg(feature = "arrow")]
mod with_arrow {
    use super::*;
    use serde_json::Value;
    use std::path::Path;

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
        ] {
            assert_eq!(convert(folder, input, output, &[]), plain, "{input} to {output}");
        }
        convert(folder, "a.arrow", "y.ctf", &["--stream", "y"]);
        let head = |file: &str| run(folder, &["head", file, "-n", "3"]).1;
        assert_eq!(head("a.ctf"), head("data.ctf"));
        assert_eq!(std::fs::read_dir(folder).expect("a folder").count(), 11);
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
        }
        // A damaged file is an error, and no output is left.
        let bytes = std::fs::read(folder.join("a.arrow")).expect("a file");
        std::fs::write(folder.join("cut.arrow"), &bytes[..bytes.len() / 2]).expect("writing");
        let (code, _, errors) = run(folder, &["convert", "cut.arrow", "c.ctf"]);
        assert!(code == 1 && errors.contains("cut.arrow"), "{errors}");
        assert!(!folder.join("c.ctf").exists());
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
        for (input, output) in
            [("a.cntk", "a.arrow"), ("a.arrow", "b.cbf"), ("b.cbf", "b.npz"), ("b.npz", "b.arrow")]
        {
            assert_eq!(convert(folder, input, output, &[]), digest, "{input} to {output}");
        }
        let (code, _, errors) = run(folder, &["convert", "a.arrow", "c.cbf", "--precision", "double"]);
        assert!(code == 1 && errors.contains("float64 cannot hold the value 9007199254740993"), "{errors}");
        convert(folder, "a.arrow", "c.cbf", &["--precision", "float", "--stream", "u", "--stream", "h"]);
        let version = &std::fs::read(folder.join("c.cbf")).expect("a file")[8..12];
        assert_eq!(version, 1u32.to_le_bytes(), "CNTK reads it");
    }
}
