//! Files of arrays, speech and images without a configuration, alone and together.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::run;
use serde_json::{Value, json};
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// An HTK feature file: frames of two values that count up.
fn htk(frames: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(frames.to_be_bytes());
    bytes.extend(100_000u32.to_be_bytes());
    bytes.extend(8u16.to_be_bytes());
    bytes.extend(9u16.to_be_bytes());
    bytes.extend((0..2 * frames).flat_map(|value| (value as f32).to_be_bytes()));
    bytes
}

/// Two utterances: features in HTK and Kaldi files, labels with and without class numbers.
fn speech() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("writing");
    write("all.mfc", &htk(5));
    write("feats.scp", b"a.mfc=all.mfc[0,1]\nb.mfc=all.mfc[2,4]\n");
    write("labels.mlf", b"#!MLF!#\n\"a.lab\"\n0 2 s 7\n.\n\"b.lab\"\n0 1 s 0\n1 3 t 3\n.\n");
    write("short.mlf", b"#!MLF!#\n\"a.lab\"\n0 1 s 7\n.\n\"c.lab\"\n0 1 s 0\n.\n");
    write("names.mlf", b"#!MLF!#\n\"a.lab\"\n0 1 sil\n1 2 ah\n.\n\"b.lab\"\n0 3 sil\n.\n");
    write("feats.txt.ark", b"a  [\n  1 2 3\n  4 5 6 ]\nb  [\n  7 8 9 ]\n");
    let mut archive = Vec::new();
    for (key, rows) in [("a", 2u32), ("b", 3)] {
        archive.extend(key.as_bytes());
        archive.extend(b" \0BFM \x04");
        archive.extend(rows.to_le_bytes());
        archive.extend(b"\x04\x04\0\0\0");
        archive.extend((0..4 * rows).flat_map(|value| (value as f32).to_le_bytes()));
    }
    write("feats.ark", &archive);
    let second = archive.windows(2).skip(1).position(|pair| pair == b"b ").expect("the second utterance") + 3;
    write("kaldi.scp", format!("a feats.ark:2\nb feats.ark:{second}\n").as_bytes());
    let mut classes = Vec::new();
    for (key, own) in [("a", &[1i32, 4][..]), ("b", &[0, 0, 2])] {
        classes.extend(key.as_bytes());
        classes.extend(b" \0B\x04");
        classes.extend((own.len() as u32).to_le_bytes());
        own.iter().for_each(|class| {
            classes.push(4);
            classes.extend(class.to_le_bytes());
        });
    }
    write("ali.ark", &classes);
    folder
}

/// The output of `info` for each deserializer: type, sequences, samples, and the name, storage and
/// dimension of each stream.
fn info(folder: &Path, files: &[&str]) -> Vec<Value> {
    let (code, out, errors) = run(folder, &[&["info", "--format", "json"], files].concat());
    assert_eq!(code, 0, "{files:?}: {errors}");
    let of_stream = |stream: &Value| json!([stream["name"], stream["storage"], stream["dim"]]);
    let of_one = |one: &Value| {
        let streams: Vec<_> = one["streams"].as_array().expect("streams").iter().map(of_stream).collect();
        json!([one["type"], one["sequences"], one["samples"], streams])
    };
    json(&out)["deserializers"].as_array().expect("deserializers").iter().map(of_one).collect()
}

/// A NumPy array of this shape.
fn npy(element: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let described = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {shape}}}\n");
    let size = u16::try_from(described.len()).expect("a short header");
    [b"\x93NUMPY\x01\0", &size.to_le_bytes()[..], described.as_bytes(), values].concat()
}

#[test]
fn arrays_are_described_shown_and_configured() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("writing");
    write("x.npy", &npy("|u1", "(3, 2)", &[1, 2, 3, 4, 5, 6]));
    write("y.npy", &npy("<f4", "(3,)", &[0; 12]));
    write("short.npy", &npy("|u1", "(3, 2)", &[1, 2, 3]));
    let one = |stream: &str, dim: u32| json!(["NumpyDeserializer", 3, 3, [[stream, "dense", dim]]]);
    assert_eq!(info(folder, &["x.npy"]), [one("features", 2)]);
    let two = ["x.npy", "y.npy"];
    assert_eq!(info(folder, &two), [one("features", 2), one("features2", 1)]);
    assert_eq!(run(folder, &["validate", "x.npy"]).0, 0);
    let (code, out, errors) = run(folder, &["head", "x.npy", "y.npy", "-n", "1"]);
    assert_eq!(code, 0, "{errors}");
    assert_eq!(json(&out)["streams"], json!({"features": [[1, 2]], "features2": [[0.0]]}));
    let (code, made, errors) = run(folder, &["info", "--config", "x.npy", "y.npy"]);
    assert_eq!(code, 0, "{errors}");
    write("made.cntk", made.as_bytes());
    assert_eq!(info(folder, &["made.cntk"]), info(folder, &two));
    let (code, _, errors) = run(folder, &["info", "short.npy"]);
    assert!(code != 0 && errors.contains("the file is incomplete"), "{code}: {errors}");
}

