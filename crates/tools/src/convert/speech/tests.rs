//! Round trips, bit for bit; `tests/kaldi` has files that Kaldi's own code has written.

use super::*;
use std::fs;
use std::ops::ControlFlow;

fn continued(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A folder for the files of a test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        cntk_reader_core::enter_project();
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a path").to_owned()
    }

    fn write(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        fs::write(&path, content).expect("writing");
        path
    }

    /// Writes a script of the utterances u1 to u5 in a file of `tests/htk/data`.
    fn script(&self, archive: &str) -> String {
        let ranges = [(0, 6), (7, 11), (12, 20), (21, 24), (25, 30)].into_iter().zip(1..);
        let lines =
            ranges.map(|((from, to), key)| format!("u{key}.mfc=tests/htk/data/{archive}[{from},{to}]\n"));
        self.write("in.scp", &lines.collect::<String>())
    }

    /// A conversion from `input` to the file `output` in this folder, with a script beside it.
    fn conversion(&self, input: &str, output: &str) -> SpeechConversion {
        SpeechConversion {
            input: input.into(),
            output: self.path(output),
            script: Some(self.path(&format!("{output}.scp"))),
            stream: "labels".into(),
            ..SpeechConversion::default()
        }
    }
}

type Convert = fn(&SpeechConversion, &mut Listener<'_>) -> Result<Progress>;

fn run(convert: Convert, conversion: &SpeechConversion, sequences: u64) {
    let progress = convert(conversion, &mut continued).expect("a conversion");
    assert_eq!((progress.sequences, progress.bytes), (sequences, progress.total));
}

fn bytes(path: &str) -> Vec<u8> {
    fs::read(path).expect(path)
}

#[test]
fn htk_features_round_trip_through_kaldi() {
    let expected = bytes("tests/htk/data/arch.mfc");
    // Big-endian, little-endian, compressed, with a checksum: the same values.
    for archive in ["arch.mfc", "arch_le.mfc", "arch_c.mfc", "arch_k.mfc"] {
        let folder = Folder::new();
        let to_kaldi = folder.conversion(&folder.script(archive), "x.ark");
        run(htk_to_kaldi, &to_kaldi, 5);
        for input in [to_kaldi.output.clone(), folder.path("x.ark.scp")] {
            let back = folder.conversion(&input, "y.mfc");
            run(kaldi_to_htk, &back, 5);
            assert!(bytes(&back.output) == expected, "{archive}");
            let script = fs::read_to_string(folder.path("y.mfc.scp")).expect("a script");
            assert_eq!(
                script,
                fs::read_to_string(folder.path("in.scp"))
                    .expect("a script")
                    .replace(&format!("tests/htk/data/{archive}"), &back.output)
            );
        }
    }
}

#[test]
fn kaldi_features_round_trip_through_htk() {
    let folder = Folder::new();
    let to_htk = folder.conversion("tests/kaldi/float.ark", "x.mfc");
    run(kaldi_to_htk, &to_htk, 3);
    let back = folder.conversion(&folder.path("x.mfc.scp"), "y.ark");
    run(htk_to_kaldi, &back, 3);
    assert!(bytes(&back.output) == bytes("tests/kaldi/float.ark"));
    let script = fs::read_to_string("tests/kaldi/float.scp").expect("a script");
    let expected = script.replace("tests/kaldi/float.ark", &back.output);
    assert_eq!(fs::read_to_string(folder.path("y.ark.scp")).expect("a script"), expected);
}

#[test]
fn kaldi_labels_round_trip_through_mlf_and_text() {
    let folder = Folder::new();
    let to_mlf = folder.conversion("tests/kaldi/labels.scp", "x.mlf");
    run(kaldi_to_mlf, &to_mlf, 3);
    let text = fs::read_to_string(&to_mlf.output).expect("labels");
    assert!(text.starts_with("#!MLF!#\n\"a1.lab\"\n0 200000 0 0\n200000 500000 3 3\n"), "{text}");
    let to_text = folder.conversion(&to_mlf.output, "x.ctf");
    run(mlf_to_text, &to_text, 3);
    let text = fs::read_to_string(&to_text.output).expect("text");
    assert!(text.starts_with("a1\t|labels 0:1\na1\t|labels 0:1\na1\t|labels 3:1\n"), "{text}");
    assert_eq!(text.lines().count(), 20);
    let to_mlf = folder.conversion(&to_text.output, "y.mlf");
    run(text_to_mlf, &to_mlf, 3);
    let back = folder.conversion(&to_mlf.output, "y.ark");
    run(mlf_to_kaldi, &back, 3);
    assert!(bytes(&back.output) == bytes("tests/kaldi/labels.ark"));

    let numbered = SpeechConversion { number_ids: true, ..to_text };
    run(mlf_to_text, &numbered, 3);
    let text = fs::read_to_string(&numbered.output).expect("text");
    assert!(text.starts_with("0\t|labels 0:1\n") && text.ends_with("2\t|labels 1:1\n"), "{text}");
}

#[test]
fn labels_with_a_state_list_round_trip() {
    let folder = Folder::new();
    let states = Some("tests/htk/data/state.list".to_owned());
    let mut to_kaldi = folder.conversion("tests/htk/data/lab.mlf", "x.ark");
    to_kaldi.states.clone_from(&states);
    run(mlf_to_kaldi, &to_kaldi, 5);
    // Each object has a key and a blank, two bytes of a header, a byte and a 4-byte number, and 5
    // bytes for each class.
    let classes = bytes(&to_kaldi.output);
    let found: Vec<u8> = classes[10..45].chunks(5).map(|number| number[1]).collect();
    assert_eq!(found, [0, 0, 0, 1, 1, 1, 2]);
    let mut to_mlf = folder.conversion(&to_kaldi.output, "x.mlf");
    to_mlf.states.clone_from(&states);
    run(kaldi_to_mlf, &to_mlf, 5);
    assert_eq!(
        fs::read_to_string(&to_mlf.output).expect("labels"),
        fs::read_to_string("tests/htk/data/lab.mlf").expect("labels")
    );
}

/// Returns names and contents of the members of a NumPy archive, from the directory at its end.
fn members(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let number = |at: usize, size: usize| {
        archive[at..at + size].iter().rev().fold(0, |all, &byte| all << 8 | usize::from(byte))
    };
    let end = archive.len() - 22;
    assert_eq!(&archive[end..end + 4], b"PK\x05\x06");
    let mut at = number(end + 16, 4);
    (0..number(end + 10, 2))
        .map(|_| {
            assert_eq!(&archive[at..at + 4], b"PK\x01\x02");
            let (crc, size, name, start) =
                (number(at + 16, 4), number(at + 24, 4), number(at + 28, 2), number(at + 42, 4));
            let text = String::from_utf8(archive[at + 46..at + 46 + name].to_vec()).expect("a name");
            assert_eq!(&archive[start..start + 4], b"PK\x03\x04");
            assert_eq!(&archive[start + 30..start + 30 + name], text.as_bytes());
            let content = archive[start + 30 + name..][..size].to_vec();
            assert_eq!(crc32fast::hash(&content) as usize, crc);
            at += 46 + name;
            (text, content)
        })
        .collect()
}

#[test]
fn arrays_of_numpy_have_shape_and_values() {
    let folder = Folder::new();
    let from_htk = folder.conversion(&folder.script("arch.mfc"), "x.npz");
    run(htk_to_numpy, &SpeechConversion { script: None, ..from_htk.clone() }, 5);
    let found = members(&bytes(&from_htk.output));
    assert_eq!(
        found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["u1.npy", "u2.npy", "u3.npy", "u4.npy", "u5.npy"]
    );
    let array = &found[1].1;
    let header = b"\x93NUMPY\x01\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }";
    assert!(array.starts_with(header));
    assert_eq!((array[127], array.len()), (b'\n', 128 + 5 * 3 * 4));
    let values: Vec<f32> =
        array[128..].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    assert_eq!(values[..4], [2000.0, 2001.0, 2002.0, 2010.0]);

    let from_kaldi = folder.conversion("tests/kaldi/compressed.ark", "y.npz");
    run(kaldi_to_numpy, &SpeechConversion { script: None, ..from_kaldi }, 21);
    let mut labels = folder.conversion("tests/htk/data/lab.mlf", "z.npz");
    labels.states = Some("tests/htk/data/state.list".into());
    run(mlf_to_numpy, &labels, 5);
    let array = &members(&bytes(&labels.output))[0].1;
    assert!(
        array.starts_with(b"\x93NUMPY\x01\0\x76\0{'descr': '<i4', 'fortran_order': False, 'shape': (7,), }")
    );
    assert_eq!(array.len(), 128 + 7 * 4);
}

#[test]
fn failed_conversions_leave_no_file() {
    let folder = Folder::new();
    let one_hot = folder.write("two.ctf", "a |labels 1:1\na |labels 1:1 2:1\n");
    let no_id = folder.write("id.ctf", "|labels 1:1\n");
    let keys = folder.write("keys.scp", "a b.mfc=tests/htk/data/arch.mfc[0,6]\n");
    let equals = folder.write("equals.scp", &format!("a=b {}:3\n", "tests/kaldi/float.ark"));
    let bar = folder.write("bar.mlf", "#!MLF!#\n\"a|b.lab\"\n0 3 x 1\n.\n");
    for (convert, input, words) in [
        (text_to_mlf as Convert, &one_hot, "is not one-hot"),
        (text_to_mlf, &no_id, "The line has no id"),
        (htk_to_kaldi, &keys, "'a b' cannot be written to a Kaldi archive"),
        (kaldi_to_htk, &equals, "'a=b' cannot be written to an HTK script"),
        (mlf_to_text, &bar, "'a|b' cannot be written to a text file"),
        (kaldi_to_mlf, &"tests/kaldi/float.ark".to_owned(), "vector of integers was expected"),
        (kaldi_to_numpy, &"tests/kaldi/labels.ark".to_owned(), "features was expected"),
        (htk_to_numpy, &folder.path("none.scp"), "Failed to open input file"),
    ] {
        let before = fs::read_dir(folder.0.path()).expect("a folder").count();
        let error = convert(&folder.conversion(input, "out"), &mut continued).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(fs::read_dir(folder.0.path()).expect("a folder").count(), before, "{words}");
    }
    let mut conversion = folder.conversion("tests/kaldi/float.ark", "out");
    conversion.script = None;
    assert!(kaldi_to_htk(&conversion, &mut continued).is_err());
    conversion.script = Some(conversion.output.clone());
    assert!(kaldi_to_htk(&conversion, &mut continued).is_err());
    conversion = SpeechConversion { input: one_hot.clone(), output: one_hot, ..conversion };
    assert!(text_to_mlf(&conversion, &mut continued).is_err());
}

#[test]
fn a_listener_stops_a_conversion() {
    let folder = Folder::new();
    let conversion = folder.conversion("tests/kaldi/float.ark", "x.npz");
    let error = kaldi_to_numpy(&conversion, &mut |_| ControlFlow::Break(())).expect_err("an error");
    assert_eq!(error.message(), "The conversion was stopped.");
    assert_eq!(fs::read_dir(folder.0.path()).expect("a folder").count(), 0);
}