#[test]
fn speech_is_recognized_and_described() {
    let folder = speech();
    let folder = folder.path();
    let dense = |kind: &str, sequences: u32, frames: u32, dim: u32| {
        json!([kind, sequences, frames, [["features", "dense", dim]]])
    };
    let sparse = |kind: &str, classes: u32| json!([kind, 2, 5, [["labels", "sparse", classes]]]);
    for (file, expected) in [
        ("all.mfc", dense("HTKFeatureDeserializer", 1, 5, 2)),
        ("feats.scp", dense("HTKFeatureDeserializer", 2, 5, 2)),
        ("labels.mlf", sparse("HTKMLFDeserializer", 8)),
        ("names.mlf", sparse("HTKMLFDeserializer", 2)),
        ("feats.ark", dense("KaldiDeserializer", 2, 5, 4)),
        ("kaldi.scp", dense("KaldiDeserializer", 2, 5, 4)),
        ("feats.txt.ark", dense("KaldiDeserializer", 2, 3, 3)),
        ("ali.ark", sparse("KaldiDeserializer", 5)),
    ] {
        assert_eq!(info(folder, &[file]), [expected], "{file}");
        let (code, out, errors) = run(folder, &["validate", file]);
        assert_eq!((code, out.as_str()), (0, ""), "{file}: {errors}");
    }
    // Labels come after the features, whatever order they are given in.
    let pair = [dense("HTKFeatureDeserializer", 2, 5, 2), sparse("HTKMLFDeserializer", 8)];
    assert_eq!(info(folder, &["labels.mlf", "feats.scp"]), pair);
}

#[test]
fn sequences_of_speech_are_shown() {
    let folder = speech();
    let folder = folder.path();
    let (code, out, errors) = run(folder, &["head", "feats.scp", "labels.mlf"]);
    assert_eq!(code, 0, "{errors}");
    let first = json(out.lines().next().expect("a line"));
    let one_hot = json!({"indices": [7], "values": [1.0]});
    assert_eq!(first["streams"], json!({"features": [[0.0, 1.0], [2.0, 3.0]], "labels": [one_hot, one_hot]}));
    assert_eq!((&first["key"], out.lines().count()), (&json!("a"), 2));
    let (code, out, _) = run(folder, &["sample", "names.mlf", "-n", "1", "--seed", "3"]);
    assert_eq!((code, out.lines().count()), (0, 1));
    let (_, out, _) = run(folder, &["head", "all.mfc", "-n", "1"]);
    assert_eq!(json(&out)["streams"]["features"].as_array().map(Vec::len), Some(5));
    assert_eq!(run(folder, &["head", "feats.ark", "--key", "b"]).0, 0);
}

#[test]
fn features_and_labels_are_compared() {
    let folder = speech();
    let (code, out, _) = run(folder.path(), &["validate", "feats.scp", "short.mlf", "--format", "ndjson"]);
    let mut found: Vec<Value> = out.lines().map(json).collect();
    let summary = found.pop().expect("a summary");
    let found: Vec<_> = found.iter().map(|one| json!([one["file"], one["key"]])).collect();
    let expected = [json!(["short.mlf", "a"]), json!(["feats.scp", "b"]), json!(["short.mlf", "c"])];
    assert_eq!((code, found.as_slice(), &summary["warnings"]), (1, &expected[..], &json!(3)));
    // A configuration already names its files.
    std::fs::write(folder.path().join("a.cntk"), "deserializers = ( )").expect("writing");
    assert_eq!(run(folder.path(), &["validate", "a.cntk", "feats.scp"]).0, 2);
}

#[test]
fn configurations_are_made_for_speech() {
    let folder = speech();
    let folder = folder.path();
    for files in
        [&["feats.scp"][..], &["feats.scp", "labels.mlf"], &["kaldi.scp", "ali.ark"], &["feats.txt.ark"]]
    {
        let (code, made, errors) = run(folder, &[&["info", "--config"], files].concat());
        assert_eq!(code, 0, "{errors}");
        std::fs::write(folder.join("made.cntk"), made).expect("writing");
        assert_eq!(info(folder, &["made.cntk"]), info(folder, files), "{files:?}");
        let head = |files: &[&str]| run(folder, &[&["head"], files].concat());
        assert_eq!(head(&["made.cntk"]), head(files), "{files:?}");
    }
    // The files that the comments ask for must be written first.
    let (_, made, _) = run(folder, &["info", "--config", "all.mfc", "names.mlf"]);
    assert!(made.contains("#   all=all.mfc[0,4]\n") && made.contains("#   ah\n#   sil\n"), "{made}");
    std::fs::write(folder.join("all.mfc.scp"), "a=all.mfc[0,1]\n").expect("writing");
    std::fs::write(folder.join("names.mlf.states"), "ah\nsil\n").expect("writing");
    std::fs::write(folder.join("made.cntk"), made).expect("writing");
    assert_eq!(run(folder, &["head", "made.cntk"]).0, 0);
    // Other commands need a configuration, and say how to get one.
    let (code, _, errors) = run(folder, &["bench", "feats.scp"]);
    assert!(code == 1 && errors.contains("info feats.scp --config"), "{errors}");
}

#[test]
fn features_are_converted() {
    let folder = speech();
    let folder = folder.path();
    let head = |file: &str| run(folder, &["head", file]);
    let (code, expected, _) = head("feats.scp");
    assert!(code == 0 && expected.contains("[[0.0,1.0],[2.0,3.0]]"), "{expected}");
    for (input, output, options, shown) in [
        ("feats.scp", "x.ark", &["--from", "htk", "--script", "x.scp"][..], &["x.ark", "x.scp"][..]),
        ("x.ark", "y.mfc", &["--to", "htk", "--script", "y.scp"], &["y.scp"]),
        ("x.scp", "z.mfc", &["--from", "kaldi", "--to", "htk", "--script", "z.scp"], &["z.scp"]),
        ("y.scp", "y.npz", &["--from", "htk"], &[]),
        ("x.ark", "x.npz", &[], &[]),
    ] {
        let (code, line, errors) = run(folder, &[&["convert", input, output], options].concat());
        assert_eq!(code, 0, "{input} to {output}: {errors}");
        assert!(line.starts_with(&format!("{output}: 2 sequences in ")), "{line}");
        shown.iter().for_each(|file| assert_eq!(head(file).1, expected, "{file}"));
    }
    let (code, _, errors) = run(folder, &["convert", "x.ark", "y.mfc", "--to", "htk"]);
    assert!(code == 2 && errors.contains("--script y.scp"), "{errors}");
    let (code, _, errors) = run(folder, &["validate", "feats.scp"]);
    assert!(code == 0 && errors.contains("Read 2 sequences in ") && !errors.contains("B/s"), "{errors}");
    let bytes = |name: &str| std::fs::read(folder.join(name)).expect("a file");
    assert!(bytes("x.npz") == bytes("y.npz"));
    let values: Vec<u8> = (4..10).flat_map(|value| (value as f32).to_le_bytes()).collect();
    assert!(bytes("x.npz").windows(values.len()).any(|window| window == values), "three frames of b");
}

#[test]
fn labels_are_converted() {
    let folder = speech();
    let folder = folder.path();
    let text = "a\t|phones 7:1\na\t|phones 7:1\nb\t|phones 0:1\nb\t|phones 3:1\nb\t|phones 3:1\n";
    // The names have the numbers of their lines in the list.
    let named = "a\t|phones 1:1\na\t|phones 0:1\nb\t|phones 1:1\nb\t|phones 1:1\nb\t|phones 1:1\n";
    std::fs::write(folder.join("names.list"), "ah\nsil\n").expect("writing");
    for (input, output, options) in [
        ("labels.mlf", "l.ark", &["--script", "l.scp"][..]),
        ("l.ark", "again.mlf", &[]),
        ("again.mlf", "l.ctf", &["--stream", "phones"]),
        ("l.ctf", "last.mlf", &["--stream", "phones"]),
        ("last.mlf", "numbered.ctf", &["--stream", "phones", "--number-ids"]),
        ("last.mlf", "l.npz", &[]),
        ("names.mlf", "names.ctf", &["--stream", "phones", "--states", "names.list"]),
    ] {
        let arguments = [&["convert", input, output, "--format", "json"], options].concat();
        let (code, report, errors) = run(folder, &arguments);
        assert_eq!(code, 0, "{input} to {output}: {errors}");
        let report = json(&report);
        assert_eq!((&report["sequences"], &report["output"]), (&json!(2), &json!(output)));
    }
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("text");
    assert_eq!(read("l.ctf"), text);
    assert_eq!(read("names.ctf"), named);
    assert_eq!(read("l.scp"), "a l.ark:2\nb l.ark:21\n");
    assert_eq!(read("numbered.ctf"), text.replace("a\t", "0\t").replace("b\t", "1\t"));
    assert_eq!(read("last.mlf"), read("again.mlf"));
    let archive = std::fs::read(folder.join("l.npz")).expect("an archive");
    let classes = [0_i32, 3, 3].map(i32::to_le_bytes).concat();
    assert!(archive.windows(12).any(|window| window == classes), "the classes of b");
}

#[test]
fn impossible_conversions_of_speech_are_explained() {
    let folder = speech();
    let folder = folder.path();
    for (arguments, words) in [
        (&["feats.scp", "x.ark"][..], "give --from htk or --from kaldi"),
        (&["feats.scp", "x.cbf", "--from", "htk"], "There is no conversion from htk to cbf"),
        (&["labels.mlf", "x.ctf"], "--stream NAME"),
        (&["labels.mlf", "x.ctf", "--stream", "a", "--stream", "b"], "--stream NAME"),
    ] {
        let (code, out, errors) = run(folder, &[&["convert"], arguments].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(errors.contains(words), "{errors}");
    }
    assert!(!folder.join("x.ctf").exists() && !folder.join("x.ark").exists());
}

/// An image of 3 by 2 pixels.
fn image(value: u8) -> Vec<u8> {
    [b"P6\n3 2\n255\n".as_slice(), &[value; 18]].concat()
}

/// A zip file of members that are stored without compression.
fn zip(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        !bytes.iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
        })
    };
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in members {
        let mut common = b"\x14\0\0\0\0\0\0\0\0\0".to_vec();
        common.extend(crc(bytes).to_le_bytes());
        common.extend([(bytes.len() as u32).to_le_bytes(), (bytes.len() as u32).to_le_bytes()].concat());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(bytes);
    }
    let (count, start) = ((members.len() as u16).to_le_bytes(), out.len() as u32);
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

#[test]
fn images_are_recognized_and_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::fs::write(folder.join("a.ppm"), image(7)).expect("writing");
    std::fs::write(folder.join("map.txt"), "a.ppm\t3\na.ppm\t0\n").expect("writing");
    let members = [("cat/1.ppm", image(1)), ("dog/1.ppm", image(2)), ("readme.txt", b"hi".to_vec())];
    std::fs::write(folder.join("all.zip"), zip(&members)).expect("writing");
    for (file, classes, labels) in [("map.txt", 4, [3, 0]), ("all.zip", 2, [0, 1])] {
        let found = info(folder, &[file]);
        assert_eq!(found[0][1], 2, "{file}: {found:?}");
        assert_eq!(found[0][3][1], json!(["labels", "sparse", classes]), "{file}: {found:?}");
        let (code, out, errors) = run(folder, &["head", file]);
        assert_eq!(code, 0, "{file}: {errors}");
        for (line, label) in out.lines().map(json).zip(labels) {
            assert_eq!(line["streams"]["labels"][0]["indices"], json!([label]), "{file}");
            assert_eq!(line["streams"]["features"][0].as_array().map(Vec::len), Some(18), "{file}");
        }
        assert_eq!(run(folder, &["validate", file]).0, 0, "{file}");
        let (code, made, _) = run(folder, &["info", file, "--config"]);
        assert!(code == 0 && made.contains("labelDim"), "{made}");
    }
    // A damaged image is reported.
    std::fs::write(folder.join("a.ppm"), "P6\n3 2\n255\n").expect("writing");
    let (code, out, _) = run(folder, &["validate", "map.txt"]);
    assert!(code == 1 && out.contains("a.ppm"), "{out}");
}
